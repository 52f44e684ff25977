//! The text of the program: the runtime's headers in one piece, places in the YAML, safe comments.

use crate::diag::{Span, steers};

/// The runtime, in the order its parts need one another: before and after the generated records.
const BEFORE_RECORDS: &[(&str, &str)] = &[
    ("bpf.h", include_str!("../../bpf-runtime/bpf.h")),
    ("registers.h", include_str!("../../bpf-runtime/registers.h")),
    ("kernel.h", include_str!("../../bpf-runtime/kernel.h")),
    ("record.h", include_str!("../../bpf-runtime/record.h")),
    ("detail.h", include_str!("../../bpf-runtime/detail.h")),
];
/// What programs that count need besides.
const COUNTERS_BEFORE_RECORDS: &[(&str, &str)] =
    &[("counter_state.h", include_str!("../../bpf-runtime/counter_state.h"))];
const COUNTERS_AFTER_RECORDS: &[(&str, &str)] = &[("counter.h", include_str!("../../bpf-runtime/counter.h"))];
const AFTER_RECORDS: &[(&str, &str)] = &[
    ("thread_state.h", include_str!("../../bpf-runtime/thread_state.h")),
    ("thread.h", include_str!("../../bpf-runtime/thread.h")),
    ("call.h", include_str!("../../bpf-runtime/call.h")),
    ("library.h", include_str!("../../bpf-runtime/library.h")),
    ("object.h", include_str!("../../bpf-runtime/object.h")),
    ("span.h", include_str!("../../bpf-runtime/span.h")),
    ("waiting.h", include_str!("../../bpf-runtime/waiting.h")),
    ("scheduler.h", include_str!("../../bpf-runtime/scheduler.h")),
    ("fault.h", include_str!("../../bpf-runtime/fault.h")),
];

/// The part of the runtime that records are declared with.
pub(super) fn runtime_before_records(counts: bool) -> String {
    amalgamate(BEFORE_RECORDS, if counts { COUNTERS_BEFORE_RECORDS } else { &[] })
}

/// The part of the runtime that uses the records.
pub(super) fn runtime_after_records(counts: bool) -> String {
    amalgamate(AFTER_RECORDS, if counts { COUNTERS_AFTER_RECORDS } else { &[] })
}

/// Stands for `#line` back to the generated file; [`number_lines`] fills the number in.
pub(super) const LINE_HERE: &str = "#line here";

fn amalgamate(parts: &[(&str, &str)], more: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, content) in parts.iter().chain(more) {
        text.push_str(&format!("#line 1 \"bpf-runtime/{name}\"\n"));
        for line in content.lines() {
            // One file has them all; an empty line keeps the numbers.
            let dropped = line.starts_with("#include") || line.starts_with("#pragma once");
            text.push_str(if dropped { "" } else { line });
            text.push('\n');
        }
    }
    text.push_str(LINE_HERE);
    text
}

/// Gives each [`LINE_HERE`] its number and file.
pub(super) fn number_lines(text: &str, name: &str) -> String {
    let mut numbered = String::with_capacity(text.len());
    for (index, line) in text.lines().enumerate() {
        if line == LINE_HERE {
            // The directive says what the *next* line is; lines are counted from 1.
            numbered.push_str(&format!("#line {} {}", index + 2, quoted(name)));
        } else {
            numbered.push_str(line);
        }
        numbered.push('\n');
    }
    numbered
}

/// `#line` to a place in the YAML.
pub(super) fn line_of(span: &Span) -> String {
    format!("#line {} {}", span.line_column().0, quoted(&span.source.name))
}

/// A C string literal.
fn quoted(text: &str) -> String {
    let mut literal = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => literal.extend(['\\', c]),
            c if steers(c) => literal.push('?'),
            c => literal.push(c),
        }
    }
    literal.push('"');
    literal
}

/// Text that can stand in a C comment whatever a spec says.
pub(super) fn comment(text: &str) -> String {
    let one_line: String = text.chars().map(|c| if steers(c) { ' ' } else { c }).collect();
    one_line.replace("*/", "* /").replace("/*", "/ *").replace('\\', "|").replace("??", "? ?")
}

/// `file:line` of a place, for comments.
pub(super) fn place(span: &Span) -> String {
    comment(&format!("{}:{}", span.source.name, span.line_column().0))
}
