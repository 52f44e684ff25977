//! Which of several slots of a method computes, by the calls of all of them in some steps: that in which most of each step's
//! time is. What is only asked takes no time, and what prepares does so once. It knows no processes and no records.

use std::collections::BTreeMap;

/// How many times as much time the slot must have as the next one.
const CLEARLY: u64 = 4;
/// Percent of a step that must be in it: of a small model's steps, most is the engine's own work around the operators.
const FEWEST_PERCENT: u64 = 2;

/// What probing a call may cost within what is measured of it, at most: where the first instruction is single-stepped, 9 to
/// 22 µs were measured, half as long again in some calls.
const MOST_PROBE_NS: u64 = 33_000;
/// Calls of a slot from which on their median is taken.
const ENOUGH_CALLS: usize = 16;

/// A call of one of the slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotCall {
    pub(super) slot: u32,
    /// ns.
    pub(super) start: u64,
    /// ns.
    pub(super) duration: u64,
}

/// The slot that was found, with the evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Found {
    pub(super) slot: u32,
    /// Its calls in the steps.
    pub(super) calls: usize,
    pub(super) steps: usize,
    /// Of a step's time, the median.
    pub(super) percent: u64,
}

/// Steps, each with the calls in it.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// Start and end, apart from each other, in order.
    spans: Vec<(u64, u64)>,
    calls: Vec<Vec<SlotCall>>,
    /// What probing a call costs, within the time that is measured of it, ns.
    probe: u64,
}

/// What calls of the slot with the shortest ones take, as if they did nothing: the median, since probing takes half as long
/// again from call to call; of few calls the shortest. Where one slot alone is called, there is nothing to compare it with.
fn cost_of_probing(calls: &[Vec<SlotCall>]) -> u64 {
    let mut of_slots: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for call in calls.iter().flatten() {
        of_slots.entry(call.slot).or_default().push(call.duration);
    }
    if of_slots.len() < 2 {
        return 0;
    }
    let usual = |durations: &mut Vec<u64>| {
        durations.sort_unstable();
        let at = if durations.len() < ENOUGH_CALLS { 0 } else { durations.len() / 2 };
        durations.get(at).copied()
    };
    of_slots.values_mut().filter_map(usual).min().unwrap_or(0).min(MOST_PROBE_NS)
}

