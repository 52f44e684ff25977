//! Launch or attach, consume the ring, account for losses, write the trace. It knows of probes only what the plan says,
//! and of the trace only how to write it.

mod attach;
mod clock;
mod consumer;
pub mod host;
mod launch;
pub mod machine;
mod modules;
mod output;
mod process;
mod recording;
mod signals;

pub use output::default_path;
pub use process::{Ending, TargetProcess};

use crate::bpf::{self, Features, Session, Setup, Translation};
use crate::codegen;
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::plan::{self, Level, ProbePlan, Selection};
use crate::spec::Probeset;
use crate::target::{Arch, PidNamespace};
use crate::trace::{Loss, Origin};
use consumer::Consumer;
use launch::{Caller, Held};
use modules::Modules;
use output::Output;
use process::state;
use recording::Recording;
use signals::Signals;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A command, launched: its words.
    Command(Vec<OsString>),
    /// A running process.
    Process(i32),
}

/// How it is recorded.
#[derive(Debug, Clone)]
pub struct Options {
    /// What.
    pub subject: Subject,
    /// The trace.
    pub output: PathBuf,
    /// Which probes.
    pub selection: Selection,
    /// The first and the last step to record, counted from 1; all, where left out.
    pub steps: Option<(u64, u64)>,
    /// When to end at the latest.
    pub duration: Option<Duration>,
    /// The target's children too.
    pub follow_forks: bool,
    /// Bytes of the ring buffer.
    pub ring_bytes: u32,
    /// What the command line said of all this, for the trace.
    pub described: Vec<String>,
}

/// How a recording is going.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Live {
    /// Since the start.
    pub elapsed: Duration,
    /// Steps recorded.
    pub steps: u64,
    /// Their tokens.
    pub tokens: u64,
    /// Records written.
    pub events: u64,
    /// Records lost.
    pub lost: u64,
    /// Some probe is attached.
    pub attached: bool,
}

/// What came of a recording.
#[derive(Debug)]
pub struct Summary {
    /// The trace.
    pub file: PathBuf,
    /// Why it ended.
    pub reason: String,
    /// Steps recorded.
    pub steps: u64,
    /// Records written.
    pub events: u64,
    /// What is missing.
    pub losses: Vec<Loss>,
    /// From the target's start, or its being attached to, to the end.
    pub elapsed: Duration,
    /// How the target ended, if it has.
    pub ending: Option<Ending>,
    /// What went wrong without ending the recording.
    pub problems: Diagnostics,
    /// The target, which may still run.
    pub target: TargetProcess,
}

impl Summary {
    /// Records that are missing altogether.
    pub fn lost(&self) -> u64 {
        recording::lost(&self.losses)
    }

    /// Whether everything that was asked for is in the trace.
    pub fn is_complete(&self) -> bool {
        !self.losses.iter().any(|loss| loss.kind.is_incomplete())
    }

    /// Waits for a launched target to end, passing on the signals that this process gets. `None` for one that was
    /// attached to: it is not ours to wait for.
    pub fn wait(&mut self) -> Option<Ending> {
        if self.ending.is_some() || !self.target.launched() {
            return self.ending;
        }
        let signals = Signals::hold().ok();
        loop {
            if let Some(ending) = self.target.ending(Duration::from_millis(50)) {
                self.ending = Some(ending);
                return self.ending;
            }
            while let Some(arrived) = signals.as_ref().and_then(Signals::next) {
                if !arrived.to_all {
                    self.target.signal(arrived.signal);
                }
            }
        }
    }
}

/// Records a target by a probeset, until it ends or one of the options' ends comes. `observe` is told now and then how
/// it goes.
///
/// # Errors
/// The probeset does not suit the target, this machine cannot record, the target cannot be launched or found, or the
/// trace cannot be created. Nothing is left behind then.
pub fn record(
    options: &Options,
    probeset: &Probeset,
    observe: &mut dyn FnMut(&Live),
) -> Result<Summary, Diagnostics> {
    let features = Features::probe()?;
    features.require()?;
    let (plan, warnings) = plan::plan(probeset, &options.selection, host_arch()?)?;
    let source = codegen::generate(&plan, probeset, None)?;
    let object = bpf::build(&Translation { source: &source, sources: &probeset.sources })?;
    let place = |target: &dyn crate::target::Target| plan::place(&plan, probeset, target);
    let caller = Caller::through_sudo();
    let (output, file) = Output::open(&options.output, caller.as_ref())?;
    let signals = Signals::hold().map_err(|error| unexpected("holding back signals", &error))?;
    let subject = Target::find(&options.subject, caller.as_ref(), &signals)?;
    let pid = subject.pid();
    let setup = Setup {
        object: &object.bytes,
        sources: &probeset.sources,
        programs: &plan.programs,
        record_types: plan.schema.records.len(),
        ring_bytes: options.ring_bytes,
        constants: constants(pid, options)?,
        mode: features.attach_mode(),
    };
    let session = Session::open(setup)?;
    let origin = origin(options, probeset, pid);
    let consumer = Consumer::start(session.ring()?, file, origin, &plan.schema)?;
    let modules = Modules::new(&plan, &place, (!options.follow_forks).then_some(pid));
    let started = Instant::now();
    let mut recording = Recording {
        options,
        schema: &plan.schema,
        output,
        signals,
        process: subject.start()?,
        modules,
        consumer,
        session,
        started,
    };
    if matches!(options.subject, Subject::Process(_)) {
        recording.attach_running()?;
    }
    let mut summary = recording.run(observe)?;
    summary.problems.0.splice(..0, warnings.0);
    Ok(summary)
}
