//! What each role needs and what each reserved field means, as tables.

use super::model::{Object, Probe, Probeset};
use super::problems::{Problems, list};
use super::vocabulary::name_of;
use crate::path::{AttachPoint, ExprKind, Place, Type};
use profinfer_diagnostics::{Code, Diagnostic, Severity};
use profinfer_schema::{JOB_TRACEPOINTS, ReclaimKind, Role};
use std::collections::BTreeSet;

/// A field that a role should have: any of `fields` will do.
struct Use {
    role: Role,
    fields: &'static [&'static str],
    /// How bad it is to be without.
    severity: Severity,
    /// What is lost without.
    without: &'static str,
}

const USES: &[Use] = &[
    Use {
        role: Role::Step,
        fields: &["tokens"],
        severity: Severity::Warning,
        without: "tokens per second are not available, and each step is a run, neither prefill nor decode",
    },
    Use {
        role: Role::Graph,
        fields: &["backend"],
        severity: Severity::Note,
        without: "graphs are not split by backend",
    },
    Use {
        role: Role::Operator,
        fields: &["node", "op", "name"],
        severity: Severity::Error,
        without: "operators cannot be distinguished",
    },
    Use {
        role: Role::Operator,
        fields: &["lane"],
        severity: Severity::Note,
        without: "threads of one operator cannot be combined",
    },
    Use {
        role: Role::Operator,
        fields: &["op"],
        severity: Severity::Note,
        without: "the table by operator type is not available",
    },
    Use {
        role: Role::Operator,
        fields: &["name"],
        severity: Severity::Note,
        without: "operators have no names, and no layers if layers come from names",
    },
    Use { role: Role::Operator, fields: &["shape"], severity: Severity::Note, without: "costs are not available" },
    Use { role: Role::Operator, fields: &["dtype"], severity: Severity::Note, without: "bytes are not available" },
    Use { role: Role::Operator, fields: &["inputs"], severity: Severity::Note, without: "the graph has no edges" },
    Use { role: Role::Experts, fields: &["ids"], severity: Severity::Error, without: "experts cannot be counted" },
    Use {
        role: Role::Batch,
        fields: &["sequences", "positions", "outputs"],
        severity: Severity::Error,
        without: "requests cannot be distinguished",
    },
    Use {
        role: Role::Request,
        fields: &["request", "sequence", "instance"],
        severity: Severity::Error,
        without: "requests cannot be distinguished",
    },
    Use {
        role: Role::Dispatch,
        fields: &["node", "op", "name"],
        severity: Severity::Error,
        without: "operators cannot be distinguished",
    },
    Use {
        role: Role::Submit,
        fields: &["queue"],
        severity: Severity::Warning,
        without: "queues are not distinguished",
    },
    Use {
        role: Role::Capture,
        fields: &["queue", "captured"],
        severity: Severity::Error,
        without: "it tells nothing of a capture",
    },
    Use { role: Role::Copy, fields: &["bytes", "source"], severity: Severity::Warning, without: "copies have no size" },
    Use {
        role: Role::Device,
        fields: &["timestamps", "name", "period", "device_type"],
        severity: Severity::Error,
        without: "it tells nothing of a device",
    },
    Use {
        role: Role::Experts,
        fields: &["node"],
        severity: Severity::Warning,
        without: "experts cannot be joined to their operator",
    },
];

/// What an operator lacks that lists its inputs in its own record.
const WITHOUT_WRITES: Use =
    Use { role: Role::Operator, fields: &["writes"], severity: Severity::Note, without: "the graph has no edges" };

