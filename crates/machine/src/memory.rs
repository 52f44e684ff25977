//! Memory that this process may still have.

use std::path::Path;

/// Limits from here on are none: no machine has as much.
const NO_LIMIT: u64 = 1 << 60;

/// What the machine has left, or what this process's control groups allow, whichever is less: bytes, by the folders `proc`
/// and `sys` below a root. `None` where neither tells.
pub(super) fn available_memory(root: &Path) -> Option<u64> {
    let meminfo = text(root, "proc/meminfo");
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let machine = kibibytes.map(|kibibytes| kibibytes.saturating_mul(1024));
    groups(root).iter().map(Group::left).chain(machine).min()
}

/// The tightest limit of this process's control groups, in bytes, by the same folders.
pub(super) fn memory_limit(root: &Path) -> Option<u64> {
    groups(root).iter().map(|group| group.limit).min()
}

/// A control group with a limit that holds for this process.
struct Group {
    limit: u64,
    used: u64,
    /// Files that are only cached make way.
    cached: u64,
}

impl Group {
    fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used.saturating_sub(self.cached))
    }
}

fn text(root: &Path, path: &str) -> String {
    std::fs::read_to_string(root.join(path)).unwrap_or_default()
}

/// This process's groups, and those further up, whose limits apply too.
fn groups(root: &Path) -> Vec<Group> {
    let of_line = |line: &str| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        let (mount, limit, used, prefix) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max", "memory.current", ""),
            of if of.split(',').any(|one| one == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
            }
            _ => return None,
        };
        let read = |group: &Path| {
            let folder = format!("{mount}/{}", group.to_str()?.trim_start_matches('/'));
            let number = |name: &str| text(root, &format!("{folder}/{name}")).trim().parse::<u64>().ok();
            // Version 1 writes the largest number of whole pages where there is no limit.
            let limit = number(limit).filter(|limit| *limit < NO_LIMIT)?;
            let stat = text(root, &format!("{folder}/memory.stat"));
            let cached = ["inactive_file", "active_file"].map(|name| {
                let of = |line: &str| line.strip_prefix(prefix)?.strip_prefix(name)?.trim().parse::<u64>().ok();
                stat.lines().find_map(of).unwrap_or(0)
            });
            Some(Group { limit, used: number(used).unwrap_or(0), cached: cached.iter().sum() })
        };
        Some(Path::new(group).ancestors().filter_map(read).collect::<Vec<_>>())
    };
    text(root, "proc/self/cgroup").lines().filter_map(of_line).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_limit_up_the_tree_counts() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(memory_limit(folder.path()), None);
        write("proc/self/cgroup", "0::/outer/inner\n");
        write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
        assert_eq!(memory_limit(folder.path()), None);
        write("sys/fs/cgroup/outer/memory.max", "104857600\n");
        assert_eq!(memory_limit(folder.path()), Some(100 << 20));
        write("proc/self/cgroup", "4:memory:/pod\n");
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(memory_limit(folder.path()), None);
        write("sys/fs/cgroup/memory/pod/memory.limit_in_bytes", "52428800\n");
        assert_eq!(memory_limit(folder.path()), Some(50 << 20));
    }
}
