//! The contract between the recorder and the program in the kernel: record types, loss kinds, widths, argument codes,
//! and the variables that both sides share. [`header`] renders it as C. `bpf-runtime/contract.h` is that text; a test
//! compares them, so that no number is written twice by hand.

use crate::{FieldLayout, FieldType, HEADER_SIZE, LossKind, MAX_FIELDS, NO_SITE, RecordKind, RecordType};

/// Loss counters of each record type: entries of the map `pf_losses`.
pub const LOSSES_PER_TYPE: u32 = 16;
/// The last of them is of no loss: calls within one that stands for them, by which the recording costs more.
pub const CALLS_WITHIN: u32 = LOSSES_PER_TYPE - 1;

/// Bytes of an object that the program reads at once.
pub const OBJECT_BLOCK_BYTES: u64 = 1024;

/// The value of an offset or constant that the target lacks: no address is that large.
pub const ABSENT_VALUE: u64 = 1 << 62;

/// Open calls of one probe with `nested: all` on one thread.
pub const NESTED_CALLS: u32 = 8;

/// Frames of a stack that a sample has at most.
pub const SAMPLE_FRAMES: usize = 64;

/// Bytes of the user's stack that a sample has a copy of at most. Functions of engines have frames of 36 KiB.
pub const STACK_COPY_BYTES: usize = 64 << 10;
/// Bytes of it that are copied at once: those of the smallest page, since the copy ends where no page is.
pub const STACK_PIECE_BYTES: usize = 4 << 10;

/// Before the frames of a stack: the address that calls return to whose return is probed; then of each such call where it
/// would have returned to and its stack pointer at entry, the innermost first.
pub const STACK_RETURNS: usize = 25;

/// After these, with how many bytes they are before them: frames of the kernel's stack.
pub const KERNEL_FRAMES: usize = 32;

/// Registers before a copy of the stack: instruction, stack and frame pointer, and the link register where there is one.
pub const STACK_REGISTERS: usize = 4;

/// What samples have of the user's stack: the values of `pf_sample_stacks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u64)]
pub enum SampleStacks {
    /// The innermost frame.
    #[default]
    Innermost = 0,
    /// Frames, by frame pointers.
    FramePointers = 1,
    /// Registers and a copy of the stack, from which the recorder finds the frames.
    Copy = 2,
}

impl SampleStacks {
    const ALL: [(&'static str, Self); 3] = [
        ("PF_STACKS_INNERMOST", Self::Innermost),
        ("PF_STACKS_FRAME_POINTERS", Self::FramePointers),
        ("PF_STACKS_COPY", Self::Copy),
    ];
}

/// Bits of a sample's flags.
pub mod sample_flags {
    /// It interrupted the kernel.
    pub const IN_KERNEL: u16 = 1;
    /// Operators were not recorded then.
    pub const WITHOUT_DETAIL: u16 = 2;
    /// The frames of its stack follow.
    pub const FRAMES: u16 = 4;
    /// Registers and a copy of the stack follow.
    pub const STACK_COPY: u16 = 8;
}

/// A bit of a switch's `prev_state` beside the kernel's: the recorder itself stopped the process, until it has inspected it.
pub const STOPPED_BY_RECORDER: u32 = 1 << 31;

/// Another one: the thread waits uninterruptibly, but not for input or output: for a lock of the kernel.
pub const WITHOUT_IO: u32 = 1 << 30;

/// Processes that can be stopped at one time.
pub const STOPPED_PROCESSES: usize = 4096;

/// The first type of the records that are for the recorder and never reach a trace.
pub const CONTROL_RECORDS: u16 = 0xff00;

/// Records that are for the recorder and never reach a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum ControlRecord {
    /// A process has mapped a library.
    Mapped = CONTROL_RECORDS,
    /// A process runs a new program.
    Executed = CONTROL_RECORDS + 1,
    /// The last step that was asked for has ended.
    LastStep = CONTROL_RECORDS + 2,
    /// A timer sample: it reaches the trace in a frame of samples.
    Sample = CONTROL_RECORDS + 3,
}

