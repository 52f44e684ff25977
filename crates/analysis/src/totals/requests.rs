//! Requests: what became of each sequence that steps advanced. A request's first token is chosen at the end of the step
//! that takes in the last token of its prompt; each later step gives it the next ones. Where the engine's own events of
//! requests were recorded, these decide where a request begins and ends, and when it arrived; otherwise a sequence whose
//! positions begin again does.

use crate::numbers::{Distribution, Durations};
use crate::raw::{Decoder, Header};
use crate::sampling::Recorded;
use crate::step::{RequestEvent, SequencePart, Step};
use profinfer_schema::FieldMeaning;
use rustc_hash::FxHashMap;

/// Requests that are listed; beyond, they are in the distributions only.
const MAX_LISTED: usize = 20_000;
/// Requests that have arrived and not begun, and sequences that are open.
const MAX_OPEN: usize = 4096;
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
    instance: Option<i64>,
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
    position: Option<u64>,
    /// Position after its prompt.
    prompt_end: Option<u64>,
    /// Some step after its first token had several tokens: drafts were verified.
    drafts: bool,
    /// Tokens by the engine's own events.
    chosen: u64,
    /// When its latest step ended.
    step_end: u64,
    /// Its first token was reported to who follows.
    is_reported: bool,
    /// The first of its sequence's model.
    is_first: bool,
    unseen: Unseen,
}

/// What was not recorded of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Unseen {
    #[default]
    Nothing,
    /// Steps that may have given it tokens.
    Tokens,
    /// The steps before it was first seen: when its first token was chosen is not known.
    Beginning,
}

impl Request {
    /// From its arrival to its first step, ns; `None` where its arrival was not recorded.
    pub fn queued(&self) -> Option<u64> {
        Some(self.begin.saturating_sub(self.arrived?))
    }

    /// From its first step to its first token, ns.
    pub fn prefill(&self) -> Option<u64> {
        Some(self.first_token?.saturating_sub(self.begin))
    }

    /// From its first token to its last, ns.
    pub fn decode(&self) -> Option<u64> {
        Some(self.end.saturating_sub(self.first_token?))
    }

    /// From its arrival, or where that was not recorded from its first step, to its first token, ns.
    pub fn ttft(&self) -> Option<u64> {
        Some(self.first_token?.saturating_sub(self.arrived.unwrap_or(self.begin)))
    }

    /// Time per output token after the first, ns; `None` where some of them were not recorded and no position counts them.
    pub fn tpot(&self) -> Option<f64> {
        let decode = self.decode().filter(|_| self.is_counted())?;
        (self.generated_tokens > 1).then(|| decode as f64 / (self.generated_tokens - 1) as f64)
    }

    /// Its part of the tokens of its steps, weighted by their time: 1 where it was alone.
    pub fn batch_share(&self) -> Option<f64> {
        (self.step_time > 0).then(|| self.own_time / self.step_time as f64)
    }

    /// From its arrival, or where that was not recorded from its first step, to its last token, ns.
    pub fn duration(&self) -> u64 {
        self.end.saturating_sub(self.arrived.unwrap_or(self.begin))
    }

    /// [`Self::duration`]; `None` where neither its arrival nor its first step was recorded.
    pub fn whole_duration(&self) -> Option<u64> {
        (self.arrived.is_some() || self.unseen != Unseen::Beginning).then(|| self.duration())
    }

    /// Its tokens are counted whole: its first step was recorded, and each token, or its position.
    pub fn is_counted(&self) -> bool {
        match self.unseen {
            Unseen::Nothing => true,
            // Positions count what was not seen.
            Unseen::Tokens => self.chosen == 0 && self.position.is_some(),
            Unseen::Beginning => false,
        }
    }

    /// Steps before its next one were not recorded. If it has no first token yet, that may have been chosen there.
    fn note_gap(&mut self) {
        match self.first_token {
            None => self.unseen = Unseen::Beginning,
            Some(_) if self.unseen == Unseen::Nothing => self.unseen = Unseen::Tokens,
            Some(_) => {}
        }
    }

