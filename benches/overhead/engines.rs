//! The engine and the models, made by the scripts of `tests/engines` where they are not in the cache.

use crate::copies::Copy;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The engine, twice: the same bytes in other files, so that what is in the one is not in the other.
#[derive(Debug)]
pub(crate) struct Build {
    folder: TempDir,
    /// As its folder in the cache is called.
    pub(crate) name: String,
    python: PathBuf,
}

/// The two copies' folders.
const COPIES: [&str; 2] = ["first", "second"];

impl Build {
    pub(crate) fn make() -> Self {
        let engine = script("build_llama.sh", &["shared"]);
        let folder = tempfile::Builder::new()
            .prefix("overhead-")
            .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
            .expect("a temporary folder");
        let name = engine.file_name().expect("it has a name").to_string_lossy().into_owned();
        let build = Self { folder, name, python: script("install_wheel.sh", &[]) };
        for copy in COPIES {
            build.copy(&engine, &build.folder.path().join(copy));
        }
        build
    }

    fn copy(&self, engine: &Path, folder: &Path) {
        std::fs::create_dir(folder).expect("an empty folder");
        run(Command::new("cp").arg("-a").arg(engine.join("lib")).arg(folder));
        let lib = engine.join("lib");
        run(Command::new("g++")
            .args(["-std=c++17", "-O2", "-o"])
            .arg(folder.join("turns"))
            .arg("-I")
            .arg(engine.join("include"))
            .arg(here().join("turns.cpp"))
            .arg("-L")
            .arg(&lib)
            .args(["-lllama", "-lggml", "-lggml-base", "-Wl,-rpath,$ORIGIN/lib"])
            .arg(format!("-Wl,-rpath-link,{}", lib.display())));
    }

    /// Starts one of the two copies with a model, and a thread for each processor.
    pub(crate) fn start(&self, copy: usize, model: &str, cpus: &[usize]) -> Copy {
        let folder = self.folder.path().join(COPIES[copy]);
        let mut command = Command::new(folder.join("turns"));
        Copy::start(command.arg(self.model(model)).arg(cpus.len().to_string()), &folder, cpus)
    }

    /// A place for traces and scripts.
    pub(crate) fn scratch(&self) -> &Path {
        self.folder.path()
    }

    fn model(&self, name: &str) -> PathBuf {
        let folder = cache().join("models");
        let path = folder.join(format!("{name}.gguf"));
        if !path.exists() {
            run(Command::new(&self.python).arg(scripts().join("make_models.py")).arg(folder).arg(name));
        }
        path
    }
}

/// Runs a script of `tests/engines`, which says what takes minutes; gives the path that it prints.
fn script(name: &str, arguments: &[&str]) -> PathBuf {
    let output =
        Command::new(scripts().join(name)).args(arguments).stderr(Stdio::inherit()).output().expect("it starts");
    assert!(output.status.success(), "{name} failed: {}", output.status);
    PathBuf::from(String::from_utf8(output.stdout).expect("it prints a path").trim())
}

/// Runs a command that must succeed; its output is not wanted.
pub(crate) fn run(command: &mut Command) {
    let status = command.stdout(Stdio::null()).status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}

/// This benchmark's folder.
pub(crate) fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/overhead")
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engines")
}

/// Where the scripts keep what they make.
pub(crate) fn cache() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("PROFINFER_CACHE").unwrap_or_else(|| {
        let caches = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
        caches.expect("HOME is set").join("profinfer")
    })
}
