//! How many records came, of which types, sites and lanes, and what the recorder sees of the target by them.

use super::process::process_of_record;
use super::span_times::{SpanTimes, add};
use profinfer_trace::RecordHeader;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Counts for the live line and the summary.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Records written.
    pub(super) events: AtomicU64,
    /// Spans of steps written.
    pub(super) steps: AtomicU64,
    /// Sum of the steps' `tokens`.
    pub(super) tokens: AtomicU64,
    /// Records that do not match the schema; a fault of profinfer.
    pub(super) malformed: AtomicU64,
    /// Steps that ended.
    ended: SpanTimes,
    /// The thread of the last one; 0: there was no step.
    step_thread: AtomicU32,
    /// Operators that ended, where they are counted since no function of the target marks steps.
    operators: SpanTimes,
    counts_operators: AtomicBool,
    /// Records by type.
    types: Vec<AtomicU64>,
    /// Records by site.
    sites: SiteCounts,
    /// Operators' records by lane.
    lanes: Vec<AtomicU64>,
    /// When the first of them began that was on a second lane, ns; 0: there was none.
    second_lane: AtomicU64,
    /// Bytes of the ring.
    pub(super) ring_bytes: AtomicU64,
    /// The most bytes of it that were waiting when it was read.
    pub(super) ring_peak: AtomicU64,
}

/// Lanes beyond are counted with others.
const LANES: usize = 64;

impl Counts {
    /// Nothing counted yet, of that many record types.
    pub(super) fn new(types: usize) -> Self {
        Self { types: zeros(types), lanes: zeros(LANES), ..Self::default() }
    }

    /// One more record.
    pub(super) fn record(&self, ty: u16, site: u16) {
        add(&self.events, 1);
        if let Some(count) = self.types.get(usize::from(ty)) {
            add(count, 1);
        }
        self.sites.add(site);
    }

    /// An operator ended.
    pub(super) fn operator(&self, header: &RecordHeader) {
        if self.counts_operators() {
            self.operators.ended(header.start, header.start.saturating_add(header.duration));
        }
    }

    /// A step ended.
    pub(super) fn step(&self, header: &RecordHeader, tokens: u64) {
        add(&self.steps, 1);
        self.step_thread.store(header.tid, Ordering::Relaxed);
        self.ended.ended(header.start, header.start.saturating_add(header.duration));
        add(&self.tokens, tokens);
    }

    /// The process that the last step was in, while that step's thread lives.
    pub(super) fn stepping_process(&self) -> Option<i32> {
        let thread = Some(self.step_thread.load(Ordering::Relaxed)).filter(|thread| *thread != 0)?;
        process_of_record(thread).map(u32::cast_signed)
    }

    /// Records of a type.
    pub(super) fn of_type(&self, record: usize) -> u64 {
        self.types.get(record).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Records of a site.
    pub(super) fn of_site(&self, site: u16) -> u64 {
        self.sites.of(site)
    }

    /// The part of operators' records that the busiest lane has; 1 where there is but one, or no telling.
    pub(super) fn busiest_lane(&self) -> f64 {
        let counts: Vec<u64> = self.lanes.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let (all, most) = (counts.iter().sum::<u64>(), counts.iter().max().copied().unwrap_or(0));
        if all == 0 { 1.0 } else { most as f64 / all as f64 }
    }

    /// The lane that all operators had so far, where it is but one.
    pub(super) fn only_lane(&self) -> Option<usize> {
        let mut lanes = self.lanes.iter().enumerate().filter(|(_, count)| count.load(Ordering::Relaxed) > 0);
        let first = lanes.next().map(|(lane, _)| lane);
        first.filter(|_| lanes.next().is_none())
    }

    /// When an operator began on another lane than the ones before; the first time that there was one.
    pub(super) fn second_lane(&self) -> Option<u64> {
        let at = self.second_lane.load(Ordering::Relaxed);
        (at > 0).then_some(at)
    }

    /// An operator of a lane began then, ns.
    pub(super) fn lane(&self, lane: usize, start: u64) {
        let Some(count) = self.lanes.get(lane % LANES) else { return };
        add(count, 1);
        let is_new = count.load(Ordering::Relaxed) == 1;
        if is_new && self.second_lane().is_none() && self.only_lane().is_none() {
            self.second_lane.store(start.max(1), Ordering::Relaxed);
        }
    }

    /// Has operators that end counted from now on.
    pub(super) fn count_operators(&self) {
        self.counts_operators.store(true, Ordering::Relaxed);
    }

    /// Whether operators are counted, since no function of the target marks steps.
    pub(super) fn counts_operators(&self) -> bool {
        self.counts_operators.load(Ordering::Relaxed)
    }

    /// Steps that ended.
    pub(super) fn ended(&self) -> &SpanTimes {
        &self.ended
    }

    /// What shows the target's time: steps, or operators where these are counted.
    pub(super) fn of_target(&self) -> &SpanTimes {
        if self.counts_operators() { &self.operators } else { &self.ended }
    }
}

/// Records by site. Most targets have few of the 65,536 sites that records can name: each block of them is made when it is
/// needed.
#[derive(Debug)]
struct SiteCounts([OnceLock<Box<[AtomicU64]>>; 256]);

impl Default for SiteCounts {
    fn default() -> Self {
        Self([const { OnceLock::new() }; 256])
    }
}

impl SiteCounts {
    fn add(&self, site: u16) {
        let [block, within] = site.to_be_bytes().map(usize::from);
        let block = self.0.get(block).map(|block| block.get_or_init(|| zeros(256)));
        if let Some(count) = block.and_then(|block| block.get(within)) {
            add(count, 1);
        }
    }

    fn of(&self, site: u16) -> u64 {
        let [block, within] = site.to_be_bytes().map(usize::from);
        let count = self.0.get(block).and_then(OnceLock::get).and_then(|block| block.get(within));
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }
}

fn zeros<T: FromIterator<AtomicU64>>(n: usize) -> T {
    (0..n).map(|_| AtomicU64::new(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_counted_one_by_one() {
        let counts = Counts::new(1);
        for site in [0, 7, 7, 256, u16::MAX] {
            counts.record(0, site);
        }
        assert_eq!([0, 7, 8, 255, 256, 512, u16::MAX].map(|site| counts.of_site(site)), [1, 2, 0, 0, 1, 0, 1]);
        assert_eq!(counts.of_type(0), 5);
    }
}
