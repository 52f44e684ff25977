//! The budget against simulated targets: whatever their steps and hits, it is met, and the steps that are
//! recorded are like all.

use super::{Sampler, Seen};
use proptest::prelude::*;

/// A target and a recorder's latencies, ns.
struct Simulated<F: Fn(u64) -> f64> {
    /// The bare time of the n-th step.
    step: F,
    hits: f64,
    hit_ns: f64,
    attach_ns: f64,
    detach_ns: f64,
    poll_ns: f64,
    /// What the probes of a step itself cost.
    step_probe_ns: f64,
    /// Processor time that a window takes the recorder.
    recorder_ns: f64,
}

#[derive(Debug, Default)]
struct Outcome {
    seen: Seen,
    /// After each window: what was spent until then.
    shares: Vec<f64>,
    whole: Vec<u64>,
    /// Where each window began, by the steps before.
    starts: Vec<u64>,
    /// What really came to pass: steps, their bare time, and what was added to it.
    steps: u64,
    bare_ns: f64,
    cost_ns: f64,
    /// The time in steps that was estimated where none was seen.
    unseen_ns: Option<f64>,
}

enum Probes {
    Attaching { until: f64 },
    On,
    Detaching { until: f64 },
    Off,
}

impl<F: Fn(u64) -> f64> Simulated<F> {
    fn run(&self, budget: f64, seed: u64, steps: u64) -> Outcome {
        self.run_with(Sampler::new(budget, seed, true), steps)
    }

    fn run_with(&self, mut sampler: Sampler, steps: u64) -> Outcome {
        let mut out = Outcome::default();
        let mut probes = Probes::Off;
        let (mut now, mut begun_on) = (0.0_f64, false);
        let mut left = (self.step)(0);
        let mut on_since = 0.0;
        let mut step_start = 0.0;
        let mut step_ns = 0.0;
        while out.steps < steps {
            // Up to the next thing that happens: the step's end, the recorder's poll, an end of attaching.
            let attached = !matches!(probes, Probes::Off);
            let bare = (self.step)(out.steps);
            let slow = if attached { 1.0 + self.hits * self.hit_ns / bare } else { 1.0 };
            let poll = ((now / self.poll_ns).floor() + 1.0) * self.poll_ns;
            // Nothing is polled more often than steps end where they are long.
            let poll =
                if let Probes::Attaching { until } | Probes::Detaching { until } = probes { until } else { poll };
            let end = now + left * slow;
            let next = end.min(poll.max(now + 1.0));
            let passed = next - now;
            left -= passed / slow;
            let always = sampler.stays().is_some();
            out.seen.step_ns += if always { passed } else { 0.0 };
            step_ns += passed;
            out.bare_ns += passed / slow;
            if attached {
                out.seen.detail_cost_ns += passed - passed / slow;
                out.cost_ns += passed - passed / slow;
            }
            now = next;
            out.seen.now_ns = now;
            if now >= end || left <= 1e-6 {
                if begun_on && matches!(probes, Probes::On) && step_start >= on_since {
                    out.whole.push(out.steps);
                }
                let is_seen = begun_on && matches!(probes, Probes::On) && step_start >= on_since;
                if always || attached {
                    (now, step_ns) = (now + self.step_probe_ns, step_ns + self.step_probe_ns);
                    out.seen.steps_cost_ns += self.step_probe_ns;
                    out.cost_ns += self.step_probe_ns;
                }
                out.seen.step_ns += match (always, is_seen) {
                    (true, _) => self.step_probe_ns,
                    (false, true) => step_ns,
                    (false, false) => 0.0,
                };
                out.seen.steps += u64::from(always || is_seen);
                out.seen.now_ns = now;
                out.steps += 1;
                left = (self.step)(out.steps);
                step_ns = 0.0;
                step_start = now;
                begun_on = matches!(probes, Probes::On);
            }
            match probes {
                Probes::On if !sampler.wants(&out.seen) => probes = Probes::Detaching { until: now + self.detach_ns },
                Probes::Detaching { until } if now >= until => {
                    out.seen.recorder_ns += self.recorder_ns;
                    sampler.ended(&out.seen);
                    out.shares.push(out.cost_ns / out.bare_ns);
                    probes = Probes::Off;
                }
                Probes::Off if sampler.wants(&out.seen) => {
                    sampler.begins(&out.seen);
                    probes = Probes::Attaching { until: now + self.attach_ns };
                }
                Probes::Attaching { until } if now >= until => {
                    sampler.began(&out.seen);
                    out.starts.push(out.steps);
                    on_since = now;
                    probes = Probes::On;
                }
                _ => {}
            }
        }
        out.unseen_ns = sampler.unseen_ns(now);
        out
    }
}

