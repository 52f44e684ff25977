//! A running process as a target: the ELF files that it has mapped, and what the recorder must know of it. Everything
//! is read from `/proc`, whose answers are bounded because the process may be hostile.

use super::TargetFiles;
use super::elf::{Image, Unusable};
use super::files::{Files, Lazy};
use super::inspected::{FileId, InspectedFile};
use super::maps::{self, Mapping};
use super::names::forget_compiled;
use nix::errno::Errno;
use nix::sys::stat::{major, makedev, minor};
use profinfer_diagnostics::{Code, Diagnostic};
use std::collections::{HashMap, HashSet};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Bytes of `/proc/PID/maps`: some 400,000 mappings.
const MAX_MAPS: u64 = 64 << 20;
/// Bytes of the other files in `/proc/PID`.
const MAX_PROC_FILE: u64 = 1 << 20;
/// Mapped ELF files of one process.
const MAX_FILES: usize = 8192;
/// Keys in `/proc/PID/auxv`: the dynamic linker's address, 0 for a program that has none, and that of the program's headers.
const AT_BASE: u64 = 7;
const AT_PHDR: u64 = 3;
/// Where `r_state` is in the dynamic linker's `_r_debug`, and its value while files are mapped (`<link.h>`).
const STATE_AT: u64 = 24;
const RT_ADD: u32 = 1;

/// Stored files that no process has mapped, at most; beyond, those that nobody can open any more go.
const MAX_UNMAPPED: usize = 64;

/// What identifies a mapped file in `/proc/PID/maps`: device and inode.
type MappedId = ((u32, u32), u64);

/// Where a process has its dynamic linker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Linker {
    file: MappedId,
    /// Where it begins in memory.
    start: u64,
    /// The process was started with it as the program, or has none: it is the program, whatever that is.
    is_program: bool,
}

/// A running process.
#[derive(Debug)]
pub struct ProcessTarget {
    pid: u32,
    files: Files,
    /// By the files' numbers.
    inspected: Vec<Arc<InspectedFile>>,
    store: FileStore,
    /// The number of each mapped file; `None` for one that is no ELF file we can read.
    mapped: HashMap<MappedId, Option<usize>>,
    linker: Option<Linker>,
    /// Where in memory it has what it does; only recordings ask.
    linker_state: OnceLock<Option<u64>>,
    lacked_descriptors: bool,
}

/// The files that were inspected, for all processes of a recording: each is read once, however often and by however
/// many processes it is mapped. Each stays open, so that its inode is not reused.
#[derive(Debug, Clone, Default)]
pub struct FileStore(Arc<Mutex<HashMap<FileId, StoredFile>>>);

#[derive(Debug, Clone)]
struct StoredFile {
    inspected: Arc<InspectedFile>,
    read: Arc<Lazy>,
}

impl FileStore {
    /// How many files are open.
    pub fn open_files(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// What was read of a file. One that was written to since it was read is read again.
    fn of(&self, file: InspectedFile) -> Result<StoredFile, Unusable> {
        let mut stored = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(read) = stored.get(&file.id()).filter(|read| read.inspected.is_unchanged()) {
            return Ok(read.clone());
        }
        if stored.len() > MAX_UNMAPPED {
            stored.retain(|_, cached| Arc::strong_count(&cached.inspected) > 1 || !cached.inspected.is_deleted());
        }
        let read = Arc::new(Lazy::new(Image::of_file(&file)?));
        let new = StoredFile { inspected: Arc::new(file), read };
        stored.insert(new.inspected.id(), new.clone());
        Ok(new)
    }

    /// Forgets what was read of files (symbols, types, classes), but not what was found there for questions so far, and maps
    /// them anew. Other questions read it again. `targets` are all that have this store.
    pub fn forget_contents<'t>(&self, targets: impl Iterator<Item = &'t mut ProcessTarget>) {
        let mut stored = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut replaced = HashMap::new();
        for file in stored.values_mut().filter(|file| file.read.has_contents() && file.inspected.is_unchanged()) {
            let image = Image::of_file(&file.inspected).ok();
            if let Some(read) = image.and_then(|image| file.read.without_contents(image)) {
                file.read = Arc::new(read);
                replaced.insert(file.read.number, Arc::clone(&file.read));
            }
        }
        targets.for_each(|target| target.files.replace(&replaced));
        forget_compiled();
    }
}

