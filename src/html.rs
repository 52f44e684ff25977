//! `profinfer html`: a trace's report as one page for a browser.

use super::analyse::analyse;
use super::functions::{self, Symbols};
use super::output::{Force, write_through};
use super::terminal::report_problems;
use super::{DONE, Outcome, trace_file};
use profinfer_analysis::{
    Catalogue, Completeness, Decoder, GraphFinder, Layers, Profile, Statistics, Step, Study, Timeline, Visitor, Wanted,
};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use profinfer_files::output::OutputKind;
use profinfer_report::{
    self as report, Colour, Drawing, Flame, FunctionsReport, GraphReport, Options, Page, Parts, Picture, Selection,
    SpanCollector,
};
use profinfer_schema::Sample;
use profinfer_trace::Meta;
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
    /// Steps on the timeline: `10..12` is 10, 11 and 12 (default: all; of a large trace a selection)
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
        finder: GraphFinder::new(Wanted::Typical { phase: None }),
        spans: SpanCollector::new(steps).of_bytes(trace_file::size(&arguments.file).unwrap_or(0)),
        profile: functions::profile(reader.meta()),
    };
    let (timeline, meta, problems) = analyse(reader, &mut visitors);
    report_problems(&problems);
    let Visitors { statistics, study, finder, spans, mut profile } = visitors;
    profile.finish();
    let completeness = Completeness::judge(&meta, timeline.findings(), &statistics);
    let all = completeness.steps;
    if let Some((first, last)) = arguments.steps.filter(|(first, _)| *first > all) {
        let shown = if last == u64::MAX { format!("from {first}") } else { format!("from {first} to {last}") };
        let message = format!("the trace has no step {shown}");
        return Err(Diagnostic::error(Code::BadArgument, message)
            .hint(format!("the trace has steps 1 to {all}"))
            .into());
    }
    let drawings = drawings(finder, (&meta, &timeline), &completeness, &study.layers);
    let samples = functions::sampled_work(&meta, &timeline, &profile);
    let options = Options { samples: samples.as_ref(), ..Options::default() };
    let mut report = report::build(&meta, completeness, &statistics, &timeline, &options);
    let together = report::build_statistics(&meta, &report, (&statistics, &study), &timeline, &[]);
    let (flames, table) = flames((&meta, &timeline), &statistics, &profile, &report.completeness);
    let parts = Parts { drawings, statistics: serde_json::to_value(together).ok(), flames, functions: table };
    report.truncate(MOST_ROWS);
    let page = Page { report: &report, statistics: &statistics, timeline: &timeline, meta: &meta, spans, parts };
    let request = arguments.force.request(&path, OutputKind::Page, &[&arguments.file]);
    let written = write_through(request, |file| Ok(report::write_page(page, BufWriter::new(file))))?;
    let Some(left_out) = written else { return Ok(DONE) };
    if path.as_os_str() != "-" {
        super::terminal::status(&format!("{}: open it in a browser", path.display()));
        if !left_out.is_empty() {
            super::terminal::status(&left_out);
        }
    }
    Ok(DONE)
}

/// The operators of a mean step, in several pictures; none where no step was recorded whole.
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
    let mut drawings = vec![picture("equal layers once", Colour::Time, false)];
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

/// Flame graphs, and the table of functions where there are samples.
fn flames(
    (meta, timeline): (&Meta, &Timeline),
    statistics: &Statistics,
    profile: &Profile,
    completeness: &Completeness,
) -> (Vec<Flame>, Option<FunctionsReport>) {
    let (catalogue, mut symbols) = (timeline.catalogue(), Symbols::new(meta));
    let sampling = meta.sampling.as_ref().filter(|_| meta.samples > 0);
    let of_samples = sampling.and_then(|of| report::flame_of_samples(of, (profile, catalogue), &mut symbols));
    let functions = of_samples.is_some().then(|| {
        let all = Selection::default();
        let mut functions = report::functions(meta, completeness.clone(), (profile, catalogue), &all, &mut symbols);
        functions.truncate(MOST_ROWS);
        functions
    });
    let of_spans = report::flame_of_spans(statistics, catalogue, of_samples.is_some());
    (of_samples.into_iter().chain(of_spans).collect(), functions)
}

/// The page's file, by the arguments.
fn output(arguments: &Arguments) -> Result<PathBuf, Diagnostics> {
    match &arguments.output {
        Some(path) => Ok(path.clone()),
        None if arguments.file.as_os_str() == "-" => {
            let problem = Diagnostic::error(Code::BadArgument, "the page of a trace from standard input needs a name");
            Err(problem.hint("give `-o run.html`").into())
        }
        None => Ok(trace_file::made_of(&arguments.file, "html")),
    }
}

/// Data collected while the trace is read.
struct Visitors {
    statistics: Statistics,
    study: Study,
    finder: GraphFinder,
    spans: SpanCollector,
    profile: Profile,
}

impl Visitor for Visitors {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) {
        self.statistics.step(step, catalogue, decoder);
        self.study.step(step, catalogue, decoder);
        self.finder.step(step, catalogue, decoder);
        self.spans.step(step, catalogue, decoder);
        self.profile.step(step, catalogue, decoder);
    }

    fn samples(&mut self, samples: &[Sample]) {
        self.profile.samples(samples);
    }

    fn offset(&mut self, bytes: u64) {
        self.spans.offset(bytes);
    }
}
