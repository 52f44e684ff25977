//! What a virtual machine's host took of its processors' time: a thread that runs, for the kernel, does not, meanwhile.

use nix::unistd::{SysconfVar, sysconf};
use profinfer_schema::Stolen;

/// The processors' time since the machine started, in ticks of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProcessorTime {
    used: u64,
    stolen: u64,
}

impl ProcessorTime {
    /// As the kernel has counted it; `None` where it does not tell.
    pub(super) fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// `user nice system idle iowait irq softirq steal`, of all processors.
    fn parse(stat: &str) -> Option<Self> {
        let ticks = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = ticks.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let [user, nice, system, _, _, irq, softirq, stolen, ..] = ticks.as_slice() else { return None };
        let used = [user, nice, system, irq, softirq].into_iter().copied().fold(0, u64::saturating_add);
        Some(Self { used, stolen: *stolen })
    }

    /// What came to it since; `None` where nothing was stolen, as on every machine that has no host.
    pub(super) fn since(self, before: Self) -> Option<Stolen> {
        let tick = sysconf(SysconfVar::CLK_TCK)
            .ok()
            .flatten()
            .and_then(|hz| 1_000_000_000u64.checked_div(hz.try_into().ok()?))?;
        let ns = |now: u64, before: u64| now.saturating_sub(before).saturating_mul(tick);
        let stolen = Stolen { ns: ns(self.stolen, before.stolen), used_ns: ns(self.used, before.used) };
        (stolen.ns > 0).then_some(stolen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stolen_is_beside_what_was_used() {
        let before = ProcessorTime::parse("cpu  100 5 20 1000 7 0 3 40 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n").unwrap();
        let after = ProcessorTime::parse("cpu  160 5 30 1000 7 0 3 70 0 0\n").unwrap();
        let stolen = after.since(before).unwrap();
        assert_eq!(stolen.used_ns, stolen.ns * 70 / 30);
        assert_eq!(before.since(before), None);
        // Kernels before 2.6.11 have no eighth number.
        assert_eq!(ProcessorTime::parse("cpu  1 2 3 4 5 6 7\n"), None);
        assert_eq!(ProcessorTime::parse(""), None);
    }
}
