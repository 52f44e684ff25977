//! What the plan consists of. A [`ProbePlan`] has no unresolved path: whatever does not type-check is a diagnostic.

use crate::path::Place;
use crate::spec::Role;
use crate::target::Arch;
use crate::trace::{ModuleInfo, Schema, Site};
use std::path::PathBuf;

/// How much is recorded: each level includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Level {
    /// Steps only.
    Step,
    /// Steps and graphs.
    Graph,
    /// Everything.
    #[default]
    Operator,
}

/// Which of a probeset's probes are wanted.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// The level.
    pub level: Level,
    /// Globs of probe names; where not empty, only these.
    pub only: Vec<String>,
    /// Globs of probe names that are left out.
    pub without: Vec<String>,
}

/// A generated program's way of being attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramKind {
    /// Entry and return of a function. In the object: `NAME` (section `uprobe.session`), and `NAME_entry`
    /// (`uprobe.multi`) with `NAME_return` (`uretprobe.multi`) for kernels without sessions.
    Span,
    /// Entry only: `NAME_entry` (`uprobe.multi`).
    Entry,
    /// A tracepoint: `NAME`, attached by itself (`tp_btf` or `raw_tp`; no sites).
    Tracepoint,
}

/// One program: every probe that shares one attach point, for one of its alternatives.
#[derive(Debug, Clone)]
pub struct Program {
    /// The C function.
    pub name: String,
    /// The probe that says where, first, then those at `probe X`.
    pub probes: Vec<String>,
    /// Which alternative of the first probe's `at`.
    pub alternative: usize,
    /// How it is attached.
    pub kind: ProgramKind,
    /// Where.
    pub place: Place,
}

/// A named constant of the generated program whose value comes from the target. Each is a `const volatile __u64` in
/// `.rodata`.
#[derive(Debug, Clone, PartialEq)]
pub struct Relocation {
    /// The C variable.
    pub symbol: String,
    /// What it stands for.
    pub what: RelocationKind,
}

/// What a relocation stands for.
#[derive(Debug, Clone, PartialEq)]
pub enum RelocationKind {
    /// Bytes from the start of a view to a member.
    Offset {
        /// The view.
        view: String,
        /// The member.
        member: String,
    },
    /// Bytes of a view: the stride of an array of it.
    Size {
        /// The view.
        view: String,
    },
    /// The value of an enumeration's constant.
    Constant {
        /// The enumeration.
        enumeration: String,
        /// The constant's name.
        name: String,
    },
    /// Where an argument is, packed: `kind | register << 8 | stack offset << 16`. See `bpf-runtime/arguments.h`.
    Argument {
        /// Index into the plan's programs.
        program: usize,
        /// Index of the argument.
        argument: usize,
    },
}

/// Where a relocation's value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provenance {
    /// The target's debug information.
    Dwarf,
    /// `@ offset`, `size:` or `enums:` in the spec.
    ByHand,
    /// The calling convention.
    Abi,
}

/// A relocation's value for one target.
#[derive(Debug, Clone, PartialEq)]
pub struct RelocationValue {
    /// The C variable.
    pub symbol: String,
    /// Its value.
    pub value: u64,
    /// Where it came from.
    pub provenance: Provenance,
}

/// A site to attach a program at.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedSite {
    /// What the trace keeps of it; `site.id` is unique in the placement.
    pub site: Site,
    /// Index into the plan's programs.
    pub program: usize,
    /// The file to open.
    pub path: PathBuf,
    /// The BPF cookie: site number in bits 0–15, bytes that the stack pointer is below its value at the entry in
    /// bits 16–31.
    pub cookie: u64,
    /// Expected nanoseconds a hit of the entry, by the cost table.
    pub cost_ns: u32,
}

/// A plan's sites and values on one target.
#[derive(Debug, Clone, Default)]
pub struct Placement {
    /// The files, in the order that sites number them.
    pub modules: Vec<ModuleInfo>,
    /// The sites.
    pub sites: Vec<PlacedSite>,
    /// A value for every relocation that a program with a site uses.
    pub values: Vec<RelocationValue>,
    /// Probes that have no site on this target (yet), optional ones included.
    pub unplaced: Vec<String>,
}

/// Programs, layouts and relocations of a probeset: all that the generated C needs.
#[derive(Debug, Clone)]
pub struct ProbePlan {
    /// The instruction set it is for.
    pub arch: Arch,
    /// The programs.
    pub programs: Vec<Program>,
    /// The roles of the selected probes, by name.
    pub roles: Vec<(String, Role)>,
    /// Record types, as the trace will say them.
    pub schema: Schema,
    /// Constants to fill in.
    pub relocations: Vec<Relocation>,
}
