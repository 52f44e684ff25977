//! What was given to other processors, added up over steps: the host's time and the device's are never put together.

use super::device_use::{DeviceUse, DeviceUses};
use crate::ids::{ByKind, KindId, Phase, TextId};
use crate::step::{CopyDirection, JobSince, QueueEvent, Queued, Step, Submission};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Queues that are counted apart.
const MAX_QUEUES: usize = 256;
/// Pairs of operators and what they launch that are counted.
const MAX_LAUNCHES: usize = 1 << 16;

/// Operators of one kind that the host encoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DispatchTotals {
    /// How often.
    pub count: u64,
    /// Operators of the graph that were computed with others, not counted in `count`.
    pub fused: u64,
    /// Of `count`, those for which nothing was given to the device.
    pub empty: u64,
    /// The host's time for encoding, ns.
    pub encoding: u64,
    /// Those with a time that the device measured.
    pub measured: u64,
    /// That time, ns.
    pub device: u64,
    /// The shortest of them.
    pub min_device: u64,
    /// Those with an estimate instead.
    pub estimated: u64,
    /// That, ns: their parts of times in which the device had several to compute.
    pub estimate: u64,
    /// How often they were computed again as parts of captured work, not counted in `count`.
    pub replayed: u64,
}

impl DispatchTotals {
    /// Adds others.
    pub fn merge(&mut self, other: &Self) {
        if other.measured > 0 {
            let before = if self.measured == 0 { u64::MAX } else { self.min_device };
            self.min_device = other.min_device.min(before);
        }
        self.count = self.count.saturating_add(other.count);
        self.fused = self.fused.saturating_add(other.fused);
        self.empty = self.empty.saturating_add(other.empty);
        self.encoding = self.encoding.saturating_add(other.encoding);
        self.measured = self.measured.saturating_add(other.measured);
        self.device = self.device.saturating_add(other.device);
        self.estimated = self.estimated.saturating_add(other.estimated);
        self.estimate = self.estimate.saturating_add(other.estimate);
        self.replayed = self.replayed.saturating_add(other.replayed);
    }
}

/// Graphs of one backend, as far as they were submitted to a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceTotals {
    /// Graphs with a submission.
    pub graphs: u64,
    /// Submissions in them.
    pub submissions: u64,
    /// Graphs of which the end was seen: a wait for all of it.
    pub bounded: u64,
    /// From the first submission to the end of that wait, added up, ns: the device's time is at most that.
    pub bound: u64,
    /// Graphs of which the kernel's driver reports every submission.
    pub reported: u64,
    /// Time in which it ran them, ns.
    pub ran: u64,
    /// Of them, those that may contain other jobs' time: the driver does not tell when the device began.
    pub ran_bounds: u64,
}

/// A ring of a device, or what its driver calls a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RingTotals {
    /// Jobs that it ran.
    pub jobs: u64,
    /// Of them, those that may contain other jobs' time.
    pub bounds: u64,
    /// From when they were given to the driver to when they began, ns.
    pub queued: u64,
    /// Time in which one of them ran, ns.
    pub ran: u64,
}

/// A driver or device, and a ring of it.
pub type Ring = (Option<Arc<str>>, Option<Arc<str>>);

/// One queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueTotals {
    /// Submissions.
    pub submissions: u64,
    /// The host's time in them, ns.
    pub submitting: u64,
    /// Of the submissions, those whose end was seen.
    pub bounded: u64,
    /// Time in which there was work that had been submitted and was not known to be done, ns: of those.
    pub busy_bound: u64,
}

/// Waits of a phase, without those within others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WaitTotals {
    /// How many.
    pub count: u64,
    /// The host's time in them, ns.
    pub time: u64,
    /// Those that failed or ran into their timeout.
    pub failed: u64,
}

/// Copies in a direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyTotals {
    /// How many.
    pub count: u64,
    /// Bytes, of those whose size was recorded.
    pub bytes: u64,
    /// The host's time in them, ns.
    pub time: u64,
    /// Copies without a size.
    pub without_size: u64,
}

/// Steps that gave work to a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResultTotals {
    /// How many.
    pub steps: u64,
    /// Of them, those whose results were waited for.
    pub with_results: u64,
    /// From the start of these to the end of that wait, ns.
    pub until_results: u64,
}

/// All of it.
#[derive(Debug, Default)]
pub struct Offloads {
    dispatches: ByKind<(Option<TextId>, Phase), DispatchTotals>,
    graphs: BTreeMap<(Option<TextId>, Phase), DeviceTotals>,
    queues: BTreeMap<(u64, Phase), QueueTotals>,
    waits: BTreeMap<Phase, WaitTotals>,
    copies: BTreeMap<(Option<CopyDirection>, Phase), CopyTotals>,
    results: BTreeMap<Phase, ResultTotals>,
    rings: BTreeMap<(Ring, Phase), RingTotals>,
    launches: BTreeMap<(KindId, KindId), u64>,
    uses: DeviceUses,
}

