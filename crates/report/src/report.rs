//! The report as data: what `report --json` prints.

use crate::model::faults::FaultsReport;
use crate::model::kept::KeptReport;
use crate::model::metrics::MetricsReport;
use crate::model::offload::OffloadReport;
use crate::model::pressure::PressureReport;
use crate::model::reclaim::ReclaimReport;
use crate::model::requests::RequestRow;
use crate::model::rows::{
    BackendRow, ExpertLayerRow, ExpertRow, LaneRow, OperatorRow, PhaseReport, RegionRow, TraceFacts,
};
use crate::model::sampling::SamplingReport;
use crate::model::threads::ThreadsReport;
use crate::verdict::Verdict;
use profinfer_analysis::{Completeness, Distribution, Phase};
use profinfer_schema::Roofline;
use serde::Serialize;

/// What the main table is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Operators of the same name, whatever their layer
    #[default]
    Name,
    /// Operator types
    Op,
    /// Layers of the model
    Layer,
    /// Backends
    Backend,
    /// Lanes: the threads that share operators
    Lane,
    /// Experts of each layer
    Expert,
    /// Operator types and shapes
    Shape,
    /// Functions of the target and the kernel, by timer samples
    Function,
    /// Requests: their waiting, prefill and decode
    Request,
}

/// A whole report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// `profinfer-report`.
    pub format: &'static str,
    /// Raised when a key changes its meaning.
    pub version: u32,
    /// Is something missing?
    pub completeness: Completeness,
    /// Where the trace comes from.
    pub trace: TraceFacts,
    /// Why a flight recorder kept it; `None` for every other trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptReport>,
    /// What the machine can do at most; `None` where that was not measured before the recording.
    pub roofline: Option<Roofline>,
    /// What the recording cost, and which steps it recorded whole.
    pub sampling: SamplingReport,
    /// Prefill, decode, and what no step contains; only those that occur.
    pub phases: Vec<PhaseReport>,
    /// Time to first token, over generations.
    pub ttft: Distribution,
    /// Time per output token, over decode steps.
    pub tpot: Distribution,
    /// Requests by arrival; empty where sequences were not recorded.
    pub requests: Vec<RequestRow>,
    /// Requests of the trace, listed or not.
    pub requests_total: u64,
    /// Phases that the tables are of.
    pub table_phases: Vec<&'static str>,
    /// The steps' time on all lanes, in those phases: what shares are shares of.
    pub lane_time_ns: u64,
    /// The most lanes that a step had.
    pub lanes: u64,
    /// What `table` is by.
    pub by: By,
    /// The operators that took most time, grouped by `by` (by name, where that is `lane` or `expert`).
    pub operators: Vec<OperatorRow>,
    /// Rows that `operators` would have without `--top`.
    pub operators_total: u64,
    /// By operator type.
    pub operator_types: Vec<OperatorRow>,
    /// By layer, in the order of the model.
    pub layers: Vec<OperatorRow>,
    /// By backend: its graphs.
    pub backends: Vec<BackendRow>,
    /// Work on other processors; `None` where none was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offload: Option<OffloadReport>,
    /// By lane.
    pub lane_rows: Vec<LaneRow>,
    /// Barriers and other regions.
    pub regions: Vec<RegionRow>,
    /// Experts, summed up by layer.
    pub expert_layers: Vec<ExpertLayerRow>,
    /// Experts, one by one.
    pub experts: Vec<ExpertRow>,
    /// What had to be fetched from disk; `None` where nothing of the sort was recorded.
    pub faults: Option<FaultsReport>,
    /// Times of reclaim and compaction; `None` where they were not recorded.
    pub reclaim: Option<ReclaimReport>,
    /// Which counters and metrics rows have.
    pub metrics: MetricsReport,
    /// What the lanes' threads did; `None` where the scheduler's events were not recorded.
    pub threads: Option<ThreadsReport>,
    /// What the kernel let the target have, by phase; empty where that was not recorded.
    pub pressure: std::collections::BTreeMap<&'static str, PressureReport>,
    /// Why it takes its time: of all phases, whatever the tables are of.
    pub verdict: Verdict,
}

impl Report {
    /// Steps have numbers of tokens.
    pub(crate) fn has_tokens(&self) -> bool {
        self.phases.iter().any(|phase| phase.tokens_per_s.is_some())
    }

    /// How many sequences a decode step computes, on average, where it is several and nothing tells requests apart. Then
    /// its tokens may be those of several requests, or of candidates for one token of one.
    pub(crate) fn sequences_together(&self) -> Option<f64> {
        let decode =
            self.phases.iter().find(|row| row.phase == Phase::Decode.as_str() && row.tokens_per_s.is_some())?;
        decode.sequences_per_step.filter(|sequences| *sequences > 1.0 && self.requests_total == 0)
    }

    /// The largest number of rows of operators, and of experts.
    pub fn truncate(&mut self, rows: usize) {
        self.operators.truncate(rows);
        self.experts.truncate(rows);
        self.requests.truncate(rows);
    }
}
