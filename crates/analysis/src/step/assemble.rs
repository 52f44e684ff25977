//! Assembles one step from its pending events: graphs are ordered, each thread's operators are placed in
//! them, and the shares of one operator on several lanes are put together.

use super::batch::{self, RequestEvent};
use super::bucket::{Bucket, RawExperts, RawGraph, RawOperator, RawRegion};
use super::memory::Memory;
use super::model::{Experts, Graph, LaneSpan, Missing, Operator, Region, Step};
use super::nesting::{GraphIndex, Share, nest};
use super::other_threads::{self, NONE, learn_home};
use super::pending::{ClosedStep, Process};
use super::scheduler::Scheduler;
use super::step_numbers::{experts_used, numbers, tokens};
use super::threads::Threads;
use crate::catalogue::{Catalogue, Cost, CostCache, KindCache, Origin, Rules, StepFields};
use crate::ids::{InlineId, ObjectId, Phase};
use crate::raw::{Count, Decoder};
use crate::sampling::{Coverage, Recorded};
use profinfer_schema::{FieldMeaning, Role};
use rustc_hash::{FxHashMap, FxHashSet};

use super::device_shares;
use super::faults;
use super::lane_time::{self, Caller, StateSources};
use super::nested_costs;
use super::offload::{self, DispatchContext};
use super::reclaim;

/// Nested operators that are searched for a region.
const MAX_DEPTH: usize = 16;

/// What assembly reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) decoder: &'a Decoder,
    pub(crate) rules: &'a Rules,
    pub(crate) process: &'a Process,
    pub(crate) memory: &'a Memory,
    pub(crate) scheduler: &'a Scheduler,
    /// Nanoseconds of a device's tick.
    pub(crate) tick: Option<f64>,
}

/// Which operator of a step a span is a share of: its graph, and its node or (without one) its description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct InstanceKey {
    graph: u32,
    object: u32,
    inline: InlineId,
    record_type: u16,
}

/// An operator while its shares are put together. The n-th time on one thread and the n-th time on another are the
/// same one.
#[derive(Debug)]
struct Instance {
    key: InstanceKey,
    object: Option<ObjectId>,
    covers: Option<ObjectId>,
    inline: InlineId,
    record_type: u16,
    start: u64,
    end: u64,
    shares: u32,
    /// The next time that it was computed in this graph.
    next: u32,
}

/// The instances of one key: the first, and how far the thread at hand has come.
#[derive(Debug, Clone, Copy)]
struct Chain {
    first: u32,
    current: u32,
    thread: u32,
}

/// Assembles steps. Its buffers are reused.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    out: Step,
    index: GraphIndex,
    shares: Vec<Share>,
    graph_of: Vec<u32>,
    instance_of: Vec<u32>,
    /// The operator that each share of another thread is of, by index; empty without such shares.
    given_by: Vec<u32>,
    instances: Vec<Instance>,
    chains: FxHashMap<InstanceKey, Chain>,
    order: Vec<u32>,
    rank: Vec<u32>,
    stack: Vec<usize>,
    threads: Vec<(u32, u32)>,
    costs: CostCache,
    kinds: KindCache,
    inputs: Vec<InlineId>,
}

impl Assembler {
    /// Makes a numbered step.
    pub(crate) fn step(
        &mut self,
        step: ClosedStep,
        coverage: Coverage,
        threads: &mut Threads,
        catalogue: &mut Catalogue,
        context: Context<'_>,
    ) -> &Step {
        let Context { decoder, rules, process, .. } = context;
        let thread = threads.get(step.thread);
        let (start, end) = (step.header.start, step.header.end);
        self.out.number = step.number;
        self.out.pid = threads.pid(thread.process);
        self.out.tid = thread.tid;
        (self.out.start, self.out.end) = (start, end);
        let Coverage { recorded, window, stretch, is_planned, has_prompt } = coverage;
        (self.out.recorded, self.out.window) = (recorded, window);
        (self.out.stretch, self.out.is_planned) = (stretch, is_planned);
        self.out.tokens = tokens(&step, decoder);
        let field = |name: &str| decoder.field(&step.header, &step.record, name).or_else(|| decoder.constant(name));
        self.out.sequences = batch::parts(&step.bucket.batches);
        let number = |meaning| numbers(&step, decoder, meaning);
        let positions = self.out.sequences.iter().filter_map(|part| part.position);
        let position = number(FieldMeaning::Position).min();
        self.out.position = positions.min().or(position);
        let sequences = match self.out.sequences.len() as u64 {
            0 => number(FieldMeaning::SequenceCount).max().filter(|sequences| *sequences > 0).unwrap_or(1),
            distinct => distinct,
        };
        self.out.sequence_count = sequences;
        let fields = StepFields { tokens: self.out.tokens, sequences, field: &field };
        self.out.phase = Some(match rules.prefill(&fields, self.out.tokens, sequences) {
            Some(true) => Phase::Prefill,
            Some(false) => Phase::Decode,
            None if !decoder.has_tokens(step.header.record_type) => Phase::Run,
            None if has_prompt => Phase::Prefill,
            None => Phase::Decode,
        });
        self.out.own_counts = decoder.counts(&step.header, &step.record).unwrap_or_default();
        let caller = Caller { thread: step.thread, since: step.since };
        self.fill(step.bucket, Some(caller), threads, catalogue, context);
        self.take_gaps(process, threads);
        self.out.record = step.record;
        &self.out
    }