impl Offloads {
    pub(crate) fn add(&mut self, step: &Step, phase: Phase) {
        self.add_dispatches(step, phase);
        self.add_submissions(step, phase);
        self.uses.add(step, phase);
        let mut waited_until: BTreeMap<u32, u64> = BTreeMap::new();
        for event in &step.queue {
            let time = event.end.saturating_sub(event.start);
            match event.what {
                Queued::Wait { failed, .. } => {
                    // In the order of their starts: what a wait calls in order to wait follows it.
                    let until = waited_until.entry(event.tid).or_default();
                    if event.start < *until {
                        continue;
                    }
                    *until = event.end;
                    let waits = self.waits.entry(phase).or_default();
                    waits.count += 1;
                    waits.failed += u64::from(failed);
                    waits.time = waits.time.saturating_add(time);
                }
                // It says what goes where; the calls within it have the bytes.
                Queued::Copy { bytes: None, objects: Some(_), .. } => {}
                Queued::Copy { bytes, direction, .. } => {
                    let copies = self.copies.entry((direction, phase)).or_default();
                    copies.count += 1;
                    copies.bytes = copies.bytes.saturating_add(bytes.unwrap_or(0));
                    copies.without_size += u64::from(bytes.is_none());
                    copies.time = copies.time.saturating_add(time);
                }
                Queued::Submit { replays: Some(ref replays), failed: false, .. } => {
                    let graph = |of: &Submission| of.start == event.start && of.end == event.end;
                    let graph = step.submissions.iter().find(|of| graph(of)).and_then(|of| of.graph);
                    let backend = graph.and_then(|graph| step.graphs.get(graph as usize)).map(|graph| graph.backend);
                    for kind in replays.iter() {
                        let one = DispatchTotals { replayed: 1, ..DispatchTotals::default() };
                        self.dispatches.entry(*kind, (backend, phase)).merge(&one);
                    }
                }
                Queued::Submit { .. }
                | Queued::Destroyed { .. }
                | Queued::Captured
                | Queued::Timestamps(_)
                | Queued::Job(_) => {}
            }
        }
        self.add_jobs(step, phase);
    }

    fn add_jobs(&mut self, step: &Step, phase: Phase) {
        for (job, end) in step.queue.iter().filter_map(QueueEvent::job) {
            let key = ((job.driver.clone(), job.ring.clone()), phase);
            if self.rings.len() >= MAX_QUEUES && !self.rings.contains_key(&key) {
                continue;
            }
            let totals = self.rings.entry(key).or_default();
            totals.jobs += 1;
            totals.bounds += u64::from(job.since != JobSince::Run);
            totals.queued = totals.queued.saturating_add(job.start.saturating_sub(job.queued));
            totals.ran = totals.ran.saturating_add(end.saturating_sub(job.start));
        }
    }

    /// A step is left out of all totals.
    pub(crate) fn leave_out(&mut self, step: &Step) {
        self.uses.leave_out(step);
    }

    fn add_dispatches(&mut self, step: &Step, phase: Phase) {
        for dispatch in &step.dispatches {
            let backend = dispatch.graph.and_then(|graph| step.graphs.get(graph as usize)).map(|graph| graph.backend);
            let one = DispatchTotals {
                count: 1,
                fused: u64::from(dispatch.operators.saturating_sub(1)),
                empty: u64::from(dispatch.is_empty),
                encoding: dispatch.end.saturating_sub(dispatch.start),
                measured: u64::from(dispatch.device_ns.is_some()),
                device: dispatch.device_ns.unwrap_or(0),
                min_device: dispatch.device_ns.unwrap_or(0),
                estimated: u64::from(dispatch.device_estimate_ns.is_some()),
                estimate: dispatch.device_estimate_ns.unwrap_or(0),
                replayed: 0,
            };
            self.dispatches.entry(dispatch.kind, (backend, phase)).merge(&one);
            for launch in &dispatch.launches {
                let key = (dispatch.kind, *launch);
                if self.launches.len() < MAX_LAUNCHES || self.launches.contains_key(&key) {
                    *self.launches.entry(key).or_default() += 1;
                }
            }
        }
    }

