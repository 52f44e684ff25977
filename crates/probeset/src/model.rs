//! What a probeset consists of. A [`Probeset`] has no dangling name: whatever it refers to is defined in it.

use crate::path::{AttachPoint, Expr, NamePattern, Type};
use indexmap::IndexMap;
use profinfer_diagnostics::{Source, Span, Spanned};
use profinfer_schema::{EngineId, Names, Role};
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
    /// Which part names belong to; empty for one by itself.
    pub names: Names,
    /// The builds of the engine that it was tested on, for people.
    pub tested: Vec<String>,
    /// Environment variables by the way of timing a GPU, for launched commands.
    pub gpu_timing: IndexMap<String, Vec<(String, String)>>,
}

impl Probeset {
    /// The probesets that it was combined of.
    pub fn engines(&self) -> impl Iterator<Item = (EngineId, &Part)> {
        (0..=u16::MAX).map(EngineId).zip(&self.parts)
    }
}

/// One of several probesets that are recorded together; see [`combine()`](crate::combine()).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// What it is selected by: an identifier.
    pub key: String,
    /// The probeset's name.
    pub probeset: String,
    /// The engine it is for.
    pub engine: String,
    /// Its main file, among the sources.
    pub file: String,
    /// A missing engine is reported.
    pub required: bool,
}

/// A mapped file, or several.
#[derive(Debug, Clone)]
pub struct Module {
    /// File-name globs in order of preference; every mapped file that matches the first fruitful one is the module.
    pub globs: Vec<Spanned<String>>,
    /// The string layout of its C++ library, if the probeset has it.
    pub strings: Option<profinfer_schema::bpf::StringLayout>,
    /// The only file that it can be. No key of the YAML: programs set it that write probesets for one file.
    pub exact: Option<ExactFile>,
}

/// What a file is recognised by, wherever it lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExactFile {
    /// Its name without folder.
    pub name: String,
    /// Its build-id, if it has one.
    pub build_id: Option<String>,
    /// Bytes.
    pub size: u64,
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
    /// What must be true of members whose offsets are not from debug information.
    pub expect: IndexMap<String, Vec<Expectation>>,
    /// Bytes in which members without a source are searched for.
    pub within: Option<u64>,
    /// For a class that holds elements: a slice over its members.
    pub elements: Option<Expr>,
    /// What else expressions find in it: expressions over its members, by name.
    pub computed: IndexMap<String, Expr>,
}

/// What must be true of a member.
pub type Expectation = Spanned<Expected>;

/// A condition on each value of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// It is a text that is not empty and prints.
    Text,
    /// Each element is at least 1, and no more than a dimension can be.
    Positive,
    /// It is one of the enumeration's constants.
    Constant,
    /// Each element is null, or an address that a pointer can have.
    Object,
    /// The first element is not null where another is not.
    First,
    /// It is another one for each object. Only for learning.
    Distinct,
    /// Most texts are part of what this wildcard of the function's name stands for. Only for learning.
    InMatch(u32),
    /// Each element is within these bounds.
    Range(i64, i64),
}

/// A function of the engine from whose code a member's offset is read.
#[derive(Debug, Clone, PartialEq)]
pub struct Accessor {
    /// Where it is written.
    pub span: Span,
    /// The function.
    pub function: NamePattern,
    /// Which of its arguments the view is, from 0.
    pub argument: usize,
    /// The view and member that its argument is reached through, where it is not called with this view itself.
    pub through: Option<(String, String)>,
    /// The member is what the function reads first, not what it returns.
    pub first_load: bool,
}

/// An offset by its distance from another member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beside {
    /// The other member, of the same view.
    pub member: String,
    /// Bytes from there.
    pub distance: i64,
}

/// An array of the engine's that has a name for each number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NameTable {
    /// Its symbol.
    pub symbol: Option<String>,
    /// Its first names, by which it is found in a stripped file.
    pub begins: Vec<String>,
    /// Bytes from one name to the next, where they are members of structs; found, if it is left out.
    pub stride: Option<u64>,
    /// Numbers without a name have a null pointer; otherwise such a one ends the table.
    pub gaps: bool,
}

/// The conditions of a layout: it applies if every `when` condition holds and no `unless` condition does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LayoutConditions {
    /// What must be so.
    pub when: Vec<Check>,
    /// What must not be so.
    pub unless: Vec<Check>,
}

impl LayoutConditions {
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
    /// The builds that they apply to.
    pub conditions: LayoutConditions,
    /// The engine's own tables of their names, by the number of the first: of several the first that is there.
    pub tables: BTreeMap<i64, Vec<NameTable>>,
    /// Those of builds that these do not apply to, in order.
    pub otherwise: Vec<Enumeration>,
}

/// One of several layouts of a view.
#[derive(Debug, Clone)]
pub struct GivenLayout {
    /// Where it stands.
    pub span: Span,
    /// The builds that have it.
    pub conditions: LayoutConditions,
    /// The whole size in bytes.
    pub size: Option<u64>,
    /// Bytes from the start of the struct, by member.
    pub at: IndexMap<String, u64>,
}

