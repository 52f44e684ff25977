//! The comparison as data: what is divided by what, what comes first, and whether it fails a limit.

use super::unlike::unlike;
use crate::analysis::{
    Change, ComparedOperator, Completeness, CounterChange, Fit, Judged, Judgement, LayerChange, OperatorChange,
    PhaseChange, PhaseSide, Series, Statistics, compare,
};
use crate::report::TraceFacts;
use crate::report::units::{percent, time_f64};
use crate::trace::Meta;
use serde::Serialize;

/// So much of a difference is explained by the lines that the summary names, at most so many.
const MOST: f64 = 0.8;
const LINES: usize = 5;

/// Operators of one side that a line names.
const NAMED: usize = 4;

/// One of two traces, as far as it was read: the input of a comparison.
#[derive(Debug)]
pub struct DiffSide<'a> {
    /// What it is called.
    pub name: String,
    /// What the trace says of itself.
    pub meta: &'a Meta,
    /// Is something missing?
    pub completeness: Completeness,
    /// What its steps come to.
    pub statistics: &'a Statistics,
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
    /// In the first trace.
    pub a: PhaseOfSide,
    /// In the second.
    pub b: PhaseOfSide,
    /// The steps of both were compared one by one.
    pub paired: bool,
    /// Duration of a step, ns.
    pub time: ChangeRow,
    /// The lines of `operators` and `parts` that explain most of the difference: how many there are, and of how much.
    pub explained_by: u64,
    /// Their part of the difference.
    pub explained: f64,
    /// By operator: significant differences first, then by size.
    pub operators: Vec<OperatorDiff>,
    /// What lies outside of operators.
    pub parts: Vec<PartDiff>,
    /// By layer, operators only.
    pub layers: Vec<LayerDiff>,
}

/// A phase of one trace.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PhaseOfSide {
    /// Complete steps.
    pub steps: u64,
    /// Of them, those that were recorded whole, which all else is of.
    pub whole_steps: u64,
    /// Their tokens; `None` where the trace does not say.
    pub tokens: Option<u64>,
    /// The most lanes that a step had.
    pub lanes: u64,
    /// The median of its steps' durations.
    pub median_ns: u64,
    /// The median is an estimate, off by this part at most; left out where it is exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_error: Option<f64>,
    /// Operators beyond those that are told apart.
    pub left_out: u64,
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
    /// How likely chance makes a difference as large, among so many that were looked at.
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
}

/// Compares two traces that were read to their ends. `noise` is let pass between runs, and what `again`, further runs
/// of the first, differ by; slow-downs above `fail_above` are failures.
pub fn diff(
    a: &DiffSide<'_>,
    b: &DiffSide<'_>,
    again: &[&Series],
    (noise, fail_above): (f64, Option<f64>),
) -> DiffReport {
    let changes = compare(a.series, b.series, again, noise);
    let phases: Vec<PhaseDiff> = changes.into_iter().map(|change| phase(change, [a, b])).collect();
    let mut report = DiffReport {
        format: "profinfer-diff",
        version: 1,
        a: of_side(a, &phases, 0),
        b: of_side(b, &phases, 1),
        unlike: unlike(a, b, &phases),
        noise,
        again: again.len() as u64,
        fail_above,
        failures: Vec::new(),
        phases,
    };
    if let Some(limit) = fail_above {
        report.failures = report.phases.iter().flat_map(|phase| failures(phase, limit)).collect();
    }
    report
}

fn of_side(side: &DiffSide<'_>, phases: &[PhaseDiff], at: usize) -> TraceOfSide {
    let mut of_phases = phases.iter().map(|phase| [phase.a, phase.b][at]);
    TraceOfSide {
        file: side.name.clone(),
        completeness: side.completeness.clone(),
        trace: TraceFacts::new(side.meta),
        estimate: of_phases.any(|of| of.whole_steps < of.steps),
    }
}

fn phase(change: PhaseChange, [a, b]: [&DiffSide<'_>; 2]) -> PhaseDiff {
    let of_side = |of: &PhaseSide, side: &DiffSide<'_>| {
        let times = side.statistics.step_times(change.phase);
        PhaseOfSide {
            steps: of.steps,
            whole_steps: of.whole_steps,
            tokens: of.tokens,
            lanes: of.lanes,
            median_ns: times.p50_ns,
            median_error: times.percentile_error,
            left_out: of.left_out,
        }
    };
    let whole = change.time.change;
    let of_difference = |of: Change| (whole.difference() != 0.0).then(|| of.difference() / whole.difference());
    let share =
        |of: Change| [(of.a, whole.a), (of.b, whole.b)].map(|(of, whole)| if whole > 0.0 { of / whole } else { 0.0 });
    let part = |part, of: &Judged| PartDiff {
        part,
        time: ChangeRow::judged(of),
        of_difference: of_difference(of.change),
        share: share(of.change),
    };
    let operator = |of: &OperatorChange| OperatorDiff {
        fit: of.fit.as_str(),
        a: of.a.clone(),
        b: of.b.clone(),
        time: ChangeRow::judged(&of.time),
        of_difference: of_difference(of.time.change),
        share: share(of.time.change),
        calls: of.calls,
        work_ns: of.work,
        waiting_ns: of.waiting,
        counters: of.counters.iter().map(counter).collect(),
        layers: of.layers.iter().map(layer).collect(),
    };
    let mut operators: Vec<&OperatorChange> = change.operators.iter().collect();
    // They come by size; what is more than noise, first.
    operators.sort_by_key(|of| !is_significant(of.time.judgement));
    let mut phase = PhaseDiff {
        phase: change.phase.as_str(),
        verdict: String::new(),
        a: of_side(&change.sides[0], a),
        b: of_side(&change.sides[1], b),
        paired: change.paired,
        time: ChangeRow::judged(&change.time),
        explained_by: 0,
        explained: 0.0,
        operators: operators.into_iter().map(operator).collect(),
        parts: vec![part("between_operators", &change.between), part("outside_graphs", &change.outside)],
        layers: change.layers.iter().map(layer).collect(),
    };
    phase.explain();
    phase.verdict = phase.sentence();
    phase
}

