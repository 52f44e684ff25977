//! Time against work, by operator type: what an operator costs to begin with, what each unit of its work costs, and
//! which do not fit.

use super::Given;
use crate::numbers::ratios::{mean, ratio};
use crate::numbers::table::{Align, Table};
use crate::numbers::units::{quantity, shape, share, time_f64};
use crate::text::TextStyle;
use Align::{Flexible, Left, Right};
use profinfer_analysis::{KindId, Line, Moments, Phase, TextId, median};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Sizes of one type that are listed.
const MOST_POINTS: usize = 128;
/// Sizes that make a line.
const FEWEST: usize = 3;
/// Sizes among which one can be called an outlier.
const FEWEST_FOR_OUTLIERS: usize = 5;
/// A line that explains less is none.
const LEAST_R2: f64 = 0.5;
/// Median deviations from which on a size does not fit.
const FAR: f64 = 3.5;
/// And so much of the line's time.
const FAR_PART: f64 = 0.25;
/// Types and outliers that are shown.
const SHOWN: usize = 12;

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkSection {
    /// By operator type, the most work first.
    pub types: Vec<WorkRow>,
    /// Why there is nothing.
    pub absent: Option<String>,
}

/// An operator type on a backend.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkRow {
    /// The type.
    pub op: String,
    /// The backend; `None` outside graphs.
    pub backend: Option<String>,
    /// How many were computed.
    pub count: u64,
    /// Their work, all lanes together, without that of operators that they called.
    pub total_ns: u64,
    /// Its part of all operators' work.
    pub share: f64,
    /// Floating-point operations a second, of those that have operations.
    pub flops_per_s: Option<f64>,
    /// Bytes a second, of those that have bytes.
    pub bytes_per_s: Option<f64>,
    /// What the line is over: `flops` or `bytes`, whichever it explains better.
    pub measure: Option<&'static str>,
    /// What an operator takes to begin with: the line at no work, ns.
    pub overhead_ns: Option<f64>,
    /// ns for each further unit of work.
    pub ns_per_unit: Option<f64>,
    /// The part of the variance of the time that the line explains.
    pub r2: Option<f64>,
    /// Why there is no line.
    pub without_line: Option<&'static str>,
    /// Its sizes, the most work first; at most 128.
    pub points: Vec<WorkPoint>,
    /// Sizes beyond those.
    pub left_out: u64,
}

/// Operators of a type that have the same to do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkPoint {
    /// `prefill`, `decode`, `outside`.
    pub phase: &'static str,
    /// Names, numbers as `*`; the first few.
    pub names: Vec<String>,
    /// Shape of the result.
    pub shape: Vec<i64>,
    /// Type of its elements.
    pub dtype: Option<String>,
    /// How many were computed.
    pub count: u64,
    /// Mean time, ns.
    pub mean_ns: f64,
    /// Floating-point operations of one.
    pub flops: Option<f64>,
    /// Bytes of one.
    pub bytes: Option<f64>,
    /// The line's time, ns.
    pub fitted_ns: Option<f64>,
    /// It is far from the line.
    pub outlier: bool,
}

/// Type and backend.
type RowKey = (Arc<str>, Option<TextId>);

/// What operators of one point have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct PointKey {
    op: Arc<str>,
    phase: Phase,
    backend: Option<TextId>,
    shape: Arc<[i64]>,
    dtype: Option<Arc<str>>,
    flops: Option<u64>,
    bytes: Option<u64>,
}

#[derive(Debug, Default)]
struct PointSums {
    count: u64,
    /// Of each from the first lane's start to the last lane's end of work, with the operators that it called.
    elapsed: u64,
    /// All lanes together, without the operators that they called.
    work: u64,
    names: Vec<Arc<str>>,
}

/// Names of a point that are listed.
const MOST_NAMES: usize = 8;