    /// Sets what happened to requests up to the end of the next step.
    pub(crate) fn set_requests(&mut self, requests: Vec<RequestEvent>) {
        self.out.requests = requests;
    }

    /// A unit without contents, for what happened to requests after the last step.
    pub(crate) fn nothing(&mut self) -> &Step {
        self.out = Step { requests: std::mem::take(&mut self.out.requests), complete: true, ..Step::default() };
        self.out.phase = Some(Phase::Outside);
        &self.out
    }

    /// Makes a unit of what no step of a process contains.
    pub(crate) fn loose(
        &mut self,
        bucket: Bucket,
        pid: u32,
        (start, end): (u64, u64),
        threads: &mut Threads,
        catalogue: &mut Catalogue,
        context: Context<'_>,
    ) -> &Step {
        self.out.number = 0;
        (self.out.pid, self.out.tid) = (pid, 0);
        (self.out.start, self.out.end) = (start, end);
        (self.out.recorded, self.out.window) = (Recorded::Whole, None);
        (self.out.stretch, self.out.is_planned) = (0, true);
        self.out.tokens = None;
        (self.out.sequences, self.out.position) = (Vec::new(), None);
        self.out.phase = Some(Phase::Outside);
        self.out.record = Box::default();
        self.out.own_counts = Box::default();
        self.fill(bucket, None, threads, catalogue, context);
        self.take_gaps(context.process, threads);
        &self.out
    }

    fn fill(
        &mut self,
        bucket: Bucket,
        caller: Option<Caller>,
        threads: &mut Threads,
        catalogue: &mut Catalogue,
        context: Context<'_>,
    ) {
        let step_thread = caller.map(|of| of.thread);
        let Context { decoder, rules, process, memory, scheduler, tick } = context;
        let Bucket { mut operators, graphs, regions, experts, fetches, offloads, .. } = bucket;
        (self.out.ambiguous, self.out.ambiguous_shares) = (0, 0);
        self.out.records.clear();
        let types = operators.iter().map(|o| o.record_type).chain(regions.iter().map(|r| r.record_type));
        let types = types.chain(offloads.iter().map(|o| o.record_type));
        for record in types.chain(experts.iter().map(|e| e.record_type)) {
            match self.out.records.iter_mut().find(|(of, _)| *of == record) {
                Some((_, count)) => *count += 1,
                None => self.out.records.push((record, 1)),
            }
        }
        self.take_graphs(graphs, threads);
        // Threads take turns in the trace, and each one's operators come in order: so nothing is left to do after the first.
        operators.sort_by_key(|o| o.thread);
        for of_thread in operators.chunk_by_mut(|a, b| a.thread == b.thread) {
            of_thread.sort_by_key(|o| (o.start, std::cmp::Reverse(o.end)));
        }
        let (given_by, ambiguous) = other_threads::assign(&mut operators, threads);
        self.given_by = given_by;
        self.out.ambiguous_shares = ambiguous;
        self.place(&operators, step_thread, threads);
        self.number_lanes(&operators, step_thread, threads);
        self.join(&operators);
        self.give_operators(catalogue, threads, decoder);
        super::layers::infer(&mut self.out.operators, catalogue);
        self.take_regions(regions, &operators, threads);
        let operator_at = |thread: u32, time: u64| {
            let before = operators.partition_point(|o| (o.thread, o.start) <= (thread, time));
            let around = (before.saturating_sub(MAX_DEPTH)..before).rev().find(|i| {
                operators[*i].thread == thread && self.shares[*i].start <= time && time <= self.shares[*i].end
            });
            around.and_then(|i| Some((self.operator_of(i)?, self.shares[i].start)))
        };
        let fetched = faults::gather(&fetches, memory, threads, self.out.start, operator_at);
        let during = (self.out.start, self.out.end);
        let reclaims = reclaim::gather(&fetches, threads, during, |thread, time| Some(operator_at(thread, time)?.0));
        (self.out.fetched, self.out.reclaims) = (fetched, reclaims);
        self.out.knows_reclaims = decoder.has(Role::Reclaim);
        self.take_counts(&operators, decoder.counters().len());
        self.give_lanes(operators, threads);
        self.take_experts(experts, catalogue, threads, decoder);
        let dispatches = DispatchContext { catalogue, threads, decoder, costs: rules.costs() };
        offload::fill(&mut self.out, offloads, &self.index, dispatches, tick);
        offload::mark_operators(&mut self.out);
        self.take_costs(rules, catalogue, threads);
        device_shares::estimate(&mut self.out);
        self.take_states(caller, StateSources { threads, process, scheduler });
    }

