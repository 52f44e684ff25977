//! Memory that this process may still have.

use std::path::Path;

/// What the machine has left, or what this process's control groups allow, whichever is less: bytes, by the folders `proc`
/// and `sys` below a root. `None` where neither tells.
pub(super) fn available_memory(root: &Path) -> Option<u64> {
    let text = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
    let meminfo = text("proc/meminfo");
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let machine = kibibytes.map(|kibibytes| kibibytes.saturating_mul(1024));
    let groups = text("proc/self/cgroup");
    let of_group = |line: &str| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        let (root, limit, used, prefix) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max", "memory.current", ""),
            of if of.split(',').any(|one| one == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
            }
            _ => return None,
        };
        // A limit further up applies too.
        let left = |group: &Path| {
            let folder = format!("{root}/{}", group.to_str()?.trim_start_matches('/'));
            let number = |name: &str| text(&format!("{folder}/{name}")).trim().parse::<u64>().ok();
            let limit = number(limit)?;
            // Files that are only cached make way.
            let stat = text(&format!("{folder}/memory.stat"));
            let cached = ["inactive_file", "active_file"].map(|name| {
                let of = |line: &str| line.strip_prefix(prefix)?.strip_prefix(name)?.trim().parse::<u64>().ok();
                stat.lines().find_map(of).unwrap_or(0)
            });
            Some(limit.saturating_sub(number(used).unwrap_or(0).saturating_sub(cached.iter().sum())))
        };
        Path::new(group).ancestors().filter_map(left).min()
    };
    groups.lines().filter_map(of_group).chain(machine).min()
}
