//! The packages, installed and used on Debian releases as people have them who run a model server: no Rust, no clang, no
//! compiler, no headers. Needs root, Debian's archive and PyPI the first time.

use crate::engine::{model, script};
use crate::process::{run, stderr};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Processor time from `pip install` to the first verdict: other than the time of a clock, it is the same on a busy machine.
const FIRST_VERDICT_S: f64 = 60.0;
/// Tokens that the model generates: one with the prompt, and a step each of the others.
const TOKENS: u64 = 8;
/// The oldest C library that the packages ask for.
const GLIBC: [u64; 2] = [2, 28];
/// What only the user removes.
const CACHE: &str = "./root/.cache";

/// A release, its Python, and the newest llama.cpp that has a wheel for that.
struct Release {
    suite: &'static str,
    python: &'static str,
    wheel: &'static str,
}

/// A machine: a release's root file system, and a layer for what is written to it. Files for it are in `/srv`.
pub(crate) struct Machine {
    root: PathBuf,
    layer: tempfile::TempDir,
}

impl Machine {
    /// With these files in `/srv`.
    pub(crate) fn new(suite: &str, files: &[PathBuf]) -> Self {
        let root = script("../installed/root.sh", &[suite]);
        let machine = Self { root, layer: tempfile::tempdir().unwrap() };
        let served = machine.layer.path().join("upper/srv");
        fs::create_dir_all(&served).unwrap();
        for file in files {
            fs::copy(file, served.join(file.file_name().unwrap())).unwrap();
        }
        machine
    }

    /// What its systemd finds.
    fn add_units(&self, units: &[(&str, &str)]) {
        let folder = self.layer.path().join("upper/etc/systemd/system");
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in units {
            fs::write(folder.join(name), text).unwrap();
        }
    }

    /// A toy with the engine's functions, linked statically: this machine's C library is newer than that one's.
    fn add_toy(&self) {
        let toy = self.layer.path().join("upper/srv/toy");
        let source = repository().join("tests/targets/llama_functions.c");
        let flags = ["-O2", "-g", "-static", "-DDISPATCHER=SYMBOL", "-Wl,--build-id=sha1", "-lpthread", "-o"];
        run(Command::new("cc").arg(source).args(flags).arg(toy), 0);
    }

    /// What runs a command there. `contained`: as a container's only one.
    pub(crate) fn command(&self, contained: bool) -> Command {
        let mut command = Command::new(repository().join("tests/installed/enter.sh"));
        command.args(contained.then_some("--contained")).arg(&self.root).arg(self.layer.path());
        command
    }

    /// Runs lines of a shell there, as root; they must end with this status.
    fn ends(&self, lines: &str, status: i32) -> Output {
        run(self.command(false).args(["sh", "-euc", lines]), status)
    }

    pub(crate) fn runs(&self, lines: &str) -> String {
        String::from_utf8(self.ends(lines, 0).stdout).unwrap()
    }

    fn json(&self, lines: &str) -> Value {
        let text = self.runs(lines);
        serde_json::from_str(text.lines().last().unwrap_or_default()).or_else(|_| serde_json::from_str(&text)).unwrap()
    }

    /// Every file, but what apt and dpkg write of any package.
    fn files(&self) -> BTreeSet<String> {
        let of_system = ["./proc", "./sys", "./dev", "./srv", "./tmp", "./run"];
        let of_apt = ["./var/lib/dpkg", "./var/lib/apt", "./var/cache/apt", "./var/cache/debconf", "./var/log"];
        let skipped = [&of_system[..], &of_apt, &[CACHE]].concat();
        let found = self.runs("cd / && find . -xdev");
        found.lines().filter(|path| !skipped.iter().any(|skip| path.starts_with(skip))).map(str::to_owned).collect()
    }
}

