//! Runs of a real engine whose cause is made on purpose, from a table in data: what the report has to name as the limit,
//! beside it, and as advice. Other programs may disturb a run: what they take is left out of what is asserted.

use crate::control_group::{ControlGroup, evict};
use crate::engine::{Engine, Workload, alone, larger_than_caches, model, with_limits, workload};
use crate::process::{profinfer, run};
use crate::recording::Recording;
use crate::{find, rows};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

#[derive(Debug, Deserialize)]
struct Case {
    cause: String,
    /// How it is made; nothing but the workload where left out.
    how: Option<String>,
    #[serde(default)]
    value: u64,
    /// Everything of it is on this CPU.
    cpu: Option<u64>,
    /// The run is that of the row before.
    #[serde(default)]
    same: bool,
    /// A name, or `larger than the caches`.
    model: String,
    threads: Option<u64>,
    prompt: u64,
    tokens: u64,
    phase: String,
    bound: Option<String>,
    /// The verdict or its second cause.
    either: Option<String>,
    /// The other part that matters most.
    second: Option<String>,
    /// Parts that must not be the verdict, nor the second cause.
    #[serde(default)]
    not: Vec<String>,
    #[serde(default)]
    above: BTreeMap<String, f64>,
    #[serde(default)]
    below: BTreeMap<String, f64>,
    evidence: Option<String>,
    no_evidence: Option<String>,
    advice: Option<String>,
    no_advice: Option<String>,
    gain_at_most: Option<f64>,
    /// That advice is the first of the phase.
    #[serde(default)]
    first: bool,
}

impl Case {
    fn stops_it(&self) -> bool {
        matches!(self.how.as_deref(), Some("stop" | "pause"))
    }
}

/// The command that makes the cause, and what has to live as long as it.
fn command(case: &Case, words: &[String]) -> (Vec<String>, Option<ControlGroup>) {
    let text = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<String>>();
    let with = |mut before: Vec<String>| {
        before.extend_from_slice(words);
        before
    };
    let quoted = words.iter().map(|word| format!("'{word}'")).collect::<Vec<String>>().join(" ");
    match case.how.as_deref() {
        None => (words.to_vec(), None),
        Some("quota") => {
            let group = ControlGroup::of_cpus(case.value);
            (with(group.command()), Some(group))
        }
        Some("memory") => {
            let group = ControlGroup::of_memory(case.value);
            (with(group.command()), Some(group))
        }
        Some("evict" | "evict_first") => (words.to_vec(), None),
        Some(how @ ("stop" | "pause")) => {
            let pause = case.value as f64 / 1000.0;
            let runs = if how == "stop" { pause } else { 9.0 * pause };
            // It is stopped once it computes: while libraries are loaded, the recorder stops it too.
            let script = format!(
                "{quoted} & p=$!; while kill -0 $p && ! grep -q gguf /proc/$p/maps; do sleep 0.05; done; sleep 0.3; \
                 while kill -STOP $p 2>/dev/null; do sleep {pause}; kill -CONT $p; sleep {runs}; \
                 done; wait $p"
            );
            (text(&["sh", "-c", &script]), None)
        }
        Some("child") => {
            // The neighbour's CPU may be the target's; it has more of it than whatever else runs there.
            let script = format!(
                "nice -n -5 taskset -c {} sh -c 'while :; do :; done' & b=$!; {quoted}; s=$?; kill $b; exit $s",
                case.value
            );
            (text(&["sh", "-c", &script]), None)
        }
        Some(other) => panic!("{other}?"),
    }
}

/// The library that puts a model out of memory, in front of a command.
fn evicting(case: &Case, folder: &Path, words: Vec<String>) -> Vec<String> {
    let library = folder.join("evict.so").display().to_string();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engines/evict.c");
    run(Command::new("cc").args(["-O2", "-shared", "-fPIC", "-o", &library]).arg(source).arg("-ldl"), 0);
    let mut before = vec!["env".to_owned(), format!("LD_PRELOAD={library}")];
    if case.value > 0 {
        before.push(format!("EVICT_BYTES={}", case.value));
    }
    if case.how.as_deref() == Some("evict_first") {
        before.push("EVICT_BATCHES=1".to_owned());
    }
    before.extend(words);
    before
}

fn record(case: &Case) -> Recording {
    let threads = case.threads.unwrap_or(1);
    let name: &'static str = match case.model.as_str() {
        "larger than the caches" => larger_than_caches(),
        name => Box::leak(name.to_owned().into_boxed_str()),
    };
    let of = Workload { prompt: case.prompt, tokens: case.tokens, ..workload(name, threads) };
    let of = if case.stops_it() { of.lasting(1.6 / threads as f64) } else { of };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let evicts = case.how.as_deref().is_some_and(|how| how.starts_with("evict"));
    // The library's function is called by name where the engine is a library.
    let mut words = if evicts { Engine::Shared } else { Engine::Wheel }.command(&of);
    if case.how.as_deref() == Some("memory") || evicts {
        // A file of its own, out of the page cache: pages belong to the group that reads them first.
        let copy = folder.path().join("model.gguf");
        std::fs::copy(model(name), &copy).unwrap();
        evict(&copy);
        let original = model(name).display().to_string();
        words.iter_mut().filter(|word| **word == original).for_each(|word| *word = copy.display().to_string());
    }
    if evicts {
        words = evicting(case, folder.path(), words);
    }
    if let Some(cpu) = case.cpu {
        words.splice(0..0, ["taskset".to_owned(), "-c".to_owned(), cpu.to_string()]);
    }
    let (command, group) = command(case, &words);
    let set = |record: &mut Command| {
        record.arg("--").args(&command);
    };
    let recording = Recording::new("llama", &[], set, 0);
    drop(group);
    recording
}

