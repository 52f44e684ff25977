//! What device and host did while steps gave work to a device: when work was pending, when there was none, and what the
//! host did meanwhile. Times are ns. Pending is a bound: a device can be idle while work is pending, never the reverse.

use crate::ids::Phase;
use crate::step::{Queued, Step, Submission};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Index, IndexMut};

/// Gaps that are listed for a phase.
const LISTED_GAPS: usize = 8;
/// Processes that are followed from step to step.
const MAX_PROCESSES: usize = 4096;
/// Copy calls of a thread that are searched for the one around a submission: they may lie within each other.
const MAX_NESTED: usize = 64;

/// What the host does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostWork {
    /// It waits for a device.
    Waiting,
    /// It is in a call that submits work.
    Submitting,
    /// It is in a call that copies data, or waits for a copy.
    Copying,
    /// It encodes operators.
    Encoding,
    /// It computes operators.
    Operators,
    /// It is in a step, and in none of these.
    Other,
    /// It is between two steps.
    Between,
}

impl HostWork {
    /// Every one.
    pub const ALL: [Self; 7] =
        [Self::Waiting, Self::Submitting, Self::Copying, Self::Encoding, Self::Operators, Self::Other, Self::Between];
}

/// The host's time by what it did. Each moment counts once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostTime {
    ns: [u64; HostWork::ALL.len()],
}

impl HostTime {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.ns.iter().copied().fold(0, u64::saturating_add)
    }

    fn merge(&mut self, other: &Self) {
        for what in HostWork::ALL {
            self[what] = self[what].saturating_add(other[what]);
        }
    }
}

impl Index<HostWork> for HostTime {
    type Output = u64;

    fn index(&self, what: HostWork) -> &u64 {
        &self.ns[what as usize]
    }
}

impl IndexMut<HostWork> for HostTime {
    fn index_mut(&mut self, what: HostWork) -> &mut u64 {
        &mut self.ns[what as usize]
    }
}

/// A time in which no work was pending: the device had nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleGap {
    /// The step in which it ends; 0 outside steps.
    pub step: u64,
    /// When the work before it was done at the latest.
    pub start: u64,
    /// When the next work was submitted.
    pub end: u64,
    /// What the host did.
    pub host: HostTime,
}

impl IdleGap {
    /// How long it is.
    pub fn duration(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// Steps of a phase that submitted work. A decode step counts from the end of the step before it, or from when that
/// one's results were there; every other step from its start. It ends with its results, and not before it returns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceUse {
    /// Steps, of which all that follows is.
    pub steps: u64,
    /// Steps left out: of work that they or the step before submitted, no end was recorded.
    pub without_end: u64,
    /// Steps left out: another one of their process overlaps them.
    pub overlapping: u64,
    /// Of what no step contains: submissions of which no end was recorded. They count as pending to the last one's end.
    pub endless: u64,
    /// Their time.
    pub time: u64,
    /// What the host did while work was pending. Its total is the most that the device can have worked.
    pub while_pending: HostTime,
    /// What it did while none was. Its total is the least that the device was idle.
    pub while_idle: HostTime,
    /// Of the copying while work was pending, that with other work than copies pending: it may be a wait for that.
    pub copying_with_work: u64,
    /// Of `time`, that of steps whose every operator the device measured.
    pub measured_time: u64,
    /// What the device measured of operators in these.
    pub measured: u64,
    /// Of it, at least that without pending work: where timestamps follow operators, one's time begins at the end of the
    /// operator before it, which another submission may have computed.
    pub measured_idle: u64,
    /// Number of gaps.
    pub gaps: u64,
    /// The longest of them, in descending order.
    pub longest: Vec<IdleGap>,
}

impl DeviceUse {
    /// Adds others.
    pub fn merge(&mut self, other: &Self) {
        let sums = [
            (&mut self.steps, other.steps),
            (&mut self.without_end, other.without_end),
            (&mut self.overlapping, other.overlapping),
            (&mut self.endless, other.endless),
            (&mut self.time, other.time),
            (&mut self.copying_with_work, other.copying_with_work),
            (&mut self.measured_time, other.measured_time),
            (&mut self.measured, other.measured),
            (&mut self.measured_idle, other.measured_idle),
            (&mut self.gaps, other.gaps),
        ];
        sums.into_iter().for_each(|(sum, more)| *sum = sum.saturating_add(more));
        self.while_pending.merge(&other.while_pending);
        self.while_idle.merge(&other.while_idle);
        self.longest.extend_from_slice(&other.longest);
        self.cut();
    }

