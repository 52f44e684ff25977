//! What advice promises, tested by taking it: the engine's own clock, with nothing recorded, before and after.

use crate::competitor::Competitor;
use crate::control_group::{ControlGroup, evict};
use crate::engine::{Engine, Workload, alone, engine_time, model, with_limits, workload};
use crate::find;
use crate::recording::Recording;
use serde_json::Value;
use std::process::Command;

/// Pairs of runs, at most: as it is, and as advised.
const ROUNDS: usize = 5;
/// What the machine's noise may add to or take from a gain.
const NOISE: f64 = 0.05;

/// A run as it is, and as it is advised.
struct Advised<'a> {
    advice: &'a str,
    /// As the engine names its time.
    time: &'a str,
    now: Vec<String>,
    then: Vec<String>,
    /// Processors with faster caches, or a backend near their peak, have no use for it.
    depends_on_machine: bool,
}

fn words(before: &[&str], workload: &Workload) -> Vec<String> {
    let before = before.iter().map(|&word| word.to_owned());
    before.chain(Engine::Wheel.command(workload)).collect()
}

fn report(words: &[String]) -> Value {
    let set = |record: &mut Command| {
        record.arg("--").args(words);
    };
    Recording::new("llama", &[], set, 0).report(&[])
}

/// What is to be gained: no more than was promised, and no less than a third of what the recording shows, since threads
/// that took turns and then run at the same time share the memory's bandwidth; without a bound, as much as the recording
/// shows, or more.
fn promised(of: &Advised) -> Option<std::ops::RangeInclusive<f64>> {
    let phase = of.time.strip_suffix("_ms").unwrap();
    let report = report(&of.now);
    let advice = report["verdict"]["advice"].as_array().unwrap();
    let is_it = |row: &&Value| row["phase"] == phase && row["what"].as_str().unwrap().contains(of.advice);
    let Some(found) = advice.iter().find(is_it) else {
        let verdict = find(&report["verdict"]["phases"], "phase", phase);
        let of_peak = verdict["rates"]["flops_per_s"].as_f64().zip(verdict["rates"]["peak_limit"].as_f64());
        let near_peak = of_peak.is_some_and(|(flops, peak)| flops >= 0.4 * peak);
        assert!(of.depends_on_machine && (verdict["bound"] != "memory" || near_peak), "{}: {verdict:#}", of.advice);
        return None;
    };
    let recorded = found["gain_as_recorded"].as_f64().unwrap();
    Some(match found["gain_at_most"].as_f64() {
        Some(most) => recorded / 3.0 - NOISE..=most + NOISE,
        None => recorded - NOISE..=1.0,
    })
}

/// `make` makes the cause while it lives.
fn assert_gained<T>(of: &Advised, make: impl Fn() -> T) {
    let promised = {
        let _cause = make();
        promised(of)
    };
    let Some(promised) = promised else { return };
    let (mut gained, mut too_little, mut too_much) = (Vec::new(), true, true);
    // Others of the machine disturb single rounds. That all five are on one side of a value that their median is not
    // happens once in 32 times. No more rounds than it takes to rule both sides out.
    while gained.len() < ROUNDS && (too_little || too_much) {
        let cause = make();
        let now = engine_time(&of.now, of.time);
        drop(cause);
        let gain = 1.0 - engine_time(&of.then, of.time) / now;
        too_little &= gain < *promised.start();
        too_much &= gain > *promised.end();
        gained.push(gain);
    }
    println!("{}: {promised:.3?}, {gained:.3?} gained", of.advice);
    assert!(!too_little && !too_much, "{}: {promised:?}, {gained:?} gained", of.advice);
}

/// Weights of which memory is the limit; halves of small ones fit the last cache of some machines.
#[test]
#[ignore = "needs root"]
fn smaller_weights_gain_what_is_promised() {
    let _alone = alone();
    with_limits();
    for (model, smaller) in [("small-dense", "small-dense-f16"), ("wide-dense", "wide-dense-f16")] {
        let of = |model| words(&[], &Workload { tokens: 32, ..workload(model, 1) });
        let advised = Advised {
            advice: "Use F16 weights instead of F32",
            time: "decode_ms",
            now: of(model),
            then: of(smaller),
            depends_on_machine: true,
        };
        assert_gained(&advised, || ());
    }
}

