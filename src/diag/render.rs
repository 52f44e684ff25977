//! Diagnostics as text: rustc's shape, with the YAML line quoted.

use super::{Diagnostic, Diagnostics, Severity, Span, printable, printable_lines};
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

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

fn snippet(span: &Span) -> Snippet<'_, annotate_snippets::Annotation<'_>> {
    Snippet::source(&span.source.text)
        .path(printable(&span.source.name))
        .line_start(1)
        .annotation(AnnotationKind::Primary.span(span.range.clone()))
}
