//! Memory reclaim: a program whose mapped file is larger than the memory of its control group is recorded, beside it
//! bpftrace sums up the same tracepoints. These need root, a C compiler, clang, bpftrace, and a control group for memory.

use crate::control_group::{ControlGroup, evict};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;
/// Bytes of the file.
const FILE: usize = 96 * MIB;

/// bpftrace, which sums up what threads with the program's name spend between the tracepoints.
struct Tracer {
    child: Child,
    output_file: PathBuf,
}

impl Tracer {
    fn start(program: &str, folder: &Path) -> Self {
        // bpftrace reads where tracepoints are from here; profinfer does not need it.
        if !Path::new("/sys/kernel/tracing/events").exists() {
            let mut mount = Command::new("mount");
            assert!(mount.args(["-t", "tracefs", "tracefs", "/sys/kernel/tracing"]).status().unwrap().success());
        }
        let events = ["vmscan:mm_vmscan_direct_reclaim", "vmscan:mm_vmscan_memcg_reclaim", "compaction:mm_compaction"];
        let at = |which: &str| events.map(|event| format!("tracepoint:{event}_{which}")).join(",");
        let script = format!(
            "interval:ms:100 {{ printf(\"ready\\n\"); }} {} /comm == \"{program}\"/ {{ @since[tid] = nsecs; }} {} /@since[tid]/ {{ \
             @ns = sum(nsecs - @since[tid]); @count = count(); delete(@since[tid]); }}",
            at("begin"),
            at("end"),
        );
        let output_file = folder.join("bpftrace");
        let output = std::fs::File::create(&output_file).unwrap();
        let mut command = Command::new("bpftrace");
        command.args(["-e", &script]).stdout(output).stderr(Stdio::null());
        let child = command.spawn().expect("bpftrace: scripts/setup tests installs it");
        let until = Instant::now() + Duration::from_secs(30);
        while !std::fs::read_to_string(&output_file).unwrap().contains("ready") {
            assert!(Instant::now() < until, "bpftrace does not begin");
            std::thread::sleep(Duration::from_millis(50));
        }
        Self { child, output_file }
    }

    /// How many, and ns.
    fn stop(mut self) -> (u64, u64) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().try_into().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        while self.child.try_wait().unwrap().is_none() {
            if Instant::now() > until {
                self.child.kill().unwrap();
                panic!("bpftrace does not end");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let output_file = std::fs::read_to_string(&self.output_file).unwrap();
        let of = |name: &str| {
            let line = output_file.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.map_or(0, |number| number.parse().unwrap())
        };
        (of("@count"), of("@ns"))
    }
}

/// What bpftrace counted of a run with so much memory, and the report of it. One at a time: it counts by the program's
/// name.
fn run(memory: usize, folder: &Path) -> ((u64, u64), Value) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let program = folder.join("reclaiming");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-g", "-o"]).arg(&program).arg(sources.join("reclaiming.c"));
    assert!(compiler.status().expect("a C compiler").success());
    let (model, trace) = (folder.join("model"), folder.join("run.pfi"));
    std::fs::write(&model, vec![1_u8; FILE]).unwrap();
    evict(&model);
    let group = ControlGroup::of_memory(memory as u64);
    let tracer = Tracer::start("reclaiming", folder);
    let mut record = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    record.arg("record").arg(sources.join("faulting.yaml")).arg("-o").arg(&trace);
    record.arg("--").args(group.command()).arg(&program).arg(&model).arg("3");
    let output = record.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let counted = tracer.stop();
    let report = Command::new(env!("CARGO_BIN_EXE_profinfer")).args(["report", "--json"]).arg(&trace).output().unwrap();
    (counted, serde_json::from_slice(&report.stdout).unwrap())
}

fn row<'a>(rows: &'a Value, key: &str, value: &str) -> &'a Value {
    rows.as_array().unwrap().iter().find(|row| row[key] == value).unwrap_or_else(|| panic!("{value}: {rows:#}"))
}

#[test]
#[ignore = "needs root"]
fn reclaim_for_a_memory_limit_is_as_long_as_bpftrace_measures() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let ((count, ns), report) = run(48 * MIB, folder.path());
    let reclaim = row(&report["reclaim"]["phases"], "phase", "decode");
    assert!(count > 100, "{count}: {reclaim}");
    // Some may be before the first step and after the last: the program maps its file there, and ends.
    let reported = reclaim["count"].as_u64().unwrap();
    assert!(reported <= count && reported * 100 >= count * 95, "{count}, {reclaim}");
    let (reported, counted) = (reclaim["ns"].as_f64().unwrap(), ns as f64);
    assert!((reported / counted - 1.0).abs() < 0.1, "{ns} ns, {reclaim}");
    assert_eq!(reclaim["group_ns"], reclaim["ns"], "{reclaim}");
    let operators = row(&report["reclaim"]["operators"], "name", "out-*");
    assert!(operators["ns"].as_f64().unwrap() > 0.95 * reported, "{operators}");
    let lane = &report["threads"]["lanes"][0];
    let of_lane = |key: &str| lane[key].as_u64().unwrap();
    assert!(of_lane("reclaiming_ns") > 0 && of_lane("reclaiming_ns") <= of_lane("running_ns"), "{lane:#}");
    assert!(of_lane("reclaim_blocked_ns") <= of_lane("blocked_ns"), "{lane:#}");
    let phase = row(&report["verdict"]["phases"], "phase", "decode");
    let (part, measured) = (&phase["parts"]["reclaim"], &phase["reclaim_measured"]);
    assert!(measured.as_f64().unwrap() > 0.0 && measured.as_f64() <= part.as_f64(), "{phase:#}");
    assert!(phase["evidence"].to_string().contains("in reclaim, measured"), "{phase:#}");
}

#[test]
#[ignore = "needs root"]
fn with_space_for_the_file_there_is_no_reclaim() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let ((count, _), report) = run(4 * FILE, folder.path());
    assert_eq!(count, 0);
    let reclaim = row(&report["reclaim"]["phases"], "phase", "decode");
    assert_eq!((&reclaim["count"], &reclaim["ns"]), (&0.into(), &0.into()), "{reclaim}");
    let phase = row(&report["verdict"]["phases"], "phase", "decode");
    assert_eq!(phase["reclaim_measured"], 0.0, "{phase:#}");
    assert_eq!(phase["parts"]["reclaim"], 0.0, "{phase:#}");
}