/// What an operator of a kind has to do, where all of them have it: operations, bytes.
pub(super) fn work_of(
    given: &Given<'_>,
    (kind, backend, phase): (KindId, Option<TextId>, Phase),
    count: u64,
) -> (Option<f64>, Option<f64>) {
    let Some(quantities) = given.statistics.quantities(kind, backend, phase) else { return (None, None) };
    let flops = quantities.with_flops().filter(|sums| sums.count == count && count > 0);
    let bytes = quantities.with_bytes().filter(|sums| sums.count == count && count > 0);
    (flops.map(|sums| sums.flops / count as f64), bytes.map(|sums| sums.bytes / count as f64))
}

impl WorkSection {
    pub(super) fn new(given: &Given<'_>) -> Self {
        let mut points: BTreeMap<PointKey, PointSums> = BTreeMap::new();
        for (id, backend, phase, totals) in given.statistics.operators() {
            let kind = given.catalogue.kind(id);
            let (flops, bytes) = work_of(given, (id, backend, phase), totals.count);
            let key = PointKey {
                op: Arc::clone(&kind.op),
                phase,
                backend,
                shape: Arc::clone(&kind.shape),
                dtype: kind.dtype.clone(),
                flops: flops.map(|n| n.round() as u64),
                bytes: bytes.map(|n| n.round() as u64),
            };
            let sums = points.entry(key).or_default();
            sums.count = sums.count.saturating_add(totals.count);
            sums.elapsed = sums.elapsed.saturating_add(totals.elapsed);
            sums.work = sums.work.saturating_add(totals.divided().work);
            if sums.names.len() < MOST_NAMES && !sums.names.contains(&kind.pattern) {
                sums.names.push(Arc::clone(&kind.pattern));
            }
        }
        let mut by_op: BTreeMap<RowKey, Vec<(PointKey, PointSums)>> = BTreeMap::new();
        for (key, sums) in points {
            by_op.entry((Arc::clone(&key.op), key.backend)).or_default().push((key, sums));
        }
        let whole = by_op.values().flatten().map(|(_, sums)| sums.work).fold(0, u64::saturating_add);
        let mut types: Vec<WorkRow> =
            by_op.into_iter().map(|(key, points)| WorkRow::new(key, points, whole, given)).collect();
        types.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.op.cmp(&b.op)));
        let absent = types.is_empty().then(|| "No operators were recorded.".to_owned());
        Self { types, absent }
    }

    pub(super) fn text(&self, out: &mut String, style: &TextStyle) {
        let title = "Time against work, by operator type";
        if let Some(why) = &self.absent {
            return super::absent(out, style, title, why);
        }
        let mut table = Table::new(&[
            ("share", Right),
            ("achieved", Right),
            ("", Right),
            ("sizes", Right),
            ("overhead", Right),
            ("beyond it", Right),
            ("R²", Right),
            ("op", Left),
            ("backend", Left),
        ]);
        let mut backends: Vec<&str> = self.types.iter().filter_map(|row| row.backend.as_deref()).collect();
        backends.sort_unstable();
        backends.dedup();
        let on = |row: &WorkRow| row.backend.clone().filter(|_| backends.len() > 1).unwrap_or_default();
        let cell = |value: Option<f64>, of: &dyn Fn(f64) -> String| value.map(of).unwrap_or_default();
        for row in self.types.iter().take(SHOWN) {
            let unit = if row.measure == Some("flops") { "FLOP/s" } else { "B/s" };
            let sizes = row.points.len() as u64 + row.left_out;
            table.row(vec![
                share(row.share),
                cell(row.flops_per_s.filter(|n| *n > 0.0), &|n| quantity(n, "FLOP/s")),
                cell(row.bytes_per_s.filter(|n| *n > 0.0), &|n| quantity(n, "B/s")),
                sizes.to_string(),
                cell(row.overhead_ns, &|ns| time_f64(ns.max(0.0))),
                cell(row.ns_per_unit.filter(|ns| *ns > 0.0), &|ns| quantity(1e9 / ns, unit)),
                cell(row.r2, &|r2| format!("{r2:.2}")),
                row.op.clone(),
                on(row),
            ]);
        }
        let more = self.types.len().saturating_sub(SHOWN);
        style.table(out, title, &table, (more > 0).then(|| format!("… and {more} more; `--json` lists all")));
        out.push_str("  Overhead: the time of the smallest; beyond it: the rate of further work.\n");
        let mut table = Table::new(&[
            ("times the line", Right),
            ("mean", Right),
            ("count", Right),
            ("phase", Left),
            ("op", Left),
            ("shape", Left),
            ("names", Flexible),
        ]);
        let outliers = self.types.iter().flat_map(|row| row.points.iter().map(move |point| (row, point)));
        for (row, point) in outliers.filter(|(_, point)| point.outlier).take(SHOWN) {
            let Some(fitted) = point.fitted_ns else { continue };
            table.row(vec![
                format!("{:.2}", point.mean_ns / fitted),
                time_f64(point.mean_ns),
                profinfer_analysis::group_digits(point.count),
                point.phase.to_owned(),
                row.op.clone(),
                shape(&point.shape),
                point.names.join(", "),
            ]);
        }
        style.table(out, "Operators far from the line of their type", &table, None);
    }
}

