//! The model: a trace's items in, a snapshot out, at any moment. It knows the time by records and notices, and is told
//! when a recording that goes on is silent.

use super::condition::Condition;
use super::figures::Figures;
use super::moments::{Happened, Moments, Seen};
use super::recent::{SECONDS, Sums};
use super::rules::SharedRules;
use super::seconds::{LATEST, SECOND};
use super::snapshot::{
    LossRow, OperatorShare, OverheadSpent, PhaseFigures, Pressures, RequestFigures, Requests, Snapshot, State, Window,
};
use profinfer_analysis::{Catalogue, Completeness, Decoder, Findings, Phase, Request, Step, Timeline, Visitor};
use profinfer_diagnostics::Diagnostics;
use profinfer_report::{By, Options, TimeParts, build};
use profinfer_schema::{DetailReason, DetailState, Loss, Notice, Origin, Overhead, Role, Schema};
use profinfer_trace::{Item, Meta};

/// A step is finished when it ended so long ago: its records have all come, and steps around it have ended. ns.
const SETTLED: u64 = 300_000_000;
/// Time between two times that steps are finished, ns.
const INTERVAL: u64 = 200_000_000;
/// Time that a verdict is of, ns: a new one begins then.
const PERIOD: u64 = 30_000_000_000;
/// Steps with operators from which on a verdict replaces that of the time before.
const ENOUGH: u64 = 8;
/// Where sampling windows record all there is: seconds in them that show a rate of steps, and that none came.
const FEWEST_SEEN: f64 = 0.02;
const IDLE_SEEN: f64 = 1.0;
/// Requests that are listed.
const LISTED: usize = 32;
/// Requests that have ended and are remembered until somebody takes them.
const REMEMBERED: usize = 4096;
/// Operator types of a verdict that are listed.
const MOST_OPERATORS: usize = 20;

/// Live figures of one recording. Its memory depends on the engine's operators and threads, not on time.
#[derive(Debug)]
pub struct Model {
    timeline: Timeline,
    figures: Figures,
    origin: Origin,
    has_requests: bool,
    has_faults: bool,
    state: State,
    /// Why it has ended, as the trace has it: the last steps are finished after that.
    reason: Option<String>,
    /// The latest time that is known, ns; up to which steps were finished; and up to which all steps are in.
    now: u64,
    passed: u64,
    settled: u64,
    pressure: Option<Pressures>,
    overhead: Option<OverheadSpent>,
    /// Times in which nothing was recorded, for the budget: their sum, and when the open one began.
    unseen_ns: u64,
    unseen_since: Option<u64>,
    /// How many times in which nothing was recorded have begun, and when the last of them ended.
    gaps: u32,
    recorded_since: u64,
    losses: Vec<LossRow>,
    verdict: Verdict,
}

/// Requests that have ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ended {
    /// In the order of their ends.
    pub requests: Vec<Request>,
    /// Further ones, beyond the bound.
    pub left_out: u64,
}

impl Ended {
    pub(crate) fn push(&mut self, request: Request) {
        if self.requests.len() < REMEMBERED {
            self.requests.push(request);
        } else {
            self.left_out += 1;
        }
    }
}

/// What limits the steps of a period.
#[derive(Debug, Default)]
struct Verdict {
    /// When the steps that it will be of began, and when it was made, ns.
    since: u64,
    judged: u64,
    sentences: Vec<String>,
    steps: u64,
    operators: Vec<OperatorShare>,
    /// The parts of the phase that is judged, decode or runs, else prefill, and of how many steps they are: of the steps
    /// since the period began, and before there are enough of these, for a while, of the period before.
    parts: Option<TimeParts>,
    parts_steps: u64,
}

/// Whom steps are shown to.
struct Both<'a, 'b> {
    figures: &'a mut Figures,
    also: Option<&'b mut dyn Visitor>,
}

impl Visitor for Both<'_, '_> {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) {
        self.figures.step(step, catalogue, decoder);
        if let Some(also) = &mut self.also {
            also.step(step, catalogue, decoder);
        }
    }
}

