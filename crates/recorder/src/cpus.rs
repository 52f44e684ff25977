//! The machine's processors by type.

use profinfer_binary::{core_types, cpu_list};
use profinfer_schema::CpuType;
use std::path::Path;

/// The types of processors, where there are several, by their first processor. `sys` is where sysfs is.
pub(super) fn types(sys: &Path) -> Vec<CpuType> {
    let possible = std::fs::read_to_string(sys.join("devices/system/cpu/possible")).unwrap_or_default();
    let number = |cpu: u32| u16::try_from(cpu).ok();
    let named =
        |(name, cpus): (String, Vec<u32>)| CpuType { name, cpus: cpus.into_iter().filter_map(number).collect() };
    let mut types: Vec<CpuType> = core_types(sys, &cpu_list(&possible)).into_iter().map(named).collect();
    types.sort_by(|a, b| a.cpus.cmp(&b.cpus));
    types
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn processors_have_types_where_there_are_several() {
        let sys = tempfile::tempdir().unwrap();
        assert_eq!(types(sys.path()), []);
        write(&sys.path().join("devices/system/cpu/possible"), "0-2\n");
        for (cpu, capacity) in [(0, 1024), (1, 446), (2, 446)] {
            write(&sys.path().join(format!("devices/system/cpu/cpu{cpu}/cpu_capacity")), &format!("{capacity}\n"));
        }
        let named = |name: &str, cpus: &[u16]| CpuType { name: name.into(), cpus: cpus.to_vec() };
        assert_eq!(types(sys.path()), [named("capacity 1024", &[0]), named("capacity 446", &[1, 2])]);
        write(&sys.path().join("bus/event_source/devices/cpu_core/cpus"), "0-1\n");
        write(&sys.path().join("bus/event_source/devices/cpu_atom/cpus"), "2\n");
        write(&sys.path().join("bus/event_source/devices/uncore/cpumask"), "0\n");
        assert_eq!(types(sys.path()), [named("cpu_core", &[0, 1]), named("cpu_atom", &[2])]);
    }
}
