//! Runs of a real engine that are made to be limited by one thing, and what the report says limits them. Other programs
//! may disturb them: what is asserted is of the time in which the engine ran.

use crate::competitor::Competitor;
use crate::engine::{Engine, Workload, alone, larger_than_caches, model, with_limits, workload};
use crate::invocation::{json, profinfer, succeeds};
use crate::models::record;
use crate::packages::{installed_version, scripts};
use crate::process::run;
use crate::recording::Recording;
use crate::{find, rows};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn verdict(recording: &Recording) -> Value {
    recording.report(&[])["verdict"].clone()
}

fn part(of: &Value, bound: &str) -> f64 {
    of["parts"][bound].as_f64().unwrap()
}

/// What others took of the time, and what is not known of it.
fn disturbed(phase: &Value) -> f64 {
    part(phase, "starved") + part(phase, "unknown") + part(phase, "disk")
}

/// The phase's verdict, or the other explanation that it gives, is this.
#[track_caller]
fn assert_says(phase: &Value, bound: &str) {
    assert!(phase["bound"] == bound || phase["also"] == bound, "{bound}? {phase:#}");
}

fn assert_adds_up(verdict: &Value) {
    for row in rows(&verdict["phases"]).chain(rows(&verdict["operators"])) {
        let sum: f64 = row["parts"].as_object().unwrap().values().map(|part| part.as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 0.02, "{row:#}");
    }
    for advice in rows(&verdict["advice"]) {
        let gain = advice["gain_at_most"].as_f64().unwrap_or(0.0);
        assert!((0.0..=1.0).contains(&gain) && advice["how"].as_str().is_some_and(|how| !how.is_empty()), "{advice}");
    }
    assert!(!verdict["sentences"].as_array().unwrap().is_empty());
}

/// Whole floats, far more than the caches hold.
#[test]
#[ignore = "needs root"]
fn decode_of_a_model_larger_than_the_caches_is_memory_bound() {
    let _alone = alone();
    with_limits();
    let workload = Workload { prompt: 4, tokens: 12, ..workload(larger_than_caches(), 1) };
    let verdict = verdict(&record(Engine::Wheel, &workload, &[]));
    assert_adds_up(&verdict);
    let decode = find(&verdict["phases"], "phase", "decode");
    assert_eq!(decode["caches"], "exceeds", "{decode:#}");
    let left = 1.0 - disturbed(decode);
    assert!(
        part(decode, "memory") > 0.6 * left && part(decode, "memory") > 2.0 * part(decode, "compute"),
        "{decode:#}"
    );
    // Nothing else can be as much of the time then.
    if disturbed(decode) < 0.3 {
        assert_eq!(decode["bound"], "memory", "{decode:#}");
    }
    let moved = decode["rates"]["bytes_per_s"].as_f64();
    assert!(decode["bound"] != "memory" || moved.is_some_and(|moved| moved > 1e9), "{decode:#}");
    let advice = rows(&verdict["advice"]).find(|row| row["what"] == "Use F16 weights instead of F32");
    let advice = advice.unwrap_or_else(|| panic!("{verdict:#}"));
    assert!(
        advice["gain_at_most"].as_f64().unwrap() <= part(decode, "memory"),
        "half the bytes, at no more than the limit: {advice}"
    );
}

#[test]
#[ignore = "needs root"]
fn a_long_prompt_is_compute_bound() {
    let _alone = alone();
    with_limits();
    let workload = Workload { prompt: 128, tokens: 1, ..workload("medium-dense", 1) };
    let verdict = verdict(&record(Engine::Wheel, &workload, &[]));
    assert_adds_up(&verdict);
    let prefill = find(&verdict["phases"], "phase", "prefill");
    assert!(part(prefill, "compute") > 0.8 * (1.0 - disturbed(prefill)), "{prefill:#}");
    assert!(part(prefill, "memory") < 0.1, "{prefill:#}");
    if disturbed(prefill) < 0.4 {
        assert_eq!(prefill["bound"], "compute", "{prefill:#}");
    }
    assert_advises_of_a_library(&verdict, prefill);
    let products = rows(&verdict["operators"]).filter(|row| row["op"] == "MUL_MAT" && row["phase"] == "prefill");
    let intensities: Vec<f64> = products.map(|row| row["rates"]["intensity"].as_f64().unwrap()).collect();
    assert!(intensities.iter().any(|operations| *operations > 30.0), "{intensities:?}");
}

