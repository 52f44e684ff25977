//! What a process had mapped where a sample was: read anew when the process has mapped or unmapped something, as its
//! dynamic linker or a new program tells, and when an address is in none of what was seen.

use profinfer_binary::{InspectedFile, build_id, maps};
use profinfer_schema::{CodePlace, SampledModule};
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// An address that is in no mapping has them read again after this time: ns of the samples' clock.
const AGAIN: u64 = 20_000_000;
/// Mappings of a process; more are left out.
const MAPPINGS: usize = 1 << 16;
/// The name of the library that the kernel maps, and the most bytes that it may have.
const VDSO: &str = "[vdso]";
const VDSO_BYTES: usize = 1 << 16;
/// Processes whose mappings are stored.
const PROCESSES: usize = 1 << 12;

/// One mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Bytes from the start of the file.
    pub(super) offset: u64,
    pub(super) module: u16,
}

#[derive(Debug, Default)]
struct Process {
    /// By start.
    mappings: Vec<Mapping>,
    /// How often they were others than before.
    revision: u64,
    is_stale: bool,
    /// When they were read, or could not be: on the samples' clock.
    read: u64,
}

/// Mappings by process, and the files in them that samples are in.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    processes: HashMap<u32, Process>,
    /// The last one by device, inode and name; pseudo-files by name.
    numbers: HashMap<(u64, u64, PathBuf), u16>,
    modules: Vec<SampledModule>,
    /// Modules that were given already.
    given: usize,
}

impl Mappings {
    pub(super) fn changed(&mut self, pid: u32) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.is_stale = true;
        }
    }

    /// Where an address is, at a time.
    pub(super) fn place(&mut self, pid: u32, address: u64, time: u64) -> CodePlace {
        let unknown = CodePlace { module: CodePlace::UNKNOWN, offset: address };
        if pid == 0 {
            return unknown;
        }
        let found = self.processes.get(&pid).filter(|process| !process.is_stale);
        let place = found.and_then(|process| process.place(address));
        if let Some(place) = place {
            return place;
        }
        let is_due = found.is_none_or(|process| time.saturating_sub(process.read) >= AGAIN);
        if is_due && (self.processes.len() < PROCESSES || self.processes.contains_key(&pid)) {
            self.read(pid, time);
        }
        self.processes.get(&pid).and_then(|process| process.place(address)).unwrap_or(unknown)
    }

    fn read(&mut self, pid: u32, time: u64) {
        let text = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        let mappings: Vec<Mapping> = text
            .split(|byte| *byte == b'\n')
            .take(MAPPINGS)
            .filter_map(|line| {
                let (start, end) = range(line)?;
                let (offset, module) = match maps::parse(line).next() {
                    Some(mapping) => (mapping.offset, self.module(pid, &mapping)),
                    None if line.ends_with(b"[vdso]") => (0, self.vdso()),
                    None => (start, CodePlace::ANONYMOUS),
                };
                Some(Mapping { start, end, offset, module })
            })
            .collect();
        let process = self.processes.entry(pid).or_default();
        (process.is_stale, process.read) = (false, time);
        // One that has ended has nothing mapped, but had.
        if !mappings.is_empty() && mappings != process.mappings {
            process.mappings = mappings;
            process.revision += 1;
        }
    }

    /// How often a process's mappings changed; `None` where they were never read.
    pub(super) fn revision(&self, pid: u32) -> Option<u64> {
        self.processes.get(&pid).map(|process| process.revision).filter(|revision| *revision > 0)
    }

    /// The mappings of files' code, as last read.
    pub(super) fn code(&self, pid: u32) -> impl Iterator<Item = Mapping> {
        let mappings = self.processes.get(&pid).map_or(&[][..], |process| &process.mappings);
        mappings.iter().filter(|mapping| mapping.module < CodePlace::MODULES).copied()
    }

    /// The kernel's library that every process has in its memory; `None` where that is not the mapping's.
    pub(super) fn vdso_bytes(&self, pid: u32, mapping: &Mapping) -> Option<Vec<u8>> {
        self.modules.get(usize::from(mapping.module)).filter(|module| module.path == VDSO)?;
        let length = usize::try_from(mapping.end - mapping.start).ok().filter(|length| *length <= VDSO_BYTES)?;
        let mut bytes = vec![0; length];
        let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
        memory.read_exact_at(&mut bytes, mapping.start).ok()?;
        Some(bytes)
    }

    /// The file of a mapping, if it is still the one that was mapped.
    pub(super) fn open(&self, pid: u32, mapping: &Mapping) -> Option<File> {
        let module = self.modules.get(usize::from(mapping.module))?;
        let is_same =
            |metadata: Metadata| (metadata.len(), modified_ns(&metadata)) == (module.size, module.modified_ns);
        places(pid, mapping.start..mapping.end, &module.path).iter().find_map(|place| {
            let file = InspectedFile::open(Path::new(place)).ok()?.into_file();
            file.metadata().is_ok_and(is_same).then_some(file)
        })
    }

    fn vdso(&mut self) -> u16 {
        let module = || SampledModule { path: VDSO.to_owned(), ..SampledModule::default() };
        self.numbered((0, 0, PathBuf::from(VDSO)), None, module)
    }

    fn module(&mut self, pid: u32, mapping: &maps::Mapping) -> u16 {
        // Of the rest of a mapping only code is sampled.
        if !mapping.executable {
            return CodePlace::ANONYMOUS;
        }
        let device = u64::from(mapping.device.0) << 32 | u64::from(mapping.device.1);
        // A new file may have the inode of one that was removed, and its name.
        let file = file_of(pid, mapping);
        let state = file.as_ref().map(|(metadata, _)| (metadata.len(), modified_ns(metadata)));
        self.numbered((device, mapping.inode, mapping.path.clone()), state, || inspect(mapping, file))
    }

    /// The number of a file, whose size and modification time tell it from others, as far as they are to be had.
    fn numbered(
        &mut self,
        key: (u64, u64, PathBuf),
        state: Option<(u64, u64)>,
        module: impl FnOnce() -> SampledModule,
    ) -> u16 {
        if let Some(number) = self.numbers.get(&key) {
            let of = self.modules.get(usize::from(*number));
            if state.is_none_or(|state| of.is_none_or(|of| (of.size, of.modified_ns) == state)) {
                return *number;
            }
        }
        let Some(number) = u16::try_from(self.modules.len()).ok().filter(|number| *number < CodePlace::MODULES) else {
            return CodePlace::UNKNOWN;
        };
        self.modules.push(module());
        self.numbers.insert(key, number);
        number
    }

    pub(super) fn has_news(&self) -> bool {
        self.given < self.modules.len()
    }

    /// The number of the first module that was not given before, and all from there on.
    pub(super) fn take_news(&mut self) -> (usize, Vec<SampledModule>) {
        let first = std::mem::replace(&mut self.given, self.modules.len());
        (first, self.modules.get(first..).unwrap_or_default().to_vec())
    }
}