/// Something that a file has or has not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The property that is checked.
    pub fact: Fact,
    /// It is one of these.
    pub any: Vec<String>,
}

/// The property that a condition checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    /// The file's name, by globs.
    File,
    /// How its build-id begins.
    BuildId,
    /// Texts in its read-only mapped part.
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

impl std::fmt::Display for LayoutConditions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [("when", &self.when), ("unless", &self.unless)];
        let checks = parts.iter().flat_map(|(word, checks)| checks.iter().map(move |check| (word, check)));
        let conditions: Vec<String> = checks
            .map(|(word, Check { fact, any })| {
                let name = Fact::NAMES.iter().find(|(_, of)| of == fact).map_or("", |(name, _)| name);
                format!("{word} {name} {}", any.join(" or "))
            })
            .collect();
        f.write_str(&conditions.join(", "))
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
    /// `from FUNCTION(self)`: code of the engine that has its offset.
    pub from: Option<Accessor>,
    /// `@ MEMBER + N`: it lies beside another member.
    pub beside: Option<Beside>,
}

/// A thing with an identity: described once, referred to by its address afterwards.
#[derive(Debug, Clone)]
pub struct Object {
    /// Where its name stands.
    pub name: Spanned<String>,
    /// The view it is.
    pub of: Spanned<String>,
    /// The fields that are read. Names in the expressions are members of the view.
    pub fields: IndexMap<String, Field>,
}

/// A named value.
#[derive(Debug, Clone)]
pub struct Field {
    /// Where its name stands.
    pub name: Spanned<String>,
    /// How it is read.
    pub value: Expr,
    /// It is read when the call returns, although it does not depend on the result.
    pub at_return: bool,
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

/// The object that a probe's fields describe.
#[derive(Debug, Clone)]
pub struct Describes {
    /// The object's name.
    pub object: Spanned<String>,
    /// Its address.
    pub address: Expr,
    /// It is read when the function returns, as is what the function returns.
    pub at_return: bool,
}

/// One probe.
#[derive(Debug, Clone)]
pub struct Probe {
    /// Where its name stands.
    pub name: Spanned<String>,
    /// Alternatives in order of preference, at least one.
    pub at: Vec<AttachPoint>,
    /// The meaning of its events.
    pub role: Spanned<Role>,
    /// What is recorded with each event.
    pub fields: IndexMap<String, Field>,
    /// Events for which this is zero are not recorded.
    pub when: Option<Expr>,
    /// Whether objects in the fields are checked and described again; always, if left out.
    pub describe: Option<Expr>,
    /// The object that its fields describe, until it is described anew.
    pub describes: Option<Describes>,
    /// Of role `graph`: what two graphs have in common whose objects are the same; 0 if unknown.
    pub identity: Option<Expr>,
    /// Counters whose difference over the span is recorded.
    pub counters: Vec<Spanned<String>>,
    /// Probes at whose functions it is not.
    pub except: Vec<Spanned<String>>,
    /// Probes in whose files it is not.
    pub unless: Vec<Spanned<String>>,
    /// The probe within whose calls it is hit, and whose arguments it reads.
    pub enclosing: Option<Spanned<String>>,
    /// The probe may have no site.
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
    /// Number of experts in an object's data, from its fields; 0 for most objects.
    pub experts: Option<Expr>,
    /// Bytes of one element by dtype name.
    pub dtypes: IndexMap<String, Expr>,
    /// Work by operator type.
    pub costs: IndexMap<String, Cost>,
    /// Tokens that an operator attends to, its own included, by operator type; 0 for an operator that attends to none.
    pub context: IndexMap<String, Expr>,
    /// Values computed from counters, times and costs, by name.
    pub metrics: IndexMap<String, Metric>,
    /// What of an operator's inputs is the model's weights.
    pub weights: Option<Weights>,
    /// What this engine's users can do about what limits it, by name.
    pub advice: IndexMap<String, Advice>,
    /// What functions do: conditions on a function, of which the first that holds counts.
    pub functions: Vec<(FunctionClass, Expr)>,
}

/// What a function does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FunctionClass {
    /// Wait for other threads.
    Wait,
    /// Copy or fill memory.
    Copy,
    /// Convert quantised numbers.
    Dequantise,
    /// Multiply.
    Multiply,
}

impl FunctionClass {
    /// Every one, in the order in which conditions are tried.
    pub const ALL: [Self; 4] = [Self::Wait, Self::Copy, Self::Dequantise, Self::Multiply];

    /// Its key.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Copy => "copy",
            Self::Dequantise => "dequantise",
            Self::Multiply => "multiply",
        }
    }
}

/// The model's weights.
#[derive(Debug, Clone)]
pub struct Weights {
    /// Whether an object is a weight, from its fields.
    pub of: Expr,
    /// The element types that weights can have, the largest first; each has a size in `dtypes`.
    pub types: Vec<String>,
}

/// What can be done about a limit.
#[derive(Debug, Clone)]
pub struct Advice {
    /// Whether it applies: over the values of a phase.
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
    /// How many experts it uses at most: what `experts` is in the others if no record has it.
    pub experts: Option<Expr>,
}
