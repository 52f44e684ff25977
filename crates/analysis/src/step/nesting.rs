//! Spans within spans: which graph an operator lies in, and how much of an operator's span another one on the same
//! thread takes.

use super::model::Graph;

/// Graphs that are searched for one that is open at a time.
const MAX_OPEN: usize = 64;

/// The graphs of one step, to find one by time.
#[derive(Debug, Default)]
pub(crate) struct GraphIndex {
    /// The latest end of this graph and all before it.
    latest_end: Vec<u64>,
    /// Each graph begins after the one before it ended.
    disjoint: bool,
}

/// Which graph an operator belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// Index of the graph.
    pub(crate) graph: u32,
    /// Several graphs of the process were open, none of them on the operator's thread.
    pub(crate) ambiguous: bool,
}

impl GraphIndex {
    /// Takes graphs sorted by start, longer ones first, and finds each one's parent.
    pub(crate) fn build(&mut self, graphs: &mut [Graph]) {
        self.latest_end.clear();
        self.disjoint = true;
        let mut latest = 0;
        for i in 0..graphs.len() {
            let (start, end) = (graphs[i].start, graphs[i].end);
            self.disjoint &= i == 0 || start >= latest;
            latest = latest.max(end);
            self.latest_end.push(latest);
            let parent = if self.disjoint { None } else { parent_of(graphs, &self.latest_end, i) };
            graphs[i].parent = parent;
        }
    }

    /// The innermost graph that is open at a time: of the thread, else of any.
    pub(crate) fn find(&self, graphs: &[Graph], time: u64, tid: u32) -> Option<Found> {
        let mut any: Option<Found> = None;
        for i in open_at(graphs, &self.latest_end, (time, MAX_OPEN), |graph| (graph.start, graph.end)) {
            let graph = u32::try_from(i).unwrap_or(u32::MAX);
            if graphs[i].tid == tid {
                return Some(Found { graph, ambiguous: false });
            }
            match &mut any {
                None => any = Some(Found { graph, ambiguous: false }),
                Some(found) => found.ambiguous |= !is_within(graphs, found.graph, graph),
            }
        }
        any
    }
}

/// Indices of the spans that are open at a time, the last to begin first; of so many before it at most. `spans` are by start,
/// and `latest_end` has the latest end of each and all before it.
pub(super) fn open_at<'s, T>(
    spans: &'s [T],
    latest_end: &'s [u64],
    (time, most): (u64, usize),
    extent: impl Fn(&T) -> (u64, u64) + 's,
) -> impl Iterator<Item = usize> + 's {
    let before = spans.partition_point(|span| extent(span).0 <= time);
    let all = (before.saturating_sub(most)..before).rev().take_while(move |i| latest_end[*i] > time);
    all.filter(move |i| extent(&spans[*i]).1 > time)
}

fn parent_of(graphs: &[Graph], latest_end: &[u64], i: usize) -> Option<u32> {
    let child = &graphs[i];
    for p in (i.saturating_sub(MAX_OPEN)..i).rev() {
        if latest_end[p] < child.end {
            return None;
        }
        if graphs[p].end >= child.end && graphs[p].tid == child.tid {
            return u32::try_from(p).ok();
        }
    }
    None
}

/// Whether `inner` is the graph `outer` or lies in it by its parents.
fn is_within(graphs: &[Graph], inner: u32, outer: u32) -> bool {
    let mut at = Some(inner);
    for _ in 0..MAX_OPEN {
        match at {
            Some(graph) if graph == outer => return true,
            Some(graph) => at = graphs.get(graph as usize).and_then(|g| g.parent),
            None => return false,
        }
    }
    false
}

/// A span on one thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    /// ns.
    pub(crate) start: u64,
    /// ns.
    pub(crate) end: u64,
    /// ns of waiting at its end.
    pub(crate) waiting: u64,
    /// ns of spans within it.
    pub(crate) nested: u64,
    /// Index of the span that it lies in.
    pub(crate) within: Option<usize>,
}

impl Share {
    /// Ends the span at a time, which cuts off its waiting first.
    pub(crate) fn clip(&mut self, end: u64) {
        if end >= self.end {
            return;
        }
        let work_end = self.end.saturating_sub(self.waiting);
        self.end = end.max(self.start);
        self.waiting = self.end.saturating_sub(work_end.max(self.start));
    }
}

/// Takes spans of one thread by start, longer ones first: one that begins within another is nested in it, or, where it
/// ends later, ends it.
pub(crate) fn nest(shares: &mut [Share], stack: &mut Vec<usize>) {
    stack.clear();
    for i in 0..shares.len() {
        let Share { start, end, .. } = shares[i];
        while let Some(&top) = stack.last() {
            if shares[top].end <= start {
                stack.pop();
            } else if shares[top].end < end {
                shares[top].clip(start);
                stack.pop();
            } else {
                shares[top].nested = shares[top].nested.saturating_add(end.saturating_sub(start));
                shares[i].within = Some(top);
                break;
            }
        }
        if end > start {
            stack.push(i);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(start: u64, end: u64) -> Share {
        Share { start, end, waiting: 0, nested: 0, within: None }
    }

    #[test]
    fn nested_spans_count_once() {
        let mut shares = [share(0, 100), share(10, 50), share(20, 30), share(60, 80), share(100, 110)];
        nest(&mut shares, &mut Vec::new());
        assert_eq!(shares.map(|s| s.nested), [60, 10, 0, 0, 0]);
    }

    #[test]
    fn a_span_that_another_begins_in_and_outlives_ends_there() {
        let mut shares = [share(0, 100), share(60, 150), share(150, 160)];
        nest(&mut shares, &mut Vec::new());
        assert_eq!((shares[0].end, shares[0].nested), (60, 0));
    }

    #[test]
    fn clipping_cuts_the_waiting_off_first() {
        let at = |end: u64| {
            let mut share = Share { start: 10, end: 100, waiting: 40, nested: 0, within: None };
            share.clip(end);
            (share.end, share.waiting)
        };
        assert_eq!(at(200), (100, 40));
        assert_eq!(at(80), (80, 20));
        assert_eq!(at(60), (60, 0));
        assert_eq!(at(30), (30, 0));
        assert_eq!(at(5), (10, 0));
    }
}
