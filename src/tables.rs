//! `serve --tables`: what is recorded as tables in a folder, one set of files after the other, for those who compare many
//! machines. What fails here is told, and ends nothing.

use super::partition::partition;
use super::table_files::TableFiles;
use super::terminal::status;
use super::values;
use profinfer_analysis::{Catalogue, Completeness, Decoder, Findings, Statistics, Step, Visitor};
use profinfer_diagnostics::{Diagnostics, printable};
use profinfer_files::output::cannot_write;
use profinfer_report::{ExportFormat, TABLES, Table};
use profinfer_schema::Origin;
use profinfer_trace::Meta;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The tables that are written: others are as large as these together for each operator.
const WRITTEN: [&str; 3] = ["runs", "steps", "operators"];
/// A run has one row here, which later ones replace.
const RUNS: &str = "runs";
/// Compressed columns, if this program has them.
#[cfg(feature = "columnar")]
const FORMAT: ExportFormat = ExportFormat::Parquet;
#[cfg(not(feature = "columnar"))]
const FORMAT: ExportFormat = ExportFormat::Ndjson;

/// Whether tables are written, and where.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TableArguments {
    /// Write tables of the steps and operators to this folder, for DuckDB or Spark: Parquet, or NDJSON from a build without
    /// the feature `columnar`, in `TABLE/date=…/host=…/engine=…/run=…/`
    #[arg(long, value_name = "FOLDER")]
    tables: Option<PathBuf>,
    /// Begin new files of tables so often
    #[arg(long, value_name = "DURATION", value_parser = values::duration, default_value = "1h", requires = "tables")]
    tables_interval: Duration,
}

/// Where tables go.
#[derive(Debug)]
pub(crate) struct TableFolder {
    folder: PathBuf,
    interval_ns: u64,
}

impl TableArguments {
    /// Where tables go; `None` where none are wanted.
    pub(crate) fn folder(&self) -> Result<Option<Arc<TableFolder>>, Diagnostics> {
        let Some(folder) = &self.tables else { return Ok(None) };
        std::fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
        let interval_ns = u64::try_from(self.tables_interval.as_nanos()).unwrap_or(u64::MAX).max(1_000_000_000);
        Ok(Some(Arc::new(TableFolder { folder: folder.clone(), interval_ns })))
    }
}

/// The tables of one recording.
pub(crate) struct Tables {
    to: Arc<TableFolder>,
    origin: Origin,
    statistics: Statistics,
    /// The files that are written; none before there is a step.
    files: Option<TableFiles>,
    /// When these are to end, ns of UNIX time.
    until: u64,
    has_failed: bool,
}

impl Tables {
    pub(crate) fn new(to: &Arc<TableFolder>, origin: &Origin) -> Self {
        let (to, statistics) = (Arc::clone(to), Statistics::default());
        Self { to, origin: origin.clone(), statistics, files: None, until: 0, has_failed: false }
    }

    /// CLOCK_MONOTONIC as UNIX time, ns.
    fn unix(&self, monotonic: u64) -> u64 {
        self.origin.wall_clock_ns.saturating_add(monotonic.saturating_sub(self.origin.monotonic_ns))
    }

    /// Begins new files, for what was recorded from this time on, ns of UNIX time.
    fn open(&mut self, from: u64) -> Result<TableFiles, Diagnostics> {
        let interval = self.to.interval_ns;
        self.until = (from / interval).saturating_add(1).saturating_mul(interval);
        let place = |table: &Table| {
            // A run's row has one place, on whatever day it is written again: that of its beginning.
            let (part, day) = match table.name {
                RUNS => (String::new(), self.origin.wall_clock_ns),
                _ => (format!("-{from}"), from),
            };
            let file = format!("{}{part}.{}", table.name, FORMAT.extension());
            let folder = self.to.folder.join(table.name).join(partition(&self.origin, day));
            (folder.join(file), false, Vec::new())
        };
        let tables = TABLES.iter().filter(|table| WRITTEN.contains(&table.name));
        TableFiles::open(tables, FORMAT, &self.origin, place)
    }

    /// Ends the files, if it is time. `now` is of CLOCK_MONOTONIC, ns.
    pub(crate) fn flush(&mut self, meta: &Meta, findings: &Findings, now: u64) {
        if self.unix(now) >= self.until {
            self.finish(meta, findings);
        }
    }

    /// Ends the files, whatever time it is.
    pub(crate) fn finish(&mut self, meta: &Meta, findings: &Findings) {
        let Some(files) = self.files.take() else { return };
        let finished = files.finish(meta, &Completeness::judge(meta, findings, &self.statistics));
        self.tell(finished.err());
    }

    /// One line when it begins to fail, and one when it works again.
    fn tell(&mut self, problems: Option<Diagnostics>) {
        match &problems {
            Some(problems) if !self.has_failed => {
                problems.0.iter().for_each(|problem| status(&format!("tables: {}", printable(&problem.message))));
            }
            None if self.has_failed => status("tables are written again"),
            _ => {}
        }
        self.has_failed = problems.is_some();
    }
}

impl Visitor for Tables {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) {
        self.statistics.step(step, catalogue, decoder);
        let start = self.unix(step.start);
        // After a failure nothing is tried before the next interval.
        if self.files.is_none() && (!self.has_failed || start >= self.until) {
            // Steps are read after their time: files of the time before are not begun anew.
            match self.open(start.max(self.until)) {
                Ok(files) => self.files = Some(files),
                Err(problems) => self.tell(Some(problems)),
            }
        }
        if let Some(files) = &mut self.files {
            files.step(step, catalogue, decoder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profinfer_schema::{End, Schema};
    use profinfer_trace::{TraceReader, TraceWriter};
    use std::path::Path;

    fn files(folder: &Path) -> usize {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| if path.is_dir() { files(&path) } else { 1 }).sum()
    }

    #[test]
    fn a_run_over_midnight_is_one_run() {
        let folder = tempfile::tempdir().unwrap();
        let midnight = 20_000 * 86_400_000_000_000;
        let origin = Origin { engine: "e".into(), wall_clock_ns: midnight - 1, ..Origin::default() };
        let trace = TraceWriter::new(Vec::new(), &origin, &Schema::default()).unwrap();
        let trace = trace.finish(&End::default()).unwrap();
        let reader = TraceReader::new(&trace[..]).unwrap();
        let to = TableFolder { folder: folder.path().to_owned(), interval_ns: 1_000_000_000 };
        let mut tables = Tables::new(&Arc::new(to), &origin);
        let findings = Findings::default();
        for from in [midnight - 1, midnight + 1, midnight + 5_000_000_000] {
            tables.files = Some(tables.open(from).unwrap());
            tables.finish(reader.meta(), &findings);
            assert!(!tables.has_failed);
        }
        let of = |table: &str| files(&folder.path().join(table));
        assert_eq!((of("runs"), of("steps"), of("operators")), (1, 3, 3));
    }
}
