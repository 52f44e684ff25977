//! What each thread did at any time, by the scheduler's events: it ran, could have run, slept or was blocked; and who
//! ran instead of one that could have. What is not known is said to be unknown: before a thread's first event, and
//! where events may be missing.

use super::catalogue::TextId;
use super::fields::Header;
use super::hash::FastMap;
use super::threads::Threads;
use super::window::Process;

/// Threads that are looked at on one cpu; further ones are not told who ran instead.
const MAX_WAITING: usize = 1024;
/// States, and times of others, that are held back for steps that are not finished.
const HELD: usize = 1 << 18;
/// Times at which events may be missing that are kept apart.
const MAX_BLIND: usize = 1 << 16;

/// Bits of the kernel's task states.
const UNINTERRUPTIBLE: u64 = 0x2;
const NO_LOAD: u64 = 0x400;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum ThreadState {
    /// It is on a cpu.
    Running,
    /// It could be, and is not.
    Runnable,
    /// It waits for an event that a signal may interrupt: a lock, a timer, a message.
    Sleeping,
    /// It waits uninterruptibly: mostly for a disk.
    Blocked,
    /// The trace does not say.
    #[default]
    Unknown,
}

impl ThreadState {
    /// That of a thread which leaves its cpu with these bits.
    fn of_kernel(bits: u64) -> Self {
        match bits {
            0 => Self::Runnable,
            bits if bits & UNINTERRUPTIBLE != 0 && bits & NO_LOAD == 0 => Self::Blocked,
            _ => Self::Sleeping,
        }
    }
}

/// What a thread does, since when.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Track {
    state: ThreadState,
    /// Where it runs, or waits to.
    cpu: Option<u16>,
    since: u64,
}

/// A time that a thread was in one state; never [`ThreadState::Unknown`].
#[derive(Debug, Clone, Copy)]
pub(super) struct RawState {
    pub(super) thread: u32,
    pub(super) state: ThreadState,
    pub(super) cpu: Option<u16>,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// A time that another ran while a thread could have.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawInstead {
    pub(super) thread: u32,
    pub(super) runner: Runner,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// Who ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Runner {
    pub(super) tid: u32,
    /// 0: nobody, the cpu was idle.
    pub(super) pid: u32,
    pub(super) name: Option<TextId>,
}

/// A switch record's contents.
#[derive(Debug, Clone, Copy)]
pub(super) struct Switch {
    pub(super) time: u64,
    pub(super) cpu: u16,
    /// The kernel's bits; `None` where they could not be read.
    pub(super) prev_state: Option<u64>,
    pub(super) prev: Runner,
    pub(super) next: Runner,
}

/// What is known of a cpu.
#[derive(Debug, Default)]
struct Cpu {
    /// Its latest switch, and to whom.
    switched: Option<(u64, Runner)>,
    /// Threads of the target that wait for it.
    waiting: Vec<u32>,
}

/// A time at which events may be missing: a state that began before its end is not known any more, from its start on.
#[derive(Debug, Clone, Copy)]
struct Blind {
    from: u64,
    to: u64,
}

/// Follows the threads.
#[derive(Debug, Default)]
pub(super) struct Scheduler {
    seen: bool,
    saw_wakeups: bool,
    cpus: FastMap<u16, Cpu>,
    /// In the order of `to`.
    blind: Vec<Blind>,
}

impl Scheduler {
    /// A switch was seen, so that states mean something.
    pub(super) fn seen(&self) -> bool {
        self.seen
    }

    /// A wake-up was seen.
    pub(super) fn saw_wakeups(&self) -> bool {
        self.saw_wakeups
    }

    /// Events may be missing from `from` to `to`.
    pub(super) fn missing(&mut self, from: u64, to: u64) {
        let to = self.blind.last().map_or(to, |last| to.max(last.to));
        let full = self.blind.len() >= MAX_BLIND;
        match self.blind.last_mut().filter(|last| full || last.to == to) {
            Some(last) => *last = Blind { from: last.from.min(from), to },
            None => self.blind.push(Blind { from, to }),
        }
    }

    /// From when on a state that began then is not known at a later time.
    fn doubt(&self, since: u64, at: u64) -> Option<u64> {
        let first = self.blind.get(self.blind.partition_point(|blind| blind.to <= since))?;
        (first.from < at).then_some(first.from.max(since))
    }

    /// A cpu passes from one thread to another.
    pub(super) fn switch(&mut self, switch: &Switch, threads: &mut Threads, processes: &mut [Process]) {
        self.seen = true;
        let Switch { time, cpu, prev, next, .. } = *switch;
        let known = self.cpus.entry(cpu).or_default();
        let before = known.switched.replace((time, next));
        for thread in &known.waiting {
            told(*thread, (before, prev, time), threads, processes);
        }
        if let Some(thread) = threads.index(prev.tid) {
            let state = switch.prev_state.map_or(ThreadState::Unknown, ThreadState::of_kernel);
            // One that did not run has come back unseen.
            let unseen = !matches!(threads.get(thread).track.state, ThreadState::Running | ThreadState::Unknown);
            self.change(thread, (time, state, Some(cpu)), unseen, threads, processes);
        }
        if let Some(thread) = threads.index(next.tid).filter(|_| next.tid != prev.tid) {
            let track = threads.get(thread).track;
            let moved = track.state == ThreadState::Runnable && track.cpu != Some(cpu);
            if let Some((since, runner)) = track.cpu.filter(|_| moved).and_then(|on| self.cpus.get(&on)?.switched)
                && since >= track.since
            {
                // It was moved while it waited: whom it left there is who ran instead, as far as is known.
                push_instead(thread, runner, (since, time), threads, processes);
            }
            let unseen = track.state == ThreadState::Running;
            self.change(thread, (time, ThreadState::Running, Some(cpu)), unseen, threads, processes);
        }
    }

