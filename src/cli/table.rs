//! Tables of aligned columns without lines, as wide as the terminal.

use crate::diag::printable;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// A table of text columns; a column whose header starts with `>` is aligned to the right.
pub(crate) fn columns(headers: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(headers.iter().map(|header| header.trim_start_matches('>')));
    // Before widths are counted, so that columns stay aligned.
    table.add_rows(rows.into_iter().map(|row| row.iter().map(|cell| printable(cell)).collect::<Vec<_>>()));
    for (index, header) in headers.iter().enumerate() {
        if let Some(column) = table.column_mut(index) {
            column.set_padding((0, 2));
            if header.starts_with('>') {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
    }
    table.trim_fmt() + "\n"
}
