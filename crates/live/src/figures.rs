//! Sums over steps as they come: counts and histograms since the start, sums of the last seconds, and the statistics of
//! the last half minute. What counts where follows [`Statistics`]; a property compares the two.

use super::histogram::{Histogram, REQUEST_DURATION, STEP_DURATION, TIME_PER_OUTPUT_TOKEN, TIME_TO_FIRST_TOKEN};
use super::model::Ended;
use super::moments::Moments;
use super::operators::Operators;
use super::recent::Recent;
use super::seconds::SECOND;
use super::snapshot::{Fetches, PhaseFigures};
use profinfer_analysis::{Catalogue, Decoder, Followed, FollowedNews, Phase, Recorded, Statistics, Step, Visitor};

/// The figures of a recording.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) prefill: PhaseFigures,
    pub(crate) decode: PhaseFigures,
    pub(crate) run: PhaseFigures,
    pub(crate) ttft: Histogram,
    pub(crate) tpot: Histogram,
    pub(crate) duration: Histogram,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) operators: Operators,
    pub(crate) fetches: Fetches,
    pub(crate) recent: Recent,
    /// When the first step began, ns: rates are of the time since then.
    pub(crate) first_step: Option<u64>,
    pub(crate) followed: Followed,
    /// Of the steps since the last verdict's period began.
    pub(crate) statistics: Statistics,
    /// Requests that have ended, where somebody wants them.
    pub(crate) ended: Option<Ended>,
    /// The last seconds, where a condition is watched for.
    pub(crate) moments: Option<Moments>,
    /// The last step that they have.
    last: Option<(u64, u32)>,
    saw_switches: bool,
}

impl Default for Figures {
    fn default() -> Self {
        Self {
            prefill: phase(Phase::Prefill),
            decode: phase(Phase::Decode),
            run: phase(Phase::Run),
            ttft: Histogram::new(TIME_TO_FIRST_TOKEN),
            tpot: Histogram::new(TIME_PER_OUTPUT_TOKEN),
            duration: Histogram::new(REQUEST_DURATION),
            input_tokens: 0,
            output_tokens: 0,
            operators: Operators::default(),
            fetches: Fetches::default(),
            recent: Recent::default(),
            first_step: None,
            followed: Followed::default(),
            statistics: Statistics::default(),
            ended: None,
            moments: None,
            last: None,
            saw_switches: false,
        }
    }
}

fn phase(phase: Phase) -> PhaseFigures {
    PhaseFigures {
        phase: phase.as_str(),
        steps: Histogram::new(STEP_DURATION),
        tokens: 0,
        incomplete: 0,
        whole_steps: 0,
        whole_ns: 0,
        lane_ns: 0,
        work_ns: 0,
        waiting_ns: 0,
        off_cpu_ns: None,
    }
}

impl Visitor for Figures {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) {
        let news = self.followed.step(step, decoder);
        self.take(news);
        self.statistics.step(step, catalogue, decoder);
        let Some(phase) = step.phase.filter(|phase| *phase != Phase::Outside) else {
            // What no step contains is in no figure of phases.
            if step.complete && step.recorded == Recorded::Whole {
                self.operators.add(step, catalogue);
            }
            return;
        };
        self.last = Some((step.number, step.stretch));
        if self.first_step.is_none() {
            self.first_step = Some(step.start);
            self.recent.at(step.start).into_iter().for_each(|second| second.before_ns = step.start % SECOND);
        }
        if let Some(second) = self.recent.at(step.end) {
            second.steps += 1;
            second.step_ns = second.step_ns.saturating_add(step.duration());
            let tokens = step.tokens.unwrap_or(0);
            if phase == Phase::Decode {
                second.counted += u64::from(step.tokens.is_some());
                second.uncounted += u64::from(step.tokens.is_none());
            }
            let sum = if phase.recurs() { &mut second.decode_tokens } else { &mut second.prefill_tokens };
            *sum = sum.saturating_add(tokens);
        }
        if let (Some(moments), Phase::Decode) = (&mut self.moments, phase) {
            moments.tokens(step.end, step.tokens);
        }
        let of = match phase {
            Phase::Decode => &mut self.decode,
            Phase::Run => &mut self.run,
            Phase::Prefill | Phase::Outside => &mut self.prefill,
        };
        if !step.complete {
            of.incomplete += 1;
            return;
        }
        of.steps.add(step.duration());
        of.tokens = of.tokens.saturating_add(step.tokens.unwrap_or(0));
        if step.recorded != Recorded::Whole {
            return;
        }
        self.saw_switches |= !step.off_cpu.is_empty();
        add_whole(of, step, self.saw_switches);
        self.operators.add(step, catalogue);
        for fetched in &step.fetched {
            self.fetches.faults = self.fetches.faults.saturating_add(fetched.totals.faults);
            self.fetches.waited_ns = self.fetches.waited_ns.saturating_add(fetched.totals.waited);
            self.fetches.bytes = self.fetches.bytes.saturating_add(fetched.totals.bytes);
        }
    }
}

fn add_whole(of: &mut PhaseFigures, step: &Step, saw_switches: bool) {
    of.whole_steps += 1;
    of.whole_ns = of.whole_ns.saturating_add(step.duration());
    let lanes = step.lane_numbers.len().max(1) as u64;
    of.lane_ns = of.lane_ns.saturating_add(step.duration().saturating_mul(lanes));
    for operator in &step.operators {
        of.work_ns = of.work_ns.saturating_add(operator.work);
        of.waiting_ns = of.waiting_ns.saturating_add(operator.waiting);
    }
    if saw_switches {
        let (blocked, runnable) = of.off_cpu_ns.get_or_insert_default();
        for off in &step.off_cpu {
            *blocked = blocked.saturating_add(off.runnable.saturating_sub(off.start));
            *runnable = runnable.saturating_add(off.end.saturating_sub(off.runnable));
        }
    }
}

impl Figures {
    /// Begins new statistics.
    pub(crate) fn begin_period(&mut self) {
        let (steps, stretches) = self.last.unwrap_or_default();
        self.statistics = Statistics::after(steps, stretches);
    }

    /// Ends the recording: what is open becomes final.
    pub(crate) fn finish(&mut self) {
        let news = self.followed.finish();
        self.take(news);
    }

    fn take(&mut self, news: Vec<FollowedNews>) {
        for news in news {
            match news {
                FollowedNews::FirstToken { time, after } => {
                    self.ttft.add(after);
                    if let Some(moments) = &mut self.moments {
                        moments.first_token(time, after);
                    }
                    if let Some(second) = self.recent.at(time) {
                        second.first_tokens += 1;
                        second.first_token_ns = second.first_token_ns.saturating_add(after);
                    }
                }
                FollowedNews::NextToken { time, after } => {
                    self.tpot.add(after);
                    if let Some(moments) = &mut self.moments {
                        moments.next_token(time, after);
                    }
                    if let Some(second) = self.recent.at(time) {
                        second.next_tokens += 1;
                        second.next_token_ns = second.next_token_ns.saturating_add(after);
                    }
                }
                FollowedNews::Ended(request) => {
                    if let Some(ended) = &mut self.ended {
                        ended.push(*request);
                    }
                    if let Some(duration) = request.whole_duration() {
                        self.duration.add(duration);
                        if let Some(moments) = &mut self.moments {
                            moments.request(request.end, duration);
                        }
                    }
                    self.input_tokens = self.input_tokens.saturating_add(request.prompt_tokens);
                    self.output_tokens = self.output_tokens.saturating_add(request.generated_tokens);
                }
            }
        }
    }
}
