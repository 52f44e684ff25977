//! How long a user waits: `gen`, `check` and `record` up to attached and back, on the engine in the Python wheel, with
//! profinfer's caches empty and filled. Needs root and the wheel's environment; see `docs/benchmarks.md`.
//!
//! `cargo bench --bench startup -- PYTHON`, where PYTHON is the interpreter of the wheel's environment.

// What fails here ends the benchmark.
#![allow(clippy::expect_used)]

use profinfer::trace::TraceReader;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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
    measure("gen, no target", Cache::Warm, &["gen", "llama", "-o", "/dev/null"], &|_| None);
    measure("check the wheel, caches empty", Cache::Cold, &["check", "llama", "--target", library], &|_| None);
    measure("check the wheel, caches filled", Cache::Warm, &["check", "llama", "--target", library], &|_| None);
    let record = ["record", "llama", "-p", &pid, "--duration", "1ms", "-o", trace];
    for (what, cache) in [("empty", Cache::Cold), ("filled", Cache::Warm)] {
        measure(&format!("record up to attached, caches {what}"), cache, &record, &|started| attached(trace, started));
        measure(&format!("record up to the end, caches {what}"), cache, &record, &|_| None);
    }
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

/// From a command's start to the trace's word that the sites are attached.
fn attached(trace: &str, started: SystemTime) -> Option<Duration> {
    let mut reader = TraceReader::new(File::open(trace).ok()?).ok()?;
    while reader.next().is_some() {}
    let meta = reader.meta();
    let notice = meta.notices.iter().find(|notice| notice.text.starts_with("attached"))?;
    let since_origin = notice.time.checked_sub(meta.origin.monotonic_ns)?;
    let began = u64::try_from(started.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()?;
    Some(Duration::from_nanos(meta.origin.wall_clock_ns.checked_sub(began)? + since_origin))
}

/// Times a command as a whole, or up to what `up_to` finds in what it left behind.
fn measure(what: &str, cache: Cache, arguments: &[&str], up_to: &dyn Fn(SystemTime) -> Option<Duration>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = || {
        if cache == Cache::Cold {
            let _ = std::fs::remove_dir_all(folder.path());
        }
        let (started, at) = (Instant::now(), SystemTime::now());
        let _status = Command::new(env!("CARGO_BIN_EXE_profinfer"))
            .args(arguments)
            .env("PROFINFER_CACHE", folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("profinfer runs");
        let whole = started.elapsed();
        up_to(at).unwrap_or(whole)
    };
    run();
    let mut times: Vec<Duration> = (0..ROUNDS).map(|_| run()).collect();
    times.sort_unstable();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!("{what:<40} {:>7.0} ms [{:.0}, {:.0}]", ms(times[ROUNDS / 2]), ms(times[0]), ms(times[ROUNDS - 1]));
}
