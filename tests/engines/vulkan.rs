//! llama.cpp on Vulkan, with Mesa's lavapipe as device: each operator that the backend encodes is compared with the
//! engine's own list of its graphs, and calls of Vulkan with what bpftrace counts.

use crate::engine::alone;
use crate::process::{profinfer, run, stderr};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/engines");
/// Characters of a name in the engine's list.
pub(crate) const LISTED: usize = 20;
/// Operators that the engine's list leaves out.
const VIEWS: [&str; 5] = ["VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE", "NONE"];

pub(crate) fn output_of(command: &mut Command) -> String {
    String::from_utf8(run(command, 0).stdout).unwrap()
}

/// A Python that has the wheel, and a small model.
pub(crate) fn engine() -> &'static (PathBuf, PathBuf) {
    static ENGINE: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let printed = output_of(&mut Command::new(format!("{FOLDER}/install_cyllama_vulkan.sh")));
        let python = PathBuf::from(printed.trim());
        let models = python.ancestors().nth(4).unwrap().join("models");
        let make = format!("{FOLDER}/make_models.py");
        output_of(Command::new(&python).arg(make).arg(&models).arg("tiny-dense"));
        (python, models.join("tiny-dense.gguf"))
    })
}

/// The command with its arguments.
fn words(arguments: &[&str]) -> Vec<String> {
    let (python, model) = engine();
    let script = format!("{FOLDER}/run_cyllama.py");
    let fixed = [python.to_str().unwrap(), &script, "--model", model.to_str().unwrap()];
    fixed.iter().chain(arguments).map(|word| (*word).to_owned()).collect()
}

/// Runs it on a trace that may be incomplete: [`Run::assert_nothing_lost`] has the reason that is allowed.
pub(crate) fn done(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 4)), "{command:?}\n{}", stderr(&output));
    output
}

/// The rows of one of a trace's tables, which are exported beside it once.
pub(crate) fn table(trace: &Path, name: &str) -> Vec<Value> {
    let folder = trace.with_file_name("tables");
    if !folder.exists() {
        let (trace, to) = (trace.to_str().unwrap(), folder.to_str().unwrap());
        done(&mut profinfer(&["export", trace, "--format", "ndjson", "-o", to]));
    }
    let text = std::fs::read_to_string(folder.join(format!("{name}.ndjson"))).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

struct Run {
    folder: tempfile::TempDir,
    log: String,
}

impl Run {
    fn new(probeset: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("run.pfi");
        let mut command = profinfer(&["record", probeset, "-o", trace.to_str().unwrap(), "--"]);
        Self { log: stderr(&done(command.args(words(arguments)).envs(environment.iter().copied()))), folder }
    }

    /// The device measures each operator.
    fn timed(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("run.pfi");
        let options = ["record", "llama-vulkan", "--gpu-timing", "timestamps", "-o", trace.to_str().unwrap(), "--"];
        Self { log: stderr(&done(profinfer(&options).args(words(arguments)))), folder }
    }

    fn trace(&self) -> PathBuf {
        self.folder.path().join("run.pfi")
    }

    fn table(&self, name: &str) -> Vec<Value> {
        table(&self.trace(), name)
    }

    fn report(&self) -> Value {
        let trace = self.trace();
        serde_json::from_slice(&done(&mut profinfer(&["report", trace.to_str().unwrap(), "--json"])).stdout).unwrap()
    }

    /// This build's batch has another layout than the one that is written for builds without debug information.
    fn assert_nothing_lost(&self) {
        let completeness = &self.report()["completeness"];
        let lost = completeness["lost"].as_array().unwrap();
        assert!(lost.iter().all(|lost| lost["record"] == "batch_sequences"), "{completeness:#}");
        assert_eq!(completeness["missing_records"], 0);
    }

    fn text(&self, arguments: &[&str]) -> String {
        let trace = self.trace();
        let mut command = profinfer(&["report", trace.to_str().unwrap()]);
        String::from_utf8(done(command.args(arguments)).stdout).unwrap()
    }
}

/// The engine's own lists: of each graph that it splits among backends, the operators by name, backend by backend.
pub(crate) fn listed(log: &str) -> Vec<BTreeMap<String, Vec<String>>> {
    let mut graphs: Vec<BTreeMap<String, Vec<String>>> = Vec::new();
    for line in log.lines() {
        if line.starts_with("## SPLIT #0") {
            graphs.push(BTreeMap::new());
        }
        let Some((_, rest)) = line.split_once("node #") else { continue };
        let name = rest.split_once("): ").unwrap().1[..LISTED].trim().to_owned();
        let backend = rest.split_once('[').unwrap().1[..5].trim().to_owned();
        graphs.last_mut().unwrap().entry(backend).or_default().push(name);
    }
    graphs
}

pub(crate) fn cut(name: &str) -> String {
    name.chars().take(LISTED).collect::<String>().trim().to_owned()
}

/// The names of what each step computes on a backend, in the order of execution, views left out.
pub(crate) fn dispatched(rows: &[Value], views: &[String]) -> BTreeMap<u64, Vec<String>> {
    let mut steps: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row["step"] != 0) {
        let of = steps.entry(row["step"].as_u64().unwrap()).or_default();
        let fused: Vec<&str> = row["fused"].as_str().map_or_else(Vec::new, |names| names.split(" + ").collect());
        let is_view = |op: &Value| VIEWS.contains(&op.as_str().unwrap());
        of.extend(fused.iter().filter(|name| !views.contains(&(**name).to_owned())).map(|name| cut(name)));
        if !is_view(&row["op"]) {
            of.push(cut(row["name"].as_str().unwrap()));
        }
    }
    steps
}

