//! What the plan consists of. A [`ProbePlan`] has no unresolved path: whatever does not type-check is a diagnostic.

use super::site::CostTable;
use indexmap::IndexMap;
use profinfer_binary::{Arch, ChosenLayout};
use profinfer_diagnostics::{Diagnostic, Span};
use profinfer_probeset::counters::{Offer, TaskCount};
use profinfer_probeset::path::{Checked, ClassPart, Node, Place, Signature, Type};
use profinfer_schema::{ModuleInfo, Schema, Site, ValueSource};
use profinfer_schema::{ReclaimKind, Role};
use std::collections::{BTreeMap, BTreeSet};
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
    /// Counters that every probe of a step or an operator records, by name or as events.
    pub counters: Vec<String>,
    /// What the machine has of the counters that are asked for; all of them, where left out.
    pub offer: Option<Offer>,
}

/// A generated program's way of being attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramKind {
    /// Entry and return of a function. In the object: `NAME` (section `uprobe.session`), and `NAME_entry`
    /// (`uprobe.multi`) with `NAME_return` (`uretprobe.multi`) for kernels without sessions.
    Span,
    /// Entry only: `NAME_entry` (`uprobe.multi`).
    Entry,
    /// A tracepoint: `NAME`, attached by itself (`tp_btf` or `raw_tp`; no sites). Where the tracepoint has a counterpart
    /// at the end of something, that has `NAME_end`.
    Tracepoint,
}

/// One program: every probe that shares one attach point, for one of its alternatives.
#[derive(Debug, Clone)]
pub struct Program {
    /// The C function.
    pub name: String,
    /// The probe that defines where, first, then those at `probe X`.
    pub probes: Vec<String>,
    /// Which alternative of the first probe's `at`.
    pub alternative: usize,
    /// How it is attached.
    pub kind: ProgramKind,
    /// Where.
    pub place: Place,
    /// The attach point in the YAML.
    pub span: Span,
    /// What each of its probes records.
    pub actions: Vec<Action>,
    /// The probe whose call's arguments it reads.
    pub enclosing: Option<String>,
    /// Probes whose open span ends at this program's entry.
    pub ends: Vec<String>,
    /// Some span measures its waiting from this program's last entry.
    pub notes_entry: bool,
    /// Indices into the plan's relocations that this program's values are needed for.
    pub relocations: Vec<usize>,
    /// Those that it can do without, at a higher cost.
    pub optional_relocations: Vec<usize>,
    /// The recording can do without it.
    pub optional: bool,
}

impl Program {
    /// The C functions that are attached by themselves, of a program at an event of the kernel; each with the tracepoint
    /// without which it cannot be loaded, if there is one.
    pub fn at_kernel_events(&self) -> Vec<(String, Option<String>)> {
        let Place::Tracepoint { name: tracepoint, .. } = &self.place else {
            let is_event = self.kind == ProgramKind::Tracepoint;
            return is_event.then(|| (self.name.clone(), None)).into_iter().collect();
        };
        // Those of drivers are in modules, and their programs load without them.
        let typed = self.actions.iter().any(|action| action.role.is_of_the_kernel() && action.role != Role::Job);
        let begin = (self.name.clone(), typed.then(|| tracepoint.value.clone()));
        let is_reclaim = self.actions.iter().any(|action| action.role == Role::Reclaim);
        let end = ReclaimKind::at_tracepoint(&tracepoint.value)
            .filter(|_| is_reclaim)
            .map(|kind| (format!("{}_end", self.name), Some(format!("{}_end", kind.event()))));
        std::iter::once(begin).chain(end).collect()
    }

    /// The tracepoint where drivers of devices report jobs, if the program is at one.
    pub fn job_tracepoint(&self) -> Option<&str> {
        match &self.place {
            Place::Tracepoint { name, .. } if self.actions.iter().any(|action| action.role == Role::Job) => {
                Some(&name.value)
            }
            _ => None,
        }
    }

