//! What limits the work of an operator while its lanes run, from its times, its costs and the machine's limits. It is
//! pure arithmetic; what prevented lanes from running is `parts.rs`'s.

use super::model::{Bound, Confidence, NOISE, Rates};
use crate::numbers::units::{quantity, rate, share, time_f64};

/// From this part of a limit on, it is what limits.
const AT_LIMIT: f64 = 0.5;
/// From this part on, nothing else need be thought of.
const NEAR_LIMIT: f64 = 0.7;
/// Below this part of the bandwidth, it is not what limits.
const FAR_FROM_LIMIT: f64 = 0.33;
/// Below this part of every limit, neither is any reason for the time that it took.
pub(super) const NO_REASON: f64 = 0.01;
/// Below this part of every limit, what a small operator does is not what takes its time.
const FAR_BELOW: f64 = 0.05;
/// So many times as long as one that is too small, an operator may still be that.
const MANY_TIMES_TOO_SMALL: f64 = 8.0;
/// Faster than memory by more than the measurement's noise: it came out of caches.
const FASTER_THAN_MEMORY: f64 = NOISE;
/// Operations for each byte that no memory is too slow for, whatever the machine.
const MANY_OPERATIONS: f64 = 100.0;
/// Data of this part of the caches stays there, beside what else is used. What is read in turn, and is a little more
/// than what stays, is mostly replaced before it is read again.
const FITS: f64 = 0.75;
/// From this part of stalled cycles on, it is memory that is waited for.
const STALLED: f64 = 0.5;

/// Whether what a step moves fits the caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Data {
    /// It does, and leaves some for other data.
    Fits,
    /// It is no more than twice as large: a part of it stays.
    Partly,
    /// It does not.
    Exceeds,
    /// Its size, or the caches', was not found.
    #[default]
    NotKnown,
}

impl Data {
    /// Whether data of that many bytes fits caches of that size.
    pub(super) fn new(bytes: Option<f64>, caches: Option<f64>) -> Self {
        match (bytes, caches) {
            (Some(bytes), Some(caches)) if bytes <= FITS * caches => Self::Fits,
            (Some(bytes), Some(caches)) if bytes <= 2.0 * caches => Self::Partly,
            (Some(_), Some(_)) => Self::Exceeds,
            _ => Self::NotKnown,
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::Partly => "partly",
            Self::Exceeds => "exceeds",
            Self::NotKnown => "not_known",
        }
    }
}

/// What operators did, all of a kind together.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Work {
    /// How many.
    pub(super) count: u64,
    /// From the first lane's start to the last lane's end of work, summed, while lanes ran: what it would be if all of
    /// them had.
    pub(super) ran_ns: f64,
    /// The same of those that have costs.
    pub(super) costed_ns: f64,
    /// Their operations and bytes; `None` where there are none.
    pub(super) costs: Option<(f64, f64)>,
    /// The part of `costed_ns` in which lanes have no recorded state.
    pub(super) unknown: f64,
    /// These are of the most experts that could be used.
    pub(super) at_most: bool,
    /// Cycles in which nothing could be done for want of data, by all cycles, where they were counted.
    pub(super) stalled: Option<f64>,
    /// Bytes a second that were counted to come from memory.
    pub(super) counted: Option<f64>,
}

/// What the machine can do at most with as many processors, and the other facts about all operators.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Limits {
    /// Bytes a second out of memory.
    pub(super) bandwidth: Option<f64>,
    /// The same with all processors.
    pub(super) bandwidth_of_all: Option<f64>,
    /// The same out of the last cache.
    pub(super) cache_bandwidth: Option<f64>,
    /// Operations a second.
    pub(super) peak: Option<f64>,
    /// Bytes in which data stays in the last caches, all together.
    pub(super) caches: Option<f64>,
    /// Whether data fits the caches.
    pub(super) data: Data,
    /// It is more than the caches before the last ones hold: what comes out of caches comes out of the last ones.
    pub(super) exceeds_inner_caches: bool,
    /// An operator that takes no longer than this is too small to matter.
    pub(super) too_small_ns: f64,
    /// The part of its time that the machine's host took.
    pub(super) stolen: f64,
}

