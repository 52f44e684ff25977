//! `profinfer diff`: where two traces differ, and whether that is more than noise.

use super::analyse::analyse;
use super::output::{Force, write_whole};
use super::{DONE, INCOMPLETE, Outcome, SLOWER, terminal, trace_file};
use crate::analysis::{Catalogue, Completeness, Decoder, Series, Statistics, Step, Visitor};
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::output::Kind;
use crate::report::{DiffSide, Look, diff, diff_html, diff_text};
use crate::trace::Meta;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The first trace: what it was before
    a: PathBuf,
    /// The second trace: what it is now
    b: PathBuf,
    /// Print JSON; `docs/diff.md` documents its keys
    #[arg(long)]
    json: bool,
    /// Write a page for a browser to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Exit with 5 if a phase, or one operator alone, makes a step slower by more than this, and that is significant
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_above: Option<f64>,
    /// Let smaller differences pass: what two runs of the same differ by anyway
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "2%")]
    noise: f64,
    /// A further run of A: let pass what it differs from A by, line by line; may be given several times
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
        let problem = Diagnostic::error(Code::BadArgument, "standard input is one trace, not two");
        return Err(problem.hint("give at least one of them as a file").into());
    }
    let (a, b) = (Read::new(&arguments.a)?, Read::new(&arguments.b)?);
    let again: Vec<Read> = arguments.again.iter().map(|path| Read::new(path)).collect::<Result<_, _>>()?;
    let again: Vec<&Series> = again.iter().map(|read| &read.gathered.series).collect();
    let limits = (arguments.noise, arguments.fail_above);
    let report = diff(&a.side(&arguments.a), &b.side(&arguments.b), &again, limits);
    if let Some(path) = &arguments.html {
        let inputs = [&arguments.a, &arguments.b].into_iter().chain(&arguments.again);
        let inputs: Vec<&Path> = inputs.map(PathBuf::as_path).collect();
        write_whole(arguments.force.request(path, Kind::Page, &inputs), diff_html(&report).as_bytes())?;
    }
    if arguments.json {
        let written = serde_json::to_string_pretty(&report).map(|text| text + "\n");
        let text = written.map_err(|error| Diagnostic::error(Code::Bug, format!("cannot write JSON: {error}")))?;
        terminal::write_json(&text)?;
    } else {
        terminal::write_styled(&diff_text(&report, &look(arguments.top)))?;
    }
    let complete = report.a.completeness.complete && report.b.completeness.complete;
    Ok(match (report.failures.is_empty(), complete) {
        (false, _) => SLOWER,
        (true, false) => INCOMPLETE,
        (true, true) => DONE,
    })
}

/// A trace that was read.
struct Read {
    meta: Meta,
    completeness: Completeness,
    gathered: Gathered,
}

/// What is gathered while a trace is read.
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
        Ok(Self { meta, completeness, gathered })
    }

    fn side(&self, path: &Path) -> DiffSide<'_> {
        DiffSide {
            name: path.display().to_string(),
            meta: &self.meta,
            completeness: self.completeness.clone(),
            statistics: &self.gathered.statistics,
            series: &self.gathered.series,
        }
    }
}

fn look(top: Option<usize>) -> Look {
    let terminal = std::io::stdout().is_terminal();
    let width = if terminal { comfy_table::Table::new().width().map(usize::from) } else { None };
    let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    Look { width, colour, top, main_only: false }
}

/// `3%`: a part of a time.
fn percent(text: &str) -> Result<f64, String> {
    let Some(number) = text.trim().strip_suffix('%') else {
        return Err(format!("`{text}` is no part of a time, such as 3%"));
    };
    let percent: f64 = number.trim().parse().map_err(|_| format!("`{number}` is no number"))?;
    if (0.0..=1000.0).contains(&percent) { Ok(percent / 100.0) } else { Err("it must be from 0% to 1000%".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_percent() {
        assert_eq!((percent("3%"), percent("0.5 %"), percent("0%")), (Ok(0.03), Ok(0.005), Ok(0.0)));
        for wrong in ["3", "-1%", "nan%", "1001%", "%", ""] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }
}
