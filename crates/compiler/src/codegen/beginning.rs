//! When the spans of a program begin: where it ends, so that what it reads is no part of them.

use crate::{Action, Program, Shape};

/// When the spans of a program begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beginning {
    /// With the program: instants of the same hit are within them.
    Early,
    /// Where the program ends, so that it is no part of the span.
    Late,
    /// There too, and several at the same time.
    Together,
}

impl Beginning {
    pub(super) fn of(program: &Program) -> Self {
        let is_span = |a: &&Action| matches!(a.shape, Shape::Call { .. } | Shape::Until { .. });
        match program.actions.iter().filter(is_span).count() {
            spans if spans < program.actions.len() => Self::Early,
            0 | 1 => Self::Late,
            _ => Self::Together,
        }
    }

    /// The statement at the end of what a span's entry does.
    pub(super) fn line(self, probe: &str) -> String {
        match self {
            Self::Early => "record->header.start = call->now;".to_owned(),
            Self::Late => "PF_BEGINS();".to_owned(),
            Self::Together => format!("{probe}_begins = &record->header;"),
        }
    }

    /// The probes whose spans begin together, if there are several.
    pub(super) fn together(self, program: &Program) -> Vec<String> {
        if self != Self::Together {
            return Vec::new();
        }
        program.actions.iter().map(|action| action.probe.clone()).collect()
    }
}