impl ControlRecord {
    const ALL: [(&'static str, Self); 4] = [
        ("PF_MAPPED", Self::Mapped),
        ("PF_EXECUTED", Self::Executed),
        ("PF_LAST_STEP", Self::LastStep),
        ("PF_SAMPLE", Self::Sample),
    ];

    /// The control record of a record's type.
    pub fn of(record_type: u16) -> Option<Self> {
        Self::ALL.into_iter().map(|(_, kind)| kind).find(|kind| *kind as u16 == record_type)
    }
}

/// Which processes the programs may stop: the values of `pf_may_stop`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum MayStop {
    /// None.
    Nothing = 0,
    /// Those of the recorder's user.
    OfUser = 1,
    /// All (CAP_KILL).
    All = 2,
}

/// Where an argument is: bits 0 to 7 of a packed argument place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum ArgumentCode {
    /// A register has the value.
    InRegister = 1,
    /// The stack has it.
    OnStack = 2,
    /// A struct, on the stack.
    StructOnStack = 3,
    /// A struct, where a register points to.
    StructByReference = 4,
    /// A struct of up to 16 bytes, in two registers.
    StructInRegisters = 5,
    /// In memory, at a register plus an offset. In inlined copies and static probes only.
    InMemory = 6,
    /// The sum of a register and an offset. In inlined copies only.
    Sum = 7,
    /// A constant. In inlined copies and static probes only.
    Constant = 8,
    /// A struct in memory, at a register plus an offset. In inlined copies only.
    StructInMemory = 9,
    /// In memory, at the sum of two registers and an offset. In static probes only.
    Indexed = 10,
}

impl ArgumentCode {
    const ALL: [(&'static str, Self); 10] = [
        ("PF_IN_REGISTER", Self::InRegister),
        ("PF_ON_STACK", Self::OnStack),
        ("PF_STRUCT_ON_STACK", Self::StructOnStack),
        ("PF_STRUCT_BY_REFERENCE", Self::StructByReference),
        ("PF_STRUCT_IN_REGISTERS", Self::StructInRegisters),
        ("PF_IN_MEMORY", Self::InMemory),
        ("PF_SUM", Self::Sum),
        ("PF_CONSTANT", Self::Constant),
        ("PF_STRUCT_IN_MEMORY", Self::StructInMemory),
        ("PF_INDEXED", Self::Indexed),
    ];

    /// The code of a packed argument place.
    pub fn of(packed: u64) -> Option<Self> {
        Self::ALL.into_iter().map(|(_, code)| code).find(|code| *code as u64 == packed & 0xff)
    }
}

/// How the rest of a packed argument place is laid out, as bit numbers.
pub mod argument_bits {
    /// The register, as DWARF numbers it; the first of two.
    pub const REGISTER: u32 = 8;
    /// The second register.
    pub const SECOND: u32 = 16;
    /// By how many bits the second register is shifted.
    pub const SHIFT: u32 = 24;
    /// Bytes of the value, as a power of two.
    pub const LOG_SIZE: u32 = 26;
    /// The value is signed.
    pub const SIGNED: u32 = 28;
    /// The two above are valid.
    pub const SIZED: u32 = 29;
    /// Bytes from the stack pointer at the function's first instruction, or from the register's value; or the constant.
    pub const OFFSET: u32 = 32;
}

/// The attach cookie of a site: its number, and how many bytes the stack pointer is below its value at the function's
/// first instruction.
pub fn site_cookie(site: u16, stack_bytes: u16) -> u64 {
    u64::from(site) | u64::from(stack_bytes) << COOKIE_STACK_BIT
}

const COOKIE_STACK_BIT: u32 = 16;

/// How a C++ library lays out `std::string`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum StringLayout {
    /// libstdc++ since GCC 5: pointer, length, and 15 bytes in place.
    Libstdcxx = 1,
    /// libstdc++ before, and with `_GLIBCXX_USE_CXX11_ABI=0`: one pointer to text that copies share.
    LibstdcxxCow = 2,
    /// libc++: length and text in place, or capacity, length and pointer.
    Libcxx = 3,
}

