//! What helps to write a probeset: `try`, `explain` and the script for bpftrace, on the toy engine, whose values are known.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets")
}

/// A folder with the toy engine, with debug information (`toy`) and without (`bare`).
fn toys() -> &'static Path {
    static TOYS: OnceLock<PathBuf> = OnceLock::new();
    TOYS.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("writing");
        std::fs::create_dir_all(&folder).unwrap();
        for (name, debug) in [("toy", "-g"), ("bare", "-g0")] {
            let mut command = Command::new("cc");
            command.args(["-O1", debug, "-DLINKED", "-o"]).arg(folder.join(name));
            command.args(["toy.c", "toy_engine.c"].map(|file| sources().join(file))).args(["-ldl", "-lpthread"]);
            assert!(command.status().expect("a C compiler").success());
        }
        folder
    })
}

fn toy(name: &str) -> String {
    toys().join(name).display().to_string()
}

fn probeset(name: &str) -> String {
    sources().join(name).display().to_string()
}

fn profinfer(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).env("COLUMNS", "200");
    command.output().unwrap()
}

fn printed(arguments: &[&str], folder: &Path) -> String {
    let output = profinfer(arguments, folder);
    let (text, problems) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{arguments:?}\n{text}\n{problems}");
    text.into_owned()
}

/// Words of a line, so that columns may be as wide as they like.
fn words(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[track_caller]
fn has_line(text: &str, wanted: &str) {
    assert!(words(text).iter().any(|line| line.contains(wanted)), "`{wanted}` is not in\n{text}");
}

#[test]
#[ignore = "needs root"]
fn try_prints_what_was_seen_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let toy = toy("toy");
    let text = printed(&["try", &probeset("toy.yaml"), "--steps", "2", "--", &toy, "9", "3", "2"], folder.path());
    has_line(&text, "tokens=8 status=0");
    has_line(&text, "tokens=1 status=0");
    has_line(&text, "op=MATMUL name=\"blk.1.tensor\" shape=[64, 8, 0, 0]");
    has_line(&text, "lane=0 node=0x");
    assert!(text.contains("\"blk.1.tensor\""), "{text}");
    has_line(&text, "No value looks wrong.");
    assert_eq!(text.lines().filter(|line| line.contains("  step  ")).count(), 2, "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
}

/// Offsets by hand, some of them wrong: the shape is looked for where the name is, the kind where the shape is.
const WRONG: &str = "profinfer: 1
engine: toy
modules: { engine: 'libtoy_engine*.so*' }
types:
  toy_tensor:
    op: enum toy_op @ 40
    name: char[32] @ 4
    shape: i64[4] @ 4
  toy_params: { lane: i32 @ 0 }
  toy_batch: { size: 40, tokens: i32 @ 0 }
enums: { toy_op: { 0: ADD, 1: MATMUL, 2: NORM } }
objects:
  tensor: { of: toy_tensor, fields: { op: op, name: name, shape: shape } }
probes:
  step:
    at: engine:toy_step(toy_batch batch, i32 operators, i32 lanes) -> i32
    role: step
    fields: { tokens: batch.tokens }
  operator:
    at: engine:toy_operator(toy_params* params, toy_tensor* tensor)
    role: operator
    fields: { lane: params->lane, node: tensor as object tensor }
";

#[test]
#[ignore = "needs root"]
fn try_says_which_values_look_wrong() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("wrong.yaml"), WRONG).unwrap();
    let text = printed(&["try", "wrong.yaml", "--steps", "1", "--", &toy("bare"), "3", "3", "1"], folder.path());
    has_line(&text, "op=64 (! is not a constant of its enumeration) name=\"blk.0.tensor\" shape=[");
    has_line(&text, "object tensor.shape has a negative or implausible extent: 3 of 3");
    has_line(&text, "object tensor.op is not a constant of its enumeration: 3 of 3, such as 64");
    has_line(&text, "profinfer explain wrong.yaml --target FILE object:tensor.shape");
    assert!(!text.contains("tokens=8 (!"), "{text}");
    assert!(!text.contains("name=\"blk.0.tensor\" (!"), "{text}");
}

