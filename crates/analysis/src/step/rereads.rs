//! Tensors that operators read again and again without a new one at their address: weights, by which a layer's operators
//! differ from those of an equal layer. Others are made, read and freed in each step.

use super::bucket::RawOperator;
use super::operator_key::{By, FEWEST, Key};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Addresses, by who reads them, and how often one tensor was read at each.
#[derive(Debug, Clone, Default)]
pub(super) struct Rereads(FxHashMap<(Key, u64), usize>);

/// Reads at one address.
#[derive(Debug, Default)]
struct Reads {
    /// Of all tensors that were there.
    all: usize,
    /// Of the one that is there, and how many were written there before it.
    current: usize,
    written: usize,
    /// Of the one that was read most.
    most: usize,
}

impl Rereads {
    /// By a thread's operators in the order of their starts.
    pub(super) fn of(operators: &[&RawOperator]) -> Self {
        let mut written: FxHashMap<u64, usize> = FxHashMap::default();
        let mut reads: FxHashMap<(Key, u64), Reads> = FxHashMap::default();
        for operator in operators.iter().filter(|operator| operator.object.is_none()) {
            let Some(operands) = &operator.operands else { continue };
            let key = By::Function.key(operator);
            for address in operands.reads.iter().filter(|address| **address != 0) {
                let of = reads.entry((key, *address)).or_default();
                let now = written.get(address).copied().unwrap_or_default();
                if of.written != now {
                    (of.written, of.current) = (now, 0);
                }
                of.all += 1;
                of.current += 1;
                of.most = of.most.max(of.current);
            }
            // An operator that gives what it was given makes no new tensor.
            for address in operands.writes.iter().filter(|address| !operands.reads.contains(address)) {
                *written.entry(*address).or_default() += 1;
            }
        }
        // Addresses of freed tensors are used again: what is read there is mostly not the same.
        let same = reads.into_iter().filter(|(_, of)| of.most >= FEWEST && of.most * 2 >= of.all);
        Self(same.map(|(place, of)| (place, of.most)).collect())
    }

    /// Tensors at these addresses count as if they were made in each step.
    pub(super) fn forget(&mut self, addresses: &BTreeSet<u64>) {
        self.0.retain(|(_, address), _| !addresses.contains(address));
    }

    /// The one of an operator and those within it that is read most often, and first; 0: none.
    pub(super) fn tensor_of(&self, operators: &[&RawOperator]) -> u64 {
        let mut most = (0, 0);
        for operator in operators.iter().filter(|operator| operator.object.is_none()) {
            let key = By::Function.key(operator);
            for address in operator.operands.iter().flat_map(|operands| &operands.reads) {
                let count = self.0.get(&(key, *address)).copied().unwrap_or_default();
                if count > most.0 {
                    most = (count, *address);
                }
            }
        }
        most.1
    }
}
