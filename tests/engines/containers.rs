//! An engine in a container, recorded from outside it: other PID, mount and network namespaces, an overlay of a root file
//! system with another C library and another Python, files that this machine does not have or has otherwise.

use crate::attach::{end, names};
use crate::engine::{Engine, here, model, workload};
use crate::installed::{Machine, wheels};
use crate::recording::Recording;
use crate::work::assert_same;
use std::ffi::OsString;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The release, its Python, and the wheel that tests without containers use.
const RELEASE: (&str, &str, &str) = ("trixie", "3.13", "xllamacpp==2026.10.11549");
const MODEL: &str = "tiny-dense";

/// Ends with the test, whatever becomes of that.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).ok();
    }
}

fn machine() -> Machine {
    let (suite, python, wheel) = RELEASE;
    let mut files = wheels(python, wheel);
    files.extend([model(MODEL), here().join("run_xllamacpp.py"), here().join("../installed/complete.py")]);
    let machine = Machine::new(suite, &files);
    machine.runs("python3 -m zipfile --extract /srv/xllamacpp-*.whl /opt/engine");
    machine
}

/// A Python script in `/srv`, with its words, as a container's only command.
fn container(machine: &Machine, words: &[&str]) -> Command {
    python(machine.command(true), words)
}

fn python(mut command: Command, words: &[&str]) -> Command {
    command.args(["env", "PYTHONPATH=/opt/engine", "python3", "-B"]).args(words).current_dir("/");
    command
}

/// The first process of the container, by its number here.
fn first_process(container: &Child) -> u32 {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let outer = container.id();
        let children = std::fs::read_to_string(format!("/proc/{outer}/task/{outer}/children")).unwrap_or_default();
        let inner = children.trim();
        let maps = std::fs::read_to_string(format!("/proc/{inner}/maps")).unwrap_or_default();
        if maps.contains("xllamacpp") {
            return inner.parse().unwrap();
        }
        assert!(Instant::now() < until, "the engine does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[ignore = "needs root"]
fn an_engine_in_a_container_is_recorded_by_its_number_outside() {
    let machine = machine();
    let truth = Engine::Wheel.truth(&workload(MODEL, 1), false).steps;
    let truth = names(truth.iter().rfind(|step| step.tokens == 1).unwrap());
    let mut target = container(&machine, &["/srv/complete.py", "/srv/tiny-dense.gguf", "16", "forever"]);
    let target = target.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut target = Running(target.unwrap());
    let inner = first_process(&target.0).to_string();
    let status = std::fs::read_to_string(format!("/proc/{inner}/status")).unwrap();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap();
    assert_eq!(numbers.split_whitespace().last(), Some("1"), "{numbers}");
    let set = |command: &mut Command| {
        command.args(["-p", &inner]);
    };
    let recording = Recording::new("llama", &["--steps", "3..40"], set, 0);
    assert_eq!(target.0.try_wait().unwrap(), None, "the engine runs on");
    recording.assert_complete();
    recording.assert_lanes(1);
    assert_named(&recording);
    assert!(end(&recording).contains("steps"), "{}", end(&recording));
    let steps = recording.work();
    assert_eq!(steps.len(), 38);
    let decode: Vec<_> = steps.iter().filter(|step| step.tokens == 1).collect();
    assert!(decode.len() > 30, "of 16 steps, one computes the prompt: {}", decode.len());
    assert!(decode.into_iter().all(|step| names(step) == truth));
}

/// As with an engine of containers that is recorded itself, `record -- podman run …`; and with `chroot`, after which paths
/// are not those that the process uses.
#[test]
#[ignore = "needs root"]
fn a_command_that_starts_a_container_is_recorded_into_it() {
    let machine = machine();
    let truth = Engine::Wheel.truth(&workload(MODEL, 1), false).steps;
    for is_container in [true, false] {
        let script = ["/srv/run_xllamacpp.py", "--model", "/srv/tiny-dense.gguf"];
        let command = python(machine.command(is_container), &script);
        let words: Vec<OsString> =
            std::iter::once(command.get_program()).chain(command.get_args()).map(Into::into).collect();
        let set = |command: &mut Command| {
            command.arg("--").args(&words);
        };
        let recording = Recording::new("llama", &[], set, 0);
        assert_same("in a container", &recording.work(), &truth);
        recording.assert_complete();
        recording.assert_lanes(1);
        assert_named(&recording);
    }
}

/// The engine's file, as the host reaches it.
fn assert_named(recording: &Recording) {
    let modules = &recording.info()["modules"];
    let path = modules[0]["path"].as_str().unwrap();
    let inside = path.strip_prefix("/proc/").and_then(|path| path.split_once('/')).map(|(_, inside)| inside);
    let expected = "root/opt/engine/xllamacpp/xllamacpp.abi3.so";
    assert_eq!((modules.as_array().unwrap().len(), inside), (1, Some(expected)), "{path}");
}
