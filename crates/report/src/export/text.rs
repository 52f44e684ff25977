//! Tables as text: CSV and NDJSON.

use super::{Cell, RowWriter, Table};
use profinfer_diagnostics::printable_json;
use std::io::{self, BufWriter, Write};

/// Comma-separated values: a header, `\n`, quotes where needed; nothing between commas is null.
pub(super) struct Csv {
    writer: csv::Writer<Box<dyn Write + Send>>,
    text: String,
}

impl Csv {
    pub(super) fn new(table: &Table, out: Box<dyn Write + Send>) -> io::Result<Self> {
        let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(out);
        writer.write_record(table.columns.iter().map(|column| column.name)).map_err(of_csv)?;
        Ok(Self { writer, text: String::new() })
    }
}

impl RowWriter for Csv {
    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        use std::fmt::Write;
        for cell in cells {
            self.text.clear();
            let text = match cell {
                Cell::Null => "",
                Cell::Text(text) if is_formula(text) => {
                    self.text.push('\'');
                    self.text.push_str(text);
                    &self.text
                }
                Cell::Text(text) => text,
                Cell::Bool(true) => "true",
                Cell::Bool(false) => "false",
                Cell::Int(number) => {
                    let _ = write!(self.text, "{number}");
                    &self.text
                }
                Cell::Float(number) => {
                    let _ = write!(self.text, "{number}");
                    &self.text
                }
            };
            self.writer.write_field(text).map_err(of_csv)?;
        }
        self.writer.write_record(None::<&[u8]>).map_err(of_csv)
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.writer.flush()
    }
}

/// What writing met stays what it is: a pipe that is closed is no error, and a full disk is named.
fn of_csv(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// Whether a spreadsheet would run a text rather than show it. A number is none.
fn is_formula(text: &str) -> bool {
    text.starts_with(['=', '+', '@', '-', '\t', '\r']) && text.parse::<f64>().is_err()
}

/// One JSON object a line; every key is there, `null` where there is no value.
pub(super) struct Ndjson {
    out: BufWriter<Box<dyn Write + Send>>,
    /// `{"step":`, `,"phase":`…
    keys: Vec<String>,
}

impl Ndjson {
    pub(super) fn new(table: &Table, out: Box<dyn Write + Send>) -> Self {
        let key = |(at, name): (usize, &str)| format!("{}\"{name}\":", if at == 0 { '{' } else { ',' });
        Self { out: BufWriter::new(out), keys: table.columns.iter().map(|c| c.name).enumerate().map(key).collect() }
    }
}

impl RowWriter for Ndjson {
    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        for (key, cell) in self.keys.iter().zip(cells) {
            self.out.write_all(key.as_bytes())?;
            match cell {
                Cell::Null => self.out.write_all(b"null")?,
                Cell::Int(number) => write!(self.out, "{number}")?,
                Cell::Float(number) => serde_json::to_writer(&mut self.out, number)?,
                Cell::Bool(value) => write!(self.out, "{value}")?,
                Cell::Text(text) => self.out.write_all(printable_json(&serde_json::to_string(text)?).as_bytes())?,
            }
        }
        self.out.write_all(b"}\n")
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.out.flush()
    }
}
