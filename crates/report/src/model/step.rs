//! One step: its operators in the order of execution, lane by lane.

use super::metrics::CountValue;
use super::rows::TraceFacts;
use profinfer_analysis::{Catalogue, Completeness, Count, Decoder, Missing, Operator, Step, Visitor};
use profinfer_trace::Meta;
use serde::Serialize;

/// One step of a trace. Times are ns from the step's start.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepReport {
    /// `profinfer-step`.
    pub format: &'static str,
    /// Raised when a key changes its meaning.
    pub version: u32,
    /// Is something missing of the trace?
    pub completeness: Completeness,
    /// Where the trace comes from.
    pub trace: TraceFacts,
    /// The step.
    pub step: StepView,
}

/// The step itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct StepView {
    /// Its number, from 1.
    pub number: u64,
    /// `prefill` or `decode`.
    pub phase: &'static str,
    /// The process.
    pub pid: u32,
    /// The thread that ran it.
    pub tid: u32,
    /// ns, CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// ns.
    pub duration_ns: u64,
    /// Tokens it took in.
    pub tokens: Option<u64>,
    /// No record was lost during it.
    pub complete: bool,
    /// `whole`; `partly` or `bare` where its operators were not recorded, or not all of them.
    pub recorded: &'static str,
    /// What was lost during it, by thread.
    pub missing: Vec<MissingView>,
    /// What its thread counted.
    pub counts: Vec<CountValue>,
    /// Its graphs.
    pub graphs: Vec<GraphView>,
    /// Its operators, by start.
    pub operators: Vec<OperatorView>,
    /// Barriers and other regions, by start.
    pub regions: Vec<RegionView>,
}

/// Records of a thread that were lost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MissingView {
    /// The thread; `null` where there are too many to keep them apart.
    pub tid: Option<u32>,
    /// Its lane, where it computed operators of the step.
    pub lane: Option<u32>,
    /// How many at most.
    pub records: u64,
}

/// A graph.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GraphView {
    /// Its backend.
    pub backend: String,
    /// The thread.
    pub tid: u32,
    /// From the step's start.
    pub start_ns: u64,
    /// ns.
    pub duration_ns: u64,
}

/// An operator.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperatorView {
    /// Its name.
    pub name: String,
    /// Its type.
    pub op: String,
    /// What was computed along with it.
    pub covers: Option<String>,
    /// Its layer.
    pub layer: Option<String>,
    /// The layer is inferred from the operators before and after it.
    pub layer_inferred: bool,
    /// Element type.
    pub dtype: Option<String>,
    /// Shape.
    pub shape: Vec<i64>,
    /// The node's address, in hexadecimal.
    pub node: Option<String>,
    /// Index into `graphs`.
    pub graph: Option<u32>,
    /// From the step's start.
    pub start_ns: u64,
    /// To the last lane's end of work.
    pub duration_ns: u64,
    /// Work, all lanes together.
    pub work_ns: u64,
    /// Waiting, all lanes together; `None` where it was not recorded: then it is part of the work.
    pub waiting_ns: Option<u64>,
    /// Floating-point operations, where the probeset and the trace have enough.
    pub flops: Option<f64>,
    /// Bytes moved, where they do.
    pub bytes: Option<f64>,
    /// A cost is of the most experts that could be used.
    pub bound: bool,
    /// Its counters, all lanes together.
    pub counts: Vec<CountValue>,
    /// The lanes' shares.
    pub lanes: Vec<LaneView>,
    /// Every lane of the step that lost records has its share here.
    pub complete: bool,
    /// Experts, where the operator chose some.
    pub experts: Vec<u32>,
}

/// A lane's share.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LaneView {
    /// The lane.
    pub lane: u32,
    /// The thread.
    pub tid: u32,
    /// From the step's start.
    pub start_ns: u64,
    /// Work.
    pub work_ns: u64,
    /// Waiting after it; `None` where it was not recorded: then it is part of the work.
    pub waiting_ns: Option<u64>,
    /// Its counters.
    pub counts: Vec<CountValue>,
}

/// A region.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RegionView {
    /// The probe.
    pub region: String,
    /// The thread.
    pub tid: u32,
    /// From the step's start.
    pub start_ns: u64,
    /// ns.
    pub duration_ns: u64,
    /// Index into `operators` of the one that it lies in.
    pub operator: Option<u32>,
}

/// Waits for one step of the timeline.
#[derive(Debug)]
pub struct StepFinder {
    number: u64,
    found: Option<StepView>,
}

impl StepFinder {
    /// For the step of that number.
    pub fn new(number: u64) -> Self {
        Self { number, found: None }
    }

