//! Models of each kind on each build of an engine: every step, graph and operator of a recording is one that the engine names
//! of the same work.

use crate::engine::{Engine, Workload, python, workload};
use crate::recording::Recording;
use crate::work::{self, Experts, Step, assert_same, operator_types};
use crate::{find, rows};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The reference program's option for one thread pool for the whole run.
const KEEP_WORKERS: &str = "--keep-workers";

/// Records an engine from its first instruction to its last.
pub(crate) fn record(engine: Engine, workload: &Workload, arguments: &[&str]) -> Recording {
    let words = engine.command(workload);
    let set = |command: &mut std::process::Command| {
        command.envs(workload.environment.iter().copied()).arg("--").args(&words);
    };
    Recording::new("llama", arguments, set, 0)
}

/// Records an engine, has it say what it does in another run, and compares all there is to compare.
fn assert_true(engine: Engine, workload: &Workload) -> Recording {
    let truth = engine.truth(workload, false).steps;
    let recording = record(engine, workload, &[]);
    let what = format!("{engine:?}, {workload:?}");
    assert_same(&what, &recording.work(), &truth);
    recording.assert_lanes(workload.threads);
    recording.assert_complete();
    assert_alternative(engine, &recording);
    assert_report(&recording, &truth, workload);
    assert_times(engine, &recording);
    assert_workers(engine, workload, &recording, truth.len());
    recording
}

/// The kernel dispatcher is the first choice; where the compiler has dissolved it, the function that it calls first.
fn assert_alternative(engine: Engine, recording: &Recording) {
    let expected = match engine {
        Engine::Symbols | Engine::Inlined => ("ggml_compute_forward", 0),
        _ => ("ggml_cpu_extra_compute_forward", 1),
    };
    assert_eq!(recording.sites("operator"), BTreeMap::from([(expected.0.to_owned(), expected.1)]));
    let mut graph = BTreeMap::from([("ggml_backend_cpu_graph_compute".to_owned(), 0)]);
    if engine == Engine::Plugins {
        // Until the backend itself was mapped, this was the best there was.
        graph.insert("ggml_backend_graph_compute_async".to_owned(), 1);
    }
    assert_eq!(recording.sites("graph"), graph);
}

/// The report's numbers are the engine's own.
fn assert_report(recording: &Recording, truth: &[Step], workload: &Workload) {
    let report = recording.report(&[]);
    assert_eq!(report["completeness"]["steps"], truth.len());
    let mut computed = 0;
    for (phase, is_prefill) in [("prefill", true), ("decode", false)] {
        let steps: Vec<&Step> = truth.iter().filter(|step| (step.tokens > 1) == is_prefill).collect();
        let row = find(&report["phases"], "phase", phase);
        assert_eq!(row["steps"], steps.len());
        assert_eq!(row["tokens"], steps.iter().map(|step| step.tokens).sum::<u64>());
        assert_eq!(row["graphs"], steps.iter().map(|step| step.graphs.len()).sum::<usize>());
        computed += row["operators"].as_u64().unwrap();
    }
    let mut types = operator_types(truth.iter().flat_map(Step::operators));
    let (fused, parts) = recording.fused();
    for (part, count) in parts {
        *types.get_mut(&part).unwrap() -= count;
    }
    types.extend(fused);
    types.retain(|_, count| *count > 0);
    let reported: BTreeMap<String, u64> = rows(&report["operator_types"])
        .map(|row| (row["op"].as_str().unwrap().to_owned(), row["count"].as_u64().unwrap()))
        .collect();
    assert_eq!(reported, types, "operator types");
    assert_eq!(computed, types.values().sum::<u64>(), "operators");
    assert_eq!(report["lanes"], workload.threads);
    let shares: Vec<u64> = rows(&report["lane_rows"]).map(|lane| lane["shares"].as_u64().unwrap()).collect();
    assert_eq!(shares, vec![computed; usize::try_from(workload.threads).unwrap()], "each lane's share of operators");
    assert_eq!(find(&report["backends"], "backend", "cpu")["operators"], computed);
    for number in [1, truth.len()] {
        assert_step_report(recording, &truth[number - 1], number, workload.threads);
    }
}

