//! Makes one step of the events that were held back for it: graphs are ordered, each thread's operators are placed in
//! them, and the shares of one operator on several lanes are put together.

use super::catalogue::{Catalogue, InlineId, ObjectId};
use super::costs::{Cost, KnownCosts};
use super::counters::Count;
use super::faults;
use super::fields::Decoder;
use super::hash::FastMap;
use super::known_operators::{KnownOperators, Origin};
use super::lane_time::{self, Known};
use super::memory::Memory;
use super::nesting::{GraphIndex, Share, nest};
use super::rules::{Rules, StepFields};
use super::sampled::Recorded;
use super::states::Scheduler;
use super::step::{Experts, Graph, LaneSpan, Missing, Operator, Phase, Region, Step};
use super::threads::Threads;
use super::timeline::Findings;
use super::window::{Bucket, ClosedStep, Process, RawExperts, RawGraph, RawOperator, RawRegion};

/// No graph.
const NONE: u32 = u32::MAX;
/// Operators within operators that are looked through for a region.
const MAX_DEPTH: usize = 16;
/// Graphs of a step that are looked through for an operator of another.
const MAX_OPEN_GRAPHS: usize = 64;

/// What is read while a step is made.
type Context<'a> = (&'a Decoder, &'a Rules, &'a Process, &'a Memory, &'a Scheduler);

/// Which operator of a step a span is a share of: its graph, and its node or (without one) its description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct InstanceKey {
    graph: u32,
    object: u32,
    inline: InlineId,
    record: u16,
}

/// An operator while its shares are put together. The n-th time on one thread and the n-th time on another are the
/// same one.
#[derive(Debug)]
struct Instance {
    key: InstanceKey,
    object: Option<ObjectId>,
    covers: Option<ObjectId>,
    inline: InlineId,
    record: u16,
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

/// Makes steps. It keeps its memory from one to the next.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    out: Step,
    index: GraphIndex,
    shares: Vec<Share>,
    graph_of: Vec<u32>,
    instance_of: Vec<u32>,
    instances: Vec<Instance>,
    chains: FastMap<InstanceKey, Chain>,
    order: Vec<u32>,
    rank: Vec<u32>,
    stack: Vec<usize>,
    threads: Vec<(u32, u32)>,
    costs: KnownCosts,
    known: KnownOperators,
    inputs: Vec<InlineId>,
}

impl Assembler {
    /// Makes a numbered step.
    pub(super) fn step(
        &mut self,
        step: ClosedStep,
        (recorded, window, stretch): (Recorded, Option<u32>, u32),
        threads: &mut Threads,
        catalogue: &mut Catalogue,
        context: Context<'_>,
    ) -> &Step {
        let (decoder, rules, process, ..) = context;
        let known = threads.get(step.thread);
        let (start, end) = (step.header.start, step.header.end);
        self.out.number = step.number;
        self.out.pid = threads.pid(known.process);
        self.out.tid = known.tid;
        (self.out.start, self.out.end) = (start, end);
        (self.out.recorded, self.out.window, self.out.stretch) = (recorded, window, stretch);
        self.out.tokens = tokens(&step, decoder);
        let field = |name: &str| decoder.field(&step.header, &step.bytes, name).or_else(|| decoder.constant(name));
        let fields = StepFields { tokens: self.out.tokens, field: &field };
        let prefill = rules.prefill(&fields, self.out.tokens);
        self.out.phase = Some(if prefill { Phase::Prefill } else { Phase::Decode });
        self.out.own_counts = decoder.counts(&step.header, &step.bytes).unwrap_or_default();
        self.fill(step.bucket, Some(step.thread), threads, catalogue, context);
        self.take_gaps(process, threads);
        self.out.record = step.bytes;
        &self.out
    }

    /// Makes a unit of what no step contains.
    pub(super) fn loose(
        &mut self,
        bucket: Bucket,
        (start, end): (u64, u64),
        threads: &mut Threads,
        catalogue: &mut Catalogue,
        context: Context<'_>,
    ) -> &Step {
        self.out.number = 0;
        (self.out.pid, self.out.tid) = (0, 0);
        (self.out.start, self.out.end) = (start, end);
        (self.out.recorded, self.out.window, self.out.stretch) = (Recorded::Whole, None, 0);
        self.out.tokens = None;
        self.out.phase = Some(Phase::Outside);
        self.out.record = Box::default();
        self.out.own_counts = Box::default();
        self.fill(bucket, None, threads, catalogue, context);
        self.take_gaps(context.2, threads);
        &self.out
    }

