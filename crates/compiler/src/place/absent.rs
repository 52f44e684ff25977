//! What the target lacks takes away the fields that need it, and nothing else: such fields are absent in every record. A
//! probe whose condition cannot be evaluated is left out.

use super::Placer;
use crate::constants::collect;
use crate::model::{Action, NO_RECORD, Program, Provenance, RelocationKind, RelocationValue, Unplaced};
use indexmap::IndexMap;
use profinfer_diagnostics::{Code, Diagnostic, Severity};
use profinfer_probeset::path::{Checked, ClassPart, Type};
use profinfer_schema::BUILTIN;
use profinfer_schema::bpf::ABSENT_VALUE;
use std::collections::{BTreeMap, BTreeSet};

/// A size by which every element but the first lies at no address.
const NO_SIZE: u64 = 1 << 48;
/// Fields that a message names.
const SHOWN: usize = 4;

/// Whether the recording can do without a value: the target has nothing for it. (A member of another type than the
/// probeset expects is an error: the engine has changed.)
pub(super) fn is_missing(what: &RelocationKind, problem: &Diagnostic) -> bool {
    match (what, problem.code) {
        (
            RelocationKind::Argument { .. } | RelocationKind::BlockStart { .. } | RelocationKind::BlockLength { .. },
            _,
        ) => false,
        (_, Code::LayoutUnknown | Code::LayoutNotChosen) => true,
        (RelocationKind::Constant { .. }, Code::TargetMemberMissing) => true,
        _ => false,
    }
}

/// The value of a constant that the target lacks: what would be read by it cannot be.
pub(super) fn absent_value(what: &RelocationKind) -> u64 {
    match what {
        RelocationKind::Size { .. } | RelocationKind::Class { part: ClassPart::Size, .. } => NO_SIZE,
        RelocationKind::Shift { .. } => 0,
        _ => ABSENT_VALUE,
    }
}

/// Whether a value stands for one that the target lacks.
pub(crate) fn is_absent_value(what: &RelocationKind, value: u64) -> bool {
    let has_place = matches!(what, RelocationKind::Argument { .. } | RelocationKind::Shift { .. });
    !has_place && value == absent_value(what)
}

/// The view that a value is of.
fn view_of(what: &RelocationKind) -> Option<&str> {
    match what {
        RelocationKind::Offset { view, .. } | RelocationKind::Size { view } | RelocationKind::Shift { view, .. } => {
            Some(view)
        }
        _ => None,
    }
}

/// What a missing value is of: a view, an enumeration, the strings.
fn subject(what: &RelocationKind) -> String {
    if let Some(view) = view_of(what) {
        return view.to_owned();
    }
    match what {
        RelocationKind::Constant { enumeration, .. } => enumeration.clone(),
        RelocationKind::Class { of, .. } => of.to_string(),
        _ => "strings".to_owned(),
    }
}

/// Whether a program's function is called with a view, or with its address.
fn is_argument(program: &Program, view: &str) -> bool {
    let is_view = |ty: &Type| match ty {
        Type::View(name) => name == view,
        Type::Pointer(of) | Type::Reference(of) => matches!(&**of, Type::View(name) if name == view),
        _ => false,
    };
    program.place.signature().is_some_and(|signature| signature.params.iter().any(|param| is_view(&param.ty.value)))
}

