//! What is compared: each tool, at each of its levels.

use std::process::{Command, Stdio};

/// A tool that is attached to one copy, or none.
#[derive(Debug)]
pub(crate) struct Condition {
    /// For the command line.
    pub(crate) name: &'static str,
    /// For the table.
    pub(crate) title: &'static str,
    pub(crate) tool: Tool,
    on: On,
}

/// Where it is measured when nobody asks for it by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    Every,
    /// With one thread, on the model whose operators' cost shows best; with several, on every one.
    First,
    /// Only where the engine has several threads.
    Threads,
}

/// What runs beside the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    None,
    /// `profinfer record` with this probeset and these options.
    Profinfer(&'static [&'static str]),
    /// `profinfer serve` at its defaults, with this probeset.
    Serve(&'static str),
    Bpftrace(Script),
    /// `perf record` with these options.
    Perf(&'static [&'static str]),
    /// `perf probe`, and `perf record` of that.
    PerfProbe,
}

/// What bpftrace does at each call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Script {
    /// Nothing: what a trap costs.
    Empty,
    Count,
    Read,
    Print,
}

const fn condition(name: &'static str, title: &'static str, tool: Tool, on: On) -> Condition {
    Condition { name, title, tool, on }
}

pub(crate) const CONDITIONS: &[Condition] = &[
    condition("none", "no tool: must be 1", Tool::None, On::Every),
    condition("graph", "`record --level graph`", Tool::Profinfer(&["llama", "--level", "graph"]), On::Every),
    condition(
        "samples",
        "`record --level graph --sample 999`",
        Tool::Profinfer(&["llama", "--level", "graph", "--sample", "999"]),
        On::Every,
    ),
    condition("operator", "`record`: operators with structure", Tool::Profinfer(&["llama"]), On::Every),
    condition(
        "no-barrier",
        "`record --no-probe barrier`",
        Tool::Profinfer(&["llama", "--no-probe", "barrier"]),
        On::First,
    ),
    condition("operator-samples", "`record --sample 999`", Tool::Profinfer(&["llama", "--sample", "999"]), On::Every),
    condition("barriers-all", "`record --barriers all`", Tool::Profinfer(&["llama", "--barriers", "all"]), On::Threads),
    condition("budget", "`record --budget 1%`", Tool::Profinfer(&["llama", "--budget", "1%"]), On::Every),
    condition("serve", "`serve`, which has a budget of 0.5 %", Tool::Serve("llama"), On::Every),
    condition("trap", "bpftrace, nothing done: the trap alone", Tool::Bpftrace(Script::Empty), On::Every),
    condition("bpftrace-count", "bpftrace, counting the calls", Tool::Bpftrace(Script::Count), On::First),
    condition("bpftrace-read", "bpftrace, reading the fields", Tool::Bpftrace(Script::Read), On::First),
    condition("bpftrace-print", "bpftrace, printing the fields", Tool::Bpftrace(Script::Print), On::Every),
    condition("perf", "`perf record -F 999 -e cpu-clock`", Tool::Perf(&["-F", "999", "-e", "cpu-clock"]), On::First),
    condition("perf-probe", "`perf record` of `perf probe`, no fields", Tool::PerfProbe, On::First),
];

/// Of the engine that has a profiler of its own.
pub(crate) const BESIDE_OWN_PROFILER: Condition =
    condition("onnxruntime", "`profinfer record`", Tool::Profinfer(&["onnxruntime"]), On::First);

/// Of the engine that gives its operators to a device: what it encodes, and that with submissions, waits and launches. The
/// copies have the same files, and children are not followed: else probes would be in all copies.
pub(crate) const ON_DEVICE: [Condition; 4] = [
    condition("none", "no tool: must be 1", Tool::None, On::First),
    condition("dispatches", "`record llama`", Tool::Profinfer(&["llama", "--no-inherit"]), On::First),
    condition("vulkan", "`record llama-vulkan`", Tool::Profinfer(&["llama-vulkan", "--no-inherit"]), On::First),
    condition(
        "vulkan-without-scheduling",
        "`record llama-vulkan --no-probe switch --no-probe wakeup`",
        Tool::Profinfer(&["llama-vulkan", "--no-inherit", "--no-probe", "switch", "--no-probe", "wakeup"]),
        On::First,
    ),
];

/// The model whose operators cost most beside their work.
const FIRST: &str = "tiny-dense";

impl Condition {
    /// Whether it is measured on the model when nobody asks for it by name.
    pub(crate) fn on(&self, model: &str, threads: usize) -> bool {
        match self.on {
            On::Every => true,
            On::First => threads > 1 || model == FIRST,
            On::Threads => threads > 1,
        }
    }
}

/// For the table, by name.
pub(crate) fn title(name: &'static str) -> &'static str {
    CONDITIONS.iter().find(|condition| condition.name == name).map_or(name, |condition| condition.title)
}

/// The conditions that can be measured here, and why the others cannot.
pub(crate) fn available(conditions: &[&'static Condition]) -> (Vec<&'static Condition>, Vec<String>) {
    let mut absent = Vec::new();
    let here = conditions.iter().copied().filter(|condition| match missing(condition.tool) {
        None => true,
        Some(why) => {
            absent.push(format!("{}: {why}", condition.title));
            false
        }
    });
    (here.collect(), absent)
}

fn missing(tool: Tool) -> Option<String> {
    let program = |name: &str, package: &str| {
        (!runs(name)).then(|| format!("`{name}` is not here; on Debian: apt install {package}"))
    };
    match tool {
        Tool::None | Tool::Serve(_) => None,
        Tool::Bpftrace(_) => program("bpftrace", "bpftrace"),
        Tool::Perf(_) | Tool::PerfProbe => program("perf", "linux-perf"),
        Tool::Profinfer(options) => {
            let help = Command::new(env!("CARGO_BIN_EXE_profinfer")).args(["record", "--help"]).output().ok()?;
            let known = String::from_utf8_lossy(&help.stdout);
            let mut flags = options.iter().filter(|word| word.starts_with("--"));
            flags.find(|flag| !known.contains(**flag)).map(|flag| format!("no `{flag}` in this build"))
        }
    }
}

fn runs(program: &str) -> bool {
    let status = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
