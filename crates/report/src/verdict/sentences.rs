//! Verdicts as sentences: short, with numbers and their units, and nothing that was not measured.

use super::judge::{Data, NO_REASON, of};
use super::model::{Bound, Confidence, PhaseVerdict, Rates, StatedShare};
use super::phase::{CLOSE, Group, PhaseParts};
use super::stated::Stated;
use crate::functions::Class;
use crate::model::faults::FaultsReport;
use crate::model::pressure::StalledShares;
use crate::model::threads::{InterferenceRow, LaneThreadsRow};
use crate::numbers::units::{bytes, quantity, rate, share, time_f64};
use profinfer_analysis::{Phase, ReclaimTotals, counted, group_digits};

/// A second cause is mentioned from this share of the time on.
const WORTH_MENTIONING: f64 = 0.05;
/// Second causes that are mentioned.
const MOST_BESIDES: usize = 2;
/// An operator type is named if it has at least this part of the time in question.
const WORTH_NAMING: f64 = 0.15;
/// If the named types have at least this part, they stand for all.
const ALL_NAMED: f64 = 0.97;
/// Tracing overhead is mentioned from this part of a step on.
const PROBES_MATTER: f64 = 0.1;

/// A rate that is so many times a limit is reported as more than the limit.
const EXCEEDS: f64 = 1.02;

/// What keeps lanes from working.
const PREVENTED: [Bound; 8] = [
    Bound::Disk,
    Bound::Starved,
    Bound::Throttled,
    Bound::Stopped,
    Bound::Attaching,
    Bound::Reclaim,
    Bound::Kernel,
    Bound::Synchronisation,
];

/// The sentences of a phase.
pub(super) struct Sentences {
    /// What limits it.
    pub(super) main: String,
    /// What else took its time.
    pub(super) besides: Vec<String>,
    /// The shares that are stated of its time.
    pub(super) stated: Vec<StatedShare>,
}

/// The phase's name at the start of a sentence.
fn name(of: &PhaseParts) -> &'static str {
    match of.phase {
        // Without tokens there is neither a prompt nor an answer.
        _ if of.totals.steps_with_tokens == 0 => "The run",
        Phase::Prefill => "Prefill",
        Phase::Decode => "Decode",
        Phase::Run => "The run",
        Phase::Outside => "What lies outside steps",
    }
}

/// The sentences of a phase. `probes`: the estimated overhead of recording a step whole, as a part of it.
pub(super) fn describe(
    of: &PhaseParts,
    verdict: &PhaseVerdict,
    faults: Option<&FaultsReport>,
    probes: Option<f64>,
) -> Sentences {
    let mut stated = Stated::default();
    let mut main = match verdict.bound {
        Bound::Memory => memory(of, verdict, &mut stated),
        Bound::Compute => compute(of, verdict, &mut stated),
        Bound::Overhead => overhead(of, verdict, &mut stated),
        Bound::Unknown => unknown(of, verdict, &mut stated),
        bound => {
            let (is, words) = (is(verdict.confidence), bound.words());
            format!("{} {is} {words}: {}.", name(of), cause(of, verdict, bound, faults, &mut stated))
        }
    };
    let mut others: Vec<Bound> = PREVENTED
        .into_iter()
        .filter(|bound| *bound != verdict.bound && verdict.parts[*bound] >= WORTH_MENTIONING)
        .collect();
    others.sort_by(|a, b| verdict.parts[*b].total_cmp(&verdict.parts[*a]));
    others.truncate(MOST_BESIDES);
    if let Some(other) = verdict.also.filter(|other| !others.contains(other)) {
        main.push_str(&alternative(of, verdict, other, &mut stated));
    }
    // What probes took lies within operators and around them: it is no further part.
    if let Some(probes) = probes.filter(|part| verdict.bound == Bound::Overhead && *part >= PROBES_MATTER) {
        let part = stated.within_others(Bound::Overhead, probes / (1.0 + probes));
        main.push_str(&format!(" About {part} of each recorded step is tracing (estimated), spread over these parts."));
    }
    let mut besides: Vec<String> = Vec::new();
    for bound in others {
        besides.push(capital(&format!("{}.", cause(of, verdict, bound, faults, &mut stated))));
    }
    // What its work is limited by, where something else delays it.
    if PREVENTED.contains(&verdict.bound) {
        let work = [Bound::Memory, Bound::Compute, Bound::Overhead];
        let most = work.into_iter().max_by(|a, b| verdict.parts[*a].total_cmp(&verdict.parts[*b]));
        if let Some(bound) =
            most.filter(|bound| verdict.parts[*bound] >= 2.0 * WORTH_MENTIONING && verdict.also != Some(*bound))
        {
            besides.push(format!(
                "Work takes {} of the time and is {}.",
                stated.part(bound, verdict.parts[bound]),
                bound.words()
            ));
        }
    }
    Sentences { main, besides, stated: stated.into_shares() }
}

