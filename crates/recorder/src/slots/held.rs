//! Records that are held back until it is known in which of several slots a method is: the calls of the other slots are left
//! out of the trace then, as if they had not been probed.

use super::decide::{Found, SlotCall, Steps};
use profinfer_trace::RecordHeader;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// From the first call to the decision, once there is a step.
const LIMIT: Duration = Duration::from_secs(2);
/// So long at least, and so many steps, where there is time.
const SETTLE: Duration = Duration::from_millis(100);
const ENOUGH_STEPS: usize = 3;
/// Bytes of records that are held back.
const MOST_BYTES: usize = 64 << 20;
/// Calls and steps that are measured.
const MOST_CALLS: usize = 1 << 18;
/// Bytes of a record before its number in the thread.
const SEQ: usize = 12;

/// The slots of one method in one file, while it is not known which of them is meant.
#[derive(Debug, Clone)]
pub(in super::super) struct Trial {
    /// The probe.
    pub(in super::super) probe: String,
    /// `ns::Base[3|4]`.
    pub(in super::super) slots: String,
    /// The file's number in the trace.
    pub(in super::super) module: usize,
    candidates: Vec<u32>,
    calls: Vec<SlotCall>,
    since: Option<Instant>,
    is_open: bool,
}

/// What is known of a site in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Open { trial: usize, slot: u32 },
    Kept,
    Rejected,
}

/// What becomes of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Taken {
    /// It is written now.
    Passed,
    /// It waits. One that is in the trace whatever is decided counts already.
    Held { is_certain: bool },
    /// It is a call of another slot.
    Dropped,
}

/// The records, and the slots.
#[derive(Debug, Default)]
pub(in super::super) struct Held {
    sites: HashMap<u16, Standing>,
    trials: Vec<Trial>,
    steps: Vec<(u64, u64)>,
    /// Each after its length.
    records: Vec<u8>,
    /// By thread: how many records before the next one are left out.
    left_out: HashMap<u32, u32>,
    /// There are too many to wait for a step.
    full: Option<Full>,
    /// Whether calls of slots that are not decided are lost when they are released.
    are_lost: bool,
    /// Calls that are lost of slots that are not decided, by trial and slot, then by type of record.
    lost: HashMap<(usize, u32), BTreeMap<u16, u64>>,
    /// Those of slots that were decided for.
    lost_of_found: BTreeMap<u16, u64>,
    /// By type of record.
    lacking: HashMap<u16, Lacking>,
}

/// Records that cannot wait any longer.
#[derive(Debug, Clone, Copy)]
struct Full {
    /// How many bytes of them, from the first one on.
    bytes: usize,
    /// A step had begun before the last one of them.
    in_step: bool,
}

/// Which fields a method's records lack.
#[derive(Debug, Default)]
struct Lacking {
    /// Those in the trace: a bit each, what the build does not have.
    all: Option<u16>,
    /// Not all of them lack the same.
    varies: bool,
    /// How many all calls of other slots lack together.
    others: u64,
}

impl Held {
    /// Adds a site in a slot.
    pub(in super::super) fn add(&mut self, site: u16, slot: u32, (probe, slots, module): (&str, &str, usize)) {
        let same =
            |trial: &Trial| trial.is_open && trial.slots == slots && trial.module == module && trial.probe == probe;
        let trial = self.trials.iter().position(same).unwrap_or_else(|| {
            let (probe, slots) = (probe.to_owned(), slots.to_owned());
            let (candidates, calls) = (Vec::new(), Vec::new());
            self.trials.push(Trial { probe, slots, module, candidates, calls, since: None, is_open: true });
            self.trials.len() - 1
        });
        let candidates = &mut self.trials[trial].candidates;
        if !candidates.contains(&slot) {
            candidates.push(slot);
        }
        self.sites.insert(site, Standing::Open { trial, slot });
    }

