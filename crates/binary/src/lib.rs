//! A target: its mapped files, functions, types, and bytes. The rest of profinfer sees only the
//! [`Target`] trait, so that a fake makes it testable without a binary or root.

#[cfg(test)]
mod arm64_tests;
mod bases;
mod by_texts;
mod bytes;
#[cfg(target_os = "linux")]
mod cache;
#[cfg(not(target_os = "linux"))]
#[path = "cache_elsewhere.rs"]
mod cache;
mod call_targets;
mod closures;
#[cfg(target_os = "linux")]
mod content;
#[cfg(target_os = "linux")]
mod cpus;
mod debug_file;
mod declared;
mod dispatch;
mod dwarf;
mod elf;
mod fake;
mod files;
mod functions;
#[cfg(target_os = "linux")]
mod inspected;
mod library;
mod lock;
#[cfg(target_os = "linux")]
pub mod maps;
mod methods;
mod name_table;
mod names;
mod open;
mod overrides;
mod pointers;
#[cfg(target_os = "linux")]
mod process;
mod process_stat;
mod pure_virtual;
mod references;
mod rtti;
mod symbols;
mod type_text;
mod unwind_ranges;
mod usdt;

#[cfg(test)]
mod forged;
#[cfg(test)]
mod forged_tests;
#[cfg(test)]
mod overrides_tests;
#[cfg(test)]
mod stripped_tests;
#[cfg(test)]
mod tests;

use profinfer_diagnostics::Diagnostic;
use profinfer_probeset::NameTable;
use profinfer_probeset::path::NamePattern;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

#[cfg(not(target_os = "linux"))]
use cache::FileState;
#[cfg(target_os = "linux")]
use content::FileState;
#[cfg(target_os = "linux")]
pub use cpus::{core_types, cpu_list};
pub use debug_file::DebugFolders;
pub use declared::{Declared, declared};
pub use fake::FakeTarget;
pub use files::{Files, LINKER_NOTICE};
pub use functions::{FunctionName, FunctionTable, build_id};
#[cfg(target_os = "linux")]
pub use inspected::{FileId, InspectedFile};
pub use lock::{Lock, LockedFile, LockedSite, LockedTarget, MAX_LOCK};
pub use names::may_lack_parameters;
pub use open::{open, open_path, open_with};
#[cfg(target_os = "linux")]
pub use process::mapped_by_anyone;
#[cfg(target_os = "linux")]
pub use process::{FileStore, PidNamespace, ProcessStatus, ProcessTarget, command_line};
pub use process_stat::ProcessStat;

/// An instruction set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arch {
    /// x86-64, System V ABI.
    X86_64,
    /// arm64, AAPCS64.
    Aarch64,
}

/// One ELF file of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetFile {
    /// What tells it from every other file that was read, also from one that had or gets its path.
    pub id: u64,
    /// Path by which the recorder can open it (`/proc/PID/root/…` for a process in another root).
    pub path: PathBuf,
    /// Its file name, which module globs are matched against.
    pub name: String,
    /// Lower-case hexadecimal.
    pub build_id: Option<String>,
    /// Bytes.
    pub size: u64,
    /// Instruction set.
    pub arch: Arch,
}

/// A function found in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Name as in the symbol table.
    pub symbol: String,
    /// Demangled, without parameters and clone suffixes (`.isra.0`, `.constprop.0`); equal to the symbol for C.
    pub name: String,
    /// Bytes from the start of the file to its first instruction.
    pub file_offset: u64,
    /// Bytes; 0 where unknown.
    pub size: u64,
    /// What the pattern's wildcards stood for.
    pub captures: Vec<String>,
}

/// What a function is called with, as it is declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionSignature {
    /// Names, which may be empty, and types of the parameters, `this` included.
    pub parameters: Vec<(String, TargetType)>,
    /// The type of the result; `None` for `void`.
    pub returns: Option<TargetType>,
}

/// What a class and those derived from it have in one slot of its virtual table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overrides {
    /// Each function once, by file offset; pure virtual ones and those of other files are left out. Its only capture is
    /// the class that it is of: where several have it, the one that the others derive from; none, where there is no such.
    pub functions: Vec<Function>,
    /// How many classes of the file are the base or derive from it.
    pub classes: usize,
    /// The number of functions in the base's table; `None` where that table is not in the file.
    pub slots: Option<u64>,
    /// There is more than was inspected.
    pub is_cut: bool,
}

