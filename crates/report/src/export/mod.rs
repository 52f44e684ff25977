//! A trace as tables for other tools: CSV and NDJSON always, Arrow and Parquet with the feature `columnar`. What the
//! tables are is data ([`tables`]); what fills them is [`Exporter`]; a format has cells, not operators. `docs/export.md`
//! documents every column. Columns are only ever added, at the end.

#[cfg(feature = "columnar")]
mod columnar;
mod offload_rows;
mod rows;
mod tables;
mod text;

pub use rows::Exporter;
pub use tables::{Column, ColumnKind, TABLES, Table};

use std::io::{self, Write};

/// The files' format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum ExportFormat {
    /// Comma-separated values, with a header
    #[default]
    Csv,
    /// One JSON object a line
    Ndjson,
    /// Arrow's file format (Feather)
    #[cfg(feature = "columnar")]
    Arrow,
    /// Parquet
    #[cfg(feature = "columnar")]
    Parquet,
}

impl ExportFormat {
    /// How a file's name ends.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Ndjson => "ndjson",
            #[cfg(feature = "columnar")]
            Self::Arrow => "arrow",
            #[cfg(feature = "columnar")]
            Self::Parquet => "parquet",
        }
    }

    /// Begins a table's file.
    fn begin(self, table: &'static Table, out: Box<dyn Write + Send>) -> io::Result<Box<dyn RowWriter>> {
        Ok(match self {
            Self::Csv => Box::new(text::Csv::new(table, out)?),
            Self::Ndjson => Box::new(text::Ndjson::new(table, out)),
            #[cfg(feature = "columnar")]
            Self::Arrow => Box::new(columnar::Arrow::new(table, out)?),
            #[cfg(feature = "columnar")]
            Self::Parquet => Box::new(columnar::Parquet::new(table, out)?),
        })
    }
}

/// What stands in a column of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cell<'a> {
    /// Not recorded, or there is none.
    Null,
    Int(i64),
    Float(f64),
    Bool(bool),
    Text(&'a str),
}

impl Cell<'_> {
    /// Numbers beyond 63 bits are the largest there is.
    fn int(number: impl TryInto<i64>) -> Self {
        Self::Int(number.try_into().unwrap_or(i64::MAX))
    }
}

impl<'a, T: Into<Cell<'a>>> From<Option<T>> for Cell<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<u64> for Cell<'_> {
    fn from(number: u64) -> Self {
        Self::int(number)
    }
}

impl From<u32> for Cell<'_> {
    fn from(number: u32) -> Self {
        Self::Int(number.into())
    }
}

impl From<f64> for Cell<'_> {
    fn from(number: f64) -> Self {
        if number.is_finite() { Self::Float(number) } else { Self::Null }
    }
}

impl From<bool> for Cell<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl<'a> From<&'a str> for Cell<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

/// Writes rows of one table, a cell a column.
trait RowWriter {
    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()>;

    /// Writes the remaining rows.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

#[cfg(test)]
mod tests;
