//! Steps that no probe marks: a thread computes the same operators in the same order again and again, and each time is a
//! step. The operator that each step begins with is found in the first operators, and used from then on.
//!
//! Where a recording has periods without records, no step goes on from one stretch between them to the next.
//!
//! Of the operators that occur equally often, the one with the longest time before it begins a step. The rarest such
//! operator is taken between whose occurrences most operators come in a sequence that comes more than once.

use super::pending::RawOperator;
use rustc_hash::{FxHashMap, FxHasher};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

/// Occurrences of what begins a step.
const FEWEST: usize = 3;
/// Operators that are tried as the first of a step.
const MOST_TRIED: usize = 32;
/// Of ten operators, those in sequences that come more than once.
const REPEATED_OF_TEN: usize = 7;
/// Operators of one step.
const MOST_OPERATORS: usize = 1 << 14;
/// Times before an operator that are compared.
const MOST_TIMES: usize = 256;
/// Threads that run steps of their own.
const MOST_THREADS: usize = 16;
const NONE: u32 = u32::MAX;

/// What two operators have in common that are the same one at different times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    object: u32,
    inline: u32,
    record_type: u16,
    site: u16,
}

/// How operators without objects are distinguished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// By what was read of them: shapes, names.
    Description,
    /// By their function: where shapes differ from step to step.
    Function,
}

impl By {
    fn key(self, operator: &RawOperator) -> Key {
        let RawOperator { record_type, site, inline, .. } = *operator;
        match (operator.object, self) {
            (Some(object), _) => Key { object: object.0, inline: 0, record_type: 0, site: 0 },
            (None, Self::Description) => Key { object: NONE, inline, record_type, site: 0 },
            (None, Self::Function) => Key { object: NONE, inline: 0, record_type, site },
        }
    }
}

/// The outermost operators of a thread, by start.
#[derive(Debug)]
struct Sequence<'o> {
    operators: Vec<&'o RawOperator>,
    /// Where stretches without unrecorded periods end among them, the last one included.
    ends: Vec<usize>,
    /// No more operators come to the last stretch.
    is_over: bool,
}

impl<'o> Sequence<'o> {
    fn new(operators: Vec<&'o RawOperator>, stretches: &Stretches<'_>, last: bool) -> Self {
        let numbers: Vec<u32> = operators.iter().map(|operator| (stretches.of)(operator.start)).collect();
        let changes = numbers.windows(2).enumerate().filter(|(_, pair)| pair.first() != pair.last());
        let ends = changes.map(|(at, _)| at + 1).chain([operators.len()]).collect();
        let is_over = last || numbers.last().is_some_and(|number| *number < stretches.latest);
        Self { operators, ends, is_over }
    }

    fn keys(&self, by: By) -> Vec<Key> {
        self.operators.iter().map(|operator| by.key(operator)).collect()
    }

    /// From each occurrence of an operator to the next one, or to the end of the stretch; whether it is that.
    fn parts(&self, keys: &[Key], first: Key) -> Vec<(usize, usize, bool)> {
        let mut parts = Vec::new();
        let mut from = 0;
        for end in &self.ends {
            let here: Vec<usize> = (from..*end).filter(|at| keys[*at] == first).collect();
            let next = here.iter().copied().skip(1).map(|at| (at, false)).chain([(*end, true)]);
            parts.extend(here.iter().zip(next).map(|(at, (to, is_end))| (*at, to, is_end)));
            from = *end;
        }
        parts
    }
}

/// The stretches of a recording between periods without records.
pub(super) struct Stretches<'s> {
    /// The number of that in which an instant lies.
    pub(super) of: &'s dyn Fn(u64) -> u32,
    /// The latest one's.
    pub(super) latest: u32,
}

impl Stretches<'_> {
    #[cfg(test)]
    fn one() -> Self {
        Stretches { of: &|_| 0, latest: 0 }
    }
}

/// A thread that computes a sequence again and again.
#[derive(Debug, Clone)]
struct Leader {
    thread: u32,
    by: By,
    first: Key,
    /// The sequence that came most often.
    sequence: Vec<Key>,
}

