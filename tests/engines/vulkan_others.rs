//! whisper.cpp and stable-diffusion.cpp on Vulkan, with Mesa's lavapipe as device: each operator, by the CPU or encoded
//! for the device, is compared with the graphs that the engine hands over (`graph_hook.cpp`) and with its scheduler's
//! own list, and calls of Vulkan with what bpftrace counts. The decoder of images computes on the CPU: on lavapipe of
//! Mesa 22.3 the engine often crashes in it, also without a recording.

use crate::engine::{command, here};
use crate::process::{profinfer, run, stderr};
use crate::truth::Truth;
use crate::vulkan::{self, LISTED, backend, cut, done, output_of};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Characters of a name that are recorded; stable-diffusion.cpp has ggml with longer ones.
const RECORDED: usize = 64;
const UNFUSED: (&str, &str) = ("GGML_VK_DISABLE_FUSION", "1");
/// Where Vulkan is there, also if it computes nothing: a graph is computed in the order in which it was handed over.
pub(crate) const IN_ORDER: (&str, &str) = ("GGML_VK_DISABLE_GRAPH_OPTIMIZE", "1");
/// The diffusion model on the device, the rest on the CPU.
const SAMPLING: [&str; 2] = ["--text-on-cpu", "--decoder-on-cpu"];

/// A Python that has both engines, and the folder of the models.
fn engines() -> &'static (PathBuf, PathBuf) {
    static ENGINES: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();
    ENGINES.get_or_init(|| {
        let printed = output_of(&mut Command::new(here().join("install_cyllama_vulkan.sh")));
        let python = PathBuf::from(printed.trim());
        let models = python.ancestors().nth(4).unwrap().join("models");
        output_of(Command::new(&python).arg(here().join("make_diffusion_model.py")).arg(&models));
        // Shaders are compiled and kept by the driver: the first run takes long, and recordings should not.
        for engine in [WHISPER, DIFFUSION] {
            run(&mut command(&engine.words_of(&python, &models, engine.on_device)), 0);
        }
        (python, models)
    })
}

/// A library to preload that writes each graph.
fn hook() -> &'static Path {
    static HOOK: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = HOOK.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("graph_hook.so");
        let mut compile = Command::new("c++");
        compile.args(["-std=c++17", "-O2", "-fPIC", "-shared", "-I"]).arg(here()).arg(here().join("graph_hook.cpp"));
        run(compile.arg("-o").arg(&path).arg("-ldl"), 0);
        (folder, path)
    });
    path
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Engine {
    script: &'static str,
    /// In the folder of models.
    model: &'static str,
    /// Options for the device.
    on_device: &'static [&'static str],
}

pub(crate) const LLAMA: Engine = Engine { script: "run_cyllama.py", model: "tiny-dense.gguf", on_device: &[] };
pub(crate) const WHISPER: Engine =
    Engine { script: "run_cyllama_whisper.py", model: "tiny-whisper.bin", on_device: &[] };
pub(crate) const DIFFUSION: Engine = Engine { script: "run_cyllama_diffusion.py", model: "", on_device: &SAMPLING };

impl Engine {
    /// Of another Python than that with Vulkan.
    fn words_of(self, python: &Path, models: &Path, arguments: &[&str]) -> Vec<String> {
        let text = |path: PathBuf| path.display().to_string();
        let mut words = vec![text(python.to_owned()), text(here().join(self.script)), "--model".to_owned()];
        words.push(text(models.join(self.model)));
        words.extend(arguments.iter().map(|word| (*word).to_owned()));
        words
    }

    fn words(self, arguments: &[&str]) -> Vec<String> {
        let (python, models) = engines();
        self.words_of(python, models, arguments)
    }

    /// Of each graph that is handed over to be computed, the operators that a kernel is called for.
    pub(crate) fn truth(self, arguments: &[&str], environment: &[(&str, &str)]) -> Vec<Vec<Computed>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("truth.ndjson");
        let mut hooked = command(&self.words(arguments));
        hooked.envs(environment.iter().copied()).env("LD_PRELOAD", hook()).env("ENGINE_TRACE", &path);
        run(&mut hooked, 0);
        let of_step = |nodes: Vec<crate::truth::Node>| -> Vec<Computed> {
            let computed = nodes.into_iter().filter(|node| node.runs).map(|node| node.operator.result);
            let name = |name: String| name.chars().take(RECORDED).collect();
            computed.map(|result| Computed { op: result.op, name: name(result.name), shape: result.shape }).collect()
        };
        Truth::read(&path).nodes.into_iter().map(of_step).collect()
    }
}

