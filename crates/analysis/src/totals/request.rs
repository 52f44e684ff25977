//! One request: what steps took in of its sequence and gave to it, and what the engine's own events tell of it.

use crate::step::{SequencePart, Step};

/// A first request with no more tokens than this and without a generated token warms up the engine.
const WARM_UP_TOKENS: u64 = 2;

/// One request. Times are ns of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Request {
    /// The engine's number, if recorded.
    pub request: Option<u64>,
    /// The process.
    pub pid: u32,
    /// The sequence that it was computed in.
    pub sequence: i64,
    /// The model that computed it, where the trace names models.
    pub(super) instance: Option<i64>,
    /// The thread that runs its steps.
    pub(super) tid: u32,
    /// When it arrived, if recorded.
    pub arrived: Option<u64>,
    /// When it was given its sequence, or where that was not recorded the start of its first step.
    pub begin: u64,
    /// When its first token was chosen, or where that was not recorded the end of the step that took in the last of its
    /// prompt; `None` where none did.
    pub first_token: Option<u64>,
    /// When its last token was chosen, or where that was not recorded the end of its last step.
    pub end: u64,
    /// When the engine was done with it, if recorded.
    pub released: Option<u64>,
    /// Position of its first token: so many tokens of the prompt were cached.
    pub cached_tokens: Option<u64>,
    /// Tokens of its prompt that were computed.
    pub prompt_tokens: u64,
    /// Tokens that it was given.
    pub generated_tokens: u64,
    /// Steps that it took part in.
    pub steps: u64,
    /// The time of these steps.
    pub step_time: u64,
    /// Its part of the tokens of each step, times the step's time.
    pub own_time: f64,
    /// Position of the first token of its latest step.
    pub(super) position: Option<u64>,
    /// Position after its prompt.
    pub(super) prompt_end: Option<u64>,
    /// Some step after its first token had several tokens: drafts were verified.
    pub(super) drafts: bool,
    /// Tokens by the engine's own events.
    pub(super) chosen: u64,
    /// The engine's event told when it was given its sequence: no token was chosen before.
    pub(super) is_given: bool,
    /// When its latest step ended.
    pub(super) step_end: u64,
    /// Nothing was recorded from then on: it may have had further tokens.
    pub(super) ends_unseen: bool,
    /// Its first token was reported to who follows.
    pub(super) is_reported: bool,
    /// The first of its sequence's model.
    pub(super) is_first: bool,
    pub(super) unseen: Unseen,
}

/// What the engine's own events tell of a request that has a sequence. Times are ns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given {
    pub(super) request: u64,
    pub(super) arrived: Option<u64>,
    pub(super) started: u64,
    /// Tokens that were chosen; when the first one was, and the last.
    pub(super) chosen: u64,
    pub(super) first_token: u64,
    pub(super) last_token: u64,
    /// When the first token of the latest step was.
    pub(super) latest_step: u64,
    pub(super) is_reported: bool,
}

impl Given {
    /// A request that has just been given its sequence.
    pub(super) fn new(request: u64, arrived: Option<u64>, started: u64) -> Self {
        let (first_token, last_token, latest_step) = (started, started, started);
        Self { request, arrived, started, chosen: 0, first_token, last_token, latest_step, is_reported: false }
    }

    /// Tokens were chosen for it. If they are the first ones of a step, the time since those of the step before, ns.
    pub(super) fn take(&mut self, tokens: u64, time: u64, begins_step: bool) -> Option<u64> {
        let is_first = self.chosen == 0;
        self.chosen += tokens;
        self.last_token = time;
        if is_first {
            self.first_token = time;
        }
        if !is_first && !begins_step {
            return None;
        }
        let before = std::mem::replace(&mut self.latest_step, time);
        (!is_first).then(|| time.saturating_sub(before))
    }
}

/// What was not recorded of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Unseen {
    #[default]
    Nothing,
    /// Steps that may have given it tokens.
    Tokens,
    /// The steps before it was first seen, in which its first token may have been chosen.
    Beginning,
}

impl Request {
    /// Of which no step was recorded, by the engine's events.
    pub(super) fn of_events((pid, tid, sequence): (u32, u32, i64), given: &Given, released: Option<u64>) -> Self {
        let end = released.filter(|_| given.chosen == 0).unwrap_or(given.last_token);
        let mut request = Self { pid, tid, sequence, end, released, unseen: Unseen::Beginning, ..Self::default() };
        request.take_events(given);
        request
    }

    /// Takes what the engine's events tell: it is more exact than what steps show, and no step need be recorded for it.
    pub(super) fn take_events(&mut self, given: &Given) {
        (self.request, self.arrived, self.begin) = (Some(given.request), given.arrived, given.started);
        (self.is_given, self.chosen) = (true, given.chosen);
        self.is_reported |= given.is_reported;
        if given.chosen > 0 {
            self.first_token = Some(given.first_token);
            self.generated_tokens = given.chosen;
            self.end = self.end.max(given.last_token);
        }
    }

    /// Whether a draft model computes it for the other one, another model's: of two at the same time, the one with less time
    /// in steps. A thread that runs other steps computes its own requests: two servers have the same numbers.
    pub(super) fn is_draft_of(&self, other: &Self) -> bool {
        (self.pid, self.tid, self.sequence, self.request) == (other.pid, other.tid, other.sequence, other.request)
            && self.instance != other.instance
            && self.begin < other.end
            && other.begin < self.end
            && self.step_time < other.step_time
    }

    /// From its arrival to its first step, ns; `None` where its arrival was not recorded.
    pub fn queued(&self) -> Option<u64> {
        Some(self.begin.saturating_sub(self.arrived?))
    }

