//! The keys of the language, as tables: what the reader knows, requires and names in its hints, and what the schema for
//! editors says, come from here. To add a key is to add a line.

use super::{limits, probes, roles};

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
    /// What it says, in a sentence.
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
    /// A text of an engine's own: an element type, a unit.
    Word,
    /// One of some words: each with what it means.
    OneOf(fn() -> Vec<(&'static str, &'static str)>),
    /// One, or a list of at most so many.
    Several(&'static Form, usize),
    /// A map with these keys.
    Map(&'static Keys),
    /// Either.
    Either(&'static Form, &'static Form),
    /// Names of one's own, each with something.
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
    /// An engine's own words.
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

    /// It must be given; `hint` says what to write.
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
                format!("write `{}:` and one of {}", self.name, super::reader::list(&words))
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
            .required("write `profinfer: 1` on the first line: it is the version of the language"),
        Key::new("engine", Form::Prose, "The engine's name, as reports show it.")
            .of_whole("write `engine: NAME`: reports show it"),
        Key::new("summary", Form::Prose, "One sentence."),
        Key::new(
            "include",
            Form::Several(&Form::Path, limits::FILES),
            "Other files whose sections are taken in: paths relative to this file, or names of shipped probesets.",
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
            "Which mapped files there are: file-name globs in order of preference.",
        )
        .merged(1),
        Key::new(
            "types",
            table(
                Names::Qualified,
                &table(
                    Names::Identifier,
                    // `layouts` among the members is the view's own.
                    &Form::Either(&Form::Member, &Form::Several(&Form::Map(&LAYOUT), limits::ALTERNATIVES)),
                ),
            ),
            "Views: the members that are read of the engine's structs, with the types they are expected to have.",
        )
        .merged(2),
        Key::new(
            "enums",
            table(
                Names::Qualified,
                &Form::Table {
                    names: Names::NumberOr(&super::layouts::CHECKED),
                    most: limits::CONSTANTS,
                    // `when` and `unless` among the numbers say which builds have these constants.
                    each: &Form::Either(&Form::Name, &Form::Map(&WHEN)),
                },
            ),
            "Constants, for binaries whose debug information has none; and, by `when` and `unless`, what the builds are \
             known by that have them.",
        )
        .merged(2),
        Key::new("objects", table(Names::Identifier, &Form::Map(&OBJECT)), "Things with an identity, described once.")
            .merged(1),
        Key::new("counters", table(Names::Identifier, &Form::Event), "Counters by name, in perf's event syntax.")
            .merged(1),
        Key::new("probes", table(Names::Word, &Form::Map(&PROBE)), "Where to look, and what to record.")
            .of_whole("write a `probes:` section; a file without one can only be included")
            .merged(1),
        Key::new("analysis", Form::Map(&ANALYSIS), "What the reports should work out, over decoded fields.").merged(2),
    ],
};

/// An entry of `modules`, where it is a map.
pub(super) static MODULE: Keys = Keys {
    what: "a module",
    keys: &[
        Key::new("files", Form::Several(&Form::Glob, limits::ALTERNATIVES), "File-name globs in order of preference.")
            .required("write `files:` and the files' names"),
        Key::new("strings", Form::OneOf(string_words), "How its C++ library lays out strings."),
    ],
};

/// One of the `layouts` of a view.
pub(super) static LAYOUT: Keys = Keys {
    what: "a layout",
    keys: &[
        Key::new("when", Form::Map(&WHEN), "What must be so of the file."),
        Key::new("unless", Form::Map(&WHEN), "What must not be so of the file."),
        Key::new("size", Form::Size, "The view's size in bytes."),
        Key::new("at", table(Names::Identifier, &Form::Size), "Where the members are, in bytes from the start.")
            .required("write `at: { MEMBER: OFFSET }`"),
    ],
};

/// `when` and `unless` of a layout, and of an enumeration.
pub(super) static WHEN: Keys = Keys {
    what: "a check",
    keys: &[
        Key::new("file", Form::Several(&Form::Glob, limits::ALTERNATIVES), "The file's name: a glob, or one of some."),
        Key::new("build_id", Form::Several(&Form::Word, limits::ALTERNATIVES), "How the file's build-id begins."),
        Key::new(
            "bytes",
            Form::Several(&Form::Word, limits::ALTERNATIVES),
            "A text that stands in what is mapped of the file to be read only, such as a version.",
        ),
        Key::new(
            "hex",
            Form::Several(&Form::Word, limits::ALTERNATIVES),
            "Bytes that stand there, code included, by their hexadecimal digits.",
        ),
        Key::new(
            "class",
            Form::Several(&Form::Qualified, limits::ALTERNATIVES),
            "A class of which the file has run-time type information.",
        ),
        Key::new("function", Form::Several(&Form::Word, limits::ALTERNATIVES), "A function of the file: a glob."),
    ],
};

