//! Requests as rows: when each arrived, began, got its first token and its last.

use profinfer_analysis::{Request, Requests};
use serde::Serialize;

/// One request. Names follow OpenTelemetry's GenAI conventions where they have one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequestRow {
    /// From 1, by arrival.
    pub number: u64,
    /// The engine's number, if recorded.
    pub request: Option<u64>,
    /// The process.
    pub pid: u32,
    /// The sequence that it was computed in.
    pub sequence: i64,
    /// When it arrived, or where that was not recorded began, ns of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// When its last token was chosen.
    #[serde(skip)]
    pub end_ns: u64,
    /// From its arrival to its first step; absent where its arrival was not recorded.
    pub queued_ns: Option<u64>,
    /// From its first step to its first token.
    pub prefill_ns: Option<u64>,
    /// From its first token to its last.
    pub decode_ns: Option<u64>,
    /// From its arrival, or else its first step, to its first token.
    pub time_to_first_token_ns: Option<u64>,
    /// Of the tokens after the first.
    pub time_per_output_token_ns: Option<f64>,
    /// Tokens of its prompt that were computed; absent where not all steps with them were recorded.
    pub input_tokens: Option<u64>,
    /// Tokens of its prompt that were cached.
    pub cached_tokens: Option<u64>,
    /// Tokens that it was given; absent where some of them may not have been recorded.
    pub output_tokens: Option<u64>,
    /// Recorded steps that it took part in.
    pub steps: u64,
    /// Its part of the tokens of its steps, weighted by their time: 1 where it was alone.
    pub batch_share: Option<f64>,
}

impl RequestRow {
    fn new(number: usize, request: &Request) -> Self {
        Self {
            number: number as u64 + 1,
            request: request.request,
            pid: request.pid,
            sequence: request.sequence,
            start_ns: request.arrived.unwrap_or(request.begin),
            end_ns: request.end,
            queued_ns: request.queued(),
            prefill_ns: request.prefill(),
            decode_ns: request.decode(),
            time_to_first_token_ns: request.ttft(),
            time_per_output_token_ns: request.tpot(),
            input_tokens: request.input_tokens(),
            cached_tokens: request.cached_tokens,
            output_tokens: request.output_tokens(),
            steps: request.steps,
            batch_share: request.batch_share(),
        }
    }
}

/// All that are listed, by their start.
pub(crate) fn rows(requests: &Requests) -> Vec<RequestRow> {
    requests.list().iter().enumerate().map(|(index, request)| RequestRow::new(index, request)).collect()
}