/// With a capital letter at its start.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Another part of the time that is nearly as large is another cause; else it is another explanation of the same part.
fn alternative(of: &PhaseParts, verdict: &PhaseVerdict, other: Bound, stated: &mut Stated) -> String {
    if matches!(other, Bound::Memory | Bound::Compute) && verdict.parts[other] < CLOSE * verdict.parts[verdict.bound] {
        return format!(" It may be {} instead.", other.words());
    }
    let part = stated.part(other, verdict.parts[other]);
    match other {
        Bound::Unknown => format!(" The limit of another {part} is unknown."),
        Bound::Overhead => {
            format!(" Another {part} is overhead: operators too small to matter, and time around operators.")
        }
        _ => format!(" Another {part} is {}, in {}.", other.words(), operators(of, other)),
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
    let covered: f64 = named.clone().map(|(_, (_, ns, _))| ns).sum();
    let mut named: Vec<String> = named.map(text).collect();
    if covered < ALL_NAMED * all {
        named.push("others".to_owned());
    }
    match named.as_slice() {
        [first, second, others] => format!("{first}, {second} and {others}"),
        _ => named.join(" and "),
    }
}

fn memory(of_phase: &PhaseParts, verdict: &PhaseVerdict, stated: &mut Stated) -> String {
    let rates = &verdict.rates;
    let speed = match rates.bytes_per_s {
        Some(bytes) if rates.limited_by_cache => {
            let text = of(bytes, rates.bandwidth_limit, "B/s");
            format!(", which moves {}", text.replacen(" of ", " of the last cache's ", 1))
        }
        Some(bytes) => format!(", which moves {}", of_this(bytes, rates.bandwidth_limit, "B/s")),
        None => String::new(),
    };
    let speed = format!("{speed}{}", while_it_runs(verdict));
    format!(
        "{} {} memory-bound: {} of its time is {} {}{speed}.",
        name(of_phase),
        is(verdict.confidence),
        stated.part(Bound::Memory, verdict.parts.memory),
        within(verdict),
        operators(of_phase, Bound::Memory),
    )
}

/// `21.4 of this machine's 24.0 GB/s`. What exceeds a limit shows that the machine can do more than was measured.
fn of_this(value: f64, limit: Option<f64>, unit: &str) -> String {
    match limit {
        Some(limit) if value > EXCEEDS * limit => format!(
            "{}, more than the {} measured as this machine's limit (measure again while it is idle: \
             profinfer roofline --remeasure)",
            quantity(value, unit),
            quantity(limit, unit),
        ),
        Some(_) => of(value, limit, unit).replacen(" of ", " of this machine's ", 1),
        None => quantity(value, unit),
    }
}

/// Rates are of the time in which lanes ran: the sentence adds that where they often did not.
fn while_it_runs(verdict: &PhaseVerdict) -> &'static str {
    let delayed = verdict.parts.starved + verdict.parts.disk;
    if delayed >= WORTH_MENTIONING { " while it runs" } else { "" }
}

