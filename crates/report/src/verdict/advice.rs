//! Advice, each with its largest possible gain and how that was computed from the recording.

use super::judge::Data;
use super::model::{Advice, Bound, PhaseVerdict, Rates};
use super::phase::{Group, PhaseParts};
use super::sampled;
use crate::functions::{Class, ClassCounts};
use crate::model::faults::FaultsReport;
use crate::model::threads::{InterferenceRow, ThreadsReport};
use crate::numbers::ratios::ratio;
use crate::numbers::units::{bytes, quantity, rate, share, time_f64};
use profinfer_analysis::{PhaseFacts, Rules, group_digits};
use std::collections::BTreeMap;

/// A bound that is more than this multiple of what the recording shows says little.
const MOST_SPREAD: f64 = 2.0;
/// Less is not worth doing anything.
const WORTH_DOING: f64 = 0.03;

/// All advice of a phase: first what removes the cause that the verdict names, then the rest; each by gain.
pub(super) fn advise(
    of: &PhaseParts,
    verdict: &PhaseVerdict,
    rules: &Rules,
    faults: Option<&FaultsReport>,
    (machine_cpus, others): (u32, &str),
) -> Vec<Advice> {
    let mut all: Vec<(Bound, Advice)> = Vec::new();
    let on = |bound: Bound| move |advice: Advice| (bound, advice);
    all.extend(fewer_lanes(of, machine_cpus).map(on(Bound::Starved)));
    all.extend(reserved_cpus(of, verdict, others).map(on(Bound::Starved)));
    all.extend(own_threads(of, verdict).map(on(Bound::Starved)));
    all.extend(smaller_weights(of, verdict, rules).map(on(Bound::Memory)));
    all.extend(more_memory(of, verdict, faults).map(on(Bound::Disk)));
    all.push((Bound::Throttled, larger_quota(of, verdict)));
    all.push((Bound::Stopped, nothing_that_stops(of, verdict)));
    all.push((Bound::Attaching, recorded_later(of, verdict)));
    all.push((Bound::Reclaim, larger_memory_limit(of, verdict)));
    all.extend(one_lane(of, verdict).map(on(Bound::Overhead)));
    all.extend(by_samples(of).into_iter().map(on(Bound::Kernel)));
    all.extend(of_the_probeset(of, verdict, rules, machine_cpus).into_iter().map(on(verdict.bound)));
    let gain = |advice: &Advice| advice.gain_at_most.unwrap_or(advice.gain_as_recorded);
    // What removes the cause is worth knowing where nobody can say how much it gains.
    let is_remedy = |bound: Bound, advice: &Advice| bound == verdict.bound && advice.gain_at_most.is_none();
    all.retain(|(bound, advice)| gain(advice) >= WORTH_DOING || is_remedy(*bound, advice));
    all.sort_by(|(a_bound, a), (b_bound, b)| {
        let others = |bound: &Bound| *bound != verdict.bound;
        others(a_bound).cmp(&others(b_bound)).then_with(|| gain(b).total_cmp(&gain(a)))
    });
    all.into_iter().map(|(_, advice)| advice).collect()
}

fn advice(of: &PhaseParts, what: String, gain_at_most: f64, how: String) -> Advice {
    advice_between(of, what, [gain_at_most; 2], how)
}

/// Advice that saves so much if all else stays as recorded, and at most so much if data then stays in caches.
fn advice_between(of: &PhaseParts, what: String, gains: [f64; 2], how: String) -> Advice {
    let [gain_as_recorded, most] = gains.map(|gain| gain.max(0.0));
    let gain_at_most = (most <= MOST_SPREAD * gain_as_recorded).then_some(most.min(1.0));
    let gain_as_recorded = gain_as_recorded.min(1.0);
    let phase = of.phase.as_str();
    let steps = if of.totals.steps_with_tokens == 0 { "runs" } else { phase };
    Advice { phase, steps, what, gain_at_most, gain_as_recorded, how }
}

