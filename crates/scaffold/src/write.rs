//! The text of the probeset.

use super::types::{any_member, by_value, declared_only, described, integer_member, is_name, number, pointed};
use super::words::{self, CallKind};
use super::{Candidate, Measured, Role};
use indexmap::IndexMap;
use profinfer_binary::{FunctionSignature, Layout, TargetType, TargetTypes};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Reserved words of expressions, and some of C's that C++ lets be names elsewhere.
const NOT_NAMES: &[&str] = &["tid", "cpu", "match", "return", "this", "NULL", "asm", "typeof", "restrict"];

/// Writes a probeset for the candidates, the likeliest first; `notes` become comments.
pub fn write(target: &dyn TargetTypes, engine: &str, candidates: &[Candidate], notes: &[String]) -> String {
    let mut draft = Draft {
        target,
        modules: BTreeMap::new(),
        types: IndexMap::new(),
        objects: IndexMap::new(),
        layouts: BTreeMap::new(),
    };
    draft.module_names(candidates);
    let roles = roles(&mut draft, candidates);
    let probes: Vec<(String, String)> =
        candidates.iter().zip(&roles).map(|(candidate, role)| draft.probe(candidate, *role)).collect();
    draft.text(engine, candidates, probes, notes)
}

struct Draft<'a> {
    target: &'a dyn TargetTypes,
    /// Names of the files that candidates are in.
    modules: BTreeMap<usize, String>,
    /// Members of views.
    types: IndexMap<String, IndexMap<String, String>>,
    /// Fields of objects, by the view.
    objects: IndexMap<String, Vec<(&'static str, String)>>,
    layouts: BTreeMap<(usize, String), Option<Layout>>,
}

/// What each candidate is taken for: one step, one graph, one operator; the rest are spans.
fn roles(draft: &mut Draft<'_>, candidates: &[Candidate]) -> Vec<Option<Role>> {
    if candidates.iter().any(|candidate| candidate.trial.is_some()) {
        return candidates.iter().map(|candidate| candidate.role).collect();
    }
    let mut roles = vec![None; candidates.len()];
    let of_kind = |kind: CallKind| {
        let found = candidates.iter().enumerate().filter(move |(_, candidate)| candidate.kind() == Some(kind));
        found.min_by_key(|(place, candidate)| (!words::is_plain(&candidate.place), *place)).map(|(place, _)| place)
    };
    for (kind, role) in [(CallKind::Step, Role::Step), (CallKind::Graph, Role::Graph)] {
        if let Some(place) = of_kind(kind) {
            roles[place] = Some(role);
        }
    }
    // An operator must be told from another: it is called with something that has a name or a kind.
    let operators = candidates.iter().enumerate().filter(|(place, _)| roles[*place].is_none());
    let mut operators = operators
        .filter(|(_, candidate)| candidate.kind() == Some(CallKind::Operator))
        .filter(|(_, candidate)| candidate.overrides.is_some() || draft.node_of(candidate).is_some())
        .map(|(place, _)| place);
    if let Some(place) = operators.next() {
        roles[place] = Some(Role::Operator);
    }
    roles
}

