//! Estimates of what a device took for each operator, where only the time of several together is recorded: that time is
//! shared out by their costs.

use super::model::Step;
use super::offload_model::Dispatch;
use crate::catalogue::Cost;
use std::collections::BTreeMap;

/// Operations that a device does while it moves a byte: an operator takes as long as the longer of the two. Between what
/// processors (some 4) and large GPUs (some 100) have; only operators with unlike intensities differ by it.
const OPERATIONS_PER_BYTE: f64 = 16.0;

/// What an operator is to the device, in bytes; `None` where its costs are unknown.
fn weight(cost: &Cost) -> Option<f64> {
    let operations = cost.flops.map(|flops| flops / OPERATIONS_PER_BYTE);
    let weight = cost.bytes.into_iter().chain(operations).reduce(f64::max)?;
    (weight.is_finite() && weight >= 0.0).then_some(weight)
}

/// Sets the estimates of operators that the device did not measure. A time is shared out only if the costs of all
/// operators in it are known.
pub(super) fn estimate(step: &mut Step) {
    if step.submissions.is_empty() || step.dispatches.iter().all(|of| of.is_empty || of.device_ns.is_some()) {
        return;
    }
    let mut together: BTreeMap<(u32, usize), (Option<u64>, Vec<usize>)> = BTreeMap::new();
    let mut graphs: BTreeMap<u32, Graph> = BTreeMap::new();
    for (at, of) in step.submissions.iter().enumerate() {
        if let Some(graph) = of.graph {
            graphs.entry(graph).or_default().add(at, of.start, of.done, of.ran.map(|ran| ran.busy));
        }
    }
    for (at, dispatch) in step.dispatches.iter().enumerate().filter(|(_, of)| !of.is_empty) {
        let Some((of_graph, graph)) = dispatch.graph.and_then(|graph| Some((graph, graphs.get(&graph)?))) else {
            continue;
        };
        let (part, time) = graph.time(dispatch);
        together.entry((of_graph, part)).or_insert((time, Vec::new())).1.push(at);
    }
    for (time, dispatches) in together.into_values() {
        let weights: Option<Vec<f64>> = dispatches.iter().map(|at| weight(&step.dispatches[*at].cost)).collect();
        let (Some(time), Some(weights)) = (time, weights) else { continue };
        let all: f64 = weights.iter().sum();
        if all <= 0.0 {
            continue;
        }
        for (at, weight) in dispatches.into_iter().zip(weights) {
            let dispatch = &mut step.dispatches[at];
            #[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "a part of a time")]
            let part = (time as f64 * (weight / all)) as u64;
            dispatch.device_estimate_ns = dispatch.device_ns.is_none().then_some(part);
        }
    }
}

/// The submissions of a graph.
#[derive(Default)]
struct Graph {
    /// When each began, and the device's time for it as the driver reports it.
    submissions: Vec<(usize, u64, Option<u64>)>,
    /// From the first to when all are known to be done.
    start: u64,
    done: Option<u64>,
}

impl Graph {
    fn add(&mut self, at: usize, start: u64, done: Option<u64>, busy: Option<u64>) {
        self.done = match self.submissions.is_empty() {
            true => done,
            false => self.done.zip(done).map(|(a, b)| a.max(b)),
        };
        self.start = if self.submissions.is_empty() { start } else { self.start.min(start) };
        self.submissions.push((at, start, busy));
    }

    /// The time that contains an operator's, and which one it is: that of its submission where the driver reports all
    /// of the graph's, else the graph's.
    fn time(&self, dispatch: &Dispatch) -> (usize, Option<u64>) {
        let is_reported = self.submissions.iter().all(|(_, _, busy)| busy.is_some());
        let later = || self.submissions.iter().find(|(_, start, _)| *start >= dispatch.start);
        match later().filter(|_| is_reported) {
            Some((at, _, busy)) => (*at, *busy),
            None => (usize::MAX, self.done.map(|done| done.saturating_sub(self.start))),
        }
    }
}