    /// Sets the missing records; needs the lanes.
    fn take_gaps(&mut self, process: &Process, threads: &Threads) {
        self.out.missing.clear();
        for gap in process.gaps(self.out.start, self.out.end) {
            let tid = gap.thread.map_or(0, |thread| threads.get(thread).tid);
            let records = u64::from(gap.records);
            match self.out.missing.iter_mut().find(|missing| missing.tid == tid) {
                Some(missing) => missing.records = missing.records.saturating_add(records),
                None => {
                    let lane = self.out.lanes.iter().find(|span| span.tid == tid && tid != 0).map(|span| span.lane);
                    self.out.missing.push(Missing { tid, lane, records });
                }
            }
        }
        self.out.complete = self.out.missing.is_empty();
    }

    fn take_graphs(&mut self, mut raw: Vec<RawGraph>, threads: &Threads) {
        raw.sort_by_key(|g| (g.start, std::cmp::Reverse(g.end)));
        self.out.graphs.clear();
        self.out.graphs.extend(raw.into_iter().map(|g| Graph {
            tid: threads.get(g.thread).tid,
            start: g.start,
            end: g.end,
            backend: g.backend,
            parent: None,
            tokens: g.tokens,
            record: g.record,
        }));
        self.index.build(&mut self.out.graphs);
        let mut until = self.out.start;
        self.out.in_graphs = 0;
        for graph in &self.out.graphs {
            let end = graph.end.min(self.out.end);
            self.out.in_graphs = self.out.in_graphs.saturating_add(end.saturating_sub(graph.start.max(until)));
            until = until.max(end);
        }
    }

    /// Finds each operator's graph, clips it, and takes what it calls out of it. Operators are sorted by thread.
    fn place(&mut self, operators: &[RawOperator], step_thread: Option<u32>, threads: &mut Threads) {
        self.shares.clear();
        self.graph_of.clear();
        let mut from = 0;
        for (i, raw) in operators.iter().enumerate() {
            let tid = threads.get(raw.thread).tid;
            let found = self.index.find(&self.out.graphs, raw.start, tid);
            let mut share = Share { start: raw.start, end: raw.end, waiting: raw.waiting, nested: 0, within: None };
            match found {
                Some(found) => {
                    self.out.ambiguous += u64::from(found.ambiguous);
                    share.clip(self.out.graphs[found.graph as usize].end);
                    if !found.ambiguous && Some(raw.thread) != step_thread {
                        learn_home(&mut threads.get_mut(raw.thread).home, step_thread);
                    }
                }
                None => share.clip(self.out.end),
            }
            self.shares.push(share);
            self.graph_of.push(found.map_or(NONE, |f| f.graph));
            if operators.get(i + 1).is_none_or(|next| next.thread != raw.thread) {
                nest(&mut self.shares[from..], &mut self.stack);
                let placed = self.shares[from..].iter_mut().filter_map(|share| share.within.as_mut());
                placed.for_each(|within| *within += from);
                from = i + 1;
            }
        }
    }

