//! What a hit costs by the kind of instruction under the probe: built in by architecture and kernel version
//! (`costs.json`), or measured on the machine at hand. It does not decode instructions, and reads no file.

use profinfer_binary::Arch;
use std::collections::BTreeMap;

/// The built-in figures.
const BUILT_IN: &str = include_str!("costs.json");

/// What the kernel does with the instruction under a probe, as far as it matters for the cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A nop of one byte, with prefixes or not; arm64's nop.
    Nop,
    /// x86-64's nop of five bytes that does not cross a page.
    Nop5,
    /// Any other of x86-64's recommended nops.
    LongNop,
    /// A push of a register (x86-64).
    Push,
    /// A jump, conditional or not, to a place that the instruction gives; on arm64 also to a register.
    Jump,
    /// A call of such a place.
    Call,
    /// arm64's `adr` and `adrp`.
    Address,
    /// Whatever is executed out of line, under a single-step trap.
    Stepped,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 8] =
        [Self::Nop, Self::Nop5, Self::LongNop, Self::Push, Self::Jump, Self::Call, Self::Address, Self::Stepped];

    /// In words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Nop => "nop",
            Self::Nop5 => "nop of 5 bytes",
            Self::LongNop => "longer nop",
            Self::Push => "push of a register",
            Self::Jump => "jump",
            Self::Call => "call",
            Self::Address => "address of the instruction",
            Self::Stepped => "any other (single-stepped)",
        }
    }
}

/// Expected nanoseconds a hit, by kind of instruction.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CostTable {
    /// Where the figures come from.
    pub source: String,
    /// By kind, for an empty program at the entry.
    pub ns: BTreeMap<Kind, u32>,
    /// What probing the return adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub return_ns: Option<u32>,
    /// How long the span of a function that does nothing is recorded as; its first instruction is emulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_ns: Option<u32>,
    /// What a program that writes a record of 64 bytes adds to an empty one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_ns: Option<u32>,
    /// The kernel makes a call of a probed nop of five bytes: it writes below the stack pointer.
    #[serde(skip)]
    pub nop5_writes_stack: bool,
    /// The figures are built in: those of another machine.
    #[serde(skip)]
    pub built_in: bool,
}

/// One entry of `costs.json`: it holds from a kernel version to the next entry of its architecture.
#[derive(Debug, serde::Deserialize)]
struct Entry {
    arch: String,
    from: (u32, u32),
    #[serde(flatten)]
    table: CostTable,
}

impl CostTable {
    /// The built-in figures for an architecture and a kernel (major and minor version); without one, for the newest
    /// kernel there are figures for.
    pub fn built_in(arch: Arch, kernel: Option<(u32, u32)>) -> Self {
        // A test reads the file, so that what is built in can be read.
        let entries: Vec<Entry> = serde_json::from_str(BUILT_IN).unwrap_or_default();
        let of_arch = || entries.iter().filter(|entry| entry.arch == arch.to_string());
        let holds = |entry: &&Entry| kernel.is_none_or(|kernel| entry.from <= kernel);
        let oldest = of_arch().min_by_key(|entry| entry.from);
        let found = of_arch().filter(holds).max_by_key(|entry| entry.from).or(oldest);
        found.map_or_else(
            || Self {
                source: String::new(),
                ns: BTreeMap::new(),
                return_ns: None,
                span_ns: None,
                record_ns: None,
                nop5_writes_stack: false,
                built_in: true,
            },
            |entry| Self { built_in: true, ..entry.table.clone() },
        )
    }

    /// A kind's figure; one that is not in the table is taken to be stepped.
    pub fn of(&self, kind: Kind) -> u32 {
        self.ns.get(&kind).or_else(|| self.ns.get(&Kind::Stepped)).copied().unwrap_or(u32::MAX)
    }

    /// The least figure of all kinds.
    pub fn cheapest(&self) -> u32 {
        self.ns.values().copied().min().unwrap_or(0)
    }

    /// Above this, a site is worth a note: several times the emulated ones, and five microseconds.
    pub fn dear(&self) -> u32 {
        5_000.max(self.cheapest().saturating_mul(4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_of_the_file_is_read_and_has_a_source() {
        let entries: Vec<Entry> = serde_json::from_str(BUILT_IN).unwrap();
        assert_eq!(entries.len(), 5);
        for entry in entries {
            assert!(entry.table.ns.contains_key(&Kind::Stepped), "{entry:?}");
            assert!(entry.table.source.len() > 20, "{entry:?}");
        }
    }

    #[test]
    fn the_kernels_version_decides() {
        let nops = |kernel| {
            let table = CostTable::built_in(Arch::X86_64, kernel);
            [Kind::Nop, Kind::Nop5, Kind::LongNop, Kind::Stepped].map(|kind| table.of(kind))
        };
        assert_eq!(nops(Some((6, 1))), [700, 14_000, 14_000, 14_000]);
        assert_eq!(nops(Some((6, 17))), [700, 700, 700, 14_000]);
        assert_eq!(nops(Some((6, 18))), [700, 475, 700, 14_000]);
        assert_eq!(nops(None), nops(Some((7, 0))));
        assert_eq!(nops(Some((4, 4))), nops(Some((6, 1))), "older than any is the oldest");
        let arm = |kernel| CostTable::built_in(Arch::Aarch64, Some(kernel)).of(Kind::Nop);
        assert!(arm((6, 12)) > arm((6, 13)));
    }
}
