//! The plan of the measurements: which processors, how much memory, how long. It measures nothing.

use super::kernels::GRAIN;
use super::machine::Machine;
use profinfer_schema::Level;
use std::time::Duration;

/// A group of processors uses this multiple of its last caches: half of it is read in a copy, so each array of it is
/// four times as large as they are, as STREAM's rules have it.
const CACHES: u64 = 8;
/// But over no less than this.
const LEAST_BYTES: u64 = 128 << 20;
/// And over no more than this part of the memory that is free.
const PART_OF_FREE: u64 = 4;

/// How long it is measured for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Thoroughness {
    /// All groups together, so far as the least number of repetitions allows it.
    pub(super) total: Duration,
    /// One repetition, at least.
    pub(super) repetition: Duration,
    /// Rounds of repetitions of each figure.
    pub(super) least: u32,
    pub(super) most: u32,
    /// Bytes of memory at most.
    pub(super) memory: u64,
}

impl Thoroughness {
    pub(super) const WHOLE: Self = Self {
        total: Duration::from_secs(14),
        repetition: Duration::from_millis(2),
        least: 3,
        most: 50,
        memory: u64::MAX,
    };
    pub(super) const QUICK: Self = Self {
        total: Duration::from_millis(1000),
        repetition: Duration::from_millis(1),
        least: 2,
        most: 10,
        memory: u64::MAX,
    };
    pub(super) const BRIEF: Self = Self {
        total: Duration::from_millis(500),
        repetition: Duration::from_millis(1),
        least: 1,
        most: 6,
        memory: BRIEF_BYTES,
    };
}

/// Groups that are measured briefly.
const FEW_GROUPS: usize = 4;
/// A brief measurement goes over no more memory than this: its first access alone takes a while.
const BRIEF_BYTES: u64 = 512 << 20;

/// The groups that a brief measurement has: one processor, all, one of each core, half of these; then as many of the
/// others, kinds of cores first, as there is time for. Limits of other numbers are worked out from these.
pub(super) fn few(machine: &Machine) -> Vec<Vec<u32>> {
    let of_kind = |group: &Vec<u32>| machine.core_types.iter().any(|kind| kind.cpus.len() == group.len());
    let (all, cores) = (machine.cpus.len(), machine.cores);
    let groups = groups(machine);
    let half = groups.iter().map(Vec::len).filter(|len| *len <= cores.div_ceil(2)).max();
    let rank = |group: &Vec<u32>| {
        let first = [Some(1), Some(all), Some(cores), half].iter().position(|len| *len == Some(group.len()));
        first.unwrap_or(if of_kind(group) { 4 } else { 5 })
    };
    let mut ranked: Vec<(usize, Vec<u32>)> = groups.into_iter().map(|group| (rank(&group), group)).collect();
    ranked.sort_by_key(|(rank, group)| (*rank, group.len()));
    ranked.truncate(FEW_GROUPS);
    let mut few: Vec<Vec<u32>> = ranked.into_iter().map(|(_, group)| group).collect();
    few.sort_by_key(Vec::len);
    few
}

/// The groups of processors: 1, 2, 4 … all of them, and one of each core; one and all of each kind of core.
pub(super) fn groups(machine: &Machine) -> Vec<Vec<u32>> {
    let all = machine.cpus.len();
    let powers = (0..usize::BITS).map(|power| 1 << power).take_while(|count| *count < all);
    let mut counts: Vec<usize> = powers.chain([machine.cores.min(all), all]).filter(|count| *count > 0).collect();
    counts.sort_unstable();
    let mut groups: Vec<Vec<u32>> = counts.iter().map(|count| machine.cpus[..*count].to_vec()).collect();
    for kind in &machine.core_types {
        let of_kind: Vec<u32> = machine.cpus.iter().copied().filter(|cpu| kind.cpus.contains(cpu)).collect();
        groups.extend(of_kind.first().map(|first| vec![*first]));
        groups.push(of_kind);
    }
    groups.retain(|group| !group.is_empty());
    let mut seen = std::collections::HashSet::new();
    groups.retain(|group| seen.insert(group.clone()));
    groups
}

/// Bytes that a group goes over in memory, all together.
pub(super) fn memory_bytes(machine: &Machine, cpus: &[u32]) -> u64 {
    let wanted = machine.last_cache_bytes(cpus).saturating_mul(CACHES).max(LEAST_BYTES);
    wanted.min(machine.available / PART_OF_FREE)
}

