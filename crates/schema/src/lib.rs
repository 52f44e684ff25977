//! The description of a trace: record types with their fields, sites, modules, host, losses. All of it is plain
//! data, written into the trace as JSON and used by the decoder; the plan makes it, once, and the generated C
//! asserts the same offsets.

pub mod bpf;
mod engine;
mod job;
mod meaning;
mod reclaim;
mod role;
mod roofline;
mod sample;

pub use engine::{EngineId, EngineName, Names, engines_present, identifier};
pub use job::{JOB_TRACEPOINTS, JobEvent, JobTracepoint};
pub use meaning::FieldMeaning;
pub use reclaim::ReclaimKind;
pub use role::Role;
pub use roofline::*;
pub use sample::{CodePlace, KernelFunction, Sample, SampledModule, Sampling};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of the header that every record starts with:
///
/// ```text
///  0  u16 type      index into Schema::records
///  2  u16 site      index into the trace's sites; 0xffff where there is none
///  4  u16 cpu       at the end of the span
///  6  u16 missing   bit i: field i could not be read
///  8  u32 tid       thread number in the kernel; the `thread` record has the namespace's
/// 12  u32 seq       the thread's count of records from 1, lost ones included; 0: not counted
/// 16  u64 start     ns, CLOCK_MONOTONIC
/// 24  u64 duration  ns; 0 for instants
/// ```
pub const HEADER_SIZE: u32 = 32;

/// A record has at most this many fields (the width of `missing`).
pub const MAX_FIELDS: usize = 16;

/// Site number of records that have none.
pub const NO_SITE: u16 = 0xffff;

/// The record types of a trace and the enumerations their fields use.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Schema {
    /// Record types; a record's `type` is the index. The first [`BUILTIN`] are the same in every trace.
    pub records: Vec<RecordType>,
    /// Constants by enumeration: value → name.
    pub enums: IndexMap<String, BTreeMap<i64, String>>,
    /// The counters that were asked for, by name; fields of type [`FieldType::Counter`] have these names.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub counters: IndexMap<String, CounterInfo>,
    /// Records of probes whose fields describe an object, by name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub describes: IndexMap<String, DescribesObject>,
    /// Which engine names belong to, where several were recorded together.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    pub names: Names,
    /// The types that are another engine's, where a trace of several is seen as one of them: their records are read, as
    /// threads number all, and mean nothing.
    #[serde(skip)]
    pub others: BTreeSet<u16>,
}

impl Schema {
    /// Whether there are records of a role.
    pub fn has_role(&self, role: Role) -> bool {
        self.records.iter().any(|record| record.role == Some(role))
    }
}

/// What object a probe's records describe: from then on it is as their fields say, until it is described anew.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DescribesObject {
    /// The object's record type, by name.
    pub object: String,
    /// The field that has its address.
    pub field: String,
    /// It is described from the end of the span on, not from its start.
    pub at_end: bool,
}

/// A counter that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CounterInfo {
    /// The event, in perf's syntax.
    pub event: String,
    /// The unit that counts what it counts, such as `cpu_core`; `None` for the kernel's counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pmu: Option<String>,
    /// Why it is not in the trace, in one sentence: no record has a field of its name then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
}

/// Number of built-in record types: `thread`, `thread_exit`, `switch`, `wakeup`, `fork`, `exec`.
pub const BUILTIN: usize = 6;

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordKind {
    /// A thread was seen for the first time: fields `pid` (kernel's tgid), `ns_tid`, `ns_pid`, `comm`, `cpus_allowed`,
    /// `created` (1: it was made just then).
    Thread,
    /// A thread ended.
    ThreadExit,
    /// A thread left its cpu; one of the target, or any while one of the target waits for that cpu: fields `prev_pid`, `prev_state` (0: it could go on; [`bpf::STOPPED_BY_RECORDER`] and [`bpf::WITHOUT_IO`] beside the kernel's bits),
    /// `next_tid`, `next_pid`,
    /// `prev_comm`, `next_comm`.
    Switch,
    /// The thread became runnable: fields `waker_tid`, `waker_pid`, `target_cpu` (where it waits to run).
    Wakeup,
    /// The process made a child process: fields `child_tid`, `child_pid`.
    Fork,
    /// The process runs another program now: field `cpus_allowed`.
    Exec,
    /// A description of an object: first field `address`.
    Object,
    /// A span of a probe.
    Span,
    /// An instant of a probe.
    Mark,
}

