use super::*;
use profinfer_analysis::testing::{Put, Records};
use profinfer_analysis::{Completeness, Findings, Profile, Rules, Statistics, Timeline, Visitor};
use profinfer_schema::{CodePlace, KernelFunction, Sample, SampledModule, Sampling};
use profinfer_trace::Meta;

const KERNEL: u64 = 0xffff_ffff_8100_0000;

/// Functions of 100 bytes each in the first module; the second is gone.
struct Every100;

impl Symbolizer for Every100 {
    fn function(&mut self, module: usize, offset: u64) -> Option<SymbolName> {
        (module == 0).then(|| SymbolName::Named(format!("function_{}", offset / 100)))
    }
}

fn sampling() -> Sampling {
    let module = |path: &str| SampledModule { path: path.into(), size: 5000, ..SampledModule::default() };
    let kernel = vec![KernelFunction { start: KERNEL, end: KERNEL + 64, name: "copy; page".into() }];
    Sampling {
        event: "cpu-clock".into(),
        hz: 1000,
        modules: vec![module("/opt/lib;engine.so"), module("/opt/gone.so")],
        kernel,
        taken: 45,
        lost: 3,
        ..Sampling::default()
    }
}

/// One operator of layer-less `up`, and samples: thirty in a function of it, ten in the kernel below that, one in each of
/// what has no name.
fn sampled() -> (Profile, Timeline) {
    let mut r = Records::default();
    r.push("thread", 1, (0, 0), &[("pid", Put::Int(100))]);
    let tensor = [("address", Put::Int(0x10)), ("op", Put::Text("MUL")), ("name", Put::Text("up"))];
    r.push("tensor", 1, (10, 10), &tensor);
    r.push("operator", 1, (10, 900), &[("lane", Put::Int(0)), ("node", Put::Int(0x10)), ("waiting", Put::Int(0))]);
    r.push("graph", 1, (5, 950), &[("backend", Put::Text("CPU"))]);
    r.push("step", 1, (0, 1000), &[("tokens", Put::Int(1))]);
    let operator = r.schema.records.iter().position(|record| record.name == "operator").unwrap();
    let place = |module, offset| CodePlace { module, offset };
    let mut samples = Vec::new();
    let mut take = |time, inside: bool, frames: &[CodePlace]| {
        let within = inside.then(|| (u16::try_from(operator).unwrap(), 10));
        samples.push(Sample { time, tid: 1, pid: 100, within, frames: frames.to_vec(), ..Sample::default() });
    };
    let (function, caller) = (place(0, 250), place(0, 120));
    (0..30).for_each(|n| take(100 + n, true, &[function, caller]));
    (0..10).for_each(|n| take(200 + n, true, &[place(CodePlace::KERNEL, KERNEL + 5), function, caller]));
    take(300, true, &[place(CodePlace::ANONYMOUS, 0x7000)]);
    take(301, true, &[place(1, 70)]);
    take(302, true, &[place(CodePlace::KERNEL, KERNEL - 5)]);
    take(303, true, &[place(CodePlace::UNKNOWN, 1)]);
    take(930, false, &[place(0, 990)]);
    let mut profile = Profile::new(&r.schema, true);
    let mut timeline = Timeline::new(&r.schema, Rules::default(), 100);
    profile.samples(&samples);
    r.records.iter().for_each(|record| timeline.record(record, &mut profile));
    timeline.finish(&mut profile);
    profile.finish();
    (profile, timeline)
}

fn meta() -> Meta {
    let (sampling, samples) = (Some(sampling()), 45);
    let mut meta = Meta::default();
    (meta.sampling, meta.samples) = (sampling, samples);
    meta
}

fn report(selection: &Selection) -> FunctionsReport {
    let (profile, timeline) = sampled();
    let meta = meta();
    let completeness = Completeness::judge(&meta, &Findings::default(), &Statistics::default());
    functions(&meta, completeness, (&profile, timeline.catalogue()), selection, &mut Every100)
}

#[test]
fn functions_are_counted_by_themselves_and_few_samples_are_marked() {
    let report = report(&Selection::default());
    let rows: Vec<(&str, &str, u64, bool)> =
        report.functions.iter().map(|row| (row.function.as_str(), row.module.as_str(), row.samples, row.few)).collect();
    let expected = [
        ("function_2", "lib;engine.so", 30, false),
        ("copy; page", "kernel", 10, true),
        ("[code without a file]", "", 1, true),
        ("[gone.so]", "gone.so", 1, true),
        ("[kernel]", "kernel", 1, true),
        ("[unknown]", "", 1, true),
        ("function_9", "lib;engine.so", 1, true),
    ];
    assert_eq!(rows, expected);
    let places: Vec<(&str, u64)> = report.places.iter().map(|row| (row.place.as_str(), row.samples)).collect();
    assert_eq!(places, [("MUL", 44), ("outside operators", 1)]);
    let [low, high] = report.functions[0].interval;
    assert!(low < 30.0 / 45.0 && 30.0 / 45.0 < high && high - low < 0.3, "{low} {high}");
    let text = functions_text(&report, &crate::text::TextStyle::default());
    assert!(text.contains("45 samples of cpu-clock, 1000 in a second") && text.contains("3 lost"), "{text}");
    assert!(text.contains("few samples"), "{text}");
}

#[test]
fn a_selection_is_what_shares_are_of() {
    let of = |within: &str| {
        let report = report(&Selection { phase: None, within: Some(within.to_owned()) });
        (report.samples, report.functions.len())
    };
    assert_eq!(of("MUL"), (44, 6));
    assert_eq!(of("up"), (44, 6));
    assert_eq!(of("outside operators"), (1, 1));
    assert_eq!(of("outside graphs"), (0, 0));
    assert_eq!(of("layer 1"), (0, 0));
}

#[test]
fn folded_stacks_have_the_root_first_and_no_semicolons() {
    let (profile, timeline) = sampled();
    let text = folded(&sampling(), (&profile, timeline.catalogue()), &Selection::default(), &mut Every100);
    insta::assert_snapshot!(text, @r"
    decode;MUL;up;[code without a file] 1
    decode;MUL;up;[gone.so] 1
    decode;MUL;up;[kernel] 1
    decode;MUL;up;[unknown] 1
    decode;MUL;up;function_1;function_2 30
    decode;MUL;up;function_1;function_2;copy: page 10
    decode;outside operators;function_9 1
    ");
}

#[test]
fn times_are_samples_times_the_period() {
    let (profile, timeline) = sampled();
    let of = (&profile, timeline.catalogue());
    let whole = speedscope("run", &sampling(), of, &Selection::default(), &mut Every100);
    let profile_of = &whole["profiles"][0];
    let weights: u64 = profile_of["weights"].as_array().unwrap().iter().map(|weight| weight.as_u64().unwrap()).sum();
    assert_eq!((weights, &profile_of["endValue"]), (45_000_000, &45_000_000.into()));
    assert_eq!(profile_of["samples"].as_array().unwrap().len(), 7);
    let bytes = pprof((1, 2), &sampling(), of, &Selection::default(), &mut Every100);
    assert!(bytes.starts_with(b"\x0a\x04\x08\x01\x10\x02"), "the first sample type");
    assert!(bytes.windows(10).any(|text| text == b"function_2"));
}
