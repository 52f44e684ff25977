//! The machine to measure: processors in the order in which they are used, core types, caches, memory, and the
//! instructions that all of them have. It reads `/proc` and `/sys`, and measures nothing.

use super::memory::available_memory;
use profinfer_binary::{core_types, cpu_list};
use profinfer_schema::{CacheSize, CoreType};
use std::collections::BTreeSet;
use std::path::Path;

/// The largest number of processors: as many as a thread can be bound to.
const MAX_CPUS: usize = 1024;
/// Bytes of memory, where the machine does not say how much is available.
const FEW_BYTES: u64 = 256 << 20;

/// This machine, as far as measuring needs to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Machine {
    /// Processors that may be used, in the order in which they are taken: one of each core before its siblings, the
    /// strongest cores first.
    pub(super) cpus: Vec<u32>,
    /// How many of them are the first ones of their cores.
    pub(super) cores: usize,
    /// Kinds of cores, the strongest first; none, where all are alike.
    pub(super) core_types: Vec<CoreType>,
    /// The first processor's data caches, the smallest first.
    pub(super) caches: Vec<CacheSize>,
    /// The last caches: bytes in which data stays, and the processors that share them.
    pub(super) last_caches: Vec<(u64, BTreeSet<u32>)>,
    /// Data caches of the first processor of each kind of core.
    pub(super) caches_of_types: Vec<Vec<CacheSize>>,
    /// What all processors have, in the kernel's words.
    pub(super) features: BTreeSet<String>,
    /// Bytes of memory that this process may take without anything being paged out or killed.
    pub(super) available: u64,
}

impl Machine {
    /// Reads what the folders `proc` and `sys` below a root say of processors that this process may use.
    pub(super) fn of_this(root: &Path) -> Self {
        Self::read(root, &Self::allowed(root))
    }

    /// The processors that this process may use, as far as they are measured. A process's list has those that are
    /// offline, too, to which no thread can be bound.
    pub(super) fn allowed(root: &Path) -> Vec<u32> {
        let files = Files { root };
        let status = files.text("proc/self/status");
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let mut allowed = list.map(cpu_list).unwrap_or_default();
        let online = cpu_list(&files.text("sys/devices/system/cpu/online"));
        allowed.retain(|cpu| online.is_empty() || online.binary_search(cpu).is_ok());
        if allowed.is_empty() {
            allowed.push(online.first().copied().unwrap_or(0));
        }
        allowed.truncate(MAX_CPUS);
        allowed
    }

    /// Reads what the folders `proc` and `sys` below a root say, of processors that may be used.
    fn read(root: &Path, allowed: &[u32]) -> Self {
        let files = Files { root };
        let core_types = files.core_types(allowed);
        let rank = |cpu: u32| core_types.iter().position(|kind| kind.cpus.contains(&cpu));
        let mut order: Vec<(usize, Option<usize>, u32)> =
            allowed.iter().map(|cpu| (files.place_in_core(*cpu), rank(*cpu), *cpu)).collect();
        order.sort_unstable();
        order.dedup();
        let cores = order.iter().filter(|(place, ..)| *place == 0).count();
        let cpus: Vec<u32> = order.into_iter().map(|(.., cpu)| cpu).collect();
        let caches = |cpu: Option<&u32>| {
            let caches = cpu.map(|cpu| files.caches(*cpu)).unwrap_or_default();
            caches.into_iter().map(|(cache, _)| cache).collect::<Vec<_>>()
        };
        Self {
            last_caches: files.last_caches(&cpus),
            caches: caches(cpus.first()),
            caches_of_types: core_types.iter().map(|kind| caches(kind.cpus.first())).collect(),
            cores: cores.max(1),
            cpus,
            core_types,
            features: features(&files.text("proc/cpuinfo")),
            available: available_memory(root).unwrap_or(FEW_BYTES),
        }
    }

    /// Whether all processors have a feature.
    pub(super) fn has(&self, feature: &str) -> bool {
        self.features.contains(feature)
    }

    /// Bytes of all last caches that these processors have.
    pub(super) fn last_cache_bytes(&self, cpus: &[u32]) -> u64 {
        let used = self.last_caches.iter().filter(|(_, shared)| cpus.iter().any(|cpu| shared.contains(cpu)));
        used.fold(0, |sum, (bytes, _)| sum.saturating_add(*bytes))
    }

    /// Data stays only in so many bytes of the last cache of a processor, and of all like it.
    pub(super) fn restrict_last_cache(&mut self, cpu: u32, bytes: u64) {
        let Some((level, reported)) = self.caches_of(Some(cpu)).last().map(|last| (last.level, last.bytes)) else {
            return;
        };
        let caches = self.caches_of_types.iter_mut().chain([&mut self.caches]).filter_map(|caches| caches.last_mut());
        for last in caches.filter(|last| (last.level, last.bytes) == (level, reported)) {
            last.usable_bytes = Some(bytes);
        }
        for (of_last, _) in self.last_caches.iter_mut().filter(|(of_last, _)| *of_last == reported) {
            *of_last = bytes;
        }
    }

