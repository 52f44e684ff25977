//! A step's threads: what each did during it, without gaps, and how that splits the time of its operators.

use super::model::{Between, Instead, OffCpu, StateSpan, Step, TimeSplit};
use super::pending::Process;
use super::reclaim::Beside;
use super::scheduler::Scheduler;
use super::thread_state::{RawState, ThreadState};
use super::threads::Threads;

/// What the states of a step's threads are read from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StateSources<'a> {
    pub(crate) threads: &'a Threads,
    pub(crate) process: &'a Process,
    pub(crate) scheduler: &'a Scheduler,
}

/// The thread that ran a step, by index, and the end of its step before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) thread: u32,
    pub(crate) since: Option<u64>,
}

/// Fills in `states`, `instead`, `between`, `splits` and `off_cpu` of a step whose operators are sources. `taking_part`:
/// its threads, by index; none of what no step contains.
pub(crate) fn fill(step: &mut Step, taking_part: &[u32], caller: Option<Caller>, sources: StateSources<'_>) {
    step.states.clear();
    step.between = None;
    step.instead.clear();
    step.splits.clear();
    step.off_cpu.clear();
    step.cpus_allowed = cpus_allowed(step, taking_part, sources.threads);
    step.knows_wakeups = sources.scheduler.saw_wakeups();
    if !sources.scheduler.seen() {
        return;
    }
    let mut order: Vec<u32> = taking_part.to_vec();
    order.sort_by_key(|thread| (sources.threads.get(*thread).tid, *thread));
    order.dedup();
    let during = (step.start, step.end);
    let since = caller.and_then(|of| of.since);
    let raw = States::within((since.unwrap_or(step.start), step.end), sources);
    for thread in order {
        let who = sources.threads.get(thread);
        let is_step_thread = who.tid == step.tid;
        let from = who.born.filter(|_| !is_step_thread).unwrap_or(0).max(step.start);
        let to = who.exited.filter(|_| !is_step_thread).unwrap_or(u64::MAX).min(step.end);
        raw.add(thread, (from, to), sources, &mut step.states);
        add_instead(thread, during, sources, &mut step.instead);
    }
    states_one_at_a_time(&mut step.states);
    if let Some(Caller { thread, since: Some(since) }) = caller {
        let time = (since, step.start);
        let mut between = Between::default();
        raw.add(thread, time, sources, &mut between.states);
        states_one_at_a_time(&mut between.states);
        add_instead(thread, time, sources, &mut between.instead);
        one_at_a_time(&mut between.instead);
        step.between = Some(between);
    }
    take_off_cpu(step);
    split(step);
}

/// How many processors its threads may run on. Worker threads take precedence over the step's thread, whose affinity
/// may have changed since it was read.
fn cpus_allowed(step: &Step, taking_part: &[u32], threads: &Threads) -> Option<u32> {
    let of = |with_step_thread: bool| {
        let wanted =
            taking_part.iter().map(|thread| threads.get(*thread)).filter(|t| with_step_thread || t.tid != step.tid);
        wanted.filter_map(|thread| thread.cpus_allowed).max()
    };
    of(false).or_else(|| of(true))
}

/// States of threads within a time, by thread, then start.
struct States(Vec<RawState>);

impl States {
    fn within((start, end): (u64, u64), sources: StateSources<'_>) -> Self {
        let overlaps = |state: &&RawState| state.start < end && state.end > start;
        let mut found: Vec<RawState> = sources.process.states.iter().filter(overlaps).copied().collect();
        found.sort_by_key(|state| (state.thread, state.start));
        Self(found)
    }

    /// Adds a thread's states in a time; what lies between them is unknown, and so is what lies where records were lost.
    fn add(&self, thread: u32, (from, to): (u64, u64), sources: StateSources<'_>, out: &mut Vec<StateSpan>) {
        let mut lost: Vec<(u64, u64)> = sources.process.gaps(from, to).map(|gap| (gap.from, gap.to)).collect();
        lost.sort_unstable();
        let tid = sources.threads.get(thread).tid;
        let mut at = from;
        let mut push = |state: ThreadState, cpu: Option<u16>, start: u64, end: u64| {
            if start >= end {
                return;
            }
            match out.last_mut() {
                Some(last) if last.tid == tid && last.state == state && last.cpu == cpu && last.end == start => {
                    last.end = end;
                }
                _ => out.push(StateSpan { tid, state, cpu, start, end }),
            }
        };
        let mine = self.0.partition_point(|state| state.thread < thread)..;
        let mine = self.0[mine].iter().take_while(|state| state.thread == thread);
        for RawState { state, cpu, start, end, .. } in
            mine.copied().chain(sources.scheduler.present(thread, to, sources.threads))
        {
            let (start, end) = (start.clamp(at, to.max(at)), end.clamp(at, to.max(at)));
            push(ThreadState::Unknown, None, at, start);
            at = start;
            for (gap, until) in &lost {
                if *gap < end && *until > at {
                    let gap = (*gap).max(at);
                    push(state, cpu, at, gap);
                    at = (*until).min(end);
                    push(ThreadState::Unknown, None, gap, at);
                }
            }
            push(state, cpu, at, end);
            at = end;
        }
        push(ThreadState::Unknown, None, at, to);
    }
}

