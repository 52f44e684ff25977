//! Which fields of records are checked by what a probeset expects of the members that they are read from.

use super::model::{ProbePlan, RelocationKind};
use profinfer_probeset::path::{Checked, Memory, Node, Term};
use profinfer_probeset::{Expected, Probeset};

/// What must be true of a field, because it must be of its member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The record type.
    pub record: usize,
    /// The field.
    pub field: usize,
    /// `view.member`.
    pub member: String,
    /// The constant with the member's offset, and those of the members on the way to it.
    pub symbols: Vec<String>,
    /// The conditions.
    pub expected: Vec<Expected>,
}

/// The guards of a plan.
pub fn guards(plan: &ProbePlan, probeset: &Probeset) -> Vec<Guard> {
    let actions = plan.programs.iter().flat_map(|program| &program.actions);
    let of_actions = actions.flat_map(|action| action.fields.iter().map(move |field| (action.record, field)));
    let of_objects =
        plan.objects.iter().flat_map(|object| object.fields.iter().map(move |field| (object.record, field)));
    let mut guards = Vec::new();
    for (record, field) in of_actions.chain(of_objects) {
        let Some((view, member)) = member_of(&field.value) else { continue };
        let expected = probeset.types.get(view).and_then(|view| view.expect.get(member));
        let Some(expected) = expected.filter(|expected| !expected.is_empty()) else { continue };
        let mut symbols = Vec::new();
        field.value.visit(&mut |part| {
            let Some((memory, _)) = part.place() else { return };
            for term in &memory.terms {
                let Term::Member { view, member } = term else { continue };
                let kind = RelocationKind::Offset { view: view.clone(), member: member.clone() };
                symbols.extend(plan.symbol(&kind).map(str::to_owned));
            }
        });
        symbols.sort_unstable();
        symbols.dedup();
        let expected = expected.iter().map(|expected| expected.value).collect();
        let guard = Guard { record, field: field.index, member: format!("{view}.{member}"), symbols, expected };
        if !guards.contains(&guard) {
            guards.push(guard);
        }
    }
    guards
}

/// The member that an expression's value is, as it is.
fn member_of(value: &Checked) -> Option<(&str, &str)> {
    let memory: &Memory = match &value.node {
        Node::Memory(memory) => memory,
        Node::Slice { start, part: None, .. } => start,
        _ => return None,
    };
    memory.terms.iter().rev().find_map(|term| match term {
        Term::Member { view, member } => Some((view.as_str(), member.as_str())),
        Term::Element { .. } => None,
    })
}
