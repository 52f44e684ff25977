//! Several probesets as one, for one recording of several engines: each name gets an identifier of its own, so that two
//! engines may use equal names and each has its copy of a shared library. The kernel's probes are there once.

use super::model::{Analysis, Part, Probe, Probeset};
use crate::path::{AttachPoint, Expr, ExprKind, Place, Signature, Type};
use indexmap::IndexMap;
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, Spanned};
use profinfer_schema::{EngineId, Names};
use std::cell::RefCell;

/// Elements of a list of rows that fit in one record, however many probesets there are.
const FEWEST: u64 = 64;

/// Combines probesets, each with whether a recording must find its engine. One alone stays as it is.
///
/// # Errors
/// There is none, or one is given twice.
pub fn combine(mut probesets: Vec<(Probeset, bool)>) -> Result<Probeset, Diagnostics> {
    if probesets.len() < 2 {
        let missing = || Diagnostic::error(Code::BadArgument, "no probeset is given").hint("name at least one");
        return probesets.pop().map(|(probeset, _)| probeset).ok_or_else(|| missing().into());
    }
    let mut whole = empty(&probesets);
    let parts = probesets.len() as u64;
    let names = RefCell::default();
    for (engine, (probeset, required)) in (0..=u16::MAX).map(EngineId).zip(probesets) {
        let file = probeset.sources.first().map_or_else(String::new, |source| source.name.clone());
        if whole.parts.iter().any(|part| part.file == file) {
            let problem =
                Diagnostic::error(Code::BadArgument, format!("the probeset `{}` is given twice", probeset.name));
            return Err(problem.hint("name each probeset once").into());
        }
        let key = key(&probeset.name, &whole.parts);
        let (name, of) = (probeset.name.clone(), probeset.engine.value.clone());
        whole.parts.push(Part { key: key.clone(), probeset: name, engine: of, file, required });
        Renamer { key: &key, engine, names: &names, parts }.add(probeset, &mut whole);
    }
    whole.names = names.into_inner();
    Ok(whole)
}

/// Nothing yet, under the names of all.
fn empty(probesets: &[(Probeset, bool)]) -> Probeset {
    let joined = |of: fn(&Probeset) -> &str, between: &str| {
        probesets.iter().map(|(probeset, _)| of(probeset)).collect::<Vec<_>>().join(between)
    };
    let span = probesets[0].0.engine.span.clone();
    Probeset {
        name: joined(|probeset| &probeset.name, "+"),
        engine: Spanned { value: joined(|probeset| &probeset.engine.value, " + "), span },
        summary: String::new(),
        modules: IndexMap::new(),
        types: IndexMap::new(),
        enums: IndexMap::new(),
        objects: IndexMap::new(),
        counters: IndexMap::new(),
        probes: IndexMap::new(),
        // Each engine's analysis is taken when the trace is read.
        analysis: Analysis::default(),
        sources: Vec::new(),
        parts: Vec::new(),
        names: Names::default(),
        tested: Vec::new(),
        gpu_timing: IndexMap::new(),
    }
}

/// An identifier for a probeset that no other has.
fn key(name: &str, parts: &[Part]) -> String {
    let mut key: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    // Traces of the first version are taken apart at two underscores.
    while key.contains("__") {
        key = key.replace("__", "_");
    }
    key = key.trim_matches('_').to_owned();
    if !key.starts_with(|c: char| c.is_ascii_alphabetic()) {
        key.insert(0, 'p');
    }
    let taken = |key: &str| parts.iter().any(|part| part.key == key);
    let numbered = (2..).map(|number| format!("{key}{number}"));
    std::iter::once(key.clone()).chain(numbered).find(|key| !taken(key)).unwrap_or(key)
}

struct Renamer<'a> {
    key: &'a str,
    engine: EngineId,
    names: &'a RefCell<Names>,
    /// The number of probesets: the stack budget of a thread fits the lists of one.
    parts: u64,
}