impl Model {
    /// Of a trace whose header was read, with rules of its own.
    pub fn new(meta: &Meta) -> (Self, Diagnostics) {
        Self::sharing(meta, &SharedRules::default())
    }

    /// Of a trace whose header was read, with the rules of the probeset that it carries. The problems are those of the
    /// probeset: without it there are still steps.
    pub fn sharing(meta: &Meta, rules: &SharedRules) -> (Self, Diagnostics) {
        let (rules, problems) = rules.of(&meta.origin);
        let has = |role: Role| meta.schema.has_role(role);
        let model = Self {
            timeline: Timeline::new(&meta.schema, rules, meta.origin.pid),
            figures: Figures::default(),
            origin: meta.origin.clone(),
            has_requests: has(Role::Batch),
            has_faults: has(Role::Fault) || has(Role::PageCache),
            state: State::Waiting,
            reason: None,
            now: meta.origin.monotonic_ns,
            passed: 0,
            settled: 0,
            pressure: None,
            overhead: None,
            unseen_ns: 0,
            unseen_since: None,
            gaps: 0,
            recorded_since: 0,
            losses: Vec::new(),
            verdict: Verdict { since: meta.origin.monotonic_ns, ..Verdict::default() },
        };
        (model, problems)
    }

    /// Takes an item of the trace, and shows the steps that it ends to `also`. After sites, see
    /// [`Self::name_constants`].
    pub fn take(&mut self, item: &Item<'_>, also: Option<&mut dyn Visitor>) {
        match item {
            Item::Record(record) => {
                let header = record.header();
                self.now = self.now.max(header.start.saturating_add(header.duration));
                if self.state == State::Waiting {
                    self.state = State::Recording;
                }
                self.timeline.record(record.bytes(), &mut Both { figures: &mut self.figures, also });
            }
            Item::Notice(notice) => self.notice(notice, also),
            Item::Losses(losses) => self.losses = rows(losses),
            Item::Sites { sites, .. } => self.timeline.add_sites(sites),
            Item::End(end) => {
                self.reason = Some(end.reason.clone());
                self.overhead = end.overhead.as_ref().map(spent).or(self.overhead);
            }
            Item::Samples(_) => {}
        }
    }

    /// Takes the constants that a trace names, as far as it has been read: with sites there may be more.
    pub fn name_constants(&mut self, schema: &Schema) {
        self.timeline.add_enums(schema);
    }

    fn notice(&mut self, notice: &Notice, also: Option<&mut dyn Visitor>) {
        self.timeline.notice(notice);
        if let Some(detail) = notice.detail {
            let nothing = detail.steps_too && detail.reason != DetailReason::End;
            match detail.state {
                DetailState::Off | DetailState::Detached if nothing => {
                    self.gaps += u32::from(self.unseen_since.is_none());
                    let since = *self.unseen_since.get_or_insert(notice.time);
                    self.not_recorded(since, notice.time);
                }
                DetailState::On => {
                    if let Some(since) = self.unseen_since.take() {
                        self.recorded_since = notice.time;
                        self.unseen_ns = self.unseen_ns.saturating_add(notice.time.saturating_sub(since));
                        self.not_recorded(since, notice.time);
                        let unseen = [notice.time.saturating_sub(since)];
                        self.figures.recent.spread((since, notice.time), unseen, |second, [ns]| second.unseen_ns += ns);
                    }
                }
                _ => {}
            }
        }
        if let Some(pressure) = &notice.pressure {
            let all = self.pressure.get_or_insert_default();
            all.user_ns = all.user_ns.saturating_add(pressure.user_ns);
            all.system_ns = all.system_ns.saturating_add(pressure.system_ns);
            all.minor_faults = all.minor_faults.saturating_add(pressure.minor_faults);
            all.major_faults = all.major_faults.saturating_add(pressure.major_faults);
            all.left_out = pressure.left_out;
            if let Some(throttled) = pressure.throttled_ns {
                *all.throttled_ns.get_or_insert_default() += throttled;
            }
            let amounts = [pressure.major_faults, pressure.user_ns.saturating_add(pressure.system_ns)];
            self.figures.recent.spread((pressure.since, notice.time), amounts, |second, [faults, cpu]| {
                second.major_faults = second.major_faults.saturating_add(faults);
                second.cpu_ns = second.cpu_ns.saturating_add(cpu);
            });
        }
        self.overhead = notice.overhead.as_ref().map(spent).or(self.overhead);
        self.pass(notice.time, also);
    }

