//! The cycle of operators that explains a thread's recording: what it computes again and again.
//!
//! Each operator is a symbol: what is known of it, and the tensor that it reads each time, such as its weights, by which
//! equal layers differ. A symbol cuts the sequence into parts, from each of its occurrences to the next. Its parts that
//! come more than once are repetitions (as in Nevill-Manning and Witten's Sequitur, but of one level only). The time and
//! the number of their operators are what the symbol explains (decision 160). The symbol that explains the most is the
//! best; of those that explain most of the same operators, the rarest is taken: its cycle contains the others'. Of
//! equally rare ones, the one with the longest time before it begins a step; if none is clearly the longest, the one
//! with which most cycles are whole.

use super::bucket::RawOperator;
use super::operator_key::{By, FEWEST, Key};
use super::rereads::Rereads;
use rustc_hash::{FxHashMap, FxHasher};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

/// Symbols that are tried as the first of a step.
const MOST_TRIED: usize = 32;
/// Of ten parts, those that come more than once; also of what the best symbol explains, what a rarer one has to.
const MOST_OF_TEN: u64 = 7;
/// Operators of one step.
const MOST_OPERATORS: usize = 1 << 14;
/// A step that has other operators than most has at most so many times as many: what has more is no step, such as
/// loading that begins with the same operator.
const LONGEST: usize = 2;
/// Times before an operator that are compared.
const MOST_TIMES: usize = 256;
/// A time before an operator is clearly the longest if it is so many times as long as another.
const MUCH_LONGER: u64 = 3;
/// Cycles are looked for so often, each time without the tensors that alternated in the one before.
const MOST_ROUNDS: usize = 4;
/// Functions explain so much more than descriptions where shapes differ from step to step.
const BY_FUNCTION: u128 = 10;
/// What reads the same tensors each time uses a model. It is preferred to what explains up to so many times as much:
/// compiling or loading it.
const REREADS: u128 = 10;

/// The stretches of a recording between periods without records.
pub(super) struct Stretches<'s> {
    /// The number of that in which an instant lies.
    pub(super) of: &'s dyn Fn(u64) -> u32,
    /// The latest one's.
    pub(super) latest: u32,
}

impl Stretches<'_> {
    #[cfg(test)]
    pub(super) fn one() -> Self {
        Stretches { of: &|_| 0, latest: 0 }
    }
}

/// A step that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) thread: u32,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// What was found among some operators.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    /// By start.
    pub(super) steps: Vec<Cut>,
    /// When a step began that may go on after these operators.
    pub(super) open: Option<u64>,
}

/// An operator, and the tensor that it reads each time; 0: none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Symbol {
    key: Key,
    tensor: u64,
}

/// Whether operators begin with the same ones. Not compared is what these read: addresses of tensors that are freed are
/// used again, and some seem to be read each time.
fn begins_with(all: &[Symbol], first: &[Symbol]) -> bool {
    all.len() >= first.len() && all.iter().zip(first).all(|(one, other)| one.key == other.key)
}

/// A cycle may be several repetitions of a shorter one, in which some operators read another tensor each time: one of two
/// buffers for inputs, in turn. Those tensors; none where most of what is read differs, as in equal layers with weights of
/// their own.
fn alternating(cycle: &[Symbol]) -> BTreeSet<u64> {
    let periods = (2..=cycle.len() / 2).filter(|period| cycle.len().is_multiple_of(*period));
    for period in periods {
        let pairs = || cycle.iter().zip(cycle.iter().skip(period));
        if !pairs().all(|(one, other)| one.key == other.key) {
            continue;
        }
        let both_read = || pairs().filter(|(one, other)| one.tensor != 0 && other.tensor != 0);
        let all = both_read().count() as u64;
        let differing: Vec<_> = both_read().filter(|(one, other)| one.tensor != other.tensor).collect();
        let same = all - differing.len() as u64;
        if same > 0 && same * 10 >= all * MOST_OF_TEN {
            return differing.into_iter().flat_map(|(one, other)| [one.tensor, other.tensor]).collect();
        }
    }
    BTreeSet::new()
}

/// From an occurrence of a symbol to the next one, or to the end of the stretch.
#[derive(Debug, Clone, Copy)]
struct Part {
    from: usize,
    to: usize,
    is_end: bool,
}