/// Where lanes were delayed within operators, these take more time than the work in them.
fn within(verdict: &PhaseVerdict) -> &'static str {
    if while_it_runs(verdict).is_empty() { "in" } else { "work in" }
}

fn compute(of_phase: &PhaseParts, verdict: &PhaseVerdict, stated: &mut Stated) -> String {
    let rates = &verdict.rates;
    let (moved, computed) = (rates.bytes_per_s.unwrap_or(0.0), rates.flops_per_s.unwrap_or(0.0));
    let ridge = rates.peak_limit.zip(rates.bandwidth_limit).map(|(peak, bandwidth)| peak / bandwidth);
    let at = format!("{}{}", of_this(computed, rates.peak_limit, "FLOP/s"), while_it_runs(verdict));
    let why = match (rates.intensity, ridge) {
        (Some(intensity), Some(ridge)) if intensity >= ridge => {
            format!(", at {at}; {} operations per byte: memory is not the limit", rate(intensity))
        }
        (Some(intensity), None) => {
            format!(", at {at}; {} operations per byte: memory is hardly the limit", rate(intensity))
        }
        _ if of_phase.limits.data == Data::Fits => {
            format!(", at {at}; its data fits the caches: memory is not the limit")
        }
        _ if rates.of_bandwidth().is_some_and(|of| of > 0.5) => {
            format!(", at {at}; its data comes from caches too ({})", quantity(moved, "B/s"))
        }
        _ => {
            let moved = of_this(moved, rates.bandwidth_limit, "B/s");
            let computed = of(computed, rates.peak_limit, "FLOP/s");
            let runs = while_it_runs(verdict);
            format!(", which moves only {moved}{runs}: instructions limit it ({computed}), not memory")
        }
    };
    format!(
        "{} {} compute-bound: {} of its time is {} {}{why}.",
        name(of_phase),
        is(verdict.confidence),
        stated.part(Bound::Compute, verdict.parts.compute),
        within(verdict),
        operators(of_phase, Bound::Compute),
    )
}

fn overhead(of: &PhaseParts, verdict: &PhaseVerdict, stated: &mut Stated) -> String {
    let steps = of.steps();
    let operators = of.totals.operators as f64 / steps;
    let each = of.lane_time / of.lanes as f64 / of.totals.operators.max(1) as f64;
    let limits = needed(of).map_or_else(String::new, |ns| {
        let step = of.lane_time / of.lanes as f64 / steps;
        format!("; at this machine's limits a step would take {} instead of {}", time_f64(ns), time_f64(step))
    });
    let start = format!("{} {} overhead-bound", name(of), is(verdict.confidence));
    match mostly_around(of) {
        Some(parts) => {
            let mut places = Vec::new();
            for (ns, place) in parts {
                let of_its_time = if places.is_empty() { " of its time is" } else { "" };
                places.push(format!("{}{of_its_time} {place}", stated.part(Bound::Overhead, of.share_of(ns))));
            }
            format!("{start}: {}.", listed(&places))
        }
        None => format!(
            "{start}: a step has {} operators of {} each; {} of its time is in operators too small to matter and around \
             operators{limits}.",
            group_digits(operators.round() as u64),
            time_f64(each),
            stated.part(Bound::Overhead, verdict.parts.overhead),
        ),
    }
}

/// Time around operators, and time in operators too small to matter: disjoint parts, ns. `None` if the operators have
/// more of it.
fn mostly_around(of: &PhaseParts) -> Option<Vec<(f64, &'static str)>> {
    let small = of.parts.overhead - of.around;
    if of.around <= small {
        return None;
    }
    let matters = |(ns, _): &(f64, &str)| of.share_of(*ns) >= WORTH_MENTIONING / 5.0;
    let around = match of.outside_graphs {
        Some(outside) => vec![(outside, "outside graphs"), (of.around - outside, "around operators within graphs")],
        None => vec![(of.around, "around operators")],
    };
    let small = [(small, "in operators too small to matter")];
    Some(around.into_iter().chain(small).filter(matters).collect())
}

