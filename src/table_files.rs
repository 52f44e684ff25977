//! The files of a recording's tables: none is there before all are whole.

use profinfer_analysis::{Catalogue, Completeness, Decoder, Step, Visitor};
use profinfer_diagnostics::Diagnostics;
use profinfer_files::output::{Output, OutputKind, Request, cannot_write};
use profinfer_report::{ExportFormat, Exporter, Table};
use profinfer_schema::Origin;
use profinfer_trace::Meta;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

/// Tables while they are written.
#[derive(Debug)]
pub(crate) struct TableFiles {
    exporter: Exporter,
    outputs: Vec<Output>,
    /// For messages.
    first: PathBuf,
}

impl TableFiles {
    /// Opens the file of each table. `place` gives its path, whether it replaces whatever is there, and what was read for
    /// it, which it never replaces.
    pub(crate) fn open(
        tables: impl Iterator<Item = &'static Table>,
        format: ExportFormat,
        origin: &Origin,
        place: impl Fn(&Table) -> (PathBuf, bool, Vec<PathBuf>),
    ) -> Result<Self, Diagnostics> {
        let mut outputs = Vec::new();
        for table in tables {
            let (path, force, inputs) = place(table);
            if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
                fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
            }
            let columns = table.columns.iter().map(|column| column.name).collect();
            let kind = match format {
                ExportFormat::Csv => OutputKind::Csv(columns),
                ExportFormat::Ndjson => OutputKind::Ndjson(columns),
                #[cfg(feature = "columnar")]
                ExportFormat::Arrow | ExportFormat::Parquet => OutputKind::Columnar(columns),
            };
            outputs.push((table.name, path.clone(), Output::create(Request { path, kind, force, inputs })?));
        }
        let first = outputs.first().map(|(_, path, _)| path.clone()).unwrap_or_default();
        let exporter = Exporter::new(format, origin, |table| {
            let output = outputs.iter().find(|(name, ..)| *name == table.name);
            output.map(|(.., output)| Ok(Box::new(BufWriter::new(output.file()?)) as Box<dyn Write + Send>)).transpose()
        });
        let exporter = exporter.map_err(|error| cannot_write(&first, &error))?;
        Ok(Self { exporter, outputs: outputs.into_iter().map(|(.., output)| output).collect(), first })
    }

    /// Writes what remains, and gives the files their names. What reads a pipe may have ended before.
    pub(crate) fn finish(self, meta: &Meta, completeness: &Completeness) -> Result<(), Diagnostics> {
        match self.exporter.finish(meta, completeness) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(cannot_write(&self.first, &error).into()),
            Ok(()) => Ok(self.outputs.into_iter().try_for_each(Output::commit)?),
        }
    }
}

impl Visitor for TableFiles {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) {
        self.exporter.step(step, catalogue, decoder);
    }
}