fn assert_step_report(recording: &Recording, truth: &Step, number: usize, lanes: u64) {
    let step = &recording.report(&["--step", &number.to_string()])["step"];
    assert_eq!(step["tokens"], truth.tokens);
    let mut parts = truth.operators();
    for operator in rows(&step["operators"]) {
        // A fused one is called after its last part.
        let fused = operator["covers"].is_string();
        let node = &parts.nth(usize::from(fused)).unwrap().result;
        assert_eq!(operator["name"], node.name.as_str());
        assert_eq!(operator["shape"], serde_json::json!(node.shape));
        assert_eq!(operator["dtype"].as_str().unwrap().to_lowercase(), node.dtype);
        assert!(fused || operator["op"] == node.op.as_str(), "{operator}");
        assert_eq!(rows(&operator["lanes"]).count() as u64, lanes);
    }
    assert_eq!(parts.next(), None, "all of the step's operators are in its report");
}

/// Recorded times are those of the same clock: the engine's own are around the same calls.
fn assert_times(engine: Engine, recording: &Recording) {
    if engine == Engine::Wheel {
        return; // which says nothing of the first step
    }
    let reported: Value = serde_json::from_slice(&recording.output.stdout).unwrap();
    let reported = reported["prefill_ms"].as_f64().unwrap() + reported["decode_ms"].as_f64().unwrap();
    let recorded = recording.step_durations().into_iter().sum::<i64>() as f64 / 1e6;
    assert!(recorded < reported && recorded > 0.3 * reported, "{recorded} ms recorded, {reported} ms reported");
}

/// The second lane is one thread where workers are kept, else one for each graph. The wheel decides for itself.
fn assert_workers(engine: Engine, workload: &Workload, recording: &Recording, graphs: usize) {
    if engine != Engine::Wheel && workload.threads > 1 {
        let kept = workload.options.contains(&KEEP_WORKERS);
        assert_eq!(recording.threads_of_lane(0).len(), 1);
        assert_eq!(recording.threads_of_lane(1).len(), if kept { 1 } else { graphs });
    }
}

/// The experts of every token are what the engine says, and the report has them.
pub(crate) fn assert_experts(engine: Engine, workload: &Workload, recording: &Recording) {
    let truth = engine.truth(workload, true).experts;
    let recorded = recording.experts();
    for (recorded, truth) in recorded.iter().zip(&truth) {
        assert_eq!(recorded, truth, "recorded (left), the engine's word (right)");
    }
    assert_eq!(recorded.len(), truth.len());
    let tokens = truth.iter().map(|experts| experts.ids.len()).max();
    assert_eq!(tokens, Some(usize::try_from(workload.prompt).unwrap()), "of every token of the prompt");
    let report = recording.report(&["--by", "expert"]);
    let reported: BTreeMap<(String, u64), u64> = rows(&report["experts"])
        .map(|row| {
            let number = |key: &str| row[key].as_u64().unwrap();
            ((row["layer"].as_str().unwrap().to_owned(), number("expert")), number("activations"))
        })
        .collect();
    assert_eq!(reported, choices(&truth));
}

/// How often the tokens of each layer chose each expert. A layer's matrices of an expert are chosen together.
fn choices(all: &[Experts]) -> BTreeMap<(String, u64), u64> {
    let mut counts = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for experts in all {
        let layer = experts.node.rsplit_once('-').unwrap().1;
        if seen.insert((experts.step, layer)) {
            for id in experts.ids.iter().flatten() {
                *counts.entry((layer.to_owned(), id.unsigned_abs())).or_default() += 1;
            }
        }
    }
    counts
}

fn assert_dense(engine: Engine) {
    for threads in [1, 2] {
        let recording = assert_true(engine, &workload("tiny-dense", threads));
        assert!(recording.count("fused") > 0, "this engine fuses operators");
        assert_eq!(recording.count("experts"), 0);
    }
}

