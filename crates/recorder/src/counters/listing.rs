//! What this machine can count, tried out.

use super::{machine, open};
use profinfer_probeset::counters::{Event, Group, Machine, Opening, generic_events, resolve};
use serde::Serialize;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// Counters of one unit that are tried at once.
const MOST_AT_ONCE: usize = 64;

/// What a machine can count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// Why there are no events of the processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_pmu: Option<String>,
    /// The processors' PMUs, and how many events each counts at once besides those that have a dedicated counter.
    pub at_once: BTreeMap<String, usize>,
    /// Every event that there is a name for.
    pub events: Vec<Listed>,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// What it is of: `hardware`, `cache`, `software`, `thread`, or a unit's name.
    pub group: String,
    /// As it is asked for.
    pub event: String,
    /// It can be counted here, now.
    pub opens: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Tries everything that there is a name for.
pub fn list() -> Listing {
    let machine = machine();
    let general = generic_events().map(|(name, event)| (group_name(event.group()).to_owned(), name));
    let of_units = machine
        .pmus
        .iter()
        .flat_map(|(unit, pmu)| pmu.events.keys().map(move |event| (unit.clone(), format!("{unit}/{event}/"))));
    let events = general.chain(of_units).map(|(group, event)| listed(group, event, &machine)).collect();
    let cores = machine.core_pmus().into_iter();
    let at_once = cores.filter_map(|(name, _)| Some((name.to_owned(), at_once(name, &machine)?)));
    Listing { without_pmu: without_pmu(&machine), at_once: at_once.collect(), events }
}

fn group_name(group: Group) -> &'static str {
    match group {
        Group::Hardware => "hardware",
        Group::Cache => "cache",
        Group::Software => "software",
        Group::Thread => "thread",
    }
}

fn without_pmu(machine: &Machine) -> Option<String> {
    machine.core_pmus().is_empty().then(|| {
        let is_virtual = std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains(" hypervisor"));
        let why = if is_virtual { ": it is a virtual machine that is given none" } else { "" };
        format!("this machine's processors have no PMU{why}")
    })
}

fn listed(group: String, event: String, machine: &Machine) -> Listed {
    let reason = tried(&event, machine).err();
    Listed { group, event, opens: reason.is_none(), reason }
}

/// Opens an event on one processor of each unit.
fn tried(text: &str, machine: &Machine) -> Result<(), String> {
    let event = Event::parse(text).map_err(|problem| problem.message)?;
    let openings = resolve(&event, machine).map_err(|refusal| refusal.reason)?;
    for opening in &openings {
        let cpu = opening.cpus.first().ok_or("none of its processors is online")?;
        open::open(opening, &event, *cpu, false).map_err(|error| open::reason(error).0)?;
    }
    Ok(())
}

/// How many events a unit counts at once, of those that any of its counters can count.
fn at_once(unit: &str, machine: &Machine) -> Option<usize> {
    ["branches", "cache-references", "instructions"].into_iter().find_map(|name| {
        let event = Event::parse(name).ok()?;
        let openings = resolve(&event, machine).ok()?;
        let opening: Opening = openings.into_iter().find(|opening| opening.pmu.as_deref() == Some(unit))?;
        let cpu = *opening.cpus.first()?;
        let mut counters: Vec<OwnedFd> = Vec::new();
        while counters.len() < MOST_AT_ONCE {
            match open::open(&opening, &event, cpu, true) {
                Ok(counter) if open::is_counted(&counter) => counters.push(counter),
                _ => break,
            }
        }
        (!counters.is_empty()).then_some(counters.len())
    })
}
