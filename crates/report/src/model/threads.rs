//! What the lanes' threads did: by lane, by operator, who ran instead of them, and the same as sentences.

use super::frequency::{Frequency, frequencies};
use crate::numbers::ratios::ratio;
use crate::numbers::units::{share, time};
use profinfer_analysis::{Catalogue, LaneThreads, Named, Phase, Reclaims, Statistics, Taken, ThreadTotals, TimeSplit};
use profinfer_trace::Meta;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Operators, and processes, that are listed.
const MOST_ROWS: usize = 64;
/// Other processes that have a sentence.
const MOST_NAMED: usize = 3;
/// Less of a lane's time is not worth a sentence.
const WORTH_MENTIONING: f64 = 0.01;
/// So much of the lanes' time must the target's threads have taken from one another, where only the cpus that they
/// ran on show that there were too few.
const OVERSUBSCRIBED: f64 = 0.05;

/// What threads did in the steps that were recorded whole.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ThreadsReport {
    /// By lane. `lane` is `null` for threads that ran steps and were no lane of them.
    pub lanes: Vec<LaneThreadsRow>,
    /// How the time of operators was spent, the most first.
    pub operators: Vec<OperatorTimeRow>,
    /// Who ran while lanes could have, the most first.
    pub interference: Vec<InterferenceRow>,
    /// What threads that run steps did between these; `null` where none ran two.
    pub between_steps: Option<BetweenStepsRow>,
    /// More lanes than CPUs.
    pub oversubscribed: Option<Oversubscribed>,
    /// When sleepers could run again was not recorded: `sleeping_ns` has what was runnable after a sleep.
    pub without_wakeups: bool,
    /// Steal time by the time that the CPUs seemed used: the virtual machine's host ran something else. It is part of
    /// the running time here. `None`: there was none.
    pub stolen_share: Option<f64>,
    /// The same in words.
    pub sentences: Vec<String>,
}

/// A lane's threads.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct LaneThreadsRow {
    /// The lane.
    pub lane: Option<u32>,
    /// Time of its threads in steps: the sum of the next six.
    pub wall_ns: u64,
    /// On a cpu.
    pub running_ns: u64,
    /// Able to run, and not running.
    pub runnable_ns: u64,
    /// Asleep.
    pub sleeping_ns: u64,
    /// In uninterruptible wait.
    pub blocked_ns: u64,
    /// Stopped by a signal or a debugger.
    pub stopped_ns: u64,
    /// Stopped by the recorder, while it placed probes.
    pub attaching_ns: u64,
    /// Unknown.
    pub unknown_ns: u64,
    /// Of `running_ns`: in the kernel's reclaim or compaction; `None` where that was not recorded.
    pub reclaiming_ns: Option<u64>,
    /// Of `blocked_ns`: the same.
    pub reclaim_blocked_ns: Option<u64>,
    /// Of `runnable_ns`: the cpu was idle.
    pub idle_cpu_ns: u64,
    /// Of `runnable_ns`: who ran is unknown.
    pub unnamed_ns: u64,
    /// Voluntary switches.
    pub voluntary_switches: u64,
    /// Preemptions.
    pub involuntary_switches: u64,
    /// Migrations.
    pub migrations: u64,
    /// Where they ran.
    pub cpus: Vec<CpuRow>,
}

impl LaneThreadsRow {
    /// The cpu that it ran on nearly all the time.
    pub(crate) fn main_cpu(&self) -> Option<u16> {
        let most = self.cpus.iter().max_by_key(|cpu| cpu.running_ns)?;
        (ratio(most.running_ns, self.running_ns) >= 0.9).then_some(most.cpu)
    }
}

