//! `profinfer graph`: the graph of a step's operators, as text, as a picture, or for programs that read graphs.

use super::analyse::analyse;
use super::output::{Force, write_whole};
use super::terminal::{report_problems, write_json, write_styled};
use super::{DONE, Outcome, trace_file};
use crate::analysis::{
    Catalogue, Completeness, Decoder, GraphFinder, Phase, Statistics, Step, Study, TypicalStep, Visitor, Wanted,
};
use crate::diag::{Code, Diagnostic, Diagnostics, printable_json, printable_lines};
use crate::output::Kind;
use crate::report::{self, Colour, GraphDifference, GraphReport, Look, Picture};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The trace; `-` is standard input
    file: PathBuf,
    /// Of this step (default: one that shows what decoding is like)
    #[arg(long, value_name = "N", conflicts_with_all = ["steps", "phase"])]
    step: Option<u64>,
    /// The mean of those of these steps that are alike (phase, tokens, operators): `10..40`
    #[arg(long, value_name = "N..M", value_parser = super::steps::range)]
    steps: Option<(u64, u64)>,
    /// Of a step of this phase
    #[arg(long, value_enum)]
    phase: Option<PhaseName>,
    /// The format (default: by the ending of `--output`; text without one)
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Write to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Each layer for itself
    #[arg(long, overrides_with = "fold")]
    unfold: bool,
    /// Layers that are alike together (the default)
    #[arg(long)]
    fold: bool,
    /// What nodes are coloured by
    #[arg(long, value_enum, default_value_t, alias = "colour")]
    color: Colour,
    /// Say what is new, gone and changed in this trace's graph
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Say it of this step: of the other trace, if there is one
    #[arg(long, value_name = "M", conflicts_with = "steps")]
    against_step: Option<u64>,
    /// Say it of a step of this phase
    #[arg(long, value_enum, conflicts_with = "against_step")]
    against_phase: Option<PhaseName>,
    /// Rows of each table of differences
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    #[command(flatten)]
    force: Force,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum PhaseName {
    /// Steps that take in a prompt
    Prefill,
    /// Steps that make the next token
    Decode,
}

impl From<PhaseName> for Phase {
    fn from(name: PhaseName) -> Self {
        match name {
            PhaseName::Prefill => Self::Prefill,
            PhaseName::Decode => Self::Decode,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Tables
    Text,
    /// A picture that browsers show
    Svg,
    /// Graphviz
    Dot,
    /// `GraphML`, for Gephi, yEd, networkx
    Graphml,
    /// JSON; `docs/graph.md` documents its keys
    Json,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let format = format_of(arguments)?;
    let wanted = wanted(&arguments.file, arguments.step, arguments.steps, arguments.phase)?;
    let first = graph(&arguments.file, wanted)?;
    let differs = arguments.against.is_some() || arguments.against_step.is_some() || arguments.against_phase.is_some();
    let text = if differs {
        let file = arguments.against.as_ref().unwrap_or(&arguments.file);
        let phase = arguments.against_phase.or(arguments.phase);
        let second = graph(file, self::wanted(file, arguments.against_step, arguments.steps, phase)?)?;
        difference(&GraphDifference::new(&first, &second), format, &look(arguments))?
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
            super::terminal::say(&format!("{}", path.display()));
        }
        _ if format == Format::Json => write_json(&text)?,
        _ => write_styled(&text)?,
    }
    Ok(DONE)
}

fn kind(format: Format) -> Kind {
    match format {
        Format::Text => Kind::Text,
        Format::Svg => Kind::Svg,
        Format::Dot => Kind::Dot,
        Format::Graphml => Kind::GraphMl,
        Format::Json => Kind::GraphJson,
    }
}

fn one(graph: &GraphReport, format: Format, arguments: &Arguments) -> Result<String, Diagnostics> {
    let (colour, unfolded) = (arguments.color, arguments.unfold);
    Ok(match format {
        Format::Text => report::graph_text(graph, unfolded, &look(arguments)),
        Format::Svg => report::svg(graph, &Picture { colour, unfolded }),
        Format::Dot => report::dot(graph, colour),
        Format::Graphml => report::graphml(graph),
        Format::Json => json(graph)?,
    })
}

fn difference(difference: &GraphDifference, format: Format, look: &Look) -> Result<String, Diagnostics> {
    match format {
        Format::Text => Ok(report::difference_text(difference, look)),
        Format::Json => json(difference),
        _ => Err(Diagnostic::error(Code::BadArgument, "two graphs are compared as text or JSON")
            .hint("without `--against…`, each of them can be drawn")
            .into()),
    }
}

fn json(of: &impl serde::Serialize) -> Result<String, Diagnostics> {
    let written = serde_json::to_string_pretty(of).map(|text| text + "\n");
    written.map_err(|error| Diagnostic::error(Code::Bug, format!("cannot write JSON: {error}")).into())
}

fn look(arguments: &Arguments) -> Look {
    let terminal = std::io::stdout().is_terminal() && arguments.output.is_none();
    let width = if terminal { comfy_table::Table::new().width().map(usize::from) } else { None };
    let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    Look { width, colour, top: arguments.top, main_only: false }
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
        _ => Err(Diagnostic::error(Code::BadArgument, format!("which format is {}?", path.display()))
            .hint("end its name in .svg, .dot, .graphml, .json or .txt, or say `--format`")
            .into()),
    }
}

/// What is asked for; a step that shows what others are like has to be looked for first.
fn wanted(
    file: &Path,
    step: Option<u64>,
    steps: Option<(u64, u64)>,
    phase: Option<PhaseName>,
) -> Result<Wanted, Diagnostics> {
    let phase = phase.map(Phase::from);
    match (step, steps) {
        (Some(step), _) => return Ok(Wanted::Step(step)),
        (None, Some((first, last))) => return Ok(Wanted::Mean { phase, steps: first..=last }),
        (None, None) if file.as_os_str() == "-" => {
            return Err(Diagnostic::error(Code::BadArgument, "which step? Standard input can be read only once")
                .hint("say `--step N`, or `--steps 1..` for the mean of those that are alike")
                .into());
        }
        (None, None) => {}
    }
    let mut typical = TypicalStep::default();
    analyse(trace_file::open(file)?, &mut typical);
    let steps = typical.steps();
    typical.number(phase).map(Wanted::Step).ok_or_else(|| {
        let which = phase.map_or_else(String::new, |phase| format!("{} ", phase.as_str()));
        let hint = if steps == 0 { "the trace has no steps".to_owned() } else { format!("it has {steps} steps") };
        let message = format!("no {which}step was recorded whole, with its operators");
        Diagnostic::error(Code::BadArgument, message).hint(hint).into()
    })
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
        Wanted::Step(step) => format!("step {step} has no operators: they were not recorded"),
        Wanted::Mean { .. } => "none of these steps was recorded whole, with its operators".to_owned(),
    };
    let hint = if steps == 0 { "it has no steps".to_owned() } else { format!("its steps are 1 to {steps}") };
    Diagnostic::error(Code::BadArgument, message).hint(hint)
}
