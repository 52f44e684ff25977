//! The sites that are chosen in real functions, against what really happens: each function is executed from its first
//! instruction, one by one, until the site. It must be come to, in a straight line, and there every argument must be
//! read as it was at the entry. The decoder has no say in this: a processor does.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use profinfer_binary::{Arch, Target, open};
use profinfer_compiler::{PlacedSite, PlacementOptions, Selection, place, plan};
use profinfer_probeset::{self as spec, Library};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// Arguments that a probe reads, and whether the return is probed.
const NEEDS: &[(usize, bool)] = &[(1, false), (3, true), (6, false), (10, true)];
/// Functions of a library that are enough.
const ENOUGH: usize = 500;

/// The sites of all functions that match, with a probe that reads so many arguments.
fn sites(target: &dyn Target, arch: Arch, patterns: &[String], (arguments, returns): (usize, bool)) -> Vec<PlacedSite> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("probes.yaml");
    let params: Vec<String> = (0..arguments).map(|n| format!("u64 a{n}")).collect();
    let fields: Vec<String> = (0..arguments).map(|n| format!("f{n}: a{n}")).collect();
    let (params, fields) = (params.join(", "), fields.join(", "));
    let role = if returns { "region" } else { "mark" };
    let probes: Vec<String> = patterns
        .iter()
        .enumerate()
        .map(|(n, pattern)| {
            format!("  p{n}:\n    at: lib:{pattern}({params})\n    role: {role}\n    optional: true\n    fields: {{ {fields} }}\n")
        })
        .collect();
    let text = format!(
        "profinfer: 1\nengine: any\nmodules:\n  lib: \"{}\"\nprobes:\n{}",
        target.files()[0].name,
        probes.concat()
    );
    std::fs::write(&path, text).unwrap();
    let (probeset, _) = spec::load(&path, &Library::SHIPPED).unwrap_or_else(|problems| panic!("{problems:?}"));
    let (plan, _) = plan(&probeset, &Selection::default(), arch).unwrap_or_else(|problems| panic!("{problems:?}"));
    let mut sites = place(&plan, &probeset, target, PlacementOptions::default()).0.sites;
    // In an inlined copy arguments are where debug information says, and not where a call puts them.
    sites.retain(|site| site.site.inlined_into.is_none());
    sites
}

/// A program that has the library mapped, stopped.
struct Mapped {
    child: Child,
    pid: Pid,
    base: u64,
    scratch: u64,
    /// Offset, length and address of what is mapped of the file.
    segments: Vec<[u64; 3]>,
}

impl Mapped {
    fn start(library: &Path) -> Self {
        static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
        let program = PROGRAM.get_or_init(|| {
            let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("mapped");
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets/mapped.c");
            assert!(Command::new("cc").args(["-O1", "-o"]).arg(&program).arg(source).status().unwrap().success());
            program
        });
        let mut child = Command::new(program).arg(library).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let pid = Pid::from_raw(child.id().cast_signed());
        assert!(matches!(waitpid(pid, None).unwrap(), WaitStatus::Stopped(_, Signal::SIGSTOP)));
        let mut words = line.split_whitespace();
        let mut number = || words.next().unwrap().parse().unwrap();
        let (base, scratch) = (number(), number());
        let segments = words.map(|word| {
            let numbers: Vec<u64> = word.split(':').map(|number| number.parse().unwrap()).collect();
            [numbers[0], numbers[1], numbers[2]]
        });
        let segments = segments.collect();
        Self { child, pid, base, scratch, segments }
    }

    fn address(&self, file_offset: u64) -> u64 {
        let holds = |[offset, length, _]: &&[u64; 3]| (*offset..offset + length).contains(&file_offset);
        let [offset, _, address] = self.segments.iter().find(holds).expect("a mapped place");
        self.base + address + (file_offset - offset)
    }

    fn word(&self, address: u64) -> u64 {
        ptrace::read(self.pid, address as ptrace::AddressType).unwrap().cast_unsigned()
    }

