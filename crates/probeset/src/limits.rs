//! How much of an untrusted probeset is taken in. Each bound is far above what an engine needs and low enough that a
//! hostile file costs milliseconds and megabytes.

/// Bytes of one file.
pub(super) const FILE_BYTES: u64 = 1 << 20;
/// Files of one probeset.
pub(super) const FILES: usize = 32;
/// Includes inside includes.
pub(super) const INCLUDE_DEPTH: usize = 8;
/// YAML values and keys of one file.
pub(super) const NODES: usize = 100_000;
/// Nested block collections, and nested flow collections, of one file.
pub(super) const NESTING: usize = 16;
/// Problems shown of one probeset.
pub(super) const PROBLEMS: usize = 100;
/// Bytes of a name.
pub(super) const NAME_BYTES: usize = 128;
/// Bytes of an include's path.
pub(super) const PATH_BYTES: usize = 1024;
/// Bytes of a text that is only shown.
pub(super) const SUMMARY_BYTES: usize = 1024;
/// Bytes of a module's glob.
pub(super) const GLOB_BYTES: usize = 128;
/// `*`, `?` and `{}` of one glob.
pub(super) const WILDCARDS: usize = 8;
/// Wildcards of a function's name, those in braces included.
pub(super) const WILDCARDS_IN_ALL: usize = 64;
/// Bytes of a regular expression, and of its compiled form.
pub(super) const REGEX_BYTES: usize = 1024;
/// Bytes of a compiled regular expression.
pub(super) const REGEX_COMPILED_BYTES: usize = 1 << 18;
/// Regular expressions of all expressions, those that names of `let` stand for included: each is compiled.
pub(super) const REGEXES: usize = 512;
/// Bytes of all patterns of functions' names.
pub(super) const FUNCTION_PATTERN_BYTES: usize = 1 << 18;
/// Entries of a section (probes, views, members of a view…).
pub(super) const ENTRIES: usize = 1024;
/// Names of one `let`.
pub(super) const LOCAL_NAMES: usize = 64;
/// Parts of an expression, with names of `let` replaced. One without has no more: its text is bounded.
pub(super) const EXPRESSION_PARTS: usize = 2048;
/// Parts of all expressions, with names of `let` replaced.
pub(super) const EXPRESSION_PARTS_IN_ALL: usize = 1 << 19;
/// Constants of an enumeration.
pub(super) const CONSTANTS: usize = 16_384;
/// Alternatives of an attach point, and probes of an `until`.
pub(super) const ALTERNATIVES: usize = 16;
/// Bytes of a view, and of an offset into it or into a function.
pub(super) const VIEW_BYTES: i64 = 1 << 20;
/// Bytes of a view in which members are searched for.
pub(super) const WITHIN: i64 = 1024;
/// Elements of an array.
pub(super) const ELEMENTS: i64 = 65_536;
/// Bytes of a text or a dump: `char[n]`, `cstr(n)`, `hex(n)`.
pub(super) const CHARS: i64 = 4096;
/// Alternatives of a `std::variant`: the number of each fits in a byte, beside one for none.
pub(super) const ALTERNATIVES_OF: i64 = 255;
/// Slots of a virtual table.
pub(super) const SLOTS: i64 = 4096;
/// Slots of which one is to be found: each is a program.
pub(super) const CANDIDATES: i64 = 8;

/// Builds in a probeset's `tested`.
pub(super) const TESTED: usize = 64;
/// Types of weights that one advice names.
pub(super) const ADVICE_TYPES: usize = 64;
