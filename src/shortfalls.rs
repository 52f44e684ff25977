//! What a recording lacks, in few lines: each names the missing data and how to get it.

use super::terminal;
use profinfer_diagnostics::{Diagnostic, Diagnostics, Severity, printable};
use profinfer_recorder::Summary;
use profinfer_schema::{LeftOut, LeftOutKind, LossKind};

/// Lines of warnings, and of what was left out.
const MOST_LINES: usize = 5;

/// Prints errors in full, and of warnings a line each up to [`MOST_LINES`]; `verbose`: everything in full. Gives the exit
/// code that the problems mean.
pub(crate) fn report_problems(summary: &Summary, verbose: bool) -> u8 {
    if verbose {
        return terminal::report_problems(&summary.problems);
    }
    let is_error = |problem: &&Diagnostic| problem.severity == Severity::Error;
    let errors: Vec<Diagnostic> = summary.problems.0.iter().filter(is_error).cloned().collect();
    let failed = terminal::report_problems(&Diagnostics(errors));
    let warnings: Vec<&Diagnostic> =
        summary.problems.0.iter().filter(|problem| problem.severity == Severity::Warning).collect();
    // The last line counts those that are not shown.
    let shown = if warnings.len() > MOST_LINES { MOST_LINES - 1 } else { MOST_LINES };
    for problem in warnings.iter().take(shown) {
        terminal::status(&line(problem));
    }
    if warnings.len() > shown {
        terminal::status(&format!("and {} more warnings: record with `-v`", warnings.len() - shown));
    }
    failed
}

fn line(problem: &Diagnostic) -> String {
    let notes = problem.notes.iter().filter(|note| !note.starts_with("searched "));
    let all = std::iter::once(problem.message.as_str()).chain(notes.map(String::as_str));
    let text = all.chain(problem.hint.as_deref()).collect::<Vec<_>>().join("; ");
    format!("warning[{}]: {}", problem.code.as_str(), printable(&text))
}

/// Parts of records that are missing, though the records are there: why the recording is incomplete with nothing lost.
pub(crate) fn parts_line(summary: &Summary) -> Option<String> {
    // Sites that did not attach are warned of.
    let is_part = |kind: LossKind| kind.is_harmful() && !kind.loses_records() && kind != LossKind::NotAttached;
    let of = summary.losses.iter().filter(|loss| loss.count > 0 && is_part(loss.kind));
    let parts: Vec<String> =
        of.map(|loss| format!("{} {} in `{}`", loss.count, loss.kind.name(), printable(&loss.record))).collect();
    (!parts.is_empty()).then(|| format!("incomplete: {}; see `profinfer info`", parts.join(", ")))
}

/// What is not in the trace, though it was asked for: what makes it incomplete first.
pub(crate) fn left_out_lines(summary: &Summary, verbose: bool) -> Vec<String> {
    let mut entries: Vec<&LeftOut> = summary.left_out.iter().collect();
    entries.sort_by_key(|entry| !entry.kind.is_harmful());
    let line = |entry: &&LeftOut| {
        let what = match entry.kind {
            LeftOutKind::Survivor => "no longer recorded",
            kind if kind.is_harmful() => "incomplete",
            _ => "left out",
        };
        let hint = summary.attach.as_ref().filter(|_| entry.kind == LeftOutKind::Survivor);
        let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
        format!("{what}: {}{hint}", printable(&entry.text))
    };
    let shown = if verbose { usize::MAX } else { MOST_LINES };
    let mut lines: Vec<String> = entries.iter().take(shown).map(line).collect();
    if entries.len() > shown {
        lines.push(format!("and {} more: `record -v` shows them", entries.len() - shown));
    }
    lines
}
