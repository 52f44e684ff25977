//! clang: found, checked, and run within bounds on a private copy of the source. No shell sees anything of it.

use super::features::{AttachMode, Kernels};
use super::identity;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use profinfer_binary::Arch;
use profinfer_compiler::codegen::{CSource, origin_of};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, Source, Span};
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The oldest major version of clang that the generated C is tested with.
pub const OLDEST_CLANG: u32 = 14;

/// The compiler may take this much CPU time.
const TIME_LIMIT: Duration = Duration::from_secs(180);
/// Others may have the CPUs meanwhile: so many times its CPU time a program may run.
const PATIENCE: u32 = 10;
/// The compiler may map this much memory, in bytes.
const MEMORY_LIMIT: u64 = 4 << 30;
/// No file that the compiler writes may be larger, in bytes.
const FILE_LIMIT: u64 = 64 << 20;
/// This much of the compiler's messages is read, in bytes.
const MESSAGE_LIMIT: u64 = 1 << 20;
/// This many of the compiler's errors are shown.
const ERRORS_SHOWN: usize = 5;

/// A generated program and what compiling it takes.
#[derive(Debug, Clone, Copy)]
pub struct Translation<'a> {
    /// The program; it is compiled with the runtime as one file.
    pub source: &'a CSource,
    /// The probeset's files, which the program's comments name.
    pub sources: &'a [Arc<Source>],
    /// The kernels that it is for.
    pub kernels: Kernels,
    /// How its programs will be attached; `None`: in whatever way the kernel has that it comes to, which takes a quarter
    /// more time to compile.
    pub attach: Option<AttachMode>,
}

/// A clang that can compile BPF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiler {
    /// The program.
    pub path: PathBuf,
    /// Its major version.
    pub major: u32,
    /// The first line of `clang --version`.
    pub version: String,
}

impl Compiler {
    /// Finds clang: the environment variable `CLANG`, else `clang` in `PATH`, else the newest `clang-NN` there.
    ///
    /// # Errors
    /// B001 where there is none, or none that is new enough.
    pub fn find() -> Result<Self, Diagnostic> {
        if let Some(wanted) = std::env::var_os("CLANG").filter(|wanted| !wanted.is_empty()) {
            let named = Self::ask(Path::new(&wanted));
            return named.map_err(|why| no_compiler(format!("CLANG={} is of no use: {why}", wanted.display())));
        }
        let mut reasons = Vec::new();
        for candidate in candidates(std::env::var_os("PATH").unwrap_or_default()) {
            match Self::ask(&candidate) {
                Ok(compiler) => return Ok(compiler),
                Err(why) => reasons.push(format!("{}: {why}", candidate.display())),
            }
        }
        let mut problem = no_compiler("clang, which compiles the probes, is not here");
        problem.notes = reasons;
        Err(problem)
    }

    fn ask(path: &Path) -> Result<Self, String> {
        let mut command = Command::new(path);
        command.arg("--version");
        let finished = run_bounded(command, Duration::from_secs(10)).map_err(|error| error.to_string())?;
        let version = finished.output.lines().next().unwrap_or_default().trim().to_owned();
        let major = major_version(&version).ok_or("it does not print a clang version")?;
        if major < OLDEST_CLANG {
            return Err(format!("version {major} is too old, {OLDEST_CLANG} is needed"));
        }
        Ok(Self { path: path.to_owned(), major, version })
    }

