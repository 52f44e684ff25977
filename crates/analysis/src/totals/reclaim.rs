//! Time that the kernel took memory back, or moved it together, during steps: by phase, operator and step. All times are
//! ns, all threads together.

use crate::ids::{ByKind, KindId, Phase};
use crate::step::{Reclaim, Step};
use profinfer_schema::{ReclaimKind, Role, Schema};
use std::collections::BTreeMap;

/// Steps that are listed: those with most of it.
const LONGEST: usize = 16;

/// Times of reclaim and compaction, added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReclaimTotals {
    /// How many.
    pub count: u64,
    /// All of it.
    pub ns: u64,
    /// Of it: the machine had too little free memory.
    pub machine: u64,
    /// Of it: for the limit of a control group.
    pub group: u64,
    /// Of it: compaction.
    pub compaction: u64,
    /// The longest.
    pub longest: u64,
}

impl ReclaimTotals {
    fn add(&mut self, of: &Reclaim) {
        let ns = of.duration();
        let mut one = Self { count: 1, ns, longest: ns, ..Self::default() };
        match of.kind {
            Some(ReclaimKind::Machine) => one.machine = ns,
            Some(ReclaimKind::Group) => one.group = ns,
            Some(ReclaimKind::Compaction) => one.compaction = ns,
            None => {}
        }
        self.merge(&one);
    }

    /// Adds others.
    pub fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.ns = self.ns.saturating_add(other.ns);
        self.machine = self.machine.saturating_add(other.machine);
        self.group = self.group.saturating_add(other.group);
        self.compaction = self.compaction.saturating_add(other.compaction);
        self.longest = self.longest.max(other.longest);
    }
}

/// A step with some of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReclaimingStep {
    /// Its number.
    pub number: u64,
    /// What it was.
    pub phase: Phase,
    /// ns.
    pub duration: u64,
    /// All of it.
    pub totals: ReclaimTotals,
}

/// All of it during steps that were recorded whole.
#[derive(Debug, Default)]
pub struct Reclaims {
    phases: BTreeMap<Phase, (u64, ReclaimTotals)>,
    operators: ByKind<Phase, ReclaimTotals>,
    outside: BTreeMap<Phase, ReclaimTotals>,
    longest: Vec<ReclaimingStep>,
}

impl Reclaims {
    /// Whether a trace of a schema has it.
    pub fn recorded_by(schema: &Schema) -> bool {
        schema.has_role(Role::Reclaim)
    }

    /// Takes a step.
    pub(crate) fn add(&mut self, step: &Step, phase: Phase) {
        let mut all = ReclaimTotals::default();
        for of in &step.reclaims {
            all.add(of);
            match of.operator.and_then(|operator| step.operators.get(operator as usize)) {
                Some(operator) => self.operators.entry(operator.kind, phase).add(of),
                None => self.outside.entry(phase).or_default().add(of),
            }
        }
        if all.count == 0 {
            return;
        }
        let (steps, totals) = self.phases.entry(phase).or_default();
        *steps += 1;
        totals.merge(&all);
        let place = self.longest.iter().position(|other| other.totals.ns < all.ns).unwrap_or(self.longest.len());
        if phase != Phase::Outside && place < LONGEST {
            let found = ReclaimingStep { number: step.number, phase, duration: step.duration(), totals: all };
            self.longest.insert(place, found);
            self.longest.truncate(LONGEST);
        }
    }

    /// Steps of a phase that had some of it, and all of it.
    pub fn phase(&self, phase: Phase) -> (u64, ReclaimTotals) {
        self.phases.get(&phase).copied().unwrap_or_default()
    }

    /// By operator that the thread was in.
    pub fn operators(&self) -> impl Iterator<Item = (KindId, Phase, &ReclaimTotals)> {
        self.operators.iter()
    }

    /// Outside of operators.
    pub fn outside(&self, phase: Phase) -> ReclaimTotals {
        self.outside.get(&phase).copied().unwrap_or_default()
    }

    /// The steps with most of it, the most first.
    pub fn longest(&self) -> &[ReclaimingStep] {
        &self.longest
    }
}
