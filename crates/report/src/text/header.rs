//! What every text begins with: completeness, and where the trace comes from.

use super::style::TextStyle;
use crate::model::rows::TraceFacts;
use profinfer_analysis::{Completeness, Distribution, counted};
use profinfer_diagnostics::printable;

/// Is something missing of the trace?
pub(crate) fn completeness(judged: &Completeness, style: &TextStyle) -> String {
    let mut out = style.paint(if judged.complete { "32;1" } else { "33;1" }, &printable(&judged.verdict));
    out.push('\n');
    for lost in judged.lost.iter().filter(|l| !l.harmful) {
        out.push_str(&format!("  {}\n", printable(&lost.sentence())));
    }
    for note in &judged.notes {
        out.push_str(&format!("  {}\n", printable(note)));
    }
    out
}

/// Where the trace comes from.
pub(crate) fn facts(trace: &TraceFacts) -> String {
    let cpus = if trace.cpus > 0 { counted(u64::from(trace.cpus), "CPU") } else { String::new() };
    let kernel = if trace.kernel.is_empty() { String::new() } else { format!("Linux {}", trace.kernel) };
    let parts = [trace.engine.clone(), trace.command.join(" "), trace.cpu_model.clone(), cpus, kernel];
    let parts: Vec<String> = parts.iter().filter(|p| !p.is_empty()).map(|p| printable(p)).collect();
    let first = if parts.is_empty() { String::new() } else { format!("{}\n", parts.join(" · ")) };
    let sources: Vec<String> = trace.sources.iter().map(|(source, count)| format!("{count} {source}")).collect();
    if sources.is_empty() { first } else { format!("{first}Offsets and names: {}\n", printable(&sources.join(", "))) }
}

/// The note under a table whose percentiles are estimates.
pub(crate) fn estimated<'a>(times: impl Iterator<Item = &'a Distribution>) -> Option<String> {
    let error = times.filter_map(|times| times.percentile_error).reduce(f64::max)?;
    Some(format!("p50, p90 and p99 of more than 100,000 times are estimates (± {} %).", error * 100.0))
}