/// The outermost operators of a thread, by start.
#[derive(Debug)]
pub(super) struct Sequence<'o> {
    operators: Vec<&'o RawOperator>,
    /// Those that lie in each of them, too.
    inner: Vec<&'o RawOperator>,
    /// Where those of each one end among them.
    inner_ends: Vec<usize>,
    /// Where stretches without unrecorded periods end among them, the last one included.
    ends: Vec<usize>,
    /// No more operators come to the last stretch.
    is_over: bool,
}

impl<'o> Sequence<'o> {
    /// Each thread's; without parts of operators of other threads.
    pub(super) fn of_threads(
        operators: &'o [RawOperator],
        stretches: &Stretches<'_>,
        last: bool,
    ) -> BTreeMap<u32, Self> {
        let mut threads: BTreeMap<u32, Vec<&RawOperator>> = BTreeMap::new();
        for operator in operators.iter().filter(|operator| !operator.is_share) {
            threads.entry(operator.thread).or_default().push(operator);
        }
        threads.into_iter().map(|(thread, operators)| (thread, Self::new(operators, stretches, last))).collect()
    }

    fn new(mut inner: Vec<&'o RawOperator>, stretches: &Stretches<'_>, last: bool) -> Self {
        inner.sort_by_key(|operator| (operator.start, Reverse(operator.end)));
        let (mut operators, mut inner_ends): (Vec<&RawOperator>, Vec<usize>) = Default::default();
        let mut until = 0;
        for (at, operator) in inner.iter().enumerate() {
            if operator.start >= until {
                inner_ends.extend((at > 0).then_some(at));
                operators.push(operator);
            }
            until = until.max(operator.end);
        }
        inner_ends.push(inner.len());
        let numbers: Vec<u32> = operators.iter().map(|operator| (stretches.of)(operator.start)).collect();
        let changes = numbers.windows(2).enumerate().filter(|(_, pair)| pair.first() != pair.last());
        let ends = changes.map(|(at, _)| at + 1).chain([operators.len()]).collect();
        let is_over = last || numbers.last().is_some_and(|number| *number < stretches.latest);
        Self { operators, inner, inner_ends, ends, is_over }
    }

    /// How many outermost operators.
    pub(super) fn len(&self) -> usize {
        self.operators.len()
    }

    /// The functions, or objects, of the operators.
    pub(super) fn functions(&self) -> BTreeSet<Key> {
        self.operators.iter().map(|operator| By::Function.key(operator)).collect()
    }

    fn symbols(&self, by: By, rereads: &Rereads) -> Vec<Symbol> {
        let mut from = 0;
        let one = |(operator, end): (&&RawOperator, &usize)| {
            let inner = self.inner.get(from..*end).unwrap_or_default();
            from = *end;
            Symbol { key: by.key(operator), tensor: rereads.tensor_of(inner) }
        };
        self.operators.iter().zip(&self.inner_ends).map(one).collect()
    }

    fn parts(&self, symbols: &[Symbol], first: Symbol) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut from = 0;
        for end in &self.ends {
            let stretch = symbols.iter().enumerate().take(*end).skip(from);
            let here: Vec<usize> = stretch.filter(|(_, symbol)| **symbol == first).map(|(at, _)| at).collect();
            let next = here.iter().copied().skip(1).map(|at| (at, false)).chain([(*end, true)]);
            parts.extend(here.iter().zip(next).map(|(from, (to, is_end))| Part { from: *from, to, is_end }));
            from = *end;
        }
        parts
    }
}

/// What a thread computes again and again.
#[derive(Debug)]
pub(super) struct Cycle {
    by: By,
    rereads: Rereads,
    first: Symbol,
    /// The sequence that came most often.
    sequence: Vec<Symbol>,
}

/// A cycle that was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) cycle: Cycle,
    /// It reads the same tensors each time.
    pub(super) rereads: bool,
    pub(super) explained: Explained,
}