/// What a group's work takes if each operator takes the least that one of its kind took, ns.
fn least(group: &Group) -> f64 {
    group.least_ns.min(group.time.work())
}

/// The same where nothing replaces its data in the caches: data that nearly fits them may stay there then.
fn undisturbed(of: &PhaseParts, group: &Group) -> f64 {
    let at_cache_limit = match group.judged.rates.bytes_per_s.zip(of.limits.cache_bandwidth) {
        Some((bytes, limit)) if of.limits.data == Data::Partly && group.judged.bound == Bound::Memory => bytes / limit,
        _ => 1.0,
    };
    least(group) * at_cache_limit.min(1.0)
}

/// What a group's work takes at least, ns, at the limits of the machine or as the least of its kind did, if that is less.
fn at_limits(of: &PhaseParts, group: &Group) -> f64 {
    undisturbed(of, group).min(group.time.work() * group.judged.rates.of_limits())
}

/// How often data is read until the last cache has it again. One that takes what others drop, and is shared with other
/// machines, keeps data that is read repeatedly: 52 MB took 18 ms where memory gives 12 GB/s (Sapphire Rapids).
const READS_UNTIL_CACHED: f64 = 4.0;

/// The most that work took longer because others ran in between, as a part of the lanes' time: each time at most what
/// filling the caches takes.
fn cold_caches(of: &PhaseParts) -> f64 {
    let beyond: f64 = of.groups.iter().map(|group| (group.time.work() - undisturbed(of, group)).max(0.0)).sum();
    let lanes = of.threads.iter().flat_map(|threads| &threads.lanes);
    let times: u64 = lanes.map(|lane| lane.involuntary_switches).sum();
    let filling = of.limits.caches.zip(of.limits.bandwidth).map_or(0.0, |(caches, bandwidth)| caches * 1e9 / bandwidth);
    of.share_of(beyond.min(times as f64 * READS_UNTIL_CACHED * filling))
}

/// The gain without what kept lanes from running for this part of the time, and what it is at most: unknown where most
/// work has no costs, and so no limit.
fn without(of: &PhaseParts, part: f64) -> [f64; 2] {
    let work = |group: &Group| group.time.work();
    let costed = of.groups.iter().filter(|group| group.judged.rates.bytes_per_s.is_some());
    let most_has_costs = 2.0 * costed.map(work).sum::<f64>() >= of.groups.iter().map(work).sum();
    let most = match part {
        0.0 => 0.0,
        _ if most_has_costs => part + cold_caches(of),
        _ => f64::INFINITY,
    };
    [part, most]
}

/// A CPU for each lane: the same work without run-queue delay.
fn fewer_lanes(of: &PhaseParts, machine_cpus: u32) -> Option<Advice> {
    let over = of.threads.as_ref()?.oversubscribed?;
    let lanes = of.lanes as f64;
    // Lanes that may run on more cpus than they did need not be fewer.
    let had = over.cpus.floor().max(1.0);
    let cpus = if over.by == "used" { f64::from(machine_cpus).min(lanes).max(had) } else { had };
    let work: f64 = of.groups.iter().map(|group| group.time.work()).sum();
    // Lanes that take turns on a CPU find its caches cold: the recording need not show how fast they are without.
    let fastest: f64 = of.groups.iter().map(|group| at_limits(of, group)).sum();
    let now = of.lane_time / lanes;
    let gain = |work: f64| (1.0 - (work / cpus + of.around / lanes) / now) * of.share_of(of.lane_time);
    let count = |n: f64, what: &str| if n <= 1.0 { format!("1 {what}") } else { format!("{n:.0} {what}s") };
    let what = if cpus > had {
        format!("Pin its {} to separate CPUs: they ran on {}", count(lanes, "thread"), count(had, "CPU"))
    } else {
        format!("Use {} instead of {}: one per CPU", count(cpus, "thread"), over.lanes)
    };
    let how = format!("at least {} of operator work, spread evenly over {}", time_f64(fastest), count(cpus, "CPU"));
    Some(advice_between(of, what, [gain(work), gain(fastest)], how))
}

