//! What each of the last seconds was like, and whether a condition held in them. A time, such as that to a first token,
//! counts in every second that it covers: one that takes three seconds is as long in each of these.

use super::condition::{Condition, Figure, LONGEST};
use super::seconds::{LATEST, SECOND, Seconds};
use profinfer_report::{Bound, TimeParts};

/// Seconds in memory: the longest time of a condition, how much later a long request ends, and how much later a step is in.
const SLOTS: usize = 160;
/// Seconds that what has begun to hold is waited for to end: a window is no longer than this and a condition's time.
const PATIENCE: u64 = 30;
/// Seconds after which it has ended: times become known when they are over.
const GRACE: u64 = 5;

const _: () = assert!(LONGEST + PATIENCE + GRACE + LATEST < SLOTS as u64);

/// Durations: how many, and their sum, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Times {
    count: u64,
    ns: u64,
}

impl Times {
    fn add(&mut self, ns: u64) {
        self.count += 1;
        self.ns = self.ns.saturating_add(ns);
    }

    fn mean_s(self) -> Option<f64> {
        (self.count > 0).then(|| self.ns as f64 / self.count as f64 / 1e9)
    }
}

/// The figures of a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Second {
    first_token: Times,
    next_token: Times,
    duration: Times,
    tokens: u64,
    /// Of some steps it was not recorded how many, or not all steps were recorded.
    tokens_are_known_in_part: bool,
    /// What was seen at its end; not known where nothing was recorded.
    seen: Option<Seen>,
}

/// The state at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Seen {
    /// Requests that are computed, and that wait, where they are recorded.
    pub(crate) requests: Option<(u64, Option<u64>)>,
    /// The verdict's parts, where somebody has judged.
    pub(crate) parts: Option<TimeParts>,
}

impl Second {
    /// A figure's value: times in seconds, shares as parts of 1; `None` where it is not known.
    pub(crate) fn figure(&self, figure: Figure) -> Option<f64> {
        let requests = || self.seen?.requests;
        match figure {
            Figure::TimeToFirstToken => self.first_token.mean_s(),
            Figure::TimePerOutputToken => self.next_token.mean_s(),
            Figure::RequestDuration => self.duration.mean_s(),
            Figure::TokensPerSecond => self.seen.filter(|_| !self.tokens_are_known_in_part).map(|_| self.tokens as f64),
            Figure::RunningRequests => requests().map(|(running, _)| running as f64),
            Figure::QueuedRequests => requests().and_then(|(_, queued)| queued).map(|queued| queued as f64),
            Figure::Share(bound) => self.share(bound),
        }
    }

    fn share(&self, bound: Bound) -> Option<f64> {
        Some(self.seen?.parts?[bound])
    }
}

/// A time in which a condition held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Happened {
    /// When it began to hold, ns of CLOCK_MONOTONIC.
    pub from: u64,
    /// When it held no more, or was no longer waited for.
    pub to: u64,
}

/// Watches for a condition.
#[derive(Debug)]
pub(crate) struct Moments {
    condition: Condition,
    /// Seconds after which it counts again.
    cool_down: u64,
    seconds: Seconds<Second, SLOTS>,
    /// All before this second is in.
    end: u64,
    /// The second in which it began to hold.
    since: Option<u64>,
    /// Seconds before this one do not count.
    quiet_until: u64,
}

impl Moments {
    pub(crate) fn new(condition: Condition, cool_down: u64) -> Self {
        Self { condition, cool_down, seconds: Seconds::default(), end: 0, since: None, quiet_until: 0 }
    }

    pub(crate) fn needs_verdict(&self) -> bool {
        self.condition.needs_verdict()
    }

    /// A request got its first token so long after its arrival.
    pub(crate) fn first_token(&mut self, time: u64, after: u64) {
        self.cover(time, after, |second| &mut second.first_token);
    }

    /// A request got a further token so long after the last one.
    pub(crate) fn next_token(&mut self, time: u64, after: u64) {
        self.cover(time, after, |second| &mut second.next_token);
    }

    /// A request ended so long after its arrival.
    pub(crate) fn request(&mut self, time: u64, after: u64) {
        self.cover(time, after, |second| &mut second.duration);
    }