impl Cycle {
    /// Whether another thread computes the same sequence by itself, perhaps with other tensors.
    pub(super) fn is_computed_by(&self, sequence: &Sequence<'_>) -> bool {
        let operators = &sequence.operators;
        if operators.iter().any(|operator| operator.lane.is_some() || operator.object.is_some()) {
            return false;
        }
        let keys: Vec<Key> = operators.iter().map(|operator| self.by.key(operator)).collect();
        let own: Vec<Key> = self.sequence.iter().map(|symbol| symbol.key).collect();
        let mut left = keys.as_slice();
        let mut within = 0;
        while let Some((_, rest)) = left.split_first() {
            let after = left.strip_prefix(own.as_slice());
            within += if after.is_some() { own.len() as u64 } else { 0 };
            left = after.unwrap_or(rest);
        }
        within * 10 >= keys.len() as u64 * MOST_OF_TEN
    }

    /// Adds a thread's repetitions of it.
    pub(super) fn cut(&self, thread: u32, sequence: &Sequence<'_>, cuts: &mut Cuts) {
        let symbols = sequence.symbols(self.by, &self.rereads);
        for Part { from, to, is_end } in sequence.parts(&symbols, self.first) {
            let operators = sequence.operators.get(from..to).unwrap_or_default();
            let Some(start) = operators.first().map(|operator| operator.start) else { continue };
            let is_whole = symbols.get(from..to).is_some_and(|part| begins_with(part, &self.sequence));
            if !is_whole && operators.len() > LONGEST * self.sequence.len() {
                continue;
            }
            if !is_whole && is_end {
                if to == symbols.len() && !sequence.is_over {
                    cuts.open = Some(cuts.open.map_or(start, |open| open.min(start)));
                    continue;
                }
                // The recording ended within it, or paused.
                if operators.len() < self.sequence.len() {
                    continue;
                }
            }
            // What comes after the whole sequence, and before the next one, belongs to neither.
            let many = if is_whole { self.sequence.len() } else { operators.len() };
            let end = operators.iter().take(many).map(|operator| operator.end).max();
            cuts.steps.push(Cut { thread, start, end: end.unwrap_or(start) });
        }
    }

    /// The one that explains most of a sequence: by descriptions, unless functions explain much more.
    pub(super) fn find(sequence: &Sequence<'_>) -> Option<Found> {
        let described = Self::find_by(sequence, By::Description);
        let called = Self::find_by(sequence, By::Function);
        match (described, called) {
            (Some(described), Some(called)) => {
                let needed = described.explained.rank().saturating_mul(BY_FUNCTION);
                Some(if called.explained.rank() > needed { called } else { described })
            }
            (described, called) => described.or(called),
        }
    }

    fn find_by(sequence: &Sequence<'_>, by: By) -> Option<Found> {
        let mut rereads = Rereads::of(&sequence.inner);
        for _ in 1..MOST_ROUNDS {
            let found = Self::find_with(sequence, by, &rereads)?;
            let alternating = alternating(&found.cycle.sequence);
            if alternating.is_empty() {
                return Some(found);
            }
            rereads.forget(&alternating);
        }
        Self::find_with(sequence, by, &rereads)
    }

    fn find_with(sequence: &Sequence<'_>, by: By, rereads: &Rereads) -> Option<Found> {
        let symbols = sequence.symbols(by, rereads);
        let sums = Sums::new(sequence);
        let all = candidates(sequence, &symbols, &sums);
        let tried = alike(&all);
        let mut found: Vec<Repetition<'_>> =
            tried.into_iter().filter_map(|of| Repetition::new(of, sequence, &symbols, &sums)).collect();
        let best = found.iter().max_by_key(|of| (of.rank(), Reverse(of.candidate.first)))?;
        let (of_best, whole) = (sums.within(&best.repeated), best.explained);
        found.retain(|of| !whole.is_more_than(of_best.of(&of.repeated)));
        let fewest = found.iter().map(|of| of.candidate.count).min()?;
        // In the first and the last step, some of its operators may be missing.
        let rarest = found.into_iter().filter(|of| of.candidate.count <= fewest + 1);
        let taken = rarest.max_by_key(|of| of.candidate.rank())?;
        let begins = |of: &Candidate| {
            of.idle.saturating_mul(MUCH_LONGER) > taken.candidate.idle
                && of.count.abs_diff(taken.candidate.count) <= 1
                && of.first.abs_diff(taken.candidate.first) < taken.cycle.len()
        };
        let others = all.into_iter().filter(begins).take(MOST_TRIED);
        let others = others.filter_map(|of| Repetition::new(of, sequence, &symbols, &sums));
        let as_long: Vec<Repetition<'_>> = others.filter(|of| of.cycle.len() == taken.cycle.len()).collect();
        let whole = |of: &Repetition<'_>| (of.repeated.len(), of.candidate.rank());
        let taken = as_long.into_iter().chain([taken]).max_by_key(whole)?;
        let Repetition { candidate, cycle, rereads: any, explained, .. } = taken;
        let cycle = Self { by, rereads: rereads.clone(), first: candidate.symbol, sequence: cycle.to_vec() };
        Some(Found { cycle, rereads: any, explained })
    }
}