    /// The function's arguments, where the program is at one.
    pub fn signature(&self) -> Option<&Signature> {
        self.place.signature()
    }

    /// The module it is in.
    pub fn module(&self) -> Option<&str> {
        match &self.place {
            Place::Function { module, .. } | Place::Virtual { module, .. } | Place::Usdt { module, .. } => {
                Some(&module.value)
            }
            _ => None,
        }
    }
}

/// What one probe does at one program.
#[derive(Debug, Clone)]
pub struct Action {
    /// The probe.
    pub probe: String,
    /// What the probe's events are.
    pub role: Role,
    /// Its record type.
    pub record: usize,
    /// When a record is made.
    pub shape: Shape,
    /// What is recorded.
    pub fields: Vec<FieldPlan>,
    /// Arguments that are saved until the return, for what is read then and by the probes within the call.
    pub saved: Vec<usize>,
    /// Events for which this is zero are not recorded.
    pub when: Option<Checked>,
    /// Whether objects are read.
    pub describe: Option<Checked>,
    /// The object that its record describes, and the field that has its address.
    pub describes: Option<DescribesPlan>,
    /// Of a graph: what it has in common with another whose objects are the same.
    pub identity: Option<Checked>,
    /// What is counted over its span.
    pub counts: Counts,
}

impl Action {
    /// Whether it reads a list row by row.
    pub(crate) fn has_rows(&self) -> bool {
        self.fields.iter().any(|field| matches!(field.value.node, Node::Slice { rows: Some(_), .. }))
    }
}

/// The object that a record describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribesPlan {
    /// The object.
    pub object: String,
    /// Its address is available when the function returns.
    pub at_return: bool,
}

/// The counters of a span.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Index into the plan's counters, and of the record's field.
    pub fields: Vec<(usize, usize)>,
    /// The field that marks which of them are estimates.
    pub scaled: Option<usize>,
}

/// A counter that programs read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    /// Its name in the trace.
    pub name: String,
    /// Where it is read.
    pub source: CounterSource,
    /// Some processors cannot count it.
    pub partial: bool,
}

/// Where a counter is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterSource {
    /// The kernel has it for each thread.
    Task(TaskCount),
    /// On each cpu, for whatever runs there: the number of its row among the events.
    Event(usize),
}

impl Counter {
    /// Its row among the events of the cpus, if it has one.
    pub fn event(&self) -> Option<usize> {
        match self.source {
            CounterSource::Event(row) => Some(row),
            CounterSource::Task(_) => None,
        }
    }
}

/// How a record comes to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// At the return; that many calls may be open on a thread.
    Call {
        /// 1, or [`profinfer_probeset::Nested::All`]'s depth.
        frames: u32,
    },
    /// At the next entry of another probe.
    Until {
        /// The probe whose last entry splits work from waiting.
        waiting_from: Option<String>,
    },
    /// At once.
    Instant,
}

impl Shape {
    /// How many records of a probe may be in the making on one thread.
    pub fn frames(&self) -> u32 {
        if let Self::Call { frames } = self { *frames } else { 1 }
    }
}

/// One field of a record, or of an object's description.
#[derive(Debug, Clone)]
pub struct FieldPlan {
    /// Index into the record type's fields.
    pub index: usize,
    /// What is read.
    pub value: Checked,
    /// Read when the function returns, not when it is entered.
    pub at_return: bool,
}

/// How an object is described.
#[derive(Debug, Clone)]
pub struct ObjectPlan {
    /// The object.
    pub name: String,
    /// The view it is.
    pub view: String,
    /// Its record type.
    pub record: usize,
    /// What is read.
    pub fields: Vec<FieldPlan>,
    /// Indices into the plan's relocations.
    pub relocations: Vec<usize>,
}