/// The layout of one type of record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordType {
    /// The probe's or object's name, or the built-in's.
    pub name: String,
    /// What it is.
    pub kind: RecordKind,
    /// The probe's role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Bytes of the fixed part, header included, a multiple of 8.
    pub size: u32,
    /// Fields in order; bit i of `missing` is field i.
    pub fields: Vec<FieldLayout>,
}

/// One field of a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FieldLayout {
    /// Its name in the probeset.
    pub name: String,
    /// Bytes from the start of the record (of the `u32` length, for a `List`).
    pub offset: u32,
    /// How the bytes are read.
    pub ty: FieldType,
}

/// How a field's bytes are read, all little-endian.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldType {
    /// Signed integer of 1, 2, 4 or 8 bytes.
    Int(u32),
    /// Unsigned integer of 1, 2, 4 or 8 bytes.
    Uint(u32),
    /// IEEE 754, 4 or 8 bytes.
    Float(u32),
    /// One byte, 0 or not.
    Bool,
    /// An address, 8 bytes.
    Pointer,
    /// A 4-byte constant of an enumeration.
    Enum(String),
    /// Text in that many bytes, up to the first NUL.
    Text(u32),
    /// That many bytes, shown in hexadecimal.
    Hex(u32),
    /// The address, 8 bytes, of an object of this name.
    Object(String),
    /// A fixed number of elements, one after the other. Null pointers and objects at the end are padding.
    Array(Box<FieldType>, u32),
    /// A `u32` count in the fixed part, then that many elements in the record's tail; at most `max`. The `u32` after
    /// the count is how many there were before the bound was applied. Only the last field may be one.
    List(Box<FieldType>, u32),
    /// No bytes: the n-th capture of the record's site, from 1.
    Match(u32),
    /// Nanoseconds, unsigned, 8 bytes.
    Duration,
    /// The increase of the thread's count during the span, unsigned, 8 bytes. The counter has the field's name. Missing
    /// where nothing was counted.
    Counter,
    /// 2 bytes. Bit i: field i is a counter that was counted for a part of the span only, and its value is an estimate.
    Scaled,
}

impl FieldType {
    /// The enumeration that a value, or an element of it, is a constant of.
    pub fn enumeration(&self) -> Option<&str> {
        match self {
            Self::Enum(name) => Some(name),
            Self::Array(element, _) | Self::List(element, _) => element.enumeration(),
            _ => None,
        }
    }

    /// Bytes in the fixed part.
    pub fn size(&self) -> u32 {
        match self {
            Self::Int(n) | Self::Uint(n) | Self::Float(n) | Self::Text(n) | Self::Hex(n) => *n,
            Self::Bool => 1,
            Self::Enum(_) => 4,
            Self::Scaled => 2,
            Self::Pointer | Self::Object(_) | Self::List(..) | Self::Duration | Self::Counter => 8,
            Self::Array(of, n) => of.size().saturating_mul(*n),
            Self::Match(_) => 0,
        }
    }

    /// The alignment in the fixed part.
    pub fn align(&self) -> u32 {
        match self {
            Self::Int(n) | Self::Uint(n) | Self::Float(n) => *n,
            Self::Bool | Self::Text(_) | Self::Hex(_) | Self::Match(_) => 1,
            Self::Enum(_) => 4,
            Self::Scaled => 2,
            Self::Pointer | Self::Object(_) | Self::Duration | Self::Counter | Self::List(..) => 8,
            Self::Array(of, _) => of.align(),
        }
    }
}

/// A probe's site in a binary, as stored in the trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Site {
    /// The site's number, as in records.
    pub id: u16,
    /// Every probe that runs there.
    pub probes: Vec<String>,
    /// Which alternative of `at`, from 0.
    pub alternative: usize,
    /// Index into the trace's modules.
    pub module: usize,
    /// The function's name, demangled.
    pub function: String,
    /// Bytes from the start of the file.
    pub file_offset: u64,
    /// Bytes from the function's first instruction.
    pub function_offset: u64,
    /// The instruction under the probe.
    pub instruction: String,
    /// The texts under the pattern's wildcards.
    pub captures: Vec<String>,
    /// The function that the compiler put this one into, where the site is in such a copy; offsets then count from the
    /// copy's first instruction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inlined_into: Option<String>,
}