fn assert_moe(engine: Engine) {
    for threads in [1, 2] {
        let workload = workload("tiny-moe", threads);
        let recording = assert_true(engine, &workload);
        assert_experts(engine, &workload, &recording);
    }
}

#[test]
#[ignore = "needs root"]
fn a_dense_model_on_the_wheel() {
    assert_dense(Engine::Wheel);
}

#[test]
#[ignore = "needs root"]
fn a_dense_model_on_shared_libraries() {
    assert_dense(Engine::Shared);
}

#[test]
#[ignore = "needs root"]
fn a_dense_model_on_an_engine_with_symbols() {
    assert_dense(Engine::Symbols);
}

#[test]
#[ignore = "needs root"]
fn a_dense_model_on_an_engine_with_its_dispatcher_inlined() {
    assert_dense(Engine::Inlined);
}

#[test]
#[ignore = "needs root"]
fn a_mixture_of_experts_on_an_engine_with_its_dispatcher_inlined() {
    assert_moe(Engine::Inlined);
}

#[test]
#[ignore = "needs root"]
fn a_mixture_of_experts_on_the_wheel() {
    assert_moe(Engine::Wheel);
}

#[test]
#[ignore = "needs root"]
fn a_mixture_of_experts_on_shared_libraries() {
    assert_moe(Engine::Shared);
}

#[test]
#[ignore = "needs root"]
fn a_mixture_of_experts_on_an_engine_with_symbols() {
    assert_moe(Engine::Symbols);
}

#[test]
#[ignore = "needs root"]
fn experts_of_a_long_prompt_are_all_there() {
    let workload = Workload { prompt: 300, tokens: 1, ..workload("tiny-moe", 1) };
    let recording = record(Engine::Shared, &workload, &[]);
    recording.assert_complete();
    assert_experts(Engine::Shared, &workload, &recording);
}

#[test]
#[ignore = "needs root"]
fn repacked_weights() {
    for engine in [Engine::Shared, Engine::Symbols] {
        let workload = Workload { tokens: 4, ..workload("tiny-dense-q4_0", 1) };
        let recording = assert_true(engine, &workload);
        let quantised = |input: &work::Tensor| input.dtype == "q4_0" && input.name.ends_with(".weight");
        let steps = recording.work();
        assert!(steps[0].operators().flat_map(|operator| &operator.inputs).any(quantised));
    }
}

#[test]
#[ignore = "needs root"]
fn operators_that_are_not_fused() {
    for engine in [Engine::Wheel, Engine::Shared] {
        let environment = &[("GGML_CPU_DISABLE_FUSION", "1")];
        let workload = Workload { environment, tokens: 4, ..workload("tiny-dense", 1) };
        assert_eq!(assert_true(engine, &workload).count("fused"), 0);
    }
}

/// As on older kernels, which have no other.
#[test]
#[ignore = "needs root"]
fn older_ways_of_attaching() {
    for engine in [Engine::Wheel, Engine::Shared] {
        let workload = Workload { tokens: 3, ..workload("tiny-moe", 1) };
        let truth = engine.truth(&workload, false).steps;
        for attach in ["multi", "single"] {
            let recording = record(engine, &workload, &["--attach", attach]);
            assert_same(attach, &recording.work(), &truth);
            recording.assert_lanes(1);
            recording.assert_complete();
        }
    }
}

#[test]
#[ignore = "needs root"]
fn a_backend_that_is_loaded_when_the_program_runs() {
    assert_true(Engine::Plugins, &workload("tiny-moe", 1));
    assert_true(Engine::Plugins, &workload("tiny-dense", 2));
}

#[test]
#[ignore = "needs root"]
fn workers_that_are_kept() {
    assert_true(Engine::Shared, &Workload { options: &[KEEP_WORKERS], ..workload("tiny-moe", 2) });
}

