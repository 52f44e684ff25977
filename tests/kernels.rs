//! The same trace from every kernel: emulated machines boot kernels from 5.10 to 6.18, record the toy engine there in
//! the best way each has, and what comes out must be the same records and the toy's own counts. Needs no root, but
//! Debian's archive the first time (`tests/kernels/get.sh`), a C compiler and clang. Nothing is skipped: a machine that
//! cannot be started is a failure.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test says what went wrong by panicking")]

use profinfer::trace::{Item, RecordKind, TraceReader, Value};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// In the machines too, so that the objects made here are found there.
const PROBESET: &str = "tests/targets/toy_kernels.yaml";
/// Steps, operators and lanes of each recording.
const RECORDINGS: [(&str, [u64; 3]); 2] = [("linked", [20, 6, 2]), ("late", [5, 7, 3])];

/// What a kernel is expected to have: `uprobe.multi`, `uprobe.session`, and programs as for recent kernels.
struct Expected {
    series: &'static str,
    multi: bool,
    session: bool,
    recent: bool,
}

const KERNELS: [Expected; 4] = [
    Expected { series: "5.10", multi: false, session: false, recent: false },
    Expected { series: "6.1", multi: false, session: false, recent: true },
    Expected { series: "6.12", multi: true, session: false, recent: true },
    Expected { series: "6.18", multi: true, session: true, recent: true },
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Arch {
    Amd64,
    Arm64,
}

impl Arch {
    /// As Debian calls it.
    fn debian(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// As `profinfer build` calls it.
    fn profinfer(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }
}

fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", output.status);
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn script(name: &str, arguments: &[&str]) -> String {
    run(Command::new(Path::new(ROOT).join("tests/kernels").join(name)).args(arguments).current_dir(ROOT))
}

/// The files of a machine: a program of ours, the toy, and objects for every kernel, as it has no clang.
fn lay_out(arch: Arch) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for name in ["bin", "dev", "proc", "sys", "run", "root", "lib64", "tests/targets", "cache"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    install(Path::new(&script("get.sh", &["busybox", arch.debian()])), &root.join("bin/busybox"));
    install(&Path::new(ROOT).join("tests/kernels/init"), &root.join("init"));
    for name in ["toy.yaml", "toy_kernels.yaml"] {
        fs::copy(Path::new(ROOT).join("tests/targets").join(name), root.join("tests/targets").join(name)).unwrap();
    }
    for options in [&[][..], &["--old-kernel"]] {
        let mut build = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        build.args(["build", PROBESET, "--arch", arch.profinfer(), "-o", "/dev/null"]).args(options);
        run(build.env("PROFINFER_CACHE", root.join("cache")).current_dir(ROOT));
    }
    // Objects are known by the compiler that made them, too. The machine's says that it is that one.
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let version = run(Command::new(clang).arg("--version"));
    let clang = format!("#!/bin/sh\necho '{}'\n", version.lines().next().unwrap());
    fs::write(root.join("bin/clang"), clang).unwrap();
    fs::set_permissions(root.join("bin/clang"), fs::Permissions::from_mode(0o755)).unwrap();
    match arch {
        Arch::Amd64 => lay_out_amd64(root),
        Arch::Arm64 => lay_out_arm64(root),
    }
    run(Command::new("chmod").arg("-R").arg("go-w").arg(root));
    folder
}

fn lay_out_amd64(root: &Path) {
    let program = Path::new(env!("CARGO_BIN_EXE_profinfer"));
    install_stripped("strip", program, &root.join("bin/profinfer"));
    compile_toys(Path::new("cc"), &root.join("bin"));
    let needed = run(Command::new("ldd").arg(program)) + &run(Command::new("ldd").arg(root.join("bin/toy")));
    for library in needed.split_whitespace().filter(|word| word.starts_with('/')) {
        let library = Path::new(library.trim_end_matches(':'));
        let place = root.join(library.strip_prefix("/").unwrap());
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        install(library, &place);
    }
}

fn lay_out_arm64(root: &Path) {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("arm64");
    let built = PathBuf::from(script("build_arm64.sh", &[target.to_str().unwrap()]));
    let tools = PathBuf::from(script("get.sh", &["toolchain"]));
    install_stripped(tools.join("strip").to_str().unwrap(), &built.join("profinfer"), &root.join("bin/profinfer"));
    compile_toys(&tools.join("cc"), &root.join("bin"));
    let libraries = tools.join("sysroot/usr/lib/aarch64-linux-gnu");
    fs::create_dir_all(root.join("lib/aarch64-linux-gnu")).unwrap();
    for name in ["libc.so.6", "libm.so.6", "libelf.so.1", "libz.so.1", "libzstd.so.1", "libgcc_s.so.1"] {
        install(&libraries.join(name), &root.join("lib/aarch64-linux-gnu").join(name));
    }
    install(&libraries.join("ld-linux-aarch64.so.1"), &root.join("lib/aarch64-linux-gnu/ld-linux-aarch64.so.1"));
    symlink("aarch64-linux-gnu/ld-linux-aarch64.so.1", root.join("lib/ld-linux-aarch64.so.1")).unwrap();
}

fn compile_toys(compiler: &Path, folder: &Path) {
    let sources = Path::new(ROOT).join("tests/targets");
    let toys: [(&str, &[&str], &[&str]); 3] = [
        ("toy", &["-DLINKED"], &["toy.c", "toy_engine.c"]),
        ("toy_late", &[], &["toy.c"]),
        ("libtoy_engine.so", &["-shared", "-fPIC"], &["toy_engine.c"]),
    ];
    for (name, flags, files) in toys {
        let mut command = Command::new(compiler);
        command.args(["-O2", "-g", "-o"]).arg(folder.join(name)).args(flags);
        run(command.args(files.iter().map(|file| sources.join(file))).args(["-ldl", "-lpthread"]));
    }
}

/// Copies a file; not the symbolic link to it.
fn install(from: &Path, to: &Path) {
    fs::copy(from, to).unwrap_or_else(|error| panic!("{} to {}: {error}", from.display(), to.display()));
}

fn install_stripped(strip: &str, from: &Path, to: &Path) {
    install(from, to);
    run(Command::new(strip).arg(to));
}

/// The lines for `init`: a name and a command each.
fn steps() -> String {
    let record = |name: &str| {
        let (_, [steps, operators, lanes]) = RECORDINGS.into_iter().find(|(known, _)| *known == name).unwrap();
        format!(
            "{name} profinfer record {PROBESET} -o /run/{name}.pfi -- /bin/toy{{}} {steps} {operators} {lanes}{{}}\n"
        )
    };
    let linked = record("linked").replace("{}", "");
    let late = record("late").replacen("{}", "_late", 1).replace("{}", " load=/bin/libtoy_engine.so");
    format!("doctor profinfer doctor --json\n{linked}{late}")
}

/// What a machine said, by name.
struct Said {
    series: &'static str,
    parts: BTreeMap<String, Vec<u8>>,
}

impl Said {
    fn boot(arch: Arch, series: &'static str, root: &Path) -> Self {
        let boot = Path::new(ROOT).join("tests/kernels/boot.sh");
        let output = Command::new(boot).args([arch.debian(), series]).arg(root).stdin(Stdio::null()).output().unwrap();
        let console = String::from_utf8_lossy(&output.stdout).replace('\r', "");
        let problem = String::from_utf8_lossy(&output.stderr);
        let whole = output.status.success() && console.contains("\n@done\n");
        assert!(whole, "the machine with Linux {series} did not run to its end\n{problem}\n{console}");
        Self { series, parts: parts(&console) }
    }

    fn text(&self, name: &str) -> String {
        let bytes = self.parts.get(name).unwrap_or_else(|| panic!("Linux {}: no {name}", self.series));
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Whether `doctor` found something there.
    fn has(&self, finding: &str) -> bool {
        let doctor: serde_json::Value = serde_json::from_str(&self.text("doctor.stdout")).unwrap();
        let findings = doctor["findings"].as_array().unwrap();
        let found = findings.iter().find(|found| found["name"] == finding);
        found.unwrap_or_else(|| panic!("doctor says nothing of {finding}"))["state"] == "present"
    }
}

/// The parts that `init` wrote between `@begin NAME` and `@end NAME`.
fn parts(console: &str) -> BTreeMap<String, Vec<u8>> {
    let mut parts = BTreeMap::new();
    for rest in console.split("@begin ").skip(1) {
        let (name, rest) = rest.split_once('\n').unwrap();
        let body = rest.split_once("@end ").unwrap_or_else(|| panic!("{name} has no end")).0;
        parts.insert(name.to_owned(), decode(body));
    }
    parts
}

/// Base64 with newlines.
fn decode(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(u32::from(byte - b'A')),
        b'a'..=b'z' => Some(u32::from(byte - b'a') + 26),
        b'0'..=b'9' => Some(u32::from(byte - b'0') + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u32> = text.bytes().filter_map(digit).collect();
    let group = |four: &[u32]| {
        let bits = four.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    };
    digits.chunks(4).flat_map(group).collect()
}

/// A trace without what differs from run to run: times, cpus, numbers of threads, addresses.
#[derive(Debug, PartialEq, Eq)]
struct Essence {
    counts: BTreeMap<String, u64>,
    /// What each thread recorded, in its order; the threads in no order.
    threads: Vec<Vec<String>>,
}

impl Essence {
    fn of(bytes: &[u8]) -> Self {
        let names = names(bytes);
        let mut counts = BTreeMap::new();
        let mut threads: BTreeMap<u32, Vec<(u32, String)>> = BTreeMap::new();
        let mut reader = TraceReader::new(bytes).expect("a trace");
        while let Some(item) = reader.next() {
            let Item::Record(record) = item else { continue };
            let (kind, header) = (record.kind(), record.header());
            // The machine decides when threads take turns.
            if matches!(kind.kind, RecordKind::Switch | RecordKind::Wakeup) {
                continue;
            }
            *counts.entry(kind.name.clone()).or_default() += 1;
            let of_process = matches!(kind.kind, RecordKind::Thread);
            let fields = record.fields().filter(|(name, _)| !of_process || *name == "comm");
            let fields: Vec<String> = fields.map(|(name, value)| format!("{name}={}", shown(&value, &names))).collect();
            let function = record.site().map(|site| site.function.as_str()).unwrap_or_default();
            let line = format!("{} {function} {:x} {}", kind.name, header.missing, fields.join(" "));
            threads.entry(header.tid).or_default().push((header.seq, line));
        }
        let meta = reader.into_meta();
        assert_eq!((meta.losses, meta.problems.0), (vec![], vec![]), "nothing is lost");
        assert_eq!(meta.end.unwrap().exit_code, Some(0));
        let mut threads: Vec<Vec<String>> = threads
            .into_values()
            .map(|mut lines| {
                lines.sort();
                let numbers: Vec<u32> = lines.iter().map(|(seq, _)| *seq).collect();
                assert_eq!(numbers, (1..=numbers.len() as u32).collect::<Vec<_>>(), "a thread counts its records");
                lines.into_iter().map(|(_, line)| line).collect()
            })
            .collect();
        threads.sort();
        Self { counts, threads }
    }

    fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }
}

/// The tensors' names by address.
fn names(bytes: &[u8]) -> HashMap<u64, String> {
    let mut names = HashMap::from([(0, "none".to_owned())]);
    TraceReader::new(bytes).expect("a trace").for_each_record(|record| {
        if let (RecordKind::Object, Some(address)) = (record.kind().kind, record.field(0).as_address()) {
            names.insert(address, record.field_named("name").to_string());
        }
        true
    });
    names
}

fn shown(value: &Value<'_>, names: &HashMap<u64, String>) -> String {
    match (value, value.as_address()) {
        (_, Some(address)) => names.get(&address).cloned().unwrap_or_else(|| "unknown".into()),
        (Value::List(values), _) => values.iter().map(|value| shown(value, names)).collect::<Vec<_>>().join(","),
        _ => value.to_string(),
    }
}

/// States that threads of the target had when they left a processor.
fn left_in(bytes: &[u8]) -> Vec<i64> {
    let mut states = Vec::new();
    TraceReader::new(bytes).expect("a trace").for_each_record(|record| {
        let of_toy = || record.field_named("prev_comm").as_str().is_some_and(|name| name.starts_with("toy"));
        if record.kind().kind == RecordKind::Switch && of_toy() {
            states.extend(record.field_named("prev_state").as_i64());
        }
        true
    });
    states
}

/// Boots every kernel, two at a time.
fn boot_all(arch: Arch) -> Vec<Said> {
    let folder = lay_out(arch);
    fs::write(folder.path().join("steps"), steps()).unwrap();
    // What is brought once is brought before two ask for it.
    script("get.sh", &["emulator"]);
    let waiting = Mutex::new(KERNELS.iter().rev().map(|kernel| kernel.series).collect::<Vec<_>>());
    let said = Mutex::new(Vec::new());
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap().pop();
                    let Some(series) = next else { return };
                    let one = Said::boot(arch, series, folder.path());
                    said.lock().unwrap().push(one);
                }
            });
        }
    });
    let mut said = said.into_inner().unwrap();
    said.sort_by_key(|one: &Said| KERNELS.iter().position(|kernel| kernel.series == one.series));
    said
}

