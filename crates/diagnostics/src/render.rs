//! Diagnostics as text: rustc's shape, with the YAML line quoted.

use super::{Diagnostic, Diagnostics, Severity, Span, printable, printable_lines, steers};
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use std::borrow::Cow;

/// Renders every diagnostic, a blank line between them; `colour` adds ANSI colours.
pub fn render(diagnostics: &Diagnostics, colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let rendered: Vec<String> = diagnostics.0.iter().map(|d| render_one(d, &renderer)).collect();
    rendered.join("\n\n")
}

fn render_one(diagnostic: &Diagnostic, renderer: &Renderer) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    // Names of files and functions stand in these.
    let message = printable_lines(&diagnostic.message);
    let notes: Vec<String> = diagnostic.notes.iter().map(|note| printable_lines(note)).collect();
    let hint = diagnostic.hint.as_deref().map(printable_lines);
    let title = level.primary_title(&message).id(diagnostic.code.as_str());
    let mut group = match &diagnostic.span {
        Some(span) => Group::with_title(title).element(snippet(span)),
        None => Group::with_title(title),
    };
    for note in &notes {
        group = group.element(Level::NOTE.message(note));
    }
    if let Some(hint) = &hint {
        group = group.element(Level::HELP.message(hint));
    }
    renderer.render(&[group])
}

/// A source without what would act on a terminal; each character has as many bytes as before, so that spans stay right.
fn shown(text: &str) -> Cow<'_, str> {
    let acts = |c: char| steers(c) && !matches!(c, '\n' | '\t');
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let instead = |c: char| match c.len_utf8() {
        _ if !acts(c) => c,
        1 => '?',
        2 => '\u{b7}',
        _ => '\u{fffd}',
    };
    Cow::Owned(text.chars().map(instead).collect())
}

fn snippet(span: &Span) -> Snippet<'_, annotate_snippets::Annotation<'_>> {
    Snippet::source(shown(&span.source.text))
        .path(printable(&span.source.name))
        .line_start(1)
        .annotation(AnnotationKind::Primary.span(span.range.clone()))
}