fn check(case: &Case, recording: &Recording) {
    let report = recording.report(&[]);
    assert_verdict(case, &report["verdict"]);
    assert_screen(case, recording);
}

fn assert_verdict(case: &Case, verdict: &Value) {
    let phase = find(&verdict["phases"], "phase", &case.phase);
    let what = &case.cause;
    let part = |name: &str| phase["parts"][name].as_f64().unwrap();
    // What other programs took, where these are not the cause.
    let disturbed = if case.above.contains_key("starved") { 0.0 } else { part("starved") + part("unknown") };
    let left = 1.0 - disturbed;
    let calm = disturbed < 0.3 || case.bound.as_deref() == Some("starved");
    for (name, most) in &case.below {
        assert!(part(name) <= *most, "{what}: {name} {}\n{phase:#}", part(name));
    }
    if case.how.as_deref() == Some("quota") && !calm && !case.below.contains_key("throttled") {
        // Neighbours leave it less than its quota: then it is hardly throttled, and they are to blame.
        assert!(phase["bound"] == "starved" || phase["bound"] == "throttled", "{what}: {phase:#}");
        return;
    }
    for (name, least) in &case.above {
        assert!(part(name) >= least * left, "{what}: {name} {} of {left}\n{phase:#}", part(name));
    }
    if let Some(bound) = &case.bound {
        let others = ["memory", "compute", "disk", "synchronisation", "throttled", "stopped", "reclaim", "overhead"];
        let largest = others.into_iter().max_by(|a, b| part(a).total_cmp(&part(b))).unwrap();
        assert!(bound == "starved" || largest == bound, "{what}: {largest}\n{phase:#}");
        assert!(!calm || phase["bound"] == bound.as_str(), "{what}: {phase:#}");
    }
    if let Some(either) = &case.either {
        assert!(!calm || phase["bound"] == either.as_str() || phase["also"] == either.as_str(), "{what}: {phase:#}");
    }
    if let Some(second) = &case.second {
        let work = ["memory", "compute", "overhead"];
        let most = work.into_iter().max_by(|a, b| part(a).total_cmp(&part(b))).unwrap();
        assert_eq!(most, second, "{what}: {phase:#}");
    }
    for not in &case.not {
        assert!(phase["bound"] != not.as_str() && phase["also"] != not.as_str(), "{what}: {phase:#}");
    }
    if let Some(evidence) = &case.evidence {
        assert!(phase["evidence"].to_string().contains(evidence), "{what}: {}", phase["evidence"]);
    }
    if let Some(unwanted) = &case.no_evidence {
        assert!(!phase["evidence"].to_string().contains(unwanted), "{what}: {}", phase["evidence"]);
    }
    let of_phase: Vec<&Value> = rows(&verdict["advice"]).filter(|row| row["phase"] == case.phase.as_str()).collect();
    let has = |row: &&&Value, text: &str| row["what"].as_str().unwrap().contains(text);
    if let Some(unwanted) = &case.no_advice {
        assert!(!of_phase.iter().any(|row| has(&row, unwanted)), "{what}: {of_phase:#?}");
    }
    // Advice on work is that of the verdict, which a busy machine changes.
    if let Some(wanted) = case.advice.as_ref().filter(|_| calm || case.how.is_some() || case.threads.is_some()) {
        let at = of_phase.iter().position(|row| has(&row, wanted));
        let at = at.unwrap_or_else(|| panic!("{what}: {wanted} is not in {of_phase:#?}\n{phase:#}"));
        let gain = |key: &str| of_phase[at][key].as_f64();
        let gain = gain("gain_at_most").or(gain("gain_as_recorded")).unwrap();
        assert!(gain > 0.03 && case.gain_at_most.is_none_or(|most| gain <= most), "{what}: {gain}");
        assert!(!case.first || at == 0, "{what}: {of_phase:#?}");
    }
}

/// The first screen: 30 lines, 80 characters, verdict included.
fn assert_screen(case: &Case, recording: &Recording) {
    let output = profinfer(&["report", recording.path().to_str().unwrap()]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().count() <= 30, "{}: {}\n{text}", case.cause, text.lines().count());
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{}:\n{text}", case.cause);
    assert!(text.contains("Operators of") && text.contains("first token"), "{}:\n{text}", case.cause);
}

#[test]
#[ignore = "needs root"]
fn causes_made_on_purpose_are_named() {
    let _alone = alone();
    with_limits();
    let wanted = std::env::var("TRUTH_CASE").unwrap_or_default();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engines/truth_cases.json");
    let cases: Vec<Case> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut failed = Vec::new();
    let mut recording: Option<(usize, Recording)> = None;
    for (index, case) in cases.iter().enumerate().filter(|(_, case)| case.cause.contains(&wanted)) {
        let run_of = (0..=index).rev().find(|at| !cases[*at].same).unwrap_or(0);
        let mut is_right = || {
            let attempt = std::panic::AssertUnwindSafe(|| {
                let cached = recording.take().filter(|(of, _)| *of == run_of);
                let (_, found) = recording.insert(cached.unwrap_or_else(|| (run_of, record(&cases[run_of]))));
                check(case, found);
            });
            let is_right = std::panic::catch_unwind(attempt).is_ok();
            // What is wrong of this run may be true of it: another one is made.
            recording.take_if(|_| !is_right);
            is_right
        };
        // The machine has other causes of its own: where one run is wrong, two more have to be right.
        let right = is_right() || (is_right() && is_right());
        failed.extend((!right).then_some(&case.cause));
    }
    assert!(cases.len() >= 24, "{}", cases.len());
    assert!(failed.is_empty(), "{failed:#?}");
}
