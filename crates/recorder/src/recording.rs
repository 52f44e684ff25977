//! A recording while it runs: events of the programs, the target, the user and the clock are answered here, one after the
//! other, until one of them ends it. Whatever happens, the target runs on and the trace is closed.

use super::consumer::{Consumer, Control, name_losses};
use super::frequency::Frequencies;
use super::guardian::Guardian;
use super::kernel_losses::KernelLosses;
use super::learn::Learning;
use super::mapped::MappedFiles;
use super::memory::FreedMemory;
use super::meter::Meter;
use super::modules::Modules;
use super::output::Output;
use super::pressure::{self, PressurePoll};
use super::process::{Ending, TargetProcess, family, has_ended, threads};
use super::sampling::Sampler;
use super::signals::Signals;
use super::slots::SlotLearning;
use super::steal::ProcessorTime;
use super::stops::Stop;
use super::switch_context::SwitchContext;
use super::switches::Switches;
use super::wrappers;
use super::{Live, Options, Summary, clock};
use crate::bpf::{AttachMode, Session};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use profinfer_compiler::ProbePlan;
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, Severity};
use profinfer_files::output::cannot_write;
use profinfer_probeset::Part;
use profinfer_schema::bpf::LOSSES_PER_TYPE;
use profinfer_schema::{End, Host, Loss, LossKind, Notice, Overhead, Role, Roofline};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Time in which a full ring is emptied, at the end.
const EMPTYING: Duration = Duration::from_millis(40);
/// Time between two writings of what was gathered and lost.
const FLUSH: Duration = Duration::from_secs(1);
/// Time between two readings of runs that the kernel skipped.
const SKIPPED: Duration = Duration::from_secs(10);
/// Time between two notices of what a budget was spent on.
const ACCOUNT: Duration = Duration::from_secs(5);
/// Time between two live lines: nothing that the clock alone brings comes more often.
const LIVE: Duration = Duration::from_millis(250);
/// How long a target that was interrupted has, to end within the trace.
const GRACE: Duration = Duration::from_millis(500);
/// How long the last step's operators are waited for: on threads other than the step's, each ends where the thread calls
/// the next one.
const LAST_OPERATORS: Duration = Duration::from_millis(500);
/// Time between two looks at them.
const SOON: Duration = Duration::from_millis(5);

/// Why a recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    TargetEnded,
    Interrupted(Signal),
    Duration,
    LastStep,
    WriteFailed,
    Refused,
}

/// All that a recording consists of.
pub(super) struct Recording<'a> {
    pub(super) options: &'a Options,
    pub(super) plan: &'a ProbePlan,
    /// The engines that are searched for, where they are several.
    pub(super) parts: &'a [Part],
    pub(super) output: Output,
    pub(super) signals: Signals,
    pub(super) process: TargetProcess,
    pub(super) guardian: Guardian,
    pub(super) modules: Modules<'a>,
    pub(super) consumer: Consumer,
    pub(super) session: Session<'a>,
    pub(super) sampler: Option<Sampler>,
    pub(super) meter: Meter<'a>,
    pub(super) switches: Switches,
    pub(super) learning: Learning,
    pub(super) slots: SlotLearning,
    pub(super) mapped: MappedFiles,
    pub(super) frequencies: Frequencies,
    pub(super) freed_memory: FreedMemory,
    pub(super) pressure: PressurePoll,
    /// The machine, where its limits are to be measured once the target has ended.
    pub(super) unmeasured: Option<Host>,
    pub(super) started: Instant,
    /// How long the target stood still while it was inspected: it could do nothing then, and no duration counts it.
    pub(super) inspecting: Duration,
    /// Processes that ran on before they were inspected, and had nothing to probe.
    pub(super) harmless_releases: u64,
    /// Since when the steps that were asked for are over.
    pub(super) steps_over: Option<Instant>,
    /// The processors' time at the start.
    pub(super) processors: Option<ProcessorTime>,
    pub(super) kernel_losses: KernelLosses,
    /// Records that are missing, when that was last asked.
    pub(super) lost: u64,
}