/// One lane of two calls a library, which has threads of its own: the other lane has nothing to do meanwhile.
#[test]
#[ignore = "needs root"]
fn products_that_a_library_computes_for_one_lane_are_compute_bound() {
    let _alone = alone();
    with_limits();
    // Whatever it takes this processor for, it has fast kernels.
    let environment = &[("OPENBLAS_CORETYPE", "Haswell")];
    let workload = Workload { prompt: 256, tokens: 1, environment, ..workload("small-dense", 2) };
    let verdict = verdict(&record(Engine::Blas, &workload, &[]));
    assert_adds_up(&verdict);
    let prefill = find(&verdict["phases"], "phase", "prefill");
    let left = 1.0 - disturbed(prefill);
    assert!(part(prefill, "compute") > 0.5 * left, "{prefill:#}");
    // The other lane's time would be as much as that of the products.
    assert!(part(prefill, "overhead") < 0.5 * part(prefill, "compute"), "{prefill:#}");
    let products = rows(&verdict["operators"]).filter(|row| row["op"] == "MUL_MAT" && row["phase"] == "prefill");
    let of_peak: Vec<f64> = products
        .filter_map(|row| Some(row["rates"]["flops_per_s"].as_f64()? / row["rates"]["peak_limit"].as_f64()?))
        .collect();
    assert!(!of_peak.is_empty() && of_peak.iter().all(|part| *part < 1.3), "{of_peak:?}");
}

/// The shipped probeset's own advice, where what it asks for is so on this machine: the gain is what the peak leaves.
fn assert_advises_of_a_library(verdict: &Value, prefill: &Value) {
    let of = |key: &str| prefill["rates"][key].as_f64();
    let of_peak = of("flops_per_s").zip(of("peak_limit")).map(|(flops, peak)| flops / peak);
    let applies = prefill["bound"] == "compute" && of_peak.is_some_and(|of_peak| of_peak < 0.4);
    let says = "Use a build with a BLAS backend (OpenBLAS, BLIS), which takes over products of 32 and more tokens";
    let advice = rows(&verdict["advice"]).find(|row| row["what"] == says && row["phase"] == "prefill");
    assert_eq!(advice.is_some(), applies, "{of_peak:?}: {verdict:#}");
    if let Some(advice) = advice {
        // Products alone are taken over: they are nearly all that computes.
        let most = part(prefill, "compute") * (1.0 - of_peak.unwrap());
        let gain = advice["gain_at_most"].as_f64().unwrap();
        assert!(gain < most + 1e-6 && gain > 0.8 * most, "{most}: {advice}");
        assert!(advice["how"].as_str().unwrap().contains("the machine's limit"), "{advice}");
    }
}

/// Products of a few kilobytes: no limit of the machine matters.
#[test]
#[ignore = "needs root"]
fn decode_of_a_tiny_model_is_overhead_and_never_memory_bound() {
    let _alone = alone();
    with_limits();
    let workload = Workload { tokens: 40, ..workload("tiny-dense", 1) };
    let verdict = verdict(&record(Engine::Wheel, &workload, &[]));
    assert_adds_up(&verdict);
    let decode = find(&verdict["phases"], "phase", "decode");
    assert_eq!(part(decode, "memory"), 0.0, "{decode:#}");
    assert_eq!(decode["caches"], "fits", "{decode:#}");
    assert!(part(decode, "overhead") > 0.4 * (1.0 - disturbed(decode)), "{decode:#}");
    // At most one other part is larger then, and by no more than half.
    if disturbed(decode) < 0.25 {
        assert_says(decode, "overhead");
    }
    let sentences = verdict["sentences"].to_string();
    assert!(!sentences.contains("memory-bound"), "{sentences}");
}

#[test]
#[ignore = "needs root"]
fn a_competitor_on_the_only_cpu_starves_it() {
    let _alone = alone();
    with_limits();
    let competitor = Competitor::on(0);
    let workload = Workload { tokens: 8, ..workload("medium-dense", 1) };
    let words = Engine::Wheel.command(&workload);
    let recording = Recording::new(
        "llama",
        &[],
        |command| {
            command.args(["--", "taskset", "-c", "0"]).args(&words);
        },
        0,
    );
    let verdict = verdict(&recording);
    assert_adds_up(&verdict);
    let decode = find(&verdict["phases"], "phase", "decode");
    assert!(part(decode, "starved") > 0.25, "{decode:#}");
    let bounds: Vec<&Value> = vec![&decode["bound"], &decode["also"]];
    assert!(bounds.contains(&&"starved".into()) || part(decode, "starved") < 0.4, "{decode:#}");
    let interference = recording.report(&[])["threads"]["interference"].clone();
    let row = rows(&interference).find(|row| row["pid"] == competitor.pid());
    let row = row.unwrap_or_else(|| panic!("{interference:#}"));
    let advice = rows(&verdict["advice"]).find(|row| row["what"].as_str().unwrap().starts_with("Reserve CPUs for it"));
    let advice = advice.unwrap_or_else(|| panic!("{verdict:#}"));
    // Whatever else runs on this machine may have taken more; else it is named.
    let taken = |row: &Value| row["taken_ns"].as_f64().unwrap();
    let others = rows(&interference).filter(|row| row["own"] == false && row["recorder"] == false);
    if taken(row) > 0.8 * others.map(taken).sum::<f64>() {
        assert!(advice["what"].as_str().unwrap().contains("`sh`"), "{advice}: {interference:#}");
    }
}