/// Each step's operators on the device are one of the engine's lists, in its order, with and without fusion, with all
/// layers and with half of them.
#[test]
#[ignore = "needs root"]
fn every_operator_is_in_the_engine_s_own_list() {
    let _alone = alone();
    let quiet = [("GGML_SCHED_DEBUG", "2"), ("GGML_VK_DISABLE_GRAPH_OPTIMIZE", "1")];
    let unfused = [quiet[0], quiet[1], ("GGML_VK_DISABLE_FUSION", "1")];
    for (layers, environment) in [("99", &quiet[..]), ("2", &unfused[..])] {
        let run = Run::new("llama", &["--log", "--tokens", "3", "--gpu-layers", layers], environment);
        let rows = run.table("dispatches");
        let truth = listed(&run.log);
        assert!(truth.len() > 2, "{}", run.log);
        // Views that are fused have no row of their own.
        let views: Vec<String> = rows
            .iter()
            .filter_map(|row| row["fused"].as_str())
            .flat_map(|names| names.split(" + "))
            .filter(|name| name.ends_with("(view)") || name.ends_with("(reshaped)"))
            .map(str::to_owned)
            .collect();
        let steps = dispatched(&rows, &views);
        assert_eq!(steps.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
        for (step, names) in &steps {
            let found = truth.iter().any(|graph| graph.get("Vulka") == Some(names));
            assert!(found, "step {step}, {layers} layers: {names:?}\nis none of {truth:#?}");
        }
        let fused: u64 = rows.iter().map(|row| row["operators"].as_u64().unwrap() - 1).sum();
        assert_eq!(fused == 0, environment.len() == 3, "{fused} fused");
        assert!(rows.iter().all(|row| row["backend"] == "vk" || row["step"] == 0));
        assert!(
            rows.iter()
                .filter(|row| row["empty"] == true)
                .all(|row| row["op"].as_str().is_some_and(|op| VIEWS.contains(&op)))
        );
        run.assert_nothing_lost();
        let screen = run.text(&[]);
        assert!(!screen.contains("whose operators were not recorded"), "{screen}");
    }
}

/// The graph of a step has the operators of both backends, and what crosses is what the engine's scheduler copies.
#[test]
#[ignore = "needs root"]
fn the_graph_spans_both_backends() {
    let _alone = alone();
    let quiet = [("GGML_SCHED_DEBUG", "2"), ("GGML_VK_DISABLE_GRAPH_OPTIMIZE", "1"), ("GGML_VK_DISABLE_FUSION", "1")];
    let run = Run::new("llama-vulkan", &["--log", "--tokens", "3", "--gpu-layers", "2"], &quiet);
    let trace = run.trace();
    let graph = done(&mut profinfer(&["graph", trace.to_str().unwrap(), "--step", "3", "--format", "json"]));
    let graph: Value = serde_json::from_slice(&graph.stdout).unwrap();
    let nodes = graph["nodes"].as_array().unwrap();
    let on = |backend: &str| nodes.iter().filter(|node| node["backend"] == backend).collect::<Vec<_>>();
    let (device, host) = (on("vk"), on("cpu"));
    let names: Vec<String> = device.iter().map(|node| cut(node["name"].as_str().unwrap())).collect();
    assert_eq!(Some(&names), listed(&run.log).last().unwrap().get("Vulka"));
    assert!(device.iter().all(|node| node["device"] == "estimated" && node["cost"]["elapsed_ns"].as_f64() > Some(0.0)));
    assert!(!host.is_empty() && host.iter().all(|node| node["device"].is_null()));
    // `## SPLIT #1: Vulkan0 # 7 inputs: [ffn_out-2 (   0K)] …`; leaves are no operators' results.
    let split = run.log.lines().rfind(|line| line.starts_with("## SPLIT #1: Vulkan0")).unwrap();
    let inputs = split.split('[').skip(1).map(|input| input.rsplit_once(" (").unwrap().0);
    let mut expected: Vec<&str> = inputs.filter(|name| !name.starts_with("leaf_")).collect();
    let crossings = graph["crossings"].as_array().unwrap();
    let mut crossing: Vec<&str> = crossings.iter().map(|of| of["name"].as_str().unwrap()).collect();
    expected.sort_unstable();
    crossing.sort_unstable();
    assert_eq!(crossing, expected);
    assert!(crossings.iter().all(|of| of["from"] == "cpu" && of["to"] == "vk"), "{crossings:?}");
    let hidden = crossings.iter().find(|of| of["name"] == "ffn_out-2").unwrap();
    assert_eq!(hidden["bytes"], 128 * 4, "a row of 128 numbers");
    let shown = done(&mut profinfer(&["graph", trace.to_str().unwrap()]));
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("Results that cross from one backend to another"), "{shown}");
}

