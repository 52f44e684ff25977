//! A table as text: columns aligned by spaces, numbers to the right, wide columns cut or wrapped to fit the width. Texts
//! come from traces: nothing in them reaches the terminal that could act on it.

use profinfer_diagnostics::printable;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How a column is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// Numbers.
    Right,
    /// Texts.
    Left,
    /// A text that is cut where the table is too wide.
    Flexible,
    /// A text that goes on in the next line where the table is too wide.
    Wrapped,
}

/// Columns are cut and wrapped to no less than this.
const MIN_FLEXIBLE: usize = 12;

/// A table being made.
#[derive(Debug)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
    /// Columns before each line.
    indent: usize,
    /// Columns without any text are there, too.
    empty_columns: bool,
}

impl Table {
    /// With these headings; columns in which no row has anything are left out.
    pub(crate) fn new(columns: &[(&str, Align)]) -> Self {
        let columns = columns.iter().map(|(name, align)| ((*name).to_owned(), *align)).collect();
        Self { columns, rows: Vec::new(), indent: 2, empty_columns: false }
    }

    /// With these headings, those that begin with `>` of columns of numbers; the others wrap. Without any text in the
    /// headings there is no line of them.
    pub fn listing(headings: &[&str], indent: usize) -> Self {
        let column = |heading: &&str| match heading.strip_prefix('>') {
            Some(heading) => (heading.to_owned(), Align::Right),
            None => ((*heading).to_owned(), Align::Wrapped),
        };
        Self { columns: headings.iter().map(column).collect(), rows: Vec::new(), indent, empty_columns: true }
    }

    /// Adds a row, a cell a column.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.into_iter().map(|cell| printable(&cell)).collect());
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table, as wide as it is or, where a width is given, fitted to it. `dim` sets the headings.
    pub fn render(&self, width: Option<usize>, dim: impl Fn(&str) -> String) -> String {
        let has_text = |c: &usize| self.rows.iter().any(|row| row.get(*c).is_some_and(|cell| !cell.is_empty()));
        let used: Vec<usize> = (0..self.columns.len()).filter(|c| self.empty_columns || has_text(c)).collect();
        let mut widths: Vec<usize> = used.iter().map(|c| self.width_of(*c)).collect();
        if let Some(width) = width {
            self.fit(&used, &mut widths, width);
        }
        let mut text = String::new();
        let header: Vec<&str> = used.iter().map(|c| self.columns[*c].0.as_str()).collect();
        if !self.empty_columns || header.iter().any(|heading| !heading.is_empty()) {
            text.push_str(&dim(&self.line(&header, &used, &widths)));
            text.push('\n');
        }
        for row in &self.rows {
            let cells = used.iter().zip(&widths).map(|(c, width)| {
                let cell = row.get(*c).map_or("", String::as_str);
                if self.columns[*c].1 == Align::Wrapped { wrapped(cell, *width) } else { vec![cell.to_owned()] }
            });
            let cells: Vec<Vec<String>> = cells.collect();
            for line in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
                let cells: Vec<&str> = cells.iter().map(|cell| cell.get(line).map_or("", String::as_str)).collect();
                text.push_str(&self.line(&cells, &used, &widths));
                text.push('\n');
            }
        }
        text
    }

    fn width_of(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width());
        cells.chain([self.columns[column].0.width()]).max().unwrap_or(0)
    }

    fn fit(&self, used: &[usize], widths: &mut [usize], width: usize) {
        let whole = (self.indent + widths.iter().map(|w| w + 2).sum::<usize>()).saturating_sub(2);
        let mut over = whole.saturating_sub(width);
        if let Some(at) = used.iter().rposition(|c| self.columns[*c].1 == Align::Flexible) {
            let narrower = widths[at].saturating_sub(over).max(MIN_FLEXIBLE.min(widths[at]));
            over -= widths[at] - narrower;
            widths[at] = narrower;
        }
        let least = |c: usize| MIN_FLEXIBLE.max(self.columns[c].0.width());
        while over > 0 {
            let wrapped = (0..used.len()).filter(|at| self.columns[used[*at]].1 == Align::Wrapped);
            let widest = wrapped.filter(|at| widths[*at] > least(used[*at])).max_by_key(|at| widths[*at]);
            let Some(widest) = widest else { return };
            widths[widest] -= 1;
            over -= 1;
        }
    }

    fn line(&self, cells: &[&str], used: &[usize], widths: &[usize]) -> String {
        let mut line = " ".repeat(self.indent);
        for (at, ((cell, column), width)) in cells.iter().zip(used).zip(widths).enumerate() {
            let cell = cut(cell, *width);
            let padding = " ".repeat(width.saturating_sub(cell.width()));
            line.push_str(if at == 0 { "" } else { "  " });
            match self.columns[*column].1 {
                Align::Right => line.extend([padding.as_str(), cell.as_str()]),
                Align::Left | Align::Flexible | Align::Wrapped => line.extend([cell.as_str(), padding.as_str()]),
            }
        }
        line.trim_end().to_owned()
    }
}