impl WorkRow {
    fn new((op, backend): RowKey, mut points: Vec<(PointKey, PointSums)>, whole: u64, given: &Given<'_>) -> Self {
        let sum = |of: &dyn Fn(&PointSums) -> u64| points.iter().map(|(_, sums)| of(sums)).fold(0, u64::saturating_add);
        let (count, total_ns) = (sum(&|sums| sums.count), sum(&|sums| sums.work));
        let speed = |of: &dyn Fn(&PointKey) -> Option<u64>| {
            let costed = || points.iter().filter_map(|(key, sums)| Some((of(key)? as f64, sums)));
            let work: f64 = costed().map(|(work, sums)| work * sums.count as f64).sum();
            let time: f64 = costed().map(|(_, sums)| sums.elapsed as f64).sum();
            (time > 0.0).then(|| work * 1e9 / time)
        };
        let (flops_per_s, bytes_per_s) = (speed(&|key| key.flops), speed(&|key| key.bytes));
        let (measure, line, without_line) = best_line(&points);
        points.sort_by_key(|(_, sums)| std::cmp::Reverse(sums.work));
        let mut points: Vec<WorkPoint> = points
            .into_iter()
            .map(|(key, sums)| WorkPoint {
                phase: key.phase.as_str(),
                names: sums.names.iter().map(ToString::to_string).collect(),
                shape: key.shape.to_vec(),
                dtype: key.dtype.as_ref().map(ToString::to_string),
                count: sums.count,
                mean_ns: mean(sums.elapsed, sums.count),
                flops: key.flops.map(|n| n as f64),
                bytes: key.bytes.map(|n| n as f64),
                fitted_ns: None,
                outlier: false,
            })
            .collect();
        if let (Some(line), Some(measure)) = (line, measure) {
            find_outliers(&mut points, &line, measure);
        }
        let left_out = points.len().saturating_sub(MOST_POINTS) as u64;
        points.truncate(MOST_POINTS);
        Self {
            op: op.to_string(),
            backend: backend.map(|backend| given.catalogue.text(backend).to_string()),
            count,
            total_ns,
            share: ratio(total_ns, whole),
            flops_per_s,
            bytes_per_s,
            measure,
            overhead_ns: line.map(|line| line.intercept),
            ns_per_unit: line.map(|line| line.slope),
            r2: line.map(|line| line.r2),
            without_line,
            points,
            left_out,
        }
    }
}

