//! Is a difference more than noise? Blocks of steps are drawn again and again, with repeats (a block bootstrap), and
//! what would have come out each time says how sure the difference is. It knows numbers only.

use super::series::{Blocks, coarser};

/// How often blocks are drawn.
const DRAWS: usize = 1000;

/// Fewer blocks than this say nothing of their spread.
const FEWEST: usize = 4;

/// Blocks are put together down to this many, while that shows more spread.
const COARSEST: usize = 8;

/// Neighbours that are more alike than this are no more to be told from a trend.
const MOST_ALIKE: f64 = 0.7;

/// How much of what was drawn is outside of an interval.
const OUTSIDE: f64 = 0.05;

/// A quantity a step, in both traces.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Change {
    /// In the first trace.
    pub a: f64,
    /// In the second.
    pub b: f64,
    /// The second without the first: where that is with 95 % confidence; `None` with too few steps to tell.
    pub interval: Option<(f64, f64)>,
    /// The same by the first; `None` too where it is not in both.
    pub relative_interval: Option<(f64, f64)>,
    /// How likely chance alone, and a difference below the noise that is let pass, make one as large; `None` with too
    /// few steps to tell.
    pub chance: Option<f64>,
}

impl Change {
    /// The second without the first.
    pub fn difference(&self) -> f64 {
        self.b - self.a
    }

    /// By the first; `None` where that is nothing.
    pub fn relative(&self) -> Option<f64> {
        (self.a > 0.0).then(|| self.difference() / self.a)
    }
}

/// One trace's side of the draws.
#[derive(Debug)]
struct Side {
    factor: usize,
    steps: Blocks,
    /// How often each block is in each draw.
    draws: Vec<Vec<f64>>,
    /// By how much draws of single blocks spread too little.
    widened: f64,
}

impl Side {
    fn mean(&self, sums: &[f64]) -> f64 {
        let steps: f64 = self.steps.iter().sum();
        if steps > 0.0 { sums.iter().sum::<f64>() / steps } else { 0.0 }
    }

    /// The mean of a draw, where that of all is known.
    fn drawn(&self, draw: usize, sums: &[f64], mean: f64) -> f64 {
        let times = self.draws.get(draw).map_or(&[][..], Vec::as_slice);
        let weighted = |of: &[f64]| of.iter().zip(times).map(|(of, times)| of * times).sum::<f64>();
        let steps = weighted(&self.steps);
        let drawn = if steps > 0.0 { weighted(sums) / steps } else { 0.0 };
        mean + (drawn - mean) * self.widened
    }
}

/// Two traces' steps of a phase, made ready to compare any quantity of them.
#[derive(Debug)]
pub(super) struct Resampler {
    a: Side,
    b: Side,
    /// The traces' steps are the same, one by one.
    pub(super) paired: bool,
}

impl Resampler {
    /// Of steps by block, and of the time that tells how long disturbances last.
    pub(super) fn new(a: (&Blocks, &Blocks), b: (&Blocks, &Blocks), paired: bool) -> Self {
        let grouping = |(steps, time): (&Blocks, &Blocks)| Grouping::new(steps, time);
        let [of_a, of_b] = if paired {
            // What both have in common is no noise.
            let apart: Blocks = a.1.iter().zip(b.1).map(|(a, b)| b - a).collect();
            [Grouping::new(a.0, &apart); 2]
        } else {
            [grouping(a), grouping(b)]
        };
        let mut random = fastrand::Rng::with_seed(0x5eed);
        let mut side = |(steps, _): (&Blocks, &Blocks), Grouping { factor, widened }: Grouping| {
            let steps = coarser(steps, factor);
            let draws = (0..DRAWS).map(|_| draw(steps.len(), &mut random)).collect();
            Side { factor, steps, draws, widened }
        };
        let (a, mut b) = (side(a, of_a), side(b, of_b));
        if paired {
            b.draws.clone_from(&a.draws);
        }
        Self { a, b, paired }
    }