    fn warms_up(&self) -> bool {
        let short = self.prompt_tokens <= WARM_UP_TOKENS && self.generated_tokens <= 1;
        self.is_first && self.request.is_none() && short && self.cached_tokens.unwrap_or(0) == 0
    }

    /// Whether what a step takes in of its sequence belongs to another request, by the positions.
    fn is_over(&self, part: &SequencePart) -> bool {
        let Some((position, before)) = part.position.zip(self.position) else { return false };
        let restarts = position <= before;
        let next_turn =
            self.generated_tokens > 1 && part.tokens > 1 && !self.drafts && part.outputs != Some(part.tokens);
        restarts || next_turn
    }

    /// Counts the tokens that a step takes in and gives.
    fn count(&mut self, part: &SequencePart, step: &Step) {
        if self.unseen == Unseen::Beginning {
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

    fn take(&mut self, part: &SequencePart, step: &Step) {
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

/// What became of a request, for who follows a recording that goes on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum RequestNews {
    /// It has its first token, and when that was chosen is final.
    FirstToken(Request),
    /// It was given its next token, or the tokens of a step, at `time` (ns of CLOCK_MONOTONIC).
    NextToken {
        /// ns.
        time: u64,
        /// Since the token before, ns.
        after: u64,
    },
    /// It has ended.
    Ended(Request),
}

/// The requests of a trace.
#[derive(Debug, Default)]
pub struct Requests {
    /// What became of them since that was asked last, where they are followed. Then those that ended are forgotten.
    news: Option<Vec<RequestNews>>,
    open: FxHashMap<(u32, Option<i64>, i64), Request>,
    arrivals: FxHashMap<(u32, u64), u64>,
    /// The request that has a sequence, by the engine's events.
    given: FxHashMap<(u32, i64), Given>,
    /// The most sequences that were given at a time, and the latest arrival of a request that has one.
    most_given: usize,
    latest_given: u64,
    finished: Vec<Request>,
    count: u64,
    instances: Vec<(u32, Option<i64>)>,
    /// By process and model.
    seen: FxHashMap<(u32, Option<i64>), Seen>,
    ttft: Durations,
    between: Durations,
    saw_steps: bool,
}

/// What was recorded of a model's steps.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Of the latest one.
    stretch: u32,
    /// What comes before the next one.
    before: Before,
}

/// What comes before a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// It is the first of the recording.
    Nothing,
    /// A step whose sequences were recorded, or that has none.
    Recorded,
    /// Steps of which was not recorded what they take in.
    Gap,
}

#[derive(Debug, Clone, Copy)]
struct Given {
    request: u64,
    arrived: Option<u64>,
    started: u64,
}

impl Requests {
    /// Requests whose news are asked for after each step.
    pub(super) fn followed() -> Self {
        Self { news: Some(Vec::new()), ..Self::default() }
    }

