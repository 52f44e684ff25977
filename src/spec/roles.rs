//! What each role needs and what each reserved field means, as tables.

use super::model::{Object, Probe, Probeset, Role};
use super::problems::Problems;
use super::reader;
use crate::diag::{Code, Diagnostic, Severity};
use crate::path::{AttachPoint, ExprKind, Place, Type};
use std::collections::BTreeSet;

/// The roles: as the language writes them, and what an event of each is.
const ROLES: [(&str, Role, &str); 11] = [
    ("step", Role::Step, "One decode or prefill call."),
    ("graph", Role::Graph, "One computation of a graph."),
    ("operator", Role::Operator, "One operator, or one thread's share of it."),
    ("experts", Role::Experts, "An instant: the experts that an operator used."),
    ("region", Role::Region, "Any other span: a barrier, a copy, a load."),
    ("boundary", Role::Boundary, "Where spans of other probes end or their waiting begins; nothing is recorded."),
    ("sched_switch", Role::SchedSwitch, "A thread left its processor; at `tracepoint sched:sched_switch`."),
    ("sched_wakeup", Role::SchedWakeup, "A thread can run again; at `tracepoint sched:sched_wakeup`."),
    ("fault", Role::Fault, "A thread goes on after a page had to be fetched; at `software major-faults`."),
    ("page_cache", Role::PageCache, "A part of a file is read into the page cache."),
    ("mark", Role::Mark, "An instant."),
];

/// The roles' names, with what an event of each is.
pub(super) fn words() -> Vec<(&'static str, &'static str)> {
    ROLES.iter().map(|(name, _, about)| (*name, *about)).collect()
}

/// The roles' names.
pub(super) fn names() -> [&'static str; ROLES.len()] {
    ROLES.map(|(name, ..)| name)
}

/// The kernel's own counts that a probe can be at, as perf calls them.
pub(super) const SOFTWARE_EVENTS: [&str; 1] = ["major-faults"];

/// The role of a name.
pub(super) fn by_name(name: &str) -> Option<Role> {
    ROLES.iter().find(|(known, ..)| *known == name).map(|(_, role, _)| *role)
}

/// A role's name.
fn name_of(role: Role) -> &'static str {
    ROLES.iter().find(|(_, known, _)| *known == role).map(|(name, ..)| *name).unwrap_or_default()
}

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
        without: "there are no tokens per second, and prefill cannot be told from decode",
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
        without: "no operator could be told from another",
    },
    Use {
        role: Role::Operator,
        fields: &["lane"],
        severity: Severity::Note,
        without: "an operator's threads cannot be put together",
    },
    Use {
        role: Role::Operator,
        fields: &["op"],
        severity: Severity::Note,
        without: "there is no table by operator type",
    },
    Use {
        role: Role::Operator,
        fields: &["name"],
        severity: Severity::Note,
        without: "operators have no names, and no layers if those are read from names",
    },
    Use { role: Role::Operator, fields: &["shape"], severity: Severity::Note, without: "no cost can be worked out" },
    Use { role: Role::Operator, fields: &["dtype"], severity: Severity::Note, without: "bytes cannot be worked out" },
    Use { role: Role::Operator, fields: &["inputs"], severity: Severity::Note, without: "the graph has no edges" },
    Use { role: Role::Experts, fields: &["ids"], severity: Severity::Error, without: "there is nothing to count" },
    Use {
        role: Role::Experts,
        fields: &["node"],
        severity: Severity::Warning,
        without: "experts cannot be joined to their operator",
    },
];

/// The reserved fields that mean something in some roles only. The others (`name`, `backend`, `tokens`) are as good
/// anywhere.
const ONLY_IN: &[(&str, &[Role])] = &[
    ("sequence", &[Role::Step, Role::Graph]),
    ("lane", &[Role::Operator, Role::Experts]),
    ("node", &[Role::Operator, Role::Experts]),
    ("op", &[Role::Operator]),
    ("shape", &[Role::Operator]),
    ("dtype", &[Role::Operator]),
    ("inputs", &[Role::Operator]),
    ("covers", &[Role::Operator]),
    ("ids", &[Role::Experts]),
];