impl<'a> Recording<'a> {
    /// Runs until something ends it, then closes the trace.
    ///
    /// # Errors
    /// The target turned out not to be what the probeset expects. A launched one is ended then: its user asked for a
    /// recording of it.
    pub(super) fn run(mut self, observe: &mut dyn FnMut(&Live)) -> Result<Summary, Diagnostics> {
        let mut refusal = Diagnostics::new();
        let (reason, ending) = match self.watch(observe) {
            Ok(ended) => ended,
            Err(problems) => {
                refusal = problems;
                (Reason::Refused, None)
            }
        };
        let summary = self.close(reason, ending);
        if refusal.has_errors() { Err(refusal) } else { summary }
    }

    fn watch(&mut self, observe: &mut dyn FnMut(&Live)) -> Result<(Reason, Option<Ending>), Diagnostics> {
        self.switch(Switches::start);
        if !self.process.launched() {
            // It runs already, and no event will tell so.
            self.modules.inspect(self.process.pid(), true, &mut self.session, &self.consumer)?;
            self.started = Instant::now();
        }
        let (mut flushed, mut shown, mut accounted) = (Instant::now(), Instant::now(), Instant::now());
        let mut answered_all = true;
        loop {
            self.switch(Switches::poll);
            if answered_all {
                self.pause();
            }
            self.guardian.restart_if_ended();
            // One at a time: a target that maps libraries all the time must not prevent signals and time from being seen.
            let control = self.consumer.control();
            answered_all = control.is_none();
            if let Some(reason) = control.map(|control| self.answer(control)).transpose()?.flatten() {
                return Ok((reason, None));
            }
            if answered_all {
                self.guardian.stops().wrappers().poll();
            }
            if let Some(signal) = self.take_signal() {
                return Ok((Reason::Interrupted(signal), self.process.ending(GRACE)));
            }
            if let Some(ending) = self.process.ending(Duration::ZERO) {
                let reason = self.steps_over.map_or(Reason::TargetEnded, |_| Reason::LastStep);
                return Ok((reason, Some(ending)));
            }
            if self.is_recorded() {
                return Ok((Reason::LastStep, None));
            }
            if self.options.duration.is_some_and(|duration| self.started.elapsed() >= duration + self.inspecting) {
                return Ok((Reason::Duration, None));
            }
            if self.modules.any_written() {
                self.modules.check_files(&mut self.session, &self.consumer);
            }
            let launched = self.process.pid();
            // It may be a script that only starts the engine.
            self.mapped.poll(|| self.consumer.counts().stepping_process().unwrap_or(launched), &self.consumer);
            self.frequencies.poll(&self.consumer);
            self.freed_memory.poll(&mut self.modules);
            let (pid, forks) = (self.process.pid(), self.options.follow_forks);
            self.pressure.poll(pid, forks, self.switches.traffic(), &self.consumer);
            self.learning.poll(launched.cast_unsigned(), self.plan, &self.session, &mut self.modules, &self.consumer);
            self.slots.poll(&mut self.modules, &mut self.session, &self.consumer, false);
            let is_learned = self.learning.is_done() && self.slots.is_done(&self.consumer);
            if self.options.until_learned && is_learned {
                return Ok((Reason::Duration, None));
            }
            if flushed.elapsed() >= FLUSH {
                flushed = Instant::now();
                self.modules.check_files(&mut self.session, &self.consumer);
                if self.modules.has_many_deleted() {
                    self.modules.release_deleted(&mut self.session);
                }
                if accounted.elapsed() >= ACCOUNT && self.options.limits.budget.is_some() {
                    accounted = Instant::now();
                    self.account();
                }
                self.meter.sample_runs(&self.session);
                let losses = self.losses(SKIPPED);
                self.lost = lost(&losses);
                if self.output.is_abandoned() {
                    return Ok((Reason::WriteFailed, None));
                }
                let mut sampler = self.sampler.as_mut();
                sampler.iter_mut().for_each(|sampler| sampler.name_functions());
                if !self.consumer.flush(&losses, || sampler.and_then(|sampler| sampler.news(&self.session))) {
                    return Ok((Reason::WriteFailed, None));
                }
            }
            if shown.elapsed() >= LIVE {
                shown = Instant::now();
                observe(&self.live());
            }
        }
    }

