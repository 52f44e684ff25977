//! Profiles as viewers see them: pprof's file is decoded by a decoder of its format that others maintain, speedscope's is
//! validated against speedscope's schema, Perfetto's is decoded by its own definitions; all must say what
//! `report --by function` says.

use crate::invocation::{json, profinfer, succeeds};
use crate::packages::python_with;
use profinfer_analysis::testing::{Put, Records};
use profinfer_schema::{CodePlace, End, Origin, Sample, SampledModule, Sampling};
use profinfer_trace::TraceWriter;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packages of npm's: where they are.
fn installed(packages: &[&str]) -> PathBuf {
    let home = std::env::var_os("HOME").unwrap();
    let folder = Path::new(&home).join(".cache/profinfer/build-tools/profiles");
    std::fs::create_dir_all(&folder).unwrap();
    if !folder.join("node_modules/speedscope").exists() || !folder.join("node_modules/ajv").exists() {
        let mut npm = Command::new("npm");
        npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", "--prefix"]);
        let output = npm.arg(&folder).args(packages).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    folder
}

fn node(folder: &Path, program: &str, file: &Path) -> Value {
    let output = Command::new("node").current_dir(folder).args(["-e", program]).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A step of one operator: samples in two places of this very program, and in code without a file.
fn trace(path: &Path) {
    let exe = std::env::current_exe().unwrap();
    let mut r = Records::default();
    r.push("thread", 1, (0, 0), &[("pid", Put::Int(100))]);
    let tensor = [("address", Put::Int(0x10)), ("op", Put::Text("MUL")), ("name", Put::Text("ffn-3"))];
    r.push("tensor", 1, (10, 10), &tensor);
    r.push("operator", 1, (10, 900), &[("lane", Put::Int(0)), ("node", Put::Int(0x10)), ("waiting", Put::Int(0))]);
    r.push("graph", 1, (5, 950), &[("backend", Put::Text("CPU"))]);
    r.push("step", 1, (0, 1000), &[("tokens", Put::Int(1))]);
    let operator = r.schema.records.iter().position(|record| record.name == "operator").unwrap() as u16;
    let mut writer = TraceWriter::new(std::fs::File::create(path).unwrap(), &Origin::default(), &r.schema).unwrap();
    let module = SampledModule { path: exe.to_str().unwrap().into(), ..SampledModule::default() };
    let place = |module, offset| CodePlace { module, offset };
    for n in 0..25 {
        let frames = match n {
            0..20 => vec![place(0, 64), place(CodePlace::ANONYMOUS, 5)],
            _ => vec![place(CodePlace::ANONYMOUS, 7)],
        };
        let within = (n < 24).then_some((operator, 10));
        let sample = Sample { time: 20 + n, tid: 1, pid: 100, within, frames, ..Sample::default() };
        writer.sample(sample).unwrap();
    }
    r.records.iter().for_each(|record| writer.push(record).unwrap());
    let sampling =
        Sampling { event: "cpu-clock".into(), hz: 500, modules: vec![module], taken: 25, ..Sampling::default() };
    writer.sampling(&sampling).unwrap();
    writer.finish(&End { time: 1000, reason: "the target ended".into(), ..End::default() }).unwrap();
}

/// Samples by innermost function.
fn reported(trace: &str) -> BTreeMap<String, u64> {
    let report = json(&["report", trace, "--by", "function", "--json"]);
    let rows = report["functions"].as_array().unwrap().iter();
    rows.map(|row| (row["function"].as_str().unwrap().to_owned(), row["samples"].as_u64().unwrap())).collect()
}

#[test]
#[ignore = "needs network"]
fn viewers_see_what_the_report_says() {
    let tools = installed(&["pprof-format@2.3.2", "speedscope@1.25.0", "ajv@6.12.6"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.pfi");
    trace(&path);
    let trace = path.to_str().unwrap();
    let reported = reported(trace);
    assert_eq!(reported.values().sum::<u64>(), 25);

    let file = folder.path().join("run.pb");
    succeeds(&mut profinfer(&["export", trace, "--format", "pprof", "-o", file.to_str().unwrap()]));
    let decode = r"
        const { Profile } = require('pprof-format');
        const p = Profile.decode(require('fs').readFileSync(process.argv[1]));
        const text = i => p.stringTable.strings[Number(i)];
        const byId = list => Object.fromEntries(list.map(x => [String(x.id), x]));
        const locations = byId(p.location), functions = byId(p.function), mappings = byId(p.mapping);
        const name = id => text(functions[String(locations[String(id)].line[0].functionId)].name);
        console.log(JSON.stringify({
            types: p.sampleType.map(t => [text(t.type), text(t.unit)]), period: Number(p.period),
            files: p.mapping.map(m => text(m.filename)),
            samples: p.sample.map(s => ({ stack: s.locationId.map(name), values: s.value.map(Number),
                labels: Object.fromEntries(s.label.map(l => [text(l.key), text(l.str)])) })),
        }));";
    let decoded = node(&tools, decode, &file);
    assert_eq!(decoded["types"], serde_json::json!([["samples", "count"], ["cpu", "nanoseconds"]]));
    assert_eq!(decoded["period"], 2_000_000);
    let mut innermost: BTreeMap<String, u64> = BTreeMap::new();
    for sample in decoded["samples"].as_array().unwrap() {
        let (count, ns) = (sample["values"][0].as_u64().unwrap(), sample["values"][1].as_u64().unwrap());
        assert_eq!(ns, count * 2_000_000);
        *innermost.entry(sample["stack"][0].as_str().unwrap().to_owned()).or_default() += count;
        let in_operator = sample["labels"]["op"] == "MUL" && sample["labels"]["operator"] == "ffn-3";
        assert!(in_operator || sample["labels"]["op"] == "outside operators", "{sample}");
    }
    assert_eq!(innermost, reported);

    let file = folder.path().join("run.speedscope.json");
    succeeds(&mut profinfer(&["export", trace, "--format", "speedscope", "-o", file.to_str().unwrap()]));
    let validate = r"
        const profile = JSON.parse(require('fs').readFileSync(process.argv[1]));
        const schema = require('./node_modules/speedscope/dist/release/file-format-schema.json');
        const Ajv = require('ajv');
        const validate = new Ajv({ schemaId: 'auto', unknownFormats: 'ignore' }).compile(schema);
        const valid = validate(profile);
        console.log(JSON.stringify({ valid, errors: validate.errors, profile }));";
    let found = node(&tools, validate, &file);
    assert_eq!(found["valid"], true, "{}", found["errors"]);
    let profile = &found["profile"]["profiles"][0];
    assert_eq!((&profile["unit"], &profile["endValue"]), (&"nanoseconds".into(), &50_000_000.into()));
    let frames = found["profile"]["shared"]["frames"].as_array().unwrap();
    let leaf =
        |stack: &Value| frames[stack.as_array().unwrap().last().unwrap().as_u64().unwrap() as usize]["name"].clone();
    let mut innermost: BTreeMap<String, u64> = BTreeMap::new();
    for (stack, weight) in profile["samples"].as_array().unwrap().iter().zip(profile["weights"].as_array().unwrap()) {
        *innermost.entry(leaf(stack).as_str().unwrap().to_owned()).or_default() += weight.as_u64().unwrap() / 2_000_000;
    }
    assert_eq!(innermost, reported);

    // Folded stacks are what flame graph tools read: `frames count`.
    let file = folder.path().join("run.folded");
    succeeds(&mut profinfer(&["export", trace, "--format", "folded", "-o", file.to_str().unwrap()]));
    let folded = std::fs::read_to_string(&file).unwrap();
    let counts = folded.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
    assert_eq!(counts.sum::<u64>(), 25);
}

/// Perfetto's own definitions find each sample at its time, with the frames that folded stacks have.
#[test]
#[ignore = "needs an engine's package"]
fn perfetto_has_each_sample_with_its_stack() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.pfi");
    trace(&path);
    let (trace, file) = (path.to_str().unwrap(), folder.path().join("run.pftrace"));
    succeeds(&mut profinfer(&["export", trace, "--format", "perfetto-callstacks", "-o", file.to_str().unwrap()]));
    let mut decode = Command::new(python_with(&["perfetto", "perfetto==0.59.1", "protobuf==7.36.2"]));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/timeline/callstacks.py");
    let output = decode.arg(script).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let decoded: Value = serde_json::from_slice(&output.stdout).unwrap();
    // CLOCK_MONOTONIC, as the timeline's file has it.
    assert_eq!((&decoded["clock"], &decoded["lost"]), (&3.into(), &0.into()));
    assert_eq!(decoded["timebase"], serde_json::json!(["cpu-clock", 500]));
    let samples = decoded["samples"].as_array().unwrap();
    let times: Vec<u64> = samples.iter().map(|sample| sample["time"].as_u64().unwrap()).collect();
    assert_eq!(times, (20..45).collect::<Vec<u64>>());
    assert!(samples.iter().all(|sample| sample["tid"] == 1 && sample["pid"] == 100 && sample["in_kernel"] == false));

    let folded = folder.path().join("run.folded");
    succeeds(&mut profinfer(&["export", trace, "--format", "folded", "-o", folded.to_str().unwrap()]));
    let folded = std::fs::read_to_string(&folded).unwrap();
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for line in folded.lines() {
        let (stack, count) = line.rsplit_once(' ').unwrap();
        expected.insert(stack.to_owned(), count.parse().unwrap());
    }
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for sample in samples {
        let stack = sample["stack"].as_array().unwrap();
        let names: Vec<&str> = stack.iter().map(|frame| frame[0].as_str().unwrap()).collect();
        *found.entry(names.join(";")).or_default() += 1;
        assert_eq!(stack[0][1], "profinfer");
    }
    assert_eq!(found, expected);
    // The first sample's function is in this very program.
    let exe = std::env::current_exe().unwrap();
    assert_eq!(samples[0]["stack"].as_array().unwrap().last().unwrap()[1], exe.to_str().unwrap());
    assert_eq!(samples[24]["stack"].as_array().unwrap().last().unwrap()[1], "[anonymous]");
}
