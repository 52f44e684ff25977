//! A table as text: columns aligned by spaces, numbers to the right, one column cut to fit the width. Texts come from
//! traces: nothing in them reaches the terminal that could act on it.

use crate::diag::printable;

/// How a column is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    /// Numbers.
    Right,
    /// Texts.
    Left,
    /// A text that is cut where the table is too wide.
    Flexible,
}

/// Columns are cut to no less than this.
const MIN_FLEXIBLE: usize = 12;

/// A table being made.
#[derive(Debug)]
pub(super) struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With these headings; an empty one has none.
    pub(super) fn new(columns: &[(&str, Align)]) -> Self {
        Self { columns: columns.iter().map(|(name, align)| ((*name).to_owned(), *align)).collect(), rows: Vec::new() }
    }

    /// Adds a row, a cell a column.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.into_iter().map(|cell| printable(&cell)).collect());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table; columns in which no row has anything are left out. `dim` sets the headings.
    pub(super) fn render(&self, width: Option<usize>, dim: impl Fn(&str) -> String) -> String {
        let used: Vec<usize> = (0..self.columns.len())
            .filter(|c| self.rows.iter().any(|row| row.get(*c).is_some_and(|cell| !cell.is_empty())))
            .collect();
        let mut widths: Vec<usize> = used.iter().map(|c| self.width_of(*c)).collect();
        if let Some(width) = width {
            self.fit(&used, &mut widths, width);
        }
        let header: Vec<&str> = used.iter().map(|c| self.columns[*c].0.as_str()).collect();
        let mut text = dim(&self.line(&header, &used, &widths));
        text.push('\n');
        for row in &self.rows {
            let cells: Vec<&str> = used.iter().map(|c| row.get(*c).map_or("", String::as_str)).collect();
            text.push_str(&self.line(&cells, &used, &widths));
            text.push('\n');
        }
        text
    }

    fn width_of(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([self.columns[column].0.chars().count()]).max().unwrap_or(0)
    }

    fn fit(&self, used: &[usize], widths: &mut [usize], width: usize) {
        let whole: usize = widths.iter().map(|w| w + 2).sum();
        let over = whole.saturating_sub(width);
        if let Some(at) = used.iter().rposition(|c| self.columns[*c].1 == Align::Flexible) {
            widths[at] = widths[at].saturating_sub(over).max(MIN_FLEXIBLE.min(widths[at]));
        }
    }

    fn line(&self, cells: &[&str], used: &[usize], widths: &[usize]) -> String {
        let mut line = String::new();
        for ((cell, column), width) in cells.iter().zip(used).zip(widths) {
            let cell = cut(cell, *width);
            let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
            line.push_str("  ");
            match self.columns[*column].1 {
                Align::Right => line.extend([padding.as_str(), cell.as_str()]),
                Align::Left | Align::Flexible => line.extend([cell.as_str(), padding.as_str()]),
            }
        }
        line.trim_end().to_owned()
    }
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
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
}
