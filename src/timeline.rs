//! `profinfer timeline`: a trace's steps, for a timeline viewer.

use super::analyse::analyse;
use super::output::{Force, write_through};
use super::terminal::report_problems;
use super::trace_file::{self, AnyReader};
use super::{DONE, Outcome};
use profinfer_analysis::{Catalogue, Decoder, Phase, Recorded, Step, Visitor};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use profinfer_files::output::OutputKind;
use profinfer_report::{Format, RequestsShown, TimelineWriter};
use profinfer_schema::{EngineId, OriginPart};
use std::io::{self, BufWriter, Write};
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// So many slices are as much as viewers like to open.
const MANY: u64 = 400_000;
/// Of a trace with more, so many steps are written, from this one on: by then the engine is warm.
const SOME: u64 = 3;
const WARM: u64 = 10;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The trace; `-` is standard input
    file: PathBuf,
    /// Write to this file; `-` is standard output (default: the trace's name with `.pftrace` or `.json`)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format of the file
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Write only these steps: `10..12` is 10, 11 and 12 (default: all; of a large trace a few)
    #[arg(long, value_name = "N..M", value_parser = super::steps::range)]
    steps: Option<(u64, u64)>,
    #[command(flatten)]
    force: Force,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let engines = match trace_file::wanted() {
        None => trace_file::engines(&arguments.file)?,
        Some(_) => Vec::new(),
    };
    let views = if engines.len() < 2 { vec![View::of(arguments, None)?] } else { views(arguments, engines)? };
    let path = output(arguments)?;
    let kind = match arguments.format {
        Format::Perfetto => OutputKind::Perfetto,
        Format::Chrome => OutputKind::Chrome,
    };
    let request = arguments.force.request(&path, kind, &[&arguments.file]);
    let written = write_through(request, |file| {
        let written = write(arguments, views.as_slice(), BufWriter::new(file))?;
        match &written {
            // A timeline without any of the steps is discarded.
            Ok(found) if found.steps == 0 && found.all > 0 => Err(no_such_steps(&views, found.all)),
            _ => Ok(written),
        }
    })?;
    let Some(Written { steps: written, all, slices, requests }) = written else { return Ok(DONE) };
    let steps = shown_steps(&views);
    if slices > MANY && arguments.file.as_os_str() == "-" && arguments.steps.is_none() {
        super::terminal::status(
            "standard input cannot be read twice, so all steps are written; select some with `--steps N..M`",
        );
    }
    if path.as_os_str() != "-" {
        let left_out =
            if written < all { format!(" of {all}: {steps}; `--steps 1..{all}` writes all") } else { String::new() };
        super::terminal::status(&format!("{}: {written} steps{left_out}", path.display()));
        if requests.shown < requests.all {
            let RequestsShown { shown, all } = requests;
            super::terminal::status(&format!("{shown} of {all} requests have a track; select steps for others"));
        }
        if arguments.format == Format::Perfetto {
            super::terminal::status("open it at https://ui.perfetto.dev");
        }
    }
    Ok(DONE)
}

fn shown_steps(views: &[View]) -> String {
    views.iter().map(|view| shown(&view.steps)).collect::<Vec<_>>().join(" and ")
}

fn no_such_steps(views: &[View], all: u64) -> Diagnostics {
    let message = format!("the trace has no step {}", shown_steps(views));
    Diagnostic::error(Code::BadArgument, message).hint(format!("the trace has steps 1 to {all}")).into()
}

/// A trace as one of its engines, and the steps of it that are written.
#[derive(Debug)]
struct View {
    /// `None` where there is one engine.
    engine: Option<(EngineId, OriginPart)>,
    steps: RangeInclusive<u64>,
}

impl View {
    fn of(arguments: &Arguments, engine: Option<(EngineId, OriginPart)>) -> Result<Self, Diagnostics> {
        let steps = match arguments.steps {
            Some((first, last)) => first..=last,
            None => some_steps(&arguments.file, engine.as_ref().map(|(engine, _)| *engine))?,
        };
        Ok(Self { engine, steps })
    }
}

/// One for each engine of a trace of several.
fn views(arguments: &Arguments, engines: Vec<(EngineId, OriginPart)>) -> Result<Vec<View>, Diagnostics> {
    engines.into_iter().map(|engine| View::of(arguments, Some(engine))).collect()
}

fn open(file: &std::path::Path, engine: Option<EngineId>) -> Result<AnyReader, Diagnostics> {
    engine.map_or_else(|| trace_file::open(file), |engine| trace_file::open_part(file, engine))
}

