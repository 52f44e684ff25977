//! The boundaries that only record since when a lane waits for others: where there is one lane alone, nobody waits, and
//! their probes, which are hit more often than operators', cost for nothing. They are detached once that is established, and
//! come back when a second lane shows: then for good, so that no target has them come and go all the time.

use super::clock::{LEAD_NS, in_time, monotonic_ns};
use super::switch_context::SwitchContext;
use profinfer_compiler::{ProbePlan, Tier, WAITING};
use profinfer_schema::Role;
use profinfer_schema::{Notice, WaitingNotice};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// So many steps in which one lane alone computed are enough.
const STEPS: u64 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Attached,
    Detached,
    /// There are several lanes.
    Permanent,
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
        let says_lane = |record: &profinfer_schema::RecordType| {
            record.role == Some(Role::Operator) && record.fields.iter().any(|field| field.name == "lane")
        };
        (any && waiting.all(says_lane)).then_some(Self { state: State::Attached })
    }

    /// Whether nothing will change any more.
    pub(super) fn is_settled(&self) -> bool {
        self.state == State::Permanent
    }

    /// Does the next step, if it is due.
    pub(super) fn poll(&mut self, context: &mut SwitchContext<'_, '_>) {
        let counts = context.consumer.counts();
        let second = counts.second_lane();
        match (self.state, second) {
            (State::Attached, Some(_)) => self.state = State::Permanent,
            (State::Attached, None) => {
                let enough = counts.steps_apart.load(Ordering::Relaxed) >= STEPS && counts.only_lane().is_some();
                if enough && context.modules.any_waiting() {
                    Self::detach(context);
                    self.state = State::Detached;
                }
            }
            (State::Detached, Some(since)) => {
                Self::attach(context, since);
                self.state = State::Permanent;
            }
            (State::Detached, None) | (State::Permanent, _) => {}
        }
    }

    fn detach(context: &mut SwitchContext<'_, '_>) {
        record_change(
            context,
            "waiting: only one lane computes; waiting is not recorded until another does",
            |context| {
                // Should it be late all the same, some spans after it have a `waiting`, which is right; no span before
                // it lacks one.
                let until = monotonic_ns() + LEAD_NS;
                context.session.end_waiting(until);
                (until, WaitingNotice { known: false, missed_ns: 0 })
            },
        );
        // A span that ends before the instant has a `waiting`: the probe is there until then.
        std::thread::sleep(2 * Duration::from_nanos(LEAD_NS));
        context.modules.set_waiting_wanted(false);
        let (_, sites) = context.modules.detach_waiting(context.session);
        context.meter.switched(sites);
    }

    fn attach(context: &mut SwitchContext<'_, '_>, since: u64) {
        context.modules.set_waiting_wanted(true);
        let sites = context.modules.attach_waiting(context.session);
        context.meter.switched(sites);
        record_change(context, "waiting: a second lane computes; waiting is recorded again", |context| {
            let since_when = in_time(|instant| context.session.begin_waiting(instant));
            (since_when, WaitingNotice { known: true, missed_ns: since_when.saturating_sub(since) })
        });
    }
}

fn record_change(
    context: &SwitchContext<'_, '_>,
    text: &str,
    change: impl FnOnce(&SwitchContext<'_, '_>) -> (u64, WaitingNotice),
) {
    context.consumer.notice_of(|| {
        let (time, waiting) = change(context);
        Notice { time, text: text.to_owned(), waiting: Some(waiting), ..Notice::default() }
    });
}
