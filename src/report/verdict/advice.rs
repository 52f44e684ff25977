//! What would help, and by how much at most. Each gain is worked out of what was recorded, and says how.

use super::gather::{Group, PhaseParts};
use super::model::{Advice, Bound, PhaseVerdict};
use crate::analysis::{PhaseFacts, Rules};
use crate::report::faults::FaultsReport;
use crate::report::units::{bytes, rate, share, time_f64};
use std::collections::BTreeMap;

/// Less is not worth doing anything.
const WORTH_DOING: f64 = 0.03;

/// All advice of a phase, that with the largest gain first.
pub(super) fn advise(
    of: &PhaseParts,
    verdict: &PhaseVerdict,
    rules: &Rules,
    faults: Option<&FaultsReport>,
    (machine_cpus, others): (u32, &str),
) -> Vec<Advice> {
    let mut all = Vec::new();
    all.extend(fewer_lanes(of, machine_cpus));
    all.extend(own_cpus(of, verdict, others));
    all.extend(smaller_weights(of, verdict, rules));
    all.extend(more_memory(of, verdict, faults));
    all.extend(one_lane(of, verdict));
    all.extend(of_the_probeset(of, verdict, rules, machine_cpus));
    all.retain(|advice| advice.gain_at_most >= WORTH_DOING);
    all.sort_by(|a, b| b.gain_at_most.total_cmp(&a.gain_at_most));
    all
}

fn advice(of: &PhaseParts, what: String, gain_at_most: f64, how: String) -> Advice {
    Advice { phase: of.phase.as_str(), what, gain_at_most: gain_at_most.clamp(0.0, 1.0), how }
}

/// A cpu for each lane: the same work, and nobody in its way.
fn fewer_lanes(of: &PhaseParts, machine_cpus: u32) -> Option<Advice> {
    let over = of.threads.as_ref()?.oversubscribed?;
    let lanes = of.lanes as f64;
    // Lanes that may run on more cpus than they did need not be fewer.
    let had = over.cpus.floor().max(1.0);
    let cpus = if over.by == "used" { f64::from(machine_cpus).min(lanes).max(had) } else { had };
    let work: f64 = of.groups.iter().map(|group| group.time.running + group.time.unknown).sum();
    let outside = of.totals.outside_graphs.saturating_add(of.totals.outside_operators) as f64 / lanes;
    let (now, then) = (of.lane_time / lanes, work / cpus + outside);
    let count = |n: f64, what: &str| if n <= 1.0 { format!("1 {what}") } else { format!("{n:.0} {what}s") };
    let what = if cpus > had {
        format!("Pin its {} to cpus of their own: they ran on {}", count(lanes, "thread"), count(had, "cpu"))
    } else {
        format!("Use {} instead of {}: as many as it has cpus", count(cpus, "thread"), over.lanes)
    };
    let how = format!("its operators' {} of work, spread evenly over {}", time_f64(work), count(cpus, "cpu"));
    Some(advice(of, what, 1.0 - then / now, how))
}

/// Cpus that others leave alone.
fn own_cpus(of: &PhaseParts, verdict: &PhaseVerdict, others: &str) -> Option<Advice> {
    let threads = of.threads.as_ref()?;
    if threads.oversubscribed.is_some() {
        return None;
    }
    let taken =
        threads.interference.iter().filter(|row| row.is_other()).map(|row| row.taken_ns).fold(0, u64::saturating_add);
    let kept: u64 = threads.lanes.iter().map(|lane| lane.runnable_ns).fold(0, u64::saturating_add);
    let part = if kept > 0 { (taken as f64 / kept as f64).min(1.0) } else { 0.0 };
    let migrations: u64 = threads.lanes.iter().map(|lane| lane.migrations).sum();
    let moved = if migrations > 1 { format!("; its threads changed cpu {migrations} times") } else { String::new() };
    let what = format!("Give it cpus of its own, away from {others}: pin threads apart, or end what need not run");
    let how = format!("the time that they kept lanes from running, and others waiting{moved}");
    Some(advice(of, what, part * verdict.parts.starved, how))
}