    /// Writes what the budget was spent on so far, once there are steps: until then there is no trace.
    fn account(&mut self) {
        if self.consumer.counts().steps.load(Ordering::Relaxed) == 0 {
            return;
        }
        let unseen = self.switches.unseen_ns();
        let overhead = self.meter.overhead(&self.session, &self.modules, self.consumer.counts(), unseen);
        // What each probe costs stands at the end.
        let none = BTreeMap::new;
        let overhead = Some(Overhead { record_ns: none(), span_ns: none(), ..overhead });
        self.consumer.notice_of(|| Notice { time: clock::monotonic_ns(), overhead, ..Notice::default() });
    }

    /// Until the programs, the user or the target's end want an answer, or the clock does.
    fn pause(&self) {
        let by_clock = self.switches.pause().unwrap_or(pressure::PERIOD);
        let by_clock = if self.guardian.stops().wrappers().any() { by_clock.min(wrappers::INTERVAL) } else { by_clock };
        let by_clock = self.steps_over.map_or(by_clock, |_| by_clock.min(SOON));
        let left = self
            .options
            .duration
            .map_or(by_clock, |end| (end + self.inspecting).saturating_sub(self.started.elapsed()));
        let wait = PollTimeout::try_from(by_clock.min(left)).unwrap_or(PollTimeout::ZERO);
        let awaited = [self.consumer.controls_arrived(), self.signals.arrived(), self.process.ended()];
        let awaited = awaited.into_iter().chain(self.modules.written());
        let mut awaited: Vec<PollFd<'_>> = awaited.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let _ = poll(&mut awaited, wait);
    }

    /// Has probes come or go, where they may.
    fn switch(&mut self, act: fn(&mut Switches, &mut SwitchContext<'_, 'a>)) {
        let (pid, forks) = (self.process.pid(), self.options.follow_forks);
        let processes = || if forks { family(pid) } else { vec![pid] };
        let (session, modules) = (&mut self.session, &mut self.modules);
        let (consumer, meter) = (&self.consumer, &mut self.meter);
        act(&mut self.switches, &mut SwitchContext { session, modules, consumer, meter, processes: &processes });
    }

    /// Answers the programs' messages; gives a reason to end.
    fn answer(&mut self, control: Control) -> Result<Option<Reason>, Diagnostics> {
        match control {
            Control::LastStep => self.steps_over = Some(Instant::now()),
            Control::WriteFailed => return Ok(Some(Reason::WriteFailed)),
            Control::Mapped(stop) => self.inspect(stop, false)?,
            Control::Executed(stop) => self.inspect(stop, true)?,
        }
        Ok(None)
    }

    /// Attaches to what a stopped process has mapped, and lets it run on.
    fn inspect(&mut self, stop: Stop, anew: bool) -> Result<(), Diagnostics> {
        let inspected = self.inspect_stopped(stop, anew);
        self.guardian.stops().answer(stop);
        inspected
    }