/// `a`, `a and b`, `a, b, and c`.
fn listed(parts: &[String]) -> String {
    match parts {
        [] | [_] => parts.concat(),
        [first, second] => format!("{first} and {second}"),
        [first @ .., last] => format!("{}, and {last}", first.join(", ")),
    }
}

/// What a step needs at the machine's limits, ns: of each operator the longer of its bytes and its operations.
fn needed(of: &PhaseParts) -> Option<f64> {
    let of_group = |group: &Group| {
        let ((flops, bytes), rates) = (group.costs?, group.judged.rates);
        let (bandwidth, peak) = (rates.bandwidth_limit?, rates.peak_limit?);
        Some((bytes / bandwidth).max(flops / peak) * 1e9)
    };
    // What fits the caches does not come from memory: then there is no such limit here.
    if of.limits.data == Data::Fits || of.limits.data == Data::NotKnown {
        return None;
    }
    let all = of.groups.iter().filter_map(of_group).reduce(|a, b| a + b)?;
    Some(all / of.steps())
}

/// What memory was mostly taken back for.
fn reclaimed_for(of: &PhaseParts, limit: &str) -> String {
    let Some(ReclaimTotals { machine, group, compaction, .. }) = of.reclaims else { return String::new() };
    match [machine, group, compaction].into_iter().max() {
        Some(0) | None => String::new(),
        Some(most) if most == group => format!(", for its control group's memory limit{limit}"),
        Some(most) if most == machine => ": the machine has little free memory".to_owned(),
        Some(_) => ", to have free memory in one piece (compaction)".to_owned(),
    }
}

fn unknown(of_phase: &PhaseParts, verdict: &PhaseVerdict, stated: &mut Stated) -> String {
    let (unseen, backends) = &of_phase.unseen;
    let whose = stated.part(Bound::Unknown, verdict.parts.unknown);
    let start = format!("The limit of {} is unknown", name(of_phase).to_lowercase());
    let half = of_phase.parts.unknown / 2.0;
    if *unseen > half {
        let names = backends.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and ");
        let Some(of) = of_phase.offloaded else {
            return format!("{start}: {whose} of its time is in graphs of {names}, whose operators were not recorded.");
        };
        let steps = of_phase.totals.whole_steps.max(1);
        let encoding = time_f64(of.encoding as f64 / steps as f64);
        let operators = counted(of.dispatches / steps, "operator");
        let results = match of.until_results {
            Some(ns) => format!(" and results are there {} after it begins", time_f64(ns)),
            None => String::new(),
        };
        return format!(
            "{start}: {whose} of its time is in graphs of {names}, whose operators run on a device. In each step {operators} \
             are encoded in {encoding}{results}."
        );
    }
    let without_state: f64 = of_phase.groups.iter().map(|group| group.time.unknown).sum();
    if without_state > half {
        return format!("{start}: thread states are missing for {whose} of its time.");
    }
    let operators = operators(of_phase, Bound::Unknown);
    let without_costs = of_phase.groups.iter().filter(|group| group.costs.is_none());
    if without_costs.map(|group| group.parts[Bound::Unknown]).sum::<f64>() > half {
        return format!("{start}: {whose} of its time is in {operators}, most of it without costs in the probeset.");
    }
    let rates = &verdict.rates;
    let what = match rates.bytes_per_s.zip(rates.flops_per_s) {
        Some((moved, computed)) => {
            let at = format!("{} and {}", quantity(moved, "B/s"), quantity(computed, "FLOP/s"));
            match of_phase.limits.data {
                Data::Fits => format!(", at {at}, from caches"),
                _ if near_nothing(rates) => {
                    format!(", at {at}, far below this machine's limits: something else takes the time")
                }
                _ => format!(", at {at}"),
            }
        }
        None => String::new(),
    };
    format!("{start}: {whose} of its time is in {operators}{what}.")
}

