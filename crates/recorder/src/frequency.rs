//! How fast processors run, where the kernel tells it: by its files of frequency scaling, polled once a second.

use super::clock::monotonic_ns;
use super::consumer::Consumer;
use profinfer_schema::{CpuFrequency, Notice};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PERIOD: Duration = Duration::from_secs(1);
/// Processors that are polled: a poll of each takes some microseconds.
const MOST_CPUS: u16 = 256;
/// A change by less than this part is none.
const CHANGE: f64 = 0.02;
/// Changes that a trace stores at most.
const MOST_CHANGES: usize = 100_000;

/// The processors whose frequency the kernel tells, and what it was last.
#[derive(Debug)]
pub(super) struct Frequencies {
    files: Vec<(u16, PathBuf)>,
    recorded: Vec<CpuFrequency>,
    changes: usize,
    polled: Option<Instant>,
}

impl Frequencies {
    /// Those of this machine. Virtual machines mostly have none.
    pub(super) fn new() -> Self {
        Self::of(Path::new("/sys/devices/system/cpu"))
    }

    fn of(folder: &Path) -> Self {
        let file = |cpu: u16| (cpu, folder.join(format!("cpu{cpu}/cpufreq/scaling_cur_freq")));
        let files = (0..MOST_CPUS).map(file).filter(|(_, path)| path.exists()).collect();
        Self { files, recorded: Vec::new(), changes: 0, polled: None }
    }

    /// Records in the trace what has changed, if it is time.
    pub(super) fn poll(&mut self, consumer: &Consumer) {
        if self.files.is_empty() || self.polled.is_some_and(|last| last.elapsed() < PERIOD) {
            return;
        }
        self.polled = Some(Instant::now());
        let Some(changed) = self.changed() else { return };
        let mut text = format!("{} processors run at another frequency", changed.len());
        self.changes += changed.len();
        if self.changes > MOST_CHANGES {
            text.push_str("; further changes are not reported");
            self.files.clear();
        }
        consumer.notice_of(|| Notice { time: monotonic_ns(), text, frequencies: Some(changed), ..Notice::default() });
    }

    /// The processors that run at another frequency than was recorded; `None` where there is none.
    fn changed(&mut self) -> Option<Vec<CpuFrequency>> {
        let read = |(cpu, path): &(u16, PathBuf)| {
            let khz: u32 = std::fs::read_to_string(path).ok()?.trim().parse().ok()?;
            (khz > 0).then_some(CpuFrequency { cpu: *cpu, khz })
        };
        let mut changed: Vec<CpuFrequency> = self.files.iter().filter_map(read).collect();
        changed.retain(|now| {
            let last = self.recorded.iter().find(|last| last.cpu == now.cpu);
            last.is_none_or(|last| f64::from(last.khz.abs_diff(now.khz)) > CHANGE * f64::from(last.khz))
        });
        self.recorded.retain(|last| changed.iter().all(|now| now.cpu != last.cpu));
        self.recorded.extend(changed.iter().copied());
        (!changed.is_empty()).then_some(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changes_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let set = |cpu: u16, khz: &str| {
            let folder = folder.path().join(format!("cpu{cpu}/cpufreq"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("scaling_cur_freq"), khz).unwrap();
        };
        assert!(Frequencies::of(folder.path()).files.is_empty());
        set(0, "2400000\n");
        set(3, "1000000\n");
        set(4, "<unknown>\n");
        let mut frequencies = Frequencies::of(folder.path());
        let at = |cpu: u16, khz: u32| CpuFrequency { cpu, khz };
        assert_eq!(frequencies.changed(), Some(vec![at(0, 2_400_000), at(3, 1_000_000)]));
        set(0, "2410000\n");
        assert_eq!(frequencies.changed(), None);
        set(3, "600000\n");
        assert_eq!(frequencies.changed(), Some(vec![at(3, 600_000)]));
        assert_eq!(frequencies.changed(), None);
    }
}
