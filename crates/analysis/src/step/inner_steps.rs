//! Steps within steps, steps that end too early, and events that belong to none.

use super::bucket::Bucket;
use super::pending::{ClosedStep, Process};
use crate::raw::{Decoder, Header};
use crate::sampling::{Recorded, Windows};
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

/// The thread's latest step ends with the last operator that followed it there, if it was recorded whole and has none
/// itself: its end was that of something else. Gives whether it was so; `before` is when the next step began.
pub(super) fn extend_empty(process: &mut Process, thread: u32, before: u64, windows: &Windows) -> bool {
    let Process { recent, window, step_threads, .. } = process;
    let Some(step) = recent.iter_mut().rfind(|step| step.thread == thread) else { return false };
    let Header { start, end, .. } = step.header;
    let Bucket { operators, graphs, offloads, .. } = &step.bucket;
    let is_empty = operators.is_empty() && graphs.is_empty() && offloads.is_empty();
    if !is_empty || windows.of(start, end).0 != Recorded::Whole {
        return false;
    }
    let followed = window.operators.iter().filter(|o| o.thread == thread && end <= o.start && o.end <= before);
    let Some(last) = followed.map(|operator| operator.end).max() else { return false };
    step.header.end = last;
    let is_other = |t: u32| t != thread && step_threads.iter().any(|of| of.thread == t);
    step.bucket.take(window, |s, t| start <= s && s < last && !is_other(t));
    true
}

/// Sets events aside that are older than the last step and belong to none, so that no later step scans them.
pub(super) fn set_aside(process: &mut Process, before: u64) {
    let had = process.aside.len();
    process.aside.take(&mut process.window, |start, _| start < before);
    if process.aside.len() > had {
        process.aside_until = process.aside_until.max(before.saturating_sub(1));
    }
}