fn add_instead(thread: u32, (from, to): (u64, u64), sources: StateSources<'_>, out: &mut Vec<Instead>) {
    let tid = sources.threads.get(thread).tid;
    for raw in sources.process.instead.iter().filter(|raw| raw.thread == thread) {
        let (start, end) = (raw.start.max(from), raw.end.min(to));
        if start < end {
            let (pid, name, of_leader) = (raw.runner.pid, raw.runner.name, raw.runner.tid == raw.runner.pid);
            let own = pid != 0 && sources.threads.has_process(pid);
            out.push(Instead { tid, pid, name, of_leader, own, operator: None, start, end });
        }
    }
}

/// Times off the cpu are states that follow one another.
fn take_off_cpu(step: &mut Step) {
    let mut open: Option<OffCpu> = None;
    for span in &step.states {
        let ended = open.filter(|off| off.tid != span.tid || off.end != span.start || !is_off(span.state));
        if let Some(off) = ended {
            step.off_cpu.push(off);
            open = None;
        }
        if is_off(span.state) {
            let off = open.get_or_insert(OffCpu { tid: span.tid, start: span.start, runnable: span.start, end: 0 });
            off.end = span.end;
            if span.state != ThreadState::Runnable {
                off.runnable = span.end;
            }
        }
    }
    step.off_cpu.extend(open);
}

fn is_off(state: ThreadState) -> bool {
    !matches!(state, ThreadState::Running | ThreadState::Unknown)
}

/// A part of a thread's time that belongs to one operator: the innermost that is open.
#[derive(Debug, Clone, Copy)]
struct Piece {
    span: u32,
    operator: u32,
    start: u64,
    end: u64,
    /// The lane waits for others.
    waits: bool,
}

/// Splits the time of each lane's share of an operator by what the thread did.
fn split(step: &mut Step) {
    step.splits.resize(step.lanes.len(), TimeSplit::default());
    let mut order: Vec<(u32, u32)> = Vec::with_capacity(step.lanes.len()); // operator, span
    for (operator, shares) in (0_u32..).zip(step.operators.iter().map(|operator| operator.lanes.clone())) {
        order.extend(shares.filter(|span| (*span as usize) < step.lanes.len()).map(|span| (operator, span)));
    }
    let key = |span: u32| {
        let span = &step.lanes[span as usize];
        (span.tid, span.start, std::cmp::Reverse(span.end))
    };
    order.sort_by_key(|(_, span)| key(*span));
    let says_waiting = step.lanes.iter().any(|span| span.waiting > 0 || span.undivided);
    let pieces = pieces(step, &order, says_waiting);
    let mut instead = std::mem::take(&mut step.instead);
    one_at_a_time(&mut instead);
    let (mut state, mut other) = (0, 0);
    let all_reclaims = std::mem::take(&mut step.reclaims);
    let mut reclaims = Beside::new(&all_reclaims);
    for piece in &pieces {
        let tid = step.lanes[piece.span as usize].tid;
        let passed = |t: u32, end: u64| (t, end) <= (tid, piece.start);
        while step.states.get(state).is_some_and(|s| passed(s.tid, s.end)) {
            state += 1;
        }
        let undivided = step.lanes[piece.span as usize].undivided;
        let split = &mut step.splits[piece.span as usize];
        let mut seen = 0_u64;
        for span in step.states[state..].iter().take_while(|s| s.tid == tid && s.start < piece.end) {
            let (start, end) = (span.start.max(piece.start), span.end.min(piece.end));
            let ns = end.saturating_sub(start);
            seen = ns.saturating_add(seen);
            split.add(if piece.waits { None } else { Some(span.state) }, ns);
            if !piece.waits {
                split.add_reclaim(span.state, reclaims.within(tid, start, end));
            }
            if undivided && !piece.waits && span.state == ThreadState::Running {
                split.undivided = split.undivided.saturating_add(ns);
            }
        }
        split.unknown = split.unknown.saturating_add((piece.end - piece.start).saturating_sub(seen));
        while instead.get(other).is_some_and(|o| passed(o.tid, o.end)) {
            other += 1;
        }
        name_operator(step, piece, tid, &instead[other..]);
    }
    step.reclaims = all_reclaims;
    // What no operator lost stays as it is.
    let named = step.instead.len();
    rest_of(step, &instead, named);
}

/// A reused thread number is another thread; damaged traces may overlap.
fn states_one_at_a_time(states: &mut Vec<StateSpan>) {
    states.sort_by_key(|span| (span.tid, span.start));
    without_overlaps(states, |span| (span.tid, &mut span.start, span.end));
}