/// Threads that run steps, from the end of a step to the beginning of the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct BetweenStepsRow {
    /// Times between two steps.
    pub count: u64,
    /// The sum of the next six.
    pub wall_ns: u64,
    /// On a cpu.
    pub running_ns: u64,
    /// Able to run, and not running.
    pub runnable_ns: u64,
    /// Asleep: waiting for requests, for other threads, or for a device.
    pub sleeping_ns: u64,
    /// In uninterruptible wait.
    pub blocked_ns: u64,
    /// Stopped by a signal or a debugger.
    pub stopped_ns: u64,
    /// Stopped by the recorder, while it placed probes.
    pub attaching_ns: u64,
    /// Unknown.
    pub unknown_ns: u64,
}

impl BetweenStepsRow {
    fn new(totals: &ThreadTotals, phases: &[Phase]) -> Option<Self> {
        let (mut count, mut sum) = (0, LaneThreads::default());
        for of in phases.iter().filter_map(|phase| totals.between(*phase)) {
            count += of.steps;
            sum.merge(&of.thread);
        }
        let row = Self {
            count,
            wall_ns: sum.wall,
            running_ns: sum.running,
            runnable_ns: sum.runnable,
            sleeping_ns: sum.sleeping,
            blocked_ns: sum.blocked,
            stopped_ns: sum.stopped,
            attaching_ns: sum.attaching,
            unknown_ns: sum.unknown,
        };
        (count > 0).then_some(row)
    }

    /// What kept the thread from running, ns.
    pub(crate) fn delay_ns(&self) -> u64 {
        self.runnable_ns.saturating_add(self.blocked_ns).saturating_add(self.stopped_ns)
    }
}

/// Time on one cpu.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct CpuRow {
    /// Its number.
    pub cpu: u16,
    /// Its type, where the machine has several.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// ns.
    pub running_ns: u64,
    /// How fast it ran while it was recorded, where the kernel tells.
    pub frequency: Option<Frequency>,
}

/// How the lanes' time in operators was spent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct OperatorTimeRow {
    /// Name, numbers as `*`.
    pub name: String,
    /// Type.
    pub op: String,
    /// The sum of the next seven.
    pub total_ns: u64,
    /// On a cpu, working.
    pub compute_ns: u64,
    /// Waiting for the slowest lane; an estimate where waiting was recorded in some windows of time only.
    pub waiting_ns: u64,
    /// Able to run, and not running.
    pub runnable_ns: u64,
    /// Asleep.
    pub sleeping_ns: u64,
    /// In uninterruptible wait.
    pub blocked_ns: u64,
    /// Stopped by a signal or a debugger.
    pub stopped_ns: u64,
    /// Stopped by the recorder, while it placed probes.
    pub attaching_ns: u64,
    /// Unknown.
    pub unknown_ns: u64,
    /// Of `compute_ns` and `blocked_ns`: in the kernel's reclaim or compaction; `None` where that was not recorded.
    pub reclaim_ns: Option<u64>,
}

/// Who ran instead of lanes.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct InterferenceRow {
    /// The process.
    pub pid: u32,
    /// Its name, which is that of its first thread; of another thread, where that one was not seen.
    pub process: String,
    /// It is a process that is recorded: its lanes were in each other's way.
    pub own: bool,
    /// It is a process that is recorded, and none of its threads is a lane.
    pub child: bool,
    /// It is profinfer itself, recording.
    pub recorder: bool,
    /// ns that it took from all lanes, and between steps from the threads that run these.
    pub taken_ns: u64,
    /// Of `taken_ns`: between steps.
    pub between_steps_ns: u64,
    /// `taken_ns` by the lanes' time and the delays between steps.
    pub share: f64,
    /// From each lane.
    pub lanes: Vec<TakenFromLane>,
    /// From operators, the most first.
    pub operators: Vec<TakenFromOperator>,
}

/// What a process took from a lane.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct TakenFromLane {
    /// The lane.
    pub lane: Option<u32>,
    /// ns.
    pub taken_ns: u64,
    /// By the lane's time.
    pub share: f64,
}

/// What a process took from an operator.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct TakenFromOperator {
    /// Name, numbers as `*`.
    pub name: String,
    /// Type.
    pub op: String,
    /// ns.
    pub taken_ns: u64,
}

