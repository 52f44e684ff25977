//! The same operator on several backends, side by side, and the size at which one overtakes the other.

use super::Given;
use super::work::work_of;
use crate::model::rows::BackendRow;
use crate::numbers::ratios::{mean, ratio};
use crate::numbers::table::{Align, Table};
use crate::numbers::units::{quantity, shape, time_f64};
use crate::text::{TextStyle, few};
use Align::{Flexible, Left, Right};
use profinfer_analysis::{Kind, TextId, graphs_have_backend};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pairs that are listed.
const MOST_PAIRS: usize = 512;
/// Backends whose pairs are compared.
const MOST_BACKENDS: usize = 8;

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BackendsSection {
    /// Backends, by their graphs.
    pub backends: Vec<BackendRow>,
    /// Operators of the same type, shape and work on two backends; the most time first.
    pub pairs: Vec<BackendPair>,
    /// Pairs beyond those.
    pub left_out: u64,
    /// Where one backend overtakes the other, as far as that was seen.
    pub crossings: Vec<Crossing>,
    /// Why there is nothing to compare.
    pub absent: Option<String>,
}

/// One operator on two backends.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BackendPair {
    /// The type.
    pub op: String,
    /// Type of the result's elements.
    pub dtype: Option<String>,
    /// Shape of the result.
    pub shape: Vec<i64>,
    /// What `size` is: `flops`, `bytes`, or `elements` of the result.
    pub measure: &'static str,
    /// How much there is to do.
    pub size: f64,
    /// On one.
    pub first: BackendSide,
    /// On the other.
    pub second: BackendSide,
    /// The first's mean time by the second's.
    pub ratio: f64,
}

/// One side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BackendSide {
    /// The backend.
    pub backend: String,
    /// Times are those that a device measured, without the host's.
    pub on_device: bool,
    /// How many were computed.
    pub count: u64,
    /// Mean time, ns.
    pub mean_ns: f64,
    /// The shortest, ns: what nothing disturbed.
    pub min_ns: u64,
}

impl BackendSide {
    /// `cpu`, `vk (device)`.
    fn label(&self) -> String {
        format!("{}{}", self.backend, if self.on_device { " (device)" } else { "" })
    }
}

/// One backend overtakes the other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Crossing {
    /// The type.
    pub op: String,
    /// Type of the result's elements.
    pub dtype: Option<String>,
    /// What sizes are: `flops`, `bytes`, or `elements` of the result.
    pub measure: &'static str,
    /// Which is faster below.
    pub below: String,
    /// Which is faster above.
    pub above: String,
    /// Where they are equal, by interpolation.
    pub size: f64,
    /// The largest size that was seen below.
    pub seen_below: f64,
    /// The smallest size that was seen above.
    pub seen_above: f64,
}

/// What is compared: type, element type, shape, operations, bytes.
type Key = (Arc<str>, Option<Arc<str>>, Arc<[i64]>, Option<u64>, Option<u64>);

/// An operator in any layer: type, element type, shape, name without numbers.
type Named = (Arc<str>, Option<Arc<str>>, Arc<[i64]>, Arc<str>);

/// By backend, and whether a device measured it: how many, their time, the shortest; ns.
type Sides = BTreeMap<(TextId, bool), (u64, u64, u64)>;

fn add(sides: &mut Sides, side: (TextId, bool), times: (u64, u64, u64)) {
    let (count, elapsed, min) = sides.entry(side).or_insert((0, 0, u64::MAX));
    *count = count.saturating_add(times.0);
    *elapsed = elapsed.saturating_add(times.1);
    *min = times.2.min(*min);
}

/// All operators that were computed or measured, by what is compared.
fn sides(given: &Given<'_>) -> BTreeMap<Key, Sides> {
    let mut found: BTreeMap<Key, Sides> = BTreeMap::new();
    // The work of those of one name; `None`: it differs.
    let mut works: BTreeMap<Named, Option<Key>> = BTreeMap::new();
    let named =
        |kind: &Kind| (Arc::clone(&kind.op), kind.dtype.clone(), Arc::clone(&kind.shape), Arc::clone(&kind.pattern));
    for (id, backend, phase, totals) in given.statistics.operators() {
        let Some(backend_id) = backend else { continue };
        let kind = given.catalogue.kind(id);
        let (flops, bytes) = work_of(given, (id, backend, phase), totals.count);
        let round = |work: Option<f64>| work.map(|work| work.round() as u64);
        let (op, dtype, shape) = (Arc::clone(&kind.op), kind.dtype.clone(), Arc::clone(&kind.shape));
        let key = (op, dtype, shape, round(flops), round(bytes));
        if kind.covers.is_none() {
            let work = works.entry(named(kind)).or_insert_with(|| Some(key.clone()));
            if work.as_ref() != Some(&key) {
                *work = None;
            }
        }
        add(found.entry(key).or_default(), (backend_id, false), (totals.count, totals.elapsed, totals.min));
    }
    // The work of what a device computes is that of the operator of the same name elsewhere. With fused operators it is
    // another.
    for (id, backend, _, totals) in given.statistics.offloads().dispatches() {
        let kind = given.catalogue.kind(id);
        let (Some(backend), 0, true) = (backend, totals.fused, totals.measured > 0) else { continue };
        if let (None, Some(Some(key))) = (&kind.covers, works.get(&named(kind))) {
            let times = (totals.measured, totals.device, totals.min_device);
            add(found.entry(key.clone()).or_default(), (backend, true), times);
        }
    }
    found
}

