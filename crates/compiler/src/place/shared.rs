//! Programs that came to one place by different ways.

use super::{Code, Diagnostic, Placer};
use std::collections::BTreeMap;

/// Places that are named one by one.
const SHOWN: usize = 3;

impl Placer<'_> {
    /// Reports where several programs are at one instruction. Each runs and records by itself; what it costs more
    /// than one program of several probes is what the message has.
    pub(super) fn say_shared(&mut self) {
        let mut at: BTreeMap<(usize, u64), Vec<usize>> = BTreeMap::new();
        for (number, site) in self.placement.sites.iter().enumerate() {
            at.entry((site.site.module, site.site.file_offset)).or_default().push(number);
        }
        // By the first probe of each program, with the functions.
        let mut together: BTreeMap<Vec<&str>, Vec<String>> = BTreeMap::new();
        for numbers in at.into_values().filter(|numbers| numbers.len() > 1) {
            let sites = || numbers.iter().filter_map(|number| self.placement.sites.get(*number));
            let probes: Vec<&str> = sites().filter_map(|site| site.site.probes.first().map(String::as_str)).collect();
            // One that may have to be left out needs a program of its own.
            if probes.iter().any(|probe| self.probeset.probes.get(*probe).is_some_and(|probe| probe.optional)) {
                continue;
            }
            together.entry(probes).or_default().extend(sites().next().map(|site| site.site.place()));
        }
        let notes = together.into_iter().map(|(probes, places)| {
            let probes: Vec<String> = probes.into_iter().map(|probe| format!("`{probe}`")).collect();
            let message = format!("{} are at the same place: {}", probes.join(" and "), shown(&places));
            Diagnostic::note(Code::SharedSite, message)
                .hint("each records it; `at: probe NAME` makes one program of them, which costs less")
        });
        let notes: Vec<Diagnostic> = notes.collect();
        self.problems.0.extend(notes);
    }
}

fn shown(places: &[String]) -> String {
    let first: Vec<String> = places.iter().take(SHOWN).map(|place| format!("`{place}`")).collect();
    match places.len().saturating_sub(SHOWN) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
