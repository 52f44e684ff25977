//! Listings of the subcommands: aligned columns without lines, as wide as the terminal.

use super::terminal;
use profinfer_report::TextTable;

/// A table of text columns; a column whose header starts with `>` is aligned to the right.
pub(crate) fn columns(headers: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = TextTable::listing(headers, 0);
    rows.into_iter().for_each(|row| table.row(row));
    rendered(&table)
}

/// A table as the terminal has room for.
pub(crate) fn rendered(table: &TextTable) -> String {
    table.render(terminal::width(), str::to_owned)
}
