//! The values of what the placed programs use, and the names of the constants that records carry. What the target lacks
//! takes away the fields that need it, and nothing else.

use super::absent::{absent_value, is_missing};
use super::{Placer, enumerations_of};
use crate::model::{Program, Provenance, RelocationKind, RelocationValue};
use crate::relocate::{Relocator, as_recorded};
use profinfer_diagnostics::{Code, Diagnostic, Severity};
use profinfer_schema::ValueSource;
use std::collections::{BTreeMap, BTreeSet};

impl Placer<'_> {
    /// Values of what the placed programs use, and names of the enumerations that records carry.
    pub(super) fn values(&mut self) {
        let relocator = self.relocator();
        let placed: Vec<&Program> =
            self.placement.sites.iter().filter_map(|site| self.plan.programs.get(site.program)).collect();
        let of = |indices: fn(&Program) -> &[usize]| -> BTreeSet<usize> {
            placed.iter().flat_map(|program| indices(program)).copied().collect()
        };
        let wanted = of(|program| &program.relocations);
        let optional = &of(|program| &program.optional_relocations) - &wanted;
        let relocation = |index: &usize| self.plan.relocations.get(*index);
        let mut missing = BTreeMap::new();
        for (index, relocation) in wanted.iter().filter_map(|index| Some((*index, relocation(index)?))) {
            if matches!(relocation.what, RelocationKind::Absent { .. }) {
                continue;
            }
            match relocator.value(relocation) {
                Ok(value) => self.placement.values.push(value),
                Err(problem) if is_missing(&relocation.what, &problem) => {
                    let (symbol, value) = (relocation.symbol.clone(), absent_value(&relocation.what));
                    self.placement.values.push(RelocationValue {
                        symbol,
                        value,
                        provenance: Provenance::Absent,
                        detail: String::new(),
                    });
                    missing.insert(index, problem);
                }
                Err(problem) if self.problems.0.contains(&problem) => {}
                Err(problem) => self.problems.push(problem),
            }
        }
        self.absent_fields(&wanted, &missing);
        self.name_missing(&missing);
        for relocation in optional.iter().filter_map(relocation) {
            let value = relocator.value(relocation).unwrap_or_else(|problem| {
                let what = "the objects of each graph are read again, which costs more";
                self.problems.push(Diagnostic { severity: Severity::Note, ..problem }.with_note(what));
                let (symbol, provenance) = (relocation.symbol.clone(), Provenance::Absent);
                RelocationValue { symbol, value: absent_value(&relocation.what), provenance, detail: String::new() }
            });
            self.placement.values.push(value);
        }
        self.placement.chosen = relocator.chosen();
        self.name_sources();
        if !self.placement.sites.is_empty() {
            self.name_constants(&relocator);
        }
        self.placement.chosen_enums = relocator.chosen_enumerations();
    }

    /// By message, the constants of all that is missing of its view: one warning is of all its members.
    fn name_missing(&mut self, missing: &BTreeMap<usize, Diagnostic>) {
        let mut views: BTreeMap<&str, (BTreeSet<&str>, BTreeSet<String>)> = BTreeMap::new();
        for (index, problem) in missing {
            let Some(relocation) = self.plan.relocations.get(*index) else { continue };
            let (RelocationKind::Offset { view, .. }
            | RelocationKind::Size { view }
            | RelocationKind::Shift { view, .. }) = &relocation.what
            else {
                continue;
            };
            let (messages, symbols) = views.entry(view).or_default();
            messages.insert(&problem.message);
            symbols.insert(relocation.symbol.clone());
        }
        for (messages, symbols) in views.into_values() {
            for message in messages {
                self.placement.missing.entry(message.to_owned()).or_default().extend(symbols.iter().cloned());
            }
        }
    }

    /// Where each offset and number is from.
    fn name_sources(&mut self) {
        let mut sources = Vec::new();
        for found in &self.placement.values {
            let relocation = self.plan.relocations.iter().find(|relocation| relocation.symbol == found.symbol);
            let what = match relocation.map(|relocation| &relocation.what) {
                Some(RelocationKind::Offset { view, member }) => format!("{}.{member}", self.own_name(view)),
                Some(RelocationKind::Size { view }) => format!("sizeof {}", self.own_name(view)),
                Some(RelocationKind::Constant { name, .. }) => name.clone(),
                Some(RelocationKind::Strings { .. }) => "strings".to_owned(),
                _ => continue,
            };
            let value = (found.provenance != Provenance::Absent).then_some(found.value);
            let source = ValueSource { what, value, source: described(found.provenance, &found.detail) };
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
        self.placement.sources = sources;
    }

    /// A name of one of several probesets, as that probeset has it.
    fn own_name(&self, name: &str) -> String {
        self.probeset.names.plain(name).to_owned()
    }

    /// Names of the constants that records carry. Without them they are numbers, which is reported.
    fn name_constants(&mut self, relocator: &Relocator<'_>) {
        let is_own = |name: &String| self.engine.is_none() || self.probeset.names.engine(name) == self.engine;
        for name in enumerations_of(self.plan).into_iter().filter(is_own) {
            match relocator.enumeration(&name) {
                Ok((constants, provenance)) => {
                    let (what, detail) = (self.own_name(&name), relocator.detail(&name));
                    let source = ValueSource { what, value: None, source: described(provenance, &detail) };
                    self.placement.sources.push(source);
                    let constants = constants.into_iter().map(|(number, name)| (as_recorded(number), name));
                    self.placement.enums.insert(name, constants.collect());
                }
                Err(problem) if problem.code == Code::LayoutUnknown => self.problems.push(
                    Diagnostic::warning(
                        Code::LayoutUnknown,
                        format!("the constants of enum {} have no names here", self.own_name(&name)),
                    )
                    .hint("they are shown as numbers; write them under `enums:` to name them"),
                ),
                // Where a condition needs one of them, that is an error already.
                Err(problem) if self.problems.0.contains(&problem) => {}
                Err(problem) => {
                    let shown = "they are shown as numbers";
                    self.problems.push(Diagnostic { severity: Severity::Warning, ..problem }.with_note(shown));
                }
            }
        }
    }
}

/// A source in words: `accessor toy_get_name`.
fn described(provenance: Provenance, detail: &str) -> String {
    if detail.is_empty() { provenance.describe().to_owned() } else { format!("{} {detail}", provenance.describe()) }
}
