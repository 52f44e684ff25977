//! A made-up engine whose structs lie otherwise than the probeset has them: members are found in its code or its memory, or
//! are absent, and never wrong. The names that the program gives are the account to compare with.

use crate::invocation::{lines, succeeds};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const OPS: [&str; 3] = ["conv", "softmax", "add"];

struct Engine(TempDir);

impl Engine {
    fn new(flags: &[&str]) -> Self {
        let engine = Self(tempfile::tempdir().unwrap());
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets/kernels.c");
        let mut compile = Command::new("cc");
        compile.args(["-O2", "-Wl,--build-id=sha1", "-o"]).arg(engine.path("kernels"));
        succeeds(compile.args(flags).arg(source));
        engine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn probeset(&self, node: &str) {
        let text = format!(
            "profinfer: 1
engine: kernels
modules: {{ kernels: kernels }}
types:
  kernel: {{ node: node* @ 8 }}
  node:
{node}
objects:
  kernel: {{ of: kernel, fields: {{ name: node->name, op: node->op, inputs: node->inputs }} }}
probes:
  step: {{ at: 'kernels:step(void* kernels, i32 count)', role: step, fields: {{ tokens: count }} }}
  run: {{ at: 'kernels:run_*(kernel* kernel)', role: operator, fields: {{ node: kernel as object kernel }} }}
"
        );
        std::fs::write(self.path("kernels.yaml"), text).unwrap();
    }

    /// Records it; gives the output and the trace.
    fn record(&self, kernels: usize, rounds: usize) -> (Output, Vec<Value>) {
        let output = self
            .profinfer(&["record", "kernels.yaml", "-o", "run.pfi", "--force", "--", "./kernels"])
            .args([kernels.to_string(), rounds.to_string()])
            .output()
            .unwrap();
        assert!(matches!(output.status.code(), Some(0 | 4)), "{}", String::from_utf8_lossy(&output.stderr));
        let dump = succeeds(&mut self.profinfer(&["dump", "run.pfi"]));
        (output, lines(&dump.stdout))
    }

    fn profinfer(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        command.args(arguments).current_dir(self.0.path()).env("PROFINFER_CACHE", self.path("cache"));
        command
    }
}

/// How many descriptions have a name; each name that is there is that of the program, with its type.
fn names(trace: &[Value]) -> usize {
    let mut named = 0;
    for fields in trace.iter().filter(|event| event["object"] == "kernel").map(|event| &event["fields"]) {
        let Some(name) = fields["name"].as_str() else { continue };
        let number = name.strip_prefix("layer").and_then(|rest| rest.strip_suffix("/x"));
        let number: usize = number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{name:?}"));
        if let Some(op) = fields["op"].as_str() {
            assert_eq!(op, OPS[number % 3], "{name}");
        }
        if let Some(inputs) = fields["inputs"].as_u64() {
            assert_eq!(inputs as usize, number % 4, "{name}");
        }
        named += 1;
    }
    named
}

const LEARNED: &str = "    name: cstr(32)
    op: cstr(16)
    inputs: i32
    within: 128
    expect: { name: [text, distinct], op: [text, 'in match[1]'], inputs: 0..64 }";

#[test]
#[ignore = "needs root"]
fn members_are_learned_while_the_engine_runs_and_are_there_from_the_start_the_next_time() {
    for flags in [&["-DPAD=0"][..], &["-DPAD=3"]] {
        let engine = Engine::new(flags);
        // What an integer is cannot be told from its value alone: it is in the code.
        engine.probeset(&LEARNED.replace("inputs: i32", "inputs: i32 from node_inputs(self)"));
        let (_, first) = engine.record(24, 100);
        assert!(names(&first) >= 24, "{flags:?}: {}", names(&first));
        let info = || String::from_utf8(succeeds(&mut engine.profinfer(&["info", "run.pfi"])).stdout).unwrap();
        let late = "learned meanwhile";
        assert!(info().contains(late), "descriptions before that have no names: {}", info());
        let (_, second) = engine.record(24, 5);
        assert_eq!(names(&second), 24, "{flags:?}: from the start");
        let info = info();
        assert!(!info.contains(late), "{info}");
        assert!(info.contains("accessor node_inputs"), "{info}");
    }
}

#[test]
#[ignore = "needs root"]
fn learn_prints_the_evidence_and_writes_a_lock_file() {
    let engine = Engine::new(&["-DPAD=2"]);
    engine.probeset(&LEARNED.replace("    inputs: i32\n", "    inputs: i32 from node_inputs(self)\n"));
    let learned =
        succeeds(engine.profinfer(&["learn", "kernels.yaml", "-o", "k.lock", "--", "./kernels"]).args(["24", "300"]));
    let table = String::from_utf8(learned.stdout).unwrap();
    assert!(table.contains("24 distinct objects, such as `layer"), "{table}");
    assert!(table.lines().any(|line| line.starts_with("node.name") && line.contains(" 24 ")), "{table}");
    let lock = std::fs::read_to_string(engine.path("k.lock")).unwrap();
    assert!(lock.contains("\"name\": 24") && lock.contains("\"op\": 32"), "{lock}");
}

/// The addresses are the engine's, not of the script that starts it.
#[test]
#[ignore = "needs root"]
fn members_are_learned_of_an_engine_that_a_script_starts() {
    // The shell's C library has a function `step`, too.
    let engine = Engine::new(&["-DPAD=2", "-Dstep=kernels_step"]);
    engine.probeset(&LEARNED.replace("inputs: i32", "inputs: i32 from node_inputs(self)"));
    let text = std::fs::read_to_string(engine.path("kernels.yaml")).unwrap();
    std::fs::write(engine.path("kernels.yaml"), text.replace("kernels:step(", "kernels:kernels_step(")).unwrap();
    let mut learn = engine.profinfer(&["learn", "kernels.yaml", "-o", "k.lock", "--", "sh", "-c"]);
    let table = String::from_utf8(succeeds(learn.arg("./kernels 24 300; true")).stdout).unwrap();
    assert!(table.contains("24 distinct objects, such as `layer"), "{table}");
    let lock = std::fs::read_to_string(engine.path("k.lock")).unwrap();
    assert!(lock.contains("\"name\": 24") && lock.contains("\"op\": 32"), "{lock}");
}

/// Of two objects one is learned: there is one list of kernels.
#[test]
#[ignore = "needs root"]
fn what_was_not_learned_is_named_beside_what_was() {
    let engine = Engine::new(&["-DPAD=2"]);
    engine.probeset(&LEARNED.replace("inputs: i32", "inputs: i32 from node_inputs(self)"));
    let text = std::fs::read_to_string(engine.path("kernels.yaml")).unwrap();
    let text = text
        .replace("types:\n", "types:\n  list: { number: i32, within: 64, expect: { number: 1..64 } }\n")
        .replace("objects:\n", "objects:\n  list: { of: list, fields: { number: number } }\n")
        .replace("void* kernels", "list* kernels")
        .replace("tokens: count", "tokens: count, list: kernels as object list");
    std::fs::write(engine.path("kernels.yaml"), text).unwrap();
    let learn = |options: &[&str]| {
        let mut learn = engine.profinfer(&["learn", "kernels.yaml", "--seconds", "9"]);
        let output = learn.args(options).args(["--", "./kernels", "24", "300"]).output().unwrap();
        let [table, told] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), table, told)
    };
    let why = "list.number could not be learned: 1 distinct object was seen; 20 are needed";
    let (code, table, told) = learn(&["-o", "k.lock"]);
    assert!(code == Some(4) && table.contains("node.name") && told.contains(why), "{code:?} {table} {told}");
    assert!(std::fs::read_to_string(engine.path("k.lock")).unwrap().contains("\"name\": 24"));
    // With what the lock file has nothing is left to be learned.
    let (code, table, told) = learn(&["-o", "again.lock", "--lock", "k.lock"]);
    assert!(code == Some(4) && table.is_empty() && told.contains("nothing was learned"), "{code:?} {table} {told}");
    assert!(!engine.path("again.lock").exists() && !told.contains("error"), "{told}");
    let (code, _, told) = learn(&["--lock", "absent.lock"]);
    assert!(code != Some(0) && told.contains("L001"), "{code:?} {told}");
    // A recording lists it, and no longer what was learned.
    engine.record(24, 100);
    let info = String::from_utf8(succeeds(&mut engine.profinfer(&["info", "run.pfi"])).stdout).unwrap();
    let info = info.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(info.contains(why) && !info.contains("in node is not available"), "{info}");
}

