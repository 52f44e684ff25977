//! Checks of a probeset as a whole: that it has probes, that their spans end, that none is at itself,
//! and that each has what its role needs.

use super::language::{FILE, Key};
use super::merge::Sections;
use super::model::{Probe, Probeset};
use super::problems::Problems;
use super::{analysis_names, roles};
use crate::path::{AttachPoint, Budget, ExprKind, Place, check_elements, check_within};
use profinfer_diagnostics::{Code, Diagnostic, Span};
use profinfer_schema::Role;

/// Checks what could be read of a probeset.
pub(super) fn check(probeset: &Probeset, sections: &Sections, problems: &mut Problems) {
    if sections.get("probes").is_none_or(|probes| probes.entries.is_empty()) {
        let hint = FILE.get("probes").map(Key::hint).unwrap_or_default();
        problems.error_hint(Code::MissingKey, sections.start(), "the probeset has no probes", hint);
    }
    elements(probeset, problems);
    computed(probeset, problems);
    for probe in probeset.probes.values() {
        for at in &probe.at {
            span_end(at, probe, probeset, problems);
        }
        circle(probe, probeset, problems);
        roles::check(probe, probeset, problems);
    }
    analysis_names::check(probeset, problems);
}

/// What views say their elements are: a slice over their members.
fn elements(probeset: &Probeset, problems: &mut Problems) {
    for (name, view) in &probeset.types {
        let Some(elements) = &view.elements else { continue };
        let ExprKind::Slice { base, from: None, to: Some(to), rows: None, max: None, until_null: false } =
            &elements.kind
        else {
            let message = format!("the elements of {name} are not a slice of this form");
            let problem = Diagnostic::error(Code::TypeMismatch, message).at(&elements.span);
            problems
                .push(problem.hint("write `data[..count]`: a pointer or array and a number, over the view's members"));
            continue;
        };
        if let Err(problem) = check_elements(base, to, &probeset.scope_of(name)) {
            problems.push(problem);
        }
    }
}

/// The expressions that views have names for.
fn computed(probeset: &Probeset, problems: &mut Problems) {
    let (budget, views) = (Budget::default(), probeset.types.iter());
    for (view, (name, expr)) in views.flat_map(|(view, of)| of.computed.iter().map(move |named| (view, named))) {
        let found = check_within(expr, &probeset.scope_of(view), &budget).err();
        for problem in found.into_iter().flat_map(|found| found.0) {
            problems.push(problem.with_note(format!("in `{name}` of {view}")));
        }
    }
}

/// `until` and `waiting from`.
fn span_end(at: &AttachPoint, probe: &Probe, probeset: &Probeset, problems: &mut Problems) {
    let bad = |span: &Span, message: &str| Diagnostic::error(Code::BadSpanEnd, message).at(span);
    for end in at.until.iter().chain(&at.waiting_from) {
        let kind = |at: &AttachPoint| match at.place {
            Place::Tracepoint { .. } => Some("a tracepoint"),
            Place::Software { .. } => Some("at a software event"),
            _ => None,
        };
        if let Some(kind) = probeset.probes.get(&end.value).and_then(|end| end.at.iter().find_map(kind)) {
            let message = format!("`{}` is {kind}: a span ends at the entry of a function", end.value);
            problems.push(bad(&end.span, &message).hint("name a probe of a function"));
        }
    }
    no_return(at, probe, problems);
    if let Some(barrier) = &at.waiting_from {
        if at.until.is_empty() {
            let message = "`waiting from` needs `until`";
            problems.push(bad(&barrier.span, message).hint("write `until PROBE waiting from PROBE`"));
        } else if barrier.value == probe.name.value {
            let message = format!("`{}` cannot wait from itself", probe.name.value);
            problems.push(bad(&barrier.span, &message).hint("name the probe at which the waiting begins"));
        }
    }
    let Some(end) = at.until.first() else { return };
    let (message, hint) = match &at.place {
        Place::Probe(other) => (
            format!("`probe {}` uses the span of that probe and cannot have `until`", other.value),
            format!("write the `until` at `{}`", other.value),
        ),
        Place::Tracepoint { .. } => {
            ("a tracepoint has no duration and cannot have `until`".to_owned(), "remove the `until`".to_owned())
        }
        Place::Software { .. } => {
            ("a software event has no duration and cannot have `until`".to_owned(), "remove the `until`".to_owned())
        }
        _ if matches!(
            probe.role.value,
            Role::Mark | Role::Experts | Role::Batch | Role::Request | Role::Device | Role::Boundary
        ) =>
        {
            (
                format!("`{}` has no duration and cannot have `until`", probe.name.value),
                "remove the `until`, or use `role: region`".to_owned(),
            )
        }
        _ => return,
    };
    problems.push(bad(&end.span, &message).hint(hint));
}

/// A span at a place that is no function's beginning: it has no return to end at.
fn no_return(at: &AttachPoint, probe: &Probe, problems: &mut Problems) {
    let is_span = matches!(
        probe.role.value,
        Role::Step
            | Role::Graph
            | Role::Operator
            | Role::Share
            | Role::Region
            | Role::Dispatch
            | Role::Submit
            | Role::Wait
            | Role::Copy
    );
    if is_span && at.until.is_empty() && matches!(at.place, Place::Usdt { .. }) {
        let message = "a static probe has no return that ends its span";
        let hint = "add `until PROBE`, or use `role: mark`";
        problems.push(Diagnostic::error(Code::BadSpanEnd, message).at(&at.span).hint(hint));
    }
}

/// `probe X` that comes round to itself, or is one alternative of several.
fn circle(probe: &Probe, probeset: &Probeset, problems: &mut Problems) {
    let Some((span, _)) = shared(probe) else { return };
    if probe.at.len() > 1 {
        let message = "`probe X` cannot be one of several alternatives";
        let hint = "write the alternatives at the other probe; this one uses its sites";
        problems.error_hint(Code::BadSpanEnd, span, message, hint);
        return;
    }
    let mut at = probe;
    for _ in 0..=probeset.probes.len() {
        match shared(at).and_then(|(_, name)| probeset.probes.get(name)) {
            Some(next) => at = next,
            None => return,
        }
        if at.name.value == probe.name.value {
            let message = format!("probe `{}` refers to itself", probe.name.value);
            let hint = "attach one probe of the cycle to a function";
            problems.error_hint(Code::BadSpanEnd, span, message, hint);
            return;
        }
    }
}

/// The probe whose site a probe shares.
fn shared(probe: &Probe) -> Option<(&Span, &str)> {
    probe.at.iter().find_map(|at| match &at.place {
        Place::Probe(name) => Some((&at.span, name.value.as_str())),
        _ => None,
    })
}