/// A target whose steps have so many hits, and a recorder as fast as one was seen to be.
fn simulated<F: Fn(u64) -> f64>(step: F, hits: f64) -> Simulated<F> {
    Simulated {
        step,
        hits,
        hit_ns: 1200.0,
        attach_ns: 7e6,
        detach_ns: 40e6,
        poll_ns: 5e6,
        step_probe_ns: 0.0,
        recorder_ns: 0.0,
    }
}

/// Steps such that some windows come about.
fn enough_steps(step_ns: f64, hits: f64, hit_ns: f64, budget: f64) -> u64 {
    let window = (25e6_f64 + 60e6).max(3.0 * step_ns);
    let cost = window / step_ns * hits * hit_ns;
    let cycle = (cost / (budget * step_ns)).max(20.0);
    (30.0 * cycle).clamp(2000.0, 400_000.0) as u64
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn the_budget_is_kept(
        step in prop_oneof![Just(0.1e6), Just(0.2e6), Just(2e6), Just(15e6), Just(60e6), Just(1e9), Just(1e10)],
        hits in 10.0..10_000.0_f64,
        budget in prop_oneof![Just(0.001), Just(0.01), Just(0.05)],
        (attach, detach) in (1e6..20e6_f64, 10e6..100e6_f64),
        seed in any::<u64>(),
    ) {
        let hits = hits.min(step / 1500.0);
        let target = Simulated {
            step: |_| step, hits, hit_ns: 1200.0, attach_ns: attach, detach_ns: detach, poll_ns: 5e6_f64.max(step / 40.0), step_probe_ns: 0.0, recorder_ns: 0.0,
        };
        let out = target.run(budget, seed, enough_steps(step, hits, 1200.0, budget));
        // The first window may cost more than was assumed; the second comes when it is paid for.
        let as_assumed = hits * 1200.0 <= (0.2 * step).min(3e6) && attach + detach + 2.0 * step <= 60e6;
        for share in out.shares.iter().skip(usize::from(!as_assumed)) {
            prop_assert!(*share <= budget, "{share} of {budget}: {:?}", out.shares);
        }
        if out.shares.len() > 1 || hits * 1200.0 / step < budget / 2.0 {
            prop_assert!(out.seen.share() <= budget, "{} of {budget}", out.seen.share());
        }
        prop_assert!(!out.whole.is_empty());
    }
}

#[test]
fn what_the_budget_allows_is_used() {
    for (step, hits) in [(0.2e6, 34.0), (2e6, 150.0), (15e6, 1000.0), (60e6, 3000.0)] {
        let target = simulated(|_| step, hits);
        let out = target.run(0.01, 7, enough_steps(step, hits, 1200.0, 0.01));
        let share = out.seen.share();
        assert!(share > 0.004 && share <= 0.01, "{step} {hits}: {share}");
        assert!(out.shares.len() > 10, "{step} {hits}: {} windows", out.shares.len());
    }
}

