//! Programs that do nothing or only take the time, at places in a file: what a probe costs before it does anything.

use super::attacher::{At, FileSite, attach, attach_type};
use super::features::{AttachMode, load_small};
use super::span_timer::SpanTimer;
use libbpf_rs::libbpf_sys as sys;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Programs that are attached for as long as this lives.
#[derive(Debug)]
pub struct TestProbe {
    // Closed in this order.
    links: Vec<OwnedFd>,
    programs: Vec<OwnedFd>,
}

impl TestProbe {
    /// Attaches an empty program at an offset of a file, in this process only; with `returns`, at the function's return too.
    ///
    /// # Errors
    /// The system's, where the kernel takes no such program or probe.
    pub fn attach(mode: AttachMode, file: &Path, offset: u64, returns: bool) -> nix::Result<Self> {
        let empty = |attach_type| load_small(sys::BPF_PROG_TYPE_KPROBE, attach_type, 0, &[]);
        Self::attach_program(mode, file, offset, returns, empty)
    }

    /// Attaches programs that add up the time from the function's entry to its return: of calls of one thread, none of
    /// which is within another.
    ///
    /// # Errors
    /// The system's, where the kernel takes no such program, map or probe.
    pub fn attach_timer(mode: AttachMode, file: &Path, offset: u64) -> nix::Result<(Self, SpanTimer)> {
        let timer = SpanTimer::new()?;
        let probe = Self::attach_program(mode, file, offset, true, |attach_type| timer.load(attach_type))?;
        Ok((probe, timer))
    }

    fn attach_program(
        mode: AttachMode,
        file: &Path,
        offset: u64,
        returns: bool,
        load: impl Fn(sys::bpf_attach_type) -> nix::Result<OwnedFd>,
    ) -> nix::Result<Self> {
        let path = CString::new(file.as_os_str().as_bytes()).map_err(|_| nix::Error::EINVAL)?;
        let parts: &[At] = match (mode, returns) {
            (AttachMode::Session, true) => &[At::Both],
            (_, false) => &[At::Entry],
            (_, true) => &[At::Entry, At::Return],
        };
        let process = Some(std::process::id().cast_signed());
        let site = FileSite { file_offset: offset, cookie: 0, semaphore: None };
        let mut probe = Self { links: Vec::new(), programs: Vec::new() };
        for at in parts {
            let program = load(attach_type(mode, *at))?;
            probe.links.extend(attach(&program, mode, *at, &path, process, &[site])?);
            probe.programs.push(program);
        }
        Ok(probe)
    }
}