impl Steps {
    /// Assigns calls to the steps that they began in. Steps that overlap are one; those without a call do not count.
    pub(super) fn new(mut steps: Vec<(u64, u64)>, calls: &[SlotCall]) -> Self {
        steps.sort_unstable();
        let mut spans: Vec<(u64, u64)> = Vec::new();
        for (start, end) in steps {
            match spans.last_mut().filter(|last| start < last.1) {
                Some(last) => last.1 = last.1.max(end),
                None => spans.push((start, end)),
            }
        }
        let mut all = vec![Vec::new(); spans.len()];
        for call in calls {
            let number = spans.partition_point(|(start, _)| *start <= call.start).checked_sub(1);
            let number = number.filter(|number| call.start < spans[*number].1);
            if let Some(of_step) = number.and_then(|number| all.get_mut(number)) {
                of_step.push(*call);
            }
        }
        let (spans, calls): (Vec<_>, Vec<_>) =
            spans.into_iter().zip(all).filter(|(_, calls)| !calls.is_empty()).unzip();
        let probe = cost_of_probing(&calls);
        Self { spans, calls, probe }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    /// The slot that computes.
    ///
    /// # Errors
    /// Why none is known to.
    pub(super) fn decide(&self, slots: &[u32]) -> Result<Found, String> {
        if self.spans.is_empty() {
            return Err("none of them was called in a step".to_owned());
        }
        let percents = |slot: u32| {
            let of_step = |((start, end), calls): (&(u64, u64), &Vec<SlotCall>)| {
                let own = |call: &&SlotCall| call.slot == slot;
                let durations = calls.iter().filter(own).map(|call| call.duration);
                let probes = |many: usize| self.probe.saturating_mul(many as u64);
                let time = durations.clone().sum::<u64>().saturating_sub(probes(durations.count()));
                // An entry and a return cost up to twice what is measured of them, and never most of a step.
                let duration = end.saturating_sub(*start);
                let step = duration.saturating_sub(2 * probes(calls.len())).max(duration / 2).max(1);
                // Thousandths of a percent.
                (time.saturating_mul(100_000) / step).min(100_000)
            };
            let mut all: Vec<u64> = self.spans.iter().zip(&self.calls).map(of_step).collect();
            all.sort_unstable();
            // The lower one of two in the middle: a slot that is called in half of the steps only is none of each step.
            all.get((all.len() - 1) / 2).copied().unwrap_or(0)
        };
        let mut shares: Vec<(u64, u32)> = slots.iter().map(|slot| (percents(*slot), *slot)).collect();
        shares.sort_by_key(|(share, slot)| (std::cmp::Reverse(*share), *slot));
        let (best, slot) = shares.first().copied().unwrap_or_default();
        let (next, other) = shares.get(1).copied().unwrap_or_default();
        if best < FEWEST_PERCENT * 1000 {
            let percent = best as f64 / 1000.0;
            return Err(format!("slot {slot} takes most time of them, {percent:.1} % of a step"));
        }
        if best < next.saturating_mul(CLEARLY) {
            let percents = [best, next].map(|share| share / 1000);
            let [best, next] = percents;
            return Err(format!("slot {slot} takes {best} % of a step, and slot {other} {next} %"));
        }
        let calls = self.calls.iter().flatten().filter(|call| call.slot == slot).count();
        Ok(Found { slot, calls, steps: self.len(), percent: (best / 1000).min(100) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of 1000 µs with these calls in each: slot, duration in µs, how many.
    fn decided(calls: &[(u32, u64, u64)]) -> Result<Found, String> {
        let (mut steps, mut all) = (Vec::new(), Vec::new());
        for start in [1_000_000, 3_000_000, 5_000_000] {
            steps.push((start, start + 1_000_000));
            let mut at = start + 1;
            for (slot, duration, count) in calls {
                for _ in 0..*count {
                    all.push(SlotCall { slot: *slot, start: at, duration: duration * 1000 });
                    at += duration * 1000;
                }
            }
        }
        // Loading, in no step.
        all.push(SlotCall { slot: 5, start: 0, duration: 900_000 });
        Steps::new(steps, &all).decide(&[3, 4, 5])
    }

    #[test]
    fn the_slot_with_the_time_of_the_steps_computes() {
        let found = decided(&[(3, 1, 60), (4, 100, 8)]);
        assert_eq!(found, Ok(Found { slot: 4, calls: 24, steps: 3, percent: 91 }));
    }

    /// Where the first instruction of each function is single-stepped, probing takes longer than what is asked, and not
    /// always as long.
    #[test]
    fn what_probing_takes_is_no_time_of_a_slot() {
        let found = decided(&[(3, 12, 10), (3, 14, 20), (3, 9, 5), (3, 26, 1), (4, 60, 6)]).unwrap();
        assert_eq!((found.slot, found.percent), (4, 55));
        assert!(decided(&[(3, 50, 10), (4, 90, 6)]).is_err(), "both take longer than any probe");
    }

    #[test]
    fn slots_that_are_alike_are_not_told_apart() {
        assert_eq!(decided(&[(3, 50, 8), (4, 50, 8)]).unwrap_err(), "slot 3 takes 27 % of a step, and slot 4 27 %");
        assert!(decided(&[(3, 50, 8), (4, 75, 8)]).is_err());
    }

    #[test]
    fn what_takes_no_time_and_what_is_called_in_no_step_does_not_compute() {
        assert!(decided(&[(3, 1, 15)]).unwrap_err().contains("1.5 % of a step"));
        assert_eq!(decided(&[]).unwrap_err(), "none of them was called in a step");
    }

    #[test]
    fn preparing_in_the_first_step_is_not_computing() {
        let calls = [(3, 1000, 900), (4, 1900, 90), (4, 3000, 900), (4, 5000, 900)];
        let calls = calls.map(|(slot, start, duration)| SlotCall { slot, start, duration });
        let found = Steps::new(vec![(1000, 2000), (3000, 4000), (5000, 6000)], &calls).decide(&[3, 4]).unwrap();
        // The shortest call, 90 ns, is taken for what probing one costs.
        assert_eq!((found.slot, found.percent), (4, 98));
    }

    #[test]
    fn steps_that_overlap_are_one() {
        let call = SlotCall { slot: 1, start: 150, duration: 100 };
        let steps = Steps::new(vec![(100, 300), (120, 280), (300, 400)], &[call]);
        assert_eq!(steps.len(), 1);
        assert_eq!(steps.decide(&[1, 2]).unwrap().percent, 50);
    }
}
