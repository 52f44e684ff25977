//! `serve` by TLS: clients that trust its certificate are answered, others and those without TLS are not.

use super::live::{Serve, end, toy};
use super::toy::{Run, wait_until};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// A certificate and its key, `NAME.pem` and `NAME.key.pem`, made as the hint of `serve` says, and with further words.
pub(crate) fn make(run: &Run, name: &str, words: &[&str]) -> [String; 2] {
    let [certificate, key] = ["pem", "key.pem"].map(|end| run.path(&format!("{name}.{end}")).display().to_string());
    let mut command = Command::new("sh");
    command.args(["-c", "umask 077; exec openssl \"$@\"", "sh", "req", "-x509", "-newkey", "rsa:2048", "-nodes"]);
    command.args(["-days", "365", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]);
    let output = command.args(words).args(["-keyout", &key, "-out", &certificate]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    [certificate, key]
}

/// What a client of another make gets that trusts one certificate.
fn get(certificate: &str, address: &str, path: &str) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/get_by_tls.py");
    Command::new("python3").arg(script).args([certificate, address, path]).output().unwrap()
}

#[test]
#[ignore = "needs root"]
fn figures_are_served_by_tls_only() {
    let run = Run::new();
    let [certificate, key] = make(&run, "ours", &[]);
    let [other, other_key] = make(&run, "other", &[]);
    let (toy_at_work, input) = toy(&run, "counts", &["ms=600000", "pause=2000", "work=50"]);
    let pid = toy_at_work.id().to_string();
    let serve = Serve::start(&["-p", &pid, "--tls-cert", &certificate, "--tls-key", &key]);
    let text = |path: &str| {
        let output = get(&certificate, &serve.address, path);
        assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    wait_until("steps are served", || text("/metrics").contains("\nprofinfer_step_seconds_count{"));
    assert!(text("/").contains("snapshots.json") && text("/snapshots.json").contains(&pid));
    let refused = get(&other, &serve.address, "/metrics");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("CERTIFICATE_VERIFY_FAILED"), "{refused:?}");
    // Without TLS, nothing is told.
    let mut stream = TcpStream::connect(&serve.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.len() < 100 && !answer.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&answer));
    for (words, problem) in [
        (vec!["--tls-cert", &certificate], "--tls-key"),
        (vec!["--tls-cert", &certificate, "--tls-key", &other_key], "not the certificate's key"),
        (vec!["--tls-cert", "/no/such/file", "--tls-key", &key], "openssl req"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        command.args(["serve", "--listen", "127.0.0.1:0", "-p", &pid]).args(words).stdin(Stdio::null());
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(problem), "{text}");
    }
    // A certificate is renewed one file after the other, and once not whole.
    let is_served = |certificate: &str| get(certificate, &serve.address, "/metrics").status.success();
    std::fs::write(&certificate, "-----BEGIN CERTIFICATE-----\n").unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let trusted = run.path("trusted.pem").display().to_string();
    std::fs::copy(&other, &trusted).unwrap();
    assert!(!is_served(&trusted));
    std::fs::rename(&other, &certificate).unwrap();
    assert!(!is_served(&trusted), "it has no key yet");
    std::fs::rename(&other_key, &key).unwrap();
    wait_until("the renewed certificate is served", || is_served(&trusted));
    drop(serve);
    end(toy_at_work, input);
}
