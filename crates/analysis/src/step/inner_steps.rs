//! Steps within steps, and events that belong to none.

use super::pending::{ClosedStep, Process};
use crate::raw::Decoder;
use profinfer_schema::FieldMeaning;

/// Steps of the same thread that lie within this one are parts of it.
pub(super) fn absorb_inner(process: &mut Process, step: &mut ClosedStep, decoder: &Decoder) {
    let (start, end) = (step.header.start, step.header.end);
    while let Some(at) = process
        .recent
        .iter()
        .rposition(|inner| inner.thread == step.thread && start <= inner.header.start && inner.header.end <= end)
    {
        let Some(mut inner) = process.recent.remove(at) else { break };
        process.nests = true;
        let fields = &decoder.records[usize::from(inner.header.record_type)];
        let tokens = fields.count(FieldMeaning::Tokens, &inner.record, inner.header.missing);
        match tokens {
            Some(tokens) => step.inner_tokens.push((inner.header.start, inner.header.end, tokens)),
            None => step.inner_tokens.append(&mut inner.inner_tokens),
        }
        step.bucket.take(&mut inner.bucket, |_, _| true);
    }
}

/// Sets events aside that are older than the last step and belong to none, so that no later step scans them.
pub(super) fn set_aside(process: &mut Process, before: u64) {
    let had = process.aside.len();
    process.aside.take(&mut process.window, |start, _| start < before);
    if process.aside.len() > had {
        process.aside_until = process.aside_until.max(before.saturating_sub(1));
    }
}