/// Neither limit is any reason for the time that it took.
fn near_nothing(rates: &Rates) -> bool {
    let near_none = |of: Option<f64>| of.is_some_and(|of| of < NO_REASON);
    near_none(rates.of_bandwidth()) && near_none(rates.of_peak())
}

/// What a share of the lanes' time was spent on besides work.
fn cause(
    of: &PhaseParts,
    verdict: &PhaseVerdict,
    bound: Bound,
    faults: Option<&FaultsReport>,
    stated: &mut Stated,
) -> String {
    let part = stated.part(bound, verdict.parts[bound]);
    let several = of.lanes > 1;
    let time = if several { "thread time" } else { "its time" };
    let mostly = of.between[bound] > of.parts[bound] / 2.0;
    let place = if mostly { ", mostly between steps" } else { "" };
    match bound {
        Bound::Disk => {
            let or_others = if several { ", or for a thread that does" } else { "" };
            let stalled = stalled(of, |shares| shares.text(shares.io, "input and output"));
            format!("{part} of {time} is waiting for the disk{or_others}{place}{}{stalled}", fetched(of, faults))
        }
        Bound::Throttled => {
            let quota = of.pressure.and_then(|pressure| pressure.cpu_quota);
            let quota = quota.map_or_else(String::new, |cpus| format!(" of {} CPUs", rate(cpus)));
            format!("{part} of {time} it was throttled by the quota{quota} of its control group{place}")
        }
        Bound::Stopped => format!("{part} of {time} it was stopped, by a signal (SIGSTOP) or a debugger{place}"),
        Bound::Attaching => {
            format!("{part} of {time} profinfer itself had stopped it, to place probes in what it had mapped{place}")
        }
        Bound::Reclaim => {
            let pressure = of.pressure.unwrap_or_default();
            let stalled = stalled(of, |shares| shares.text(shares.memory, "memory"));
            let limit = pressure.memory_limit.map_or_else(String::new, |limit| format!(" of {}", bytes(limit)));
            if !of.limit_reached {
                let why = reclaimed_for(of, &limit);
                return format!(
                    "{part} of {time} the kernel takes memory back or moves it together (measured){why}{stalled}"
                );
            }
            let measured = verdict.reclaim_measured.map(|part| stated.within_others(Bound::Reclaim, part));
            let how = measured.map_or_else(|| "estimated".to_owned(), |part| format!("{part} in reclaim, measured"));
            format!(
                "{part} of {time} the kernel evicts and reads again ({how}): its control group has a memory limit{limit}, \
                 and {} were read again{stalled}",
                bytes(pressure.refaulted_bytes as u64),
            )
        }
        Bound::Kernel => format!("{part} of {time} the kernel works within operators{}", kernel_work(of)),
        Bound::Starved => {
            let or_waiting = if several { ", or waiting at barriers because of it" } else { "" };
            let who = delayed_by(of).map_or_else(String::new, |who| format!(": {who}"));
            format!("{part} of {time} is run-queue delay{or_waiting}{place}{who}")
        }
        _ => {
            let slowest = of.slowest.filter(|(_, part)| *part >= 0.6 && several);
            let which = slowest.map(|(lane, part)| format!(" (lane {lane} in {} of operators)", share(part)));
            let waiting = if several { "waiting for the slowest thread" } else { "sleep" };
            format!("{part} of {time} is {waiting}{}", which.unwrap_or_default())
        }
    }
}

/// What the kernel's pressure stall information adds.
fn stalled(of: &PhaseParts, text: impl Fn(&StalledShares) -> Option<String>) -> String {
    let stalled = of.pressure.and_then(|pressure| pressure.stalled);
    stalled.as_ref().and_then(text).map_or_else(String::new, |text| format!("; {text}"))
}