/// The pid namespace of a process, as BPF programs ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PidNamespace {
    /// Device number as the kernel stores it (`major << 20 | minor`), which `bpf_get_ns_current_pid_tgid` compares.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// The process's number in that namespace.
    pub pid: u32,
}

/// The contents of `/proc/PID/status`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcessStatus {
    /// The name, at most 15 bytes.
    pub name: String,
    /// One letter: `R`, `S`, `D`, `T`, `Z`…
    pub state: char,
    /// The process's number, also where a thread's was asked for.
    pub tgid: u32,
    /// The parent's number.
    pub parent: u32,
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Its number in each pid namespace from ours inwards; the last is the number in its namespace.
    pub ns_pids: Vec<u32>,
}

impl ProcessTarget {
    /// Looks at what a process has mapped.
    ///
    /// # Errors
    /// `R002` where there is no such process (any more), `B005` where there is no permission to inspect it.
    pub fn open(pid: u32) -> Result<Self, Diagnostic> {
        Self::open_with(pid, Files::with_user_cache())
    }

    /// The files that it has mapped.
    pub fn mapped(&self) -> &Files {
        &self.files
    }

    /// The same, for keeping.
    pub fn into_files(self) -> Files {
        self.files
    }

    /// As [`Self::open`], with a list of files that has none yet: it configures the layout cache.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with(pid: u32, files: Files) -> Result<Self, Diagnostic> {
        Self::open_stored(pid, files, FileStore::default())
    }

    /// As [`Self::open_with`], with the files that other processes of the same recording have mapped.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_stored(pid: u32, files: Files, store: FileStore) -> Result<Self, Diagnostic> {
        let status = ProcessStatus::read(pid).map_err(|e| unreadable(pid, &e))?;
        if status.state == 'Z' {
            return Err(Diagnostic::error(Code::NoSuchProcess, format!("process {pid} ({}) has ended", status.name))
                .hint("start it again; its parent has not collected the exit status yet"));
        }
        // A thread's number leads to its process.
        let mut process = Self {
            pid: status.tgid,
            files,
            inspected: Vec::new(),
            store,
            mapped: HashMap::new(),
            linker: None,
            linker_state: OnceLock::new(),
            lacked_descriptors: false,
        };
        process.refresh()?;
        if process.mapped.is_empty() {
            let what = format!("process {pid} ({}) has no program mapped", status.name);
            return Err(Diagnostic::error(Code::NoSuchProcess, what)
                .hint("give another process; this is a kernel thread or it is ending"));
        }
        Ok(process)
    }

    /// The process's number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Reads the mappings again: files that are no longer mapped leave the list, and new ones are added at its end;
    /// gives their numbers. Their headers are read, their symbols and debug information only when they are asked about.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn refresh(&mut self) -> Result<Vec<usize>, Diagnostic> {
        let text = self.read_maps()?;
        let linker = self.linker_in(&text);
        let mappings = || maps::parse(&text).filter(|mapping| mapping.executable);
        self.forget_unmapped(&mappings().map(|mapping| (mapping.device, mapping.inode)).collect());
        let before = self.files.files().len();
        let mut surroundings = None;
        for mapping in mappings() {
            let id = (mapping.device, mapping.inode);
            if self.mapped.contains_key(&id) || self.mapped.len() >= MAX_FILES {
                continue;
            }
            let surroundings = *surroundings.get_or_insert_with(|| shares_our_files(self.pid));
            let added = match self.add(&mapping, surroundings) {
                Ok(number) => Some(number),
                Err(Unusable::Unreadable(_)) => {
                    self.files.add_unreadable(mapping.path);
                    None
                }
                Err(_) => None,
            };
            self.mapped.insert(id, added);
        }
        if self.linker != linker {
            self.linker = linker;
            self.linker_state = OnceLock::new();
        }
        Ok((before..self.files.files().len()).collect())
    }

    /// Takes files off the list that are not among these.
    fn forget_unmapped(&mut self, mapped: &HashSet<MappedId>) {
        if self.mapped.keys().all(|id| mapped.contains(id)) {
            return;
        }
        self.mapped.retain(|id, _| mapped.contains(id));
        let mut still_mapped: Vec<usize> = self.mapped.values().copied().flatten().collect();
        still_mapped.sort_unstable();
        self.files.retain(|number| still_mapped.binary_search(&number).is_ok());
        let mut numbers = 0..;
        self.inspected.retain(|_| numbers.next().is_some_and(|number| still_mapped.binary_search(&number).is_ok()));
        for number in self.mapped.values_mut() {
            *number = number.and_then(|number| still_mapped.binary_search(&number).ok());
        }
    }

    /// A file of the list, open, by its [`TargetFile::id`](crate::TargetFile::id).
    pub fn inspected(&self, id: u64) -> Option<&Arc<InspectedFile>> {
        self.inspected.get(self.number_of(id)?)
    }

    /// The number of a file of the list.
    pub fn number_of(&self, id: u64) -> Option<usize> {
        self.files.files().iter().position(|file| file.id == id)
    }

    /// Mapped files that could not be opened, by the process's names: a module may be among them.
    pub fn unreadable(&self) -> &[PathBuf] {
        self.files.unreadable()
    }

    /// Some of the unreadable files could not be opened because this process, or the system, has too many open files.
    pub fn lacked_descriptors(&self) -> bool {
        self.lacked_descriptors
    }

    /// The number of the dynamic linker's file; `None` for a static program. It may have been started as the program, to
    /// run another one: `ld.so PROGRAM`.
    pub fn dynamic_linker(&self) -> Option<usize> {
        let linker = self.linker?;
        let number = self.mapped.get(&linker.file).copied().flatten()?;
        (!linker.is_program || self.files.is_dynamic_linker(number)).then_some(number)
    }

    /// Whether the dynamic linker is mapping files: those that are mapped may need others that are still to come.
    pub fn is_mapping_files(&self) -> bool {
        let state = |at| {
            let mut state = [0; 4];
            let memory = File::open(proc_file(self.pid, "mem")).ok()?;
            memory.read_exact_at(&mut state, at).ok().map(|()| u32::from_ne_bytes(state))
        };
        self.linker_state.get_or_init(|| self.find_linker_state()).and_then(state) == Some(RT_ADD)
    }

    fn find_linker_state(&self) -> Option<u64> {
        let in_file = self.files.data_address(self.dynamic_linker()?, "_r_debug")?;
        self.linker?.start.checked_add(in_file)?.checked_add(STATE_AT)
    }

    fn linker_in(&self, mappings: &[u8]) -> Option<Linker> {
        let auxv = read_bounded(&proc_file(self.pid, "auxv"), MAX_PROC_FILE).ok()?;
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_ne_bytes).unwrap_or(0);
        let value = |key| auxv.chunks_exact(16).find(|pair| word(&pair[..8]) == key).map(|pair| word(&pair[8..]));
        let base = value(AT_BASE).filter(|base| *base != 0);
        let within = base.or_else(|| value(AT_PHDR))?;
        let mapping = maps::parse(mappings).find(|mapping| (mapping.start..mapping.end).contains(&within))?;
        let file = (mapping.device, mapping.inode);
        Some(Linker { file, start: base.unwrap_or(mapping.start), is_program: base.is_none() })
    }

    fn read_maps(&self) -> Result<Vec<u8>, Diagnostic> {
        read_bounded(&proc_file(self.pid, "maps"), MAX_MAPS).map_err(|e| unreadable(self.pid, &e))
    }

    /// Lists a mapped file.
    fn add(&mut self, mapping: &Mapping, shares_our_files: bool) -> Result<usize, Unusable> {
        let path = self.path_to(mapping, shares_our_files);
        let file = self.open_mapped(mapping, &path).map_err(|e| {
            let errors = [Errno::EMFILE, Errno::ENFILE].map(|errno| Some(errno as i32));
            self.lacked_descriptors |= errors.contains(&e.raw_os_error());
            Unusable::Unreadable(e.to_string())
        })?;
        let name = mapping.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let stored = self.store.of(file)?;
        self.inspected.push(stored.inspected);
        Ok(self.files.add_read(stored.read, &path, &name))
    }

    /// Opens the file behind a mapping: through the mapping itself, which cannot lead elsewhere, but takes privileges;
    /// else by a name, if the name still leads to that file.
    fn open_mapped(&self, mapping: &Mapping, path: &Path) -> io::Result<InspectedFile> {
        let is_it = |file: &InspectedFile| {
            let (device, inode) = file.id();
            // Some file systems (overlayfs, btrfs) show other numbers in the maps than to stat.
            device != device_of(mapping.device) || inode == mapping.inode
        };
        if let Ok(file) = InspectedFile::open(&self.through_mapping(mapping))
            && is_it(&file)
        {
            return Ok(file);
        }
        let file = InspectedFile::open(path)?;
        if is_it(&file) {
            return Ok(file);
        }
        Err(io::Error::other("the file was replaced"))
    }

    fn through_mapping(&self, mapping: &Mapping) -> PathBuf {
        proc_file(self.pid, &format!("map_files/{:x}-{:x}", mapping.start, mapping.end))
    }

    /// A path to a mapped file, for messages, and for what lies beside it: as the process names it, if that is the same
    /// file for us; through its root; or, where the name is gone or leads elsewhere now, through the mapping itself.
    fn path_to(&self, mapping: &Mapping, shares_our_files: bool) -> PathBuf {
        let through_root = below(&proc_file(self.pid, "root"), &mapping.path);
        let through_mapping = self.through_mapping(mapping);
        // After `chroot` in a mount namespace of its own, paths begin at that namespace's root.
        let root = std::fs::read_link(proc_file(self.pid, "root")).ok();
        let below_root = root.and_then(|root| Some(mapping.path.strip_prefix(root).ok()?.to_owned()));
        let after_chroot = below_root.map(|path| below(&proc_file(self.pid, "root"), &path));
        let named = [Some(&mapping.path), Some(&through_root), after_chroot.as_ref()];
        if let Some(path) = named.into_iter().flatten().find(|path| is_file(path, mapping)) {
            return path.clone();
        }
        // Some file systems (overlayfs, btrfs) show other numbers in the maps than to stat.
        let by_name = if shares_our_files { &mapping.path } else { &through_root };
        if !mapping.deleted && by_name.exists() && !is_on_device(by_name, mapping) {
            return by_name.clone();
        }
        if through_mapping.exists() { through_mapping } else { by_name.clone() }
    }
}