impl Site {
    /// The place by function, as a person reads it: `run`, `run+4`, `run+4 inlined into main`.
    pub fn place(&self) -> String {
        let offset = match self.function_offset {
            0 => String::new(),
            offset => format!("+{offset}"),
        };
        let within = self.inlined_into.as_ref().map_or_else(String::new, |within| format!(" inlined into {within}"));
        format!("{}{offset}{within}", self.function)
    }
}

/// A binary that was probed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModuleInfo {
    /// The probeset's name for it.
    pub name: String,
    /// The file.
    pub path: String,
    /// In lower-case hexadecimal; `None` where the file has none.
    pub build_id: Option<String>,
    /// Bytes.
    pub size: u64,
}

/// Where a trace comes from: the first frame.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Origin {
    /// `profinfer 0.1.0`.
    pub recorder: String,
    /// The probeset's name and engine.
    pub probeset: String,
    /// The engine it is for.
    pub engine: String,
    /// The probeset's files, name and text, the main one first.
    pub sources: Vec<(String, String)>,
    /// What was launched, or the command line of the process attached to.
    pub command: Vec<String>,
    /// The target's process number.
    pub pid: u32,
    /// Launched (`true`) or attached to.
    pub launched: bool,
    /// Levels, steps and probes of the command line.
    pub options: Vec<String>,
    /// UNIX time of the start, ns.
    pub wall_clock_ns: u64,
    /// CLOCK_MONOTONIC at that instant, ns: records' times minus this is time since the start.
    pub monotonic_ns: u64,
    /// The machine.
    pub host: Host,
    /// What the machine can do at most, where that was measured before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roofline: Option<Roofline>,
    /// How many cpus' worth of time the target's control groups let it have; `None` where they set no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<f64>,
    /// The engines that were recorded together, where they are several: [`Schema::names`] has which names are whose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<OriginPart>,
    /// The recorder's process, as the kernel numbers it; `None` where it runs in a namespace with other numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorder_pid: Option<u32>,
    /// Why a flight recorder kept it; `None` for every other trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
}

/// Why a part of a recording was kept as a trace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Kept {
    /// The condition that held, as it was given.
    pub condition: String,
    /// The name of the trace of the minutes before, in the same folder; `None` where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

/// One of several engines that were recorded together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OriginPart {
    /// What it is selected by: an identifier.
    pub key: String,
    /// Its probeset's name.
    pub probeset: String,
    /// The engine.
    pub engine: String,
    /// Its probeset's main file, among the sources.
    pub file: String,
}

impl Origin {
    /// The engines that were recorded together; none where there is one.
    pub fn engines(&self) -> impl Iterator<Item = (EngineId, &OriginPart)> {
        (0..=u16::MAX).map(EngineId).zip(&self.parts)
    }
}

/// The machine a trace was recorded on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Host {
    /// `uname -n`.
    pub name: String,
    /// `uname -r`.
    pub kernel: String,
    /// `x86_64` or `aarch64`.
    pub arch: String,
    /// As `/proc/cpuinfo` names it.
    pub cpu_model: String,
    /// Processors online.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Its types of processors, where it has several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu_types: Vec<CpuType>,
}

/// Processors of one type, on a machine that has several.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CpuType {
    /// As the kernel calls their counters (`cpu_core`, `armv8_cortex_a76`), else `capacity 1024`: how fast they are,
    /// where the fastest have 1024.
    pub name: String,
    /// Their numbers.
    pub cpus: Vec<u16>,
}

