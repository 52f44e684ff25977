//! Is a difference more than noise? Blocks of steps are drawn again and again, with repeats (a block bootstrap), and
//! what would have come out each time shows how certain the difference is. It works on numbers only.

use super::series::{Blocks, coarser};

/// How often blocks are drawn.
const DRAWS: usize = 1000;

/// Blocks that an interval needs.
const MIN_BLOCKS: usize = 4;

/// Blocks are put together down to this many, while that shows more spread.
const COARSEST: usize = 8;

/// Upper bound of the correlation of neighbours; beyond, it is a trend.
const MAX_CORRELATION: f64 = 0.7;

/// How much of what was drawn is outside of an interval, and how many standard deviations from the middle that begins.
const OUTSIDE: f64 = 0.05;
const Z: f64 = 1.96;
/// Equal traces give equal answers.
const SEED: u64 = 0x5eed;

/// A quantity a step, in both traces.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Change {
    /// In the first trace.
    pub a: f64,
    /// In the second.
    pub b: f64,
    /// The second without the first: where that is with 95 % confidence; `None` with too few steps.
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

/// Blocks of a trace's steps: how many, how long, and which are equal in size.
#[derive(Debug, Clone, Copy)]
pub(super) struct Steps<'a> {
    pub(super) steps: &'a [f64],
    pub(super) time: &'a [f64],
    pub(super) groups: &'a [usize],
}

/// What is let pass of a difference.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Allowed {
    /// This part
    pub(super) part: f64,
    /// of so much; of the larger of both, where left out.
    pub(super) of: Option<f64>,
    /// Variance beside that of the steps.
    pub(super) variance: f64,
}

/// One trace's side of the draws.
#[derive(Debug)]
struct Side {
    factor: usize,
    /// Steps of the finest blocks, and their groups.
    fine: Vec<f64>,
    groups: Vec<usize>,
    /// Steps of blocks that were put together.
    steps: Blocks,
    /// How often each block is in each draw.
    draws: Draws,
    /// By how much draws of single blocks spread too little.
    widened: f64,
}

impl Side {
    fn mean(&self, sums: &[f64]) -> f64 {
        let steps: f64 = self.fine.iter().sum();
        if steps > 0.0 { sums.iter().sum::<f64>() / steps } else { 0.0 }
    }

    /// Means of all draws.
    fn drawn(&self, sums: &[f64], mean: f64) -> Vec<f64> {
        let offs = coarser(&offs(&self.fine, sums, &self.groups), self.factor);
        let pairs: Vec<(f64, f64)> = self.steps.iter().copied().zip(offs).collect();
        let drawn = |(steps, off): (f64, f64)| mean + if steps > 0.0 { off / steps * self.widened } else { 0.0 };
        self.draws.sums(&pairs).map(drawn).collect()
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
    pub(super) fn new(a: Steps<'_>, b: Steps<'_>, paired: bool) -> Self {
        let [of_a, of_b] = if paired {
            // What both have in common is no noise.
            let apart: Blocks = a.time.iter().zip(b.time).map(|(a, b)| b - a).collect();
            [Grouping::new(&Steps { time: &apart, ..a }); 2]
        } else {
            [Grouping::new(&a), Grouping::new(&b)]
        };
        let mut random = fastrand::Rng::with_seed(SEED);
        let mut side = |of: Steps<'_>, Grouping { factor, widened }: Grouping| {
            let steps = coarser(of.steps, factor);
            let draws = Draws::drawn(steps.len(), &mut random);
            Side { factor, fine: of.steps.to_vec(), groups: of.groups.to_vec(), steps, draws, widened }
        };
        let (a, mut b) = (side(a, of_a), side(b, of_b));
        if paired {
            b.draws.clone_from(&a.draws);
        }
        Self { a, b, paired }
    }

    /// There are too few steps of equal size to compare anything.
    pub(super) fn has_too_few(&self) -> bool {
        let spare = |side: &Side| (side.fine.len() + 1).saturating_sub(groups(&side.groups));
        spare(&self.a).min(spare(&self.b)) < MIN_BLOCKS
    }