impl Placer<'_> {
    /// A probe that may be without a site is left out, too, where the target's types have no member that it reads: an
    /// older engine is not refused for what newer ones have. So it is where none of the layouts of an argument is the
    /// target's; what lies further away is absent by itself. Its further alternatives, which may read other types, are
    /// tried then: whether there is any. (A member of another type is still an error.)
    pub(super) fn leave_out_what_lacks_a_member(&mut self, roots: &IndexMap<&str, Vec<usize>>) -> bool {
        let relocator = self.relocator();
        let is_optional = |probe: &String| self.probeset.probes.get(probe).is_some_and(|probe| probe.optional);
        let mut lacking = BTreeMap::new();
        for index in self.placement.sites.iter().map(|site| site.program).collect::<BTreeSet<usize>>() {
            let Some(program) = self.plan.programs.get(index) else { continue };
            let mut relocations = program.relocations.iter().filter_map(|index| self.plan.relocations.get(*index));
            let found = relocations.find_map(|relocation| {
                let problem = relocator.value(relocation).err()?;
                let decides = match problem.code {
                    Code::TargetMemberMissing => true,
                    Code::LayoutNotChosen => view_of(&relocation.what).is_some_and(|view| is_argument(program, view)),
                    _ => false,
                };
                decides.then_some(problem)
            });
            if let Some(problem) = found.filter(|_| program.probes.iter().all(is_optional)) {
                lacking.insert(index, problem);
            }
        }
        self.placement.sites.retain(|site| !lacking.contains_key(&site.program));
        let mut tried = false;
        for (index, problem) in lacking {
            let probe = self.plan.programs[index].probes.first().cloned().unwrap_or_default();
            let further = roots.get(probe.as_str()).and_then(|all| all.split(|of| *of == index).nth(1));
            if let Some(further) = further.filter(|further| !further.is_empty()) {
                self.probe(&probe, further);
                tried = true;
            } else {
                self.placement.unplaced.push(Unplaced { probe, required: false, problem });
            }
        }
        tried
    }

    /// Fills in which fields are absent, leaves out probes that cannot be decided, and reports it: a warning for each view
    /// and enumeration, the rest as notes.
    pub(super) fn absent_fields(&mut self, wanted: &BTreeSet<usize>, missing: &BTreeMap<usize, Diagnostic>) {
        let mut masks: BTreeMap<usize, u64> = BTreeMap::new();
        let mut lost: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
        let mut off: BTreeSet<String> = BTreeSet::new();
        let placed: BTreeSet<usize> = self.placement.sites.iter().map(|site| site.program).collect();
        let plan = self.plan;
        for (index, program) in placed.iter().filter_map(|index| Some((*index, plan.programs.get(*index)?))) {
            for action in program.actions.iter().filter(|action| action.record >= BUILTIN) {
                let record = &plan.schema.records[action.record];
                let mask = masks.entry(action.record).or_default();
                for needed in self.missing_of(action.when.iter(), Some((index, program)), missing) {
                    *mask |= NO_RECORD;
                    lost.entry(needed).or_default().insert(format!("probe `{}`", action.probe));
                    off.insert(action.probe.clone());
                }
                for field in &action.fields {
                    for needed in self.missing_of(std::iter::once(&field.value), Some((index, program)), missing) {
                        *mask |= 1 << field.index;
                        let name = format!("{}.{}", action.probe, record.fields[field.index].name);
                        lost.entry(needed).or_default().insert(name);
                    }
                }
            }
        }
        let objects =
            plan.objects.iter().filter(|object| object.relocations.iter().any(|index| wanted.contains(index)));
        for object in objects {
            let record = &plan.schema.records[object.record];
            for field in &object.fields {
                for needed in self.missing_of(std::iter::once(&field.value), None, missing) {
                    *masks.entry(object.record).or_default() |= 1 << field.index;
                    let name = format!("{}.{}", object.name, record.fields[field.index].name);
                    lost.entry(needed).or_default().insert(name);
                }
            }
        }
        for relocation in wanted.iter().filter_map(|index| plan.relocations.get(*index)) {
            if let RelocationKind::Absent { record } = relocation.what {
                let value = masks.get(&record).copied().unwrap_or_default();
                let (symbol, provenance) = (relocation.symbol.clone(), Provenance::Abi);
                self.placement.values.push(RelocationValue { symbol, value, provenance, detail: String::new() });
            }
        }
        for (record, mask) in &masks {
            let fields = plan.schema.records[*record].fields.len();
            self.placement
                .absent
                .extend((0..fields).filter(|field| mask >> field & 1 == 1).map(|field| (*record, field)));
        }
        self.leave_out_undecided(&off, missing, &lost);
        self.report_missing(missing, &lost, &off);
    }

    /// The missing values that some expressions need.
    fn missing_of<'c>(
        &self,
        expressions: impl Iterator<Item = &'c Checked>,
        program: Option<(usize, &Program)>,
        missing: &BTreeMap<usize, Diagnostic>,
    ) -> Vec<usize> {
        let mut kinds = Vec::new();
        let module = program.and_then(|(_, program)| program.module());
        for expression in expressions {
            collect(expression, program.map(|(index, _)| index), module, &mut kinds);
        }
        let of = |index: &&usize| {
            self.plan.relocations.get(**index).is_some_and(|found| kinds.iter().any(|(kind, _)| *kind == found.what))
        };
        missing.keys().filter(of).copied().collect()
    }

    /// Takes sites away that serve only probes whose condition cannot be evaluated.
    fn leave_out_undecided(
        &mut self,
        off: &BTreeSet<String>,
        missing: &BTreeMap<usize, Diagnostic>,
        lost: &BTreeMap<usize, BTreeSet<String>>,
    ) {
        let is_off = |action: &Action| off.contains(&action.probe);
        let plan = self.plan;
        self.placement.sites.retain(|site| {
            plan.programs.get(site.program).is_none_or(|program| {
                program.actions.is_empty()
                    || !program.actions.iter().all(is_off)
                    || !program.ends.is_empty()
                    || program.notes_entry
            })
        });
        for site in &mut self.placement.sites {
            site.site.probes.retain(|probe| !off.contains(probe));
        }
        for probe in off {
            let name = format!("probe `{probe}`");
            let why = lost.iter().find(|(_, names)| names.contains(&name)).and_then(|(index, _)| missing.get(index));
            let Some(problem) = why.cloned() else { continue };
            let problem = Diagnostic { severity: Severity::Warning, ..problem };
            self.placement.unplaced.push(Unplaced { probe: probe.clone(), required: false, problem });
        }
    }

    fn report_missing(
        &mut self,
        missing: &BTreeMap<usize, Diagnostic>,
        lost: &BTreeMap<usize, BTreeSet<String>>,
        off: &BTreeSet<String>,
    ) {
        let mut subjects: BTreeMap<String, (usize, BTreeSet<String>)> = BTreeMap::new();
        for (index, names) in lost {
            let Some(relocation) = self.plan.relocations.get(*index) else { continue };
            let (_, all) = subjects.entry(subject(&relocation.what)).or_insert_with(|| (*index, BTreeSet::new()));
            all.extend(names.iter().cloned());
        }
        for (index, problem) in missing {
            let what = self.plan.relocations.get(*index).map(|relocation| subject(&relocation.what));
            let of = what.and_then(|what| subjects.get(&what));
            let is_first = of.is_some_and(|(first, _)| first == index);
            let mut problem = Diagnostic { severity: Severity::Note, ..problem.clone() };
            if let Some((_, names)) = of.filter(|_| is_first) {
                // What is lost is a probe that is listed with the reason: once is enough.
                let is_probe_only =
                    names.iter().all(|name| off.iter().any(|probe| *name == format!("probe `{probe}`")));
                problem.severity = if is_probe_only { Severity::Note } else { Severity::Warning };
                let shown: Vec<&str> = names.iter().map(String::as_str).take(SHOWN).collect();
                let more = names.len().saturating_sub(SHOWN);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                problem.notes.push(format!("{}{more} left out", shown.join(", ")));
            }
            // Members of one view may be missing for one reason.
            if !self.problems.0.iter().any(|other| other.message == problem.message) {
                self.problems.push(problem);
            }
        }
    }
}