/// Why something is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossKind {
    /// The ring was full: a record is lost.
    RingFull,
    /// A field could not be read: the record is there, the field is missing.
    ReadFailed,
    /// A return without its entry: the span is lost. In [`Self::LEGACY`]: the kernel runs a program at a return only
    /// where it ran one at the entry.
    MissingEntry,
    /// An entry whose return never came (longjmp, exception, thread killed): the span is lost.
    MissingReturn,
    /// The kernel skipped the program because it was running already on that cpu.
    Recursion,
    /// Too many nested calls: the span is lost.
    TooDeep,
    /// No memory for a thread's state: the records are lost. Recorders of older versions counted jobs of devices by it, too.
    NoThreadState,
    /// Too many objects for the table: descriptions may repeat. In [`Self::LEGACY`]: a full place of the table is taken over.
    ObjectTableFull,
    /// A list was longer than its bound: the record is there, cut.
    Truncated,
    /// A site that did not attach.
    NotAttached,
    /// A span still open when the recording ended.
    StillOpen,
    /// Whether the record was wanted could not be found out, its `when` being unreadable, or its method's slot not being
    /// found before too many records waited: the record is lost.
    Undecided,
    /// An object had changed although its graph's identity had not: up to a few dozen graphs used
    /// with what it was before.
    ChangedUnseen,
    /// What was read cannot be what the probeset takes it for (a string longer than its capacity, a vector that ends
    /// before it begins): the record is there, the field is missing.
    Implausible,
    /// A device's job was not done while as many others as are followed were begun: it is lost.
    JobTableFull,
}

impl LossKind {
    /// All kinds, in the order in which programs number them.
    pub const ALL: [Self; 15] = [
        Self::RingFull,
        Self::ReadFailed,
        Self::MissingEntry,
        Self::MissingReturn,
        Self::Recursion,
        Self::TooDeep,
        Self::NoThreadState,
        Self::ObjectTableFull,
        Self::Truncated,
        Self::NotAttached,
        Self::StillOpen,
        Self::Undecided,
        Self::ChangedUnseen,
        Self::Implausible,
        Self::JobTableFull,
    ];

    /// Kinds that no recorder counts: traces of others may have them.
    pub const LEGACY: [Self; 2] = [Self::MissingEntry, Self::ObjectTableFull];

    /// As it stands in a trace: `ring_full`.
    pub fn name(self) -> &'static str {
        match self {
            Self::RingFull => "ring_full",
            Self::ReadFailed => "read_failed",
            Self::MissingEntry => "missing_entry",
            Self::MissingReturn => "missing_return",
            Self::Recursion => "recursion",
            Self::TooDeep => "too_deep",
            Self::NoThreadState => "no_thread_state",
            Self::ObjectTableFull => "object_table_full",
            Self::Truncated => "truncated",
            Self::NotAttached => "not_attached",
            Self::StillOpen => "still_open",
            Self::Undecided => "undecided",
            Self::ChangedUnseen => "changed_unseen",
            Self::Implausible => "implausible",
            Self::JobTableFull => "job_table_full",
        }
    }

    /// Whether a whole record is missing for each.
    pub fn loses_records(self) -> bool {
        match self {
            Self::RingFull
            | Self::MissingEntry
            | Self::MissingReturn
            | Self::Recursion
            | Self::TooDeep
            | Self::NoThreadState
            | Self::Undecided
            | Self::JobTableFull => true,
            Self::ReadFailed
            | Self::ObjectTableFull
            | Self::Truncated
            | Self::NotAttached
            | Self::StillOpen
            | Self::ChangedUnseen
            | Self::Implausible => false,
        }
    }

    /// Whether each loss has its number in a thread's numbering, so that a gap shows where it is.
    pub fn is_numbered(self) -> bool {
        self.loses_records() && !matches!(self, Self::Recursion | Self::JobTableFull)
    }

    /// Whether something that was asked for is not in the trace.
    pub fn is_harmful(self) -> bool {
        !matches!(self, Self::ObjectTableFull | Self::StillOpen)
    }
}

/// Losses so far, summed over cpus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// The record type's name.
    pub record: String,
    /// Why.
    pub kind: LossKind,
    /// How many since the start.
    pub count: u64,
}

impl Loss {
    /// Adds it to what is counted of the same record and kind already.
    pub fn add_to(self, losses: &mut Vec<Self>) {
        match losses.iter_mut().find(|loss| loss.record == self.record && loss.kind == self.kind) {
            Some(loss) => loss.count += self.count,
            None => losses.push(self),
        }
    }
}

