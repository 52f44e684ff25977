//! The rows of a report.

use super::metrics::{CountValue, MetricCell};
use crate::numbers::ratios::ratio;
use crate::numbers::units::{shape, share};
use profinfer_analysis::Distribution;
use profinfer_schema::Origin;
use profinfer_trace::Meta;
use serde::Serialize;

/// Where a trace comes from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceFacts {
    /// The engine, as the probeset calls it.
    pub engine: String,
    /// The probeset.
    pub probeset: String,
    /// What was launched or attached to.
    pub command: Vec<String>,
    /// The target's process.
    pub pid: u32,
    /// The machine.
    pub cpu_model: String,
    /// Its processors.
    pub cpus: u32,
    /// Its kernel.
    pub kernel: String,
    /// Its architecture.
    pub arch: String,
    /// Which profinfer recorded it.
    pub recorder: String,
    /// UNIX time of the start, ns.
    pub wall_clock_ns: u64,
    /// From the start of the recording to its end, ns.
    pub duration_ns: Option<u64>,
    /// Why the recording ended.
    pub ended: Option<String>,
    /// How many offsets and names come from each source; empty where debug information has them all.
    pub sources: Vec<(String, usize)>,
}

impl TraceFacts {
    /// Of a trace that was read to its end.
    pub fn new(meta: &Meta) -> Self {
        let Origin { engine, probeset, command, pid, host, recorder, wall_clock_ns, monotonic_ns, .. } =
            meta.origin.clone();
        Self {
            engine,
            probeset,
            command,
            pid,
            cpu_model: host.cpu_model,
            cpus: host.cpus,
            kernel: host.kernel,
            arch: host.arch,
            recorder,
            wall_clock_ns,
            duration_ns: meta.end.as_ref().map(|end| end.time.saturating_sub(monotonic_ns)),
            ended: meta.end.as_ref().map(|end| end.reason.clone()),
            sources: sources(meta),
        }
    }
}

/// Sources of offsets and names by kind, the most frequent first.
fn sources(meta: &Meta) -> Vec<(String, usize)> {
    let all = meta.end.as_ref().map(|end| end.sources.as_slice()).unwrap_or_default();
    let mut kinds: Vec<(String, usize)> = Vec::new();
    for of in all {
        let detailed = ["accessor", "table", "learned"].iter().find(|kind| of.source.starts_with(*kind));
        let kind = detailed.map_or(of.source.as_str(), |kind| kind);
        match kinds.iter_mut().find(|(other, _)| other == kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((kind.to_owned(), 1)),
        }
    }
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    if kinds.iter().all(|(kind, _)| kind == "DWARF") { Vec::new() } else { kinds }
}

/// A phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseReport {
    /// `prefill`, `decode`, `outside`.
    pub phase: &'static str,
    /// Steps, those with lost records left out.
    pub steps: u64,
    /// Of them, those that were recorded whole: all times of operators and graphs are of these.
    pub whole_steps: u64,
    /// Their tokens; `None` where the trace does not have them.
    pub tokens: Option<u64>,
    /// Prefill: tokens by the steps' time. Decode: tokens by the time from step to step, sampling included.
    pub tokens_per_s: Option<f64>,
    /// Sequences that a step with tokens advances, on average. They may be of one request: candidates, of which one is kept.
    pub sequences_per_step: Option<f64>,
    /// Durations of the steps.
    pub step: Distribution,
    /// The steps' time on all of their lanes.
    pub lane_time_ns: u64,
    /// Of it: work of operators.
    pub work_ns: u64,
    /// Of it: waiting of operators' lanes; `None` where it was not recorded: then it is part of the work.
    pub waiting_ns: Option<u64>,
    /// Work and waiting are estimates: waiting was recorded in some windows of time.
    pub waiting_estimated: bool,
    /// Half the width of the 95 % confidence interval around the estimated waiting; `None` where it is exact, or there
    /// are fewer than two windows.
    pub waiting_half_width_ns: Option<f64>,
    /// Of it: outside graphs; `None` where no graphs were recorded.
    pub outside_graphs_ns: Option<u64>,
    /// Of it: within graphs, outside operators; `None` where no operators were recorded.
    pub outside_operators_ns: Option<u64>,
    /// Operators computed.
    pub operators: u64,
    /// Graphs computed.
    pub graphs: u64,
    /// Off the cpu; `None` where it was not recorded.
    pub off_cpu: Option<OffCpuReport>,
}

/// Time that the steps' threads were off their cpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct OffCpuReport {
    /// Times that they left.
    pub switches: u64,
    /// Blocked, all threads together.
    pub blocked_ns: u64,
    /// Able to run while others ran, all threads together.
    pub runnable_ns: u64,
}

