//! The opening of the report, as text.

use super::style::TextStyle;
use crate::numbers::table::{Align, Table};
use crate::numbers::units::{share, time_f64};
use crate::verdict::{Advice, Verdict};
use Align::{Flexible, Left, Right};
use profinfer_diagnostics::printable;

/// Advice that is shown.
const SHOWN: usize = 3;
/// Operators that are shown.
const OPERATORS: usize = 8;

/// The sentences, advice, and missing data.
pub(crate) fn opening(out: &mut String, verdict: &Verdict, style: &TextStyle) {
    if !verdict.sentences.is_empty() {
        out.push('\n');
    }
    for sentence in &verdict.sentences {
        let lines = wrap(&printable(sentence), style.width, "");
        lines.iter().for_each(|line| out.push_str(&format!("{}\n", style.paint("1", line))));
    }
    for text in advice_texts(&verdict.advice).iter().take(SHOWN) {
        wrap(&printable(text), style.width, "  ").iter().for_each(|line| out.push_str(&format!("{line}\n")));
    }
    for sentence in &verdict.cannot_say {
        let lines = wrap(&printable(sentence), style.width, "  ");
        lines.iter().for_each(|line| out.push_str(&format!("{}\n", style.paint("2", line))));
    }
    if !verdict.sentences.is_empty() {
        out.push('\n');
    }
}

/// Three pieces of advice in no more lines than this, without how the gain was computed.
pub(super) fn advice_lines(all: &[Advice], width: usize, lines: usize) -> Vec<String> {
    let mut texts: Vec<(&str, String)> = Vec::new();
    for one @ Advice { what, .. } in all {
        let gain = gain(one);
        match texts.iter_mut().find(|(other, _)| other == what) {
            Some((_, text)) => text.push_str(&format!(", {gain}")),
            None => texts.push((what, format!("→ {what}: {gain}"))),
        }
    }
    let mut shown: Vec<String> = Vec::new();
    for (_, text) in texts.iter().take(SHOWN) {
        let wrapped = wrap(&printable(text), Some(width), "  ");
        if shown.len() + wrapped.len() <= lines {
            shown.extend(wrapped);
        }
    }
    shown
}

/// `decode up to 45.0 %`.
fn gain(Advice { steps, gain_at_most, gain_as_recorded, .. }: &Advice) -> String {
    match gain_at_most {
        Some(most) => format!("{steps} up to {}", share(*most)),
        None => format!("{steps} {}, more if its data then stays in caches", share(*gain_as_recorded)),
    }
}

/// One text for advice that several phases share.
fn advice_texts(all: &[Advice]) -> Vec<String> {
    let mut texts: Vec<(&str, String)> = Vec::new();
    for one @ Advice { what, how, .. } in all {
        let gain = gain(one);
        match texts.iter_mut().find(|(other, _)| other == what) {
            Some((_, text)) => text.push_str(&format!("; {gain}")),
            None => texts.push((what, format!("→ {what}. Estimated gain: {gain} ({how})"))),
        }
    }
    texts.into_iter().map(|(_, text)| text + ".").collect()
}

/// Lines of no more than `width` characters, where there is one; those after the first are indented.
pub(super) fn wrap(text: &str, width: Option<usize>, indent: &str) -> Vec<String> {
    let Some(width) = width else { return vec![format!("{indent}{text}")] };
    let (mut lines, mut line, mut length) = (Vec::new(), indent.to_owned(), indent.chars().count());
    let next = if indent.is_empty() { String::new() } else { format!("{indent}  ") };
    for word in text.split(' ') {
        let more = word.chars().count();
        let empty = line.trim().is_empty();
        if !empty && length + 1 + more > width {
            lines.push(std::mem::replace(&mut line, next.clone()));
            length = next.chars().count();
        } else if !empty {
            line.push(' ');
            length += 1;
        }
        line.push_str(word);
        length += more;
    }
    lines.push(line);
    lines
}

/// Why operators take their time: of the first of these phases that has a verdict.
pub(crate) fn operators(out: &mut String, verdict: &Verdict, phases: &[&str], style: &TextStyle) {
    let Some(phase) = verdict.phases.iter().map(|row| row.phase).find(|phase| phases.contains(phase)) else { return };
    let mut table = Table::new(&[
        ("share", Right),
        ("mean", Right),
        ("limited by", Left),
        ("confidence", Left),
        ("memory", Right),
        ("peak", Right),
        ("op", Left),
        ("name", Flexible),
    ]);
    let of_phase = || verdict.operators.iter().filter(|row| row.phase == phase);
    for row in of_phase().take(OPERATORS) {
        table.row(vec![
            share(row.share),
            time_f64(row.mean_ns),
            row.bound.as_str().to_owned(),
            row.confidence.as_str().to_owned(),
            row.rates.of_bandwidth().map_or_else(String::new, share),
            row.rates.of_peak().map_or_else(String::new, share),
            row.op.clone(),
            row.name.clone(),
        ]);
    }
    let more = of_phase().count().saturating_sub(OPERATORS);
    let more = (more > 0).then(|| format!("… and {more} more; `--json` lists all"));
    let parts = of_phase().any(|row| row.rates.of_bandwidth().is_some());
    let parts = if parts { "; memory, peak: share of this machine's limits" } else { "" };
    let title = format!("What limits operators ({phase}{parts})");
    style.table(out, &title, &table, more);
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn lines_are_no_wider_than_asked_and_nothing_is_lost() {
        let text = "one two three four five";
        assert_eq!(wrap(text, Some(9), ""), ["one two", "three", "four five"]);
        assert_eq!(wrap(text, Some(11), "  "), ["  one two", "    three", "    four", "    five"]);
        assert_eq!(wrap(text, None, "  "), ["  one two three four five"]);
        assert_eq!(wrap("unbreakable", Some(4), ""), ["unbreakable"]);
    }
}
