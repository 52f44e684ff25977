//! Which texts are names. Names may reach the generated C, so they are identifiers, bounded, and none of C's words.

use super::limits;
use super::problems::shown;
use super::yaml::Scalar;
use profinfer_diagnostics::{Code, Diagnostic, Span, Spanned};

/// C's keywords and the macros of every generated program.
pub(super) const C_WORDS: &[&str] = &[
    "NULL",
    "_Alignas",
    "_Alignof",
    "_Atomic",
    "_Bool",
    "_Complex",
    "_Generic",
    "_Imaginary",
    "_Noreturn",
    "_Static_assert",
    "_Thread_local",
    "asm",
    "auto",
    "bool",
    "break",
    "case",
    "char",
    "const",
    "continue",
    "default",
    "do",
    "double",
    "else",
    "enum",
    "extern",
    "false",
    "float",
    "for",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "register",
    "restrict",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "switch",
    "true",
    "typedef",
    "typeof",
    "union",
    "unsigned",
    "void",
    "volatile",
    "while",
];

/// What an expression takes for something else than a field or an argument.
const EXPRESSION_WORDS: &[&str] = &["tid", "cpu", "match"];

/// Prefix of the runtime's names in C.
pub(super) const RUNTIME_PREFIX: &str = "pf_";

/// A name: `[A-Za-z_][A-Za-z0-9_]*`.
pub(super) fn name(scalar: &Scalar, what: &str) -> Result<Spanned<String>, Diagnostic> {
    check(&scalar.text, &scalar.span, what)?;
    Ok(Spanned::new(scalar.text.clone(), scalar.span.clone()))
}

/// A name that reaches C only as a part of longer ones, and may so be one of C's words (`switch`).
pub(super) fn word(scalar: &Scalar, what: &str) -> Result<Spanned<String>, Diagnostic> {
    check_identifier(&scalar.text, &scalar.span, what)?;
    Ok(Spanned::new(scalar.text.clone(), scalar.span.clone()))
}

/// A name that expressions use: not one of their reserved words.
pub(super) fn variable(scalar: &Scalar, what: &str) -> Result<Spanned<String>, Diagnostic> {
    let name = name(scalar, what)?;
    check_variable(&name, what)?;
    Ok(name)
}

/// Whether a name that the grammar has already taken for an identifier can be used in expressions and C.
pub(super) fn check_variable(name: &Spanned<String>, what: &str) -> Result<(), Diagnostic> {
    check(&name.value, &name.span, what)?;
    if EXPRESSION_WORDS.contains(&name.as_str()) {
        let message = format!("`{}` cannot be {what}: it is a reserved name in expressions", name.value);
        return Err(Diagnostic::error(Code::BadIdentifier, message).at(&name.span).hint("choose another name"));
    }
    Ok(())
}

/// A type's name: names joined by `::`.
pub(super) fn qualified(scalar: &Scalar, what: &str) -> Result<Spanned<String>, Diagnostic> {
    if scalar.text.len() > limits::NAME_BYTES {
        return Err(too_long(&scalar.text, &scalar.span, what));
    }
    for part in scalar.text.split("::") {
        check(part, &scalar.span, what)?;
    }
    Ok(Spanned::new(scalar.text.clone(), scalar.span.clone()))
}

fn check(text: &str, span: &Span, what: &str) -> Result<(), Diagnostic> {
    check_identifier(text, span, what)?;
    if C_WORDS.contains(&text) {
        let message = format!("`{text}` cannot be {what}: it is a keyword of C");
        return Err(Diagnostic::error(Code::BadIdentifier, message).at(span).hint("choose another name"));
    }
    Ok(())
}

fn check_identifier(text: &str, span: &Span, what: &str) -> Result<(), Diagnostic> {
    if text.len() > limits::NAME_BYTES {
        return Err(too_long(text, span, what));
    }
    let error = |message: String| Diagnostic::error(Code::BadIdentifier, message).at(span);
    if !is_identifier(text) {
        let message = match text {
            "" => format!("{what} needs a name"),
            _ => format!("`{}` cannot be {what}", shown(text)),
        };
        return Err(error(message).hint("use letters, digits and `_`, and do not start with a digit"));
    }
    if text.starts_with(RUNTIME_PREFIX) {
        let hint = "choose a name without the prefix `pf_`, which is reserved for the runtime";
        return Err(error(format!("`{text}` cannot be {what}")).hint(hint));
    }
    Ok(())
}

fn too_long(text: &str, span: &Span, what: &str) -> Diagnostic {
    let message = format!("`{}` cannot be {what}: it has {} bytes", shown(text), text.len());
    Diagnostic::error(Code::BadIdentifier, message).at(span).hint(format!("the maximum is {}", limits::NAME_BYTES))
}

/// Whether a text is a C identifier.
pub(super) fn is_identifier(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// A file-name glob: `*` and `?`, no folder, not so wide that it takes in everything.
pub(super) fn glob(scalar: &Scalar) -> Result<Spanned<String>, Diagnostic> {
    let text = scalar.text.as_str();
    let error = |why: String| Diagnostic::error(Code::BadPattern, format!("`{}` {why}", shown(text))).at(&scalar.span);
    let example = "such as `libengine.so*`";
    if text.contains(['/', '\\']) {
        return Err(error("has a folder in it".into())
            .hint(format!("modules are matched by file name; give a file name without a folder, {example}")));
    }
    if text.is_empty() || text.len() > limits::GLOB_BYTES || text.contains(char::is_control) {
        return Err(error("is not a file's name".into()).hint(format!("give a file's name, {example}")));
    }
    if text.matches(['*', '?']).count() > limits::WILDCARDS {
        return Err(
            error(format!("has more than {} wildcards", limits::WILDCARDS)).hint(format!("give fewer, {example}"))
        );
    }
    if text.chars().all(|c| matches!(c, '*' | '?' | '.')) {
        return Err(error("matches any file".into()).hint(format!("give a part of the file's name, {example}")));
    }
    Ok(Spanned::new(text.to_owned(), scalar.span.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use profinfer_diagnostics::Source;
    use std::sync::Arc;

    fn scalar(text: &str) -> Scalar {
        let source = Arc::new(Source { name: "t".into(), text: text.into() });
        let span = Span::new(&source, 0..text.len());
        Scalar { text: text.into(), verbatim: Some(span.clone()), span, absent: false }
    }

    #[test]
    fn only_identifiers_are_names() {
        for good in ["a", "_M_impl", "some_tensor", "A9"] {
            assert!(name(&scalar(good), "a probe").is_ok(), "{good}");
        }
        let long = "x".repeat(limits::NAME_BYTES + 1);
        for bad in ["", "9a", "a b", "a;b", "é", "a\"", "a\n", "int", "pf_ring", "a::b", long.as_str()] {
            let problem = name(&scalar(bad), "a probe").expect_err(bad);
            assert_eq!(problem.code, Code::BadIdentifier, "{bad}");
            assert!(problem.hint.is_some());
        }
    }

    #[test]
    fn expressions_keep_their_words() {
        assert!(variable(&scalar("tid"), "a field").is_err());
        assert!(variable(&scalar("tide"), "a field").is_ok());
    }

    #[test]
    fn types_may_be_qualified() {
        assert!(qualified(&scalar("ns::Klass"), "a view").is_ok());
        for bad in ["ns::", "::K", "a::int", "a:b"] {
            assert!(qualified(&scalar(bad), "a view").is_err(), "{bad}");
        }
    }
}