    /// Lanes of threads without a field `lane`: the step's thread first, then by number.
    fn number_lanes(&mut self, operators: &[RawOperator], step_thread: Option<u32>, threads: &Threads) {
        self.threads.clear();
        for raw in operators {
            if self.threads.last().is_none_or(|(thread, _)| *thread != raw.thread) {
                self.threads.push((raw.thread, 0));
            }
        }
        let mut order: Vec<u32> = self.threads.iter().map(|(thread, _)| *thread).collect();
        order.sort_by_key(|thread| (Some(*thread) != step_thread, threads.get(*thread).tid));
        for (lane, thread) in (0_u32..).zip(order) {
            if let Ok(at) = self.threads.binary_search_by_key(&thread, |(t, _)| *t) {
                self.threads[at].1 = lane;
            }
        }
    }

    fn lane_of(&self, raw: &RawOperator) -> u32 {
        let by_thread = || self.threads.binary_search_by_key(&raw.thread, |(t, _)| *t).ok();
        raw.lane.unwrap_or_else(|| by_thread().map_or(0, |at| self.threads[at].1))
    }

    /// Puts the shares of one operator together.
    fn join(&mut self, operators: &[RawOperator]) {
        self.instances.clear();
        self.instance_of.clear();
        self.chains.clear();
        for (i, raw) in operators.iter().enumerate() {
            if raw.is_share {
                self.instance_of.push(NONE);
                continue;
            }
            let graph = self.graph_of[i];
            let key = match raw.object {
                Some(object) => InstanceKey { graph, object: object.0, inline: 0, record_type: 0 },
                None => InstanceKey { graph, object: NONE, inline: raw.inline, record_type: raw.record_type },
            };
            let instance = self.instance(key, raw);
            let joined = &mut self.instances[instance as usize];
            joined.covers = joined.covers.or(raw.covers);
            self.instance_of.push(instance);
        }
        for (i, operator) in self.given_by.iter().enumerate() {
            if let Some(instance) = self.instance_of.get(*operator as usize).copied() {
                self.instance_of[i] = instance;
            }
        }
        // One that gives others shares waits for them within, and goes on.
        let gives: FxHashSet<u32> = self.given_by.iter().copied().collect();
        for (i, (instance, share)) in (0_u32..).zip(self.instance_of.iter().zip(&self.shares)) {
            let Some(joined) = self.instances.get_mut(*instance as usize) else { continue };
            let waiting = if gives.contains(&i) { 0 } else { share.waiting };
            joined.start = joined.start.min(share.start);
            joined.end = joined.end.max(share.end.saturating_sub(waiting));
            joined.shares += 1;
        }
        self.order.clear();
        self.order.extend(0..u32::try_from(self.instances.len()).unwrap_or(NONE));
        let instances = &self.instances;
        self.order.sort_by_key(|i| (instances[*i as usize].start, *i));
    }

    fn instance(&mut self, key: InstanceKey, raw: &RawOperator) -> u32 {
        let new = u32::try_from(self.instances.len()).unwrap_or(NONE);
        let fresh = Chain { first: new, current: new, thread: raw.thread };
        let chain = self.chains.entry(key).or_insert(fresh);
        let found = if chain.first == new {
            new
        } else if chain.thread != raw.thread {
            chain.thread = raw.thread;
            chain.first
        } else {
            let current = &mut self.instances[chain.current as usize];
            if current.next == NONE {
                current.next = new;
            }
            current.next
        };
        chain.current = found;
        if found == new {
            let (object, covers, inline, record_type) = (raw.object, raw.covers, raw.inline, raw.record_type);
            let (start, end, shares, next) = (u64::MAX, 0, 0, NONE);
            self.instances.push(Instance { key, object, covers, inline, record_type, start, end, shares, next });
        }
        found
    }

    fn give_operators(&mut self, catalogue: &mut Catalogue, threads: &Threads, decoder: &Decoder) {
        let parent = |process: u32| threads.parent(process);
        let version = catalogue.descriptions_version();
        self.out.operators.clear();
        self.rank.clear();
        self.rank.resize(self.instances.len(), 0);
        let mut lanes = 0;
        for (rank, i) in (0_u32..).zip(&self.order) {
            let instance = &self.instances[*i as usize];
            self.rank[*i as usize] = rank;
            let Instance { object, covers, inline, record_type, end, .. } = *instance;
            let kind = self.kinds.kind(object, Origin { inline, covers, record_type }, end, version, || {
                let described = |o: Option<ObjectId>| o.map_or(0, |o| catalogue.described(o, end, &parent));
                let (object, covers) = (described(object), described(covers));
                catalogue.combine(object, inline, covers, record_type, decoder.name(record_type))
            });
            let range = lanes..lanes + instance.shares;
            lanes = range.end;
            self.out.operators.push(Operator {
                kind,
                object,
                graph: (instance.key.graph != NONE).then_some(instance.key.graph),
                start: instance.start,
                end: instance.end.max(instance.start),
                work: 0,
                waiting: 0,
                undivided: 0,
                lanes: range,
                cost: Cost::default(),
                gives_work: false,
                operands: None,
            });
        }
    }

