//! `profinfer scaffold`: what it writes for a binary that it has never seen passes `check` on that binary.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The toy engine, compiled with these flags.
fn toy(folder: &Path, flags: &[&str]) -> String {
    let toy = folder.join("toy");
    let mut command = Command::new("cc");
    command.args(flags).args(["-O1", "-DLINKED", "-o"]).arg(&toy);
    command.args(["toy.c", "toy_engine.c"].map(|file| in_repository("tests/targets").join(file)));
    assert!(command.args(["-ldl", "-lpthread"]).status().expect("a C compiler").success());
    toy.display().to_string()
}

fn profinfer(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    // Enough that a trial of the toy is mostly operators, however long the machine takes to make its threads.
    command.env("TOY_WORK", "200000");
    command.args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// What `scaffold` writes, after `check` has taken it.
fn checked(folder: &Path, target: &str, arguments: &[&str]) -> String {
    let file = folder.join("draft.yaml");
    let path = file.to_str().unwrap();
    let output = profinfer(&[&["scaffold", target, "--force", "-o", path], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&file).unwrap();
    let output = profinfer(&["check", path, "--target", target]);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
}

#[test]
fn debug_information_gives_arguments_and_views() {
    let folder = tempfile::tempdir().unwrap();
    let toy = toy(folder.path(), &["-g"]);
    let text = checked(folder.path(), &toy, &[]);
    has(
        &text,
        &[
            "toy:toy_step(toy_batch batch, i32 operators, i32 lanes) -> i32\n    role: step",
            "tokens: batch.tokens",
            "toy_operator(toy_params* params, toy_tensor* tensor)\n    role: operator",
            "lane: params->lane",
            "node: tensor as object toy_tensor",
            "op: enum toy_op",
            "name: char[32]",
            "shape: i64[4]",
            "inputs: toy_tensor*[2]",
            "toy:toy_graph(i32 operators, i32 lanes)\n    role: graph",
        ],
    );
    // Only what is asked for.
    let text = checked(folder.path(), &toy, &["*barrier*"]);
    has(&text, &["toy_barrier", "role: region"]);
    assert!(!text.contains("toy_step"), "{text}");
    let output = profinfer(&["scaffold", &toy, "no_such_*"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn names_alone_are_enough_for_a_draft() {
    let folder = tempfile::tempdir().unwrap();
    let toy = toy(folder.path(), &["-g0"]);
    let text = checked(folder.path(), &toy, &[]);
    has(&text, &["at: toy:toy_step\n    role: step", "No debug information"]);
}

#[test]
#[ignore = "needs root"]
fn a_trial_counts_calls() {
    let folder = tempfile::tempdir().unwrap();
    let toy = toy(folder.path(), &["-g"]);
    let text = checked(folder.path(), &toy, &["--trial", "--seconds", "60", "--", &toy, "20", "4", "2"]);
    has(
        &text,
        &[
            "Called 20 times in the trial.\n    at: toy:toy_step(",
            "Called 160 times in the trial.\n    at: toy:toy_operator(",
        ],
    );
}

#[test]
#[ignore = "needs root"]
fn a_real_engine_gets_a_draft_that_checks() {
    let output = Command::new(in_repository("tests/engines/build_llama.sh")).arg("shared").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    let libraries = Path::new(printed.trim()).join("lib");
    let folder = tempfile::tempdir().unwrap();
    let patterns = ["llama_*", "*graph_compute*", "ggml_compute_forward*", "ggml_cpu_extra*"];
    let text = checked(folder.path(), libraries.to_str().unwrap(), &patterns);
    has(&text, &["role: operator", "as object ggml_tensor", "name: char[64]", "op: enum ggml_op"]);
}

/// A network whose layers are overrides of a virtual method, compiled with these flags.
fn layers(folder: &Path, flags: &[&str]) -> String {
    let layers = folder.join("layers");
    let mut command = Command::new("c++");
    command.args(flags).args(["-O2", "-o"]).arg(&layers).arg(in_repository("tests/targets/layers.cpp"));
    assert!(command.status().expect("a C++ compiler").success());
    layers.display().to_string()
}

#[test]
fn symbols_give_the_types_of_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let layers = layers(folder.path(), &["-g0"]);
    let text = checked(folder.path(), &layers, &["*Session::run", "*::forward"]);
    has(
        &text,
        &[
            "at: layers:net::Session::run(net::Session* self, net::Tensor* argument_2, i32 argument_3)",
            // A method of six classes.
            "at: layers:net::*::forward(void* self, net::Tensor* argument_2, net::Tensor* argument_3)",
            "  net::Tensor: {}",
            "Arguments from the symbol",
        ],
    );
    // What makes and ends objects is no step of inference; and where symbols are, no table is needed.
    let text = checked(folder.path(), &layers, &[]);
    assert!(!text.contains("Session::Session") && !text.contains('~') && !text.contains("virtual"), "{text}");
}

#[test]
fn a_stripped_file_has_its_classes() {
    let folder = tempfile::tempdir().unwrap();
    let layers = layers(folder.path(), &["-s"]);
    let text = checked(folder.path(), &layers, &[]);
    has(
        &text,
        &[
            "at: virtual layers:net::Layer[2](this)",
            "at: virtual layers:net::Layer[3](this)",
            "6 classes derive from it, with 6 functions in this slot",
            "op: match[1]",
        ],
    );
    let output = profinfer(&["scaffold", &layers, "*Tensor*"]);
    assert_eq!(output.status.code(), Some(1), "no class of such a name has others derive from it");
}

#[test]
#[ignore = "needs root"]
fn a_trial_tells_the_slot_that_is_called() {
    let folder = tempfile::tempdir().unwrap();
    let layers = layers(folder.path(), &["-s"]);
    let text = checked(folder.path(), &layers, &["--trial", "--seconds", "60", "--", &layers, "20"]);
    has(&text, &["Called 120 times in the trial.", "at: virtual layers:net::Layer[3](this)\n    role: operator"]);
    has(&text, &["Called 6 times in the trial."]);
    // The destructors' slots were not called.
    assert!(!text.contains("Layer[0]") && !text.contains("Layer[1]"), "{text}");
}

#[test]
#[ignore = "needs root"]
fn a_trial_takes_a_method_of_many_classes_for_operators_where_symbols_are() {
    let folder = tempfile::tempdir().unwrap();
    let layers = layers(folder.path(), &["-g0"]);
    let text = checked(folder.path(), &layers, &["--trial", "--seconds", "60", "--", &layers, "20"]);
    has(
        &text,
        &[
            "Called 120 times in the trial.\n    # 6 functions.\n",
            "at: layers:net::*::forward(void* self, net::Tensor* argument_2, net::Tensor* argument_3)\n    role: operator",
            "op: match[1]",
        ],
    );
}

#[test]
#[ignore = "needs root"]
fn a_stripped_wheel_has_the_class_of_its_kernels() {
    let output = Command::new(in_repository("tests/engines/install_onnxruntime.sh")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let python = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    let libraries = std::fs::read_dir(python.parent().unwrap().parent().unwrap().join("lib")).unwrap();
    let capi = libraries.map(|folder| folder.unwrap().path().join("site-packages/onnxruntime/capi"));
    let files = std::fs::read_dir(capi.into_iter().find(|folder| folder.exists()).unwrap()).unwrap();
    let mut files = files.map(|file| file.unwrap().path().display().to_string());
    let engine = files.find(|file| file.contains("onnxruntime_pybind11_state") && file.contains(".so")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let text = checked(folder.path(), &engine, &[]);
    has(&text, &["onnxruntime_pybind11_state:onnxruntime::OpKernel[2](this)\n    role: operator", "op: match[1]"]);
}

#[test]
#[ignore = "needs root"]
fn a_running_process_gets_a_draft_too() {
    let folder = tempfile::tempdir().unwrap();
    let layers = layers(folder.path(), &["-s"]);
    let mut running = Command::new(&layers).arg("2000000000").stdout(Stdio::null()).spawn().unwrap();
    let pid = running.id().to_string();
    let output = profinfer(&["scaffold", &layers, "-p", &pid, "--duration", "2s"]);
    running.kill().unwrap();
    running.wait().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    has(&text, &["at: virtual layers:net::Layer[3](this)\n    role: operator", "on 6 objects"]);
    assert!(!text.contains("Layer[2]"), "it was called before: {text}");
}

/// A library with steps of three operators each, and a program that loads libraries of that name one after the other.
const ENGINE: &str = r#"
#include <unistd.h>
__attribute__((noinline)) void engine_operator(int n) { usleep(50 + n); }
__attribute__((noinline)) void engine_step(void) { for (int n = 0; n < 3; n++) engine_operator(n); usleep(1); }
"#;
const HOST: &str = r#"
#include <dlfcn.h>
#include <stdlib.h>
void engine_operator(int n) {}
void engine_step(void) {}
int main(int argc, char **argv) {
	for (int i = 1; i + 1 < argc; i += 2) {
		void (*step)(void) = dlsym(dlopen(argv[i], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND), "engine_step");
		for (int n = 0; n < atoi(argv[i + 1]); n++)
			step();
	}
	return 0;
}
"#;

#[test]
#[ignore = "needs root"]
fn a_trial_is_of_the_named_file_however_late_it_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let compile = |source: &str, name: &str, flags: &[&str]| {
        let (file, made) = (folder.path().join("source.c"), folder.path().join(name));
        std::fs::create_dir_all(made.parent().unwrap()).unwrap();
        std::fs::write(&file, source).unwrap();
        assert!(Command::new("cc").args(flags).arg("-o").arg(&made).arg(&file).arg("-ldl").status().unwrap().success());
        made.display().to_string()
    };
    let (wanted, other) = ("wanted/libengine.so", "other/libengine.so");
    let wanted = compile(ENGINE, wanted, &["-O1", "-g0", "-shared", "-fPIC"]);
    let other = compile(&ENGINE.replace("50 + n", "60 + n"), other, &["-O1", "-g0", "-shared", "-fPIC"]);
    let host = compile(HOST, "host", &["-O1", "-rdynamic"]);
    let text = checked(folder.path(), &wanted, &["--trial", "--", &host, &other, "7", &wanted, "20"]);
    has(
        &text,
        &[
            "Called 20 times in the trial.\n    at: engine:engine_step\n    role: step",
            "Called 60 times in the trial.\n    at: engine:engine_operator\n    role: operator",
            "op: match[0]",
        ],
    );
}
