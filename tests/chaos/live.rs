//! Live figures of targets that end, and of readers that are killed: nothing of the target changes, the figures are the
//! target's own, and nothing is left behind.

use super::control_group::ControlGroup;
use super::toy::{Counts, PROBESET, Run, child_named, children, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
#[cfg(feature = "columnar")]
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
#[cfg(feature = "columnar")]
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A toy at work, with its input.
pub(crate) fn toy(run: &Run, name: &str, words: &[&str]) -> (Child, ChildStdin) {
    spawn(run.toy(name, words))
}

fn spawn(words: Vec<String>) -> (Child, ChildStdin) {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut toy = command.spawn().unwrap();
    let input = toy.stdin.take().unwrap();
    (toy, input)
}

/// `serve`, and where it listens.
pub(crate) struct Serve {
    pub(crate) program: Child,
    pub(crate) address: String,
    messages: Arc<Mutex<Vec<String>>>,
}

impl Serve {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, &[])
    }

    /// With variables of the environment.
    pub(crate) fn start_with(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::start_in(&["env"], arguments, variables)
    }

    /// Started by a wrapper.
    fn start_in(wrapper: &[&str], arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(wrapper[0]);
        command.args(&wrapper[1..]).arg(env!("CARGO_BIN_EXE_profinfer"));
        command.args(["serve", PROBESET, "--listen", "127.0.0.1:0", "--budget", "100%"]).args(arguments);
        command.envs(variables.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut program = command.spawn().unwrap();
        let mut lines = BufReader::new(program.stderr.take().unwrap()).lines();
        let address = lines.by_ref().map(Result::unwrap).find_map(|line| {
            let (_, rest) = line.strip_prefix("listening on ")?.split_once("://")?;
            Some(rest.split('/').next().unwrap().to_owned())
        });
        // What comes later must not fill the pipe.
        let messages = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&messages);
        std::thread::spawn(move || lines.for_each(|line| theirs.lock().unwrap().push(line.unwrap())));
        Self { program, address: address.expect("an address"), messages }
    }

    /// What it has written since it listens.
    pub(crate) fn messages(&self) -> String {
        self.messages.lock().unwrap().join("\n")
    }

    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
        body.to_owned()
    }

    /// The sum of a metric's series that have all of these texts; `None` where there is none.
    pub(crate) fn metric(&self, name: &str, labels: &[&str]) -> Option<f64> {
        let text = self.get("/metrics");
        let lines = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        let found = lines.filter(|line| labels.iter().all(|label| line.contains(label)));
        found.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).reduce(|a, b| a + b)
    }

    /// What a process's series are called.
    fn instance(&self, process: u32) -> Option<String> {
        let text = self.get("/metrics");
        let pid = format!("process_pid=\"{process}\"");
        let mut infos = text.lines().filter(|line| line.starts_with("profinfer_target_info{"));
        let info = infos.rfind(|line| line.contains(&pid))?;
        Some(info.split("service_instance_id=\"").nth(1)?.split('"').next()?.to_owned())
    }

    pub(crate) fn of(&self, process: u32, name: &str) -> Option<f64> {
        self.metric(name, &[&format!("service_instance_id=\"{}\"", self.instance(process)?)])
    }

    pub(crate) fn steps(&self, toy: &Child) -> f64 {
        self.of(toy.id(), "profinfer_step_seconds_count").unwrap_or(0.0)
    }

    fn is_recording(&self, toy: &Child) -> bool {
        self.of(toy.id(), "profinfer_recording") == Some(1.0)
    }

    /// The process that forks recorders.
    fn fork_server(&self) -> Pid {
        child_named(Pid::from_raw(self.program.id().cast_signed()), "profinfer-fork").unwrap()
    }

    fn recorders(&self) -> Vec<Pid> {
        children(self.fork_server())
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// BPF links that a process holds.
fn links(pid: Pid) -> usize {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let texts = descriptors.filter_map(|descriptor| std::fs::read_to_string(descriptor.path()).ok());
    texts.filter(|text| text.contains("link_type:")).count()
}

fn is_there(pid: Pid) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

pub(crate) fn end(mut toy: Child, input: ChildStdin) {
    toy.kill().unwrap();
    toy.wait().unwrap();
    drop(input);
}

/// Rows of all files of a table, and how many files these are.
#[cfg(feature = "columnar")]
fn rows(folder: &Path, table: &str) -> (u64, usize) {
    let mut folders = vec![folder.join(table)];
    let (mut rows, mut files) = (0, 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.display().to_string();
            assert!(name.contains("/host=") && name.contains("/engine=chaos/run="), "{name}");
            let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
            rows += u64::try_from(reader.metadata().file_metadata().num_rows()).unwrap();
            files += 1;
        }
    }
    (rows, files)
}