impl PidNamespace {
    /// The pid namespace of a process.
    ///
    /// # Errors
    /// That of reading `/proc/PID/ns/pid` and `/proc/PID/status`.
    pub fn of(pid: u32) -> io::Result<Self> {
        let namespace = std::fs::metadata(proc_file(pid, "ns/pid"))?;
        Ok(Self::new(&namespace, ProcessStatus::read(pid)?))
    }

    /// The pid namespace of a child that has not run another program yet. It is where our children are made: the child
    /// itself may not be asked, where this program has its privileges from its file and its memory is not for others.
    ///
    /// # Errors
    /// That of reading `/proc/self/ns/pid_for_children` and `/proc/PID/status`.
    pub fn of_child(pid: u32) -> io::Result<Self> {
        let namespace = std::fs::metadata("/proc/self/ns/pid_for_children")?;
        Ok(Self::new(&namespace, ProcessStatus::read(pid)?))
    }

    fn new(namespace: &Metadata, status: ProcessStatus) -> Self {
        Self {
            device: major(namespace.dev()) << 20 | minor(namespace.dev()),
            inode: namespace.ino(),
            pid: status.ns_pids.last().copied().unwrap_or(status.tgid),
        }
    }
}

impl ProcessStatus {
    /// Reads the status of a process or thread.
    ///
    /// # Errors
    /// That of reading `/proc/PID/status`.
    pub fn read(pid: u32) -> io::Result<Self> {
        let text = read_bounded(&proc_file(pid, "status"), MAX_PROC_FILE)?;
        Ok(Self::parse(&String::from_utf8_lossy(&text), pid))
    }

