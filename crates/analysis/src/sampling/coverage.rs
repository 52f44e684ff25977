//! Windows: which steps had their operators recorded.

use profinfer_schema::{DetailState, Notice};

/// How much of a step was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, PartialOrd, Ord)]
pub enum Recorded {
    /// All that was asked for.
    #[default]
    Whole,
    /// The probes of operators came or went while it ran: no statistics contain it.
    Partly,
    /// The probes of operators were not attached: it ran without tracing overhead.
    Bare,
}

impl Recorded {
    /// `whole`, `partly`, `bare`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Partly => "partly",
            Self::Bare => "bare",
        }
    }
}

/// What was recorded of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Coverage {
    pub(crate) recorded: Recorded,
    /// The window in which it, or the step before it, had its operators recorded.
    pub(crate) window: Option<u32>,
    /// Unrecorded periods that began before it.
    pub(crate) stretch: u32,
    pub(crate) is_planned: bool,
    /// By the events of requests it may take in a prompt: where its tokens were not recorded, that decides its phase.
    pub(crate) has_prompt: bool,
}

/// A stretch of time in which operators were recorded: ns of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    attaching: u64,
    on: u64,
    off: u64,
    detached: u64,
}

/// The windows in which operators were recorded, by a trace's notices; none if they always were.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Windows {
    all: Vec<Window>,
    /// Earlier ones that were forgotten.
    forgotten: usize,
    /// The recording began without the probes of operators.
    begins_bare: bool,
}

impl Windows {
    /// Takes a notice. Those that go back in time, as only a damaged trace has them, are left out.
    pub fn notice(&mut self, notice: &Notice) {
        let (Some(detail), time) = (notice.detail, notice.time) else { return };
        match (detail.state, self.all.last_mut()) {
            (DetailState::Attaching, last) if last.as_ref().is_none_or(|last| last.detached <= time) => {
                self.all.push(Window { attaching: time, on: u64::MAX, off: u64::MAX, detached: u64::MAX });
            }
            (DetailState::On, Some(last)) if last.on == u64::MAX && last.attaching <= time => last.on = time,
            (DetailState::Off, Some(last)) if last.off == u64::MAX && last.on <= time => last.off = time,
            (DetailState::Detached, Some(last)) if last.detached == u64::MAX && last.attaching <= time => {
                last.detached = time;
                last.off = last.off.min(time);
            }
            (DetailState::Detached, None) => self.begins_bare = true,
            _ => {}
        }
    }

    /// Whether operators were not recorded all the time.
    pub fn any(&self) -> bool {
        self.begins_bare || self.forgotten + self.all.len() > 0
    }

    /// Forgets all but the last so many, for who reads a recording that does not end. Steps before those are then taken
    /// for steps before the first.
    pub(crate) fn forget_all_but(&mut self, last: usize) {
        let forgotten = self.all.len().saturating_sub(last);
        self.all.drain(..forgotten);
        self.forgotten += forgotten;
    }

    /// What was recorded between two instants, and the number of the window that was open at the first of them, or
    /// else of the one before.
    pub fn of(&self, start: u64, end: u64) -> (Recorded, Option<u32>) {
        if self.all.is_empty() {
            return (if self.begins_bare { Recorded::Bare } else { Recorded::Whole }, None);
        }
        let next = self.all.partition_point(|window| window.attaching <= start);
        let before = next.checked_sub(1).and_then(|last| self.all.get(last));
        let number = next.checked_sub(1).and_then(|last| u32::try_from(self.forgotten + last).ok());
        let recorded = match before {
            Some(window) if start < window.detached => {
                let whole = window.on <= start && end <= window.off;
                if whole { Recorded::Whole } else { Recorded::Partly }
            }
            _ if self.all.get(next).is_some_and(|window| window.attaching < end) => Recorded::Partly,
            _ => Recorded::Bare,
        };
        (recorded, number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profinfer_schema::{Detail, DetailReason};

    fn windows(changes: &[(u64, DetailState)]) -> Windows {
        let mut windows = Windows::default();
        for (time, state) in changes {
            let detail =
                Some(Detail { state: *state, reason: DetailReason::Budget, steps_too: false, planned_end: None });
            windows.notice(&Notice { time: *time, detail, ..Notice::default() });
        }
        windows
    }

    #[test]
    fn a_step_is_whole_if_the_probes_were_there_before_it_began_and_until_it_had_ended() {
        use DetailState::{Attaching, Detached, Off, On};
        let windows = windows(&[(100, Attaching), (110, On), (200, Off), (230, Detached), (400, Attaching), (410, On)]);
        let of = |start, end| windows.of(start, end).0;
        assert_eq!([of(110, 200), of(120, 150), of(410, 9999)], [Recorded::Whole; 3]);
        assert_eq!(
            [of(105, 150), of(190, 201), of(210, 220), of(90, 101), of(90, 999), of(399, 401)],
            [Recorded::Partly; 6]
        );
        assert_eq!([of(10, 100), of(230, 400), of(300, 310)], [Recorded::Bare; 3]);
        assert_eq!((windows.of(300, 310).1, windows.of(10, 20).1, windows.of(410, 420).1), (Some(0), None, Some(1)));
    }

    #[test]
    fn a_recording_may_begin_without_operators() {
        use DetailState::{Attaching, Detached, On};
        let windows_until = |changes: &[(u64, DetailState)]| windows(changes).of(200, 300);
        assert_eq!(windows_until(&[(10, Detached)]), (Recorded::Bare, None));
        assert_eq!(windows_until(&[(10, Detached), (250, Attaching)]), (Recorded::Partly, None));
        assert_eq!(windows_until(&[(10, Detached), (100, Attaching), (110, On)]), (Recorded::Whole, Some(0)));
    }

    #[test]
    fn without_notices_every_step_is_whole_and_nonsense_does_no_harm() {
        use DetailState::{Attaching, Detached, Off, On, Unknown};
        assert_eq!(Windows::default().of(0, u64::MAX), (Recorded::Whole, None));
        let windows =
            windows(&[(5, Off), (5, On), (9, Attaching), (3, On), (1, Detached), (9, Unknown), (2, Attaching)]);
        assert!(windows.any());
        assert_eq!(windows.of(10, 5).0, Recorded::Partly);
    }
}
