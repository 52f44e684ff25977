//! Attaching the functions of a loaded object to places in a file, each way that a kernel may have.

use super::features::AttachMode;
use super::libbpf_messages::LibbpfMessages;
use libbpf_rs::{Link, Object, ProgramMut, UprobeMultiOpts, UprobeOpts};
use std::path::Path;

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

/// Attaches programs of one object to one file.
pub(super) struct Attacher<'s> {
    pub(super) object: &'s Object,
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
        links: &mut Vec<Link>,
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
    pub(super) fn attach_all(&self, parts: &[Part], sites: &[FileSite]) -> Result<Vec<Link>, String> {
        let mut links = Vec::new();
        for part in parts {
            let named = |program: &ProgramMut<'_>| program.name() == part.name.as_str();
            let program = self.object.progs_mut().find(named).ok_or_else(|| format!("no program {}", part.name))?;
            let quiet = LibbpfMessages::capture();
            match self.mode {
                AttachMode::Single => {
                    for site in sites {
                        links.push(self.attach_single(&program, part.at, *site).map_err(|error| format!("{error:#}"))?);
                    }
                }
                _ => links.push(self.attach_multi(&program, part.at, sites).map_err(|error| format!("{error:#}"))?),
            }
            drop(quiet);
        }
        Ok(links)
    }

    fn attach_multi(&self, program: &ProgramMut<'_>, at: At, sites: &[FileSite]) -> libbpf_rs::Result<Link> {
        let offsets: Option<Vec<usize>> = sites.iter().map(|site| usize::try_from(site.file_offset).ok()).collect();
        let semaphore =
            |site: &FileSite| site.semaphore.map_or(0, |offset| usize::try_from(offset).unwrap_or_default());
        let any = sites.iter().any(|site| site.semaphore.is_some());
        let options = UprobeMultiOpts {
            offsets: offsets.unwrap_or_default(),
            ref_ctr_offsets: if any { sites.iter().map(semaphore).collect() } else { Vec::new() },
            cookies: sites.iter().map(|site| site.cookie).collect(),
            retprobe: at == At::Return,
            session: at == At::Both,
            ..Default::default()
        };
        program.attach_uprobe_multi_with_opts(self.process.unwrap_or(-1), self.file, "", options)
    }

    fn attach_single(&self, program: &ProgramMut<'_>, at: At, site: FileSite) -> libbpf_rs::Result<Link> {
        let options = UprobeOpts {
            ref_ctr_offset: site.semaphore.map_or(0, |offset| usize::try_from(offset).unwrap_or_default()),
            cookie: site.cookie,
            retprobe: at == At::Return,
            ..Default::default()
        };
        let offset = usize::try_from(site.file_offset).unwrap_or(usize::MAX);
        program.attach_uprobe_with_opts(self.process.unwrap_or(-1), self.file, offset, options)
    }
}
