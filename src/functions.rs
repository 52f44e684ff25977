//! Timer samples by function: names come from the files that the trace names, if they are still the same.

use super::analyse::analyse;
use super::output::{Force, write_whole};
use super::{DONE, INCOMPLETE, Outcome, terminal, trace_file};
use profinfer_analysis::{Catalogue, Completeness, Decoder, Profile, Statistics, Step, Timeline, Visitor};
use profinfer_binary::{DebugFolders, FunctionName, FunctionTable, build_id};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use profinfer_files::output::OutputKind;
use profinfer_report::{self as report, SampledWork, Selection, SymbolName, Symbolizer};
use profinfer_schema::{Sample, SampledModule, Sampling};
use profinfer_trace::Meta;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The format of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ProfileFormat {
    /// Timer samples for pprof
    Pprof,
    /// Timer samples for speedscope
    Speedscope,
    /// Timer samples as folded stacks, for flame graphs
    Folded,
    /// Timer samples with their times and threads, for Perfetto
    PerfettoCallstacks,
}

/// Statistics, which decide whether the trace is complete, and samples.
struct Both {
    statistics: Statistics,
    profile: Profile,
}

impl Visitor for Both {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) {
        self.statistics.step(step, catalogue, decoder);
        self.profile.step(step, catalogue, decoder);
    }

    fn samples(&mut self, samples: &[Sample]) {
        self.profile.samples(samples);
    }
}

/// A trace whose samples were counted.
struct Counted {
    timeline: Timeline,
    meta: Meta,
    profile: Profile,
    completeness: Completeness,
}

/// Counts a trace's samples.
pub(crate) fn profile(meta: &Meta) -> Profile {
    Profile::new(&meta.schema, meta.origin.recorder_pid.is_some())
}

fn count(file: &Path, each: bool) -> Result<Counted, Diagnostics> {
    let reader = trace_file::open(file)?;
    let profile = profile(reader.meta());
    let profile = if each { profile.with_each() } else { profile };
    let mut both = Both { statistics: Statistics::default(), profile };
    let (timeline, meta, problems) = analyse(reader, &mut both);
    terminal::report_problems(&problems);
    both.profile.finish();
    let completeness = Completeness::judge(&meta, timeline.findings(), &both.statistics);
    Ok(Counted { timeline, meta, profile: both.profile, completeness })
}

impl Counted {
    fn outcome(&self) -> u8 {
        if self.completeness.complete { DONE } else { INCOMPLETE }
    }

    fn symbols(&self) -> Symbols {
        Symbols::new(&self.meta)
    }
}

/// What samples show of the work within operators, for the verdict; `None` without samples.
pub(crate) fn sampled_work(meta: &Meta, timeline: &Timeline, profile: &Profile) -> Option<SampledWork> {
    let sampling = meta.sampling.as_ref().filter(|_| meta.samples > 0)?;
    let engine = timeline.rules().functions();
    Some(SampledWork::new(sampling, (profile, timeline.catalogue()), engine, &mut Symbols::new(meta)))
}

/// `report --by function`.
pub(crate) fn run(file: &Path, selection: &Selection, json: bool, top: Option<usize>) -> Outcome {
    let counted = count(file, false)?;
    let mut symbols = counted.symbols();
    let of = (&counted.profile, counted.timeline.catalogue());
    let mut report = report::functions(&counted.meta, counted.completeness.clone(), of, selection, &mut symbols);
    if json {
        top.into_iter().for_each(|rows| report.truncate(rows));
        terminal::write_json(&super::report::json(&report)?)?;
    } else {
        terminal::write_styled(&report::functions_text(&report, &terminal::text_style(top)))?;
    }
    Ok(counted.outcome())
}

