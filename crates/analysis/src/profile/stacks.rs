//! Stacks by number: most samples have one that was there before.

use profinfer_schema::CodePlace;
use rustc_hash::FxHashMap;

/// Distinct stacks; samples with others are counted with their innermost frame unknown.
const MOST: usize = 1 << 20;

/// Number of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(u32);

/// The distinct stacks of samples, the innermost frame first.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    numbers: FxHashMap<Box<[CodePlace]>, u32>,
    stacks: Vec<Box<[CodePlace]>>,
}

impl Stacks {
    pub(super) fn number(&mut self, frames: &[CodePlace]) -> StackId {
        if let Some(number) = self.numbers.get(frames) {
            return StackId(*number);
        }
        if self.stacks.len() >= MOST {
            return StackId(0);
        }
        if self.stacks.is_empty() {
            self.insert(&[CodePlace { module: CodePlace::UNKNOWN, offset: 0 }]);
        }
        StackId(self.insert(frames))
    }

    fn insert(&mut self, frames: &[CodePlace]) -> u32 {
        let number = u32::try_from(self.stacks.len()).unwrap_or(u32::MAX);
        self.numbers.insert(frames.into(), number);
        self.stacks.push(frames.into());
        number
    }

    pub(super) fn get(&self, id: StackId) -> &[CodePlace] {
        self.stacks.get(id.0 as usize).map_or(&[], |frames| frames)
    }
}