/// Submissions and waits are as many as bpftrace counts in another run; each step's results are waited for.
#[test]
#[ignore = "needs root"]
fn queues_are_as_bpftrace_counts_them() {
    let _alone = alone();
    let library = Path::new("/usr/lib/x86_64-linux-gnu/libvulkan.so.1");
    let run = Run::new("llama-vulkan", &["--tokens", "3"], &[]);
    let functions = [
        ("vkQueueSubmit", "vulkan_submit"),
        ("vkWaitForFences", "vulkan_wait"),
        ("vkResetFences", "vulkan_reset"),
        ("vkCmdCopyBuffer", "vulkan_copy"),
    ];
    let mut script: String = functions
        .iter()
        .map(|(name, _)| format!("uprobe:{}:{name} /pid == cpid/ {{ @{name} = count(); }} ", library.display()))
        .collect();
    // The backend's own waiting, most of which is polling.
    let functions = functions.into_iter().chain([("ggml_vk_wait_for_fence", "graph_wait")]);
    script.push_str(&format!(
        "uprobe:{}:_ZL22ggml_vk_wait_for_fenceP23ggml_backend_vk_context /pid == cpid/ {{ @ggml_vk_wait_for_fence = count(); }}",
        backend().display()
    ));
    script.push_str(&format!(
        " uprobe:{}:*ggml_vk_dispatch_pipeline* /pid == cpid/ {{ @launches = count(); }}",
        backend().display()
    ));
    let words = words(&["--tokens", "3"]);
    let counts = counted(&script, &words);
    let rows = run.table("queue");
    for (function, probe) in functions {
        let recorded = rows.iter().filter(|row| row["probe"] == probe).count() as u64;
        assert_eq!(recorded, counts.get(function).copied().unwrap_or(0), "{function}: {counts:?}");
    }
    let report = run.report();
    let offload = &report["offload"];
    assert_eq!((&offload["steps"], &offload["steps_with_results"]), (&3.into(), &3.into()), "{offload:#}");
    let device = &offload["devices"][0];
    assert_eq!(device["device_type"], "CPU", "{offload:#}");
    let text = run.text(&["--by", "backend"]);
    assert!(text.contains(", of type CPU: it computes on this machine's CPUs."), "{text}");
    // Each operator has its part of the time that bounds them all, and the programs that were launched for it.
    let dispatches = run.table("dispatches");
    let parts = dispatches.iter().filter_map(|row| row["device_estimate_ns"].as_u64()).sum::<u64>();
    let bound = offload["backends"][0]["device_bound_ns"].as_u64().unwrap();
    let encoded = dispatches.iter().filter(|row| row["empty"] == false && row["step"] != 0).count();
    assert!(parts <= bound && bound - parts <= encoded as u64, "{parts} of {bound} ns");
    let launches = |row: &Value| row["launches"].as_str().map_or(0, |names| names.split(" + ").count());
    let launched = dispatches.iter().map(launches).sum::<usize>() as u64;
    assert_eq!(launched, counts["launches"], "{counts:?}");
    assert!(dispatches.iter().all(|row| (launches(row) > 0) != (row["empty"] == true)), "{dispatches:?}");
    for (op, program) in [("MUL_MAT", "mul_mat"), ("FLASH_ATTN_EXT", "flash_attn"), ("GLU", "swiglu")] {
        let row = dispatches.iter().find(|row| row["op"] == op && row["fused"].is_null()).unwrap();
        assert!(row["launches"].as_str().unwrap().starts_with(program), "{row}");
    }
    // What the host did adds up, and of three steps none is left out.
    let device_use = &offload["device_use"];
    assert_eq!((&device_use["steps"], &device_use["steps_without_end"]), (&3.into(), &0.into()), "{device_use:#}");
    let host = device_use["host"].as_array().unwrap();
    let sum = |key: &str| host.iter().map(|row| row[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(
        (&sum("pending_ns").into(), &sum("idle_ns").into()),
        (&device_use["pending_ns"], &device_use["idle_ns"])
    );
    let waiting = |row: &Value| row["event"] == "wait" && row["step"] != 0;
    let longest = rows.iter().filter(|row| waiting(row)).map(|row| row["duration_ns"].as_u64().unwrap()).max().unwrap();
    let waited = host.iter().find(|row| row["what"] == "waiting").unwrap();
    assert!(waited["pending_ns"].as_u64().unwrap() >= longest, "{longest}: {device_use:#}");
    assert!(text.contains("What the host did while the device had work, and while it had none"), "{text}");
}

/// What a script of bpftrace counts in a run of the words, by the names of its variables.
pub(crate) fn counted(script: &str, words: &[String]) -> BTreeMap<String, u64> {
    let counted = output_of(Command::new("bpftrace").args(["-f", "json", "-e", script, "-c", &words.join(" ")]));
    counted
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|line| line["data"].as_object().cloned())
        .flatten()
        .filter_map(|(name, count)| Some((name.trim_start_matches('@').to_owned(), count.as_u64()?)))
        .collect()
}

/// The library of the backend.
pub(crate) fn backend() -> PathBuf {
    library("libggml-vulkan*.so*")
}

fn library(pattern: &str) -> PathBuf {
    let packages = engine().0.ancestors().nth(2).unwrap().join("lib");
    let find = Command::new("find").arg(&packages).args(["-name", pattern, "-print", "-quit"]).output();
    PathBuf::from(String::from_utf8(find.unwrap().stdout).unwrap().trim())
}

/// What the scheduler saw of a process, by bpftrace: when the engine's steps began, and when threads but the first ran.
#[derive(Default)]
struct Scheduled {
    steps: Vec<u64>,
    ran: Vec<(u64, u64)>,
}

impl Scheduled {
    fn read(text: &str) -> Self {
        let numbers = |line: &str| line.split(' ').map(|word| word.parse::<u64>().ok()).collect::<Option<Vec<u64>>>();
        let mut lines: Vec<Vec<u64>> = text.lines().filter_map(numbers).collect();
        lines.sort();
        let process = lines.iter().find_map(|line| if let [_, pid] = line[..] { Some(pid) } else { None });
        let process = process.expect("a step");
        let mut found = Self::default();
        // What was switched to on each processor, and when.
        let mut on: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for line in lines {
            match line[..] {
                [time, _] => found.steps.push(time),
                [time, cpu, pid, from, to] => {
                    let since = on.insert(cpu, (time, to)).filter(|(_, thread)| *thread == from);
                    let is_worker = pid == process && from != process;
                    found.ran.extend(since.filter(|_| is_worker).map(|(since, _)| (since, time)));
                }
                _ => {}
            }
        }
        found
    }
}

/// The device is threads of the process: its interval of a step is from when the first of them ran to when the last did.
#[test]
#[ignore = "needs root"]
fn the_device_s_intervals_are_those_of_its_threads() {
    let _alone = alone();
    engine();
    let script = format!(
        "uprobe:{}:llama_decode {{ printf(\"%llu %d\\n\", nsecs, pid); }} tracepoint:sched:sched_switch \
         /args->prev_comm == \"python\" || args->next_comm == \"python\"/ \
         {{ printf(\"%llu %d %d %d %d\\n\", nsecs, cpu, pid, args->prev_pid, args->next_pid); }} BEGIN {{ printf(\"on\\n\"); }}",
        library("libllama-*.so*").display()
    );
    let mut bpftrace = Command::new("bpftrace");
    bpftrace.env("BPFTRACE_PERF_RB_PAGES", "4096").args(["-e", &script]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut bpftrace = bpftrace.spawn().unwrap();
    let mut lines = BufReader::new(bpftrace.stdout.take().unwrap()).lines();
    while lines.next().unwrap().unwrap() != "on" {}
    let reader = std::thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<_>>().join("\n"));
    let run = Run::new("llama-vulkan", &["--tokens", "24"], &[]);
    // It can miss a signal.
    for _ in 0..20 {
        Command::new("kill").args(["-INT", &bpftrace.id().to_string()]).status().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(500));
        if bpftrace.try_wait().unwrap().is_some() {
            break;
        }
    }
    let _ = bpftrace.kill();
    bpftrace.wait().unwrap();
    let scheduled = Scheduled::read(&reader.join().unwrap());

    let steps = run.table("steps");
    assert_eq!(scheduled.steps.len(), steps.iter().filter(|step| step["phase"] != "outside").count());
    let offset = scheduled.steps[0] - steps[0]["start_ns"].as_u64().unwrap();
    let mut intervals: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    // The first steps compile the device's programs.
    for row in run.table("queue").iter().filter(|row| row["event"] == "submit" && row["step"].as_u64() > Some(3)) {
        let (start, Some(done)) = (row["start_ns"].as_u64().unwrap(), row["done_by_ns"].as_u64()) else { continue };
        let of = intervals.entry(row["step"].as_u64().unwrap()).or_insert((start, done));
        *of = (of.0.min(start), of.1.max(done));
    }
    assert_eq!(intervals.len(), 21);
    let (mut recorded, mut seen) = (0, 0);
    for (start, done) in intervals.into_values().map(|(start, done)| (start + offset, done + offset)) {
        let within = scheduled.ran.iter().filter(|(from, to)| *from < done && *to > start);
        let hull = within.map(|(from, to)| ((*from).max(start), (*to).min(done)));
        let (first, last) = hull.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).expect("the device ran");
        recorded += done - start;
        seen += last - first;
    }
    assert!(seen <= recorded && (recorded - seen) * 20 <= recorded, "{seen} ns seen of {recorded} ns");
}

