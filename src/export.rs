//! `profinfer export`: a trace as tables for other tools.

use super::analyse::analyse;
use super::functions::{self, ProfileFormat};
use super::output::Force;
use super::{DONE, INCOMPLETE, Outcome, terminal, trace_file};
use clap::ValueEnum;
use clap::builder::PossibleValue;
use profinfer_analysis::{Catalogue, Completeness, Decoder, Statistics, Step, Visitor};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use profinfer_files::output::{Output, OutputKind, cannot_write};
use profinfer_report::{ExportFormat, Exporter, TABLES, Table};
use profinfer_schema::Origin;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

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
    /// Write to `TABLE/host=…/run=…/` in the folder, for traces of many machines
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
    let outputs = tables.map(|table| Ok((table.name, place.open(table, arguments, format)?)));
    let outputs = outputs.collect::<Result<Vec<(&str, Output)>, Diagnostics>>()?;
    let exporter = Exporter::new(format, &origin, |table| {
        let output = outputs.iter().find(|(name, _)| *name == table.name);
        output.map(|(_, output)| Ok(Box::new(BufWriter::new(output.file()?)) as Box<dyn Write + Send>)).transpose()
    });
    let exporter = exporter.map_err(|error| cannot_write(&arguments.output, &error))?;
    let mut both = Both { statistics: Statistics::default(), exporter };
    let (timeline, meta, problems) = analyse(reader, &mut both);
    terminal::report_problems(&problems);
    let completeness = Completeness::judge(&meta, timeline.findings(), &both.statistics);
    match both.exporter.finish(&meta, &completeness) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        Err(error) => return Err(cannot_write(&arguments.output, &error).into()),
        Ok(()) => outputs.into_iter().try_for_each(|(_, output)| output.commit())?,
    }
    if !completeness.complete {
        terminal::status(&completeness.verdict);
        return Ok(INCOMPLETE);
    }
    Ok(DONE)
}

/// The exporter, and the visitor that decides whether the trace is complete.
struct Both {
    statistics: Statistics,
    exporter: Exporter,
}

impl Visitor for Both {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) {
        self.statistics.step(step, catalogue, decoder);
        self.exporter.step(step, catalogue, decoder);
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
            let partition = Path::new(&format!("host={}", partition_name(&origin.host.name)))
                .join(format!("run={}-{}", origin.wall_clock_ns, origin.pid));
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

    fn open(&self, table: &Table, arguments: &Arguments, format: ExportFormat) -> Result<Output, Diagnostics> {
        let path = self.path(table);
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
        Ok(Output::create(arguments.force.request(&path, kind, &[&arguments.file]))?)
    }
}

/// A machine's name as a part of a path that readers take apart: a trace may call its machine anything.
fn partition_name(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    let name: String = name.chars().take(64).map(safe).collect();
    if name.trim_matches('.').is_empty() { "unknown".to_owned() } else { name }
}

fn table(name: &str) -> Result<&'static Table, String> {
    TABLES.iter().find(|table| table.name == name).ok_or_else(|| {
        let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
        format!("there are {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_of_a_machine_leads_out_of_the_folder() {
        let names =
            [("node-1.lan", "node-1.lan"), ("../..", ".._.."), ("..", "unknown"), ("", "unknown"), ("a/b=c", "a_b_c")];
        for (name, expected) in names {
            assert_eq!(partition_name(name), expected);
        }
    }
}