impl Draft<'_> {
    fn layout(&mut self, file: usize, name: &str) -> Option<Layout> {
        let target = self.target;
        self.layouts.entry((file, name.to_owned())).or_insert_with(|| target.layout(file, name)).clone()
    }

    /// The argument that is an object: its place, and its type.
    fn node_of(&mut self, candidate: &Candidate) -> Option<(usize, String)> {
        let signature = candidate.signature.as_ref()?;
        for (place, (_, ty)) in signature.parameters.iter().enumerate() {
            if let Some(name) = pointed(ty)
                && let Some(layout) = self.layout(candidate.file, name)
                && described(name, &layout).iter().any(|meant| matches!(meant.field, "op" | "name"))
            {
                return Some((place, name.to_owned()));
            }
        }
        None
    }

    fn module_names(&mut self, candidates: &[Candidate]) {
        for candidate in candidates {
            if self.modules.contains_key(&candidate.file) {
                continue;
            }
            let file = self.target.files().get(candidate.file).map_or("", |file| file.name.as_str());
            let stem = file.strip_prefix("lib").unwrap_or(file);
            let stem = stem.split('.').next().unwrap_or_default();
            let stem: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
            let mut name = if is_name(&stem) { stem } else { format!("module_{stem}") };
            while self.modules.values().any(|taken| *taken == name) {
                name.push('_');
            }
            self.modules.insert(candidate.file, name);
        }
    }

    /// A probe: its name, and its text.
    fn probe(&mut self, candidate: &Candidate, role: Option<Role>) -> (String, String) {
        let name = probe_name(&candidate.place);
        let name = name.trim_end_matches("<*>");
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let name = name.trim_end_matches('_').to_owned();
        let name = if is_name(&name) { name } else { format!("probe_{name}") };
        let mut fields: Vec<(String, String)> = Vec::new();
        let node = (role == Some(Role::Operator)).then(|| self.node_of(candidate)).flatten();
        let mut signature = self.signature(candidate, role, node.as_ref(), &mut fields);
        if candidate.overrides.is_some() {
            "(this)".clone_into(&mut signature);
            let field = if role == Some(Role::Operator) { "op" } else { "class" };
            fields.push((field.to_owned(), "match[1]".to_owned()));
            if let Some(base) = candidate.base().filter(|_| role == Some(Role::Operator)) {
                self.types.entry(base.to_owned()).or_default();
                self.objects.entry(base.to_owned()).or_default();
                fields.push(("node".to_owned(), format!("this as object {}", object_name(base))));
            }
        } else if !candidate.family.is_empty() {
            let field = if role == Some(Role::Operator) { "op" } else { "class" };
            fields.push((field.to_owned(), "match[1]".to_owned()));
        } else if role == Some(Role::Operator) && node.is_none() {
            // An operator must be told from another.
            fields.push(("op".to_owned(), "match[0]".to_owned()));
        }
        let module = self.modules.get(&candidate.file).cloned().unwrap_or_default();
        let (word, about) = match role {
            Some(Role::Step) => ("step", "one call per token or batch?"),
            Some(Role::Graph) => ("graph", "one computation of a graph?"),
            Some(Role::Operator) => ("operator", "one operator, or one thread's share of it?"),
            None => ("region", "any span; is it a step, a graph or an operator?"),
        };
        let mut text = String::new();
        if let Some(trial) = &candidate.trial {
            let _ = writeln!(text, "    # {}", measured(trial));
        }
        let calls = candidate.trial.as_ref().map(|of| format!(" Called {} times in the trial.", of.calls));
        let _ = writeln!(text, "    # {about}{}", calls.unwrap_or_default());
        if let Some((derived, functions)) = candidate.overrides {
            let _ = writeln!(
                text,
                "    # {derived} classes derive from it, with {functions} functions in this slot. A destructor has slots, too."
            );
        }
        if !candidate.family.is_empty() {
            let _ = writeln!(text, "    # {} functions.", candidate.family.len());
        }
        if let Some(guess) = candidate.guess {
            let _ = writeln!(text, "    # Arguments {guess}.");
        }
        let _ = write!(text, "    at: {}{signature}\n    role: {word}\n", candidate.attach_point(&module));
        if role.is_none() {
            text.push_str("    optional: true\n");
        }
        if !fields.is_empty() {
            text.push_str("    fields:\n");
            for (field, value) in &fields {
                let _ = writeln!(text, "      {field}: {value}");
            }
        }
        (name, text)
    }

    /// The arguments that can be written, and the members read of them.
    fn signature(
        &mut self,
        candidate: &Candidate,
        role: Option<Role>,
        node: Option<&(usize, String)>,
        fields: &mut Vec<(String, String)>,
    ) -> String {
        let Some(signature) = &candidate.signature else { return String::new() };
        let mut written: Vec<String> = Vec::new();
        let mut names: Vec<String> = Vec::new();
        for (place, (own, ty)) in signature.parameters.iter().enumerate() {
            let name = argument_name(own, place, &names);
            let is_node = node.is_some_and(|(at, _)| *at == place);
            let Some(ty) = self.argument(candidate.file, &name, ty, role, is_node, fields) else {
                written.push("…".to_owned());
                break;
            };
            written.push(format!("{ty} {name}"));
            names.push(name);
        }
        let returns = self.returns(candidate.file, signature, role, fields);
        format!("({}){returns}", written.join(", "))
    }

    /// An argument's type; `None` where it, and so what comes after it, cannot be placed.
    fn argument(
        &mut self,
        file: usize,
        name: &str,
        ty: &TargetType,
        role: Option<Role>,
        is_node: bool,
        fields: &mut Vec<(String, String)>,
    ) -> Option<String> {
        let has = |fields: &[(String, String)], field: &str| fields.iter().any(|(name, _)| name == field);
        let wanted = match role {
            Some(Role::Step) => Some(("tokens", words::TOKENS)),
            Some(Role::Operator) => Some(("lane", words::LANE)),
            _ => None,
        };
        let wanted = wanted.filter(|(field, _)| !has(fields, field));
        if let Some(written) = number(ty) {
            if let Some((field, of)) = wanted
                && matches!(ty, TargetType::Int { .. })
                && words::place(name, of).is_some()
            {
                fields.push((field.to_owned(), name.to_owned()));
            }
            return Some(written);
        }
        if let Some(view) = by_value(ty) {
            let layout = self.layout(file, view)?;
            let found = wanted.and_then(|(field, of)| Some((field, integer_member(&layout, of)?)));
            let (member, ty) = match found {
                Some((field, (member, ty))) => {
                    fields.push((field.to_owned(), format!("{name}.{member}")));
                    (member, ty)
                }
                None => any_member(&layout)?,
            };
            self.types.entry(view.to_owned()).or_default().insert(member, ty);
            return Some(view.to_owned());
        }
        if !matches!(ty, TargetType::Pointer(_)) {
            return None;
        }
        if let Some(view) = declared_only(ty) {
            if view.rsplit("::").next().is_some_and(|last| NOT_NAMES.contains(&last)) {
                return Some("void*".to_owned());
            }
            self.types.entry(view.to_owned()).or_default();
            return Some(format!("{view}*"));
        }
        let Some(view) = pointed(ty).map(str::to_owned) else { return Some("void*".to_owned()) };
        let Some(layout) = self.layout(file, &view) else { return Some("void*".to_owned()) };
        if is_node {
            let meant = described(&view, &layout);
            let members = self.types.entry(view.clone()).or_default();
            members.extend(meant.iter().map(|meant| (meant.member.clone(), meant.ty.clone())));
            self.objects.insert(view.clone(), meant.into_iter().map(|meant| (meant.field, meant.member)).collect());
            fields.push(("node".to_owned(), format!("{name} as object {}", object_name(&view))));
            return Some(format!("{view}*"));
        }
        if let Some((field, of)) = wanted
            && let Some((member, ty)) = integer_member(&layout, of)
        {
            self.types.entry(view.clone()).or_default().insert(member.clone(), ty);
            fields.push((field.to_owned(), format!("{name}->{member}")));
            return Some(format!("{view}*"));
        }
        Some("void*".to_owned())
    }

    fn returns(
        &mut self,
        file: usize,
        signature: &FunctionSignature,
        role: Option<Role>,
        fields: &mut Vec<(String, String)>,
    ) -> String {
        match &signature.returns {
            // A class that is returned in memory shifts the arguments.
            Some(ty) if by_value(ty).is_some() => {
                let view = by_value(ty).unwrap_or_default().to_owned();
                let member = self.layout(file, &view).as_ref().and_then(any_member);
                let Some((member, of)) = member else { return String::new() };
                self.types.entry(view.clone()).or_default().insert(member, of);
                format!(" -> {view}")
            }
            Some(ty @ TargetType::Int { .. }) if role == Some(Role::Step) => match number(ty) {
                Some(written) => {
                    fields.push(("status".to_owned(), "return".to_owned()));
                    format!(" -> {written}")
                }
                None => String::new(),
            },
            _ => String::new(),
        }
    }

    fn text(&self, engine: &str, candidates: &[Candidate], probes: Vec<(String, String)>, notes: &[String]) -> String {
        let mut text = "# A draft from names and debug information. Check the role of each probe.\n\
             # `profinfer try FILE -- COMMAND` shows what they see, `profinfer check FILE --target …` where they are.\n"
            .to_owned();
        for note in notes {
            let _ = writeln!(text, "# {}", note.replace('\n', " "));
        }
        let _ = write!(text, "profinfer: 1\nengine: {}\nsummary: A first draft\n\nmodules:\n", quoted(engine));
        for (file, name) in &self.modules {
            let of_file = self.target.files().get(*file).map_or("", |file| file.name.as_str());
            let _ = writeln!(text, "  {name}: {}", quoted(&glob(of_file)));
        }
        if !self.types.is_empty() {
            text.push_str(
                "\n# The members to read; add `@ OFFSET` after a type for builds without debug information.\ntypes:\n",
            );
        }
        for (view, members) in &self.types {
            let _ = writeln!(text, "  {view}:{}", if members.is_empty() { " {}" } else { "" });
            for (member, ty) in members {
                let _ = writeln!(text, "    {member}: {ty}");
            }
        }
        if !self.objects.is_empty() {
            text.push_str("\nobjects:\n");
        }
        for (view, fields) in &self.objects {
            let none = if fields.is_empty() { " {}" } else { "" };
            let _ = writeln!(text, "  {}:\n    of: {view}\n    fields:{none}", object_name(view));
            for (field, member) in fields {
                let _ = writeln!(text, "      {field}: {member}");
            }
        }
        let has = |role: Role| candidates.iter().any(|candidate| candidate.role == Some(role));
        if has(Role::Operator) && !has(Role::Step) {
            text.push_str(
                "\n# No function contains the operators: a report finds steps by the order in which operators recur.",
            );
        }
        text.push_str("\nprobes:\n");
        let mut taken: Vec<String> = Vec::new();
        for (name, probe) in probes {
            let mut name = name;
            while taken.contains(&name) {
                name.push('_');
            }
            let _ = write!(text, "  {name}:\n{probe}");
            taken.push(name);
        }
        if candidates.iter().all(|candidate| candidate.signature.is_none()) {
            text.push_str("\n# No debug information: write the arguments from the engine's headers.\n");
        } else if self.types.values().any(IndexMap::is_empty) {
            text.push_str(
                "\n# If a type has no members, debug information has none: write those that are read by the engine's headers,\n\
                 # with their offsets (`@ N`), or with `within: N` and `expect`, for `profinfer learn` to find them.\n",
            );
        }
        text
    }
}