    /// What the object depends on, as 64 hexadecimal digits.
    pub fn key(&self, translation: &Translation<'_>) -> String {
        let mut hash = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        part(self.version.as_bytes());
        flags(translation).iter().for_each(|flag| part(flag.as_bytes()));
        part(translation.source.name.as_bytes());
        part(translation.source.standalone().as_bytes());
        // Beside what is hashed already, all that the object contains of what it was made from.
        part(env!("CARGO_PKG_VERSION").as_bytes());
        // The verifier's log quotes them: they are in the object.
        for source in translation.sources {
            part(source.name.as_bytes());
            part(source.text.as_bytes());
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Compiles a program to a BPF object.
    ///
    /// # Errors
    /// B002, at the places in the probeset where the program names them; B001 where clang does not run.
    pub fn compile(&self, translation: &Translation<'_>) -> Result<Vec<u8>, Diagnostics> {
        let folder = lay_out(translation).map_err(|error| {
            Diagnostic::error(Code::CannotWrite, format!("cannot write the program to compile it: {error}"))
                .hint("free space in the folder for temporary files, or set TMPDIR to another folder")
        })?;
        let mut command = Command::new(&self.path);
        command.args(flags(translation)).args(["-c", file_name(translation.source), "-o", OBJECT]);
        command.current_dir(folder.path());
        let finished = run_bounded(command, TIME_LIMIT)
            .map_err(|error| no_compiler(format!("{} does not run: {error}", self.path.display())))?;
        if !finished.success {
            return Err(compile_problems(&finished, translation));
        }
        std::fs::read(folder.path().join(OBJECT)).map_err(|error| {
            let message = format!("bug: clang succeeded but wrote no object: {error}");
            Diagnostic::error(Code::CompileFailed, message).into()
        })
    }
}

fn no_compiler(message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(Code::NoCompiler, message)
        .hint("`apt install clang` (or your system's package of that name), or set CLANG to one")
}

/// Programs in `PATH` that may be clang: `clang`, then `clang-NN` from the newest to the oldest.
fn candidates(path: OsString) -> Vec<PathBuf> {
    let mut plain = Vec::new();
    let mut numbered = Vec::new();
    for folder in std::env::split_paths(&path).filter(|folder| folder.is_absolute()) {
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if name == "clang" {
                plain.push(entry.path());
            } else if let Some(version) = name.strip_prefix("clang-").and_then(|text| text.parse::<u32>().ok()) {
                numbered.push((version, entry.path()));
            }
        }
    }
    numbered.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    plain.into_iter().chain(numbered.into_iter().map(|(_, path)| path)).collect()
}

/// `14` from `Debian clang version 14.0.6`.
fn major_version(line: &str) -> Option<u32> {
    let (_, after) = line.split_once("clang version ")?;
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn flags(translation: &Translation<'_>) -> Vec<&'static str> {
    let define = match translation.source.arch {
        Arch::X86_64 => "-D__TARGET_ARCH_x86",
        Arch::Aarch64 => "-D__TARGET_ARCH_arm64",
    };
    // `-nostdlibinc` and the fixed folder name make the object independent of this machine.
    let common = ["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-nostdlibinc", "-I.", "-fdebug-compilation-dir=."];
    let kernels: &[&str] = match translation.kernels {
        Kernels::Recent => &[],
        // The verifier of Linux 5.10 refuses a loop that is closed by falling through to its first instruction. Blocks in
        // the order of the source end a loop with a jump.
        Kernels::Old => &["-DPF_OLD_KERNEL", "-mllvm", "-disable-block-placement"],
    };
    let spans = match translation.attach {
        None => None,
        Some(AttachMode::Session) => Some("-DPF_NO_PAIRS"),
        Some(AttachMode::Multi | AttachMode::Single) => Some("-DPF_NO_SESSIONS"),
    };
    let common = common.into_iter().chain([define, "-Wno-unknown-attributes", "-fno-color-diagnostics"]);
    common.chain(kernels.iter().copied()).chain(spans).collect()
}

/// The compiler's output.
const OBJECT: &str = "program.o";

/// The program's name, where it is no more than a name.
fn file_name(source: &CSource) -> &str {
    let plain = stays_inside(&source.name) && source.name.ends_with(".c") && !source.name.contains(['/', '-']);
    if plain { &source.name } else { "program.bpf.c" }
}

/// Writes the program and copies of the probeset's files (clang quotes them in the debug information)
/// to a folder that only this user can enter.
fn lay_out(translation: &Translation<'_>) -> std::io::Result<tempfile::TempDir> {
    let folder = profinfer_files::cache::private_folder()?;
    let quoted = translation.sources.iter().map(|source| (source.name.as_str(), source.text.as_str()));
    for (name, text) in quoted {
        if stays_inside(name) {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap_or(folder.path()))?;
            std::fs::write(path, text)?;
        }
    }
    let text = format!(
        "{}{}",
        translation.source.standalone(),
        identity::declaration(translation.source, translation.kernels)
    );
    std::fs::write(folder.path().join(file_name(translation.source)), text)?;
    Ok(folder)
}

fn stays_inside(name: &str) -> bool {
    !name.is_empty() && Path::new(name).components().all(|part| matches!(part, std::path::Component::Normal(_)))
}

/// How a bounded program ended.
struct Finished {
    success: bool,
    timed_out: bool,
    /// Standard output and error together, up to a bound.
    output: String,
}

/// Runs a program with nothing on its standard input, little of the environment, and bounds on CPU time, memory and files.
fn lower(resource: Resource, soft: u64, hard: u64) -> std::io::Result<()> {
    let (_, most) = getrlimit(resource)?;
    Ok(setrlimit(resource, soft.min(most), hard.min(most))?)
}

fn run_bounded(mut command: Command, limit: Duration) -> std::io::Result<Finished> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    command.env_clear().env("PATH", path).env("LC_ALL", "C");
    command.stdin(Stdio::null());
    let (mut reader, writer) = std::io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    command.process_group(0);
    // SAFETY: the closure only calls getrlimit and setrlimit, which are async-signal-safe, and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            lower(Resource::RLIMIT_CPU, limit.as_secs(), limit.as_secs() + 1)?;
            lower(Resource::RLIMIT_AS, MEMORY_LIMIT, MEMORY_LIMIT)?;
            lower(Resource::RLIMIT_FSIZE, FILE_LIMIT, FILE_LIMIT)?;
            lower(Resource::RLIMIT_CORE, 0, 0)?;
            Ok(())
        });
    }
    let mut child = command.spawn()?;
    drop(command); // and with it the pipe's writing ends here
    let reading = std::thread::Builder::new().spawn(move || {
        let mut output = Vec::new();
        let _ = Read::by_ref(&mut reader).take(MESSAGE_LIMIT).read_to_end(&mut output);
        let _ = std::io::copy(&mut reader, &mut std::io::sink());
        output
    });
    let reading = match reading {
        Ok(reading) => reading,
        Err(error) => {
            let _ = child.kill();
            child.wait()?;
            return Err(error);
        }
    };
    let deadline = Instant::now() + limit * PATIENCE;
    let mut pause = Duration::from_micros(500);
    let (success, timed_out) = loop {
        if let Some(status) = child.try_wait()? {
            break (status.success(), status.signal() == Some(nix::libc::SIGXCPU));
        }
        if Instant::now() >= deadline {
            let group = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
            let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
            child.wait()?;
            break (false, true);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    };
    let output = reading.join().unwrap_or_default();
    Ok(Finished { success, timed_out, output: String::from_utf8_lossy(&output).into_owned() })
}

