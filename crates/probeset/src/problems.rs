//! The collector of a probeset's problems. It shows only so many, so that a hostile file cannot make the report (or
//! the search for near names) run away, but forgets no error.

use super::limits;
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, Severity, Span, did_you_mean};

/// Problems found so far.
#[derive(Debug, Default)]
pub(super) struct Problems {
    found: Diagnostics,
    /// How many more there were, and the worst of them.
    left_out: Option<(usize, Diagnostic)>,
}

impl Problems {
    /// Adds one.
    pub(super) fn push(&mut self, diagnostic: Diagnostic) {
        if self.found.0.len() < limits::PROBLEMS {
            self.found.push(diagnostic);
            return;
        }
        self.left_out = Some(match self.left_out.take() {
            Some((count, worst)) if worst.severity >= diagnostic.severity => (count + 1, worst),
            Some((count, _)) => (count + 1, diagnostic),
            None => (1, diagnostic),
        });
    }

    /// An error at a place.
    pub(super) fn error(&mut self, code: Code, span: &Span, message: impl Into<String>) {
        self.push(Diagnostic::error(code, message).at(span));
    }

    /// An error at a place, with what to do about it.
    pub(super) fn error_hint(&mut self, code: Code, span: &Span, message: impl Into<String>, hint: impl Into<String>) {
        self.push(Diagnostic::error(code, message).at(span).hint(hint));
    }

    /// An error about a word that is none of `candidates`: names the nearest, else shows `otherwise`.
    pub(super) fn unknown<'a>(
        &mut self,
        code: Code,
        word: (&str, &Span),
        message: impl Into<String>,
        candidates: impl IntoIterator<Item = &'a str>,
        otherwise: impl Into<String>,
    ) {
        let (word, span) = word;
        let full = self.found.0.len() >= limits::PROBLEMS;
        let near = if full || word.len() > limits::NAME_BYTES { None } else { did_you_mean(word, candidates) };
        let otherwise = otherwise.into();
        let diagnostic = Diagnostic::error(code, message).at(span);
        self.push(match near {
            Some(near) => diagnostic.hint(near),
            None if otherwise.is_empty() => diagnostic,
            None => diagnostic.hint(otherwise),
        });
    }

    /// Keeps a value, or its problem.
    pub(super) fn keep<T>(&mut self, result: Result<T, Diagnostic>) -> Option<T> {
        result.map_err(|problem| self.push(problem)).ok()
    }

    /// Whether one of them is an error.
    pub(super) fn has_errors(&self) -> bool {
        self.found.has_errors() || self.left_out.as_ref().is_some_and(|(_, worst)| worst.severity == Severity::Error)
    }

    /// All that is shown, in the order of the text (of the first file, then the others).
    pub(super) fn into_diagnostics(self) -> Diagnostics {
        let mut found = self.found;
        let start = |d: &Diagnostic| d.span.as_ref().map_or(0, |s| s.range.start);
        let file = |d: &Diagnostic| d.span.as_ref().map(|s| s.source.name.clone());
        let mut files: Vec<Option<String>> = Vec::new();
        for diagnostic in &found.0 {
            let name = file(diagnostic);
            if !files.contains(&name) {
                files.push(name);
            }
        }
        found.0.sort_by_key(|d| (files.iter().position(|f| *f == file(d)), start(d)));
        if let Some((count, worst)) = self.left_out {
            let (verb, noun) = if count == 1 { ("is", "problem") } else { ("are", "problems") };
            let message = format!("{count} more {noun} {verb} not shown");
            found.push(Diagnostic { message, span: None, hint: None, notes: Vec::new(), ..worst });
        }
        found
    }
}

/// A foreign text as it may be quoted in a message: short, one line, no control characters.
pub(super) fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    let mut shown: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    // `escape_debug` also escapes quotes, which are harmless here and common in expressions.
    shown = shown.replace("\\\"", "\"").replace("\\'", "'");
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

/// `` `a`, `b` and `c` ``.
pub(super) fn list(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => format!("`{only}`"),
        [first @ .., last] => format!("`{}` and `{last}`", first.join("`, `")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_beyond_the_limit_is_still_an_error() {
        let mut problems = Problems::default();
        for _ in 0..limits::PROBLEMS {
            problems.push(Diagnostic::warning(Code::RoleField, "w"));
        }
        assert!(!problems.has_errors());
        problems.push(Diagnostic::error(Code::UnknownKey, "e"));
        problems.push(Diagnostic::warning(Code::RoleField, "w"));
        assert!(problems.has_errors());
        let shown = problems.into_diagnostics();
        assert!(shown.has_errors());
        assert_eq!(shown.0.len(), limits::PROBLEMS + 1);
        assert_eq!(shown.0[limits::PROBLEMS].message, "2 more problems are not shown");
    }

    #[test]
    fn quoted_text_cannot_steer_a_terminal() {
        assert_eq!(shown("a\u{1b}[31m\n\"b\""), "a\\u{1b}[31m\\n\"b\"");
        assert!(shown(&"x".repeat(1000)).chars().count() < 70);
    }

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(list(&["a"]), "`a`");
        assert_eq!(list(&["a", "b", "c"]), "`a`, `b` and `c`");
    }
}