    fn inspect_stopped(&mut self, stop: Stop, anew: bool) -> Result<(), Diagnostics> {
        let (from, pid, sites) = (Instant::now(), stop.pid.cast_signed(), self.modules.sites());
        let is_stopped = stop.since.is_some();
        let inspected = self.modules.inspect(pid, anew, &mut self.session, &self.consumer);
        self.inspecting += from.elapsed();
        let new = self.modules.sites() - sites;
        if new > 0 && !self.guardian.stops().still_stands(stop) {
            self.modules.search_report.attached_late(pid, new);
        }
        match inspected {
            // Nothing is to be probed that it can have called meanwhile.
            Ok(()) if new == 0 => self.harmless_releases += u64::from(self.guardian.stops().was_released(stop)),
            Ok(()) => {}
            // It ended while it was inspected: nothing of it can be missed any more.
            Err(problems) if is_stopped && has_ended(pid) => drop(problems),
            // What is recorded of others is worth more than what this one could add.
            Err(problems) if self.goes_on_without(pid, &problems) => {
                let why = problems.0.first().map_or_else(String::new, |problem| problem.message.clone());
                self.modules.search_report.not_inspected(pid, &why);
                let as_it_is = !is_uninspected(&problems);
                let warning = |problem| Diagnostic { severity: Severity::Warning, ..problem };
                let problems = problems.0.into_iter().map(|p| if as_it_is { p } else { warning(p) });
                self.modules.add_problems(Diagnostics(problems.collect()));
            }
            Err(problems) => {
                if self.process.launched() {
                    // Before it runs on: its user wanted it recorded, not run.
                    self.process.kill();
                }
                return Err(problems);
            }
        }
        Ok(())
    }

    /// Whether the steps that were asked for are in the trace, with their operators.
    fn is_recorded(&self) -> bool {
        let is_operator = |name: &String| {
            self.plan.schema.records.iter().any(|record| record.name == *name && record.role == Some(Role::Operator))
        };
        self.steps_over
            .is_some_and(|since| since.elapsed() >= LAST_OPERATORS || !self.open_spans().keys().any(is_operator))
    }

    /// Whether the recording goes on though a process of the target cannot be recorded.
    fn goes_on_without(&self, pid: i32, problems: &Diagnostics) -> bool {
        let any_step = self.consumer.counts().steps.load(Ordering::Relaxed) > 0;
        any_step || pid != self.process.pid() && (self.modules.any_site() || is_uninspected(problems))
    }

    fn take_signal(&self) -> Option<Signal> {
        let arrived = self.signals.next()?;
        if self.process.launched() && !arrived.to_all {
            self.process.signal(arrived.signal);
        }
        Some(arrived.signal)
    }

    /// All that is missing so far; runs that the kernel skipped, as they were read that long ago at most.
    fn losses(&mut self, at_most: Duration) -> Vec<Loss> {
        let mut losses = self.counted_losses(at_most);
        self.consumer.with_held(|held| self.slots.correct(&mut losses, &self.plan.schema, held));
        losses
    }

    /// The same with what calls of slots lack that may turn out to be the wrong ones.
    fn counted_losses(&mut self, at_most: Duration) -> Vec<Loss> {
        self.kernel_losses.read(&self.session, at_most);
        let mut losses = name_losses(&self.kernel_losses.counted, LOSSES_PER_TYPE as usize, &self.plan.schema);
        losses.extend(self.modules.losses());
        let skipped = self.kernel_losses.skipped.clone().into_iter();
        losses.extend(skipped.map(|(record, count)| Loss { record, kind: LossKind::Recursion, count }));
        let released = self.guardian.stops().released().load(Ordering::SeqCst);
        let released = released.saturating_sub(self.harmless_releases);
        if released > 0 {
            // As the programs count those that they could not even stop.
            let (record, kind) = ("exec", LossKind::NotAttached);
            Loss { record: record.to_owned(), kind, count: released }.add_to(&mut losses);
        }
        losses
    }

    /// Calls that have begun and not ended, by record.
    fn open_spans(&self) -> BTreeMap<String, u64> {
        let pid = self.process.pid();
        let processes = if self.options.follow_forks { family(pid) } else { vec![pid] };
        self.session.open_spans(&processes.into_iter().flat_map(threads).collect::<Vec<_>>())
    }