    fn add_submissions(&mut self, step: &Step, phase: Phase) {
        let mut of_graphs: BTreeMap<u32, (u64, u64, Option<u64>)> = BTreeMap::new();
        let mut reported: BTreeMap<u32, Option<(u64, bool)>> = BTreeMap::new();
        let mut busy_until: BTreeMap<u64, u64> = BTreeMap::new();
        for of in &step.submissions {
            if let Some(graph) = of.graph {
                let (_, count, done) = of_graphs.entry(graph).or_insert((of.start, 0, Some(0)));
                *count += 1;
                *done = done.zip(of.done).map(|(last, done)| last.max(done));
                let ran = reported.entry(graph).or_insert(Some((0, false)));
                *ran = ran.zip(of.ran).map(|((busy, is_bound), ran)| {
                    (busy.saturating_add(ran.busy), is_bound || ran.since != JobSince::Run)
                });
            }
            if self.queues.len() >= MAX_QUEUES && !self.queues.contains_key(&(of.queue, phase)) {
                continue;
            }
            let queue = self.queues.entry((of.queue, phase)).or_default();
            queue.submissions += 1;
            queue.submitting = queue.submitting.saturating_add(of.end.saturating_sub(of.start));
            if let Some(done) = of.done {
                let until = busy_until.entry(of.queue).or_default();
                queue.bounded += 1;
                queue.busy_bound = queue.busy_bound.saturating_add(done.saturating_sub(of.start.max(*until)));
                *until = done.max(*until);
            }
        }
        for (graph, (start, count, done)) in of_graphs {
            let backend = step.graphs.get(graph as usize).map(|graph| graph.backend);
            let totals = self.graphs.entry((backend, phase)).or_default();
            totals.graphs += 1;
            totals.submissions += count;
            totals.bounded += u64::from(done.is_some());
            totals.bound = totals.bound.saturating_add(done.map_or(0, |done| done.saturating_sub(start)));
            if let Some((busy, is_bound)) = reported.get(&graph).copied().flatten() {
                totals.reported += 1;
                totals.ran = totals.ran.saturating_add(busy);
                totals.ran_bounds += u64::from(is_bound);
            }
        }
        if phase == Phase::Outside || step.submissions.is_empty() {
            return;
        }
        let results = self.results.entry(phase).or_default();
        results.steps += 1;
        if let Some(by) = step.results_by() {
            results.with_results += 1;
            let until = by.max(step.end).saturating_sub(step.start);
            results.until_results = results.until_results.saturating_add(until);
        }
    }

    /// Nothing was given to another processor, as far as was recorded.
    pub fn is_empty(&self) -> bool {
        self.dispatches().next().is_none()
            && self.queues.is_empty()
            && self.waits.is_empty()
            && self.copies.is_empty()
            && self.rings.is_empty()
    }

    /// Operators that were encoded, by kind, backend and phase.
    pub fn dispatches(&self) -> impl Iterator<Item = (KindId, Option<TextId>, Phase, &DispatchTotals)> {
        self.dispatches.iter().map(|(kind, (backend, phase), totals)| (kind, backend, phase, totals))
    }

    /// Graphs that were submitted, by backend and phase.
    pub fn graphs(&self) -> impl Iterator<Item = (Option<TextId>, Phase, &DeviceTotals)> {
        self.graphs.iter().map(|((backend, phase), totals)| (*backend, *phase, totals))
    }

    /// Queues, by address and phase.
    pub fn queues(&self) -> impl Iterator<Item = (u64, Phase, &QueueTotals)> {
        self.queues.iter().map(|((queue, phase), totals)| (*queue, *phase, totals))
    }

    /// Rings of devices whose jobs the kernel's driver reports, by phase.
    pub fn rings(&self) -> impl Iterator<Item = (&Ring, Phase, &RingTotals)> {
        self.rings.iter().map(|((ring, phase), totals)| (ring, *phase, totals))
    }

    /// What was launched while operators of a kind were encoded, and how often.
    pub fn launches(&self, kind: KindId) -> impl Iterator<Item = (KindId, u64)> {
        let of_kind = self.launches.range((kind, KindId(0))..=(kind, KindId(u32::MAX)));
        of_kind.map(|((_, launch), count)| (*launch, *count))
    }

    /// Waits of a phase.
    pub fn waits(&self, phase: Phase) -> Option<&WaitTotals> {
        self.waits.get(&phase)
    }

    /// Copies, by direction and phase.
    pub fn copies(&self) -> impl Iterator<Item = (Option<CopyDirection>, Phase, &CopyTotals)> {
        self.copies.iter().map(|((direction, phase), totals)| (*direction, *phase, totals))
    }

    /// When results were there, of the steps of a phase.
    pub fn results(&self, phase: Phase) -> Option<&ResultTotals> {
        self.results.get(&phase)
    }

    /// What device and host did in the steps of a phase; `None` if none of them submitted work.
    pub fn device_use(&self, phase: Phase) -> Option<DeviceUse> {
        self.uses.of(phase)
    }
}