/// One operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Computed {
    pub(crate) op: String,
    name: String,
    shape: [i64; 4],
}

impl Computed {
    fn of(row: &Value, op: &Value, name: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{row}")).to_owned();
        let shape: Vec<i64> = text(&row["shape"]).split('x').map(|extent| extent.parse().unwrap()).collect();
        Self { op: text(op), name: text(name), shape: shape.try_into().unwrap() }
    }
}

pub(crate) struct Run {
    folder: tempfile::TempDir,
    pub(crate) output: Output,
}

impl Run {
    fn new(probeset: &str, engine: Engine, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::of(probeset, &engine.words(arguments), environment)
    }

    /// With a Python that has the engine in another form.
    pub(crate) fn with(python: &Path, probeset: &str, engine: Engine, arguments: &[&str]) -> Self {
        Self::of(probeset, &engine.words_of(python, &engines().1, arguments), &[])
    }

    fn of(probeset: &str, words: &[String], environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("run.pfi");
        let mut record = profinfer(&["record", probeset, "-o", trace.to_str().unwrap(), "--"]);
        let run = Self { output: done(record.args(words).envs(environment.iter().copied())), folder };
        run.assert_nothing_lost();
        run
    }

    fn trace(&self) -> PathBuf {
        self.folder.path().join("run.pfi")
    }

    pub(crate) fn table(&self, name: &str) -> Vec<Value> {
        vulkan::table(&self.trace(), name)
    }

    fn text(&self, arguments: &[&str]) -> String {
        let trace = self.trace();
        let mut report = profinfer(&["report", trace.to_str().unwrap()]);
        String::from_utf8(done(report.args(arguments)).stdout).unwrap()
    }

    fn report(&self) -> Value {
        serde_json::from_str(&self.text(&["--json"])).unwrap()
    }

    pub(crate) fn verdict(&self) -> String {
        self.report()["completeness"]["verdict"].as_str().unwrap().to_owned()
    }

    fn assert_nothing_lost(&self) {
        let completeness = &self.report()["completeness"];
        assert_eq!(completeness["lost"].as_array().map(Vec::len), Some(0), "{completeness:#}");
        assert_eq!((&completeness["missing_records"], &completeness["steps_left_out"]), (&0.into(), &0.into()));
    }

    /// The step's probe, the model's class where it is recorded, and the object, in the order of time.
    fn steps(&self) -> Vec<(String, Option<String>, String)> {
        let trace = self.trace();
        let dump = String::from_utf8(done(&mut profinfer(&["dump", trace.to_str().unwrap()])).stdout).unwrap();
        let records = dump.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut steps: Vec<Value> = records.filter(|record| record["role"] == "step").collect();
        steps.sort_by_key(|step| step["start_ns"].as_u64());
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let of = |step: &Value| {
            let fields = &step["fields"];
            (text(&step["probe"]).unwrap(), text(&fields["model"]), text(&fields["instance"]).unwrap())
        };
        steps.iter().map(of).collect()
    }

    /// The probes of the steps alone.
    fn calls(&self) -> Vec<String> {
        self.steps().into_iter().map(|(probe, ..)| probe).collect()
    }

    /// The operators of the CPU, each part of a fused one for itself, with their rows.
    pub(crate) fn operators(&self) -> Vec<(Value, Computed)> {
        let mut operators = Vec::new();
        for row in self.table("operators") {
            let mut add = |op: &Value, name: &Value| operators.push((row.clone(), Computed::of(&row, op, name)));
            if row["covers"].is_string() {
                assert_eq!(row["op"], "rms_norm_mul", "{row}");
                add(&"RMS_NORM".into(), &row["covers"]);
                add(&"MUL".into(), &row["name"]);
            } else {
                add(&row["op"], &row["name"]);
            }
        }
        operators
    }