/// Operators that are one row of a table. What the table is not by is `None`.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct OperatorRow {
    /// Name, numbers as `*`.
    pub name: Option<String>,
    /// Type.
    pub op: Option<String>,
    /// What was computed along with it.
    pub covers: Option<String>,
    /// Layer of the model; `None` for operators of none.
    pub layer: Option<String>,
    /// Backend.
    pub backend: Option<String>,
    /// Shape.
    pub shape: Option<Vec<i64>>,
    /// Element type, where all have the same.
    pub dtype: Option<String>,
    /// Distinct layers.
    pub layers: u64,
    /// Of `total_ns`: operators whose layer is inferred from those before and after them.
    #[serde(skip_serializing_if = "is_zero")]
    pub inferred_ns: u64,
    /// How many were computed.
    pub count: u64,
    /// Work, all lanes together.
    pub total_ns: u64,
    /// Waiting, all lanes together; `None` where it was not recorded: then it is part of the work.
    pub waiting_ns: Option<u64>,
    /// Work and waiting are estimates: waiting was recorded in some windows of time.
    pub waiting_estimated: bool,
    /// What the work comes to over all steps; `None` where every step was recorded whole.
    pub estimate: Option<EstimateRow>,
    /// `total_ns` by `lane_time_ns`.
    pub share: f64,
    /// Mean time from the first lane's start to the last lane's end of work.
    pub mean_ns: f64,
    /// The same without what recording it takes, estimated; absent where that is less than a twentieth of the mean, or
    /// unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_without_tracing_ns: Option<f64>,
    /// The shortest.
    pub min_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Its counters, all lanes together.
    pub counts: Vec<CountValue>,
    /// Its metrics: out of the row's sums.
    pub metrics: Vec<MetricCell>,
}

fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

impl OperatorRow {
    /// What it is of, as the columns layer, backend, op, dtype, shape and name.
    pub(crate) fn labels(&self) -> [String; 6] {
        let name = match (&self.name, &self.covers) {
            (Some(name), Some(covers)) => format!("{name} (with {covers})"),
            (name, _) => name.clone().unwrap_or_default(),
        };
        let by_layer = self.name.is_none() && self.op.is_none() && self.backend.is_none();
        let mut layer = self.layer.clone().or_else(|| by_layer.then(|| "none".to_owned()));
        if let Some(layer) = layer.as_mut().filter(|_| by_layer && self.inferred_ns > 0) {
            layer.push_str(&format!(" ({} inferred)", share(ratio(self.inferred_ns, self.total_ns))));
        }
        [
            layer.unwrap_or_default(),
            self.backend.clone().unwrap_or_default(),
            self.op.clone().unwrap_or_default(),
            if self.op.is_some() { self.dtype.clone().unwrap_or_default() } else { String::new() },
            self.shape.as_deref().map(shape).unwrap_or_default(),
            name,
        ]
    }
}

/// A total over all steps, from those that were recorded whole.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct EstimateRow {
    /// Always `true`: this was not added up.
    pub estimate: bool,
    /// Work, all lanes together.
    pub total_ns: f64,
    /// Where it is with 95 % confidence: from here; `None` where too few windows were recorded to tell.
    pub low_ns: Option<f64>,
    /// To here.
    pub high_ns: Option<f64>,
    /// Work a step.
    pub step_ns: f64,
}

/// Graphs of a backend.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BackendRow {
    /// The backend.
    pub backend: String,
    /// Graphs computed.
    pub graphs: u64,
    /// Their time.
    pub total_ns: u64,
    /// Mean.
    pub mean_ns: f64,
    /// The longest.
    pub max_ns: u64,
    /// `total_ns` by the steps' time.
    pub share: f64,
    /// Operators computed.
    pub operators: u64,
    /// Their work, all lanes together.
    pub operators_ns: u64,
}

/// A lane.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LaneRow {
    /// Its number.
    pub lane: u32,
    /// Operators that it computed a share of.
    pub shares: u64,
    /// Work.
    pub work_ns: u64,
    /// Waiting; `None` where it was not recorded: then it is part of the work.
    pub waiting_ns: Option<u64>,
    /// Work and waiting are estimates: waiting was recorded in some windows of time.
    pub waiting_estimated: bool,
    /// Time of the steps that it took part in.
    pub step_time_ns: u64,
    /// Work by that time.
    pub busy: f64,
    /// Waiting by that time.
    pub waiting: Option<f64>,
    /// Of the operators with several lanes and recorded waiting: share of those in which it worked longest.
    pub slowest: f64,
    /// Its counters, over its shares of operators.
    pub counts: Vec<CountValue>,
    /// Its metrics; `time` and `duration` are its work.
    pub metrics: Vec<MetricCell>,
}

/// Regions of one probe.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RegionRow {
    /// The probe.
    pub region: String,
    /// How many.
    pub count: u64,
    /// Their time, all threads together.
    pub total_ns: u64,
    /// Of it: within operators.
    pub in_operators_ns: u64,
    /// Mean.
    pub mean_ns: f64,
    /// The longest.
    pub max_ns: u64,
    /// `total_ns` by `lane_time_ns`.
    pub share: f64,
}

/// The experts of one layer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExpertLayerRow {
    /// The layer; `None` where it was not recorded.
    pub layer: Option<String>,
    /// Choices of an expert for a token.
    pub activations: u64,
    /// Distinct experts that were chosen.
    pub experts: u64,
    /// The most chosen one.
    pub busiest: u32,
    /// Its share of the activations.
    pub busiest_share: f64,
    /// Activations of the busiest by the mean over experts: 1 is even.
    pub imbalance: f64,
}

/// One expert of one layer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExpertRow {
    /// The layer; `None` where it was not recorded.
    pub layer: Option<String>,
    /// Its number.
    pub expert: u32,
    /// Choices of it for a token.
    pub activations: u64,
    /// By the layer's activations.
    pub share: f64,
}
