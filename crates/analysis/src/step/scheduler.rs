//! States of threads by the scheduler's events: running, runnable, sleeping or blocked; and who ran instead of a runnable
//! thread. The state is unknown before a thread's first event and where events may be missing.

use super::pending::Process;
use super::thread_state::{RawInstead, RawState, Runner, ThreadState, Track};
use super::threads::Threads;
use crate::raw::Header;
use rustc_hash::FxHashMap;

/// Runnable threads of one processor for which the running thread is recorded.
const MAX_WAITING: usize = 1024;
/// States, and turns of others, that are pending for unfinished steps.
const MAX_PENDING: usize = 1 << 18;
/// Separate times at which events may be missing.
const MAX_BLIND: usize = 1 << 16;

/// A switch record's contents.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Switch {
    pub(crate) time: u64,
    pub(crate) cpu: u16,
    /// The kernel's bits; `None` where they could not be read.
    pub(crate) prev_state: Option<u64>,
    pub(crate) prev: Runner,
    pub(crate) next: Runner,
}

/// A processor.
#[derive(Debug, Default)]
struct Cpu {
    /// Its latest switch, and to whom.
    switched: Option<(u64, Runner)>,
    /// Threads of the target that wait for it.
    waiting: Vec<u32>,
}

/// A time at which events may be missing: a state that began before its end is unknown from its start on.
#[derive(Debug, Clone, Copy)]
struct Blind {
    from: u64,
    to: u64,
}

/// A thread is in another state from a time on.
#[derive(Debug, Clone, Copy)]
struct StateChange {
    /// ns.
    time: u64,
    state: ThreadState,
    cpu: Option<u16>,
}

/// A thread's turn on a processor.
#[derive(Debug, Clone, Copy)]
struct Turn {
    /// The switch before on this processor: when, and to whom.
    before: Option<(u64, Runner)>,
    runner: Runner,
    /// ns.
    end: u64,
}

/// Tracks the states of threads.
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    seen: bool,
    saw_wakeups: bool,
    cpus: FxHashMap<u16, Cpu>,
    /// In the order of `to`.
    blind: Vec<Blind>,
}

impl Scheduler {
    /// A switch was seen, so that states mean something.
    pub(crate) fn seen(&self) -> bool {
        self.seen
    }

    /// A wake-up was seen.
    pub(crate) fn saw_wakeups(&self) -> bool {
        self.saw_wakeups
    }

    /// Events may be missing from `from` to `to`.
    pub(crate) fn missing(&mut self, from: u64, to: u64) {
        let to = self.blind.last().map_or(to, |last| to.max(last.to));
        let full = self.blind.len() >= MAX_BLIND;
        match self.blind.last_mut().filter(|last| full || last.to == to) {
            Some(last) => *last = Blind { from: last.from.min(from), to },
            None => self.blind.push(Blind { from, to }),
        }
    }

    /// Tells only the last so many apart: what the others cover is one with the first of these.
    pub(crate) fn forget_all_but(&mut self, last: usize) {
        let forgotten = self.blind.len().saturating_sub(last);
        let from = self.blind.drain(..forgotten).map(|blind| blind.from).min();
        if let (Some(from), Some(first)) = (from, self.blind.first_mut()) {
            first.from = first.from.min(from);
        }
    }

    /// From when on a state that began at `since` is unknown at a later time.
    fn doubt(&self, since: u64, at: u64) -> Option<u64> {
        let first = self.blind.get(self.blind.partition_point(|blind| blind.to <= since))?;
        (first.from < at).then_some(first.from.max(since))
    }

    /// A cpu passes from one thread to another.
    pub(crate) fn switch(&mut self, switch: &Switch, threads: &mut Threads, processes: &mut [Process]) {
        self.seen = true;
        let Switch { time, cpu, prev, next, .. } = *switch;
        let processor = self.cpus.entry(cpu).or_default();
        let before = processor.switched.replace((time, next));
        for thread in &processor.waiting {
            record_runner(*thread, Turn { before, runner: prev, end: time }, threads, processes);
        }
        if let Some(thread) = threads.index(prev.tid) {
            let state = switch.prev_state.map_or(ThreadState::Unknown, ThreadState::of_kernel);
            // One that did not run has come back unseen.
            let unseen = !matches!(threads.get(thread).track.state, ThreadState::Running | ThreadState::Unknown);
            self.change(thread, StateChange { time, state, cpu: Some(cpu) }, unseen, threads, processes);
        }
        if let Some(thread) = threads.index(next.tid).filter(|_| next.tid != prev.tid) {
            let track = threads.get(thread).track;
            let moved = track.state == ThreadState::Runnable && track.cpu != Some(cpu);
            if let Some((since, runner)) = track.cpu.filter(|_| moved).and_then(|on| self.cpus.get(&on)?.switched)
                && since >= track.since
            {
                // It migrated while it was runnable: the thread that ran on its former processor ran instead.
                push_instead(thread, runner, since, time, threads, processes);
            }
            let unseen = track.state == ThreadState::Running;
            self.change(
                thread,
                StateChange { time, state: ThreadState::Running, cpu: Some(cpu) },
                unseen,
                threads,
                processes,
            );
        }
    }

