//! The keys of the language, as tables: the reader's keys, requirements and hints, and the schema for
//! editors, come from here. To add a key is to add a line.

use super::{limits, vocabulary};

/// The keys of one kind of map.
#[derive(Debug)]
pub(super) struct Keys {
    /// What the map is, as messages call it.
    pub(super) what: &'static str,
    /// The keys, in the order in which they are shown.
    pub(super) keys: &'static [Key],
}

/// One key.
#[derive(Debug)]
pub(super) struct Key {
    /// The key itself.
    pub(super) name: &'static str,
    /// Its description, in a sentence.
    pub(super) about: &'static str,
    /// What stands there.
    pub(super) form: Form,
    /// Whether it must be given.
    pub(super) need: Need,
    /// For sections: how many levels of maps are put together when several files have it; 0 where files do not share it.
    pub(super) merged: usize,
}

/// Whether a key must be given.
#[derive(Debug, Clone, Copy)]
pub(super) enum Need {
    /// It may be left out.
    Optional,
    /// It must be there; with what to write.
    Always(&'static str),
    /// The probeset must have it, files that are only included need not; with what to write.
    OfWhole(&'static str),
}

/// What stands at a key.
#[derive(Debug)]
pub(super) enum Form {
    /// The version of the language.
    Version,
    /// A text that is only shown.
    Prose,
    /// The path of a probeset.
    Path,
    /// A file-name glob.
    Glob,
    /// A name that is one of C's, and none of its words.
    Name,
    /// A name whose parts may be joined by `::`.
    Qualified,
    /// `true` or `false`.
    Flag,
    /// A number of bytes.
    Size,
    /// `TYPE` or `TYPE @ offset`.
    Member,
    /// An attach point.
    AttachPoint,
    /// An expression.
    Expression,
    /// `object NAME(EXPRESSION)`.
    Describes,
    /// An event in perf's syntax.
    Event,
    /// A text of the engine: an element type, a unit.
    Word,
    /// One of some words: each with what it means.
    OneOf(fn() -> Vec<(&'static str, &'static str)>),
    /// One, or a list of at most so many.
    Several(&'static Form, usize),
    /// A map with these keys.
    Map(&'static Keys),
    /// Either.
    Either(&'static Form, &'static Form),
    /// Names chosen by the author, each with a value.
    Table {
        /// What the names are.
        names: Names,
        /// How many there can be.
        most: usize,
        /// What each has.
        each: &'static Form,
    },
}

/// What the names in a table are.
#[derive(Debug, Clone, Copy)]
pub(super) enum Names {
    /// Identifiers that are none of C's words.
    Identifier,
    /// Identifiers.
    Word,
    /// Identifiers joined by `::`.
    Qualified,
    /// Whole numbers, or one of these words.
    NumberOr(&'static [&'static str]),
    /// Words of the engine.
    Any,
}

impl Keys {
    /// The names of the keys.
    pub(super) fn names(&self) -> Vec<&'static str> {
        self.keys.iter().map(|key| key.name).collect()
    }

    /// One of the keys.
    pub(super) fn get(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

impl Key {
    const fn new(name: &'static str, form: Form, about: &'static str) -> Self {
        Self { name, about, form, need: Need::Optional, merged: 0 }
    }

    /// It is required; `hint` is the remedy.
    const fn required(self, hint: &'static str) -> Self {
        Self { need: Need::Always(hint), ..self }
    }

    /// A probeset must have it, not each of its files.
    const fn of_whole(self, hint: &'static str) -> Self {
        Self { need: Need::OfWhole(hint), ..self }
    }

    /// A section that several files may have.
    const fn merged(self, levels: usize) -> Self {
        Self { merged: levels, ..self }
    }

    /// What to write where it is missing.
    pub(super) fn hint(&self) -> String {
        match (self.need, &self.form) {
            (_, Form::OneOf(words)) => {
                let words: Vec<&str> = words().into_iter().map(|(word, _)| word).collect();
                format!("write `{}:` and one of {}", self.name, super::problems::list(&words))
            }
            (Need::Always(hint) | Need::OfWhole(hint), _) => hint.to_owned(),
            (Need::Optional, _) => String::new(),
        }
    }
}

const fn table(names: Names, each: &'static Form) -> Form {
    Form::Table { names, most: limits::ENTRIES, each }
}

/// A file.
pub(super) static FILE: Keys = Keys {
    what: "a probeset",
    keys: &[
        Key::new("profinfer", Form::Version, "The version of the language: 1.")
            .required("write `profinfer: 1`, the version of the language, on the first line"),
        Key::new("engine", Form::Prose, "The engine's name, as reports show it.")
            .of_whole("write `engine: NAME`, for reports"),
        Key::new("summary", Form::Prose, "One sentence."),
        Key::new(
            "include",
            Form::Several(&Form::Path, limits::FILES),
            "Files whose sections are merged: paths relative to this file, or names of shipped probesets.",
        ),
        Key::new(
            "tested",
            Form::Several(&Form::Prose, limits::TESTED),
            "The builds of the engine that it was tested on.",
        ),
        Key::new(
            "modules",
            table(
                Names::Identifier,
                &Form::Either(&Form::Several(&Form::Glob, limits::ALTERNATIVES), &Form::Map(&MODULE)),
            ),
            "The mapped files: file-name globs in order of preference.",
        )
        .merged(1),
        Key::new(
            "types",
            table(
                Names::Qualified,
                &table(
                    Names::Identifier,
                    // `layouts`, `expect` and `let` among the members belong to the view.
                    &Form::Either(
                        &Form::Either(&Form::Member, &Form::Several(&Form::Map(&LAYOUT), limits::ALTERNATIVES)),
                        &table(
                            Names::Identifier,
                            &Form::Either(&Form::Several(&Form::Word, limits::ALTERNATIVES), &Form::Expression),
                        ),
                    ),
                ),
            ),
            "Views: the members of the engine's structs that are read, with their expected types.",
        )
        .merged(3),
        Key::new(
            "enums",
            table(
                Names::Qualified,
                &Form::Several(
                    &Form::Table {
                        names: Names::NumberOr(&super::vocabulary::OF_ENUMERATIONS),
                        most: limits::CONSTANTS,
                        // `when` and `unless` among the numbers say which builds have these constants.
                        each: &Form::Either(
                            &Form::Name,
                            &Form::Either(&Form::Map(&WHEN), &Form::Several(&Form::Map(&TABLE), limits::ALTERNATIVES)),
                        ),
                    },
                    limits::ALTERNATIVES,
                ),
            ),
            "Constants, for binaries whose debug information has none; `when` and `unless` are conditions on the builds.",
        )
        .merged(2),
        Key::new("objects", table(Names::Identifier, &Form::Map(&OBJECT)), "Objects with an identity, described once.")
            .merged(1),
        Key::new("counters", table(Names::Identifier, &Form::Event), "Counters by name, in perf's event syntax.")
            .merged(1),
        Key::new("probes", table(Names::Word, &Form::Map(&PROBE)), "Attach points and the fields to record.")
            .of_whole("write a `probes:` section; a file without one can only be included")
            .merged(1),
        Key::new(
            "gpu_timing",
            Form::Map(&GPU_TIMING),
            "Environment variables that `record --gpu-timing` sets for a launched command.",
        )
        .merged(2),
        Key::new("analysis", Form::Map(&ANALYSIS), "Values that reports compute from decoded fields.").merged(2),
    ],
};

/// An entry of `modules`, where it is a map.
pub(super) static MODULE: Keys = Keys {
    what: "a module",
    keys: &[
        Key::new("files", Form::Several(&Form::Glob, limits::ALTERNATIVES), "File-name globs in order of preference.")
            .required("write `files:` with the names of the files"),
        Key::new("strings", Form::OneOf(string_words), "The string layout of its C++ library."),
    ],
};

/// One of the `layouts` of a view.
pub(super) static LAYOUT: Keys = Keys {
    what: "a layout",
    keys: &[
        Key::new("when", Form::Map(&WHEN), "Conditions on the file; all must hold."),
        Key::new("unless", Form::Map(&WHEN), "Conditions on the file; if all hold, the layout does not apply."),
        Key::new("size", Form::Size, "The view's size in bytes."),
        Key::new("at", table(Names::Identifier, &Form::Size), "Offsets of the members in bytes.")
            .required("write `at: { MEMBER: OFFSET }`"),
    ],
};

/// `when` and `unless` of a layout, and of an enumeration.
pub(super) static WHEN: Keys = Keys {
    what: "a check",
    keys: &[
        Key::new(
            "file",
            Form::Several(&Form::Glob, limits::ALTERNATIVES),
            "The file's name: a glob or a list of globs.",
        ),
        Key::new("build_id", Form::Several(&Form::Word, limits::ALTERNATIVES), "A prefix of the file's build-id."),
        Key::new(
            "bytes",
            Form::Several(&Form::Word, limits::ALTERNATIVES),
            "A text in the file's read-only mapped data, such as a version.",
        ),
        Key::new(
            "hex",
            Form::Several(&Form::Word, limits::ALTERNATIVES),
            "Bytes in the file's read-only mapped data or code, in hexadecimal digits.",
        ),
        Key::new(
            "class",
            Form::Several(&Form::Qualified, limits::ALTERNATIVES),
            "A class with run-time type information in the file.",
        ),
        Key::new("function", Form::Several(&Form::Word, limits::ALTERNATIVES), "A function of the file: a glob."),
    ],
};

/// `table` of an enumeration.
pub(super) static TABLE: Keys = Keys {
    what: "a table",
    keys: &[
        Key::new("symbol", Form::Word, "The table's symbol."),
        Key::new(
            "begins",
            Form::Several(&Form::Word, limits::ALTERNATIVES),
            "Its first names, to find it without symbols.",
        ),
        Key::new("stride", Form::Size, "Bytes from one name to the next, if the entries are structs."),
        Key::new(
            "gaps",
            Form::Flag,
            "Whether numbers without a name have a null pointer, which otherwise ends the table.",
        ),
    ],
};

/// The layouts of strings; each is named for its library.
fn string_words() -> Vec<(&'static str, &'static str)> {
    profinfer_schema::bpf::StringLayout::NAMES.iter().map(|(name, _)| (*name, "")).collect()
}

/// The key for names of parts of expressions.
pub(super) const LET: &str = "let";

/// What stands there.
const fn local_names() -> Key {
    Key::new(
        LET,
        table(Names::Identifier, &Form::Expression),
        "Names for parts of the expressions here; each can use those above it.",
    )
}

/// An entry of `objects`.
pub(super) static OBJECT: Keys = Keys {
    what: "an object",
    keys: &[
        Key::new("of", Form::Qualified, "The view of the object.")
            .required("write `of: VIEW`, the type whose members the fields use"),
        Key::new(
            "fields",
            table(Names::Identifier, &Form::Expression),
            "The fields to read; names in the expressions are members of the view.",
        )
        .required("write the fields to read"),
    ],
};

/// An entry of `probes`.
pub(super) static PROBE: Keys = Keys {
    what: "a probe",
    keys: &[
        Key::new(
            "at",
            Form::Several(&Form::AttachPoint, limits::ALTERNATIVES),
            "Where it is: an attach point, or alternatives in order of preference, of which the first that the target \
             has is taken.",
        )
        .required("write `at: MODULE:FUNCTION(TYPE NAME, …)`"),
        Key::new("role", Form::OneOf(vocabulary::role_words), "The meaning of its events.").required(""),
        local_names(),
        Key::new(
            "fields",
            table(Names::Identifier, &Form::Expression),
            "The fields to record: expressions over arguments, `return`, `tid`, `cpu` and `match[n]`.",
        ),
        Key::new("when", Form::Expression, "If it is zero, the event is not recorded."),
        Key::new("describe", Form::Expression, "If it is zero, objects in the fields are not described."),
        Key::new(
            "identity",
            Form::Expression,
            "Only for role `graph`: two graphs of the same identity, 0 apart, have the same objects.",
        ),
        Key::new("describes", Form::Describes, "An object that this probe describes further."),
        Key::new(
            "counters",
            Form::Several(&Form::Name, limits::ALTERNATIVES),
            "Names of counters whose difference over the span is recorded.",
        ),
        Key::new(
            "except",
            Form::Several(&Form::Name, limits::ALTERNATIVES),
            "Names of probes: functions that one of them is at are left out.",
        ),
        Key::new(
            "unless",
            Form::Several(&Form::Name, limits::ALTERNATIVES),
            "Names of probes: files in which one of them has a site are left out.",
        ),
        Key::new(
            "enclosing",
            Form::Name,
            "The name of a probe that spans its call: its arguments can be read in calls within it on the same thread.",
        ),
        Key::new("optional", Form::Flag, "The probe may have no site."),
        Key::new(
            "nested",
            Form::OneOf(vocabulary::nested_words),
            "Whether calls inside a call of the same probe are recorded.",
        ),
    ],
};

/// The section `gpu_timing`.
pub(super) static GPU_TIMING: Keys = Keys {
    what: "`gpu_timing`",
    keys: &[
        Key::new("timestamps", table(Names::Word, &Form::Word), "So that the device measures each operator."),
        Key::new("serialize", table(Names::Word, &Form::Word), "So that operators run one after the other."),
    ],
};

/// The section `analysis`.
pub(super) static ANALYSIS: Keys = Keys {
    what: "`analysis`",
    keys: &[
        local_names(),
        Key::new("layer", Form::Expression, "The layer of the model that an operator belongs to, from its fields."),
        Key::new("prefill", Form::Expression, "Whether a step is a prefill, from its fields."),
        Key::new(
            "experts",
            Form::Expression,
            "Number of experts in an object's data, from its fields; 0 for most objects.",
        ),
        Key::new("dtypes", table(Names::Any, &Form::Expression), "Bytes of one element, by element type."),
        Key::new("costs", table(Names::Any, &Form::Map(&COST)), "The cost of an operator, by its type."),
        Key::new(
            "context",
            table(Names::Any, &Form::Expression),
            "Tokens that an operator attends to, including its own, by operator type.",
        ),
        Key::new(
            "metrics",
            table(Names::Word, &Form::Either(&Form::Expression, &Form::Map(&METRIC))),
            "Values that reports compute from counters, times and costs.",
        ),
        Key::new("weights", Form::Map(&WEIGHTS), "Which of an operator's inputs are the model's weights."),
        Key::new("advice", table(Names::Word, &Form::Map(&ADVICE)), "Advice to users of the engine."),
        Key::new("functions", Form::Map(&FUNCTIONS), "What the engine's functions do, for timer samples."),
    ],
};

/// An entry of `costs`.
pub(super) static COST: Keys = Keys {
    what: "a cost",
    keys: &[
        Key::new("flops", Form::Expression, "Floating-point operations."),
        Key::new("bytes", Form::Expression, "The minimum of bytes to read and write."),
        Key::new(
            "experts",
            Form::Expression,
            "Maximum number of experts used, for operators without a record of them.",
        ),
    ],
};

/// An entry of `metrics`, where it is a map.
pub(super) static METRIC: Keys = Keys {
    what: "a metric",
    keys: &[
        Key::new("value", Form::Expression, "An expression over counters, times and costs.")
            .required("write `value: EXPRESSION`, such as `value: instructions / cycles`"),
        Key::new("unit", Form::Word, "Its unit: s, B, FLOP, 1, %, names of counters, products, quotients."),
    ],
};

/// `weights`.
pub(super) static WEIGHTS: Keys = Keys {
    what: "`weights`",
    keys: &[
        Key::new("of", Form::Expression, "Whether an object is a weight, from its fields.")
            .required("write `of: EXPRESSION` over an object's fields, such as `of: name ~ \"weight$\"`"),
        Key::new(
            "types",
            Form::Several(&Form::Word, limits::ADVICE_TYPES),
            "Element types of `dtypes` for weights, the largest first.",
        ),
    ],
};

/// `functions`. The names are those of [`FunctionClass`](super::model::FunctionClass).
pub(super) static FUNCTIONS: Keys = Keys {
    what: "`functions`",
    keys: &[
        Key::new("wait", Form::Expression, "Whether a function waits for other threads, from `name` and `module`."),
        Key::new("copy", Form::Expression, "Whether it copies or fills memory."),
        Key::new("dequantise", Form::Expression, "Whether it converts quantised numbers."),
        Key::new("multiply", Form::Expression, "Whether it multiplies."),
    ],
};

/// An entry of `advice`.
pub(super) static ADVICE: Keys = Keys {
    what: "an advice",
    keys: &[
        Key::new("when", Form::Expression, "Whether it applies, from the values of a phase.")
            .required("write `when: EXPRESSION`, such as `when: phase == \"prefill\" && bound == \"compute\"`"),
        Key::new("say", Form::Prose, "What to do: one sentence without a full stop.").required("write `say: SENTENCE`"),
    ],
};