    /// Time in which work was pending.
    pub fn pending(&self) -> u64 {
        self.while_pending.total()
    }

    /// Time in which none was.
    pub fn idle(&self) -> u64 {
        self.while_idle.total()
    }

    /// What the device computed in the steps that it measured: an upper bound where its times contain waits for the
    /// host.
    pub fn measured_busy(&self) -> u64 {
        self.measured.saturating_sub(self.measured_idle)
    }

    /// What the host did, whatever the device did.
    pub fn host(&self) -> HostTime {
        let mut both = self.while_pending;
        both.merge(&self.while_idle);
        both
    }

    fn close(&mut self, gap: Option<IdleGap>) {
        if let Some(gap) = gap {
            self.gaps = self.gaps.saturating_add(1);
            self.longest.push(gap);
            self.cut();
        }
    }

    fn cut(&mut self) {
        self.longest.sort_by_key(|gap| (std::cmp::Reverse(gap.duration()), gap.start));
        self.longest.truncate(LISTED_GAPS);
    }
}

/// The latest step of a process. It counts once the next one does not overlap it.
#[derive(Debug, Default)]
struct Latest {
    phase: Option<Phase>,
    /// When it and its results ended.
    until: u64,
    /// Queues with work of which no end was recorded.
    open: BTreeSet<u64>,
    /// It was not recorded whole: work of it may be pending.
    is_left_out: bool,
    found: DeviceUse,
    /// The gap at its end, which may go on.
    gap: Option<IdleGap>,
}

/// By phase.
#[derive(Debug, Default)]
pub(super) struct DeviceUses {
    phases: BTreeMap<Phase, DeviceUse>,
    latest: BTreeMap<u32, Latest>,
}

impl DeviceUses {
    pub(super) fn add(&mut self, step: &Step, phase: Phase) {
        if phase == Phase::Outside {
            return self.add_loose(step);
        }
        let mut before = self.latest.remove(&step.pid).unwrap_or_default();
        let done = step.submissions.iter().filter(|of| of.done.is_some()).map(|of| of.queue).collect();
        let mut open: BTreeSet<u64> = before.open.difference(&done).copied().collect();
        open.extend(step.submissions.iter().filter(|of| of.done.is_none()).map(|of| of.queue));
        let until = end_with_results(step);
        let has_end = open.is_empty() && before.open.is_empty() && !before.is_left_out;
        let mut latest = Latest { phase: Some(phase), until, open, ..Latest::default() };
        if step.submissions.is_empty() {
            latest.phase = None;
        } else if before.until > step.start {
            // Neither is certain to have had the device for itself.
            let overlapping = before.found.overlapping + before.found.steps;
            before.found = DeviceUse { overlapping, without_end: before.found.without_end, ..DeviceUse::default() };
            before.gap = None;
            latest.until = until.max(before.until);
            latest.found.overlapping = 1;
        } else if has_end {
            let follows = phase.recurs() && before.found.steps > 0;
            let gap = if follows { before.gap.take() } else { None };
            let from = if follows { before.until } else { step.start };
            (latest.found, latest.gap) = sweep(step, (from, until), gap);
        } else {
            latest.found.without_end = 1;
        }
        self.commit(before);
        if self.latest.len() < MAX_PROCESSES {
            self.latest.insert(step.pid, latest);
        } else {
            self.commit(latest);
        }
    }

