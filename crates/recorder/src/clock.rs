//! The clocks of a trace. There is one: CLOCK_MONOTONIC as the kernel counts it, which the programs stamp records
//! with. In a time namespace this process's clock is another one, and its time is converted.

use nix::time::{ClockId, clock_gettime};
use profinfer_binary::ProcessStatus;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Ancestors that are asked for the offset of their time namespace.
const MOST_ANCESTORS: usize = 64;

/// The kernel's CLOCK_MONOTONIC, in ns: what records' times are, in whatever time namespace this process is.
pub fn monotonic_ns() -> u64 {
    static OFFSET: OnceLock<i64> = OnceLock::new();
    let offset = *OFFSET.get_or_init(time_namespace_offset_ns);
    u64::try_from(local_ns().saturating_sub(offset)).unwrap_or(0)
}

/// CLOCK_MONOTONIC of this process's time namespace, in ns: for durations. A single system call, for the guardian too.
pub(super) fn local_ns() -> i64 {
    time_of(ClockId::CLOCK_MONOTONIC)
}

/// CLOCK_BOOTTIME of this process's time namespace, in ns: the clock of what `/proc/PID/stat` tells this process.
pub(super) fn boot_ns() -> u64 {
    u64::try_from(time_of(ClockId::CLOCK_BOOTTIME)).unwrap_or(0)
}

/// Processor time of this process, all its threads together, in ns.
pub(super) fn processor_ns() -> u64 {
    u64::try_from(time_of(ClockId::CLOCK_PROCESS_CPUTIME_ID)).unwrap_or(0)
}

fn time_of(clock: ClockId) -> i64 {
    let Ok(time) = clock_gettime(clock) else { return 0 };
    time.tv_sec().saturating_mul(1_000_000_000).saturating_add(time.tv_nsec())
}

/// What the time namespace of this process adds to CLOCK_MONOTONIC, in ns. `/proc/PID/timens_offsets` has it for the
/// namespace that a process's children will be in. That is the process's, unless it has asked for another one;
/// then an ancestor in ours that has not is asked.
fn time_namespace_offset_ns() -> i64 {
    let link = |pid: u32, name: &str| std::fs::read_link(format!("/proc/{pid}/ns/{name}")).ok();
    let pid = std::process::id();
    let Some(ours) = link(pid, "time") else { return 0 };
    let parent = |pid: &u32| ProcessStatus::read(*pid).ok().map(|status| status.parent).filter(|pid| *pid > 0);
    let mut processes = std::iter::successors(Some(pid), parent).take(MOST_ANCESTORS);
    let like_us = processes.find(|pid| link(*pid, "time_for_children").as_ref() == Some(&ours));
    let text = like_us.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/timens_offsets")).ok());
    text.as_deref().and_then(monotonic_offset_ns).unwrap_or(0)
}

/// The line `monotonic SECONDS NANOSECONDS`, in ns.
fn monotonic_offset_ns(text: &str) -> Option<i64> {
    let line = text.lines().find_map(|line| line.strip_prefix("monotonic"))?;
    let mut numbers = line.split_whitespace().map(str::parse::<i64>);
    let (seconds, ns) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// An instant that decides in the programs is set so much before it comes.
pub(super) const LEAD_NS: u64 = 300_000;

/// Sets an instant that has not come yet when it is set, however long this thread stands still in between; gives it.
pub(super) fn in_time(set: impl Fn(u64)) -> u64 {
    ahead(LEAD_NS, set)
}

/// As [`in_time`], so much ahead.
pub(super) fn ahead(lead_ns: u64, set: impl Fn(u64)) -> u64 {
    loop {
        let instant = monotonic_ns().saturating_add(lead_ns);
        set(instant);
        if monotonic_ns() < instant {
            return instant;
        }
    }
}

/// UNIX time in ns.
pub(super) fn wall_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// UTC as `20261121-015612`, for file names.
pub(super) fn stamp(unix_seconds: u64) -> String {
    let seconds = i64::try_from(unix_seconds).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
    time.strftime("%Y%m%d-%H%M%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_dates() {
        assert_eq!(stamp(0), "19700101-000000");
        assert_eq!(stamp(951_782_399), "20000228-235959");
        assert_eq!(stamp(951_782_400), "20000229-000000");
        assert_eq!(stamp(1_795_226_172), "20261121-015612");
    }

    #[test]
    fn an_instant_is_set_before_it_comes() {
        let set = std::cell::RefCell::new(Vec::new());
        let instant = in_time(|instant| {
            let mut set = set.borrow_mut();
            set.push(instant);
            // Stands still the first two times.
            if set.len() < 3 {
                std::thread::sleep(std::time::Duration::from_nanos(3 * LEAD_NS));
            }
        });
        let set = set.into_inner();
        assert!(set.len() >= 3 && set.is_sorted() && set.last() == Some(&instant), "{set:?}");
    }

    #[test]
    fn offsets_are_read_as_the_kernel_writes_them() {
        let text = "monotonic     -100000         5\nboottime           7         0\n";
        assert_eq!(monotonic_offset_ns(text), Some(-99_999_999_999_995));
        assert_eq!(monotonic_offset_ns("boottime 7 0\n"), None);
        assert_eq!(monotonic_offset_ns("monotonic 9223372036854775807 0\n"), None);
    }

    #[test]
    fn clocks_go_forward() {
        let before = monotonic_ns();
        assert!(before > 0 && monotonic_ns() >= before && wall_ns() > 1_700_000_000_000_000_000);
    }
}