    /// Calls and jobs of devices that have begun and not ended: they are not in the trace, and that is as it should be.
    fn still_open(&self) -> Vec<Loss> {
        let jobs = self.session.pending_jobs();
        self.open_spans()
            .into_iter()
            .chain(jobs)
            .map(|(record, count)| Loss { record, kind: LossKind::StillOpen, count })
            .collect()
    }

    fn live(&self) -> Live {
        let counts = self.consumer.counts();
        Live {
            elapsed: self.started.elapsed(),
            steps: self.modules.search_report.marks_steps().then(|| counts.steps.load(Ordering::Relaxed)),
            tokens: counts.tokens.load(Ordering::Relaxed),
            events: counts.events.load(Ordering::Relaxed),
            lost: self.lost,
            attached: self.modules.any_site(),
        }
    }

    /// Detaches, lets the target run, and closes the trace.
    fn close(mut self, reason: Reason, ending: Option<Ending>) -> Result<Summary, Diagnostics> {
        self.session.disable();
        if self.slots.is_open(&self.consumer) {
            self.consumer.hurry();
            std::thread::sleep(EMPTYING);
            self.slots.poll(&mut self.modules, &mut self.session, &self.consumer, true);
        }
        self.sampler.iter_mut().for_each(Sampler::stop);
        self.pressure.poll_now(self.process.pid(), self.options.follow_forks, &self.consumer);
        self.guardian.rest();
        self.modules.check_files(&mut self.session, &self.consumer);
        self.switch(Switches::finish);
        let unseen_ns = self.switches.unseen_ns();
        if lost(&self.losses(SKIPPED)) > 0 {
            // The ring may still be full, and what is lost last is shown by the records that come now.
            self.consumer.hurry();
            std::thread::sleep(EMPTYING);
        }
        self.session.show_losses();
        let (time, elapsed) = (clock::monotonic_ns(), self.started.elapsed());
        let open = self.still_open();
        self.session.detach();
        // The programs have counted what was open on threads that ended since recording was switched off.
        let mut losses = self.counted_losses(Duration::ZERO);
        open.into_iter().for_each(|loss| loss.add_to(&mut losses));
        let guards = self.consumer.guards().clone();
        let finished = self.consumer.stop();
        // Records that waited for a slot to be found were written last.
        finished.with_held(|held| self.slots.correct(&mut losses, &self.plan.schema, held));
        let sampling = self.sampler.as_mut().map(|sampler| sampler.finish(&self.session));
        let (implausible, broken) = guards.broken();
        self.learning.forget(&guards.refuted());
        implausible.into_iter().for_each(|loss| loss.add_to(&mut losses));
        let stolen = self.processors.and_then(|before| ProcessorTime::now()?.since(before));
        let overhead = Some(self.meter.overhead(&self.session, &self.modules, &finished.counts, unseen_ns));
        for pid in finished.unanswered().filter_map(running) {
            self.modules.search_report.not_inspected(pid, "the recording ended before, and it could not be stopped");
        }
        // What the last programs to run have stopped.
        self.guardian.stops().end();
        self.guardian.stops().wrappers().finish();
        drop(self.guardian);
        let not_learned = self.learning.not_learned(self.modules.values.all(), self.options.until_learned);
        self.modules.search_report.warned(&not_learned);
        let mut problems = self.modules.take_problems();
        problems.0.extend(not_learned.iter().cloned());
        let too_short = overhead.as_ref().zip(self.switches.first_window_ns()).and_then(too_short);
        self.modules.search_report.warned(too_short.as_slice());
        let is_too_short = too_short.is_some();
        problems.0.extend(too_short);
        let broken: Vec<Diagnostic> = broken.into_iter().map(broken_expectation).collect();
        self.modules.search_report.warned(&broken);
        problems.0.extend(broken);
        problems.0.extend(on_other_stacks(self.session.calls_elsewhere(), self.session.mode()));
        let counts = std::sync::Arc::clone(&finished.counts);
        let ring_bytes = counts.ring_bytes.load(Ordering::Relaxed);
        if reason == Reason::Refused {
            let _ = self.process.launched().then(|| self.process.ending(GRACE));
            return Err(problems); // and the file, which nothing came of, goes
        }
        let begun = self.session.steps();
        let nothing = self.modules.search_report.nothing(&counts, begun);
        let ending = ending.or_else(|| self.process.ending(Duration::ZERO));
        let engines = self.modules.engines(self.parts, &counts);
        // A file without a record helps nobody, nor does one of a target that failed before it called the engine, or that
        // has none of several.
        let is_of_a_failure = reason == Reason::TargetEnded && has_failed(ending) && begun == 0 && losses.is_empty();
        let has_records = match is_of_a_failure || (self.parts.len() > 1 && engines.is_empty()) {
            true => self.modules.search_report.has_calls(&counts),
            false => counts.events.load(Ordering::Relaxed) > 0,
        };
        let saved = nothing.is_none() || has_records;
        if saved {
            self.output.save();
        }
        problems.0.extend(overhead.as_ref().and_then(over_budget));
        let waiting = self.modules.search_report.waiting_for();
        if reason == Reason::TargetEnded && self.options.follow_forks {
            let target = self.process.pid().cast_unsigned();
            self.modules.search_report.ran_on(|pid| pid != target && !has_ended(pid.cast_signed()));
        }
        self.modules.search_report.lacks(self.pressure.left_out());
        let left_out = self.modules.search_report.left_out(&counts, begun);
        let described = describe(reason, ending);
        let has_steps = counts.steps.load(Ordering::Relaxed) > 0;
        let ended = reason == Reason::TargetEnded || !self.process.launched();
        let roofline = self.unmeasured.as_ref().filter(|_| has_steps && ended).and_then(measured);
        let end = End {
            time,
            reason: described,
            overhead,
            stolen,
            roofline,
            left_out: left_out.clone(),
            sources: self.modules.values.take_sources(),
            ..coded(ending)
        };
        if let Err(error) = finished.finish(&losses, sampling.as_ref(), &end) {
            problems
                .push(cannot_write(self.output.path(), &error).with_note("what was written until then can be read"));
        } else if !self.output.is_there() {
            let gone = std::io::Error::other("it was removed or replaced while it was written");
            problems.push(cannot_write(self.output.path(), &gone));
        }
        let steps = self.modules.search_report.marks_steps().then(|| counts.steps.load(Ordering::Relaxed));
        let attach = self.modules.search_report.how_to_attach();
        // A report finds steps by operators.
        if nothing.is_some() && !is_too_short && !self.modules.search_report.has_operators(&counts) {
            let searched = self.parts.len() > 1;
            problems.0.extend(nothing_recorded(waiting, nothing, (reason, ending), attach.clone(), searched));
        } else {
            // One engine's steps do not stand for those of another that was asked for.
            let without = waiting.0.into_iter().filter(|problem| problem.code == Code::GroupNotAttached);
            problems.0.extend(without.map(|problem| Diagnostic { severity: Severity::Warning, ..problem }));
        }
        let malformed = counts.malformed.load(Ordering::Relaxed);
        if malformed > 0 {
            let message = format!("bug: {malformed} records do not match the schema and were left out");
            problems.push(Diagnostic::warning(Code::Bug, message));
        }
        Ok(Summary {
            file: self.output.path().to_owned(),
            reason: end.reason,
            steps,
            events: counts.events.load(Ordering::Relaxed),
            losses,
            ring_percent: (counts.ring_peak.load(Ordering::Relaxed) * 100).div_ceil(ring_bytes.max(1)),
            ring_bytes,
            malformed,
            elapsed,
            ending,
            saved,
            problems,
            target: self.process,
            left_out,
            attach,
            engines,
            learned: self.learning.members,
            not_learned,
            slots: self.slots.found,
        })
    }
}

