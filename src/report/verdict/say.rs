//! Verdicts in words: short, with numbers and their units, and nothing that was not measured.

use super::gather::{Group, PhaseParts};
use super::judge::{Data, of};
use super::model::{Bound, Confidence, PhaseVerdict};
use crate::analysis::{Phase, counted, group_digits};
use crate::report::faults::FaultsReport;
use crate::report::threads::{InterferenceRow, LaneThreadsRow};
use crate::report::units::{bytes, quantity, rate, share, time_f64};

/// A second cause is said from this share of the time on.
const WORTH_SAYING: f64 = 0.05;
/// Second causes that are said.
const MOST_BESIDES: usize = 2;
/// An operator type is named from this part of what it is named for on.
const WORTH_NAMING: f64 = 0.15;
/// What the probes themselves took is said from this part on.
const PROBES_MATTER: f64 = 0.1;

/// What is said of a phase.
pub(super) struct Said {
    /// What limits it.
    pub(super) main: String,
    /// What else took its time.
    pub(super) besides: Vec<String>,
}

/// The phase's name at the start of a sentence.
fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::Prefill => "Prefill",
        Phase::Decode => "Decode",
        Phase::Outside => "What lies outside steps",
    }
}

/// Says it. `probes`: what recording a step whole added to it, as reckoned.
pub(super) fn say(of: &PhaseParts, verdict: &PhaseVerdict, faults: Option<&FaultsReport>, probes: Option<f64>) -> Said {
    let mut main = match verdict.bound {
        Bound::Memory => memory(of, verdict),
        Bound::Compute => compute(of, verdict),
        Bound::Overhead => overhead(of, verdict, probes),
        Bound::Unknown => unknown(of, verdict),
        Bound::Disk | Bound::Starved | Bound::Synchronisation => {
            let why = cause(of, verdict, verdict.bound, faults);
            let whose = share(verdict.parts[verdict.bound]);
            match verdict.bound {
                Bound::Starved => {
                    format!("{} is starved: for {whose} of its lanes' time {why}.", name(of.phase))
                }
                bound => format!("{} is {}: for {whose} of its lanes' time {why}.", name(of.phase), bound.words()),
            }
        }
    };
    if let Some(other) = verdict.also.filter(|other| *other != Bound::Unknown) {
        main.push_str(&alternative(verdict, other));
    }
    let mut others: Vec<Bound> = [Bound::Disk, Bound::Starved, Bound::Synchronisation]
        .into_iter()
        .filter(|bound| *bound != verdict.bound && verdict.parts[*bound] >= WORTH_SAYING)
        .collect();
    others.sort_by(|a, b| verdict.parts[*b].total_cmp(&verdict.parts[*a]));
    let besides = others.into_iter().take(MOST_BESIDES).map(|bound| {
        format!("For {} of its lanes' time {}.", share(verdict.parts[bound]), cause(of, verdict, bound, faults))
    });
    Said { main, besides: besides.collect() }
}

fn alternative(verdict: &PhaseVerdict, other: Bound) -> String {
    // A second part of the time is another cause; where a part is as large, it is another explanation of the same.
    if verdict.parts[other] >= WORTH_SAYING {
        let nearly = share(verdict.parts[other]);
        format!(" It is nearly as much {}: {nearly} of its time.", other.words())
    } else {
        format!(" It may be {} instead.", other.words())
    }
}

/// `is`, or `is probably`.
fn is(confidence: Confidence) -> &'static str {
    if confidence == Confidence::Low { "is probably" } else { "is" }
}

/// `MUL_MAT (7 per layer)`, and a second type where it matters as much.
fn operators(of: &PhaseParts, bound: Bound) -> String {
    let mut types: Vec<(&str, f64, Vec<&Group>)> = Vec::new();
    for group in of.limited(bound) {
        match types.iter_mut().find(|(op, ..)| *op == &*group.op) {
            Some((_, ns, groups)) => {
                *ns += group.parts[bound];
                groups.push(group);
            }
            None => types.push((&group.op, group.parts[bound], vec![group])),
        }
    }
    types.sort_by(|a, b| b.1.total_cmp(&a.1));
    let all: f64 = types.iter().map(|(_, ns, _)| ns).sum();
    let named = types.iter().enumerate().filter(|(at, (_, ns, _))| *at == 0 || *ns >= WORTH_NAMING * all).take(2);
    let text = |(_, (op, _, groups)): (usize, &(&str, f64, Vec<&Group>))| {
        let per_layer = groups.iter().filter(|group| group.layers > 1).count();
        if per_layer > 0 { format!("{op} ({per_layer} per layer)") } else { (*op).to_owned() }
    };
    let named: Vec<String> = named.map(text).collect();
    named.join(" and ")
}

