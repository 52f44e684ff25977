//! What two graphs differ in: operators that only one of them has, and those that changed their shape, type or time.
//! Operators are the same by layer and name, else by what stands around them.

use super::model::{GraphReport, NodeView, StepView, title};
use crate::numbers::table::{Align, Table};
use crate::numbers::units::{shape, share, time_f64};
use crate::text::TextStyle;
use profinfer_diagnostics::printable;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Rows that a text shows of each kind.
const ROWS: usize = 20;
/// So many unmatched operators between two matched ones are paired with each other at most.
const MOST_BETWEEN: usize = 64;

/// Two graphs beside each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GraphDifference {
    /// `profinfer-graph-difference`.
    pub format: &'static str,
    /// Raised when a key changes its meaning.
    pub version: u32,
    /// The first graph's step.
    pub a: StepView,
    /// The second one's.
    pub b: StepView,
    /// Operators of the first.
    pub operators_a: u64,
    /// Operators of the second.
    pub operators_b: u64,
    /// Operators that both have with the same type, shape and inputs.
    pub same: u64,
    /// Operators, those that are alike in several layers together; the largest difference of time first.
    pub rows: Vec<DifferenceRow>,
}

/// An operator, of one layer or of several.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DifferenceRow {
    /// `new` (only the second has it), `gone` (only the first has it), `changed`, `same`.
    pub what: &'static str,
    /// Of a changed one: `name`, `op`, `dtype`, `shape`, `backend`, `inputs`, `fused`.
    pub changed: Vec<&'static str>,
    /// Its name without the layer's number.
    pub name: String,
    /// The layers.
    pub layers: Vec<String>,
    /// How many operators.
    pub count: u64,
    /// In the first graph.
    pub a: Option<Side>,
    /// In the second.
    pub b: Option<Side>,
}

/// A row's operators in one of the graphs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// Name without the layer's number.
    pub name: String,
    /// Type.
    pub op: String,
    /// Element type.
    pub dtype: Option<String>,
    /// Shape.
    pub shape: Vec<i64>,
    /// Backend.
    pub backend: Option<String>,
    /// Start to end, all of them together.
    pub elapsed_ns: f64,
    /// Over all lanes, all of them together.
    pub work_ns: f64,
    /// In the step's lane time.
    pub share: f64,
}

/// What makes operators the same.
type Key<'a> = (Option<&'a str>, &'a str, &'a str, usize);

impl GraphDifference {
    /// From the first to the second.
    pub fn new(a: &GraphReport, b: &GraphReport) -> Self {
        let (left, right) = (operators(a), operators(b));
        let pairs = pairs(&left, &right);
        let (inputs_a, inputs_b) = (inputs(a), inputs(b));
        let mut groups: BTreeMap<String, DifferenceRow> = BTreeMap::new();
        let mut same = 0;
        let taken: HashSet<usize> = pairs.iter().flatten().copied().collect();
        for (index, node) in left.iter().enumerate() {
            let Some(other) = pairs[index].map(|other| right[other]) else {
                add(&mut groups, "gone", Vec::new(), Some(node), None);
                continue;
            };
            let reads = inputs_a.get(node.id.as_str()) != inputs_b.get(other.id.as_str());
            let changed = changes(node, other, reads);
            let what = if changed.is_empty() { "same" } else { "changed" };
            same += u64::from(changed.is_empty());
            add(&mut groups, what, changed, Some(node), Some(other));
        }
        for (_, node) in right.iter().enumerate().filter(|(index, _)| !taken.contains(index)) {
            add(&mut groups, "new", Vec::new(), None, Some(node));
        }
        let mut rows: Vec<DifferenceRow> = groups.into_values().collect();
        rows.sort_by(|x, y| y.difference().abs().total_cmp(&x.difference().abs()));
        Self {
            format: "profinfer-graph-difference",
            version: 1,
            a: a.step.clone(),
            b: b.step.clone(),
            operators_a: left.len() as u64,
            operators_b: right.len() as u64,
            same,
            rows,
        }
    }
}

impl DifferenceRow {
    /// ns from start to end, of the second less of the first.
    fn difference(&self) -> f64 {
        let of = |side: &Option<Side>| side.as_ref().map_or(0.0, |side| side.elapsed_ns);
        of(&self.b) - of(&self.a)
    }
}

fn operators(report: &GraphReport) -> Vec<&NodeView> {
    report.nodes.iter().filter(|node| node.cost.is_some()).collect()
}