    /// A thread can run again.
    pub(crate) fn wakeup(
        &mut self,
        thread: u32,
        time: u64,
        cpu: Option<u16>,
        threads: &mut Threads,
        processes: &mut [Process],
    ) {
        self.saw_wakeups = true;
        let of = threads.get_mut(thread);
        let first = of.track.state == ThreadState::Unknown && of.track.since == 0;
        if first && of.born.is_some() {
            // It was made, and is let go now.
            of.born = Some(time);
        }
        if !matches!(of.track.state, ThreadState::Running | ThreadState::Runnable) {
            self.change(thread, StateChange { time, state: ThreadState::Runnable, cpu }, false, threads, processes);
        }
    }

    /// A thread has a record: it ran from `since` to the record's end.
    pub(crate) fn evidence(
        &mut self,
        thread: u32,
        since: u64,
        header: &Header,
        threads: &mut Threads,
        processes: &mut [Process],
    ) {
        let track = threads.get(thread).track;
        let doubtful = || self.doubt(track.since, header.end).is_some();
        match track.state {
            ThreadState::Running if !doubtful() => {}
            // It may have left its cpu and come back unseen.
            ThreadState::Running | ThreadState::Unknown => {
                let blind = self.blind.last().map_or(0, |blind| blind.to);
                let since = if since < blind { header.end } else { since };
                let to = StateChange { time: since, state: ThreadState::Running, cpu: Some(header.cpu) };
                self.change(thread, to, false, threads, processes);
            }
            _ if header.end > track.since => {
                let to = StateChange { time: header.end, state: ThreadState::Running, cpu: Some(header.cpu) };
                self.change(thread, to, true, threads, processes);
            }
            _ => {}
        }
    }

    /// A thread ended.
    pub(crate) fn exit(&mut self, thread: u32, time: u64, threads: &mut Threads, processes: &mut [Process]) {
        self.change(thread, StateChange { time, state: ThreadState::Unknown, cpu: None }, false, threads, processes);
    }

    /// A thread's state changes. `unseen`: another change was missed since the last one.
    fn change(
        &mut self,
        thread: u32,
        change: StateChange,
        unseen: bool,
        threads: &mut Threads,
        processes: &mut [Process],
    ) {
        let StateChange { time, state, cpu } = change;
        let track = threads.get(thread).track;
        let at = time.max(track.since);
        let until = if unseen { track.since } else { self.doubt(track.since, at).unwrap_or(at) };
        push_state(thread, &track, until, threads, processes);
        if let Some(left) = track.cpu.filter(|_| track.state == ThreadState::Runnable)
            && let Some(processor) = self.cpus.get_mut(&left)
        {
            processor.waiting.retain(|waiting| *waiting != thread);
        }
        if let Some(on) = cpu.filter(|_| state == ThreadState::Runnable) {
            let processor = self.cpus.entry(on).or_default();
            if processor.waiting.len() < MAX_WAITING {
                processor.waiting.push(thread);
            }
        }
        let cpu = cpu.filter(|_| matches!(state, ThreadState::Running | ThreadState::Runnable));
        threads.get_mut(thread).track = Track { state, cpu, since: at };
    }

    /// What a thread does at the end of what was read, up to a time.
    pub(crate) fn present(&self, thread: u32, until: u64, threads: &Threads) -> Option<RawState> {
        let Track { state, cpu, since } = threads.get(thread).track;
        let end = self.doubt(since, until).unwrap_or(until);
        (state != ThreadState::Unknown && since < end).then_some(RawState { thread, state, cpu, start: since, end })
    }
}

/// Records who ran instead of a runnable thread until a switch: the thread that leaves, since it got the processor or
/// since the other became runnable.
fn record_runner(thread: u32, turn: Turn, threads: &Threads, processes: &mut [Process]) {
    let Turn { before, runner, end } = turn;
    let waiting = threads.get(thread);
    let since = waiting.track.since;
    let from = match before {
        Some((switched, to)) if switched >= since => {
            if to.tid != runner.tid {
                return; // Switches between the two were not recorded.
            }
            switched
        }
        _ => since,
    };
    if runner.tid != waiting.tid {
        push_instead(thread, runner, from, end, threads, processes);
    }
}

fn push_instead(thread: u32, runner: Runner, start: u64, end: u64, threads: &Threads, processes: &mut [Process]) {
    let Some(process) = processes.get_mut(threads.get(thread).process as usize).filter(|_| start < end) else { return };
    if process.instead.len() >= MAX_PENDING {
        process.instead.drain(..MAX_PENDING / 2);
    }
    process.instead.push(RawInstead { thread, runner, start, end });
}

fn push_state(thread: u32, track: &Track, end: u64, threads: &Threads, processes: &mut [Process]) {
    let Track { state, cpu, since: start } = *track;
    let Some(process) = processes.get_mut(threads.get(thread).process as usize) else { return };
    if state == ThreadState::Unknown || start >= end {
        return;
    }
    if process.states.len() >= MAX_PENDING {
        process.states.drain(..MAX_PENDING / 2);
    }
    process.states.push(RawState { thread, state, cpu, start, end });
}