    /// From its first step to its first token, ns.
    pub fn prefill(&self) -> Option<u64> {
        Some(self.first_token?.saturating_sub(self.begin))
    }

    /// From its first token to its last, ns; `None` where its end was not recorded.
    pub fn decode(&self) -> Option<u64> {
        self.seen_decode().filter(|_| !self.ends_unseen)
    }

    /// The same up to the last token that was recorded.
    fn seen_decode(&self) -> Option<u64> {
        Some(self.end.saturating_sub(self.first_token?))
    }

    /// From its arrival, or where that was not recorded from its first step, to its first token, ns.
    pub fn ttft(&self) -> Option<u64> {
        Some(self.first_token?.saturating_sub(self.arrived.unwrap_or(self.begin)))
    }

    /// Time per output token after the first, ns; `None` where some of them were not recorded and no position counts them.
    pub fn tpot(&self) -> Option<f64> {
        let decode = self.seen_decode().filter(|_| self.is_counted())?;
        (self.generated_tokens > 1).then(|| decode as f64 / (self.generated_tokens - 1) as f64)
    }

    /// Its part of the tokens of its steps, weighted by their time: 1 where it was alone.
    pub fn batch_share(&self) -> Option<f64> {
        (self.step_time > 0).then(|| self.own_time / self.step_time as f64)
    }

    /// From its arrival, or where that was not recorded from its first step, to its last token that was recorded, ns.
    pub fn duration(&self) -> u64 {
        self.end.saturating_sub(self.arrived.unwrap_or(self.begin))
    }

    /// [`Self::duration`]; `None` where neither its arrival nor its first step was recorded, or not its end.
    pub fn whole_duration(&self) -> Option<u64> {
        let begins = self.arrived.is_some() || self.is_given || self.unseen != Unseen::Beginning;
        (begins && !self.ends_unseen).then(|| self.duration())
    }

    /// Tokens of its prompt that were computed; `None` where not all steps with them were recorded.
    pub fn input_tokens(&self) -> Option<u64> {
        (self.unseen != Unseen::Beginning).then_some(self.prompt_tokens)
    }

    /// Tokens that it was given; `None` where its end was not recorded, or where some of them may not have been and no
    /// position counts them.
    pub fn output_tokens(&self) -> Option<u64> {
        (self.is_counted() && !self.ends_unseen).then_some(self.generated_tokens)
    }

    fn is_counted(&self) -> bool {
        match self.unseen {
            _ if self.is_given && self.chosen > 0 => true,
            Unseen::Nothing => true,
            // Positions count what was not seen.
            Unseen::Tokens => self.chosen == 0 && self.position.is_some(),
            Unseen::Beginning => false,
        }
    }

    /// Steps before its next one were not recorded. If it has no first token yet, that may have been chosen there.
    pub(super) fn note_gap(&mut self) {
        match self.first_token {
            None => self.unseen = Unseen::Beginning,
            Some(_) if self.unseen == Unseen::Nothing => self.unseen = Unseen::Tokens,
            Some(_) => {}
        }
    }

    pub(super) fn warms_up(&self) -> bool {
        let short = self.prompt_tokens <= WARM_UP_TOKENS && self.generated_tokens <= 1;
        self.is_first && self.request.is_none() && short && self.cached_tokens.unwrap_or(0) == 0
    }

    /// Whether what a step takes in of its sequence belongs to another request, by the positions.
    pub(super) fn is_over(&self, part: &SequencePart) -> bool {
        let Some((position, before)) = part.position.zip(self.position) else { return false };
        let restarts = position <= before;
        let next_turn =
            self.generated_tokens > 1 && part.tokens > 1 && !self.drafts && part.outputs != Some(part.tokens);
        restarts || next_turn
    }

    /// Counts the tokens that a step takes in and gives.
    fn count(&mut self, part: &SequencePart, step: &Step) {
        if self.unseen == Unseen::Beginning {
            if self.chosen > 0 {
                return;
            }
            self.generated_tokens += part.outputs.unwrap_or(u64::from(part.tokens == 1));
            self.drafts |= part.tokens > 1;
            return;
        }
        // Without the outputs, a prompt is over with the first step of one token after its first.
        let begins_decode = part.outputs.is_none() && part.tokens == 1 && self.steps > 1;
        if begins_decode && self.first_token.is_none() {
            self.first_token = Some(self.end);
            self.prompt_end = part.position;
            self.generated_tokens = 1;
        }
        if self.first_token.is_none() {
            self.prompt_tokens += part.tokens;
            if part.outputs.is_some_and(|outputs| outputs > 0) {
                self.first_token = Some(step.end);
                self.prompt_end = part.position.map(|position| position.saturating_add(part.tokens));
                self.generated_tokens = 1;
            }
        } else {
            self.drafts |= part.tokens > 1;
            // Of drafts, the position of the next step shows how many were accepted.
            let by_position = part.position.zip(self.prompt_end).map(|(at, from)| at.saturating_sub(from) + 2);
            if self.chosen == 0 {
                self.generated_tokens = by_position.unwrap_or(self.generated_tokens + part.tokens);
            }
        }
    }

    pub(super) fn take(&mut self, part: &SequencePart, step: &Step) {
        let all = step.tokens.unwrap_or(part.tokens).max(part.tokens).max(1);
        self.steps += 1;
        self.step_time = self.step_time.saturating_add(step.duration());
        self.own_time += step.duration() as f64 * part.tokens as f64 / all as f64;
        self.count(part, step);
        self.position = part.position;
        self.end = step.end;
        self.step_end = step.end;
    }
}
