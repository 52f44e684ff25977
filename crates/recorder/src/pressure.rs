//! What the kernel lets the target have: its processes' time in user code and in the kernel, its page faults, and the
//! limits of its control groups, of both versions, with what happened because of them. Polled some times a second.

use super::clock::{boot_ns, monotonic_ns};
use super::consumer::{Consumer, Traffic};
use super::kernel_files::KernelFiles;
use super::process::family;
use nix::unistd::{SysconfVar, sysconf};
use profinfer_binary::ProcessStat;
use profinfer_schema::{Notice, Pressure, RecordKind, Schema, Stalled};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time between two polls: each reads some seven small files.
pub(super) const PERIOD: Duration = Duration::from_millis(100);
/// Time between two looks at the limits of the same groups, some twenty files, and at which processes there are, one for
/// each thread.
const LIMITS: Duration = Duration::from_secs(1);
/// Processes that are polled: reading one takes some ten microseconds, and the recorder answers nothing else meanwhile.
const MOST_PROCESSES: usize = 1000;
/// A poll of many processes is followed by a pause that is as many times as long: 2 % of a processor.
const PAUSES: u32 = 50;
/// Bytes of a file of `/proc` that are read.
const MOST_BYTES: u64 = 16 << 20;
/// Polls that a trace in a file stores; then every second one is left out, after as many again every second one of these,
/// and so on.
const MOST_NOTICES: u32 = 20_000;

/// The values of the last poll.
#[derive(Debug)]
pub(super) struct PressurePoll {
    /// Nanoseconds of a tick.
    tick: u64,
    files: KernelFiles,
    mounts: Mounts,
    processes: BTreeMap<i32, ProcessCounts>,
    family: Family,
    groups: Groups,
    /// What they were made of.
    cgroup: Vec<u8>,
    limits: Limits,
    looked: Option<Instant>,
    traffic: Traffic,
    counts: GroupCounts,
    polled: Option<(Instant, u64)>,
    /// How long the last poll took.
    took: Duration,
    /// The most processes that a poll left out, being too many.
    left_out: u64,
    /// When processes were polled last, in ticks since the machine was started.
    tick_polled: u64,
    /// The trace is read while it is written, for as long as that takes, and not stored.
    is_followed: bool,
    notices: u32,
    every: u32,
}

/// The target's processes, as they were found last.
#[derive(Debug, Default)]
struct Family {
    /// Types of the records that tell of another one.
    forks: Vec<usize>,
    /// How many of them there were then, and when that was.
    seen: Option<(u64, Instant)>,
    processes: Vec<i32>,
}

impl Family {
    fn new(schema: &Schema) -> Self {
        let forks = schema.records.iter().enumerate().filter(|(_, record)| record.kind == RecordKind::Fork);
        Self { forks: forks.map(|(index, _)| index).collect(), ..Self::default() }
    }

    fn of(&mut self, pid: i32, consumer: &Consumer) -> &[i32] {
        let forks = self.forks.iter().map(|record| consumer.counts().of_type(*record)).sum();
        if self.seen.is_none_or(|(before, found)| before != forks || found.elapsed() >= LIMITS) {
            self.seen = Some((forks, Instant::now()));
            self.processes = family(pid);
        }
        &self.processes
    }
}

/// Counts of a process since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ProcessCounts {
    /// When that was, in ticks since the machine was started.
    started: u64,
    user: u64,
    system: u64,
    minor: u64,
    major: u64,
}

/// Where control groups are mounted: one hierarchy may have several controllers, and several mounts.
#[derive(Debug, Clone, Default)]
struct Mounts {
    unified: Vec<Mount>,
    cpu: Vec<Mount>,
    memory: Vec<Mount>,
}

/// A folder, and the group that it shows.
#[derive(Debug, Clone)]
struct Mount {
    folder: PathBuf,
    root: PathBuf,
}

/// The groups of a process, from the innermost outwards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Groups {
    cpu: Vec<PathBuf>,
    memory: Vec<PathBuf>,
    /// The innermost, where the kernel counts stalls by group.
    stalls: Option<PathBuf>,
}