/// The timeline's file, by the arguments.
fn output(arguments: &Arguments) -> Result<PathBuf, Diagnostics> {
    let extension = match arguments.format {
        Format::Perfetto => "pftrace",
        Format::Chrome => "json",
    };
    match &arguments.output {
        Some(path) => Ok(path.clone()),
        None if arguments.file.as_os_str() == "-" => {
            let problem =
                Diagnostic::error(Code::BadArgument, "the timeline of a trace from standard input needs a name");
            Err(problem.hint(format!("give `-o run.{extension}`")).into())
        }
        None => Ok(trace_file::made_of(&arguments.file, extension)),
    }
}

/// What a timeline has.
#[derive(Debug, Default)]
struct Written {
    steps: u64,
    /// Steps of the trace.
    all: u64,
    /// Of the trace, of all steps.
    slices: u64,
    requests: RequestsShown,
}

/// Writes the timeline.
fn write(arguments: &Arguments, views: &[View], out: impl Write) -> Result<io::Result<Written>, Diagnostics> {
    let readers = views.iter().map(|view| open(&arguments.file, view.engine.as_ref().map(|(engine, _)| *engine)));
    let readers = readers.collect::<Result<Vec<AnyReader>, Diagnostics>>()?;
    let (Some(view), Some(first)) = (views.first(), readers.first()) else { return Ok(Ok(Written::default())) };
    let origin = first.meta().origin.clone();
    let writer = TimelineWriter::new(out, arguments.format, view.steps.clone(), &origin);
    let mut counting = Counting { steps: 0, slices: 0, writer };
    let (mut all, mut last) = (0, None);
    for (view, reader) in views.iter().zip(readers) {
        if let Some((_, part)) = &view.engine {
            counting.writer.engine(&part.engine, view.steps.clone());
        }
        counting.steps = 0;
        let (_, meta, problems) = analyse(reader, &mut counting);
        report_problems(&problems);
        all += counting.steps;
        last = Some(meta);
    }
    let requests = counting.writer.requests();
    // The processors are there once.
    last.iter().for_each(|meta| counting.writer.frequencies(meta));
    let slices = counting.slices;
    Ok(counting.writer.finish().map(|steps| Written { steps, all, slices, requests }))
}

/// Counts the steps that are there, too.
struct Counting<'a> {
    steps: u64,
    slices: u64,
    writer: TimelineWriter<'a>,
}

impl Visitor for Counting<'_> {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) {
        self.steps = self.steps.max(step.number);
        self.slices += slices_of(step);
        self.writer.step(step, catalogue, decoder);
    }
}

/// All steps, where a viewer can take them; of a larger trace a few, decoding and recorded whole where there are such.
fn some_steps(file: &std::path::Path, engine: Option<EngineId>) -> Result<RangeInclusive<u64>, Diagnostics> {
    if file.as_os_str() == "-" {
        return Ok(1..=u64::MAX);
    }
    let mut extent = Extent::default();
    analyse(open(file, engine)?, &mut extent);
    Ok(if extent.slices <= MANY { 1..=u64::MAX } else { extent.sample() })
}

/// How much there is in a trace.
#[derive(Debug, Default)]
struct Extent {
    slices: u64,
    /// First and last of so many steps in a row that show what decoding is like.
    typical: Option<(u64, u64)>,
    /// How many such steps there are in a row up to here.
    run: u64,
}

impl Extent {
    fn sample(&self) -> RangeInclusive<u64> {
        let (first, last) = self.typical.unwrap_or((1, SOME));
        first..=last
    }
}

impl Visitor for Extent {
    fn step(&mut self, step: &Step, _: &Catalogue, _: &Decoder) {
        self.slices += slices_of(step);
        let is_typical = step.phase.is_some_and(Phase::recurs) && step.recorded == Recorded::Whole && step.complete;
        self.run = if is_typical { self.run + 1 } else { 0 };
        let is_later = self.typical.is_none_or(|(first, _)| first < WARM);
        if self.run >= SOME && is_later && step.number >= SOME {
            self.typical = Some((step.number + 1 - SOME, step.number));
        }
    }
}

fn slices_of(step: &Step) -> u64 {
    (step.lanes.len() + step.regions.len()) as u64 + 1
}

fn shown(steps: &RangeInclusive<u64>) -> String {
    match *steps.end() {
        u64::MAX => format!("from {}", steps.start()),
        last => format!("{} to {last}", steps.start()),
    }
}
