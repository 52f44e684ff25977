//! The first screen: what was run and how fast, why it takes its time, what to do, and the operators that take most of
//! it, in 30 lines of 80 characters.

use super::header::completeness;
use super::report::{mark_of_means, mean, total};
use super::style::TextStyle;
use super::verdict::{advice_lines, wrap};
use crate::model::rows::OperatorRow;
use crate::model::sampling::times_as_long;
use crate::numbers::table::{Align, Table, cut};
use crate::numbers::units::{rate, share, time_f64};
use crate::report::Report;
use Align::{Flexible, Left, Right};
use profinfer_analysis::{LEFT_OUT, Phase, counted, group_digits};
use profinfer_diagnostics::printable;

/// Lines of the screen.
const LINES: usize = 30;
/// Characters of a line, where the terminal has no width or a greater one.
const WIDTH: usize = 80;
/// Lines of the verdict.
const VERDICT: usize = 6;
/// Lines of the advice: three pieces of it.
const ADVICE: usize = 5;
/// Lines of what differs from the time before.
const KEPT: usize = 8;
/// Lines of what is missing.
const MISSING: usize = 4;
/// Operators that are listed if there is space for them.
const OPERATORS: usize = 10;
/// From this part of a step on, the overhead has a separate line.
const MUCH: f64 = 0.05;

/// The first screen of a report whose tables are of decode steps, or of the other steps where there are none.
pub fn first_screen_text(report: &Report, style: &TextStyle) -> String {
    let width = style.width.map_or(WIDTH, |width| width.clamp(40, WIDTH));
    let style = TextStyle { width: Some(width), ..*style };
    let mut lines: Vec<String> = Vec::new();
    let whole = completeness(&report.completeness, &TextStyle { colour: false, ..style });
    let verdict = whole.lines().next().unwrap_or_default();
    let colour = if report.completeness.complete { "32;1" } else { "33;1" };
    let most = if report.completeness.complete { 2 } else { 5 };
    lines.extend(wrap(verdict, Some(width), "").into_iter().take(most).map(|line| style.paint(colour, &line)));
    lines.push(cut(&what_ran(report), width));
    lines.extend(wrap(&speed(report), Some(width), ""));
    lines.extend(overhead(report).into_iter().flat_map(|text| wrap(&text, Some(width), "")));
    let missing = missing(report, width);
    let sentences = report.verdict.sentences.iter().map(|text| wrap(&printable(text), Some(width), ""));
    let mut verdict_lines: Vec<String> = Vec::new();
    for sentence in sentences {
        // A sentence is shown whole, or not at all.
        if verdict_lines.is_empty() || verdict_lines.len() + sentence.len() <= VERDICT {
            verdict_lines.extend(sentence);
        }
    }
    if !verdict_lines.is_empty() {
        lines.push(String::new());
    }
    lines.extend(verdict_lines.iter().map(|line| style.paint("1", line)));
    lines.extend(kept(report, width));
    lines.extend(advice_lines(&report.verdict.advice, width, ADVICE));
    let footer = 1 + missing.len();
    let space = LINES.saturating_sub(lines.len() + footer + 3).min(OPERATORS);
    lines.extend(operators(report, space, &style));
    lines.extend(missing.iter().map(|line| style.paint("2", &printable(line))));
    lines.push(style.paint("2", "`--all` shows everything; `--by layer`, `op`, `request`, `lane`, … one table"));
    lines.join("\n") + "\n"
}

/// Why it was kept, and what differs from the time before.
fn kept(report: &Report, width: usize) -> Vec<String> {
    let sentences = report.kept.iter().flat_map(|kept| kept.sentences());
    let mut lines: Vec<String> = sentences.flat_map(|text| wrap(&printable(&text), Some(width), "")).collect();
    if lines.len() > KEPT {
        lines.truncate(KEPT - 1);
        lines.push("More differs: `--all`".to_owned());
    }
    if !lines.is_empty() {
        lines.insert(0, String::new());
    }
    lines
}

/// What the recording left out, and what it cannot show.
fn missing(report: &Report, width: usize) -> Vec<String> {
    let unseen = report.sampling.unseen();
    let left_out = report.completeness.notes.iter().filter(|note| note.starts_with(LEFT_OUT));
    let mut lines = Vec::new();
    for text in unseen.iter().chain(left_out).chain(&report.verdict.cannot_say) {
        let text = wrap(text, Some(width), "");
        if lines.len() + text.len() > MISSING {
            lines.push("More is missing: `--all`".to_owned());
            break;
        }
        lines.extend(text);
    }
    lines
}

/// A word of a command; of a long path the name, which tells more than its beginning.
fn shortened(word: &str) -> String {
    const SHORT: usize = 20;
    let is_path = word.len() > SHORT && !word.contains(char::is_whitespace);
    let name = word.rsplit('/').next().filter(|name| is_path && !name.is_empty());
    name.unwrap_or(word).to_owned()
}

/// `ENGINE · AMD EPYC · 2 CPUs · python server.py`.
fn what_ran(report: &Report) -> String {
    let trace = &report.trace;
    let command: Vec<String> = trace.command.iter().map(|word| shortened(word)).collect();
    let cpus = if trace.cpus > 0 { counted(u64::from(trace.cpus), "CPU") } else { String::new() };
    let parts = [trace.engine.clone(), trace.cpu_model.clone(), cpus, command.join(" ")];
    let parts: Vec<String> = parts.iter().filter(|part| !part.is_empty()).map(|part| printable(part)).collect();
    parts.join(" · ")
}