/// A command is launched only for what there is to learn, and one error gives the reason where nothing was.
#[test]
#[ignore = "needs root"]
fn learn_says_once_why_nothing_is_learned() {
    let engine = Engine::new(&["-DPAD=2"]);
    let learn = |command: &[&str]| {
        let mut learn = engine.profinfer(&["learn", "kernels.yaml", "--seconds", "3", "-o", "k.lock", "--"]);
        let output = learn.args(command).output().unwrap();
        assert!(output.stdout.is_empty() && !engine.path("k.lock").exists());
        let told = String::from_utf8(output.stderr).unwrap();
        let of = |word: &str| told.lines().filter(|line| line.starts_with(word)).map(str::to_owned).collect::<Vec<_>>();
        (output.status.code(), of("error"), of("warning"))
    };
    engine.probeset(WRITTEN);
    let nothing = "error[T009]: the probeset `kernels` has nothing to learn".to_owned();
    assert_eq!(learn(&["touch", "launched"]), (Some(1), vec![nothing], vec![]));
    assert!(!engine.path("launched").exists());
    engine.probeset(&LEARNED.replace("inputs: i32", "inputs: i32 from node_inputs(self)"));
    // The C library has a function `step`.
    let text = std::fs::read_to_string(engine.path("kernels.yaml")).unwrap();
    std::fs::write(engine.path("kernels.yaml"), text.replace("kernels:step(", "kernels:absent_step(")).unwrap();
    let (code, errors, _) = learn(&["true"]);
    assert_eq!((code, errors.len()), (Some(1), 1), "{errors:?}");
    assert!(errors[0].starts_with("error[T010]"), "{errors:?}");
}

