//! Prompt and answer: a run of prefill steps and the decode steps after it are one generation. Time to first token and
//! time per output token are read off them.

use super::distribution::Distribution;
use super::durations::Durations;
use super::statistics::StepRow;
use super::step::Phase;
use super::unseen::Unseen;
use std::collections::BTreeMap;

/// How a trace's generations went.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Generations {
    /// Runs of prefill steps whose steps are all complete.
    pub count: u64,
    /// From the start of a run's first prefill step to the end of its last: then the first token can be chosen.
    pub ttft: Distribution,
    /// From the end of the step before to the end of a decode step, sampling between them included.
    pub tpot: Distribution,
    /// Tokens of the decode steps that `tpot` is of.
    pub decode_tokens: u64,
}

/// Reads them off all steps. A step with lost records, and what is measured from it, is left out.
/// And so is what lies on both sides of a time in which nothing was recorded.
pub(super) fn generations(steps: &[StepRow], unseen: &Unseen) -> Generations {
    // Where only steps that were recorded whole say how many tokens they have, one each is taken for the others'.
    let has_tokens = steps.iter().any(|step| step.phase == Phase::Decode && step.tokens.is_some());
    let mut by_thread: BTreeMap<(u32, u32), Vec<&StepRow>> = BTreeMap::new();
    for step in steps {
        by_thread.entry((step.pid, step.tid)).or_default().push(step);
    }
    let (mut first, mut per_token, mut tokens) = (Vec::new(), Vec::new(), 0_u64);
    for mut steps in by_thread.into_values() {
        steps.sort_by_key(|s| s.start);
        let follows = |a: &StepRow, b: &StepRow| !unseen.is_between(a.end, b.start);
        for run in
            steps.chunk_by(|a, b| a.phase == b.phase && follows(a, b)).filter(|run| run[0].phase == Phase::Prefill)
        {
            if run.iter().all(|s| s.complete) {
                first.push(run[run.len() - 1].end.saturating_sub(run[0].start));
            }
        }
        for pair in steps.windows(2) {
            let (before, step) = (pair[0], pair[1]);
            if step.phase == Phase::Decode && step.complete && before.complete && follows(before, step) {
                per_token.push(step.end.saturating_sub(before.end));
                tokens = tokens.saturating_add(step.tokens.unwrap_or(u64::from(has_tokens)));
            }
        }
    }
    Generations {
        count: first.len() as u64,
        ttft: Distribution::of(first),
        tpot: Distribution::of(per_token),
        decode_tokens: tokens,
    }
}

/// Threads whose steps are followed at a time: of more, the one that was idle for longest is given up.
const MOST_THREADS: usize = 4096;

/// The same, step after step, where there are too many to keep.
#[derive(Debug, Clone, Default)]
pub(super) struct GenerationSums {
    threads: BTreeMap<(u32, u32), Followed>,
    first: Durations,
    per_token: Durations,
    tokens: u64,
    /// Steps of `per_token` that do not say their tokens.
    without_tokens: u64,
    /// A decode step says its tokens.
    has_tokens: bool,
}

/// The latest step of a thread, and the run of prefill steps that it is of.
#[derive(Debug, Clone, Copy)]
struct Followed {
    before: StepRow,
    /// When the run began, and whether all of it is complete.
    prefill: Option<(u64, bool)>,
}

impl GenerationSums {
    /// Adds a step; those of a thread come in the order of their starts.
    pub(super) fn push(&mut self, step: &StepRow) {
        self.has_tokens |= step.phase == Phase::Decode && step.tokens.is_some();
        let key = (step.pid, step.tid);
        let followed = self.threads.get(&key).copied();
        let follows = |before: &StepRow| before.stretch == step.stretch;
        let run = followed.and_then(|of| Some((of.before, of.prefill?)));
        let goes_on = |before: &StepRow| step.phase == Phase::Prefill && follows(before);
        let prefill = match run {
            Some((before, (from, complete))) if goes_on(&before) => Some((from, complete && step.complete)),
            Some((before, run)) => {
                self.end_of(&before, run);
                (step.phase == Phase::Prefill).then_some((step.start, step.complete))
            }
            None => (step.phase == Phase::Prefill).then_some((step.start, step.complete)),
        };
        if let Some(Followed { before, .. }) = followed
            && step.phase == Phase::Decode
            && (step.complete && before.complete && follows(&before))
        {
            self.per_token.push(step.end.saturating_sub(before.end));
            self.tokens = self.tokens.saturating_add(step.tokens.unwrap_or(0));
            self.without_tokens += u64::from(step.tokens.is_none());
        }
        if self.threads.len() >= MOST_THREADS
            && !self.threads.contains_key(&key)
            && let Some(idle) = self.threads.iter().min_by_key(|(_, of)| of.before.end).map(|(key, _)| *key)
            && let Some(Followed { before, prefill: Some(run) }) = self.threads.remove(&idle)
        {
            self.end_of(&before, run);
        }
        self.threads.insert(key, Followed { before: *step, prefill });
    }