/// `Decode 20.1 tokens/s · first token 1.24 s · 22.6 ms per token`, or runs where there are no tokens.
fn speed(report: &Report) -> String {
    let of = |phase: &str| report.phases.iter().find(|row| row.phase == phase && row.steps > 0);
    let mut parts = Vec::new();
    // Of the recorded steps, which are not a sample of all: those before the first window are there one by one.
    let about = if report.sampling.unseen_ns > 0 { "≈" } else { "" };
    if let Some(runs) = of(Phase::Run.as_str()) {
        let times = runs.step;
        parts.push(format!("{} of {about}{} each", counted(runs.steps, "run"), time_f64(times.mean_ns)));
        parts.push(format!("p50 {}, p99 {}", time_f64(times.p50_ns as f64), time_f64(times.p99_ns as f64)));
    } else {
        parts.extend(of("decode").and_then(|row| row.tokens_per_s).map(|rate_s| match report.sequences_together() {
            Some(sequences) => format!("Decode {about}{} computed tokens/s ({sequences:.1} sequences)", rate(rate_s)),
            None => format!("Decode {about}{} tokens/s", rate(rate_s)),
        }));
        if report.ttft.count > 0 {
            let of = match report.ttft.count {
                1 => String::new(),
                requests => format!(" (mean of {})", counted(requests, "request")),
            };
            parts.push(format!("first token {}{of}", time_f64(report.ttft.mean_ns)));
        }
        if report.tpot.count > 0 {
            let what = if report.sequences_together().is_some() { "step" } else { "token" };
            parts.push(format!("{about}{} per {what}", time_f64(report.tpot.mean_ns)));
        }
        parts.extend(
            of("prefill")
                .and_then(|row| row.tokens_per_s)
                .map(|rate_s| format!("prefill {about}{} tokens/s", rate(rate_s))),
        );
    }
    match (report.sampling.overhead(), report.sampling.of_the_budget()) {
        (Some((part, _)), _) if part >= MUCH => {}
        (_, Some((spent, _))) => parts.push(format!("tracing overhead {} (estimated)", percent(spent))),
        (Some((part, measured)), None) => {
            let how = if measured { "measured" } else { "estimated" };
            parts.push(format!("tracing overhead {} ({how})", percent(part)));
        }
        (None, None) => {}
    }
    if parts.is_empty() { "No steps.".to_owned() } else { parts.join(" · ") }
}

/// A separate line if it matters, with the option that lowers it.
fn overhead(report: &Report) -> Option<String> {
    let (part, measured) = report.sampling.overhead().filter(|(part, _)| *part >= MUCH)?;
    let how = match (measured, report.sampling.built_in_costs) {
        (true, _) => "measured",
        (false, true) => "estimated by another machine's costs; `profinfer doctor --calibrate` measures this one's",
        (false, false) => "estimated",
    };
    if let Some((spent, budget)) = report.sampling.of_the_budget() {
        let [spent, budget, part] = [spent, budget, part].map(percent);
        return Some(format!(
            "Tracing overhead {spent} (estimated; budget {budget}), {part} in sampling windows ({how})"
        ));
    }
    if part >= 1.0 {
        return Some(format!(
            "Tracing makes steps take {} ({how}): use `--budget 1%` or `--level graph`",
            times_as_long(part, measured)
        ));
    }
    Some(format!("Tracing overhead {} ({how}): use `--budget 1%` or `--level graph`", percent(part)))
}

fn percent(part: f64) -> String {
    if part < 0.01 { format!("{:.2} %", part * 100.0) } else { format!("{:.1} %", part * 100.0) }
}

fn operators(report: &Report, space: usize, style: &TextStyle) -> Vec<String> {
    let mut rows: Vec<&OperatorRow> = report.operators.iter().take(space.max(3)).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let mut mark = mark_of_means(rows.iter().copied());
    if mark.is_some() && rows.len() == space {
        rows.truncate(space - 1);
        mark = mark_of_means(rows.iter().copied());
    }
    let mut table = Table::new(&[
        ("share", Right),
        ("total", Right),
        ("count", Right),
        ("mean", Right),
        ("limited by", Left),
        ("op", Left),
        ("name", Flexible),
    ]);
    let judged = |row: &OperatorRow| {
        let same = report.verdict.operators.iter().find(|of| {
            report.table_phases.contains(&of.phase)
                && Some(&of.name) == row.name.as_ref()
                && Some(&of.op) == row.op.as_ref()
        });
        same.map_or_else(String::new, |of| of.bound.as_str().to_owned())
    };
    for row in rows {
        table.row(vec![
            share(row.share),
            total(row),
            group_digits(row.count),
            mean(row),
            judged(row),
            row.op.clone().unwrap_or_default(),
            row.name.clone().unwrap_or_default(),
        ]);
    }
    let lanes = if report.lanes > 1 { format!(", work of {} lanes", report.lanes) } else { String::new() };
    let what =
        if report.table_phases == [Phase::Run.as_str()] { "runs".into() } else { report.table_phases.join(" and ") };
    let mut text = format!("\n{}\n", style.paint("1", &format!("Operators of {what}{lanes}")));
    text.push_str(&table.render(style.width, |heading| style.paint("2", heading)));
    text.lines().map(str::to_owned).chain(mark.map(|mark| style.paint("2", &format!("  {mark}")))).collect()
}
