//! A control group with limits, of one of the first version's hierarchies or of the second's; removed at the end. It needs
//! root.

// Not every test that makes one asks for everything.
#![allow(dead_code, reason = "each test program uses what it needs")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Puts a file out of the page cache: its pages then belong to the group that reads them first.
pub(crate) fn evict(file: &Path) {
    let succeeds = |command: &mut Command| assert!(command.stderr(Stdio::null()).status().unwrap().success());
    succeeds(Command::new("sync").arg(file));
    succeeds(Command::new("dd").args([&format!("if={}", file.display()), "iflag=nocache", "count=0"]));
}

pub(crate) struct ControlGroup {
    folder: PathBuf,
}

impl ControlGroup {
    /// Each limit by its name in the first version and in the second, and its value.
    fn new(controller: &str, limits: &[(&str, &str, String)]) -> Self {
        Self::named(controller, "", limits)
    }

    /// The same; its name ends with this.
    fn named(controller: &str, name: &str, limits: &[(&str, &str, String)]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let roots = [format!("/sys/fs/cgroup/{controller}"), "/sys/fs/cgroup".to_owned()];
        let root = roots.iter().find(|root| Path::new(root).join("cgroup.procs").exists()).expect("control groups");
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = Path::new(root).join(format!("profinfer-test-{}-{number}{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (first, second, value) in limits {
            let name = if root.ends_with(controller) { first } else { second };
            std::fs::write(folder.join(name), value).unwrap();
        }
        Self { folder }
    }

    /// Without limits, with a name as podman gives it to a container's: it and the number of the container.
    pub(crate) fn of_container() -> (Self, String) {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // The first digits are the container's own: it may be shortened to them.
        let number = format!("{:06x}{:06x}{:052x}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed), 0);
        (Self::named("cpu", &format!("-libpod-{number}.scope"), &[]), number)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Of CPUs, with a quota of each tenth of a second, in microseconds.
    pub(crate) fn of_cpus(quota_us: u64) -> Self {
        let period = ("cpu.cfs_period_us", "cpu.max", "100000".to_owned());
        Self::new("cpu", &[period, ("cpu.cfs_quota_us", "cpu.max", quota_us.to_string())])
    }

    /// Of memory, with a limit in bytes.
    pub(crate) fn of_memory(bytes: u64) -> Self {
        Self::new("memory", &[("memory.limit_in_bytes", "memory.max", bytes.to_string())])
    }

    /// A command that moves into it before it becomes another.
    pub(crate) fn command(&self) -> Vec<String> {
        let script = format!("echo $$ > {}/cgroup.procs; exec \"$@\"", self.folder.display());
        ["sh", "-c", &script, "sh"].map(str::to_owned).to_vec()
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // It has processes until the last one is gone.
        let until = Instant::now() + Duration::from_secs(2);
        while std::fs::remove_dir(&self.folder).is_err() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