/// The reserved fields that mean something in some roles only. The others (`name`, `backend`, `tokens`) are as good
/// anywhere.
const ONLY_IN: &[(&str, &[Role])] = &[
    ("sequence", &[Role::Step, Role::Graph, Role::Request]),
    ("sequences", &[Role::Batch]),
    ("positions", &[Role::Batch]),
    ("outputs", &[Role::Batch]),
    ("request", &[Role::Request]),
    ("lane", &[Role::Operator, Role::Share, Role::Experts]),
    ("node", &[Role::Operator, Role::Dispatch, Role::Submit, Role::Experts, Role::Copy]),
    ("source", &[Role::Copy]),
    ("op", &[Role::Operator, Role::Dispatch, Role::Submit]),
    ("shape", &[Role::Operator, Role::Dispatch]),
    ("dtype", &[Role::Operator, Role::Dispatch]),
    ("parameters", &[Role::Operator, Role::Dispatch]),
    ("inputs", &[Role::Operator, Role::Dispatch]),
    ("reads", &[Role::Operator]),
    ("writes", &[Role::Operator]),
    ("covers", &[Role::Operator]),
    ("ids", &[Role::Experts]),
    ("graph_index", &[Role::Dispatch]),
    ("graph_nodes", &[Role::Dispatch]),
    ("previous", &[Role::Dispatch]),
    ("graph_last", &[Role::Dispatch]),
    ("graph_members", &[Role::Dispatch]),
    ("graph_others", &[Role::Dispatch]),
    ("encoded", &[Role::Dispatch]),
    ("queue", &[Role::Submit, Role::Wait, Role::Capture]),
    ("destroyed", &[Role::Wait]),
    ("captured", &[Role::Submit, Role::Capture]),
    ("made_from", &[Role::Capture]),
    ("fence", &[Role::Submit, Role::Wait]),
    ("after_fence", &[Role::Submit]),
    ("direction", &[Role::Copy]),
    ("timestamps", &[Role::Device]),
    ("device_type", &[Role::Device]),
];

/// Says what a probe's role lacks, or has no use for.
pub(super) fn check(probe: &Probe, probeset: &Probeset, problems: &mut Problems) {
    place(probe, problems);
    let role = probe.role.value;
    if role.is_of_the_kernel() {
        without_effect(probe, problems);
        return;
    }
    if role == Role::Boundary {
        boundary(probe, probeset, problems);
        return;
    }
    if let Some(identity) = probe.identity.as_ref().filter(|_| role != Role::Graph) {
        let message = "`identity` is only for role `graph`";
        problems.error_hint(Code::RoleField, &identity.span, message, "remove it, or move it to the graph's probe");
    }
    let names = field_names(probe, probeset);
    let is_missing = |use_: &&Use| {
        let elsewhere = use_.fields == ["tokens"] && tokens_are_within(probeset);
        use_.role == role && !elsewhere && !use_.fields.iter().any(|field| names.contains(field))
    };
    let lists_inputs = role == Role::Operator && probe.fields.contains_key("inputs");
    let also = lists_inputs.then_some(&WITHOUT_WRITES);
    let missing: Vec<&Use> = USES.iter().chain(also).filter(is_missing).collect();
    let hint = match role {
        Role::Operator => "add it to `fields`, or to the object of `node`",
        _ => "add it to `fields`",
    };
    // Where nothing can be made of the probe, the rest is noise; lesser ones are reported together.
    if let Some(fatal) = missing.iter().find(|use_| use_.severity == Severity::Error) {
        problems.push(lacks(probe, fatal.severity, &[fatal]).hint(hint));
        return;
    }
    let (notes, warnings): (Vec<&Use>, Vec<&Use>) = missing.iter().partition(|use_| use_.severity == Severity::Note);
    for use_ in warnings {
        problems.push(lacks(probe, use_.severity, &[use_]).hint(hint));
    }
    if !notes.is_empty() {
        problems.push(lacks(probe, Severity::Note, &notes).hint(hint));
    }
    for (field, roles) in ONLY_IN {
        // Fields that describe an object belong to the roles that use it.
        let is_shown = probe.describes.is_none() && !roles.contains(&role);
        if let Some(field) = probe.fields.get(*field).filter(|_| is_shown) {
            let names: Vec<&str> = roles.iter().map(|role| name_of(*role)).collect();
            let message =
                format!("`{}` has a meaning only in {}; here it is only shown", field.name.value, list(&names));
            problems.push(Diagnostic::note(Code::RoleField, message).at(&field.name.span));
        }
    }
}