/// More lanes than cpus: those that wait spin on cpus that others need.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Oversubscribed {
    /// Lanes.
    pub lanes: u32,
    /// Cpus that they had.
    pub cpus: f64,
    /// Its source: `allowed` (their affinity), `quota` (a limit of their control groups), `used` (they ran on no
    /// others, and in each other's way).
    pub by: &'static str,
    /// The part of the lanes' time in which they could have run and another thread of the target ran.
    pub share: f64,
}

impl InterferenceRow {
    /// Neither the lanes' process nor what records it.
    pub(crate) fn is_other(&self) -> bool {
        !self.is_lanes() && !self.recorder
    }

    /// The lanes' process: they were in each other's way.
    pub(crate) fn is_lanes(&self) -> bool {
        self.own && !self.child
    }

    /// Its name, and what it is to the recording.
    pub(crate) fn title(&self) -> String {
        let what = match (self.own, self.recorder) {
            _ if self.child => " (a child of the target)",
            (true, _) => " (the target)",
            (_, true) => " (the recorder)",
            _ => "",
        };
        format!("{}{what}", self.process)
    }
}

impl ThreadsReport {
    /// Of these phases; `None` where the scheduler's events were not recorded.
    pub(crate) fn new(meta: &Meta, statistics: &Statistics, catalogue: &Catalogue, phases: &[Phase]) -> Option<Self> {
        let totals = statistics.threads();
        if totals.is_empty() {
            return None;
        }
        let lanes = lanes(totals, phases, meta);
        let between_steps = BetweenStepsRow::new(totals, phases);
        let mut interference =
            interference(totals, catalogue, phases, (&lanes, between_steps), meta.origin.recorder_pid);
        let (steps, _) = statistics.step_points();
        let runs_steps: BTreeSet<u32> = steps.iter().map(|step| step.pid).collect();
        for row in interference.iter_mut().filter(|row| row.own) {
            row.child = !runs_steps.is_empty() && !runs_steps.contains(&row.pid);
        }
        let mut report = Self {
            operators: operators(meta, totals, catalogue, phases),
            oversubscribed: oversubscribed(meta, totals.crowd(), &lanes, &interference),
            without_wakeups: totals.without_wakeups(),
            stolen_share: meta
                .end
                .as_ref()
                .and_then(|end| end.stolen)
                .map(|stolen| ratio(stolen.ns, stolen.ns.saturating_add(stolen.used_ns))),
            lanes,
            interference,
            between_steps,
            sentences: Vec::new(),
        };
        report.sentences = report.describe();
        Some(report)
    }

    fn describe(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if let Some(Oversubscribed { lanes, cpus, by, share: taken }) = self.oversubscribed {
            let cpus = if cpus.fract() == 0.0 { format!("{cpus:.0}") } else { format!("{cpus:.1}") };
            let plural = if cpus == "1" { "" } else { "s" };
            let why = match by {
                "allowed" => "no others allowed",
                "quota" => "quota of the control group",
                _ => "no others used",
            };
            sentences.push(format!(
                "Oversubscribed: {lanes} lanes on {cpus} CPU{plural} ({why}). {} of thread time is run-queue delay caused by \
                 other lanes.",
                share(taken)
            ));
        }
        let others = self.interference.iter().filter(|row| !row.is_lanes());
        sentences.extend(others.filter_map(|row| self.shared_with(row)).take(MOST_NAMED));
        sentences.extend(self.between_steps.and_then(|between| self.delayed_between(between)));
        for lane in self.lanes.iter().filter(|lane| ratio(lane.idle_cpu_ns, lane.wall_ns) >= 0.05) {
            sentences.push(format!(
                "{} was runnable for {} of its time while its CPU was idle: it was throttled, or woke up slowly.",
                name_of(lane.lane),
                share(ratio(lane.idle_cpu_ns, lane.wall_ns))
            ));
        }
        for lane in self.lanes.iter().filter(|lane| ratio(lane.blocked_ns, lane.wall_ns) >= WORTH_MENTIONING) {
            let blocked = share(ratio(lane.blocked_ns, lane.wall_ns));
            sentences.push(format!("{} was blocked for {blocked} of its time, mostly by a disk.", name_of(lane.lane)));
        }
        if let Some(stolen) = self.stolen_share.filter(|stolen| *stolen >= WORTH_MENTIONING) {
            sentences.push(format!(
                "Steal time: {} of this virtual machine's CPU time. Running time and operator times include it.",
                share(stolen)
            ));
        }
        if self.without_wakeups {
            sentences.push("Wake-ups were not recorded: \"sleeping\" includes run-queue delay after a wake-up.".into());
        }
        sentences
    }