    /// The data caches that such a processor has.
    pub(super) fn caches_of(&self, cpu: Option<u32>) -> &[CacheSize] {
        let kind = cpu.and_then(|cpu| self.core_types.iter().position(|kind| kind.cpus.contains(&cpu)));
        kind.and_then(|kind| self.caches_of_types.get(kind)).unwrap_or(&self.caches)
    }

    /// The kind of cores that these processors are all of.
    pub(super) fn core_type(&self, cpus: &[u32]) -> Option<&str> {
        let kind = self.core_types.iter().find(|kind| cpus.iter().all(|cpu| kind.cpus.contains(cpu)));
        kind.map(|kind| kind.name.as_str())
    }
}

/// Files that the kernel writes.
struct Files<'a> {
    root: &'a Path,
}

impl Files<'_> {
    fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.root.join(path)).unwrap_or_default()
    }

    fn of_cpu(&self, cpu: u32, file: &str) -> String {
        self.text(&format!("sys/devices/system/cpu/cpu{cpu}/{file}"))
    }

    /// 0 for the first processor of a core.
    fn place_in_core(&self, cpu: u32) -> usize {
        let siblings = cpu_list(&self.of_cpu(cpu, "topology/thread_siblings_list"));
        siblings.iter().position(|sibling| *sibling == cpu).unwrap_or(0)
    }

    /// By the PMUs of cores, else by capacity, the strongest first. A maximum frequency is no kind: processors of one
    /// make differ a little in that.
    fn core_types(&self, allowed: &[u32]) -> Vec<CoreType> {
        let named = |(name, cpus)| CoreType { name, cpus };
        let mut kinds: Vec<CoreType> = core_types(&self.root.join("sys"), allowed).into_iter().map(named).collect();
        let capacity = |cpu: u32| self.of_cpu(cpu, "cpu_capacity").trim().parse::<u32>().unwrap_or(0);
        let strength = |kind: &CoreType| {
            let cpu = kind.cpus.first().copied().unwrap_or(0);
            let frequency = self.of_cpu(cpu, "cpufreq/cpuinfo_max_freq").trim().parse::<u64>().unwrap_or(0);
            std::cmp::Reverse((capacity(cpu), frequency))
        };
        kinds.sort_by_key(strength);
        kinds
    }

    /// Data caches of a processor, each with those that share it.
    fn caches(&self, cpu: u32) -> Vec<(CacheSize, BTreeSet<u32>)> {
        let mut caches = Vec::new();
        for index in 0..16 {
            let file = |name: &str| self.of_cpu(cpu, &format!("cache/index{index}/{name}")).trim().to_owned();
            let (Ok(level), Some(bytes)) = (file("level").parse(), size(&file("size"))) else { continue };
            if file("type") == "Instruction" || bytes == 0 {
                continue;
            }
            let shared: BTreeSet<u32> = cpu_list(&file("shared_cpu_list")).into_iter().chain([cpu]).collect();
            let shared_by = u32::try_from(shared.len()).unwrap_or(u32::MAX);
            caches.push((CacheSize { level, bytes, shared_by, usable_bytes: None }, shared));
        }
        caches.sort_by_key(|(cache, _)| cache.level);
        caches
    }

    fn last_caches(&self, cpus: &[u32]) -> Vec<(u64, BTreeSet<u32>)> {
        let mut found: Vec<(u64, BTreeSet<u32>)> = Vec::new();
        for cpu in cpus {
            if found.iter().any(|(_, shared)| shared.contains(cpu)) {
                continue;
            }
            found.extend(self.caches(*cpu).pop().map(|(cache, shared)| (cache.bytes, shared)));
        }
        found
    }
}

/// Features that every processor's list has. The kernel leaves out what it does not save for its threads.
fn features(cpuinfo: &str) -> BTreeSet<String> {
    let lists = cpuinfo.lines().filter_map(|line| {
        let (name, list) = line.split_once(':')?;
        let list = || list.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>();
        matches!(name.trim(), "flags" | "Features").then(list)
    });
    lists.reduce(|all, list| &all & &list).unwrap_or_default()
}