    fn parse(text: &str, pid: u32) -> Self {
        let mut status = Self { state: '?', tgid: pid, ..Self::default() };
        for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let mut numbers = value.split_whitespace().map_while(|word| word.parse::<u32>().ok());
            match key {
                "Name" => status.name = value.trim().to_owned(),
                "State" => status.state = value.trim().chars().next().unwrap_or('?'),
                "Tgid" => status.tgid = numbers.next().unwrap_or(pid),
                "PPid" => status.parent = numbers.next().unwrap_or(0),
                // Real, effective, saved, of the file system.
                "Uid" => status.uid = numbers.nth(1).unwrap_or(u32::MAX),
                "Gid" => status.gid = numbers.nth(1).unwrap_or(u32::MAX),
                // The thread's number is `NSpid`, the process's `NStgid`.
                "NStgid" => status.ns_pids = numbers.take(64).collect(),
                _ => {}
            }
        }
        status
    }
}

/// The words of a process's command line, without those past the first megabyte.
///
/// # Errors
/// That of reading `/proc/PID/cmdline`.
pub fn command_line(pid: u32) -> io::Result<Vec<String>> {
    let text = read_bounded(&proc_file(pid, "cmdline"), MAX_PROC_FILE)?;
    let text = text.strip_suffix(b"\0").unwrap_or(&text);
    if text.is_empty() {
        return Ok(Vec::new());
    }
    Ok(text.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

/// The files that any process of the system has mapped, by device and inode as the maps show them; `None` where it cannot
/// be read of all.
#[cfg(target_os = "linux")]
pub fn mapped_by_anyone() -> Option<HashSet<FileId>> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut mapped = HashSet::new();
    for pid in pids {
        let text = match read_bounded(&proc_file(pid, "maps"), MAX_MAPS) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return None,
            // It has ended.
            Err(_) => continue,
        };
        mapped.extend(maps::parse(&text).map(|mapping| (device_of(mapping.device), mapping.inode)));
    }
    Some(mapped)
}