    fn end_of(&mut self, last: &StepRow, (from, complete): (u64, bool)) {
        if complete {
            self.first.push(last.end.saturating_sub(from));
        }
    }

    /// What they come to so far.
    pub(super) fn generations(&self) -> Generations {
        let mut first = self.first.clone();
        let open = self.threads.values().filter_map(|of| Some((of.before, of.prefill?)));
        open.filter(|(_, (_, complete))| *complete)
            .for_each(|(last, (from, _))| first.push(last.end.saturating_sub(from)));
        let ttft = first.distribution();
        let one_each = if self.has_tokens { self.without_tokens } else { 0 };
        Generations {
            count: ttft.count,
            ttft,
            tpot: self.per_token.distribution(),
            decode_tokens: self.tokens.saturating_add(one_each),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(number: u64, phase: Phase, start: u64, end: u64) -> StepRow {
        StepRow::of_test(number, phase, (start, end))
    }

    #[test]
    fn a_prompt_in_two_parts_is_one_prefill() {
        let steps = [
            step(1, Phase::Prefill, 100, 200),
            step(2, Phase::Prefill, 210, 300),
            step(3, Phase::Decode, 320, 350),
            step(4, Phase::Decode, 360, 400),
            step(5, Phase::Prefill, 1000, 1100),
            step(6, Phase::Decode, 1105, 1120),
        ];
        let found = generations(&steps, &Unseen::default());
        assert_eq!(found.count, 2);
        assert_eq!((found.ttft.min_ns, found.ttft.max_ns), (100, 200));
        assert_eq!(found.tpot.count, 3);
        assert_eq!((found.tpot.min_ns, found.tpot.total_ns), (20, 50 + 50 + 20));
    }

    #[test]
    fn what_an_incomplete_step_begins_is_left_out() {
        let mut steps =
            [step(1, Phase::Prefill, 0, 10), step(2, Phase::Decode, 10, 20), step(3, Phase::Decode, 20, 30)];
        steps[1].complete = false;
        let found = generations(&steps, &Unseen::default());
        assert_eq!((found.count, found.tpot.count), (1, 0));
        steps[1].complete = true;
        steps[0].complete = false;
        let found = generations(&steps, &Unseen::default());
        assert_eq!((found.count, found.tpot.count), (0, 1));
    }

    #[test]
    fn step_after_step_they_come_to_the_same() {
        let mut random = fastrand::Rng::with_seed(9);
        for _ in 0..200 {
            let mut steps = Vec::new();
            let mut at = [0_u64; 3];
            // Steps go at 3000 and come at 4000.
            let unseen = Unseen::of_test(&[(3000, 4000)]);
            for number in 1..=random.u64(1..60) {
                let thread = random.usize(0..3);
                let mut start = at[thread] + random.u64(0..50);
                if (2900..4000).contains(&start) {
                    start = 4000;
                }
                let end = start + random.u64(1..100);
                at[thread] = end;
                let phase = if random.u32(0..3) == 0 { Phase::Prefill } else { Phase::Decode };
                let tokens = random.bool().then(|| random.u64(1..9));
                let (complete, stretch) = (random.u32(0..9) > 0, u32::from(start >= 4000));
                let tid = u32::try_from(thread).unwrap();
                steps.push(StepRow { tid, tokens, complete, stretch, ..step(number, phase, start, end) });
            }
            let mut sums = GenerationSums::default();
            steps.iter().for_each(|step| sums.push(step));
            assert_eq!(sums.generations(), generations(&steps, &unseen));
        }
    }

    #[test]
    fn threads_that_come_and_go_are_bounded() {
        let mut sums = GenerationSums::default();
        for tid in 0..3 * MOST_THREADS as u32 {
            let at = u64::from(tid) * 100;
            sums.push(&StepRow { tid, ..step(1, Phase::Prefill, at, at + 10) });
            sums.push(&StepRow { tid, ..step(2, Phase::Decode, at + 20, at + 30) });
        }
        assert!(sums.threads.len() <= MOST_THREADS);
        let found = sums.generations();
        assert_eq!(
            (found.count, found.tpot.count, found.tpot.max_ns),
            (3 * MOST_THREADS as u64, 3 * MOST_THREADS as u64, 20)
        );
    }
}
