//! Diagnostics: a code, a severity, the place in the YAML, and a hint a person can
//! act on. This crate is independent of the problems' subjects; it does not print (rendering returns text).

mod codes;
mod printable;
mod render;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub use codes::{Class, Code};
pub use printable::{printable, printable_json, printable_lines, printable_styled, steers};
pub use render::render;

/// A text that diagnostics point into: a probeset file, or one on standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The name as a person wrote it (a path, or `builtin:engine.yaml`).
    pub name: String,
    /// The whole text.
    pub text: String,
}

/// A byte range in a [`Source`]. Cheap to clone; carries its source so that no table has to be passed around.
#[derive(Clone)]
pub struct Span {
    /// The text it points into.
    pub source: Arc<Source>,
    /// Byte offsets into that text, on character boundaries, `start <= end <= text.len()`.
    pub range: Range<usize>,
}

impl Span {
    /// A span over `range` of `source`, clamped to the text so that rendering cannot fail.
    pub fn new(source: &Arc<Source>, range: Range<usize>) -> Self {
        let end = range.end.min(source.text.len());
        let start = range.start.min(end);
        Self { source: Arc::clone(source), range: start..end }
    }

    /// The part of this span from `range.start` to `range.end`, both relative to this span's start.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        Self::new(&self.source, self.range.start + range.start..self.range.start + range.end)
    }

    /// The smallest span over both (of one source).
    #[must_use]
    pub fn to(&self, other: &Self) -> Self {
        Self::new(&self.source, self.range.start.min(other.range.start)..self.range.end.max(other.range.end))
    }

    /// The 1-based line and column (in characters) of the start.
    pub fn line_column(&self) -> (usize, usize) {
        let before = self.source.text.get(..self.range.start).unwrap_or(&self.source.text);
        let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
        (line, column)
    }

    /// The text under the span.
    pub fn text(&self) -> &str {
        self.source.text.get(self.range.clone()).unwrap_or("")
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.line_column();
        write!(f, "{}:{line}:{column}", self.source.name)
    }
}

impl PartialEq for Span {
    fn eq(&self, other: &Self) -> bool {
        self.range == other.range && self.source.name == other.source.name
    }
}

/// A value and the place it was written at.
#[derive(Debug, Clone, PartialEq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Where it was written.
    pub span: Span,
}

impl<T> Spanned<T> {
    /// A value at a place.
    pub fn new(value: T, span: Span) -> Self {
        Self { value, span }
    }
}

impl<T> std::ops::Deref for Spanned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Note,
    /// The run goes on with less than was asked for.
    Warning,
    /// The run cannot go on.
    Error,
}

/// One problem, described for a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnostic {
    /// Stable code; `docs/diagnostics.md` explains each.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// One sentence, no full stop, lower case first letter.
    pub message: String,
    /// The place in the YAML, where there is one.
    pub span: Option<Span>,
    /// What to do about it.
    pub hint: Option<String>,
    /// Further facts, a line each.
    pub notes: Vec<String>,
}

impl Diagnostic {
    /// An error.
    pub fn error(code: Code, message: impl Into<String>) -> Self {
        Self { code, severity: Severity::Error, message: message.into(), span: None, hint: None, notes: Vec::new() }
    }

    /// A warning.
    pub fn warning(code: Code, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, message) }
    }

    /// A note.
    pub fn note(code: Code, message: impl Into<String>) -> Self {
        Self { severity: Severity::Note, ..Self::error(code, message) }
    }

    /// Says where.
    #[must_use]
    pub fn at(mut self, span: &Span) -> Self {
        self.span = Some(span.clone());
        self
    }

    /// Says what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a fact.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}

/// Every problem found in one run; non-empty where it is an `Err`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// Nothing wrong so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.0.push(diagnostic);
    }

    /// Adds those that are not there yet.
    pub fn add_new(&mut self, others: Self) {
        for other in others.0 {
            if !self.0.contains(&other) {
                self.0.push(other);
            }
        }
    }

    /// Keeps a value, or its problems.
    pub fn keep<T>(&mut self, result: Result<T, impl Into<Self>>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(problems) => {
                self.0.extend(problems.into().0);
                None
            }
        }
    }

    /// Whether any of them is an error.
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|d| d.severity == Severity::Error)
    }

    /// `Err` if there is an error among them, else the value with the warnings and notes.
    ///
    /// # Errors
    /// All diagnostics, when one of them is an error.
    pub fn finish<T>(self, value: T) -> Result<(T, Self), Self> {
        if self.has_errors() { Err(self) } else { Ok((value, self)) }
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        Self(vec![diagnostic])
    }
}

/// The candidate most like `word`, if one is near enough to be a slip of the pen.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len().min(word.len()) / 4)
        // Equally far: the one that shares more of its start and order is the likelier.
        .min_by(|(one, a), (other, b)| {
            let alike = |candidate: &str| strsim::jaro_winkler(word, candidate);
            one.cmp(other).then_with(|| alike(b).total_cmp(&alike(a)))
        })
        .map(|(_, candidate)| candidate)
}

/// `did you mean \`X\`?`, where some candidate is near.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(word, candidates).map(|candidate| format!("did you mean `{candidate}`?"))
}