    /// Executes a function up to the site.
    fn outcome(&self, site: &PlacedSite, arguments: usize, returns: bool) -> Outcome {
        let entry = self.address(site.site.file_offset - site.site.function_offset);
        let end = entry + site.site.function_offset;
        // Distinct values, all of which can be read and written through.
        let value = |n: usize| self.scratch + 0x8_0000 + 0x1000 * n as u64;
        let stack = self.scratch + 0x4_0000;
        let return_address = 0x1234_5678;
        let put = |address: u64, value: u64| {
            ptrace::write(self.pid, address as ptrace::AddressType, value.cast_signed()).unwrap();
        };
        put(stack, return_address);
        for n in 6..arguments {
            put(stack + 8 + 8 * (n as u64 - 6), value(n));
        }
        let mut registers = ptrace::getregs(self.pid).unwrap();
        let saved = registers;
        (registers.rip, registers.rsp, registers.rbp, registers.rax) = (entry, stack, value(20), value(21));
        (registers.rdi, registers.rsi, registers.rdx) = (value(0), value(1), value(2));
        (registers.rcx, registers.r8, registers.r9) = (value(3), value(4), value(5));
        (registers.r10, registers.r11, registers.rbx) = (value(22), value(23), value(24));
        // No system call is to be restarted.
        registers.orig_rax = u64::MAX;
        ptrace::setregs(self.pid, registers).unwrap();
        let mut outcome = Outcome::Right;
        while registers.rip != end {
            let before = registers.rip;
            ptrace::step(self.pid, None).unwrap();
            match waitpid(self.pid, None).unwrap() {
                WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
                WaitStatus::Stopped(_, Signal::SIGSEGV | Signal::SIGBUS) => outcome = Outcome::Faulted,
                other => panic!("{other:?}"),
            }
            registers = ptrace::getregs(self.pid).unwrap();
            if outcome == Outcome::Right && (registers.rip <= before || registers.rip > end) {
                outcome = Outcome::Wrong(format!("+{:#x} leads to +{:#x}", before - entry, registers.rip - entry));
            }
            if outcome != Outcome::Right {
                break;
            }
        }
        if outcome == Outcome::Right {
            let moved = site.cookie >> 16 & 0xffff;
            let at_entry = registers.rsp + moved;
            let read = [registers.rdi, registers.rsi, registers.rdx, registers.rcx, registers.r8, registers.r9];
            for n in 0..arguments {
                let found = read.get(n).copied().unwrap_or_else(|| self.word(at_entry + 8 + 8 * (n as u64 - 6)));
                if found != value(n) {
                    outcome = Outcome::Wrong(format!("argument {n} is {found:#x} and was {:#x}", value(n)));
                }
            }
            if returns && (registers.rsp != stack || self.word(stack) != return_address) {
                outcome = Outcome::Wrong(format!("the stack pointer is {:+} off", registers.rsp.wrapping_sub(stack)));
            }
        }
        ptrace::setregs(self.pid, saved).unwrap();
        outcome
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Right,
    Wrong(String),
    /// Something that only a linked and initialised library has was read.
    Faulted,
}

/// What executes functions.
trait Processor {
    /// Executes each function up to its site.
    fn outcomes(&mut self, sites: &[PlacedSite], arguments: usize, returns: bool) -> Vec<Outcome>;
}

impl Processor for Mapped {
    fn outcomes(&mut self, sites: &[PlacedSite], arguments: usize, returns: bool) -> Vec<Outcome> {
        sites.iter().map(|site| self.outcome(site, arguments, returns)).collect()
    }
}

/// An emulated processor of another architecture.
struct Emulated {
    library: PathBuf,
    python: PathBuf,
}

impl Processor for Emulated {
    fn outcomes(&mut self, sites: &[PlacedSite], arguments: usize, returns: bool) -> Vec<Outcome> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets/emulate_arm64.py");
        let calls = tempfile::NamedTempFile::new().unwrap();
        for site in sites {
            let (at, moved) = (&site.site, site.cookie >> 16 & 0xffff);
            let entry = at.file_offset - at.function_offset;
            writeln!(&calls, "{entry} {} {moved} {arguments} {}", at.function_offset, u8::from(returns)).unwrap();
        }
        let mut command = Command::new(&self.python);
        let output = command.arg(program).arg(&self.library).stdin(calls.reopen().unwrap()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let reported = String::from_utf8(output.stdout).unwrap();
        let outcomes = reported.lines().map(|line| match line {
            "right" => Outcome::Right,
            "faulted" => Outcome::Faulted,
            wrong => Outcome::Wrong(wrong.to_owned()),
        });
        outcomes.collect()
    }
}

fn check(processor: &mut dyn Processor, arch: Arch, library: &Path, patterns: &[String], at_least: usize) {
    let target = open(library.to_str().unwrap()).unwrap();
    let (mut all, mut faulted, mut cheaper, mut wrong) = (0, 0, 0, Vec::new());
    for (arguments, returns) in NEEDS {
        let sites = sites(target.as_ref(), arch, patterns, (*arguments, *returns));
        assert!(sites.len() >= at_least, "{}: {} functions", library.display(), sites.len());
        let every = sites.len().div_ceil(ENOUGH);
        let sites: Vec<PlacedSite> = sites.into_iter().step_by(every).collect();
        let outcomes = processor.outcomes(&sites, *arguments, *returns);
        assert_eq!(outcomes.len(), sites.len());
        for (site, outcome) in sites.iter().zip(outcomes) {
            all += 1;
            cheaper += usize::from(site.site.function_offset > 0);
            match outcome {
                Outcome::Right => {}
                Outcome::Faulted => faulted += 1,
                Outcome::Wrong(what) => wrong.push(format!(
                    "{}+{:#x} `{}` ({arguments} arguments, return {returns}): {what}",
                    site.site.function, site.site.function_offset, site.site.instruction
                )),
            }
        }
    }
    println!("{}: {all} sites, {cheaper} behind the entry, {faulted} not reached by a fault", library.display());
    assert!(wrong.is_empty(), "{}: {} of {all}:\n{}", library.display(), wrong.len(), wrong.join("\n"));
    // What cannot be executed without linking is the exception: the rest is what this is about.
    assert!(faulted * 20 < all, "{faulted} of {all} faulted");
    assert!(cheaper * 20 > all, "only {cheaper} of {all} sites are not the entry");
}

fn check_here(library: &Path, patterns: &[String], at_least: usize) {
    check(&mut Mapped::start(library), Arch::X86_64, library, patterns, at_least);
}

/// The interpreter of an environment that a script of the tests makes.
fn python_of(script: &str) -> PathBuf {
    let output = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(script)).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

/// A library as the program that runs this has it.
fn system_library(name: &str) -> PathBuf {
    let output = Command::new("cc").arg(format!("-print-file-name={name}")).output().unwrap();
    let path = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    path.canonicalize().unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Patterns that together are many functions, and each not more than a probe may have.
fn by_letter(prefix: &str) -> Vec<String> {
    ('a'..='z').map(|letter| format!("{prefix}{letter}*")).collect()
}

#[test]
#[ignore = "takes half a minute"]
fn arguments_are_intact_at_the_sites_of_libc() {
    check_here(&system_library("libc.so.6"), &by_letter(""), 1000);
}

#[test]
fn arguments_are_intact_at_the_sites_of_libstdcxx() {
    let patterns = ["std::basic_*", "std::locale*", "std::ios_base*", "std::__cxx11::basic_s*", "__cxxabiv1::*"];
    check_here(&system_library("libstdc++.so.6"), &patterns.map(str::to_owned), 500);
}

#[test]
#[ignore = "needs an engine"]
fn arguments_are_intact_at_the_sites_of_every_kernel_of_an_engine() {
    let python = python_of("tests/engines/install_wheel.sh");
    let packages = python.parent().and_then(Path::parent).unwrap().join("lib");
    let find = |folder: &Path, name: &str| {
        let mut entries = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
        entries.find(|path| path.file_name().unwrap().to_string_lossy().starts_with(name)).unwrap()
    };
    let library = find(&find(&packages, "python").join("site-packages/xllamacpp"), "xllamacpp.abi3");
    check_here(&library, &["ggml_compute_forward_*".into()], 100);
}

#[test]
#[ignore = "needs an emulated processor"]
fn arguments_are_intact_at_the_sites_of_arm64_libraries() {
    let python = python_of("tests/targets/install_unicorn.sh");
    let folder = Path::new("/usr/aarch64-linux-gnu/lib");
    let cpp = ["std::basic_*", "std::locale*", "std::ios_base*", "std::__cxx11::basic_s*"].map(str::to_owned);
    for (name, patterns) in [("libc.so.6", by_letter("")), ("libstdc++.so.6", cpp.to_vec())] {
        let library =
            folder.join(name).canonicalize().expect("libc and libstdc++ for arm64: scripts/setup tests installs them");
        let mut emulated = Emulated { library: library.clone(), python: python.clone() };
        check(&mut emulated, Arch::Aarch64, &library, &patterns, 500);
    }
}