impl Renamer<'_> {
    fn add(&self, probeset: Probeset, whole: &mut Probeset) {
        for source in probeset.sources {
            // What several include is there once.
            if !whole.sources.contains(&source) {
                whole.sources.push(source);
            }
        }
        for (way, variables) in probeset.gpu_timing {
            let all: &mut Vec<(String, String)> = whole.gpu_timing.entry(way).or_default();
            let new = variables.into_iter().filter(|variable| !all.contains(variable)).collect::<Vec<_>>();
            all.extend(new);
        }
        for (name, module) in probeset.modules {
            whole.modules.insert(self.name(&name), module);
        }
        for (name, constants) in probeset.enums {
            whole.enums.insert(self.name(&name), constants);
        }
        for (name, mut view) in probeset.types {
            self.spanned(&mut view.name);
            for member in view.members.values_mut() {
                self.ty(&mut member.ty.value);
                if let Some((view, _)) = member.from.as_mut().and_then(|from| from.through.as_mut()) {
                    self.text(view);
                }
            }
            view.elements.iter_mut().chain(view.computed.values_mut()).for_each(|expr| self.expr(expr));
            whole.types.insert(self.name(&name), view);
        }
        for (name, mut object) in probeset.objects {
            self.spanned(&mut object.name);
            self.spanned(&mut object.of);
            object.fields.values_mut().for_each(|field| self.expr(&mut field.value));
            whole.objects.insert(self.name(&name), object);
        }
        let mut counters = Vec::new();
        for (name, event) in probeset.counters {
            let same = whole.counters.get(&name).is_none_or(|other| other.value == event.value);
            let key = if same { name.clone() } else { self.name(&name) };
            counters.push((name, key.clone()));
            whole.counters.entry(key).or_insert(event);
        }
        for (name, mut probe) in probeset.probes {
            // The kernel's events are everybody's.
            if probe.role.value.is_of_the_kernel() {
                let is_same = |other: &Probe| other.role.value == probe.role.value && events(other).eq(events(&probe));
                if !whole.probes.values().any(is_same) {
                    let taken = whole.probes.contains_key(&name);
                    whole.probes.insert(if taken { self.name(&name) } else { name }, probe);
                }
                continue;
            }
            for counter in &mut probe.counters {
                if let Some((_, key)) = counters.iter().find(|(name, _)| *name == counter.value) {
                    counter.value.clone_from(key);
                }
            }
            self.probe(&mut probe);
            whole.probes.insert(self.name(&name), probe);
        }
    }

    /// The identifier of a name, also of one that only the target defines.
    fn name(&self, name: &str) -> String {
        self.names.borrow_mut().define(self.engine, self.key, name)
    }

    fn text(&self, name: &mut String) {
        *name = self.name(name);
    }

    fn spanned(&self, name: &mut Spanned<String>) {
        self.text(&mut name.value);
    }

    fn probe(&self, probe: &mut Probe) {
        self.spanned(&mut probe.name);
        probe.at.iter_mut().for_each(|at| self.attach_point(at));
        probe
            .except
            .iter_mut()
            .chain(&mut probe.unless)
            .chain(&mut probe.enclosing)
            .for_each(|other| self.spanned(other));
        probe.fields.values_mut().for_each(|field| self.expr(&mut field.value));
        if let Some(describes) = &mut probe.describes {
            self.spanned(&mut describes.object);
            self.expr(&mut describes.address);
        }
        [&mut probe.when, &mut probe.describe, &mut probe.identity].into_iter().flatten().for_each(|e| self.expr(e));
    }

    fn attach_point(&self, at: &mut AttachPoint) {
        at.until.iter_mut().chain(&mut at.waiting_from).for_each(|probe| self.spanned(probe));
        match &mut at.place {
            Place::Function { module, signature, .. }
            | Place::Virtual { module, signature, .. }
            | Place::Usdt { module, signature, .. } => {
                self.spanned(module);
                self.signature(signature);
            }
            Place::Probe(probe) => self.spanned(probe),
            Place::Tracepoint { .. } | Place::Software { .. } => {}
        }
    }

    fn signature(&self, signature: &mut Signature) {
        signature.params.iter_mut().for_each(|param| self.ty(&mut param.ty.value));
        signature.returns.iter_mut().for_each(|returns| self.ty(&mut returns.value));
    }

    fn ty(&self, ty: &mut Type) {
        ty.rename(&|name| self.text(name));
    }

    fn expr(&self, expr: &mut Expr) {
        match &mut expr.kind {
            ExprKind::Cast { ty, .. } => self.ty(&mut ty.value),
            // What does not fit goes into further records.
            ExprKind::Slice { rows: Some(_), max, .. } => {
                max.iter_mut().for_each(|max| max.value = (max.value / self.parts).max(max.value.min(FEWEST)));
            }
            _ => {}
        }
        expr.children_mut().into_iter().for_each(|child| self.expr(child));
    }
}