/// The threads whose steps were found.
#[derive(Debug, Default)]
pub(super) struct Recurring {
    leaders: Vec<Leader>,
    /// Operators among which none were found.
    tried: usize,
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

impl Recurring {
    /// The threads that run steps.
    pub(super) fn threads(&self) -> Vec<u32> {
        self.leaders.iter().map(|leader| leader.thread).collect()
    }

    /// Whether threads were found that run steps.
    pub(super) fn any(&self) -> bool {
        !self.leaders.is_empty()
    }

    /// Whether so many operators are enough more than those among which nothing was found.
    pub(super) fn is_due(&self, operators: usize) -> bool {
        operators > 2 * self.tried
    }

    /// The steps among operators; `last`: no more come.
    pub(super) fn cut(&mut self, operators: &[RawOperator], stretches: &Stretches<'_>, last: bool) -> Cuts {
        let sequence = |(thread, operators)| (thread, Sequence::new(operators, stretches, last));
        let by_thread: BTreeMap<u32, Sequence<'_>> = outermost(operators).into_iter().map(sequence).collect();
        if self.leaders.is_empty() {
            self.leaders = leaders(&by_thread);
            self.tried = operators.len();
        }
        let mut cuts = Cuts::default();
        for leader in &self.leaders {
            if let Some(sequence) = by_thread.get(&leader.thread) {
                leader.cut(leader.thread, sequence, &mut cuts);
            }
        }
        self.cut_others(&by_thread, &mut cuts);
        cuts.steps.sort_by_key(|cut| (cut.start, cut.end));
        cuts
    }

    /// Steps that are run by other threads, such as the next one of a pool, while none is run by those.
    fn cut_others(&self, by_thread: &BTreeMap<u32, Sequence<'_>>, cuts: &mut Cuts) {
        let is_other = |thread: u32| self.leaders.iter().all(|leader| leader.thread != thread);
        let mut others: Vec<_> = by_thread.iter().filter(|(thread, _)| is_other(**thread)).collect();
        others.sort_by_key(|(thread, sequence)| (std::cmp::Reverse(sequence.operators.len()), **thread));
        for (thread, sequence) in others {
            for leader in &self.leaders {
                let mut found = Cuts::default();
                leader.cut(*thread, sequence, &mut found);
                let taken = Taken::of(cuts);
                found.steps.retain(|cut| !taken.overlaps(cut.start, cut.end));
                found.open = found.open.filter(|open| !taken.overlaps(*open, u64::MAX));
                cuts.steps.append(&mut found.steps);
                cuts.open = cuts.open.into_iter().chain(found.open).min();
            }
        }
    }
}

/// The times of steps.
struct Taken {
    /// By start; the latest end up to there.
    spans: Vec<(u64, u64)>,
}

impl Taken {
    fn of(cuts: &Cuts) -> Self {
        let open = cuts.open.map(|open| (open, u64::MAX));
        let mut spans: Vec<(u64, u64)> = cuts.steps.iter().map(|cut| (cut.start, cut.end)).chain(open).collect();
        spans.sort_unstable();
        let mut latest = 0;
        for (_, end) in &mut spans {
            latest = latest.max(*end);
            *end = latest;
        }
        Self { spans }
    }

    fn overlaps(&self, start: u64, end: u64) -> bool {
        let before = self.spans.partition_point(|(from, _)| *from < end);
        before.checked_sub(1).is_some_and(|at| self.spans[at].1 > start)
    }
}

impl Leader {
    /// Whether another thread computes the same sequence by itself.
    fn is_computed_by(&self, operators: &[&RawOperator]) -> bool {
        if operators.iter().any(|operator| operator.lane.is_some() || operator.object.is_some()) {
            return false;
        }
        let keys: Vec<Key> = operators.iter().map(|operator| self.by.key(operator)).collect();
        let whole = (0..keys.len()).filter(|at| keys[*at..].starts_with(&self.sequence)).count();
        whole * self.sequence.len() * 10 >= keys.len() * REPEATED_OF_TEN
    }