/// `export --format pprof` and the like.
pub(crate) fn export(file: &Path, output: &Path, format: ProfileFormat, force: Force) -> Outcome {
    let counted = count(file, format == ProfileFormat::PerfettoCallstacks)?;
    let Some(sampling) = counted.meta.sampling.clone().filter(|_| counted.meta.samples > 0) else {
        let why = counted.meta.sampling.as_ref().and_then(|sampling| sampling.absent.clone());
        let problem = Diagnostic::error(Code::BadArgument, "the trace has no timer samples");
        let problem = why.into_iter().fold(problem, Diagnostic::with_note);
        return Err(problem.hint("record with `--sample 999`").into());
    };
    let (bytes, kind) = rendered(&counted, &sampling, format)?;
    let (_, left_out) = counted.profile.each();
    if left_out > 0 {
        terminal::status(&format!("{left_out} samples are not in the profile: it has 8,388,608"));
    }
    write_whole(force.request(output, kind, &[file]), &bytes)?;
    Ok(counted.outcome())
}

fn rendered(
    counted: &Counted,
    sampling: &Sampling,
    format: ProfileFormat,
) -> Result<(Vec<u8>, OutputKind), Diagnostics> {
    let (mut symbols, all) = (counted.symbols(), Selection::default());
    let of = (&counted.profile, counted.timeline.catalogue());
    let origin = &counted.meta.origin;
    Ok(match format {
        ProfileFormat::Pprof => {
            let duration = counted.meta.end.as_ref().map_or(0, |end| end.time.saturating_sub(origin.monotonic_ns));
            let times = (origin.wall_clock_ns, duration);
            (report::pprof(times, sampling, of, &all, &mut symbols), OutputKind::Pprof)
        }
        ProfileFormat::Speedscope => {
            let profile = report::speedscope(&origin.command.join(" "), sampling, of, &all, &mut symbols);
            let written = serde_json::to_vec(&profile)
                .map_err(|error| Diagnostic::error(Code::Bug, format!("cannot write JSON: {error}")))?;
            (written, OutputKind::Speedscope)
        }
        ProfileFormat::Folded => (report::folded(sampling, of, &all, &mut symbols).into_bytes(), OutputKind::Text),
        ProfileFormat::PerfettoCallstacks => {
            let (name, mut written) = (origin.command.join(" "), Vec::new());
            report::callstacks(&name, sampling, of, &mut symbols, &mut written)
                .map_err(|error| Diagnostic::error(Code::Bug, format!("cannot write a profile: {error}")))?;
            (written, OutputKind::Perfetto)
        }
    })
}

/// Functions of the files that samples are in.
pub(crate) struct Symbols {
    modules: Vec<SampledModule>,
    tables: HashMap<usize, Option<FunctionTable>>,
}

impl Symbols {
    /// Of the trace's files. Each is read when the first name in it is wanted.
    pub(crate) fn new(meta: &Meta) -> Self {
        let modules = meta.sampling.as_ref().map_or_else(Vec::new, |sampling| sampling.modules.clone());
        Self { modules, tables: HashMap::new() }
    }
}

impl Symbolizer for Symbols {
    fn function(&mut self, module: usize, offset: u64) -> Option<SymbolName> {
        let sampled = self.modules.get(module)?;
        let name = self.tables.entry(module).or_insert_with(|| table(sampled)).as_ref()?.at(offset)?;
        Some(match name {
            FunctionName::Named(name) => SymbolName::Named(name),
            FunctionName::Address(address) => SymbolName::Address(address),
        })
    }
}

/// The functions of a file, if it is the one that was sampled.
fn table(sampled: &SampledModule) -> Option<FunctionTable> {
    let path = Path::new(&sampled.path);
    let metadata = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let is_same = match &sampled.build_id {
        Some(wanted) => build_id(path).as_ref() == Some(wanted),
        None => {
            let modified = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
            metadata.len() == sampled.size && modified == i128::from(sampled.modified_ns)
        }
    };
    is_same.then(|| FunctionTable::open(path, &DebugFolders::default())).flatten()
}
