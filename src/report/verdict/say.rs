//! Verdicts in words: short, with numbers and their units, and nothing that was not measured.

use super::gather::{CLOSE, Group, PhaseParts};
use super::judge::{Data, NO_REASON, of};
use super::model::{Bound, Confidence, PhaseVerdict, Rates, StatedShare};
use super::stated::Stated;
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
/// From this part on, what is named is taken for all.
const ALL_NAMED: f64 = 0.97;
/// What the probes themselves took is said from this part on.
const PROBES_MATTER: f64 = 0.1;

/// What is said of a phase.
pub(super) struct Said {
    /// What limits it.
    pub(super) main: String,
    /// What else took its time.
    pub(super) besides: Vec<String>,
    /// The shares that are stated of its time.
    pub(super) stated: Vec<StatedShare>,
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
    let mut stated = Stated::default();
    let mut main = match verdict.bound {
        Bound::Memory => memory(of, verdict, &mut stated),
        Bound::Compute => compute(of, verdict, &mut stated),
        Bound::Overhead => overhead(of, verdict, &mut stated),
        Bound::Unknown => unknown(of, verdict, &mut stated),
        bound => {
            let (is, words) = (is(verdict.confidence), bound.words());
            format!("{} {is} {words}: {}.", name(of.phase), cause(of, verdict, bound, faults, &mut stated))
        }
    };
    let mut others: Vec<Bound> = [Bound::Disk, Bound::Starved, Bound::Synchronisation]
        .into_iter()
        .filter(|bound| *bound != verdict.bound && verdict.parts[*bound] >= WORTH_SAYING)
        .collect();
    others.sort_by(|a, b| verdict.parts[*b].total_cmp(&verdict.parts[*a]));
    others.truncate(MOST_BESIDES);
    if let Some(other) = verdict.also.filter(|other| !others.contains(other)) {
        main.push_str(&alternative(of, verdict, other, &mut stated));
    }
    // What probes took lies within operators and around them: it is no further part.
    if let Some(probes) = probes.filter(|part| verdict.bound == Bound::Overhead && *part >= PROBES_MATTER) {
        let part = stated.within_others(Bound::Overhead, probes / (1.0 + probes));
        main.push_str(&format!(" About {part} of a step, spread over all of this, is the recording itself."));
    }
    let mut besides: Vec<String> = Vec::new();
    for bound in others {
        besides.push(capital(&format!("{}.", cause(of, verdict, bound, faults, &mut stated))));
    }
    // What its work is limited by, where something else kept the lanes from it.
    if let Bound::Disk | Bound::Starved | Bound::Synchronisation = verdict.bound {
        let work = [Bound::Memory, Bound::Compute, Bound::Overhead];
        let most = work.into_iter().max_by(|a, b| verdict.parts[*a].total_cmp(&verdict.parts[*b]));
        if let Some(bound) =
            most.filter(|bound| verdict.parts[*bound] >= 2.0 * WORTH_SAYING && verdict.also != Some(*bound))
        {
            besides.push(format!(
                "Its work itself, {} of the time, is {}.",
                stated.part(bound, verdict.parts[bound]),
                bound.words()
            ));
        }
    }
    Said { main, besides, stated: stated.into_shares() }
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
        Bound::Unknown => format!(" What limits another {part} is not known."),
        Bound::Overhead => format!(" Another {part} is in operators too small to matter and around operators."),
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
    let speed = rates
        .bytes_per_s
        .map_or_else(String::new, |bytes| format!(", which moves {}", of_this(bytes, rates.bandwidth_limit, "B/s")));
    let speed = format!("{speed}{}", while_it_runs(verdict));
    format!(
        "{} {} memory-bound: {} of its time is {} {}{speed}.",
        name(of_phase.phase),
        is(verdict.confidence),
        stated.part(Bound::Memory, verdict.parts.memory),
        within(verdict),
        operators(of_phase, Bound::Memory),
    )
}

/// `21.4 of this machine's 24.0 GB/s`.
fn of_this(value: f64, limit: Option<f64>, unit: &str) -> String {
    let text = of(value, limit, unit);
    if limit.is_some() { text.replacen(" of ", " of this machine's ", 1) } else { text }
}