fn memory(of_phase: &PhaseParts, verdict: &PhaseVerdict) -> String {
    let rates = &verdict.rates;
    let speed = rates.bytes_per_s.map_or_else(String::new, |bytes| {
        format!(", which moved {} that this machine's memory delivers", of(bytes, rates.bandwidth_limit, "B/s"))
    });
    format!(
        "{} {} memory-bound: {} of its time is in {}{speed}.",
        name(of_phase.phase),
        is(verdict.confidence),
        share(verdict.parts.memory),
        operators(of_phase, Bound::Memory),
    )
}

fn compute(of_phase: &PhaseParts, verdict: &PhaseVerdict) -> String {
    let rates = &verdict.rates;
    let computed = rates.flops_per_s.map_or_else(String::new, |flops| {
        let of_peak =
            rates.of_peak().map_or("", |of| if of < 0.3 { ", far below what this machine can do" } else { "" });
        format!(" at {}{of_peak}", of(flops, rates.peak_limit, "FLOP/s"))
    });
    let ridge = rates.peak_limit.zip(rates.bandwidth_limit).map(|(peak, bandwidth)| peak / bandwidth);
    let why = match (rates.intensity, ridge) {
        (Some(intensity), Some(ridge)) if intensity >= ridge => {
            format!("; it does {} operations for each byte, more than memory is too slow for", rate(intensity))
        }
        (Some(intensity), None) => format!("; it does {} operations for each byte", rate(intensity)),
        _ if of_phase.data == Data::Fits => {
            "; what it reads fits the caches, so memory is not what limits it".to_owned()
        }
        _ => rates.bytes_per_s.map_or_else(String::new, |bytes| {
            format!("; memory is not what limits it, of which it uses {}", of(bytes, rates.bandwidth_limit, "B/s"))
        }),
    };
    format!(
        "{} {} compute-bound: {} of its time is in {}{computed}{why}.",
        name(of_phase.phase),
        is(verdict.confidence),
        share(verdict.parts.compute),
        operators(of_phase, Bound::Compute),
    )
}

fn overhead(of: &PhaseParts, verdict: &PhaseVerdict, probes: Option<f64>) -> String {
    let steps = of.totals.whole_steps.max(1) as f64;
    let operators = of.totals.operators as f64 / steps;
    let each = of.lane_time / of.lanes as f64 / of.totals.operators.max(1) as f64;
    let limits = needed(of).map_or_else(String::new, |ns| {
        let step = of.lane_time / of.lanes as f64 / steps;
        format!("; at this machine's limits a step would take {} instead of {}", time_f64(ns), time_f64(step))
    });
    let probes = probes.filter(|part| *part >= PROBES_MATTER).map_or_else(String::new, |part| {
        format!(" About {} of a step is the recording itself.", share(part / (1.0 + part)))
    });
    format!(
        "{} {} overhead-bound: a step is {} operators of {} each, and {} of its time goes into handing them out, into \
         operators that are too small, and between them{limits}.{probes}",
        name(of.phase),
        is(verdict.confidence),
        group_digits(operators.round() as u64),
        time_f64(each),
        share(verdict.parts.overhead),
    )
}

/// What a step needs at the machine's limits, ns: of each operator the longer of its bytes and its operations.
fn needed(of: &PhaseParts) -> Option<f64> {
    let of_group = |group: &Group| {
        let ((flops, bytes), rates) = (group.costs?, group.judged.rates);
        let (bandwidth, peak) = (rates.bandwidth_limit?, rates.peak_limit?);
        Some((bytes / bandwidth).max(flops / peak) * 1e9)
    };
    // What fits the caches does not come from memory: then there is no such limit here.
    if of.data == Data::Fits || of.data == Data::NotKnown {
        return None;
    }
    let all = of.groups.iter().filter_map(of_group).reduce(|a, b| a + b)?;
    Some(all / of.totals.whole_steps.max(1) as f64)
}

