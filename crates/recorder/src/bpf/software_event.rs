//! Programs at the kernel's counts, such as that of major faults: they run each time that the count rises on any
//! processor. The perf interface has no link for all processors at once: each has a separate event.

use super::features::missing_privilege;
use super::perf_event::open_perf_event;
use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{Link, ProgramMut};
use nix::errno::Errno;
use profinfer_diagnostics::{Code, Diagnostic};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};

/// The events by perf's names, and their numbers.
const EVENTS: [(&str, sys::perf_sw_ids); 1] = [("major-faults", sys::PERF_COUNT_SW_PAGE_FAULTS_MAJ)];

/// Attaches a program to an event on every processor that is online.
///
/// # Errors
/// B005 (privilege), and the message for other places that a program cannot be attached to.
pub(super) fn attach(program: &ProgramMut<'_>, event: &str) -> Result<Vec<Link>, Diagnostic> {
    let failed = |reason: &dyn std::fmt::Display| {
        let message = format!("`software {event}` cannot be attached to: {reason}");
        Diagnostic::error(Code::AttachFailed, message).hint("see `profinfer doctor`")
    };
    let Some((_, number)) = EVENTS.into_iter().find(|(name, _)| *name == event) else {
        return Err(failed(&"this version does not support it"));
    };
    let processors = libbpf_rs::num_possible_cpus().map_err(|error| failed(&error))?;
    let mut links = Vec::new();
    for processor in 0..i32::try_from(processors).unwrap_or(i32::MAX) {
        let opened = match open(number, processor) {
            Ok(opened) => opened,
            // It is not online.
            Err(Errno::ENODEV) => continue,
            Err(Errno::EACCES | Errno::EPERM) => return Err(missing_privilege(&format!("opening `{event}`"))),
            Err(error) => return Err(failed(&error.desc())),
        };
        links.push(program.attach_perf_event(opened.as_raw_fd()).map_err(|error| failed(&error))?);
        // The link closes it.
        let _ = opened.into_raw_fd();
    }
    Ok(links)
}

/// Opens an event of all processes on one processor that is sampled each time that it happens.
fn open(number: sys::perf_sw_ids, processor: i32) -> nix::Result<OwnedFd> {
    let mut attributes = sys::perf_event_attr {
        type_: sys::PERF_TYPE_SOFTWARE,
        config: u64::from(number),
        sample_type: u64::from(sys::PERF_SAMPLE_ADDR),
        ..Default::default()
    };
    attributes.__bindgen_anon_1.sample_period = 1;
    attributes.set_disabled(1); // until it has its program
    open_perf_event(attributes, -1, processor)
}