fn the_same_from_every_kernel(arch: Arch) {
    // The machines of both architectures at once would be too many.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let machines = boot_all(arch);
    let mut first: BTreeMap<&str, Essence> = BTreeMap::new();
    for (said, kernel) in machines.iter().zip(&KERNELS) {
        let series = kernel.series;
        assert!(said.text("kernel").starts_with(&format!("{series}.")), "{} is not {series}", said.text("kernel"));
        assert_eq!(said.text("doctor.status").trim(), "0", "Linux {series}: {}", said.text("doctor.stdout"));
        let found = ["uprobe.multi", "uprobe.session", "task storage, cookies, loops"].map(|name| said.has(name));
        assert_eq!(found, [kernel.multi, kernel.session, kernel.recent], "what Linux {series} has");
        for (name, [steps, operators, lanes]) in RECORDINGS {
            let problems = said.text(&format!("{name}.stderr"));
            assert_eq!(said.text(&format!("{name}.status")).trim(), "0", "Linux {series}, {name}: {problems}");
            let counted = format!("parent {steps} steps {steps} graphs {} operators", steps * operators * lanes);
            assert_eq!(said.text(&format!("{name}.stdout")).trim(), counted);
            let trace = &said.parts[&format!("{name}.pfi")];
            let essence = Essence::of(trace);
            let work = ["step", "graph", "operator"].map(|name| essence.count(name));
            assert_eq!(work, [steps, steps, steps * operators * lanes], "Linux {series}, {name}");
            assert_eq!(essence.count("tensor"), 2 * operators, "Linux {series}, {name}: described again in step 2");
            let states = left_in(trace);
            assert!(states.iter().any(|state| *state != 0), "Linux {series}, {name}: nobody slept: {states:?}");
            match first.get(name) {
                None => drop(first.insert(name, essence)),
                Some(oldest) => assert_eq!(&essence, oldest, "Linux {series} and 5.10, {name}"),
            }
        }
    }
}

#[test]
#[ignore = "needs root"]
fn every_kernel_gives_the_same_trace_on_x86_64() {
    the_same_from_every_kernel(Arch::Amd64);
}

#[test]
#[ignore = "needs root"]
fn every_kernel_gives_the_same_trace_on_arm64() {
    the_same_from_every_kernel(Arch::Arm64);
}