/// What the bytes of memory-bound weights would be in a type of half the size.
fn smaller_weights(of: &PhaseParts, verdict: &PhaseVerdict, rules: &Rules) -> Option<Advice> {
    if verdict.parts.memory < WORTH_DOING {
        return None;
    }
    // By type: the lane time that its weights' bytes stand for.
    let mut saved: BTreeMap<u16, (f64, f64)> = BTreeMap::new();
    for group in of.limited(Bound::Memory) {
        let Some((_, all)) = group.costs.filter(|(_, bytes)| *bytes > 0.0) else { continue };
        for (dtype, bytes) in &group.weights {
            let sum = saved.entry(*dtype).or_default();
            sum.0 += group.parts.memory * (bytes / all).min(1.0);
            sum.1 += bytes;
        }
    }
    let (dtype, (time, weights)) = saved.into_iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
    let (name, size) = rules.dtype(dtype)?;
    let (smaller, smaller_size) = rules.half_of(size)?;
    let part = smaller_size / size;
    let step = weights / of.totals.whole_steps.max(1) as f64;
    let what = format!("Keep the weights in {smaller} instead of {name}");
    let how = format!(
        "{} of weights a step would be {}, and reading them takes {} of the time",
        bytes(step as u64),
        bytes((step * part) as u64),
        share(time / of.lane_time)
    );
    Some(advice(of, what, (1.0 - part) * time / of.lane_time, how))
}

fn more_memory(of: &PhaseParts, verdict: &PhaseVerdict, faults: Option<&FaultsReport>) -> Option<Advice> {
    let faults = faults?;
    let row = faults.phases.iter().find(|row| row.phase == of.phase.as_str())?;
    row.fetched.faults.filter(|faults| *faults > 0)?;
    let of_experts =
        faults.tensors.iter().filter(|row| row.expert.is_some()).filter_map(|row| row.waited_ns).sum::<u64>();
    let of_all = faults.tensors.iter().filter_map(|row| row.waited_ns).sum::<u64>();
    let whose = if of_experts > of_all / 2 { "experts" } else { "model" };
    let what =
        format!("Have the {whose} in memory: read the file before it runs, free memory for it, or lock it there");
    let read = row.fetched.bytes.map_or_else(String::new, |read| format!("; {} were read", bytes(read)));
    let how = format!("the time in which lanes waited for the disk, or for one that did{read}");
    Some(advice(of, what, verdict.parts.disk, how))
}

/// Operators that are too small are not worth sharing.
fn one_lane(of: &PhaseParts, verdict: &PhaseVerdict) -> Option<Advice> {
    if of.lanes < 2
        || verdict.bound != Bound::Overhead
        || of.threads.as_ref().is_some_and(|t| t.oversubscribed.is_some())
    {
        return None;
    }
    let waiting: f64 = of.groups.iter().filter(|group| group.judged.bound == Bound::Overhead).map(waiting).sum();
    let what = format!("Try fewer threads than {}: its operators are too small to be shared", of.lanes);
    let how = "the time that lanes wait for each other in such operators; a single lane waits for none".to_owned();
    Some(advice(of, what, waiting / of.lane_time, how))
}

fn waiting(group: &Group) -> f64 {
    group.time.waiting
}

fn of_the_probeset(of: &PhaseParts, verdict: &PhaseVerdict, rules: &Rules, cpus: u32) -> Vec<Advice> {
    let part = verdict.parts[verdict.bound];
    let facts = PhaseFacts {
        phase: of.phase.as_str(),
        bound: verdict.bound.as_str(),
        share: part,
        of_bandwidth: verdict.rates.of_bandwidth(),
        of_peak: verdict.rates.of_peak(),
        lanes: of.lanes,
        cpus,
    };
    // What the limit itself leaves to be had; where there is no limit, no gain can be told.
    let limit = match verdict.bound {
        Bound::Compute => verdict.rates.of_peak().zip(verdict.rates.peak_limit.map(|limit| (limit, "FLOP/s"))),
        Bound::Memory => verdict.rates.of_bandwidth().zip(verdict.rates.bandwidth_limit.map(|limit| (limit, "B/s"))),
        _ => None,
    };
    let Some((used, (limit, unit))) = limit else { return Vec::new() };
    let found = rules.advice().iter().filter(|advice| advice.applies(&facts));
    let how = format!("the {} of its time at {} G{unit} instead, the machine's limit", share(part), rate(limit / 1e9));
    found.map(|one| advice(of, one.say.clone(), part * (1.0 - used), how.clone())).collect()
}