    fn cut(&self, thread: u32, sequence: &Sequence<'_>, cuts: &mut Cuts) {
        let operators = &sequence.operators;
        let keys = sequence.keys(self.by);
        for (from, to, is_open) in sequence.parts(&keys, self.first) {
            let more_come = is_open && to == keys.len() && !sequence.is_over;
            let mut until = to;
            // What comes after the whole sequence, and before the next one, belongs to neither.
            if keys[from..to].starts_with(&self.sequence) {
                until = from + self.sequence.len();
            } else if more_come {
                cuts.open = Some(cuts.open.map_or(operators[from].start, |open| open.min(operators[from].start)));
                continue;
            } else if is_open && until - from < self.sequence.len() {
                // The recording ended within it, or paused.
                continue;
            }
            let end = operators[from..until].iter().map(|operator| operator.end).max();
            let start = operators[from].start;
            cuts.steps.push(Cut { thread, start, end: end.unwrap_or(start) });
        }
    }
}

/// Each thread's operators that lie in no other one, by start; without parts of those of other threads.
fn outermost(operators: &[RawOperator]) -> BTreeMap<u32, Vec<&RawOperator>> {
    let mut threads: BTreeMap<u32, Vec<&RawOperator>> = BTreeMap::new();
    for operator in operators.iter().filter(|operator| !operator.is_share) {
        threads.entry(operator.thread).or_default().push(operator);
    }
    for operators in threads.values_mut() {
        operators.sort_by_key(|operator| (operator.start, std::cmp::Reverse(operator.end)));
        let mut until = 0;
        operators.retain(|operator| {
            let is_outermost = operator.start >= until;
            until = until.max(operator.end);
            is_outermost
        });
    }
    threads
}

/// The thread with the most operators, and others that share none with it, or that compute the same sequence each for
/// itself: operators that have neither lane nor object are no two threads'.
fn leaders(by_thread: &BTreeMap<u32, Sequence<'_>>) -> Vec<Leader> {
    let mut threads: Vec<(&u32, &Sequence<'_>)> = by_thread.iter().collect();
    threads.sort_by_key(|(thread, sequence)| (std::cmp::Reverse(sequence.operators.len()), **thread));
    let mut taken: BTreeSet<Key> = BTreeSet::new();
    let mut found: Vec<Leader> = Vec::new();
    for (thread, sequence) in threads {
        let operators = &sequence.operators;
        let keys: BTreeSet<Key> = operators.iter().map(|operator| By::Function.key(operator)).collect();
        if found.len() >= MOST_THREADS {
            break;
        }
        if !keys.is_disjoint(&taken) {
            let same = found.iter().find(|leader| leader.is_computed_by(operators)).cloned();
            found.extend(same.map(|leader| Leader { thread: *thread, ..leader }));
            continue;
        }
        let leader = [By::Description, By::Function].into_iter().find_map(|by| leader(*thread, sequence, by));
        if let Some(leader) = leader {
            taken.extend(keys);
            found.push(leader);
        }
    }
    found
}

/// How often an operator comes, and how long nothing was computed before it, some times.
#[derive(Debug, Clone)]
struct Occurrences {
    first: usize,
    count: usize,
    idle: Vec<u64>,
}

impl Occurrences {
    /// Half of the times are longer: the first run of a model waits for much that others do not.
    fn median_idle(&mut self) -> u64 {
        let middle = self.idle.len() / 2;
        if self.idle.is_empty() { 0 } else { *self.idle.select_nth_unstable(middle).1 }
    }
}

fn leader(thread: u32, sequence: &Sequence<'_>, by: By) -> Option<Leader> {
    let operators = &sequence.operators;
    let keys = sequence.keys(by);
    let mut seen: FxHashMap<Key, Occurrences> = FxHashMap::default();
    for (at, key) in keys.iter().enumerate() {
        let of = seen.entry(*key).or_insert(Occurrences { first: at, count: 0, idle: Vec::new() });
        of.count += 1;
        // Nothing is before the first operator of all, or of a stretch.
        if let Some(before) = at.checked_sub(1).and_then(|before| operators.get(before))
            && sequence.ends.binary_search(&at).is_err()
            && of.idle.len() < MOST_TIMES
        {
            of.idle.push(operators[at].start.saturating_sub(before.end));
        }
    }
    if seen.len() < 2 {
        return None;
    }
    let mut by_count: BTreeMap<usize, (u64, std::cmp::Reverse<usize>, Key)> = BTreeMap::new();
    for (key, mut of) in seen.into_iter().filter(|(_, of)| of.count >= FEWEST) {
        let rank = (of.median_idle(), std::cmp::Reverse(of.first), key);
        let best = by_count.entry(of.count).or_insert(rank);
        *best = rank.max(*best);
    }
    // In the first and the last step, some of its operators may be missing.
    let with_next = |count: &usize| {
        let next = by_count.get(&(count + 1));
        by_count.get(count).max(next).map(|(_, _, first)| *first)
    };
    by_count.keys().take(MOST_TRIED).filter_map(with_next).find_map(|first| {
        let repeated = repeated(sequence, &keys, first)?;
        Some(Leader { thread, by, first, sequence: repeated })
    })
}

/// The sequence that most often follows an operator, if most operators are in such that come more than once.
fn repeated(of: &Sequence<'_>, keys: &[Key], first: Key) -> Option<Vec<Key>> {
    let mut sequences: FxHashMap<u64, (usize, &[Key])> = FxHashMap::default();
    let mut all = 0;
    for (from, to, _) in of.parts(keys, first).into_iter().filter(|(_, _, is_end)| !is_end) {
        let sequence = keys.get(from..to)?;
        all += sequence.len();
        let mut hasher = FxHasher::default();
        sequence.hash(&mut hasher);
        sequences.entry(hasher.finish()).or_insert((0, sequence)).0 += 1;
    }
    let repeated: usize =
        sequences.values().filter(|(count, _)| *count > 1).map(|(count, sequence)| count * sequence.len()).sum();
    let (_, sequence) = sequences.into_values().max_by_key(|(count, sequence)| (*count, sequence.len()))?;
    let is_step = (2..=MOST_OPERATORS).contains(&sequence.len()) && sequence.iter().any(|key| *key != first);
    (is_step && repeated * 10 >= all * REPEATED_OF_TEN).then(|| sequence.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Operators of one thread: 10 ns each, with a pause before those in capitals.
    fn operators(text: &str) -> Vec<RawOperator> {
        let mut time = 0;
        let one = |letter: char| {
            time += if letter.is_ascii_uppercase() { 50 } else { 12 };
            RawOperator {
                start: time,
                end: time + 10,
                waiting: 0,
                undivided: false,
                thread: 1,
                lane: None,
                object: None,
                covers: None,
                inline: u32::from(letter.to_ascii_lowercase()),
                record_type: 0,
                is_share: false,
                site: 0,
                record: None,
                counts: None,
                operands: None,
            }
        };
        text.chars().filter(|letter| !letter.is_whitespace()).map(one).collect()
    }

    /// How many operators each step has, and which is its first.
    fn steps(text: &str) -> Vec<(char, usize)> {
        let all = operators(text);
        let cuts = Recurring::default().cut(&all, &Stretches::one(), true);
        let within = |cut: &Cut| all.iter().filter(|of| cut.start <= of.start && of.end <= cut.end).count();
        let first = |cut: &Cut| all.iter().find(|of| of.start == cut.start).and_then(|of| char::from_u32(of.inline));
        cuts.steps.iter().map(|cut| (first(cut).unwrap(), within(cut))).collect()
    }

    #[test]
    fn each_time_of_a_sequence_is_a_step() {
        assert_eq!(steps("Abcd Abcd Abcd Abcd"), [('a', 4); 4]);
        // Layers that are alike are no steps.
        assert_eq!(steps("Exyxyxyh Exyxyxyh Exyxyxyh Exyxyxyh"), [('e', 8); 4]);
        // A longer one among them, and what comes before and after.
        assert_eq!(
            steps("qr Abc Abc Apqbc Abc Abc Abc z").iter().map(|of| of.1).collect::<Vec<_>>(),
            [3, 3, 5, 3, 3, 3]
        );
        // The pause is before another one than the first that was seen.
        assert_eq!(steps("cd Abcd Abcd Abcd Ab"), [('a', 4); 3]);
    }

    #[test]
    fn what_does_not_recur_has_no_steps() {
        for text in ["", "a", "aaaaaaaa", "Abcdefgh", "Ab Acd Aefg Ahijk", "AbcAbc"] {
            assert_eq!(steps(text), [], "{text}");
        }
    }

    #[test]
    fn operators_come_in_parts() {
        let all = operators("Abc Abc Abc Abc Abc Abc");
        let mut recurring = Recurring::default();
        let cuts = recurring.cut(&all[..11], &Stretches::one(), false);
        assert_eq!((cuts.steps.len(), cuts.open), (3, Some(all[9].start)));
        let cuts = recurring.cut(&all[9..], &Stretches::one(), true);
        assert_eq!((cuts.steps.len(), cuts.open), (3, None));
    }

    /// A budget's windows: each shows some steps, and parts of two.
    #[test]
    fn steps_do_not_go_on_over_periods_without_records() {
        let all = operators("bc Abcd Ab cd Abcd Abcd A d Abcd Abc");
        // They begin before the third, fifth and seventh group.
        let since = [all[6].start + 15, all[18].start + 5];
        let of = |start: u64| u32::try_from(since.partition_point(|from| *from <= start)).unwrap();
        let cut = |latest: u32, last: bool| Recurring::default().cut(&all, &Stretches { of: &of, latest }, last);
        let starts = [2, 10, 14, 20].map(|at: usize| (all[at].start, all[at + 3].end));
        let found: Vec<(u64, u64)> = cut(2, true).steps.iter().map(|step| (step.start, step.end)).collect();
        assert_eq!(found, starts);
        assert_eq!((cut(2, false).open, cut(3, false).open), (Some(all[24].start), None));
    }

    /// A pool: the next step is that of whichever thread is free.
    #[test]
    fn steps_of_other_threads_are_found_while_the_first_runs_none() {
        let mut all = operators("Abc Abc Abc Abc Abc Abc Abc Abc");
        for (at, operator) in all.iter_mut().enumerate() {
            operator.thread = [1, 2, 1, 1, 2, 3, 1, 2][at / 3];
        }
        let cuts = Recurring::default().cut(&all, &Stretches::one(), true);
        let threads: Vec<u32> = cuts.steps.iter().map(|cut| cut.thread).collect();
        assert_eq!(threads, [1, 2, 1, 1, 2, 3, 1, 2]);
        // In two parts, of which the first ends within a step of another thread.
        let mut recurring = Recurring::default();
        let cuts = recurring.cut(&all[..14], &Stretches::one(), false);
        assert_eq!((cuts.steps.len(), cuts.open), (4, Some(all[12].start)));
        assert_eq!(recurring.cut(&all[12..], &Stretches::one(), true).steps.len(), 4);
    }

    /// Threads that run one model, each with an input of its own: operators without lanes are no other thread's.
    #[test]
    fn threads_that_run_the_same_sequence_have_steps_of_their_own() {
        let of_thread = |text: &str, thread: u32, late: u64| {
            let all = operators(text).into_iter();
            all.map(move |of| RawOperator { thread, start: of.start + late, end: of.end + late, ..of })
                .collect::<Vec<_>>()
        };
        let mut all = of_thread("Abc Abc Abc Abc", 1, 0);
        all.extend(of_thread("Abc Abc Abc", 2, 7));
        let cuts = Recurring::default().cut(&all, &Stretches::one(), true);
        let of = |thread: u32| cuts.steps.iter().filter(|cut| cut.thread == thread).count();
        assert_eq!((of(1), of(2)), (4, 3));
    }

    #[test]
    fn threads_that_share_operators_run_one_step() {
        let mut all = operators("Abc Abc Abc Abc");
        for operator in &mut all {
            operator.lane = Some(0);
        }
        let others: Vec<RawOperator> =
            operators("Abc Abc Abc").into_iter().map(|of| RawOperator { thread: 2, lane: Some(1), ..of }).collect();
        let strangers = operators("Def Def Def").into_iter().map(|of| RawOperator { thread: 3, site: 7, ..of });
        all.extend(others);
        all.extend(strangers);
        let cuts = Recurring::default().cut(&all, &Stretches::one(), true);
        let of = |thread: u32| cuts.steps.iter().filter(|cut| cut.thread == thread).count();
        assert_eq!((of(1), of(2), of(3)), (4, 0, 3));
    }
}
