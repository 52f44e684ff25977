//! How a text is set: width, colour, rows of tables.

use crate::numbers::table::Table;
use profinfer_analysis::group_digits;

/// Rows of the tables that are not the main one.
pub(crate) const FEW: usize = 8;

/// How a text is set.
#[derive(Debug, Clone, Copy, Default)]
pub struct TextStyle {
    /// Characters of a line; no line is cut, where left out.
    pub width: Option<usize>,
    /// With ANSI colours.
    pub colour: bool,
    /// Rows of the main table.
    pub top: Option<usize>,
    /// The main table alone was asked for.
    pub main_only: bool,
}

impl TextStyle {
    pub(crate) fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    pub(crate) fn heading(&self, text: &str) -> String {
        format!("\n{}\n", self.paint("1", text))
    }

    pub(crate) fn table(&self, out: &mut String, title: &str, table: &Table, more: Option<String>) {
        if table.is_empty() {
            return;
        }
        out.push_str(&self.heading(title));
        out.push_str(&table.render(self.width, |heading| self.paint("2", heading)));
        if let Some(more) = more {
            out.push_str(&format!("  {}\n", self.paint("2", &more)));
        }
    }
}

pub(crate) fn more(total: u64, shown: usize, hint: &str) -> Option<String> {
    let rest = total.saturating_sub(shown as u64);
    (rest > 0).then(|| format!("… and {} more; {hint}", group_digits(rest)))
}

pub(crate) fn few<'a, T>(rows: &'a [T], hint: &str) -> (&'a [T], Option<String>) {
    let shown = rows.len().min(FEW);
    (&rows[..shown], more(rows.len() as u64, shown, hint))
}