    /// Of what no step contains, from the first submission to the last end that was recorded.
    fn add_loose(&mut self, step: &Step) {
        let Some(first) = step.submissions.iter().map(|of| of.start).min() else { return };
        let last = step.submissions.iter().filter_map(|of| of.done).max();
        let found = match last.filter(|until| *until > first) {
            Some(until) => {
                let (mut found, gap) = sweep(step, (first, until), None);
                found.close(gap);
                let endless = step.submissions.iter().filter(|of| of.done.is_none() && of.start < until);
                found.endless = endless.count() as u64;
                found
            }
            None => DeviceUse { without_end: 1, ..DeviceUse::default() },
        };
        self.phases.entry(Phase::Outside).or_default().merge(&found);
    }

    /// A step is not added: work of it may be pending when the next one begins.
    pub(super) fn leave_out(&mut self, step: &Step) {
        if let Some(latest) = self.latest.remove(&step.pid) {
            self.commit(latest);
        }
        if self.latest.len() < MAX_PROCESSES {
            self.latest.insert(step.pid, Latest { is_left_out: true, ..Latest::default() });
        }
    }

    fn commit(&mut self, mut latest: Latest) {
        let Some(phase) = latest.phase else { return };
        latest.found.close(latest.gap);
        self.phases.entry(phase).or_default().merge(&latest.found);
    }

