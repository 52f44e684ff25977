//! Events as they were recorded, each of a role, in the order of their arrival.

use super::faults::RawFetch;
use super::offload_raw::RawOffload;
use crate::ids::{InlineId, ObjectId, TextId};
use crate::raw::{Count, Operands};
use profinfer_schema::FieldMeaning;

/// One thread's span of an operator.
#[derive(Debug)]
pub(crate) struct RawOperator {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) waiting: u64,
    /// Its waiting was not recorded, though its type has it.
    pub(crate) undivided: bool,
    pub(crate) thread: u32,
    pub(crate) lane: Option<u32>,
    pub(crate) object: Option<ObjectId>,
    pub(crate) covers: Option<ObjectId>,
    pub(crate) inline: InlineId,
    pub(crate) record_type: u16,
    /// It is a part of an operator of another thread, of which nothing else was recorded.
    pub(crate) is_share: bool,
    pub(crate) site: u16,
    pub(crate) record: Option<Box<[u8]>>,
    pub(crate) counts: Option<Box<[Count]>>,
    pub(crate) operands: Option<Box<Operands>>,
}

/// One graph.
#[derive(Debug)]
pub(crate) struct RawGraph {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) thread: u32,
    pub(crate) backend: TextId,
    pub(crate) tokens: Option<u64>,
    pub(crate) record: Box<[u8]>,
}

/// One region.
#[derive(Debug)]
pub(crate) struct RawRegion {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) thread: u32,
    pub(crate) record_type: u16,
    pub(crate) tokens: Option<u64>,
    pub(crate) record: Option<Box<[u8]>>,
}

/// Experts of one operator.
#[derive(Debug)]
pub(crate) struct RawExperts {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) thread: u32,
    pub(crate) object: Option<ObjectId>,
    pub(crate) inline: InlineId,
    pub(crate) record_type: u16,
    pub(crate) per_token: Option<u32>,
    pub(crate) ids: Vec<u32>,
}

/// A list of values, one for each token of a batch.
#[derive(Debug)]
pub(crate) struct RawBatch {
    pub(crate) start: u64,
    pub(crate) thread: u32,
    pub(crate) meaning: FieldMeaning,
    pub(crate) values: Vec<i64>,
}

/// Events in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    pub(crate) operators: Vec<RawOperator>,
    pub(crate) graphs: Vec<RawGraph>,
    pub(crate) regions: Vec<RawRegion>,
    pub(crate) experts: Vec<RawExperts>,
    pub(crate) fetches: Vec<RawFetch>,
    pub(crate) batches: Vec<RawBatch>,
    pub(crate) offloads: Vec<RawOffload>,
}

impl Bucket {
    pub(crate) fn len(&self) -> usize {
        self.operators.len()
            + self.graphs.len()
            + self.regions.len()
            + self.experts.len()
            + self.fetches.len()
            + self.batches.len()
            + self.offloads.len()
    }

    /// Moves the events for which `wanted(start, thread)` holds from another bucket into this one.
    pub(crate) fn take(&mut self, from: &mut Self, wanted: impl Fn(u64, u32) -> bool) {
        move_if(&mut self.operators, &mut from.operators, |e| wanted(e.start, e.thread));
        move_if(&mut self.graphs, &mut from.graphs, |e| wanted(e.start, e.thread));
        move_if(&mut self.regions, &mut from.regions, |e| wanted(e.start, e.thread));
        move_if(&mut self.experts, &mut from.experts, |e| wanted(e.start, e.thread));
        move_if(&mut self.fetches, &mut from.fetches, |e| wanted(e.start, e.thread));
        move_if(&mut self.batches, &mut from.batches, |e| wanted(e.start, e.thread));
        move_if(&mut self.offloads, &mut from.offloads, |e| wanted(e.start, e.thread));
    }

