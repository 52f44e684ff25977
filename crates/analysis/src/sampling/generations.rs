//! Generations: a run of prefill steps and the decode steps after it. They give time to first token (TTFT) and time per
//! output token (TPOT).

use super::step_row::{StepRow, ThreadKey};
use crate::ids::Phase;
use crate::numbers::{Distribution, Durations};
use std::collections::BTreeMap;

/// The generations of a trace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Generations {
    /// Runs of prefill steps whose steps are all complete.
    pub count: u64,
    /// From the start of a run's first prefill step to the end of its last: then the first token can be chosen.
    pub ttft: Distribution,
    /// From the end of the step before to the end of a decode step, sampling between them included.
    pub tpot: Distribution,
    /// Tokens of decode steps that follow another step.
    pub decode_tokens: u64,
    /// From the end of the step before to the end of each of these, summed, ns.
    pub decode_time: u64,
}

/// The first steps of a model or thread, of no more tokens than this, warm up the engine where the next prompt begins right
/// after.
const WARM_UP_TOKENS: u64 = 2;

/// Models, or threads, tracked at a time; beyond, the one that was idle for longest is evicted.
const MAX_SEQUENCES: usize = 4096;

/// Accumulates generations, one step at a time, in bounded memory. Steps with lost records, and pairs of steps with an
/// unrecorded period between them, do not count.
#[derive(Debug, Clone, Default)]
pub(crate) struct GenerationSums {
    latest: BTreeMap<Runner, LatestStep>,
    ttft: Durations,
    tpot: Durations,
    tokens: u64,
    /// Steps of `tpot` without a token count.
    without_tokens: u64,
    /// At least one decode step has a token count. Then a step without one counts as one token.
    has_tokens: bool,
    /// What came since that was asked last, where they are followed. Then durations are not in memory.
    news: Option<Vec<GenerationNews>>,
}

/// A time of a generation, for who follows a recording that goes on: ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GenerationNews {
    /// A run of prefill steps is over: it took so long, up to a time.
    FirstToken { time: u64, after: u64 },
    /// A decode step ended at a time, and the step before it so long before.
    NextToken { time: u64, after: u64 },
}

/// What runs one step after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Runner {
    /// A model of a process. Its steps may be of any thread, such as the next free one of a pool.
    Model(u32, i64),
    /// A thread, where steps have no model.
    Thread(ThreadKey),
}

impl Runner {
    fn of(step: &StepRow) -> Self {
        step.instance.map_or_else(|| Self::Thread(step.thread()), |instance| Self::Model(step.pid, instance))
    }
}

/// The latest step of a model, or of a thread.
#[derive(Debug, Clone, Copy)]
struct LatestStep {
    step: StepRow,
    /// The run of prefill steps that it ends.
    prefill: Option<PrefillRun>,
}

/// Consecutive prefill steps of a model, or of a thread.
#[derive(Debug, Clone, Copy)]
struct PrefillRun {
    /// Start of the first step, ns.
    start: u64,
    /// End of the last step, ns.
    end: u64,
    /// No record of any of its steps was lost.
    complete: bool,
    /// Tokens of its steps; absent where a step has none.
    tokens: Option<u64>,
    /// The first steps.
    is_first: bool,
}

impl PrefillRun {
    fn of(step: &StepRow) -> Option<Self> {
        let StepRow { start, end, complete, tokens, .. } = *step;
        (step.phase == Phase::Prefill).then_some(Self { start, end, complete, tokens, is_first: false })
    }

    /// It warms up the engine: a few tokens by which nothing is generated.
    fn warms_up(&self) -> bool {
        self.is_first && self.tokens.is_some_and(|tokens| tokens <= WARM_UP_TOKENS)
    }

    /// Time to first token, ns.
    fn ttft(&self) -> Option<u64> {
        self.complete.then(|| self.end.saturating_sub(self.start))
    }
}

impl GenerationSums {
    /// Sums whose news are asked for after each step.
    pub(crate) fn followed() -> Self {
        Self { news: Some(Vec::new()), ..Self::default() }
    }

