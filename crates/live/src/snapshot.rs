//! What a recording has come to at one moment: plain data, for every view. Times are ns; a figure that was not recorded
//! is absent.

use super::histogram::{Histogram, TIME_PER_OUTPUT_TOKEN, TIME_TO_FIRST_TOKEN};
use serde::Serialize;

/// What a recording is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// No record has come: the engine is not loaded, or has not been called.
    Waiting,
    /// Records come.
    Recording,
    /// It is over.
    Ended {
        /// Why.
        reason: String,
    },
}

/// All figures of one recording.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Snapshot {
    /// What it is doing.
    #[serde(flatten)]
    pub state: State,
    /// The engine, by its probeset.
    pub engine: String,
    /// The target's process.
    pub pid: u32,
    /// What the target is called; the same for one that is started again.
    pub instance: String,
    /// The container that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
    /// Its command line.
    pub command: Vec<String>,
    /// When the recording began, ns of CLOCK_MONOTONIC.
    pub started_ns: u64,
    /// The same in UNIX time, as the recorder read it then.
    #[serde(skip)]
    pub started_unix_ns: u64,
    /// Since the start of the recording, ns.
    pub elapsed_ns: u64,
    /// Prefill, decode, and runs of a model without tokens.
    pub phases: Vec<PhaseFigures>,
    /// Requests; absent where sequences are not recorded.
    pub requests: Option<Requests>,
    /// Time to first token.
    pub ttft: Histogram,
    /// Time per output token.
    pub tpot: Histogram,
    /// Operator types, of steps whose operators were recorded.
    pub operators: Vec<OperatorFigures>,
    /// What was fetched from disk in steps; absent where page faults are not recorded.
    pub fetches: Option<Fetches>,
    /// What the kernel let the target have; absent until that was polled.
    pub pressure: Option<Pressures>,
    /// What was lost, by reason.
    pub losses: Vec<LossRow>,
    /// The account of the overhead; absent without a budget.
    pub overhead: Option<OverheadSpent>,
    /// Time in which nothing was recorded, since steps alone exceed the budget.
    pub unseen_ns: u64,
    /// The last seconds.
    pub window: Window,
    /// What the flight recorder does; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flight: Option<FlightFigures>,
}

/// A container, as its runtime has it on this machine. What is unknown is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Container {
    /// Its number: 64 hexadecimal digits.
    pub id: String,
    /// Its name; of one in a pod, its name in there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its image, as it was named when the container was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Kubernetes' pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The pod's namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

impl Container {
    /// Its name, or the beginning of its number, as runtimes list it.
    pub fn shown(&self) -> &str {
        self.name.as_deref().unwrap_or_else(|| self.id.get(..12).unwrap_or(&self.id))
    }

    /// What is known, by OpenTelemetry's names.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let in_pod = self.pod.is_some();
        [
            ("container.id", Some(&self.id)),
            (if in_pod { "k8s.container.name" } else { "container.name" }, self.name.as_ref()),
            ("container.image.name", self.image.as_ref()),
            ("k8s.pod.name", self.pod.as_ref()),
            ("k8s.namespace.name", self.namespace.as_ref()),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?.as_str())))
    }
}

impl Snapshot {
    /// Whether a step was seen.
    pub fn has_steps(&self) -> bool {
        self.phases.iter().any(|phase| phase.steps.count > 0)
    }

    /// Of a recording without a record.
    pub fn empty(pid: u32, state: State) -> Self {
        Self {
            state,
            engine: String::new(),
            pid,
            instance: String::new(),
            container: None,
            command: Vec::new(),
            started_ns: 0,
            started_unix_ns: 0,
            elapsed_ns: 0,
            phases: Vec::new(),
            requests: None,
            ttft: Histogram::new(TIME_TO_FIRST_TOKEN),
            tpot: Histogram::new(TIME_PER_OUTPUT_TOKEN),
            operators: Vec::new(),
            fetches: None,
            pressure: None,
            losses: Vec::new(),
            overhead: None,
            unseen_ns: 0,
            window: Window::default(),
            flight: None,
        }
    }

    /// Whether any record has come.
    pub fn has_records(&self) -> bool {
        !self.engine.is_empty() && self.state != State::Waiting
    }
}

/// The steps of a phase, those with lost records left out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseFigures {
    /// `prefill`, `decode` or `run`.
    pub phase: &'static str,
    /// Their durations.
    pub steps: Histogram,
    /// Their tokens.
    pub tokens: u64,
    /// Steps with lost records: they are in no other figure.
    pub incomplete: u64,
    /// Steps whose operators were recorded: what follows is of these.
    pub whole_steps: u64,
    /// Their time.
    pub whole_ns: u64,
    /// Their time on all of their lanes.
    pub lane_ns: u64,
    /// Work of their operators, all lanes together.
    pub work_ns: u64,
    /// Waiting of their operators' lanes.
    pub waiting_ns: u64,
    /// Their threads' time off the CPU: `blocked`, `runnable`; absent where the scheduler's events are not recorded.
    pub off_cpu_ns: Option<(u64, u64)>,
}

/// Requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Requests {
    /// Have arrived, and not begun; absent until one has begun.
    pub queued: Option<u64>,
    /// Have begun, and not ended; absent where nothing was recorded for the last seconds.
    pub running: Option<u64>,
    /// Have ended: from arrival, or else the first step, to the last token.
    pub duration: Histogram,
    /// Tokens of the prompts that were computed, of those that ended.
    pub input_tokens: u64,
    /// Tokens that they were given.
    pub output_tokens: u64,
    /// Some that run, the oldest first.
    pub open: Vec<RequestFigures>,
}

/// A request that runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequestFigures {
    /// The engine's number, if recorded.
    pub request: Option<u64>,
    /// The sequence that it is computed in.
    pub sequence: i64,
    /// Since it arrived, or else since its first step began.
    pub since_ns: u64,
    /// It has its first token.
    pub is_in_decode: bool,
    /// Tokens of its prompt that were computed so far; absent where some were not recorded.
    pub input_tokens: Option<u64>,
    /// Tokens that it was given so far; absent likewise.
    pub output_tokens: Option<u64>,
    /// Time to first token, if it has one.
    pub ttft_ns: Option<u64>,
    /// Time per output token.
    pub tpot_ns: Option<f64>,
}

/// Operators of one type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OperatorFigures {
    /// The type; `other`: all without a row.
    pub op: String,
    /// How many were computed.
    pub count: u64,
    /// Work, all lanes together.
    pub work_ns: u64,
    /// Waiting, all lanes together.
    pub waiting_ns: u64,
}

/// What was fetched from disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Fetches {
    /// Major faults in steps.
    pub faults: u64,
    /// Wait for them, all threads together.
    pub waited_ns: u64,
    /// Bytes that came into the page cache.
    pub bytes: u64,
}

/// What the kernel let the target have, since the start of the recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Pressures {
    /// CPU time in user code.
    pub user_ns: u64,
    /// CPU time in the kernel.
    pub system_ns: u64,
    /// Page faults without a disk.
    pub minor_faults: u64,
    /// Page faults that waited for a disk.
    pub major_faults: u64,
    /// Processes that are too many to be asked now: their time and faults are missing.
    pub left_out: u64,
    /// Time in which a CPU quota did not let it run; absent without a quota.
    pub throttled_ns: Option<u64>,
}

/// What was lost for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LossRow {
    /// The reason, such as `ring_full`.
    pub reason: String,
    /// How many.
    pub count: u64,
    /// Whole records are missing.
    pub loses_records: bool,
}

/// The account of the tracing overhead, as the recorder estimates it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct OverheadSpent {
    /// The budget, as a part of the target's time in steps.
    pub budget: Option<f64>,
    /// Added to the target's time in steps so far.
    pub spent_ns: u64,
    /// The target's time in steps without it.
    pub step_ns: u64,
}

impl OverheadSpent {
    /// The overhead, as a part of the target's time in steps.
    pub fn part(&self) -> Option<f64> {
        (self.step_ns > 0).then(|| self.spent_ns as f64 / self.step_ns as f64)
    }
}

/// A flight recorder's account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct FlightFigures {
    /// Bytes of the last minutes on disk.
    pub ring_bytes: u64,
    /// How much of the past they are, ns.
    pub ring_ns: u64,
    /// How often the condition held.
    pub happened: u64,
    /// Traces that were kept for that.
    pub kept: u64,
    /// Writes that failed: of the last minutes, and of traces to be kept.
    pub failed: u64,
}

/// The last seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Window {
    /// How many.
    pub seconds: u64,
    /// Steps a second; absent, as the rates below, where too little of the time was recorded.
    pub steps_per_s: Option<f64>,
    /// Tokens of decode steps a second; absent where no step has a number of tokens.
    pub output_tokens_per_s: Option<f64>,
    /// Some steps have none, and count as the others, or as [`Self::rates_are_estimated`].
    pub output_is_estimated: bool,
    /// Nothing was recorded for some of the time, which counts as the other.
    pub rates_are_estimated: bool,
    /// Tokens of prompts a second.
    pub input_tokens_per_s: Option<f64>,
    /// The part of the time in which some thread was in a step; steps at the same time count each.
    pub in_steps: Option<f64>,
    /// Mean time to first token, ns.
    pub ttft_ns: Option<f64>,
    /// Mean time per output token, ns.
    pub tpot_ns: Option<f64>,
    /// Major faults a second; absent until that was polled.
    pub major_faults_per_s: Option<f64>,
    /// CPUs' worth of time that the target used; absent until that was polled.
    pub cpus: Option<f64>,
    /// What limits the steps of the last half minute whose operators were recorded, as `profinfer report` shows it.
    pub verdict: Vec<String>,
    /// How many steps that is of.
    pub verdict_steps: u64,
    /// Their operators by type.
    pub operators: Vec<OperatorShare>,
}

/// Operators of one type, in the steps of the verdict.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperatorShare {
    /// The type.
    pub op: String,
    /// Their work by these steps' time on all lanes.
    pub share: f64,
    /// How many.
    pub count: u64,
    /// Work, all lanes together.
    pub work_ns: u64,
    /// Waiting, all lanes together.
    pub waiting_ns: u64,
    /// Mean time of one.
    pub mean_ns: f64,
}