/// The machine's limits, measured now; saved for later recordings unless others disturbed the measurement.
fn measured(host: &Host) -> Option<Roofline> {
    let limits = profinfer_machine::measure_briefly(host).ok()?;
    if !profinfer_machine::is_noisy(&limits) {
        // Without a place to save them they are measured again the next time.
        let _ = super::saved_limits().save(host, &limits);
    }
    Some(limits)
}

fn broken_expectation(sentence: String) -> Diagnostic {
    Diagnostic::warning(Code::ExpectationBroken, sentence)
        .hint("record a build with debug information, or with a lock file; values before may be wrong, too")
}

/// Whether a process could not even be inspected.
fn is_uninspected(problems: &Diagnostics) -> bool {
    problems.0.iter().all(|problem| matches!(problem.code, Code::Privilege | Code::NoSuchProcess))
}

/// The process of an unanswered question that was not stopped for it.
fn running(control: Control) -> Option<i32> {
    match control {
        Control::Mapped(stop) | Control::Executed(stop) => stop.since.is_none().then(|| stop.pid.cast_signed()),
        _ => None,
    }
}

/// Records that are missing altogether.
pub(super) fn lost(losses: &[Loss]) -> u64 {
    losses.iter().filter(|loss| loss.kind.loses_records()).map(|loss| loss.count).sum()
}