    /// Compares sums by block.
    pub(super) fn compare(&self, a: &[f64], b: &[f64], allowed: Allowed) -> Change {
        let mut change = Change { a: self.a.mean(a), b: self.b.mean(b), ..Change::default() };
        if self.has_too_few() {
            return change;
        }
        let drawn: Vec<(f64, f64)> = self.a.drawn(a, change.a).into_iter().zip(self.b.drawn(b, change.b)).collect();
        let differences: Vec<f64> = drawn.iter().map(|(a, b)| b - a).collect();
        let Some((low, high, of_steps)) = spread(&differences, change.difference()) else { return change };
        let besides = allowed.variance.max(0.0).sqrt();
        let found = change.difference();
        let wider = |off: f64| off.hypot(Z * besides);
        change.interval =
            Some(if besides > 0.0 { (found - wider(found - low), found + wider(high - found)) } else { (low, high) });
        if change.a > 0.0 && change.b > 0.0 {
            let ratios: Vec<f64> =
                drawn.iter().filter(|(a, b)| *a > 0.0 && *b > 0.0).map(|(a, b)| b / a - 1.0).collect();
            change.relative_interval = spread(&ratios, change.b / change.a - 1.0).map(|(low, high, _)| (low, high));
        }
        let beyond = change.difference().abs() - allowed.part * allowed.of.unwrap_or(change.a.max(change.b));
        let fewest = self.a.steps.len().min(self.b.steps.len());
        change.chance = Some(chance(beyond, of_steps.hypot(besides), fewest.saturating_sub(1)));
        change
    }
}

/// How often blocks are in each draw.
#[derive(Debug, Clone, Default)]
pub(super) struct Draws(Vec<Vec<f64>>);

impl Draws {
    /// Of so many blocks, always the same.
    pub(super) fn new(blocks: usize) -> Self {
        Self::drawn(blocks, &mut fastrand::Rng::with_seed(SEED))
    }

    fn drawn(blocks: usize, random: &mut fastrand::Rng) -> Self {
        Self((0..DRAWS).map(|_| draw(blocks, random)).collect())
    }

