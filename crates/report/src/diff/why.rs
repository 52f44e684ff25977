//! Why a step takes longer or shorter: where its time went in both traces, and who is to blame for it.

use super::rows::{BetweenDiff, ChangeRow, DiffSide, PhaseDiff};
use crate::model::pressure::PressureReport;
use crate::model::threads::ThreadsReport;
use crate::numbers::ratios::mean;
use crate::numbers::units::{bytes, percent, share, signed_time, time_f64};
use profinfer_analysis::{Cause, CauseChange, Phase};
use serde::Serialize;
use std::collections::BTreeMap;

/// Sentences of causes.
const MOST: usize = 3;
/// A smaller part of a step is not listed unless it differs.
const LEAST: f64 = 0.001;
/// What records is called.
const RECORDER: &str = "the recorder";
/// Rows that name who or what it was.
const MOST_NAMED: usize = 8;
/// Delays between steps have a sentence if they differ by this part of a step.
const WORTH_MENTIONING: f64 = 0.1;
/// Who has less of a difference is not named in a sentence.
const WORTH_NAMING: f64 = 0.2;

/// Something that a step's time was spent on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CauseDiff {
    /// `operators`, `kernel`, `faults`, `reclaim`, `run_queue`, `throttled`, `stopped`, `barrier`, `sleeping`,
    /// `around_operators`, `unknown`.
    pub cause: &'static str,
    /// Wall time, lanes on average, ns a step.
    pub time: ChangeRow,
    /// Part of the phase's difference.
    pub of_difference: Option<f64>,
    /// Share of a step: first, second.
    pub share: [f64; 2],
    /// It depends on what the kernel counted for the whole process, several times a second.
    pub estimate: bool,
    /// Who or what it was, as far as that is known.
    pub because: Vec<BecauseRow>,
}

/// Who or what took time.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct BecauseRow {
    /// `process`, `idle_cpu`, `quota`, `memory_limit`, `memory`, `slowest_lane`.
    pub what: &'static str,
    /// Its name.
    pub name: String,
    /// Its number in each trace, if it is a process.
    pub pids: [Option<u32>; 2],
    /// ns a step, lanes on average, if that is known of each.
    pub ns: [Option<f64>; 2],
}

impl CauseDiff {
    /// As a person reads it.
    pub(super) fn words(&self) -> &'static str {
        match self.cause {
            "operators" => "operators' own time",
            "kernel" => "kernel",
            "faults" => "major faults and disk",
            "reclaim" => "reclaim",
            "run_queue" => "run queue",
            "throttled" => "throttled",
            "stopped" => "stopped",
            "barrier" => "barrier: slowest lane",
            "sleeping" => "sleeping",
            "around_operators" => "around operators",
            _ => "unknown",
        }
    }

    /// Something of it is worth a line.
    pub(super) fn matters(&self) -> bool {
        self.time.is_significant() || self.share.iter().any(|share| *share >= LEAST)
    }

    /// Who or what most of the difference is: `` `sh` (pid 77) ``.
    pub(super) fn who(&self) -> String {
        let difference = |row: &BecauseRow| match row.ns {
            [Some(a), Some(b)] => Some(b - a),
            _ => None,
        };
        let size = self.time.difference;
        let towards = |row: &&BecauseRow| {
            difference(row).is_none_or(|of| of * size > 0.0 && of.abs() >= WORTH_NAMING * size.abs())
        };
        let names: Vec<String> = self.because.iter().filter(towards).take(2).map(BecauseRow::text).collect();
        names.join(" and ")
    }

    fn sentence(&self) -> String {
        let part = self.of_difference.filter(|part| part.abs() < 10.0);
        let part = part.map_or_else(String::new, |part| format!(" ({} of the difference)", share(part)));
        let who = self.who();
        let who = if who.is_empty() { who } else { format!(", because of {who}") };
        let change = signed_time(self.time.difference);
        format!("{}: {change} per step{part}{who}", capital(self.words()))
    }
}

impl BecauseRow {
    fn text(&self) -> String {
        let pid = self.pids[1].or(self.pids[0]);
        match (self.what, pid) {
            ("process", Some(pid)) if self.name != RECORDER => format!("`{}` (pid {pid})", self.name),
            _ => self.name.clone(),
        }
    }
}

pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The causes of a phase, with who or what they are.
pub(super) fn causes(
    changes: &[CauseChange],
    phase: Phase,
    whole: (f64, f64),
    sides: [&DiffSide<'_>; 2],
) -> Vec<CauseDiff> {
    let difference = whole.1 - whole.0;
    let part = |of: f64, whole: f64| if whole > 0.0 { of / whole } else { 0.0 };
    let named: [BTreeMap<&'static str, Vec<Named>>; 2] = sides.map(|side| blame(side, phase));
    let row = |of: &CauseChange| {
        let change = &of.time.change;
        let because = [0, 1].map(|side| named[side].get(of.cause.as_str()).map_or(&[][..], Vec::as_slice));
        CauseDiff {
            cause: of.cause.as_str(),
            time: ChangeRow::judged(&of.time),
            of_difference: (difference != 0.0).then(|| change.difference() / difference),
            share: [part(change.a, whole.0), part(change.b, whole.1)],
            estimate: of.estimate,
            because: join(because),
        }
    };
    changes.iter().map(row).collect()
}

/// Delays between a phase's steps.
pub(super) fn between_steps(phase: Phase, sides: [&DiffSide<'_>; 2]) -> Option<BetweenDiff> {
    let threads = sides.map(|side| ThreadsReport::new(side.meta, side.statistics, side.timeline.catalogue(), &[phase]));
    let [a, b] = &threads;
    let between = [a.as_ref()?.between_steps?, b.as_ref()?.between_steps?];
    let delay_ns = between.map(|of| of.delay_ns() as f64 / of.count.max(1) as f64);
    let [a, b] = delay_ns;
    let longer = usize::from(b > a);
    let most = threads[longer].as_ref()?.interference.iter().max_by_key(|row| row.between_steps_ns);
    let most = most.filter(|row| row.between_steps_ns > between[longer].delay_ns() / 2);
    let because = most.map(|row| match row.recorder {
        true => RECORDER.to_owned(),
        false => format!("`{}` (pid {})", row.title(), row.pid),
    });
    Some(BetweenDiff { delay_ns, because })
}

/// When the results of steps were there that gave work to a device.
pub(super) fn until_results(phase: Phase, sides: [&DiffSide<'_>; 2]) -> Option<[f64; 2]> {
    let of = |side: &DiffSide<'_>| {
        let results = side.statistics.offloads().results(phase)?;
        (results.with_results > 0).then(|| mean(results.until_results, results.with_results))
    };
    let [a, b] = sides.map(of);
    Some([a?, b?])
}

fn results_sentence([a, b]: [f64; 2]) -> String {
    let change = if a > 0.0 { format!(" ({:+.1} %)", (b / a - 1.0) * 100.0) } else { String::new() };
    format!(
        "A step's results were there after {} → {}{change}; it returns before (not tested)",
        time_f64(a),
        time_f64(b)
    )
}

impl BetweenDiff {
    /// Where the delay differs enough.
    fn sentence(&self, step_ns: f64) -> Option<String> {
        let [a, b] = self.delay_ns;
        let who = self.because.as_ref().map_or_else(String::new, |who| format!(", mostly because of {who}"));
        let [from, to] = [time_f64(a), time_f64(b)];
        ((a - b).abs() >= WORTH_MENTIONING * step_ns)
            .then(|| format!("Delays between steps, in no step's time: {from} → {to} per step{who} (not tested)"))
    }
}

/// What someone took in one trace.
#[derive(Debug, Clone)]
struct Named {
    what: &'static str,
    name: String,
    pid: Option<u32>,
    ns: Option<f64>,
}

/// Joins who is named alike.
fn join(sides: [&[Named]; 2]) -> Vec<BecauseRow> {
    let mut rows: Vec<BecauseRow> = Vec::new();
    for (side, named) in sides.into_iter().enumerate() {
        for of in named {
            let same = |row: &&mut BecauseRow| row.what == of.what && row.name == of.name;
            let at = match rows.iter_mut().find(same) {
                Some(row) => row,
                None => {
                    let none = of.ns.map(|_| 0.0);
                    rows.push(BecauseRow { what: of.what, name: of.name.clone(), pids: [None; 2], ns: [none; 2] });
                    let Some(last) = rows.last_mut() else { continue };
                    last
                }
            };
            // The first of a name took most.
            at.pids[side] = at.pids[side].or(of.pid);
            at.ns[side] = at.ns[side].zip(of.ns).map(|(sum, ns)| sum + ns);
        }
    }
    let size = |row: &BecauseRow| match row.ns {
        [Some(a), Some(b)] => (b - a).abs(),
        _ => f64::INFINITY,
    };
    rows.sort_by(|x, y| size(y).total_cmp(&size(x)).then_with(|| x.name.cmp(&y.name)));
    rows.truncate(MOST_NAMED);
    rows
}

/// Who or what took time in a phase of a trace, by cause.
fn blame(side: &DiffSide<'_>, phase: Phase) -> BTreeMap<&'static str, Vec<Named>> {
    let mut found: BTreeMap<&'static str, Vec<Named>> = BTreeMap::new();
    let Some(totals) = side.statistics.phase(phase) else { return found };
    let steps = totals.whole_steps.max(1) as f64 * totals.lanes.max(1) as f64;
    let a_step = |ns: u64| Some(ns as f64 / steps);
    let pressure = PressureReport::new(side.meta, side.statistics, phase);
    let threads = ThreadsReport::new(side.meta, side.statistics, side.timeline.catalogue(), &[phase]);
    if let Some(threads) = threads {
        let of = threads.interference.iter().map(|row| Named {
            what: "process",
            // Its threads have names of their own.
            name: if row.recorder { RECORDER.into() } else { row.title() },
            pid: Some(row.pid),
            ns: a_step(row.taken_ns.saturating_sub(row.between_steps_ns)),
        });
        let mut taken: Vec<Named> = of.collect();
        let idle = threads.lanes.iter().map(|lane| lane.idle_cpu_ns).fold(0, u64::saturating_add);
        if idle > 0 {
            taken.push(Named { what: "idle_cpu", name: "an idle CPU".into(), pid: None, ns: a_step(idle) });
        }
        found.insert(Cause::RunQueue.as_str(), taken);
    }
    let limit = |what, name: String| vec![Named { what, name, pid: None, ns: None }];
    if let Some(quota) = pressure.and_then(|pressure| pressure.cpu_quota) {
        let name = format!("the quota of {quota:.2} CPUs of its control group");
        found.insert(Cause::Throttled.as_str(), limit("quota", name));
    }
    if let Some(most) = pressure.and_then(|pressure| pressure.memory_limit) {
        let name = format!("the memory limit of {} of its control group", bytes(most));
        found.insert(Cause::Reclaim.as_str(), limit("memory_limit", name));
    }
    let parts = side.statistics.faults().parts(&[phase]);
    let memory = parts.iter().filter_map(|of| {
        let name = of.part.as_ref().map(|part| part.owner.name.to_string())?;
        Some(Named { what: "memory", name, pid: None, ns: a_step(of.totals.waited) })
    });
    found.insert(Cause::Faults.as_str(), memory.take(MOST_NAMED).collect());
    let lanes = side.statistics.lanes().filter(|(of, ..)| *of == phase);
    if let Some((_, lane, slowest)) = lanes.max_by_key(|(_, _, totals)| totals.slowest)
        && totals.shared_operators > 0
    {
        let part = share(slowest.slowest as f64 / totals.shared_operators as f64);
        let name = format!("lane {lane}, the slowest in {part} of its operators");
        found.insert(Cause::Barrier.as_str(), limit("slowest_lane", name));
    }
    found
}

/// Why a phase's steps differ: the causes that matter most, then layers unlike the others.
pub(super) fn sentences(phase: &PhaseDiff) -> Vec<String> {
    let mut causes: Vec<&CauseDiff> = phase.causes.iter().filter(|cause| cause.time.is_significant()).collect();
    let towards =
        |cause: &&CauseDiff| phase.time.is_significant() && cause.of_difference.is_some_and(|part| part > 0.0);
    causes.sort_by(|x, y| {
        let size = |cause: &CauseDiff| cause.time.difference.abs();
        towards(y).cmp(&towards(x)).then_with(|| size(y).total_cmp(&size(x)))
    });
    let mut found: Vec<String> = causes.into_iter().take(MOST).map(CauseDiff::sentence).collect();
    if found.is_empty() && phase.time.judgement == "more" {
        // It is most of the difference all the same.
        let largest = phase.causes.iter().max_by(|x, y| x.time.difference.total_cmp(&y.time.difference));
        let largest = largest.filter(|of| of.of_difference.is_some_and(|part| part > 0.5));
        let why = if phase.few { "too few steps to test causes" } else { "steps vary too much to test causes" };
        found.extend(largest.map(|of| format!("{}; {why}", of.sentence())));
    }
    if let [Some(a), Some(b)] = [phase.a.bound, phase.b.bound]
        && a != b
        && (phase.time.is_significant() || !found.is_empty())
    {
        found.push(format!("Limit: {} → {}", a.words(), b.words()));
    }
    let step_ns = phase.time.a.min(phase.time.b);
    found.extend(phase.until_results_ns.map(results_sentence));
    found.extend(phase.between_steps.as_ref().and_then(|between| between.sentence(step_ns)));
    found.extend(phase.layers.iter().filter(|layer| layer.unlike_others.is_some()).take(MOST).map(|layer| {
        let others = layer.unlike_others.map_or_else(String::new, percent);
        let name = layer.layer.as_deref().unwrap_or("none");
        let operator =
            phase.operator_of_layer(layer).map_or_else(String::new, |title| format!("; most of it: {title}"));
        format!(
            "Layer {name} is {}: {}, other layers {others}{operator}",
            layer.time.judgement_text(),
            layer.time.relative_text()
        )
    }));
    found
}