fn describe(reason: Reason, ending: Option<Ending>) -> String {
    match (reason, ending) {
        (Reason::TargetEnded, Some(Ending::Killed(signal))) => {
            let name = Signal::try_from(signal).map_or_else(|_| format!("signal {signal}"), |name| name.to_string());
            format!("the target was killed by {name}")
        }
        (Reason::TargetEnded, Some(Ending::Exited(code))) => format!("the target ended with status {code}"),
        (Reason::TargetEnded, _) => "the target ended".into(),
        (Reason::Interrupted(signal), _) => format!("interrupted by {signal}"),
        (Reason::Duration, _) => "the duration asked for is over".into(),
        (Reason::LastStep, _) => "the steps asked for were recorded".into(),
        (Reason::WriteFailed, _) => "the trace could not be written any more".into(),
        (Reason::Refused, _) => "the target cannot be recorded".into(),
    }
}

fn coded(ending: Option<Ending>) -> End {
    match ending {
        Some(Ending::Exited(code)) => End { exit_code: Some(code), ..End::default() },
        Some(Ending::Killed(signal)) => End { signal: Some(signal), ..End::default() },
        _ => End::default(),
    }
}

/// That returns of calls on fibers' stacks are not seen, or should not be.
fn on_other_stacks(calls: u64, mode: AttachMode) -> Option<Diagnostic> {
    let problem = |message: String| {
        Diagnostic::warning(Code::OtherStacks, message).hint(
            "end the probe's span at another entry (`until`), or record only its entry: probes of entries are safe \
             on any stack",
        )
    };
    match mode {
        _ if calls == 0 => None,
        AttachMode::Session => Some(problem(format!(
            "the target made {calls} probed calls on other stacks than its threads' (fibers, coroutines): they are not \
             recorded, since the kernel cannot probe their returns"
        ))),
        // Only a session's program is asked before the return address is replaced.
        AttachMode::Multi | AttachMode::Single => Some(problem(format!(
            "the target made {calls} calls whose returns are probed on other stacks than its threads' (fibers, \
             coroutines): this may crash it; with Linux 6.13 or later such calls are not probed"
        ))),
    }
}

/// Whether the target's time is measured: by its steps, or its operators.
fn measures_target(overhead: &Overhead) -> bool {
    overhead.steps > 0 || overhead.unseen_step_ns.is_some()
}

/// A cost as a part of the target's time.
fn of_target(overhead: &Overhead, ns: u64) -> f64 {
    ns as f64 / overhead.bare_ns().max(1) as f64
}