    /// A thread can run again.
    pub(super) fn wakeup(
        &mut self,
        thread: u32,
        (time, cpu): (u64, Option<u16>),
        threads: &mut Threads,
        processes: &mut [Process],
    ) {
        self.saw_wakeups = true;
        let known = threads.get_mut(thread);
        let first = known.track.state == ThreadState::Unknown && known.track.since == 0;
        if first && known.born.is_some() {
            // It was made, and is let go now.
            known.born = Some(time);
        }
        if !matches!(known.track.state, ThreadState::Running | ThreadState::Runnable) {
            self.change(thread, (time, ThreadState::Runnable, cpu), false, threads, processes);
        }
    }

    /// A thread has a record of its own: it ran from `since` to the record's end.
    pub(super) fn evidence(
        &mut self,
        thread: u32,
        (since, header): (u64, &Header),
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
                let to = (since, ThreadState::Running, Some(header.cpu));
                self.change(thread, to, false, threads, processes);
            }
            _ if header.end > track.since => {
                let to = (header.end, ThreadState::Running, Some(header.cpu));
                self.change(thread, to, true, threads, processes);
            }
            _ => {}
        }
    }

    /// A thread ended.
    pub(super) fn exit(&mut self, thread: u32, time: u64, threads: &mut Threads, processes: &mut [Process]) {
        self.change(thread, (time, ThreadState::Unknown, None), false, threads, processes);
    }

    /// A thread's state changes. `unseen`: another change was missed since the last one.
    fn change(
        &mut self,
        thread: u32,
        (at, state, cpu): (u64, ThreadState, Option<u16>),
        unseen: bool,
        threads: &mut Threads,
        processes: &mut [Process],
    ) {
        let track = threads.get(thread).track;
        let at = at.max(track.since);
        let until = if unseen { track.since } else { self.doubt(track.since, at).unwrap_or(at) };
        push_state(thread, &track, until, threads, processes);
        if let Some(left) = track.cpu.filter(|_| track.state == ThreadState::Runnable)
            && let Some(known) = self.cpus.get_mut(&left)
        {
            known.waiting.retain(|waiting| *waiting != thread);
        }
        if let Some(on) = cpu.filter(|_| state == ThreadState::Runnable) {
            let known = self.cpus.entry(on).or_default();
            if known.waiting.len() < MAX_WAITING {
                known.waiting.push(thread);
            }
        }
        let cpu = cpu.filter(|_| matches!(state, ThreadState::Running | ThreadState::Runnable));
        threads.get_mut(thread).track = Track { state, cpu, since: at };
    }

    /// What a thread does at the end of what was read, up to a time.
    pub(super) fn present(&self, thread: u32, until: u64, threads: &Threads) -> Option<RawState> {
        let Track { state, cpu, since } = threads.get(thread).track;
        let end = self.doubt(since, until).unwrap_or(until);
        (state != ThreadState::Unknown && since < end).then_some(RawState { thread, state, cpu, start: since, end })
    }
}

/// A waiting thread is told who ran until a switch: the one that leaves, since it began to wait or since the switch
/// before, if that one was to the same.
fn told(
    thread: u32,
    (before, prev, time): (Option<(u64, Runner)>, Runner, u64),
    threads: &Threads,
    processes: &mut [Process],
) {
    let known = threads.get(thread);
    let since = known.track.since;
    let from = match before {
        Some((switched, to)) if switched >= since => {
            if to.tid != prev.tid {
                return; // Switches between the two were not recorded.
            }
            switched
        }
        _ => since,
    };
    if prev.tid != known.tid {
        push_instead(thread, prev, (from, time), threads, processes);
    }
}

fn push_instead(thread: u32, runner: Runner, (start, end): (u64, u64), threads: &Threads, processes: &mut [Process]) {
    let Some(process) = processes.get_mut(threads.get(thread).process as usize).filter(|_| start < end) else { return };
    if process.instead.len() >= HELD {
        process.instead.drain(..HELD / 2);
    }
    process.instead.push(RawInstead { thread, runner, start, end });
}

fn push_state(thread: u32, track: &Track, end: u64, threads: &Threads, processes: &mut [Process]) {
    let Track { state, cpu, since: start } = *track;
    let Some(process) = processes.get_mut(threads.get(thread).process as usize) else { return };
    if state == ThreadState::Unknown || start >= end {
        return;
    }
    if process.states.len() >= HELD {
        process.states.drain(..HELD / 2);
    }
    process.states.push(RawState { thread, state, cpu, start, end });
}