#[test]
#[ignore = "needs root"]
fn try_prints_json_for_other_programs() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("wrong.yaml"), WRONG).unwrap();
    let arguments = ["try", "wrong.yaml", "--json", "--steps", "1", "--", &toy("bare"), "3", "3", "1"];
    let text = printed(&arguments, folder.path());
    // The toy prints its own line.
    let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let step = lines.iter().find(|line| line["probe"] == "step").unwrap();
    assert_eq!(step["fields"]["tokens"], 8);
    assert_eq!(step["doubts"], serde_json::json!({}));
    assert!(step["duration_ns"].as_u64().unwrap() > 0);
    let objects: Vec<&Value> = lines.iter().filter(|line| line["object"] == "tensor").collect();
    assert_eq!(objects.len(), 3, "{text}");
    for object in objects {
        assert_eq!(object["doubts"]["op"], "is not a constant of its enumeration");
        assert!(object["doubts"].get("name").is_none(), "{object}");
    }
    let end = lines.last().unwrap();
    assert_eq!(end["records"]["operator"], 3);
    assert_eq!(end["silent"], serde_json::json!([]));
    let sum = end["doubtful"].as_array().unwrap().iter().find(|sum| sum["field"] == "op").unwrap();
    assert_eq!((sum["probe"].as_str(), sum["count"].as_u64()), (Some("object tensor"), Some(3)));
}

#[test]
#[ignore = "needs root"]
fn try_says_that_there_was_no_step() {
    let folder = tempfile::tempdir().unwrap();
    let barren =
        WRONG.replace("engine:toy_step(toy_batch batch, i32 operators, i32 lanes) -> i32", "engine:toy_barrier");
    assert_ne!(barren, WRONG);
    let barren = barren.replace("    fields: { tokens: batch.tokens }\n", "");
    std::fs::write(folder.path().join("barren.yaml"), barren).unwrap();
    let output = profinfer(&["try", "barren.yaml", "--", &toy("bare"), "1", "0", "1"], folder.path());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    has_line(&text, "No step was recorded, and records outside of steps are dropped");
}

#[test]
fn explain_shows_each_step_of_a_path() {
    let here = Path::new(".");
    let (toy, spec) = (toy("toy"), probeset("toy.yaml"));
    let text = printed(&["explain", &spec, "operator.lane", "--target", &toy], here);
    has_line(&text, "params->lane i32 toy_params.lane at +0 DWARF");
    #[cfg(target_arch = "x86_64")]
    has_line(&text, "params toy_params* in rdi convention");
    assert!(!text.contains("node"), "only that field\n{text}");
    let text = printed(&["explain", &spec, "step.tokens", "--target", &toy], here);
    #[cfg(target_arch = "x86_64")]
    has_line(&text, "batch toy_batch on the stack, 8 bytes above");
    has_line(&text, "batch.tokens i32 toy_batch.tokens at +0 DWARF");
    let text = printed(&["explain", &spec, "object:tensor.name", "--target", &toy], here);
    has_line(&text, "name char[32] toy_tensor.name at +4 DWARF");
    let text = printed(&["explain", &spec, "object:tensor.name"], here);
    has_line(&text, "name char[32] toy_tensor.name at +?");
    for (path, reported) in [("operater", "no probe `operater`"), ("operator.lan", "did you mean `lane`")] {
        let output = profinfer(&["explain", &spec, path, "--target", &toy], here);
        assert_eq!(output.status.code(), Some(1));
        let problems = String::from_utf8_lossy(&output.stderr);
        assert!(problems.contains(reported), "{problems}");
    }
}

/// A process that is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "needs root"]
fn explain_reads_a_running_process() {
    let mut command = Command::new(toy("toy"));
    let running = Running(command.args(["1", "4", "1", "forever", "sleep=5"]).stdout(Stdio::null()).spawn().unwrap());
    let pid = running.0.id().to_string();
    let here = Path::new(".");
    let text = printed(&["explain", &probeset("toy.yaml"), "step.tokens", "-p", &pid, "--seconds", "60"], here);
    has_line(&text, "DWARF 01000000 1");
    let text = printed(&["explain", &probeset("toy.yaml"), "operator.lane", "-p", &pid, "--seconds", "60"], here);
    has_line(&text, "DWARF 00000000 0");
    // An object's field is read where a probe meets the object.
    let text = printed(&["explain", &probeset("toy.yaml"), "object:tensor.name", "-p", &pid, "--seconds", "60"], here);
    has_line(&text, "read by operator in toy_operator");
    let name: String = b"blk.".iter().map(|byte| format!("{byte:02x}")).collect();
    has_line(&text, &format!("name char[32] toy_tensor.name at +4 DWARF {name}"));
    has_line(&text, ".tensor");
    let text = printed(&["explain", &probeset("toy.yaml"), "operator.lane", "-p", &pid, "--seconds", "60"], here);
    pointer_s_bytes_are_its_value(&text, "params toy_params*");
}

