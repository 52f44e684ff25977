//! `profinfer report`: shows where the time of a trace went.

use super::analyse::analyse;
use super::phase::PhaseName;
use super::{DONE, INCOMPLETE, Outcome, diff, functions, terminal, trace_file};
use profinfer_analysis::{Completeness, Phase, Profile, Statistics, Timeline, Visitor};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use profinfer_report::{self as report, By, Options, Selection, StepFinder, TextStyle};
use profinfer_schema::Sample;
use profinfer_trace::Meta;
use std::path::{Path, PathBuf};

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The trace; `-` is standard input
    file: PathBuf,
    /// Print JSON; `docs/report.md` documents its keys
    #[arg(long)]
    json: bool,
    /// Show every section, not only the first screen
    #[arg(long, conflicts_with_all = ["by", "step"])]
    all: bool,
    /// Grouping of the main table
    #[arg(long, value_enum)]
    by: Option<By>,
    /// Show one step: its operators in the order of execution, lane by lane
    #[arg(long, value_name = "N", conflicts_with_all = ["by", "phase"])]
    step: Option<u64>,
    /// Maximum number of rows of the main table
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Show tables of one phase only
    #[arg(long, value_enum)]
    phase: Option<PhaseName>,
    /// With `--by function`: only samples in operators of this type, name or `layer N`; or `outside operators`, `outside
    /// graphs`, `outside steps`
    #[arg(long, value_name = "OPERATOR", conflicts_with = "step")]
    within: Option<String>,
}

impl Arguments {
    /// The trace, where its engines can be shown one after the other.
    pub(crate) fn file(&self) -> Option<&Path> {
        (!self.json && self.file.as_os_str() != "-").then_some(self.file.as_path())
    }
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    if arguments.by == Some(By::Function) {
        let selection = Selection { phase: arguments.phase.map(Phase::from), within: arguments.within.clone() };
        return functions::run(&arguments.file, &selection, arguments.json, arguments.top);
    }
    if arguments.within.is_some() {
        let message = "`--within` selects timer samples";
        return Err(Diagnostic::error(Code::BadArgument, message).hint("add `--by function`").into());
    }
    let reader = trace_file::open(&arguments.file)?;
    let mut visitors = Visitors {
        statistics: Statistics::default(),
        profile: functions::profile(reader.meta()),
        step: arguments.step.map(StepFinder::new),
    };
    let (timeline, meta, problems) = analyse(reader, &mut visitors);
    visitors.profile.finish();
    terminal::report_problems(&problems);
    let completeness = Completeness::judge(&meta, timeline.findings(), &visitors.statistics);
    let code = if completeness.complete { DONE } else { INCOMPLETE };
    let text = match visitors.step {
        Some(finder) => step(arguments, finder, &meta, completeness)?,
        None => whole(arguments, &timeline, (&visitors.statistics, &visitors.profile), &meta, completeness)?,
    };
    if arguments.json {
        terminal::write_json(&text)?
    } else {
        terminal::write_styled(&text)?
    }
    Ok(code)
}

/// Statistics and samples of all, and one step if it is wanted.
struct Visitors {
    statistics: Statistics,
    profile: Profile,
    step: Option<StepFinder>,
}

impl Visitor for Visitors {
    fn step(
        &mut self,
        step: &profinfer_analysis::Step,
        catalogue: &profinfer_analysis::Catalogue,
        decoder: &profinfer_analysis::Decoder,
    ) {
        self.statistics.step(step, catalogue, decoder);
        self.profile.step(step, catalogue, decoder);
        if let Some(finder) = &mut self.step {
            finder.step(step, catalogue, decoder);
        }
    }

    fn samples(&mut self, samples: &[Sample]) {
        self.profile.samples(samples);
    }
}

fn whole(
    arguments: &Arguments,
    timeline: &Timeline,
    (statistics, profile): (&Statistics, &Profile),
    meta: &Meta,
    completeness: Completeness,
) -> Result<String, Diagnostics> {
    let is_first_screen = !arguments.json && !arguments.all && arguments.by.is_none();
    let is_first_screen = is_first_screen && arguments.top.is_none() && arguments.phase.is_none();
    let has_operators = |phase: &Phase| statistics.phase(*phase).is_some_and(|totals| totals.operators > 0);
    let recurring = Phase::STEPS.into_iter().filter(|phase| phase.recurs()).find(has_operators);
    let of_screen = arguments.phase.map(Phase::from).or(recurring.filter(|_| is_first_screen));
    let samples = functions::sampled_work(meta, timeline, profile);
    let by = arguments.by.unwrap_or_default();
    let options = Options { by, top: arguments.top, phase: of_screen, samples: samples.as_ref() };
    let mut report = report::build(meta, completeness, statistics, timeline, &options);
    if let Some(kept) = &mut report.kept
        && let Some(before) = kept.before.as_deref().and_then(|name| beside(&arguments.file, name))
    {
        kept.compare(&diff::traces(&before, &arguments.file)?);
    }
    if arguments.json {
        json(&report)
    } else if is_first_screen {
        Ok(report::first_screen_text(&report, &terminal::text_style(None)))
    } else {
        Ok(report::report_text(
            &report,
            &TextStyle { main_only: arguments.by.is_some(), ..terminal::text_style(arguments.top) },
        ))
    }
}

/// The trace of that name in the folder of another, if it is there.
fn beside(file: &Path, name: &str) -> Option<PathBuf> {
    let is_name = Path::new(name).file_name().is_some_and(|of| of == name);
    (is_name && file.as_os_str() != "-").then(|| file.with_file_name(name)).filter(|path| path.is_file())
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
        let hint = if steps == 0 { "it has no steps".to_owned() } else { format!("the trace has steps 1 to {steps}") };
        return Err(Diagnostic::error(Code::BadArgument, message).hint(hint).into());
    };
    if arguments.json {
        json(&report)
    } else {
        Ok(report::step_text(
            &report,
            &TextStyle { main_only: arguments.by.is_some(), ..terminal::text_style(arguments.top) },
        ))
    }
}

/// A report as JSON.
pub(crate) fn json(report: &impl serde::Serialize) -> Result<String, Diagnostics> {
    let written = serde_json::to_string_pretty(report).map(|text| text + "\n");
    written.map_err(|error| Diagnostic::error(Code::Bug, format!("cannot write JSON: {error}")).into())
}
