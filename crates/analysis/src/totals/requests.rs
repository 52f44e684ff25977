//! Requests: what became of each sequence that steps advanced. A request's first token is chosen at the end of the step
//! that takes in the last token of its prompt; each later step gives it the next ones. Where the engine's own events of
//! requests were recorded, these decide where a request begins and ends, and when it arrived; otherwise a sequence whose
//! positions begin again does.

use super::request::{Given, Request, Unseen};
use super::servers::Servers;
use crate::ids::Phase;
use crate::numbers::{Distribution, Durations};
use crate::raw::Decoder;
use crate::sampling::Recorded;
use crate::step::{RequestEvent, SequencePart, Step};
use rustc_hash::{FxHashMap, FxHashSet};

/// Requests that are listed; beyond, they are in the distributions only.
const MAX_LISTED: usize = 20_000;
/// Sequences that are open.
const MAX_OPEN: usize = 4096;

/// A process's number, its model and a sequence of that.
type Key = (u32, Option<i64>, i64);
/// A process's number, the thread on which a server's events happen, and a sequence of that server.
type GivenKey = (u32, u32, i64);

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
    open: FxHashMap<Key, Request>,
    servers: Servers,
    /// The request that has a sequence, by the engine's events.
    given: FxHashMap<GivenKey, Given>,
    /// The most sequences that were given at a time.
    most_given: usize,
    /// Times in which nothing was recorded.
    stretch: u32,
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
        let keys: Vec<Key> = self.open.keys().copied().collect();
        for key in keys {
            self.report_first(key, true);
        }
    }

    /// The requests that have begun and not ended.
    pub fn open(&self) -> impl Iterator<Item = Request> {
        self.all_open().filter(|request| !request.warms_up() && !self.is_draft(request))
    }

    /// Those of recorded steps, and those that only the engine's events tell of.
    fn all_open(&self) -> impl Iterator<Item = Request> {
        let has_steps: FxHashSet<GivenKey> =
            self.open.values().filter_map(|of| self.given_key(of.pid, of.tid, of.sequence)).collect();
        let others = self.given.iter().filter(move |(key, _)| !has_steps.contains(key));
        let others = others.map(|(key, given)| Request::of_events(*key, given, None));
        self.open.values().copied().chain(others)
    }

    /// How many times in which nothing was recorded had begun when the last step or event came: what is open was seen then.
    pub fn stretch(&self) -> u32 {
        self.stretch
    }

    /// How many have arrived and wait for a sequence, where that is recorded: at most so many, since an engine may number
    /// other tasks as well. Where fewer sequences are given than there were once, none waits. `None` until a sequence was
    /// given.
    pub fn queued(&self) -> Option<usize> {
        if self.given.len() < self.most_given {
            return Some(0);
        }
        (self.most_given > 0).then(|| self.servers.waiting())
    }

    /// Of the sequences that the engine's events gave, the one that is meant on a thread: its own server's, or one of a
    /// server of which no thread is known that runs its steps.
    fn given_key(&self, pid: u32, tid: u32, sequence: i64) -> Option<GivenKey> {
        let own = (pid, tid, sequence);
        if self.given.contains_key(&own) {
            return Some(own);
        }
        let is_meant = |key: &&GivenKey| (key.0, key.2) == (pid, sequence) && self.servers.is_same(key.1, tid);
        self.given.keys().find(is_meant).copied()
    }

    /// The open requests of a sequence that a thread's server may have.
    fn open_keys(&self, pid: u32, tid: u32, sequence: i64) -> Vec<Key> {
        let is_meant =
            |(key, of): &(&Key, &Request)| (key.0, key.2) == (pid, sequence) && self.servers.is_same(of.tid, tid);
        self.open.iter().filter(is_meant).map(|(key, _)| *key).collect()
    }

    /// Whether a draft model computes it for another model's request.
    fn is_draft(&self, request: &Request) -> bool {
        self.instances.len() > 1 && self.open.values().any(|other| request.is_draft_of(other))
    }

    /// Reports a request's first token once its time cannot change any more: at its next step, or at the end.
    fn report_first(&mut self, key: Key, at_end: bool) {
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

    /// The models whose steps were recorded, of the process that has most: by the field `instance`.
    pub fn models(&self) -> usize {
        let mut of_process: FxHashMap<u32, usize> = FxHashMap::default();
        for (pid, _) in self.seen.keys().filter(|(_, instance)| instance.is_some()) {
            *of_process.entry(*pid).or_default() += 1;
        }
        of_process.into_values().max().unwrap_or(0)
    }

    /// Takes a step; steps come in the order of their ends.
    pub fn add(&mut self, step: &Step, decoder: &Decoder) {
        self.step(step, step.instance(decoder));
    }

    fn step(&mut self, step: &Step, instance: Option<i64>) {
        self.events(step);
        // What no step contains has no sequences, and is no gap between steps of its process.
        if step.phase == Some(Phase::Outside) {
            return;
        }
        self.servers.runs_step(step.tid);
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
            let of_model = |key: &Key| (key.0, key.1) == model;
            self.open.iter_mut().filter(|(key, _)| of_model(key)).for_each(|(_, request)| request.note_gap());
        }
        for part in &step.sequences {
            self.part(part, step, instance, before);
        }
    }

    /// Takes the events up to a step's end, which are of the step before, or between the two.
    fn events(&mut self, step: &Step) {
        let mut counted: Vec<GivenKey> = Vec::new();
        for event in &step.requests {
            if self.goes_on_in(event.stretch) {
                counted.clear();
            }
            self.event(event, &mut counted);
        }
        self.goes_on_in(step.stretch);
    }

    /// What comes now is of this stretch; whether nothing was recorded for a time before it. Then what is open may be over,
    /// and what has a sequence afterwards may be another request.
    fn goes_on_in(&mut self, stretch: u32) -> bool {
        let is_later = stretch > self.stretch;
        if is_later {
            self.stretch = stretch;
            self.open.values_mut().for_each(|request| request.ends_unseen = true);
            let keys: Vec<Key> = self.open.keys().copied().collect();
            self.end(&keys, None);
            self.given.clear();
            self.servers.forget();
        }
        is_later
    }

    /// Takes an event; the sequences that were given tokens since the last step are `counted`.
    fn event(&mut self, event: &RequestEvent, counted: &mut Vec<GivenKey>) {
        let RequestEvent { time, pid, tid, request, sequence, tokens, instance, .. } = *event;
        if let Some((sequence, tokens)) = sequence.zip(tokens) {
            let key = (pid, tid, sequence);
            let begins_step = !counted.contains(&key);
            if begins_step {
                counted.push(key);
            }
            self.tokens(key, tokens, time, begins_step);
            return;
        }
        match (request, sequence) {
            (Some(request), None) => self.servers.arrives(pid, instance, request, tid, time),
            (Some(request), Some(sequence)) => {
                self.replace((pid, tid, sequence));
                let arrived = self.servers.gives(pid, request, tid);
                if self.given.len() < MAX_OPEN {
                    self.given.insert((pid, tid, sequence), Given::new(request, arrived, time));
                    self.most_given = self.most_given.max(self.given.len());
                }
            }
            (None, Some(sequence)) => self.close(pid, tid, sequence, Some(time)),
            (None, None) if instance.is_some() => self.close_model((pid, instance), time),
            (None, None) => {}
        }
    }

    /// Tokens of a sequence were chosen.
    fn tokens(&mut self, (pid, tid, sequence): GivenKey, tokens: u64, time: u64, begins_step: bool) {
        let open = self.open_keys(pid, tid, sequence);
        let key = self.given_key(pid, tid, sequence);
        if let Some((key, given)) = key.and_then(|key| Some((key, self.given.get_mut(&key)?))) {
            let after = given.take(tokens, time, begins_step);
            let is_reported = open.iter().any(|key| self.open.get(key).is_some_and(|request| request.is_reported));
            let is_new = !std::mem::replace(&mut given.is_reported, true) && !is_reported;
            let given = *given;
            for of in &open {
                self.open.entry(*of).and_modify(|request| request.take_events(&given));
            }
            self.saw_steps = true;
            if let Some(news) = self.news.as_mut().filter(|_| is_new) {
                news.push(RequestNews::FirstToken(Request::of_events(key, &given, None)));
            }
            after.into_iter().for_each(|after| self.next_token(time, after));
            return;
        }
        for key in open {
            let Some(request) = self.open.get_mut(&key) else { continue };
            if request.chosen == 0 && request.unseen != Unseen::Beginning {
                request.first_token = Some(time);
            }
            request.chosen += tokens;
            request.generated_tokens = request.chosen;
            request.end = time;
        }
    }

    fn next_token(&mut self, time: u64, after: u64) {
        match &mut self.news {
            Some(news) => news.push(RequestNews::NextToken { time, after }),
            None => self.between.push(after),
        }
    }

    /// A sequence is given another request. Of a thread that had none, nothing tells yet whether it runs steps: it may be
    /// another server's, and ends nothing.
    fn replace(&mut self, key: GivenKey) {
        let (pid, tid, sequence) = key;
        if self.given.contains_key(&key) {
            return self.close(pid, tid, sequence, None);
        }
        let mut keys = self.open_keys(pid, tid, sequence);
        keys.retain(|key| self.open.get(key).is_some_and(|of| of.tid == tid));
        self.end(&keys, None);
    }

    /// Ends a sequence's open request.
    fn close(&mut self, pid: u32, tid: u32, sequence: i64, released: Option<u64>) {
        let keys = self.open_keys(pid, tid, sequence);
        let given = self.given_key(pid, tid, sequence).and_then(|key| Some((key, self.given.remove(&key)?)));
        if let Some((key, given)) = given.filter(|_| keys.is_empty()) {
            self.finish(Request::of_events(key, &given, released));
        }
        self.end(&keys, released);
    }

    /// A model is gone: its open requests end, and what has its address later is another one.
    fn close_model(&mut self, model: (u32, Option<i64>), time: u64) {
        let of_model = |key: &&Key| (key.0, key.1) == model;
        let keys: Vec<Key> = self.open.keys().filter(of_model).copied().collect();
        self.end(&keys, Some(time));
        self.instances.retain(|other| *other != model);
        self.seen.remove(&model);
    }

    /// Ends open requests.
    fn end(&mut self, keys: &[Key], released: Option<u64>) {
        let drafts: Vec<Key> = match self.news {
            Some(_) => {
                keys.iter().filter(|key| self.open.get(key).is_some_and(|of| self.is_draft(of))).copied().collect()
            }
            None => Vec::new(),
        };
        drafts.iter().for_each(|key| {
            self.open.remove(key);
        });
        for key in keys {
            if let Some(mut request) = self.open.remove(key) {
                request.released = released;
                self.finish(request);
            }
        }
    }

    fn part(&mut self, part: &SequencePart, step: &Step, instance: Option<i64>, preceding: Before) {
        let key = (step.pid, instance, part.sequence);
        let given = self.given_key(step.pid, step.tid, part.sequence).and_then(|key| self.given.get(&key)).copied();
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
            pid: step.pid,
            sequence: part.sequence,
            instance,
            begin: step.start,
            end: step.start,
            cached_tokens: part.position.filter(|_| !begins_unseen),
            is_first,
            unseen: if begins_unseen { Unseen::Beginning } else { Unseen::Nothing },
            ..Request::default()
        });
        // In a gap the sequence may have been given other tokens, or another request.
        let continues = request.unseen == Unseen::Beginning && request.steps > 0 && part.tokens == 1;
        let gives = request.first_token.is_some() || continues;
        // The engine's own events tell it better.
        let before = (gives && !has_gap && given.is_none_or(|given| given.chosen == 0)).then_some(request.step_end);
        if let Some(given) = given {
            request.take_events(&given);
        }
        request.tid = step.tid;
        request.take(part, step);
        let found = *request;
        if let Some(before) = before.filter(|_| !self.is_draft(&found)) {
            self.next_token(step.end, step.end.saturating_sub(before));
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

    /// Whether a request has been given a sequence, and no token yet.
    pub(super) fn awaits_tokens(&self) -> bool {
        self.given.values().any(|given| given.chosen == 0)
    }

    /// Sequences of batches were recorded.
    pub fn were_recorded(&self) -> bool {
        self.saw_steps
    }

    /// The requests by their start: those that ended, and those that were open at the trace's end.
    pub fn list(&self) -> Vec<Request> {
        let open = self.all_open().filter(|request| !request.warms_up());
        let mut all: Vec<Request> = self.finished.iter().copied().chain(open).collect();
        // A draft model's sequences are those of the requests that it drafts for.
        let drafts: Vec<bool> = if self.instances.len() > 1 {
            all.iter().map(|a| all.iter().any(|b| a.is_draft_of(b))).collect()
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
        // Only of those that are listed it is found which draft models computed.
        if self.news.is_none() && self.count <= MAX_LISTED as u64 {
            return self.list().len() as u64;
        }
        self.count + self.all_open().filter(|request| !request.warms_up()).count() as u64
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
    fn requests_are_counted_without_what_a_draft_model_computes_for_them() {
        let mut requests = Requests::default();
        for at in (0..12).map(|request| request * 1000) {
            for (after, position, tokens) in [(0, 0, 8), (100, 8, 1), (200, 9, 1), (300, 10, 1)] {
                let part = Some((position, tokens, 1));
                let draft = Step { end: at + after + 5, ..step(at + after, part) };
                requests.step(&draft, Some(1));
                requests.step(&Step { end: at + after + 50, ..step(at + after + 10, part) }, Some(2));
            }
        }
        assert_eq!((requests.list().len(), requests.count()), (12, 12));
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

    /// An event of the engine, on another thread than steps' unless it is of a token.
    fn event(time: u64, tid: u32, request: Option<u64>, sequence: Option<i64>, tokens: Option<u64>) -> RequestEvent {
        RequestEvent { time, stretch: 0, pid: 7, tid, request, sequence, tokens, instance: None }
    }

    /// What the engine told before the end of a step of which nothing else was recorded.
    fn told(start: u64, requests: Vec<RequestEvent>) -> Step {
        Step { requests, tid: 1, ..step(start, None) }
    }

    #[test]
    fn the_engine_s_events_tell_all_times_of_a_request_whose_steps_were_not_recorded() {
        let begins = vec![event(3, 2, Some(5), None, None), event(8, 1, Some(5), Some(0), None)];
        let token = |time| event(time, 1, None, Some(0), Some(1));
        let mut steps = vec![told(0, vec![]), told(20, begins), told(40, vec![token(33)]), told(60, vec![token(52)])];
        // Two of a step: a draft was right.
        steps.push(told(80, vec![token(75), token(76)]));
        steps.push(told(100, vec![token(95), event(97, 1, None, Some(0), None)]));
        assert_eq!(news(&steps), (vec![30], vec![19, 23, 20]));
        let mut requests = Requests::default();
        steps.iter().for_each(|step| requests.step(step, None));
        let [request] = requests.list()[..] else { panic!("{:?}", requests.list()) };
        assert_eq!((request.request, request.queued(), request.prefill()), (Some(5), Some(5), Some(25)));
        assert_eq!((request.decode(), request.whole_duration()), (Some(62), Some(92)));
        assert_eq!((request.output_tokens(), request.input_tokens(), request.tpot()), (Some(5), None, Some(15.5)));
        // One window within it changes nothing.
        steps[3] = Step { requests: steps[3].requests.clone(), tid: 1, ..step(60, Some((9, 1, 1))) };
        assert_eq!(news(&steps), (vec![30], vec![19, 23, 20]));
        // A time in which nothing was recorded: what was told before it may be over.
        steps[3].stretch = 1;
        steps[4].stretch = 1;
        steps[5].stretch = 1;
        assert_eq!(news(&steps), (vec![30], vec![19]));
    }

    /// A window's first events come before its first step ends, with those that came last before the time without records.
    #[test]
    fn no_time_between_two_tokens_has_one_in_which_nothing_was_recorded() {
        let begins = vec![event(3, 2, Some(5), None, None), event(8, 1, Some(5), Some(0), None)];
        let token = |time, stretch| RequestEvent { stretch, ..event(time, 1, None, Some(0), Some(1)) };
        let later = |start, requests| Step { stretch: 1, ..told(start, requests) };
        let mut steps = vec![told(0, vec![]), told(20, begins.clone()), told(40, vec![token(33, 0)])];
        steps.push(told(60, vec![token(52, 0)]));
        steps.push(later(5060, vec![token(60, 0), token(5052, 1)]));
        steps.push(later(5080, vec![token(5072, 1)]));
        assert_eq!(news(&steps), (vec![30], vec![19, 8]));
        // It was given its sequence before, and its first token is of no time that is certain.
        let steps = [told(0, vec![]), told(20, begins), later(5060, vec![token(5052, 1)]), later(5080, vec![])];
        assert_eq!(news(&steps), (vec![], vec![]));
        let mut requests = Requests::followed();
        steps.iter().for_each(|step| requests.step(step, None));
        assert_eq!((requests.open().count(), requests.stretch()), (0, 1));
    }

    #[test]
    fn tasks_that_the_engine_numbers_between_steps_are_not_queued() {
        let mut requests = Requests::followed();
        let begins = vec![event(3, 2, Some(5), None, None), event(8, 1, Some(5), Some(0), None)];
        requests.step(&told(0, vec![]), None);
        requests.step(&told(20, begins), None);
        requests.step(&told(40, vec![event(31, 1, Some(6), None, None)]), None);
        assert_eq!(requests.queued(), Some(0));
        requests.step(&told(60, vec![event(51, 3, Some(7), None, None)]), None);
        assert_eq!(requests.queued(), Some(1));
        assert_eq!(requests.open().count(), 1);
        // One thread does everything.
        let mut alone = Requests::followed();
        alone.step(&told(0, vec![]), None);
        let begins = vec![event(13, 1, Some(5), None, None), event(18, 1, Some(5), Some(0), None)];
        alone.step(&told(20, [begins, vec![event(19, 1, Some(6), None, None)]].concat()), None);
        assert_eq!(alone.queued(), Some(1));
    }

    /// Two servers' requests 0, in their sequences 0, at once; each computes 8 tokens, then one in each step.
    #[test]
    fn servers_of_a_process_have_requests_and_sequences_of_their_own() {
        let part = |position, tokens| Some((position, tokens, 1));
        let of = |tid, start, part, requests| Step { tid, requests, ..step(start, part) };
        let arrives = |time, queue| RequestEvent { instance: Some(queue), ..event(time, 9, Some(0), None, None) };
        let token = |time, tid| event(time, tid, None, Some(0), Some(1));
        let begins = |time, tid| event(time, tid, Some(0), Some(0), None);
        let steps = [
            (1, of(1, 100, part(0, 8), vec![arrives(90, 500), begins(95, 1)])),
            (2, of(2, 120, part(0, 8), vec![token(111, 1), arrives(112, 600), begins(115, 2)])),
            (1, of(1, 140, part(8, 1), vec![token(131, 2)])),
            (2, of(2, 160, part(8, 1), vec![token(151, 1)])),
            // One of them is done.
            (2, of(2, 180, part(9, 1), vec![event(152, 1, None, Some(0), None), token(171, 2)])),
            (2, of(2, 200, part(10, 1), vec![token(191, 2), event(192, 2, None, Some(0), None)])),
        ];
        let mut requests = Requests::default();
        steps[..5].iter().for_each(|(model, step)| requests.step(step, Some(*model)));
        assert_eq!(requests.open().count(), 1);
        requests.step(&told(200, steps[5].1.requests.clone()), None);
        let [first, second] = requests.list()[..] else { panic!("{:?}", requests.list()) };
        let told = |of: &Request| (of.request, of.arrived, of.input_tokens(), of.output_tokens(), of.released);
        assert_eq!(told(&first), (Some(0), Some(90), Some(8), Some(2), Some(152)));
        assert_eq!(told(&second), (Some(0), Some(112), Some(8), Some(3), Some(192)));
    }

    #[test]
    fn of_many_that_wait_the_latest_are_remembered() {
        let mut requests = Requests::default();
        requests.step(&told(0, vec![event(1, 2, Some(0), None, None), event(2, 2, Some(0), Some(0), None)]), None);
        let tasks = (1..=3 * MAX_OPEN as u64).map(|task| event(task + 10, 2, Some(task), None, None));
        requests.step(&told(20_000, tasks.collect()), None);
        let queued = requests.queued().unwrap();
        assert!((MAX_OPEN / 2..=MAX_OPEN).contains(&queued), "{queued}");
        let last = 3 * MAX_OPEN as u64;
        let begins = |task| vec![event(30_000, 2, Some(task), Some(1), None), event(30_001, 1, None, Some(1), Some(1))];
        requests.step(&told(40_000, begins(last)), None);
        let found = requests.list().into_iter().find(|request| request.request == Some(last));
        assert_eq!(found.unwrap().arrived, Some(last + 10));
    }

    #[test]
    fn a_request_ends_with_its_model() {
        let mut requests = Requests::followed();
        for (index, model) in [1, 2, 1].into_iter().enumerate() {
            let from = 1000 * index as u64;
            let gone = RequestEvent { instance: Some(model), ..event(from + 15, 1, None, None, None) };
            requests.step(&step(from, Some((0, 8, 1))), Some(model));
            requests.step(&Step { requests: vec![gone], ..step(from + 20, None) }, None);
            assert_eq!(requests.open().count(), 0);
            let news = requests.take_news();
            let [RequestNews::FirstToken(_), RequestNews::Ended(request)] = news[..] else { panic!("{news:?}") };
            assert_eq!((request.released, request.begin), (Some(from + 15), from));
            assert!(request.is_first, "nothing of a model that is gone is left");
        }
        // Nothing was recorded for a time, then another model was freed that has its address.
        requests.step(&step(5000, Some((0, 8, 1))), Some(1));
        let gone = RequestEvent { instance: Some(1), stretch: 1, ..event(9000, 1, None, None, None) };
        requests.step(&Step { requests: vec![gone], stretch: 1, ..step(9010, None) }, None);
        let [.., RequestNews::Ended(request)] = requests.take_news()[..] else { panic!("it has ended") };
        assert_eq!((request.released, request.end, request.whole_duration()), (None, 5010, None));
    }

    #[test]
    fn requests_are_not_continued_beyond_a_time_in_which_nothing_was_recorded() {
        let mut requests = Requests::default();
        let after = |step: Step| Step { stretch: 1, ..step };
        let parts = [step(0, Some((0, 8, 1))), step(20, Some((8, 1, 1))), step(40, Some((9, 1, 1)))];
        let later = [after(step(9000, Some((20, 1, 1)))), after(step(9020, Some((21, 1, 1))))];
        parts.iter().chain(&later).for_each(|step| requests.step(step, None));
        let [first, second] = requests.list()[..] else { panic!("{:?}", requests.list()) };
        assert_eq!((first.ttft(), first.tpot(), first.input_tokens()), (Some(10), Some(20.0), Some(8)));
        assert_eq!((first.end, first.decode(), first.output_tokens(), first.whole_duration()), (50, None, None, None));
        assert_eq!((second.begin, second.ttft(), second.output_tokens()), (9000, None, None));
    }

    #[test]
    fn a_later_model_s_request_in_the_same_sequence_is_no_draft() {
        let mut requests = Requests::followed();
        for (model, from) in [(1, 0), (2, 1000)] {
            for (index, part) in [(0, 8, 1), (8, 1, 1), (9, 1, 1)].into_iter().enumerate() {
                requests.step(&step(from + 20 * index as u64, Some(part)), Some(model));
            }
        }
        let first = |news: &RequestNews| matches!(news, RequestNews::FirstToken(_));
        let next = |news: &RequestNews| matches!(news, RequestNews::NextToken { .. });
        let news = requests.take_news();
        assert_eq!((news.iter().filter(|n| first(n)).count(), news.iter().filter(|n| next(n)).count()), (2, 4));
    }
}
