//! The opening of the report, as text.

use super::model::{Advice, Verdict};
use super::say::capital;
use crate::diag::printable;
use crate::report::table::{Align, Table};
use crate::report::text::Look;
use crate::report::units::{share, time_f64};
use Align::{Flexible, Left, Right};

/// Advice that is shown.
const SHOWN: usize = 3;
/// Operators that are shown.
const OPERATORS: usize = 8;

/// The sentences, what would help, and what cannot be said.
pub(in crate::report) fn opening(out: &mut String, verdict: &Verdict, look: &Look) {
    if !verdict.sentences.is_empty() {
        out.push('\n');
    }
    for sentence in &verdict.sentences {
        let lines = wrap(&printable(sentence), look.width, "");
        lines.iter().for_each(|line| out.push_str(&format!("{}\n", look.style("1", line))));
    }
    for text in advice_texts(&verdict.advice).iter().take(SHOWN) {
        wrap(&printable(text), look.width, "  ").iter().for_each(|line| out.push_str(&format!("{line}\n")));
    }
    for sentence in &verdict.cannot_say {
        let lines = wrap(&printable(sentence), look.width, "  ");
        lines.iter().for_each(|line| out.push_str(&format!("{}\n", look.style("2", line))));
    }
    if !verdict.sentences.is_empty() {
        out.push('\n');
    }
}

/// What helps several phases is said once.
fn advice_texts(all: &[Advice]) -> Vec<String> {
    let mut texts: Vec<(&str, String)> = Vec::new();
    for Advice { phase, what, gain_at_most, how } in all {
        let gain = share(*gain_at_most);
        match texts.iter_mut().find(|(known, _)| known == what) {
            Some((_, text)) => text.push_str(&format!(" {} at most {gain} less.", capital(phase))),
            None => texts.push((what, format!("→ {what}. {} takes at most {gain} less time: {how}.", capital(phase)))),
        }
    }
    texts.into_iter().map(|(_, text)| text).collect()
}

/// Lines of no more than `width` characters, where there is one; those after the first are indented.
fn wrap(text: &str, width: Option<usize>, indent: &str) -> Vec<String> {
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
pub(in crate::report) fn operators(out: &mut String, verdict: &Verdict, phases: &[&str], look: &Look) {
    let Some(phase) = verdict.phases.iter().map(|row| row.phase).find(|phase| phases.contains(phase)) else { return };
    let mut table = Table::new(&[
        ("share", Right),
        ("mean", Right),
        ("limited by", Left),
        ("sure", Left),
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
    let more = (more > 0).then(|| format!("… and {more} more; `--json` has them"));
    let parts = of_phase().any(|row| row.rates.of_bandwidth().is_some());
    let parts = if parts { "; memory, peak: parts of this machine's limits" } else { "" };
    let title = format!("What limits operators ({phase}{parts})");
    look.table(out, &title, &table, more);
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
