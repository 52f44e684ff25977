//! Operators whose cost grows with the context, and those that do not.

use super::Given;
use crate::numbers::table::{Align, Table};
use crate::numbers::units::{quantity, rate, share, time_f64};
use crate::text::TextStyle;
use Align::{Flexible, Left, Right};
use profinfer_analysis::{Blocks, ContextSource, Drift, GrowthFound, KindId, counted, group_digits, judge};
use serde::Serialize;

/// Operators that are listed.
const MOST_ROWS: usize = 256;
/// Operators that are shown.
const SHOWN: usize = 12;
/// A smaller part of the steps' time is not shown while there is more to show.
const WORTH_SHOWING: f64 = 0.005;

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GrowthSection {
    /// Where the number of tokens behind a step comes from.
    pub source: Option<ContextSource>,
    /// The shortest context, tokens.
    pub from_tokens: Option<f64>,
    /// The longest.
    pub to_tokens: Option<f64>,
    /// Decode steps that are counted.
    pub steps: u64,
    /// Decode steps without a recorded context.
    pub without_context: u64,
    /// How the time of operators changed that have the same to do at any context: the machine itself.
    pub drift: Option<Drift>,
    /// The whole step, by model.
    pub step: Vec<GrowthRow>,
    /// By operator: those that grow first, then by time.
    pub operators: Vec<GrowthRow>,
    /// Operators beyond those.
    pub left_out: u64,
    /// Why there is nothing.
    pub absent: Option<String>,
}

/// An operator, whatever its layer; all of it in one decode step is one point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GrowthRow {
    /// Name, numbers as `*`; `None` for the whole step.
    pub name: Option<String>,
    /// Type.
    pub op: Option<String>,
    /// Which model: an index into `models.models`.
    pub model: u32,
    /// Decode steps that it is in.
    pub steps: u64,
    /// Its work in a step, all lanes together; for the whole step, its duration.
    pub mean_ns: f64,
    /// Its part of all operators' work in these steps; 1 for the whole step.
    pub share: f64,
    /// Whether it grows.
    pub change: GrowthFound,
    /// Growth from the shortest context to the longest, as a part of the mean.
    pub part: Option<f64>,
    /// ns a step for each further token of context, by least squares.
    pub slope_ns: Option<f64>,
    /// Half the width of its 95 % interval.
    pub slope_half_width_ns: Option<f64>,
    /// The median of the slopes between any two groups of steps.
    pub robust_slope_ns: Option<f64>,
    /// ns a step at a context of 0 tokens.
    pub intercept_ns: Option<f64>,
    /// The part of the variance that the line explains.
    pub r2: Option<f64>,
    /// ns at the shortest context, by the line.
    pub from_ns: Option<f64>,
    /// ns at the longest.
    pub to_ns: Option<f64>,
    /// Floating-point operations a step for each further token, by the probeset's costs.
    pub flops_per_token: Option<f64>,
    /// Bytes a step for each further token.
    pub bytes_per_token: Option<f64>,
    /// What it has to do depends on the context.
    pub work_grows: Option<bool>,
    /// Means of groups of steps: at most 64.
    pub points: Vec<GrowthPoint>,
}

/// A group of steps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GrowthPoint {
    /// Steps of it.
    pub steps: f64,
    /// Mean context, tokens.
    pub context: f64,
    /// Mean time, ns.
    pub ns: f64,
}

impl GrowthRow {
    fn new((name, op): (Option<String>, Option<String>), model: u32, time: &Blocks, drift: Option<Drift>) -> Self {
        let (all, judged, trend) = (time.all(), judge(time, drift), time.trend());
        let line = trend.map(|trend| trend.line);
        let at = |place: fn((f64, f64)) -> f64| Some(line?.at(place(time.range()?)));
        Self {
            name,
            op,
            model,
            steps: all.n as u64,
            mean_ns: all.y,
            share: 1.0,
            change: judged.change,
            part: judged.part,
            slope_ns: line.map(|line| line.slope),
            slope_half_width_ns: trend.and_then(|trend| trend.half_width),
            robust_slope_ns: trend.and_then(|trend| trend.robust_slope),
            intercept_ns: line.map(|line| line.intercept),
            r2: line.map(|line| line.r2),
            from_ns: at(|(low, _)| low),
            to_ns: at(|(_, high)| high),
            flops_per_token: None,
            bytes_per_token: None,
            work_grows: None,
            points: time.stretches().map(|(steps, context, ns)| GrowthPoint { steps, context, ns }).collect(),
        }
    }
}