/// `32K`, `36608K`, `1M`.
fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root with such files.
    fn root_with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    fn machine(files: &[(&str, &str)], allowed: &[u32]) -> Machine {
        Machine::read(root_with(files).path(), allowed)
    }

    #[test]
    fn processors_that_are_offline_are_not_used() {
        let allowed = |files: &[(&str, &str)]| Machine::allowed(root_with(files).path());
        let status = ("proc/self/status", "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\n");
        let online = |list| ("sys/devices/system/cpu/online", list);
        assert_eq!(allowed(&[status, online("0-3\n")]), [0, 1, 2, 3]);
        assert_eq!(allowed(&[status, online("0,2,6-9\n")]), [0, 2, 6, 7]);
        assert_eq!(allowed(&[status]), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!((allowed(&[]), allowed(&[online("1-3\n")])), (vec![0], vec![1]));
    }

    const CPU: &str = "sys/devices/system/cpu/cpu";

    #[test]
    fn a_core_s_second_processor_comes_after_all_first_ones() {
        let siblings = |cpu: u32, list: &str| (format!("{CPU}{cpu}/topology/thread_siblings_list"), list.to_owned());
        let files = [siblings(0, "0-1"), siblings(1, "0-1"), siblings(2, "2-3"), siblings(3, "2-3")];
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let machine = machine(&files, &[0, 1, 2, 3]);
        assert_eq!((machine.cpus, machine.cores), (vec![0, 2, 1, 3], 2));
        assert!(machine.core_types.is_empty());
    }

    #[test]
    fn kinds_of_cores_are_their_pmus_or_their_capacities() {
        let devices = "sys/bus/event_source/devices";
        let pmus = [
            (format!("{devices}/cpu_atom/cpus"), "2-3\n"),
            (format!("{devices}/cpu_core/cpus"), "0-1\n"),
            (format!("{devices}/uncore_imc/cpumask"), "0\n"),
            (format!("{CPU}0/cpufreq/cpuinfo_max_freq"), "5000000\n"),
            (format!("{CPU}2/cpufreq/cpuinfo_max_freq"), "4000000\n"),
        ];
        let pmus: Vec<(&str, &str)> = pmus.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let kind = |name: &str, cpus: &[u32]| CoreType { name: name.into(), cpus: cpus.to_vec() };
        let hybrid = machine(&pmus, &[0, 1, 2, 3]);
        assert_eq!(hybrid.core_types, [kind("cpu_core", &[0, 1]), kind("cpu_atom", &[2, 3])]);
        assert_eq!(hybrid.core_type(&[0]), Some("cpu_core"));
        assert_eq!(hybrid.core_type(&[1, 2]), None);
        // What may not be used is of no kind, and one kind is none.
        assert!(machine(&pmus, &[2, 3]).core_types.is_empty());
        let capacities = [(format!("{CPU}0/cpu_capacity"), "446\n"), (format!("{CPU}1/cpu_capacity"), "1024\n")];
        let capacities: Vec<(&str, &str)> = capacities.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let big_little = machine(&capacities, &[0, 1]);
        assert_eq!(big_little.core_types, [kind("capacity 1024", &[1]), kind("capacity 446", &[0])]);
        assert_eq!(big_little.cpus, [1, 0]);
    }

    #[test]
    fn caches_and_what_they_come_to() {
        let mut files = Vec::new();
        for cpu in 0..4 {
            let shared = if cpu < 2 { "0-1" } else { "2-3" };
            for (index, (level, kind, size, shared)) in
                [("1", "Data", "32K", ""), ("1", "Instruction", "64K", ""), ("3", "Unified", "16M", shared)]
                    .iter()
                    .enumerate()
            {
                let at = format!("{CPU}{cpu}/cache/index{index}");
                for (name, text) in [("level", level), ("type", kind), ("size", size), ("shared_cpu_list", shared)] {
                    files.push((format!("{at}/{name}"), (*text).to_owned()));
                }
            }
        }
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let machine = machine(&files, &[0, 1, 2, 3]);
        let cache = |level, bytes, shared_by| CacheSize { level, bytes, shared_by, usable_bytes: None };
        assert_eq!(machine.caches, [cache(1, 32 << 10, 1), cache(3, 16 << 20, 2)]);
        assert_eq!(machine.last_cache_bytes(&[0]), 16 << 20);
        assert_eq!(machine.last_cache_bytes(&[1, 0]), 16 << 20);
        assert_eq!(machine.last_cache_bytes(&[0, 1, 2, 3]), 32 << 20);
    }

    #[test]
    fn memory_is_what_the_machine_and_the_group_allow() {
        let little = ("proc/meminfo", "MemFree: 5 kB\nMemAvailable:   2048 kB\n");
        assert_eq!(machine(&[little], &[0]).available, 2 << 20);
        let meminfo = ("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:    1048576 kB\n");
        assert_eq!(machine(&[meminfo], &[0]).available, 1 << 30);
        let group = [
            meminfo,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/memory.max", "1000\n"),
            ("sys/fs/cgroup/a/memory.current", "400\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
        ];
        assert_eq!(machine(&group, &[0]).available, 600);
        // What of it is files makes way.
        let stat = "anon 100\ninactive_file 250\nactive_file 50\nactive_file_other 7\n";
        let cached = [&group[..], &[("sys/fs/cgroup/a/memory.stat", stat)]].concat();
        assert_eq!(machine(&cached, &[0]).available, 900);
        let first = [
            meminfo,
            ("proc/self/cgroup", "5:cpu,memory:/a\n0::/\n"),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1000\n"),
            ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "700\n"),
            ("sys/fs/cgroup/memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 200\n"),
        ];
        assert_eq!(machine(&first, &[0]).available, 500);
        assert_eq!(machine(&[], &[0]).available, FEW_BYTES);
    }

    #[test]
    fn features_are_those_of_all_processors() {
        assert_eq!(features("flags\t: a b c\nflags\t: b c d\n"), ["b", "c"].map(str::to_owned).into());
        assert_eq!(features("Features\t: asimd asimddp\n").len(), 2);
        assert_eq!([size("32K"), size("1M"), size("x"), size("")], [Some(32 << 10), Some(1 << 20), None, None]);
    }
}
