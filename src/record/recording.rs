//! A recording while it runs: what the programs, the target, the user and the clock say is answered here, one after the
//! other, until one of them ends it. Whatever happens, the target runs on and the trace is closed.

use super::consumer::{Consumer, Control, name_losses};
use super::detail::SOON;
use super::frequency::Frequencies;
use super::guardian::Guardian;
use super::mapped::MappedFiles;
use super::meter::Meter;
use super::modules::Modules;
use super::output::Output;
use super::process::{Ending, TargetProcess, family, state, threads};
use super::signals::Signals;
use super::steal::ProcessorTime;
use super::stops::Stop;
use super::switches::{Hands, Switches};
use super::wrappers::{self, Wrappers};
use super::{Live, Options, Summary, clock};
use crate::bpf::{AttachMode, LOSS_KINDS, Session};
use crate::diag::{Code, Diagnostic, Diagnostics, Severity};
use crate::output::cannot_write;
use crate::plan::ProbePlan;
use crate::spec::Part;
use crate::trace::{End, Loss, LossKind, Price};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What is looked at by the clock is looked at this often where something depends on it.
const TICK: Duration = Duration::from_millis(20);
/// Time between two writings of what was gathered and lost.
const FLUSH: Duration = Duration::from_secs(1);
/// Time between two live lines: nothing that the clock alone brings comes more often.
const LIVE: Duration = Duration::from_millis(250);
/// How long a target that was interrupted has, to end within the trace.
const GRACE: Duration = Duration::from_millis(500);

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
    /// The engines that are looked for, where they are several.
    pub(super) parts: &'a [Part],
    pub(super) output: Output,
    pub(super) signals: Signals,
    pub(super) process: TargetProcess,
    pub(super) guardian: Guardian,
    pub(super) modules: Modules<'a>,
    pub(super) consumer: Consumer,
    pub(super) session: Session<'a>,
    pub(super) meter: Meter<'a>,
    pub(super) switches: Switches,
    pub(super) mapped: MappedFiles,
    pub(super) frequencies: Frequencies,
    pub(super) started: Instant,
    /// How long the target stood still to be looked at: it could do nothing then, and no duration counts it.
    pub(super) held: Duration,
    /// The processors' time at the start.
    pub(super) processors: Option<ProcessorTime>,
    pub(super) wrappers: Wrappers,
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
            // It runs already, and nothing else will say so.
            self.modules.look(self.process.pid(), true, &mut self.session, &self.consumer)?;
            self.started = Instant::now();
        }
        let (mut flushed, mut shown) = (Instant::now(), Instant::now());
        let mut answered_all = true;
        loop {
            self.switch(Switches::look);
            if answered_all {
                self.pause();
            }
            self.guardian.look();
            // One at a time: a target that maps libraries all the time must not keep signals and time from being seen.
            let control = self.consumer.control();
            answered_all = control.is_none();
            if let Some(reason) = control.map(|control| self.answer(control)).transpose()?.flatten() {
                return Ok((reason, None));
            }
            if answered_all {
                self.wrappers.look();
            }
            if let Some(signal) = self.take_signal() {
                return Ok((Reason::Interrupted(signal), self.process.ending(GRACE)));
            }
            if let Some(ending) = self.process.ending(Duration::ZERO) {
                return Ok((Reason::TargetEnded, Some(ending)));
            }
            if self.options.duration.is_some_and(|duration| self.started.elapsed() >= duration + self.held) {
                return Ok((Reason::Duration, None));
            }
            if self.modules.any_written() {
                self.modules.check_files(&mut self.session, &self.consumer);
            }
            self.mapped.look(self.process.pid(), &self.consumer);
            self.frequencies.look(&self.consumer);
            if flushed.elapsed() >= FLUSH {
                flushed = Instant::now();
                self.modules.check_files(&mut self.session, &self.consumer);
                if self.modules.has_many_deleted() {
                    self.modules.release_deleted(&mut self.session);
                }
                let losses = self.losses();
                self.lost = lost(&losses);
                if !self.consumer.flush(&losses) {
                    return Ok((Reason::WriteFailed, None));
                }
            }
            if shown.elapsed() >= LIVE {
                shown = Instant::now();
                observe(&self.live());
            }
        }
    }

    /// Until the programs, the user or the target's end want an answer, or the clock does.
    fn pause(&self) {
        let by_clock = match self.switches.are_restless() {
            Some(true) => SOON,
            Some(false) => TICK,
            None => LIVE,
        };
        let by_clock = if self.wrappers.any() { by_clock.min(wrappers::INTERVAL) } else { by_clock };
        let left =
            self.options.duration.map_or(by_clock, |end| (end + self.held).saturating_sub(self.started.elapsed()));
        let wait = PollTimeout::try_from(by_clock.min(left)).unwrap_or(PollTimeout::ZERO);
        let awaited = [self.consumer.said(), self.signals.arrived(), self.process.ended()];
        let awaited = awaited.into_iter().chain(self.modules.written());
        let mut awaited: Vec<PollFd<'_>> = awaited.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let _ = poll(&mut awaited, wait);
    }

    /// Has probes come or go, where they may.
    fn switch(&mut self, act: fn(&mut Switches, &mut Hands<'_, 'a>)) {
        let (pid, forks) = (self.process.pid(), self.options.follow_forks);
        let processes = || if forks { family(pid) } else { vec![pid] };
        let (session, modules) = (&mut self.session, &mut self.modules);
        let (consumer, meter) = (&self.consumer, &mut self.meter);
        act(&mut self.switches, &mut Hands { session, modules, consumer, meter, processes: &processes });
    }

    /// Answers what the programs say; gives a reason to end.
    fn answer(&mut self, control: Control) -> Result<Option<Reason>, Diagnostics> {
        match control {
            Control::LastStep => return Ok(Some(Reason::LastStep)),
            Control::WriteFailed => return Ok(Some(Reason::WriteFailed)),
            Control::Mapped(stop) => self.look_at(stop, false)?,
            Control::Executed(stop) => self.look_at(stop, true)?,
        }
        Ok(None)
    }

    /// Attaches to what a stopped process has mapped, and lets it run on.
    fn look_at(&mut self, stop: Stop, anew: bool) -> Result<(), Diagnostics> {
        let looked = self.look_at_stopped(stop, anew);
        self.guardian.stops().answer(stop);
        looked
    }

    fn look_at_stopped(&mut self, stop: Stop, anew: bool) -> Result<(), Diagnostics> {
        let (from, pid, sites) = (Instant::now(), stop.pid.cast_signed(), self.modules.sites());
        let is_stopped = stop.since.is_some();
        let looked = self.modules.look(pid, anew, &mut self.session, &self.consumer);
        self.held += from.elapsed();
        let new = self.modules.sites() - sites;
        if !is_stopped && new > 0 {
            self.modules.sought.attached_late(pid, new);
        }
        match looked {
            Ok(()) => {}
            // It ended while it was looked at: nothing of it can be missed any more.
            Err(problems) if is_stopped && has_ended(pid) => drop(problems),
            // What is recorded of others is worth more than what this one could add.
            Err(problems) if self.goes_on_without(pid, &problems) => {
                let why = problems.0.first().map_or_else(String::new, |problem| problem.message.clone());
                self.modules.sought.not_inspected(pid, &why);
                let as_it_is = !is_uninspected(&problems);
                let warning = |problem| Diagnostic { severity: Severity::Warning, ..problem };
                let problems = problems.0.into_iter().map(|p| if as_it_is { p } else { warning(p) });
                self.modules.add_problems(Diagnostics(problems.collect()));
            }
            Err(problems) => {
                if self.process.launched() {
                    // Before it runs on: its user wanted it recorded, not run.
                    self.process.signal(Signal::SIGKILL);
                }
                return Err(problems);
            }
        }
        self.wrappers.watch(pid, self.process.pid());
        Ok(())
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

    fn losses(&self) -> Vec<Loss> {
        let mut losses = name_losses(&self.session.losses(), LOSS_KINDS as usize, &self.plan.schema);
        losses.extend(self.modules.losses());
        let skipped = self.session.recursions().into_iter();
        losses.extend(skipped.map(|(record, count)| Loss { record, kind: LossKind::Recursion, count }));
        let released = self.guardian.stops().released().load(Ordering::SeqCst);
        if released > 0 {
            // As the programs count those that they could not even stop.
            let (record, kind) = ("exec", LossKind::NotAttached);
            match losses.iter_mut().find(|loss| loss.record == record && loss.kind == kind) {
                Some(loss) => loss.count += released,
                None => losses.push(Loss { record: record.to_owned(), kind, count: released }),
            }
        }
        losses
    }

    /// Calls that have begun and not ended: they are not in the trace, and that is as it should be.
    fn still_open(&self) -> Vec<Loss> {
        let pid = self.process.pid();
        let processes = if self.options.follow_forks { family(pid) } else { vec![pid] };
        let open = self.session.open_spans(&processes.into_iter().flat_map(threads).collect::<Vec<_>>());
        open.into_iter().map(|(record, count)| Loss { record, kind: LossKind::StillOpen, count }).collect()
    }

    fn live(&self) -> Live {
        let counts = self.consumer.counts();
        Live {
            elapsed: self.started.elapsed(),
            steps: counts.steps.load(Ordering::Relaxed),
            tokens: counts.tokens.load(Ordering::Relaxed),
            events: counts.events.load(Ordering::Relaxed),
            lost: self.lost,
            attached: self.modules.any_site(),
        }
    }

    /// Detaches, lets the target run, and closes the trace.
    fn close(mut self, reason: Reason, ending: Option<Ending>) -> Result<Summary, Diagnostics> {
        self.session.disable();
        self.guardian.rest();
        self.modules.check_files(&mut self.session, &self.consumer);
        self.switch(Switches::finish);
        let unseen_ns = self.switches.unseen_ns();
        if lost(&self.losses()) > 0 {
            // The ring may still be full, and what is lost last is shown by the records that come now.
            self.consumer.hurry();
            std::thread::sleep(2 * TICK);
        }
        self.session.end_spans();
        let (time, elapsed) = (clock::monotonic_ns(), self.started.elapsed());
        let mut losses = self.still_open();
        self.session.detach();
        losses.extend(self.losses());
        let finished = self.consumer.stop();
        let stolen = self.processors.and_then(|before| ProcessorTime::now()?.since(before));
        let price = Some(self.meter.price(&self.session, &self.modules, &finished.counts, unseen_ns));
        for pid in finished.unanswered().filter_map(running) {
            self.modules.sought.not_inspected(pid, "the recording ended before, and it could not be stopped");
        }
        // What the last programs to run have stopped.
        self.guardian.stops().end();
        self.wrappers.finish();
        drop(self.guardian);
        let mut problems = self.modules.take_problems();
        problems.0.extend(on_other_stacks(self.session.calls_elsewhere(), self.session.mode()));
        let counts = std::sync::Arc::clone(&finished.counts);
        let ring_bytes = counts.ring_bytes.load(Ordering::Relaxed);
        if reason == Reason::Refused {
            let _ = self.process.launched().then(|| self.process.ending(GRACE));
            return Err(problems); // and the file, which nothing came of, goes
        }
        self.output.keep();
        let ending = ending.or_else(|| self.process.ending(Duration::ZERO));
        problems.0.extend(price.as_ref().and_then(over_budget));
        let (begun, waiting) = (self.session.steps(), self.modules.sought.waiting_for());
        let nothing = self.modules.sought.nothing(&counts, begun);
        if reason == Reason::TargetEnded && self.options.follow_forks {
            let own = self.process.pid().cast_unsigned();
            self.modules.sought.ran_on(|pid| pid != own && !has_ended(pid.cast_signed()));
        }
        let left_out = self.modules.sought.left_out(&counts, begun);
        let reason_said = said(reason, ending);
        let end = End { time, reason: reason_said, price, stolen, left_out: left_out.clone(), ..coded(ending) };
        if let Err(error) = finished.finish(&losses, &end) {
            problems
                .push(cannot_write(self.output.path(), &error).with_note("what was written until then can be read"));
        } else if !self.output.is_there() {
            let gone = std::io::Error::other("it was removed or replaced while it was written");
            problems.push(cannot_write(self.output.path(), &gone));
        }
        let engines = self.modules.engines(self.parts);
        let steps = counts.steps.load(Ordering::Relaxed);
        if nothing.is_some() {
            problems.0.extend(nothing_recorded(waiting, nothing, reason));
        } else {
            // One engine's steps do not stand for those of another that was asked for.
            let without = waiting.0.into_iter().filter(|problem| problem.code == Code::GroupNotAttached);
            problems.0.extend(without.map(|problem| Diagnostic { severity: Severity::Warning, ..problem }));
        }
        let malformed = counts.malformed.load(Ordering::Relaxed);
        if malformed > 0 {
            let message = format!("bug: {malformed} records were not what the schema says, and were left out");
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
            problems,
            target: self.process,
            left_out,
            engines,
        })
    }
}

