//! Thread states over steps: by lane, by operator, and who ran instead. All times are ns.

use crate::ids::{ByKind, KindId, Phase, TextId};
use crate::step::{Beside, Between, Instead, StateSpan, Step, ThreadState, TimeSplit};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Pairs of a process and a lane, or an operator.
const MAX_PAIRS: usize = 1 << 16;
/// Lanes that are searched linearly.
const MANY_LANES: usize = 16;
/// Processors of one lane.
const MAX_CPUS: usize = 4096;

/// One lane's threads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaneThreads {
    /// Their time in the steps, from when they were made to their end: the sum of the next six.
    pub wall: u64,
    /// On a cpu.
    pub running: u64,
    /// Able to run, and not running.
    pub runnable: u64,
    /// Asleep.
    pub sleeping: u64,
    /// In uninterruptible wait.
    pub blocked: u64,
    /// Stopped by a signal or a debugger.
    pub stopped: u64,
    /// Stopped by the recorder, while it placed probes.
    pub attaching: u64,
    /// Unknown.
    pub unknown: u64,
    /// Of `running`: in the kernel's reclaim or compaction.
    pub reclaiming: u64,
    /// Of `blocked`: in the kernel's reclaim or compaction.
    pub reclaim_blocked: u64,
    /// Of `runnable`: the cpu that they waited for was idle.
    pub idle: u64,
    /// Of `runnable`: with a recorded running thread.
    pub taken: u64,
    /// Voluntary switches.
    pub voluntary: u64,
    /// Preemptions.
    pub involuntary: u64,
    /// Migrations.
    pub migrations: u64,
    /// Time on each cpu.
    pub cpus: BTreeMap<u16, u64>,
}

impl LaneThreads {
    /// Adds a thread's states, by start.
    fn add(&mut self, states: &[StateSpan]) {
        let mut before = None;
        let mut ran_on = None;
        for span in states {
            self.add_state(span.state, span.end.saturating_sub(span.start));
            if before == Some(ThreadState::Running) {
                self.involuntary += u64::from(span.state == ThreadState::Runnable);
                self.voluntary += u64::from(matches!(span.state, ThreadState::Sleeping | ThreadState::Blocked));
            }
            before = Some(span.state);
            if let (ThreadState::Running, Some(cpu)) = (span.state, span.cpu) {
                self.migrations += u64::from(ran_on.is_some_and(|on| on != cpu));
                ran_on = Some(cpu);
                if self.cpus.len() < MAX_CPUS || self.cpus.contains_key(&cpu) {
                    let on = self.cpus.entry(cpu).or_default();
                    *on = on.saturating_add(span.end.saturating_sub(span.start));
                }
            }
        }
    }

    /// Adds what of a thread's states was in reclaim.
    fn add_reclaim(&mut self, states: &[StateSpan], reclaims: &mut Beside<'_>) {
        for span in states {
            let sum = match span.state {
                ThreadState::Running => &mut self.reclaiming,
                ThreadState::Blocked => &mut self.reclaim_blocked,
                _ => continue,
            };
            *sum = sum.saturating_add(reclaims.within(span.tid, span.start, span.end));
        }
    }

    fn add_state(&mut self, state: ThreadState, ns: u64) {
        self.wall = self.wall.saturating_add(ns);
        let sum = match state {
            ThreadState::Running => &mut self.running,
            ThreadState::Runnable => &mut self.runnable,
            ThreadState::Sleeping => &mut self.sleeping,
            ThreadState::Blocked => &mut self.blocked,
            ThreadState::Stopped => &mut self.stopped,
            ThreadState::Attaching => &mut self.attaching,
            ThreadState::Unknown => &mut self.unknown,
        };
        *sum = sum.saturating_add(ns);
    }