/// The part of the lanes' run-queue delay in which such processes ran.
fn part_of_delay(threads: &ThreadsReport, which: fn(&InterferenceRow) -> bool) -> f64 {
    let rows = threads.interference.iter().filter(|row| which(row));
    let taken = rows.map(|row| row.taken_ns).fold(0, u64::saturating_add);
    let between = threads.between_steps.map_or(0, |between| between.runnable_ns);
    let delay = threads.lanes.iter().map(|lane| lane.runnable_ns).fold(between, u64::saturating_add);
    ratio(taken, delay).min(1.0)
}

/// Threads of the target that are no lanes, such as those of a pool that spins, on the CPU of the only lane.
fn own_threads(of: &PhaseParts, verdict: &PhaseVerdict) -> Option<Advice> {
    let threads = of.threads.as_ref().filter(|_| of.lanes == 1)?;
    let part = part_of_delay(threads, InterferenceRow::is_lanes);
    let what = "Use fewer threads, or a CPU for each: its own threads take turns".to_owned();
    let how = "run-queue delay caused by other threads of its own, and work on caches that they used".to_owned();
    Some(advice_between(of, what, without(of, verdict.parts.starved).map(|gain| part * gain), how))
}

/// CPUs that no other process uses.
fn reserved_cpus(of: &PhaseParts, verdict: &PhaseVerdict, others: &str) -> Option<Advice> {
    let threads = of.threads.as_ref()?;
    if threads.oversubscribed.is_some() {
        return None;
    }
    let part = part_of_delay(threads, InterferenceRow::is_other);
    let migrations: u64 = threads.lanes.iter().map(|lane| lane.migrations).sum();
    let migrated = if migrations > 1 { format!("; {migrations} migrations of its threads") } else { String::new() };
    let what = format!("Reserve CPUs for it (taskset, cpuset): {others} used them too");
    let how = format!(
        "run-queue delay caused by other processes, waiting because of it, and work on caches that they used{migrated}"
    );
    Some(advice_between(of, what, without(of, verdict.parts.starved).map(|gain| part * gain), how))
}

/// What memory-bound weights would take in a type of half the size: no less than at the bandwidth that they then have.
fn smaller_weights(of: &PhaseParts, verdict: &PhaseVerdict, rules: &Rules) -> Option<Advice> {
    if verdict.parts.memory < WORTH_DOING {
        return None;
    }
    // By type: bytes, and the lane time that they stand for.
    let mut types: BTreeMap<u16, (f64, f64)> = BTreeMap::new();
    for group in of.limited(Bound::Memory) {
        let Some((_, all)) = group.costs.filter(|(_, bytes)| *bytes > 0.0) else { continue };
        for (dtype, bytes) in &group.weights {
            let sum = types.entry(*dtype).or_default();
            sum.0 += bytes;
            sum.1 += group.parts.memory * (bytes / all).min(1.0);
        }
    }
    let (dtype, (weights, _)) = types.into_iter().max_by(|a, b| a.1.1.total_cmp(&b.1.1))?;
    let (name, size) = rules.dtype(dtype)?;
    let (smaller, smaller_size) = rules.half_of(size)?;
    let part = smaller_size / size;
    let (now, then) = (weights / of.steps(), weights * part / of.steps());
    let moved = of.bytes_per_step.map(|all| (all - now + then).max(0.0));
    let data = Data::new(moved, of.limits.caches);
    let fits = data == Data::Fits;
    let limit = |rates: &Rates| if fits { of.limits.cache_bandwidth } else { rates.bandwidth_limit };
    let saved_at = |limit: &dyn Fn(&Rates) -> Option<f64>| {
        let of_group = |group: &Group| {
            let Some(((_, all), of_type)) = group.costs.zip(group.weights.get(&dtype)) else { return 0.0 };
            let rates = &group.judged.rates;
            let used = rates.bytes_per_s.zip(limit(rates)).map_or(1.0, |(bytes, limit)| (bytes / limit).min(1.0));
            group.parts.memory * (1.0 - used * (1.0 - (1.0 - part) * (of_type / all).min(1.0)))
        };
        of.share_of(of.limited(Bound::Memory).map(of_group).sum())
    };
    // Data that nearly fits the caches may stay there then.
    let at_most = if data == Data::Partly { saved_at(&|_| of.limits.cache_bandwidth) } else { 0.0 };
    let saved = saved_at(&limit);
    let level = match data {
        _ if fits || verdict.rates.limited_by_cache => ", the last cache's limit",
        Data::Partly => ", this machine's limit, or faster from the last cache",
        _ => ", this machine's limit",
    };
    let what = format!("Use {smaller} weights instead of {name}");
    let how = format!(
        "weights read per step drop from {} to {}, read at no more than {}{level}",
        bytes(now as u64),
        bytes(then as u64),
        limit(&verdict.rates).map_or_else(String::new, |limit| quantity(limit, "B/s"))
    );
    Some(advice_between(of, what, [saved, at_most.max(saved)], how))
}

