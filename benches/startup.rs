//! How long a user waits: `gen`, `check` and `record` up to attached and back, on the engine in the Python wheel, with
//! profinfer's caches empty and filled. Needs root and the wheel's environment; see `docs/benchmarks.md`.
//!
//! `cargo bench --bench startup -- PYTHON [MANY]`, where PYTHON is the interpreter of the wheel's environment. With MANY, that of an
//! environment that has ONNX Runtime, a probeset of hundreds of sites is attached too, and how long that took is told apart.
//! With `PROFINFER`, the path of a packaged program, that one is measured.

// What fails here ends the benchmark.
#![allow(clippy::expect_used)]

use profinfer_trace::{Meta, TraceReader};

use profinfer_schema::Notice;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const ROUNDS: usize = 9;

fn main() {
    let mut pythons = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).map(PathBuf::from);
    let Some(python) = pythons.next() else {
        println!("startup: give the interpreter of an environment that has the wheel; nothing measured");
        return;
    };
    let target = Waiting::start(&python, "xllamacpp", "*.so");
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
    if let Some(python) = pythons.next() {
        drop(target);
        many(&python, trace);
    }
    let _ = std::fs::remove_file(trace);
}

/// An engine whose kernels are hundreds of functions.
fn many(python: &Path, trace: &str) {
    let target = Waiting::start(python, "onnxruntime", "capi/onnxruntime_pybind11_state*.so");
    let pid = target.process.id().to_string();
    println!("{}", target.library.display());
    let record = ["record", "onnxruntime", "-p", &pid, "--duration", "1ms", "-o", trace];
    let what = "hundreds of sites, record up to attached";
    measure(what, Cache::Warm, &record, &|started| attached(trace, started));
    measure("hundreds of sites, programs and attaching", Cache::Warm, &record, &|_| attaching(trace));
}

/// A process that has the engine loaded and does nothing.
struct Waiting {
    process: Child,
    library: PathBuf,
}

impl Waiting {
    fn start(python: &Path, package: &str, library: &str) -> Self {
        let script = "import glob, importlib, os, sys\n\
                      package = importlib.import_module(sys.argv[1])\n\
                      print(glob.glob(os.path.join(os.path.dirname(package.__file__), sys.argv[2]))[0], flush=True)\n\
                      sys.stdin.read()";
        let mut process = Command::new(python)
            .args(["-c", script, package, library])
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

/// What a trace knows beside its records.
fn meta(trace: &str) -> Option<Meta> {
    let mut reader = TraceReader::new(File::open(trace).ok()?).ok()?;
    while reader.next().is_some() {}
    Some(reader.meta().clone())
}

/// The trace's word that the sites are attached.
fn attached_notice(meta: &Meta) -> Option<&Notice> {
    meta.notices.iter().find(|notice| notice.text.starts_with("attached"))
}

/// What it says of how long that took, loading of the programs included.
fn attaching(trace: &str) -> Option<Duration> {
    let meta = meta(trace)?;
    let text = &attached_notice(&meta)?.text;
    let ms: f64 = text.split_once(" sites in ")?.1.split_once(" ms")?.0.parse().ok()?;
    Some(Duration::from_secs_f64(ms / 1e3))
}

/// From a command's start to that word.
fn attached(trace: &str, started: SystemTime) -> Option<Duration> {
    let meta = meta(trace)?;
    let notice = attached_notice(&meta)?;
    let since_origin = notice.time.checked_sub(meta.origin.monotonic_ns)?;
    let began = u64::try_from(started.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()?;
    Some(Duration::from_nanos(meta.origin.wall_clock_ns.checked_sub(began)? + since_origin))
}

/// The program of this build, or another one.
fn program() -> PathBuf {
    std::env::var_os("PROFINFER").map_or_else(|| env!("CARGO_BIN_EXE_profinfer").into(), PathBuf::from)
}

/// Times a command as a whole, or up to what `up_to` finds in what it left behind.
fn measure(what: &str, cache: Cache, arguments: &[&str], up_to: &dyn Fn(SystemTime) -> Option<Duration>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = || {
        if cache == Cache::Cold {
            let _ = std::fs::remove_dir_all(folder.path());
        }
        let (started, at) = (Instant::now(), SystemTime::now());
        let _status = Command::new(program())
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
