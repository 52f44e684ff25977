//! What was given to other processors, added up over steps: the host's time and the device's are never put together.

use super::device_use::{DeviceUse, DeviceUses};
use crate::ids::{ByKind, KindId, Phase, TextId};
use crate::step::{CopyDirection, Queued, Step};
use std::collections::BTreeMap;

/// Queues that are counted apart.
const MAX_QUEUES: usize = 256;

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
}

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
                Queued::Copy { bytes, direction } => {
                    let copies = self.copies.entry((direction, phase)).or_default();
                    copies.count += 1;
                    copies.bytes = copies.bytes.saturating_add(bytes.unwrap_or(0));
                    copies.without_size += u64::from(bytes.is_none());
                    copies.time = copies.time.saturating_add(time);
                }
                Queued::Submit { .. } | Queued::Timestamps(_) => {}
            }
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
            };
            self.dispatches.entry(dispatch.kind, (backend, phase)).merge(&one);
        }
    }

    fn add_submissions(&mut self, step: &Step, phase: Phase) {
        let mut of_graphs: BTreeMap<u32, (u64, u64, Option<u64>)> = BTreeMap::new();
        let mut busy_until: BTreeMap<u64, u64> = BTreeMap::new();
        for of in &step.submissions {
            if let Some(graph) = of.graph {
                let (_, count, done) = of_graphs.entry(graph).or_insert((of.start, 0, Some(0)));
                *count += 1;
                *done = done.zip(of.done).map(|(last, done)| last.max(done));
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
        self.dispatches().next().is_none() && self.queues.is_empty() && self.waits.is_empty() && self.copies.is_empty()
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
