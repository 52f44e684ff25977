//! The flight recorder beside a real server: a neighbour that takes half of its CPU for some seconds is caught and
//! named.

use crate::engine::{alone, here, model, python};
use crate::live::{Ended, get, value};
use crate::process::{profinfer, run};
use serde_json::Value;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The CPU of the server and of its neighbour. Both have more of it than whatever else runs there.
const ON_A_CPU: [&str; 6] = ["nice", "-n", "-20", "taskset", "-c", "1"];
const TOKENS: u32 = 48;

/// A server in which a client asks, one request after the other, until it is told to end.
struct Busy {
    server: Ended,
    stop: Arc<AtomicBool>,
    client: JoinHandle<u32>,
}

fn ask(input: &mut ChildStdin, lines: &mut Lines<BufReader<ChildStdout>>) -> Duration {
    let since = Instant::now();
    input.write_all(b"once\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "once");
    since.elapsed()
}

impl Busy {
    /// The server, and how long a token takes without a neighbour, at most.
    fn start() -> (Self, Duration) {
        let mut command = Command::new(ON_A_CPU[0]);
        command.args(&ON_A_CPU[1..]).arg(python()).arg(here().join("clients_xllamacpp.py")).arg("--model");
        command.arg(model("wide-dense")).args(["--clients", "1", "--prompt-tokens", "16"]);
        command.args(["--tokens", &TOKENS.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = command.spawn().unwrap();
        let mut input = server.stdin.take().unwrap();
        let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        let quickest = (0..4).map(|_| ask(&mut input, &mut lines)).min().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let client = std::thread::spawn(move || {
            let mut requests = 0;
            while !is_over.load(Ordering::Relaxed) {
                ask(&mut input, &mut lines);
                requests += 1;
            }
            requests
        });
        (Self { server: Ended(server), stop, client }, quickest / TOKENS)
    }

    fn pid(&self) -> String {
        self.server.0.id().to_string()
    }

    /// Ends the client; how many requests it had.
    fn end(self) -> u32 {
        self.stop.store(true, Ordering::Relaxed);
        self.client.join().unwrap()
    }
}

/// `serve` with a flight recorder, and where it listens. It waits for nobody who uses the machine besides.
fn serve(pid: &str, condition: &str, folder: &Path) -> (Ended, String) {
    let mut serve = Command::new("nice");
    serve.args(["-n", "-20", env!("CARGO_BIN_EXE_profinfer"), "serve", "llama", "-p", pid]);
    serve.args(["--listen", "127.0.0.1:0", "--budget", "20%", "--when", condition]);
    serve.args(["--keep", "1m", "--into"]).arg(folder);
    let mut serve = Ended(serve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let mut messages = BufReader::new(serve.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let found =
        messages.find_map(|line| Some(line.strip_prefix("listening on http://")?.split('/').next()?.to_owned()));
    std::thread::spawn(move || messages.for_each(|line| eprintln!("serve: {line}")));
    (serve, found.expect("an address"))
}

fn metric(address: &str, name: &str) -> Option<f64> {
    value(&get(address, "/metrics").unwrap(), name)
}

fn wait_for(what: &str, address: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(90);
    while !holds() {
        assert!(Instant::now() < until, "{what}\n{}", get(address, "/metrics").unwrap());
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A process that takes what it can of the server's CPU for so long. It comes there by its own name.
fn neighbour(program: &Path, seconds: u64) -> u32 {
    let mut neighbour: Child = Command::new(program).args(["-c", "while :; do :; done"]).spawn().unwrap();
    let pid = neighbour.id().to_string();
    run(Command::new("taskset").args(["-p", "-c", ON_A_CPU[5], &pid]), 0);
    run(Command::new("renice").args(["-n", ON_A_CPU[2], "-p", &pid]), 0);
    std::thread::sleep(Duration::from_secs(seconds));
    neighbour.kill().unwrap();
    neighbour.wait().unwrap();
    neighbour.id()
}

fn kept(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
#[ignore = "needs root"]
fn a_neighbour_of_three_seconds_is_caught_and_named() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().join("kept");
    let noisy = folder.path().join("noisy");
    std::fs::copy("/bin/sh", &noisy).unwrap();
    let (busy, token) = Busy::start();
    let condition = format!("time_per_output_token > {}us for 2s", (token * 3 / 2).as_micros());
    let (mut server, address) = serve(&busy.pid(), &condition, &into);
    wait_for("it is recorded", &address, || metric(&address, "profinfer_recording") == Some(1.0));
    // Without a neighbour nothing is kept.
    std::thread::sleep(Duration::from_secs(12));
    assert_eq!(metric(&address, "profinfer_flight_conditions_total"), Some(0.0), "{condition}");
    assert!(metric(&address, "profinfer_flight_ring_bytes").unwrap() > 1000.0);
    assert_eq!(kept(&into), Vec::<PathBuf>::new());
    let pid = neighbour(&noisy, 3);
    wait_for("a trace is kept", &address, || metric(&address, "profinfer_flight_kept_total") == Some(1.0));
    // Within the cool-down there is no second one.
    neighbour(&noisy, 3);
    std::thread::sleep(Duration::from_secs(9));
    assert_eq!(metric(&address, "profinfer_flight_conditions_total"), Some(1.0));
    assert_eq!(metric(&address, "profinfer_flight_failed_total"), Some(0.0));
    let files = kept(&into);
    assert_eq!(files.len(), 2, "{files:?}");
    let (before, trace) = (&files[0], &files[1]);
    assert!(before.to_str().unwrap().ends_with("-before.pfi"), "{files:?}");
    // The report says why, and what differs from the time before; without that trace, that it is not there.
    let report = run(profinfer(&["report", "--json"]).arg(trace), 0);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["kept"]["condition"], condition.as_str());
    let changes = report["kept"]["changes"].as_array().unwrap();
    let decode = changes.iter().find(|change| change["phase"] == "decode").unwrap();
    let name = format!("`noisy` (pid {pid})");
    assert!(decode["why"].to_string().contains(&name), "{decode:#}");
    let phases = report["verdict"]["phases"].as_array().unwrap();
    let starved = phases.iter().find(|phase| phase["phase"] == "decode").unwrap()["parts"]["starved"].as_f64().unwrap();
    assert!(starved > 0.2, "{:#}", report["verdict"]);
    assert!(report["verdict"]["sentences"].to_string().contains("noisy"), "{:#}", report["verdict"]["sentences"]);
    let text = run(profinfer(&["report"]).arg(trace), 0);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("Kept because this held: time_per_output_token") && text.contains("noisy"), "{text}");
    run(profinfer(&["diff"]).args([before, trace]), 0);
    let alone = folder.path().join("alone.pfi");
    std::fs::copy(trace, &alone).unwrap();
    let text = run(profinfer(&["report", "--all"]).arg(&alone), 0);
    assert!(String::from_utf8_lossy(&text.stdout).contains("which is not here"));
    // A killed one leaves the target alone, and nothing in the folder; the next one has that.
    server.0.kill().unwrap();
    server.0.wait().unwrap();
    let (mut server, address) = serve(&busy.pid(), &condition, &into);
    wait_for("it is recorded again", &address, || metric(&address, "profinfer_recording") == Some(1.0));
    assert_eq!(kept(&into), files);
    run(Command::new("kill").args(["-TERM", &server.0.id().to_string()]), 0);
    assert!(server.0.wait().unwrap().success());
    assert_eq!(kept(&into), files);
    assert!(busy.end() > 10);
}