/// What each operator reads, by name without the layer, in the order of its inputs.
fn inputs(report: &GraphReport) -> HashMap<&str, Vec<&str>> {
    let mut inputs: HashMap<&str, Vec<&str>> = HashMap::new();
    for edge in &report.edges {
        let Some(from) = report.index(&edge.from).map(|index| &report.nodes[index]) else { continue };
        inputs.entry(edge.to.as_str()).or_default().push(&from.pattern);
    }
    inputs
}

/// For each operator of the first graph, the same one of the second.
fn pairs(left: &[&NodeView], right: &[&NodeView]) -> Vec<Option<usize>> {
    let mut pairs: Vec<Option<usize>> = vec![None; left.len()];
    let mut taken = vec![false; right.len()];
    // By layer, name and type; then whatever the type; the n-th of a name and the n-th of it are the same.
    for with_op in [true, false] {
        let mut indices: HashMap<Key<'_>, usize> = HashMap::new();
        let free = |taken: &[bool], index: usize| !taken[index];
        for (key, index) in keys(right, with_op, |index| free(&taken, index)) {
            indices.insert(key, index);
        }
        let open: Vec<bool> = pairs.iter().map(Option::is_none).collect();
        for (key, index) in keys(left, with_op, |index| open[index]) {
            if let Some(other) = indices.remove(&key) {
                pairs[index] = Some(other);
                taken[other] = true;
            }
        }
    }
    pair_by_place(left, right, &mut pairs, &mut taken);
    pairs
}

fn keys<'n>(nodes: &[&'n NodeView], with_op: bool, takes: impl Fn(usize) -> bool) -> Vec<(Key<'n>, usize)> {
    let mut counts: HashMap<(Option<&str>, &str, &str), usize> = HashMap::new();
    let mut keys = Vec::new();
    for (index, node) in nodes.iter().enumerate().filter(|(index, _)| takes(*index)) {
        let (layer, name) = (node.layer.as_deref(), node.pattern.as_str());
        let op = if with_op { node.op.as_str() } else { "" };
        let count = counts.entry((layer, name, op)).or_default();
        keys.push(((layer, name, op, *count), index));
        *count += 1;
    }
    keys
}

/// Operators of the same types and width between two pairs of neighbours are the same, whatever they are called.
fn pair_by_place(left: &[&NodeView], right: &[&NodeView], pairs: &mut [Option<usize>], taken: &mut [bool]) {
    let mut from = 0;
    for index in 0..left.len() {
        if let Some(other) = pairs[index] {
            from = other + 1;
            continue;
        }
        let what =
            |node: &NodeView| (node.op.clone(), node.layer.clone(), node.dtype.clone(), node.shape.first().copied());
        let wanted = what(left[index]);
        let same = |node: &NodeView| what(node) == wanted;
        let until = right.len().min(from.saturating_add(MOST_BETWEEN));
        let between = (from..until).take_while(|other| !taken[*other]).find(|other| same(right[*other]));
        if let Some(other) = between {
            pairs[index] = Some(other);
            taken[other] = true;
            from = other + 1;
        }
    }
}

fn changes(a: &NodeView, b: &NodeView, reads: bool) -> Vec<&'static str> {
    let changes = [
        ("name", a.pattern != b.pattern),
        ("op", a.op != b.op),
        ("fused", a.covers.is_some() != b.covers.is_some()),
        ("dtype", a.dtype != b.dtype),
        ("shape", a.shape != b.shape),
        ("backend", a.backend != b.backend),
        ("inputs", reads),
    ];
    changes.into_iter().filter(|(_, changed)| *changed).map(|(what, _)| what).collect()
}

fn add(
    groups: &mut BTreeMap<String, DifferenceRow>,
    what: &'static str,
    changed: Vec<&'static str>,
    a: Option<&NodeView>,
    b: Option<&NodeView>,
) {
    let Some(node) = b.or(a) else { return };
    let of = |node: &NodeView| (node.pattern.clone(), node.op.clone(), node.dtype.clone(), node.shape.clone());
    let key = format!("{what} {changed:?} {:?} {:?} {}", a.map(of), b.map(of), node.layer.is_some());
    let row = groups.entry(key).or_insert_with(|| DifferenceRow {
        what,
        changed,
        name: node.pattern.clone(),
        layers: Vec::new(),
        count: 0,
        a: a.map(Side::new),
        b: b.map(Side::new),
    });
    row.count += 1;
    if let Some(layer) = node.layer.as_ref().filter(|layer| !row.layers.contains(layer)) {
        row.layers.push(layer.clone());
    }
    for (side, node) in [(&mut row.a, a), (&mut row.b, b)] {
        if let (Some(side), Some(cost)) = (side, node.and_then(|node| node.cost.as_ref())) {
            side.elapsed_ns += cost.elapsed_ns;
            side.work_ns += cost.work_ns;
            side.share += cost.share;
        }
    }
}