/// The kernel's events that a probe is at.
fn events(probe: &Probe) -> impl Iterator<Item = [&str; 2]> {
    probe.at.iter().filter_map(|at| match &at.place {
        Place::Tracepoint { category, name } => Some([category.value.as_str(), name.value.as_str()]),
        Place::Software { event } => Some(["", event.value.as_str()]),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Library, load_text};

    const TEXT: &str = "profinfer: 1
engine: ENGINE
modules: { m: libm.so }
types: { view: { next: view*, op: enum kind, let: { far: (next as view*)->op } } }
objects: { thing: { of: view, fields: { op: op } } }
counters: { cycles: cycles, other: COUNTER }
probes:
  step: { at: 'm:decode(view* v)', role: step, fields: { tokens: 'v->next->op == ADD' }, counters: [cycles, other] }
  operator: { at: 'm:compute(view* v) until [operator, step]', role: operator, fields: { node: v as object thing } }
  experts:
    at: probe operator
    role: experts
    fields: { node: v as object thing, ids: 'v->next as i32[.. 2] rows 3 stride 8 max 256' }
  switch: { at: 'tracepoint sched:sched_switch', role: sched_switch }
";

    fn probeset(name: &str, counter: &str) -> Probeset {
        let text = TEXT.replace("ENGINE", name).replace("COUNTER", counter);
        load_text(&format!("{name}.yaml"), &text, &Library::new(&[])).unwrap().0
    }

    #[test]
    fn two_probesets_keep_their_names_apart() {
        let whole = combine(vec![(probeset("a-1", "faults"), true), (probeset("b", "page-faults"), true)]).unwrap();
        assert_eq!((whole.name.as_str(), whole.engine.value.as_str()), ("a-1+b", "a-1 + b"));
        let probes: Vec<&str> = whole.probes.keys().map(String::as_str).collect();
        let expected = ["a_1__step", "a_1__operator", "a_1__experts", "switch", "b__step", "b__operator", "b__experts"];
        assert_eq!(probes, expected);
        let rows = whole.probes["b__experts"].fields["ids"].value.clone();
        assert!(matches!(rows.kind, ExprKind::Slice { max: Some(Spanned { value: 128, .. }), .. }), "{rows:?}");
        let at = &whole.probes["b__operator"].at[0];
        assert_eq!(at.until.iter().map(|end| end.value.as_str()).collect::<Vec<_>>(), ["b__operator", "b__step"]);
        assert_eq!(whole.types["b__view"].members["next"].ty.value.to_string(), "b__view*");
        let far = &whole.types["b__view"].computed["far"];
        let is_of_b =
            |part: &Expr| matches!(&part.kind, ExprKind::Cast { ty, .. } if ty.value.to_string() == "b__view*");
        assert!(far.any(&is_of_b), "{far:?}");
        assert_eq!(whole.objects["a_1__thing"].of.value, "a_1__view");
        // The same event is counted once; another of the same name by itself.
        let counters: Vec<&str> = whole.counters.keys().map(String::as_str).collect();
        assert_eq!(counters, ["cycles", "other", "b__other"]);
        let of_b: Vec<&str> = whole.probes["b__step"].counters.iter().map(|name| name.value.as_str()).collect();
        assert_eq!(of_b, ["cycles", "b__other"]);
        assert_eq!(whole.names.get("a_1__view"), Some((EngineId(0), "view")));
        assert_eq!(whole.names.get("b__view"), Some((EngineId(1), "view")));
        assert_eq!((whole.names.get("switch"), whole.names.get("cycles")), (None, None));
        assert_eq!(whole.names.get("b__other"), Some((EngineId(1), "other")));
        // Whatever is defined has its engine, and the engine's name for it.
        let defined =
            whole.types.keys().chain(whole.enums.keys()).chain(whole.objects.keys()).chain(whole.modules.keys());
        assert!(defined.clone().all(|identifier| whole.names.engine(identifier).is_some()));
        assert_eq!(whole.sources.len(), 2);
    }

    #[test]
    fn one_probeset_stays_as_it_is_and_none_is_given_twice() {
        let one = combine(vec![(probeset("a", "faults"), true)]).unwrap();
        assert!(one.parts.is_empty() && one.probes.contains_key("operator"));
        let twice = combine(vec![(probeset("a", "faults"), true), (probeset("a", "faults"), true)]);
        assert_eq!(twice.unwrap_err().0[0].code, Code::BadArgument);
        assert!(combine(Vec::new()).is_err());
    }
}