fn compile_problems(finished: &Finished, translation: &Translation<'_>) -> Diagnostics {
    const HINT: &str = "please report it with the probeset and the output of `profinfer gen`";
    if finished.timed_out {
        let message = format!("bug: clang did not finish within {} s of CPU time", TIME_LIMIT.as_secs());
        return Diagnostic::error(Code::CompileFailed, message).hint(HINT).into();
    }
    let mut problems = Diagnostics::new();
    for error in finished.output.lines().filter_map(ClangError::parse).take(ERRORS_SHOWN) {
        let message = format!("bug: the generated program does not compile: {}", error.message);
        let mut problem = Diagnostic::error(Code::CompileFailed, message).hint(HINT);
        match error.place(translation) {
            Some(span) => problem = problem.at(&span),
            None => problem = problem.with_note(format!("at {}:{}:{}", error.file, error.line, error.column)),
        }
        problems.push(problem);
    }
    if problems.0.is_empty() {
        let mut problem = Diagnostic::error(Code::CompileFailed, "bug: the generated program does not compile");
        problem.notes = finished.output.lines().take(20).map(str::to_owned).collect();
        problems.push(problem.hint(HINT));
    }
    problems
}

/// `FILE:LINE:COLUMN: error: MESSAGE`.
#[derive(Debug, PartialEq, Eq)]
struct ClangError<'a> {
    file: &'a str,
    line: usize,
    column: usize,
    message: &'a str,
}

impl<'a> ClangError<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (place, message) = text.split_once(": error: ").or_else(|| text.split_once(": fatal error: "))?;
        let mut parts = place.rsplitn(3, ':');
        let column = parts.next()?.parse().ok()?;
        let line = parts.next()?.parse().ok()?;
        Some(Self { file: parts.next()?, line, column, message })
    }

    /// The line of the probeset: clang names it, or the line of the program does at its end.
    fn place(&self, translation: &Translation<'_>) -> Option<Span> {
        if let Some(source) = translation.sources.iter().find(|source| self.file == source.name) {
            return line_span(source, self.line);
        }
        let text = &translation.source.text;
        let line = text.lines().nth(self.line.checked_sub(1)?).filter(|_| self.file == file_name(translation.source));
        let (source, line) = origin_of(line?, translation.sources)?;
        line_span(source, line)
    }
}