/// A state of the recording that changed, at a time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Notice {
    /// ns, CLOCK_MONOTONIC.
    pub time: u64,
    /// One sentence: a module was attached, recording reached its last step…
    pub text: String,
    /// The probes of operators come or go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Detail>,
    /// The probes that `waiting` is measured from come or go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<WaitingNotice>,
    /// The files that the target has mapped now; it replaces the previous list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapped: Option<Vec<MappedFile>>,
    /// Processors that run at another frequency from now on, as read from the kernel once a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequencies: Option<Vec<CpuFrequency>>,
    /// What the kernel let the target have since the last such notice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure: Option<Pressure>,
    /// The account of the overhead so far, where there is a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overhead: Option<Overhead>,
}

/// What the kernel let the target's processes have in a time that ends with the notice, and the limits of its control
/// groups.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Pressure {
    /// When that time began, ns.
    pub since: u64,
    /// Time in user code, ns, of all threads.
    #[serde(default)]
    pub user_ns: u64,
    /// Time in the kernel, ns, of all threads.
    #[serde(default)]
    pub system_ns: u64,
    /// Page faults that needed no disk.
    #[serde(default)]
    pub minor_faults: u64,
    /// Page faults that waited for a disk.
    #[serde(default)]
    pub major_faults: u64,
    /// Processes that were too many to be asked: their time and faults are not in these figures.
    #[serde(default, skip_serializing_if = "sample::is_zero")]
    pub left_out: u64,
    /// CPUs' worth of time that its control groups may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<f64>,
    /// ns that the kernel did not let them run for that, over their CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_ns: Option<u64>,
    /// Bytes that its control groups may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<u64>,
    /// How often that limit was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_hits: Option<u64>,
    /// Pages that were read again soon after the kernel had evicted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refaulted_pages: Option<u64>,
    /// Pressure stall information (PSI), where the kernel has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled: Option<Stalled>,
}

/// Time in which at least one task waited for a resource (`some` of the kernel's pressure stall information), ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stalled {
    /// Of the target's control group; else of the machine.
    pub of_group: bool,
    /// For a CPU.
    pub cpu_ns: u64,
    /// For memory: reclaim, and reading again what was evicted.
    pub memory_ns: u64,
    /// For input and output.
    pub io_ns: u64,
}

/// How fast a processor runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CpuFrequency {
    /// Its number.
    pub cpu: u16,
    /// kHz.
    pub khz: u32,
}

/// The probes that `waiting` is measured from are attached or detached: a single lane waits for no other, and with several
/// it is recorded in random windows of time. Spans that were open in between have no `waiting`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingNotice {
    /// The probes are attached from this time on.
    pub known: bool,
    /// A window of time in which waiting is sampled begins or ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sampled: bool,
    /// Where they are there again: how long another lane had been at work without them, ns.
    #[serde(default)]
    pub missed_ns: u64,
}

/// A part of a file that the target has in its memory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MappedFile {
    /// First address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Offset in the file of the byte at `start`.
    pub offset: u64,
    /// Device, as the kernel has it: the major number above 20 bits of the minor one.
    pub device: u32,
    /// Its number on the device.
    pub inode: u64,
    /// The file.
    pub path: String,
}

/// Probes of operators are attached or detached, so that the recording stays within its budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detail {
    /// The state from this time on.
    pub state: DetailState,
    /// Why.
    pub reason: DetailReason,
    /// Steps come and go too: between `Off`, or a second `Detached`, and the next `On` nothing at all is recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub steps_too: bool,
    /// Of `On`, where steps come and go too: when the window was to end (ns of CLOCK_MONOTONIC), whatever the target does. It
    /// goes on until a step ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_end: Option<u64>,
}

/// How far the probes of operators are. All that began between `On` and `Off` is recorded; what ran between `Attaching`
/// and `Detached` may have been slowed down; what ran between `Detached` and `Attaching` met none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DetailState {
    /// They are being attached.
    Attaching,
    /// All are attached.
    On,
    /// They are about to be detached.
    Off,
    /// None is attached any more.
    Detached,
    /// A state of a later version.
    #[serde(other)]
    Unknown,
}