/// A pointer's bytes are its value's, the least significant first.
#[track_caller]
fn pointer_s_bytes_are_its_value(text: &str, begins: &str) {
    let line = words(text).into_iter().find(|line| line.starts_with(begins)).unwrap_or_else(|| panic!("{text}"));
    let mut columns = line.split(' ').rev();
    let (value, bytes) = (columns.next().unwrap(), columns.next().unwrap());
    let value = u64::from_str_radix(value.trim_start_matches("0x"), 16).unwrap();
    assert_ne!(value, 0, "{line}");
    assert_eq!(bytes, hex(&value.to_le_bytes()), "{line}");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A C++ program that sleeps after each of its many rounds.
fn looping(folder: &Path, source: &str, flags: &[&str]) -> Running {
    let program = folder.join(source.trim_end_matches(".cpp"));
    let mut command = Command::new("g++");
    command.args(["-std=c++17", "-Wno-invalid-offsetof", "-Wno-attribute-alias"]).args(flags);
    assert!(command.arg("-o").arg(&program).arg(sources().join(source)).status().expect("g++").success());
    let mut command = Command::new(&program);
    Running(command.args(["100000000", "20000"]).stdout(Stdio::null()).spawn().unwrap())
}

#[test]
#[ignore = "needs root"]
fn explain_reads_what_c_plus_plus_keeps() {
    let folder = tempfile::tempdir().unwrap();
    let running = looping(folder.path(), "values.cpp", &["-O1", "-g"]);
    let pid = running.0.id().to_string();
    let explained = |path: &str| {
        printed(&["explain", &probeset("values.yaml"), path, "-p", &pid, "--seconds", "60"], folder.path())
    };
    // An element of a vector, which is a reference.
    let text = explained("reference.third");
    has_line(
        &text,
        "reference at zoo:zoo_reference(zoo::Dog& dog, std::vector<i32>& numbers, std::string(32)& word) -> i32",
    );
    let site = words(&text).into_iter().find(|line| line.starts_with("values: zoo_reference, `"));
    assert!(site.is_some_and(|line| line.ends_with('`') && line.len() > "values: zoo_reference, ``".len()), "{text}");
    has_line(&text, "STEP TYPE PLACE FROM BYTES VALUE");
    #[cfg(target_arch = "x86_64")]
    has_line(&text, "numbers std::vector<i32> in rsi convention");
    has_line(&text, "numbers[2] i32 element 2 of the vector, 4 bytes each 66000000 102");
    // A string that is in place: its bytes are those of its text, with what is behind it.
    let text = explained("reference.word");
    let line = words(&text).into_iter().find(|line| line.starts_with("word std::string(32) ")).unwrap();
    #[cfg(target_arch = "x86_64")]
    assert!(line.contains(" in rdx, by its library's layout of strings DWARF "), "{line}");
    assert!(line.contains(&format!(" {}", hex(b"Rex\0"))) && line.ends_with("\u{2026} Rex"), "{line}");
    // One that has no room in place, of a class that has two bases.
    let text = explained("dog.breed");
    pointer_s_bytes_are_its_value(&text, "dog zoo::Dog*");
    let long = "dachshund with a rather long name, more than in place";
    let bytes = hex(&long.as_bytes()[..16]);
    let place = "zoo::Dog.breed at +56, by its library's layout of strings";
    has_line(&text, &format!("dog->breed std::string(64) {place} DWARF {bytes}\u{2026} {long}"));
}

#[test]
#[ignore = "needs root"]
fn explain_reads_this_of_an_override() {
    let folder = tempfile::tempdir().unwrap();
    // Without symbols: the override is found by its class.
    let running = looping(folder.path(), "virtuals.cpp", &["-O2", "-s"]);
    let pid = running.0.id().to_string();
    let text =
        printed(&["explain", &probeset("virtuals.yaml"), "layer.name", "-p", &pid, "--seconds", "60"], folder.path());
    has_line(&text, "layer at virtual program:eng::Layer[3](eng::Layer* this, i32 number) -> memory");
    let sites: Vec<String> = words(&text).into_iter().filter(|line| line.starts_with("virtuals: eng::")).collect();
    assert!(sites.iter().any(|line| line.contains("::[3], `")), "{text}");
    assert!(sites.len() == 8 && sites.iter().all(|line| line.ends_with('`')), "{text}");
    has_line(&text, "and 2 more sites");
    // What is returned in memory has its place in the first register.
    #[cfg(target_arch = "x86_64")]
    has_line(&text, "this eng::Layer* in rsi convention");
    pointer_s_bytes_are_its_value(&text, "this eng::Layer*");
    let line = words(&text).into_iter().find(|line| line.starts_with("this->id i32 eng::Layer.id at +8 by hand "));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    let mut columns = line.split(' ').rev();
    let (value, bytes) = (columns.next().unwrap(), columns.next().unwrap());
    let value: i32 = value.parse().unwrap();
    // The layers are numbered from 10 on; which one is called first is not reported.
    assert!((10..=27).contains(&value), "{line}");
    assert_eq!(bytes, hex(&value.to_le_bytes()));
}

// ---- bpftrace ----------------------------------------------------------------------------------------------------

#[test]
fn a_script_says_what_it_leaves_out() {
    let folder = tempfile::tempdir().unwrap();
    let (spec, toy) = (probeset("expressed.yaml"), toy("toy"));
    let output = profinfer(&["gen", &spec, "--format", "bpftrace", "--target", &toy], folder.path());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let (script, problems) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    for part in ["`ids` of `list` is not part of the script", "`switch` is not part of the script", "G001"] {
        assert!(problems.contains(part), "{part} in {problems}");
    }
    for part in [":\"toy_step\"", "operator\\t%d", "ends.end\\t%d\\t%llu\\twaiting=%llu", "which=graph"] {
        assert!(script.contains(part), "{part} in {script}");
    }
    let output = profinfer(&["gen", &spec, "--format", "bpftrace"], folder.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("needs a target"));
}

/// How often each probe's records had which values; a value by name.
type Seen = BTreeMap<(String, Vec<(String, String)>), u64>;

fn count(seen: &mut Seen, probe: &str, mut fields: Vec<(String, String)>) {
    fields.sort();
    *seen.entry((probe.to_owned(), fields)).or_default() += 1;
}

/// What bpftrace printed: an entry and its end are one record, so ends' fields stand by themselves.
fn of_script(text: &str) -> Seen {
    let mut seen = Seen::new();
    for line in text.lines() {
        let mut columns = line.split('\t');
        let (Some(probe), Some(_thread), Some(_time)) = (columns.next(), columns.next(), columns.next()) else {
            continue;
        };
        let fields = columns.filter_map(|column| column.split_once('='));
        // How long something took differs from tool to tool.
        let fields = fields.filter(|(name, _)| *name != "waiting");
        count(&mut seen, probe, fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect());
    }
    seen
}

/// Fields that are read at the return.
const AT_RETURN: [&str; 2] = ["status", "sum"];

/// What the tensors of a trace were from when on, by address.
struct Tensors(BTreeMap<String, Vec<(u64, Value)>>);

impl Tensors {
    fn of(lines: &[Value]) -> Self {
        let mut all: BTreeMap<String, Vec<(u64, Value)>> = BTreeMap::new();
        for line in lines.iter().filter(|line| line["object"] == "tensor") {
            let described = (line["start_ns"].as_u64().unwrap(), line["fields"].clone());
            all.entry(line["address"].as_str().unwrap().to_owned()).or_default().push(described);
        }
        all.values_mut().for_each(|described| described.sort_by_key(|(time, _)| *time));
        Self(all)
    }

    /// What one is by the end of a step. The toy changes its tensors before the step's graph, and one lane describes them,
    /// which another may be ahead of.
    fn at(&self, address: &str, end: u64) -> &serde_json::Map<String, Value> {
        let described = self.0[address].iter().rev().find(|(time, _)| *time <= end);
        described.unwrap_or_else(|| panic!("{address} was described")).1.as_object().unwrap()
    }
}

/// What profinfer recorded, in the same form.
fn of_trace(dump: &str, ends: &[&str]) -> Seen {
    let mut seen = Seen::new();
    let lines: Vec<Value> = dump.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let tensors = Tensors::of(&lines);
    let time = |line: &Value, name: &str| line[name].as_u64().unwrap();
    let steps = lines.iter().filter(|line| line["probe"] == "step");
    let steps: Vec<(u64, u64)> =
        steps.map(|line| (time(line, "start_ns"), time(line, "start_ns") + time(line, "duration_ns"))).collect();
    for line in lines.iter().filter(|line| line["probe"].is_string()) {
        let probe = line["probe"].as_str().unwrap();
        let (mut at_entry, mut at_end) = (Vec::new(), Vec::new());
        for (name, value) in line["fields"].as_object().unwrap() {
            match name.as_str() {
                "waiting" | "ids" => {}
                name if AT_RETURN.contains(&name) => at_end.push((name.to_owned(), shown(value))),
                "node" => {
                    at_entry.push((name.clone(), shown(value)));
                    let start = time(line, "start_ns");
                    let step = steps.iter().find(|(from, to)| (*from..=*to).contains(&start));
                    let (_, end) = step.unwrap_or_else(|| panic!("{line} is within no step"));
                    let tensor = tensors.at(value.as_str().unwrap(), *end);
                    at_entry.extend(tensor.iter().map(|(name, value)| (format!("node.{name}"), shown(value))));
                }
                _ => at_entry.push((name.clone(), shown(value))),
            }
        }
        count(&mut seen, probe, at_entry);
        if ends.contains(&probe) {
            count(&mut seen, &format!("{probe}.end"), at_end);
        }
    }
    seen
}

/// A value as the script prints it.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => match text.as_str() {
            "ADD" => "0".to_owned(),
            "MATMUL" => "1".to_owned(),
            "NORM" => "2".to_owned(),
            text => text.to_owned(),
        },
        // Null pointers at the end of a list are left out by the one and printed by the other.
        Value::Array(values) => {
            let mut shown: Vec<String> = values.iter().map(shown_in_list).collect();
            shown.retain(|value| value != "0x0");
            format!("[{}]", shown.join(","))
        }
        other => other.to_string(),
    }
}

