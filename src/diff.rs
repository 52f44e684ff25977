//! `profinfer diff`: where two traces differ, and whether that is more than noise.

use super::analyse::analyse;
use super::output::{Force, write_whole};
use super::{DONE, INCOMPLETE, Outcome, SLOWER, terminal, trace_file};
use profinfer_analysis::{Catalogue, Completeness, Decoder, Series, Statistics, Step, Timeline, Visitor};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use profinfer_files::output::OutputKind;
use profinfer_report::{DiffReport, DiffSide, diff, diff_html, diff_text};
use profinfer_trace::Meta;
use std::path::{Path, PathBuf};

/// Smaller differences are ignored where `--noise` does not say.
const NOISE: f64 = 0.02;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The first trace, the reference
    a: PathBuf,
    /// The second trace, compared with the first
    b: PathBuf,
    /// Print JSON; `docs/diff.md` documents its keys
    #[arg(long)]
    json: bool,
    /// Write an HTML page to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Exit with 5 if a phase, a single operator or a single layer is significantly slower by more than this
    #[arg(long, value_name = "PERCENT", value_parser = super::values::percentage)]
    fail_above: Option<f64>,
    /// Ignore smaller differences: the variation between two equal runs
    #[arg(long, value_name = "PERCENT", value_parser = super::values::percentage, default_value = "2%")]
    noise: f64,
    /// A further run of A, to measure the variation of each row (repeatable)
    #[arg(long, value_name = "FILE")]
    again: Vec<PathBuf>,
    /// Rows of each table
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    #[command(flatten)]
    force: Force,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    if arguments.a.as_os_str() == "-" && arguments.b.as_os_str() == "-" {
        let problem = Diagnostic::error(Code::BadArgument, "standard input can be one trace only");
        return Err(problem.hint("give a file for at least one of the traces").into());
    }
    let (a, b) = (Read::new(&arguments.a)?, Read::new(&arguments.b)?);
    let again: Vec<Read> = arguments.again.iter().map(|path| Read::new(path)).collect::<Result<_, _>>()?;
    let again: Vec<&Series> = again.iter().map(|read| &read.gathered.series).collect();
    let limits = (arguments.noise, arguments.fail_above);
    let report = diff(&a.side(&arguments.a), &b.side(&arguments.b), &again, limits);
    if let Some(path) = &arguments.html {
        let inputs = [&arguments.a, &arguments.b].into_iter().chain(&arguments.again);
        let inputs: Vec<&Path> = inputs.map(PathBuf::as_path).collect();
        write_whole(arguments.force.request(path, OutputKind::Page, &inputs), diff_html(&report).as_bytes())?;
    }
    if arguments.json {
        let written = serde_json::to_string_pretty(&report).map(|text| text + "\n");
        let text = written.map_err(|error| Diagnostic::error(Code::Bug, format!("cannot write JSON: {error}")))?;
        terminal::write_json(&text)?;
    } else {
        terminal::write_styled(&diff_text(&report, &terminal::text_style(arguments.top)))?;
    }
    let complete = report.a.completeness.complete && report.b.completeness.complete;
    Ok(match (report.failures.is_empty(), complete) {
        (false, _) => SLOWER,
        (true, false) => INCOMPLETE,
        (true, true) => DONE,
    })
}

/// What `diff A B` says of two traces.
pub(crate) fn traces(a: &Path, b: &Path) -> Result<DiffReport, Diagnostics> {
    let (read_a, read_b) = (Read::new(a)?, Read::new(b)?);
    Ok(diff(&read_a.side(a), &read_b.side(b), &[], (NOISE, None)))
}

/// A trace that was read.
struct Read {
    meta: Meta,
    completeness: Completeness,
    gathered: Gathered,
    timeline: Timeline,
}

/// Data collected while a trace is read.
#[derive(Default)]
struct Gathered {
    statistics: Statistics,
    series: Series,
}

impl Visitor for Gathered {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) {
        self.statistics.step(step, catalogue, decoder);
        self.series.step(step, catalogue, decoder);
    }
}

impl Read {
    fn new(path: &Path) -> Result<Self, Diagnostics> {
        let mut gathered = Gathered::default();
        let (timeline, meta, problems) = analyse(trace_file::open(path)?, &mut gathered);
        terminal::report_problems(&problems);
        gathered.series.name_types(timeline.rules());
        let completeness = Completeness::judge(&meta, timeline.findings(), &gathered.statistics);
        Ok(Self { meta, completeness, gathered, timeline })
    }

    fn side(&self, path: &Path) -> DiffSide<'_> {
        DiffSide {
            name: path.display().to_string(),
            meta: &self.meta,
            completeness: self.completeness.clone(),
            statistics: &self.gathered.statistics,
            series: &self.gathered.series,
            timeline: &self.timeline,
        }
    }
}
