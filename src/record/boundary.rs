//! The boundaries that only say since when a lane waits for others: where there is one lane alone, nobody waits, and
//! their probes, which are hit more often than operators', cost for nothing. They go once that is known, and come back
//! when a second lane shows: then for good, so that no target has them come and go all the time.

use super::clock::{LEAD_NS, in_time, monotonic_ns};
use super::switches::Hands;
use crate::plan::{ProbePlan, Tier, WAITING};
use crate::spec::Role;
use crate::trace::{Notice, WaitingNotice};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// So many steps in which one lane alone computed are enough to know.
const STEPS: u64 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Attached,
    Detached,
    /// There are several lanes.
    Kept,
}

/// Switches them.
#[derive(Debug)]
pub(super) struct BoundarySwitch {
    state: State,
}

impl BoundarySwitch {
    /// For a plan; `None` where there is nothing to switch, or no telling how many lanes there are.
    pub(super) fn new(plan: &ProbePlan) -> Option<Self> {
        let any = plan.programs.iter().any(|program| plan.tier(program) == Tier::Waiting);
        let mut waiting = plan.schema.records.iter().filter(|r| r.fields.iter().any(|f| f.name == WAITING));
        let says_lane = |record: &crate::trace::RecordType| {
            record.role == Some(Role::Operator) && record.fields.iter().any(|field| field.name == "lane")
        };
        (any && waiting.all(says_lane)).then_some(Self { state: State::Attached })
    }

    /// Whether nothing will change any more.
    pub(super) fn is_settled(&self) -> bool {
        self.state == State::Kept
    }

    /// One look.
    pub(super) fn look(&mut self, hands: &mut Hands<'_, '_>) {
        let counts = hands.consumer.counts();
        let second = counts.second_lane();
        match (self.state, second) {
            (State::Attached, Some(_)) => self.state = State::Kept,
            (State::Attached, None) => {
                let enough = counts.steps_apart.load(Ordering::Relaxed) >= STEPS && counts.only_lane().is_some();
                if enough && hands.modules.any_waiting() {
                    Self::detach(hands);
                    self.state = State::Detached;
                }
            }
            (State::Detached, Some(since)) => {
                Self::attach(hands, since);
                self.state = State::Kept;
            }
            (State::Detached, None) | (State::Kept, _) => {}
        }
    }

    fn detach(hands: &mut Hands<'_, '_>) {
        say(hands, "waiting: one lane alone computes, so nothing is recorded of it any more", |hands| {
            // Should it be late all the same, some spans after it have a `waiting`, which is right; none before it lacks
            // its own.
            let until = monotonic_ns() + LEAD_NS;
            hands.session.end_waiting(until);
            (until, WaitingNotice { known: false, missed_ns: 0 })
        });
        // A span that ends before the instant has a `waiting`: the probe is there until then.
        std::thread::sleep(2 * Duration::from_nanos(LEAD_NS));
        hands.modules.set_waiting_wanted(false);
        let (_, sites) = hands.modules.detach_waiting(hands.session);
        hands.meter.switched(sites);
    }

    fn attach(hands: &mut Hands<'_, '_>, since: u64) {
        hands.modules.set_waiting_wanted(true);
        let sites = hands.modules.attach_waiting(hands.session);
        hands.meter.switched(sites);
        say(hands, "waiting: recorded again, for a second lane", |hands| {
            let known_since = in_time(|instant| hands.session.begin_waiting(instant));
            (known_since, WaitingNotice { known: true, missed_ns: known_since.saturating_sub(since) })
        });
    }
}

fn say(hands: &Hands<'_, '_>, text: &str, change: impl FnOnce(&Hands<'_, '_>) -> (u64, WaitingNotice)) {
    hands.consumer.notice_of(|| {
        let (time, waiting) = change(hands);
        Notice { time, text: text.to_owned(), waiting: Some(waiting), ..Notice::default() }
    });
}
