//! What being recorded did to the steps: those that were recorded whole, by those beside them that were not.
//!
//! A window's steps are compared with the bare ones just before and just after it, of the same phase and number of
//! tokens, as many on each side as there are: so the growth of a step with its context, and the machine's mood, count
//! for little. The median over windows is the measure; its interval is that of a bootstrap over windows.

use super::distribution::median;
use super::sampled::Recorded;
use super::statistics::StepRow;
use serde::Serialize;

/// Fewer windows with bare steps on both sides say nothing.
const FEWEST: usize = 5;
/// Resamples of the bootstrap.
const RESAMPLES: usize = 1000;
/// Bare steps on a side of a window that are looked at, at most.
const NEIGHBOURS: usize = 64;

/// A ratio with its interval of 95 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measured {
    /// Time of a step that was recorded whole, by that of one that was not, less 1.
    pub slowdown: f64,
    /// Where it is with 95 % confidence: from here.
    pub low: f64,
    /// To here.
    pub high: f64,
    /// Windows that were compared.
    pub windows: u64,
}

/// The measured slow-down of steps that were recorded whole, by phase and tokens of the most common kind of step.
///
/// # Errors
/// Why it cannot be measured.
pub fn measure(steps: &[StepRow]) -> Result<Measured, &'static str> {
    if steps.iter().all(|step| step.recorded == Recorded::Whole) {
        return Err("every step was recorded whole");
    }
    let mut kinds = std::collections::BTreeMap::new();
    for step in steps.iter().filter(|step| step.recorded == Recorded::Whole) {
        *kinds.entry((step.phase, step.tokens)).or_insert(0_u64) += 1;
    }
    let Some((kind, _)) = kinds.into_iter().max_by_key(|(_, count)| *count) else {
        return Err("no step was recorded whole");
    };
    let mut like: Vec<&StepRow> = steps.iter().filter(|step| same_kind(step, kind)).collect();
    like.sort_by_key(|step| (step.pid, step.tid, step.start));
    let mut ratios = ratios(&like);
    if ratios.len() < FEWEST {
        return Err("too few stretches of steps were recorded whole between others");
    }
    let slowdown = median(&mut ratios.clone()).unwrap_or(0.0) - 1.0;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut medians: Vec<f64> = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let mut sample: Vec<f64> = ratios.iter().map(|_| ratios[random.below(ratios.len())]).collect();
        medians.push(median(&mut sample).unwrap_or(0.0) - 1.0);
    }
    medians.sort_by(f64::total_cmp);
    let at = |part: f64| medians[((part * RESAMPLES as f64) as usize).min(RESAMPLES - 1)];
    let windows = ratios.len() as u64;
    ratios.clear();
    Ok(Measured { slowdown, low: at(0.025), high: at(0.975), windows })
}

/// The same tokens; where the trace says them of no bare step, the phase does.
fn same_kind(step: &StepRow, (phase, tokens): (super::Phase, Option<u64>)) -> bool {
    step.phase == phase && (step.tokens == tokens || step.tokens.is_none())
}

/// For each window with bare steps on both sides: its steps' median time by theirs.
fn ratios(steps: &[&StepRow]) -> Vec<f64> {
    let runs: Vec<&[&StepRow]> = steps
        .chunk_by(|a, b| (a.pid, a.tid, a.recorded, whole_window(a)) == (b.pid, b.tid, b.recorded, whole_window(b)))
        .collect();
    let bare = |mut runs: Box<dyn Iterator<Item = &&[&StepRow]> + '_>, owner: &StepRow, last: bool, most: usize| {
        let found = runs.find(|run| run[0].recorded != Recorded::Partly)?;
        let found = (found[0].recorded == Recorded::Bare && (found[0].pid, found[0].tid) == (owner.pid, owner.tid))
            .then_some(*found)?;
        let most = most.clamp(1, NEIGHBOURS).min(found.len());
        let near = if last { &found[found.len() - most..] } else { &found[..most] };
        Some(median_time(near))
    };
    let ratio = |(at, run): (usize, &&[&StepRow])| {
        if run[0].recorded != Recorded::Whole {
            return None;
        }
        let before = bare(Box::new(runs[..at].iter().rev()), run[0], true, run.len())?;
        let after = bare(Box::new(runs[at + 1..].iter()), run[0], false, run.len())?;
        let beside = (before * after).sqrt();
        (beside > 0.0).then(|| median_time(run) / beside)
    };
    runs.iter().enumerate().filter_map(ratio).collect()
}

fn whole_window(step: &StepRow) -> Option<u32> {
    step.window.filter(|_| step.recorded == Recorded::Whole)
}

fn median_time(steps: &[&StepRow]) -> f64 {
    median(&mut steps.iter().map(|step| step.duration() as f64).collect::<Vec<f64>>()).unwrap_or(0.0)
}

/// xorshift64*: equal traces give equal intervals.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Phase;
    use super::*;

    /// Steps that grow by a thousandth each; windows of 4 in every 40 are slower.
    fn steps(windows: u64, slower: f64) -> Vec<StepRow> {
        let mut at = 0;
        let step = |number: u64| {
            let place = number % 40;
            let recorded = match place {
                20..24 => Recorded::Whole,
                19 | 24 => Recorded::Partly,
                _ => Recorded::Bare,
            };
            let noise = 1.0 + 0.002 * (number * 7919 % 11) as f64;
            let slow = if recorded == Recorded::Bare { 1.0 } else { 1.0 + slower };
            let duration = (1e6 * (1.0 + number as f64 / 1000.0) * noise * slow) as u64;
            at += duration + 1000;
            StepRow {
                number,
                phase: Phase::Decode,
                pid: 1,
                tid: 1,
                start: at - duration,
                end: at,
                tokens: Some(1),
                complete: true,
                recorded,
                window: Some((number / 40) as u32),
            }
        };
        (0..windows * 40).map(step).collect()
    }

    #[test]
    fn the_growth_of_steps_does_not_pass_for_a_slow_down() {
        for slower in [0.0, 0.03, 0.2] {
            let measured = measure(&steps(30, slower)).unwrap();
            assert!((measured.slowdown - slower).abs() < 0.006, "{slower}: {measured:?}");
            assert!(measured.low <= slower && slower <= measured.high, "{slower}: {measured:?}");
            assert_eq!(measured.windows, 30);
        }
    }

    #[test]
    fn what_cannot_be_measured_is_not() {
        assert_eq!(measure(&steps(3, 0.1)), Err("too few stretches of steps were recorded whole between others"));
        let mut whole = steps(3, 0.1);
        whole.iter_mut().for_each(|step| step.recorded = Recorded::Whole);
        assert_eq!(measure(&whole), Err("every step was recorded whole"));
        whole.iter_mut().for_each(|step| step.recorded = Recorded::Bare);
        assert_eq!(measure(&whole), Err("no step was recorded whole"));
        assert_eq!(measure(&[]), Err("every step was recorded whole"));
    }
}