    /// A decode step gave tokens; `None` if it was not recorded how many.
    pub(crate) fn tokens(&mut self, time: u64, tokens: Option<u64>) {
        if let Some(second) = self.seconds.at(time / SECOND) {
            second.tokens = second.tokens.saturating_add(tokens.unwrap_or(0));
            second.tokens_are_known_in_part |= tokens.is_none();
        }
    }

    /// Nothing was recorded from one time to another.
    pub(crate) fn unrecorded(&mut self, from: u64, to: u64) {
        self.each(from, to, |second| second.tokens_are_known_in_part = true);
    }

    fn cover(&mut self, time: u64, after: u64, times: impl Fn(&mut Second) -> &mut Times) {
        self.each(time.saturating_sub(after), time, |second| times(second).add(after));
    }

    /// The seconds that a time overlaps.
    fn each(&mut self, from: u64, to: u64, act: impl Fn(&mut Second)) {
        let last = to / SECOND;
        for second in (from / SECOND).max(last.saturating_sub(SLOTS as u64 - 1))..=last {
            self.seconds.at(second).map(&act);
        }
    }

    fn holds(&self, second: u64) -> bool {
        self.seconds.get(second).is_some_and(|figures| self.condition.holds(figures))
    }

    /// All that ended before this time (ns) is in, and this is what is to be seen now; `None` while nothing is
    /// recorded. A time that the condition held in is given once it, or the recording, has ended.
    pub(crate) fn pass(&mut self, settled: u64, seen: Option<Seen>, is_over: bool) -> Option<Happened> {
        let end = settled / SECOND;
        let first = self.end.max(end.saturating_sub(SLOTS as u64));
        if self.end == 0 {
            // Nobody knows what was before.
            (self.end, self.quiet_until) = (end, end);
            return None;
        }
        for second in first..end {
            if let Some(figures) = self.seconds.at(second) {
                figures.seen = seen;
            }
        }
        self.end = self.end.max(end);
        let since = match self.since {
            Some(since) => since,
            None => {
                let since = self.run()?;
                self.since = Some(since);
                since
            }
        };
        let last = (since..end).rev().find(|second| self.holds(*second)).unwrap_or(since);
        let is_long = end.saturating_sub(since) >= self.condition.seconds() + PATIENCE;
        (is_over || is_long || end.saturating_sub(last) > GRACE).then(|| {
            self.since = None;
            self.quiet_until = last + 1 + self.cool_down;
            Happened { from: since * SECOND, to: (last + 1) * SECOND }
        })
    }

