//! One event of one processor, as the kernel opens it, and its state.

use crate::bpf::open_perf_event;
use libbpf_rs::libbpf_sys as sys;
use profinfer_probeset::counters::{Event, Opening};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

/// Opens an event on a processor, for whatever runs there. With `always`, it is counted all the time or not at all.
///
/// # Errors
/// Why the kernel does not.
pub(super) fn open(opening: &Opening, event: &Event, cpu: u32, always: bool) -> nix::Result<OwnedFd> {
    match open_as(opening.kind, opening.words, event, cpu, always) {
        Err(nix::Error::ENOENT | nix::Error::EOPNOTSUPP | nix::Error::EINVAL) if opening.otherwise.is_some() => {
            let words = [opening.otherwise.unwrap_or_default(), 0, 0];
            open_as(opening.kind, words, event, cpu, always)
        }
        result => result,
    }
}

fn open_as(kind: u32, words: [u64; 3], event: &Event, cpu: u32, always: bool) -> nix::Result<OwnedFd> {
    let mut attributes = sys::perf_event_attr {
        type_: kind,
        config: words[0],
        read_format: u64::from(sys::PERF_FORMAT_TOTAL_TIME_ENABLED | sys::PERF_FORMAT_TOTAL_TIME_RUNNING),
        ..Default::default()
    };
    attributes.__bindgen_anon_3.config1 = words[1];
    attributes.__bindgen_anon_4.config2 = words[2];
    attributes.set_exclude_user(u64::from(!event.user));
    attributes.set_exclude_kernel(u64::from(!event.kernel));
    attributes.set_exclude_hv(u64::from(!event.kernel));
    attributes.set_pinned(u64::from(always));
    let cpu = i32::try_from(cpu).map_err(|_| nix::Error::EINVAL)?;
    open_perf_event(attributes, -1, cpu)
}

/// Whether an event has been counted all the time since it was opened.
pub(super) fn is_counted(event: &OwnedFd) -> bool {
    let mut bytes = [0; 24];
    let Ok(mut file) = event.try_clone().map(File::from) else { return false };
    // One that must be counted all the time and is not has nothing to count any more.
    if file.read(&mut bytes).is_ok_and(|read| read < bytes.len()) {
        return false;
    }
    let [_, enabled, running] = [0, 8, 16].map(|at| bytes[at..].first_chunk().copied().map_or(0, u64::from_ne_bytes));
    running == enabled
}

/// Why an event does not open, in one sentence, and what may help.
pub(super) fn reason(error: nix::Error) -> (String, Option<String>) {
    match error {
        nix::Error::ENOENT | nix::Error::EOPNOTSUPP | nix::Error::ENODEV | nix::Error::ENXIO => {
            ("this machine cannot count it".into(), Some("`profinfer counters` lists what it can".into()))
        }
        nix::Error::EACCES | nix::Error::EPERM => {
            let fix = "sudo profinfer …, or sudo sysctl kernel.perf_event_paranoid=0";
            ("the kernel does not let you count for every process".into(), Some(fix.into()))
        }
        nix::Error::EBUSY | nix::Error::ENOSPC => ("all counters are in use".into(), None),
        nix::Error::EMFILE | nix::Error::ENFILE => {
            ("too many files are open".into(), Some("`ulimit -n` allows more, or ask for fewer counters".into()))
        }
        nix::Error::EINVAL => ("the kernel refuses its description".into(), None),
        other => (format!("it cannot be opened: {other}"), None),
    }
}
