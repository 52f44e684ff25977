//! What the kernel let the target have in a phase's steps: its time in the kernel, throttling, a memory limit. The
//! recorder polls these for whole processes: what happens between two polls is spread evenly over that time.

use crate::numbers::units::share;
use profinfer_analysis::{Phase, Statistics};
use profinfer_trace::Meta;
use serde::Serialize;

/// A smaller part of the time is not worth a word.
const WORTH_MENTIONING: f64 = 0.05;
/// Bytes of a page; refaults are counted in pages.
const PAGE: f64 = 4096.0;

/// Of a phase's steps.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct PressureReport {
    /// CPU time of the target in user code, ns.
    pub user_ns: f64,
    /// CPU time of the target in the kernel, ns.
    pub system_ns: f64,
    /// Page faults that needed no disk.
    pub minor_faults: f64,
    /// Page faults that waited for a disk.
    pub major_faults: f64,
    /// CPUs' worth of time that its control groups may have.
    pub cpu_quota: Option<f64>,
    /// ns that it was not let run for that, over its CPUs.
    pub throttled_ns: f64,
    /// Bytes that its control groups may have.
    pub memory_limit: Option<u64>,
    /// How often that limit was reached.
    pub memory_limit_hits: f64,
    /// Bytes that were read again soon after the kernel had evicted them.
    pub refaulted_bytes: f64,
    /// Pressure stall information; `null` where the kernel has none.
    pub stalled: Option<StalledShares>,
}

/// Parts of the time in which at least one task waited for a resource.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct StalledShares {
    /// A task of the target's control group; else one of the machine.
    pub of_group: bool,
    /// For a CPU.
    pub cpu: f64,
    /// For memory.
    pub memory: f64,
    /// For input and output.
    pub io: f64,
}

impl StalledShares {
    /// `tasks of the machine waited for memory for 12 % of the time`, where that is worth a word.
    pub(crate) fn text(&self, of: f64, what: &str) -> Option<String> {
        let whose = if self.of_group { "its control group" } else { "the machine" };
        (of >= WORTH_MENTIONING).then(|| format!("tasks of {whose} waited for {what} for {} of the time", share(of)))
    }
}

impl PressureReport {
    /// Of a phase; `None` where it was not recorded.
    pub(crate) fn new(meta: &Meta, statistics: &Statistics, phase: Phase) -> Option<Self> {
        let (rows, each) = statistics.step_points();
        let mut steps: Vec<(u64, u64)> =
            rows.iter().filter(|row| row.phase == phase).map(|row| (row.start, row.end)).collect();
        steps.sort_unstable();
        let mut found: Option<Self> = None;
        let mut from = 0;
        let (mut stalled, mut time_stalled) = (StalledShares::default(), 0.0);
        for (time, pressure) in meta.notices.iter().filter_map(|notice| Some((notice.time, notice.pressure?))) {
            let sum = found.get_or_insert_default();
            while steps.get(from).is_some_and(|(_, end)| *end <= pressure.since) {
                from += 1;
            }
            let within = steps[from..].iter().take_while(|(start, _)| *start < time);
            let overlap = |(start, end): &(u64, u64)| (*end).min(time).saturating_sub((*start).max(pressure.since));
            let ns: u64 = within.map(overlap).sum();
            let whole = time.saturating_sub(pressure.since).max(1);
            let part = (ns as f64 * each.max(1) as f64 / whole as f64).min(1.0);
            if part == 0.0 {
                continue;
            }
            sum.user_ns += part * pressure.user_ns as f64;
            sum.system_ns += part * pressure.system_ns as f64;
            sum.minor_faults += part * pressure.minor_faults as f64;
            sum.major_faults += part * pressure.major_faults as f64;
            sum.throttled_ns += part * pressure.throttled_ns.unwrap_or(0) as f64;
            sum.memory_limit_hits += part * pressure.memory_limit_hits.unwrap_or(0) as f64;
            sum.refaulted_bytes += part * pressure.refaulted_pages.unwrap_or(0) as f64 * PAGE;
            sum.cpu_quota = pressure.cpu_quota.or(sum.cpu_quota);
            sum.memory_limit = pressure.memory_limit.or(sum.memory_limit);
            if let Some(of) = pressure.stalled {
                time_stalled += part * whole as f64;
                stalled.of_group = of.of_group;
                stalled.cpu += part * of.cpu_ns as f64;
                stalled.memory += part * of.memory_ns as f64;
                stalled.io += part * of.io_ns as f64;
            }
        }
        if let Some(found) = found.as_mut().filter(|_| time_stalled > 0.0) {
            let share = |ns: f64| (ns / time_stalled).min(1.0);
            let StalledShares { of_group, cpu, memory, io } = stalled;
            found.stalled = Some(StalledShares { of_group, cpu: share(cpu), memory: share(memory), io: share(io) });
        }
        found
    }

    /// The kernel's part of the CPU time.
    pub(crate) fn system_share(&self) -> f64 {
        let all = self.user_ns + self.system_ns;
        if all > 0.0 { self.system_ns / all } else { 0.0 }
    }

    /// A memory limit makes the kernel evict what is needed again: the limit was reached, and so much was read again
    /// that it is a part of what the phase moves, which `moved` is.
    pub(crate) fn thrashes(&self, moved: Option<f64>) -> bool {
        let matters = moved.map_or(LEAST_REFAULTED, |moved| (REFAULTED_PART * moved).max(LEAST_REFAULTED));
        self.memory_limit.is_some() && self.memory_limit_hits >= 1.0 && self.refaulted_bytes >= matters
    }
}

/// Fewer bytes than this that were read again are of no matter.
const LEAST_REFAULTED: f64 = 4e6;
/// So is a smaller part of what was moved.
const REFAULTED_PART: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_matters_where_it_has_data_read_again() {
        let limited =
            PressureReport { memory_limit: Some(1 << 27), memory_limit_hits: 9.0, ..PressureReport::default() };
        assert!(!limited.thrashes(None));
        let refaults = PressureReport { refaulted_bytes: 5e6, ..limited };
        assert!(refaults.thrashes(None) && refaults.thrashes(Some(1e7)) && !refaults.thrashes(Some(1e9)));
        assert!(!PressureReport { memory_limit: None, ..refaults }.thrashes(None));
    }
}
