//! `profinfer statistics`: what many steps of a trace together show.

use super::analyse::analyse;
use super::{DONE, INCOMPLETE, Outcome, terminal, trace_file};
use profinfer_analysis::{Catalogue, Completeness, Decoder, Statistics, Step, Study, Visitor};
use profinfer_diagnostics::{Code, Diagnostic};
use profinfer_report::{Options, Section, build, build_statistics, statistics_text};
use std::path::PathBuf;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The trace; `-` is standard input
    file: PathBuf,
    /// Show only these sections
    #[arg(long, value_enum, value_delimiter = ',', value_name = "SECTION")]
    only: Vec<Section>,
    /// Print JSON; `docs/statistics.md` documents its keys
    #[arg(long)]
    json: bool,
}

#[derive(Default)]
struct Visitors {
    statistics: Statistics,
    study: Study,
}

impl Visitor for Visitors {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) {
        self.statistics.step(step, catalogue, decoder);
        self.study.step(step, catalogue, decoder);
    }
}

impl Arguments {
    /// The trace, where its engines can be shown one after the other.
    pub(crate) fn file(&self) -> Option<&std::path::Path> {
        (!self.json && self.file.as_os_str() != "-").then_some(self.file.as_path())
    }
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let mut visitors = Visitors::default();
    let (timeline, meta, problems) = analyse(trace_file::open(&arguments.file)?, &mut visitors);
    terminal::report_problems(&problems);
    let Visitors { statistics, study } = &visitors;
    let completeness = Completeness::judge(&meta, timeline.findings(), statistics);
    let code = if completeness.complete { DONE } else { INCOMPLETE };
    let report = build(&meta, completeness, statistics, &timeline, &Options::default());
    let report = build_statistics(&meta, &report, (statistics, study), &timeline, &arguments.only);
    let text = if arguments.json {
        let written = serde_json::to_string_pretty(&report).map(|text| text + "\n");
        written.map_err(|error| Diagnostic::error(Code::Bug, format!("cannot write JSON: {error}")))?
    } else {
        statistics_text(&report, &terminal::text_style(None))
    };
    if arguments.json {
        terminal::write_json(&text)?
    } else {
        terminal::write_styled(&text)?
    }
    Ok(code)
}
