//! Assembles what a step gave to other processors: dispatches with the operators they cover, and when each submission
//! was done at the latest.

use super::driver_jobs;
use super::model::{Graph, Step};
use super::nesting::GraphIndex;
use super::offload_model::{Dispatch, FusedPart, QueueEvent, Queued, Submission, WaitsOn};
use super::offload_raw::{Placed, RawOffload, RawWhat};
use super::pending::{ClosedStep, Process};
use super::threads::Threads;
use crate::catalogue::{Catalogue, Cost, Costs};
use crate::ids::{KindId, ObjectId};
use crate::raw::Decoder;
use crate::sampling::Recorded;
use profinfer_schema::Role;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;

/// Operators that one dispatch may cover.
const MAX_FUSED: u32 = 64;

/// What describes the records of dispatches.
pub(super) struct DispatchContext<'a> {
    pub(super) catalogue: &'a mut Catalogue,
    pub(super) threads: &'a Threads,
    pub(super) decoder: &'a Decoder,
    pub(super) costs: &'a Costs,
}

/// Fills a step's lists. `nanoseconds` are those of a device's tick.
pub(super) fn fill(
    out: &mut Step,
    mut raw: Vec<RawOffload>,
    index: &GraphIndex,
    mut context: DispatchContext<'_>,
    nanoseconds: Option<f64>,
) {
    out.dispatches.clear();
    out.queue.clear();
    out.submissions.clear();
    if raw.is_empty() {
        return;
    }
    raw.sort_by_key(|event| (event.start, event.end));
    let graph_of = |graphs: &[Graph], start: u64, tid: u32| {
        index.find(graphs, start, tid).map(|found| found.graph).filter(|graph| graphs[*graph as usize].tid == tid)
    };
    // Where operators were not recorded, the kernels that are launched for them are not operators.
    let without_kernels = out.recorded != Recorded::Whole && context.decoder.has(Role::Dispatch);
    let is_kernel = |record_type: u16| context.decoder.records[usize::from(record_type)].role == Some(Role::Submit);
    let mut placed = Vec::new();
    for RawOffload { start, end, thread, record_type, what } in raw {
        let tid = context.threads.get(thread).tid;
        match what {
            RawWhat::Dispatch(_) if without_kernels && is_kernel(record_type) => {}
            RawWhat::Dispatch(raw) => {
                let graph = graph_of(&out.graphs, start, tid);
                placed.push(Placed { raw, start, end, thread, record_type, graph });
            }
            RawWhat::Queued(what) => out.queue.push(QueueEvent { what, tid, record_type, start, end }),
        }
    }
    driver_jobs::settle(&mut out.queue);
    let launches = take_launches(&mut placed);
    placed.sort_by_key(|dispatch| (dispatch.thread, dispatch.graph, dispatch.start));
    for of_graph in placed.chunk_by(|a, b| (a.thread, a.graph) == (b.thread, b.graph)) {
        dispatches(&mut out.dispatches, of_graph, &mut context);
    }
    give_launches(&mut out.dispatches, &launches, &mut context);
    submissions(out, graph_of);
    if let Some(nanoseconds) = nanoseconds {
        measured(out, nanoseconds);
    }
    out.dispatches.sort_by_key(|dispatch| (dispatch.start, dispatch.end));
}

/// What was encoded for later, in order, each with what it covers.
pub(super) fn kinds(mut encoded: Vec<Placed>, context: &mut DispatchContext<'_>) -> Vec<KindId> {
    encoded.sort_by_key(|of| (of.thread, of.start));
    let mut found = Vec::new();
    encoded.chunk_by(|a, b| a.thread == b.thread).for_each(|of_thread| dispatches(&mut found, of_thread, context));
    found.sort_by_key(|dispatch| dispatch.start);
    found.into_iter().map(|dispatch| dispatch.kind).collect()
}

/// Takes out what was launched while an operator was encoded, in order: it is a part of that.
fn take_launches(placed: &mut Vec<Placed>) -> Vec<Placed> {
    placed.sort_by_key(|of| (of.thread, of.start, std::cmp::Reverse(of.end)));
    let mut around: Option<(u32, u64)> = None;
    let is_within = |of: &mut Placed| {
        let is_within = around.is_some_and(|(thread, end)| thread == of.thread && of.end <= end);
        if !is_within {
            around = Some((of.thread, of.end));
        }
        is_within
    };
    placed.extract_if(.., is_within).collect()
}

