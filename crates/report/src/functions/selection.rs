//! Which samples are wanted.

use profinfer_analysis::{Catalogue, Phase, Within};

/// Samples of a part of the time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Of this phase only.
    pub phase: Option<Phase>,
    /// `--within`, as it was typed.
    pub within: Option<String>,
}

/// Places that are no operator.
pub(super) const OUTSIDE: [(&str, Within); 3] =
    [("outside operators", Within::Graph), ("outside graphs", Within::Step), ("outside steps", Within::Nothing)];

impl Selection {
    /// Whether samples at a place are wanted.
    pub(super) fn wants(&self, phase: Phase, within: Within, catalogue: &Catalogue) -> bool {
        if self.phase.is_some_and(|wanted| wanted != phase) {
            return false;
        }
        let Some(text) = &self.within else { return true };
        if let Some((_, place)) = OUTSIDE.iter().find(|(name, _)| name == text) {
            return within == *place;
        }
        let Within::Operator(kind) = within else { return false };
        let kind = catalogue.kind(kind);
        let layer = text.strip_prefix("layer ");
        match layer {
            Some(layer) => kind.layer.as_deref() == Some(layer),
            None => [&kind.op, &kind.name, &kind.pattern].into_iter().any(|name| **name == **text),
        }
    }
}

/// What a place is called in the table of places.
pub(super) fn place_name(within: Within, catalogue: &Catalogue, has_operators: bool) -> String {
    match within {
        Within::Operator(kind) => catalogue.kind(kind).op.to_string(),
        Within::LostOperator => "operators that were lost".to_owned(),
        Within::Graph if !has_operators => "in graphs".to_owned(),
        Within::NotRecorded => "operators not recorded".to_owned(),
        other => OUTSIDE.iter().find(|(_, place)| *place == other).map_or("", |(name, _)| name).to_owned(),
    }
}