#[test]
fn windows_take_the_recorder_no_more_than_the_budgets_part_of_a_processor() {
    // Operators that cost little: the budget alone would cover several windows a second. Between them, steps are recorded
    // or not.
    for (step, step_probe_ns) in [(15e6, 0.0), (0.1e6, 2000.0)] {
        let target = Simulated { step_probe_ns, recorder_ns: 10e6, ..simulated(|_| step, step / 1e5) };
        let out = target.run(0.005, 7, (400e9 / step) as u64);
        let share = out.seen.recorder_ns / out.seen.now_ns;
        assert!((0.002..0.005).contains(&share), "{step}: {share}, {} windows", out.shares.len());
    }
}

#[test]
fn every_step_is_recorded_where_the_budget_allows_that() {
    let target = simulated(|_| 60e6, 300.0);
    let out = target.run(0.01, 7, 3000);
    // All after the first window has begun, which the first 20 steps pay for.
    assert!(out.whole.len() > 2970 && out.shares.is_empty(), "{} {}", out.whole.len(), out.shares.len());
}

#[test]
fn a_window_that_the_budget_covered_for_long_does_not_put_off_the_next_ones() {
    // First every step is covered; then hits take more of shorter steps.
    let target = simulated(|n| if n < 3000 { 60e6 } else { 20e6 }, 300.0);
    for seed in 0..6 {
        let out = target.run(0.01, seed, 12_000);
        assert!(out.starts.len() > 100, "{seed}: {:?}", out.starts);
        assert!(out.shares.iter().all(|share| *share <= 0.01), "{seed}: {:?}", out.shares);
    }
    // The same where nothing is recorded between windows: that came of short steps before the long ones.
    let target = Simulated {
        step_probe_ns: 2000.0,
        ..simulated(|n| if (20_000..50_000).contains(&n) { 2e6 } else { 0.1e6 }, 5.0)
    };
    for seed in 0..6 {
        let out = target.run(0.01, seed, 650_000);
        let after = out.starts.iter().filter(|start| **start > 50_000).count();
        assert!(after > 10 && out.starts.len() - after < 20, "{seed}: {:?}", out.starts);
        assert!(out.cost_ns <= 0.01 * out.bare_ns, "{seed}: {} of {}", out.cost_ns, out.bare_ns);
    }
}

#[test]
fn a_step_is_as_likely_to_be_recorded_whatever_it_is() {
    // Every seventh step is ten times as long as the others.
    let step = |n: u64| if n % 7 == 3 { 20e6 } else { 2e6 };
    let (mut whole, mut long) = (0, 0);
    for seed in 0..12 {
        let target = Simulated { attach_ns: 3e6, detach_ns: 10e6, poll_ns: 1e6, ..simulated(step, 300.0) };
        let out = target.run(0.02, seed, 60_000);
        whole += out.whole.len();
        long += out.whole.iter().filter(|n| *n % 7 == 3).count();
    }
    let share = long as f64 / whole as f64;
    assert!(whole > 2000, "{whole}");
    assert!((share - 1.0 / 7.0).abs() < 0.02, "{share} of {whole}");
}

#[test]
fn windows_begin_anywhere() {
    let target = Simulated { attach_ns: 3e6, detach_ns: 10e6, poll_ns: 1e6, ..simulated(|_| 1e6, 100.0) };
    let starts: Vec<u64> = (0..8).flat_map(|seed| target.run(0.01, seed, 100_000).starts).collect();
    let mut sixteenths = [0_usize; 16];
    for start in &starts {
        sixteenths[(start % 16) as usize] += 1;
    }
    let expected = starts.len() / 16;
    assert!(starts.len() > 100, "{}", starts.len());
    assert!(sixteenths.iter().all(|n| *n > expected / 4 && *n < expected * 3), "{sixteenths:?}");
}

