//! Every command that the documents show is run, as it stands there.
//!
//! A block that starts with ```` ```console ```` is one session of a shell: lines that start with `$ ` are commands,
//! each of which must succeed; the lines after one are what it prints, of which numbers, units and spacing may differ,
//! and `…` stands for any lines. A page's blocks run one after the other in one folder, which looks like a clone, and
//! has `app.py`, a program that uses an engine, `server.py`, one that does so for ever, and `run.pfi`, a trace. What a
//! block ```` ```yaml NAME ```` shows is a file of that name, for the sessions after it.
//!
//! ```` ```console root ```` needs root and the engine, which `python` has; ```` ```console no-run: REASON ```` is not run. Any other
//! block, and text without a block, shows no commands: `commands_are_shown_in_blocks_that_are_run` keeps that.

// Not every program that runs pages asks for everything.
#![allow(dead_code, reason = "each test program uses what it needs")]

use regex::Regex;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex};
use std::time::Instant;

/// The package's folder.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What a session of a shell needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    Root,
    NotToRun,
}

/// One command, and the lines that it is documented to print.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) command: String,
    pub(crate) output: Vec<String>,
}

/// One block.
#[derive(Debug)]
pub(crate) struct Session {
    page: String,
    line: usize,
    pub(crate) needs: Needs,
    pub(crate) shown: Vec<Shown>,
    /// What the page has shown of files until here, by name.
    pub(crate) files: Vec<(String, String)>,
}

/// Pages with commands: those of the package's folder and of `docs/`; of them those that `PAGES` has in it, where it is set.
pub(crate) fn pages() -> Vec<(String, String)> {
    let mut paths: Vec<PathBuf> = ["", "docs", "docs/decisions", "docs/engines"]
        .iter()
        .flat_map(|folder| std::fs::read_dir(root().join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    paths.sort();
    let name = |path: &Path| path.strip_prefix(root()).unwrap().display().to_string();
    let wanted = std::env::var("PAGES").unwrap_or_default();
    paths.retain(|path| wanted.is_empty() || wanted.contains(&name(path)));
    paths.iter().map(|path| (name(path), std::fs::read_to_string(path).unwrap())).collect()
}

pub(crate) fn sessions(page: &str, text: &str) -> Vec<Session> {
    let mut sessions = Vec::new();
    let mut files = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(marks) = line.strip_prefix("```") else { continue };
        let block = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
        let needs = match marks.split_once(' ').unwrap_or((marks, "")) {
            ("console", "") => Needs::Nothing,
            ("console", "root") => Needs::Root,
            ("console", reason) if reason.starts_with("no-run: ") => Needs::NotToRun,
            ("console", other) => panic!("{page}:{}: what is `{other}`?", number + 1),
            ("yaml", file) if !file.is_empty() => {
                files.push((file.to_owned(), block.fold(String::new(), |text, line| text + line + "\n")));
                continue;
            }
            _ => {
                block.for_each(drop);
                continue;
            }
        };
        let shown = commands(block);
        sessions.push(Session { page: page.to_owned(), line: number + 1, needs, shown, files: files.clone() });
    }
    sessions
}

fn commands<'a>(block: impl Iterator<Item = &'a str>) -> Vec<Shown> {
    let mut shown: Vec<Shown> = Vec::new();
    for line in block {
        match (line.strip_prefix("$ "), shown.last_mut()) {
            (Some(command), _) => shown.push(Shown { command: command.to_owned(), output: Vec::new() }),
            (None, Some(last)) if last.command.ends_with('\\') => {
                last.command.push('\n');
                last.command.push_str(line);
            }
            (None, Some(last)) if !line.trim().is_empty() => last.output.push(line.to_owned()),
            (None, _) => {}
        }
    }
    shown
}

/// A line without what differs from run to run: numbers with their units, times of day, and the widths of columns.
fn gist(line: &str) -> String {
    static NUMBER: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"<?\b\d[\d.,:]*\s?(ns|[µu]s|ms|s|min|h|%|[kMG]?B)?(\s|\b|$)").unwrap());
    let line = NUMBER.replace_all(line, "# ");
    line.split(|c: char| c.is_whitespace() || c == '#').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Whether the lines are in the output, in their order; one after another unless a line `…` is between them.
pub(crate) fn contains(output: &str, lines: &[String]) -> Result<(), String> {
    let output: Vec<String> = output.lines().map(gist).filter(|line| !line.is_empty()).collect();
    let mut rest = output.as_slice();
    let mut anywhere = true;
    for line in lines {
        if line.trim() == "…" {
            anywhere = true;
            continue;
        }
        let line = gist(line);
        let found = rest.iter().position(|printed| *printed == line).filter(|at| anywhere || *at == 0);
        rest = &rest[found.ok_or(line)? + 1..];
        anywhere = false;
    }
    Ok(())
}

/// A folder that a page's sessions run in.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    /// Where profinfer keeps what it has found out: what one page measures is not for others, nor for the user's own runs.
    cache: tempfile::TempDir,
    path: String,
}