    /// Takes a record.
    pub(in super::super) fn take(&mut self, record: &[u8], is_step: bool) -> Taken {
        if self.sites.is_empty() {
            return Taken::Passed;
        }
        let Some(header) = RecordHeader::read(record) else { return Taken::Passed };
        let standing = self.sites.get(&header.site).copied();
        if let Some(Standing::Open { trial, slot }) = standing
            && let Some(trial) = self.trials.get_mut(trial)
        {
            trial.since.get_or_insert_with(Instant::now);
            self.lacking.entry(header.ty).or_default();
            if trial.calls.len() < MOST_CALLS {
                trial.calls.push(SlotCall { slot, start: header.start, duration: header.duration });
            }
        }
        if is_step && self.any_open() && self.steps.len() < MOST_CALLS {
            self.steps.push((header.start, header.start.saturating_add(header.duration)));
        }
        if matches!(standing, Some(Standing::Open { .. })) || !self.records.is_empty() {
            self.records.extend((record.len() as u64).to_ne_bytes());
            self.records.extend(record);
            return Taken::Held { is_certain: standing.is_none() };
        }
        if standing == Some(Standing::Rejected) {
            self.leave_out(&header);
            return Taken::Dropped;
        }
        self.looked_at(&header);
        Taken::Passed
    }

    fn looked_at(&mut self, header: &RecordHeader) {
        if let Some(lacking) = self.lacking.get_mut(&header.ty) {
            lacking.varies |= *lacking.all.get_or_insert(header.missing) != header.missing;
        }
    }

    /// Whether so many fields of this type that could not be read were those of other slots' calls, which are not in the
    /// trace: its records all have the same fields.
    pub(in super::super) fn are_of_others(&self, record_type: u16, fields: u64) -> bool {
        self.lacking.get(&record_type).is_some_and(|lacking| !lacking.varies && fields <= lacking.others)
    }

    /// Whether records wait: later ones have to wait, too.
    pub(in super::super) fn is_waiting(&self) -> bool {
        !self.records.is_empty()
    }

    /// Whether it is not known of a method in which slot it is.
    pub(in super::super) fn any_open(&self) -> bool {
        self.trials.iter().any(|trial| trial.is_open)
    }

    /// Whether there were methods to find, and all of them are decided.
    pub(in super::super) fn is_done(&self) -> bool {
        !self.trials.is_empty() && !self.any_open()
    }

    /// What can be decided now; `has_steps`: a probe marks them; `any_begun`: a step has begun; `is_last`: there will be no
    /// more records.
    pub(in super::super) fn decided(
        &mut self,
        has_steps: bool,
        any_begun: bool,
        is_last: bool,
    ) -> Vec<(usize, Result<Found, String>)> {
        let is_full = self.records.len() > MOST_BYTES;
        let decide = |(number, trial): (usize, &Trial)| {
            let waited = trial.since.filter(|_| trial.is_open).map(|since| since.elapsed());
            if waited.is_none_or(|waited| waited < SETTLE) && !(is_last && trial.is_open) {
                return None;
            }
            let all = || {
                let start = trial.calls.iter().map(|call| call.start).min()?;
                let end = trial.calls.iter().map(|call| call.start.saturating_add(call.duration)).max()?;
                Some((start, end))
            };
            let steps = if has_steps { self.steps.clone() } else { all().into_iter().collect() };
            let steps = Steps::new(steps, &trial.calls);
            let is_time = is_full || waited.is_some_and(|waited| waited >= LIMIT);
            let is_enough = has_steps && steps.len() >= ENOUGH_STEPS || is_time && steps.len() > 0;
            (is_enough || is_last).then(|| (number, steps.decide(&trial.candidates)))
        };
        let decided: Vec<_> = self.trials.iter().enumerate().filter_map(decide).collect();
        let full = Full { bytes: self.records.len(), in_step: any_begun };
        self.full = (is_full && decided.is_empty()).then_some(full);
        decided
    }

    /// Decides; gives the trial and the sites of the other slots. `None`: no slot is meant.
    pub(in super::super) fn settle(&mut self, number: usize, slot: Option<u32>) -> Option<(Trial, Vec<u16>)> {
        let trial = self.trials.get_mut(number)?;
        trial.is_open = false;
        trial.calls = Vec::new();
        for (_, lost) in self.lost.extract_if(|(trial, _), _| *trial == number).filter(|((_, of), _)| Some(*of) == slot)
        {
            for (record_type, count) in lost {
                *self.lost_of_found.entry(record_type).or_default() += count;
            }
        }
        let mut rejected = Vec::new();
        for (site, standing) in &mut self.sites {
            match *standing {
                Standing::Open { trial, slot: own } if trial == number => {
                    *standing = if Some(own) == slot { Standing::Kept } else { Standing::Rejected };
                    rejected.extend((*standing == Standing::Rejected).then_some(*site));
                }
                _ => {}
            }
        }
        if !self.any_open() {
            self.steps = Vec::new();
        }
        Some((self.trials.get(number)?.clone(), rejected))
    }