#[test]
#[ignore = "needs root"]
fn more_lanes_than_cpus_are_in_each_others_way() {
    let _alone = alone();
    with_limits();
    let cpus = std::thread::available_parallelism().unwrap().get() as u64;
    let lanes = 2 * cpus;
    let workload = Workload { prompt: 4, tokens: 5, ..workload("medium-dense", lanes) };
    let verdict = verdict(&record(Engine::Wheel, &workload, &[]));
    assert_adds_up(&verdict);
    let decode = find(&verdict["phases"], "phase", "decode");
    assert_eq!(decode["bound"], "starved", "{decode:#}");
    let evidence = decode["evidence"].to_string();
    let expected = format!("{lanes} lanes share {cpus} CPU");
    assert!(evidence.contains(&expected), "{evidence}");
    let what = format!("instead of {lanes}: one per CPU");
    let advice = rows(&verdict["advice"]).find(|row| row["what"].as_str().unwrap().ends_with(&what));
    let gain = advice.unwrap_or_else(|| panic!("{verdict:#}"))["gain_as_recorded"].as_f64().unwrap();
    assert!(gain > 0.1, "{gain}");
}

/// Before each batch the model is put out of memory.
#[test]
#[ignore = "needs root"]
fn a_model_out_of_memory_is_disk_bound() {
    let _alone = alone();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (evict, copy) = (path("evict.so"), path("moe.gguf"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engines/evict.c");
    run(Command::new("cc").args(["-O2", "-shared", "-fPIC", "-o", &evict]).arg(source).arg("-ldl"), 0);
    std::fs::copy(model("tiny-moe"), &copy).unwrap();
    run(Command::new("sync").arg(&copy), 0);
    let work = Workload { tokens: 4, ..workload("tiny-moe", 1) };
    let cached = model("tiny-moe").display().to_string();
    let words = Engine::Shared.command(&work);
    let words: Vec<String> = words.into_iter().map(|word| if word == cached { copy.clone() } else { word }).collect();
    let preload = format!("LD_PRELOAD={evict}");
    let recording = Recording::new(
        "llama",
        &[],
        |command| {
            command.args(["--", "env", &preload]).args(&words);
        },
        0,
    );
    let verdict = verdict(&recording);
    assert_adds_up(&verdict);
    let decode = find(&verdict["phases"], "phase", "decode");
    let (disk, starved) = (part(decode, "disk"), part(decode, "starved"));
    assert!(disk > 0.4 * (1.0 - starved), "{decode:#}");
    if starved < 0.25 {
        assert_says(decode, "disk");
    }
    let evidence = decode["evidence"].to_string();
    assert!(evidence.contains("waiting for the disk") && evidence.contains("major fault"), "{evidence}");
    let advice = rows(&verdict["advice"]).find(|row| row["what"].as_str().unwrap().starts_with("Keep the "));
    assert!(advice.is_some(), "{verdict:#}");
}

/// What other processes take from it is in the verdict, by name.
#[test]
#[ignore = "needs root"]
fn a_neighbour_on_the_only_cpu_of_onnxruntime_is_named() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("run.pfi");
    let _neighbour = Competitor::on(0);
    let mut command = profinfer(&["record", "onnxruntime", "-o", trace.to_str().unwrap(), "--", "taskset", "-c", "0"]);
    command.arg(installed_version("install_onnxruntime.sh", "newest"));
    succeeds(command.arg(scripts().join("run_onnxruntime.py")).arg(folder.path()).arg("300"));
    let verdict = json(&["report", trace.to_str().unwrap(), "--json"])["verdict"].clone();
    assert_eq!(verdict["phases"][0]["bound"], "starved", "{verdict:#}");
    assert!(verdict["sentences"][0].as_str().unwrap().contains("`sh`"), "{verdict:#}");
}
