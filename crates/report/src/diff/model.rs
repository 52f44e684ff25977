//! The comparison: quotients, order of the rows, and whether it fails a limit.

use super::rows::{
    ChangeRow, ComparedRow, CounterRow, DiffReport, DiffSide, LayerDiff, OperatorDiff, PartDiff, PhaseDiff,
    PhaseOfSide, TraceOfSide,
};
use super::unlike::unlike;
use super::why;
use crate::model::rows::TraceFacts;
use crate::numbers::units::{percent, time_f64};
use crate::verdict::{Bound, kernel_shares, limit_of};
use profinfer_analysis::{
    Change, CounterChange, Judged, Judgement, LayerChange, OperatorChange, Phase, PhaseChange, PhaseSide, Series,
    SharesByPhase, compare,
};

/// The part of a difference that the rows named in the summary explain, and their largest number.
const MOST: f64 = 0.8;
const LINES: usize = 5;

/// Compares two traces that were read to their ends. `noise` is let pass between runs, and what `again`, further runs
/// of the first, differ by; slow-downs above `fail_above` are failures.
pub fn diff(
    a: &DiffSide<'_>,
    b: &DiffSide<'_>,
    again: &[&Series],
    (noise, fail_above): (f64, Option<f64>),
) -> DiffReport {
    let [shares_a, shares_b] = [a, b].map(shares);
    let changes = compare((a.series, &shares_a), (b.series, &shares_b), again, noise);
    let lines = changes.lines;
    let phases: Vec<PhaseDiff> = changes.phases.into_iter().map(|change| phase(change, [a, b])).collect();
    let mut report = DiffReport {
        format: "profinfer-diff",
        version: 1,
        a: of_side(a, &phases, 0),
        b: of_side(b, &phases, 1),
        unlike: unlike(a, b, &phases),
        noise,
        again: again.len() as u64,
        lines,
        fail_above,
        failures: Vec::new(),
        phases,
    };
    if let Some(limit) = fail_above {
        report.failures = report.phases.iter().flat_map(|phase| failures(phase, limit)).collect();
    }
    report
}

/// What the kernel counted for a trace's target.
fn shares(side: &DiffSide<'_>) -> SharesByPhase {
    let of = |phase: Phase| (phase, kernel_shares(side.meta, side.statistics, side.timeline, phase).0);
    Phase::STEPS.map(of).into()
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
            bound: limit_of(side.meta, side.statistics, side.timeline, change.phase)
                .map(|verdict| verdict.bound)
                .filter(|bound| *bound != Bound::Unknown),
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
        why: Vec::new(),
        a: of_side(&change.sides[0], a),
        b: of_side(&change.sides[1], b),
        paired: change.paired,
        compared: compared(&change),
        few: change.few,
        causes: why::causes(&change.causes, change.phase, (whole.a, whole.b), [a, b]),
        between_steps: why::between_steps(change.phase, [a, b]),
        until_results_ns: why::until_results(change.phase, [a, b]),
        time: ChangeRow::judged(&change.time),
        explained_by: 0,
        explained: 0.0,
        operators: operators.into_iter().map(operator).collect(),
        parts: vec![part("between_operators", &change.between), part("outside_graphs", &change.outside)],
        layers: change.layers.iter().map(layer).collect(),
    };
    for odd in &change.odd {
        if let Some(layer) = phase.layers.get_mut(odd.layer) {
            layer.unlike_others = Some(odd.others);
        }
    }
    phase.explain();
    phase.verdict = phase.sentence();
    phase.why = why::sentences(&phase);
    phase
}

/// Which steps were compared, in words.
fn compared(change: &PhaseChange) -> ComparedRow {
    let of = change.compared;
    let [a, b] = of.steps;
    let [all_a, all_b] = change.sides.map(|side| side.whole_steps);
    let text = match of.equal_in.as_str() {
        "each" => "each step with the same step of the other trace".to_owned(),
        "size" => {
            let sizes = if of.sizes == 1 { "one size".to_owned() } else { format!("{} sizes", of.sizes) };
            format!("{a} of {all_a} and {b} of {all_b} steps, equal in tokens, sequences and context ({sizes})")
        }
        "tokens" => format!("{a} of {all_a} and {b} of {all_b} steps with as many tokens; their contexts differ"),
        _ => "all steps, because none are equal in size".to_owned(),
    };
    let few =
        if change.few { "; too few steps, so operator by operator, and changes below 10 % are ignored" } else { "" };
    ComparedRow { equal_in: of.equal_in.as_str(), steps: of.steps, sizes: of.sizes, text: format!("{text}{few}") }
}

fn is_significant(judgement: Judgement) -> bool {
    matches!(judgement, Judgement::More | Judgement::Less)
}

fn layer(of: &LayerChange) -> LayerDiff {
    let name = of.layer.as_deref().map(str::to_owned);
    LayerDiff { layer: name, time: ChangeRow::judged(&of.time), unlike_others: None }
}

fn counter(of: &CounterChange) -> CounterRow {
    CounterRow { counter: of.counter.to_string(), count: ChangeRow::judged(&of.count) }
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
        let times = format!("{} → {} per step", time_f64(self.time.a), time_f64(self.time.b));
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

/// What of a phase is slower by more than the limit: the whole, else operators that alone make it so; and layers that
/// are slower by so much than the others.
fn failures(phase: &PhaseDiff, limit: f64) -> Vec<String> {
    let whole = phase.time.relative.filter(|relative| phase.time.is_slower() && *relative > limit);
    let step = phase.time.a;
    let alone = |of: &&OperatorDiff| of.time.is_slower() && step > 0.0 && of.time.difference / step > limit;
    let sentence = |of: &OperatorDiff| {
        format!("{} of {} is {}", of.title(), phase.phase, slower(&of.time, Some(of.time.difference / step)))
    };
    let mut found: Vec<String> = match whole {
        Some(_) => vec![format!("{} is {} per step", phase.phase, slower(&phase.time, None))],
        None => phase.operators.iter().filter(alone).map(sentence).collect(),
    };
    found.extend(phase.layers.iter().filter_map(|layer| {
        let beyond = layer.time.relative? - layer.unlike_others?.max(0.0);
        (layer.time.is_slower() && beyond > limit).then(|| {
            let name = layer.layer.as_deref().unwrap_or("none");
            format!("layer {name} of {} is {}", phase.phase, slower(&layer.time, None))
        })
    }));
    found
}

fn slower(time: &ChangeRow, of_step: Option<f64>) -> String {
    let of_step = of_step.map_or_else(String::new, |part| format!(", {} of a step", percent(part)));
    format!("slower: {} → {}, {}{of_step}", time_f64(time.a), time_f64(time.b), time.relative_text())
}