    /// What became of them since that was asked last.
    pub(super) fn take_news(&mut self) -> Vec<RequestNews> {
        self.news.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Reports the first tokens of open requests, at the end of a recording.
    pub(super) fn end_news(&mut self) {
        let keys: Vec<(u32, Option<i64>, i64)> = self.open.keys().copied().collect();
        for key in keys {
            self.report_first(key, true);
        }
    }

    /// The requests that have begun and not ended.
    pub fn open(&self) -> impl Iterator<Item = &Request> {
        self.open.values().filter(|request| !request.warms_up() && !self.is_draft(request))
    }

    /// How many have arrived and wait for a sequence, where that is recorded: at most so many, since an engine may number
    /// other tasks as well. Where fewer sequences are given than there were once, none waits; and what arrived before one
    /// that has its sequence was something else.
    /// `None` until a sequence was given.
    pub fn queued(&self) -> Option<usize> {
        if self.given.len() < self.most_given {
            return Some(0);
        }
        let waiting = || self.arrivals.values().filter(|arrived| **arrived > self.latest_given).count();
        (self.most_given > 0).then(waiting)
    }

    /// Whether a draft model computes it for another model's request.
    fn is_draft(&self, request: &Request) -> bool {
        let same = |other: &&Request| {
            (other.pid, other.sequence, other.request) == (request.pid, request.sequence, request.request)
                && other.instance != request.instance
        };
        self.instances.len() > 1 && self.open.values().filter(same).any(|other| other.step_time > request.step_time)
    }

    /// Reports a request's first token once its time cannot change any more: at its next step, or at the end.
    fn report_first(&mut self, key: (u32, Option<i64>, i64), at_end: bool) {
        let Some(request) = self.open.get(&key) else { return };
        let is_final = at_end || request.chosen > 0 || request.first_token.is_some_and(|first| first < request.end);
        if self.news.is_none() || request.is_reported || !is_final || request.first_token.is_none() {
            return;
        }
        if request.warms_up() || self.is_draft(request) {
            return;
        }
        let found = *request;
        if let Some(news) = &mut self.news {
            news.push(RequestNews::FirstToken(found));
        }
        if let Some(request) = self.open.get_mut(&key) {
            request.is_reported = true;
        }
    }

    /// Takes a step; steps come in the order of their ends.
    pub fn add(&mut self, step: &Step, decoder: &Decoder) {
        for event in &step.requests {
            self.event(event);
        }
        self.step(step, instance(step, decoder));
    }

    fn step(&mut self, step: &Step, instance: Option<i64>) {
        let model = (step.pid, instance);
        let is_recorded = step.recorded == Recorded::Whole && step.complete;
        if self.seen.len() >= MAX_OPEN && !self.seen.contains_key(&model) {
            return;
        }
        let seen = self.seen.entry(model).or_insert(Seen { stretch: step.stretch, before: Before::Nothing });
        if seen.stretch != step.stretch || (step.sequences.is_empty() && !is_recorded) {
            *seen = Seen { stretch: step.stretch, before: Before::Gap };
        }
        if step.sequences.is_empty() {
            return;
        }
        let before = std::mem::replace(&mut seen.before, Before::Recorded);
        self.saw_steps = true;
        if before == Before::Gap {
            let of_model = |key: &(u32, Option<i64>, i64)| (key.0, key.1) == model;
            self.open.iter_mut().filter(|(key, _)| of_model(key)).for_each(|(_, request)| request.note_gap());
        }
        for part in &step.sequences {
            self.part(part, step, instance, before);
        }
    }

    fn event(&mut self, event: &RequestEvent) {
        let RequestEvent { time, pid, request, sequence, tokens } = *event;
        if let Some((sequence, tokens)) = sequence.zip(tokens) {
            self.tokens(pid, sequence, tokens, time);
            return;
        }
        match (request, sequence) {
            (Some(request), None) => {
                if self.arrivals.len() >= MAX_OPEN
                    && let Some(oldest) = self.arrivals.iter().min_by_key(|(_, time)| **time).map(|(key, _)| *key)
                {
                    self.arrivals.remove(&oldest);
                }
                self.arrivals.insert((pid, request), time);
            }
            (Some(request), Some(sequence)) => {
                self.close(pid, sequence, None);
                let arrived = self.arrivals.remove(&(pid, request));
                self.latest_given = self.latest_given.max(arrived.unwrap_or(0));
                if self.given.len() < MAX_OPEN {
                    self.given.insert((pid, sequence), Given { request, arrived, started: time });
                    self.most_given = self.most_given.max(self.given.len());
                }
            }
            (None, Some(sequence)) => {
                self.close(pid, sequence, Some(time));
                self.given.remove(&(pid, sequence));
            }
            (None, None) => {}
        }
    }

    /// Tokens of a sequence were chosen.
    fn tokens(&mut self, pid: u32, sequence: i64, tokens: u64, time: u64) {
        let of_sequence = |key: &(u32, Option<i64>, i64)| key.0 == pid && key.2 == sequence;
        for (_, request) in self.open.iter_mut().filter(|(key, _)| of_sequence(key)) {
            if request.chosen == 0 && request.unseen != Unseen::Beginning {
                request.first_token = Some(time);
            }
            request.chosen += tokens;
            request.generated_tokens = request.chosen;
            request.end = time;
        }
    }

    /// Ends a sequence's open request.
    fn close(&mut self, pid: u32, sequence: i64, released: Option<u64>) {
        let of_sequence = |key: &&(u32, Option<i64>, i64)| key.0 == pid && key.2 == sequence;
        let keys: Vec<(u32, Option<i64>, i64)> = self.open.keys().filter(of_sequence).copied().collect();
        let drafts: Vec<(u32, Option<i64>, i64)> = match self.news {
            Some(_) => {
                keys.iter().filter(|key| self.open.get(key).is_some_and(|of| self.is_draft(of))).copied().collect()
            }
            None => Vec::new(),
        };
        drafts.iter().for_each(|key| {
            self.open.remove(key);
        });
        for key in keys {
            if let Some(mut request) = self.open.remove(&key) {
                request.released = released;
                self.finish(request);
            }
        }
    }

    fn part(&mut self, part: &SequencePart, step: &Step, instance: Option<i64>, preceding: Before) {
        let key = (step.pid, instance, part.sequence);
        let given = self.given.get(&(step.pid, part.sequence)).copied();
        let over = |open: &Request| given.is_none() && open.is_over(part);
        if self.open.get(&key).is_some_and(over) {
            let is_draft = self.news.is_some() && self.open.get(&key).is_some_and(|request| self.is_draft(request));
            if let Some(request) = self.open.remove(&key).filter(|_| !is_draft) {
                self.finish(request);
            }
        }
        let is_first = !self.instances.contains(&(step.pid, instance));
        if is_first && self.instances.len() < MAX_OPEN {
            self.instances.push((step.pid, instance));
        }
        if self.open.len() >= MAX_OPEN && !self.open.contains_key(&key) {
            return;
        }
        let has_gap = preceding == Before::Gap;
        let begins_unseen = match preceding {
            Before::Gap => part.position != Some(0),
            Before::Nothing => given.is_none() && part.position.is_some_and(|position| position > 0),
            Before::Recorded => false,
        };
        let request = self.open.entry(key).or_insert_with(|| Request {
            request: given.map(|given| given.request),
            arrived: given.and_then(|given| given.arrived),
            pid: step.pid,
            sequence: part.sequence,
            instance,
            begin: given.map_or(step.start, |given| given.started),
            end: step.start,
            cached_tokens: part.position.filter(|_| !begins_unseen),
            is_first,
            unseen: if begins_unseen { Unseen::Beginning } else { Unseen::Nothing },
            ..Request::default()
        });
        // In a gap the sequence may have been given other tokens, or another request.
        let continues = request.unseen == Unseen::Beginning && request.steps > 0 && part.tokens == 1;
        let gives = request.first_token.is_some() || continues;
        let before = (gives && !has_gap).then_some(request.step_end);
        request.take(part, step);
        let found = *request;
        if let Some(before) = before.filter(|_| !self.is_draft(&found)) {
            let after = step.end.saturating_sub(before);
            match &mut self.news {
                Some(news) => news.push(RequestNews::NextToken { time: step.end, after }),
                None => self.between.push(after),
            }
        }
        self.report_first(key, false);
    }

    fn finish(&mut self, request: Request) {
        if request.warms_up() {
            return;
        }
        self.count += 1;
        if let Some(news) = &mut self.news {
            if request.first_token.is_some() && !request.is_reported {
                news.push(RequestNews::FirstToken(request));
            }
            return news.push(RequestNews::Ended(request));
        }
        if let Some(ttft) = request.ttft() {
            self.ttft.push(ttft);
        }
        if self.finished.len() < MAX_LISTED {
            self.finished.push(request);
        }
    }

    /// Sequences of batches were recorded.
    pub fn were_recorded(&self) -> bool {
        self.saw_steps
    }

    /// The requests by their start: those that ended, and those that were open at the trace's end.
    pub fn list(&self) -> Vec<Request> {
        let open = self.open.values().filter(|request| !request.warms_up());
        let mut all: Vec<Request> = self.finished.iter().chain(open).copied().collect();
        // A draft model's sequences are those of the requests that it drafts for.
        let drafted = |a: &Request, b: &Request| {
            (a.pid, a.sequence) == (b.pid, b.sequence)
                && a.instance != b.instance
                && a.begin < b.end
                && b.begin < a.end
                && (a.request == b.request && a.step_time < b.step_time)
        };
        let drafts: Vec<bool> = if self.instances.len() > 1 {
            all.iter().map(|a| all.iter().any(|b| drafted(a, b))).collect()
        } else {
            vec![false; all.len()]
        };
        let mut index = 0;
        all.retain(|_| {
            index += 1;
            !drafts[index - 1]
        });
        all.sort_by_key(|request| (request.arrived.unwrap_or(request.begin), request.begin, request.sequence));
        all
    }

    /// How many requests there are, listed or not.
    pub fn count(&self) -> u64 {
        self.count + self.open.values().filter(|request| !request.warms_up()).count() as u64
    }

    /// Time to first token.
    pub fn ttft(&self) -> Distribution {
        if self.count > MAX_LISTED as u64 {
            return self.ttft.distribution();
        }
        Distribution::of(self.list().iter().filter_map(Request::ttft).collect())
    }

    /// Time between the steps that give a request its tokens.
    pub fn tpot(&self) -> Distribution {
        self.between.distribution()
    }
}

/// The model of a step, where its record has it.
fn instance(step: &Step, decoder: &Decoder) -> Option<i64> {
    let header = Header::read(&step.record)?;
    match decoder.value_of(&header, &step.record, FieldMeaning::Instance)? {
        profinfer_probeset::path::Value::Object(address) => Some(address.cast_signed()),
        value => value.as_int(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step that takes in this of sequence 0, or of which that was not recorded.
    fn step(start: u64, part: Option<(u64, u64, u64)>) -> Step {
        let of = |(position, tokens, outputs)| SequencePart {
            sequence: 0,
            position: Some(position),
            tokens,
            outputs: Some(outputs),
        };
        let recorded = if part.is_some() { Recorded::Whole } else { Recorded::Bare };
        Step {
            pid: 7,
            start,
            end: start + 10,
            complete: true,
            recorded,
            sequences: part.map(of).into_iter().collect(),
            ..Step::default()
        }
    }

    fn news(steps: &[Step]) -> (Vec<u64>, Vec<u64>) {
        let mut requests = Requests::followed();
        steps.iter().for_each(|step| requests.step(step, None));
        requests.end_news();
        let (mut first, mut next) = (Vec::new(), Vec::new());
        for news in requests.take_news() {
            match news {
                RequestNews::FirstToken(request) => first.extend(request.ttft()),
                RequestNews::NextToken { after, .. } => next.push(after),
                RequestNews::Ended(_) => {}
            }
        }
        (first, next)
    }

    #[test]
    fn times_between_tokens_do_not_span_steps_whose_tokens_were_not_recorded() {
        let prompt = step(0, Some((0, 8, 1)));
        let whole = [prompt.clone(), step(20, Some((8, 1, 1))), step(40, Some((9, 1, 1)))];
        assert_eq!(news(&whole), (vec![10], vec![20, 20]));
        let mut gap = vec![prompt.clone(), step(20, Some((8, 1, 1))), step(40, None), step(60, None)];
        gap.extend([step(80, Some((11, 1, 1))), step(100, Some((12, 1, 1)))]);
        assert_eq!(news(&gap), (vec![10], vec![20, 20]));
        let later = Step { stretch: 1, ..step(60, Some((10, 1, 1))) };
        assert_eq!(news(&[prompt, step(20, Some((8, 1, 1))), later]).1, [20], "nothing was recorded in between");
    }

    #[test]
    fn what_began_before_it_was_seen_has_no_first_token() {
        // The recording begins within a request, with and without bare steps before.
        let within = [step(0, Some((500, 1, 1))), step(20, Some((501, 1, 1)))];
        assert_eq!(news(&within), (vec![], vec![20]));
        let windows = [step(0, None), step(20, Some((500, 1, 1))), step(40, Some((501, 1, 1)))];
        assert_eq!(news(&windows), (vec![], vec![20]));
        // A prompt of which a part was not seen.
        let prompt = [step(0, Some((0, 8, 0))), step(20, None), step(40, Some((16, 1, 1)))];
        assert!(news(&prompt).0.is_empty());
        // One that begins in a window, after others were not seen.
        let begins = [step(0, None), step(20, Some((0, 8, 1))), step(40, Some((8, 1, 1)))];
        assert_eq!(news(&begins), (vec![10], vec![20]));
    }
}