    /// The records that need not wait any longer, each after its length.
    pub(in super::super) fn release(&mut self) -> Vec<u8> {
        let full = self.full.take();
        if !self.any_open() {
            return std::mem::take(&mut self.records);
        }
        let Some(full) = full else { return Vec::new() };
        self.are_lost = full.in_step;
        let waiting = self.records.split_off(full.bytes.min(self.records.len()));
        std::mem::replace(&mut self.records, waiting)
    }

    /// Calls of slots that were decided for and are not in the trace, since there were too many before: by type of record.
    pub(in super::super) fn lost(&self) -> impl Iterator<Item = (u16, u64)> {
        self.lost_of_found.iter().map(|(record_type, count)| (*record_type, *count))
    }

    /// Whether a record that waited is in the trace, and whether it counts only now.
    pub(in super::super) fn released(&mut self, record: &[u8]) -> Option<bool> {
        let header = RecordHeader::read(record)?;
        match self.sites.get(&header.site) {
            None => {
                self.looked_at(&header);
                Some(false)
            }
            Some(Standing::Kept) => {
                self.looked_at(&header);
                Some(true)
            }
            // Its number is missing in its thread, so that the step is not taken for complete.
            Some(Standing::Open { trial, slot }) if self.are_lost => {
                *self.lost.entry((*trial, *slot)).or_default().entry(header.ty).or_default() += 1;
                None
            }
            // What came before the first step belongs to none.
            Some(Standing::Rejected | Standing::Open { .. }) => {
                self.leave_out(&header);
                None
            }
        }
    }

    fn leave_out(&mut self, header: &RecordHeader) {
        if let Some(lacking) = self.lacking.get_mut(&header.ty) {
            lacking.others += u64::from(header.missing.count_ones());
        }
        let before = self.left_out.entry(header.tid).or_default();
        // Another thread with the number of one that has ended.
        *before = if header.seq <= *before { 1 } else { *before + 1 };
    }