/// Why the probes of operators come or go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DetailReason {
    /// The recording begins: the overhead of a step must be measured.
    Start,
    /// The budget: a sampling window begins or ends.
    Budget,
    /// Steps came more slowly than they may, or come fast enough again.
    Rate,
    /// The recording ends.
    End,
    /// A reason of a later version.
    #[serde(other)]
    Unknown,
}

/// The estimated overhead of a recording: hits × cost. Where lanes share operators evenly, only a
/// lane's part of their cost counts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Overhead {
    /// The budget: the largest overhead allowed, as a fraction of the target's time in steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<f64>,
    /// Steps a second below which operators were not to be recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_rate: Option<f64>,
    /// Steps that ended.
    pub steps: u64,
    /// Their time, ns.
    pub step_ns: u64,
    /// The target's time in steps that were not recorded, ns: estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen_step_ns: Option<u64>,
    /// Of it, while the probes of operators were attached, ns.
    pub detailed_step_ns: u64,
    /// Added to the steps' time by the probes that stay, ns.
    pub base_ns: u64,
    /// Added by those that come and go, ns.
    pub detail_ns: u64,
    /// What one record of a probe adds to a step, ns, by the probe's name.
    #[serde(default)]
    pub record_ns: BTreeMap<String, f64>,
    /// What a span of a probe is longer by, ns, by the probe's name: from when its start is taken until its end is.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub span_ns: BTreeMap<String, f64>,
    /// The costs of hits are built in: those of another machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub built_in_costs: bool,
}

impl Overhead {
    /// The steps' time without what was added to it, ns; estimated for steps that were not recorded.
    pub fn bare_ns(&self) -> u64 {
        let added = self.base_ns.saturating_add(self.detail_ns);
        self.step_ns.saturating_sub(added).saturating_add(self.unseen_step_ns.unwrap_or(0))
    }
}

/// How a recording ended: the last frame. A trace without it was cut off.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct End {
    /// ns, CLOCK_MONOTONIC.
    pub time: u64,
    /// One sentence: the target ended, interrupted, the steps asked for were recorded…
    pub reason: String,
    /// The target's exit status, where it was launched and ended by itself.
    pub exit_code: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// Records written.
    pub records: u64,
    /// The estimated overhead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "price")]
    pub overhead: Option<Overhead>,
    /// What the host of a virtual machine took meanwhile; `None` where it took nothing, or it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen: Option<Stolen>,
    /// What the machine can do at most, measured after the target had ended, where no earlier measurement was saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roofline: Option<Roofline>,
    /// What was asked for and is not in the trace, beside what was lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// Where offsets and numbers come from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<ValueSource>,
}

/// Where an offset, a size or the names of an enumeration come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueSource {
    /// What it is: `view.member`, `sizeof view`, a constant, an enumeration.
    pub what: String,
    /// Its value; `None` for names, and where the target does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
    /// The source: debug information, a lock file, a function or table of the engine, the probeset.
    pub source: String,
}

/// Something that was asked for and that a recording has not: it was not there, or could not be reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// What kind of thing.
    pub kind: LeftOutKind,
    /// The probe that it belongs to, where it belongs to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<String>,
    /// What and why: a sentence without its full stop.
    pub text: String,
}

/// Kinds of [`LeftOut`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftOutKind {
    /// No step was seen; or, where no probe is a step, no record of any probe.
    Nothing,
    /// A process of the target that could not be inspected.
    Process,
    /// A mapped file that may be one of the modules and could not be read.
    File,
    /// Sites that were attached after their process may have called them.
    Late,
    /// A probe that may be without a site, and is.
    Probe,
    /// A member, constant, enumeration or counter that was left out.
    Part,
    /// A process that ran on when the recording ended.
    Survivor,
    /// A kind that a later version has added.
    #[serde(other)]
    Other,
}

impl LeftOutKind {
    /// Whether a recording is incomplete for it.
    pub fn is_harmful(self) -> bool {
        !matches!(self, Self::Probe | Self::Part | Self::Survivor)
    }
}

/// Time of a virtual machine's processors, all together, in which their host ran something else (`steal` of
/// `/proc/stat`): the machine's clocks and scheduler events do not show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stolen {
    /// ns that the host took.
    pub ns: u64,
    /// ns that the processors were used for, without that.
    pub used_ns: u64,
}