    /// The index of the operator that a span is a share of.
    fn operator_of(&self, span: usize) -> Option<u32> {
        self.instance_of.get(span).and_then(|i| self.rank.get(*i as usize)).copied()
    }

    /// Takes the counts of each share, in the order of the spans: without those of the operators that it calls, which
    /// come after it, and with doubt where the span goes on after the operator.
    fn take_counts(&mut self, operators: &[RawOperator], columns: usize) {
        self.out.counter_columns = columns;
        self.out.counts.clear();
        if columns == 0 {
            return;
        }
        self.out.counts.resize(operators.len().saturating_mul(columns), Count::Absent);
        for (i, raw) in operators.iter().enumerate() {
            let share = self.shares[i];
            for column in 0..columns {
                let count = raw.counts.as_ref().and_then(|counts| counts.get(column)).copied().unwrap_or_default();
                let part = share.end.saturating_sub(share.start);
                let clipped = count.clipped(part, raw.end.saturating_sub(raw.start));
                self.out.counts[i * columns + column] = clipped;
                if let Some(around) = share.within.and_then(|w| self.out.counts.get_mut(w * columns + column)) {
                    *around = around.minus(count);
                }
            }
        }
    }

    /// Works out what each operator costs, without what it calls.
    fn take_costs(&mut self, rules: &Rules, catalogue: &Catalogue, threads: &Threads) {
        if rules.costs().has_no_rules() {
            return;
        }
        let parent = |process: u32| threads.parent(process);
        let used = experts_used(&self.out.experts);
        let version = catalogue.descriptions_version();
        for (index, operator) in (0_u32..).zip(&mut self.out.operators) {
            let experts = used.binary_search_by_key(&index, |(operator, _)| *operator).ok().map(|at| used[at].1);
            let (kind, object, end) = (operator.kind, operator.object, operator.end);
            let mut cost = || {
                self.inputs.clear();
                if let Some(object) = object {
                    catalogue.describe_inputs(object, end, &parent, &mut self.inputs);
                }
                self.costs.of(kind, &self.inputs, experts, rules.costs(), catalogue)
            };
            operator.cost = match experts {
                None => self.kinds.cost(object, kind, end, version, cost),
                Some(_) => cost(),
            };
        }
        let mut operators = std::mem::take(&mut self.out.operators);
        let within = self.shares.iter().enumerate().filter_map(|(span, share)| Some((span, share.within?)));
        let calls = within.filter_map(|(inner, outer)| Some((self.operator_of(inner)?, self.operator_of(outer)?)));
        nested_costs::take_out(&mut operators, calls);
        self.out.operators = operators;
        for dispatch in self.out.dispatches.iter_mut().filter(|dispatch| !dispatch.is_empty) {
            let (last, end) = ((dispatch.kind, dispatch.object), dispatch.end);
            let all = dispatch.fused.iter().map(|part| (part.kind, Some(part.object))).chain([last]);
            let mut sum: Option<Cost> = None;
            for (kind, object) in all {
                self.inputs.clear();
                if let Some(object) = object {
                    catalogue.describe_inputs(object, end, &parent, &mut self.inputs);
                }
                let cost = self.costs.of(kind, &self.inputs, None, rules.costs(), catalogue);
                sum = Some(sum.map_or(cost, |sum| sum.with(&cost)));
            }
            dispatch.cost = sum.unwrap_or_default();
        }
    }