/// What limits it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Judged {
    pub(super) bound: Bound,
    pub(super) confidence: Confidence,
    pub(super) also: Option<Bound>,
    pub(super) rates: Rates,
    pub(super) why: String,
}

impl Judged {
    /// Of operators that a device computes: what the host takes to give them to it.
    pub(super) fn of_the_host() -> Self {
        let why = "it gave its work to a device: this is the host's part".to_owned();
        Self { bound: Bound::Overhead, confidence: Confidence::Medium, also: None, rates: Rates::default(), why }
    }
}

/// Judges.
pub(super) fn judge(work: &Work, limits: &Limits) -> Judged {
    let mut rates = rates(work, limits);
    let (bound, confidence, also, why) = decide(work, limits, &mut rates);
    // What a host takes is in every time: the rates are lower than they would be.
    let stolen = u32::from(limits.stolen >= 0.05) + u32::from(limits.stolen >= 0.2);
    let unknown = u32::from(work.unknown >= 0.1) + u32::from(work.unknown >= 0.5);
    let confidence = confidence.lowered(stolen + unknown + u32::from(work.at_most));
    Judged { bound, confidence, also, rates, why }
}

fn rates(work: &Work, limits: &Limits) -> Rates {
    let by_time = |amount: f64| (work.costed_ns > 0.0).then(|| amount * 1e9 / work.costed_ns);
    Rates {
        bytes_per_s: work.costs.and_then(|(_, bytes)| by_time(bytes)),
        flops_per_s: work.costs.and_then(|(flops, _)| by_time(flops)),
        intensity: work.costs.filter(|(_, bytes)| *bytes > 0.0).map(|(flops, bytes)| flops / bytes),
        bandwidth_limit: limits.bandwidth,
        peak_limit: limits.peak,
        limited_by_cache: false,
    }
}

type Decision = (Bound, Confidence, Option<Bound>, String);

