//! What a program's records are worth, for a recording with an overhead budget: which stay, and which come and go.

use super::model::{Action, ProbePlan, Program, ProgramKind};
use profinfer_schema::Role;

/// What programs a recording can do without for a while, the dearest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// What describes objects that are made once, long before a step uses them.
    Always,
    /// Steps.
    Step,
    /// Graphs, and what contains the tokens of a step: a few records a step.
    Graph,
    /// Everything else.
    Detail,
    /// Boundaries that record only since when a lane waits for others: of no use where there is one lane alone.
    Waiting,
}

impl Tier {
    /// As the programs name what decides whether it is recorded now: `pf_NAME_on`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Step => "step",
            Self::Graph => "graph",
            Self::Detail | Self::Waiting => "detail",
        }
    }
}

impl ProbePlan {
    /// A program's tier: that of the most needed of its probes.
    pub fn tier(&self, program: &Program) -> Tier {
        let says_tokens = |record: usize| {
            self.schema
                .records
                .get(record)
                .is_some_and(|record| record.fields.iter().any(|field| field.name == "tokens"))
        };
        let of_action = |action: &Action| match action.role {
            _ if action.describes.is_some() => Tier::Always,
            Role::Step | Role::Request => Tier::Step,
            Role::Graph | Role::Batch | Role::Submit | Role::Wait | Role::Device => Tier::Graph,
            Role::Region if says_tokens(action.record) => Tier::Graph,
            _ => Tier::Detail,
        };
        // What ends a span is needed as much as what begins it.
        let all = || self.programs.iter().flat_map(|program| &program.actions);
        let ended = program.ends.iter().flat_map(|probe| all().filter(move |action| action.probe == *probe));
        let tiers = program.actions.iter().chain(ended).map(of_action);
        let only_notes = program.kind == ProgramKind::Entry && program.notes_entry && program.ends.is_empty();
        tiers.min().unwrap_or(if only_notes { Tier::Waiting } else { Tier::Detail })
    }

    /// The tier of a probe, by name: that of the most needed program it is part of.
    pub fn tier_of_probe(&self, probe: &str) -> Tier {
        let programs = self.programs.iter().filter(|program| program.probes.iter().any(|name| name == probe));
        programs.map(|program| self.tier(program)).min().unwrap_or(Tier::Detail)
    }
}