/// That more was spent than was allowed.
fn over_budget(overhead: &Overhead) -> Option<Diagnostic> {
    let budget = overhead.budget?;
    let spent = |ns: u64| of_target(overhead, ns);
    let (all, base) = (spent(overhead.base_ns + overhead.detail_ns), spent(overhead.base_ns));
    // An estimate is not exact to the last percent.
    (measures_target(overhead) && all > budget * 1.1).then(|| {
        let message = format!(
            "the overhead exceeded the budget of {:.2} %: it was {:.2} % of the target's time, {:.2} % for steps alone",
            budget * 100.0,
            all * 100.0,
            base * 100.0
        );
        Diagnostic::warning(Code::BudgetExceeded, message)
            .hint("set a larger `--budget`: with steps this short, a small one cannot be met")
    })
}

/// That the recording ended before the budget covered a window, which needs so much time in steps; more, where the probes of
/// steps spend a part of the budget.
fn too_short((overhead, needed_ns): (&Overhead, f64)) -> Option<Diagnostic> {
    let share = overhead.budget.filter(|_| measures_target(overhead))?;
    let (budget, of_steps) = (share * 100.0, of_target(overhead, overhead.base_ns));
    if of_steps >= share {
        let of_steps = of_steps * 100.0;
        let message =
            format!("no operators were recorded: the probes of steps alone took {of_steps:.2} % of {budget} %");
        return Some(Diagnostic::warning(Code::TooShort, message).hint("set a larger `--budget`"));
    }
    let [needed, bare] = [needed_ns * share / (share - of_steps), overhead.bare_ns() as f64].map(|ns| ns / 1e9);
    let what =
        if overhead.steps > 0 { "steps before, and there were" } else { "operators before, and there were at most" };
    let message =
        format!("no operators were recorded: a budget of {budget} % needs {needed:.1} s in {what} {bare:.1} s");
    Some(Diagnostic::warning(Code::TooShort, message).hint("record longer, or set a larger `--budget`"))
}

fn has_failed(ending: Option<Ending>) -> bool {
    matches!(ending, Some(Ending::Killed(_))) || matches!(ending, Some(Ending::Exited(code)) if code != 0)
}

/// Why there is no step in the trace. Of a target that failed, its own message explains more than what it did not load. Of an
/// engine that was `searched` for and found, its steps are what matters: a program may have it and use another.
fn nothing_recorded(
    waiting: Diagnostics,
    nothing: Option<String>,
    (reason, ending): (Reason, Option<Ending>),
    attach: Option<String>,
    searched: bool,
) -> Vec<Diagnostic> {
    let nothing = nothing.unwrap_or_default();
    if reason == Reason::TargetEnded && has_failed(ending) {
        let message = format!("{} before a step was recorded", describe(reason, ending));
        let failed = Diagnostic::error(Code::NothingRecorded, message).with_note(nothing);
        return vec![failed.hint("see the target's own messages")];
    }
    // Without its steps an engine is not there at all: that implies the rest.
    let is_of_steps = |problem: &Diagnostic| problem.code == Code::GroupNotAttached;
    let has_steps = waiting.0.iter().any(is_of_steps);
    if attach.is_none() && !waiting.0.is_empty() && (has_steps || !searched) {
        return waiting.0.into_iter().filter(|problem| !has_steps || is_of_steps(problem)).collect();
    }
    let what = if reason == Reason::TargetEnded { "the target ended" } else { "the recording ended" };
    let message = format!("{what}, and {nothing}");
    let hint = attach.unwrap_or_else(|| match searched {
        true => "it may use another engine: `profinfer engines` lists those that are recorded; name one".to_owned(),
        false => "`profinfer check` shows where the probes are".to_owned(),
    });
    vec![Diagnostic::error(Code::NothingRecorded, message).hint(hint)]
}