/// Copies of functions that the answer about one pattern has, at most. One more shows that there are more.
pub const MOST_COPIES: usize = 4096;

/// Functions that a slot of virtual tables has in a probe, at most.
pub const MOST_OVERRIDES: usize = 2048;

/// A class that others of its file derive from, and what they make of its virtual methods.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClassBase {
    /// Its qualified name.
    pub name: String,
    /// How many classes begin with one of it: those that derive from it elsewhere than at their start are left out.
    pub derived: usize,
    /// How many different functions there are in each slot of its virtual table.
    pub slots: Vec<usize>,
}

/// One place of a static probe (USDT).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct StaticSite {
    /// Bytes from the start of the file to the instruction.
    pub file_offset: u64,
    /// The same for the probe's semaphore, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub semaphore: Option<u64>,
    /// Its arguments in order.
    pub arguments: Vec<StaticArgument>,
}

/// An argument of a static probe.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct StaticArgument {
    /// Bytes: 1, 2, 4 or 8.
    pub size: u8,
    /// It has a sign.
    pub signed: bool,
    /// Where it is.
    pub place: ArgumentLocation,
}

/// Where an argument of a static probe is. Registers as DWARF numbers them.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum ArgumentLocation {
    /// In a register's lowest bytes.
    Register(u16),
    /// A constant.
    Constant(i64),
    /// In memory, at a register's value and some bytes.
    Memory {
        /// The register.
        register: u16,
        /// Bytes.
        offset: i64,
    },
    /// In memory, at a register's value, another one's times 1, 2, 4 or 8, and some bytes.
    Indexed {
        /// The register.
        register: u16,
        /// The other.
        index: u16,
        /// Bits that the other is shifted by.
        scale: u8,
        /// Bytes.
        offset: i64,
    },
    /// Where a program cannot read it; as the note has it.
    Unreadable(String),
}

/// A type as the target's debug information has it, as far as it is compared with a view.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum TargetType {
    /// An integer, character or bool.
    Int {
        /// Bytes.
        size: u64,
        /// Signedness.
        signed: bool,
    },
    /// A floating-point number.
    Float {
        /// Bytes.
        size: u64,
    },
    /// A boolean.
    Bool,
    /// A pointer or reference; `None` is `void*` or a pointer to a function.
    Pointer(Option<Box<TargetType>>),
    /// An array; `None` where it has no length.
    Array(Box<TargetType>, Option<u64>),
    /// An enumeration by name and size in bytes.
    Enum(String, u64),
    /// A struct, class or union by (qualified) name and size in bytes; 0 where it is only declared.
    Struct(String, u64),
    /// Some bits of an integer: `shift` bits of the integer at the member's offset are below them.
    Bits {
        /// The integer's bytes.
        size: u64,
        /// Its signedness.
        signed: bool,
        /// How many bits.
        bits: u32,
        /// The lowest one.
        shift: u32,
    },
    /// Anything else, by its name.
    Other(String),
}

/// The layout of a struct, class or union.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Layout {
    /// Bytes.
    pub size: u64,
    /// Its alignment in bytes, where that is certain.
    pub align: Option<u64>,
    /// Members by name: offset in bytes and type. Members of base classes and anonymous members are included.
    pub members: BTreeMap<String, (u64, TargetType)>,
}

/// What a check chose among the layouts that a probeset gives one of its views.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChosenLayout {
    /// Bytes, by the probeset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Offsets in bytes by member.
    pub at: BTreeMap<String, u64>,
}

