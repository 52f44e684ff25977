//! One step as totals over steps need it.

use super::coverage::Recorded;
use crate::ids::Phase;

/// One step, without its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepRow {
    /// Its number.
    pub number: u64,
    /// What it was.
    pub phase: Phase,
    /// The process.
    pub pid: u32,
    /// The thread that ran it.
    pub tid: u32,
    /// The model within the process, if recorded.
    pub instance: Option<i64>,
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// Tokens it took in.
    pub tokens: Option<u64>,
    /// Position of its first token in its sequence, if recorded.
    pub position: Option<u64>,
    /// No record was lost during it.
    pub complete: bool,
    /// How much of it was recorded.
    pub recorded: Recorded,
    /// The window in which it, or the step before it, had its operators recorded.
    pub window: Option<u32>,
    /// Times in which nothing was recorded that began before it.
    pub stretch: u32,
    /// It began before the sampling window was to end, or there is none.
    pub is_planned: bool,
}

impl StepRow {
    #[cfg(test)]
    pub(crate) fn of_test(number: u64, phase: Phase, (start, end): (u64, u64)) -> Self {
        let (pid, tid, tokens, complete, recorded) = (1, 1, Some(1), true, Recorded::Whole);
        let (instance, position, window, stretch, is_planned) = (None, None, None, 0, true);
        Self {
            number,
            phase,
            pid,
            tid,
            instance,
            start,
            end,
            tokens,
            position,
            complete,
            recorded,
            window,
            stretch,
            is_planned,
        }
    }

    /// The thread that ran it.
    pub(super) fn thread(&self) -> ThreadKey {
        ThreadKey { pid: self.pid, tid: self.tid }
    }

    /// ns.
    pub fn duration(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// A thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ThreadKey {
    pid: u32,
    tid: u32,
}
