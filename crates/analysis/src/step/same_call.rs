//! A step and an operator at one instruction: two programs run there, one after the other, and each takes its own time. The
//! call is the same, so the operator is in the step even where it seems to begin before it.

use super::bucket::{Bucket, RawOperator};
use super::pending::ClosedStep;
use crate::raw::{Decoder, Header};

/// Whether an operator is the call that a step is, and begins before it.
fn is_step(operator: &RawOperator, thread: u32, step: &Header, decoder: &Decoder) -> bool {
    operator.thread == thread
        && operator.start < step.start
        && step.start < operator.end
        && decoder.is_one_place(operator.site, step.site)
}

/// An operator that comes after its step.
pub(super) fn join_late(operator: &mut RawOperator, recent: &ClosedStep, decoder: &Decoder) {
    if is_step(operator, recent.thread, &recent.header, decoder) {
        operator.start = recent.header.start;
    }
}

/// The operators that came before their step: those of them that are the same call begin with it.
pub(super) fn join(pending: &mut Bucket, thread: u32, step: &Header, decoder: &Decoder) {
    let same = |operator: &&mut RawOperator| is_step(operator, thread, step, decoder);
    // There is one for each operator at the instruction, and they ended just now.
    for operator in pending.operators.iter_mut().rev().take(MOST_SEARCHED).filter(same) {
        operator.start = step.start;
    }
}

/// Operators that are searched for the one that is a step.
const MOST_SEARCHED: usize = 64;
