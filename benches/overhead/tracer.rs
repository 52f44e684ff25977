//! A tool attached to one copy, from its start to what it leaves behind.

use crate::conditions::{Condition, Script, Tool};
use crate::copies::Copy;
use crate::engines::here;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use profinfer_schema::Role;
use profinfer_trace::{Item, TraceReader};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What a tool saw, and what it needed for that.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Evidence {
    /// Records, calls or lines: what the tool gives account of.
    pub(crate) events: u64,
    /// Records it says it lost.
    pub(crate) lost: u64,
    pub(crate) steps: u64,
    pub(crate) operators: u64,
    /// Operators that were encoded for a device.
    pub(crate) dispatches: u64,
    /// Of its output.
    pub(crate) bytes: u64,
}

/// What a process needed so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs {
    pub(crate) cpu: Duration,
    /// The most it ever had.
    pub(crate) memory_bytes: u64,
}

/// The tool, attached.
#[derive(Debug)]
pub(crate) struct Tracer {
    process: Child,
    tool: Tool,
    output: PathBuf,
}

impl Tracer {
    /// Attaches the tool, and waits until the copy's code has its probes. `None` for no tool.
    pub(crate) fn attach(condition: &Condition, copy: &Copy, scratch: &Path) -> Option<Self> {
        let output = scratch.join("output");
        let pid = copy.pid().to_string();
        let mut command = match condition.tool {
            Tool::None => return None,
            Tool::Profinfer(options) => profinfer(options, &pid, &output),
            Tool::Serve(probeset) => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
                command.args(["serve", probeset, "--listen", "127.0.0.1:0", "-p", &pid]);
                command
            }
            Tool::Bpftrace(script) => bpftrace(script, copy, scratch, &output),
            Tool::Perf(options) => {
                let mut command = Command::new("perf");
                command.arg("record").args(options).arg("-o").arg(&output).args(["-p", &pid]);
                command
            }
            Tool::PerfProbe => {
                let mut command = Command::new("sh");
                command.arg(here().join("perf_probe.sh")).arg(library(copy)).arg(&pid).arg(&output);
                command
            }
        };
        let log = File::create(scratch.join("log")).expect("a file for messages");
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("the tool starts");
        let mut tracer = Self { process, tool: condition.tool, output };
        tracer.wait_for_probes(condition, copy, scratch);
        Some(tracer)
    }

    /// Probes come one by one: until there are some, and no more have come for half a second.
    fn wait_for_probes(&mut self, condition: &Condition, copy: &Copy, scratch: &Path) {
        let started = Instant::now();
        let (mut since, mut seen) = (Instant::now(), 0);
        loop {
            sleep(Duration::from_millis(50));
            let now = copy.probes();
            if now != seen {
                (since, seen) = (Instant::now(), now);
            }
            let probes = seen > 0 || matches!(self.tool, Tool::Perf(_));
            if probes && since.elapsed() > Duration::from_millis(500) {
                return;
            }
            if started.elapsed() > Duration::from_secs(120)
                || self.process.try_wait().is_ok_and(|ended| ended.is_some())
            {
                let log = std::fs::read_to_string(scratch.join("log")).unwrap_or_default();
                panic!("{} did not attach: {log}", condition.title);
            }
        }
    }

    /// What its process needed so far; nothing once it ended.
    pub(crate) fn needs(&self) -> Option<Needs> {
        let pid = self.process.id();
        let cpu = cpu_of(pid)?;
        Some(Needs { cpu, memory_bytes: memory_of(pid, "status", "VmHWM:")? })
    }

    /// Detaches it, and reads what it left.
    pub(crate) fn detach(mut self, scratch: &Path) -> Evidence {
        let pid = Pid::from_raw(i32::try_from(self.process.id()).expect("a process number"));
        kill(pid, Signal::SIGINT).expect("it runs");
        self.process.wait().expect("it ends");
        let log = std::fs::read_to_string(scratch.join("log")).unwrap_or_default();
        let mut evidence = match self.tool {
            Tool::Profinfer(_) => in_trace(&self.output),
            Tool::Bpftrace(script) => in_text(script, &self.output),
            Tool::PerfProbe => {
                crate::engines::run(Command::new("sh").arg(here().join("perf_probe.sh")));
                samples(&log)
            }
            Tool::None | Tool::Perf(_) | Tool::Serve(_) => Evidence::default(),
        };
        if matches!(self.tool, Tool::Bpftrace(_)) {
            evidence.lost += lost(&log);
        }
        evidence.bytes = std::fs::metadata(&self.output).map_or(0, |file| file.len());
        let _ = std::fs::remove_file(&self.output);
        evidence
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        if self.process.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

/// CPU time of a process, its ended threads included.
pub(crate) fn cpu_of(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before may hold spaces; after it, user and system time are the 12th and 13th.
    let words: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = words.get(11)?.parse::<u64>().ok()? + words.get(12)?.parse::<u64>().ok()?;
    // Linux counts these in hundredths of a second for every program (USER_HZ).
    Some(Duration::from_millis(ticks * 10))
}

/// Bytes of a process's memory, by a line of a file in its folder.
pub(crate) fn memory_of(pid: u32, file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? * 1024)
}

