//! Attaching loaded functions to places in a file, each way that a kernel may have.

use super::features::AttachMode;
use super::link::{Places, link_perf_event, link_uprobes};
use super::perf_event::UprobeEvent;
use super::site_program::Continuation;
use libbpf_rs::libbpf_sys as sys;
use nix::errno::Errno;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A function that is loaded.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) descriptor: OwnedFd,
    /// The plan's program (index) that it is a part of; `None`: it is the runtime's.
    pub(super) program: Option<usize>,
    /// Programs of sites that continue in it, by cookie, where it cannot ask for the cookie.
    pub(super) at_sites: BTreeMap<u64, OwnedFd>,
    continuation: Option<Continuation>,
}

impl Function {
    pub(super) fn new(descriptor: OwnedFd, program: Option<usize>) -> Self {
        Self { descriptor, program, at_sites: BTreeMap::new(), continuation: None }
    }

    /// Loads the programs of sites that have none yet.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn load_at(
        &mut self,
        sites: &[FileSite],
        cookies: BorrowedFd<'_>,
        attach_type: sys::bpf_attach_type,
    ) -> nix::Result<()> {
        let continuation = match self.continuation.take() {
            Some(continuation) => continuation,
            None => Continuation::of(self.descriptor.as_fd())?,
        };
        let continuation = self.continuation.insert(continuation);
        for FileSite { cookie, .. } in sites {
            if let Entry::Vacant(vacant) = self.at_sites.entry(*cookie) {
                vacant.insert(continuation.at_site(*cookie, cookies, attach_type)?);
            }
        }
        Ok(())
    }

    /// All programs that the kernel runs for it.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = &OwnedFd> {
        std::iter::once(&self.descriptor).chain(self.at_sites.values())
    }

    /// Attaches it, or each site's program there: at each of them, or at none.
    fn attach(&self, attacher: &Attacher<'_>, at: At, path: &CStr, sites: &[FileSite]) -> nix::Result<Vec<OwnedFd>> {
        let Attacher { mode, process, .. } = *attacher;
        if self.at_sites.is_empty() {
            return attach(&self.descriptor, mode, at, path, process, sites);
        }
        let mut links = Vec::new();
        for site in sites {
            let program = self.at_sites.get(&site.cookie).ok_or(Errno::ENOENT)?;
            links.extend(attach(program, mode, at, path, process, &[FileSite { cookie: 0, ..*site }])?);
        }
        Ok(links)
    }
}

/// A place to attach at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSite {
    /// Bytes from the start of the file.
    pub file_offset: u64,
    /// The program's cookie there.
    pub cookie: u64,
    /// Bytes from the start of the file to a number that the kernel raises by one while the program is attached: what is
    /// probed checks there whether anyone does.
    pub semaphore: Option<u64>,
}

/// A place where attaching failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedSite {
    /// The place.
    pub site: FileSite,
    /// Why.
    pub reason: String,
}

/// Where in a call a C function runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    Entry,
    Return,
    Both,
}

/// One C function of a program.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) at: At,
}

/// Attaches loaded functions to one file.
pub(super) struct Attacher<'s> {
    /// By name.
    pub(super) functions: &'s BTreeMap<String, Function>,
    pub(super) mode: AttachMode,
    pub(super) file: &'s Path,
    pub(super) process: Option<i32>,
}

impl Attacher<'_> {
    /// Attaches what can be attached: a set that fails as a whole is tried in halves, down to the places at fault.
    pub(super) fn attach_most(
        &self,
        parts: &[Part],
        sites: &[FileSite],
        links: &mut Vec<OwnedFd>,
        failed: &mut Vec<FailedSite>,
    ) {
        match (self.attach_all(parts, sites), sites) {
            (Ok(attached), _) => links.extend(attached),
            (Err(_), []) => {}
            (Err(reason), [site]) => failed.push(FailedSite { site: *site, reason }),
            (Err(_), _) => {
                let (left, right) = sites.split_at(sites.len() / 2);
                self.attach_most(parts, left, links, failed);
                self.attach_most(parts, right, links, failed);
            }
        }
    }

    /// Attaches every part at every place, or nothing.
    pub(super) fn attach_all(&self, parts: &[Part], sites: &[FileSite]) -> Result<Vec<OwnedFd>, String> {
        let path = CString::new(self.file.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
        let mut links = Vec::new();
        for part in parts {
            let function = self.functions.get(&part.name).ok_or_else(|| format!("no program {}", part.name))?;
            let attached = function.attach(self, part.at, &path, sites);
            links.extend(attached.map_err(|error| format!("{} ({error:?})", error.desc()))?);
        }
        Ok(links)
    }
}

/// Attaches a function at places of a file, in one process or (`None`) all: at each of them, or at none.
///
/// # Errors
/// The system's.
pub(super) fn attach(
    function: &OwnedFd,
    mode: AttachMode,
    at: At,
    path: &CStr,
    process: Option<i32>,
    sites: &[FileSite],
) -> nix::Result<Vec<OwnedFd>> {
    let function = function.as_fd();
    if mode == AttachMode::Single {
        let attach = |site: &FileSite| {
            let event = UprobeEvent {
                path,
                offset: site.file_offset,
                semaphore: u32::try_from(site.semaphore.unwrap_or_default()).map_err(|_| Errno::EINVAL)?,
                at_return: at == At::Return,
                process,
            };
            link_perf_event(function, event.open()?, site.cookie)
        };
        return sites.iter().map(attach).collect();
    }
    let any = sites.iter().any(|site| site.semaphore.is_some());
    let semaphore = |site: &FileSite| site.semaphore.unwrap_or_default();
    let places = Places {
        offsets: sites.iter().map(|site| site.file_offset).collect(),
        semaphores: if any { sites.iter().map(semaphore).collect() } else { Vec::new() },
        cookies: sites.iter().map(|site| site.cookie).collect(),
    };
    let flags = if at == At::Return { sys::BPF_F_UPROBE_MULTI_RETURN } else { 0 };
    let process = process.map_or(0, i32::cast_unsigned);
    Ok(vec![link_uprobes(function, attach_type(mode, at), path, &places, process, flags)?])
}

/// What a function must be loaded for; 0: nothing in particular.
pub(super) fn attach_type(mode: AttachMode, at: At) -> sys::bpf_attach_type {
    match (mode, at) {
        (AttachMode::Single, _) => 0,
        (_, At::Both) => sys::BPF_TRACE_UPROBE_SESSION,
        _ => sys::BPF_TRACE_UPROBE_MULTI,
    }
}