    /// Adds others.
    pub fn merge(&mut self, other: &Self) {
        let sums = [
            (&mut self.wall, other.wall),
            (&mut self.running, other.running),
            (&mut self.runnable, other.runnable),
            (&mut self.sleeping, other.sleeping),
            (&mut self.blocked, other.blocked),
            (&mut self.stopped, other.stopped),
            (&mut self.attaching, other.attaching),
            (&mut self.unknown, other.unknown),
            (&mut self.reclaiming, other.reclaiming),
            (&mut self.reclaim_blocked, other.reclaim_blocked),
            (&mut self.idle, other.idle),
            (&mut self.taken, other.taken),
            (&mut self.voluntary, other.voluntary),
            (&mut self.involuntary, other.involuntary),
            (&mut self.migrations, other.migrations),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
        for (cpu, ns) in &other.cpus {
            let sum = self.cpus.entry(*cpu).or_default();
            *sum = sum.saturating_add(*ns);
        }
    }
}

/// Who ran instead of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// ns.
    pub ns: u64,
    /// Its name, if one was seen.
    pub named: Option<Named>,
    /// The process is recorded.
    pub own: bool,
}

/// A name of a process. The largest one is its own: the latest of its first thread, if that was seen, else of another. A
/// program has its name from `exec` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    of_leader: bool,
    since: u64,
    /// The name.
    pub name: TextId,
}

impl Taken {
    fn of(other: &Instead) -> Self {
        Self { ns: 0, named: None, own: other.own }
    }

    fn add(&mut self, other: &Instead) {
        self.ns = self.ns.saturating_add(other.end.saturating_sub(other.start));
        let named = other.name.map(|name| Named { of_leader: other.of_leader, since: other.start, name });
        self.named = self.named.max(named);
    }
}

/// What threads that run steps did between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BetweenTotals {
    /// Steps after which the thread ran another one.
    pub steps: u64,
    /// What it did before that.
    pub thread: LaneThreads,
    /// Who ran instead, by process.
    pub taken: BTreeMap<u32, Taken>,
}

impl BetweenTotals {
    fn add(&mut self, between: &Between) {
        self.steps += 1;
        self.thread.add(&between.states);
        for other in &between.instead {
            let ns = other.end.saturating_sub(other.start);
            let sum = if other.pid == 0 { &mut self.thread.idle } else { &mut self.thread.taken };
            *sum = sum.saturating_add(ns);
            if other.pid != 0 && (self.taken.len() < MAX_PAIRS || self.taken.contains_key(&other.pid)) {
                self.taken.entry(other.pid).or_insert_with(|| Taken::of(other)).add(other);
            }
        }
    }
}

/// What threads did, over all complete steps that were recorded whole.
#[derive(Debug, Default)]
pub struct ThreadTotals {
    lanes: BTreeMap<(Phase, Option<u32>), LaneThreads>,
    between: BTreeMap<Phase, BetweenTotals>,
    operators: ByKind<Phase, TimeSplit>,
    by_lane: FxHashMap<(Phase, Option<u32>, u32), Taken>,
    by_operator: FxHashMap<(Phase, KindId, u32), u64>,
    /// The most lanes, and on how many cpus at most their threads may run, of the steps with most lanes for a cpu.
    crowd: Option<(u32, u32)>,
    /// No wake-ups were recorded: what was runnable after a sleep is taken for asleep.
    without_wakeups: bool,
    /// Time taken by processes beyond the bound.
    others: u64,
}

impl ThreadTotals {
    /// Adds a step.
    pub(crate) fn add(&mut self, step: &Step, phase: Phase) {
        if step.states.is_empty() {
            return;
        }
        self.without_wakeups |= !step.knows_wakeups;
        let lane_of = lanes(step);
        let mut reclaims = Beside::new(&step.reclaims);
        for of_thread in step.states.chunk_by(|a, b| a.tid == b.tid) {
            let lane = of_thread.first().and_then(|span| lane_of(span.tid));
            let of_lane = self.lanes.entry((phase, lane)).or_default();
            of_lane.add(of_thread);
            of_lane.add_reclaim(of_thread, &mut reclaims);
        }
        if let Some(between) = &step.between {
            self.between.entry(phase).or_default().add(between);
        }
        for other in &step.instead {
            self.add_instead(step, phase, lane_of(other.tid), other);
        }
        for operator in &step.operators {
            let sum = self.operators.entry(operator.kind, phase);
            *sum = sum.plus(&step.split_of(operator).unwrap_or_default());
        }
        if let (Some(cpus), Ok(lanes)) = (step.cpus_allowed, u32::try_from(step.lane_numbers.len())) {
            let fuller = |(l, c): (u32, u32)| u64::from(lanes) * u64::from(c) > u64::from(l) * u64::from(cpus);
            if self.crowd.is_none_or(fuller) {
                self.crowd = Some((lanes, cpus));
            }
        }
    }