fn is_significant(judgement: Judgement) -> bool {
    matches!(judgement, Judgement::More | Judgement::Less)
}

fn layer(of: &LayerChange) -> LayerDiff {
    LayerDiff { layer: of.layer.as_deref().map(str::to_owned), time: ChangeRow::judged(&of.time) }
}

fn counter(of: &CounterChange) -> CounterRow {
    let judgement = match of.change.chance {
        None => Judgement::Unknown,
        Some(chance) if chance > crate::analysis::SIGNIFICANT => Judgement::NotSignificant,
        Some(_) if of.change.difference() > 0.0 => Judgement::More,
        Some(_) => Judgement::Less,
    };
    let judged = Judged { change: of.change, chance: of.change.chance, judgement };
    CounterRow { counter: of.counter.to_string(), count: ChangeRow::judged(&judged) }
}

impl ChangeRow {
    fn judged(judged: &Judged) -> Self {
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
    fn is_slower(&self) -> bool {
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

    /// What it amounts to, as people say it of a time.
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
    /// Differences of all lines, the largest in the direction of the whole first; those that are more than noise only.
    pub(super) fn lines(&self) -> Vec<(&ChangeRow, Option<f64>)> {
        let operators = self.operators.iter().map(|of| (&of.time, of.of_difference));
        let parts = self.parts.iter().map(|of| (&of.time, of.of_difference));
        let mut lines: Vec<_> = operators.chain(parts).collect();
        lines.sort_by(|a, b| b.1.unwrap_or(0.0).total_cmp(&a.1.unwrap_or(0.0)));
        lines
    }

    /// The fewest lines that explain most of a difference that is more than noise.
    fn explain(&mut self) {
        if !self.time.is_significant() {
            return;
        }
        let (mut count, mut sum) = (0, 0.0);
        for (time, part) in self.lines() {
            let Some(part) = part.filter(|part| *part > 0.0 && time.is_significant()) else { continue };
            if count as usize == LINES || sum >= MOST {
                break;
            }
            count += 1;
            sum += part;
        }
        (self.explained_by, self.explained) = (count, sum);
    }

    fn sentence(&self) -> String {
        let one_sided = |has: &str, lacks: &str| format!("{has} has steps of this phase, {lacks} has none");
        match (self.a.whole_steps, self.b.whole_steps) {
            (0, 0) => return "neither has steps that were recorded whole".to_owned(),
            (0, _) => return one_sided("B", "A"),
            (_, 0) => return one_sided("A", "B"),
            _ => {}
        }
        let change = self.time.relative_text();
        let times = format!("{} → {} a step", time_f64(self.time.a), time_f64(self.time.b));
        match self.time.judgement {
            "more" | "less" => format!("{}: {times}, {change}", self.time.judgement_text()),
            "unknown" => {
                format!(
                    "{times}, {change}; {} and {} steps are too few to tell",
                    self.a.whole_steps, self.b.whole_steps
                )
            }
            _ => format!("no significant difference: {times}, {change}"),
        }
    }
}

/// What of a phase is slower by more than the limit: the whole, else operators that alone make it so.
fn failures(phase: &PhaseDiff, limit: f64) -> Vec<String> {
    let whole = phase.time.relative.filter(|relative| phase.time.is_slower() && *relative > limit);
    if whole.is_some() {
        return vec![format!("{} is {} a step", phase.phase, slower(&phase.time, None))];
    }
    let step = phase.time.a;
    let alone = |of: &&OperatorDiff| of.time.is_slower() && step > 0.0 && of.time.difference / step > limit;
    let sentence = |of: &OperatorDiff| {
        format!("{} of {} is {}", of.title(), phase.phase, slower(&of.time, Some(of.time.difference / step)))
    };
    phase.operators.iter().filter(alone).map(sentence).collect()
}

fn slower(time: &ChangeRow, of_step: Option<f64>) -> String {
    let of_step = of_step.map_or_else(String::new, |part| format!(", {} of a step", percent(part)));
    format!("slower: {} → {}, {}{of_step}", time_f64(time.a), time_f64(time.b), time.relative_text())
}

impl OperatorDiff {
    /// Types, then names: `MUL_MAT ffn_up-*`; both sides where they differ.
    pub(super) fn title(&self) -> String {
        let side = |of: &[ComparedOperator]| {
            let mut names: Vec<String> = of.iter().take(NAMED).map(ComparedOperator::title).collect();
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

impl ComparedOperator {
    fn title(&self) -> String {
        let covers = self.covers.as_ref().map_or_else(String::new, |covers| format!(" (with {covers})"));
        if self.op == self.name { format!("{}{covers}", self.op) } else { format!("{} {}{covers}", self.op, self.name) }
    }
}