impl BackendsSection {
    pub(super) fn new(given: &Given<'_>) -> Self {
        let is_named = graphs_have_backend(&given.meta.schema);
        let found = if is_named { sides(given) } else { BTreeMap::new() };
        let mut pairs = Vec::new();
        for ((op, dtype, shape, flops, bytes), sides) in &found {
            let sides: Vec<BackendSide> = sides
                .iter()
                .take(MOST_BACKENDS)
                .map(|((backend, on_device), (count, elapsed, min))| BackendSide {
                    backend: given.catalogue.text(*backend).to_string(),
                    on_device: *on_device,
                    count: *count,
                    mean_ns: mean(*elapsed, *count),
                    min_ns: *min,
                })
                .collect();
            let elements = || shape.iter().map(|extent| *extent as f64).product::<f64>();
            let (measure, size) = match (flops.filter(|flops| *flops > 0), bytes) {
                (Some(flops), _) => ("flops", flops as f64),
                (None, Some(bytes)) => ("bytes", *bytes as f64),
                (None, None) => ("elements", elements()),
            };
            for (i, first) in sides.iter().enumerate() {
                for second in sides.iter().skip(i + 1).filter(|second| second.mean_ns > 0.0) {
                    pairs.push(BackendPair {
                        op: op.to_string(),
                        dtype: dtype.as_ref().map(ToString::to_string),
                        shape: shape.to_vec(),
                        measure,
                        size,
                        first: first.clone(),
                        second: second.clone(),
                        ratio: first.mean_ns / second.mean_ns,
                    });
                }
            }
        }
        let crossings = crossings(&pairs);
        let time = |pair: &BackendPair| {
            let of = |side: &BackendSide| side.mean_ns * side.count as f64;
            of(&pair.first) + of(&pair.second)
        };
        pairs.sort_by(|a, b| time(b).total_cmp(&time(a)));
        let left_out = pairs.len().saturating_sub(MOST_PAIRS) as u64;
        pairs.truncate(MOST_PAIRS);
        let backends = given.report.backends.clone();
        let absent = pairs.is_empty().then(|| match is_named {
            true => why_absent(&backends),
            false => "No graph has a backend (field `backend`).".to_owned(),
        });
        Self { backends, pairs, left_out, crossings, absent }
    }

    pub(super) fn text(&self, out: &mut String, style: &TextStyle) {
        let title = "The same operator on two backends";
        if let Some(why) = &self.absent {
            return super::absent(out, style, title, why);
        }
        let mut table = Table::new(&[
            ("times", Right),
            ("mean", Right),
            ("on", Left),
            ("mean", Right),
            ("on", Left),
            ("size", Right),
            ("op", Left),
            ("dtype", Left),
            ("shape", Flexible),
        ]);
        let (rows, more) = few(&self.pairs, "`--json` lists all");
        for pair in rows {
            table.row(vec![
                times(pair.ratio),
                time_f64(pair.first.mean_ns),
                pair.first.label(),
                time_f64(pair.second.mean_ns),
                pair.second.label(),
                size(pair.size, pair.measure),
                pair.op.clone(),
                pair.dtype.clone().unwrap_or_default(),
                shape(&pair.shape),
            ]);
        }
        style.table(out, title, &table, more);
        let sentence = |crossing: &Crossing| {
            let size = |of: f64| size(of, crossing.measure);
            format!(
                "{}: `{}` is faster up to about {}, `{}` beyond (measured at {} and {}).",
                crossing.op,
                crossing.below,
                size(crossing.size),
                crossing.above,
                size(crossing.seen_below),
                size(crossing.seen_above)
            )
        };
        if self.pairs.iter().any(|pair| pair.first.on_device || pair.second.on_device) {
            super::sentences(out, &["`(device)`: the device measured it, without encoding and waiting.".to_owned()]);
        }
        super::sentences(out, &self.crossings.iter().map(sentence).collect::<Vec<_>>());
        if self.crossings.is_empty() {
            out.push_str("  No backend becomes faster than another within the recorded sizes.\n");
        }
    }
}

/// Two digits, also of what is far below 1.
fn times(ratio: f64) -> String {
    let digits = if ratio > 0.0 { (1.0 - ratio.log10().floor()).clamp(2.0, 8.0) } else { 2.0 };
    #[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "2 to 8")]
    let digits = digits as usize;
    format!("{ratio:.digits$}")
}