    /// The delay between steps, if it matters beside the lanes' time.
    fn delayed_between(&self, between: BetweenStepsRow) -> Option<String> {
        let wall = self.lanes.iter().map(|lane| lane.wall_ns).max().unwrap_or(0);
        let each = |ns: u64| time(ns / between.count.max(1));
        let parts = [
            (between.runnable_ns, "run-queue delay"),
            (between.blocked_ns, "uninterruptible wait"),
            (between.stopped_ns, "stopped"),
            (between.attaching_ns, "stopped by profinfer"),
        ];
        let named = parts.iter().filter(|(ns, _)| ratio(*ns, wall) >= WORTH_MENTIONING);
        let named: Vec<String> = named.map(|(ns, what)| format!("{} {what}", each(*ns))).collect();
        (!named.is_empty()).then(|| format!("Between two steps, on average: {}.", named.join(", ")))
    }

    /// `Lane 1 shared CPU 1 with …`, if it took enough time.
    fn shared_with(&self, row: &InterferenceRow) -> Option<String> {
        let worth = |from: &&TakenFromLane| from.lane.is_some() && from.share >= WORTH_MENTIONING;
        let from: Vec<&TakenFromLane> = row.lanes.iter().filter(worth).collect();
        let numbers: Vec<u32> = from.iter().filter_map(|from| from.lane).collect();
        let lanes = || self.lanes.iter().filter(|lane| lane.lane.is_some_and(|lane| numbers.contains(&lane)));
        let mut cpus: Vec<String> = lanes().map(where_it_ran).collect();
        cpus.dedup();
        let (InterferenceRow { process, pid, .. }, cpu) = (row, cpus.first()?);
        let itself = if row.recorder { ", the recorder" } else { "" };
        match numbers.as_slice() {
            [lane] => {
                let took = share(from.first()?.share);
                Some(format!(
                    "Lane {lane} shared {cpu} with `{process}` (pid {pid}{itself}), which took {took} of the time."
                ))
            }
            lanes_with => {
                let taken = from.iter().map(|from| from.taken_ns).fold(0, u64::saturating_add);
                let wall = lanes().map(|lane| lane.wall_ns).fold(0, u64::saturating_add);
                let cpu = if cpus.len() == 1 && cpu != "its CPUs" { cpu } else { "CPUs" };
                let (who, took) = (enumerated(lanes_with), share(ratio(taken, wall)));
                Some(format!(
                    "Lanes {who} shared {cpu} with `{process}` (pid {pid}{itself}), which took {took} of their time."
                ))
            }
        }
    }
}

