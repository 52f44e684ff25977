//! How many spans have ended, and how long any was open: several at the same time count once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Times between spans that are remembered: a span may have begun before so many others that ended.
const COUNTED_TIMES: usize = 1024;

/// Adds to a count. The consuming thread alone does: it need not prevent others from adding at the same time, which would
/// cost as much as the rest of the counting.
pub(super) fn add(count: &AtomicU64, more: u64) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

/// Spans of one kind, such as steps.
#[derive(Debug, Default)]
pub(super) struct SpanTimes {
    /// Those that ended; those within others are parts of them.
    count: AtomicU64,
    /// ns.
    ns: AtomicU64,
    /// Where the last of them began and ended, ns.
    last: (AtomicU64, AtomicU64),
    /// Times that are counted already.
    times: Mutex<CountedTimes>,
}

impl SpanTimes {
    /// How many have ended; those within others are parts of them.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Their time, ns; what several took at once counts once.
    pub(super) fn ns(&self) -> u64 {
        self.ns.load(Ordering::Relaxed)
    }

    /// One ended. Those within it have been counted, and their time.
    pub(super) fn ended(&self, start: u64, end: u64) {
        let (last_start, last_end) = (&self.last.0, &self.last.1);
        let until = last_end.load(Ordering::Relaxed);
        let is_around = start <= last_start.load(Ordering::Relaxed) && until <= end && until > 0;
        if !is_around {
            add(&self.count, 1);
        }
        let new = self.times.lock().unwrap_or_else(PoisonError::into_inner).add(start, end);
        add(&self.ns, new);
        if end > until {
            last_start.store(start, Ordering::Relaxed);
            last_end.store(end, Ordering::Relaxed);
        }
    }
}

/// Times that were counted, the last ones: spans arrive when they end, and one that began long before others has a part
/// before them.
#[derive(Debug, Default)]
struct CountedTimes {
    /// Apart from each other, in order.
    times: VecDeque<(u64, u64)>,
    /// What is before this is counted, or given up.
    since: u64,
}

impl CountedTimes {
    /// Gives how much of a time was not counted yet, and counts it.
    fn add(&mut self, start: u64, end: u64) -> u64 {
        let start = start.max(self.since);
        if end <= start {
            return 0;
        }
        let first = self.times.partition_point(|time| time.1 < start);
        let after = self.times.partition_point(|time| time.0 <= end);
        let (mut whole, mut counted) = ((start, end), 0);
        for (from, to) in self.times.drain(first..after) {
            counted += to.min(end).saturating_sub(from.max(start));
            whole = (whole.0.min(from), whole.1.max(to));
        }
        self.times.insert(first, whole);
        if self.times.len() > COUNTED_TIMES {
            self.since = self.times.pop_front().map_or(self.since, |time| time.1);
        }
        end - start - counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_spans_take_at_once_counts_once_in_whatever_order_they_end() {
        let spans = SpanTimes::default();
        for n in 0..10 {
            spans.ended(50 + 100 * n, 60 + 100 * n);
        }
        spans.ended(0, 1000);
        assert_eq!(spans.ns(), 1000);
        let mut random = fastrand::Rng::with_seed(5);
        let (mut times, mut counted) = (CountedTimes::default(), [false; 5000]);
        for _ in 0..2000 {
            let start = random.usize(0..4900);
            let end = start + random.usize(0..40);
            let new = counted[start..end].iter().filter(|counted| !**counted).count() as u64;
            counted[start..end].fill(true);
            assert_eq!(times.add(start as u64, end as u64), new);
        }
        // Of what is longer ago than all that is remembered nothing counts.
        let mut times = CountedTimes::default();
        (1..=COUNTED_TIMES as u64 + 1).for_each(|n| assert_eq!(times.add(10 * n, 10 * n + 5), 5));
        assert_eq!((times.add(0, 14), times.times.len()), (0, COUNTED_TIMES));
        assert_eq!(times.add(0, 20), 5);
    }
}