    /// The sums of both numbers in each draw.
    pub(super) fn sums(&self, pairs: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> {
        let sum = |(a, b): (f64, f64), (times, pair): (&f64, &(f64, f64))| (a + times * pair.0, b + times * pair.1);
        self.0.iter().map(move |times| times.iter().zip(pairs).fold((0.0, 0.0), sum))
    }
}

/// The middle 95 % of what was drawn, and its standard deviation.
pub(super) fn spread(drawn: &[f64], found: f64) -> Option<(f64, f64, f64)> {
    let mut sorted = drawn.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |part: f64| sorted.get((part * sorted.len() as f64) as usize).copied().unwrap_or(found);
    let mean = drawn.iter().sum::<f64>() / drawn.len().max(1) as f64;
    let variance = drawn.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / drawn.len().max(1) as f64;
    (!drawn.is_empty()).then(|| (at(OUTSIDE / 2.0), at(1.0 - OUTSIDE / 2.0), variance.sqrt()))
}

/// How likely chance makes a difference that is so far beyond what is let pass.
pub(super) fn chance(beyond: f64, spread: f64, freedom: usize) -> f64 {
    match beyond {
        beyond if beyond <= 0.0 => 1.0,
        beyond if spread <= beyond * 1e-9 => 0.0,
        beyond => two_tails(beyond / spread, freedom),
    }
}

/// How often each of so many blocks is drawn, drawing as many.
fn draw(blocks: usize, random: &mut fastrand::Rng) -> Vec<f64> {
    let mut times = vec![0.0; blocks];
    for _ in 0..blocks {
        times[random.usize(0..blocks)] += 1.0;
    }
    times
}

/// How many groups there are.
fn groups(groups: &[usize]) -> usize {
    groups.iter().collect::<std::collections::BTreeSet<_>>().len()
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
    /// likeness of neighbours is computed in; so is that each group's mean is taken from the same blocks.
    fn new(of: &Steps<'_>) -> Self {
        let fine = offs(of.steps, of.time, of.groups);
        let factors = std::iter::successors(Some(1), |factor| Some(factor * 2));
        let factors = factors.take_while(|factor| *factor == 1 || fine.len() / factor >= COARSEST);
        let offs = factors.map(|factor| (factor, coarser(&fine, factor)));
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
        let alike = (alike + (1.0 + 3.0 * alike) / n).clamp(0.0, MAX_CORRELATION);
        let alike = if all > 0.0 { alike } else { 0.0 };
        let (blocks, groups) = (fine.len() as f64, groups(of.groups) as f64);
        let of_groups = (blocks - 1.0) / (blocks - groups).max(1.0);
        Self { factor, widened: (n / (n - 1.0) * of_groups * (1.0 + alike) / (1.0 - alike)).sqrt() }
    }
}

/// By how much the sum of each block is off the mean of the steps of its group.
fn offs(steps: &[f64], time: &[f64], groups: &[usize]) -> Blocks {
    let mut sums = vec![(0.0, 0.0); groups.iter().max().map_or(0, |most| most + 1)];
    for ((steps, time), group) in steps.iter().zip(time).zip(groups) {
        sums[*group] = (sums[*group].0 + steps, sums[*group].1 + time);
    }
    let means: Vec<f64> = sums.iter().map(|(steps, time)| if *steps > 0.0 { time / steps } else { 0.0 }).collect();
    let off = |((steps, time), group): ((&f64, &f64), &usize)| time - means[*group] * steps;
    steps.iter().zip(time).zip(groups).map(off).collect()
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

/// Of many differences some are large by chance. Gives each chance raised by how many were compared, so that of those
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

    /// All steps are of one size.
    fn of<'a>(steps: &'a [f64], time: &'a [f64], groups: &'a [usize]) -> Steps<'a> {
        Steps { steps, time, groups: &groups[..steps.len()] }
    }

    const ONE: [usize; 64] = [0; 64];
    const NONE: Allowed = Allowed { part: 0.0, of: None, variance: 0.0 };

    #[test]
    fn equal_traces_seldom_differ_and_different_ones_mostly_do() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut found = |second: f64| {
            let wrong = (0..200).filter(|_| {
                let (a, b) = (noisy(&mut random, 100.0, 0.1), noisy(&mut random, second, 0.1));
                let resampler = Resampler::new(of(&a.0, &a.1, &ONE), of(&b.0, &b.1, &ONE), false);
                resampler.compare(&a.1, &b.1, NONE).chance.unwrap() < 0.05
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
        let resampler = Resampler::new(of(&steps, &sums, &ONE), of(&steps, &sums, &ONE), true);
        let change = resampler.compare(&sums, &sums, NONE);
        assert_eq!((change.difference(), change.interval, change.chance), (0.0, Some((0.0, 0.0)), Some(1.0)));
        let (steps, sums) = (vec![1.0; 3], vec![5.0, 6.0, 7.0]);
        let few = Resampler::new(of(&steps, &sums, &ONE), of(&steps, &sums, &ONE), false);
        let change = few.compare(&sums, &[1.0; 3], NONE);
        assert!(few.has_too_few());
        assert_eq!((change.a, change.b, change.interval, change.chance), (6.0, 1.0, None, None));
    }

    #[test]
    fn what_never_varies_is_certain_beyond_the_noise_that_is_let_pass() {
        let steps = vec![1.0; 20];
        let resampler = Resampler::new(of(&steps, &[100.0; 20], &ONE), of(&steps, &[100.0; 20], &ONE), false);
        let chance = |b: f64| resampler.compare(&[100.0; 20], &[b; 20], Allowed { part: 0.02, ..NONE }).chance;
        assert_eq!([101.0, 103.0, 0.0].map(chance), [Some(1.0), Some(0.0), Some(0.0)]);
        // Of a whole: this is a small part of it; what else is uncertain makes it less certain.
        let of_whole = Allowed { part: 0.02, of: Some(1000.0), variance: 0.0 };
        assert_eq!(resampler.compare(&[100.0; 20], &[110.0; 20], of_whole).chance, Some(1.0));
        let uncertain = resampler.compare(&[100.0; 20], &[110.0; 20], Allowed { variance: 100.0, ..NONE });
        assert!(uncertain.chance.unwrap() > 0.3, "{uncertain:?}");
        assert!(uncertain.interval.unwrap().0 < -9.0 && uncertain.interval.unwrap().1 > 29.0, "{uncertain:?}");
    }

    /// Steps of two sizes, in another mixture: what is equal in size is equal in time.
    #[test]
    fn steps_of_other_sizes_are_no_noise() {
        let mut random = fastrand::Rng::with_seed(9);
        let groups: Vec<usize> = (0..40).map(|at| at % 2).collect();
        let mut times = |factor: f64| -> Blocks {
            groups.iter().map(|group| [100.0, 900.0][*group] * factor * (0.99 + random.f64() * 0.02)).collect()
        };
        let (a, b, slower) = (times(1.0), times(1.0), times(1.05));
        let steps = vec![1.0; 40];
        let chance = |a: &[f64], b: &[f64], groups: &[usize]| {
            let resampler = Resampler::new(of(&steps, a, groups), of(&steps, b, groups), false);
            resampler.compare(a, b, NONE).chance.unwrap()
        };
        assert!(chance(&a, &b, &groups) > 0.05);
        assert!(chance(&a, &slower, &groups) < 1e-6);
        assert!(chance(&a, &slower, &ONE) > 0.05, "without sizes it is lost in the mixture");
    }
}
