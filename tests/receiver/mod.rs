//! A receiver by OpenTelemetry's own definitions, for tests of what is pushed to it.

#![allow(dead_code, reason = "each test program uses what it needs")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What it consists of; prepare.sh reads this, too.
const PACKAGES: [&str; 3] = ["grpcio==1.85.3", "opentelemetry-proto==1.45.2", "protobuf==7.36.2"];

/// It is ended with the test, however that ends.
pub(crate) struct Receiver {
    program: Child,
    port: String,
    received: PathBuf,
}

impl Receiver {
    /// With options of otlp_receiver.py; what it is sent goes to a file.
    pub(crate) fn start(received: &Path, options: &[&str]) -> Self {
        let engines = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engines");
        let mut environment = Command::new(engines.join("python_environment.sh"));
        let output = environment.arg("otlp").args(PACKAGES).stderr(Stdio::inherit()).output().unwrap();
        assert!(output.status.success(), "no Python with {PACKAGES:?}");
        let mut command = Command::new(String::from_utf8(output.stdout).unwrap().trim());
        command.arg(engines.join("otlp_receiver.py")).args(options);
        let program = command.stdout(std::fs::File::create(received).unwrap()).spawn().unwrap();
        let mut receiver = Self { program, port: String::new(), received: received.to_owned() };
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let text = std::fs::read_to_string(received).unwrap();
            if let Some((port, _)) = text.split_once('\n') {
                port.clone_into(&mut receiver.port);
                return receiver;
            }
            assert!(Instant::now() < until, "no receiver");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn port(&self) -> &str {
        &self.port
    }

    /// Without TLS.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What it was sent.
    pub(crate) fn rows(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.received).unwrap();
        text.lines().skip(1).filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
