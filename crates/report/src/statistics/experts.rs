//! Experts: how evenly they are chosen, how many would serve most choices, how soon each is used again, and what it
//! costs where it was not used for long.

use super::Given;
use crate::model::rows::ExpertRow;
use crate::numbers::ratios::{natural_order, ratio};
use crate::numbers::table::{Align, Table};
use crate::numbers::units::{share, time, time_f64};
use crate::text::{TextStyle, few};
use Align::{Left, Right};
use profinfer_analysis::{LayerUse, counted, group_digits};
use serde::Serialize;
use std::collections::BTreeMap;

/// The part of all choices that the hot experts are to serve.
const SERVED: f64 = 0.9;
/// Hottest and coldest experts that are listed.
const MOST_LISTED: usize = 16;
/// Counts of all series together.
const MOST_COUNTS: usize = 1 << 16;
/// Experts that are shown of each end.
const SHOWN: usize = 4;

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExpertsSection {
    /// By layer.
    pub layers: Vec<ExpertBalance>,
    /// All layers together.
    pub all: Option<ExpertBalance>,
    /// The experts that were chosen most, by their part of their layer's choices.
    pub hottest: Vec<ExpertRow>,
    /// Those that were chosen least; those that never were first.
    pub coldest: Vec<ExpertRow>,
    /// Uses by the tokens that lie between them.
    pub reuse: Vec<ReuseRow>,
    /// Uses by layer and expert, over the tokens.
    pub series: Vec<ExpertSeries>,
    /// Layers whose series is left out: there are too many counts.
    pub series_left_out: u64,
    /// Records beyond the limits of layers and experts.
    pub left_out: u64,
    /// Records without the number of experts of a token: they are not in `reuse` and `series`.
    pub without_tokens: u64,
    /// Why there is nothing.
    pub absent: Option<String>,
}

/// How evenly a layer's experts are chosen.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExpertBalance {
    /// The layer; `None` where it was not recorded, and for all together.
    pub layer: Option<String>,
    /// Choices of an expert for a token.
    pub choices: u64,
    /// Experts that there are: one more than the highest number of any layer.
    pub experts: u64,
    /// Experts that were chosen.
    pub used: u64,
    /// The busiest's choices by the mean: 1 is even.
    pub max_over_mean: f64,
    /// Shannon's entropy of the choices by that of even ones: 1 is even, 0 one expert alone.
    pub entropy: f64,
    /// Gini's coefficient: 0 is even, near 1 one expert alone.
    pub gini: f64,
    /// The fewest experts that have 90 % of the choices.
    pub for_90: u64,
    /// The same by `experts`.
    pub for_90_share: f64,
}

/// Uses of experts after about this many tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ReuseRow {
    /// Tokens of the layer since the expert's last use, at least; 0: it was not used before.
    pub from_tokens: u64,
    /// At most.
    pub to_tokens: u64,
    /// Uses for a token.
    pub uses: u64,
    /// Their part of all uses.
    pub share: f64,
    /// Major faults on these experts' memory, in steps that used them; `None` where faults were not recorded.
    pub faults: Option<u64>,
    /// ns that threads waited for them.
    pub waited_ns: Option<u64>,
    /// Operators of steps of one token of which this is the longest distance of an expert.
    pub operators: u64,
    /// Their mean work, ns; `None` where there are none.
    pub operator_ns: Option<f64>,
}

/// Uses of a layer's experts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExpertSeries {
    /// The process.
    pub pid: u32,
    /// Which model: an index into `models.models`.
    pub model: u32,
    /// The layer.
    pub layer: Option<String>,
    /// Tokens that experts were chosen for.
    pub tokens: u64,
    /// By expert: uses.
    pub uses: Vec<u64>,
    /// By expert: mean tokens between two uses; `None` for one that was not used twice.
    pub mean_distance: Vec<Option<f64>>,
    /// By expert: major faults on its memory; empty where faults were not recorded.
    pub faults: Vec<u64>,
    /// Tokens of an interval.
    pub stretch_tokens: u64,
    /// Uses by interval of tokens, then by expert; a list may be shorter than there are experts.
    pub stretches: Vec<Vec<u32>>,
}

