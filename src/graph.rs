//! `profinfer graph`: the graph of a step's operators, as text, as a picture, or for programs that read graphs.

use super::analyse::analyse;
use super::output::{Force, write_whole};
use super::phase::PhaseName;
use super::terminal::{report_problems, text_style, write_json, write_styled};
use super::{DONE, Outcome, trace_file};
use profinfer_analysis::{
    Catalogue, Completeness, Decoder, GraphFinder, Phase, Statistics, Step, Study, Visitor, Wanted,
};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, printable_json, printable_lines};
use profinfer_files::output::OutputKind;
use profinfer_report::{self as report, Colour, GraphDifference, GraphReport, Picture, TextStyle};
use std::path::{Path, PathBuf};

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The trace; `-` is standard input
    file: PathBuf,
    /// Show this step (default: the mean of equal steps of decode or runs)
    #[arg(long, value_name = "N", conflicts_with_all = ["steps", "phase"])]
    step: Option<u64>,
    /// Show the mean of these steps that have equal phase, tokens and operators: `10..40`
    #[arg(long, value_name = "N..M", value_parser = super::steps::range)]
    steps: Option<(u64, u64)>,
    /// Show a step of this phase
    #[arg(long, value_enum)]
    phase: Option<PhaseName>,
    /// Format (default: from the extension of `--output`, else text)
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Write to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Show every layer
    #[arg(long, overrides_with = "fold")]
    unfold: bool,
    /// Show equal layers once (the default)
    #[arg(long)]
    fold: bool,
    /// Meaning of the colours
    #[arg(long, value_enum, default_value_t, alias = "colour")]
    color: Colour,
    /// List the differences from the graph of this trace
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Compare with this step, of the trace of `--against` if given
    #[arg(long, value_name = "M", conflicts_with = "steps")]
    against_step: Option<u64>,
    /// Compare with a step of this phase
    #[arg(long, value_enum, conflicts_with = "against_step")]
    against_phase: Option<PhaseName>,
    /// Maximum number of rows of each table of differences
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    #[command(flatten)]
    force: Force,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Tables
    Text,
    /// A picture for browsers
    Svg,
    /// Graphviz
    Dot,
    /// `GraphML` for Gephi, yEd, networkx
    Graphml,
    /// JSON; `docs/graph.md` documents its keys
    Json,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let format = format_of(arguments)?;
    let first = graph(&arguments.file, wanted(arguments.step, arguments.steps, arguments.phase))?;
    let differs = arguments.against.is_some() || arguments.against_step.is_some() || arguments.against_phase.is_some();
    let text = if differs {
        let file = arguments.against.as_ref().unwrap_or(&arguments.file);
        let phase = arguments.against_phase.or(arguments.phase);
        let second = graph(file, wanted(arguments.against_step, arguments.steps, phase))?;
        difference(&GraphDifference::new(&first, &second), format, &style(arguments))?
    } else {
        one(&first, format, arguments)?
    };
    match &arguments.output {
        Some(path) if path.as_os_str() != "-" => {
            let inputs = [Some(&arguments.file), arguments.against.as_ref()];
            let inputs: Vec<&Path> = inputs.into_iter().flatten().map(PathBuf::as_path).collect();
            let text = match format {
                Format::Json => printable_json(&text),
                _ => printable_lines(&text),
            };
            write_whole(arguments.force.request(path, kind(format), &inputs), text.as_bytes())?;
            super::terminal::status(&format!("{}", path.display()));
        }
        _ if format == Format::Json => write_json(&text)?,
        _ => write_styled(&text)?,
    }
    Ok(DONE)
}

fn kind(format: Format) -> OutputKind {
    match format {
        Format::Text => OutputKind::Text,
        Format::Svg => OutputKind::Svg,
        Format::Dot => OutputKind::Dot,
        Format::Graphml => OutputKind::GraphMl,
        Format::Json => OutputKind::GraphJson,
    }
}

fn one(graph: &GraphReport, format: Format, arguments: &Arguments) -> Result<String, Diagnostics> {
    let (colour, unfolded) = (arguments.color, arguments.unfold);
    Ok(match format {
        Format::Text => report::graph_text(graph, unfolded, &style(arguments)),
        Format::Svg => report::svg(graph, &Picture { colour, unfolded }),
        Format::Dot => report::dot(graph, &Picture { colour, unfolded }),
        Format::Graphml => report::graphml(graph),
        Format::Json => json(graph)?,
    })
}

