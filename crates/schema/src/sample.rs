//! Timer samples: where threads of the target were, beside the records of what they called.

use serde::{Deserialize, Serialize};

/// Where an instruction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodePlace {
    /// Index into the modules of [`Sampling`], or one of this type's constants.
    pub module: u16,
    /// Bytes from the start of the module's file; for the other constants, the address.
    pub offset: u64,
}

impl CodePlace {
    /// The address was in no mapping that was seen.
    pub const UNKNOWN: u16 = 0xffff;
    /// Memory without a file behind it: code that was made at run time.
    pub const ANONYMOUS: u16 = 0xfffe;
    /// The kernel.
    pub const KERNEL: u16 = 0xfffd;
    /// Modules have lower numbers.
    pub const MODULES: u16 = 4096;
}

/// One timer sample.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sample {
    /// ns, CLOCK_MONOTONIC.
    pub time: u64,
    /// The thread's number in the kernel.
    pub tid: u32,
    /// The process's number as the recorder's namespace has it; 0: it has none.
    pub pid: u32,
    /// The processor.
    pub cpu: u16,
    /// It interrupted the kernel.
    pub in_kernel: bool,
    /// Operators were not recorded at that time.
    pub without_detail: bool,
    /// The open span that it is assigned to: record type and start.
    pub within: Option<(u16, u64)>,
    /// Where it was, the innermost frame first: those of the kernel, one without stacks, then the user's.
    pub frames: Vec<CodePlace>,
}

impl Sample {
    /// Frames of one sample: the kernel's and the user's.
    pub const MOST_FRAMES: usize = crate::bpf::SAMPLE_FRAMES + 1;
}

/// A file that samples are in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SampledModule {
    /// Its path in the target's root.
    pub path: String,
    /// In lower-case hexadecimal; `None` where the file has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
    /// Bytes; 0 where the file could not be read.
    pub size: u64,
    /// When it was last modified, UNIX time in ns: what tells a file without build-id from another one.
    pub modified_ns: u64,
}

/// A function of the kernel that samples are in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct KernelFunction {
    /// Its first address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// Its name in `/proc/kallsyms`.
    pub name: String,
}

/// How the target was sampled. Lists append to those before; of the rest the last one counts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sampling {
    /// What the timer counts: `cpu-clock` or `cycles`.
    pub event: String,
    /// Samples of each thread in a second of its CPU time.
    pub hz: u32,
    /// Samples have stacks.
    pub stacks: bool,
    /// These are by the files' unwind tables, not by frame pointers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unwind_tables: bool,
    /// Stacks whose outer frames are missing: they were larger than what is copied of one, or there was no space for a copy.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut: u64,
    /// The number of the first of `modules`.
    pub first_module: usize,
    /// Files that samples are in.
    pub modules: Vec<SampledModule>,
    /// Functions of the kernel that samples are in, as far as the recorder was permitted to read them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel: Vec<KernelFunction>,
    /// Samples taken.
    pub taken: u64,
    /// Of them, those that are not in the trace: the ring buffer was full.
    pub lost: u64,
    /// Threads that could not be sampled, or why none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
}

pub(crate) fn is_zero(value: &u64) -> bool {
    *value == 0
}
