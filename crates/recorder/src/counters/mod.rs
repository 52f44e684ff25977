//! The counters of a recording: what this machine has of those that were asked for, opened on every processor. A counter
//! that cannot be had costs the recording nothing but that counter.

mod listing;
mod open;
mod sysfs;

pub use listing::{Listed, Listing, list};

use profinfer_compiler::{Asked, ProbePlan};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use profinfer_probeset::counters::{Event, Machine, Offer, Offered, Opening, resolve};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;

/// This machine's counting units.
pub fn machine() -> Machine {
    sysfs::read(Path::new("/sys"))
}

/// The events of one counter: processor and descriptor.
type OfCpus = Vec<(u32, OwnedFd)>;

/// The counters of a recording.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// What there is of what was asked for.
    pub(super) offer: Offer,
    /// What is absent, and what is estimated.
    pub(super) problems: Diagnostics,
    opened: BTreeMap<String, OfCpus>,
}

impl Counters {
    /// Opens what was asked for. With `exact`, each is counted all the time.
    ///
    /// # Errors
    /// C003, with `exact`, where the machine cannot count them all at once.
    pub(super) fn open(asked: &Asked, exact: bool) -> Result<Self, Diagnostics> {
        let mut counters = Self::default();
        if asked.is_empty() {
            return Ok(counters);
        }
        let machine = machine();
        let mut absent = Absent::default();
        for (name, (_, event)) in asked {
            let offered = counters.open_all(name, event, &machine, exact, &mut absent);
            counters.offer.insert(name.clone(), offered);
        }
        counters.problems.0.extend(absent.diagnostics());
        let shared = counters.shared();
        if shared.is_empty() {
            return Ok(counters);
        }
        let problem = in_turns(&shared, exact);
        if exact {
            return Err(problem.into());
        }
        counters.problems.push(problem);
        Ok(counters)
    }

    /// Opens one counter, or one for each unit that counts it.
    fn open_all(
        &mut self,
        name: &str,
        event: &Event,
        machine: &Machine,
        exact: bool,
        absent: &mut Absent,
    ) -> Vec<Offered> {
        if event.task().is_some() {
            return vec![Offered::plain(name)];
        }
        let openings = match resolve(event, machine) {
            Ok(openings) => openings,
            Err(refusal) => {
                absent.add(name, &refusal.reason, refusal.hint);
                return vec![Offered { absent: Some(refusal.reason), ..Offered::plain(name) }];
            }
        };
        let several = openings.len() > 1;
        let named = |opening: &Opening| match &opening.pmu {
            Some(pmu) if several => format!("{name}@{pmu}"),
            _ => name.to_owned(),
        };
        let mut offered = Vec::new();
        for opening in &openings {
            let name = named(opening);
            let on_each = opening.cpus.iter().map(|cpu| Ok((*cpu, open::open(opening, event, *cpu, exact)?)));
            let reason = match on_each.collect::<nix::Result<OfCpus>>() {
                Ok(events) if events.is_empty() => Some(("none of its processors is online".to_owned(), None)),
                Ok(events) => {
                    self.opened.insert(name.clone(), events);
                    None
                }
                Err(error) => Some(open::reason(error)),
            };
            if let Some((reason, hint)) = &reason {
                absent.add(&name, reason, hint.clone());
            }
            let (pmu, partial) = (opening.pmu.clone(), opening.partial);
            offered.push(Offered { name, pmu, partial, absent: reason.map(|(reason, _)| reason) });
        }
        offered
    }

    /// Counters that are not counted all the time.
    fn shared(&self) -> Vec<&str> {
        let is_shared = |events: &OfCpus| events.iter().any(|(_, event)| !open::is_counted(event));
        self.opened.iter().filter(|(_, events)| is_shared(events)).map(|(name, _)| name.as_str()).collect()
    }