    /// Spreads the shares over their operators' ranges.
    fn give_lanes(&mut self, operators: Vec<RawOperator>, threads: &Threads) {
        let mut next: Vec<u32> = self.out.operators.iter().map(|o| o.lanes.start).collect();
        let mut lanes = std::mem::take(&mut self.out.lanes);
        let mut numbers = std::mem::take(&mut self.out.lane_numbers);
        lanes.clear();
        lanes.resize(operators.len(), LaneSpan::default());
        numbers.clear();
        for (i, raw) in operators.into_iter().enumerate() {
            let Some(operator) = self.operator_of(i) else { continue };
            let (lane, tid) = (self.lane_of(&raw), threads.get(raw.thread).tid);
            let Share { start, end, waiting, nested, .. } = self.shares[i];
            let counts = u32::try_from(i).unwrap_or(NONE);
            let undivided = raw.undivided;
            let span = LaneSpan { lane, tid, start, end, waiting, undivided, nested, counts, record: raw.record };
            let joined = &mut self.out.operators[operator as usize];
            joined.work = joined.work.saturating_add(span.work());
            joined.waiting = joined.waiting.saturating_add(span.waiting);
            joined.operands = joined.operands.take().or(raw.operands);
            lanes[next[operator as usize] as usize] = span;
            next[operator as usize] += 1;
            if numbers.last() != Some(&lane) {
                numbers.push(lane);
            }
        }
        for operator in &self.out.operators {
            let range = operator.lanes.start as usize..operator.lanes.end as usize;
            if let Some(shares @ [_, _, ..]) = lanes.get_mut(range) {
                shares.sort_by_key(|s| (s.lane, s.start));
            }
        }
        numbers.sort_unstable();
        numbers.dedup();
        // A lane alone waits for nobody.
        if numbers.len() > 1 {
            for operator in &mut self.out.operators {
                let shares = lanes.get(operator.lanes.start as usize..operator.lanes.end as usize).unwrap_or(&[]);
                let undivided = shares.iter().filter(|share| share.undivided);
                operator.undivided = undivided.map(LaneSpan::work).fold(0, u64::saturating_add);
            }
        } else {
            lanes.iter_mut().for_each(|share| share.undivided = false);
        }
        (self.out.lanes, self.out.lane_numbers) = (lanes, numbers);
    }

    fn take_regions(&mut self, mut regions: Vec<RawRegion>, operators: &[RawOperator], threads: &Threads) {
        regions.sort_by_key(|r| (r.thread, r.start, std::cmp::Reverse(r.end)));
        let mut out = std::mem::take(&mut self.out.regions);
        out.clear();
        let mut cursor = 0;
        for raw in regions {
            let key = (raw.thread, raw.start);
            while operators.get(cursor).is_some_and(|o| (o.thread, o.start) <= key) {
                cursor += 1;
            }
            let around = (cursor.saturating_sub(MAX_DEPTH)..cursor).rev().find(|i| {
                operators[*i].thread == raw.thread
                    && self.shares[*i].start <= raw.start
                    && raw.end <= self.shares[*i].end
            });
            let operator = around.and_then(|i| self.operator_of(i));
            let RawRegion { start, end, thread, record_type, record, .. } = raw;
            out.push(Region { record_type, tid: threads.get(thread).tid, start, end, operator, record });
        }
        self.out.regions = out;
    }

    fn take_experts(
        &mut self,
        experts: Vec<RawExperts>,
        catalogue: &mut Catalogue,
        threads: &Threads,
        decoder: &Decoder,
    ) {
        let parent = |process: u32| threads.parent(process);
        self.out.experts.clear();
        for raw in experts {
            let found = self.index.find(&self.out.graphs, raw.start, threads.get(raw.thread).tid);
            let operator = raw.object.and_then(|o| self.find_operator(found.map_or(NONE, |f| f.graph), o, raw.start));
            let kind = match operator {
                Some(operator) => self.out.operators[operator as usize].kind,
                None => {
                    let object = raw.object.map_or(0, |o| catalogue.described(o, raw.end, &parent));
                    catalogue.combine(object, raw.inline, 0, raw.record_type, decoder.name(raw.record_type))
                }
            };
            self.out.experts.push(Experts { kind, operator, per_token: raw.per_token, ids: raw.ids });
        }
    }

    /// The operator that computes a node in a graph: the last one that began by a time.
    fn find_operator(&self, graph: u32, object: ObjectId, time: u64) -> Option<u32> {
        let chain = self.chains.get(&InstanceKey { graph, object: object.0, inline: 0, record_type: 0 })?;
        let mut found = chain.first;
        let mut at = found;
        while let Some(instance) = self.instances.get(at as usize) {
            if instance.start <= time {
                found = at;
            }
            at = instance.next;
        }
        self.rank.get(found as usize).copied()
    }

    /// What its threads did.
    fn take_states(&mut self, caller: Option<Caller>, sources: StateSources<'_>) {
        let mut taking_part: Vec<u32> = self.threads.iter().map(|(thread, _)| *thread).collect();
        taking_part.extend(caller.map(|of| of.thread));
        if caller.is_none() {
            // Time between operators outside steps belongs to nothing.
            taking_part.clear();
        }
        lane_time::fill(&mut self.out, &taking_part, caller, sources);
    }
}
