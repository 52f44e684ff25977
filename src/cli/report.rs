//! `profinfer report`: says where the time of a trace went.

use super::analyse::analyse;
use super::{DONE, INCOMPLETE, Outcome, terminal, trace_file};
use crate::analysis::{Completeness, Phase, Statistics, Timeline, Visitor};
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::report::{self, By, Look, Options, StepFinder};
use crate::trace::Meta;
use std::io::IsTerminal;
use std::path::PathBuf;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The trace; `-` is standard input
    file: PathBuf,
    /// Print JSON; `docs/report.md` documents its keys
    #[arg(long)]
    json: bool,
    /// What the main table is by
    #[arg(long, value_enum)]
    by: Option<By>,
    /// Show one step: its operators in the order of execution, lane by lane
    #[arg(long, value_name = "N", conflicts_with_all = ["by", "phase"])]
    step: Option<u64>,
    /// Rows of the main table
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Tables of the steps of one phase only
    #[arg(long, value_enum)]
    phase: Option<PhaseName>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum PhaseName {
    /// Steps that take in a prompt
    Prefill,
    /// Steps that make the next token
    Decode,
}

impl Arguments {
    /// The trace, where its engines can be shown one after the other.
    pub(crate) fn file(&self) -> Option<&std::path::Path> {
        (!self.json && self.file.as_os_str() != "-").then_some(self.file.as_path())
    }
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let mut visitors = Visitors { statistics: Statistics::default(), step: arguments.step.map(StepFinder::new) };
    let (timeline, meta, problems) = analyse(trace_file::open(&arguments.file)?, &mut visitors);
    terminal::report_problems(&problems);
    let completeness = Completeness::judge(&meta, timeline.findings(), &visitors.statistics);
    let code = if completeness.complete { DONE } else { INCOMPLETE };
    let text = match visitors.step {
        Some(finder) => step(arguments, finder, &meta, completeness)?,
        None => whole(arguments, &timeline, &visitors.statistics, &meta, completeness)?,
    };
    if arguments.json {
        terminal::write_json(&text)?
    } else {
        terminal::write_styled(&text)?
    }
    Ok(code)
}

/// Statistics of all, and one step if it is wanted.
struct Visitors {
    statistics: Statistics,
    step: Option<StepFinder>,
}

impl Visitor for Visitors {
    fn step(
        &mut self,
        step: &crate::analysis::Step,
        catalogue: &crate::analysis::Catalogue,
        decoder: &crate::analysis::Decoder,
    ) {
        self.statistics.step(step, catalogue, decoder);
        if let Some(finder) = &mut self.step {
            finder.step(step, catalogue, decoder);
        }
    }
}

fn whole(
    arguments: &Arguments,
    timeline: &Timeline,
    statistics: &Statistics,
    meta: &Meta,
    completeness: Completeness,
) -> Result<String, Diagnostics> {
    let phase = arguments.phase.map(|phase| match phase {
        PhaseName::Prefill => Phase::Prefill,
        PhaseName::Decode => Phase::Decode,
    });
    let options = Options { by: arguments.by.unwrap_or_default(), top: arguments.top, phase };
    let report = report::build(meta, completeness, statistics, timeline, &options);
    if arguments.json { json(&report) } else { Ok(report::report_text(&report, &look(arguments))) }
}

fn step(
    arguments: &Arguments,
    finder: StepFinder,
    meta: &Meta,
    completeness: Completeness,
) -> Result<String, Diagnostics> {
    let (number, steps) = (arguments.step.unwrap_or(0), completeness.steps);
    let Some(report) = finder.finish(meta, completeness) else {
        let message = format!("the trace has no step {number}");
        let hint = if steps == 0 { "it has no steps".to_owned() } else { format!("its steps are 1 to {steps}") };
        return Err(Diagnostic::error(Code::BadArgument, message).hint(hint).into());
    };
    if arguments.json { json(&report) } else { Ok(report::step_text(&report, &look(arguments))) }
}

fn look(arguments: &Arguments) -> Look {
    let terminal = std::io::stdout().is_terminal();
    let width = if terminal { comfy_table::Table::new().width().map(usize::from) } else { None };
    let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let main_only = arguments.by.is_some();
    Look { width, colour, top: arguments.top, main_only }
}

fn json(report: &impl serde::Serialize) -> Result<String, Diagnostics> {
    let written = serde_json::to_string_pretty(report).map(|text| text + "\n");
    written.map_err(|error| Diagnostic::error(Code::Bug, format!("cannot write JSON: {error}")).into())
}