/// Events of the kernel are recorded all, as they are.
fn without_effect(probe: &Probe, problems: &mut Problems) {
    let of_expressions = [
        (probe.when.as_ref(), "when"),
        (probe.describe.as_ref(), "describe"),
        (probe.describes.as_ref().map(|describes| &describes.address), "describes"),
        (probe.identity.as_ref(), "identity"),
    ];
    let of_names = [
        (probe.counters.first(), "counters"),
        (probe.except.first(), "except"),
        (probe.unless.first(), "unless"),
        (probe.enclosing.as_ref(), "enclosing"),
    ];
    let expressions = of_expressions.into_iter().filter_map(|(expr, key)| Some((&expr?.span, key)));
    let names = of_names.into_iter().filter_map(|(name, key)| Some((&name?.span, key)));
    for (span, key) in expressions.chain(names) {
        let message = format!("`{key}` has no effect in role `{}`", name_of(probe.role.value));
        problems
            .push(Diagnostic::warning(Code::RoleField, message).at(span).hint("remove it: all events are recorded"));
    }
}

/// A boundary is noted, not recorded: it has nothing of a record, and something must end or begin at it.
fn boundary(probe: &Probe, probeset: &Probeset, problems: &mut Problems) {
    let hint = "remove it, or use `role: region` to record each call";
    let field = probe.fields.values().next().map(|field| (&field.name.span, "fields"));
    let when = probe.when.as_ref().map(|when| (&when.span, "`when`"));
    let describe = probe.describe.as_ref().map(|describe| (&describe.span, "`describe`"));
    let identity = probe.identity.as_ref().map(|identity| (&identity.span, "`identity`"));
    let counters = probe.counters.first().map(|counter| (&counter.span, "counters"));
    let describes = probe.describes.as_ref().map(|describes| (&describes.object.span, "`describes`"));
    for (span, what) in [field, when, describe, describes, identity, counters].into_iter().flatten() {
        let message = format!("role `boundary` leaves no record and cannot have {what}");
        problems.error_hint(Code::RoleField, span, message, hint);
    }
    let name = &probe.name.value;
    let refers = |at: &AttachPoint| at.until.iter().chain(&at.waiting_from).any(|end| end.value == *name);
    let leaves_out = |probe: &Probe| probe.except.iter().any(|except| except.value == *name);
    let probes = || probeset.probes.values();
    if !probes().flat_map(|probe| &probe.at).any(refers) && !probes().any(leaves_out) {
        let message = format!("`{name}` has no effect: no span ends at it or waits from it");
        let hint = "name it in another probe's `until`, `waiting from` or `except`, or remove it";
        problems.push(Diagnostic::warning(Code::RoleField, message).at(&probe.name.span).hint(hint));
    }
}

/// `probe X has no …`, with what each of the missing fields would give.
fn lacks(probe: &Probe, severity: Severity, missing: &[&Use]) -> Diagnostic {
    let fields: Vec<&str> = missing.iter().flat_map(|use_| use_.fields.iter().copied()).collect();
    let none = if fields.len() == 1 { "no" } else { "none of" };
    let message = format!("probe `{}` has {none} {}", probe.name.value, list(&fields));
    let mut diagnostic = Diagnostic { severity, ..Diagnostic::error(Code::RoleField, message) }.at(&probe.name.span);
    for use_ in missing {
        diagnostic = diagnostic.with_note(format!("without {}, {}", list(use_.fields), use_.without));
    }
    diagnostic
}

/// Whether spans inside a step say how many tokens it has.
fn tokens_are_within(probeset: &Probeset) -> bool {
    let inner = |probe: &&Probe| matches!(probe.role.value, Role::Graph | Role::Region);
    probeset.probes.values().filter(inner).any(|probe| probe.fields.contains_key("tokens"))
}