#[test]
#[ignore = "needs root"]
fn only_the_level_asked_for() {
    for (engine, step) in [(Engine::Wheel, "process"), (Engine::Shared, "decode")] {
        let workload = Workload { tokens: 3, ..workload("tiny-moe", 1) };
        let truth = engine.truth(&workload, false).steps;
        for (level, graphs) in [("step", 0), ("graph", truth.len())] {
            let recording = record(engine, &workload, &["--level", level]);
            recording.assert_complete();
            assert_eq!(recording.count(step), truth.len());
            assert_eq!(recording.count("graph"), graphs);
            let mut names = vec!["exec", "thread", "thread_exit", "ubatch", step];
            names.extend((graphs > 0).then_some("graph"));
            // Requests and their tokens are seen at every level.
            let of_requests =
                |name: &&str| name.starts_with("request_") || name.starts_with("batch_") || *name == "context_freed";
            let mut recorded = recording.names();
            recorded.retain(|name| !of_requests(name));
            assert_eq!(recorded, names.into_iter().collect(), "and nothing else");
            let tokens: Vec<u64> = recording.work().iter().map(|step| step.tokens).collect();
            assert_eq!(tokens, truth.iter().map(|step| step.tokens).collect::<Vec<_>>());
            let phases = &recording.report(&[])["phases"];
            assert_eq!(
                rows(phases).map(|phase| phase["tokens"].as_u64().unwrap()).sum::<u64>(),
                tokens.iter().sum::<u64>()
            );
        }
    }
}

#[test]
#[ignore = "needs root"]
fn only_the_steps_asked_for() {
    let kept: &[&str] = &[KEEP_WORKERS];
    for (engine, threads, options) in [(Engine::Wheel, 1, &[][..]), (Engine::Shared, 2, &[]), (Engine::Shared, 2, kept)]
    {
        let workload = Workload { tokens: 4, options, ..workload("tiny-dense", threads) };
        let truth = engine.truth(&workload, false).steps;
        let recording = record(engine, &workload, &["--steps", "2..4"]);
        assert_same("steps 2..4", &recording.work(), &truth[1..4]);
        recording.assert_lanes(threads);
        recording.assert_complete();
        let reported: Value = serde_json::from_slice(&recording.output.stdout).unwrap();
        assert_eq!(reported["steps"], truth.len(), "the engine went on to its end");
    }
}

/// Runs the script that its arguments name, with the further ones, in a child process.
const FORK: &str = "import os, runpy, sys
sys.argv = sys.argv[1:]
child = os.fork()
if child == 0:
    runpy.run_path(sys.argv[0], run_name='__main__')
    sys.stdout.flush()
    os._exit(40)
sys.exit(2 + os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))";

/// Runs it in this process, and then crashes.
const CRASH: &str = "import os, runpy, sys
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name='__main__')
os.abort()";

/// Records a Python script of ours that runs the wheel.
fn record_python(script: &str, workload: &Workload, arguments: &[&str], status: i32) -> Recording {
    let words = Engine::Wheel.command(workload);
    let set = |command: &mut std::process::Command| {
        command.arg("--").arg(python()).args(["-c", script]).args(&words[1..]);
    };
    Recording::new("llama", arguments, set, status)
}

#[test]
#[ignore = "needs root"]
fn an_engine_in_a_forked_child() {
    let workload = Workload { tokens: 3, ..workload("tiny-dense", 1) };
    let truth = Engine::Wheel.truth(&workload, false).steps;
    let recording = record_python(FORK, &workload, &[], 42);
    assert_same("in a child", &recording.work(), &truth);
    recording.assert_complete();
    let parent = recording.info()["origin"]["pid"].as_u64().unwrap();
    let processes = recording.processes("process");
    assert!(processes.len() == 1 && !processes.contains(&parent), "{processes:?}, {parent}");
    assert_eq!(recording.info()["end"]["exit_code"], 42, "the parent's own");
}

#[test]
#[ignore = "needs root"]
fn an_engine_that_crashes() {
    let workload = Workload { tokens: 3, ..workload("tiny-dense", 1) };
    let truth = Engine::Wheel.truth(&workload, false).steps;
    let recording = record_python(CRASH, &workload, &[], 128 + 6);
    assert_same("before the crash", &recording.work(), &truth);
    recording.assert_complete();
    assert_eq!(recording.info()["end"]["signal"], 6);
}
