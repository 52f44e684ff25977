//! A trace as live figures, on a terminal.

use crate::invocation;
use crate::toy::{MEMORY, Run, Trace};
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn a_trace_is_shown_on_a_terminal() {
    let trace = Trace::new(Run { steps: 40, more_steps: &[9], ..MEMORY });
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/in_a_terminal.py");
    let keys = "15:?the target ended,0:s,3:?waiting▾,0:q";
    let mut python = Command::new("python3");
    python.args([script, "80", "24", keys, env!("CARGO_BIN_EXE_profinfer"), "top", "--trace", trace.file()]);
    let output = python.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&seen["status"], &seen["restored"], &seen["left"]),
        (&0.into(), &true.into(), &true.into()),
        "{seen:#}"
    );
    assert_eq!(seen["missed"], serde_json::json!([]), "{seen:#}");
    let screens = seen["screens"].as_array().unwrap();
    let last = screens.last().unwrap().as_str().unwrap();
    let lines: Vec<&str> = last.split('\n').collect();
    assert!(lines.len() == 24 && lines.iter().all(|line| line.chars().count() <= 80), "{last}");
    // As the report has it.
    let report = invocation::json(&["report", "--json", trace.file()]);
    let sentence = report["verdict"]["sentences"][0].as_str().unwrap();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(last).contains(&words(sentence)), "{sentence}\n{last}");
    assert!(last.contains("MUL_MAT") && last.contains("(of 41 steps)"), "{last}");
}

#[test]
fn a_trace_without_the_engine_is_an_error() {
    let trace = Trace::new(MEMORY);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/in_a_terminal.py");
    let mut python = Command::new("python3");
    python.args([script, "80", "24", "15:?has no engine,0:q", env!("CARGO_BIN_EXE_profinfer"), "top"]);
    python.args(["--engine", "nothing", "--trace", trace.file()]);
    let output = python.stdin(Stdio::null()).output().unwrap();
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&seen["status"], &seen["missed"]), (&1.into(), &serde_json::json!([])), "{seen:#}");
}

/// Where nothing can be written, as on a disk that is full.
#[test]
fn a_message_that_cannot_be_written_ends_nothing() {
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
    let profinfer = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(full());
        command
    };
    assert_eq!(profinfer().args(["report", "/no/such/trace"]).status().unwrap().code(), Some(1));
    // A port that was free a moment ago.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut serve = profinfer();
    serve.args(["serve", "--listen", &address.to_string(), "--container", "no-such-one"]);
    let mut serve = serve.spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    let answer = loop {
        assert_eq!(serve.try_wait().unwrap(), None, "it has ended");
        assert!(Instant::now() < until, "nobody listens");
        let Ok(mut stream) = TcpStream::connect(address) else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        break answer;
    };
    serve.kill().unwrap();
    serve.wait().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