/// What the kernel did, by most of its samples.
fn kernel_work(of: &PhaseParts) -> String {
    let Some(counts) = &of.sampled else { return String::new() };
    let class = if counts.of(Class::Fault) >= counts.of(Class::Kernel) { Class::Fault } else { Class::Kernel };
    let function = counts.most(class).map_or("", |(function, _)| function);
    let what = if class == Class::Fault { "page faults" } else { "system calls or interrupts" };
    format!(", mostly on {what} (`{function}`)")
}

/// ` (12 major faults, 4.00 MiB read)`.
fn fetched(of: &PhaseParts, faults: Option<&FaultsReport>) -> String {
    let row = faults.and_then(|faults| faults.phases.iter().find(|row| row.phase == of.phase.as_str()));
    let faults = row.and_then(|row| row.fetched.faults).filter(|faults| *faults > 0);
    let read = row.and_then(|row| row.fetched.bytes).filter(|read| *read > 0);
    let faults = faults.map(|faults| counted(faults, "major fault"));
    let parts: Vec<String> = faults.into_iter().chain(read.map(|read| format!("{} read", bytes(read)))).collect();
    if parts.is_empty() { " (uninterruptible wait)".to_owned() } else { format!(" ({})", parts.join(", ")) }
}

/// Who ran instead.
fn delayed_by(of: &PhaseParts) -> Option<String> {
    let threads = of.threads.as_ref()?;
    if let Some(over) = threads.oversubscribed {
        let cpus = if over.cpus.fract() == 0.0 { format!("{:.0}", over.cpus) } else { format!("{:.1}", over.cpus) };
        let plural = if cpus == "1" { "" } else { "s" };
        return Some(format!("{} lanes share {cpus} CPU{plural}", over.lanes));
    }
    let others: Vec<&InterferenceRow> = threads.interference.iter().filter(|row| !row.is_lanes()).collect();
    let all: f64 = others.iter().map(|row| row.share).sum();
    let own: f64 = threads.interference.iter().filter(|row| row.is_lanes()).map(|row| row.share).sum();
    if own > all {
        let who = if of.lanes > 1 {
            "its own threads ran on each other's CPUs"
        } else {
            "other threads of its own ran instead"
        };
        return Some(who.to_owned());
    }
    let most = others.first().filter(|row| row.share >= 0.01)?;
    if most.share >= 0.5 * all {
        return Some(ran_instead(most, of));
    }
    Some(format!("{} ran on {}", processes(&others), if of.lanes > 1 { "their CPUs" } else { "its CPU" }))
}

/// `` `a`, `b` and 3 more processes ``: the largest first.
pub(super) fn processes(rows: &[&InterferenceRow]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.process.as_str()) {
            names.push(&row.process);
        }
    }
    let named: Vec<String> = names.iter().take(2).map(|name| format!("`{name}`")).collect();
    match names.len() - named.len() {
        0 => named.join(" and "),
        1 => format!("{} and 1 more process", named.join(", ")),
        more => format!("{} and {more} more processes", named.join(", ")),
    }
}

/// ``lane 1 shared CPU 1 with `sh` (pid 12)``.
fn ran_instead(row: &InterferenceRow, of: &PhaseParts) -> String {
    let most = row.lanes.iter().max_by_key(|from| from.taken_ns).and_then(|from| from.lane);
    // One that ran only between steps took nothing from a lane.
    let most = most.or_else(|| of.threads.as_ref()?.lanes.iter().find_map(|row| row.lane));
    let lane = most.and_then(|lane| of.threads.as_ref()?.lanes.iter().find(|row| row.lane == Some(lane)));
    let process = match row.recorder {
        true => format!("the recorder (`{}`)", row.process),
        false if row.child => format!("`{}` (pid {}, a child of the target)", row.process, row.pid),
        false => format!("`{}` (pid {})", row.process, row.pid),
    };
    match (lane.and_then(LaneThreadsRow::main_cpu), most) {
        (Some(cpu), Some(lane)) if of.lanes > 1 => format!("lane {lane} shared CPU {cpu} with {process}"),
        (Some(cpu), _) => format!("{process} ran on its CPU {cpu}"),
        _ => format!("{process} ran instead"),
    }
}