impl ExpertsSection {
    pub(super) fn new(given: &Given<'_>) -> Self {
        let report = given.report;
        let study = &given.study.experts;
        let mut by_layer: BTreeMap<Option<&str>, BTreeMap<u32, u64>> = BTreeMap::new();
        for row in &report.experts {
            by_layer.entry(row.layer.as_deref()).or_default().insert(row.expert, row.activations);
        }
        let highest = report.experts.iter().map(|row| row.expert).max().unwrap_or(0);
        let there_are = u64::from(highest) + 1;
        let of_layer = |layer: Option<&str>| {
            let counts = by_layer.get(&layer).map_or_else(Vec::new, |experts| experts.values().copied().collect());
            ExpertBalance::of(layer.map(str::to_owned), counts, there_are)
        };
        let mut names: Vec<Option<&str>> = by_layer.keys().copied().collect();
        names.sort_by(|a, b| natural_order(*a, *b));
        let layers: Vec<ExpertBalance> = names.iter().map(|layer| of_layer(*layer)).collect();
        let counts: Vec<u64> = report.experts.iter().map(|row| row.activations).collect();
        let all =
            (!counts.is_empty()).then(|| ExpertBalance::of(None, counts, there_are.saturating_mul(names.len() as u64)));
        let (hottest, coldest) = ends(&report.experts, &by_layer, highest);
        let faults_recorded = report.faults.as_ref().is_some_and(|faults| faults.faults_recorded);
        let (series, series_left_out) = series(given, faults_recorded);
        let absent = report.experts.is_empty().then(|| "No experts were recorded.".to_owned());
        Self {
            layers,
            all,
            hottest,
            coldest,
            reuse: reuse(given, faults_recorded),
            series,
            series_left_out,
            left_out: study.left_out(),
            without_tokens: study.without_tokens(),
            absent,
        }
    }

    pub(super) fn text(&self, out: &mut String, style: &TextStyle) {
        if let Some(why) = &self.absent {
            return super::absent(out, style, "Experts", why);
        }
        self.balance_text(out, style);
        self.reuse_text(out, style);
    }

    fn balance_text(&self, out: &mut String, style: &TextStyle) {
        let mut table = Table::new(&[
            ("layer", Right),
            ("choices", Right),
            ("used", Right),
            ("of", Right),
            ("busiest / mean", Right),
            ("entropy", Right),
            ("Gini", Right),
            ("90 % of choices", Right),
            ("", Right),
        ]);
        let (layers, more) = few(&self.layers, "`--json` lists all");
        for row in layers.iter().chain(&self.all) {
            let all = self.all.as_ref().is_some_and(|all| std::ptr::eq(all, row));
            table.row(vec![
                if all { "all".to_owned() } else { row.layer.clone().unwrap_or_else(|| "none".to_owned()) },
                group_digits(row.choices),
                row.used.to_string(),
                row.experts.to_string(),
                format!("{:.2}", row.max_over_mean),
                format!("{:.2}", row.entropy),
                format!("{:.2}", row.gini),
                counted(row.for_90, "expert"),
                share(row.for_90_share),
            ]);
        }
        style.table(out, "Experts: balance", &table, more);
        let name = |row: &ExpertRow| {
            let layer = row.layer.as_ref().map_or_else(String::new, |layer| format!(" of layer {layer}"));
            format!("{}{layer} ({})", row.expert, share(row.share))
        };
        let names = |rows: &[ExpertRow]| rows.iter().take(SHOWN).map(name).collect::<Vec<_>>().join(", ");
        let ends = [("Hottest", &self.hottest), ("Coldest", &self.coldest)];
        super::sentences(out, &ends.map(|(end, rows)| format!("{end}: {}.", names(rows))));
    }