/// A named constant of the generated program whose value comes from the target. Each is a `const volatile __u64` in
/// `.rodata`.
#[derive(Debug, Clone, PartialEq)]
pub struct Relocation {
    /// The C variable.
    pub symbol: String,
    /// What it stands for.
    pub what: RelocationKind,
    /// The first place in the YAML that needs it.
    pub span: Span,
}

/// What a relocation stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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
    /// Bit at which a member of some bits begins.
    Shift {
        /// The view.
        view: String,
        /// The member.
        member: String,
    },
    /// How strings are laid out, as a [`profinfer_schema::bpf::StringLayout`]: in a module, or in what is described everywhere.
    Strings {
        /// The module.
        module: Option<String>,
    },
    /// A number within a class of the C++ library, by the sizes of what it holds: in a module, or everywhere.
    Class {
        /// The class.
        of: Type,
        /// Which number.
        part: ClassPart,
        /// The module.
        module: Option<String>,
    },
    /// The value of an enumeration's constant.
    Constant {
        /// The enumeration.
        enumeration: String,
        /// The constant's name.
        name: String,
    },
    /// Where an argument is, packed as `bpf-runtime/call.h` defines.
    Argument {
        /// Index into the plan's programs.
        program: usize,
        /// Index of the argument.
        argument: usize,
    },
    /// First byte of an object that its description reads.
    BlockStart {
        /// The object.
        object: String,
    },
    /// Bytes from there to the last one.
    BlockLength {
        /// The object.
        object: String,
    },
    /// Which fields of a record type the target has nothing for, a bit each: they are absent, and no loss. The highest
    /// bit: there is no record, because its condition cannot be evaluated.
    Absent {
        /// The record type.
        record: usize,
    },
}

/// The bit of [`RelocationKind::Absent`] for the whole record.
pub const NO_RECORD: u64 = 1 << 63;

/// Where a relocation's value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provenance {
    /// The target's debug information.
    Dwarf,
    /// A lock file, which has it from the debug information of the same build.
    Lock,
    /// `@ offset`, `size:` or `enums:` in the spec.
    ByHand,
    /// One of the `layouts` in the spec, which a check of the target chose.
    Checked,
    /// A function of the engine that returns the member.
    Accessor,
    /// The engine's own table of names.
    Table,
    /// The calling convention.
    Abi,
    /// The target does not have it.
    Absent,
}

impl Provenance {
    /// Whether it needs no check by what is recorded: it is of this build, or there is no value.
    pub fn is_proven(self) -> bool {
        matches!(self, Self::Dwarf | Self::Lock | Self::Absent)
    }

    /// In a word.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Dwarf => "DWARF",
            Self::Lock => "lock",
            Self::ByHand => "by hand",
            Self::Checked => "by a check",
            Self::Accessor => "accessor",
            Self::Table => "table",
            Self::Abi => "convention",
            Self::Absent => "absent",
        }
    }
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
    /// The function or table that it is from; empty for other sources.
    pub detail: String,
}

/// A site to attach a program at.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedSite {
    /// What the trace contains of it; `site.id` is unique in the placement.
    pub site: Site,
    /// Index into the plan's programs.
    pub program: usize,
    /// The file's [`TargetFile::id`](profinfer_binary::TargetFile::id).
    pub file: u64,
    /// The file's path, for messages.
    pub path: PathBuf,
    /// The BPF cookie: site number in bits 0–15, bytes that the stack pointer is below its value at the entry in
    /// bits 16–31.
    pub cookie: u64,
    /// Expected nanoseconds a hit of the entry, by the cost table; `None` where there is no table.
    pub cost_ns: Option<u32>,
    /// Why the site is at no cheaper instruction.
    pub reason: String,
    /// Bytes from the start of the file to the counter of attached tracers, of a static probe that has one.
    pub semaphore: Option<u64>,
    /// Constants that are otherwise here than in [`Placement::values`], by C variable: where an inlined copy has its
    /// arguments. The program is loaded once for each set of them.
    pub values: BTreeMap<String, u64>,
}

