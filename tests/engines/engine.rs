//! The engines and models, made by the scripts of this folder when they are not in the cache, and how one is run.

use crate::process::{profinfer, run};
use crate::truth::Truth;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};

/// An engine, as its users have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    /// The wheel `xllamacpp` from PyPI: one shared object in a Python module, some debug information.
    Wheel,
    /// Built from source: shared libraries, all debug information, workers that live for a graph.
    Shared,
    /// The same, with functions that are called only once kept as such.
    Symbols,
    /// The same as `Shared`, with the C of the CPU backend compiled by clang: the dispatcher is in its caller, whole.
    Inlined,
    /// Shared libraries of which the CPU backend is loaded with `dlopen` when the program runs.
    Plugins,
    /// The same, with a backend beside it that computes products of large matrices by OpenBLAS.
    Blas,
}

/// What an engine is to do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workload {
    pub(crate) model: &'static str,
    pub(crate) threads: u64,
    pub(crate) prompt: u64,
    pub(crate) tokens: u64,
    pub(crate) options: &'static [&'static str],
    pub(crate) environment: &'static [(&'static str, &'static str)],
}

/// With two threads on two busy processors an engine's spinning barriers wait for the scheduler, milliseconds each:
/// then few tokens must do.
pub(crate) fn workload(model: &'static str, threads: u64) -> Workload {
    let tokens = if threads == 1 { 16 } else { 3 };
    Workload { model, threads, prompt: 8, tokens, options: &[], environment: &[] }
}

impl Workload {
    /// With as many more tokens as take one thread of this machine that long: what happens every so often happens often.
    pub(crate) fn lasting(self, seconds: f64) -> Self {
        const MEASURED: u64 = 32;
        let of = Self { threads: 1, tokens: MEASURED, ..self };
        let a_token = engine_time(&Engine::Wheel.command(&of), "decode_ms") / MEASURED as f64;
        Self { tokens: self.tokens.max((1000.0 * seconds / a_token) as u64), ..self }
    }

    fn arguments(&self, prompt: &str) -> Vec<String> {
        let mut arguments = vec!["--model".to_owned(), model(self.model).display().to_string()];
        for (name, value) in [("--threads", self.threads), (prompt, self.prompt), ("--tokens", self.tokens)] {
            arguments.extend([name.to_owned(), value.to_string()]);
        }
        arguments.extend(self.options.iter().map(|&option| option.to_owned()));
        arguments
    }
}

impl Engine {
    /// The command that does the work.
    pub(crate) fn command(self, workload: &Workload) -> Vec<String> {
        match self {
            Self::Wheel => wheel("run_xllamacpp.py", workload),
            _ => self.reference(workload),
        }
    }

    /// What the engine says that it does for this work; it says the same each time, and is asked once. `experts`: their ids
    /// too, for which it computes in pieces.
    pub(crate) fn truth(self, workload: &Workload, experts: bool) -> Truth {
        static TOLD: Mutex<BTreeMap<String, Truth>> = Mutex::new(BTreeMap::new());
        let key = format!("{self:?} {workload:?} {experts}");
        let told = TOLD.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        told.unwrap_or_else(|| {
            let truth = self.ask(workload, experts);
            TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(key, truth.clone());
            truth
        })
    }

    fn ask(self, workload: &Workload, experts: bool) -> Truth {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("truth.ndjson");
        let mut words = match self {
            Self::Wheel => wheel("reference_xllamacpp.py", workload),
            _ => self.reference(workload),
        };
        words.extend(["--trace".to_owned(), path.display().to_string()]);
        words.extend(experts.then(|| "--experts".to_owned()));
        run(command(&words).envs(workload.environment.iter().copied()), 0);
        Truth::read(&path)
    }

    /// The folder or file to give to `check --target`.
    pub(crate) fn target(self) -> PathBuf {
        match self {
            Self::Wheel => {
                let script = "import importlib.util; print(importlib.util.find_spec('xllamacpp.xllamacpp').origin)";
                let reported =
                    run(&mut command(&[python().display().to_string(), "-c".to_owned(), script.to_owned()]), 0);
                PathBuf::from(String::from_utf8(reported.stdout).unwrap().trim())
            }
            _ => self.folder().join("lib"),
        }
    }