/// What is computed in some repetitions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Explained {
    /// Time of their operators, ns.
    time: u64,
    /// Operators, with those within others.
    operators: u64,
}

impl Explained {
    /// By both: making a large model takes long with few operators, and preparing one may take many that are short.
    pub(super) fn rank(self) -> u128 {
        u128::from(self.time) * u128::from(self.operators)
    }

    fn plus(self, other: Self) -> Self {
        let operators = self.operators.saturating_add(other.operators);
        Self { time: self.time.saturating_add(other.time), operators }
    }

    fn minus(self, other: Self) -> Self {
        let operators = self.operators.saturating_sub(other.operators);
        Self { time: self.time.saturating_sub(other.time), operators }
    }

    /// It explains what another does and much more.
    fn is_more_than(self, other: Self) -> bool {
        let much = |all: u64, part: u64| u128::from(part) * 10 < u128::from(all) * u128::from(MOST_OF_TEN);
        much(self.time, other.time) || much(self.operators, other.operators)
    }
}

/// What is computed up to each operator.
struct Sums(Vec<Explained>);

impl Sums {
    fn new(sequence: &Sequence<'_>) -> Self {
        let ends = sequence.operators.iter().zip(&sequence.inner_ends);
        let mut time = 0_u64;
        let sums = ends.map(|(operator, end)| {
            time = time.saturating_add(operator.end.saturating_sub(operator.start).max(1));
            Explained { time, operators: *end as u64 }
        });
        Self([Explained::default()].into_iter().chain(sums).collect())
    }

    /// Those of some parts only, which are in order.
    fn within(&self, parts: &[(usize, usize)]) -> Self {
        let mut sums = Vec::with_capacity(self.0.len());
        let mut sum = Explained::default();
        for (from, to) in parts {
            sums.resize((from + 1).max(sums.len()), sum);
            let part = (*from..*to).map(|at| sum.plus(self.of(&[(*from, at + 1)])));
            sums.extend(part);
            sum = sums.last().copied().unwrap_or_default();
        }
        sums.resize(self.0.len(), sum);
        Self(sums)
    }

    fn of(&self, parts: &[(usize, usize)]) -> Explained {
        let at = |at: usize| self.0.get(at).copied().unwrap_or_default();
        parts.iter().fold(Explained::default(), |sum, (from, to)| sum.plus(at(*to).minus(at(*from))))
    }
}

/// A symbol that may begin each step.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    symbol: Symbol,
    count: usize,
    first: usize,
    last: usize,
    /// Time of its operators.
    time: u64,
    /// How long nothing was computed before most of its occurrences.
    idle: u64,
}

impl Candidate {
    fn rank(&self) -> (u64, Reverse<usize>) {
        (self.idle, Reverse(self.first))
    }
}

/// How often a symbol comes, and how long nothing was computed before it, some times.
#[derive(Debug, Clone)]
struct Occurrences {
    first: usize,
    last: usize,
    count: usize,
    time: u64,
    idle: Vec<u64>,
}

impl Occurrences {
    /// Half of the times are longer: the first run of a model waits for much that others do not.
    fn median_idle(&mut self) -> u64 {
        let middle = self.idle.len() / 2;
        if self.idle.is_empty() { 0 } else { *self.idle.select_nth_unstable(middle).1 }
    }
}