/// Threads that wait for each other's turns on a CPU.
#[test]
#[ignore = "needs root"]
fn fewer_threads_gain_what_is_promised() {
    let _alone = alone();
    with_limits();
    let of = |threads| Workload { tokens: 8, ..workload("wide-dense", threads) };
    let nearly_in_cache = |threads| Workload { tokens: 12, ..workload("small-dense", threads) };
    let (one_cpu, two_cpus) = (["taskset", "-c", "1"], ["taskset", "-c", "0,1"]);
    let rows = [
        ("Use 1 thread instead of 2", words(&one_cpu, &of(2)), words(&one_cpu, &of(1))),
        ("instead of 8", words(&two_cpus, &of(8)), words(&two_cpus, &of(2))),
        ("instead of 8", words(&two_cpus, &nearly_in_cache(8)), words(&two_cpus, &nearly_in_cache(2))),
    ];
    for (advice, now, then) in rows {
        assert_gained(&Advised { advice, time: "decode_ms", now, then, depends_on_machine: false }, || ());
    }
}

/// What another process, and a quota, take from it.
#[test]
#[ignore = "needs root"]
fn without_what_starves_it_it_gains_what_is_promised() {
    let _alone = alone();
    with_limits();
    let decode = workload("small-dense", 1).lasting(0.6);
    let pinned = words(&["taskset", "-c", "0"], &decode);
    let advised = Advised {
        advice: "Reserve CPUs for it",
        time: "decode_ms",
        now: pinned.clone(),
        then: pinned.clone(),
        depends_on_machine: false,
    };
    assert_gained(&advised, || Competitor::on(0));
    let group = ControlGroup::of_cpus(40_000);
    // Several periods of the quota: it starts anywhere in one.
    let pinned = words(&["taskset", "-c", "0"], &decode.lasting(1.6));
    let limited = group.command().into_iter().chain(pinned.iter().cloned()).collect();
    let advice = "Raise the CPU quota of its control group";
    assert_gained(&Advised { advice, time: "decode_ms", now: limited, then: pinned, depends_on_machine: false }, || ());
}

/// With kernels of the library for this processor, and not for those of 2004, which Debian's takes for processors that are
/// newer than itself.
fn by_blas(core: &str, workload: &Workload) -> Vec<String> {
    let mut words = vec!["env".to_owned(), format!("OPENBLAS_CORETYPE={core}")];
    words.extend(Engine::Blas.command(workload));
    words
}

/// The best of the library's kernels that this processor can run.
fn core() -> &'static str {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let has = |feature: &str| info.split_whitespace().any(|word| word == feature);
    if has("avx512vl") && has("avx512dq") { "SkylakeX" } else { "Haswell" }
}

/// A backend for products of large matrices, which a build has or has not.
#[test]
#[ignore = "needs root"]
fn another_backend_gains_what_is_promised() {
    let _alone = alone();
    with_limits();
    let prefill = Workload { prompt: 256, tokens: 1, ..workload("small-dense", 1) };
    let advised = Advised {
        advice: "Use a build with a BLAS backend",
        time: "prefill_ms",
        now: Engine::Plugins.command(&prefill),
        then: by_blas(core(), &prefill),
        depends_on_machine: true,
    };
    assert_gained(&advised, || ());
}

/// A library that takes the processor for an old one.
#[test]
#[ignore = "needs root"]
fn kernels_for_this_processor_gain_what_is_promised() {
    let _alone = alone();
    with_limits();
    let prefill = Workload { prompt: 512, tokens: 1, ..workload("small-dense", 1) };
    let advised = Advised {
        advice: "Have OpenBLAS use this processor's instructions",
        time: "prefill_ms",
        now: by_blas("Prescott", &prefill),
        then: by_blas(core(), &prefill),
        depends_on_machine: true,
    };
    assert_gained(&advised, || ());
    // What it has need not be advised.
    let advice = report(&advised.now)["verdict"]["advice"].to_string();
    assert!(!advice.contains("with a BLAS backend"), "{advice}");
}

/// A memory limit below the weights, which are read again for each token.
#[test]
#[ignore = "needs root"]
fn a_larger_memory_limit_gains_what_is_promised() {
    let _alone = alone();
    with_limits();
    let group = ControlGroup::of_memory(170 << 20);
    let free = words(&[], &Workload { prompt: 4, tokens: 6, ..workload("wide-dense", 1) });
    let limited = group.command().into_iter().chain(free.iter().cloned()).collect();
    let advice = "Raise the memory limit of its control group";
    let advised = Advised { advice, time: "decode_ms", now: limited, then: free, depends_on_machine: false };
    assert_gained(&advised, || evict(&model("wide-dense")));
}