    fn add_instead(&mut self, step: &Step, phase: Phase, lane: Option<u32>, other: &Instead) {
        let ns = other.end.saturating_sub(other.start);
        let total = self.lanes.entry((phase, lane)).or_default();
        if other.pid == 0 {
            total.idle = total.idle.saturating_add(ns);
            return;
        }
        total.taken = total.taken.saturating_add(ns);
        let key = (phase, lane, other.pid);
        if self.by_lane.len() >= MAX_PAIRS && !self.by_lane.contains_key(&key) {
            self.others = self.others.saturating_add(ns);
            return;
        }
        self.by_lane.entry(key).or_insert_with(|| Taken::of(other)).add(other);
        let Some(operator) = other.operator.and_then(|operator| step.operators.get(operator as usize)) else { return };
        let key = (phase, operator.kind, other.pid);
        if self.by_operator.len() < MAX_PAIRS || self.by_operator.contains_key(&key) {
            let sum = self.by_operator.entry(key).or_default();
            *sum = sum.saturating_add(ns);
        }
    }

    /// The scheduler's events were seen.
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Lanes by phase and number; without a number, threads that ran steps and were no lane of them.
    pub fn lanes(&self) -> impl Iterator<Item = (Phase, Option<u32>, &LaneThreads)> {
        self.lanes.iter().map(|((phase, lane), totals)| (*phase, *lane, totals))
    }

    /// What threads did between their steps, before a step of a phase.
    pub fn between(&self, phase: Phase) -> Option<&BetweenTotals> {
        self.between.get(&phase)
    }

    /// How operators' time was spent, by kind and phase.
    pub fn operators(&self) -> impl Iterator<Item = (KindId, Phase, &TimeSplit)> {
        self.operators.iter()
    }

    /// Who ran instead: phase, lane, process.
    pub fn taken_from_lanes(&self) -> impl Iterator<Item = (Phase, Option<u32>, u32, Taken)> {
        self.by_lane.iter().map(|((phase, lane, pid), taken)| (*phase, *lane, *pid, *taken))
    }

    /// Who ran instead: phase, operator, process, ns.
    pub fn taken_from_operators(&self) -> impl Iterator<Item = (Phase, KindId, u32, u64)> {
        self.by_operator.iter().map(|((phase, kind, pid), ns)| (*phase, *kind, *pid, *ns))
    }

    /// Lanes, and the cpus that their threads may run on, where there are most lanes for a cpu.
    pub fn crowd(&self) -> Option<(u32, u32)> {
        self.crowd
    }

    /// Some step lacks wake-ups: its sleeping threads may have been runnable.
    pub fn without_wakeups(&self) -> bool {
        self.without_wakeups
    }

    /// Time taken by processes beyond the bound.
    pub fn others(&self) -> u64 {
        self.others
    }
}

/// The lane that a thread of the step is; none where it ran the step and computed nothing of what others did.
fn lanes(step: &Step) -> impl Fn(u32) -> Option<u32> + use<> {
    let mut lanes: Vec<(u32, u32)> = Vec::new();
    for span in &step.lanes {
        // Mostly there are few, and each has many spans.
        if !lanes.iter().rev().take(MANY_LANES).any(|lane| *lane == (span.tid, span.lane)) {
            lanes.push((span.tid, span.lane));
        }
    }
    lanes.sort_unstable();
    lanes.dedup_by_key(|(tid, _)| *tid);
    let alone = lanes.is_empty().then_some(0);
    move |tid| lanes.binary_search_by_key(&tid, |(tid, _)| *tid).map_or(alone, |at| Some(lanes[at].1))
}