impl Side {
    fn new(node: &NodeView) -> Self {
        Self {
            name: node.pattern.clone(),
            op: node.op.clone(),
            dtype: node.dtype.clone(),
            shape: node.shape.clone(),
            backend: node.backend.clone(),
            elapsed_ns: 0.0,
            work_ns: 0.0,
            share: 0.0,
        }
    }
}

/// The differences as text.
pub fn difference_text(difference: &GraphDifference, style: &TextStyle) -> String {
    let step = |name: &str, step: &StepView, operators: u64| {
        let which = match step.steps {
            1 => format!("step {}", step.number),
            steps => format!("the mean of {steps} steps"),
        };
        let lossy = if step.complete { "" } else { ", records lost" };
        format!("{name}: {which}, {}, {operators} operators, {}{lossy}\n", step.phase, time_f64(step.duration_ns))
    };
    let mut out = step("A", &difference.a, difference.operators_a);
    out.push_str(&step("B", &difference.b, difference.operators_b));
    out.push_str(&format!("{} operators are the same in both but for their time\n", difference.same));
    for (what, heading) in [
        ("gone", "Gone: only A has them"),
        ("new", "New: only B has them"),
        ("changed", "Changed"),
        ("same", "The same, by difference of time"),
    ] {
        let rows: Vec<&DifferenceRow> = difference.rows.iter().filter(|row| row.what == what).collect();
        let most = style.top.unwrap_or(ROWS);
        let more = rows.len().checked_sub(most).filter(|more| *more > 0);
        let more = more.map(|more| format!("{more} more rows: `--top {}`", rows.len()));
        style.table(&mut out, heading, &table(&rows[..rows.len().min(most)]), more);
    }
    out
}

fn table(rows: &[&DifferenceRow]) -> Table {
    use Align::{Flexible, Left, Right};
    let mut table = Table::new(&[
        ("count", Right),
        ("A", Right),
        ("B", Right),
        ("B − A", Right),
        ("B ÷ A", Right),
        ("A share", Right),
        ("B share", Right),
        ("layers", Left),
        ("changed", Left),
        ("op", Left),
        ("dtype", Left),
        ("shape", Left),
        ("name", Flexible),
    ]);
    for row in rows {
        let time = |side: &Option<Side>| side.as_ref().map_or_else(String::new, |side| time_f64(side.elapsed_ns));
        let part = |side: &Option<Side>| side.as_ref().map_or_else(String::new, |side| share(side.share));
        let both = row.a.as_ref().zip(row.b.as_ref());
        let ratio =
            both.filter(|(a, _)| a.elapsed_ns > 0.0).map(|(a, b)| format!("{:.2}", b.elapsed_ns / a.elapsed_ns));
        let difference = row.difference();
        let sign = if difference < 0.0 { "−" } else { "+" };
        let text = |of: &dyn Fn(&Side) -> String| match (row.a.as_ref().map(of), row.b.as_ref().map(of)) {
            (Some(a), Some(b)) if a != b => format!("{a} → {b}"),
            (_, Some(one)) | (Some(one), None) => one,
            (None, None) => String::new(),
        };
        let layers = if row.layers.is_empty() { String::new() } else { title(&row.layers) };
        table.row(vec![
            row.count.to_string(),
            time(&row.a),
            time(&row.b),
            if both.is_some() { format!("{sign}{}", time_f64(difference.abs())) } else { String::new() },
            ratio.unwrap_or_default(),
            part(&row.a),
            part(&row.b),
            printable(layers.trim_start_matches("layers ").trim_start_matches("layer ")),
            row.changed.join(" "),
            text(&|side: &Side| side.op.clone()),
            text(&|side: &Side| side.dtype.clone().unwrap_or_default()),
            text(&|side: &Side| shape(&side.shape)),
            text(&|side: &Side| side.name.clone()),
        ]);
    }
    table
}