/// Those symbols that come often enough.
fn candidates(sequence: &Sequence<'_>, symbols: &[Symbol], sums: &Sums) -> Vec<Candidate> {
    let mut seen: FxHashMap<Symbol, Occurrences> = FxHashMap::default();
    let mut before: Option<&RawOperator> = None;
    for (at, (symbol, operator)) in symbols.iter().zip(&sequence.operators).enumerate() {
        let none = || Occurrences { first: at, last: at, count: 0, time: 0, idle: Vec::new() };
        let of = seen.entry(*symbol).or_insert_with(none);
        (of.last, of.count) = (at, of.count + 1);
        of.time = of.time.saturating_add(sums.of(&[(at, at + 1)]).time);
        // Nothing is before the first operator of all, or of a stretch.
        if let Some(before) = before.filter(|_| of.idle.len() < MOST_TIMES)
            && sequence.ends.binary_search(&at).is_err()
        {
            of.idle.push(operator.start.saturating_sub(before.end));
        }
        before = Some(operator);
    }
    if seen.len() < 2 {
        return Vec::new();
    }
    let often = seen.into_iter().filter(|(_, of)| of.count >= FEWEST);
    let mut all: Vec<Candidate> = often
        .map(|(symbol, mut of)| {
            let idle = of.median_idle();
            let Occurrences { first, last, count, time, .. } = of;
            Candidate { symbol, count, first, last, time, idle }
        })
        .collect();
    all.sort_by_key(|of| (of.count, of.first));
    all
}

/// Of those that come equally often in the same time, the one with the longest time before it. Bounded: those whose
/// like have most of the time.
fn alike(all: &[Candidate]) -> Vec<Candidate> {
    let mut alike: Vec<Candidate> = Vec::new();
    for of in all {
        match alike.last_mut().filter(|before| before.count == of.count && of.first < before.last) {
            Some(before) => {
                let best = if of.rank() > before.rank() { *of } else { *before };
                let (last, time) = (before.last.max(of.last), before.time.saturating_add(of.time));
                *before = Candidate { last, time, ..best };
            }
            None => alike.push(*of),
        }
    }
    alike.sort_by_key(|of| (Reverse(of.time), of.first));
    alike.truncate(MOST_TRIED);
    alike
}

/// What a symbol explains.
struct Repetition<'s> {
    candidate: Candidate,
    /// The part that comes most often.
    cycle: &'s [Symbol],
    /// From, to: the parts that come more than once.
    repeated: Vec<(usize, usize)>,
    rereads: bool,
    explained: Explained,
}

impl<'s> Repetition<'s> {
    fn rank(&self) -> u128 {
        self.explained.rank().saturating_mul(if self.rereads { REREADS } else { 1 })
    }

    fn new(candidate: Candidate, of: &Sequence<'_>, symbols: &'s [Symbol], sums: &Sums) -> Option<Self> {
        let (mut parts, ends): (Vec<Part>, Vec<Part>) =
            of.parts(symbols, candidate.symbol).into_iter().partition(|part| !part.is_end);
        let hash = |part: &Part| {
            let mut hasher = FxHasher::default();
            let part = symbols.get(part.from..part.to).unwrap_or_default();
            part.iter().for_each(|symbol| symbol.key.hash(&mut hasher));
            hasher.finish()
        };
        let mut counts: FxHashMap<u64, (usize, Part)> = FxHashMap::default();
        for part in &parts {
            counts.entry(hash(part)).or_insert((0, *part)).0 += 1;
        }
        let most = counts.values().max_by_key(|(count, part)| (*count, part.to - part.from, Reverse(part.from)));
        let cycle = most.and_then(|(_, part)| symbols.get(part.from..part.to))?;
        let is_step = (2..=MOST_OPERATORS).contains(&cycle.len()) && cycle.iter().any(|of| *of != candidate.symbol);
        let all = parts.len() as u64;
        parts.retain(|part| counts.get(&hash(part)).is_some_and(|(count, _)| *count > 1));
        if !is_step || parts.len() as u64 * 10 < all * MOST_OF_TEN {
            return None;
        }
        // What ends a stretch goes on, or is the last one with what follows it.
        let is_whole = |part: &&Part| symbols.get(part.from..part.to).is_some_and(|part| begins_with(part, cycle));
        let last = ends.iter().filter(is_whole).map(|part| Part { to: part.from + cycle.len(), ..*part });
        let mut repeated: Vec<(usize, usize)> =
            parts.into_iter().chain(last).map(|part| (part.from, part.to)).collect();
        repeated.sort_unstable();
        let explained = sums.of(&repeated);
        let rereads = cycle.iter().any(|symbol| symbol.tensor != 0);
        Some(Self { candidate, cycle, repeated, rereads, explained })
    }
}
