//! What the expressions under `analysis` are over: the fields that records have. A value that no record has is absent, and
//! an absent layer or phase is no error of a report: only here can a misspelt name be found.

use super::model::{Analysis, Probe, Probeset};
use super::problems::{Problems, shown};
use crate::path::{BinaryOp, Expr, ExprKind};
use profinfer_diagnostics::{Code, Diagnostic, did_you_mean};
use profinfer_schema::Role;
use std::collections::BTreeSet;

/// What `prefill` has beside a step's fields.
const OF_STEPS: [&str; 2] = ["tokens", "sequences"];
/// What is an object's, as `weights` sees it.
const OF_INPUTS: [&str; 5] = ["name", "op", "dtype", "layer", "shape"];

const ELEMENT_TYPE: &str = "an element type";

/// Warns of names that nothing has, and of what is only there while a probe is hit.
pub(super) fn check(probeset: &Probeset, problems: &mut Problems) {
    let fields_of = |is_meant: &dyn Fn(&Probe) -> bool| -> BTreeSet<&str> {
        let probes = probeset.probes.values().filter(|probe| is_meant(probe));
        probes.flat_map(|probe| probe.fields.keys()).map(String::as_str).collect()
    };
    let of_objects: BTreeSet<&str> =
        probeset.objects.values().flat_map(|object| object.fields.keys()).map(String::as_str).collect();
    let objects = &of_objects | &fields_of(&|probe| probe.describes.is_some());
    let operators =
        &objects | &fields_of(&|probe| matches!(probe.role.value, Role::Operator | Role::Dispatch | Role::Submit));
    let steps = &fields_of(&|probe| probe.role.value == Role::Step) | &BTreeSet::from(OF_STEPS);
    let analysis = &probeset.analysis;
    let each = [
        (&analysis.layer, "an operator", &operators),
        (&analysis.prefill, "a step", &steps),
        (&analysis.experts, "an object", &objects),
    ];
    for (expr, what, fields) in each {
        expr.iter().for_each(|expr| names(expr, what, fields, problems));
    }
    let inputs = BTreeSet::from(OF_INPUTS);
    analysis.weights.iter().for_each(|weights| names(&weights.of, "an input", &inputs, problems));
    analysis.dtypes.values().for_each(|size| names(size, ELEMENT_TYPE, &BTreeSet::new(), problems));
    for expr in all(analysis) {
        moments(expr, problems);
    }
}

/// All expressions.
fn all(analysis: &Analysis) -> impl Iterator<Item = &Expr> {
    let costs = analysis.costs.values().flat_map(|cost| [&cost.flops, &cost.bytes, &cost.experts]);
    let single = [&analysis.layer, &analysis.prefill, &analysis.experts].into_iter().chain(costs).flatten();
    let tables = analysis.dtypes.values().chain(analysis.context.values());
    let conditions = analysis.advice.values().map(|advice| &advice.when);
    let functions = analysis.functions.iter().map(|(_, of)| of);
    single.chain(tables).chain(conditions).chain(functions).chain(analysis.weights.iter().map(|weights| &weights.of))
}

/// Names that are no field. A bare name that a field is compared with may be a constant of the target.
fn names(root: &Expr, what: &str, fields: &BTreeSet<&str>, problems: &mut Problems) {
    let is_field = |expr: &Expr| matches!(&expr.kind, ExprKind::Name(name) if fields.contains(name.as_str()));
    let mut stack = vec![root];
    while let Some(expr) = stack.pop() {
        match &expr.kind {
            ExprKind::Name(name) if !fields.contains(name.as_str()) => {
                let message = format!("{what} has no value `{}`: this is always absent", shown(name));
                let hint =
                    did_you_mean(name, fields.iter().copied()).unwrap_or_else(|| match (fields.is_empty(), what) {
                        (true, ELEMENT_TYPE) => "write a number".to_owned(),
                        (true, _) => format!("{what} has no fields here; record it as a field"),
                        _ => format!("available: {}", fields.iter().copied().collect::<Vec<_>>().join(", ")),
                    });
                problems.push(Diagnostic::warning(Code::PathUnknownName, message).at(&expr.span).hint(hint));
            }
            ExprKind::Binary { op: BinaryOp::Eq | BinaryOp::Ne, left, right } if is_field(left) || is_field(right) => {
                let is_constant = |side: &&Expr| matches!(side.kind, ExprKind::Name(_));
                stack.extend([&**left, &**right].into_iter().filter(|side| !is_constant(side)));
            }
            // Members are those of objects, or of inputs.
            _ => stack.extend(expr.children()),
        }
    }
}

/// What only a probe has while it is hit.
fn moments(root: &Expr, problems: &mut Problems) {
    let mut stack = vec![root];
    while let Some(expr) = stack.pop() {
        let is_of_a_hit = matches!(
            &expr.kind,
            ExprKind::Return
                | ExprKind::Tid
                | ExprKind::Cpu
                | ExprKind::Match(_)
                | ExprKind::Alternative { .. }
                | ExprKind::Contains { .. }
                | ExprKind::Slice { rows: Some(_), .. }
        );
        if is_of_a_hit {
            let message =
                format!("`{}` cannot be used under `analysis`: this is always absent", shown(expr.span.text()));
            let hint = "record it as a field, and use the field";
            problems.push(Diagnostic::warning(Code::TypeMismatch, message).at(&expr.span).hint(hint));
        }
        stack.extend(expr.children());
    }
}