    /// A record with its number in its thread, where earlier ones are left out; `None`: it is right as it is.
    pub(in super::super) fn renumbered(&mut self, record: &[u8]) -> Option<Vec<u8>> {
        if self.left_out.is_empty() {
            return None;
        }
        let header = RecordHeader::read(record)?;
        let before = *self.left_out.get(&header.tid)?;
        if header.seq <= before {
            if header.seq > 0 {
                self.left_out.remove(&header.tid);
            }
            return None;
        }
        let mut record = record.to_vec();
        record.get_mut(SEQ..SEQ + 4)?.copy_from_slice(&(header.seq - before).to_le_bytes());
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(site: u16, seq: u32, start: u64, duration: u64) -> Vec<u8> {
        let mut record = vec![0; 32];
        record[2..4].copy_from_slice(&site.to_le_bytes());
        record[8..12].copy_from_slice(&7_u32.to_le_bytes());
        record[12..16].copy_from_slice(&seq.to_le_bytes());
        record[16..24].copy_from_slice(&start.to_le_bytes());
        record[24..32].copy_from_slice(&duration.to_le_bytes());
        record
    }

    /// Site 1 is in slot 3, site 2 in slot 4; site 9 is a step's.
    fn held() -> Held {
        let mut held = Held::default();
        held.add(1, 3, ("run", "Base[3|4]", 0));
        held.add(2, 4, ("run", "Base[3|4]", 0));
        for (number, start) in (0..).zip([100, 300, 500]) {
            assert_eq!(held.take(&record(1, number * 3 + 1, start, 1), false), Taken::Held { is_certain: false });
            assert_eq!(held.take(&record(2, number * 3 + 2, start + 1, 90), false), Taken::Held { is_certain: false });
            assert_eq!(held.take(&record(9, number * 3 + 3, start, 100), true), Taken::Held { is_certain: true });
        }
        held
    }

    #[test]
    fn calls_of_other_slots_are_left_out_as_if_they_had_not_been_probed() {
        let mut held = held();
        assert!(held.release().is_empty(), "they wait");
        assert!(held.decided(true, true, false).is_empty(), "too early");
        let decided = held.decided(true, true, true);
        let (number, found) = decided.first().unwrap();
        let slot = found.as_ref().unwrap().slot;
        assert_eq!((slot, held.settle(*number, Some(slot)).unwrap().1), (4, vec![1]));
        let mut numbers = Vec::new();
        for record in held.release().chunks(40).map(|of| of[8..].to_vec()) {
            if let Some(counts) = held.released(&record) {
                let record = held.renumbered(&record).unwrap_or(record);
                let header = RecordHeader::read(&record).unwrap();
                numbers.push((header.site, header.seq, counts));
            }
        }
        assert_eq!(numbers, [(2, 1, true), (9, 2, false), (2, 3, true), (9, 4, false), (2, 5, true), (9, 6, false)]);
        assert_eq!(held.take(&record(1, 10, 700, 1), false), Taken::Dropped);
        let next = record(2, 11, 701, 90);
        assert_eq!(held.take(&next, false), Taken::Passed);
        assert_eq!(RecordHeader::read(&held.renumbered(&next).unwrap()).unwrap().seq, 7);
        // A new thread with the number of an old one.
        let first = record(2, 1, 800, 90);
        assert_eq!((held.renumbered(&first), held.renumbered(&record(2, 2, 900, 90))), (None, None));
    }

    #[test]
    fn what_only_other_slots_lack_is_no_loss() {
        let mut held = held();
        let lacking = |site: u16, seq: u32| {
            let mut record = record(site, seq, 600, 1);
            record[6] = 1;
            record
        };
        held.take(&lacking(1, 10), false);
        held.settle(0, Some(4));
        for record in held.release().chunks(40) {
            held.released(&record[8..]);
        }
        held.take(&lacking(1, 11), false);
        assert!(held.are_of_others(0, 2) && !held.are_of_others(0, 3) && !held.are_of_others(1, 1));
        held.take(&lacking(2, 12), false);
        assert!(!held.are_of_others(0, 2), "one is in the trace");
    }

    /// Takes more than can wait: calls of both slots.
    fn fill(held: &mut Held, numbers: std::ops::Range<u32>) {
        for number in numbers {
            let mut call = record(1 + u16::from(number % 2 == 0), number, u64::from(number) * 1000, 900);
            call.resize(2 << 20, 0);
            held.take(&call, false);
        }
    }

    /// The sites and the numbers of the records that need not wait any longer.
    fn written(held: &mut Held) -> Vec<(u16, u32)> {
        let records = held.release();
        let (mut rest, mut written) = (records.as_slice(), Vec::new());
        while let Some((length, after)) = rest.split_first_chunk() {
            let (record, after) = after.split_at(u64::from_ne_bytes(*length) as usize);
            rest = after;
            if held.released(record).is_some() {
                let record = held.renumbered(record).unwrap_or_else(|| record.to_vec());
                let header = RecordHeader::read(&record).unwrap();
                written.push((header.site, header.seq));
            }
        }
        written
    }

    fn empty() -> Held {
        let mut held = Held::default();
        held.add(1, 3, ("run", "Base[3|4]", 0));
        held.add(2, 4, ("run", "Base[3|4]", 0));
        held
    }

    #[test]
    fn calls_of_a_step_that_are_too_many_to_wait_are_counted_and_leave_a_gap() {
        let mut held = empty();
        fill(&mut held, 1..41);
        assert!(held.decided(true, true, false).is_empty());
        // It came later, and waits for the step's end.
        held.take(&record(2, 41, 41_000, 900), false);
        assert_eq!(written(&mut held), []);
        assert_eq!(held.lost().count(), 0, "of which slot is not decided");
        held.take(&record(9, 42, 0, 50_000), true);
        held.settle(0, Some(4));
        assert_eq!(written(&mut held), [(2, 41), (9, 42)], "those before are missing");
        assert_eq!(held.lost().collect::<Vec<_>>(), [(0, 20)]);
    }

    #[test]
    fn calls_before_any_step_are_left_out_without_a_loss() {
        let mut held = empty();
        fill(&mut held, 1..41);
        held.decided(true, false, false);
        held.take(&record(9, 41, 41_000, 900), false);
        assert_eq!(written(&mut held), []);
        held.settle(0, Some(4));
        assert_eq!(written(&mut held), [(9, 1)]);
        assert_eq!(held.lost().count(), 0);
    }

    #[test]
    fn without_a_decision_no_slot_has_records() {
        let mut held = held();
        assert_eq!(held.settle(0, None).unwrap().1.len(), 2);
        let kept = held.release().chunks(40).filter_map(|of| held.released(&of[8..])).count();
        assert_eq!(kept, 3, "the steps");
        assert!(held.is_done());
    }
}