/// With timestamps, each operator that was encoded has a time: as many, and in sum as long, as the engine prints of each
/// graph.
#[test]
#[ignore = "needs root"]
fn the_device_s_times_are_those_that_the_engine_prints() {
    let _alone = alone();
    let run = Run::timed(&["--tokens", "3"]);
    run.assert_nothing_lost();
    let rows = run.table("dispatches");
    let printed: Vec<(u64, f64)> = run.log.split("Vulkan Timings:").skip(1).map(timings).collect();
    assert_eq!(printed.len(), 3, "{}", run.log);
    for (step, (count, total_us)) in (1..).zip(&printed) {
        let of_step: Vec<&Value> = rows.iter().filter(|row| row["step"] == step).collect();
        assert!(of_step.iter().all(|row| row["device_ns"].is_u64() == (row["empty"] == false)));
        let times: Vec<u64> = of_step.iter().filter_map(|row| row["device_ns"].as_u64()).collect();
        assert_eq!(times.len() as u64, *count, "step {step}");
        let total = times.iter().sum::<u64>() as f64 / 1e3;
        assert!(
            (total - total_us).abs() < total_us / 1000.0,
            "step {step}: {total} µs recorded, {total_us} µs printed"
        );
    }
    let backend = run.report()["offload"]["backends"].as_array().unwrap()[0].clone();
    let number = |key: &str| backend[key].as_u64().unwrap_or_else(|| panic!("{key} of {backend:#}"));
    assert!(number("device_ns") <= number("device_bound_ns"), "{backend:#}");
    // All steps were measured: their sum is what the engine printed. It lies within the time with pending work, but for
    // waits between two submissions of a graph, which the engine counts as time of the operator after them.
    let device_use = run.report()["offload"]["device_use"].clone();
    let of_use = |key: &str| device_use[key].as_u64().unwrap_or_else(|| panic!("{key} of {device_use:#}"));
    let printed_us: f64 = printed.iter().map(|(_, us)| us).sum();
    let measured_us = of_use("measured_ns") as f64 / 1e3;
    assert!((measured_us - printed_us).abs() < printed_us / 1000.0, "{measured_us} µs, {printed_us} µs printed");
    assert_eq!(of_use("measured_time_ns"), of_use("time_ns"), "{device_use:#}");
    assert!(of_use("measured_ns") - of_use("measured_idle_ns") <= of_use("pending_ns"), "{device_use:#}");
    assert!(of_use("measured_idle_ns") <= of_use("idle_ns"), "{device_use:#}");
    assert!(run.text(&["--by", "backend"]).contains("Recorded with `--gpu-timing timestamps`"));
    // By how much slower or not, `diff` with the usual recording tells.
    let usual = Run::new("llama-vulkan", &["--tokens", "3"], &[]);
    let [usual_trace, trace] = [usual.trace(), run.trace()].map(|trace| trace.to_str().unwrap().to_owned());
    let diff: Value =
        serde_json::from_slice(&done(&mut profinfer(&["diff", &usual_trace, &trace, "--json"])).stdout).unwrap();
    let phases = diff["phases"].as_array().unwrap();
    let decode = phases.iter().find(|phase| phase["phase"] == "decode").unwrap();
    // On a device that computes on the CPU, a barrier costs less than runs differ by.
    assert!([0, 1].iter().all(|side| decode["until_results_ns"][side].is_f64()), "{decode:#}");
}

/// Of one graph, operators and their time, as the engine prints them: `ADD: 7 x 245.532 us = 1718.72 us`.
fn timings(text: &str) -> (u64, f64) {
    let total = text.split_once("Total time: ").unwrap().1.split_once(" us").unwrap().0.parse().unwrap();
    let count = |line: &str| line.split_once(" x ")?.0.rsplit_once(": ")?.1.parse::<u64>().ok();
    (text.split("Total time").next().unwrap().lines().filter_map(count).sum(), total)
}