/// What the groups limit, and where it is counted.
#[derive(Debug, Clone, Default, PartialEq)]
struct Limits {
    /// CPUs, the fewest of all groups; those that have any.
    quota: Option<f64>,
    throttling: Vec<PathBuf>,
    /// The smallest, bytes, and its group.
    memory: Option<(u64, PathBuf)>,
}

/// Counts of the groups since they were made.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct GroupCounts {
    quota: Option<f64>,
    throttled: Option<u64>,
    limit: Option<u64>,
    hits: Option<u64>,
    refaults: Option<u64>,
    stalled: Option<Stalled>,
}

/// CPUs' worth of time that the control groups of a process let it have.
pub(super) fn cpu_quota_of(pid: u32) -> Option<f64> {
    smallest_quota(&read("/proc/self/mountinfo")?, &read(&format!("/proc/{pid}/cgroup"))?)
}

fn smallest_quota(mountinfo: &[u8], cgroup: &[u8]) -> Option<f64> {
    Mounts::parse(mountinfo).groups_of(cgroup).limits().quota
}

/// A file of `/proc`. Names in it are bytes: one that is no UTF-8 must not hide the others.
fn read(path: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

impl PressurePoll {
    /// For recordings of a schema, whose trace somebody may read while it is written.
    pub(super) fn new(schema: &Schema, is_followed: bool) -> Self {
        let hz = sysconf(SysconfVar::CLK_TCK).ok().flatten().and_then(|hz| u64::try_from(hz).ok()).unwrap_or(100);
        let mounts = read("/proc/self/mountinfo").unwrap_or_default();
        Self {
            tick: 1_000_000_000 / hz.max(1),
            files: KernelFiles::default(),
            mounts: Mounts::parse(&mounts),
            processes: BTreeMap::new(),
            family: Family::new(schema),
            groups: Groups::default(),
            cgroup: Vec::new(),
            limits: Limits::default(),
            looked: None,
            traffic: Traffic::Operators,
            counts: GroupCounts::default(),
            polled: None,
            took: Duration::ZERO,
            left_out: 0,
            tick_polled: 0,
            is_followed,
            notices: 0,
            every: 1,
        }
    }

    /// Puts into the trace what has happened since the last time, if it is time.
    pub(super) fn poll(&mut self, pid: i32, forks: bool, traffic: Traffic, consumer: &Consumer) {
        self.traffic = traffic;
        let pause = self.pause(self.by_traffic(PERIOD));
        if self.polled.is_some_and(|(last, _)| last.elapsed() < pause) {
            return;
        }
        self.poll_now(pid, forks, consumer);
    }

    /// A time that is longer while no operator is recorded for lack of budget.
    fn by_traffic(&self, time: Duration) -> Duration {
        let times = match self.traffic {
            Traffic::Operators => 1,
            Traffic::Steps => 10,
            Traffic::Threads => 20,
        };
        time * times
    }

    fn pause(&self, period: Duration) -> Duration {
        (period * self.every).max(self.took * PAUSES)
    }

    /// The same, whatever the time.
    pub(super) fn poll_now(&mut self, pid: i32, forks: bool, consumer: &Consumer) {
        let (time, begun) = (monotonic_ns(), Instant::now());
        let before = self.polled.replace((begun, time));
        let pressure = self.since(pid, forks, consumer);
        self.took = begun.elapsed();
        let Some((_, since)) = before else { return };
        self.count();
        let pressure = Some(Pressure { since, ..pressure });
        consumer.notice_of(|| Notice { time, pressure, ..Notice::default() });
    }

    /// Whose time is missing, for who reads the trace.
    pub(super) fn left_out(&self) -> Option<String> {
        let left_out = self.left_out;
        (left_out > 0).then(|| {
            format!("CPU time and page faults of the target lack those of up to {left_out} of its processes: {MOST_PROCESSES} are polled")
        })
    }

    /// The longer a recording is that is stored, the further apart are its polls.
    fn count(&mut self) {
        self.notices = self.notices.saturating_add(1);
        if !self.is_followed && self.notices.is_multiple_of(MOST_NOTICES) {
            self.every = self.every.saturating_mul(2);
        }
    }

    fn since(&mut self, pid: i32, forks: bool, consumer: &Consumer) -> Pressure {
        let processes = if forks { self.family.of(pid, consumer).to_vec() } else { vec![pid] };
        let (sum, left_out) = self.used(&processes);
        let before = self.counts;
        let moved = self.look(pid);
        self.counts = self.limits.counts(self.groups.stalls.as_deref(), &mut self.files);
        // Counts of another group are not to be compared.
        let before = if moved { self.counts } else { before };
        let more = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        Pressure {
            since: 0,
            user_ns: sum.user.saturating_mul(self.tick),
            system_ns: sum.system.saturating_mul(self.tick),
            minor_faults: sum.minor,
            major_faults: sum.major,
            left_out,
            cpu_quota: self.counts.quota,
            throttled_ns: more(self.counts.throttled, before.throttled),
            memory_limit: self.counts.limit,
            memory_limit_hits: more(self.counts.hits, before.hits),
            refaulted_pages: more(self.counts.refaults, before.refaults),
            stalled: self.counts.stalled.zip(before.stalled).map(|(now, before)| Stalled {
                of_group: now.of_group,
                cpu_ns: now.cpu_ns.saturating_sub(before.cpu_ns),
                memory_ns: now.memory_ns.saturating_sub(before.memory_ns),
                io_ns: now.io_ns.saturating_sub(before.io_ns),
            }),
        }
    }

    /// What these processes have used since the last poll, and how many are too many to be asked.
    fn used(&mut self, processes: &[i32]) -> (ProcessCounts, u64) {
        let left_out = processes.len().saturating_sub(MOST_PROCESSES) as u64;
        self.left_out = self.left_out.max(left_out);
        let last_tick = std::mem::replace(&mut self.tick_polled, boot_ns() / self.tick);
        let mut sum = ProcessCounts::default();
        let polled = processes.iter().copied().take(MOST_PROCESSES);
        let files = &mut self.files;
        let polled: BTreeMap<i32, _> =
            polled.filter_map(|pid| Some((pid, ProcessCounts::from(stat(pid, files)?)))).collect();
        for (pid, now) in &polled {
            let before = now.before(self.processes.get(pid), last_tick);
            sum.user += now.user.saturating_sub(before.user);
            sum.system += now.system.saturating_sub(before.system);
            sum.minor += now.minor.saturating_sub(before.minor);
            sum.major += now.major.saturating_sub(before.major);
        }
        self.processes = polled;
        (sum, left_out)
    }

    /// Looks for the groups of the process, which a wrapper may just have moved it to, and sometimes for their limits;
    /// whether the groups are others than before.
    fn look(&mut self, pid: i32) -> bool {
        let Some(cgroup) = cgroup(pid, &mut self.files) else { return false };
        let moved = cgroup != self.cgroup;
        if moved {
            self.files.close();
            self.groups = self.mounts.groups_of(&cgroup);
            self.cgroup = cgroup;
        }
        if moved || self.looked.is_none_or(|looked| looked.elapsed() >= self.by_traffic(LIMITS)) {
            self.looked = Some(Instant::now());
            self.limits = self.groups.limits();
        }
        moved
    }
}

impl ProcessCounts {
    /// The counts at the last poll, which was at that tick. One that was not polled then may have run for long, among too many
    /// others: only one that began since is counted from its beginning.
    fn before(self, last: Option<&Self>, last_tick: u64) -> Self {
        let new = if self.started >= last_tick { Self::default() } else { self };
        last.copied().filter(|last| last.started == self.started).unwrap_or(new)
    }
}

impl From<ProcessStat> for ProcessCounts {
    fn from(stat: ProcessStat) -> Self {
        let ProcessStat { minor, major, user, system, started, .. } = stat;
        Self { minor, major, user, system, started }
    }
}

impl Mounts {
    fn parse(mountinfo: &[u8]) -> Self {
        let mut mounts = Self::default();
        for line in mountinfo.split(|byte| *byte == b'\n') {
            let mut parts = line.split(|byte| *byte == b' ');
            let (root, folder) = (parts.nth(3), parts.next());
            // Optional fields end with a dash; then come the kind, the source and the options.
            let mut system = parts.skip_while(|part| *part != b"-").skip(1);
            let (kind, options) = (system.next(), system.nth(1).unwrap_or_default());
            let (Some(root), Some(folder), Some(kind)) = (root, folder, kind) else { continue };
            let mount = || Mount { folder: unescaped(folder), root: unescaped(root) };
            if kind == b"cgroup2" {
                mounts.unified.push(mount());
            }
            if kind == b"cgroup" && has(options, b"cpu") {
                mounts.cpu.push(mount());
            }
            if kind == b"cgroup" && has(options, b"memory") {
                mounts.memory.push(mount());
            }
        }
        mounts
    }

    fn groups_of(&self, cgroup: &[u8]) -> Groups {
        let mut groups = Groups::default();
        for line in cgroup.split(|byte| *byte == b'\n') {
            let mut parts = line.splitn(3, |byte| *byte == b':');
            let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
            let path = Path::new(OsStr::from_bytes(path));
            if controllers.is_empty() {
                let folders = folders(&self.unified, path);
                // The group of all has no events: its stalls are the machine's.
                let counts = |folder: &&PathBuf| {
                    ["memory.pressure", "cgroup.events"].iter().all(|name| folder.join(name).exists())
                };
                groups.stalls = folders.first().filter(counts).cloned();
                groups.cpu.extend(folders.iter().cloned());
                groups.memory.extend(folders);
            }
            if has(controllers, b"cpu") {
                groups.cpu.extend(folders(&self.cpu, path));
            }
            if has(controllers, b"memory") {
                groups.memory.extend(folders(&self.memory, path));
            }
        }
        groups
    }
}

/// Whether a list with commas has a word.
fn has(list: &[u8], word: &[u8]) -> bool {
    list.split(|byte| *byte == b',').any(|of| of == word)
}

/// A path of a list of mounts: a blank, a tab, a line's end or a backslash is a backslash and three octal digits there.
fn unescaped(path: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((byte, after)) = rest.split_first() {
        let code = after.first_chunk::<3>().filter(|_| *byte == b'\\').and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        plain.push(code.unwrap_or(*byte));
        rest = after.get(if code.is_some() { 3 } else { 0 }..).unwrap_or_default();
    }
    PathBuf::from(OsString::from_vec(plain))
}

fn stat(pid: i32, files: &mut KernelFiles) -> Option<ProcessStat> {
    ProcessStat::parse(&String::from_utf8_lossy(files.read(Path::new(&format!("/proc/{pid}/stat")))?))
}

/// What the kernel tells of a process's groups; `None` where it has ended.
fn cgroup(pid: i32, files: &mut KernelFiles) -> Option<Vec<u8>> {
    let text = files.read(Path::new(&format!("/proc/{pid}/cgroup")))?.to_vec();
    stat(pid, files).filter(|stat| !matches!(stat.state, 'Z' | 'X')).map(|_| text)
}

/// A group's folder, and those of the groups around it: in the latest mount that shows it, else in the latest of all, which
/// may be a container's, whose groups have other names outside of it.
fn folders(mounts: &[Mount], group: &Path) -> Vec<PathBuf> {
    let shows = |mount: &&Mount| group.starts_with(&mount.root);
    let Some(Mount { folder, root }) = mounts.iter().rev().find(shows).or(mounts.last()) else { return Vec::new() };
    let within = group.strip_prefix(root).unwrap_or(Path::new(""));
    let folder_of = folder.join(within);
    folder_of.ancestors().take_while(|ancestor| ancestor.starts_with(folder)).map(Path::to_path_buf).collect()
}

impl Groups {
    fn limits(&self) -> Limits {
        let quotas: Vec<(f64, &PathBuf)> =
            self.cpu.iter().filter_map(|folder| Some((cpu_quota(folder)?, folder))).collect();
        let memory = self.memory.iter().filter_map(|folder| Some((memory_limit(folder)?, folder.clone())));
        Limits {
            quota: quotas.iter().map(|(quota, _)| *quota).reduce(f64::min),
            throttling: quotas.into_iter().map(|(_, folder)| folder.clone()).collect(),
            memory: memory.min_by_key(|(limit, _)| *limit),
        }
    }
}

impl Limits {
    fn counts(&self, stalls: Option<&Path>, files: &mut KernelFiles) -> GroupCounts {
        let throttled = self.throttling.iter().map(|folder| throttled(folder, files).unwrap_or(0));
        let mut counts = GroupCounts {
            quota: self.quota,
            throttled: throttled.reduce(u64::saturating_add),
            ..GroupCounts::default()
        };
        if let Some((limit, folder)) = &self.memory {
            counts.limit = Some(*limit);
            let hits = files.text(&folder.join("memory.failcnt")).and_then(number);
            counts.hits = hits.or_else(|| value(files, &folder.join("memory.events"), &["max"]));
            let names = ["total_workingset_refault_file", "total_workingset_refault_anon"];
            let names_v2 = ["workingset_refault_file", "workingset_refault_anon"];
            let stat = folder.join("memory.stat");
            counts.refaults = value(files, &stat, &names).or_else(|| value(files, &stat, &names_v2));
        }
        counts.stalled = stalled(stalls, Path::new("/proc/pressure"), files);
        counts
    }
}

/// CPUs' worth of time that a group may have.
fn cpu_quota(folder: &Path) -> Option<f64> {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    let (quota, period) = match read("cpu.max") {
        Some(text) => text.trim().split_once(' ').map(|(quota, period)| (quota.to_owned(), period.to_owned()))?,
        None => (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?),
    };
    let (quota, period): (f64, f64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

/// ns that a group was not let run, over its CPUs.
fn throttled(folder: &Path, files: &mut KernelFiles) -> Option<u64> {
    let stat = folder.join("cpu.stat");
    value(files, &stat, &["throttled_time"])
        .or_else(|| value(files, &stat, &["throttled_usec"]).map(|microseconds| microseconds.saturating_mul(1000)))
}

/// Stalls of a group, or of the machine, since it was made; `None` where the kernel does not count them.
fn stalled(group: Option<&Path>, machine: &Path, files: &mut KernelFiles) -> Option<Stalled> {
    let mut of = |resource: &str| {
        let path = match group {
            Some(group) => group.join(format!("{resource}.pressure")),
            None => machine.join(resource),
        };
        let some = files.text(&path)?.lines().find(|line| line.starts_with("some "))?;
        let (_, microseconds) = some.rsplit_once("total=")?;
        microseconds.trim().parse::<u64>().ok()?.checked_mul(1000)
    };
    Some(Stalled { of_group: group.is_some(), cpu_ns: of("cpu")?, memory_ns: of("memory")?, io_ns: of("io")? })
}

/// Bytes that a group may have.
fn memory_limit(folder: &Path) -> Option<u64> {
    let read = |name: &str| number(&std::fs::read_to_string(folder.join(name)).ok()?);
    let limit = read("memory.max").or_else(|| read("memory.limit_in_bytes"));
    // The first version writes the largest number where there is no limit.
    limit.filter(|bytes| *bytes < 1 << 60)
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// The sum of these keys' values in a file of keys and values; `None` where it has none of them.
fn value(files: &mut KernelFiles, path: &Path, keys: &[&str]) -> Option<u64> {
    let pairs = files.text(path)?.lines().filter_map(|line| line.split_once(' '));
    let values = pairs.filter(|(key, _)| keys.contains(key)).filter_map(|(_, value)| value.trim().parse::<u64>().ok());
    values.reduce(u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn counts_of(groups: &Groups) -> GroupCounts {
        groups.limits().counts(groups.stalls.as_deref(), &mut KernelFiles::default())
    }

    fn mountinfo(root: &Path) -> String {
        let root = root.display();
        format!(
            "30 25 0:26 / {root}/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
             31 25 0:27 /box {root}/memory rw - cgroup cgroup rw,memory\n\
             32 25 0:28 / {root}/unified rw - cgroup2 cgroup2 rw\n"
        )
    }

    fn mounts(root: &Path) -> Mounts {
        Mounts::parse(mountinfo(root).as_bytes())
    }

    #[test]
    fn the_smallest_quota_counts_in_both_versions() {
        let folder = tempfile::tempdir().unwrap();
        let (root, mountinfo) = (folder.path(), mountinfo(folder.path()));
        let mountinfo = mountinfo.as_bytes();
        let first = |quota: &str, group: &str| {
            write(&root.join(format!("cpu/{group}/cpu.cfs_quota_us")), quota);
            write(&root.join(format!("cpu/{group}/cpu.cfs_period_us")), "100000\n");
        };
        first("-1\n", "a/b");
        assert_eq!(smallest_quota(mountinfo, b"1:cpu,cpuacct:/a/b\n0::/\n"), None);
        first("150000\n", "a");
        assert_eq!(smallest_quota(mountinfo, b"1:cpu,cpuacct:/a/b\n0::/\n"), Some(1.5));
        write(&root.join("unified/a/cpu.max"), "150000 100000\n");
        write(&root.join("unified/a/b/cpu.max"), "max 100000\n");
        assert_eq!(smallest_quota(mountinfo, b"0::/a/b\n"), Some(1.5));
        write(&root.join("unified/a/b/cpu.max"), "50000 100000\n");
        assert_eq!(smallest_quota(mountinfo, b"0::/a/b\n"), Some(0.5));
        assert_eq!(smallest_quota(b"", b"0::/a/b\n"), None);
    }

    #[test]
    fn groups_of_the_first_version_are_found_from_the_innermost_outwards() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let groups = mounts(root).groups_of(b"4:memory:/box/a\n1:cpu,cpuacct:/a/b\n0::/\n");
        assert_eq!(groups.cpu[..3], [root.join("cpu/a/b"), root.join("cpu/a"), root.join("cpu")]);
        assert_eq!(groups.memory[0], root.join("memory/a"));
        write(&root.join("cpu/a/cpu.cfs_quota_us"), "150000\n");
        write(&root.join("cpu/a/cpu.cfs_period_us"), "100000\n");
        write(&root.join("cpu/a/cpu.stat"), "nr_periods 5\nnr_throttled 2\nthrottled_time 700\n");
        write(&root.join("cpu/cpu.cfs_quota_us"), "-1\n");
        write(&root.join("cpu/cpu.cfs_period_us"), "100000\n");
        write(&root.join("memory/a/memory.limit_in_bytes"), "157286400\n");
        write(&root.join("memory/memory.limit_in_bytes"), "9223372036854771712\n");
        write(&root.join("memory/a/memory.failcnt"), "12\n");
        write(&root.join("memory/a/memory.stat"), "workingset_refault_file 1\ntotal_workingset_refault_file 30\n");
        let expected = GroupCounts {
            quota: Some(1.5),
            throttled: Some(700),
            limit: Some(157_286_400),
            hits: Some(12),
            refaults: Some(30),
            stalled: None,
        };
        assert_eq!(GroupCounts { stalled: None, ..counts_of(&groups) }, expected);
    }

    #[test]
    fn one_hierarchy_may_have_both_controllers() {
        let folder = tempfile::tempdir().unwrap();
        let group = folder.path().join("cpu,memory/a");
        let mountinfo =
            format!("30 25 0:26 / {0}/cpu,memory rw - cgroup cgroup rw,cpu,memory\n", folder.path().display());
        let groups = Mounts::parse(mountinfo.as_bytes()).groups_of(b"4:cpu,memory:/a\n");
        write(&group.join("cpu.cfs_quota_us"), "50000\n");
        write(&group.join("cpu.cfs_period_us"), "100000\n");
        write(&group.join("memory.limit_in_bytes"), "1048576\n");
        let counts = counts_of(&groups);
        assert_eq!((counts.quota, counts.limit), (Some(0.5), Some(1 << 20)));
    }

    #[test]
    fn paths_of_mounts_may_have_any_bytes() {
        assert_eq!(unescaped(br"/a\040b\134\011\x04\40"), Path::new("/a b\\\t\\x04\\40"));
        assert_eq!(unescaped(br"/\777"), Path::new(r"/\777"), "no byte");
        let mounts = Mounts::parse(
            b"20 1 0:20 / /\xff rw - tmpfs tmpfs rw\n\
              21 1 0:21 / /g\\040h rw master:1 shared:2 - cgroup2 none rw,nsdelegate\nbroken\n1 2 3 4 5 6 -\n",
        );
        let groups = mounts.groups_of(b"0::/\xfe b\n");
        assert_eq!(groups.cpu, [Path::new(OsStr::from_bytes(b"/g h/\xfe b")), Path::new("/g h")]);
    }

    #[test]
    fn a_group_is_found_in_the_mount_that_shows_it() {
        let mounts = Mounts::parse(
            b"21 1 0:21 / /sys/fs/cgroup rw - cgroup2 none rw\n22 1 0:21 /box /srv/box rw - cgroup2 none rw\n",
        );
        assert_eq!(mounts.groups_of(b"0::/other\n").cpu[0], Path::new("/sys/fs/cgroup/other"));
        assert_eq!(mounts.groups_of(b"0::/box/a\n").cpu[0], Path::new("/srv/box/a"));
    }

    /// A process alone in a namespace of mounts, where groups are mounted at a folder with a blank.
    #[test]
    #[ignore = "needs root"]
    fn a_mount_is_read_as_the_kernel_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("a b");
        std::fs::create_dir(&place).unwrap();
        let script = "mount -t cgroup2 none \"$0\" && cat /proc/self/mountinfo && ls -d \"$0\"/cgroup.procs >&2";
        let shell =
            std::process::Command::new("unshare").args(["-m", "sh", "-c", script]).arg(&place).output().unwrap();
        assert!(shell.status.success(), "{shell:?}");
        let groups = Mounts::parse(&shell.stdout).groups_of(b"0::/\n");
        assert_eq!(groups.cpu, [place]);
    }

    #[test]
    fn stalls_are_of_the_group_or_of_the_machine() {
        let folder = tempfile::tempdir().unwrap();
        let (machine, group) = (folder.path().join("pressure"), folder.path().join("unified/a"));
        assert_eq!(stalled(None, &machine, &mut KernelFiles::default()), None, "a kernel without them");
        let text =
            |total: u64| format!("some avg10=0.00 avg60=1.20 avg300=0.10 total={total}\nfull avg10=0.00 total=1\n");
        for (resource, total) in [("cpu", 3), ("memory", 5), ("io", 7)] {
            write(&machine.join(resource), &text(total));
            write(&group.join(format!("{resource}.pressure")), &text(10 * total));
        }
        assert_eq!(mounts(folder.path()).groups_of(b"0::/a\n").stalls, None, "it may be the group of all");
        write(&group.join("cgroup.events"), "populated 1\n");
        let of_machine = Stalled { of_group: false, cpu_ns: 3000, memory_ns: 5000, io_ns: 7000 };
        assert_eq!(stalled(None, &machine, &mut KernelFiles::default()), Some(of_machine));
        let groups = mounts(folder.path()).groups_of(b"0::/a\n");
        assert_eq!(groups.stalls, Some(group));
        let of_group = Stalled { of_group: true, cpu_ns: 30_000, memory_ns: 50_000, io_ns: 70_000 };
        assert_eq!(counts_of(&groups).stalled, Some(of_group));
    }

    #[test]
    fn groups_of_the_second_version_have_one_folder() {
        let folder = tempfile::tempdir().unwrap();
        let groups = mounts(folder.path()).groups_of(b"0::/a\n");
        let group = folder.path().join("unified/a");
        assert_eq!(GroupCounts { stalled: None, ..counts_of(&groups) }, GroupCounts::default());
        write(&group.join("cpu.max"), "30000 100000\n");
        write(&group.join("cpu.stat"), "usage_usec 10\nthrottled_usec 4\n");
        write(&group.join("memory.max"), "1048576\n");
        write(&group.join("memory.events"), "low 0\nhigh 0\nmax 7\n");
        write(&group.join("memory.stat"), "workingset_refault_anon 2\nworkingset_refault_file 3\n");
        let counts = counts_of(&groups);
        assert_eq!((counts.quota, counts.throttled), (Some(0.3), Some(4000)));
        assert_eq!((counts.limit, counts.hits, counts.refaults), (Some(1 << 20), Some(7), Some(5)));
    }

    #[test]
    fn polls_of_a_recording_that_is_followed_are_as_dense_after_days() {
        for (is_followed, every) in [(false, 8), (true, 1)] {
            let mut poll = PressurePoll::new(&Schema::default(), is_followed);
            (0..3 * MOST_NOTICES).for_each(|_| poll.count());
            assert_eq!(poll.every, every);
        }
    }

    #[test]
    fn a_process_that_is_polled_late_has_not_used_its_lifetime_at_once() {
        let counts = |started, user| ProcessCounts { started, user, ..ProcessCounts::default() };
        let now = counts(50, 900);
        let used = |last: Option<ProcessCounts>, last_tick| now.user - now.before(last.as_ref(), last_tick).user;
        assert_eq!(used(None, 700), 0, "it was one too many");
        assert_eq!(used(None, 40), 900, "it began since");
        assert_eq!(used(Some(counts(50, 880)), 700), 20);
        assert_eq!(used(Some(counts(20, 5000)), 40), 900, "its number was another's");
        let own = ProcessCounts::from(stat(std::process::id().cast_signed(), &mut KernelFiles::default()).unwrap());
        let hz = sysconf(SysconfVar::CLK_TCK).unwrap().unwrap().cast_unsigned();
        assert!((1..=boot_ns() / (1_000_000_000 / hz)).contains(&own.started), "{own:?}");
    }

    /// A process that runs, and one that does nothing, ended with this.
    struct Running(Vec<std::process::Child>);

    impl Running {
        fn launch(&mut self, script: &str) -> i32 {
            let child = std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
            self.0.push(child);
            self.0.last().unwrap().id().cast_signed()
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            self.0.iter_mut().for_each(|child| child.kill().and_then(|()| child.wait()).map(drop).unwrap());
        }
    }

    #[test]
    fn the_last_of_many_processes_is_polled_too() {
        let mut running = Running(Vec::new());
        let mut processes: Vec<i32> = (0..100).map(|_| running.launch("exec sleep 100")).collect();
        processes.push(running.launch("while :; do :; done"));
        let mut poll = PressurePoll::new(&Schema::default(), false);
        poll.used(&processes);
        let mut ticks = 0;
        for _ in 0..1000 {
            std::thread::sleep(Duration::from_millis(10));
            let (used, left_out) = poll.used(&processes);
            assert_eq!(left_out, 0);
            ticks += used.user;
            if ticks >= 5 {
                break;
            }
        }
        assert!(ticks >= 5 && poll.processes.len() == 101 && poll.left_out().is_none());
    }

    #[test]
    fn processes_that_are_too_many_are_told() {
        let mut poll = PressurePoll::new(&Schema::default(), false);
        let own = std::process::id().cast_signed();
        assert_eq!(poll.used(&vec![own; MOST_PROCESSES + 3]).1, 3);
        assert_eq!(poll.used(&[own]).1, 0);
        let text = poll.left_out().unwrap();
        assert!(text.ends_with("up to 3 of its processes: 1000 are polled"), "{text}");
    }

    #[test]
    fn polls_that_take_long_are_rare() {
        let mut poll = PressurePoll::new(&Schema::default(), false);
        poll.took = Duration::from_millis(1);
        assert_eq!(poll.pause(PERIOD), PERIOD);
        poll.took = Duration::from_millis(10);
        assert_eq!(poll.pause(PERIOD), Duration::from_millis(500));
    }

    #[test]
    fn a_process_may_have_any_name() {
        let stat = "12 (a) b) 3) R 1 1 1 0 -1 0 100 0 5 0 70 80 0 0 20 0 1 0 9";
        let counts = ProcessCounts { minor: 100, major: 5, user: 70, system: 80, started: 9 };
        assert_eq!(ProcessStat::parse(stat).map(ProcessCounts::from), Some(counts));
        assert_eq!(ProcessStat::parse("12 (a"), None);
    }
}