fn shown_in_list(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The first child of a process, once there is one.
fn child_of(process: u32, program: &Path) -> u32 {
    let path = format!("/proc/{process}/task/{process}/children");
    until("bpftrace runs its command", || {
        let children = std::fs::read_to_string(&path).unwrap_or_default();
        let child = children.split_whitespace().next()?.parse().ok()?;
        // It waits, once it is the program and reads.
        let is_it = std::fs::read_link(format!("/proc/{child}/exe")).is_ok_and(|exe| exe == program);
        let reads = std::fs::read_to_string(format!("/proc/{child}/wchan")).is_ok_and(|at| at.contains("pipe"));
        (is_it && reads).then_some(child)
    })
}

/// What a condition gives, once it does.
fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs a program once, with both tools at it from its start; gives what the script printed, and profinfer's dump. Its last
/// argument has it wait until its input ends. So many links are what the recorder holds once it is attached.
fn seen_by_both(program: &Path, arguments: &str, spec: &str, links: usize) -> (String, String) {
    let folder = program.parent().unwrap();
    let path = program.to_str().unwrap();
    let script = folder.join("script.bt");
    std::fs::write(&script, printed(&["gen", spec, "--format", "bpftrace", "--target", path], folder)).unwrap();
    let mut command = Command::new("bpftrace");
    command.arg(&script).args(["0", "-c", &format!("{path} {arguments} wait")]);
    let log = std::fs::File::create(folder.join("script.txt")).unwrap();
    command.stdin(Stdio::piped()).stdout(log).stderr(Stdio::piped()).env("BPFTRACE_PERF_RB_PAGES", "512");
    let mut tracer = Running(command.spawn().expect("bpftrace: scripts/setup tests installs it"));
    let target = child_of(tracer.0.id(), program);
    let trace = folder.join("run.pfi");
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    command.args(["record", spec, "-o"]).arg(&trace).args(["-p", &target.to_string()]);
    let mut recorder = Running(command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    until("the recorder attaches", || {
        assert!(recorder.0.try_wait().unwrap().is_none(), "the recorder ended");
        (attached(recorder.0.id()) >= links).then_some(())
    });
    // The program goes on when there is nothing more to read.
    drop(tracer.0.stdin.take());
    until("both end", || {
        let ended = recorder.0.try_wait().unwrap().is_some() && tracer.0.try_wait().unwrap().is_some();
        ended.then_some(())
    });
    let printed_by_script = std::fs::read_to_string(folder.join("script.txt")).unwrap();
    assert!(!printed_by_script.contains("Lost "), "{printed_by_script}");
    (printed_by_script, printed(&["dump", trace.to_str().unwrap()], folder))
}

/// That both saw the same, and each probe so often.
fn assert_alike(ours: &Seen, theirs: &Seen, counts: &[(&str, u64)]) {
    let total = |seen: &Seen, probe: &str| -> u64 {
        seen.iter().filter(|((name, _), _)| name == probe).map(|(_, count)| count).sum()
    };
    for (probe, count) in counts {
        assert_eq!((total(ours, probe), total(theirs, probe)), (*count, *count), "{probe}");
    }
    for (key, count) in ours {
        assert_eq!(theirs.get(key), Some(count), "{key:?}, of\n{theirs:#?}");
    }
    assert_eq!(ours.len(), theirs.len(), "{ours:#?}\n{theirs:#?}");
}

#[test]
#[ignore = "needs root"]
fn bpftrace_and_profinfer_see_the_same_run_alike() {
    let folder = tempfile::tempdir().unwrap();
    // A file of its own: bpftrace sees every process of a file's, and other tests run the toy, too.
    let own = folder.path().join("toy");
    std::fs::copy(toy("toy"), &own).unwrap();
    let (script, dump) = seen_by_both(&own, "20 6 2", &probeset("expressed.yaml"), 6);
    let ends = ["step", "graph", "operator", "ends"];
    let (theirs, ours) = (of_script(&without_nulls(&script)), of_trace(&dump, &ends));
    // Each operator of the first step, which has eight tokens, and of the 19 others, by each of two lanes: with its shape.
    for (tokens, steps) in [(8, 1), (1, 19)] {
        let shape = ("node.shape".to_owned(), format!("[64,{tokens},0,0]"));
        let with_shape = ours.iter().filter(|((probe, fields), _)| probe == "operator" && fields.contains(&shape));
        let counts: Vec<u64> = with_shape.map(|(_, count)| *count).collect();
        assert_eq!(counts, [steps; 12], "{ours:#?}");
    }
    assert_alike(&ours, &theirs, &[("step", 20), ("step.end", 20), ("operator", 240), ("list", 120), ("ends", 80)]);
}

/// A network in C++: methods that are one pattern, an argument behind `this`, a reference, a result.
const LAYERS: &str = "profinfer: 1
engine: layers
modules: { layers: layers }
types:
  net::Layer: { size: i32 }
  net::Tensor: { values: 'f32[64]' }
probes:
  step:
    at: layers:net::Session::run(this, net::Tensor& tensor, i32 length) -> i32
    role: step
    fields: { tokens: length, sum: return }
  layer:
    at: layers:net::*::forward(net::Layer* this, net::Tensor& input, net::Tensor* output) -> i32
    role: operator
    fields: { op: 'match[1]', size: this->size, sum: return }
";

#[test]
#[ignore = "needs root"]
fn bpftrace_and_profinfer_see_methods_alike() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("layers");
    let mut command = Command::new("c++");
    command.args(["-O1", "-g", "-o"]).arg(&program).arg(sources().join("layers.cpp"));
    assert!(command.status().expect("a C++ compiler").success());
    let spec = folder.path().join("layers.yaml");
    std::fs::write(&spec, LAYERS).unwrap();
    let (script, dump) = seen_by_both(&program, "20", spec.to_str().unwrap(), 3);
    let (theirs, ours) = (of_script(&script), of_trace(&dump, &["step", "layer"]));
    let layer = |op: &str, size: i32| {
        let fields = [("op", op.to_owned()), ("size", size.to_string())];
        ("layer".to_owned(), fields.map(|(name, value)| (name.to_owned(), value)).to_vec())
    };
    // Each layer's size is its number, and what the layer adds.
    let layers =
        [("Convolution", 2), ("Pooling", 4), ("Softmax", 7), ("Concat", 10), ("Reshape", 15), ("Attention", 18)];
    for (op, size) in layers {
        assert_eq!(ours.get(&layer(op, size)), Some(&20), "{op}: {ours:#?}");
    }
    assert_alike(&ours, &theirs, &[("step", 20), ("step.end", 20), ("layer", 120), ("layer.end", 120)]);
}

/// The script's lines in the form that they are compared in: without null pointers at the end of a list.
fn without_nulls(text: &str) -> String {
    let line = |line: &str| {
        let columns = line.split('\t').map(|column| column.replace(",0x0]", "]").replace("[0x0]", "[]"));
        columns.collect::<Vec<_>>().join("\t")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// How many probes of functions a recorder holds.
fn attached(recorder: u32) -> usize {
    let descriptors = std::fs::read_dir(format!("/proc/{recorder}/fdinfo")).into_iter().flatten().flatten();
    let texts = descriptors.filter_map(|descriptor| std::fs::read_to_string(descriptor.path()).ok());
    texts.filter(|text| text.contains("link_type:\tuprobe_multi") || text.contains("link_type:\tperf")).count()
}
