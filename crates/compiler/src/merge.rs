//! Several placements as one: those of several engines, or of several builds of one engine.

use super::lessons::is_learnable;
use super::model::{PlacedSite, Placement, ProbePlan, Program, RelocationValue, Unplaced};
use indexmap::IndexMap;
use profinfer_probeset::Probeset;
use profinfer_schema::ModuleInfo;
use std::collections::{BTreeMap, BTreeSet};

/// Adds a placement to others: its files and sites are numbered, and files are named, for all of them.
pub(super) fn add(placement: Placement, whole: &mut Placement) {
    let numbers: Vec<usize> = placement.modules.into_iter().map(|module| number(module, &mut whole.modules)).collect();
    for mut placed in placement.sites {
        let (Ok(id), Some(module)) = (u16::try_from(whole.sites.len()), numbers.get(placed.site.module)) else {
            continue;
        };
        placed.site.id = id;
        placed.site.module = *module;
        placed.cookie = placed.cookie & !0xffff | u64::from(id);
        whole.sites.push(placed);
    }
    whole.values.extend(placement.values);
    whole.enums.extend(placement.enums);
    whole.chosen.extend(placement.chosen);
    whole.chosen_enums.extend(placement.chosen_enums);
    whole.unplaced.extend(placement.unplaced);
    whole.absent.extend(placement.absent);
    whole.sources.extend(placement.sources);
    whole.open_slots.extend(placement.open_slots);
    for (message, symbols) in placement.missing {
        whole.missing.entry(message).or_default().extend(symbols);
    }
}

/// The number of a file among those of all; where two have it, it bears the names of both.
fn number(module: ModuleInfo, all: &mut Vec<ModuleInfo>) -> usize {
    match all.iter().position(|earlier| earlier.path == module.path) {
        Some(earlier) => {
            let names = &all[earlier].name;
            if names.split(", ").all(|name| name != module.name) {
                all[earlier].name = format!("{names}, {}", module.name);
            }
            earlier
        }
        None => {
            all.push(module);
            all.len() - 1
        }
    }
}

/// Constants of enumerations.
pub(super) type Enumerations = IndexMap<String, BTreeMap<i64, String>>;

/// Adds the placement of a further build of an engine, except the names of its constants. What it has otherwise than the
/// others is fixed at its sites. Gives the probes that are left out because there is one value at a time of what they
/// read: it may be learned while they run.
pub(super) fn add_build(
    mut build: Placement,
    whole: &mut Placement,
    plan: &ProbePlan,
    probeset: &Probeset,
) -> BTreeSet<String> {
    let is_there = |site: &PlacedSite| {
        let same = |other: &PlacedSite| {
            (other.program, other.file, other.site.file_offset) == (site.program, site.file, site.site.file_offset)
        };
        whole.sites.iter().any(same)
    };
    build.sites.retain(|site| !is_there(site));
    let differing = differing(std::mem::take(&mut build.values), &mut whole.values);
    let learnable = |symbol: &str| {
        let relocation = plan.relocations.iter().find(|relocation| relocation.symbol == symbol);
        relocation.is_some_and(|relocation| is_learnable(plan, probeset, &relocation.what))
    };
    let (changing, fixed): (BTreeMap<String, u64>, BTreeMap<String, u64>) =
        differing.into_iter().partition(|(symbol, _)| learnable(symbol));
    let mut left_out = BTreeSet::new();
    build.sites.retain_mut(|site| {
        let used = plan.programs.get(site.program).map(|program| symbols(program, plan)).unwrap_or_default();
        let of_site = fixed.iter().filter(|(symbol, _)| used.contains(symbol.as_str()));
        for (symbol, value) in of_site {
            site.values.entry(symbol.clone()).or_insert(*value);
        }
        let is_lost = changing.keys().any(|symbol| used.contains(symbol.as_str()));
        if is_lost {
            left_out.extend(site.site.probes.iter().cloned());
        }
        !is_lost
    });
    let placed = |sites: &[PlacedSite]| -> BTreeSet<String> {
        sites.iter().flat_map(|site| site.site.probes.iter().cloned()).collect()
    };
    let (before, now) = (placed(&whole.sites), placed(&build.sites));
    let missing = |unplaced: &Unplaced, elsewhere: &BTreeSet<String>| !elsewhere.contains(&unplaced.probe);
    whole.unplaced.retain(|unplaced| missing(unplaced, &now));
    let is_new = |unplaced: &Unplaced| !whole.unplaced.iter().any(|earlier| earlier.probe == unplaced.probe);
    build.unplaced.retain(|unplaced| missing(unplaced, &before) && is_new(unplaced));
    // What is absent in one of them is no reason to take the field of the other for absent.
    whole.absent.retain(|field| build.absent.contains(field));
    build.absent.clear();
    build.sources.retain(|source| !whole.sources.contains(source));
    add(build, whole);
    left_out
}

/// The constants that a program uses.
fn symbols<'p>(program: &Program, plan: &'p ProbePlan) -> BTreeSet<&'p str> {
    let all = program.relocations.iter().chain(&program.optional_relocations);
    all.filter_map(|index| Some(plan.relocations.get(*index)?.symbol.as_str())).collect()
}

/// The values of a further build that are not those of the others; those that they lack are added to them.
fn differing(build: Vec<RelocationValue>, whole: &mut Vec<RelocationValue>) -> BTreeMap<String, u64> {
    let mut differing = BTreeMap::new();
    for value in build {
        match whole.iter_mut().find(|other| other.symbol == value.symbol) {
            None => whole.push(value),
            Some(other) => {
                // What is checked while it is recorded, because one build's place for it may be wrong, is checked in both.
                if other.provenance.is_proven() && !value.provenance.is_proven() {
                    other.provenance = value.provenance;
                }
                if other.value != value.value {
                    differing.insert(value.symbol, value.value);
                }
            }
        }
    }
    differing
}

/// The names of the numbers that builds do not disagree on, and the enumerations of which they do.
pub(super) fn agreed(builds: &[Enumerations]) -> (Enumerations, BTreeSet<String>) {
    let (mut agreed, mut differing) = (Enumerations::new(), BTreeSet::new());
    let all = || builds.iter().flatten();
    for (name, constants) in all() {
        let others = || all().filter(|(other, _)| *other == name);
        let is_agreed = |(number, text): &(&i64, &String)| {
            others().all(|(_, constants)| constants.get(*number).is_none_or(|other| other == *text))
        };
        let names: BTreeMap<i64, String> =
            constants.iter().filter(is_agreed).map(|(number, text)| (*number, text.clone())).collect();
        if names.len() < constants.len() {
            differing.insert(name.clone());
        }
        agreed.entry(name.clone()).or_default().extend(names);
    }
    (agreed, differing)
}