    fn fill(
        &mut self,
        bucket: Bucket,
        step_thread: Option<u32>,
        threads: &mut Threads,
        catalogue: &mut Catalogue,
        (decoder, rules, process, memory, scheduler): Context<'_>,
    ) {
        let Bucket { mut operators, graphs, regions, experts, fetches } = bucket;
        self.out.ambiguous = 0;
        self.out.records.clear();
        let types = operators.iter().map(|o| o.record).chain(regions.iter().map(|r| r.probe));
        for record in types.chain(experts.iter().map(|e| e.record)) {
            match self.out.records.iter_mut().find(|(known, _)| *known == record) {
                Some((_, count)) => *count += 1,
                None => self.out.records.push((record, 1)),
            }
        }
        self.take_graphs(graphs, threads);
        // Threads take turns in the trace, and each one's operators come in order: so nothing is left to do after the first.
        operators.sort_by_key(|o| o.thread);
        for own in operators.chunk_by_mut(|a, b| a.thread == b.thread) {
            own.sort_by_key(|o| (o.start, std::cmp::Reverse(o.end)));
        }
        self.place(&operators, step_thread, threads);
        self.number_lanes(&operators, step_thread, threads);
        self.join(&operators);
        self.give_operators(catalogue, threads, decoder);
        self.take_regions(regions, &operators, threads);
        self.out.fetched = faults::gather(&fetches, memory, (threads, self.out.start), |thread, time| {
            let before = operators.partition_point(|o| (o.thread, o.start) <= (thread, time));
            let around = (before.saturating_sub(MAX_DEPTH)..before).rev().find(|i| {
                operators[*i].thread == thread && self.shares[*i].start <= time && time <= self.shares[*i].end
            });
            around.and_then(|i| Some((self.operator_of(i)?, self.shares[i].start)))
        });
        self.take_counts(&operators, decoder.counters().len());
        self.give_lanes(operators, threads);
        self.take_experts(experts, catalogue, threads, decoder);
        self.take_costs(rules, catalogue, threads);
        self.take_states(step_thread, Known { threads, process, scheduler });
    }

    /// Finds out what is missing, once the lanes are known.
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
            record: g.bytes,
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

    /// Threads in the order of their lanes where no field says it: the step's own first, then by number.
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
            let graph = self.graph_of[i];
            let key = match raw.object {
                Some(object) => InstanceKey { graph, object: object.0, inline: 0, record: 0 },
                None => InstanceKey { graph, object: NONE, inline: raw.inline, record: raw.record },
            };
            let share = self.shares[i];
            let worked_until = share.end.saturating_sub(share.waiting);
            let instance = self.instance(key, raw);
            let joined = &mut self.instances[instance as usize];
            joined.start = joined.start.min(share.start);
            joined.end = joined.end.max(worked_until);
            joined.shares += 1;
            joined.covers = joined.covers.or(raw.covers);
            self.instance_of.push(instance);
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
            let (object, covers, inline, record) = (raw.object, raw.covers, raw.inline, raw.record);
            let (start, end, shares, next) = (u64::MAX, 0, 0, NONE);
            self.instances.push(Instance { key, object, covers, inline, record, start, end, shares, next });
        }
        found
    }

    fn give_operators(&mut self, catalogue: &mut Catalogue, threads: &Threads, decoder: &Decoder) {
        let parent = |process: u32| threads.parent(process);
        let as_described = catalogue.as_described();
        self.out.operators.clear();
        self.rank.clear();
        self.rank.resize(self.instances.len(), 0);
        let mut lanes = 0;
        for (rank, i) in (0_u32..).zip(&self.order) {
            let instance = &self.instances[*i as usize];
            self.rank[*i as usize] = rank;
            let Instance { object, covers, inline, record, end, .. } = *instance;
            let kind = self.known.kind(object, (Origin { inline, covers, record }, end), as_described, || {
                let described = |o: Option<ObjectId>| o.map_or(0, |o| catalogue.described(o, end, &parent));
                let (object, covers) = (described(object), described(covers));
                catalogue.combine(object, inline, covers, (record, decoder.name(record)))
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
                lanes: range,
                cost: Cost::default(),
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
                let kept = share.end.saturating_sub(share.start);
                let own = count.clipped(kept, raw.end.saturating_sub(raw.start));
                self.out.counts[i * columns + column] = own;
                if let Some(around) = share.within.and_then(|w| self.out.counts.get_mut(w * columns + column)) {
                    *around = around.minus(count);
                }
            }
        }
    }

    /// Works out what each operator costs.
    fn take_costs(&mut self, rules: &Rules, catalogue: &Catalogue, threads: &Threads) {
        if rules.costs().say_nothing() {
            return;
        }
        let parent = |process: u32| threads.parent(process);
        let used = experts_used(&self.out.experts);
        let as_described = catalogue.as_described();
        for (index, operator) in (0_u32..).zip(&mut self.out.operators) {
            let experts = used.binary_search_by_key(&index, |(operator, _)| *operator).ok().map(|at| used[at].1);
            let (kind, object, end) = (operator.kind, operator.object, operator.end);
            let mut cost = || {
                self.inputs.clear();
                if let Some(object) = object {
                    catalogue.describe_inputs(object, end, &parent, &mut self.inputs);
                }
                self.costs.of(kind, &self.inputs, experts, (rules.costs(), catalogue))
            };
            operator.cost = match experts {
                None => self.known.cost(object, (kind, end), as_described, cost),
                Some(_) => cost(),
            };
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
            let span = LaneSpan { lane, tid, start, end, waiting, nested, counts, record: raw.bytes };
            let joined = &mut self.out.operators[operator as usize];
            joined.work = joined.work.saturating_add(span.work());
            joined.waiting = joined.waiting.saturating_add(span.waiting);
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
            let RawRegion { start, end, thread, probe, bytes: record, .. } = raw;
            out.push(Region { probe, tid: threads.get(thread).tid, start, end, operator, record });
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
                    catalogue.combine(object, raw.inline, 0, (raw.record, decoder.name(raw.record)))
                }
            };
            self.out.experts.push(Experts { kind, operator, per_token: raw.per_token, ids: raw.ids });
        }
    }

    /// The operator that computes a node in a graph: the last one that began by a time.
    fn find_operator(&self, graph: u32, object: ObjectId, time: u64) -> Option<u32> {
        let chain = self.chains.get(&InstanceKey { graph, object: object.0, inline: 0, record: 0 })?;
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
    fn take_states(&mut self, step_thread: Option<u32>, known: Known<'_>) {
        let mut taking_part: Vec<u32> = self.threads.iter().map(|(thread, _)| *thread).collect();
        taking_part.extend(step_thread);
        if step_thread.is_none() {
            // Between the operators that no step contains, nothing is known to have been going on.
            taking_part.clear();
        }
        lane_time::fill(&mut self.out, &taking_part, known);
    }

    /// Operators on threads that run no steps were given to the first step around them. Where another step was going
    /// on then, their graph says whose they are: they are moved, or counted as ambiguous.
    pub(super) fn rehome(
        &mut self,
        step: &mut ClosedStep,
        process: &mut Process,
        threads: &Threads,
        findings: &mut Findings,
    ) {
        let (recent, waiting, header) = (&mut process.recent, &mut process.waiting, step.header);
        for other in recent.iter_mut().chain(waiting).filter(|other| other.overlaps(&header)) {
            let open = |graphs: &[RawGraph], time: u64| {
                graphs.iter().rev().take(MAX_OPEN_GRAPHS).find(|g| g.start <= time && time < g.end).map(|g| g.thread)
            };
            let (mine, theirs, own) = (&step.bucket.graphs, &other.bucket.graphs, step.thread);
            let moved = step.bucket.operators.extract_if(.., |o| {
                if o.thread == own {
                    return false;
                }
                match (open(mine, o.start), open(theirs, o.start)) {
                    (_, None) => false,
                    (None, Some(_)) => true,
                    (Some(mine), Some(theirs)) => {
                        let home = threads.get(o.thread).home;
                        findings.ambiguous += u64::from(home != Some(mine) && home != Some(theirs));
                        home == Some(theirs)
                    }
                }
            });
            other.bucket.operators.extend(moved);
        }
    }
}