/// Whether nothing runs in a process any more.
fn has_ended(pid: i32) -> bool {
    state(pid).is_none_or(|state| state == 'Z')
}

/// Whether a process could not even be looked at.
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

fn said(reason: Reason, ending: Option<Ending>) -> String {
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
            "have the probe's span end at another entry (`until`), or record only that it was entered: entries are \
             safe on any stack",
        )
    };
    match mode {
        _ if calls == 0 => None,
        AttachMode::Session => Some(problem(format!(
            "the target runs {calls} probed calls on stacks of its own (fibers, coroutines): they are left out, since \
             the kernel cannot probe their returns"
        ))),
        // Only a session's program is asked before the return address is replaced.
        AttachMode::Multi | AttachMode::Single => Some(problem(format!(
            "the target runs {calls} calls whose returns are probed on stacks of its own (fibers, coroutines): this \
             may end it, and Linux 6.13 or later leaves such calls out"
        ))),
    }
}

/// That more was spent than was allowed.
fn over_budget(price: &Price) -> Option<Diagnostic> {
    let budget = price.budget?;
    let spent = |ns: u64| ns as f64 / price.bare_ns().max(1) as f64;
    let (all, base) = (spent(price.base_ns + price.detail_ns), spent(price.base_ns));
    // What is reckoned is not known to the last percent.
    (price.steps > 0 && all > budget * 1.1).then(|| {
        let message = format!(
            "the budget of {:.2} % was not kept: {:.2} % of the target's time was spent, {:.2} % of it on steps alone",
            budget * 100.0,
            all * 100.0,
            base * 100.0
        );
        Diagnostic::warning(Code::BudgetExceeded, message)
            .hint("give a larger `--budget`; steps this short leave little room for a small one")
    })
}

/// Why there is no step in the trace.
fn nothing_recorded(waiting: Diagnostics, nothing: Option<String>, reason: Reason) -> Vec<Diagnostic> {
    if !waiting.0.is_empty() {
        return waiting.0;
    }
    let what = if reason == Reason::TargetEnded { "the target ended" } else { "the recording ended" };
    let message = format!("{what}, and {}", nothing.unwrap_or_default());
    vec![Diagnostic::error(Code::NothingRecorded, message).hint("`profinfer check` shows where the probes are")]
}