/// What a probe is called by: the function's name, or what stands before an operator of C++.
fn probe_name(place: &str) -> &str {
    let mut parts = place.rsplit("::");
    let last = parts.next().unwrap_or_default();
    let is_symbol = last
        .strip_prefix("operator")
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_punctuation() && c != '_'));
    parts.find(|part| *part != "*").filter(|_| is_symbol).unwrap_or(last)
}

/// How long calls took, and on how many objects.
fn measured(trial: &Measured) -> String {
    let objects = match trial.objects {
        0 => String::new(),
        1 => ", on 1 object".to_owned(),
        n => format!(", on {n} objects"),
    };
    format!("{} in all, {} without what it calls{objects}.", time(trial.time), time(trial.own))
}

/// Three digits with a unit.
fn time(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

fn object_name(view: &str) -> String {
    let last = view.rsplit("::").next().unwrap_or(view);
    if NOT_NAMES.contains(&last) { format!("{last}_") } else { last.to_owned() }
}

/// An argument's name, if it is valid in the language.
fn argument_name(own: &str, place: usize, taken: &[String]) -> String {
    let name = match own {
        "this" => "self",
        own => own,
    };
    let fits = is_name(name) && !NOT_NAMES.contains(&name) && !taken.iter().any(|taken| taken == name);
    if fits { name.to_owned() } else { format!("argument_{}", place + 1) }
}

/// A glob that takes the same library's other versions, too.
fn glob(file: &str) -> String {
    let ends = |(at, _): &(usize, &str)| matches!(file.as_bytes().get(at + ".so".len()), None | Some(b'.'));
    match file.match_indices(".so").find(ends) {
        Some((at, _)) => format!("{}.so*", &file[..at]),
        None => file.to_owned(),
    }
}

/// A text in single quotes, as YAML has them.
fn quoted(text: &str) -> String {
    let shown: String = text.chars().filter(|c| !c.is_control()).collect();
    format!("'{}'", shown.replace('\'', "''"))
}