#[test]
#[ignore = "needs root"]
fn too_few_objects_leave_members_absent_with_the_reason() {
    let engine = Engine::new(&["-DPAD=0"]);
    engine.probeset(&LEARNED.replace("inputs: i32", "inputs: i32 from node_inputs(self)"));
    let (output, trace) = engine.record(12, 250);
    assert_eq!(names(&trace), 0);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("12 distinct objects were seen; 20 are needed"), "{told}");
    assert!(told.lines().filter(|line| line.starts_with("warning")).count() <= 5, "{told}");
}

#[test]
#[ignore = "needs root"]
fn a_target_that_ends_before_the_search_leaves_members_absent_with_the_reason() {
    let engine = Engine::new(&["-DPAD=1"]);
    engine.probeset(&LEARNED.replace("inputs: i32", "inputs: i32 from node_inputs(self)"));
    let (output, trace) = engine.record(24, 1);
    assert_eq!(names(&trace), 0);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("could not be learned: the recording ended"), "{told}");
}

const WRITTEN: &str = "    name: cstr(32) @ 8
    op: cstr(16) @ 16
    inputs: i32 @ 24
    expect: { name: text, op: text, inputs: 0..64 }";

/// The same struct with members before: what is read there is no text, and is not shown as one.
#[test]
#[ignore = "needs root"]
fn a_patched_layout_is_never_misread_in_silence() {
    let right = Engine::new(&["-DPAD=0"]);
    right.probeset(WRITTEN);
    let (output, trace) = right.record(24, 3);
    assert_eq!((output.status.code(), names(&trace)), (Some(0), 24));
    let wrong = Engine::new(&["-DPAD=2", "-DFILL=1"]);
    wrong.probeset(WRITTEN);
    let (output, trace) = wrong.record(24, 3);
    assert_eq!(names(&trace), 0, "no name is shown");
    assert_eq!(output.status.code(), Some(4), "the trace is not called complete");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("T022") && told.contains("node.name"), "{told}");
    // The same, where the engine's code has the offset.
    wrong.probeset(&WRITTEN.replace("name: cstr(32) @ 8", "name: cstr(32) @ 8 from node_name(self)").replace(
        "op: cstr(16) @ 16\n    inputs: i32 @ 24",
        "op: cstr(16) @ name + 8\n    inputs: i32 from node_inputs(self)",
    ));
    let (output, trace) = wrong.record(24, 3);
    assert_eq!((output.status.code(), names(&trace)), (Some(0), 24));
}