impl GrowthSection {
    pub(super) fn new(given: &Given<'_>) -> Self {
        let growth = &given.study.growth;
        let drift = growth.drift();
        let label = |kind: KindId| {
            let kind = given.catalogue.kind(kind);
            (Some(kind.pattern.to_string()), Some(kind.op.to_string()))
        };
        // What single operators vary by cancels out over a step.
        let of_step = drift.map(|drift| Drift { spread: 0.0, ..drift });
        let step: Vec<GrowthRow> =
            growth.steps().map(|(model, time)| GrowthRow::new((None, None), model, time, of_step)).collect();
        let mut operators: Vec<GrowthRow> = growth
            .operators()
            .map(|of| GrowthRow {
                flops_per_token: of.flops,
                bytes_per_token: of.bytes,
                work_grows: of.work_grows,
                ..GrowthRow::new(label(of.kind), of.model, of.time, drift)
            })
            .collect();
        let work: f64 = operators.iter().map(|row| row.mean_ns * row.steps as f64).sum();
        for row in &mut operators {
            row.share = if work > 0.0 { row.mean_ns * row.steps as f64 / work } else { 0.0 };
        }
        let grows = |row: &GrowthRow| row.change == GrowthFound::Grows;
        operators.sort_by(|a, b| grows(b).cmp(&grows(a)).then(b.share.total_cmp(&a.share)).then(a.name.cmp(&b.name)));
        let beyond = operators.len().saturating_sub(MOST_ROWS) as u64;
        operators.truncate(MOST_ROWS);
        let ranges = || growth.steps().filter_map(|(_, time)| time.range());
        let mut section = Self {
            source: growth.source(),
            from_tokens: ranges().map(|(low, _)| low).reduce(f64::min),
            to_tokens: ranges().map(|(_, high)| high).reduce(f64::max),
            steps: step.iter().map(|row| row.steps).sum(),
            without_context: growth.without(),
            drift,
            step,
            operators,
            left_out: beyond.saturating_add(growth.left_out()),
            absent: None,
        };
        section.absent = section.why_absent(given);
        if section.absent.is_some() {
            (section.step, section.operators) = (Vec::new(), Vec::new());
        }
        section
    }

    fn why_absent(&self, given: &Given<'_>) -> Option<String> {
        if self.steps == 0 {
            return Some("No decode step with a recorded context was recorded whole.".to_owned());
        }
        if self.source == Some(ContextSource::Tokens) && given.report.sampling.unseen_ns > 0 {
            let why = "Some steps were not recorded, so that tokens cannot be counted, and no operator gives the length \
                       of the context (`analysis.context` of the probeset).";
            return Some(why.to_owned());
        }
        if self.from_tokens == self.to_tokens {
            let tokens = group_digits(self.from_tokens.unwrap_or(0.0) as u64);
            return Some(format!("The context did not change: it was {tokens} tokens in every decode step."));
        }
        None
    }

    pub(super) fn text(&self, out: &mut String, style: &TextStyle) {
        let title = "Time of decode steps against the context";
        if let Some(why) = &self.absent {
            return super::absent(out, style, title, why);
        }
        let mut table = Table::new(&[
            ("", Left),
            ("share", Right),
            ("at first", Right),
            ("at last", Right),
            ("per token", Right),
            ("±", Right),
            ("R²", Right),
            ("bytes per token", Right),
            ("op", Left),
            ("name", Flexible),
        ]);
        for row in &self.step {
            table.row(row.cells());
        }
        let shown = |row: &&GrowthRow| row.share >= WORTH_SHOWING || row.change == GrowthFound::Grows;
        let rows: Vec<&GrowthRow> = self.operators.iter().filter(shown).take(SHOWN).collect();
        rows.iter().for_each(|row| table.row(row.cells()));
        let rest = self.operators.len().saturating_sub(rows.len());
        let more = (rest > 0).then(|| format!("… and {rest} more; `--json` lists all"));
        let tokens = |tokens: Option<f64>| group_digits(tokens.unwrap_or(0.0).round() as u64);
        let title = format!(
            "{title} ({} to {} tokens, of {})",
            tokens(self.from_tokens),
            tokens(self.to_tokens),
            counted(self.steps, "step")
        );
        style.table(out, &title, &table, more);
        super::sentences(out, &self.describe());
    }

    fn describe(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        let of = match self.source {
            Some(ContextSource::Operators) => "the shapes of its operators, which engines round up",
            Some(ContextSource::Position) => "the position of a step's first token",
            _ => "the tokens of the generation so far: its prefill and each step since",
        };
        sentences.push(format!("The context is taken from {of}."));
        if let Some(drift) = self.drift.filter(|drift| drift.part.abs().max(drift.spread) >= 0.01) {
            sentences.push(format!(
                "Operators that have the same to do at any context changed by {} (median; median deviation {}): that is \
                 the machine, and not called growth.",
                super::signed_share(drift.part),
                share(drift.spread)
            ));
        }
        if self.without_context > 0 {
            sentences.push(format!("{} left out: their context is unknown.", counted(self.without_context, "step")));
        }
        if self.left_out > 0 {
            sentences.push(format!("{} left out: there are too many.", counted(self.left_out, "operator")));
        }
        sentences
    }
}

impl GrowthRow {
    fn cells(&self) -> Vec<String> {
        let change = match self.change {
            GrowthFound::Grows => "grows",
            GrowthFound::Shrinks => "shrinks",
            GrowthFound::Constant => "constant",
            GrowthFound::Unclear => "unclear",
            GrowthFound::NoSpread => "",
        };
        let small = |ns: f64| {
            let sign = if ns < 0.0 { "−" } else { "" };
            if ns.abs() < 99.5 {
                format!("{sign}{} ns", rate(ns.abs()))
            } else {
                format!("{sign}{}", time_f64(ns.abs()))
            }
        };
        let cell = |value: Option<f64>, of: &dyn Fn(f64) -> String| value.map(of).unwrap_or_default();
        let whole = self.name.is_none();
        vec![
            change.to_owned(),
            if whole { String::new() } else { share(self.share) },
            cell(self.from_ns, &|ns| time_f64(ns.max(0.0))),
            cell(self.to_ns, &|ns| time_f64(ns.max(0.0))),
            cell(self.slope_ns, &small),
            cell(self.slope_half_width_ns, &small),
            cell(self.r2, &|r2| format!("{r2:.2}")),
            cell(self.bytes_per_token, &|bytes| quantity(bytes, "B")),
            self.op.clone().unwrap_or_default(),
            if whole { "(the whole step)".to_owned() } else { self.name.clone().unwrap_or_default() },
        ]
    }
}
