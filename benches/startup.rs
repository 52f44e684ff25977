//! How long a user waits: `gen`, `check` and `record` up to attached and back, on the engine in the Python wheel, with
//! profinfer's caches empty and filled. Needs root and the wheel's environment; see `docs/benchmarks.md`.
//!
//! `cargo bench --bench startup -- PYTHON`, where PYTHON is the interpreter of the wheel's environment.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 9;

fn main() {
    let Some(python) = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).map(PathBuf::from) else {
        println!("startup: give the interpreter of an environment that has the wheel; nothing measured");
        return;
    };
    let target = Waiting::start(&python);
    let library = target.library.clone();
    let pid = target.process.id().to_string();
    let trace = std::env::temp_dir().join("profinfer-bench.pfi");
    let trace = trace.to_str().expect("a plain path");
    println!("{ROUNDS} rounds each; median [least, most]; {}", library.display());
    let library = library.to_str().expect("a plain path");
    measure("gen, no target", Cache::Warm, &["gen", "llama", "-o", "/dev/null"]);
    measure("check the wheel, caches empty", Cache::Cold, &["check", "llama", "--target", library]);
    measure("check the wheel, caches filled", Cache::Warm, &["check", "llama", "--target", library]);
    let record = ["record", "llama", "-p", &pid, "--duration", "1ms", "-o", trace];
    measure("attach, detach, close; caches empty", Cache::Cold, &record);
    measure("attach, detach, close; caches filled", Cache::Warm, &record);
    let _ = std::fs::remove_file(trace);
}

/// A process that has the engine loaded and does nothing.
struct Waiting {
    process: Child,
    library: PathBuf,
}

impl Waiting {
    fn start(python: &Path) -> Self {
        let script = "import glob, os, sys, xllamacpp\n\
                      print(glob.glob(os.path.dirname(xllamacpp.__file__) + '/*.so')[0], flush=True)\n\
                      sys.stdin.read()";
        let mut process = Command::new(python)
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the wheel's interpreter runs");
        let mut line = String::new();
        let output = process.stdout.take().expect("its output is piped");
        BufReader::new(output).read_line(&mut line).expect("it says where the library is");
        Self { process, library: PathBuf::from(line.trim()) }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Cache {
    Cold,
    Warm,
}

fn measure(what: &str, cache: Cache, arguments: &[&str]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = || {
        if cache == Cache::Cold {
            let _ = std::fs::remove_dir_all(folder.path());
        }
        let started = Instant::now();
        let status = Command::new(env!("CARGO_BIN_EXE_profinfer"))
            .args(arguments)
            .env("PROFINFER_CACHE", folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("profinfer runs");
        (started.elapsed(), status)
    };
    run();
    let mut times: Vec<Duration> = (0..ROUNDS).map(|_| run().0).collect();
    times.sort_unstable();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!("{what:<40} {:>7.0} ms [{:.0}, {:.0}]", ms(times[ROUNDS / 2]), ms(times[0]), ms(times[ROUNDS - 1]));
}
