//! What a probeset consists of. A [`Probeset`] has no dangling name: whatever it refers to is defined in it.

use crate::diag::{Source, Span, Spanned};
use crate::path::{AttachPoint, Expr, Type};
use indexmap::IndexMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A whole probeset, includes merged, names resolved: every name used in it is defined in it.
#[derive(Debug, Clone)]
pub struct Probeset {
    /// The file's name without folder and extension, such as `toy`.
    pub name: String,
    /// The engine it is for, such as `Toy 2`; shown to people only.
    pub engine: Spanned<String>,
    /// One sentence.
    pub summary: String,
    /// Mapped files by the name that attach points use.
    pub modules: IndexMap<String, Module>,
    /// Views of the engine's types.
    pub types: IndexMap<String, View>,
    /// Enumerations for binaries whose debug information has none.
    pub enums: IndexMap<String, Enumeration>,
    /// Things with an identity.
    pub objects: IndexMap<String, Object>,
    /// Counters by name, in perf's event syntax.
    pub counters: IndexMap<String, Spanned<String>>,
    /// Probes in the order of the file.
    pub probes: IndexMap<String, Probe>,
    /// What the analysis is told.
    pub analysis: Analysis,
    /// Every file that was read, the probeset first: a trace carries them all.
    pub sources: Vec<Arc<Source>>,
    /// The probesets that it was combined of; empty for one by itself.
    pub parts: Vec<Part>,
    /// The builds of the engine that it was tested on, for people.
    pub tested: Vec<String>,
}

/// One of several probesets that are recorded together; see [`combine()`](crate::spec::combine()).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// What its names begin with, before [`Self::BETWEEN`].
    pub key: String,
    /// The probeset's name.
    pub probeset: String,
    /// The engine it is for.
    pub engine: String,
    /// Its main file, among the sources.
    pub file: String,
    /// The recording is told where the target does not have it.
    pub required: bool,
}

impl Part {
    /// Between a part's key and a name of it.
    pub const BETWEEN: &'static str = "__";

    /// The name by itself, where it is one of this part's.
    pub fn own<'n>(&self, name: &'n str) -> Option<&'n str> {
        name.strip_prefix(&self.key)?.strip_prefix(Self::BETWEEN)
    }
}

/// A mapped file, or several.
#[derive(Debug, Clone)]
pub struct Module {
    /// File-name globs in order of preference; every mapped file that matches the first fruitful one is the module.
    pub globs: Vec<Spanned<String>>,
    /// How its C++ library lays out strings, where the spec says so.
    pub strings: Option<StringLayout>,
}

/// How a C++ library lays out `std::string`; the numbers are those of `bpf-runtime/library.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StringLayout {
    /// libstdc++ since GCC 5: pointer, length, and room for 15 bytes.
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
}

/// The members of a struct or class that the probeset reads.
#[derive(Debug, Clone)]
pub struct View {
    /// Where its name stands.
    pub name: Spanned<String>,
    /// The whole size in bytes, where the spec gives it.
    pub size: Option<u64>,
    /// The members by name.
    pub members: IndexMap<String, Member>,
    /// What it may be laid out like where there is no debug information; the checks say on which target.
    pub layouts: Vec<GivenLayout>,
}

/// What a build is known by: a file of which all of `when` and nothing of `unless` is true.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownBy {
    /// What must be so.
    pub when: Vec<Check>,
    /// What must not be so.
    pub unless: Vec<Check>,
}

impl KnownBy {
    /// Whether nothing is asked: any build will do.
    pub fn is_empty(&self) -> bool {
        self.when.is_empty() && self.unless.is_empty()
    }
}

/// The constants of an enumeration, and the builds that have them.
#[derive(Debug, Clone)]
pub struct Enumeration {
    /// Where its name stands.
    pub span: Span,
    /// Names by value.
    pub constants: BTreeMap<i64, String>,
    /// The builds of which they are so.
    pub known_by: KnownBy,
}

/// One of several layouts of a view.
#[derive(Debug, Clone)]
pub struct GivenLayout {
    /// Where it stands.
    pub span: Span,
    /// The builds that have it.
    pub known_by: KnownBy,
    /// The whole size in bytes.
    pub size: Option<u64>,
    /// Bytes from the start of the struct, by member.
    pub at: IndexMap<String, u64>,
}

/// Something that a file has or has not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What is looked at.
    pub fact: Fact,
    /// It is one of these.
    pub any: Vec<String>,
}

/// What a check looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    /// The file's name, by globs.
    File,
    /// How its build-id begins.
    BuildId,
    /// Texts that stand in what is mapped of it to be read only.
    Bytes,
    /// The same for any bytes, by their hexadecimal digits.
    Hex,
    /// Classes with run-time type information.
    Class,
    /// Functions, by globs.
    Function,
}

impl Fact {
    /// As a probeset writes them.
    pub const NAMES: [(&'static str, Self); 6] = [
        ("file", Self::File),
        ("build_id", Self::BuildId),
        ("bytes", Self::Bytes),
        ("hex", Self::Hex),
        ("class", Self::Class),
        ("function", Self::Function),
    ];
}

impl std::fmt::Display for KnownBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [("when", &self.when), ("unless", &self.unless)];
        let checks = parts.iter().flat_map(|(word, checks)| checks.iter().map(move |check| (word, check)));
        let said: Vec<String> = checks
            .map(|(word, Check { fact, any })| {
                let name = Fact::NAMES.iter().find(|(_, of)| of == fact).map_or("", |(name, _)| name);
                format!("{word} {name} {}", any.join(" or "))
            })
            .collect();
        f.write_str(&said.join(", "))
    }
}

