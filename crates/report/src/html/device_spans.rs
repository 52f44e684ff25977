//! The page's lanes of devices and their queues: what the host encodes, its calls, and when work was pending.

use super::span::{Line, Span, What};
use crate::pending::pending;
use profinfer_analysis::{Queued, Step};

/// Two bits of what a call is.
#[derive(Debug, Clone, Copy)]
enum Call {
    Submit,
    Wait,
    Copy,
}

/// Adds a step's; `encoded` gets what its operators are.
pub(super) fn add(step: &Step, spans: &mut Vec<Span>, encoded: &mut Vec<What>) {
    for of in &step.dispatches {
        let what = u32::try_from(encoded.len()).unwrap_or(u32::MAX);
        encoded.push(What::of_kind(of.kind));
        let line = Line::Encoding(of.tid);
        spans.push(Span { line, start: of.start, end: of.end, what, more: recorded(of.device_ns), ..Span::default() });
    }
    for event in &step.queue {
        let (call, bytes) = match event.what {
            Queued::Submit { .. } => (Call::Submit, None),
            Queued::Wait { .. } => (Call::Wait, None),
            Queued::Copy { bytes, .. } => (Call::Copy, bytes),
            Queued::Destroyed { .. } | Queued::Captured | Queued::Timestamps(_) | Queued::Job(_) => continue,
        };
        let what = (u32::from(event.record_type) << 2) | call as u32;
        let line = Line::Calls(event.tid);
        spans.push(Span { line, start: event.start, end: event.end, what, more: recorded(bytes), ..Span::default() });
    }
    for (queue, times) in pending(step) {
        for of in times {
            let what = u32::try_from(of.submissions.len()).unwrap_or(u32::MAX);
            let line = Line::Queue(queue);
            let more = recorded(of.measured);
            spans.push(Span { line, start: of.start, end: of.end, what, more, ..Span::default() });
        }
    }
}

/// One more than it is; 0 if it was not recorded.
fn recorded(value: Option<u64>) -> u64 {
    value.map_or(0, |value| value.saturating_add(1))
}