/// The layouts of strings; each is named for its library.
fn string_words() -> Vec<(&'static str, &'static str)> {
    super::model::StringLayout::NAMES.iter().map(|(name, _)| (*name, "")).collect()
}

/// An entry of `objects`.
pub(super) static OBJECT: Keys = Keys {
    what: "an object",
    keys: &[
        Key::new("of", Form::Qualified, "The view that it is.")
            .required("write `of: VIEW`: the type whose members the fields are"),
        Key::new(
            "fields",
            table(Names::Identifier, &Form::Expression),
            "What is read of it; names in the expressions are members of the view.",
        )
        .required("write what is read of it"),
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
        Key::new("role", Form::OneOf(roles::words), "What its events are.").required(""),
        Key::new(
            "fields",
            table(Names::Identifier, &Form::Expression),
            "What is recorded: expressions over arguments, `return`, `tid`, `cpu` and `match[n]`.",
        ),
        Key::new("when", Form::Expression, "Where it is zero, nothing is recorded."),
        Key::new("describe", Form::Expression, "Where it is zero, objects in the fields are not looked at."),
        Key::new(
            "identity",
            Form::Expression,
            "Only for role `graph`: two graphs of the same identity, 0 apart, have the same objects.",
        ),
        Key::new("describes", Form::Describes, "An object of which this probe knows something more."),
        Key::new(
            "counters",
            Form::Several(&Form::Name, limits::ALTERNATIVES),
            "Names of counters whose difference over the span is recorded.",
        ),
        Key::new("optional", Form::Flag, "The probe may be without a site."),
        Key::new("nested", Form::OneOf(probes::nested_words), "How calls inside a call of the same probe are taken."),
    ],
};

/// The section `analysis`.
pub(super) static ANALYSIS: Keys = Keys {
    what: "`analysis`",
    keys: &[
        Key::new("layer", Form::Expression, "The layer of the model that an operator belongs to, from its fields."),
        Key::new("prefill", Form::Expression, "Whether a step is a prefill, from its fields."),
        Key::new(
            "experts",
            Form::Expression,
            "How many experts an object's data holds, one after the other, from its fields; 0 for most objects.",
        ),
        Key::new("dtypes", table(Names::Any, &Form::Expression), "Bytes of one element, by element type."),
        Key::new("costs", table(Names::Any, &Form::Map(&COST)), "The work that an operator stands for, by its type."),
        Key::new(
            "context",
            table(Names::Any, &Form::Expression),
            "Tokens that an operator attends to, its own included, by operator type.",
        ),
        Key::new(
            "metrics",
            table(Names::Word, &Form::Either(&Form::Expression, &Form::Map(&METRIC))),
            "What reports work out of counters, times and costs.",
        ),
        Key::new("weights", Form::Map(&WEIGHTS), "Which of an operator's inputs are the model's weights."),
        Key::new("advice", table(Names::Word, &Form::Map(&ADVICE)), "What the engine's users can do about a limit."),
    ],
};

/// An entry of `costs`.
pub(super) static COST: Keys = Keys {
    what: "a cost",
    keys: &[
        Key::new("flops", Form::Expression, "Floating-point operations."),
        Key::new("bytes", Form::Expression, "Bytes that must be read and written at least."),
        Key::new(
            "experts",
            Form::Expression,
            "How many experts it uses at most, where no record says which were used.",
        ),
    ],
};

/// An entry of `metrics`, where it is a map.
pub(super) static METRIC: Keys = Keys {
    what: "a metric",
    keys: &[
        Key::new("value", Form::Expression, "How it is worked out: over counters, times and costs.")
            .required("write `value: EXPRESSION`, such as `value: instructions / cycles`"),
        Key::new("unit", Form::Word, "What it comes out in: s, B, FLOP, 1, %, names of counters, products, quotients."),
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
            Form::Several(&Form::Word, super::advice::MAX_TYPES),
            "Element types of `dtypes` that weights can be kept in, the largest first.",
        ),
    ],
};

/// An entry of `advice`.
pub(super) static ADVICE: Keys = Keys {
    what: "an advice",
    keys: &[
        Key::new("when", Form::Expression, "Whether it applies, over what is known of a phase.")
            .required("write `when: EXPRESSION`, such as `when: phase == \"prefill\" && bound == \"compute\"`"),
        Key::new("say", Form::Prose, "What to do, in a sentence without its full stop.")
            .required("write `say: SENTENCE`"),
    ],
};