    fn reuse_text(&self, out: &mut String, style: &TextStyle) {
        let mut table = Table::new(&[
            ("tokens since", Right),
            ("uses", Right),
            ("share", Right),
            ("faults", Right),
            ("waited", Right),
            ("operators", Right),
            ("mean", Right),
            ("", Left),
        ]);
        for row in &self.reuse {
            let faults = row.faults.filter(|faults| *faults > 0);
            table.row(vec![
                match (row.from_tokens, row.to_tokens) {
                    (0, _) => "first use".to_owned(),
                    (from, to) if from == to => from.to_string(),
                    (from, to) => format!("{from}–{to}"),
                },
                group_digits(row.uses),
                share(row.share),
                faults.map(group_digits).unwrap_or_default(),
                row.waited_ns.filter(|ns| *ns > 0).map(time).unwrap_or_default(),
                if row.operators > 0 { group_digits(row.operators) } else { String::new() },
                row.operator_ns.map(time_f64).unwrap_or_default(),
                String::new(),
            ]);
        }
        style.table(out, "Experts: tokens between two uses (operators: steps with one token)", &table, None);
        if self.reuse.iter().all(|row| row.faults.is_none()) {
            out.push_str("  Major faults were not recorded.\n");
        }
        let mut sentences = Vec::new();
        if self.without_tokens > 0 {
            sentences.push(format!(
                "{} left out: the number of experts per token is unknown.",
                counted(self.without_tokens, "record")
            ));
        }
        if self.left_out > 0 {
            sentences.push(format!("{} left out: there are too many experts.", counted(self.left_out, "record")));
        }
        super::sentences(out, &sentences);
    }
}

impl ExpertBalance {
    /// Of choices by expert; experts that were never chosen are not in the list.
    fn of(layer: Option<String>, mut counts: Vec<u64>, experts: u64) -> Self {
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let used = counts.iter().filter(|count| **count > 0).count() as u64;
        let experts = experts.max(used).max(1);
        let choices = counts.iter().fold(0_u64, |sum, count| sum.saturating_add(*count));
        let total = choices as f64;
        let shares = || counts.iter().filter(|count| **count > 0).map(|count| *count as f64 / total);
        let entropy: f64 = shares().map(|share| -share * share.ln()).sum();
        let even = (experts as f64).ln();
        // Lorenz' curve from the coldest on; those that were never chosen are its flat beginning.
        let ranks = counts.iter().enumerate().map(|(i, count)| (experts as f64 - i as f64) * *count as f64);
        let n = experts as f64;
        let gini =
            if choices > 0 { (2.0 * ranks.sum::<f64>() / (n * total) - (n + 1.0) / n).clamp(0.0, 1.0) } else { 0.0 };
        let mut served = 0.0;
        let enough = |count: &u64| {
            let before = served;
            served += *count as f64;
            before < SERVED * total
        };
        let for_90 = counts.iter().map(enough).filter(|needed| *needed).count() as u64;
        Self {
            layer,
            choices,
            experts,
            used,
            max_over_mean: counts.first().map_or(0.0, |most| *most as f64 * n / total.max(1.0)),
            entropy: if even > 0.0 { (entropy / even).clamp(0.0, 1.0) } else { 1.0 },
            gini,
            for_90,
            for_90_share: ratio(for_90, experts),
        }
    }
}

/// The hottest and the coldest; experts that were never chosen are among the latter.
fn ends(
    rows: &[ExpertRow],
    by_layer: &BTreeMap<Option<&str>, BTreeMap<u32, u64>>,
    highest: u32,
) -> (Vec<ExpertRow>, Vec<ExpertRow>) {
    let place = |a: &ExpertRow, b: &ExpertRow| {
        natural_order(a.layer.as_deref(), b.layer.as_deref()).then(a.expert.cmp(&b.expert))
    };
    let mut hottest = rows.to_vec();
    hottest.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| place(a, b)));
    let mut coldest: Vec<ExpertRow> = Vec::new();
    for (layer, experts) in by_layer {
        let unused = (0..=highest).filter(|expert| !experts.contains_key(expert)).take(MOST_LISTED);
        let row = |expert| ExpertRow { layer: layer.map(str::to_owned), expert, activations: 0, share: 0.0 };
        coldest.extend(unused.map(row));
    }
    coldest.extend(hottest.iter().rev().take(MOST_LISTED).cloned());
    coldest.sort_by(|a, b| a.share.total_cmp(&b.share).then_with(|| place(a, b)));
    hottest.truncate(MOST_LISTED);
    coldest.truncate(MOST_LISTED);
    (hottest, coldest)
}

