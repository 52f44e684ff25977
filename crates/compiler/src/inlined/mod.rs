//! Sites in copies of a function that the compiler put into others: an instruction that each run of the copy passes
//! exactly once, at which debug information has the place of every argument that the program reads.

mod flow;
mod placing;

use super::abi::ArgumentPlace;
use super::site::{self, Code, CostTable};
use flow::{Flow, Why};
use profinfer_binary::{Arch, InlinedCopy, InlinedParameter, Location, TargetBytes};
use std::ops::Range;

pub(super) use placing::{Copies, PlacedCopy, wanted};

/// Instructions from a copy's entry that are considered.
const MAX_START: usize = 24;

/// An argument that a program reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Its position.
    pub(super) argument: usize,
    /// Its name in the probeset.
    pub(super) name: String,
    /// The C variable of its place.
    pub(super) symbol: String,
    /// It is a struct, passed by value.
    pub(super) is_struct: bool,
}

/// A site in a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CopySite {
    /// Bytes from the start of the file.
    pub(super) file_offset: u64,
    /// The same for the instruction by which the copy is entered: this one, or a little before.
    pub(super) entry: u64,
    /// The instruction's text.
    pub(super) instruction: String,
    /// Expected nanoseconds a hit.
    pub(super) cost_ns: Option<u32>,
    /// Why it is no cheaper one.
    pub(super) reason: String,
    /// Where each wanted argument is, by C variable.
    pub(super) places: Vec<(String, u64)>,
}

/// Chooses the site of a copy; else returns why it has none, in words that follow the copy's name.
pub(super) fn choose(
    arch: Arch,
    target: &(impl TargetBytes + ?Sized),
    file: usize,
    copy: &InlinedCopy,
    wanted: &[Wanted],
    costs: &CostTable,
) -> Result<CopySite, String> {
    let flow = Flow::read(arch, target, file, &copy.within_ranges).map_err(|why| why.text().to_owned())?;
    let entry = entry(&flow, copy).map_err(|why| why.text().to_owned())?;
    let line = flow.straight_line(entry, MAX_START);
    let mut best: Option<CopySite> = None;
    for instruction in &line {
        let Some(places) = places(arch, copy, wanted, instruction.start) else { continue };
        let (text, Some(cost)) = described(arch, target, file, instruction, costs) else { continue };
        if best.as_ref().is_none_or(|best| best.cost_ns.is_none_or(|cheapest| cost < cheapest)) {
            let reason = match cost <= costs.cheapest() {
                true => site::CHEAPEST.to_owned(),
                false => "nothing cheaper where the debug information has the places of its arguments".to_owned(),
            };
            let (file_offset, cost_ns) = (instruction.start, Some(cost));
            best = Some(CopySite { file_offset, entry, instruction: text, cost_ns, reason, places });
        }
    }
    best.ok_or_else(|| uncovered(arch, copy, wanted, &line))
}

/// Where each run of the copy comes by once: where the debug information has its entry, or, where the compiler
/// has moved something of it ahead of that, at the start of another of its pieces.
fn entry(flow: &Flow, copy: &InlinedCopy) -> Result<u64, Why> {
    let once = |entry: u64| flow.passed_once(&copy.ranges, entry, &copy.statements);
    let first = once(copy.entry);
    let others = || copy.ranges.iter().map(|range| range.start).filter(|start| *start != copy.entry);
    first.or_else(|why| others().find_map(|start| once(start).ok()).ok_or(why))
}

/// Where all wanted arguments are before an instruction.
pub(super) fn places(arch: Arch, copy: &InlinedCopy, wanted: &[Wanted], at: u64) -> Option<Vec<(String, u64)>> {
    let place = |wanted: &Wanted| {
        let place = place(arch, copy.parameters.get(wanted.argument)?, at, wanted.is_struct)?;
        Some((wanted.symbol.clone(), place.0))
    };
    wanted.iter().map(place).collect()
}

fn place(arch: Arch, parameter: &InlinedParameter, at: u64, is_struct: bool) -> Option<ArgumentPlace> {
    let here = |(range, location): &(Range<u64>, Location)| {
        if range.contains(&at) { ArgumentPlace::inlined(arch, *location, is_struct) } else { None }
    };
    parameter.locations.iter().find_map(here)
}

/// Why no instruction will do: the argument that has a place at the fewest.
fn uncovered(arch: Arch, copy: &InlinedCopy, wanted: &[Wanted], line: &[Range<u64>]) -> String {
    let count = |wanted: &&Wanted| {
        let parameter = copy.parameters.get(wanted.argument);
        let has_place = |at: u64| parameter.is_some_and(|p| place(arch, p, at, wanted.is_struct).is_some());
        line.iter().filter(|instruction| has_place(instruction.start)).count()
    };
    let Some(worst) = wanted.iter().min_by_key(count) else { return Why::Undecoded.text().to_owned() };
    let name = &worst.name;
    match copy.parameters.get(worst.argument) {
        None => format!("it has no parameter `{name}`"),
        Some(parameter) if parameter.locations.is_empty() => {
            format!("the debug information does not describe where `{name}` is in it")
        }
        Some(_) if count(&worst) > 0 => {
            format!(
                "the debug information does not describe where `{name}` and the others are at one of its first instructions"
            )
        }
        Some(_) => {
            format!(
                "the debug information does not describe where `{name}` is at any of its first {} instructions",
                line.len()
            )
        }
    }
}

/// An instruction's text, and what a hit costs there; no cost where the kernel takes no probe.
fn described(
    arch: Arch,
    target: &(impl TargetBytes + ?Sized),
    file: usize,
    instruction: &Range<u64>,
    costs: &CostTable,
) -> (String, Option<u32>) {
    let length = usize::try_from(instruction.end - instruction.start).unwrap_or_default();
    let bytes = target.code(file, instruction.start, length);
    let code = Code::new(arch, &bytes, instruction.start, &|_, _| Vec::new());
    let there = site::at(code, 0, costs);
    // What the function around it stores below the stack pointer is undetermined.
    let harms = site::becomes_call(code, costs);
    (there.instruction, there.cost_ns.filter(|_| !harms))
}