/// `0, 1 and 3`.
fn enumerated(lanes: &[u32]) -> String {
    let names: Vec<String> = lanes.iter().map(u32::to_string).collect();
    match names.as_slice() {
        [rest @ .., last] if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

fn name_of(lane: Option<u32>) -> String {
    lane.map_or_else(|| "The thread of the steps".to_owned(), |lane| format!("Lane {lane}"))
}

/// `CPU 1`, or how many.
fn where_it_ran(lane: &LaneThreadsRow) -> String {
    lane.main_cpu().map_or_else(|| "its CPUs".to_owned(), |cpu| format!("CPU {cpu}"))
}

fn lanes(totals: &ThreadTotals, phases: &[Phase], meta: &Meta) -> Vec<LaneThreadsRow> {
    let mut lanes: BTreeMap<(bool, Option<u32>), LaneThreads> = BTreeMap::new();
    for (_, lane, of) in totals.lanes().filter(|(phase, ..)| phases.contains(phase)) {
        lanes.entry((lane.is_none(), lane)).or_default().merge(of);
    }
    let (types, frequencies) = (&meta.origin.host.cpu_types, frequencies(meta));
    let kind = |cpu: u16| types.iter().find(|t| t.cpus.contains(&cpu)).map(|t| t.name.clone());
    let cpu = |(cpu, ns): (&u16, &u64)| CpuRow {
        cpu: *cpu,
        kind: kind(*cpu),
        running_ns: *ns,
        frequency: frequencies.get(cpu).copied(),
    };
    let knows_reclaims = Reclaims::recorded_by(&meta.schema);
    let row = |((_, lane), of): ((bool, Option<u32>), LaneThreads)| LaneThreadsRow {
        lane,
        wall_ns: of.wall,
        running_ns: of.running,
        runnable_ns: of.runnable,
        sleeping_ns: of.sleeping,
        blocked_ns: of.blocked,
        stopped_ns: of.stopped,
        attaching_ns: of.attaching,
        unknown_ns: of.unknown,
        reclaiming_ns: knows_reclaims.then_some(of.reclaiming),
        reclaim_blocked_ns: knows_reclaims.then_some(of.reclaim_blocked),
        idle_cpu_ns: of.idle,
        unnamed_ns: of.runnable.saturating_sub(of.idle).saturating_sub(of.taken),
        voluntary_switches: of.voluntary,
        involuntary_switches: of.involuntary,
        migrations: of.migrations,
        cpus: of.cpus.iter().map(cpu).collect(),
    };
    lanes.into_iter().map(row).collect()
}

fn operators(meta: &Meta, totals: &ThreadTotals, catalogue: &Catalogue, phases: &[Phase]) -> Vec<OperatorTimeRow> {
    let knows_reclaims = Reclaims::recorded_by(&meta.schema);
    let mut sums: BTreeMap<(&str, &str), TimeSplit> = BTreeMap::new();
    for (kind, _, split) in totals.operators().filter(|(_, phase, _)| phases.contains(phase)) {
        let kind = catalogue.kind(kind);
        let sum = sums.entry((&*kind.pattern, &*kind.op)).or_default();
        *sum = sum.plus(split);
    }
    let row = |((name, op), split): ((&str, &str), TimeSplit)| OperatorTimeRow {
        name: name.to_owned(),
        op: op.to_owned(),
        total_ns: split.total(),
        compute_ns: split.compute,
        waiting_ns: split.waiting,
        runnable_ns: split.runnable,
        sleeping_ns: split.sleeping,
        blocked_ns: split.blocked,
        stopped_ns: split.stopped,
        attaching_ns: split.attaching,
        unknown_ns: split.unknown,
        reclaim_ns: knows_reclaims.then_some(split.reclaim()),
    };
    let mut rows: Vec<OperatorTimeRow> = sums.into_iter().map(|(kind, split)| row((kind, split.divided()))).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns));
    rows.truncate(MOST_ROWS);
    rows
}