/// A copy of a function that the compiler put into another one.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct InlinedCopy {
    /// The function, demangled, without parameters.
    pub name: String,
    /// The function it was put into, demangled, without parameters.
    pub within: String,
    /// The instructions of that function, its parts elsewhere included, as bytes from the start of the file; the one
    /// with its entry first.
    pub within_ranges: Vec<Range<u64>>,
    /// What the pattern's wildcards stood for.
    pub captures: Vec<String>,
    /// Bytes from the start of the file to the copy's first instruction that is executed.
    pub entry: u64,
    /// Its instructions, as bytes from the start of the file; sorted, and apart from each other.
    pub ranges: Vec<Range<u64>>,
    /// Where in it statements of the source begin: bytes from the start of the file, and a number that is the same for
    /// the same statement. Sorted. Statements that begin at several places are there several times.
    pub statements: Vec<(u64, u32)>,
    /// Its parameters, in the declaration's order; those that the compiler dropped have no locations.
    pub parameters: Vec<InlinedParameter>,
    /// It is no copy in another function, but a changed copy of the whole function, which other functions call.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_whole: bool,
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

/// A parameter of an [`InlinedCopy`].
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct InlinedParameter {
    /// As in the source; may be empty.
    pub name: String,
    /// Where it is while which instructions (bytes from the start of the file) are about to be executed. Sorted.
    pub locations: Vec<(Range<u64>, Location)>,
}

/// Where a variable is, as registers are before an instruction. Registers as DWARF numbers them; what debug
/// information expresses by frame base or canonical frame address is resolved to a register here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Location {
    /// Its value is in a register.
    Register(u16),
    /// Its value is in memory, at a register's value and some bytes.
    Memory {
        /// The register.
        register: u16,
        /// Bytes.
        offset: i64,
    },
    /// Its value is a register's and some bytes.
    Sum {
        /// The register.
        register: u16,
        /// Bytes.
        offset: i64,
    },
    /// Its value is a constant.
    Constant(i64),
}

/// The files of a target.
pub trait TargetFiles {
    /// The files that are mapped (a process), or given (a file, a folder).
    fn files(&self) -> &[TargetFile];

    /// The libraries that a file asks the dynamic linker for, by name.
    fn needed(&self, file: usize) -> Vec<String>;

    /// Problems of the files that answers came from so far, such as debug information of another build.
    fn problems(&self) -> Vec<Diagnostic>;

    /// Mapped files that could not be opened, by the process's names: what is not found may be in them.
    fn unreadable(&self) -> &[std::path::PathBuf] {
        &[]
    }
}

/// The functions of a target's files: by symbols, run-time type information, static probes and debug information.
pub trait TargetSymbols: TargetFiles {
    /// Functions of a file whose symbol, or demangled name without parameters, matches; copies that the compiler made
    /// (`.isra.0`) included, several symbols of one address given once. Left out are pieces (`.cold`, `.part.0`) unless
    /// the pattern is the whole symbol, thunks, and functions chosen at run time (`STT_GNU_IFUNC`), whose address is that
    /// of the choice. Sorted by file offset. An unreadable file has none. Of a pattern [by texts](NamePattern::by_texts), the
    /// function, if it is one.
    fn functions(&self, file: usize, pattern: &NamePattern) -> Vec<Function>;

    /// Copies of functions that the compiler put into others, whose name matches, from the file's debug information.
    /// Sorted by entry. Those without instructions are left out. Changed copies of whole
    /// functions ([`may_lack_parameters`]) are among them, for the places of their parameters.
    fn inlined(&self, file: usize, pattern: &NamePattern) -> Vec<InlinedCopy>;

    /// What a class (its qualified name) and those derived from it have in a slot of its virtual table, by the run-time
    /// type information that stripped files have, too. A function is the one that the *base's* table leads to: where the
    /// base is not at the start of a derived class, a thunk, which is called with a pointer to the base.
    fn overrides(&self, file: usize, base: &str, slot: u32) -> Overrides;

    /// The classes of a file that others derive from, by the run-time type information; those that most derive from first.
    fn class_bases(&self, file: usize) -> Vec<ClassBase>;

    /// Says which of a file's classes has a name near this one, as a hint.
    fn class_like(&self, file: usize, name: &str) -> Option<String>;

    /// The places of a static probe, by file offset.
    fn static_sites(&self, file: usize, provider: &str, name: &str) -> Vec<StaticSite>;

    /// What functions of a file, by their symbols, are called with; those that its debug information does not say are
    /// left out.
    fn signatures(&self, file: usize, symbols: &[&str]) -> BTreeMap<String, FunctionSignature>;
}