/// How many distinct experts each operator used, by operator.
fn experts_used(experts: &[Experts]) -> Vec<(u32, u32)> {
    let ids = experts.iter().filter_map(|e| Some((e.operator?, &e.ids)));
    let mut pairs: Vec<(u32, u32)> =
        ids.flat_map(|(operator, ids)| ids.iter().map(move |id| (operator, *id))).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let mut used: Vec<(u32, u32)> = Vec::new();
    for (operator, _) in pairs {
        match used.last_mut() {
            Some((last, count)) if *last == operator => *count += 1,
            _ => used.push((operator, 1)),
        }
    }
    used
}

/// A worker that was seen in the graphs of one step thread only is at home there.
fn learn_home(home: &mut Option<u32>, step_thread: Option<u32>) {
    *home = match *home {
        None => step_thread,
        known if known == step_thread => known,
        Some(_) => Some(NONE),
    };
}

/// The tokens of a step: its own field, else the sum over the outermost graphs, regions and steps in it that say some.
fn tokens(step: &ClosedStep, decoder: &Decoder) -> Option<u64> {
    let fields = decoder.records.get(usize::from(step.header.record))?;
    if let Some(tokens) = fields.tokens.and_then(|at| at.read_count(&step.bytes, step.header.missing)) {
        return Some(tokens);
    }
    let graphs = step.bucket.graphs.iter().filter_map(|g| Some((g.thread, g.start, g.end, g.tokens?)));
    let regions = step.bucket.regions.iter().filter_map(|r| Some((r.thread, r.start, r.end, r.tokens?)));
    let inner = step.inner_tokens.iter().map(|(start, end, tokens)| (step.thread, *start, *end, *tokens));
    let mut said: Vec<(u32, u64, u64, u64)> = graphs.chain(regions).chain(inner).collect();
    said.sort_by_key(|(thread, start, end, _)| (*thread, *start, std::cmp::Reverse(*end)));
    let mut total: Option<u64> = None;
    let mut around: Option<(u32, u64)> = None;
    for (thread, _, end, tokens) in said {
        if around.is_some_and(|(t, until)| t == thread && end <= until) {
            continue;
        }
        around = Some((thread, end));
        total = Some(total.unwrap_or(0).saturating_add(tokens));
    }
    total
}
