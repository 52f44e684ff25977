//! The same trace from every kernel, and the toy's own counts.

use super::essence::{Essence, left_in};
use super::machine::{Arch, MachineOutput, Step};
use super::{PROBESET, every_kernel};
use std::collections::BTreeMap;

/// Steps, operators and lanes of each recording.
const RECORDINGS: [(&str, [u64; 3]); 2] = [("linked", [20, 6, 2]), ("late", [5, 7, 3])];

/// What `doctor` says, and the toy with its engine linked in and loaded late.
pub(crate) fn steps() -> Vec<Step> {
    let record = |(name, [steps, operators, lanes]): (&str, [u64; 3])| {
        let (late, load) = if name == "late" { ("_late", " load=/bin/libtoy_engine.so") } else { ("", "") };
        let toy = format!("/bin/toy{late} {steps} {operators} {lanes}{load}");
        (name.to_owned(), format!("profinfer record {PROBESET} -o /run/{name}.pfi -- {toy}"))
    };
    [("doctor".to_owned(), "profinfer doctor --json".to_owned())].into_iter().chain(RECORDINGS.map(record)).collect()
}

/// Whether `doctor` found something there.
fn has(reported: &MachineOutput, finding: &str) -> bool {
    let doctor: serde_json::Value = serde_json::from_str(&reported.text("doctor.stdout")).unwrap();
    let findings = doctor["findings"].as_array().unwrap();
    let found = findings.iter().find(|found| found["name"] == finding);
    found.unwrap_or_else(|| panic!("doctor says nothing of {finding}"))["state"] == "present"
}

fn the_same_from_every_kernel(arch: Arch) {
    let mut first: BTreeMap<&str, Essence> = BTreeMap::new();
    for (kernel, reported) in every_kernel(arch) {
        let series = kernel.series;
        assert!(
            reported.text("kernel").starts_with(&format!("{series}.")),
            "{} is not {series}",
            reported.text("kernel")
        );
        assert_eq!(reported.text("doctor.status").trim(), "0", "Linux {series}: {}", reported.text("doctor.stdout"));
        let found = ["uprobe.multi", "uprobe.session", "task storage, cookies, loops"].map(|name| has(reported, name));
        assert_eq!(found, [kernel.multi, kernel.session, kernel.recent], "what Linux {series} has");
        for (name, [steps, operators, lanes]) in RECORDINGS {
            let trace = reported.trace(name, 0);
            let counted = format!("parent {steps} steps {steps} graphs {} operators", steps * operators * lanes);
            assert_eq!(reported.text(&format!("{name}.stdout")).trim(), counted);
            let essence = Essence::of(trace);
            let work = ["step", "graph", "operator"].map(|name| essence.count(name));
            assert_eq!(work, [steps, steps, steps * operators * lanes], "Linux {series}, {name}");
            assert_eq!(essence.count("tensor"), 2 * operators, "Linux {series}, {name}: described again in step 2");
            let states = left_in(trace);
            assert!(states.iter().any(|state| *state != 0), "Linux {series}, {name}: nobody slept: {states:?}");
            match first.get(name) {
                None => drop(first.insert(name, essence)),
                Some(oldest) => assert_eq!(&essence, oldest, "Linux {series} and 5.10, {name}"),
            }
        }
    }
}

#[test]
#[ignore = "needs root"]
fn every_kernel_gives_the_same_trace_on_x86_64() {
    the_same_from_every_kernel(Arch::Amd64);
}

#[test]
#[ignore = "needs root"]
fn every_kernel_gives_the_same_trace_on_arm64() {
    the_same_from_every_kernel(Arch::Arm64);
}
