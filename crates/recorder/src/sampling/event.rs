//! The timer: a perf event for each thread, which the threads it makes inherit. Cycles where the processor counts them for
//! this thread, the CPU clock elsewhere: both run only while the thread does.

use crate::bpf::open_perf_event;
use crate::process::threads;
use libbpf_rs::libbpf_sys as sys;
use nix::errno::Errno;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

/// What came of opening events.
#[derive(Debug)]
pub(super) struct Opened {
    /// What they count.
    pub(super) event: &'static str,
    /// Samples of each thread in a second of its CPU time.
    pub(super) hz: u32,
    /// What is not sampled, in one sentence.
    pub(super) absent: Option<String>,
}

/// What may be counted, the best first.
const EVENTS: [(&str, sys::perf_type_id, u32); 2] = [
    ("cycles", sys::PERF_TYPE_HARDWARE, sys::PERF_COUNT_HW_CPU_CYCLES),
    ("cpu-clock", sys::PERF_TYPE_SOFTWARE, sys::PERF_COUNT_SW_CPU_CLOCK),
];

/// Opens the events of a process's threads, not enabled.
pub(super) fn open(pid: i32, hz: u32, children: bool) -> (Vec<OwnedFd>, Opened) {
    let hz = hz.min(highest_rate());
    let mut all = Vec::new();
    let absent = |why: &str| Some(format!("the kernel does not let its threads be sampled: {why}"));
    for (event, kind, number) in EVENTS {
        let mut seen = BTreeSet::new();
        let mut failed = None;
        for thread in threads(pid) {
            seen.insert(thread);
            match open_one(kind, number, hz, children, thread) {
                Ok(opened) => all.push(opened),
                // It has ended.
                Err(Errno::ESRCH) => {}
                Err(error) => failed = Some(error),
            }
        }
        let is_uncounted = |error| matches!(error, Errno::ENOENT | Errno::EOPNOTSUPP | Errno::ENODEV | Errno::ENXIO);
        if all.is_empty() && failed.is_some_and(is_uncounted) {
            continue;
        }
        // A thread whose maker had no event yet has none.
        let late = threads(pid).into_iter().filter(|thread| !seen.contains(thread)).count();
        let absent = match failed {
            Some(error) => absent(error.desc()),
            None if late > 0 => Some(format!("{late} threads may not be sampled: they began while events were opened")),
            None => None,
        };
        return (all, Opened { event, hz, absent });
    }
    (all, Opened { event: "", hz, absent: absent("it has no timer for them") })
}

/// What the kernel takes: it lowers this where its interrupts are slow, as in emulated machines, and refuses more.
fn highest_rate() -> u32 {
    let rate = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate");
    rate.ok().and_then(|rate| rate.trim().parse().ok()).filter(|rate| *rate > 0).unwrap_or(u32::MAX)
}

fn open_one(kind: sys::perf_type_id, number: u32, hz: u32, children: bool, thread: i32) -> nix::Result<OwnedFd> {
    let attributes = |inherits_threads_only: bool| {
        let mut attributes = sys::perf_event_attr { type_: kind, config: u64::from(number), ..Default::default() };
        attributes.__bindgen_anon_1.sample_freq = u64::from(hz);
        attributes.set_freq(1);
        attributes.set_disabled(1); // until it has its program
        attributes.set_inherit(1);
        attributes.set_inherit_thread(u64::from(inherits_threads_only));
        attributes.set_exclude_hv(1);
        attributes
    };
    match open_perf_event(attributes(!children), thread, -1) {
        // Before Linux 5.13 children inherit, too.
        Err(Errno::EINVAL | Errno::E2BIG) if !children => open_perf_event(attributes(false), thread, -1),
        opened => opened,
    }
}