/// Says what a probe's role lacks, or has no use for.
pub(super) fn check(probe: &Probe, probeset: &Probeset, problems: &mut Problems) {
    place(probe, problems);
    let role = probe.role.value;
    if role.is_of_the_kernel() {
        return;
    }
    if role == Role::Boundary {
        boundary(probe, probeset, problems);
        return;
    }
    if let Some(identity) = probe.identity.as_ref().filter(|_| role != Role::Graph) {
        let message = "`identity` is what graphs have in common: it is for role `graph`";
        problems.error_hint(Code::RoleField, &identity.span, message, "remove it, or move it to the graph's probe");
    }
    let known = known_fields(probe, probeset);
    let is_missing = |use_: &&Use| {
        let elsewhere = use_.fields == ["tokens"] && tokens_are_within(probeset);
        use_.role == role && !elsewhere && !use_.fields.iter().any(|field| known.contains(field))
    };
    let missing: Vec<&Use> = USES.iter().filter(is_missing).collect();
    let hint = match role {
        Role::Operator => "add it to `fields`, or to the object that `node` is",
        _ => "add it to `fields`",
    };
    // Where nothing can be made of the probe, the rest is noise; what is only a pity is said in one go.
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
        // What describes an object is said of whatever that is to others.
        let is_shown = probe.describes.is_none() && !roles.contains(&role);
        if let Some(field) = probe.fields.get(*field).filter(|_| is_shown) {
            let names: Vec<&str> = roles.iter().map(|role| name_of(*role)).collect();
            let message =
                format!("`{}` has a meaning in {} only: here it is just shown", field.name.value, reader::list(&names));
            problems.push(Diagnostic::note(Code::RoleField, message).at(&field.name.span));
        }
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
        let message = format!("role `boundary` is not recorded and takes no {what}");
        problems.error_hint(Code::RoleField, span, message, hint);
    }
    let name = &probe.name.value;
    let refers = |at: &AttachPoint| at.until.iter().chain(&at.waiting_from).any(|end| end.value == *name);
    if !probeset.probes.values().flat_map(|probe| &probe.at).any(refers) {
        let message = format!("no span ends at `{name}`, and none waits from it: it has no effect");
        let hint = format!("name it in another probe's `until` or `waiting from`; or remove `{name}`");
        problems.push(Diagnostic::warning(Code::RoleField, message).at(&probe.name.span).hint(hint));
    }
}

/// `probe X has no …`, with what each of the missing fields would give.
fn lacks(probe: &Probe, severity: Severity, missing: &[&Use]) -> Diagnostic {
    let fields: Vec<&str> = missing.iter().flat_map(|use_| use_.fields.iter().copied()).collect();
    let none = if fields.len() == 1 { "no" } else { "none of" };
    let message = format!("probe `{}` has {none} {}", probe.name.value, reader::list(&fields));
    let mut diagnostic = Diagnostic { severity, ..Diagnostic::error(Code::RoleField, message) }.at(&probe.name.span);
    for use_ in missing {
        diagnostic = diagnostic.with_note(format!("without {} {}", reader::list(use_.fields), use_.without));
    }
    diagnostic
}

/// Whether spans inside a step say how many tokens it has.
fn tokens_are_within(probeset: &Probeset) -> bool {
    let inner = |probe: &&Probe| matches!(probe.role.value, Role::Graph | Role::Region);
    probeset.probes.values().filter(inner).any(|probe| probe.fields.contains_key("tokens"))
}

/// The fields of a probe, and those of the object that its `node` is.
fn known_fields<'a>(probe: &'a Probe, probeset: &'a Probeset) -> BTreeSet<&'a str> {
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

/// The one place where a role's events happen, as the language writes it.
fn own_place(role: Role) -> Option<&'static str> {
    match role {
        Role::SchedSwitch => Some("tracepoint sched:sched_switch"),
        Role::SchedWakeup => Some("tracepoint sched:sched_wakeup"),
        Role::Fault => Some("software major-faults"),
        Role::PageCache => Some("tracepoint filemap:mm_filemap_add_to_page_cache"),
        _ => None,
    }
}

/// Whether the role can be where the probe is.
fn place(probe: &Probe, problems: &mut Problems) {
    let role = probe.role.value;
    let wanted = own_place(role);
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
        match (wanted, found) {
            (Some(wanted), found) if found.as_deref() != Some(wanted) => {
                let its = if wanted.starts_with("tracepoint") { "its tracepoint" } else { "its event" };
                let message = format!("role `{}` is not at {its}", name_of(role));
                problems.push(error(message).hint(format!("write `at: {wanted}`")));
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
    if wanted.is_some()
        && let Some(field) = probe.fields.values().next()
    {
        let message = format!("role `{}` has fields of its own and takes no others", name_of(role));
        problems.error_hint(Code::RoleField, &field.name.span, message, "remove `fields`");
    }
}