/// The span of a whole line, from 1, without its indentation.
pub(super) fn line_span(source: &Arc<Source>, line: usize) -> Option<Span> {
    let mut start = 0;
    for (number, text) in source.text.split_inclusive('\n').enumerate() {
        if number + 1 == line {
            let indentation = text.len() - text.trim_start().len();
            return Some(Span::new(source, start + indentation..start + text.trim_end().len()));
        }
        start += text.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> Arc<Source> {
        Arc::new(Source { name: "toy.yaml".into(), text: "profinfer: 1\nprobes:\n  step:\n    at: nowhere\n".into() })
    }

    fn program(text: &str) -> CSource {
        CSource { name: "toy.bpf.c".into(), text: text.into(), arch: Arch::X86_64 }
    }

    fn translate(text: &str) -> Result<Vec<u8>, Diagnostics> {
        let sources = [source()];
        let translation =
            Translation { source: &program(text), sources: &sources, kernels: Kernels::Recent, attach: None };
        Compiler::find().expect("clang").compile(&translation)
    }

    /// Whoever else has the CPUs meanwhile.
    #[test]
    fn a_compiler_is_limited_in_its_cpu_time() {
        let run = |script: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", script]);
            let finished = run_bounded(shell, Duration::from_secs(1)).unwrap();
            (finished.success, finished.timed_out)
        };
        assert_eq!(run("sleep 2"), (true, false));
        assert_eq!(run("while :; do :; done"), (false, true));
        assert_eq!(run("exit 1"), (false, false));
    }

    #[test]
    fn reads_the_version_of_every_vendor() {
        assert_eq!(major_version("Debian clang version 14.0.6"), Some(14));
        assert_eq!(major_version("Ubuntu clang version 18.1.3 (1ubuntu1)"), Some(18));
        assert_eq!(major_version("gcc (Debian 12.2.0-14) 12.2.0"), None);
    }

    #[test]
    fn prefers_plain_clang_then_the_newest() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["clang-9", "clang-18", "clang", "clang-format", "clang-tidy-19"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let found = candidates(folder.path().as_os_str().to_owned());
        let names: Vec<_> = found.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["clang", "clang-18", "clang-9"]);
    }

    #[test]
    fn an_error_points_into_the_yaml() {
        let problems = translate("#line 4 \"toy.yaml\"\nint f(void) { return nothing; }\n").unwrap_err();
        let problem = &problems.0[0];
        assert_eq!(problem.code, Code::CompileFailed);
        assert!(problem.message.starts_with("bug: "), "{}", problem.message);
        let span = problem.span.as_ref().expect("a place");
        assert_eq!((span.text(), span.line_column().0), ("at: nowhere", 4));
    }

    #[test]
    fn compiles_to_a_bpf_object_without_this_machine_in_it() {
        let text = "int f(void *context) { return 0; }\n";
        let one = translate(text).unwrap();
        assert_eq!(one, translate(text).unwrap(), "two runs give the same bytes");
        assert_eq!(one.get(..4), Some(&b"\x7fELF"[..]));
    }

    #[test]
    fn system_headers_are_out_of_reach() {
        let problems = translate("#include <stdio.h>\n").unwrap_err();
        assert!(problems.0[0].message.contains("stdio.h"), "{problems:?}");
    }

    #[test]
    fn only_names_inside_the_folder_are_written() {
        assert!(stays_inside("probesets/toy.yaml") && stays_inside("builtin:toy.yaml"));
        assert!(!stays_inside("/etc/passwd") && !stays_inside("../toy.yaml") && !stays_inside(""));
    }

    #[test]
    fn the_key_changes_with_what_it_depends_on() {
        let compiler = Compiler { path: "clang".into(), major: 14, version: "clang version 14.0.6".into() };
        let sources = [source()];
        let source = program("a");
        let one = Translation { source: &source, sources: &sources, kernels: Kernels::Recent, attach: None };
        let keys = [
            compiler.key(&one),
            compiler.key(&Translation { source: &program("b"), ..one }),
            compiler.key(&Translation { source: &CSource { arch: Arch::Aarch64, ..source.clone() }, ..one }),
            compiler.key(&Translation { source: &CSource { name: "t.bpf.c".into(), ..source.clone() }, ..one }),
            compiler.key(&Translation { sources: &[], ..one }),
            compiler.key(&Translation { kernels: Kernels::Old, ..one }),
            compiler.key(&Translation { attach: Some(AttachMode::Session), ..one }),
            compiler.key(&Translation { attach: Some(AttachMode::Multi), ..one }),
            Compiler { version: "clang version 15.0.0".into(), ..compiler.clone() }.key(&one),
        ];
        let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
    }
}