/// One processor runs one thread at a time; damaged traces may overlap.
fn one_at_a_time(instead: &mut Vec<Instead>) {
    instead.sort_by_key(|other| (other.tid, other.start));
    without_overlaps(instead, |other| (other.tid, &mut other.start, other.end));
}

/// Takes from each span what the one before it has, of spans by thread and start. `parts`: thread, start, end.
fn without_overlaps<T>(spans: &mut Vec<T>, parts: impl Fn(&mut T) -> (u32, &mut u64, u64)) {
    let mut before: Option<(u32, u64)> = None;
    spans.retain_mut(|span| {
        let (tid, start, end) = parts(span);
        let until = before.filter(|(of, _)| *of == tid).map_or(0, |(_, until)| until);
        *start = (*start).max(until);
        let is_left = *start < end;
        if is_left {
            before = Some((tid, end));
        }
        is_left
    });
}

/// The parts of other threads' times that an operator lost.
fn name_operator(step: &mut Step, piece: &Piece, tid: u32, instead: &[Instead]) {
    if piece.waits {
        return;
    }
    for other in instead.iter().take_while(|o| o.tid == tid && o.start < piece.end) {
        let (start, end) = (other.start.max(piece.start), other.end.min(piece.end));
        if start < end {
            step.instead.push(Instead { operator: Some(piece.operator), start, end, ..*other });
        }
    }
}

/// Adds the rest of `instead` without its first `named` parts. Both are in order.
fn rest_of(step: &mut Step, instead: &[Instead], named: usize) {
    let mut at = 0;
    for other in instead {
        let mut from = other.start;
        while at < named {
            let part = step.instead[at];
            if (part.tid, part.start) >= (other.tid, other.end) {
                break;
            }
            if part.tid == other.tid && from < part.start {
                step.instead.push(Instead { start: from, end: part.start, ..*other });
            }
            from = from.max(part.end);
            at += 1;
        }
        if from < other.end {
            step.instead.push(Instead { start: from, ..*other });
        }
    }
    step.instead.sort_by_key(|other| (other.tid, other.start));
}

/// The threads' times in operators, one after the other; `order` is by thread, then start.
fn pieces(step: &Step, order: &[(u32, u32)], says_waiting: bool) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(order.len());
    let mut open: Vec<(u32, u32, u64)> = Vec::new(); // operator, span, end
    let mut at = 0;
    for (i, (operator, index)) in order.iter().enumerate() {
        let span = &step.lanes[*index as usize];
        let previous = i.checked_sub(1).map(|i| &step.lanes[order[i].1 as usize]);
        if previous.is_some_and(|previous| previous.tid != span.tid) {
            close(step, &mut pieces, &mut open, &mut at, u64::MAX);
        }
        if open.is_empty() {
            at = span.start;
        }
        close(step, &mut pieces, &mut open, &mut at, span.start);
        if let Some((operator, index, _)) = open.last() {
            add(step, &mut pieces, *operator, *index, at, span.start);
        }
        at = span.start;
        let end = open.last().map_or(span.end, |(_, _, outer)| span.end.min(*outer)).max(span.start);
        open.push((*operator, *index, end));
        if !says_waiting && open.len() == 1 {
            let next = order.get(i + 1).map(|(_, next)| &step.lanes[*next as usize]);
            let next = next.filter(|next| next.tid == span.tid).map_or(step.end, |next| next.start);
            let slowest = step.operators[*operator as usize].end.min(next);
            if next >= end && end < slowest {
                // Without a probe of waiting: until the slowest lane was done, or it went on.
                close(step, &mut pieces, &mut open, &mut at, end);
                let (span, operator) = (*index, *operator);
                pieces.push(Piece { span, operator, start: end, end: slowest, waits: true });
                at = slowest;
            }
        }
    }
    close(step, &mut pieces, &mut open, &mut at, u64::MAX);
    pieces
}

/// Ends the spans that are over at a time.
fn close(step: &Step, pieces: &mut Vec<Piece>, open: &mut Vec<(u32, u32, u64)>, at: &mut u64, time: u64) {
    while let Some((operator, index, end)) = open.pop_if(|(_, _, end)| *end <= time) {
        add(step, pieces, operator, index, *at, end);
        *at = end.max(*at);
    }
}

/// A part of a span: work, then waiting until the slowest lane is done. What comes after that is no waiting for it.
fn add(step: &Step, pieces: &mut Vec<Piece>, operator: u32, span: u32, start: u64, end: u64) {
    let share = &step.lanes[span as usize];
    let worked = share.end.saturating_sub(share.waiting);
    let slowest = step.operators[operator as usize].end.max(worked);
    let cuts = [
        (start, end.min(worked), false),
        (start.max(worked), end.min(slowest), true),
        (start.max(slowest), end, false),
    ];
    for (start, end, waits) in cuts {
        if start < end {
            pieces.push(Piece { span, operator, start, end, waits });
        }
    }
}