/// One member of a view.
#[derive(Debug, Clone)]
pub struct Member {
    /// Where its name stands.
    pub name: Spanned<String>,
    /// The type the spec expects.
    pub ty: Spanned<Type>,
    /// `@ offset`: bytes from the start of the struct, used where there is no debug information.
    pub offset: Option<u64>,
    /// `@ offset:bit` of a member of some bits: the lowest of them in the integer at the offset.
    pub bit: Option<u32>,
}

/// A thing with an identity: described once, referred to by its address afterwards.
#[derive(Debug, Clone)]
pub struct Object {
    /// Where its name stands.
    pub name: Spanned<String>,
    /// The view it is.
    pub of: Spanned<String>,
    /// What is read of it. Names in the expressions are members of the view.
    pub fields: IndexMap<String, Field>,
}

/// A named value.
#[derive(Debug, Clone)]
pub struct Field {
    /// Where its name stands.
    pub name: Spanned<String>,
    /// How it is read.
    pub value: Expr,
    /// It is read when the call returns, though nothing in it is known only then.
    pub at_return: bool,
}

/// What the analysis takes an event for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// One decode or prefill call.
    Step,
    /// One computation of a graph on one backend.
    Graph,
    /// One operator (on one thread: a lane).
    Operator,
    /// The ids of the experts that an operator used.
    Experts,
    /// Any other span: a barrier, a copy, a load.
    Region,
    /// A thread left a processor for another.
    SchedSwitch,
    /// A thread became runnable.
    SchedWakeup,
    /// An instant.
    Mark,
    /// A thread went on after a page of its memory had to be fetched.
    Fault,
    /// A part of a file was put into the page cache.
    PageCache,
    /// Where spans of other probes end, or their waiting begins; nothing is recorded.
    Boundary,
}

impl Role {
    /// Whether its events are the kernel's: they happen where the role says, and have fields of their own.
    pub fn is_of_the_kernel(self) -> bool {
        matches!(self, Self::SchedSwitch | Self::SchedWakeup | Self::Fault | Self::PageCache)
    }
}

/// How calls of a probe inside a call of the same probe on the same thread are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Nested {
    /// Only the outermost is recorded.
    #[default]
    Outermost,
    /// Each is.
    All,
}

/// The field of a record that holds the address of the object that the others describe.
pub const DESCRIBED: &str = "described";

/// The object that a probe's fields are known of.
#[derive(Debug, Clone)]
pub struct Describes {
    /// The object's name.
    pub object: Spanned<String>,
    /// Its address.
    pub address: Expr,
}

/// One probe.
#[derive(Debug, Clone)]
pub struct Probe {
    /// Where its name stands.
    pub name: Spanned<String>,
    /// Alternatives in order of preference, at least one.
    pub at: Vec<AttachPoint>,
    /// What its events are.
    pub role: Spanned<Role>,
    /// What is recorded with each event.
    pub fields: IndexMap<String, Field>,
    /// Events for which this is zero are not recorded.
    pub when: Option<Expr>,
    /// Who looks whether the objects in the fields must be described (again); always, where left out.
    pub describe: Option<Expr>,
    /// What its fields are known of: an object, described so until it is described anew.
    pub describes: Option<Describes>,
    /// Of role `graph`: what two graphs have in common whose objects are the same; 0 where that is not known.
    pub identity: Option<Expr>,
    /// Counters whose difference over the span is recorded.
    pub counters: Vec<Spanned<String>>,
    /// The probe may be without a site.
    pub optional: bool,
    /// Nested calls.
    pub nested: Nested,
}

/// What the analysis is told about an engine, over decoded fields.
#[derive(Debug, Clone, Default)]
pub struct Analysis {
    /// The model layer an operator belongs to, from its object's fields.
    pub layer: Option<Expr>,
    /// Whether a step is a prefill, from its fields (`tokens`).
    pub prefill: Option<Expr>,
    /// How many experts an object's data holds, one after the other, from its fields; 0 for most objects.
    pub experts: Option<Expr>,
    /// Bytes of one element by dtype name.
    pub dtypes: IndexMap<String, Expr>,
    /// Work by operator type.
    pub costs: IndexMap<String, Cost>,
    /// Tokens that an operator attends to, its own included, by operator type; 0 for an operator that attends to none.
    pub context: IndexMap<String, Expr>,
    /// What is worked out of counters, times and costs, by name.
    pub metrics: IndexMap<String, Metric>,
    /// What of an operator's inputs is the model's weights.
    pub weights: Option<Weights>,
    /// What this engine's users can do about what limits it, by name.
    pub advice: IndexMap<String, Advice>,
}

/// The model's weights.
#[derive(Debug, Clone)]
pub struct Weights {
    /// Whether an object is a weight, from its fields.
    pub of: Expr,
    /// The element types that weights can be kept in, the largest first; each has a size in `dtypes`.
    pub types: Vec<String>,
}

/// What can be done about a limit.
#[derive(Debug, Clone)]
pub struct Advice {
    /// Whether it applies: over what is known of a phase.
    pub when: Expr,
    /// What to do, in a sentence.
    pub say: String,
}

/// A number that is worked out of others.
#[derive(Debug, Clone)]
pub struct Metric {
    /// Where its name stands.
    pub name: Spanned<String>,
    /// How it is worked out; its numbers have fractions.
    pub value: Expr,
    /// What it comes out in, such as `B/s`; empty for a plain number, `%` for a share.
    pub unit: String,
}

/// What one operator of a type costs.
#[derive(Debug, Clone)]
pub struct Cost {
    /// Floating-point operations.
    pub flops: Option<Expr>,
    /// Bytes moved.
    pub bytes: Option<Expr>,
    /// How many experts it uses at most: what `experts` is in the others where no record says which were used.
    pub experts: Option<Expr>,
}