#[test]
fn a_budget_that_steps_alone_exceed_is_kept_by_recording_nothing_for_a_while() {
    for (step, budget) in [(0.2e6, 0.01), (0.1e6, 0.01), (0.2e6, 0.002)] {
        for seed in 0..6 {
            let target = Simulated { attach_ns: 10e6, step_probe_ns: 2000.0, ..simulated(|_| step, 34.0) };
            let out = target.run(budget, seed, 600_000);
            let share = out.cost_ns / out.bare_ns;
            assert!(share <= budget && share > 0.25 * budget, "{step} {budget} {seed}: {share}");
            assert!(out.shares.len() > 8, "{step} {budget} {seed}: {} windows", out.shares.len());
            assert!(out.seen.steps < out.steps / 10, "{step} {budget} {seed}: most are not seen");
            // What was not seen is estimated well.
            let unseen = out.unseen_ns.expect("steps went");
            let truth = out.bare_ns - (out.seen.step_ns - out.seen.steps as f64 * 2000.0);
            assert!((unseen / truth - 1.0).abs() < 0.25, "{step} {budget} {seed}: {unseen} of {truth}");
        }
    }
}

fn without_steps(budget: f64, seed: u64) -> Sampler {
    let mut sampler = Sampler::new(budget, seed, true);
    sampler.has_no_steps(&Seen::default(), 0.0);
    sampler
}

#[test]
fn without_steps_the_budget_is_for_the_time_in_operators() {
    for (operator, budget) in [(50e3, 0.005), (20e3, 0.01), (400e3, 0.001)] {
        for seed in 0..4 {
            let target = Simulated { hit_ns: 3000.0, attach_ns: 10e6, ..simulated(|_| operator, 1.0) };
            let out = target.run_with(without_steps(budget, seed), (300e9 / operator) as u64);
            let share = out.cost_ns / out.bare_ns;
            assert!(share <= budget && share > 0.4 * budget, "{operator} {budget} {seed}: {share}");
            assert!(out.shares.len() > 8, "{operator} {budget} {seed}: {} windows", out.shares.len());
            let unseen = out.unseen_ns.expect("nothing is recorded between windows");
            let truth = out.bare_ns - out.seen.step_ns;
            assert!((unseen / truth - 1.0).abs() < 0.1, "{operator} {budget} {seed}: {unseen} of {truth}");
        }
    }
    // Operators that cost nothing to speak of are all recorded.
    let target = Simulated { hit_ns: 3000.0, attach_ns: 10e6, ..simulated(|_| 20e6, 1.0) };
    let out = target.run_with(without_steps(0.005, 1), 2000);
    assert!(out.whole.len() > 1500 && out.shares.len() < 5, "{} {}", out.whole.len(), out.shares.len());
}

#[test]
fn a_target_without_steps_that_is_idle_is_looked_at_again_soon() {
    let mut sampler = without_steps(0.005, 3);
    let mut seen = Seen::default();
    let mut windows = 0;
    // Each window takes the recorder 10 ms: two seconds of its part.
    for tick in 0..12_000_u32 {
        seen.now_ns = f64::from(tick) * 10e6;
        match windows % 2 {
            0 if sampler.wants(&seen) => {
                sampler.begins(&seen);
                seen.recorder_ns += 5e6;
                sampler.began(&seen);
                windows += 1;
            }
            1 if !sampler.wants(&seen) => {
                seen.recorder_ns += 5e6;
                sampler.ended(&seen);
                windows += 1;
            }
            _ => {}
        }
    }
    assert!(windows > 60, "{windows}");
    assert!(seen.recorder_ns / seen.now_ns < 0.006, "{}", seen.recorder_ns / seen.now_ns);
}

#[test]
fn steps_that_may_not_go_stay() {
    let mut sampler = Sampler::new(0.01, 1, false);
    let seen = |steps: u64| Seen {
        now_ns: steps as f64 * 2e5,
        steps,
        step_ns: steps as f64 * 2e5,
        steps_cost_ns: steps as f64 * 2e4,
        ..Seen::default()
    };
    sampler.began(&seen(0));
    sampler.ended(&seen(2));
    let wanted = (3..100_000).filter(|steps| sampler.wants(&seen(*steps))).count();
    assert!(sampler.stays().is_some() && wanted < 100, "{wanted}");
}