/// Rates are of the time in which lanes ran: that is said where they often did not.
fn while_it_runs(verdict: &PhaseVerdict) -> &'static str {
    let kept = verdict.parts.starved + verdict.parts.disk;
    if kept >= WORTH_SAYING { " while it runs" } else { "" }
}

/// Where lanes were kept from running within operators, these take more time than the work in them.
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
            format!(", at {at}; with {} operations for each byte, memory is not what limits it", rate(intensity))
        }
        (Some(intensity), None) => {
            format!(", at {at}; with {} operations for each byte, memory hardly limits it", rate(intensity))
        }
        _ if of_phase.data == Data::Fits => {
            format!(", at {at}; what it reads fits the caches, so memory is not what limits it")
        }
        _ if rates.of_bandwidth().is_some_and(|of| of > 0.5) => {
            format!(", at {at}; its data comes out of caches too ({})", quantity(moved, "B/s"))
        }
        _ => {
            let moved = of_this(moved, rates.bandwidth_limit, "B/s");
            let computed = of(computed, rates.peak_limit, "FLOP/s");
            let runs = while_it_runs(verdict);
            format!(", which moves only {moved}{runs}: its instructions take the time ({computed}), not memory")
        }
    };
    format!(
        "{} {} compute-bound: {} of its time is {} {}{why}.",
        name(of_phase.phase),
        is(verdict.confidence),
        stated.part(Bound::Compute, verdict.parts.compute),
        within(verdict),
        operators(of_phase, Bound::Compute),
    )
}

fn overhead(of: &PhaseParts, verdict: &PhaseVerdict, stated: &mut Stated) -> String {
    let steps = of.totals.whole_steps.max(1) as f64;
    let operators = of.totals.operators as f64 / steps;
    let each = of.lane_time / of.lanes as f64 / of.totals.operators.max(1) as f64;
    let limits = needed(of).map_or_else(String::new, |ns| {
        let step = of.lane_time / of.lanes as f64 / steps;
        format!("; at this machine's limits a step would take {} instead of {}", time_f64(ns), time_f64(step))
    });
    let start = format!("{} {} overhead-bound", name(of.phase), is(verdict.confidence));
    match mostly_around(of) {
        Some(parts) => {
            let mut said = Vec::new();
            for (ns, place) in parts {
                let of_its_time = if said.is_empty() { " of its time is" } else { "" };
                said.push(format!("{}{of_its_time} {place}", stated.part(Bound::Overhead, of.share_of(ns))));
            }
            format!("{start}: {}.", listed(&said))
        }
        None => format!(
            "{start}: a step is {} operators of {} each, and {} of its time is in those too small to matter and around \
             operators{limits}.",
            group_digits(operators.round() as u64),
            time_f64(each),
            stated.part(Bound::Overhead, verdict.parts.overhead),
        ),
    }
}

/// What lies around operators, and what is in those too small to matter: parts that have nothing in common, ns. `None`
/// where the operators have more of it.
fn mostly_around(of: &PhaseParts) -> Option<Vec<(f64, &'static str)>> {
    let small = of.parts.overhead - of.around;
    if of.around <= small {
        return None;
    }
    let matters = |(ns, _): &(f64, &str)| of.share_of(*ns) >= WORTH_SAYING / 5.0;
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
    if of.data == Data::Fits || of.data == Data::NotKnown {
        return None;
    }
    let all = of.groups.iter().filter_map(of_group).reduce(|a, b| a + b)?;
    Some(all / of.totals.whole_steps.max(1) as f64)
}