    /// Where the first run of seconds begins that is long enough.
    fn run(&self) -> Option<u64> {
        let (mut since, mut length) = (0, 0);
        for second in self.quiet_until.max(self.end.saturating_sub(SLOTS as u64))..self.end {
            if !self.holds(second) {
                length = 0;
                continue;
            }
            if length == 0 {
                since = second;
            }
            length += 1;
            if length >= self.condition.seconds() {
                return Some(since);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn moments(condition: &str, cool_down: u64) -> Moments {
        let mut moments = Moments::new(Condition::parse("--when", condition).unwrap(), cool_down);
        assert_eq!(moments.pass(100 * SECOND, None, false), None);
        moments
    }

    /// A token every so many ms within a time, in seconds; then time passes second by second.
    fn tokens(moments: &mut Moments, from: u64, to: u64, each_ms: u64) -> Vec<(u64, u64)> {
        let (mut time, mut found) = (from * SECOND, Vec::new());
        for second in from..to {
            while time + each_ms * MS <= (second + 1) * SECOND {
                time += each_ms * MS;
                moments.next_token(time - 1, each_ms * MS);
            }
            let happened = moments.pass((second + 1) * SECOND, Some(Seen::default()), false);
            found.extend(happened.map(|of| (of.from / SECOND, of.to / SECOND)));
        }
        found
    }

    #[test]
    fn what_holds_for_long_enough_is_told_once_it_has_ended() {
        let mut moments = moments("time_per_output_token > 100ms for 3s", 60);
        assert_eq!(tokens(&mut moments, 100, 110, 50), []);
        // Two seconds are too short.
        assert_eq!(tokens(&mut moments, 110, 112, 200), []);
        assert_eq!(tokens(&mut moments, 112, 120, 50), []);
        assert_eq!(tokens(&mut moments, 120, 124, 200), []);
        assert_eq!(tokens(&mut moments, 124, 130, 50), [(120, 124)]);
        // Within the cool-down it does not count, and after it does.
        assert_eq!(tokens(&mut moments, 130, 180, 200), []);
        assert_eq!(tokens(&mut moments, 180, 186, 50), []);
        assert_eq!(tokens(&mut moments, 186, 190, 200), []);
        assert_eq!(tokens(&mut moments, 190, 200, 50), [(186, 190)]);
    }

    #[test]
    fn what_does_not_end_is_told_too() {
        let mut moments = moments("time_per_output_token > 100ms for 3s", 10);
        assert_eq!(tokens(&mut moments, 100, 200, 200), [(100, 133), (143, 176)]);
    }

    #[test]
    fn a_time_is_of_every_second_that_it_covers() {
        // A token every 2.5 s: most seconds have none.
        let mut slow = moments("time_per_output_token > 100ms for 6s", 60);
        assert_eq!(tokens(&mut slow, 100, 120, 2500), []);
        assert_eq!(tokens(&mut slow, 120, 130, 50), [(100, 120)]);
        // A single one that takes as long.
        let mut one = moments("request_duration > 5s for 6s", 60);
        tokens(&mut one, 100, 108, 50);
        one.request(108 * SECOND - 1, 7 * SECOND - 1);
        assert_eq!(tokens(&mut one, 108, 114, 50), [(101, 108)]);
        // Nothing in between is no slow-down.
        let mut idle = moments("time_per_output_token > 100ms for 3s", 60);
        tokens(&mut idle, 100, 101, 200);
        assert_eq!(tokens(&mut idle, 105, 106, 200), []);
        assert_eq!(tokens(&mut idle, 106, 120, 50), []);
    }

    #[test]
    fn states_are_those_that_were_seen() {
        let mut moments = moments("queued_requests >= 4 && tokens_per_second < 10 || starved > 20% for 2s", 0);
        let seen = |queued| Some(Seen { requests: Some((1, Some(queued))), parts: None });
        for (time, seen) in [(101, seen(9)), (102, None), (103, seen(9)), (104, seen(3))] {
            assert_eq!(moments.pass(time * SECOND, seen, false), None);
        }
        let parts = Some(TimeParts { starved: 0.3, ..TimeParts::default() });
        assert_eq!(moments.pass(106 * SECOND, Some(Seen { requests: None, parts }), false), None);
        assert_eq!(moments.pass(110 * SECOND, None, false), None);
        let happened = Happened { from: 104 * SECOND, to: 106 * SECOND };
        assert_eq!(moments.pass(111 * SECOND, None, false), Some(happened));
        // Time does not go back, and much of it may pass at once.
        assert_eq!(moments.pass(50 * SECOND, seen(9), false), None);
        let later = moments.pass(100_000 * SECOND, seen(9), false);
        assert_eq!(later.map(|of| of.to), Some(100_000 * SECOND));
        assert_eq!(moments.pass(u64::MAX, None, false), None);
        moments.next_token(u64::MAX, u64::MAX);
        moments.first_token(5, u64::MAX);
    }

    #[test]
    fn it_is_over_with_the_recording() {
        let mut moments = moments("time_per_output_token > 100ms for 3s", 60);
        tokens(&mut moments, 100, 104, 200);
        let happened = Happened { from: 100 * SECOND, to: 104 * SECOND };
        assert_eq!(moments.pass(104 * SECOND, None, true), Some(happened));
        assert_eq!(moments.pass(104 * SECOND, None, true), None);
    }

    /// With a small budget, tokens are recorded in windows: their rate is not known in between, which is no low rate.
    #[test]
    fn a_rate_of_tokens_that_were_not_all_recorded_is_not_known() {
        let mut moments = moments("tokens_per_second < 10", 0);
        for (second, tokens) in [(101, Some(20)), (102, None), (103, Some(2))] {
            moments.tokens(second * SECOND + 1, Some(3));
            moments.tokens(second * SECOND + 2, tokens);
            moments.pass((second + 1) * SECOND, Some(Seen::default()), false);
        }
        let held: Vec<bool> = (101..104).map(|second| moments.holds(second)).collect();
        assert_eq!(held, [false, false, true]);
    }
}
