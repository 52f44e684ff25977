//! `profinfer report`: says where the time of a trace went.

use super::{DONE, INCOMPLETE, Outcome, trace_file};
use crate::analysis::{Completeness, Phase, Rules, Statistics, Timeline, Visitor};
use crate::diag::{Code, Diagnostic, Diagnostics, Severity};
use crate::report::{self, By, Look, Options, StepFinder};
use crate::spec;
use crate::trace::{Item, Meta, Origin};
use std::io::{IsTerminal, Write};
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

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let mut reader = trace_file::open(&arguments.file)?;
    let (rules, mut problems) = rules_of(&reader.meta().origin);
    let mut timeline = Timeline::new(&reader.meta().schema, rules, reader.meta().origin.pid);
    let mut visitors = Visitors { statistics: Statistics::default(), step: arguments.step.map(StepFinder::new) };
    while let Some(item) = reader.next() {
        match item {
            Item::Record(record) => timeline.record(record.bytes(), &mut visitors),
            Item::Sites { sites, .. } => timeline.add_sites(sites),
            Item::Notice(notice) => timeline.notice(notice),
            _ => {}
        }
    }
    timeline.finish(&mut visitors);
    let meta = reader.into_meta();
    problems.0.extend(meta.problems.0.iter().cloned());
    if !problems.0.is_empty() {
        super::terminal::report_problems(&problems);
    }
    let completeness = Completeness::judge(&meta, timeline.findings(), &visitors.statistics);
    let code = if completeness.complete { DONE } else { INCOMPLETE };
    let text = match visitors.step {
        Some(finder) => step(arguments, finder, &meta, completeness)?,
        None => whole(arguments, &timeline, &visitors.statistics, &meta, completeness)?,
    };
    print(&text)?;
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

/// The `analysis:` of the probeset that the trace carries. Without it there is still a report.
fn rules_of(origin: &Origin) -> (Rules, Diagnostics) {
    let loaded = match origin.sources.first() {
        None => return (Rules::default(), Diagnostics::new()),
        Some(_) => probeset_rules(origin),
    };
    match loaded {
        Ok(rules) => (rules, Diagnostics::new()),
        Err(mut problems) => {
            for problem in &mut problems.0 {
                problem.severity = Severity::Warning;
            }
            (Rules::default(), problems)
        }
    }
}

fn probeset_rules(origin: &Origin) -> Result<Rules, Diagnostics> {
    let (probeset, _) = spec::from_sources(&origin.sources)?;
    Rules::new(&probeset.analysis)
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

/// A reader that has seen enough (`head`) is no error.
fn print(text: &str) -> Result<(), Diagnostics> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Diagnostic::error(Code::CannotWrite, format!("cannot write the report: {error}")).into())
        }
        _ => Ok(()),
    }
}
