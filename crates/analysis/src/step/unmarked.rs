//! Steps that no probe marks, or whose functions were never called: they are made of the events of a trace without steps.

use super::bucket::Bucket;
use super::cycle::{Cut, Stretches};
use super::pending::ClosedStep;
use super::timeline::{LOOSE_EVENTS_WITHOUT_STEPS, Timeline, Visitor};
use crate::raw::{Decoder, Header};
use profinfer_schema::{Role, Schema, Site};
use rustc_hash::FxHashMap;

/// Operators of so long a time show which of them recur with each step: 10 s, in ns.
const LONG_ENOUGH: u64 = 10_000_000_000;
/// No record type: there is no record of the step.
const NO_RECORD: u16 = u16::MAX;

/// Whether probes mark steps: the probeset may have none, or the target none of their functions.
#[derive(Debug)]
pub(super) struct StepProbes {
    in_schema: bool,
    /// Steps, and operators, have a site.
    steps_placed: bool,
    operators_placed: bool,
    /// A step was recorded, of whichever process or thread, also one that has ended since.
    recorded: bool,
}

impl StepProbes {
    pub(super) fn new(schema: &Schema) -> Self {
        Self { in_schema: schema.has_role(Role::Step), steps_placed: false, operators_placed: false, recorded: false }
    }

    pub(super) fn add_sites(&mut self, sites: &[Site], decoder: &Decoder) {
        let has = |role| sites.iter().flat_map(|site| &site.probes).any(|probe| decoder.role(probe) == Some(role));
        self.steps_placed |= has(Role::Step);
        self.operators_placed |= has(Role::Operator);
    }

    /// A target in which operators have sites, and steps have none, is like a probeset without steps.
    pub(super) fn mark_steps(&self) -> bool {
        self.in_schema && (self.steps_placed || !self.operators_placed)
    }

    pub(super) fn step_is_recorded(&mut self) {
        self.recorded = true;
    }
}

impl Timeline {
    /// Gives the steps that recur among events, and removes their events. Those of a step that may go on are waited for,
    /// unless no more come.
    pub(super) fn give_recurring(&mut self, process: usize, loose: &mut Bucket, last: bool, visitor: &mut dyn Visitor) {
        // A program may have a copy of a step's function inlined, and call that one only.
        if self.step_probes.mark_steps() && self.step_probes.recorded || loose.operators.is_empty() {
            return;
        }
        let stretches = Stretches { of: &|start| self.unseen.stretch(start), latest: self.unseen.stretch(u64::MAX) };
        let found = self.processes[process].recurring.cut(&loose.operators, &stretches, last);
        if let Some(open) = found.open {
            loose.sort();
            let held = loose.split_off(open);
            let window = &mut self.processes[process].window;
            // A step that is longer than what can be pending is none.
            match held.len() <= LOOSE_EVENTS_WITHOUT_STEPS / 4 {
                true => window.append(held),
                false => loose.append(held),
            }
        }
        for step in self.unmarked(process, &found.steps, loose) {
            self.findings.recurring += 1;
            self.give(process, step, visitor);
        }
    }

    /// Gives the steps that recur among the events before a time, for who follows a recording that goes on. At first,
    /// what recurs is looked for in a longer time: layers of a step recur sooner than steps.
    pub(super) fn settle_recurring(&mut self, process: usize, by: u64, visitor: &mut dyn Visitor) {
        let of = &mut self.processes[process];
        let operators = &of.window.operators;
        let (Some(first), Some(last)) = (operators.first(), operators.last()) else { return };
        let is_long = last.end.saturating_sub(first.start) >= LONG_ENOUGH;
        if self.step_probes.mark_steps() || !(of.recurring.any() || is_long && of.recurring.is_due(operators.len())) {
            return;
        }
        let mut loose = std::mem::take(&mut of.aside);
        loose.take(&mut of.window, |start, _| start < by);
        self.give_recurring(process, &mut loose, false, visitor);
        match self.processes[process].recurring.any() {
            true => self.give_loose(process, loose, visitor),
            false => self.processes[process].window.append(loose),
        }
    }

    fn unmarked(&mut self, process: usize, cuts: &[Cut], loose: &mut Bucket) -> Vec<ClosedStep> {
        let threads = self.processes[process].recurring.threads();
        let mut steps = Vec::with_capacity(cuts.len());
        let mut outside = Bucket::default();
        loose.sort();
        for cut in cuts.iter().rev() {
            let bucket = match threads.as_slice() {
                // Steps do not overlap: what comes after this one is no other's.
                [_] => {
                    outside.append(loose.split_off(cut.end));
                    loose.split_off(cut.start)
                }
                _ => {
                    let mut bucket = Bucket::default();
                    bucket.take(loose, |start, thread| {
                        (cut.start..cut.end).contains(&start) && (thread == cut.thread || !threads.contains(&thread))
                    });
                    bucket
                }
            };
            steps.push(self.unmarked_step(cut, bucket));
        }
        loose.append(outside);
        steps.reverse();
        let mut ended: FxHashMap<u32, u64> = FxHashMap::default();
        for step in &mut steps {
            self.steps += 1;
            step.number = self.steps;
            step.since = ended.insert(step.thread, step.header.end);
        }
        steps
    }

    fn unmarked_step(&self, cut: &Cut, bucket: Bucket) -> ClosedStep {
        let header = Header {
            record_type: NO_RECORD,
            site: profinfer_schema::NO_SITE,
            cpu: 0,
            missing: 0,
            tid: self.threads.get(cut.thread).tid,
            seq: 0,
            start: cut.start,
            end: cut.end,
        };
        let (record, inner_tokens) = (Box::default(), Vec::new());
        ClosedStep { header, thread: cut.thread, record, number: 0, since: None, inner_tokens, bucket }
    }
}