/// Gives each launch to the operator that was encoded then.
fn give_launches(dispatches: &mut [Dispatch], launches: &[Placed], context: &mut DispatchContext<'_>) {
    let DispatchContext { catalogue, threads, decoder, .. } = context;
    if launches.is_empty() {
        return;
    }
    dispatches.sort_by_key(|of| (of.tid, of.start));
    for launch in launches {
        let tid = threads.get(launch.thread).tid;
        let before = dispatches.partition_point(|of| (of.tid, of.start) <= (tid, launch.start));
        let around = before.checked_sub(1).and_then(|at| dispatches.get_mut(at));
        if let Some(of) = around.filter(|of| of.tid == tid && launch.end <= of.end) {
            let parent = |process: u32| threads.parent(process);
            let object = launch.raw.object.map_or(0, |object| catalogue.described(object, launch.end, &parent));
            let name = decoder.name(launch.record_type);
            of.launches.push(catalogue.combine(object, launch.raw.inline, 0, launch.record_type, name));
        }
    }
}

/// The dispatches of one graph on one thread: what lies between the indexes of two is computed with the first.
fn dispatches(out: &mut Vec<Dispatch>, of_graph: &[Placed], context: &mut DispatchContext<'_>) {
    let DispatchContext { catalogue, threads, decoder, costs } = context;
    let parent = |process: u32| threads.parent(process);
    let mut apart: Option<FxHashSet<ObjectId>> = None;
    for (at, dispatch) in of_graph.iter().enumerate() {
        let Placed { raw, start, end, thread, record_type, graph } = dispatch;
        let next = of_graph.get(at + 1);
        let until = next.map_or(raw.graph_nodes, |next| next.raw.index);
        let operators = raw.index.zip(until).and_then(|(index, until)| until.checked_sub(index)).unwrap_or(1);
        let mut operators = if (1..=MAX_FUSED).contains(&operators) { operators } else { 1 };
        // What ends a graph has no call after it.
        let last = || raw.graph_last.filter(|last| next.is_none() && Some(*last) != raw.object);
        let mut result = next.and_then(|next| next.raw.previous).or_else(last).filter(|_| operators > 1);
        // The result of what is fused is read at the next call; what a list names is described up to the graph's end.
        let members = raw.members.get(..operators as usize).filter(|_| operators > 1);
        let described_by = members.and_then(|_| of_graph.last()).or(next).map_or(*end, |next| next.end);
        let described = |o: Option<ObjectId>| o.map_or(0, |o| catalogue.described(o, described_by, &parent));
        let inputs = |of: ObjectId| catalogue.input_objects(of, described_by, &parent);
        let mut parts = Vec::new();
        if let Some(members) = members {
            let does_work = |of: &ObjectId| {
                let op = catalogue.described_as(described(Some(*of))).and_then(|of| of.op.as_deref());
                op.is_some_and(|op| !costs.are_free(op))
            };
            parts = computed_together(members, does_work, inputs);
            operators = 1 + u32::try_from(parts.len()).unwrap_or_default();
            result = parts.pop();
        } else if operators > 2
            && let Some(result) = result
        {
            let apart = apart.get_or_insert_with(|| {
                let nodes = of_graph.iter().filter_map(|dispatch| dispatch.raw.object);
                nodes.chain(of_graph.iter().filter_map(|dispatch| dispatch.raw.previous)).collect()
            });
            parts = between(result, operators as usize - 2, apart, inputs);
        }
        let first = raw.object.filter(|_| result.is_some());
        let (object, covers) = (described(result.or(raw.object)), described(first));
        let parts: Vec<(ObjectId, u32)> =
            first.into_iter().chain(parts).map(|part| (part, described(Some(part)))).collect();
        let name = decoder.name(*record_type);
        let kind = catalogue.combine(object, raw.inline, covers, *record_type, name);
        let parts = parts.into_iter().filter(|(_, part)| *part != 0);
        let part = |(object, part)| FusedPart { kind: catalogue.combine(part, 0, 0, *record_type, name), object };
        out.push(Dispatch {
            kind,
            object: result.or(raw.object),
            graph: *graph,
            tid: threads.get(*thread).tid,
            start: *start,
            end: *end,
            index: raw.index,
            operators,
            fused: parts.map(part).collect(),
            launches: Vec::new(),
            is_empty: raw.is_empty,
            cost: Cost::default(),
            device_ns: None,
            device_estimate_ns: None,
        });
    }
}