    /// The report, if the trace has such a step.
    pub fn finish(self, meta: &Meta, completeness: Completeness) -> Option<StepReport> {
        let trace = TraceFacts::new(meta);
        self.found.map(|step| StepReport { format: "profinfer-step", version: 1, completeness, trace, step })
    }
}

impl Visitor for StepFinder {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) {
        if step.number == self.number && step.number > 0 {
            self.found = Some(view(step, catalogue, decoder));
        }
    }
}

fn view(step: &Step, catalogue: &Catalogue, decoder: &Decoder) -> StepView {
    let since = |time: u64| time.saturating_sub(step.start);
    let graphs = step.graphs.iter().map(|graph| GraphView {
        backend: catalogue.text(graph.backend).to_string(),
        tid: graph.tid,
        start_ns: since(graph.start),
        duration_ns: graph.end.saturating_sub(graph.start),
    });
    let mut operators: Vec<OperatorView> =
        step.operators.iter().map(|o| operator_view(o, step, catalogue, decoder)).collect();
    for experts in &step.experts {
        if let Some(operator) = experts.operator.and_then(|i| operators.get_mut(i as usize)) {
            operator.experts.extend(&experts.ids);
        }
    }
    let mut regions: Vec<RegionView> = step
        .regions
        .iter()
        .map(|region| RegionView {
            region: decoder.name(region.record_type).to_string(),
            tid: region.tid,
            start_ns: since(region.start),
            duration_ns: region.end.saturating_sub(region.start),
            operator: region.operator,
        })
        .collect();
    regions.sort_by_key(|r| (r.start_ns, r.tid));
    StepView {
        number: step.number,
        phase: step.phase.map_or("", |p| p.as_str()),
        pid: step.pid,
        tid: step.tid,
        start_ns: step.start,
        duration_ns: step.duration(),
        tokens: step.tokens,
        complete: step.complete,
        recorded: step.recorded.as_str(),
        missing: step.missing.iter().map(missing_view).collect(),
        counts: counts(decoder, |column| step.own_counts.get(column).copied().unwrap_or_default()),
        graphs: graphs.collect(),
        operators,
        regions,
    }
}

fn missing_view(missing: &Missing) -> MissingView {
    let Missing { tid, lane, records } = *missing;
    MissingView { tid: (tid != 0).then_some(tid), lane, records }
}

/// Each counter of the trace; nothing, where none of them was counted.
fn counts(decoder: &Decoder, count_of: impl Fn(usize) -> Count) -> Vec<CountValue> {
    let columns = decoder.counters().iter().enumerate();
    let counts = columns.map(|(column, name)| (name, count_of(column)));
    let counts: Vec<CountValue> = counts
        .map(|(name, n)| CountValue { counter: name.to_string(), value: n.value(), estimate: n.is_estimate() })
        .collect();
    if counts.iter().all(|count| count.value.is_none()) { Vec::new() } else { counts }
}

fn operator_view(operator: &Operator, step: &Step, catalogue: &Catalogue, decoder: &Decoder) -> OperatorView {
    let kind = catalogue.kind(operator.kind);
    let text = |t: &Option<std::sync::Arc<str>>| t.as_ref().map(ToString::to_string);
    let since = |time: u64| time.saturating_sub(step.start);
    let mut lanes: Vec<LaneView> = step
        .lanes_of(operator)
        .iter()
        .map(|span| LaneView {
            lane: span.lane,
            tid: span.tid,
            start_ns: since(span.start),
            work_ns: span.work(),
            waiting_ns: (!span.undivided).then_some(span.waiting),
            counts: counts(decoder, |column| step.count_of(span, column)),
        })
        .collect();
    lanes.sort_by_key(|l| l.lane);
    let shares = step.lanes_of(operator);
    let of_lanes = |column| shares.iter().fold(Count::ZERO, |sum, span| sum.plus(step.count_of(span, column)));
    OperatorView {
        name: kind.name.to_string(),
        op: kind.op.to_string(),
        covers: text(&kind.covers),
        layer: text(&kind.layer),
        layer_inferred: kind.layer_inferred,
        dtype: text(&kind.dtype),
        shape: kind.shape.to_vec(),
        node: operator.object.map(|o| format!("{:#x}", catalogue.address(o))),
        graph: operator.graph,
        start_ns: since(operator.start),
        duration_ns: operator.end.saturating_sub(operator.start),
        work_ns: operator.work,
        waiting_ns: operator.is_divided().then_some(operator.waiting),
        flops: operator.cost.flops,
        bytes: operator.cost.bytes,
        bound: operator.cost.flops_bound || operator.cost.bytes_bound,
        counts: counts(decoder, of_lanes),
        complete: step.missing.iter().filter_map(|m| m.lane).all(|lane| lanes.iter().any(|l| l.lane == lane)),
        lanes,
        experts: Vec::new(),
    }
}