impl Process {
    fn place(&self, address: u64) -> Option<CodePlace> {
        let after = self.mappings.partition_point(|mapping| mapping.start <= address);
        let mapping = self.mappings.get(after.checked_sub(1)?).filter(|mapping| address < mapping.end)?;
        let offset = match mapping.module {
            CodePlace::ANONYMOUS | CodePlace::UNKNOWN => address,
            _ => address - mapping.start + mapping.offset,
        };
        Some(CodePlace { module: mapping.module, offset })
    }
}

/// What tells a mapped file from others. It is opened by its place in the process's memory: its name may lead to another
/// file by now.
fn inspect(mapping: &maps::Mapping, file: Option<(Metadata, String)>) -> SampledModule {
    let path = mapping.path.display().to_string();
    let Some((metadata, opened)) = file else { return SampledModule { path, ..SampledModule::default() } };
    let (build_id, modified_ns) = (build_id(Path::new(&opened)), modified_ns(&metadata));
    SampledModule { path, build_id, size: metadata.len(), modified_ns }
}

/// A mapped file, and where it can be opened.
fn file_of(pid: u32, mapping: &maps::Mapping) -> Option<(Metadata, String)> {
    places(pid, mapping.start..mapping.end, &mapping.path.display().to_string()).into_iter().find_map(|place| {
        let metadata = std::fs::metadata(&place).ok()?;
        (metadata.ino() == mapping.inode).then_some((metadata, place))
    })
}

/// Where a mapped file is: by its place in the process's memory, then by its name.
fn places(pid: u32, mapped: Range<u64>, path: &str) -> [String; 2] {
    let Range { start, end } = mapped;
    [format!("/proc/{pid}/map_files/{start:x}-{end:x}"), format!("/proc/{pid}/root{path}")]
}

fn modified_ns(metadata: &Metadata) -> u64 {
    let modified = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
    u64::try_from(modified).unwrap_or(0)
}

fn range(line: &[u8]) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(line.split(|byte| *byte == b' ').next()?).ok()?;
    let (start, end) = text.split_once('-')?;
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_the_inode_and_name_of_another_is_not_that_one() {
        let mut mappings = Mappings::default();
        let mut number = |inode: u64, state: Option<(u64, u64)>| {
            let (size, modified_ns) = state.unwrap_or_default();
            let module = || SampledModule { size, modified_ns, ..SampledModule::default() };
            mappings.numbered((1, inode, PathBuf::from("/lib/a")), state, module)
        };
        assert_eq!(number(5, Some((100, 7))), 0);
        assert_eq!(number(5, Some((100, 7))), 0);
        assert_eq!(number(5, None), 0, "its state is not to be had");
        assert_eq!(number(5, Some((100, 8))), 1, "it was replaced");
        assert_eq!(number(5, Some((100, 8))), 1);
        assert_eq!(number(6, Some((100, 8))), 2);
    }
}
