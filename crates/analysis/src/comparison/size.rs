//! Which steps of two traces are equal in size: as many tokens, as many sequences, about the same context. Only what is
//! equal is compared, so that a mixture of other steps is no difference.

use crate::step::Step;
use std::collections::BTreeMap;

/// Sizes of a phase that are told apart; all further ones are one.
pub(super) const MAX_SIZES: usize = 48;
/// Contexts up to this many tokens are equal.
const LEAST_CONTEXT: f64 = 32.0;
/// Groups of contexts up to twice as many tokens.
const GROUPS_EACH_DOUBLING: f64 = 4.0;
/// Fewer steps than this are taken only where there are no more.
const ENOUGH: f64 = 4.0;

/// What steps must have in common to be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(super) struct Size {
    tokens: Option<u64>,
    sequences: Option<usize>,
    context: Option<u32>,
    /// One of too many sizes.
    other: bool,
}

impl Size {
    pub(super) fn of(step: &Step) -> Self {
        let sequences = Some(step.sequences.len()).filter(|sequences| *sequences > 0);
        Self { tokens: step.tokens, sequences, context: context(step).map(group), other: false }
    }

    /// One of too many sizes.
    pub(super) fn of_the_rest() -> Self {
        Self { other: true, ..Self::default() }
    }

    fn without_context(self) -> Self {
        Self { context: None, ..self }
    }
}

/// Tokens that a step attends to, its sequences on average.
fn context(step: &Step) -> Option<f64> {
    if step.sequences.is_empty() {
        return Some(step.position?.saturating_add(step.tokens?) as f64);
    }
    let ends = step.sequences.iter().map(|part| Some(part.position?.saturating_add(part.tokens)));
    let sum = ends.collect::<Option<Vec<u64>>>()?.into_iter().fold(0, u64::saturating_add);
    Some(sum as f64 / step.sequences.len() as f64)
}

/// The group of contexts that are about equal.
fn group(context: f64) -> u32 {
    let doublings = (context / LEAST_CONTEXT).log2();
    if doublings < 0.0 { 0 } else { (doublings * GROUPS_EACH_DOUBLING) as u32 + 1 }
}

/// What compared steps have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EqualIn {
    /// Everything: the steps of both traces are the same, one by one.
    Each,
    /// Tokens, sequences and context, as far as they were recorded.
    Size,
    /// Tokens and sequences.
    Tokens,
    /// Nothing: no steps of the traces are equal in size.
    Nothing,
}

impl EqualIn {
    /// `each`, `size`, `tokens`, `nothing`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Each => "each",
            Self::Size => "size",
            Self::Tokens => "tokens",
            Self::Nothing => "nothing",
        }
    }
}

/// Which steps were compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compared {
    /// What they have in common.
    pub equal_in: EqualIn,
    /// How many: first, second.
    pub steps: [u64; 2],
    /// Different sizes among them.
    pub sizes: u64,
}

/// Blocks of a trace that are compared: which, with which weight, and of which group of equal steps.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Chosen {
    pub(super) blocks: Vec<(usize, f64)>,
    pub(super) groups: Vec<usize>,
}

/// Blocks of steps: the size, and how many.
pub(super) type Sized = (Size, f64);

/// All blocks.
#[cfg(test)]
pub(super) fn all(blocks: usize) -> Chosen {
    Chosen { blocks: (0..blocks).map(|at| (at, 1.0)).collect(), groups: vec![0; blocks] }
}

/// Chooses the blocks of both traces that are equal in size. Each size counts in both as often as in the one that has
/// less of it.
pub(super) fn choose(a: &[Sized], b: &[Sized], same: bool) -> (Compared, [Chosen; 2]) {
    if same {
        return choose_by(a, b, EqualIn::Each, |size| size);
    }
    let total = |of: &[Sized]| of.iter().map(|(_, steps)| steps).sum::<f64>();
    let enough = ENOUGH.min(total(a)).min(total(b));
    for (equal_in, key) in
        [(EqualIn::Size, (|size| size) as fn(Size) -> Size), (EqualIn::Tokens, Size::without_context)]
    {
        let found = choose_by(a, b, equal_in, key);
        let [of_a, of_b] = found.0.steps;
        if enough > 0.0 && of_a.min(of_b) as f64 >= enough {
            return found;
        }
    }
    choose_by(a, b, EqualIn::Nothing, |_| Size::default())
}