fn reuse(given: &Given<'_>, faults_recorded: bool) -> Vec<ReuseRow> {
    let buckets = || given.study.experts.buckets();
    let all = buckets().map(|(_, _, bucket)| bucket.uses).fold(0, u64::saturating_add);
    let row = |(from_tokens, to_tokens, bucket): (u64, u64, &profinfer_analysis::ReuseBucket)| ReuseRow {
        from_tokens,
        to_tokens,
        uses: bucket.uses,
        share: ratio(bucket.uses, all),
        faults: faults_recorded.then_some(bucket.faults),
        waited_ns: faults_recorded.then_some(bucket.waited),
        operators: bucket.operators,
        operator_ns: (bucket.operators > 0).then(|| bucket.work as f64 / bucket.operators as f64),
    };
    buckets().map(row).collect()
}

fn series(given: &Given<'_>, faults_recorded: bool) -> (Vec<ExpertSeries>, u64) {
    let mut layers: Vec<_> = given.study.experts.layers().collect();
    let name = |layer: Option<&std::sync::Arc<str>>| layer.map(|layer| layer.to_string());
    layers.sort_by(|a, b| {
        let by_name = || natural_order(a.2.map(|l| &**l), b.2.map(|l| &**l));
        (a.0, a.1).cmp(&(b.0, b.1)).then_with(by_name)
    });
    let (mut rows, mut counts, mut left_out) = (Vec::new(), 0, 0);
    for (pid, model, layer, uses) in layers {
        let size = |uses: &LayerUse| uses.experts.len() * 3 + uses.bins.iter().map(Vec::len).sum::<usize>();
        if counts + size(uses) > MOST_COUNTS {
            left_out += 1;
            continue;
        }
        counts += size(uses);
        let distance = |expert: &profinfer_analysis::ExpertUse| {
            (expert.uses > 1).then(|| expert.distance as f64 / (expert.uses - 1) as f64)
        };
        let faults = uses.experts.iter().filter(|_| faults_recorded);
        rows.push(ExpertSeries {
            pid,
            model,
            layer: name(layer),
            tokens: uses.tokens,
            uses: uses.experts.iter().map(|expert| expert.uses).collect(),
            mean_distance: uses.experts.iter().map(distance).collect(),
            faults: faults.map(|expert| expert.faults).collect(),
            stretch_tokens: uses.bin_tokens,
            stretches: uses.bins.clone(),
        });
    }
    (rows, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balance_is_1_where_it_is_even_and_0_where_one_serves_all() {
        let even = ExpertBalance::of(None, vec![5; 8], 8);
        assert_eq!((even.used, even.for_90, even.max_over_mean), (8, 8, 1.0));
        assert!((even.entropy - 1.0).abs() < 1e-9 && even.gini.abs() < 1e-9, "{even:?}");
        let one = ExpertBalance::of(None, vec![40], 8);
        assert_eq!((one.used, one.for_90, one.for_90_share, one.max_over_mean), (1, 1, 0.125, 8.0));
        assert!(one.entropy.abs() < 1e-9 && (one.gini - 0.875).abs() < 1e-9, "{one:?}");
        // 60 + 30 of 100 are 90 %.
        let skewed = ExpertBalance::of(None, vec![4, 60, 30, 6], 4);
        assert_eq!((skewed.for_90, skewed.max_over_mean), (2, 2.4));
        assert!((skewed.gini - 0.48).abs() < 1e-9, "{skewed:?}");
        let none = ExpertBalance::of(None, Vec::new(), 0);
        assert_eq!((none.choices, none.for_90), (0, 0));
    }
}
