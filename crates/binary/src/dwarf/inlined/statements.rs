//! Where statements of the source begin, from the line table: a statement of a copy that begins at two places was put
//! there twice.

use super::Reader;
use gimli::{ColumnType, Unit};
use std::collections::HashMap;
use std::ops::Range;

/// Rows of one unit's line table.
const MAX_ROWS: usize = 1 << 23;
/// The maximum number of statements of one copy.
const MAX_STATEMENTS: usize = 1 << 16;

/// The beginnings of statements in one unit, by address, each with a number for its place in the source.
#[derive(Debug, Default)]
pub(super) struct Statements {
    beginnings: Vec<(u64, u32)>,
}

impl Statements {
    /// Reads a unit's line table; empty where there is none.
    pub(super) fn read(unit: &Unit<Reader<'_>>) -> Self {
        let Some(program) = unit.line_program.clone() else { return Self::default() };
        let mut rows = program.rows();
        let mut numbers: HashMap<(u64, u64, u64), u32> = HashMap::new();
        let mut beginnings = Vec::new();
        for _ in 0..MAX_ROWS {
            let Ok(Some((_, row))) = rows.next_row() else { break };
            let Some(line) = row.line().filter(|_| row.is_stmt() && !row.end_sequence()) else { continue };
            let column = match row.column() {
                ColumnType::LeftEdge => 0,
                ColumnType::Column(column) => column.get(),
            };
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            let number = *numbers.entry((row.file_index(), line.get(), column)).or_insert(next);
            beginnings.push((row.address(), number));
        }
        beginnings.sort_unstable();
        beginnings.dedup();
        Self { beginnings }
    }

    /// Those in some pieces of code.
    pub(super) fn within<'s>(&'s self, pieces: &'s [Range<u64>]) -> impl Iterator<Item = (u64, u32)> + 's {
        let inside = pieces.iter().flat_map(|piece| {
            let first = self.beginnings.partition_point(|(address, _)| *address < piece.start);
            let last = self.beginnings.partition_point(|(address, _)| *address < piece.end);
            self.beginnings.get(first..last).unwrap_or_default().iter().copied()
        });
        inside.take(MAX_STATEMENTS)
    }
}