    fn not_recorded(&mut self, from: u64, to: u64) {
        if let Some(moments) = &mut self.figures.moments {
            moments.unrecorded(from, to);
        }
    }

    /// It is this time (ns of CLOCK_MONOTONIC), and the recorder has written all that came before: steps that ended a
    /// while ago are finished, though nothing comes after them, and shown to `also`.
    pub fn pass(&mut self, now: u64, also: Option<&mut dyn Visitor>) {
        self.now = self.now.max(now);
        let by = self.now.saturating_sub(SETTLED);
        if by.saturating_sub(self.passed) >= INTERVAL {
            self.passed = by;
            self.timeline.settle_before(by, &mut Both { figures: &mut self.figures, also });
            // A step may wait for one around it, but not for ever.
            let all = self.timeline.pending_since().map_or(by, |since| since.min(by));
            self.settled = self.settled.max(all).max(by.saturating_sub(LATEST * SECOND));
            self.forget();
        }
    }

    /// From now on, a condition is watched for; once it held, it counts again after so many seconds.
    pub fn watch(&mut self, condition: Condition, cool_down: u64) {
        self.figures.moments = Some(Moments::new(condition, cool_down));
    }

    /// Whether the condition is about the verdict: [`Self::judge`] is to be called before each [`Self::happened`].
    pub fn watches_verdict(&self) -> bool {
        self.figures.moments.as_ref().is_some_and(Moments::needs_verdict)
    }

    /// The time in which the condition held, once it has ended. Ask about once a second.
    pub fn happened(&mut self) -> Option<Happened> {
        let is_seen = self.unseen_since.is_none() && self.state == State::Recording;
        let requests = self.figures.followed.requests();
        let running = self.open_requests().map_or(0, |open| open.len() as u64);
        let requests = (self.has_requests && requests.were_recorded())
            .then(|| (running, requests.queued().map(|queued| queued as u64)));
        let seen = is_seen.then_some(Seen { requests, parts: self.verdict.parts });
        let is_over = matches!(self.state, State::Ended { .. });
        self.figures.moments.as_mut()?.pass(self.settled, seen, is_over)
    }

    /// From now on, requests that end are remembered, up to a bound, for [`Self::take_ended`].
    pub fn remember_ended(&mut self) {
        self.figures.ended.get_or_insert_default();
    }