/// A probe without a site.
#[derive(Debug, Clone, PartialEq)]
pub struct Unplaced {
    /// The probe.
    pub probe: String,
    /// It is not `optional: true`.
    pub required: bool,
    /// Why.
    pub problem: Diagnostic,
}

/// A view of which the spec gives several layouts, and the one that a check chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenView {
    /// The view.
    pub view: String,
    /// The file that satisfied the check.
    pub path: PathBuf,
    /// Where the members are.
    pub layout: ChosenLayout,
}

/// An enumeration whose constants are the spec's, by a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenEnumeration {
    /// The enumeration.
    pub enumeration: String,
    /// The file that satisfied the check.
    pub path: PathBuf,
    /// Names by value.
    pub constants: BTreeMap<i64, String>,
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
    /// Constants of the enumerations that fields use, where the target or the spec names them.
    pub enums: IndexMap<String, BTreeMap<i64, String>>,
    /// What was chosen among the layouts that the spec gives its views.
    pub chosen: Vec<ChosenView>,
    /// Enumerations whose constants a check found to be those that the spec gives.
    pub chosen_enums: Vec<ChosenEnumeration>,
    /// Probes that have no site on this target (yet), optional ones included.
    pub unplaced: Vec<Unplaced>,
    /// Fields that are absent in every record, by record type and field.
    pub absent: Vec<(usize, usize)>,
    /// Where offsets and numbers come from, for people and for the trace.
    pub sources: Vec<ValueSource>,
    /// Programs at one of several slots, of which nothing says yet which one is meant.
    pub open_slots: BTreeSet<usize>,
    /// By the message of a warning that something of a view is missing: the constants of all that is missing of it.
    pub missing: BTreeMap<String, BTreeSet<String>>,
}

/// Programs, layouts and relocations of a probeset: all that the generated C needs.
#[derive(Debug, Clone)]
pub struct ProbePlan {
    /// The instruction set it is for.
    pub arch: Arch,
    /// The programs.
    pub programs: Vec<Program>,
    /// The objects that may be described.
    pub objects: Vec<ObjectPlan>,
    /// Record types, as the trace will contain them; its enumerations are the target's, see [`ProbePlan::schema_with`].
    pub schema: Schema,
    /// What is counted.
    pub counters: Vec<Counter>,
    /// Constants to fill in.
    pub relocations: Vec<Relocation>,
    /// What sites are chosen by: built in for the newest kernel, until the caller replaces it for the machine.
    pub costs: CostTable,
}

impl ProbePlan {
    /// The schema with the names of a target's enumeration constants.
    pub fn schema_with(&self, placement: &Placement) -> Schema {
        Schema { enums: placement.enums.clone(), ..self.schema.clone() }
    }

    /// One action for each probe that has one that passes: alternatives share their probe's state.
    pub(crate) fn actions_of_probes(&self, wanted: impl Fn(&Action) -> bool) -> Vec<&Action> {
        let mut found: Vec<&Action> = Vec::new();
        for action in self.programs.iter().flat_map(|program| &program.actions).filter(|action| wanted(action)) {
            if !found.iter().any(|other| other.probe == action.probe) {
                found.push(action);
            }
        }
        found
    }

    /// Whether lists of a record type are read row by row: they need space for one more than fits.
    pub(crate) fn has_rows(&self, record: usize) -> bool {
        self.programs.iter().flat_map(|program| &program.actions).any(|a| a.record == record && a.has_rows())
    }

    /// How many counters are events of the cpus.
    pub fn events(&self) -> usize {
        self.counters.iter().filter(|counter| counter.event().is_some()).count()
    }

    /// The C variable of a relocation.
    pub fn symbol(&self, what: &RelocationKind) -> Option<&str> {
        self.relocations.iter().find(|r| r.what == *what).map(|r| r.symbol.as_str())
    }
}