impl Place {
    pub(crate) fn new(python: Option<&Path>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["scripts", "tests", "probesets", "docs"] {
            symlink(root().join(name), folder.path().join(name)).unwrap();
        }
        std::fs::copy(root().join("tests/traces/v1/llama.pfi"), folder.path().join("run.pfi")).unwrap();
        let programs = Path::new(env!("CARGO_BIN_EXE_profinfer")).parent();
        let path = std::env::var("PATH").unwrap();
        let folders = programs.into_iter().chain(python.and_then(Path::parent)).map(Path::to_path_buf);
        let path = std::env::join_paths(folders.chain(std::env::split_paths(&path))).unwrap();
        Self { folder, cache: tempfile::tempdir().unwrap(), path: path.into_string().unwrap() }
    }

    /// A folder with a virtual environment, by its Python.
    pub(crate) fn with_environment(self, folder: &str, python: &Path) -> Self {
        let environment = python.ancestors().nth(2).unwrap();
        symlink(environment, self.folder.path().join(folder)).unwrap();
        self
    }

    /// The programs that the pages profile: the engine on a small model, once and for ever.
    pub(crate) fn with_app(self, cache: &Path) -> Self {
        let engines = root().join("tests/engines");
        let model = cache.join("models/tiny-dense.gguf");
        let once = format!(
            "import sys\nsys.path.insert(0, {engines:?})\nsys.dont_write_bytecode = True\nimport run_xllamacpp\n\
             sys.argv[1:] = ['--model', {model:?}, '--tokens', '500']\n"
        );
        for (name, call) in [("app.py", "run_xllamacpp.main()"), ("server.py", "while True: run_xllamacpp.main()")] {
            std::fs::write(self.folder.path().join(name), format!("{once}{call}\n")).unwrap();
        }
        self
    }

    /// `app.py` on a GPU, or on the driver that is a processor.
    pub(crate) fn with_gpu_app(self, cache: &Path) -> Self {
        let script = root().join("tests/engines/run_cyllama.py");
        let model = cache.join("models/tiny-dense.gguf");
        let text = format!(
            "import runpy, sys\nsys.dont_write_bytecode = True\nsys.argv[1:] = ['--model', {model:?}]\n\
             runpy.run_path({script:?}, run_name='__main__')\n"
        );
        std::fs::write(self.folder.path().join("app.py"), text).unwrap();
        self
    }

    fn run(&self, session: &Session) -> Result<(), String> {
        const MARK: &str = "<next command>";
        let script: String = session.shown.iter().map(|shown| format!("echo '{MARK}'\n{}\n", shown.command)).collect();
        for (name, text) in &session.files {
            std::fs::write(self.folder.path().join(name), text).unwrap();
        }
        let started = Instant::now();
        let output = Command::new("bash")
            .args(["-c", &format!("exec 2>&1\nset -e\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}")])
            .current_dir(self.folder.path())
            .env("PATH", &self.path)
            .env("PROFINFER_CACHE", self.cache.path())
            // A release build takes minutes, and tests nothing else.
            .env("PROFINFER", env!("CARGO_BIN_EXE_profinfer"))
            .env("NO_COLOR", "1")
            .env("COLUMNS", "120")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let place = format!("{}:{}", session.page, session.line);
        println!("{place}: {:.1} s", started.elapsed().as_secs_f64());
        if !output.status.success() {
            return Err(format!("{place}: {}\n{text}", output.status));
        }
        for (shown, printed) in session.shown.iter().zip(text.split(MARK).skip(1)) {
            contains(printed, &shown.output)
                .map_err(|line| format!("{place}: `{}` does not print `{line}`, but\n{printed}", shown.command))?;
        }
        Ok(())
    }
}

/// Two pages at a time: each has a folder and a cache of its own, and much of their time is waiting.
pub(crate) fn run_all(needs: Needs, place: impl Fn(&str) -> Place + Sync) {
    let of_page = |(page, text): (String, String)| {
        let all = sessions(&page, &text).into_iter().filter(|session| session.needs == needs);
        Some((page, all.collect::<Vec<Session>>())).filter(|(_, sessions)| !sessions.is_empty())
    };
    let mut waiting: Vec<(String, Vec<Session>)> = pages().into_iter().filter_map(of_page).collect();
    // The longest first.
    waiting.sort_by_key(|(_, sessions)| sessions.iter().map(|session| session.shown.len()).sum::<usize>());
    let (waiting, failures) = (Mutex::new(waiting), Mutex::new(Vec::new()));
    let run_pages = || {
        loop {
            let next = waiting.lock().unwrap().pop();
            let Some((page, sessions)) = next else { return };
            let place = place(&page);
            let failed: Vec<String> = sessions.iter().filter_map(|session| place.run(session).err()).collect();
            failures.lock().unwrap().extend(failed);
        }
    };
    std::thread::scope(|threads| {
        threads.spawn(run_pages);
        threads.spawn(run_pages);
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