impl StringLayout {
    /// As a probeset writes them.
    pub const NAMES: [(&'static str, Self); 3] =
        [("libstdc++", Self::Libstdcxx), ("libstdc++-cow", Self::LibstdcxxCow), ("libc++", Self::Libcxx)];
    const ALL: [(&'static str, Self); 3] =
        [("PF_LIBSTDCXX", Self::Libstdcxx), ("PF_LIBSTDCXX_COW", Self::LibstdcxxCow), ("PF_LIBCXX", Self::Libcxx)];
}

/// How a map or set of a C++ library is laid out, in one number: bits, and the first bits of offsets.
pub mod map_bits {
    /// It is a tree, whose elements are sorted; otherwise a list.
    pub const SORTED: u64 = 1;
    /// A node of a tree begins with its colour, as in libstdc++, and not with its links.
    pub const COLOUR_FIRST: u64 = 2;
    /// Where the map has the address of its first node.
    pub const FIRST: u32 = 8;
    /// Where it has the number of its elements.
    pub const COUNT: u32 = 16;
    /// Where a node has its element.
    pub const ELEMENT: u32 = 24;
    /// Where an element has what its key stands for.
    pub const VALUE: u32 = 32;
}

/// Elements of a map that are visited.
pub const MAP_ENTRIES: u64 = 32;
/// Longest key that is looked for, in bytes; one less than a power of two.
pub const MAP_KEY_BYTES: usize = 63;

/// Who sets a variable of the program, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariableKind {
    /// The recorder, before it loads the program.
    Constant,
    /// The recorder and the program, while both run.
    Shared,
    /// The program alone. The runtime declares it.
    Internal,
}

/// A variable of the program in the kernel. All but the internal ones have 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    /// Its name in C.
    pub name: &'static str,
    /// Who sets it.
    pub kind: VariableKind,
    /// The macro with which the program has it; `None`: always.
    pub only_with: Option<&'static str>,
    /// What it is.
    pub about: &'static str,
}

const fn constant(name: &'static str, about: &'static str) -> Variable {
    Variable { name, kind: VariableKind::Constant, only_with: None, about }
}

const fn shared(name: &'static str, about: &'static str) -> Variable {
    Variable { name, kind: VariableKind::Shared, only_with: None, about }
}

const fn internal(name: &'static str) -> Variable {
    Variable { name, kind: VariableKind::Internal, only_with: None, about: "" }
}

const COUNTERS: Option<&str> = Some("PF_COUNTERS");
const JOBS: Option<&str> = Some("PF_JOBS");
const OLD_KERNEL: Option<&str> = Some("PF_OLD_KERNEL");

/// All variables of a program, apart from the constants that the target decides: those are the plan's relocations.
pub const VARIABLES: &[Variable] = &[
    constant("pf_ns_dev", "device of the target's pid namespace"),
    constant("pf_ns_ino", "inode of the target's pid namespace"),
    constant("pf_ns_pid", "the target's process number in that namespace"),
    constant("pf_follow_forks", "1: child processes are recorded too; the probes then fire in every process"),
    constant("pf_first_step", "first step to record, counted from 1; 0: all steps"),
    constant("pf_last_step", "last step to record"),
    constant("pf_recorder_ino", "inode of the recorder's pid namespace"),
    constant("pf_recorder_uid", "the recorder's user"),
    constant("pf_may_stop", "which processes the recorder can continue: PF_STOPS_NOTHING, _OF_USER or _ALL"),
    constant("pf_detail_switches", "1: the probes of operators are attached and detached while recording"),
    constant("pf_page_bytes", "bytes of a page: the unit of the page cache"),
    constant("pf_sample_stacks", "what samples have of the user's stack: PF_STACKS_…"),
    Variable { only_with: COUNTERS, ..constant("pf_cpus", "possible CPUs") },
    Variable { only_with: COUNTERS, ..constant("pf_partial_counters", "bit i: some CPUs cannot count counter i") },
    Variable {
        only_with: OLD_KERNEL,
        ..constant("pf_has_cookies", "1: a program can ask which site it runs at; 0: see site_program.rs")
    },
    Variable { only_with: JOBS, ..constant("pf_job_queued", "fields of the tracepoint, see job.h") },
    Variable { only_with: JOBS, ..constant("pf_job_run", "the same") },
    Variable { only_with: JOBS, ..constant("pf_job_done", "the same") },
    Variable { only_with: JOBS, ..constant("pf_fence_made", "the same") },
    Variable { only_with: JOBS, ..constant("pf_fence_emitted", "the same") },
    Variable { only_with: JOBS, ..constant("pf_fence_signaled", "the same") },
    shared("pf_enabled", "1 once everything is attached"),
    shared("pf_steps", "steps begun"),
    shared("pf_within_steps", "threads that are in a step"),
    shared("pf_calls_elsewhere", "calls on stacks that the target made (fibers, coroutines)"),
    shared("pf_detail_since", "detail is recorded from here on: ns, CLOCK_MONOTONIC"),
    shared("pf_detail_until", "and up to here"),
    shared("pf_graphs_switch", "1: graphs are attached and detached with the detail"),
    shared("pf_steps_switch", "1: steps are, too"),
    shared("pf_step_came", "1: a step has begun since pf_detail_since"),
    shared("pf_waiting_since", "entries that `waiting` is measured from are seen from here on: ns, CLOCK_MONOTONIC"),
    shared("pf_waiting_until", "and up to here; 0: always"),
    shared("pf_other_slots", "1: there are sites of slots that are not probed any more"),
    shared("pf_loss_changes", "how often pf_losses has changed"),
    shared("pf_samples", "timer samples taken, lost ones included"),
    shared("pf_samples_lost", "of them, those that the ring had no space for"),
    Variable { only_with: JOBS, ..shared("pf_jobs_pending", "jobs of the target's that are not done") },
    internal("pf_in_window"),
    internal("pf_window_over"),
    internal("pf_unplaced"),
    internal("pf_identities_fail"),
    internal("pf_queues"),
    Variable { only_with: OLD_KERNEL, ..internal("pf_new_thread") },
    internal("pf_made_from"),
];

/// The record types that every trace has.
pub fn builtin_records() -> Vec<RecordType> {
    let record = |name: &str, kind, fields: &[(&str, u32, FieldType)], size| RecordType {
        name: name.to_owned(),
        kind,
        role: None,
        size,
        fields: fields
            .iter()
            .map(|(name, offset, ty)| FieldLayout { name: (*name).to_owned(), offset: *offset, ty: ty.clone() })
            .collect(),
    };
    let number = || FieldType::Uint(4);
    vec![
        record(
            "thread",
            RecordKind::Thread,
            &[
                ("pid", 32, number()),
                ("ns_tid", 36, number()),
                ("ns_pid", 40, number()),
                ("cpus_allowed", 44, FieldType::Uint(2)),
                ("created", 46, FieldType::Uint(2)),
                ("comm", 48, FieldType::Text(16)),
            ],
            64,
        ),
        record("thread_exit", RecordKind::ThreadExit, &[], 32),
        record(
            "switch",
            RecordKind::Switch,
            &[
                ("prev_pid", 32, number()),
                ("prev_state", 36, number()),
                ("next_tid", 40, number()),
                ("next_pid", 44, number()),
                ("prev_comm", 48, FieldType::Text(16)),
                ("next_comm", 64, FieldType::Text(16)),
            ],
            80,
        ),
        record(
            "wakeup",
            RecordKind::Wakeup,
            &[("waker_tid", 32, number()), ("waker_pid", 36, number()), ("target_cpu", 40, number())],
            48,
        ),
        record("fork", RecordKind::Fork, &[("child_tid", 32, number()), ("child_pid", 36, number())], 40),
        record("exec", RecordKind::Exec, &[("cpus_allowed", 32, number())], 40),
    ]
}

/// The fields of [`HEADER_SIZE`] bytes: name, bytes, meaning.
const HEADER_FIELDS: [(&str, u32, &str); 8] = [
    ("type", 2, ""),
    ("site", 2, ""),
    ("cpu", 2, ""),
    ("missing", 2, "bit i: field i could not be read"),
    ("tid", 4, ""),
    ("seq", 4, "the thread's count of records from 1, lost ones included; 0: not counted"),
    ("start", 8, "ns, CLOCK_MONOTONIC"),
    ("duration", 8, "ns"),
];

/// The contract as C.
pub fn header() -> String {
    let mut text = String::from(
        "// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0\n\
         /*\n * What the recorder and these programs agree on. Generated from crates/schema/src/bpf.rs: do not edit.\n\
         \x20* `BLESS=1 cargo test -p profinfer-schema` writes it anew.\n */\n#pragma once\n#include \"bpf.h\"\n\n\
         /* Every record starts with this; docs/trace-format.md describes it. */\nstruct pf_header {\n",
    );
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    for (name, bytes, about) in HEADER_FIELDS {
        line(format!("\t__u{} {name};{}", 8 * bytes, trailing(about)));
    }
    line(format!(
        "}};\n_Static_assert(sizeof(struct pf_header) == {HEADER_SIZE}, \"the header's size is part of the trace format\");"
    ));
    line(format!("\n#define PF_MOST_FIELDS {MAX_FIELDS} /* the bits of `missing` */"));
    line(format!("#define PF_NO_SITE {NO_SITE:#x}"));
    line(format!("#define PF_ABSENT_VALUE {ABSENT_VALUE:#x} /* an offset or constant that the target lacks */"));
    let records = builtin_records();
    line(
        "\n/* Record types that every program has; then come the probeset's objects and probes. */\nenum pf_type {"
            .into(),
    );
    for record in &records {
        line(format!("\tPF_{},", record.name.to_uppercase()));
    }
    line("\tPF_FIRST_OF_PROBESET,\n};".into());
    for record in &records {
        line(format!("\n{}", structure(record)));
    }
    line("\n/* Records that are for the recorder and never reach a trace. */\nenum pf_control {".into());
    for (name, kind) in ControlRecord::ALL {
        line(format!("\t{name} = {:#x},", kind as u16));
    }
    line("};".into());
    line("\n/* Losses, counted for each record type; docs/completeness.md describes them. */\nenum pf_loss {".into());
    for kind in LossKind::ALL {
        line(format!("\tPF_{},", c_name(&format!("{kind:?}"))));
    }
    line(format!("}};\n#define PF_LOSSES_PER_TYPE {LOSSES_PER_TYPE}"));
    line(format!("#define PF_CALLS_WITHIN {CALLS_WITHIN} /* no loss: calls within one that stands for them */"));
    line("\n/* Where an argument is: bits 0 to 7 of its place. */\nenum pf_place {".into());
    for (name, code) in ArgumentCode::ALL {
        line(format!("\t{name} = {},", code as u64));
    }
    line("};".into());
    use argument_bits::{LOG_SIZE, OFFSET, REGISTER, SECOND, SHIFT, SIGNED, SIZED};
    line("#define PF_PLACE_KIND(place) (0xff & (place))".into());
    line(format!("#define PF_PLACE_REGISTER(place) (((place) >> {REGISTER}) & 0xff) /* as DWARF numbers it */"));
    line(format!("#define PF_PLACE_SECOND(place) (((place) >> {SECOND}) & 0xff)"));
    line(format!("#define PF_PLACE_SHIFT(place) (((place) >> {SHIFT}) & 3) /* of the second register */"));
    line(format!("#define PF_PLACE_LOG_SIZE(place) (((place) >> {LOG_SIZE}) & 3)"));
    line(format!("#define PF_PLACE_SIGNED (1 << {SIGNED})"));
    line(format!("#define PF_PLACE_SIZED (1 << {SIZED}) /* size and sign are valid */"));
    line(format!(
        "#define PF_PLACE_OFFSET(place) ((__u32)((place) >> {OFFSET})) /* from the stack pointer at the entry */"
    ));
    line(format!("#define PF_PLACE_SIGNED_OFFSET(place) ((__s64)(place) >> {OFFSET}) /* from the register's value */"));
    line("\n/* A site's cookie: its number, and how far the stack pointer is below its value at the entry. */".into());
    line("#define PF_COOKIE_SITE(cookie) ((__u16)(cookie))".into());
    line(format!("#define PF_COOKIE_STACK(cookie) (((cookie) >> {COOKIE_STACK_BIT}) & 0xffff)"));
    line("\n/* How a C++ library lays out std::string. */\nenum pf_strings {".into());
    for (name, layout) in StringLayout::ALL {
        line(format!("\t{name} = {},", layout as u64));
    }
    line("};".into());
    line("\n/* How a map of a C++ library is laid out, and how much of it is looked at. */".into());
    line(format!("#define PF_MAP_SORTED {}", map_bits::SORTED));
    line(format!("#define PF_MAP_COLOUR_FIRST {}", map_bits::COLOUR_FIRST));
    line(format!("#define PF_MAP_FIRST(how) (((how) >> {}) & 0xff)", map_bits::FIRST));
    line(format!("#define PF_MAP_COUNT(how) (((how) >> {}) & 0xff)", map_bits::COUNT));
    line(format!("#define PF_MAP_ELEMENT(how) (((how) >> {}) & 0xff)", map_bits::ELEMENT));
    line(format!("#define PF_MAP_VALUE(how) ((how) >> {})", map_bits::VALUE));
    line(format!("#define PF_MOST_ENTRIES {MAP_ENTRIES}"));
    line(format!("#define PF_MOST_KEY {MAP_KEY_BYTES} /* bytes; one less than a power of two */"));
    line(format!("#define PF_KEY_WORDS {}", MAP_KEY_BYTES.div_ceil(8)));
    line("\n/* Values of pf_may_stop. */".into());
    line(format!("#define PF_STOPS_NOTHING {}", MayStop::Nothing as u64));
    line(format!("#define PF_STOPS_OF_USER {}", MayStop::OfUser as u64));
    line(format!("#define PF_STOPS_ALL {}", MayStop::All as u64));
    line("\n/* Values of pf_sample_stacks. */".into());
    for (name, stacks) in SampleStacks::ALL {
        line(format!("#define {name} {}", stacks as u64));
    }
    line("\n/* Bits of a sample's flags. */".into());
    line(format!("#define PF_SAMPLE_IN_KERNEL {}", sample_flags::IN_KERNEL));
    line(format!(
        "#define PF_SAMPLE_WITHOUT_DETAIL {} /* operators were not recorded then */",
        sample_flags::WITHOUT_DETAIL
    ));
    line(format!("#define PF_SAMPLE_FRAMES {} /* the frames of its stack follow */", sample_flags::FRAMES));
    line(format!(
        "#define PF_SAMPLE_STACK_COPY {} /* registers and a copy of the stack follow */",
        sample_flags::STACK_COPY
    ));
    line("\n/* Beside the kernel's states of tasks. */".into());
    line(format!("#define PF_STOPPED_BY_RECORDER {STOPPED_BY_RECORDER:#x}"));
    line(format!("#define PF_WITHOUT_IO {WITHOUT_IO:#x}"));
    line("\n/* Bounds. */".into());
    line(format!("#define PF_BLOCK {OBJECT_BLOCK_BYTES} /* bytes of an object that are read at once */"));
    line(format!("#define PF_NESTED {NESTED_CALLS} /* open calls of a probe with `nested: all` on one thread */"));
    line(format!("#define PF_MOST_FRAMES {SAMPLE_FRAMES} /* of a sample's stack */"));
    line(format!("#define PF_STACK_RETURNS {STACK_RETURNS} /* before these */"));
    line(format!("#define PF_KERNEL_FRAMES {KERNEL_FRAMES} /* of the kernel's stack, between them */"));
    line(format!("#define PF_STACK_COPY_BYTES {STACK_COPY_BYTES} /* of the stack that a sample has a copy of */"));
    line(format!("#define PF_STACK_PIECE {STACK_PIECE_BYTES} /* bytes of it that are copied at once: a page */"));
    line(format!("#define PF_STACK_REGISTERS {STACK_REGISTERS} /* before the copy */"));
    line(format!("#define PF_MOST_STOPPED {STOPPED_PROCESSES} /* processes stopped at one time */"));
    text + "\n" + &declarations()
}

/// The declarations of the variables that the recorder sets or reads, as C.
pub fn declarations() -> String {
    let mut text = String::new();
    let headings = [
        (VariableKind::Constant, "const volatile ", "Set by the recorder before the program is loaded."),
        (VariableKind::Shared, "", "Shared with the recorder while both run."),
    ];
    for (kind, qualifiers, heading) in headings {
        text.push_str(&format!("{}/* {heading} */\n", if text.is_empty() { "" } else { "\n" }));
        let mut open = None;
        for variable in VARIABLES.iter().filter(|variable| variable.kind == kind) {
            if variable.only_with != open {
                text.push_str(if open.is_some() { "#endif\n" } else { "" });
                text.push_str(&variable.only_with.map_or_else(String::new, |name| format!("#ifdef {name}\n")));
                open = variable.only_with;
            }
            text.push_str(&format!("{qualifiers}__u64 {};{}\n", variable.name, trailing(variable.about)));
        }
        text.push_str(if open.is_some() { "#endif\n" } else { "" });
    }
    text
}

fn trailing(about: &str) -> String {
    if about.is_empty() { String::new() } else { format!(" /* {about} */") }
}

/// `RingFull` as `RING_FULL`.
fn c_name(variant: &str) -> String {
    let mut name = String::new();
    for (index, c) in variant.chars().enumerate() {
        if c.is_uppercase() && index > 0 {
            name.push('_');
        }
        name.extend(c.to_uppercase());
    }
    name
}

fn structure(record: &RecordType) -> String {
    let name = format!("pf_{}_record", record.name);
    let mut text = format!("struct {name} {{\n\tstruct pf_header header;\n");
    let mut end = HEADER_SIZE;
    for field in &record.fields {
        let member = match field.ty {
            FieldType::Text(bytes) => format!("char {}[{bytes}]", field.name),
            ref ty => format!("__u{} {}", 8 * ty.size(), field.name),
        };
        text.push_str(&format!("\t{member};\n"));
        end = field.offset + field.ty.size();
    }
    if end < record.size {
        text.push_str(&format!("\t__u{} reserved;\n", 8 * (record.size - end)));
    }
    text.push_str(&format!("}};\n_Static_assert(sizeof(struct {name}) == {}, \"{}\");", record.size, record.name));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BUILTIN;

    #[test]
    fn the_c_header_is_what_this_module_renders() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bpf-runtime/contract.h");
        let rendered = header();
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(path, &rendered).unwrap();
        }
        let stored = std::fs::read_to_string(path).unwrap();
        assert!(stored == rendered, "bpf-runtime/contract.h is out of date; BLESS=1 writes it anew");
    }

    #[test]
    fn the_numbers_fit_their_fields() {
        assert!(LossKind::ALL.len() <= CALLS_WITHIN as usize);
        assert!(LossKind::ALL.iter().enumerate().all(|(index, kind)| *kind as usize == index));
        assert_eq!(builtin_records().len(), BUILTIN);
        assert_eq!(HEADER_FIELDS.iter().map(|(_, bytes, _)| bytes).sum::<u32>(), HEADER_SIZE);
        assert_eq!(c_name("ChangedUnseen"), "CHANGED_UNSEEN");
        assert_eq!(ControlRecord::of(0xff01), Some(ControlRecord::Executed));
        assert_eq!(ArgumentCode::of(0xabc_000a), Some(ArgumentCode::Indexed));
    }
}