fn more_memory(of: &PhaseParts, verdict: &PhaseVerdict, faults: Option<&FaultsReport>) -> Option<Advice> {
    let faults = faults?;
    let row = faults.phases.iter().find(|row| row.phase == of.phase.as_str())?;
    row.fetched.faults.filter(|faults| *faults > 0)?;
    let of_experts =
        faults.tensors.iter().filter(|row| row.expert.is_some()).filter_map(|row| row.waited_ns).sum::<u64>();
    let of_all = faults.tensors.iter().filter_map(|row| row.waited_ns).sum::<u64>();
    let whose = if of_experts > of_all / 2 { "experts" } else { "model" };
    let what = format!("Keep the {whose} in memory: preload the file, free memory for it, or lock it (mlock)");
    let read = row.fetched.bytes.map_or_else(String::new, |read| format!("; {} read", bytes(read)));
    let how = format!("time waiting for the disk, or for a thread that does{read}");
    Some(advice(of, what, verdict.parts.disk, how))
}

fn larger_quota(of: &PhaseParts, verdict: &PhaseVerdict) -> Advice {
    let quota = of.pressure.unwrap_or_default().cpu_quota;
    let quota = quota.map_or_else(String::new, |cpus| format!(" ({} CPUs)", rate(cpus)));
    advice_between(
        of,
        format!("Raise the CPU quota of its control group{quota}"),
        without(of, verdict.parts.throttled),
        "time that it was throttled, and work on caches that others used meanwhile".to_owned(),
    )
}

fn nothing_that_stops(of: &PhaseParts, verdict: &PhaseVerdict) -> Advice {
    let what = "Find what stops it: SIGSTOP, a debugger, a frozen terminal job".to_owned();
    advice(of, what, verdict.parts.stopped, "time that it was stopped".to_owned())
}

fn recorded_later(of: &PhaseParts, verdict: &PhaseVerdict) -> Advice {
    let what = "Record the process once it has loaded its libraries, or leave out the steps that load them".to_owned();
    advice(of, what, verdict.parts.attaching, "time that profinfer had stopped it".to_owned())
}

fn larger_memory_limit(of: &PhaseParts, verdict: &PhaseVerdict) -> Advice {
    let limit = of.pressure.unwrap_or_default().memory_limit;
    let limit = limit.map_or_else(String::new, |limit| format!(" ({})", bytes(limit)));
    let needed = of.bytes_per_step.map_or_else(String::new, |moved| format!("; a step moves {}", bytes(moved as u64)));
    let what = match of.reclaims {
        Some(of_kinds) if !of.limit_reached && of_kinds.group < of_kinds.ns / 2 => {
            "Free memory on the machine, or use a smaller model".to_owned()
        }
        _ => format!("Raise the memory limit of its control group{limit}, or use a smaller model"),
    };
    let how = format!("time in the kernel, and waiting for the disk{needed}; what it maps anew is slower to read");
    let most = if verdict.parts.reclaim > 0.0 { verdict.parts.reclaim + below_limits(of) } else { 0.0 };
    advice_between(of, what, [verdict.parts.reclaim, most], how)
}