/// The beginning of a text that is no wider, and the rest.
fn split(text: &str, width: usize) -> (&str, &str) {
    let mut taken = 0;
    let end = text.char_indices().find(|(_, c)| {
        taken += c.width().unwrap_or(0);
        taken > width
    });
    text.split_at(end.map_or(text.len(), |(at, _)| at))
}

/// A text that is no wider: its end is left out.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    format!("{}…", split(text, width.saturating_sub(1)).0)
}

/// The lines of a text, broken at spaces; a word that is wider than a line, anywhere.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = text;
    while rest.width() > width {
        let (line, after) = split(rest, width.max(2));
        let at_space = if after.starts_with(' ') { Some(line.len()) } else { line.rfind(' ').filter(|at| *at > 0) };
        let (line, after) = rest.split_at(at_space.unwrap_or(line.len()));
        lines.push(line.trim_end().to_owned());
        rest = after.trim_start();
    }
    lines.push(rest.to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        text.to_owned()
    }

    #[test]
    fn numbers_stand_to_the_right_and_empty_columns_are_left_out() {
        let mut table = Table::new(&[("total", Align::Right), ("layer", Align::Left), ("name", Align::Flexible)]);
        table.row(vec!["1.00 ms".into(), String::new(), "a".into()]);
        table.row(vec!["9 ns".into(), String::new(), "bb".into()]);
        assert_eq!(table.render(None, plain), "    total  name\n  1.00 ms  a\n     9 ns  bb\n");
    }

    #[test]
    fn the_flexible_column_is_cut_to_the_width() {
        let mut table = Table::new(&[("name", Align::Flexible), ("n", Align::Right)]);
        table.row(vec!["a_very_long_name_of_an_operator".into(), "1".into()]);
        let text = table.render(Some(22), plain);
        assert_eq!(text.lines().nth(1), Some("  a_very_long_name…  1"));
        assert!(text.lines().all(|l| l.chars().count() <= 22));
    }

    #[test]
    fn no_text_of_a_trace_acts_on_the_terminal() {
        let mut table = Table::new(&[("name", Align::Flexible)]);
        table.row(vec!["\u{1b}[31mred\nline\u{202e}".into()]);
        let text = table.render(None, plain);
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'));
        assert_eq!(text.lines().count(), 2);
    }

    #[test]
    fn a_listing_wraps_its_widest_columns() {
        let mut table = Table::listing(&["name", ">n", "text"], 1);
        table.row(vec!["a".into(), "1".into(), "some words that are too long for it".into()]);
        table.row(vec!["b".into(), "22".into(), String::new()]);
        let text = table.render(Some(26), plain);
        let expected =
            " name   n  text\n a      1  some words that\n           are too long\n           for it\n b     22\n";
        assert_eq!(text, expected);
        assert_eq!(table.render(None, plain).lines().count(), 3);
        let mut unbroken = Table::listing(&["", ""], 0);
        unbroken.row(vec!["x".into(), "a".repeat(30)]);
        let text = unbroken.render(Some(20), plain);
        assert_eq!(text, format!("x  {}\n   {}\n", "a".repeat(17), "a".repeat(13)));
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let mut table = Table::new(&[("name", Align::Flexible), ("n", Align::Right)]);
        table.row(vec!["注意力層".into(), "1".into()]);
        table.row(vec!["abcdefgh".into(), "2".into()]);
        assert_eq!(table.render(None, plain), "  name      n\n  注意力層  1\n  abcdefgh  2\n");
        assert_eq!(wrapped("注意力層", 4), ["注意", "力層"]);
    }
}
