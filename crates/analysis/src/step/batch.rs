//! The batch of a step: which tokens of which sequences it takes in. A batch's records have one list each, of parts of
//! the step's tokens in their order; lists of the same kind follow one another.

use super::bucket::RawBatch;
use profinfer_schema::FieldMeaning;
use rustc_hash::{FxHashMap, FxHashSet};

/// Events of requests that wait for a step.
const MAX_WAITING: usize = 1 << 16;
/// Sequences whose prompts are remembered.
const MAX_PROMPTS: usize = 4096;

/// What a step takes in of one sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequencePart {
    /// The sequence's number.
    pub sequence: i64,
    /// The least position of its tokens, if recorded.
    pub position: Option<u64>,
    /// Its tokens.
    pub tokens: u64,
    /// Of them, those that yield a result, if recorded.
    pub outputs: Option<u64>,
}

/// What a step takes in, by sequence; empty where sequences were not recorded.
pub(super) fn parts(batches: &[RawBatch]) -> Vec<SequencePart> {
    let list = |meaning: FieldMeaning| -> Vec<i64> {
        batches.iter().filter(|batch| batch.meaning == meaning).flat_map(|batch| batch.values.iter().copied()).collect()
    };
    let sequences = list(FieldMeaning::Sequences);
    let same = |values: Vec<i64>| (values.len() == sequences.len()).then_some(values);
    let (positions, outputs) = (same(list(FieldMeaning::Positions)), same(list(FieldMeaning::Outputs)));
    let mut parts: Vec<SequencePart> = Vec::new();
    for (index, sequence) in sequences.iter().enumerate() {
        let position = positions.as_ref().and_then(|positions| u64::try_from(positions[index]).ok());
        let output = outputs.as_ref().map(|outputs| u64::from(outputs[index] != 0));
        match parts.iter_mut().rev().find(|part| part.sequence == *sequence) {
            Some(part) => {
                part.tokens += 1;
                part.position = part.position.zip(position).map(|(a, b)| a.min(b));
                part.outputs = part.outputs.zip(output).map(|(a, b)| a + b);
            }
            None => parts.push(SequencePart { sequence: *sequence, position, tokens: 1, outputs: output }),
        }
    }
    parts
}

/// A request arrived (`request` alone), was given a sequence (both), was given tokens (`sequence` and `tokens`), or left
/// its sequence (`sequence` alone). Or a model is gone, and all its requests with it (`instance` alone).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestEvent {
    /// When, ns.
    pub time: u64,
    /// How many times in which nothing was recorded had begun before it.
    pub stretch: u32,
    /// The process's number in the kernel.
    pub pid: u32,
    /// The thread on which it happened.
    pub tid: u32,
    /// The request.
    pub request: Option<u64>,
    /// The sequence.
    pub sequence: Option<i64>,
    /// Tokens that were chosen.
    pub tokens: Option<u64>,
    /// The model within the process; of an arrival, the queue that numbers requests.
    pub instance: Option<i64>,
}

/// Events of requests that wait for the next step.
#[derive(Debug, Default)]
pub(super) struct RequestQueue {
    events: Vec<RequestEvent>,
    /// Sequences, by process and thread, that were given a request and no token of it yet; since when.
    prompts: FxHashMap<(u32, u32, i64), u64>,
    /// Threads that run steps: each of them has sequences of its own.
    step_threads: FxHashSet<u32>,
}

impl RequestQueue {
    /// Adds an event; if too many wait, the oldest are dropped.
    pub(super) fn push(&mut self, event: RequestEvent) {
        if self.events.len() >= MAX_WAITING {
            self.events.drain(..MAX_WAITING / 2);
        }
        self.events.push(event);
    }

    /// Takes those that are wanted, by time.
    pub(super) fn take(&mut self, wanted: impl Fn(&RequestEvent) -> bool) -> Vec<RequestEvent> {
        let mut events: Vec<RequestEvent> = self.events.extract_if(.., |event| wanted(event)).collect();
        events.sort_by_key(|event| event.time);
        events.iter().for_each(|event| self.note(event));
        events
    }

    /// Whether a step of a thread that begins then may take in a prompt, by the events that were taken: some request has
    /// a sequence and no token.
    pub(super) fn has_prompt(&mut self, pid: u32, tid: u32, step_start: u64) -> bool {
        if self.step_threads.len() < MAX_PROMPTS {
            self.step_threads.insert(tid);
        }
        let is_meant = |key: &(u32, u32, i64)| key.0 == pid && (key.1 == tid || !self.step_threads.contains(&key.1));
        self.prompts.iter().any(|(key, since)| is_meant(key) && *since <= step_start)
    }

    fn note(&mut self, event: &RequestEvent) {
        let RequestEvent { time, pid, tid, request, sequence, tokens, .. } = *event;
        let Some(sequence) = sequence else { return };
        if request.is_none() || tokens.is_some() {
            let is_meant = |key: &(u32, u32, i64)| {
                let is_others = self.step_threads.contains(&tid) && self.step_threads.contains(&key.1);
                (key.0, key.2) == (pid, sequence) && (key.1 == tid || !is_others)
            };
            self.prompts.retain(|key, _| !is_meant(key));
        } else if self.prompts.len() < MAX_PROMPTS {
            self.prompts.insert((pid, tid, sequence), time);
        }
    }

    /// None waits.
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(meaning: FieldMeaning, values: &[i64]) -> RawBatch {
        RawBatch { start: 1, thread: 0, meaning, values: values.to_vec() }
    }

    #[test]
    fn lists_in_several_records_are_one_and_those_that_do_not_fit_are_left_out() {
        use FieldMeaning::{Outputs, Positions, Sequences};
        let mut batches = vec![
            batch(Outputs, &[1, 0]),
            batch(Positions, &[9, 4]),
            batch(Sequences, &[0, 1]),
            batch(Outputs, &[1]),
            batch(Positions, &[5]),
            batch(Sequences, &[1]),
        ];
        let part = |sequence, position, tokens, outputs| SequencePart { sequence, position, tokens, outputs };
        assert_eq!(parts(&batches), [part(0, Some(9), 1, Some(1)), part(1, Some(4), 2, Some(1))]);
        batches.pop();
        batches.push(batch(Sequences, &[2, 2]));
        assert_eq!(parts(&batches), [part(0, None, 1, None), part(1, None, 1, None), part(2, None, 2, None)]);
        assert_eq!(parts(&[]), []);
    }
}
