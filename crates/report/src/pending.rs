//! When work of a device's queues was pending, for pictures: submissions that were seen done together are one time. The
//! device's time is within it, and a bound unless the device measured it.

use profinfer_analysis::{JobSince, Step};
use std::collections::{BTreeMap, BTreeSet};

/// A time with pending work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) start: u64,
    /// The host saw that it was done.
    pub(crate) end: u64,
    /// Indices into [`Step::submissions`], in their order.
    pub(crate) submissions: Vec<usize>,
    /// What the device measured of it, ns, of whole graphs only; or what its driver reports.
    pub(crate) measured: Option<u64>,
    graphs: BTreeSet<Option<u32>>,
}

/// Of each queue, by start.
pub(crate) fn pending(step: &Step) -> BTreeMap<u64, Vec<Pending>> {
    let mut queues: BTreeMap<u64, Vec<Pending>> = BTreeMap::new();
    for (index, of) in step.submissions.iter().enumerate() {
        let Some(done) = of.done else { continue };
        let times = queues.entry(of.queue).or_default();
        match times.last_mut() {
            Some(last) if last.end == done => {
                last.submissions.push(index);
                last.graphs.insert(of.graph);
            }
            last => {
                let start = last.map_or(of.start, |last| of.start.max(last.end));
                let graphs = BTreeSet::from([of.graph]);
                times.push(Pending { start, end: done.max(start), submissions: vec![index], measured: None, graphs });
            }
        }
    }
    if step.dispatches.iter().any(|of| of.device_ns.is_some()) {
        measure(&mut queues, step);
    }
    for time in queues.values_mut().flatten().filter(|time| time.measured.is_none()) {
        let ran = |at: &usize| step.submissions[*at].ran.filter(|ran| ran.since == JobSince::Run).map(|ran| ran.busy);
        time.measured = time.submissions.iter().map(ran).try_fold(0_u64, |sum, ns| Some(sum.saturating_add(ns?)));
    }
    queues
}

/// A graph's operators are in one time, unless its submissions are not, or not all of them have an end.
fn measure(queues: &mut BTreeMap<u64, Vec<Pending>>, step: &Step) {
    let mut graphs: BTreeMap<u32, Option<u64>> = BTreeMap::new();
    for of in step.dispatches.iter().filter(|of| !of.is_empty) {
        let Some(graph) = of.graph else { continue };
        let sum = graphs.entry(graph).or_insert(Some(0));
        *sum = sum.zip(of.device_ns).map(|(sum, ns)| sum.saturating_add(ns));
    }
    let mut times: BTreeMap<Option<u32>, u32> = BTreeMap::new();
    queues.values().flatten().flat_map(|time| &time.graphs).for_each(|graph| *times.entry(*graph).or_default() += 1);
    for of in step.submissions.iter().filter(|of| of.done.is_none()) {
        *times.entry(of.graph).or_default() += 2;
    }
    for time in queues.values_mut().flatten() {
        let of_graph = |graph: &Option<u32>| match times.get(graph) {
            Some(1) => graphs.get(&(*graph)?).copied().flatten(),
            _ => None,
        };
        time.measured = time.graphs.iter().map(of_graph).try_fold(0_u64, |sum, ns| Some(sum.saturating_add(ns?)));
    }
}
