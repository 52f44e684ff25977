//! Tables by columns: Arrow's file format and Parquet, in groups of rows, so that memory does not grow with the table.

use super::{Cell, ColumnKind, RowWriter, Table};
use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use std::io::{self, Write};
use std::sync::Arc;

/// Rows that are put into columns at a time.
const ROWS: usize = 1 << 16;
/// Rows of a group in Parquet, which are in memory until it is written.
const GROUP: usize = 4 * ROWS;

type Out = Box<dyn Write + Send>;

/// A column while it is filled.
enum Filling {
    Int(Int64Builder),
    Float(Float64Builder),
    Bool(BooleanBuilder),
    Text(StringBuilder),
}

impl Filling {
    fn new(kind: ColumnKind) -> Self {
        match kind {
            ColumnKind::Int => Self::Int(Int64Builder::new()),
            ColumnKind::Float => Self::Float(Float64Builder::new()),
            ColumnKind::Bool => Self::Bool(BooleanBuilder::new()),
            ColumnKind::Text => Self::Text(StringBuilder::new()),
        }
    }

    /// A cell of another type than its column's is null.
    fn push(&mut self, cell: Cell<'_>) {
        match (self, cell) {
            (Self::Int(column), Cell::Int(number)) => column.append_value(number),
            (Self::Int(column), _) => column.append_null(),
            (Self::Float(column), Cell::Float(number)) => column.append_value(number),
            (Self::Float(column), _) => column.append_null(),
            (Self::Bool(column), Cell::Bool(value)) => column.append_value(value),
            (Self::Bool(column), _) => column.append_null(),
            (Self::Text(column), Cell::Text(text)) => column.append_value(text),
            (Self::Text(column), _) => column.append_null(),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Int(column) => Arc::new(column.finish()),
            Self::Float(column) => Arc::new(column.finish()),
            Self::Bool(column) => Arc::new(column.finish()),
            Self::Text(column) => Arc::new(column.finish()),
        }
    }
}

/// Rows on their way into columns.
struct Columns {
    schema: Arc<Schema>,
    filling: Vec<Filling>,
    rows: usize,
}

impl Columns {
    fn new(table: &Table) -> Self {
        let kind = |kind: ColumnKind| match kind {
            ColumnKind::Int => DataType::Int64,
            ColumnKind::Float => DataType::Float64,
            ColumnKind::Bool => DataType::Boolean,
            ColumnKind::Text => DataType::Utf8,
        };
        let fields: Vec<Field> = table.columns.iter().map(|c| Field::new(c.name, kind(c.kind), c.nullable)).collect();
        let filling = table.columns.iter().map(|column| Filling::new(column.kind)).collect();
        Self { schema: Arc::new(Schema::new(fields)), filling, rows: 0 }
    }

    /// Takes a row; gives a batch when there are enough.
    fn row(&mut self, cells: &[Cell<'_>]) -> Result<Option<RecordBatch>, ArrowError> {
        self.filling.iter_mut().zip(cells).for_each(|(column, cell)| column.push(*cell));
        self.rows += 1;
        if self.rows < ROWS { Ok(None) } else { self.batch() }
    }

    /// The rows so far; `None` where there are none.
    fn batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        if self.rows == 0 {
            return Ok(None);
        }
        self.rows = 0;
        let columns = self.filling.iter_mut().map(Filling::finish).collect();
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map(Some)
    }
}

/// Arrow's file format.
pub(super) struct Arrow {
    columns: Columns,
    writer: FileWriter<Out>,
}

impl Arrow {
    pub(super) fn new(table: &Table, out: Out) -> io::Result<Self> {
        let columns = Columns::new(table);
        let writer = FileWriter::try_new(out, &columns.schema).map_err(of_arrow)?;
        Ok(Self { columns, writer })
    }
}

impl RowWriter for Arrow {
    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        match self.columns.row(cells).map_err(of_arrow)? {
            Some(batch) => self.writer.write(&batch).map_err(of_arrow),
            None => Ok(()),
        }
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        if let Some(batch) = self.columns.batch().map_err(of_arrow)? {
            self.writer.write(&batch).map_err(of_arrow)?;
        }
        self.writer.finish().map_err(of_arrow)?;
        self.writer.get_mut().flush()
    }
}

/// Parquet, compressed with Snappy, which every reader has.
pub(super) struct Parquet {
    columns: Columns,
    writer: ArrowWriter<Out>,
}

impl Parquet {
    pub(super) fn new(table: &Table, out: Out) -> io::Result<Self> {
        let columns = Columns::new(table);
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_max_row_group_row_count(Some(GROUP))
            .build();
        let schema = Arc::clone(&columns.schema);
        let writer = ArrowWriter::try_new(out, schema, Some(properties)).map_err(of_parquet)?;
        Ok(Self { columns, writer })
    }
}

impl RowWriter for Parquet {
    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        match self.columns.row(cells).map_err(of_arrow)? {
            Some(batch) => self.writer.write(&batch).map_err(of_parquet),
            None => Ok(()),
        }
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        if let Some(batch) = self.columns.batch().map_err(of_arrow)? {
            self.writer.write(&batch).map_err(of_parquet)?;
        }
        // Not `into_inner`: that loses what writing met.
        self.writer.finish().map_err(of_parquet)?;
        self.writer.inner_mut().flush()
    }
}

fn of_arrow(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        other => io::Error::other(other),
    }
}

/// What writing met is in it.
fn of_parquet(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => error.downcast::<io::Error>().map_or_else(io::Error::other, |error| *error),
        other => io::Error::other(other),
    }
}