/// What work takes longer than at the machine's limits, as a part of the lanes' time.
fn below_limits(of: &PhaseParts) -> f64 {
    let of_group = |group: &Group| (group.parts.memory + group.parts.compute) * (1.0 - group.judged.rates.of_limits());
    of.share_of(of.groups.iter().map(of_group).sum())
}

/// What functions of the kernel and of the system do within operators: as much as the upper end of their interval.
fn by_samples(of: &PhaseParts) -> Vec<Advice> {
    let Some(counts) = &of.sampled else { return Vec::new() };
    // What spins is among the waiting.
    let spinning = ratio(counts.of(Class::Wait), counts.all()).min(0.95);
    let without: f64 = of.groups.iter().map(|group| group.time.running + group.time.kernel).sum();
    let on_cpu = without / (1.0 - spinning);
    let classes = sampled::classes(counts);
    let of_class = |class: Class, what: String, time: f64| {
        let row = classes.classes.iter().find(|row| row.what == class.as_str() && sampled::is_certain(row))?;
        let how = format!(
            "{} of {} samples in operators, most in `{}`",
            sampled::interval(row.interval),
            group_digits(classes.samples),
            row.function
        );
        Some(advice(of, what, row.interval[1] * of.share_of(time), how))
    };
    let faults = "Have its memory mapped before it computes: preload it, reuse buffers, or use huge pages".to_owned();
    let copies = "Avoid copying and filling memory within operators".to_owned();
    [of_class(Class::Fault, faults, on_cpu), of_class(Class::Copy, copies, on_cpu)].into_iter().flatten().collect()
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
    let what = format!("Try fewer than {} threads: its operators are too small to share", of.lanes);
    let how = "time that threads wait for each other in such operators; a single thread does not wait".to_owned();
    Some(advice(of, what, of.share_of(waiting), how))
}

fn waiting(group: &Group) -> f64 {
    group.time.waiting
}

fn of_the_probeset(of: &PhaseParts, verdict: &PhaseVerdict, rules: &Rules, cpus: u32) -> Vec<Advice> {
    let part = verdict.parts[verdict.bound];
    let mut types: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for group in of.limited(verdict.bound) {
        let backend = group.backend.as_deref().unwrap_or_default();
        *types.entry((&group.op, backend)).or_default() += of.share_of(group.parts[verdict.bound]);
    }
    let most = types.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let ((op, backend), of_op) = most.unwrap_or_default();
    let facts = PhaseFacts {
        op,
        backend,
        function: of.sampled.as_ref().and_then(ClassCounts::main).unwrap_or_default(),
        phase: of.phase.as_str(),
        bound: verdict.bound.as_str(),
        share: part,
        of_bandwidth: verdict.rates.of_bandwidth(),
        of_peak: verdict.rates.of_peak(),
        lanes: of.lanes,
        cpus,
    };
    // What the limit leaves to gain; without a limit no gain can be computed.
    let limit = match verdict.bound {
        Bound::Compute => verdict.rates.of_peak().zip(verdict.rates.peak_limit.map(|limit| (limit, "FLOP/s"))),
        Bound::Memory => verdict.rates.of_bandwidth().zip(verdict.rates.bandwidth_limit.map(|limit| (limit, "B/s"))),
        _ => None,
    };
    let Some((used, (limit, unit))) = limit else { return Vec::new() };
    let found = rules.advice().iter().filter(|advice| advice.applies(&facts));
    // Advice on an operator type changes nothing else.
    found
        .map(|one| {
            let part = if one.names_op() { of_op } else { part };
            let how = format!("{} of its time at the machine's limit of {} G{unit}", share(part), rate(limit / 1e9));
            advice(of, one.action.clone(), part * (1.0 - used), how)
        })
        .collect()
}