/// The types of a target's files: layouts, constants, and what a lock file has of them.
pub trait TargetTypes: TargetFiles {
    /// The layout of a named type in a file's debug information: a C struct tag, typedef, or qualified C++ class. Where
    /// several units define the name, that of the first.
    fn layout(&self, file: usize, type_name: &str) -> Option<Layout>;

    /// The units of a file's debug information that functions, by symbol and offset in the file, are defined in.
    fn units(&self, file: usize, functions: &[(&str, u64)]) -> Vec<Option<usize>>;

    /// The layout of a named type as one of these units has it.
    fn layout_in(&self, file: usize, unit: usize, type_name: &str) -> Option<Layout>;

    /// The constants of a named enumeration; of several names of one number the first.
    fn enumeration(&self, file: usize, name: &str) -> Option<BTreeMap<i64, String>>;

    /// The names in a table of a file, by number.
    ///
    /// # Errors
    /// Why there is none, in a few words.
    fn name_table(&self, file: usize, table: &NameTable) -> Result<BTreeMap<i64, String>, String>;

    /// Says which types and enumerations of a file will be asked for, so that one pass over its debug information
    /// answers them all. Only a matter of speed.
    fn prepare(&self, file: usize, types: &[&str], enums: &[&str]);

    /// Whether a type or enumeration of a file comes from a lock file only.
    fn is_locked(&self, file: usize, name: &str) -> bool;

    /// The choice stored in a lock file among the layouts that a probeset gives a view.
    fn chosen(&self, file: usize, view: &str) -> Option<ChosenLayout>;

    /// The slot stored in a lock file, of those that a probeset gives a method: `ns::Base[3|4]`.
    fn chosen_slot(&self, file: usize, open: &str) -> Option<u32>;
}

/// The bytes of a target's files.
pub trait TargetBytes: TargetFiles {
    /// Whether a read-only mapped part of a file contains these bytes.
    fn has_bytes(&self, file: usize, bytes: &[u8]) -> bool;

    /// Whether a text stands there, where it ends in a number: that number, not a longer one. `1.2` is not in `1.21`.
    fn has_text(&self, file: usize, text: &str) -> bool;

    /// Up to `len` bytes from the address that lies `distance` bytes from that of an instruction, which is at an offset of
    /// the file: what code refers to. As [`TargetBytes::code`] where addresses are as far apart as their bytes in the file.
    fn near(&self, file: usize, file_offset: u64, distance: i64, len: usize) -> Vec<u8>;

    /// The function, or the piece of one that lies apart from it, in which an instruction at an offset of the file is, by the
    /// unwind tables: bytes from the start of the file. `None` where they have none.
    fn unwind_range(&self, file: usize, file_offset: u64) -> Option<Range<u64>>;

    /// Up to `len` bytes of the file from an offset; fewer at its end, empty where it cannot be read.
    fn code(&self, file: usize, file_offset: u64, len: usize) -> Vec<u8>;
}

/// What can be asked of a target. Files are numbered as in [`TargetFiles::files`]. Nothing has an answer by default: a target
/// that is made of another would silently lose what it forgets to hand on.
pub trait Target: TargetSymbols + TargetTypes + TargetBytes {}

impl<T: TargetSymbols + TargetTypes + TargetBytes> Target for T {}

impl std::fmt::Display for Arch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        })
    }
}

impl std::fmt::Display for TargetType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Int { size, signed } => write!(f, "{}{}", if *signed { 'i' } else { 'u' }, size * 8),
            Self::Float { size } => write!(f, "f{}", size * 8),
            Self::Bool => f.write_str("bool"),
            Self::Pointer(None) => f.write_str("void*"),
            Self::Pointer(Some(to)) => write!(f, "{to}*"),
            Self::Array(of, Some(n)) => write!(f, "{of}[{n}]"),
            Self::Array(of, None) => write!(f, "{of}[]"),
            Self::Enum(name, _) => write!(f, "enum {name}"),
            Self::Bits { size, signed, bits, .. } => {
                write!(f, "{}{}:{bits}", if *signed { 'i' } else { 'u' }, size * 8)
            }
            Self::Struct(name, _) | Self::Other(name) => f.write_str(name),
        }
    }
}