    /// The requests that have ended since that was asked last.
    pub fn take_ended(&mut self) -> Ended {
        self.figures.ended.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// What was found wrong in the trace so far.
    pub fn findings(&self) -> &Findings {
        self.timeline.findings()
    }

    /// The trace is over, with its end or without.
    pub fn finish(&mut self, also: Option<&mut dyn Visitor>) {
        self.timeline.finish(&mut Both { figures: &mut self.figures, also });
        self.figures.finish();
        self.settled = self.now;
        let reason = self.reason.take().unwrap_or_else(|| "the recording broke off".to_owned());
        self.state = State::Ended { reason };
    }

    /// Judges the last half minute, for snapshots from now on. It takes a millisecond: call it where somebody reads it.
    pub fn judge(&mut self, meta: &Meta) {
        let statistics = &self.figures.statistics;
        let completeness = Completeness::judge(meta, self.timeline.findings(), statistics);
        let options = Options { by: By::Op, top: Some(MOST_OPERATORS), ..Options::default() };
        let report = build(meta, completeness, statistics, &self.timeline, &options);
        let steps: u64 = report.phases.iter().map(|phase| phase.whole_steps).sum();
        let phases = &report.verdict.phases;
        // Steps with operators come some seconds after a period begins: that is no sign that what limited them is over.
        let is_late = self.now.saturating_sub(self.verdict.since) >= PERIOD / 2;
        if steps >= ENOUGH.min(self.verdict.parts_steps) || is_late {
            let judged = phases.iter().find(|of| of.phase != Phase::Prefill.as_str()).or(phases.first());
            (self.verdict.parts, self.verdict.parts_steps) = (judged.map(|of| of.parts), steps);
        }
        let is_old = self.now.saturating_sub(self.verdict.judged) >= 2 * PERIOD;
        if steps >= ENOUGH || self.verdict.steps == 0 || is_old {
            self.verdict.judged = self.now;
            self.verdict.sentences = report.verdict.sentences;
            self.verdict.steps = steps;
            let rows = report.operators.into_iter().map(|row| OperatorShare {
                op: row.op.unwrap_or_default(),
                share: row.share,
                count: row.count,
                work_ns: row.total_ns,
                // With a budget, which live views have, waiting is recorded wherever operators are.
                waiting_ns: row.waiting_ns.unwrap_or(0),
                mean_ns: row.mean_ns,
            });
            self.verdict.operators = rows.collect();
        }
    }

    /// Begins a new period where the last one is over.
    fn forget(&mut self) {
        if self.now.saturating_sub(self.verdict.since) >= PERIOD {
            self.verdict.since = self.now;
            self.figures.begin_period();
        }
    }

    /// All figures as they are now.
    pub fn snapshot(&mut self) -> Snapshot {
        self.figures.operators.label();
        let Self { figures, origin, .. } = &*self;
        let phases = [&figures.prefill, &figures.decode, &figures.run]
            .into_iter()
            .filter(|of| of.steps.count + of.incomplete > 0);
        Snapshot {
            state: self.state.clone(),
            engine: origin.engine.clone(),
            pid: origin.pid,
            instance: String::new(),
            container: None,
            command: origin.command.clone(),
            started_ns: origin.monotonic_ns,
            started_unix_ns: origin.wall_clock_ns,
            elapsed_ns: self.now.saturating_sub(origin.monotonic_ns),
            phases: phases.cloned().collect::<Vec<PhaseFigures>>(),
            requests: (self.has_requests && figures.followed.requests().were_recorded()).then(|| self.requests()),
            ttft: figures.ttft.clone(),
            tpot: figures.tpot.clone(),
            operators: figures.operators.rows(),
            fetches: self.has_faults.then_some(figures.fetches),
            pressure: self.pressure,
            losses: self.losses.clone(),
            overhead: self.overhead,
            unseen_ns: self.unseen_ns + self.unseen_since.map_or(0, |since| self.now.saturating_sub(since)),
            window: self.window(),
            flight: None,
        }
    }

    /// The requests that run; `None` where nothing was recorded for the last seconds. What the last recorded stretch did not
    /// show is over, as far as anybody knows; what it did show counts for a while.
    fn open_requests(&self) -> Option<Vec<Request>> {
        let requests = self.figures.followed.requests();
        let last_stretch = self.gaps - u32::from(self.unseen_since.is_some());
        let is_over =
            requests.stretch() < last_stretch && self.settled > self.unseen_since.unwrap_or(self.recorded_since);
        let is_known = self.unseen_since.is_none_or(|since| self.now.saturating_sub(since) < SECONDS * SECOND);
        is_known.then(|| requests.open().filter(|_| !is_over).collect())
    }

    fn requests(&self) -> Requests {
        let requests = self.figures.followed.requests();
        let open = self.open_requests();
        let running = open.as_ref().map(|open| open.len() as u64);
        let mut open = open.unwrap_or_default();
        open.sort_by_key(|request| (request.arrived.unwrap_or(request.begin), request.sequence));
        let figures = |request: &Request| RequestFigures {
            request: request.request,
            sequence: request.sequence,
            since_ns: self.now.saturating_sub(request.arrived.unwrap_or(request.begin)),
            is_in_decode: request.first_token.is_some() || request.generated_tokens > 0,
            input_tokens: request.input_tokens(),
            output_tokens: request.output_tokens(),
            ttft_ns: request.ttft(),
            tpot_ns: request.tpot(),
        };
        Requests {
            queued: requests.queued().map(|queued| queued as u64),
            running,
            duration: self.figures.duration.clone(),
            input_tokens: self.figures.input_tokens,
            output_tokens: self.figures.output_tokens,
            open: open.iter().take(LISTED).map(figures).collect(),
        }
    }

    fn window(&self) -> Window {
        let sums = self.figures.recent.until(self.settled);
        let began = self.figures.first_step.unwrap_or(self.origin.monotonic_ns) / SECOND;
        let seconds = (self.settled / SECOND).saturating_sub(began).clamp(1, SECONDS);
        let (whole, partly) = self.figures.recent.split(self.settled, seconds, self.unseen_since);
        let unseen = partly.unseen_ns;
        // Steps in a short time show a rate; that none came in it does not show that there are none.
        let fewest = if partly.sums.steps > 0 { FEWEST_SEEN } else { IDLE_SEEN };
        let tells = unseen == 0 || partly.seen() >= fewest;
        // The part of a second that was not recorded is as the parts that were, and not as seconds before.
        let more = if unseen == 0 { 1.0 } else { partly.seconds as f64 / partly.seen().max(1e-9) };
        let rate = |whole: f64, partly: f64| tells.then(|| (whole + partly * more) / seconds as f64);
        let each = |of: fn(&Sums) -> u64| rate(of(&whole) as f64, of(&partly.sums) as f64);
        // Each step without a number of tokens had as many as the others.
        let mean_tokens = sums.mean_decode_tokens();
        let tokens = |of: &Sums, mean: f64| of.decode_tokens as f64 + of.uncounted as f64 * mean;
        let each_s = |sum: u64| sum as f64 / seconds as f64;
        let mean = |sum: u64, count: u64| (count > 0).then(|| sum as f64 / count as f64);
        Window {
            seconds,
            steps_per_s: each(|of| of.steps),
            output_tokens_per_s: mean_tokens.and_then(|mean| rate(tokens(&whole, mean), tokens(&partly.sums, mean))),
            output_is_estimated: sums.uncounted > 0 || unseen > 0,
            rates_are_estimated: unseen > 0,
            input_tokens_per_s: each(|of| of.prefill_tokens),
            in_steps: each(|of| of.step_ns).map(|ns| ns / 1e9),
            ttft_ns: mean(sums.first_token_ns, sums.first_tokens),
            tpot_ns: mean(sums.next_token_ns, sums.next_tokens),
            major_faults_per_s: self.pressure.map(|_| each_s(sums.major_faults)),
            cpus: self.pressure.map(|_| each_s(sums.cpu_ns) / 1e9),
            verdict: self.verdict.sentences.clone(),
            verdict_steps: self.verdict.steps,
            operators: self.verdict.operators.clone(),
        }
    }
}

/// Losses by reason.
fn rows(losses: &[Loss]) -> Vec<LossRow> {
    let mut rows: Vec<LossRow> = Vec::new();
    for loss in losses.iter().filter(|loss| loss.count > 0) {
        let reason = loss.kind.name();
        match rows.iter_mut().find(|row| row.reason == reason) {
            Some(row) => row.count = row.count.saturating_add(loss.count),
            None => rows.push(LossRow {
                reason: reason.to_owned(),
                count: loss.count,
                loses_records: loss.kind.loses_records(),
            }),
        }
    }
    rows
}

fn spent(overhead: &Overhead) -> OverheadSpent {
    let spent_ns = overhead.base_ns.saturating_add(overhead.detail_ns);
    OverheadSpent { budget: overhead.budget, spent_ns, step_ns: overhead.bare_ns() }
}
