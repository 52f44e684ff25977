//! `profinfer html`: a trace's report as one page for a browser.

use super::analyse::analyse;
use super::output::{Force, write_through};
use super::terminal::report_problems;
use super::{DONE, Outcome, trace_file};
use crate::analysis::{
    Catalogue, Completeness, Decoder, GraphFinder, Layers, Phase, Statistics, Step, Study, Timeline, Visitor, Wanted,
};
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::output::Kind;
use crate::report::{self, Colour, Drawing, GraphReport, Options, Page, Parts, Picture, SpanCollector};
use crate::trace::Meta;
use std::collections::BTreeSet;
use std::io::BufWriter;
use std::path::PathBuf;

/// Rows of a table that a page has at most: a damaged trace may have a name for every operator.
const MOST_ROWS: usize = 5_000;
/// Nodes of a graph that is drawn with each layer for itself: a card is some kilobyte.
const MOST_NODES: usize = 3_000;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The trace; `-` is standard input
    file: PathBuf,
    /// Write to this file; `-` is standard output (default: the trace's name with `.html`)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The timeline's steps: `10..12` is 10, 11 and 12 (default: all; of a large trace those that fit)
    #[arg(long, value_name = "N..M", value_parser = super::steps::range)]
    steps: Option<(u64, u64)>,
    #[command(flatten)]
    force: Force,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let path = output(arguments)?;
    let reader = trace_file::open(&arguments.file)?;
    let steps = arguments.steps.map(|(first, last)| first..=last);
    let mut visitors = Visitors {
        statistics: Statistics::default(),
        study: Study::default(),
        finder: GraphFinder::new(Wanted::Mean { phase: Some(Phase::Decode), steps: 1..=u64::MAX }),
        spans: SpanCollector::new(steps),
    };
    let (timeline, meta, problems) = analyse(reader, &mut visitors);
    report_problems(&problems);
    let Visitors { statistics, study, finder, spans } = visitors;
    let completeness = Completeness::judge(&meta, timeline.findings(), &statistics);
    let all = completeness.steps;
    if let Some((first, last)) = arguments.steps.filter(|(first, _)| *first > all) {
        let shown = if last == u64::MAX { format!("from {first}") } else { format!("from {first} to {last}") };
        let message = format!("the trace has no step {shown}");
        return Err(Diagnostic::error(Code::BadArgument, message).hint(format!("its steps are 1 to {all}")).into());
    }
    let options = Options { top: Some(MOST_ROWS), ..Options::default() };
    let together = report::build_statistics(&meta, completeness.clone(), (&statistics, &study), &timeline, &[]);
    let parts = Parts {
        drawings: drawings(finder, (&meta, &timeline), &completeness, &study.layers),
        statistics: serde_json::to_value(together).ok(),
    };
    let report = report::build(&meta, completeness, &statistics, &timeline, &options);
    let page = Page { report: &report, statistics: &statistics, timeline: &timeline, meta: &meta, spans, parts };
    let request = arguments.force.request(&path, Kind::Page, &[&arguments.file]);
    let written = write_through(request, |file| Ok(report::write_page(page, BufWriter::new(file))))?;
    let Some(left_out) = written else { return Ok(DONE) };
    if path.as_os_str() != "-" {
        super::terminal::say(&format!("{}: open it in a browser", path.display()));
        if !left_out.is_empty() {
            super::terminal::say(&left_out);
        }
    }
    Ok(DONE)
}

/// The operators of a mean decode step, in several pictures; none where no such step was recorded whole.
fn drawings(
    finder: GraphFinder,
    (meta, timeline): (&Meta, &Timeline),
    completeness: &Completeness,
    layers: &Layers,
) -> Vec<Drawing> {
    let Some(graph) = finder.finish(timeline.catalogue()) else { return Vec::new() };
    let graph = GraphReport::new(&graph, (meta, timeline), completeness.clone(), layers);
    let picture = |name: &str, colour: Colour, unfolded: bool| Drawing {
        name: name.to_owned(),
        svg: report::svg(&graph, &Picture { colour, unfolded }),
    };
    let mut drawings = vec![picture("layers that are alike together", Colour::Time, false)];
    if graph.bandwidth.is_some() {
        drawings.push(picture("by bandwidth", Colour::Bandwidth, false));
    }
    let backends: BTreeSet<&str> = graph.nodes.iter().filter_map(|node| node.backend.as_deref()).collect();
    if backends.len() > 1 {
        drawings.push(picture("by backend", Colour::Backend, false));
    }
    if graph.nodes.len() <= MOST_NODES {
        drawings.push(picture("each layer", Colour::Time, true));
    }
    drawings
}

/// The page's file, by the arguments.
fn output(arguments: &Arguments) -> Result<PathBuf, Diagnostics> {
    match &arguments.output {
        Some(path) => Ok(path.clone()),
        None if arguments.file.as_os_str() == "-" => {
            let problem = Diagnostic::error(Code::BadArgument, "a trace from standard input has no name for its page");
            Err(problem.hint("give one: `-o run.html`").into())
        }
        None => Ok(arguments.file.with_extension("html")),
    }
}

/// What is collected while the trace is read.
struct Visitors {
    statistics: Statistics,
    study: Study,
    finder: GraphFinder,
    spans: SpanCollector,
}

impl Visitor for Visitors {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) {
        self.statistics.step(step, catalogue, decoder);
        self.study.step(step, catalogue, decoder);
        self.finder.step(step, catalogue, decoder);
        self.spans.step(step, catalogue, decoder);
    }
}