fn choose_by(a: &[Sized], b: &[Sized], equal_in: EqualIn, key: fn(Size) -> Size) -> (Compared, [Chosen; 2]) {
    let mut sums: BTreeMap<Size, [f64; 2]> = BTreeMap::new();
    for (side, blocks) in [a, b].into_iter().enumerate() {
        for (size, steps) in blocks {
            sums.entry(key(*size)).or_default()[side] += steps;
        }
    }
    match equal_in {
        EqualIn::Each | EqualIn::Nothing => {}
        EqualIn::Size | EqualIn::Tokens => sums.retain(|size, [a, b]| *a > 0.0 && *b > 0.0 && !size.other),
    }
    let groups: BTreeMap<Size, usize> = sums.keys().enumerate().map(|(at, size)| (*size, at)).collect();
    let side = |side: usize, blocks: &[Sized]| {
        let mut chosen = Chosen::default();
        for (at, (size, _)) in blocks.iter().enumerate() {
            let size = key(*size);
            let Some(([of_a, of_b], group)) = sums.get(&size).zip(groups.get(&size)) else { continue };
            let weight = of_a.min(*of_b) / [of_a, of_b][side];
            chosen.blocks.push((at, if equal_in == EqualIn::Nothing { 1.0 } else { weight }));
            chosen.groups.push(*group);
        }
        chosen
    };
    let steps = [0, 1].map(|side| sums.values().map(|both| both[side]).sum::<f64>().round() as u64);
    let compared = Compared { equal_in, steps, sizes: groups.len() as u64 };
    (compared, [side(0, a), side(1, b)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::SequencePart;

    fn size(tokens: u64, context: u32) -> Size {
        Size { tokens: Some(tokens), sequences: Some(1), context: Some(context), other: false }
    }

    #[test]
    fn context_is_that_of_the_sequences_and_grouped_by_its_size() {
        let part = |position| SequencePart { sequence: 0, position: Some(position), tokens: 1, outputs: None };
        let step = Step { sequences: vec![part(99), part(299)], tokens: Some(2), ..Step::default() };
        assert_eq!(context(&step), Some(200.0));
        assert_eq!(Size::of(&step).sequences, Some(2));
        let alone = Step { position: Some(9), tokens: Some(3), ..Step::default() };
        assert_eq!(context(&alone), Some(12.0));
        assert_eq!([1.0, 31.0, 32.0, 37.0, 64.0, 65536.0].map(group), [0, 0, 1, 1, 5, 45]);
    }

    #[test]
    fn a_size_counts_as_often_as_in_the_trace_that_has_less_of_it() {
        let a = [(size(1, 0), 10.0), (size(1, 1), 10.0), (size(2, 0), 20.0)];
        let b = [(size(1, 1), 30.0), (size(1, 1), 10.0), (size(2, 0), 5.0), (size(3, 0), 7.0)];
        let (compared, [of_a, of_b]) = choose(&a, &b, false);
        assert_eq!(compared, Compared { equal_in: EqualIn::Size, steps: [30, 45], sizes: 2 });
        assert_eq!((of_a.blocks, of_a.groups), (vec![(1, 1.0), (2, 0.25)], vec![0, 1]));
        assert_eq!((of_b.blocks, of_b.groups), (vec![(0, 0.25), (1, 0.25), (2, 1.0)], vec![0, 0, 1]));
    }

    #[test]
    fn without_a_common_context_tokens_decide_and_without_these_nothing() {
        let (compared, _) = choose(&[(size(1, 3), 9.0)], &[(size(1, 7), 9.0)], false);
        assert_eq!(compared.equal_in, EqualIn::Tokens);
        let (compared, [of_a, _]) = choose(&[(size(5, 3), 1.0)], &[(size(6, 3), 9.0)], false);
        assert_eq!((compared.equal_in, compared.steps, of_a.blocks), (EqualIn::Nothing, [1, 9], vec![(0, 1.0)]));
        let (compared, [of_a, of_b]) = choose(&[], &[(size(6, 3), 9.0)], false);
        assert_eq!((compared.equal_in, of_a.blocks.len(), of_b.blocks.len()), (EqualIn::Nothing, 0, 1));
        // One step each is all there is.
        let (compared, _) = choose(&[(size(5, 3), 1.0)], &[(size(5, 3), 1.0)], false);
        assert_eq!(compared.equal_in, EqualIn::Size);
    }
}