    /// Compares sums by block. A difference of the part `noise` is let pass.
    pub(super) fn compare(&self, a: &[f64], b: &[f64], noise: f64) -> Change {
        let (a, b) = (coarser(a, self.a.factor), coarser(b, self.b.factor));
        let mut change = Change { a: self.a.mean(&a), b: self.b.mean(&b), ..Change::default() };
        let fewest = self.a.steps.len().min(self.b.steps.len());
        if fewest < FEWEST {
            return change;
        }
        let drawn: Vec<(f64, f64)> = {
            let drawn = |draw| (self.a.drawn(draw, &a, change.a), self.b.drawn(draw, &b, change.b));
            (0..DRAWS).map(drawn).collect()
        };
        let differences: Vec<f64> = drawn.iter().map(|(a, b)| b - a).collect();
        let mean = differences.iter().sum::<f64>() / DRAWS as f64;
        let spread = (differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / DRAWS as f64).sqrt();
        change.interval = Some(middle(differences, change.difference()));
        if change.a > 0.0 && change.b > 0.0 {
            let ratios = drawn.iter().filter(|(a, b)| *a > 0.0 && *b > 0.0).map(|(a, b)| b / a - 1.0).collect();
            change.relative_interval = Some(middle(ratios, change.b / change.a - 1.0));
        }
        let beyond = change.difference().abs() - noise * change.a.max(change.b);
        change.chance = Some(match beyond {
            beyond if beyond <= 0.0 => 1.0,
            beyond if spread <= beyond * 1e-9 => 0.0,
            beyond => two_tails(beyond / spread, fewest - 1),
        });
        change
    }
}

/// The middle 95 % of what was drawn.
fn middle(mut drawn: Vec<f64>, found: f64) -> (f64, f64) {
    drawn.sort_by(f64::total_cmp);
    let at = |part: f64| drawn.get((part * drawn.len() as f64) as usize).copied().unwrap_or(found);
    (at(OUTSIDE / 2.0), at(1.0 - OUTSIDE / 2.0))
}

/// How often each of so many blocks is drawn, drawing as many.
fn draw(blocks: usize, random: &mut fastrand::Rng) -> Vec<f64> {
    let mut times = vec![0.0; blocks];
    for _ in 0..blocks {
        times[random.usize(0..blocks)] += 1.0;
    }
    times
}

/// How many blocks are to be taken together, and by how much their draws spread too little.
#[derive(Debug, Clone, Copy)]
struct Grouping {
    factor: usize,
    widened: f64,
}

impl Grouping {
    /// Disturbances that last longer than a block make neighbours alike, and single blocks then show too little of the
    /// spread. So as many are taken together as make it largest (Flyvbjerg and Petersen 1989), and what is left of the
    /// likeness of neighbours is reckoned in.
    fn new(steps: &Blocks, time: &Blocks) -> Self {
        let factors = std::iter::successors(Some(1), |factor| Some(factor * 2));
        let factors = factors.take_while(|factor| *factor == 1 || steps.len() / factor >= COARSEST);
        let offs = factors.map(|factor| (factor, offs(&coarser(steps, factor), &coarser(time, factor))));
        let error = |offs: &[f64]| {
            let n = offs.len() as f64;
            offs.iter().map(|off| off * off).sum::<f64>() * n / (n - 1.0).max(1.0)
        };
        let found = offs.max_by(|a, b| error(&a.1).total_cmp(&error(&b.1)));
        let Some((factor, offs)) = found.filter(|(_, offs)| offs.len() > 1) else {
            return Self { factor: 1, widened: 1.0 };
        };
        let n = offs.len() as f64;
        let all: f64 = offs.iter().map(|off| off * off).sum();
        let alike = if all > 0.0 { offs.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / all } else { 0.0 };
        // Of a few numbers the likeness comes out too small.
        let alike = (alike + (1.0 + 3.0 * alike) / n).clamp(0.0, MOST_ALIKE);
        let alike = if all > 0.0 { alike } else { 0.0 };
        Self { factor, widened: (n / (n - 1.0) * (1.0 + alike) / (1.0 - alike)).sqrt() }
    }
}

/// By how much the sum of each block is off the mean of its steps.
fn offs(steps: &[f64], time: &[f64]) -> Vec<f64> {
    let mean = time.iter().sum::<f64>() / steps.iter().sum::<f64>().max(1.0);
    time.iter().zip(steps).map(|(time, steps)| time - mean * steps).collect()
}