/// Where the last cache is what limits, the rates get its bandwidth as their limit.
fn decide(work: &Work, limits: &Limits, rates: &mut Rates) -> Decision {
    use Bound::{Compute, Memory, Overhead, Unknown};
    use Confidence::{High, Low, Medium};
    let mean = work.ran_ns / work.count.max(1) as f64;
    // What fits the caches is not at the memory's limit, however fast it is.
    let bandwidth = if limits.data == Data::Fits { limits.cache_bandwidth } else { limits.bandwidth };
    let moved = rates.bytes_per_s.zip(bandwidth).map_or(0.0, |(bytes, limit)| bytes / limit);
    let needed = moved.max(rates.of_peak().unwrap_or(0.0));
    if mean <= limits.too_small_ns && needed < AT_LIMIT {
        let sure = if mean <= limits.too_small_ns / 3.0 { High } else { Medium };
        return (Overhead, sure, None, format!("{} each: too small to matter", time_f64(mean)));
    }
    let (Some(bytes_per_s), Some(flops_per_s)) = (rates.bytes_per_s, rates.flops_per_s) else {
        return (Unknown, Low, None, "the probeset has no cost for it".to_owned());
    };
    if bytes_per_s == 0.0 && flops_per_s == 0.0 {
        return (Overhead, Medium, None, "it has nothing to compute and to move itself".to_owned());
    }
    let intensity = rates.intensity.unwrap_or(f64::INFINITY);
    let (Some(of_bandwidth), Some(of_peak)) = (rates.of_bandwidth(), rates.of_peak()) else {
        if intensity >= MANY_OPERATIONS {
            let why = format!("{} operations per byte, too many for memory to be the limit", rate(intensity));
            return (Compute, Low, None, why);
        }
        let why = format!("it moved {}; this machine's limits were not measured", quantity(bytes_per_s, "B/s"));
        return (Unknown, Low, None, why);
    };
    let bandwidth = of(bytes_per_s, limits.bandwidth, "B/s");
    let peak = of(flops_per_s, limits.peak, "FLOP/s");
    if let Some(counted) = work.counted.zip(limits.bandwidth).map(|(counted, limit)| counted / limit)
        && counted >= AT_LIMIT
    {
        let sure = if counted >= NEAR_LIMIT { High } else { Medium };
        return (Memory, sure, None, format!("counted: {} of the memory's bandwidth", share(counted)));
    }
    if of_peak >= AT_LIMIT {
        return (Compute, High, None, format!("it computed {peak}"));
    }
    let ridge = limits.peak.unwrap_or(0.0) / limits.bandwidth.unwrap_or(f64::INFINITY);
    if intensity >= ridge {
        let why = format!("{} operations per byte; it computed {peak}", rate(intensity));
        return (Compute, Medium, None, why);
    }
    if limits.data == Data::Fits && mean <= MANY_TIMES_TOO_SMALL * limits.too_small_ns && needed < FAR_BELOW {
        let why = format!("{} each, far below every limit: starting and ending it takes most of it", time_f64(mean));
        return (Overhead, Low, None, why);
    }
    if of_bandwidth < NO_REASON && of_peak < NO_REASON && work.stalled.is_none_or(|stalled| stalled < STALLED) {
        let why = format!("it moved only {bandwidth}, and computed only {peak}: something else took the time");
        return (Unknown, Low, None, why);
    }
    // Engines have threads beside those that show as lanes: then the limit is that of all processors.
    let of_all = limits.bandwidth_of_all.filter(|_| limits.data == Data::Exceeds).map(|limit| bytes_per_s / limit);
    if let Some(of_all) = of_all.filter(|of_all| of_bandwidth > FASTER_THAN_MEMORY && *of_all >= AT_LIMIT)
        && of_all <= FASTER_THAN_MEMORY
    {
        let moved = of(bytes_per_s, limits.bandwidth_of_all, "B/s");
        return (Memory, Medium, None, format!("it moved {moved}, which memory delivers to all CPUs"));
    }
    let from_caches = of_bandwidth > FASTER_THAN_MEMORY;
    if limits.data == Data::Fits || from_caches {
        let fits =
            if from_caches { "its data comes out of caches, faster than memory" } else { "its data fits the caches" };
        return match limits.cache_bandwidth.map(|limit| bytes_per_s / limit) {
            // What is faster comes out of the caches before.
            Some(of_cache) if limits.exceeds_inner_caches && (AT_LIMIT..=FASTER_THAN_MEMORY).contains(&of_cache) => {
                (rates.bandwidth_limit, rates.limited_by_cache) = (limits.cache_bandwidth, true);
                let why = format!("{fits}, at {} of the last one's bandwidth", share(of_cache));
                let sure = if of_cache >= NEAR_LIMIT && limits.data == Data::Fits { Medium } else { Low };
                (Memory, sure, (of_cache < 0.6).then_some(Compute), why)
            }
            Some(of_cache) if of_cache >= AT_LIMIT => {
                let why = format!("{fits}, at {} of the last one's bandwidth; it computed {peak}", share(of_cache));
                (Unknown, Low, None, why)
            }
            _ => (Compute, Low, None, format!("{fits}; it computed {peak}")),
        };
    }
    if of_bandwidth >= AT_LIMIT {
        let sure = if of_bandwidth >= NEAR_LIMIT { High } else { Medium };
        let lowered = u32::from(limits.data != Data::Exceeds);
        let also = (of_bandwidth < 0.6).then_some(Compute);
        return (Memory, sure.lowered(lowered), also, format!("it moved {bandwidth}"));
    }
    if let Some(stalled) = work.stalled.filter(|stalled| *stalled >= STALLED) {
        let why = format!("{} of its cycles were stalled; it moved {bandwidth}", share(stalled));
        return (Memory, Medium, None, why);
    }
    if of_bandwidth < FAR_FROM_LIMIT {
        let why = format!("it moved only {bandwidth}, and computed {peak}");
        let sure = if work.stalled.is_some() { Medium } else { Low };
        return (Compute, sure, None, why);
    }
    (Memory, Low, Some(Compute), format!("it moved {bandwidth}, and computed {peak}"))
}

/// `21.4 of 24.0 GB/s`.
pub(super) fn of(value: f64, limit: Option<f64>, unit: &str) -> String {
    let Some(limit) = limit else { return quantity(value, unit) };
    let limit_text = quantity(limit, unit);
    let value_text = quantity(value, unit);
    // The unit stands once, where both have the same.
    match (value_text.split_once(' '), limit_text.split_once(' ')) {
        (Some((number, ours)), Some((_, theirs))) if ours == theirs => format!("{number} of {limit_text}"),
        _ => format!("{value_text} of {limit_text}"),
    }
}