    /// Of each step, its backend and the operators that it computed, each part of a fused one for itself. `None` if it
    /// computed on both, or on none.
    fn computed(&self) -> Vec<Option<(String, Vec<Computed>)>> {
        let mut operators = self.operators();
        // A launched program is no operator: it has no shape.
        for row in self.table("dispatches").iter().filter(|row| row["empty"] == false && row["shape"].is_string()) {
            assert_eq!(row["operators"], 1, "not fused: {row}");
            operators.push((row.clone(), Computed::of(row, &row["op"], &row["name"])));
        }
        let mut steps: BTreeMap<u64, BTreeMap<String, Vec<Computed>>> = BTreeMap::new();
        for (row, operator) in operators {
            let of_step = steps.entry(row["step"].as_u64().unwrap()).or_default();
            let backend = row["backend"].as_str().unwrap_or_else(|| panic!("{row}"));
            of_step.entry(backend.to_owned()).or_default().push(operator);
        }
        let last = self.report()["completeness"]["steps"].as_u64().unwrap();
        let one = |number| Some(steps.remove(&number)?).filter(|step| step.len() == 1)?.pop_first();
        (1..=last).map(one).collect()
    }
}

/// What each step computed is what the engine handed over, on the backend that is expected of it.
fn assert_computed(run: &Run, truth: &[Vec<Computed>], backends: &[&str]) {
    let computed = run.computed();
    assert_eq!((computed.len(), truth.len()), (backends.len(), backends.len()));
    for (number, ((step, truth), backend)) in computed.iter().zip(truth).zip(backends).enumerate() {
        let (on, operators) = step.as_ref().unwrap_or_else(|| panic!("step {}: not on one backend", number + 1));
        assert_eq!(on, backend, "step {}", number + 1);
        for (index, (recorded, truth)) in operators.iter().zip(truth).enumerate() {
            assert_eq!(recorded, truth, "step {}, operator {index}: recorded (left), the engine's word", number + 1);
        }
        assert_eq!(operators.len(), truth.len(), "step {}", number + 1);
    }
}

/// The scheduler's own lists: of each graph, backend and name of the operators.
fn listed(log: &str) -> Vec<Vec<(String, String)>> {
    let mut graphs: Vec<Vec<(String, String)>> = Vec::new();
    for line in log.lines() {
        if line.starts_with("## SPLIT #0") {
            graphs.push(Vec::new());
        }
        let Some((_, rest)) = line.split_once("node #") else { continue };
        let name = rest.split_once("): ").unwrap().1[..LISTED].trim().to_owned();
        let backend = rest.split_once('[').unwrap().1[..5].trim().to_owned();
        graphs.last_mut().unwrap().push((backend, name));
    }
    graphs
}

/// What the engine counts of each context: `4 runs`. Of a decoding of several tokens it counts these.
fn counted(log: &str, what: &str) -> Vec<u64> {
    let of = |line: &str| line.split_once('/')?.1.trim_start().split_once(' ')?.0.parse().ok();
    log.lines().filter(|line| line.contains(&format!("{what} time ="))).filter_map(of).collect()
}

/// whisper.cpp: each step is a graph of the engine, with the engine's own number of tokens.
#[test]
#[ignore = "needs root"]
fn every_operator_of_a_transcription() {
    let environment = [IN_ORDER, UNFUSED, ("GGML_SCHED_DEBUG", "2")];
    let truth = WHISPER.truth(&[], &environment);
    let run = Run::new("whisper-vulkan", WHISPER, &["--log"], &environment);
    assert_computed(&run, &truth, &vec!["vk"; truth.len()]);
    // Names as the scheduler cuts them.
    let log = stderr(&run.output);
    let names = |(_, operators): (String, Vec<Computed>)| -> Vec<(String, String)> {
        operators.iter().map(|operator| ("Vulka".to_owned(), cut(&operator.name))).collect()
    };
    let recorded: Vec<_> = run.computed().into_iter().map(|step| names(step.unwrap())).collect();
    assert_eq!(recorded, listed(&log));
    // Three graphs encode, and one decodes: the tokens of several at once, or one.
    let tokens: Vec<u64> = run.table("steps").iter().filter_map(|step| step["tokens"].as_u64()).collect();
    let single = tokens.iter().filter(|tokens| **tokens == 1).count() as u64;
    assert_eq!(tokens.iter().filter(|tokens| **tokens == 0).count() as u64, 3 * counted(&log, "encode")[0]);
    assert_eq!((single, tokens.iter().sum::<u64>() - single), (counted(&log, "decode")[0], counted(&log, "batchd")[0]));
    let screen = run.text(&[]);
    assert!(!screen.contains("whose operators were not recorded"), "{screen}");
}