    /// The events for a plan's programs, with their place among `cpus` for each counter.
    pub(super) fn events(&mut self, plan: &ProbePlan, cpus: u32) -> Vec<(u32, OwnedFd)> {
        let mut events = Vec::new();
        for counter in &plan.counters {
            let Some(row) = counter.event().and_then(|row| u32::try_from(row).ok()) else { continue };
            let opened = self.opened.remove(&counter.name).unwrap_or_default();
            events.extend(opened.into_iter().map(|(cpu, event)| (row.saturating_mul(cpus).saturating_add(cpu), event)));
        }
        events
    }
}

/// The counters that some processors cannot count, a bit each.
pub(super) fn partial(plan: &ProbePlan) -> u64 {
    let rows = plan.counters.iter().filter(|counter| counter.partial).filter_map(|counter| counter.event());
    rows.fold(0, |bits, row| bits | 1_u64.checked_shl(u32::try_from(row).unwrap_or(64)).unwrap_or(0))
}

/// Counters that are absent, by the reason: one problem each.
#[derive(Default)]
struct Absent(Vec<(String, Option<String>, Vec<String>)>);

impl Absent {
    fn add(&mut self, name: &str, reason: &str, hint: Option<String>) {
        match self.0.iter_mut().find(|(other, ..)| other == reason) {
            Some((.., names)) => names.push(name.to_owned()),
            None => self.0.push((reason.to_owned(), hint, vec![name.to_owned()])),
        }
    }

    fn diagnostics(self) -> impl Iterator<Item = Diagnostic> {
        self.0.into_iter().map(|(reason, hint, names)| {
            let problem =
                Diagnostic::warning(Code::CounterAbsent, format!("not counted: {}: {reason}", quoted(&names)));
            match hint {
                Some(hint) => problem.hint(hint),
                None => problem,
            }
        })
    }
}

/// That counters share the machine's counters.
fn in_turns(shared: &[&str], exact: bool) -> Diagnostic {
    let names = quoted(shared);
    if exact {
        let message = format!("this machine cannot count all of these events at once: no counter is free for {names}");
        return Diagnostic::error(Code::CountersShared, message)
            .hint("ask for fewer events, or omit `--exact`; `profinfer counters` shows how many fit");
    }
    let message = format!("there are more counters than this machine has: {names} and others are counted in turns");
    Diagnostic::warning(Code::CountersShared, message)
        .hint("what is counted for a part of a span only is scaled up, and marked; `--exact` refuses instead")
}

fn quoted(names: &[impl AsRef<str>]) -> String {
    names.iter().map(|name| format!("`{}`", name.as_ref())).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use profinfer_probeset::counters::Event;

    fn asked(events: &[&str]) -> Asked {
        let asked = |event: &&str| ((*event).to_owned(), ((*event).to_owned(), Event::parse(event).unwrap()));
        events.iter().map(asked).collect()
    }

    #[test]
    fn what_is_absent_for_one_reason_is_one_problem() {
        let mut absent = Absent::default();
        absent.add("cycles", "there is no PMU", Some("use another machine".into()));
        absent.add("instructions", "there is no PMU", Some("use another machine".into()));
        absent.add("x", "there is no such event", None);
        let problems: Vec<Diagnostic> = absent.diagnostics().collect();
        assert_eq!(problems.len(), 2);
        assert_eq!(problems[0].message, "not counted: `cycles`, `instructions`: there is no PMU");
        assert_eq!(problems[0].hint.as_deref(), Some("use another machine"));
    }

    #[test]
    #[ignore = "needs root"]
    fn the_kernels_own_counts_are_there_and_unknown_units_are_not() {
        let mut counters =
            Counters::open(&asked(&["task-clock", "major-faults", "no_such_unit/config=1/"]), true).unwrap();
        assert_eq!(counters.offer["task-clock"], [Offered::plain("task-clock")]);
        assert_eq!(counters.offer["major-faults"], [Offered::plain("major-faults")]);
        assert!(counters.offer["no_such_unit/config=1/"][0].absent.as_ref().unwrap().contains("no unit"));
        assert_eq!(counters.problems.0.len(), 1);
        let events = counters.opened.remove("task-clock").unwrap();
        assert_eq!(events.len(), machine().cpus.len());
    }
}