/// `PROFINFER_PACKAGES` names a folder with others, such as those that are about to be released.
fn packages() -> PathBuf {
    let named = std::env::var_os("PROFINFER_PACKAGES").filter(|value| !value.is_empty()).map(PathBuf::from);
    named.unwrap_or_else(|| script("../installed/packages.sh", &[env!("CARGO_BIN_EXE_profinfer")]))
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// llama.cpp's wheel for a version of Python.
pub(crate) fn wheels(python: &str, wheel: &str) -> Vec<PathBuf> {
    files_of(&script("../installed/wheel.sh", &[python, wheel]))
}

fn files_of(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn works_on(release: &Release) {
    let mut files = files_of(&packages());
    files.extend(wheels(release.python, release.wheel));
    files.push(model("tiny-dense"));
    let of_tests = ["installed/complete.py", "installed/scrape.py", "targets/toy.yaml"];
    files.extend(of_tests.map(|file| repository().join("tests").join(file)));
    let machine = Machine::new(release.suite, &files);
    machine.add_toy();
    machine.runs("for tool in clang gcc cc rustc cargo; do if command -v $tool; then exit 1; fi; done; [ ! -e /usr/include/stdio.h ]");
    // What a person does: a virtual environment by the release's own Python and pip, both wheels, a recording, its report.
    machine.runs("python3 -m venv /opt/env");
    let before = machine.files();
    let pip = "/opt/env/bin/pip --disable-pip-version-check";
    let install = format!("{pip} install --quiet --no-index --find-links /srv /srv/profinfer-*.whl xllamacpp");
    let (by_wheel, took) = records_an_engine(&machine, &install, "/opt/env/bin/profinfer");
    assert!(took < FIRST_VERDICT_S, "{}: {took} s", release.suite);
    machine.runs(&format!("{pip} uninstall --quiet --yes profinfer"));
    let is_engine = |path: &String| path.contains("xllamacpp") || path.contains("__pycache__");
    assert_nothing_is_left(&machine, &before, is_engine);
    // The one file, without a package.
    let before = machine.files();
    machine.runs("cp /srv/profinfer-*-linux-x86_64 /usr/local/bin/profinfer");
    assert_eq!(records_an_engine(&machine, "", "/usr/local/bin/profinfer").0, by_wheel);
    machine.runs("rm /usr/local/bin/profinfer");
    // The Debian package.
    machine.runs("apt-get install --quiet=2 --yes /srv/profinfer_*_amd64.deb && dpkg --audit && apt-get check");
    shows_itself(&machine);
    assert_eq!(records_an_engine(&machine, "", "/usr/bin/profinfer").0, by_wheel);
    records_a_toy(&machine);
    asks_for_clang(&machine);
    unit_is_right(&machine);
    machine.runs("systemctl enable profinfer@demo.service");
    machine.runs("test -L /etc/systemd/system/demo.service.wants/profinfer@demo.service");
    machine.runs("apt-get purge --quiet=2 --yes profinfer");
    assert_nothing_is_left(&machine, &before, |_| false);
    a_service_has_live_figures(&machine);
}

fn assert_nothing_is_left(machine: &Machine, before: &BTreeSet<String>, is_meant: impl Fn(&String) -> bool) {
    let left: Vec<String> = machine.files().difference(before).filter(|path| !is_meant(path)).cloned().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// The first recording of the documents, on a real engine that counts its tokens, and its report, after `install`. Operators
/// by type, and the processor time of all, s.
fn records_an_engine(machine: &Machine, install: &str, profinfer: &str) -> (BTreeMap<String, u64>, f64) {
    let times = machine.runs(&format!(
        "{install}
        cd /srv
        {profinfer} record llama --force -o engine.pfi -- /opt/env/bin/python -B complete.py tiny-dense.gguf {TOKENS} >engine.json
        {profinfer} report --json engine.pfi >report.json
        times"
    ));
    let engine = machine.json("cat /srv/engine.json");
    let report = machine.json("cat /srv/report.json");
    assert_eq!(report["completeness"]["complete"], true, "{report:#}");
    assert!(report["verdict"].is_object() || report["verdict"].is_array(), "{report:#}");
    // The engine's own count: the prompt's step gives the first token.
    assert_eq!(engine["usage"]["completion_tokens"], TOKENS);
    let phases = report["phases"].as_array().unwrap();
    let decode = phases.iter().find(|row| row["phase"] == "decode").unwrap();
    assert_eq!((&decode["steps"], &decode["tokens"]), (&(TOKENS - 1).into(), &(TOKENS - 1).into()), "{decode:#}");
    let types = report["operator_types"].as_array().unwrap();
    let types = types.iter().map(|row| (row["op"].as_str().unwrap().to_owned(), row["count"].as_u64().unwrap()));
    let types: BTreeMap<_, _> = types.collect();
    assert!(types.contains_key("MUL_MAT"), "{types:?}");
    (types, of_children(&times))
}

/// What `times` of a shell prints, of the commands that it ran: `0m1.25s 0m0.50s`.
fn of_children(times: &str) -> f64 {
    let seconds = |word: &str| {
        let (minutes, seconds) = word.trim_end_matches('s').split_once('m').unwrap();
        60.0 * minutes.parse::<f64>().unwrap() + seconds.parse::<f64>().unwrap()
    };
    times.lines().last().unwrap().split_whitespace().map(seconds).sum()
}

fn shows_itself(machine: &Machine) {
    assert_eq!(machine.runs("profinfer --version").trim(), format!("profinfer {}", env!("CARGO_PKG_VERSION")));
    let doctor = machine.json("profinfer doctor --json");
    assert_eq!(doctor["can_record"], true, "{doctor:#}");
    let clang = doctor["findings"].as_array().unwrap().iter().find(|finding| finding["name"] == "clang").unwrap();
    assert_eq!(clang["state"], "lacking");
    assert!(clang["cost"].as_str().unwrap().contains("only shipped probesets can be recorded"), "{clang}");
    assert!(machine.runs("profinfer engines").contains("llama.cpp"));
    // The pages of the manual and the completions are where the release's programs find them.
    let pages = machine.runs("ls /usr/share/man/man1");
    for page in ["profinfer.1.gz", "profinfer-record.1.gz", "profinfer-serve.1.gz"] {
        assert!(pages.lines().any(|found| found == page), "{page}: {pages}");
    }
    assert!(machine.runs("zcat /usr/share/man/man1/profinfer-record.1.gz").contains(".TH"));
    let complete = "bash -c '. /usr/share/bash-completion/completions/profinfer && complete -p profinfer'";
    assert!(machine.runs(complete).contains("profinfer"));
    machine.runs("test -s /usr/share/zsh/vendor-completions/_profinfer");
    machine.runs("test -s /usr/share/fish/vendor_completions.d/profinfer.fish");
}

/// Records of a probe in a trace.
fn records(machine: &Machine, trace: &str, probe: &str) -> u64 {
    let dump = machine.runs(&format!("profinfer dump {trace}"));
    let lines = dump.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["probe"] == probe).count() as u64
}

/// What the toy counted itself, on two lanes.
fn records_a_toy(machine: &Machine) {
    let called = machine.runs("profinfer record llama -o /srv/toy.pfi -- /srv/toy 5 2");
    let counts: Vec<u64> = called.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let found = ["graph", "operator", "fused"].map(|probe| records(machine, "/srv/toy.pfi", probe));
    assert_eq!(counts, found, "{called}");
    let report = machine.json("profinfer report --json /srv/toy.pfi");
    assert_eq!((&report["completeness"]["complete"], &report["completeness"]["steps"]), (&true.into(), &7.into()));
}

/// A probeset of one's own cannot be compiled there, and the message names the reason and the remedy.
fn asks_for_clang(machine: &Machine) {
    let refused = machine.ends("profinfer record /srv/toy.yaml -o /srv/own.pfi -- /srv/toy", 3);
    let message = stderr(&refused).split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["B001", "this program carries the objects of shipped probesets", "apt install clang"] {
        assert!(message.contains(words), "{words}: {message}");
    }
    machine.runs("! [ -e /srv/own.pfi ]");
}

/// systemd finds nothing wrong, and it gives three capabilities.
fn unit_is_right(machine: &Machine) {
    let unit = machine.runs("cat /usr/lib/systemd/system/profinfer@.service");
    let capabilities = |key: &str| {
        let line = unit.lines().find_map(|line| line.strip_prefix(&format!("{key}="))).unwrap();
        line.split_whitespace().collect::<BTreeSet<_>>()
    };
    let three = BTreeSet::from(["CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE"]);
    assert_eq!(capabilities("CapabilityBoundingSet"), three);
    assert_eq!(capabilities("AmbientCapabilities"), three);
    // An instance belongs to a service, which must be there.
    machine.runs("printf '[Service]\\nExecStart=/bin/sleep 60\\n' >/etc/systemd/system/demo.service");
    let verify = "ln -s /usr/lib/systemd/system/profinfer@.service /tmp/profinfer@demo.service
        systemd-analyze --man=no verify /tmp/profinfer@demo.service
        rm /tmp/profinfer@demo.service";
    let verified = machine.ends(verify, 0);
    assert!(!stderr(&verified).contains("profinfer@.service:"), "{}", stderr(&verified));
    machine.runs("rm /etc/systemd/system/demo.service");
}

/// The engine of another service, a machine that comes up, and what asks for the figures there.
const DEMO: &str = "[Service]
ExecStart=/srv/toy 2000000000 1 20
";
const CHECK: &str = "[Service]
Type=oneshot
ExecStart=/bin/sh -c 'systemctl start demo && \
    timeout 100 python3 /srv/scrape.py http://127.0.0.1:9464/metrics profinfer_recording profinfer_tokens_total >/srv/metrics; \
    systemctl stop demo; systemctl is-active profinfer@demo >/srv/after; journalctl --unit profinfer@demo >/srv/journal'
ExecStopPost=/bin/systemctl poweroff --force
[Install]
WantedBy=multi-user.target
";

/// The unit in all its confinement, under the release's systemd, without D-Bus.
fn a_service_has_live_figures(machine: &Machine) {
    machine.runs("apt-get install --quiet=2 --yes /srv/profinfer_*_amd64.deb");
    machine.add_units(&[("demo.service", DEMO), ("check.service", CHECK)]);
    machine.runs("systemctl enable check.service profinfer@demo.service");
    run(Command::new(repository().join("tests/installed/boot.sh")).arg(&machine.root).arg(machine.layer.path()), 0);
    let written = |name: &str| fs::read_to_string(machine.layer.path().join("upper/srv").join(name)).unwrap();
    let (metrics, journal) = (written("metrics"), written("journal"));
    assert!(metrics.lines().any(|line| line.starts_with("profinfer_recording{") && line.ends_with("} 1")), "{journal}");
    assert_eq!(written("after").trim(), "inactive", "{journal}");
}

#[test]
#[ignore = "needs root"]
fn packages_work_on_debian_11() {
    works_on(&Release { suite: "bullseye", python: "3.9", wheel: "xllamacpp==0.2.6" });
}

#[test]
#[ignore = "needs root"]
fn packages_work_on_debian_12() {
    works_on(&Release { suite: "bookworm", python: "3.11", wheel: "xllamacpp==2026.10.11549" });
}

#[test]
#[ignore = "needs root"]
fn packages_work_on_debian_13() {
    works_on(&Release { suite: "trixie", python: "3.13", wheel: "xllamacpp==2026.10.11549" });
}

/// The program needs the C library alone, and of that nothing newer than the package's dependence on it.
#[test]
#[ignore = "needs root"]
fn the_packaged_program_needs_an_old_c_library_only() {
    let program = files_of(&packages()).into_iter().find(|file| file.to_string_lossy().ends_with("-linux-x86_64"));
    let output = run(Command::new("objdump").arg("-p").arg(program.unwrap()), 0);
    let text = String::from_utf8(output.stdout).unwrap();
    let needed: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("NEEDED")).map(str::trim).collect();
    let of_libc = ["libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2"];
    assert!(needed.contains(&"libc.so.6") && needed.iter().all(|library| of_libc.contains(library)), "{needed:?}");
    let versions = text.lines().filter_map(|line| {
        let (major, minor) = line.rsplit_once("GLIBC_")?.1.split_once('.')?;
        Some([major.parse::<u64>().unwrap(), minor.split('.').next()?.trim().parse().unwrap()])
    });
    assert!(versions.max().unwrap() <= GLIBC, "{text}");
}