/// Shapes in C++ vectors and in arrays, wherever they lie; the objects are in lists. The program prints them.
#[test]
#[ignore = "needs root"]
fn shapes_in_vectors_and_arrays_are_those_that_the_program_prints() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets/tensors.cpp");
    for (compiler, flags) in
        [("g++", &["-O2", "-DPAD=0"][..]), ("g++", &["-O0", "-DPAD=5"]), ("clang++", &["-O2", "-DPAD=3"])]
    {
        let engine = Engine(tempfile::tempdir().unwrap());
        let mut compile = Command::new(compiler);
        compile.args(flags).args(["-Wl,--build-id=sha1", "-o"]).arg(engine.path("tensors")).arg(&source);
        succeeds(&mut compile);
        let text = "profinfer: 1
engine: tensors
modules: { tensors: tensors }
types:
  Tensor:
    shape: std::vector<i64>
    extents: i64[3]
    within: 160
    expect: { shape: 1..4096, extents: 1..4096 }
objects:
  tensor: { of: Tensor, fields: { shape: '[shape[0], shape[1]]', last: 'extents' } }
probes:
  step: { at: 'tensors:step()', role: step }
  run: { at: 'tensors:run_tensor(Tensor* tensor)', role: operator, fields: { op: 'match[0]', inputs: '[tensor as object tensor]' } }
";
        std::fs::write(engine.path("tensors.yaml"), text).unwrap();
        let learn = ["learn", "tensors.yaml", "-o", "tensors.lock", "--force", "--", "./tensors", "30", "1000"];
        let learned = String::from_utf8(succeeds(&mut engine.profinfer(&learn)).stdout).unwrap();
        assert!(learned.contains("30 distinct objects, such as `["), "{compiler} {flags:?}: {learned}");
        let record =
            ["record", "tensors.yaml", "--lock", "tensors.lock", "-o", "run.pfi", "--", "./tensors", "30", "5"];
        let printed = String::from_utf8(succeeds(&mut engine.profinfer(&record)).stdout).unwrap();
        let dump = lines(&succeeds(&mut engine.profinfer(&["dump", "run.pfi"])).stdout);
        let mut found = 0;
        for object in dump.iter().filter(|event| event["object"] == "tensor") {
            let numbers = |field: &str| object["fields"][field].as_array().unwrap().clone();
            let (shape, last) = (numbers("shape"), numbers("last"));
            let line = format!("{} {} {} {}", object["address"].as_str().unwrap(), shape[0], shape[1], last[2]);
            assert!(printed.lines().any(|of| of == line), "{compiler} {flags:?}: {line} is not in\n{printed}");
            found += 1;
        }
        assert_eq!(found, 30, "{compiler} {flags:?}");
        // Fewer prove nothing, and their number is printed.
        let few = ["learn", "tensors.yaml", "-o", "few.lock", "--", "./tensors", "7", "20"];
        let output = engine.profinfer(&few).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains("7 distinct objects were seen; 20 are needed"), "{told}");
        assert!(!engine.path("few.lock").exists());
    }
}
