//! The shipped probeset's programs, all of them, pass the verifier of every kernel from 5.10 on. An engine is too large
//! for these machines: `tests/targets/llama_functions.c` has its functions and structures, and says how often it called them.

use super::essence::Essence;
use super::every_kernel;
use super::layout::{Tools, profinfer};
use super::machine::{Arch, Kernel, Step, run};
use profinfer::trace::TraceReader;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const PROBESET: &str = "llama";
/// Forms of the program, which between them have every alternative of every probe.
const FORMS: [&str; 3] = ["SYMBOL", "INLINED", "NONE"];
/// Each level compiles to another object. The last has all programs.
const LEVELS: [&str; 3] = ["step", "graph", "operator"];
/// What the program is given, and does: calls of llama_decode beside one each of two other functions, lanes, nodes.
const DECODED: u64 = 5;
const LANES: u64 = 2;
const NODES: u64 = 6;
/// Of the nodes, those that choose experts.
const ROUTED: u64 = 2;
/// Nodes, their weight, the experts chosen, and the two tensors of the pair.
const TENSORS: u64 = NODES + 4;

pub(crate) fn lay_out(tools: &Tools, root: &Path) {
    for form in FORMS {
        let dispatcher = format!("-DDISPATCHER={form}");
        tools.compile(&root.join("bin").join(program(form)), &[&dispatcher], &["llama_functions.c"]);
    }
    for level in LEVELS {
        tools.build(PROBESET, &["--level", level], root, &object(level));
    }
}

fn program(form: &str) -> String {
    format!("llama_functions_{form}")
}

fn object(level: &str) -> String {
    format!("{PROBESET}-{level}.bpf.o")
}

/// Every form at the last level; of the first form every level. What programs there are does not depend on the kernel
/// beyond what its verifier takes, so that levels are for the oldest.
fn recordings(kernel: &Kernel) -> Vec<(String, &'static str, &'static str)> {
    let levels = if kernel.series == "5.10" { &LEVELS[..] } else { &LEVELS[2..] };
    let of_first = levels.iter().map(|level| (FORMS[0], *level));
    let of_others = FORMS[1..].iter().map(|form| (*form, LEVELS[2]));
    of_first.chain(of_others).map(|(form, level)| (format!("{PROBESET}-{form}-{level}"), form, level)).collect()
}

pub(crate) fn steps(kernel: &Kernel) -> Vec<Step> {
    let record = |(name, form, level): (String, &str, &str)| {
        let object = format!("--level {level} --object {}/{}", kernel.objects(), object(level));
        let program = format!("/bin/{} {DECODED} {LANES}", program(form));
        let command = format!("profinfer record {PROBESET} {object} -o /run/{name}.pfi -- {program}");
        (name, command)
    };
    recordings(kernel).into_iter().map(record).collect()
}

/// The object's programs by probe and alternative, as its C has them.
fn programs(arch: Arch) -> BTreeSet<(String, usize)> {
    let code = run(profinfer("gen").args([PROBESET, "--arch", arch.profinfer()]));
    let named = |line: &str| {
        let name = line.strip_prefix("PF_SPAN(").or_else(|| line.strip_prefix("PF_ENTRY("))?.strip_suffix(')')?;
        let (probe, alternative) = name.rsplit_once("__").unwrap();
        Some((probe.to_owned(), alternative.parse().unwrap()))
    };
    code.lines().filter_map(named).collect()
}

/// The programs that a recording attached.
fn attached(trace: &[u8]) -> BTreeSet<(String, usize)> {
    let mut reader = TraceReader::new(trace).expect("a trace");
    while reader.next().is_some() {}
    let sites = reader.into_meta().sites;
    sites.into_iter().map(|site| (site.probes[0].clone(), site.alternative)).collect()
}

fn every_program_is_let_in(arch: Arch) {
    let every = programs(arch);
    assert!(every.len() >= 11, "{every:?}");
    for (kernel, said) in every_kernel(arch) {
        let series = kernel.series;
        let graphs = DECODED + 2;
        let mut seen = BTreeSet::new();
        for (name, _, level) in recordings(kernel) {
            let trace = said.trace(&name, 0);
            let called = format!("{graphs} graphs {} operators {} fused", graphs * NODES * LANES, graphs * LANES);
            assert_eq!(said.text(&format!("{name}.stdout")).trim(), called);
            seen.extend(attached(trace));
            let essence = Essence::of(trace);
            let of_graphs = if level == "step" { 0 } else { graphs };
            let of_operators = if level == "operator" { graphs } else { 0 };
            let expected = BTreeMap::from([
                ("decode", DECODED),
                ("encode", 1),
                ("process", 1),
                ("graph", of_graphs),
                ("operator", of_operators * NODES * LANES),
                ("fused", of_operators * LANES),
                ("experts", of_operators * ROUTED),
                ("tensor", if level == "operator" { TENSORS } else { 0 }),
            ]);
            let counts = expected.keys().map(|name| (*name, essence.count(name))).collect();
            assert_eq!(expected, counts, "Linux {series}, {name}");
        }
        let missing: Vec<_> = every.difference(&seen).collect();
        assert!(missing.is_empty(), "Linux {series}: never attached: {missing:?}");
    }
}

#[test]
#[ignore = "needs root"]
fn every_kernel_lets_the_shipped_probeset_in_on_x86_64() {
    every_program_is_let_in(Arch::Amd64);
}

#[test]
#[ignore = "needs root"]
fn every_kernel_lets_the_shipped_probeset_in_on_arm64() {
    every_program_is_let_in(Arch::Arm64);
}