/// A device number as `stat` gives it, of its major and minor.
fn device_of((major, minor): (u32, u32)) -> u64 {
    makedev(major.into(), minor.into())
}

fn proc_file(pid: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

fn read_bounded(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// `/proc/7/root` and `/usr/lib` to `/proc/7/root/usr/lib`. The paths of the maps begin at the root of the process's mount
/// namespace, or at ours where they can be reached from it, as with `chroot`.
fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Whether paths mean the same to the process as to us.
fn shares_our_files(pid: u32) -> bool {
    let own = std::fs::read_link("/proc/self/ns/mnt");
    let namespace = std::fs::read_link(proc_file(pid, "ns/mnt"));
    let root = std::fs::read_link(proc_file(pid, "root"));
    matches!((own, namespace), (Ok(own), Ok(other)) if own == other)
        && matches!(root, Ok(root) if root == Path::new("/"))
}

/// Whether a path leads to the very file that is mapped.
fn is_file(path: &Path, mapping: &Mapping) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.ino() == mapping.inode && file.dev() == device_of(mapping.device))
}

/// Whether the file is on the mapping's device, so that another inode number means another file.
fn is_on_device(path: &Path, mapping: &Mapping) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.dev() == device_of(mapping.device))
}

fn unreadable(pid: u32, error: &io::Error) -> Diagnostic {
    if error.kind() == io::ErrorKind::PermissionDenied {
        return Diagnostic::error(Code::Privilege, format!("no permission to inspect process {pid}: {error}"))
            .hint("run profinfer as the user of that process, or as root (CAP_SYS_PTRACE)");
    }
    // A process that ends while it is read gives ESRCH.
    Diagnostic::error(Code::NoSuchProcess, format!("process {pid} not found"))
        .hint("run `pgrep -a NAME` to list processes by name")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TargetSymbols;
    use crate::open;
    use crate::tests::{compile, compile_in};
    use profinfer_probeset::path::NamePattern;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, Command, Stdio};

    fn current_pid() -> u32 {
        std::process::id()
    }

    fn names(process: &ProcessTarget) -> Vec<&str> {
        process.mapped().files().iter().map(|file| file.name.as_str()).collect()
    }

    /// A program that opens each library whose path it is sent, and confirms it.
    struct Opener(Child);

    impl Opener {
        fn start(folder: &Path) -> Self {
            let source = r#"
                #include <dlfcn.h>
                #include <stdio.h>
                #include <string.h>
                int main(void) {
                    char line[4096];
                    puts("ready");
                    fflush(stdout);
                    while (fgets(line, sizeof line, stdin)) {
                        line[strcspn(line, "\n")] = 0;
                        puts(dlopen(line, RTLD_NOW) ? "opened" : dlerror());
                        fflush(stdout);
                    }
                }
            "#;
            let program = compile_in(folder, "gcc", "opener", source, &["-ldl"]);
            let child = Command::new(program).arg("two words").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
            let mut opener = Self(child.unwrap());
            opener.expect("ready");
            opener
        }

        fn open(&mut self, library: &Path) {
            writeln!(self.0.stdin.as_mut().unwrap(), "{}", library.display()).unwrap();
            self.expect("opened");
        }

        fn expect(&mut self, answer: &str) {
            let mut line = String::new();
            // One line at a time is written, so that no more than it is buffered here.
            BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
            assert_eq!(line.trim(), answer);
        }
    }

    impl Drop for Opener {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn this_process_has_its_program_and_libraries() {
        let mut own = ProcessTarget::open_with(current_pid(), Files::new(None)).unwrap();
        let program = std::env::current_exe().unwrap();
        let file = own.mapped().files().iter().position(|file| file.path == program).unwrap();
        assert_eq!(own.mapped().functions(file, &NamePattern("main".into())).len(), 1);
        assert!(own.dynamic_linker().is_some_and(|file| names(&own)[file].starts_with("ld")));
        assert!(names(&own).contains(&"libc.so.6"));
        assert!(own.refresh().unwrap().is_empty());
        assert!(own.unreadable().is_empty());
    }

    #[test]
    fn a_library_that_is_opened_later_is_new_once() {
        let (folder, library) = compile("gcc", "late.so", "int late(void) { return 1; }", &["-shared", "-fPIC"]);
        let mut opener = Opener::start(folder.path());
        let mut process = ProcessTarget::open_with(opener.0.id(), Files::new(None)).unwrap();
        assert!(process.refresh().unwrap().is_empty());

        opener.open(&library);
        let new = process.refresh().unwrap();
        assert_eq!(new.iter().map(|file| names(&process)[*file]).collect::<Vec<_>>(), ["late.so"]);
        assert_eq!(process.mapped().functions(new[0], &NamePattern("late".into())).len(), 1);
        assert!(process.refresh().unwrap().is_empty());
    }

    #[test]
    fn a_library_that_was_written_to_since_it_was_read_is_read_again() {
        let flags = ["-shared", "-fPIC"];
        let (folder, library) = compile("gcc", "same.so", "int first(void) { return 1; }", &flags);
        let mut opener = Opener::start(folder.path());
        opener.open(&library);
        let store = FileStore::default();
        let open = || ProcessTarget::open_stored(opener.0.id(), Files::new(None), store.clone()).unwrap();
        let functions = |process: &ProcessTarget, name: &str| {
            let file = process.mapped().files().iter().position(|file| file.name == "same.so").unwrap();
            process.mapped().functions(file, &NamePattern(name.into())).len()
        };
        let before = open();
        assert_eq!((functions(&before, "first"), functions(&before, "second")), (1, 0));
        let other = compile_in(folder.path(), "gcc", "other.so", "int second(void) { return 2; }", &flags);
        let bytes = std::fs::read(other).unwrap();
        // The same inode; longer, so that its size tells even where times are coarse.
        let mut file = std::fs::OpenOptions::new().write(true).open(&library).unwrap();
        file.write_all(&[&bytes[..], &[0; 4096]].concat()).unwrap();
        let after = open();
        assert_eq!((functions(&after, "first"), functions(&after, "second")), (0, 1));
        let id = |process: &ProcessTarget| {
            process.mapped().files().iter().find(|file| file.name == "same.so").map(|file| file.id).unwrap()
        };
        assert_ne!(id(&before), id(&after));
        assert_eq!(id(&after), id(&open()), "read once");
    }

    #[test]
    fn what_was_read_is_forgotten_but_not_the_answers_nor_the_numbers() {
        let source = "int first(void) { return 1; } int second(void) { return 2; }";
        let (folder, library) = compile("gcc", "same.so", source, &["-shared", "-fPIC"]);
        let mut opener = Opener::start(folder.path());
        opener.open(&library);
        let store = FileStore::default();
        let mut process = ProcessTarget::open_stored(opener.0.id(), Files::new(None), store.clone()).unwrap();
        let file = process.mapped().files().iter().position(|file| file.name == "same.so").unwrap();
        let functions =
            |process: &ProcessTarget, name: &str| process.mapped().functions(file, &NamePattern(name.into()));
        let (before, listed) = (functions(&process, "first"), process.mapped().files().to_vec());
        assert_eq!(before.len(), 1);
        assert!(process.mapped().has_contents(file));
        store.forget_contents(std::iter::once(&mut process));
        assert!(!process.mapped().has_contents(file));
        assert_eq!(functions(&process, "first"), before);
        assert!(!process.mapped().has_contents(file), "an answer needs no second reading");
        assert_eq!(functions(&process, "second").len(), 1);
        assert!(process.mapped().has_contents(file));
        assert_eq!(process.mapped().files(), listed);
        assert!(process.refresh().unwrap().is_empty());
    }

    #[test]
    #[ignore = "needs root"]
    fn a_deleted_library_is_read_through_its_mapping() {
        let (folder, library) = compile("gcc", "gone.so", "int gone(void) { return 1; }", &["-shared", "-fPIC"]);
        let mut opener = Opener::start(folder.path());
        opener.open(&library);
        std::fs::remove_file(&library).unwrap();
        // Another file of the same name must not be taken for it.
        compile_in(folder.path(), "gcc", "gone.so", "int other(void) { return 2; }", &["-shared", "-fPIC"]);

        let process = ProcessTarget::open_with(opener.0.id(), Files::new(None)).unwrap();
        let file = process.mapped().files().iter().position(|file| file.name == "gone.so").unwrap();
        assert_eq!(process.mapped().functions(file, &NamePattern("gone".into())).len(), 1);
        assert!(process.mapped().functions(file, &NamePattern("other".into())).is_empty());
    }

    #[test]
    #[ignore = "needs root"]
    fn a_process_with_other_mounts_is_read_through_its_root() {
        let folder = tempfile::tempdir().unwrap();
        let mounted = folder.path().join("mounted");
        std::fs::create_dir(&mounted).unwrap();
        let main = "int main(void) { pause(); return 0; }";
        let source = format!("#include <unistd.h>\nint inside(void) {{ return 1; }} {main}");
        compile_in(folder.path(), "gcc", "program", &source, &[]);
        // What we see by the same path is another program.
        compile_in(&mounted, "gcc", "program", &format!("#include <unistd.h>\n{main}"), &[]);
        let script = "mount -t tmpfs none mounted && cp program mounted && exec \"$PWD/mounted/program\"";
        let unshare = Command::new("unshare").args(["--mount", "sh", "-c", script]).current_dir(&folder).spawn();
        let mut child = unshare.unwrap();
        let pid = child.id();
        let found = (0..500).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            let process = ProcessTarget::open_with(pid, Files::new(None)).ok()?;
            let file = process.mapped().files().iter().position(|file| file.name == "program")?;
            Some((
                process.mapped().files()[file].path.clone(),
                process.mapped().functions(file, &NamePattern("inside".into())).len(),
            ))
        });
        child.kill().unwrap();
        child.wait().unwrap();
        let through_root = below(&proc_file(pid, "root"), &mounted.join("program"));
        assert_eq!(found, Some((through_root, 1)));
    }

    #[test]
    fn a_process_that_is_not_there_is_refused() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        for pid in [0, u32::MAX, child.id()] {
            let fault = ProcessTarget::open_with(pid, Files::new(None)).unwrap_err();
            assert_eq!(fault.code, Code::NoSuchProcess);
            assert!(fault.hint.is_some());
        }
        assert_eq!(open("99999999999999999999").err().map(|fault| fault.code), Some(Code::NoSuchProcess));
    }

    #[test]
    fn a_process_that_waits_to_be_collected_has_ended() {
        let mut child = Command::new("true").spawn().unwrap();
        while ProcessStatus::read(child.id()).unwrap().state != 'Z' {
            std::thread::yield_now();
        }
        let fault = ProcessTarget::open_with(child.id(), Files::new(None)).unwrap_err();
        child.wait().unwrap();
        assert_eq!(fault.code, Code::NoSuchProcess);
        assert!(fault.message.contains("has ended"));
    }

    #[test]
    fn a_process_s_namespace_owner_and_command_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let opener = Opener::start(folder.path());
        let pid = opener.0.id();
        let status = ProcessStatus::read(pid).unwrap();
        assert_eq!((status.name.as_str(), status.tgid, status.parent), ("opener", pid, current_pid()));
        let own = std::fs::metadata("/proc/self").unwrap();
        assert_eq!((status.uid, status.gid), (own.uid(), own.gid()));
        let namespace = PidNamespace::of(pid).unwrap();
        let link = std::fs::read_link("/proc/self/ns/pid").unwrap();
        assert_eq!(link.to_string_lossy(), format!("pid:[{}]", namespace.inode));
        assert_eq!(namespace.pid, *status.ns_pids.last().unwrap());
        assert_eq!(command_line(pid).unwrap()[1..], ["two words"]);
    }

    #[test]
    fn device_numbers_are_those_of_the_maps() {
        assert_eq!(device_of((8, 3)), 0x803);
        assert_eq!(device_of((13, 0x123)), 0x0000_0000_0010_0d23);
        let namespace = std::fs::metadata("/proc/self/ns/pid").unwrap().dev();
        assert_eq!(device_of((major(namespace) as u32, minor(namespace) as u32)), namespace);
    }

    proptest::proptest! {
        #[test]
        fn any_status_is_read(text in "([A-Za-z]{0,8}:?[ \t0-9]{0,30}\n?){0,10}") {
            let _ = ProcessStatus::parse(&text, 1);
        }
    }
}