/// What of a graph's members is computed with the first of them, in order: the last one that does work, if it comes of
/// the first, and what it comes of. Views do none, and an engine can leave out what nobody asked for.
fn computed_together(
    members: &[ObjectId],
    does_work: impl Fn(&ObjectId) -> bool,
    inputs: impl Fn(ObjectId) -> Vec<ObjectId>,
) -> Vec<ObjectId> {
    let Some((first, rest)) = members.split_first() else { return Vec::new() };
    for (at, last) in rest.iter().enumerate().rev().filter(|(_, of)| does_work(of)) {
        let sources = sources(*last, members.len(), &inputs, |of| members.contains(of));
        if sources.contains(first) {
            let is_part = |of: &ObjectId| of == last || sources.contains(of) && does_work(of);
            return rest[..=at].iter().copied().filter(is_part).collect();
        }
    }
    Vec::new()
}

/// The operators between the first and the last of some that are fused: the last is computed from them, and nothing
/// else in the graph computes them.
fn between(
    last: ObjectId,
    most: usize,
    apart: &FxHashSet<ObjectId>,
    inputs: impl Fn(ObjectId) -> Vec<ObjectId>,
) -> Vec<ObjectId> {
    let mut found = sources(last, most, &inputs, |of| !apart.contains(of) && !inputs(*of).is_empty());
    found.reverse();
    found
}

/// What an object comes of, through inputs that are taken, as many as are wanted at most.
fn sources(
    last: ObjectId,
    most: usize,
    inputs: impl Fn(ObjectId) -> Vec<ObjectId>,
    takes: impl Fn(&ObjectId) -> bool,
) -> Vec<ObjectId> {
    let mut found: Vec<ObjectId> = Vec::new();
    let mut open = vec![last];
    while let Some(object) = open.pop() {
        for input in inputs(object) {
            if found.len() < most && !found.contains(&input) && takes(&input) {
                found.push(input);
                open.push(input);
            }
        }
    }
    found
}

/// When each submission was done: by the end of the first wait that implies it.
fn submissions(out: &mut Step, graph_of: impl Fn(&[Graph], u64, u32) -> Option<u32>) {
    let mut order: Vec<usize> = (0..out.queue.len()).collect();
    let is_submit = |at: usize| matches!(out.queue[at].what, Queued::Submit { .. });
    order.sort_by_key(|at| if is_submit(*at) { (out.queue[*at].start, 0) } else { (out.queue[*at].end, 1) });
    let mut pending: FxHashMap<u64, VecDeque<usize>> = FxHashMap::default();
    let mut fences: FxHashMap<u64, (u64, usize)> = FxHashMap::default();
    // What other queues must have done before a submission, and all of its queue after it, begins.
    let mut earlier: FxHashMap<usize, (u64, usize)> = FxHashMap::default();
    let mut found: Vec<Submission> = Vec::new();
    let mut tids = Vec::new();
    for at in order {
        let event = &out.queue[at];
        match event.what {
            Queued::Submit { queue, fence, after, failed: false, .. } => {
                let graph = graph_of(&out.graphs, event.start, event.tid);
                let number = found.len();
                found.push(Submission { queue, graph, start: event.start, end: event.end, done: None, ran: None });
                tids.push(event.tid);
                pending.entry(queue).or_default().push_back(number);
                if let Some(before) = after.and_then(|fence| fences.get(&fence)).filter(|(of, _)| *of != queue) {
                    earlier.insert(number, *before);
                }
                if let Some(fence) = fence {
                    fences.insert(fence, (queue, number));
                }
            }
            Queued::Destroyed { queue } => {
                pending.remove(&queue);
                fences.retain(|_, (of, _)| *of != queue);
            }
            Queued::Wait { on, failed: false } => {
                // A call that submits work and has not returned when the wait begins is none that it waits for.
                let before = |number: usize| found.get(number).is_some_and(|of| of.end <= event.start);
                let mut done = Vec::new();
                match on {
                    WaitsOn::Fence(fence) => {
                        // A fence can be used again: it stands for the work that was submitted with it last.
                        if let Some((queue, last)) = fences.get(&fence).copied().filter(|(_, last)| before(*last)) {
                            take(pending.get_mut(&queue), &mut done, |number| number <= last);
                            fences.remove(&fence);
                        }
                    }
                    WaitsOn::Queue(queue) => take(pending.get_mut(&queue), &mut done, before),
                    WaitsOn::Everything => {
                        pending.values_mut().for_each(|queue| take(Some(queue), &mut done, before));
                    }
                    WaitsOn::Unknown => {}
                }
                let mut at = 0;
                while let Some(number) = done.get(at).copied() {
                    found[number].done = Some(event.end);
                    if let Some((queue, last)) = earlier.remove(&number) {
                        take(pending.get_mut(&queue), &mut done, |number| number <= last);
                    }
                    at += 1;
                }
            }
            _ => {}
        }
    }
    driver_jobs::assign(&out.queue, &mut found, &tids);
    // What the driver reports as done is done, whether a wait was recorded or not.
    for of in &mut found {
        of.done = of.done.or(of.ran.map(|ran| ran.end.max(of.end)));
    }
    out.submissions = found;
}