fn profinfer(options: &[&str], pid: &str, output: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    command.arg("record").args(options).args(["-p", pid, "--live", "never", "-o"]).arg(output);
    command
}

fn bpftrace(script: Script, copy: &Copy, scratch: &Path, output: &Path) -> Command {
    let text = match script {
        Script::Empty => stored("empty.bt", copy),
        Script::Count => stored("count.bt", copy),
        Script::Read => stored("read.bt", copy),
        Script::Print => stored("print.bt", copy),
    };
    let file = scratch.join("script.bt");
    std::fs::write(&file, text).expect("a script");
    let mut command = Command::new("bpftrace");
    command.args(["-p", &copy.pid().to_string(), "-o"]).arg(output).arg(file);
    command
}

fn stored(name: &str, copy: &Copy) -> String {
    let script = std::fs::read_to_string(here().join(name)).expect("the script is there");
    script.replace("CPU:", &format!("{}:", library(copy).display()))
}

/// The library that computes; bpftrace 0.17 wants the file itself, not a link to it.
fn library(copy: &Copy) -> PathBuf {
    copy.folder.join("lib/libggml-cpu.so").canonicalize().expect("the library is there")
}

/// What a trace holds.
fn in_trace(path: &Path) -> Evidence {
    let file = File::open(path).expect("there is a trace");
    let mut reader = TraceReader::new(file).unwrap_or_else(|problems| panic!("the trace: {problems:?}"));
    let mut evidence = Evidence::default();
    while let Some(item) = reader.next() {
        if let Item::Record(record) = item {
            evidence.events += 1;
            match record.kind().role {
                Some(Role::Step) => evidence.steps += 1,
                Some(Role::Operator) => evidence.operators += 1,
                Some(Role::Dispatch) => evidence.dispatches += 1,
                _ => {}
            }
        }
    }
    let losses = reader.into_meta().losses;
    evidence.lost = losses.iter().filter(|loss| loss.kind.loses_records()).map(|loss| loss.count).sum();
    evidence
}

/// What a script of bpftrace wrote.
fn in_text(script: Script, path: &Path) -> Evidence {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let counted = || text.lines().find_map(|line| line.strip_prefix("@calls: ")?.parse().ok());
    let operators = match script {
        Script::Empty | Script::Read => 0,
        Script::Count => counted().unwrap_or(0),
        Script::Print => text.lines().filter(|line| line.split(' ').count() >= 13).count() as u64,
    };
    Evidence { events: operators, operators, lost: lost(&text), ..Evidence::default() }
}

/// What `perf record` says at its end: `Captured and wrote 0.114 MB FILE (1460 samples)`.
fn samples(log: &str) -> Evidence {
    let reported = log.lines().find(|line| line.contains("Captured and wrote"));
    let samples = reported.and_then(|line| line.rsplit_once('(')?.1.split(' ').next()?.parse().ok());
    Evidence { operators: samples.unwrap_or(0), ..Evidence::default() }
}

/// `Lost 7 events`, as bpftrace says it now and then.
fn lost(text: &str) -> u64 {
    text.lines().filter_map(|line| line.strip_prefix("Lost ")?.split(' ').next()?.parse::<u64>().ok()).sum()
}