fn unknown(of_phase: &PhaseParts, verdict: &PhaseVerdict) -> String {
    let (unseen, backends) = &of_phase.unseen;
    let whose = share(verdict.parts.unknown);
    let start = format!("What limits {} is not known", name(of_phase.phase).to_lowercase());
    if *unseen > of_phase.parts.unknown / 2.0 {
        let names = backends.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and ");
        return format!(
            "{start}: for {whose} of its time graphs of {names} were computed, whose operators were not recorded."
        );
    }
    let rates = &verdict.rates;
    let what = match rates.bytes_per_s.zip(rates.flops_per_s) {
        Some((moved, computed)) => {
            let at = format!("{} and {}", quantity(moved, "B/s"), quantity(computed, "FLOP/s"));
            match of_phase.data {
                Data::Fits => format!(", at {at}, out of caches"),
                _ => format!(", at {at}"),
            }
        }
        None => String::new(),
    };
    format!("{start}: {whose} of its time is in {}{what}.", operators(of_phase, Bound::Unknown))
}

/// `lanes wait for …`: what a share of the lanes' time was spent on.
fn cause(of: &PhaseParts, verdict: &PhaseVerdict, bound: Bound, faults: Option<&FaultsReport>) -> String {
    match bound {
        Bound::Disk => disk(of, faults),
        Bound::Starved => starved(of),
        _ => synchronisation(of, verdict),
    }
}

fn disk(of: &PhaseParts, faults: Option<&FaultsReport>) -> String {
    let together =
        if of.lanes > 1 { "lanes waited for the disk, or for one that did" } else { "it waited for the disk" };
    let row = faults.and_then(|faults| faults.phases.iter().find(|row| row.phase == of.phase.as_str()));
    let Some(row) = row else { return format!("{} (as blocked threads mostly do)", together) };
    let mut parts = Vec::new();
    if let Some(faults) = row.fetched.faults.filter(|faults| *faults > 0) {
        parts.push(counted(faults, "major fault"));
    }
    if let Some(read) = row.fetched.bytes.filter(|read| *read > 0) {
        parts.push(format!("{} read", bytes(read)));
    }
    if parts.is_empty() {
        return format!("{} (as blocked threads mostly do)", together);
    }
    format!("{together} ({})", parts.join(", "))
}

fn starved(of: &PhaseParts) -> String {
    let who = of.threads.as_ref().and_then(|threads| match threads.oversubscribed {
        Some(over) => Some(format!("{} lanes shared {} cpus", over.lanes, rate_of(over.cpus))),
        None => threads.interference.iter().find(|row| !row.own && row.share >= 0.01).map(|row| ran_instead(row, of)),
    });
    let could = if of.lanes > 1 {
        "lanes could have run and did not, or waited for one that did not"
    } else {
        "it could have run and did not"
    };
    match who {
        Some(who) => format!("{could}: {who}"),
        None => could.to_owned(),
    }
}

fn rate_of(cpus: f64) -> String {
    if cpus.fract() == 0.0 { format!("{cpus:.0}") } else { format!("{cpus:.1}") }
}

/// ``lane 1 shared cpu 1 with `sh` (pid 12)``.
fn ran_instead(row: &InterferenceRow, of: &PhaseParts) -> String {
    let most = row.lanes.iter().max_by_key(|from| from.taken_ns).and_then(|from| from.lane);
    let lane = most.and_then(|lane| of.threads.as_ref()?.lanes.iter().find(|row| row.lane == Some(lane)));
    let process = format!("`{}` (pid {})", row.process, row.pid);
    match (lane.and_then(LaneThreadsRow::main_cpu), most) {
        (Some(cpu), Some(lane)) if of.lanes > 1 => format!("lane {lane} shared cpu {cpu} with {process}"),
        (Some(cpu), _) => format!("{process} ran on its cpu {cpu}"),
        _ => format!("{process} ran instead"),
    }
}

fn synchronisation(of: &PhaseParts, verdict: &PhaseVerdict) -> String {
    let _ = verdict;
    let slowest = of.slowest.filter(|(_, part)| *part >= 0.6);
    let lanes = format!("{} lanes wait for the slowest", of.lanes);
    match slowest {
        Some((lane, part)) => format!("{lanes}, which is lane {lane} in {} of operators", share(part)),
        None => lanes,
    }
}