/// The line that explains more: over operations or over bytes.
fn best_line(points: &[(PointKey, PointSums)]) -> (Option<&'static str>, Option<Line>, Option<&'static str>) {
    let has_costs = points.iter().any(|(key, _)| key.flops.is_some() || key.bytes.is_some());
    if !has_costs {
        return (None, None, Some("the probeset has no costs for it"));
    }
    let over = |of: &dyn Fn(&PointKey) -> Option<u64>| {
        let costed = points.iter().filter_map(|(key, sums)| Some((of(key)? as f64, mean(sums.elapsed, sums.count))));
        relative_line(costed)
    };
    let lines = [("flops", over(&|key| key.flops)), ("bytes", over(&|key| key.bytes))];
    let found = lines.into_iter().filter_map(|(measure, line)| Some((measure, line?)));
    // Where operations and bytes are proportional, rounding must not choose.
    let explained = |line: &Line| (line.r2 * 1e9).round();
    match found.max_by(|(_, a), (_, b)| explained(a).total_cmp(&explained(b))) {
        Some((measure, line)) if line.slope > 0.0 && line.r2 >= LEAST_R2 => (Some(measure), Some(line), None),
        Some(_) => (None, None, Some("its time does not depend on its work")),
        None => (None, None, Some("too few different sizes")),
    }
}

/// Least squares of the error as a part of the time: a small size counts as much as a large one, and the overhead is
/// told by those that are small.
fn relative_line(points: impl Iterator<Item = (f64, f64)>) -> Option<Line> {
    let points: Vec<(f64, f64)> = points.filter(|(_, time)| *time > 0.0).collect();
    let mut sizes: Vec<u64> = points.iter().map(|(work, _)| work.to_bits()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() < FEWEST {
        return None;
    }
    let weighted = |(work, time): &(f64, f64)| Moments::weighted(*work, *time, 1.0 / (time * time));
    points.iter().map(weighted).fold(Moments::default(), |sum, point| sum.plus(&point)).line()
}

/// Marks outliers: sizes far from the line, compared with the others' distances.
fn find_outliers(points: &mut [WorkPoint], line: &Line, measure: &str) {
    for point in points.iter_mut() {
        let work = if measure == "flops" { point.flops } else { point.bytes };
        point.fitted_ns = work.map(|work| line.at(work)).filter(|ns| *ns > 0.0);
    }
    let off = |point: &WorkPoint| Some(point.mean_ns / point.fitted_ns? - 1.0);
    let mut offs: Vec<f64> = points.iter().filter_map(off).collect();
    if offs.len() < FEWEST_FOR_OUTLIERS {
        return;
    }
    let Some(middle) = median(&mut offs) else { return };
    let mut away: Vec<f64> = offs.iter().map(|off| (off - middle).abs()).collect();
    // 0.6745: of a normal distribution, half lies within so many standard deviations.
    let scale = median(&mut away).unwrap_or(0.0).max(0.02) / 0.6745;
    for point in points.iter_mut() {
        point.outlier = off(point).is_some_and(|off| off.abs() > FAR_PART && (off - middle).abs() / scale > FAR);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(bytes: f64, mean_ns: f64) -> WorkPoint {
        WorkPoint {
            phase: "decode",
            names: Vec::new(),
            shape: Vec::new(),
            dtype: None,
            count: 1,
            mean_ns,
            flops: None,
            bytes: Some(bytes),
            fitted_ns: None,
            outlier: false,
        }
    }

    #[test]
    fn overhead_and_speed_are_found_and_one_that_does_not_fit_is_named() {
        // 2 µs to begin with, 10 GB/s beyond; one size takes three times as long.
        let sizes = [1e3, 1e4, 3e4, 1e5, 3e5, 1e6];
        let mut points: Vec<WorkPoint> = sizes.iter().map(|bytes| point(*bytes, 2000.0 + bytes / 10.0)).collect();
        let line = relative_line(points.iter().filter_map(|p| Some((p.bytes?, p.mean_ns)))).unwrap();
        assert!((line.intercept - 2000.0).abs() < 1e-6 && (line.slope - 0.1).abs() < 1e-9 && line.r2 > 0.999_999);
        points.push(point(2e5, 3.0 * (2000.0 + 2e4)));
        find_outliers(&mut points, &line, "bytes");
        let outliers: Vec<Option<f64>> = points.iter().filter(|p| p.outlier).map(|p| p.bytes).collect();
        assert_eq!(outliers, [Some(2e5)]);
    }

    #[test]
    fn two_sizes_make_no_line() {
        assert_eq!(relative_line([(1.0, 2.0), (1.0, 2.5), (2.0, 4.0)].into_iter()), None);
    }
}