/// The fields of a probe, and those of the object that its `node` is.
fn field_names<'a>(probe: &'a Probe, probeset: &'a Probeset) -> BTreeSet<&'a str> {
    let object: Option<&Object> = probe.fields.get("node").and_then(|node| match &node.value.kind {
        ExprKind::Cast { ty, .. } => match &ty.value {
            Type::Object(name) => probeset.objects.get(name),
            _ => None,
        },
        _ => None,
    });
    let described = object.into_iter().flat_map(|object| object.fields.keys());
    let describes = |probe: &&Probe| {
        let of = probe.describes.as_ref().map(|describes| &describes.object.value);
        of.is_some() && of == object.map(|object| &object.name.value)
    };
    let others = probeset.probes.values().filter(describes).flat_map(|probe| probe.fields.keys());
    probe.fields.keys().chain(described).chain(others).map(String::as_str).collect()
}

/// The only places where a role's events happen, as the language writes them; none where they may be anywhere.
fn fixed_places(role: Role) -> Vec<String> {
    let one = |place: &str| vec![place.to_owned()];
    match role {
        Role::SchedSwitch => one("tracepoint sched:sched_switch"),
        Role::SchedWakeup => one("tracepoint sched:sched_wakeup"),
        Role::Fault => one("software major-faults"),
        Role::PageCache => one("tracepoint filemap:mm_filemap_add_to_page_cache"),
        Role::Reclaim => {
            let tracepoints = ReclaimKind::ALL.map(ReclaimKind::tracepoint);
            tracepoints.map(|(category, name)| format!("tracepoint {category}:{name}")).into()
        }
        Role::Job => JOB_TRACEPOINTS.iter().map(|of| format!("tracepoint {}", of.full_name())).collect(),
        _ => Vec::new(),
    }
}

/// Whether the role can be where the probe is.
fn place(probe: &Probe, problems: &mut Problems) {
    let role = probe.role.value;
    let wanted = fixed_places(role);
    for at in &probe.at {
        let (kind, found) = match &at.place {
            Place::Tracepoint { category, name } => {
                ("a tracepoint", Some(format!("tracepoint {}:{}", category.value, name.value)))
            }
            Place::Software { event } => ("a software event", Some(format!("software {}", event.value))),
            Place::Probe(other) if role == Role::Boundary => {
                let message = format!("role `boundary` cannot be at `probe {}`", other.value);
                let hint = format!("name `{}` itself in `until` or `waiting from`", other.value);
                problems.push(Diagnostic::error(Code::RolePlace, message).at(&at.span).hint(hint));
                continue;
            }
            Place::Probe(_) => continue,
            _ => ("", None),
        };
        let error = |message: String| Diagnostic::error(Code::RolePlace, message).at(&at.span);
        match (wanted.first(), found) {
            (Some(first), found) if found.as_ref().is_none_or(|found| !wanted.contains(found)) => {
                let its = match (wanted.len(), first.starts_with("tracepoint")) {
                    (1, true) => "its tracepoint",
                    (1, false) => "its event",
                    _ => "one of its tracepoints",
                };
                let message = format!("role `{}` needs {its}", name_of(role));
                problems.push(error(message).hint(format!("write `at: {}`", wanted.join("` or `"))));
            }
            (None, Some(found)) if role != Role::Mark || found.starts_with("software") => {
                let message = format!("role `{}` cannot be at {kind}", name_of(role));
                let hint = match role {
                    Role::Boundary => "attach the probe to a function",
                    _ if found.starts_with("software") => "give the probe `role: fault`",
                    _ => "give the probe `role: mark`, or attach it to a function",
                };
                problems.push(error(message).hint(hint));
            }
            _ => {}
        }
    }
    if !wanted.is_empty()
        && let Some(field) = probe.fields.values().next()
    {
        let message = format!("role `{}` has fixed fields and cannot have others", name_of(role));
        problems.error_hint(Code::RoleField, &field.name.span, message, "remove `fields`");
    }
}
