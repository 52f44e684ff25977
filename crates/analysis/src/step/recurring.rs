//! Steps that no probe marks: a thread computes the same operators in the same order again and again, and each time is a
//! step. The cycle that explains most of the first operators is found, and used until operators come that it is not in.
//!
//! Where a recording has periods without records, no step goes on from one stretch between them to the next.

use super::bucket::RawOperator;
use super::cycle::{Cuts, Cycle, Found, Sequence, Stretches};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Threads that run steps of their own.
const MOST_THREADS: usize = 16;

/// A thread that computes a cycle again and again.
#[derive(Debug, Clone)]
struct Leader {
    thread: u32,
    found: Arc<Found>,
}

/// The threads whose steps were found.
#[derive(Debug, Default)]
pub(super) struct Recurring {
    leaders: Vec<Leader>,
    /// Operators among which they, or none, were looked for last.
    tried: usize,
    /// Operators since the last step.
    missed: usize,
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
        let by_thread = Sequence::of_threads(operators, stretches, last);
        let cuts = self.cut_by_leaders(&by_thread);
        if !cuts.steps.is_empty() || cuts.open.is_some() {
            self.missed = 0;
            return cuts;
        }
        self.missed += operators.len();
        if !last && self.any() && self.missed < self.tried / 2 {
            return cuts;
        }
        // What recurred before may have been the loading of a model, or one that is used no more.
        if !last && operators.len() < self.tried / 2 {
            *self = Self::default();
            return cuts;
        }
        let leaders = leaders(&by_thread);
        (self.tried, self.missed) = (operators.len(), 0);
        if leaders.is_empty() {
            return cuts;
        }
        self.leaders = leaders;
        self.cut_by_leaders(&by_thread)
    }

    fn cut_by_leaders(&self, by_thread: &BTreeMap<u32, Sequence<'_>>) -> Cuts {
        let mut cuts = Cuts::default();
        for leader in &self.leaders {
            if let Some(sequence) = by_thread.get(&leader.thread) {
                leader.found.cycle.cut(leader.thread, sequence, &mut cuts);
            }
        }
        self.cut_others(by_thread, &mut cuts);
        cuts.steps.sort_by_key(|cut| (cut.start, cut.end));
        cuts
    }

    /// Steps that are run by other threads, such as the next one of a pool, while none is run by those.
    fn cut_others(&self, by_thread: &BTreeMap<u32, Sequence<'_>>, cuts: &mut Cuts) {
        let is_other = |thread: u32| self.leaders.iter().all(|leader| leader.thread != thread);
        let mut others: Vec<_> = by_thread.iter().filter(|(thread, _)| is_other(**thread)).collect();
        others.sort_by_key(|(thread, sequence)| (std::cmp::Reverse(sequence.len()), **thread));
        for (thread, sequence) in others {
            for leader in &self.leaders {
                let mut found = Cuts::default();
                leader.found.cycle.cut(*thread, sequence, &mut found);
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

/// The thread with the most operators, and others that share none with it, or that compute the same sequence each for
/// itself: operators that have neither lane nor object are no two threads'.
fn leaders(by_thread: &BTreeMap<u32, Sequence<'_>>) -> Vec<Leader> {
    let mut threads: Vec<(&u32, &Sequence<'_>)> = by_thread.iter().collect();
    threads.sort_by_key(|(thread, sequence)| (std::cmp::Reverse(sequence.len()), **thread));
    let mut taken = BTreeSet::new();
    let mut found: Vec<(u32, Arc<Found>)> = Vec::new();
    for (thread, sequence) in threads {
        if found.len() >= MOST_THREADS {
            break;
        }
        let functions = sequence.functions();
        let same = found.iter().find(|(_, found)| found.cycle.is_computed_by(sequence)).map(|(_, found)| found.clone());
        if same.is_none() && !functions.is_disjoint(&taken) {
            continue;
        }
        if let Some(own) = Cycle::find(sequence).map(Arc::new).or(same) {
            taken.extend(functions);
            found.push((*thread, own));
        }
    }
    // A thread that makes a model for the others repeats itself too, with other tensors each time.
    let best = found.iter().filter(|(_, found)| found.rereads).map(|(_, found)| found.explained.rank()).max();
    found.retain(|(_, found)| found.rereads || best.is_none_or(|best| best < found.explained.rank()));
    found.into_iter().map(|(thread, found)| Leader { thread, found }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::Operands;
    use crate::step::cycle::Cut;

    /// Operators of one thread: 10 ns each, with a pause before those in capitals. Digits: the tensors that they read.
    fn operators(text: &str) -> Vec<RawOperator> {
        let mut time = 0;
        let mut all: Vec<RawOperator> = Vec::new();
        let mut one = |letter: char| {
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
        for letter in text.chars().filter(|letter| !letter.is_whitespace()) {
            match letter.to_digit(10).zip(all.last_mut()) {
                Some((tensor, operator)) => operator.operands = operands(&[tensor.into()], &[]),
                None => all.push(one(letter)),
            }
        }
        all
    }

    fn operands(reads: &[u64], writes: &[u64]) -> Option<Box<Operands>> {
        Some(Box::new(Operands { reads: reads.into(), writes: writes.into() }))
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

    /// Layers that are made, one after the other, before they are used.
    #[test]
    fn a_prologue_that_repeats_itself_is_no_step() {
        for (made, runs) in [(3, 5), (5, 5), (12, 20), (4, 100)] {
            let text = "Euv".repeat(made) + "r" + &"Abcd".repeat(runs) + "zy";
            assert_eq!(steps(&text), vec![('a', 4); runs], "{made} {runs}");
        }
        // Also with an operator of the steps.
        assert_eq!(steps(&("Ebv".repeat(9) + &"Abcd".repeat(20))), [('a', 4); 20]);
    }

    #[test]
    fn what_reads_the_same_tensors_each_time_is_preferred() {
        let loading = "Euv".repeat(20);
        assert_eq!(steps(&(loading.clone() + &"A1bc2d".repeat(6))), [('a', 4); 6]);
        assert_eq!(steps(&(loading + &"Abcd".repeat(6))), [('e', 3); 20]);
    }

    #[test]
    fn a_slow_prologue_is_no_step() {
        let mut all = operators(&("Euv".repeat(9) + &"Abcd".repeat(30)));
        for (at, operator) in all.iter_mut().enumerate() {
            let (late, long) = (at.min(27) as u64 * 90, if at < 27 { 90 } else { 0 });
            (operator.start, operator.end) = (operator.start + late, operator.end + late + long);
        }
        let cuts = Recurring::default().cut(&all, &Stretches::one(), true);
        assert_eq!((cuts.steps.len(), cuts.steps[0].start), (30, all[27].start));
    }

    /// Python pauses within steps too: a cycle that begins with another operator would lose the first and the last step.
    #[test]
    fn a_step_begins_where_most_are_whole() {
        let mut all = operators(&("uv".to_owned() + &"abcd".repeat(10)));
        for (at, operator) in all.iter_mut().enumerate() {
            // Twice as long before the second operator of each.
            let late = ((at + 1) / 4) as u64 * 2;
            (operator.start, operator.end) = (operator.start + late, operator.end + late);
        }
        let cuts = Recurring::default().cut(&all, &Stretches::one(), true);
        assert_eq!((cuts.steps.len(), cuts.steps[0].start), (10, all[2].start));
    }

    #[test]
    fn the_outer_one_of_nested_repetitions_is_a_step() {
        assert_eq!(steps(&("Evw".repeat(4) + "r" + &"Axyxyxyxyh".repeat(10))), [('a', 10); 10]);
        // Equal layers, of which each has weights of its own.
        for pause in ["L1", "l1"] {
            let text = "Evw".repeat(4) + "r" + &(pause.to_owned() + "rl2rl3rl4r").repeat(10);
            assert_eq!(steps(&text), [('l', 8); 10], "{pause}");
        }
    }

    /// One of two buffers is read in turn, or one of three: what is computed is the same each time.
    #[test]
    fn inputs_in_turn_make_no_longer_step() {
        for buffers in [2, 3] {
            let each: Vec<String> = (0..buffers).map(|buffer| format!("A{}b1c2d3e", 7 + buffer)).collect();
            assert_eq!(steps(&each.concat().repeat(12)), vec![('a', 5); 12 * buffers], "{buffers}");
        }
    }

    /// What is made in a step is at the addresses of what was freed.
    #[test]
    fn addresses_of_freed_tensors_tell_no_layers_apart() {
        let mut all = operators(&"lrlrlr".repeat(20));
        for (at, operator) in all.iter_mut().enumerate() {
            let (weight, from, to) = (at as u64 % 6 + 1, at as u64 * 7 % 4 + 100, (at as u64 + 1) * 7 % 4 + 100);
            let reads = if at % 2 == 0 { vec![from, weight] } else { vec![from] };
            operator.operands = operands(&reads, &[to]);
        }
        let cuts = Recurring::default().cut(&all, &Stretches::one(), true);
        assert_eq!(cuts.steps.len(), 20);
        assert!(cuts.steps.iter().zip(all.chunks(6)).all(|(cut, of)| cut.start == of[0].start && cut.end == of[5].end));
        // Weights that only operators within the layers read.
        let mut within = operators(&"w".repeat(all.len()));
        for (inner, of) in within.iter_mut().zip(&all) {
            (inner.start, inner.end) = (of.start, of.end - 1);
            let weight = of.operands.as_ref().and_then(|operands| operands.reads.get(1).copied());
            inner.operands = operands(&weight.into_iter().collect::<Vec<u64>>(), &[]);
        }
        for operands in all.iter_mut().filter_map(|of| of.operands.as_mut()) {
            operands.reads = operands.reads.iter().copied().take(1).collect();
        }
        all.extend(within);
        assert_eq!(Recurring::default().cut(&all, &Stretches::one(), true).steps.len(), 20);
    }

    #[test]
    fn a_first_run_with_other_operators_is_no_step() {
        let text = "pqpqpqpq".to_owned() + "Apuuvpbqucvvd" + &"Abcd".repeat(10) + "Azzzzzzzzzz";
        assert_eq!(steps(&text), [('a', 4); 10]);
        // Equal layers are repeated in the first run too.
        let text = "Egxygpqxygqphxypqxygh".to_owned() + &"Exyxyxyxyh".repeat(5);
        assert_eq!(steps(&text), [('e', 10); 5]);
    }

    /// A thread that makes a model, and others that run it.
    #[test]
    fn each_thread_of_a_model_is_looked_at_by_itself() {
        let mut all = Vec::new();
        for (thread, text) in [(1, "Euv".repeat(4)), (2, "L1rl2rl3r".repeat(30)), (3, "L1rl2rl3r".repeat(20))] {
            all.extend(operators(&text).into_iter().map(|of| RawOperator {
                thread,
                site: u16::from(thread == 1),
                ..of
            }));
        }
        all.sort_by_key(|of| of.start);
        let cuts = Recurring::default().cut(&all, &Stretches::one(), true);
        let of = |thread: u32| cuts.steps.iter().filter(|cut| cut.thread == thread).count();
        assert_eq!((of(1), of(2), of(3)), (0, 30, 20));
    }

    /// A long prologue is given out before the steps come.
    #[test]
    fn another_cycle_is_looked_for_when_one_comes_no_more() {
        let mut recurring = Recurring::default();
        let all = operators(&("Euv".repeat(20) + "r" + &"Abcd".repeat(20)));
        assert_eq!(recurring.cut(&all[..60], &Stretches::one(), false).steps.len(), 20);
        assert_eq!(recurring.cut(&all[60..], &Stretches::one(), true).steps.len(), 20);
    }

    /// Bounded: what is tried is few, for any operators.
    #[test]
    fn many_operators_of_any_order_are_read_soon() {
        let mut random = 1_u64;
        let text: String = (0..200_000)
            .map(|_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                char::from_u32(0x4e00 + (random >> 40) as u32 % (1 << ((random >> 33) % 12))).unwrap()
            })
            .collect();
        assert_eq!(steps(&text), []);
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