/// How likely Student's t is beyond ±t (Abramowitz and Stegun 26.7.3 and 26.7.4: exact for whole degrees of freedom).
fn two_tails(t: f64, freedom: usize) -> f64 {
    let freedom = freedom.max(1);
    let angle = (t / (freedom as f64).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let odd = freedom % 2 == 1;
    let (mut term, mut sum) = if odd { (cosine, cosine) } else { (1.0, 1.0) };
    let mut k = if odd { 3 } else { 2 };
    while k + 1 < freedom + usize::from(!odd) {
        term *= cosine * cosine * (k - 1) as f64 / k as f64;
        sum += term;
        k += 2;
    }
    let inside = match (odd, freedom) {
        (true, 1) => angle * std::f64::consts::FRAC_2_PI,
        (true, _) => (angle + sine * sum) * std::f64::consts::FRAC_2_PI,
        (false, _) => sine * sum,
    };
    (1.0 - inside).clamp(0.0, 1.0)
}

/// Of many differences some look large by chance. Gives each chance raised by how many were looked at, so that of those
/// below a level no larger part is expected to be chance (Benjamini and Hochberg 1995).
pub(super) fn among_many(chances: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<(usize, f64)> = chances.iter().enumerate().filter_map(|(at, p)| Some((at, (*p)?))).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let many = order.len() as f64;
    let mut raised = vec![None; chances.len()];
    let mut least: f64 = 1.0;
    for (rank, (at, chance)) in order.into_iter().enumerate().rev() {
        least = least.min(chance * many / (rank as f64 + 1.0));
        raised[at] = Some(least);
    }
    raised
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_those_of_the_tables() {
        for (t, freedom, expected) in [
            (12.706, 1, 0.05),
            (4.303, 2, 0.05),
            (3.182, 3, 0.05),
            (2.776, 4, 0.05),
            (2.571, 5, 0.05),
            (3.499, 7, 0.01),
            (2.042, 30, 0.05),
            (2.750, 30, 0.01),
            (1.998, 62, 0.05),
            (1.998, 63, 0.05),
            (0.0, 9, 1.0),
        ] {
            assert!((two_tails(t, freedom) - expected).abs() < 2e-4, "{t} {freedom}: {}", two_tails(t, freedom));
        }
    }

    #[test]
    fn chances_among_many_are_raised() {
        let raised = among_many(&[Some(0.01), None, Some(0.04), Some(0.03), Some(0.5)]);
        let expected = [Some(0.04), None, Some(0.04 * 4.0 / 3.0), Some(0.04 * 4.0 / 3.0), Some(0.5)];
        for (raised, expected) in raised.iter().zip(expected) {
            assert!((raised.unwrap_or(-1.0) - expected.unwrap_or(-1.0)).abs() < 1e-12, "{raised:?} {expected:?}");
        }
    }

    /// Sums of steps that differ by `spread`, with disturbances that last for several steps.
    fn noisy(random: &mut fastrand::Rng, mean: f64, spread: f64) -> (Blocks, Blocks) {
        let mut level = 0.0;
        let step = |_| {
            level = 0.8 * level + spread * (random.f64() - 0.5);
            mean * (1.0 + level)
        };
        (vec![1.0; 60], (0..90).map(step).skip(30).collect())
    }

    #[test]
    fn equal_traces_seldom_differ_and_different_ones_mostly_do() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut found = |second: f64| {
            let wrong = (0..200).filter(|_| {
                let (a, b) = (noisy(&mut random, 100.0, 0.1), noisy(&mut random, second, 0.1));
                let resampler = Resampler::new((&a.0, &a.1), (&b.0, &b.1), false);
                resampler.compare(&a.1, &b.1, 0.0).chance.unwrap() < 0.05
            });
            wrong.count()
        };
        let (equal, other) = (found(100.0), found(115.0));
        assert!(equal <= 20, "{equal} of 200 equal ones");
        assert!(other >= 180, "{other} of 200 different ones");
    }

    #[test]
    fn a_trace_does_not_differ_from_itself_and_too_few_steps_tell_nothing() {
        let mut random = fastrand::Rng::with_seed(3);
        let (steps, sums) = noisy(&mut random, 50.0, 0.5);
        let resampler = Resampler::new((&steps, &sums), (&steps, &sums), true);
        let change = resampler.compare(&sums, &sums, 0.0);
        assert_eq!((change.difference(), change.interval, change.chance), (0.0, Some((0.0, 0.0)), Some(1.0)));
        let (steps, sums) = (vec![1.0; 3], vec![5.0, 6.0, 7.0]);
        let change = Resampler::new((&steps, &sums), (&steps, &sums), false).compare(&sums, &[1.0; 3], 0.0);
        assert_eq!((change.a, change.b, change.interval, change.chance), (6.0, 1.0, None, None));
    }

    #[test]
    fn what_never_varies_is_certain_beyond_the_noise_that_is_let_pass() {
        let steps = vec![1.0; 20];
        let resampler = Resampler::new((&steps, &vec![100.0; 20]), (&steps, &vec![100.0; 20]), false);
        let chance = |b: f64| resampler.compare(&[100.0; 20], &[b; 20], 0.02).chance;
        assert_eq!([101.0, 103.0, 0.0].map(chance), [Some(1.0), Some(0.0), Some(0.0)]);
    }
}