fn size(size: f64, measure: &str) -> String {
    match measure {
        "flops" => quantity(size, "FLOP"),
        "bytes" => quantity(size, "B"),
        _ => format!("{} elements", quantity(size, "")),
    }
}

fn why_absent(backends: &[BackendRow]) -> String {
    let silent: Vec<String> =
        backends.iter().filter(|row| row.operators == 0).map(|row| format!("`{}`", row.backend)).collect();
    match backends {
        [] => "No backend's graphs were recorded.".to_owned(),
        [one] => format!("All graphs were computed by one backend, `{}`.", one.backend),
        _ if !silent.is_empty() => {
            format!("Graphs of {} were recorded without their operators.", silent.join(" and "))
        }
        _ => "No operator of the same type, shape and work was computed by two backends.".to_owned(),
    }
}

/// Where the sign of the difference changes from one size to the next, of the shortest times, and stays so with the size
/// after: one disturbed size makes no crossing. Of several pairs of one size the mean counts.
fn crossings(pairs: &[BackendPair]) -> Vec<Crossing> {
    type Sizes = BTreeMap<u64, Vec<f64>>;
    let mut series: BTreeMap<(&str, Option<&str>, &str, &str, &'static str), Sizes> = BTreeMap::new();
    let sensible = |pair: &&BackendPair| pair.first.min_ns > 0 && pair.second.min_ns > 0 && pair.size > 0.0;
    for pair in pairs.iter().filter(sensible) {
        let (first, second) = (pair.first.backend.as_str(), pair.second.backend.as_str());
        let key = (pair.op.as_str(), pair.dtype.as_deref(), first, second, pair.measure);
        // Positive numbers are in the order of their bits.
        series
            .entry(key)
            .or_default()
            .entry(pair.size.to_bits())
            .or_default()
            .push(ratio(pair.first.min_ns, pair.second.min_ns).ln());
    }
    let mut found = Vec::new();
    for ((op, dtype, first, second, measure), sizes) in series {
        let points: Vec<(f64, f64)> = sizes
            .into_iter()
            .map(|(bits, ratios)| (f64::from_bits(bits).ln(), ratios.iter().sum::<f64>() / ratios.len() as f64))
            .collect();
        for (i, pair) in points.windows(2).enumerate() {
            let ((x, a), (y, b)) = (pair[0], pair[1]);
            let stays = |other: Option<&(f64, f64)>, as_here: f64| other.is_none_or(|(_, c)| c * as_here > 0.0);
            let before = i.checked_sub(1).and_then(|i| points.get(i));
            if a * b >= 0.0 || !stays(before, a) || !stays(points.get(i + 2), b) {
                continue;
            }
            // The ratio is one where its logarithm is none.
            let at = x + (y - x) * a / (a - b);
            let (below, above) = if a < 0.0 { (first, second) } else { (second, first) };
            found.push(Crossing {
                op: op.to_owned(),
                dtype: dtype.map(str::to_owned),
                measure,
                below: below.to_owned(),
                above: above.to_owned(),
                size: at.exp(),
                seen_below: x.exp(),
                seen_above: y.exp(),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(size: f64, first: f64, second: f64) -> BackendPair {
        let side = |backend: &str, mean_ns: f64| BackendSide {
            backend: backend.to_owned(),
            on_device: false,
            count: 1,
            mean_ns,
            min_ns: mean_ns as u64,
        };
        BackendPair {
            op: "MUL_MAT".into(),
            dtype: None,
            shape: Vec::new(),
            measure: "flops",
            size,
            first: side("a", first),
            second: side("b", second),
            ratio: first / second,
        }
    }

    #[test]
    fn the_size_at_which_one_overtakes_the_other_lies_between_those_that_were_seen() {
        // `a` takes 1 ns a unit; `b` 1000 ns to begin with and a quarter of that: equal at 1333.
        let sizes = [100.0, 1000.0, 1600.0, 10_000.0];
        let pairs: Vec<BackendPair> = sizes.iter().map(|size| pair(*size, *size, 1000.0 + size / 4.0)).collect();
        let found = crossings(&pairs);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].below.as_str(), found[0].above.as_str()), ("a", "b"));
        assert!((found[0].size - 1333.0).abs() < 30.0, "{found:?}");
        assert!((found[0].seen_below - 1000.0).abs() < 1e-6 && (found[0].seen_above - 1600.0).abs() < 1e-6);
        // One size at which it was disturbed is none.
        let disturbed: Vec<BackendPair> =
            sizes.iter().map(|size| pair(*size, if *size == 1000.0 { 9000.0 } else { *size }, 3.0 * size)).collect();
        assert_eq!(crossings(&disturbed), Vec::new());
        // One that is always faster overtakes nobody.
        assert_eq!(crossings(&[pair(1.0, 2.0, 3.0), pair(10.0, 2.0, 30.0)]), Vec::new());
    }
}