fn difference(difference: &GraphDifference, format: Format, style: &TextStyle) -> Result<String, Diagnostics> {
    match format {
        Format::Text => Ok(report::difference_text(difference, style)),
        Format::Json => json(difference),
        _ => Err(Diagnostic::error(Code::BadArgument, "the comparison of two graphs is text or JSON")
            .hint("remove `--against…` to draw one of them")
            .into()),
    }
}

fn json(of: &impl serde::Serialize) -> Result<String, Diagnostics> {
    let written = serde_json::to_string_pretty(of).map(|text| text + "\n");
    written.map_err(|error| Diagnostic::error(Code::Bug, format!("cannot write JSON: {error}")).into())
}

fn format_of(arguments: &Arguments) -> Result<Format, Diagnostics> {
    if let Some(format) = arguments.format {
        return Ok(format);
    }
    let Some(path) = arguments.output.as_deref().filter(|path| path.as_os_str() != "-") else {
        return Ok(Format::Text);
    };
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("svg") => Ok(Format::Svg),
        Some("dot" | "gv") => Ok(Format::Dot),
        Some("graphml" | "xml") => Ok(Format::Graphml),
        Some("json") => Ok(Format::Json),
        Some("txt") => Ok(Format::Text),
        _ => Err(Diagnostic::error(
            Code::BadArgument,
            format!("{} has no extension of a supported format", path.display()),
        )
        .hint("use the extension .svg, .dot, .graphml, .json or .txt, or give `--format`")
        .into()),
    }
}

fn wanted(step: Option<u64>, steps: Option<(u64, u64)>, phase: Option<PhaseName>) -> Wanted {
    let phase = phase.map(Phase::from);
    match (step, steps) {
        (Some(step), _) => Wanted::Step(step),
        (None, Some((first, last))) => Wanted::Mean { phase, steps: first..=last },
        (None, None) => Wanted::Typical { phase },
    }
}

/// Everything that is found out in one reading.
struct Visitors {
    statistics: Statistics,
    study: Study,
    finder: GraphFinder,
    steps: u64,
}

impl Visitor for Visitors {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) {
        self.statistics.step(step, catalogue, decoder);
        self.study.step(step, catalogue, decoder);
        self.finder.step(step, catalogue, decoder);
        self.steps = self.steps.max(step.number);
    }
}

fn graph(file: &Path, wanted: Wanted) -> Result<GraphReport, Diagnostics> {
    let finder = GraphFinder::new(wanted.clone());
    let mut visitors = Visitors { statistics: Statistics::default(), study: Study::default(), finder, steps: 0 };
    let (timeline, meta, problems) = analyse(trace_file::open(file)?, &mut visitors);
    report_problems(&problems);
    let completeness = Completeness::judge(&meta, timeline.findings(), &visitors.statistics);
    let Some(graph) = visitors.finder.finish(timeline.catalogue()) else {
        return Err(missing(&wanted, visitors.steps).into());
    };
    Ok(GraphReport::new(&graph, (&meta, &timeline), completeness, &visitors.study.layers))
}

fn missing(wanted: &Wanted, steps: u64) -> Diagnostic {
    let message = match wanted {
        Wanted::Step(step) if *step == 0 || *step > steps => format!("the trace has no step {step}"),
        Wanted::Step(step) => format!("step {step} has no recorded operators"),
        Wanted::Mean { .. } => "none of these steps is whole and has operators".to_owned(),
        Wanted::Typical { phase } => {
            let which = phase.map_or_else(String::new, |phase| format!("{} ", phase.as_str()));
            format!("the trace has no whole {which}step with operators")
        }
    };
    let hint = if steps == 0 { "it has no steps".to_owned() } else { format!("the trace has steps 1 to {steps}") };
    Diagnostic::error(Code::BadArgument, message).hint(hint)
}

/// A file has neither colours nor a width.
fn style(arguments: &Arguments) -> TextStyle {
    match arguments.output {
        Some(_) => TextStyle { top: arguments.top, ..TextStyle::default() },
        None => text_style(arguments.top),
    }
}
