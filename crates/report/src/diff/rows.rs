//! The comparison as data.

use super::why::CauseDiff;
use crate::model::rows::TraceFacts;
use crate::numbers::units::percent;
use crate::verdict::Bound;
use profinfer_analysis::{ComparedOperator, Completeness, Fit, Judged, Series, Statistics, Timeline};
use profinfer_trace::Meta;
use serde::Serialize;

/// Operators of one side that a line names.
const NAMED: usize = 4;

/// One of two traces, as far as it was read: the input of a comparison.
#[derive(Debug)]
pub struct DiffSide<'a> {
    /// What it is called.
    pub name: String,
    /// The description in the trace.
    pub meta: &'a Meta,
    /// Is something missing?
    pub completeness: Completeness,
    /// What its steps come to.
    pub statistics: &'a Statistics,
    /// What its records are of.
    pub timeline: &'a Timeline,
    /// The same, by block of steps.
    pub series: &'a Series,
}

/// A whole comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DiffReport {
    /// `profinfer-diff`.
    pub format: &'static str,
    /// Raised when a key changes its meaning.
    pub version: u32,
    /// The first trace.
    pub a: TraceOfSide,
    /// The second.
    pub b: TraceOfSide,
    /// In what the traces are not alike, beside their times.
    pub unlike: Vec<Unlike>,
    /// Differences below this part are let pass as noise between runs.
    pub noise: f64,
    /// Further runs of the first, by which that was measured line by line.
    pub again: u64,
    /// Causes, layers and operators that were judged together.
    pub lines: u64,
    /// Slow-downs above this part fail; `None` where none does.
    pub fail_above: Option<f64>,
    /// What fails, a sentence each.
    pub failures: Vec<String>,
    /// Prefill and decode, where one of the traces has it.
    pub phases: Vec<PhaseDiff>,
}

/// A trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceOfSide {
    /// The file.
    pub file: String,
    /// Is something missing?
    pub completeness: Completeness,
    /// Where it comes from.
    pub trace: TraceFacts,
    /// Only some of its steps were recorded whole: all else is an estimate of the others.
    pub estimate: bool,
}

/// Something in which the traces are not alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unlike {
    /// What.
    pub what: String,
    /// In the first trace.
    pub a: String,
    /// In the second.
    pub b: String,
}

/// A phase in both traces.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseDiff {
    /// `prefill`, `decode`.
    pub phase: &'static str,
    /// What it comes to, in a sentence.
    pub verdict: String,
    /// Why it differs, a sentence each: causes, then layers unlike the others.
    pub why: Vec<String>,
    /// In the first trace.
    pub a: PhaseOfSide,
    /// In the second.
    pub b: PhaseOfSide,
    /// The steps of both were compared one by one.
    pub paired: bool,
    /// Which steps were compared.
    pub compared: ComparedRow,
    /// There are too few steps of equal size: their operators were compared one by one.
    pub few: bool,
    /// Duration of a step, ns.
    pub time: ChangeRow,
    /// The lines of `operators` and `parts` that explain most of the difference: how many there are, and of how much.
    pub explained_by: u64,
    /// Their part of the difference.
    pub explained: f64,
    /// Where a step's time went, lanes on average: together the step. Empty where a trace does not tell.
    pub causes: Vec<CauseDiff>,
    /// Delays between steps, which are in no step's time; `null` where a trace does not tell.
    pub between_steps: Option<BetweenDiff>,
    /// Mean time from a step's start until its results were waited for, ns: of steps that gave work to a device, in
    /// both. Such a step returns before. It is not tested.
    pub until_results_ns: Option<[f64; 2]>,
    /// By operator: significant differences first, then by size.
    pub operators: Vec<OperatorDiff>,
    /// What lies outside of operators.
    pub parts: Vec<PartDiff>,
    /// By layer, operators only.
    pub layers: Vec<LayerDiff>,
}

/// What delayed the threads that run steps, from one step to the next: run-queue delay, waiting for the disk, being
/// stopped. It is not tested.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BetweenDiff {
    /// ns, for each step that has one before it: first, second.
    pub delay_ns: [f64; 2],
    /// Who ran instead for most of the longer delay.
    pub because: Option<String>,
}

/// Which steps of a phase were compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComparedRow {
    /// What they have in common: `each` (the steps are the same, one by one), `size` (tokens, sequences and context, as
    /// far as they were recorded), `tokens` (and sequences), `nothing`.
    pub equal_in: &'static str,
    /// How many: first, second.
    pub steps: [u64; 2],
    /// Different sizes among them.
    pub sizes: u64,
    /// The same in words.
    pub text: String,
}

/// A phase of one trace.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PhaseOfSide {
    /// Complete steps.
    pub steps: u64,
    /// Of them, those that were recorded whole, which all else is of.
    pub whole_steps: u64,
    /// Their tokens; `None` where the trace does not have them.
    pub tokens: Option<u64>,
    /// The most lanes that a step had.
    pub lanes: u64,
    /// The median of its steps' durations.
    pub median_ns: u64,
    /// The median is an estimate, off by this part at most; left out where it is exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_error: Option<f64>,
    /// Operators beyond the limit.
    pub left_out: u64,
    /// What limits it, by the trace's report; `None` where that is unknown.
    pub bound: Option<Bound>,
}