/// Takes what was submitted first, as long as it is done.
fn take(queue: Option<&mut VecDeque<usize>>, done: &mut Vec<usize>, is_done: impl Fn(usize) -> bool) {
    let Some(queue) = queue else { return };
    while let Some(number) = queue.front().copied().filter(|number| is_done(*number)) {
        queue.pop_front();
        done.push(number);
    }
}

/// Timestamps around each operator of a graph: one before the first and one after each. Where their number is another,
/// they are of something else.
fn measured(out: &mut Step, nanoseconds: f64) {
    for event in &out.queue {
        let Queued::Timestamps(ticks) = &event.what else { continue };
        let graph = out.graphs.iter().enumerate().rev();
        let mut graph = graph.filter(|(_, graph)| graph.tid == event.tid && graph.start <= event.start);
        let Some((graph, _)) = graph.next() else { continue };
        let is_of =
            |dispatch: &&mut Dispatch| dispatch.graph.is_some_and(|of| of as usize == graph) && !dispatch.is_empty;
        if out.dispatches.iter_mut().filter(is_of).count() + 1 != ticks.len() {
            continue;
        }
        let spans = ticks.iter().zip(ticks.iter().skip(1)).map(|(from, to)| to.checked_sub(*from));
        for (dispatch, span) in out.dispatches.iter_mut().filter(is_of).zip(spans) {
            #[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "positive, and saturating")]
            let ns = span.map(|ticks| (ticks as f64 * nanoseconds) as u64);
            dispatch.device_ns = ns;
        }
    }
}

/// Marks operators of which a thread gives work to a device, or encodes it.
pub(super) fn mark_operators(out: &mut Step) {
    let encoded = out.dispatches.iter().filter(|of| !of.is_empty).map(|of| (of.tid, of.start));
    let is_submit = |event: &&QueueEvent| matches!(event.what, Queued::Submit { failed: false, .. });
    let mut given: Vec<(u32, u64)> =
        encoded.chain(out.queue.iter().filter(is_submit).map(|of| (of.tid, of.start))).collect();
    given.sort_unstable();
    if given.is_empty() {
        return;
    }
    let mut operators = std::mem::take(&mut out.operators);
    for operator in &mut operators {
        operator.gives_work = out.lanes_of(operator).iter().any(|share| {
            let first = given.partition_point(|at| *at < (share.tid, share.start));
            given.get(first).is_some_and(|(tid, start)| *tid == share.tid && *start < share.end)
        });
    }
    out.operators = operators;
}

/// Waits, and what else happens in queues after a step and before the next, belong to it: its results come then. Given
/// when a thread's next step begins; what other threads that run steps do may be in steps that are still open.
pub(super) fn give_to_last(process: &mut Process, before: u64, thread: Option<u32>) {
    let Process { aside, window, recent, waiting, step_threads, .. } = process;
    let is_over = |of: u32| thread.is_none_or(|thread| thread == of || step_threads.iter().all(|t| t.thread != of));
    let queued =
        |raw: &mut RawOffload| matches!(raw.what, RawWhat::Queued(_)) && raw.start < before && is_over(raw.thread);
    let late = aside.offloads.extract_if(.., queued).chain(window.offloads.extract_if(.., queued));
    let mut none = Vec::new();
    for event in late {
        let steps = recent.iter_mut().chain(waiting.iter_mut()).filter(|step| step.header.end <= event.start);
        match steps.max_by_key(|step: &&mut ClosedStep| (step.thread == event.thread, step.header.end)) {
            Some(step) => step.bucket.offloads.push(event),
            None => none.push(event),
        }
    }
    process.aside.offloads.append(&mut none);
}
