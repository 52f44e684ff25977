//! `--min-rate`: where steps come more slowly than they may, operators are not recorded.
//!
//! The rate is that of the time spent in steps: a target that has nothing to do is not slow. A step that goes on for
//! longer than the rate allows counts as it stands. Operators come back when steps without them come a tenth faster
//! than they must, over some time; each time that they turn out too expensive again, that time doubles.

use std::collections::VecDeque;

/// The rate is over this many ns of step time, the last ones; less is not enough.
const SPAN_NS: u64 = 500_000_000;
/// Steps without operators must be faster than required by this factor.
const RETURN: f64 = 1.1;
/// They must do so for so long: at first, and at most.
const FIRST_PAUSE_NS: u64 = 2_000_000_000;
const LONGEST_PAUSE_NS: u64 = 64_000_000_000;

/// Watches the rate of steps.
#[derive(Debug)]
pub(crate) struct RateGuard {
    least: f64,
    allowed: bool,
    since: u64,
    pause: u64,
    /// Steps that have ended and their time, at times.
    past: VecDeque<(u64, u64)>,
}

impl RateGuard {
    /// For that many steps per second.
    pub(crate) fn new(least: f64, now: u64) -> Self {
        Self { least, allowed: true, since: now, pause: FIRST_PAUSE_NS, past: VecDeque::new() }
    }

    /// Whether operators may be recorded now: told the steps that have ended, their time, and for how long one has
    /// been going on.
    pub(crate) fn allows(&mut self, now: u64, steps: u64, step_ns: u64, running_ns: u64) -> bool {
        if self.past.back().is_none_or(|last| last.0 != steps) {
            self.past.push_back((steps, step_ns));
        }
        while self.past.get(1).is_some_and(|next| step_ns.saturating_sub(next.1) >= SPAN_NS) {
            self.past.pop_front();
        }
        let Some(rate) = self.rate(steps, step_ns, running_ns) else { return self.allowed };
        if self.allowed && rate < self.least {
            let lasted = now.saturating_sub(self.since);
            self.pause = if lasted > LONGEST_PAUSE_NS { FIRST_PAUSE_NS } else { self.pause };
            self.turn(false, now);
        } else if !self.allowed && now.saturating_sub(self.since) >= self.pause && rate >= RETURN * self.least {
            self.pause = (2 * self.pause).min(LONGEST_PAUSE_NS);
            self.turn(true, now);
        }
        self.allowed
    }

    fn turn(&mut self, allowed: bool, now: u64) {
        self.allowed = allowed;
        self.since = now;
        // What was seen the one way does not predict the other.
        let last = self.past.pop_back();
        self.past.clear();
        self.past.extend(last);
    }

    /// Steps a second of step time; `None` where too little was seen.
    fn rate(&self, steps: u64, step_ns: u64, running_ns: u64) -> Option<f64> {
        let (steps_before, ns_before) = *self.past.front()?;
        let ended = steps.saturating_sub(steps_before) as f64;
        let time = step_ns.saturating_sub(ns_before).saturating_add(running_ns) as f64;
        if running_ns >= SPAN_NS {
            return Some(1e9 / running_ns as f64);
        }
        (time >= SPAN_NS as f64).then(|| ended.max(1.0) * 1e9 / time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A target whose steps take so long, watched every 5 ms; gives when operators went and came.
    fn watch(guard: &mut RateGuard, from: u64, until: u64, step: impl Fn(bool) -> u64) -> (Vec<(u64, bool)>, u64) {
        let (mut now, mut began, mut steps, mut step_ns) = (from, from, from / 7, from);
        let mut turns = Vec::new();
        let mut allowed = guard.allowed;
        while now < until {
            now += 5_000_000;
            while began + step(allowed) <= now {
                began += step(allowed);
                (steps, step_ns) = (steps + 1, step_ns + step(allowed));
            }
            let allows = guard.allows(now, steps, step_ns, now - began);
            if allows != allowed {
                turns.push((now, allows));
                allowed = allows;
            }
        }
        (turns, now)
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn operators_go_within_a_second_of_the_steps_becoming_slow_and_come_back() {
        let mut guard = RateGuard::new(5.0, 0);
        let (turns, now) = watch(&mut guard, 0, 3000 * MS, |_| 100 * MS);
        assert_eq!(turns, []);
        let (turns, now) = watch(&mut guard, now, now + 5000 * MS, |_| 400 * MS);
        assert!(matches!(turns[..], [(at, false)] if at <= 4000 * MS), "{turns:?}");
        let (turns, _) = watch(&mut guard, now, now + 5000 * MS, |_| 100 * MS);
        assert!(matches!(turns[..], [(at, true)] if at <= now + 2000 * MS), "{turns:?}");
    }

    #[test]
    fn one_endless_step_is_enough() {
        let mut guard = RateGuard::new(5.0, 0);
        let (turns, now) = watch(&mut guard, 0, 2000 * MS, |_| 50 * MS);
        assert_eq!(turns, []);
        let (turns, _) = watch(&mut guard, now, now + 3000 * MS, |_| 60_000 * MS);
        assert!(matches!(turns[..], [(at, false)] if at <= now + 1000 * MS), "{turns:?}");
    }

    #[test]
    fn operators_that_are_too_expensive_come_back_ever_more_rarely() {
        let mut guard = RateGuard::new(5.0, 0);
        // 4 steps a second with operators, 10 without.
        let (turns, _) = watch(&mut guard, 0, 300_000 * MS, |on| if on { 250 * MS } else { 100 * MS });
        assert!((8..=20).contains(&turns.len()), "{turns:?}");
    }

    #[test]
    fn a_target_that_waits_for_work_is_not_slow() {
        let mut guard = RateGuard::new(5.0, 0);
        assert!(guard.allows(1000 * MS, 10, 100 * MS, 0));
        for second in 2..100 {
            assert!(guard.allows(second * 1000 * MS, 10, 100 * MS, 0));
        }
    }
}