    /// A time such that events that start before it can be given out: the start of a late graph, so that operators
    /// stay with theirs; where there are few graphs, of a late operator or region.
    pub(crate) fn horizon(&self) -> u64 {
        let three_quarters = |n: usize| n - n / 4;
        if let Some(graph) = self.graphs.get(three_quarters(self.graphs.len())) {
            return graph.start;
        }
        let mut starts: Vec<u64> = self.operators.iter().map(|e| e.start).collect();
        starts.extend(self.regions.iter().map(|e| e.start));
        starts.extend(self.experts.iter().map(|e| e.start));
        starts.extend(self.fetches.iter().map(|e| e.start));
        starts.extend(self.batches.iter().map(|e| e.start));
        starts.extend(self.offloads.iter().map(|e| e.start));
        let middle = starts.len() / 2;
        if starts.is_empty() { u64::MAX } else { *starts.select_nth_unstable(middle).1 }
    }

    /// Moves the events that start at a time or later into a new bucket. Events must be in order, by [`Self::sort`].
    pub(super) fn split_off(&mut self, time: u64) -> Self {
        fn later<T>(events: &mut Vec<T>, time: u64, start: impl Fn(&T) -> u64) -> Vec<T> {
            let at = events.partition_point(|event| start(event) < time);
            events.split_off(at)
        }
        Self {
            operators: later(&mut self.operators, time, |e| e.start),
            graphs: later(&mut self.graphs, time, |e| e.start),
            regions: later(&mut self.regions, time, |e| e.start),
            experts: later(&mut self.experts, time, |e| e.start),
            fetches: later(&mut self.fetches, time, |e| e.start),
            batches: later(&mut self.batches, time, |e| e.start),
            offloads: later(&mut self.offloads, time, |e| e.start),
        }
    }

    /// Adds another bucket's events.
    pub(super) fn append(&mut self, mut from: Self) {
        self.take(&mut from, |_, _| true);
    }

    /// Orders the events by their start.
    pub(super) fn sort(&mut self) {
        self.operators.sort_by_key(|e| e.start);
        self.graphs.sort_by_key(|e| e.start);
        self.regions.sort_by_key(|e| e.start);
        self.experts.sort_by_key(|e| e.start);
        self.fetches.sort_by_key(|e| e.start);
        self.batches.sort_by_key(|e| e.start);
        self.offloads.sort_by_key(|e| e.start);
    }

    /// The threads of its events.
    pub(super) fn threads(&self) -> impl Iterator<Item = u32> {
        let operators = self.operators.iter().map(|e| e.thread);
        let graphs = self.graphs.iter().map(|e| e.thread);
        let regions = self.regions.iter().map(|e| e.thread);
        let experts = self.experts.iter().map(|e| e.thread);
        let marks = self.fetches.iter().map(|e| e.thread).chain(self.batches.iter().map(|e| e.thread));
        let offloads = self.offloads.iter().map(|e| e.thread);
        operators.chain(graphs).chain(regions).chain(experts).chain(marks).chain(offloads)
    }

    /// From the first start to the last end.
    pub(crate) fn extent(&self) -> Option<(u64, u64)> {
        let operators = self.operators.iter().map(|e| (e.start, e.end));
        let graphs = self.graphs.iter().map(|e| (e.start, e.end));
        let regions = self.regions.iter().map(|e| (e.start, e.end));
        let experts = self.experts.iter().map(|e| (e.start, e.end));
        let fetches = self.fetches.iter().map(|e| (e.start, e.start));
        let batches = self.batches.iter().map(|e| (e.start, e.start));
        let offloads = self.offloads.iter().map(|e| (e.start, e.end));
        let all = operators.chain(graphs).chain(regions).chain(experts).chain(fetches).chain(batches).chain(offloads);
        all.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }
}

/// Most events are wanted, and mostly all of them: then nothing is moved one by one.
fn move_if<T>(to: &mut Vec<T>, from: &mut Vec<T>, wanted: impl Fn(&T) -> bool) {
    if from.iter().all(&wanted) {
        if to.is_empty() {
            std::mem::swap(to, from);
            // The next step is mostly as large.
            from.reserve(to.len());
        } else {
            to.append(from);
        }
    } else {
        to.extend(from.extract_if(.., |e| wanted(e)));
    }
}