    /// The steps of a phase; `None` if none of them submitted work.
    pub(super) fn of(&self, phase: Phase) -> Option<DeviceUse> {
        let mut sum = self.phases.get(&phase).cloned();
        for latest in self.latest.values().filter(|latest| latest.phase == Some(phase)) {
            let sum = sum.get_or_insert_with(DeviceUse::default);
            sum.merge(&latest.found);
            sum.close(latest.gap);
        }
        sum
    }
}

/// When a step and its results ended. What is submitted after it fetches its results, or is of what comes next: it fetches
/// them where it follows sooner than all of it had taken until then.
fn end_with_results(step: &Step) -> u64 {
    let (own, mut later): (Vec<&Submission>, Vec<_>) = step.submissions.iter().partition(|of| of.start < step.end);
    later.sort_by_key(|of| of.start);
    let mut until = own.iter().filter_map(|of| of.done).max().unwrap_or(0).max(step.end);
    for of in later {
        if of.start.saturating_sub(until) > until.saturating_sub(step.start) {
            break;
        }
        until = until.max(of.done.unwrap_or(0));
    }
    until
}

/// What goes on at a time, by number of spans.
#[derive(Debug, Clone, Copy)]
enum On {
    /// Work other than a copy call's is pending.
    Work,
    /// Work that a copy call submitted is pending.
    CopyWork,
    Wait,
    Submit,
    Copy,
    Encode,
    Operator,
    Step,
}

/// Starts and ends of all spans within a time.
struct Edges {
    from: u64,
    until: u64,
    edges: Vec<(u64, On, i64)>,
}

impl Edges {
    fn push(&mut self, start: u64, end: u64, what: On) {
        let (start, end) = (start.max(self.from), end.min(self.until));
        if start < end {
            self.edges.extend([(start, what, 1), (end, what, -1)]);
        }
    }
}

/// One step with its results. `gap` is the one that is open at the start; the one that is open at the end comes back.
fn sweep(step: &Step, (from, until): (u64, u64), mut gap: Option<IdleGap>) -> (DeviceUse, Option<IdleGap>) {
    let mut found = DeviceUse { steps: 1, time: until.saturating_sub(from), ..DeviceUse::default() };
    let encoded = || step.dispatches.iter().filter(|of| !of.is_empty);
    if encoded().next().is_some() && encoded().all(|of| of.device_ns.is_some()) {
        found.measured_time = found.time;
        found.measured = encoded().filter_map(|of| of.device_ns).fold(0, u64::saturating_add);
    }
    let mut at = from;
    let mut counts = [0_i64; 8];
    let mut segment = |at: u64, end: u64, counts: &[i64; 8], gap: &mut Option<IdleGap>| {
        let is = |what: On| counts[what as usize] > 0;
        let (host, ns) = (host_work(&is), end - at);
        if is(On::Work) || is(On::CopyWork) {
            found.close(gap.take());
            found.while_pending[host] = found.while_pending[host].saturating_add(ns);
            if host == HostWork::Copying && is(On::Work) {
                found.copying_with_work = found.copying_with_work.saturating_add(ns);
            }
            return;
        }
        found.while_idle[host] = found.while_idle[host].saturating_add(ns);
        let open = gap.get_or_insert(IdleGap { step: 0, start: at, end: at, host: HostTime::default() });
        (open.step, open.end) = (step.number, end);
        open.host[host] = open.host[host].saturating_add(ns);
    };
    for (time, what, change) in edges(step, from, until) {
        if time > at {
            segment(at, time, &counts, &mut gap);
            at = time;
        }
        counts[what as usize] += change;
    }
    if until > at {
        segment(at, until, &counts, &mut gap);
    }
    found.measured_idle = found.measured.saturating_sub(found.pending());
    (found, gap)
}

fn edges(step: &Step, from: u64, until: u64) -> Vec<(u64, On, i64)> {
    let mut all = Edges { from, until, edges: Vec::new() };
    if step.phase == Some(Phase::Outside) {
        all.push(from, until, On::Step);
    } else {
        all.push(step.start, step.end, On::Step);
    }
    // Submissions that succeeded are in the same order in both lists.
    let mut submissions = step.submissions.iter();
    let copies: Vec<(u64, u64, u32)> = {
        let of = step.queue.iter().filter(|event| matches!(event.what, Queued::Copy { .. }));
        of.map(|event| (event.start, event.end, event.tid)).collect()
    };
    let is_of_copy = |start: u64, tid: u32| {
        let before = copies.partition_point(|copy| copy.0 <= start);
        copies[..before].iter().rev().filter(|copy| copy.2 == tid).take(MAX_NESTED).any(|copy| start < copy.1)
    };
    for event in &step.queue {
        match event.what {
            Queued::Submit { failed, .. } => {
                all.push(event.start, event.end, On::Submit);
                if let Some(of) = if failed { None } else { submissions.next() } {
                    let what = if is_of_copy(event.start, event.tid) { On::CopyWork } else { On::Work };
                    // The driver sees the end before the host does.
                    let done = of.ran.map_or(of.done, |ran| Some(of.done.map_or(ran.end, |done| ran.end.min(done))));
                    all.push(of.start, done.unwrap_or(until), what);
                }
            }
            Queued::Wait { .. } => all.push(event.start, event.end, On::Wait),
            Queued::Copy { .. } => all.push(event.start, event.end, On::Copy),
            Queued::Destroyed { .. } | Queued::Captured | Queued::Timestamps(_) | Queued::Job(_) => {}
        }
    }
    step.dispatches.iter().for_each(|of| all.push(of.start, of.end, On::Encode));
    for of in &step.operators {
        all.push(of.start, of.end, if of.gives_work { On::Encode } else { On::Operator });
    }
    all.edges.sort_by_key(|(time, ..)| *time);
    all.edges
}

/// One of them for each moment: a wait within a copy call, for nothing but what that call submitted, is a part of the
/// copy.
fn host_work(is: &impl Fn(On) -> bool) -> HostWork {
    if is(On::Wait) && is(On::Work) {
        HostWork::Waiting
    } else if is(On::Copy) || is(On::Wait) && is(On::CopyWork) {
        HostWork::Copying
    } else if is(On::Submit) {
        HostWork::Submitting
    } else if is(On::Encode) {
        HostWork::Encoding
    } else if is(On::Operator) {
        HostWork::Operators
    } else if is(On::Step) {
        HostWork::Other
    } else {
        HostWork::Between
    }
}