#[cfg(feature = "columnar")]
#[test]
#[ignore = "needs root"]
fn tables_have_the_steps_of_the_figures() {
    let run = Run::new();
    let (toy, input) = toy(&run, "counts", &["ms=600000", "pause=2000", "work=50"]);
    let folder = run.path("tables");
    let shown = folder.display().to_string();
    let mut serve = Serve::start(&["-p", &toy.id().to_string(), "--tables", &shown, "--tables-interval", "1s"]);
    wait_until("there are files", || rows(&folder, "steps").1 >= 3);
    // A folder that cannot be written to ends nothing.
    let is_closed = |closed: bool| {
        let before = folder.join("steps");
        let aside = run.path("aside");
        if closed {
            std::fs::rename(&before, &aside).unwrap();
            std::fs::write(&before, "no folder").unwrap();
        } else {
            std::fs::remove_file(&before).unwrap();
            std::fs::rename(&aside, &before).unwrap();
        }
    };
    is_closed(true);
    wait_until("it is told", || serve.messages().contains("tables: "));
    let steps = serve.steps(&toy);
    wait_until("the recording goes on", || serve.steps(&toy) > steps);
    is_closed(false);
    wait_until("it works again", || serve.messages().contains("tables are written again"));
    let before = rows(&folder, "steps");
    kill(Pid::from_raw(serve.program.id().cast_signed()), Signal::SIGTERM).unwrap();
    assert!(serve.program.wait().unwrap().success());
    assert!(rows(&folder, "steps").0 > before.0, "what was in progress is there");
    assert_eq!(rows(&folder, "runs"), (1, 1), "the last one has the place of those before");
    end(toy, input);

    // All steps and operators, by the toy's own count.
    let (run, folder) = (Run::new(), run.path("of-a-command"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    command.args(["serve", PROBESET, "--listen", "127.0.0.1:0", "--budget", "100%", "--tables-interval", "1s"]);
    command.arg("--tables").arg(&folder).arg("--");
    command.args(run.toy("counts", &["rounds=400", "pause=2000", "work=50", "quiet"]));
    assert!(command.stdin(Stdio::null()).output().unwrap().status.success());
    let counts = run.counts("counts");
    let (steps, files) = rows(&folder, "steps");
    assert_eq!((steps, rows(&folder, "runs")), (counts.steps, (1, 1)));
    assert!(files >= 3, "{files}");
    assert!(rows(&folder, "operators").0 <= counts.operators && rows(&folder, "operators").0 > 0);
}

/// Nobody holds a target for long: on a busy machine probes may come late, and the figures say so. Then it is tried again.
#[test]
#[ignore = "needs root"]
fn two_targets_have_their_own_figures_and_one_that_ends_is_shown_as_ended() {
    assert!((0..5).any(|_| two_targets_are_there_in_time()), "probes came late each time");
}

fn two_targets_are_there_in_time() -> bool {
    let (one, two) = (Run::new(), Run::new());
    let (mut short, mut begin) = toy(&one, "counts", &["wait", "rounds=40", "pause=2000", "work=50"]);
    let (long, input) = toy(&two, "counts", &["ms=600000", "pause=2000", "work=50"]);
    let [a, b] = [short.id().to_string(), long.id().to_string()];
    let mut serve = Serve::start(&["-p", &a, "-p", &b]);
    wait_until("the second target is recorded", || serve.steps(&long) > 0.0);
    // The first one has not loaded its engine yet; its recorder waits for that.
    assert!(!serve.is_recording(&short));
    wait_until("both recorders are attached", || serve.recorders().iter().filter(|pid| links(**pid) > 0).count() == 2);
    std::thread::sleep(Duration::from_millis(300));
    begin.write_all(b"\n").unwrap();
    let output = short.wait().unwrap();
    assert!(output.success());
    wait_until("it is shown as ended", || serve.steps(&short) > 0.0 && !serve.is_recording(&short));
    // Whatever the toy counted itself.
    let counts = one.counts("counts");
    let of_short = format!("service_instance_id=\"{}\"", serve.instance(short.id()).unwrap());
    let steps = serve.steps(&short);
    if steps < counts.steps as f64 && serve.metric("profinfer_losses_total", &[&of_short, "not_attached"]).is_some() {
        end(long, input);
        return false;
    }
    assert_eq!((counts.wrong, steps), (0, counts.steps as f64), "{}", serve.get("/metrics"));
    let tokens = |phase: &str| serve.metric("profinfer_tokens_total", &[&of_short, phase]);
    let rounds = counts.steps / 5;
    assert_eq!(tokens("phase=\"prefill\""), Some(8.0 * rounds as f64));
    assert_eq!(tokens("phase=\"decode\""), Some(4.0 * rounds as f64));
    let whole = serve.metric("profinfer_whole_steps_total", &[&of_short]).unwrap();
    let operators = serve.metric("profinfer_operators_total", &[&of_short]).unwrap();
    assert!((operators - whole * counts.operators as f64 / counts.steps as f64).abs() < 0.5, "{operators} in {whole}");
    // The other one goes on, and its figures with it.
    let before = serve.steps(&long);
    wait_until("the second target goes on", || serve.steps(&long) > before && serve.is_recording(&long));
    let snapshots: Vec<Value> = serde_json::from_str(&serve.get("/snapshots.json")).unwrap();
    let states: Vec<&str> = snapshots.iter().map(|one| one["state"].as_str().unwrap()).collect();
    assert!(states.contains(&"ended") && states.contains(&"recording"), "{states:?}");
    assert!(serve.get("/").contains("snapshots.json"));
    kill(Pid::from_raw(serve.program.id().cast_signed()), Signal::SIGTERM).unwrap();
    assert!(serve.program.wait().unwrap().success());
    let steps = two.counts("counts").steps;
    wait_until("the target goes on", || two.counts("counts").steps > steps + 20);
    assert_eq!(two.counts("counts").wrong, 0);
    end(long, input);
    true
}

#[test]
#[ignore = "needs root"]
fn a_server_that_is_killed_leaves_the_target_and_nothing_else() {
    let run = Run::new();
    let (toy_at_work, input) = toy(&run, "counts", &["ms=600000", "reload", "pause=2000"]);
    // A second one is never called: its recorder writes nothing that could fail.
    let (silent, silent_input) = toy(&run, "silent", &["wait"]);
    let mut serve = Serve::start(&["-p", &toy_at_work.id().to_string(), "-p", &silent.id().to_string()]);
    wait_until("it is recorded", || serve.steps(&toy_at_work) > 0.0);
    let recorders = serve.recorders();
    assert_eq!(recorders.len(), 2);
    serve.program.kill().unwrap();
    serve.program.wait().unwrap();
    wait_until("the recorders end", || !recorders.iter().any(|pid| is_there(*pid)));
    let before: Counts = run.counts("counts");
    wait_until("the target goes on", || run.counts("counts").loads > before.loads + 20);
    assert_eq!(run.counts("counts").wrong, 0);
    end(toy_at_work, input);
    end(silent, silent_input);
}

/// The last lines are about what was recorded; a recorder that somebody stopped is not waited for.
#[test]
#[ignore = "needs root"]
fn a_server_that_ends_names_its_targets_and_nothing_of_an_idle_one() {
    let run = Run::new();
    let (at_work, input) = toy(&run, "counts", &["ms=600000", "pause=2000", "work=50"]);
    // After its first round it does nothing for ten minutes.
    let (silent, silent_input) = toy(&run, "silent", &["ms=600000", "pause=600000000", "work=50"]);
    wait_until("it has done its round", || run.counts("silent").steps > 0);
    std::thread::sleep(Duration::from_millis(300));
    let mut serve = Serve::start(&["-p", &at_work.id().to_string(), "-p", &silent.id().to_string()]);
    wait_until("both are recorded", || {
        serve.steps(&at_work) > 0.0 && serve.recorders().iter().filter(|pid| links(**pid) > 0).count() == 2
    });
    serve.recorders().into_iter().for_each(|recorder| kill(recorder, Signal::SIGSTOP).unwrap());
    kill(Pid::from_raw(serve.program.id().cast_signed()), Signal::SIGTERM).unwrap();
    wait_until("it ends", || serve.program.try_wait().unwrap().is_some());
    wait_until("its messages are read", || serve.messages().contains(" steps, "));
    let messages = serve.messages();
    let lines: Vec<&str> = messages.lines().filter(|line| line.contains(" lost, ")).collect();
    assert!(lines.len() == 1 && lines[0].contains(&format!("({}): ", at_work.id())), "{messages}");
    assert!(!messages.contains("R004") && !messages.contains(&silent.id().to_string()), "{messages}");
    end(at_work, input);
    end(silent, silent_input);
}

#[test]
#[ignore = "needs root"]
fn a_launched_command_ends_the_server_with_its_status() {
    let run = Run::new();
    let words = run.toy("counts", &["rounds=10", "work=50", "quiet"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    command.args(["serve", PROBESET, "--listen", "127.0.0.1:0", "--"]).args([
        "sh",
        "-c",
        &format!("{}; exit 7", words.join(" ")),
    ]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!((run.counts("counts").steps, run.counts("counts").wrong), (50, 0));
    // What cannot be recorded is no server.
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    command.args(["serve", PROBESET, "--listen", "127.0.0.1:0", "-p", "999999999"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains("999999999"), "{:?} {text}", output.status);
}

/// Processes of a control group are found before they have the engine and after, each once; others are not. None comes to
/// harm.
#[test]
#[ignore = "needs root"]
fn engines_are_found_where_they_are_looked_for() {
    let (group, number) = ControlGroup::of_container();
    let in_group = |run: &Run| {
        let words = run.toy("counts", &["ms=600000", "pause=2000", "work=50"]);
        spawn(group.command().into_iter().chain(words).collect())
    };
    let runs: [Run; 4] = std::array::from_fn(|_| Run::new());
    let [outside, before, after, again] = &runs;
    let (of_others, others_input) = toy(outside, "counts", &["ms=600000", "pause=2000", "work=50"]);
    let (first, first_input) = in_group(before);
    let folder = group.folder().display().to_string();
    for place in [["--cgroup", &folder], ["--container", &number[..12]]] {
        let mut serve = Serve::start(&place);
        wait_until("what runs is recorded", || serve.steps(&first) > 0.0);
        let (mut second, second_input) = in_group(after);
        wait_until("what starts later is recorded", || serve.steps(&second) > 0.0);
        let steps = serve.steps(&first);
        wait_until("the first one goes on", || serve.steps(&first) > steps);
        second.kill().unwrap();
        second.wait().unwrap();
        drop(second_input);
        wait_until("one that ends is shown as ended", || !serve.is_recording(&second));
        let (third, third_input) = in_group(again);
        wait_until("the next one is recorded", || serve.steps(&third) > 0.0);
        let text = serve.get("/metrics");
        let pids = text.split("process_pid=\"").skip(1).filter_map(|rest| rest.split('"').next()?.parse().ok());
        // The third one has the place of the second.
        let ours = BTreeSet::from([&first, &third].map(Child::id));
        assert_eq!(pids.collect::<BTreeSet<u32>>(), ours, "{}", serve.messages());
        let mut infos = text.lines().filter(|line| line.contains("process_pid"));
        assert!(infos.all(|line| line.contains(&format!("container_id=\"{number}\""))), "{text}");
        let names = [&first, &third].map(|toy| serve.instance(toy.id()).unwrap());
        assert_eq!(names, [number[..12].to_owned(), format!("{}#2", &number[..12])]);
        kill(Pid::from_raw(serve.program.id().cast_signed()), Signal::SIGTERM).unwrap();
        assert!(serve.program.wait().unwrap().success());
        let steps = before.counts("counts").steps;
        wait_until("the targets go on", || before.counts("counts").steps > steps + 20);
        end(third, third_input);
    }
    assert!(runs.iter().all(|run| run.counts("counts").wrong == 0));
    end(first, first_input);
    end(of_others, others_input);
}

#[test]
#[ignore = "needs root"]
fn a_target_whose_recorder_is_killed_is_recorded_again() {
    let (group, _) = ControlGroup::of_container();
    let run = Run::new();
    let words = run.toy("counts", &["ms=600000", "pause=2000", "work=50"]);
    let (toy, input) = spawn(group.command().into_iter().chain(words).collect());
    let serve = Serve::start(&["--cgroup", &group.folder().display().to_string()]);
    wait_until("it is recorded", || serve.steps(&toy) > 0.0);
    let name = serve.instance(toy.id());
    let recorders = serve.recorders();
    assert_eq!(recorders.len(), 1, "{recorders:?}");
    kill(recorders[0], Signal::SIGKILL).unwrap();
    wait_until("it is told", || serve.messages().contains("was killed, as by the kernel when memory is short, before"));
    wait_until("it is recorded again", || !is_there(recorders[0]) && serve.is_recording(&toy));
    let steps = serve.steps(&toy);
    wait_until("the recording goes on", || serve.steps(&toy) > steps);
    assert_eq!(serve.instance(toy.id()), name);
    assert_eq!(run.counts("counts").wrong, 0);
    end(toy, input);
}

/// Its recorders end with it, and the next ones are started without it.
#[test]
#[ignore = "needs root"]
fn a_fork_server_that_is_killed_is_done_without() {
    let (group, _) = ControlGroup::of_container();
    let runs = [Run::new(), Run::new()];
    let toy = |run: &Run| {
        let words = run.toy("counts", &["ms=600000", "pause=2000", "work=50"]);
        spawn(group.command().into_iter().chain(words).collect())
    };
    let (first, first_input) = toy(&runs[0]);
    let mut serve = Serve::start(&["--cgroup", &group.folder().display().to_string()]);
    wait_until("it is recorded", || serve.steps(&first) > 0.0);
    let recorders = serve.recorders();
    kill(serve.fork_server(), Signal::SIGKILL).unwrap();
    wait_until("the recorders end", || !recorders.iter().any(|pid| is_there(*pid)));
    let (second, second_input) = toy(&runs[1]);
    wait_until("the second is recorded", || serve.steps(&second) > 0.0);
    wait_until("the first is recorded again", || serve.is_recording(&first));
    let steps = serve.steps(&first);
    wait_until("the recording goes on", || serve.steps(&first) > steps);
    kill(Pid::from_raw(serve.program.id().cast_signed()), Signal::SIGTERM).unwrap();
    assert!(serve.program.wait().unwrap().success());
    assert!(runs.iter().all(|run| run.counts("counts").wrong == 0));
    end(first, first_input);
    end(second, second_input);
}

/// All files of a process are open while it is inspected.
#[test]
#[ignore = "needs root"]
fn an_engine_in_a_process_with_many_libraries_is_found() {
    const LIBRARIES: usize = 200;
    let (group, _) = ControlGroup::of_container();
    let run = Run::new();
    let library = |number: usize| run.path(&format!("beside-{number}.so")).display().to_string();
    for number in 0..LIBRARIES {
        std::fs::copy(run.engine(), library(number)).unwrap();
    }
    let script = "import ctypes, sys, time\n\
                  engine, *_ = [ctypes.CDLL(name) for name in sys.argv[1:]]\n\
                  while True:\n engine.chaos_step(1, 16)\n time.sleep(0.002)\n";
    let words = ["python3".to_owned(), "-c".to_owned(), script.to_owned(), run.engine().display().to_string()];
    let words = group.command().into_iter().chain(words).chain((0..LIBRARIES).map(library));
    let (target, input) = spawn(words.collect());
    let folder = group.folder().display().to_string();
    let limited = |limit: &str| {
        let script = format!("ulimit {limit}; exec \"$@\"");
        Serve::start_in(&["sh", "-c", &script, "sh"], &["--cgroup", &folder], &[])
    };
    let serve = limited("-Sn 128");
    wait_until("it is recorded", || serve.steps(&target) > 0.0);
    drop(serve);
    let serve = limited("-n 128");
    wait_until("it is told", || serve.messages().contains("has more files than profinfer may open"));
    end(target, input);
}

#[test]
#[ignore = "needs root"]
fn figures_are_right_in_another_time_namespace() {
    let run = Run::new();
    let (toy, input) = toy(&run, "counts", &["ms=600000", "pause=2000", "work=50"]);
    let unshare = ["unshare", "--time", "--fork", "--kill-child", "--monotonic", "1000000"];
    let serve = Serve::start_in(&unshare, &["-p", &toy.id().to_string()], &[]);
    let snapshot = || serde_json::from_str::<Value>(&serve.get("/snapshots.json")).unwrap()[0].take();
    wait_until("there are rates", || snapshot()["window"]["steps_per_s"].as_f64().is_some_and(|rate| rate > 1.0));
    let elapsed = Duration::from_nanos(snapshot()["elapsed_ns"].as_u64().unwrap());
    assert!(elapsed < Duration::from_secs(600), "{elapsed:?}");
    drop(serve);
    end(toy, input);
}

/// Nothing is there yet: that is said, and is no error.
#[test]
#[ignore = "needs root"]
fn without_an_engine_it_is_looked_for() {
    let (_group, number) = ControlGroup::of_container();
    let mut serve = Serve::start(&["--container", &number]);
    wait_until("it says so", || serve.messages().contains("no process has an engine yet"));
    assert_eq!(serve.get("/snapshots.json"), "[]");
    kill(Pid::from_raw(serve.program.id().cast_signed()), Signal::SIGINT).unwrap();
    assert!(serve.program.wait().unwrap().success());
    for (words, hint) in [
        (["--cgroup", "no-such-group"], "systemd-cgls"),
        (["--container", "a b"], "podman ps"),
        (["--engine", "no-such-engine"], "no-such-engine"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_profinfer")).arg("serve").args(words).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(hint) && text.lines().count() < 8, "{words:?}: {text}");
    }
}

/// What a terminal shows, and what it is afterwards.
fn in_a_terminal(keys: &str, arguments: &[&str]) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/in_a_terminal.py");
    let mut python = Command::new("python3");
    python.args([script, "80", "24", keys, env!("CARGO_BIN_EXE_profinfer")]).args(arguments);
    let output = python.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
#[ignore = "needs root"]
fn a_terminal_shows_a_running_target_and_is_then_as_it_was() {
    let run = Run::new();
    let (toy_at_work, input) = toy(&run, "counts", &["ms=600000", "pause=1000", "work=100"]);
    let pid = toy_at_work.id().to_string();
    let keys = "20:?operator (of,0:s,3:?waiting▾,0:f,3:?FROZEN,0:f,0:q";
    let since = Instant::now();
    let seen = in_a_terminal(keys, &["top", PROBESET, "--budget", "100%", "-p", &pid]);
    assert_eq!(
        (&seen["status"], &seen["restored"], &seen["left"]),
        (&0.into(), &true.into(), &true.into()),
        "{seen:#}"
    );
    assert_eq!(seen["missed"], serde_json::json!([]), "{seen:#}");
    let screens: Vec<&str> = seen["screens"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    for screen in &screens {
        let lines: Vec<&str> = screen.split('\n').collect();
        assert!(lines.len() == 24 && lines.iter().all(|line| line.chars().count() <= 80), "{screen}");
    }
    let last = screens.last().unwrap();
    for words in
        [format!("process {pid}"), "recording".into(), "Tokens".into(), "steps".into(), "0 records lost".into()]
    {
        assert!(last.contains(&words), "{words}\n{last}");
    }
    let steps = run.counts("counts").steps;
    wait_until("the target goes on", || run.counts("counts").steps > steps + 20);
    assert_eq!(run.counts("counts").wrong, 0, "after {:?}", since.elapsed());
    end(toy_at_work, input);
    // Without a terminal it says so, and starts nothing.
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    let output = command.args(["top", PROBESET, "-p", "1"]).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains("not a terminal"), "{text}");
}
