//! The text of the program: the runtime's headers in one piece, places in the YAML, safe comments.

use profinfer_diagnostics::{Source, Span, steers};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The folder of the runtime, as programs include it.
const FOLDER: &str = "bpf-runtime";
/// The runtime's headers.
pub const RUNTIME: &[(&str, &str)] = &[
    ("bpf.h", include_str!("../../bpf-runtime/bpf.h")),
    ("call.h", include_str!("../../bpf-runtime/call.h")),
    ("contract.h", include_str!("../../bpf-runtime/contract.h")),
    ("counter.h", include_str!("../../bpf-runtime/counter.h")),
    ("counter_state.h", include_str!("../../bpf-runtime/counter_state.h")),
    ("detail.h", include_str!("../../bpf-runtime/detail.h")),
    ("fault.h", include_str!("../../bpf-runtime/fault.h")),
    ("job.h", include_str!("../../bpf-runtime/job.h")),
    ("kernel.h", include_str!("../../bpf-runtime/kernel.h")),
    ("library.h", include_str!("../../bpf-runtime/library.h")),
    ("map.h", include_str!("../../bpf-runtime/map.h")),
    ("object.h", include_str!("../../bpf-runtime/object.h")),
    ("preemption.h", include_str!("../../bpf-runtime/preemption.h")),
    ("program.h", include_str!("../../bpf-runtime/program.h")),
    ("reclaim.h", include_str!("../../bpf-runtime/reclaim.h")),
    ("record.h", include_str!("../../bpf-runtime/record.h")),
    ("registers.h", include_str!("../../bpf-runtime/registers.h")),
    ("sample.h", include_str!("../../bpf-runtime/sample.h")),
    ("scheduler.h", include_str!("../../bpf-runtime/scheduler.h")),
    ("span.h", include_str!("../../bpf-runtime/span.h")),
    ("thread.h", include_str!("../../bpf-runtime/thread.h")),
    ("thread_state.h", include_str!("../../bpf-runtime/thread_state.h")),
    ("trampoline.h", include_str!("../../bpf-runtime/trampoline.h")),
    ("waiting.h", include_str!("../../bpf-runtime/waiting.h")),
];

/// The program with the runtime in place of its `#include`s. The lines keep the numbers of their files.
pub(super) fn standalone(text: &str, name: &str) -> String {
    let mut whole = String::with_capacity(text.len() + 200_000);
    let mut seen = BTreeSet::new();
    for (index, line) in text.lines().enumerate() {
        if include(line, &mut seen, &mut whole) {
            // The directive tells what the *next* line is; lines are counted from 1.
            whole.push_str(&format!("#line {} {}\n", index + 2, quoted(name)));
        } else {
            whole.push_str(line);
            whole.push('\n');
        }
    }
    whole
}

/// Adds the header that a line includes, once, with those that it includes itself; whether the line includes one.
fn include(line: &str, seen: &mut BTreeSet<&'static str>, whole: &mut String) -> bool {
    let Some(path) = line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"')) else { return false };
    let wanted = path.rsplit('/').next().unwrap_or(path);
    let Some((name, content)) = RUNTIME.iter().find(|(name, _)| *name == wanted) else { return false };
    if !seen.insert(name) {
        return true;
    }
    whole.push_str(&format!("#line 1 \"{FOLDER}/{name}\"\n"));
    for (index, line) in content.lines().enumerate() {
        if include(line, seen, whole) {
            whole.push_str(&format!("#line {} \"{FOLDER}/{name}\"\n", index + 2));
        } else {
            // One file has them all; an empty line preserves the numbers.
            whole.push_str(if line.starts_with("#pragma once") { "" } else { line });
            whole.push('\n');
        }
    }
    true
}

/// The comment at the end of a generated line: the place in the YAML and its text.
pub(super) fn origin(span: &Span) -> String {
    format!("/* {}: {} */", place(span), comment(span.text()))
}

/// The place in the probeset that a line of the program names at its end: a source and its line, counted from 1.
pub fn origin_of<'s>(line: &str, sources: &'s [Arc<Source>]) -> Option<(&'s Arc<Source>, usize)> {
    let (_, text) = line.rsplit_once("/* ")?;
    sources.iter().find_map(|source| {
        let rest = text.strip_prefix(&comment(&source.name))?.strip_prefix(':')?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        Some((source, digits.parse().ok()?))
    })
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

/// Text that can stand in a C comment whatever a probeset contains.
pub(super) fn comment(text: &str) -> String {
    let one_line: String = text.chars().map(|c| if steers(c) { ' ' } else { c }).collect();
    one_line.replace("*/", "* /").replace("/*", "/ *").replace('\\', "|").replace("??", "? ?")
}

/// `file:line` of a place, for comments.
pub(super) fn place(span: &Span) -> String {
    comment(&format!("{}:{}", span.source.name, span.line_column().0))
}