fn unknown(of_phase: &PhaseParts, verdict: &PhaseVerdict, stated: &mut Stated) -> String {
    let (unseen, backends) = &of_phase.unseen;
    let whose = stated.part(Bound::Unknown, verdict.parts.unknown);
    let start = format!("What limits {} is not known", name(of_phase.phase).to_lowercase());
    let half = of_phase.parts.unknown / 2.0;
    if *unseen > half {
        let names = backends.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and ");
        return format!(
            "{start}: for {whose} of its time graphs of {names} were computed, whose operators were not recorded."
        );
    }
    let untold: f64 = of_phase.groups.iter().map(|group| group.time.unknown).sum();
    if untold > half {
        return format!("{start}: for {whose} of its time the trace does not tell whether its lanes ran.");
    }
    let rates = &verdict.rates;
    let what = match rates.bytes_per_s.zip(rates.flops_per_s) {
        Some((moved, computed)) => {
            let at = format!("{} and {}", quantity(moved, "B/s"), quantity(computed, "FLOP/s"));
            match of_phase.data {
                Data::Fits => format!(", at {at}, out of caches"),
                _ if near_nothing(rates) => {
                    format!(", at {at}, far below what this machine can do: something else takes the time")
                }
                _ => format!(", at {at}"),
            }
        }
        None => String::new(),
    };
    format!("{start}: {whose} of its time is in {}{what}.", operators(of_phase, Bound::Unknown))
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
    match bound {
        Bound::Disk => {
            let waited =
                if several { "its lanes waited for the disk, or for one that did" } else { "it waited for the disk" };
            format!("for {part} of the time {waited}{}", fetched(of, faults))
        }
        Bound::Starved => {
            let kept = if several {
                "its lanes were kept from running, or waited for one that was"
            } else {
                "it was kept from running"
            };
            match kept_by(of) {
                Some(who) => format!("for {part} of the time {kept}: {who}"),
                None => format!("for {part} of the time {kept}"),
            }
        }
        _ => {
            let slowest = of.slowest.filter(|(_, part)| *part >= 0.6 && several);
            let which = slowest.map(|(lane, part)| format!(", which is lane {lane} in {} of operators", share(part)));
            let waited = if several { "wait for the slowest" } else { "sleep" };
            format!("its {} {waited} {part} of the time{}", lanes(of.lanes), which.unwrap_or_default())
        }
    }
}

fn lanes(n: u64) -> String {
    if n == 1 { "lane".to_owned() } else { format!("{} lanes", group_digits(n)) }
}

/// ` (12 major faults, 4.00 MiB read)`.
fn fetched(of: &PhaseParts, faults: Option<&FaultsReport>) -> String {
    let row = faults.and_then(|faults| faults.phases.iter().find(|row| row.phase == of.phase.as_str()));
    let faults = row.and_then(|row| row.fetched.faults).filter(|faults| *faults > 0);
    let read = row.and_then(|row| row.fetched.bytes).filter(|read| *read > 0);
    let faults = faults.map(|faults| counted(faults, "major fault"));
    let parts: Vec<String> = faults.into_iter().chain(read.map(|read| format!("{} read", bytes(read)))).collect();
    if parts.is_empty() { " (as blocked threads mostly do)".to_owned() } else { format!(" ({})", parts.join(", ")) }
}

/// Who ran instead.
fn kept_by(of: &PhaseParts) -> Option<String> {
    let threads = of.threads.as_ref()?;
    if let Some(over) = threads.oversubscribed {
        let cpus = if over.cpus.fract() == 0.0 { format!("{:.0}", over.cpus) } else { format!("{:.1}", over.cpus) };
        let plural = if cpus == "1" { "" } else { "s" };
        return Some(format!("{} lanes share {cpus} cpu{plural}", over.lanes));
    }
    let others: Vec<&InterferenceRow> = threads.interference.iter().filter(|row| !row.own).collect();
    let all: f64 = others.iter().map(|row| row.share).sum();
    let most = others.first().filter(|row| row.share >= 0.01)?;
    if most.share >= 0.5 * all {
        return Some(ran_instead(most, of));
    }
    Some(format!("{} ran on {}", processes(&others), if of.lanes > 1 { "their cpus" } else { "its cpu" }))
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
        1 => format!("{} and another process", named.join(", ")),
        more => format!("{} and {more} more processes", named.join(", ")),
    }
}

/// ``lane 1 shared cpu 1 with `sh` (pid 12)``.
fn ran_instead(row: &InterferenceRow, of: &PhaseParts) -> String {
    let most = row.lanes.iter().max_by_key(|from| from.taken_ns).and_then(|from| from.lane);
    let lane = most.and_then(|lane| of.threads.as_ref()?.lanes.iter().find(|row| row.lane == Some(lane)));
    let process = match row.recorder {
        true => format!("the recording itself (`{}`)", row.process),
        false => format!("`{}` (pid {})", row.process, row.pid),
    };
    match (lane.and_then(LaneThreadsRow::main_cpu), most) {
        (Some(cpu), Some(lane)) if of.lanes > 1 => format!("lane {lane} shared cpu {cpu} with {process}"),
        (Some(cpu), _) => format!("{process} ran on its cpu {cpu}"),
        _ => format!("{process} ran instead"),
    }
}
