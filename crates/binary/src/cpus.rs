//! A machine's processors, as the kernel lists them in `/proc` and `/sys`.

use std::collections::BTreeMap;
use std::path::Path;

/// The largest number of processors.
const MOST_CPUS: usize = 8192;
/// The maximum number of entries of a folder.
const MOST_UNITS: usize = 4096;

/// The numbers that a list such as `0-3,8` names, in order; other texts are left out.
pub fn cpu_list(list: &str) -> Vec<u32> {
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some(first.trim().parse::<u32>().ok()?..=last.trim().parse::<u32>().ok()?)
    };
    let mut cpus: Vec<u32> = list.split(',').filter_map(range).flatten().take(MOST_CPUS).collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// Those of the processors that are of one type, by its name, where there are several types: by the units that count
/// their events (`cpu_core`, `armv8_cortex_a76`), else by their capacity (`capacity 1024`). `sys` is where sysfs is.
pub fn core_types(sys: &Path, cpus: &[u32]) -> Vec<(String, Vec<u32>)> {
    let types = by_unit(&sys.join("bus/event_source/devices"), cpus);
    let types = if types.len() < 2 { by_capacity(&sys.join("devices/system/cpu"), cpus) } else { types };
    if types.len() < 2 { Vec::new() } else { types }
}

/// Only the units of processors say of which they are.
fn by_unit(devices: &Path, cpus: &[u32]) -> Vec<(String, Vec<u32>)> {
    let entries = std::fs::read_dir(devices).into_iter().flatten().flatten().take(MOST_UNITS);
    let unit = |entry: std::fs::DirEntry| {
        let mut its = cpu_list(&std::fs::read_to_string(entry.path().join("cpus")).ok()?);
        its.retain(|cpu| cpus.contains(cpu));
        (!its.is_empty()).then(|| (entry.file_name().to_string_lossy().into_owned(), its))
    };
    let mut units: Vec<(String, Vec<u32>)> = entries.filter_map(unit).collect();
    units.sort_by(|a, b| a.1.cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
    units
}

fn by_capacity(folder: &Path, cpus: &[u32]) -> Vec<(String, Vec<u32>)> {
    let mut types: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for cpu in cpus.iter().take(MOST_CPUS) {
        let capacity = std::fs::read_to_string(folder.join(format!("cpu{cpu}/cpu_capacity"))).ok();
        if let Some(capacity) = capacity.and_then(|text| text.trim().parse().ok()) {
            types.entry(capacity).or_default().push(*cpu);
        }
    }
    types.into_iter().map(|(capacity, cpus)| (format!("capacity {capacity}"), cpus)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_of_ranges_and_bounded() {
        assert_eq!(cpu_list("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(cpu_list("8, 1-2,2"), [1, 2, 8]);
        assert_eq!(cpu_list("3-1,x,-,"), [] as [u32; 0]);
        assert_eq!(cpu_list("0-4294967295").len(), MOST_CPUS);
    }

    #[test]
    fn processors_have_types_where_there_are_several() {
        let sys = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = sys.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let named = |name: &str, cpus: &[u32]| (name.to_owned(), cpus.to_vec());
        assert_eq!(core_types(sys.path(), &[0, 1, 2]), []);
        for (cpu, capacity) in [(0, 1024), (1, 446), (2, 446)] {
            write(&format!("devices/system/cpu/cpu{cpu}/cpu_capacity"), &format!("{capacity}\n"));
        }
        let by_capacity = [named("capacity 446", &[1, 2]), named("capacity 1024", &[0])];
        assert_eq!(core_types(sys.path(), &[0, 1, 2]), by_capacity);
        write("bus/event_source/devices/cpu_core/cpus", "0-1\n");
        write("bus/event_source/devices/cpu_atom/cpus", "2\n");
        write("bus/event_source/devices/uncore/cpumask", "0\n");
        assert_eq!(core_types(sys.path(), &[0, 1, 2]), [named("cpu_core", &[0, 1]), named("cpu_atom", &[2])]);
        assert_eq!(core_types(sys.path(), &[1]), [], "one type is none");
    }
}
