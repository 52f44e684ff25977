//! `profinfer export`: a trace as tables for other tools.

use super::analyse::analyse;
use super::functions::{self, ProfileFormat};
use super::output::Force;
use super::partition::partition;
use super::table_files::TableFiles;
use super::{DONE, INCOMPLETE, Outcome, terminal, trace_file};
use clap::ValueEnum;
use clap::builder::PossibleValue;
use profinfer_analysis::{Catalogue, Completeness, Decoder, Statistics, Step, Visitor};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use profinfer_report::{ExportFormat, TABLES, Table};
use profinfer_schema::Origin;
use std::path::PathBuf;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The trace; `-` is standard input
    file: PathBuf,
    /// Write one file per table to this folder; a single table or a profile to this file (with an extension), or `-`
    /// (standard output)
    #[arg(short, long, value_name = "FOLDER")]
    output: PathBuf,
    /// Format of the files
    #[arg(long, value_enum, default_value_t = Format::Tables(ExportFormat::Csv))]
    format: Format,
    /// Only these tables, separated by commas; `docs/export.md` lists their columns (default: all)
    #[arg(long, value_delimiter = ',', value_parser = table)]
    table: Vec<&'static Table>,
    /// Write to `TABLE/date=…/host=…/engine=…/run=…/` in the folder, for traces of many machines
    #[arg(long)]
    partitioned: bool,
    #[command(flatten)]
    force: Force,
}

/// A format of tables, or of profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Tables(ExportFormat),
    Profile(ProfileFormat),
}

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self::Tables(ExportFormat::Csv),
            Self::Tables(ExportFormat::Ndjson),
            #[cfg(feature = "columnar")]
            Self::Tables(ExportFormat::Arrow),
            #[cfg(feature = "columnar")]
            Self::Tables(ExportFormat::Parquet),
            Self::Profile(ProfileFormat::Pprof),
            Self::Profile(ProfileFormat::Speedscope),
            Self::Profile(ProfileFormat::Folded),
            Self::Profile(ProfileFormat::PerfettoCallstacks),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Tables(format) => format.to_possible_value(),
            Self::Profile(format) => format.to_possible_value(),
        }
    }
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    match arguments.format {
        Format::Tables(format) => tables(arguments, format),
        Format::Profile(_) if arguments.partitioned || !arguments.table.is_empty() => {
            let message = "a profile is one file, without tables";
            Err(Diagnostic::error(Code::BadArgument, message).hint("leave out --table and --partitioned").into())
        }
        Format::Profile(format) => functions::export(&arguments.file, &arguments.output, format, arguments.force),
    }
}

fn tables(arguments: &Arguments, format: ExportFormat) -> Outcome {
    let reader = trace_file::open(&arguments.file)?;
    let origin = reader.meta().origin.clone();
    let place = Destination::new(arguments, format, &origin)?;
    let wanted = |table: &Table| arguments.table.is_empty() || arguments.table.iter().any(|of| of.name == table.name);
    let tables = TABLES.iter().filter(|table| wanted(table));
    let files = TableFiles::open(tables, format, &origin, |table| {
        (place.path(table), arguments.force.is_forced, vec![arguments.file.clone()])
    })?;
    let mut both = Both { statistics: Statistics::default(), files };
    let (timeline, meta, problems) = analyse(reader, &mut both);
    terminal::report_problems(&problems);
    let completeness = Completeness::judge(&meta, timeline.findings(), &both.statistics);
    both.files.finish(&meta, &completeness)?;
    if !completeness.complete {
        terminal::status(&completeness.verdict);
        return Ok(INCOMPLETE);
    }
    Ok(DONE)
}

/// The exporter, and the visitor that decides whether the trace is complete.
struct Both {
    statistics: Statistics,
    files: TableFiles,
}

impl Visitor for Both {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) {
        self.statistics.step(step, catalogue, decoder);
        self.files.step(step, catalogue, decoder);
    }
}

/// Where the tables go.
enum Destination {
    Folder { folder: PathBuf, extension: &'static str },
    Partition { folder: PathBuf, partition: PathBuf, extension: &'static str },
    File(PathBuf),
}

impl Destination {
    fn new(arguments: &Arguments, format: ExportFormat, origin: &Origin) -> Result<Self, Diagnostics> {
        let (output, extension) = (arguments.output.clone(), format.extension());
        let is_file =
            output.as_os_str() == "-" || (output.extension().is_some() || output.exists()) && !output.is_dir();
        if is_file && (arguments.partitioned || arguments.table.len() != 1) {
            let message = format!("`{}` is one file, and the export has several tables", output.display());
            let hint = "give a folder, or select one table, such as `--table operators`";
            return Err(Diagnostic::error(Code::BadArgument, message).hint(hint).into());
        }
        if arguments.partitioned {
            let partition = partition(origin, origin.wall_clock_ns);
            return Ok(Self::Partition { folder: output, partition, extension });
        }
        Ok(if is_file { Self::File(output) } else { Self::Folder { folder: output, extension } })
    }

    fn path(&self, table: &Table) -> PathBuf {
        match self {
            Self::Folder { folder, extension } => folder.join(format!("{}.{extension}", table.name)),
            Self::Partition { folder, partition, extension } => {
                folder.join(table.name).join(partition).join(format!("{}.{extension}", table.name))
            }
            Self::File(path) => path.clone(),
        }
    }
}

fn table(name: &str) -> Result<&'static Table, String> {
    TABLES.iter().find(|table| table.name == name).ok_or_else(|| {
        let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
        format!("there are {}", names.join(", "))
    })
}
