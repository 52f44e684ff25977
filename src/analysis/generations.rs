//! Prompt and answer: a run of prefill steps and the decode steps after it are one generation. Time to first token and
//! time per output token are read off them.

use super::distribution::Distribution;
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
pub fn generations(steps: &[StepRow], unseen: &Unseen) -> Generations {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn step(number: u64, phase: Phase, start: u64, end: u64) -> StepRow {
        StepRow {
            number,
            phase,
            pid: 1,
            tid: 1,
            start,
            end,
            tokens: Some(1),
            complete: true,
            recorded: Default::default(),
            window: None,
        }
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
}