    /// What came since that was asked last.
    pub(crate) fn take_news(&mut self) -> Vec<GenerationNews> {
        self.news.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Ends the runs that are open, at the end of a recording.
    pub(crate) fn end_news(&mut self) {
        for (_, latest) in std::mem::take(&mut self.latest) {
            latest.prefill.into_iter().for_each(|run| self.end_run(run));
        }
    }

    /// Adds a step; those of a model, or of a thread, come in the order of their starts.
    pub(crate) fn push(&mut self, step: &StepRow) {
        self.has_tokens |= step.phase == Phase::Decode && step.tokens.is_some();
        let key = Runner::of(step);
        let latest = self.latest.get(&key).copied();
        let follows = latest.filter(|latest| latest.step.stretch == step.stretch).map(|latest| latest.step);
        let mut prefill = PrefillRun::of(step);
        if let Some(prefill) = &mut prefill {
            prefill.is_first = latest.is_none();
        }
        // Positions that begin again are another prompt's.
        let restarts = latest.and_then(|latest| latest.step.position).zip(step.position);
        let restarts = restarts.is_some_and(|(before, position)| position <= before);
        if let Some(run) = latest.and_then(|latest| latest.prefill) {
            match &mut prefill {
                Some(continued) if follows.is_some() && !restarts => {
                    continued.tokens = continued.tokens.zip(run.tokens).map(|(a, b)| a.saturating_add(b));
                    continued.is_first = run.is_first;
                    continued.start = run.start;
                    continued.complete &= run.complete;
                }
                Some(_) if restarts && run.warms_up() => {}
                _ => self.end_run(run),
            }
        }
        if let Some(before) = follows
            && step.phase.recurs()
            && !restarts
            && (step.complete && before.complete)
        {
            let after = step.end.saturating_sub(before.end);
            match &mut self.news {
                // Runs have no tokens: the time between two of them is the program's.
                Some(news) if step.phase == Phase::Decode => {
                    news.push(GenerationNews::NextToken { time: step.end, after });
                }
                Some(_) => {}
                None => self.tpot.push(after),
            }
            self.tokens = self.tokens.saturating_add(step.tokens.unwrap_or(0));
            self.without_tokens += u64::from(step.tokens.is_none());
        }
        if self.latest.len() >= MAX_SEQUENCES
            && !self.latest.contains_key(&key)
            && let Some(idle) = self.latest.iter().min_by_key(|(_, latest)| latest.step.end).map(|(key, _)| *key)
            && let Some(LatestStep { prefill: Some(run), .. }) = self.latest.remove(&idle)
        {
            self.end_run(run);
        }
        self.latest.insert(key, LatestStep { step: *step, prefill });
    }

    fn end_run(&mut self, run: PrefillRun) {
        let Some(after) = run.ttft() else { return };
        match &mut self.news {
            Some(news) => news.push(GenerationNews::FirstToken { time: run.end, after }),
            None => self.ttft.push(after),
        }
    }

    /// The generations so far.
    pub(crate) fn generations(&self) -> Generations {
        let mut ttft = self.ttft.clone();
        let open = self.latest.values().filter_map(|latest| latest.prefill?.ttft());
        open.for_each(|duration| ttft.push(duration));
        let (ttft, tpot) = (ttft.distribution(), self.tpot.distribution());
        let one_each = if self.has_tokens { self.without_tokens } else { 0 };
        Generations {
            count: ttft.count,
            ttft,
            decode_tokens: self.tokens.saturating_add(one_each),
            decode_time: tpot.total_ns,
            tpot,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::sampling::unseen::Unseen;

    /// The reference: the same from all steps at once.
    pub(crate) fn generations(steps: &[StepRow], unseen: &Unseen) -> Generations {
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
            decode_tokens: tokens,
            decode_time: per_token.iter().sum(),
            tpot: Distribution::of(per_token),
        }
    }

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

    /// A model's next step is that of whichever thread of a pool is free.
    #[test]
    fn steps_of_a_model_may_be_of_any_thread() {
        let mut sums = GenerationSums::default();
        for at in 0..10 {
            let (phase, instance) = (if at == 0 { Phase::Prefill } else { Phase::Decode }, Some(7));
            let tid = u32::try_from(at % 4).unwrap();
            sums.push(&StepRow { tid, instance, ..step(at + 1, phase, at * 10, at * 10 + 8) });
        }
        let found = sums.generations();
        assert_eq!((found.count, found.tpot.count, found.tpot.min_ns, found.tpot.max_ns), (1, 9, 10, 10));
    }

    /// All but one token of its prompt is cached: the time before it is that of nobody's token.
    #[test]
    fn a_prompt_of_one_token_is_no_decode_after_what_came_before() {
        let mut sums = GenerationSums::default();
        for (number, at, position) in [(1, 0, 8), (2, 10, 9), (3, 20, 10), (4, 60_000, 7), (5, 60_010, 8)] {
            sums.push(&StepRow { position: Some(position), ..step(number, Phase::Decode, at, at + 8) });
        }
        let found = sums.generations();
        assert_eq!((found.tpot.count, found.tpot.max_ns, found.decode_time, found.decode_tokens), (3, 10, 30, 3));
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
        for tid in 0..3 * MAX_SEQUENCES as u32 {
            let at = u64::from(tid) * 100;
            sums.push(&StepRow { tid, ..step(1, Phase::Prefill, at, at + 10) });
            sums.push(&StepRow { tid, ..step(2, Phase::Decode, at + 20, at + 30) });
        }
        assert!(sums.latest.len() <= MAX_SEQUENCES);
        let found = sums.generations();
        assert_eq!(
            (found.count, found.tpot.count, found.tpot.max_ns),
            (3 * MAX_SEQUENCES as u64, 3 * MAX_SEQUENCES as u64, 20)
        );
    }
}