/// Two models in one process, one on the device and one on the CPU.
#[test]
#[ignore = "needs root"]
fn two_transcriptions_one_of_them_on_the_cpu() {
    let arguments = ["--contexts", "2", "--alternate"];
    let environment = [IN_ORDER, UNFUSED];
    let truth = WHISPER.truth(&arguments, &environment);
    let run = Run::new("whisper-vulkan", WHISPER, &arguments, &environment);
    let half = truth.len() / 2;
    let backends: Vec<&str> = (0..truth.len()).map(|step| if step < half { "vk" } else { "cpu" }).collect();
    assert_computed(&run, &truth, &backends);
    // The scheduler of each graph of each model.
    let instances: BTreeSet<String> = run.steps().into_iter().map(|(.., instance)| instance).collect();
    assert_eq!(instances.len(), 8, "{instances:?}");
}

/// Fused operators are those of the unfused graph: as many, and the last of each in its place.
#[test]
#[ignore = "needs root"]
fn fused_operators_are_the_graph_s() {
    for (probeset, engine) in [("whisper-vulkan", WHISPER), ("stable-diffusion-vulkan", DIFFUSION)] {
        let truth = engine.truth(engine.on_device, &[IN_ORDER]);
        let run = Run::new(probeset, engine, engine.on_device, &[IN_ORDER]);
        let rows: Vec<Value> = run.table("dispatches").into_iter().filter(|row| row["shape"].is_string()).collect();
        let fused = rows.iter().filter(|row| row["operators"] != 1).count();
        assert!(fused > 0, "{probeset}: none is fused");
        for (number, truth) in (1..).zip(&truth) {
            let of_step: Vec<&Value> = rows.iter().filter(|row| row["step"] == number).collect();
            if of_step.is_empty() {
                continue; // on the CPU
            }
            let mut left = truth.iter();
            for row in of_step.iter().filter(|row| row["empty"] == false) {
                let parts = row["fused"].as_str().into_iter().flat_map(|names| names.split(" + "));
                for name in parts.chain(row["name"].as_str()) {
                    let found = left.next().map(|operator| operator.name.as_str());
                    assert_eq!(found, Some(name), "{probeset}, step {number}: {row}");
                }
            }
            assert_eq!(left.next(), None, "{probeset}, step {number}");
        }
    }
}

/// stable-diffusion.cpp: the text encoder on the CPU, each sampling step on the device, the decoder on the CPU.
#[test]
#[ignore = "needs root"]
fn every_operator_of_an_image() {
    let truth = DIFFUSION.truth(&SAMPLING, &[UNFUSED]);
    let run = Run::new("stable-diffusion", DIFFUSION, &SAMPLING, &[UNFUSED]);
    assert_computed(&run, &truth, &["cpu", "vk", "vk", "vk", "cpu"]);
    assert_eq!(run.calls(), ["condition", "sample", "sample", "sample", "autoencode"]);
    assert_eq!(sampled(&run), [0, 1, 2, 3]);
}

/// The engine's own word of its sampling steps.
fn sampled(run: &Run) -> Vec<u64> {
    let reported = String::from_utf8_lossy(&run.output.stdout).into_owned();
    let reported: Value = serde_json::from_str(reported.lines().find(|line| line.starts_with('{')).unwrap()).unwrap();
    reported["steps"].as_array().unwrap().iter().filter_map(Value::as_u64).collect()
}