/// A quantity in both traces, a step each.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ChangeRow {
    /// In the first trace.
    pub a: f64,
    /// In the second.
    pub b: f64,
    /// The second without the first.
    pub difference: f64,
    /// Where that is with 95 % confidence: from here; `None` with too few steps to tell.
    pub low: Option<f64>,
    /// To here.
    pub high: Option<f64>,
    /// The difference by the first; `None` where that is nothing.
    pub relative: Option<f64>,
    /// The interval by the first: from here.
    pub relative_low: Option<f64>,
    /// To here.
    pub relative_high: Option<f64>,
    /// The probability that chance makes a difference as large, among all that were compared.
    pub chance: Option<f64>,
    /// `more`, `less`, `not_significant`, `unknown`: too few steps to tell.
    pub judgement: &'static str,
}

/// Operators that go together in both traces.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperatorDiff {
    /// How they were matched: `name`, `place`, `fused`, `split`, `replaced`, `gone`, `new`.
    pub fit: &'static str,
    /// In the first trace.
    pub a: Vec<ComparedOperator>,
    /// In the second.
    pub b: Vec<ComparedOperator>,
    /// Time on the clock, ns a step.
    pub time: ChangeRow,
    /// Part of the phase's difference.
    pub of_difference: Option<f64>,
    /// Share of a step: first, second.
    pub share: [f64; 2],
    /// How many are computed a step.
    pub calls: [f64; 2],
    /// Work of all lanes together, ns a step.
    pub work_ns: [f64; 2],
    /// Waiting of all lanes together, ns a step.
    pub waiting_ns: [f64; 2],
    /// Counters that both traces have.
    pub counters: Vec<CounterRow>,
    /// By layer.
    pub layers: Vec<LayerDiff>,
}

/// Time that no operator took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartDiff {
    /// `between_operators`, `outside_graphs`.
    pub part: &'static str,
    /// ns a step.
    pub time: ChangeRow,
    /// Part of the phase's difference.
    pub of_difference: Option<f64>,
    /// Share of a step: first, second.
    pub share: [f64; 2],
}

/// A counter of an operator.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CounterRow {
    /// Its name.
    pub counter: String,
    /// How much it counted a step.
    pub count: ChangeRow,
}

/// A layer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LayerDiff {
    /// Its name; `None` for operators of no layer.
    pub layer: Option<String>,
    /// Time on the clock, ns a step.
    pub time: ChangeRow,
    /// It changed unlike the other layers: their median relative change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unlike_others: Option<f64>,
}

impl ChangeRow {
    pub(super) fn judged(judged: &Judged) -> Self {
        let change = &judged.change;
        let relative = change.relative_interval;
        Self {
            a: change.a,
            b: change.b,
            difference: change.difference(),
            low: change.interval.map(|(low, _)| low),
            high: change.interval.map(|(_, high)| high),
            relative: change.relative(),
            relative_low: relative.map(|(low, _)| low),
            relative_high: relative.map(|(_, high)| high),
            chance: judged.chance,
            judgement: judged.judgement.as_str(),
        }
    }

    /// It is more than noise.
    pub fn is_significant(&self) -> bool {
        matches!(self.judgement, "more" | "less")
    }

    /// It is longer, and that is more than noise.
    pub(super) fn is_slower(&self) -> bool {
        self.judgement == "more"
    }

    /// `+12.3 % (+10.0 to +14.6 %)`, `new`, `gone`.
    pub(super) fn relative_text(&self) -> String {
        match (self.relative, self.relative_low, self.relative_high) {
            _ if self.b == 0.0 && self.a > 0.0 => "gone".to_owned(),
            (None, ..) if self.b > 0.0 => "new".to_owned(),
            (None, ..) => String::new(),
            (Some(relative), Some(low), Some(high)) if self.judgement != "unknown" => {
                format!("{} ({} to {})", percent(relative), percent(low).trim_end_matches(" %"), percent(high))
            }
            (Some(relative), ..) => percent(relative),
        }
    }

    /// The judgement in words, for a time.
    pub(super) fn judgement_text(&self) -> &'static str {
        match self.judgement {
            "more" => "slower",
            "less" => "faster",
            "unknown" => "too few steps to tell",
            _ => "not significant",
        }
    }
}

impl PhaseDiff {
    /// The operator with most of a layer's difference.
    pub(super) fn operator_of_layer(&self, layer: &LayerDiff) -> Option<String> {
        let of = self.operators.iter().filter_map(|operator| {
            let row = operator.layers.iter().find(|row| row.layer == layer.layer)?;
            Some((operator, row.time.difference * layer.time.difference.signum()))
        });
        let (operator, most) = of.max_by(|a, b| a.1.total_cmp(&b.1))?;
        (most > 0.0).then(|| operator.title())
    }
}

impl OperatorDiff {
    /// Types, then names: `MUL_MAT ffn_up-*`; both sides where they differ.
    pub(super) fn title(&self) -> String {
        let side = |of: &[ComparedOperator]| {
            let mut names: Vec<String> = of.iter().take(NAMED).map(title).collect();
            if of.len() > NAMED {
                names.push(format!("{} more", of.len() - NAMED));
            }
            names.join(" + ")
        };
        match (self.fit == Fit::Name.as_str(), self.a.is_empty(), self.b.is_empty()) {
            (true, ..) | (_, _, true) => side(&self.a),
            (_, true, _) => side(&self.b),
            _ => format!("{} → {}", side(&self.a), side(&self.b)),
        }
    }
}

fn title(operator: &ComparedOperator) -> String {
    let covers = operator.covers.as_ref().map_or_else(String::new, |covers| format!(" (with {covers})"));
    match operator.op == operator.name {
        true => format!("{}{covers}", operator.op),
        false => format!("{} {}{covers}", operator.op, operator.name),
    }
}