    fn reference(self, workload: &Workload) -> Vec<String> {
        static SHARED: OnceLock<PathBuf> = OnceLock::new();
        static SYMBOLS: OnceLock<PathBuf> = OnceLock::new();
        static INLINED: OnceLock<PathBuf> = OnceLock::new();
        static PLUGINS: OnceLock<PathBuf> = OnceLock::new();
        static BLAS: OnceLock<PathBuf> = OnceLock::new();
        let program = match self {
            Self::Symbols => &SYMBOLS,
            Self::Inlined => &INLINED,
            Self::Plugins => &PLUGINS,
            Self::Blas => &BLAS,
            _ => &SHARED,
        };
        let program = program.get_or_init(|| script("build_reference.sh", &[self.folder().to_str().unwrap()]));
        let mut words = vec![program.display().to_string()];
        words.extend(workload.arguments("--prompt"));
        words
    }

    fn folder(self) -> &'static Path {
        static SHARED: OnceLock<PathBuf> = OnceLock::new();
        static SYMBOLS: OnceLock<PathBuf> = OnceLock::new();
        static INLINED: OnceLock<PathBuf> = OnceLock::new();
        static PLUGINS: OnceLock<PathBuf> = OnceLock::new();
        static BLAS: OnceLock<PathBuf> = OnceLock::new();
        match self {
            Self::Blas => BLAS.get_or_init(|| script("build_llama.sh", &["blas"])),
            Self::Plugins => PLUGINS.get_or_init(|| script("build_llama.sh", &["plugins"])),
            Self::Inlined => INLINED.get_or_init(|| script("build_llama.sh", &["inlined"])),
            Self::Symbols => SYMBOLS.get_or_init(|| script("build_llama.sh", &["symbols"])),
            _ => SHARED.get_or_init(|| script("build_llama.sh", &["shared"])),
        }
    }
}

fn wheel(script: &str, workload: &Workload) -> Vec<String> {
    let mut words = vec![python().display().to_string(), here().join(script).display().to_string()];
    words.extend(workload.arguments("--prompt-tokens"));
    words
}

/// Held by each test while it runs engines: two at once wait for each other.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Measures what this machine can do, as verdicts need it: once, now, as what an earlier recording has measured may have been
/// disturbed.
pub(crate) fn with_limits() {
    static MEASURED: Once = Once::new();
    MEASURED.call_once(|| drop(run(&mut profinfer(&["roofline", "--quick", "--remeasure"]), 0)));
}

pub(crate) fn command(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// Milliseconds, as the engine prints them.
pub(crate) fn engine_time(words: &[String], time: &str) -> f64 {
    let output = run(&mut command(words), 0);
    let line = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str::<Value>(line.lines().last().unwrap()).unwrap()[time].as_f64().unwrap()
}

/// The folder of the scripts.
pub(crate) fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engines")
}

/// A Python that has the engine, and what makes the models.
pub(crate) fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| script("install_wheel.sh", &[]))
}

pub(crate) fn model(name: &str) -> PathBuf {
    let folder = cache().join("models");
    let path = folder.join(format!("{name}.gguf"));
    if !path.exists() {
        run(Command::new(python()).arg(here().join("make_models.py")).arg(folder).arg(name), 0);
    }
    path
}

/// Bytes of this machine's largest cache, as the kernel has it; 0 if it does not say.
pub(crate) fn cache_bytes() -> u64 {
    let caches = std::fs::read_dir("/sys/devices/system/cpu/cpu0/cache").into_iter().flatten().flatten();
    let sizes = caches.filter_map(|cache| std::fs::read_to_string(cache.path().join("size")).ok());
    let kib = sizes.filter_map(|size| size.trim().strip_suffix('K')?.parse::<u64>().ok()).max();
    kib.unwrap_or(0) * 1024
}

/// The smallest model of which this machine's caches hold less than half.
pub(crate) fn larger_than_caches() -> &'static str {
    if cache_bytes() > 120_000_000 { "widest-dense" } else { "wide-dense" }
}

/// Where the scripts keep what they make.
fn cache() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("PROFINFER_CACHE").unwrap_or_else(|| {
        let caches = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
        caches.expect("HOME is set").join("profinfer")
    })
}

/// Runs a script of this folder, which says what takes minutes; gives the path that it prints.
pub(crate) fn script(name: &str, arguments: &[&str]) -> PathBuf {
    let output = Command::new(here().join(name)).args(arguments).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{name} failed: {}", output.status);
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}