/// Bytes that a group has to go over for its figure to be of memory: what stays in the caches would be a part of less.
pub(super) fn least_memory_bytes(machine: &Machine, cpus: &[u32]) -> u64 {
    machine.last_cache_bytes(cpus).saturating_mul(2)
}

/// Bytes that each of a group's processors goes over so that they stay in a cache: half of its share. A level whose
/// share is not well above the level before it has no figure, nor has a group of several kinds of cores.
pub(super) fn resident_bytes(machine: &Machine, cpus: &[u32]) -> Vec<(Level, u64)> {
    if !machine.core_types.is_empty() && machine.core_type(cpus).is_none() {
        return Vec::new();
    }
    let mut levels = Vec::new();
    let mut before = 0;
    for cache in machine.caches_of(cpus.first().copied()) {
        let sharing = u64::from(cache.shared_by).min(cpus.len() as u64).max(1);
        let bytes = cache.usable() / sharing / 2 / GRAIN as u64 * GRAIN as u64;
        let level = match cache.level {
            1 => Level::L1,
            2 => Level::L2,
            3 => Level::L3,
            _ => continue,
        };
        if bytes >= (2 * before).max(GRAIN as u64) {
            levels.push((level, bytes));
        }
        before = cache.bytes;
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;
    use profinfer_schema::{CacheSize, CoreType};

    fn machine(cpus: u32, cores: usize) -> Machine {
        Machine { cpus: (0..cpus).collect(), cores, ..Machine::of_this(std::path::Path::new("/nonexistent")) }
    }

    fn sizes(machine: &Machine) -> Vec<usize> {
        groups(machine).iter().map(Vec::len).collect()
    }

    #[test]
    fn groups_double_and_end_with_all() {
        assert_eq!(sizes(&machine(1, 1)), [1]);
        assert_eq!(sizes(&machine(2, 2)), [1, 2]);
        assert_eq!(sizes(&machine(12, 6)), [1, 2, 4, 6, 8, 12]);
        let mut hybrid = machine(6, 6);
        let kind = |name: &str, cpus: &[u32]| CoreType { name: name.into(), cpus: cpus.to_vec() };
        hybrid.core_types = vec![kind("big", &[0, 1]), kind("little", &[2, 3, 4, 5])];
        let groups = groups(&hybrid);
        assert_eq!(groups.len(), 6, "{groups:?}");
        assert!(groups.contains(&vec![2]) && groups.contains(&vec![2, 3, 4, 5]), "{groups:?}");
    }

    #[test]
    fn a_brief_measurement_has_the_groups_that_others_follow_from() {
        let few = |machine: &Machine| few(machine).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(few(&machine(1, 1)), [1]);
        assert_eq!(few(&machine(2, 2)), [1, 2]);
        assert_eq!(few(&machine(8, 8)), [1, 2, 4, 8]);
        assert_eq!(few(&machine(16, 8)), [1, 4, 8, 16]);
        assert_eq!(few(&machine(64, 32)), [1, 16, 32, 64]);
        assert_eq!(few(&machine(128, 128)), [1, 2, 64, 128]);
    }

    #[test]
    fn memory_is_well_beyond_the_caches_and_well_within_what_is_free() {
        let mut machine = machine(2, 2);
        machine.available = 1 << 40;
        assert_eq!(memory_bytes(&machine, &[0]), LEAST_BYTES);
        machine.last_caches = vec![(32 << 20, [0, 1].into())];
        assert_eq!(memory_bytes(&machine, &[0]), 256 << 20);
        machine.available = 400 << 20;
        assert_eq!(memory_bytes(&machine, &[0]), 100 << 20);
    }

    #[test]
    fn a_level_is_measured_where_its_share_is_its_own() {
        let mut machine = machine(28, 28);
        let cache = |level, bytes, shared_by| CacheSize { level, bytes, shared_by, usable_bytes: None };
        machine.caches = vec![cache(1, 32 << 10, 1), cache(2, 1 << 20, 1), cache(3, 38 << 20, 28)];
        let one = resident_bytes(&machine, &[0]);
        assert_eq!(one, [(Level::L1, 16 << 10), (Level::L2, 512 << 10), (Level::L3, 19 << 20)]);
        let all: Vec<u32> = (0..28).collect();
        assert_eq!(resident_bytes(&machine, &all), [(Level::L1, 16 << 10), (Level::L2, 512 << 10)]);
        machine.core_types = vec![CoreType { name: "big".into(), cpus: vec![0, 1] }];
        assert_eq!(resident_bytes(&machine, &all), []);
    }
}
