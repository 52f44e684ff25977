//! The shipped probeset's programs, all of them, pass the verifiers of the oldest kernels. An engine is too large
//! for these machines: `tests/targets/llama_functions.c` has its functions and structures, and says how often it called them.

use super::essence::Essence;
use super::every_kernel;
use super::layout::{Tools, profinfer};
use super::machine::{Arch, Kernel, Step, run};
use profinfer_trace::TraceReader;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const PROBESET: &str = "llama";
const OBJECT: &str = "llama.bpf.o";
/// Forms of the program, which between them have every alternative of every probe. The last is one of before batches.
const FORMS: [&str; 5] = ["SYMBOL", "INLINED", "NONE", HIDDEN, WITHOUT_BATCHES];
/// Without names of graphs and operators.
const HIDDEN: &str = "HIDDEN";
const WITHOUT_BATCHES: &str = "EVAL";
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
        let flags: &[&str] = match form {
            HIDDEN => &["-DDISPATCHER=NONE", "-DHIDDEN"],
            WITHOUT_BATCHES => &["-DDISPATCHER=SYMBOL", "-DEVAL"],
            _ => &[&format!("-DDISPATCHER={form}")],
        };
        tools.compile(&root.join("bin").join(program(form)), flags, &["llama_functions.c"]);
    }
    tools.build(PROBESET, &[], root, OBJECT);
}

fn program(form: &str) -> String {
    format!("llama_functions_{form}")
}

/// The oldest kernel that takes each object: later ones let in what those do.
fn is_for(kernel: &Kernel) -> bool {
    matches!(kernel.series, "5.10" | "6.1")
}

/// One recording of a shell that runs all forms: an emulated kernel's verifier takes most of the time.
pub(crate) fn steps(kernel: &Kernel) -> Vec<Step> {
    if !is_for(kernel) {
        return Vec::new();
    }
    let forms = FORMS.map(|form| format!("/bin/{} {DECODED} {LANES}", program(form))).join(" && ");
    let record = format!("profinfer record {PROBESET} --object {}/{OBJECT} -o /run/shipped.pfi", kernel.objects());
    vec![("shipped".to_owned(), format!("{record} -- sh -c '{forms}'"))]
}

/// The object's programs by probe and alternative, as its C has them.
fn programs(arch: Arch) -> BTreeSet<(String, usize)> {
    let code = run(profinfer("gen").args([PROBESET, "--arch", arch.profinfer()]));
    let named = |line: &str| {
        let of_span = line.strip_prefix("PF_SPAN(").and_then(|rest| rest.split_once(')'));
        let of_entry = line.strip_prefix("PF_ENTRY(").and_then(|rest| rest.split_once(')'));
        let (name, _) = of_span.or(of_entry)?;
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
    for (kernel, reported) in every_kernel(arch).into_iter().filter(|(kernel, _)| is_for(kernel)) {
        let series = kernel.series;
        let graphs = DECODED + 2;
        let trace = reported.trace("shipped", 0);
        let called = format!("{graphs} graphs {} operators {} fused", graphs * NODES * LANES, graphs * LANES);
        assert_eq!(reported.text("shipped.stdout").lines().collect::<Vec<_>>(), [&*called; FORMS.len()]);
        let seen = attached(trace);
        let essence = Essence::of(trace);
        let expected = [
            ("decode", DECODED),
            ("encode", 1),
            ("process", 1),
            ("graph", graphs),
            ("operator", graphs * NODES * LANES),
            ("fused", graphs * LANES),
            ("experts", graphs * ROUTED),
            ("blas", 1),
            ("tensor", TENSORS),
            ("batch_sequences", graphs),
            ("batch_positions", graphs),
            ("batch_outputs", graphs),
            ("dispatch", graphs * NODES),
            ("dispatch_twice", graphs * NODES),
            ("dispatch_of_tensor", graphs * NODES),
            ("dispatch_one", graphs),
            ("dispatch_operator", graphs),
            ("dispatch_function", graphs),
            ("dispatch_copy", graphs),
            ("dispatch_two", graphs),
            ("dispatch_three", graphs),
            ("dispatch_four", graphs),
            ("dispatch_product", graphs),
            ("dispatch_product_of_rows", graphs),
            ("copy_between", graphs),
            ("copy_between_devices", graphs),
            ("copy_to_device", graphs),
            ("copy_from_device", graphs),
            ("request_arrived", 1),
            ("request_started", 1),
            ("request_token", DECODED),
            ("request_ended", 1),
            ("context_freed", 1),
        ];
        // Two forms have a function for each node, instead of those of operators.
        let of_every_form = |name: &str| matches!(name, "dispatch_twice" | "dispatch_of_tensor");
        let is_of_operators = |name: &str| name.starts_with("dispatch_") && !of_every_form(name);
        let forms =
            |name: &str| FORMS.len() as u64 - if is_of_operators(name) { 2 } else { u64::from(name == "fused") };
        let mut expected: BTreeMap<_, _> = expected.map(|(name, count)| (name, count * forms(name))).into();
        expected.insert("decode", DECODED * (FORMS.len() as u64 - 1));
        expected.insert("eval", DECODED);
        expected.insert("dispatch_node", 2 * graphs * NODES);
        expected.insert("fused_norm", graphs * LANES);
        let counts = expected.keys().map(|name| (*name, essence.count(name))).collect();
        assert_eq!(expected, counts, "Linux {series}");
        let missing: Vec<_> = every.difference(&seen).collect();
        assert!(missing.is_empty(), "Linux {series}: never attached: {missing:?}");
    }
}

#[test]
#[ignore = "needs root"]
fn the_oldest_kernels_let_the_shipped_probeset_in_on_x86_64() {
    every_program_is_let_in(Arch::Amd64);
}

#[test]
#[ignore = "needs root"]
fn the_oldest_kernels_let_the_shipped_probeset_in_on_arm64() {
    every_program_is_let_in(Arch::Arm64);
}