fn interference(
    totals: &ThreadTotals,
    catalogue: &Catalogue,
    phases: &[Phase],
    (lanes, between): (&[LaneThreadsRow], Option<BetweenStepsRow>),
    recorder: Option<u32>,
) -> Vec<InterferenceRow> {
    let wall_of = |lane: Option<u32>| lanes.iter().find(|row| row.lane == lane).map_or(0, |row| row.wall_ns);
    let delays = between.map_or(0, |between| between.delay_ns());
    let wall = lanes.iter().map(|row| row.wall_ns).fold(delays, u64::saturating_add);
    let mut rows: BTreeMap<u32, InterferenceRow> = BTreeMap::new();
    let mut named: BTreeMap<u32, Option<Named>> = BTreeMap::new();
    let mut add = |rows: &mut BTreeMap<u32, InterferenceRow>, pid: u32, taken: Taken, between: u64| {
        let row = rows.entry(pid).or_insert_with(|| InterferenceRow {
            pid,
            own: taken.own,
            recorder: recorder == Some(pid),
            ..InterferenceRow::default()
        });
        let name = named.entry(pid).or_default();
        *name = taken.named.max(*name);
        row.taken_ns = row.taken_ns.saturating_add(taken.ns);
        row.between_steps_ns = row.between_steps_ns.saturating_add(between);
    };
    for (pid, taken) in phases.iter().filter_map(|phase| totals.between(*phase)).flat_map(|of| &of.taken) {
        add(&mut rows, *pid, *taken, taken.ns);
    }
    for (_, lane, pid, taken) in totals.taken_from_lanes().filter(|(phase, ..)| phases.contains(phase)) {
        add(&mut rows, pid, taken, 0);
        let Some(row) = rows.get_mut(&pid) else { continue };
        match row.lanes.iter_mut().find(|from| from.lane == lane) {
            Some(from) => from.taken_ns = from.taken_ns.saturating_add(taken.ns),
            None => row.lanes.push(TakenFromLane { lane, taken_ns: taken.ns, share: 0.0 }),
        }
    }
    let mut operators: BTreeMap<(u32, &str, &str), u64> = BTreeMap::new();
    for (_, kind, pid, ns) in totals.taken_from_operators().filter(|(phase, ..)| phases.contains(phase)) {
        let kind = catalogue.kind(kind);
        let sum = operators.entry((pid, &*kind.pattern, &*kind.op)).or_default();
        *sum = sum.saturating_add(ns);
    }
    for ((pid, name, op), taken_ns) in operators {
        if let Some(row) = rows.get_mut(&pid) {
            row.operators.push(TakenFromOperator { name: name.to_owned(), op: op.to_owned(), taken_ns });
        }
    }
    let mut rows: Vec<InterferenceRow> = rows.into_values().collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.taken_ns), row.pid));
    rows.truncate(MOST_ROWS);
    for row in &mut rows {
        let name = named.get(&row.pid).copied().flatten();
        row.process = name.map_or_else(|| "?".to_owned(), |named| catalogue.text(named.name).to_string());
        row.share = ratio(row.taken_ns, wall);
        row.lanes.sort_by_key(|from| (from.lane.is_none(), from.lane));
        for from in &mut row.lanes {
            from.share = ratio(from.taken_ns, wall_of(from.lane));
        }
        row.operators.sort_by_key(|from| std::cmp::Reverse(from.taken_ns));
        row.operators.truncate(MOST_ROWS);
    }
    rows
}

fn oversubscribed(
    meta: &Meta,
    crowd: Option<(u32, u32)>,
    rows: &[LaneThreadsRow],
    interference: &[InterferenceRow],
) -> Option<Oversubscribed> {
    let lanes = u32::try_from(rows.iter().filter(|row| row.lane.is_some()).count()).ok()?;
    let share = interference.iter().filter(|row| row.is_lanes()).map(|row| row.share).sum();
    let mut used: Vec<u16> = rows.iter().flat_map(|row| row.cpus.iter().map(|cpu| cpu.cpu)).collect();
    used.sort_unstable();
    used.dedup();
    let used = u32::try_from(used.len()).ok()?;
    let quota = meta.origin.cpu_quota;
    let named = |lanes: u32, cpus: f64, by| Some(Oversubscribed { lanes, cpus, by, share });
    match (crowd, quota) {
        (Some((lanes, cpus)), quota) if lanes > cpus && quota.is_none_or(|quota| quota >= f64::from(cpus)) => {
            named(lanes, f64::from(cpus), "allowed")
        }
        (_, Some(quota)) if f64::from(lanes) > quota.max(1.0).ceil() => named(lanes, quota, "quota"),
        _ if used > 0 && lanes > used && share >= OVERSUBSCRIBED => named(lanes, f64::from(used), "used"),
        _ => None,
    }
}