/// All on the CPU: with a negative prompt each sampling step takes the model twice, with a method of second order all
/// but the last do; two models are two instances.
#[test]
#[ignore = "needs root"]
fn images_on_the_cpu() {
    type Case<'c> = (&'c [&'c str], &'c [(&'c str, usize)], usize);
    let cases: [Case<'_>; 4] = [
        (&["--steps", "2"], &[("condition", 1), ("sample", 2), ("autoencode", 1)], 1),
        (&["--steps", "2", "--guidance", "2"], &[("condition", 2), ("sample", 4), ("autoencode", 1)], 1),
        (&["--steps", "3", "--method", "HEUN"], &[("condition", 1), ("sample", 5), ("autoencode", 1)], 1),
        (
            &["--steps", "2", "--contexts", "2"],
            &[("condition", 1), ("sample", 2), ("autoencode", 1), ("condition", 1), ("sample", 2), ("autoencode", 1)],
            2,
        ),
    ];
    for (options, expected, models) in cases {
        let arguments: Vec<&str> = ["--gpu-layers", "0"].iter().chain(options).copied().collect();
        let truth = DIFFUSION.truth(&arguments, &[]);
        let run = Run::new("stable-diffusion", DIFFUSION, &arguments, &[]);
        assert_computed(&run, &truth, &vec!["cpu"; truth.len()]);
        let calls: Vec<String> = expected.iter().flat_map(|(call, count)| vec![(*call).to_owned(); *count]).collect();
        assert_eq!(run.calls(), calls, "{options:?}");
        let steps = run.steps();
        let classes: BTreeSet<(&str, &str)> =
            steps.iter().map(|(call, class, _)| (call.as_str(), class.as_deref().unwrap())).collect();
        let known = [("autoencode", "TinyImageAutoEncoder"), ("condition", "LLMEmbedder"), ("sample", "FluxModel")];
        assert_eq!(classes, BTreeSet::from(known));
        let instances: BTreeSet<&str> =
            steps.iter().filter(|(call, ..)| call == "sample").map(|(.., instance)| instance.as_str()).collect();
        assert_eq!(instances.len(), models);
        // Each context says its steps from 0 on.
        let last = *sampled(&run).last().unwrap();
        assert_eq!(last.to_string(), options[1]);
    }
}

/// Submissions, waits and copies are as many as bpftrace counts in another run; each step on the device has results.
#[test]
#[ignore = "needs root"]
fn queues_of_both_are_as_bpftrace_counts_them() {
    let library = "/usr/lib/x86_64-linux-gnu/libvulkan.so.1";
    let (backend, library) = (backend().display().to_string(), library.to_owned());
    let functions = [
        (&library, "vkQueueSubmit", "vulkan_submit"),
        (&library, "vkWaitForFences", "vulkan_wait"),
        (&library, "vkResetFences", "vulkan_reset"),
        (&library, "vkCmdCopyBuffer", "vulkan_copy"),
        (&backend, "_ZL22ggml_vk_wait_for_fenceP23ggml_backend_vk_context", "graph_wait"),
    ];
    let probe = |(library, function, probe): &(&String, &str, &str)| {
        format!("uprobe:{library}:{function} /pid == cpid/ {{ @{probe} = count(); }}")
    };
    let script = functions.iter().map(probe).collect::<Vec<_>>().join(" ");
    for (probeset, engine, on_device) in [("whisper-vulkan", WHISPER, 8), ("stable-diffusion-vulkan", DIFFUSION, 3)] {
        let run = Run::new(probeset, engine, engine.on_device, &[]);
        let counts = vulkan::counted(&script, &engine.words(engine.on_device));
        let rows = run.table("queue");
        for (.., probe) in functions {
            let recorded = rows.iter().filter(|row| row["probe"] == probe).count() as u64;
            assert_eq!(recorded, counts.get(probe).copied().unwrap_or(0), "{probeset}, {probe}: {counts:?}");
        }
        assert!(counts.get("vulkan_submit").is_some_and(|count| *count > 0), "{counts:?}");
        let offload = &run.report()["offload"];
        let steps = (&offload["steps"], &offload["steps_with_results"]);
        assert_eq!(steps, (&on_device.into(), &on_device.into()), "{probeset}: {offload:#}");
        assert_eq!(offload["devices"][0]["device_type"], "CPU", "{probeset}: {offload:#}");
        let text = run.text(&["--by", "backend"]);
        assert!(text.contains("What the host did while the device had work, and while it had none"), "{text}");
    }
}
