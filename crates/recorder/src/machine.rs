//! What this machine has of what recording needs, what each missing thing costs, and the command that fixes it.

use super::calibrate::Calibration;
use super::host::kernel_version;
use crate::bpf::features::{CAP_BPF, CAP_KILL, CAP_PERFMON, CAP_SYS_ADMIN, CAP_SYS_PTRACE, Capability, grant};
use crate::bpf::{AttachMode, Compiler, Features, Kernels, open_perf_event, shipped};
use libbpf_rs::libbpf_sys as sys;
use profinfer_compiler::InstructionKind;
use serde::Serialize;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Whether something is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is there.
    Present,
    /// It is not there, and recording works without it, at a cost.
    Lacking,
    /// It is not there, and nothing can be recorded.
    Missing,
    /// It could not be found out.
    Unknown,
}

/// One thing that was inspected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is.
    pub name: &'static str,
    /// Whether it is there.
    pub state: State,
    /// What was found.
    pub found: String,
    /// What its absence costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<&'static str>,
    /// The command, or the step, that fixes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Finding {
    fn present(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, state: State::Present, found: found.into(), cost: None, fix: None }
    }

    fn absent(name: &'static str, state: State, found: &str, cost: &'static str, fix: &str) -> Self {
        Self { name, state, found: found.into(), cost: Some(cost), fix: Some(fix.into()) }
    }

    fn needed(name: &'static str, there: bool, fix: &str) -> Self {
        if there {
            return Self::present(name, "yes");
        }
        Self::absent(name, State::Missing, "no", "nothing can be recorded", fix)
    }
}

/// Inspects everything.
pub fn examine() -> Vec<Finding> {
    let mut findings = vec![kernel(), compiler()];
    findings.extend(privileges());
    match Features::probe() {
        Ok(features) => findings.extend(kernel_features(features)),
        // Granted, and yet refused: the message names what refuses.
        Err(problem) if can_record(&findings) => findings.push(Finding::absent(
            "BPF features",
            State::Missing,
            &problem.notes.join("; "),
            "nothing can be recorded: BPF programs cannot be loaded",
            problem.hint.as_deref().unwrap_or_default(),
        )),
        Err(_) => findings.push(Finding::absent(
            "BPF features",
            State::Unknown,
            "not tested: this needs privileges",
            "profinfer cannot test what the kernel supports",
            "sudo profinfer doctor",
        )),
    }
    findings.extend([jit(), fast_nop(), lockdown(), hardware_counters(), paranoid(), tracefs(), memory_limit()]);
    findings.push(calibration());
    findings
}

/// Whether recording is possible with these findings.
pub fn can_record(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.state != State::Missing)
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

fn kernel() -> Finding {
    let (major, minor) = kernel_version();
    let release = super::host::describe().kernel;
    if (major, minor) >= (5, 10) {
        return Finding::present("kernel", release);
    }
    let cost = "nothing can be recorded: profinfer supports Linux 5.10 and later";
    Finding::absent("kernel", State::Missing, &release, cost, "use Linux 5.10 or later, preferably 6.13 or later")
}

fn compiler() -> Finding {
    match Compiler::find() {
        Ok(compiler) => Finding::present("clang", format!("{} ({})", compiler.version, compiler.path.display())),
        Err(problem) => {
            let found = problem.notes.first().cloned().unwrap_or(problem.message);
            let (state, cost) = match shipped::any() {
                true => (
                    State::Lacking,
                    "only shipped probesets can be recorded, without --probe, --no-probe and --counter",
                ),
                false => (State::Missing, "nothing can be recorded: probes are compiled with it"),
            };
            Finding::absent("clang", state, &found, cost, "apt install clang")
        }
    }
}

fn privileges() -> Vec<Finding> {
    let one = |capability: Capability, state, cost| {
        if capability.is_granted() || CAP_SYS_ADMIN.is_granted() && [CAP_BPF, CAP_PERFMON].contains(&capability) {
            Finding::present(capability.name, "granted")
        } else {
            Finding::absent(capability.name, state, "not granted", cost, &grant(&[]))
        }
    };
    vec![
        one(CAP_BPF, State::Missing, "nothing can be recorded: BPF programs cannot be loaded"),
        one(CAP_PERFMON, State::Missing, "nothing can be recorded: BPF programs cannot be attached"),
        one(CAP_SYS_PTRACE, State::Lacking, "you can record only processes of your user"),
        one(
            CAP_KILL,
            State::Lacking,
            "libraries that another user's process maps later are probed while it runs: calls until then are lost",
        ),
    ]
}

fn kernel_features(features: Features) -> Vec<Finding> {
    let mode = features.attach_mode();
    let multi = if features.uprobe_multi {
        Finding::present("uprobe.multi", "yes")
    } else {
        let cost = "attaching and detaching take some milliseconds for each site, and need CAP_SYS_ADMIN";
        Finding::absent("uprobe.multi", State::Lacking, "no", cost, "use Linux 6.10 or later")
    };
    let permitted = match mode.permitted() {
        Err(_) => {
            let cost = "nothing can be recorded: this kernel attaches uprobes by perf events only";
            let fix = grant(&[CAP_SYS_ADMIN]);
            Some(Finding::absent(CAP_SYS_ADMIN.name, State::Missing, "not granted", cost, &fix))
        }
        Ok(()) => None,
    };
    let session = if mode == AttachMode::Session {
        Finding::present("uprobe.session", "yes")
    } else {
        let cost = "each span runs two programs instead of one: about 20 % more time for each call";
        Finding::absent("uprobe.session", State::Lacking, "no", cost, "use Linux 6.13 or later")
    };
    let needed = vec![
        Finding::needed("kernel types (BTF)", features.btf, "use a kernel with CONFIG_DEBUG_INFO_BTF=y"),
        Finding::needed("ring buffer", features.ring_buffer, "use Linux 5.10 or later"),
        Finding::needed(
            "typed tracepoints (tp_btf)",
            features.typed_tracepoints,
            "use a kernel with BTF and CONFIG_FTRACE",
        ),
        programs_for(features),
        multi,
        session,
    ];
    needed.into_iter().chain(permitted).collect()
}

/// What makes the difference between the programs for recent and for old kernels.
fn programs_for(features: Features) -> Finding {
    const NAME: &str = "task storage, cookies, loops";
    if features.kernels() == Kernels::Recent {
        return Finding::present(NAME, "yes");
    }
    let parts = [
        (features.task_storage, "task storage"),
        (features.cookies, "cookies"),
        (features.loops, "loops"),
        (features.switch_state, "states of threads at context switches"),
    ];
    let lacking: Vec<&str> = parts.into_iter().filter(|(has, _)| !has).map(|(_, name)| name).collect();
    let cost = "each probe takes about 100 ns more; at most 1024 threads are recorded";
    let found = format!("no {}", lacking.join(", no "));
    Finding::absent(NAME, State::Lacking, &found, cost, "use Linux 5.18 or later")
}

fn jit() -> Finding {
    match read("/proc/sys/net/core/bpf_jit_enable").as_deref() {
        Some("0") => {
            let cost = "each probe takes several times as much time";
            Finding::absent("BPF JIT", State::Lacking, "off", cost, "sudo sysctl net.core.bpf_jit_enable=1")
        }
        Some(_) => Finding::present("BPF JIT", "on"),
        // The file is not there in containers, and not readable to other users.
        None => Finding { state: State::Unknown, ..Finding::present("BPF JIT", "not readable here") },
    }
}

fn fast_nop() -> Finding {
    const NAME: &str = "probes without a trap (nop5)";
    if kernel_version() >= (6, 18) && cfg!(target_arch = "x86_64") {
        return Finding::present(NAME, "yes");
    }
    let cost =
        "a probe on a 5-byte nop takes as much time as one on a push; before Linux 6.16 the kernel single-steps it";
    Finding::absent(NAME, State::Lacking, "no", cost, "use x86-64 with Linux 6.18 or later")
}

fn calibration() -> Finding {
    const NAME: &str = "calibration";
    let Some(found) = Calibration::load() else {
        let cost = "the overhead is estimated by built-in figures, measured on another machine";
        return Finding::absent(NAME, State::Lacking, "none for this kernel", cost, "profinfer doctor --calibrate");
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let days = now.saturating_sub(found.measured_at) / 86_400;
    let age = match days {
        0 => "measured today".to_owned(),
        1 => "measured 1 day ago".to_owned(),
        days => format!("measured {days} days ago"),
    };
    let least = found.costs.cheapest();
    let stepped = found.costs.of(InstructionKind::Stepped);
    Finding::present(NAME, format!("{age}: {least} to {stepped} ns for each probe"))
}

fn lockdown() -> Finding {
    lockdown_of(std::fs::read_to_string("/sys/kernel/security/lockdown"))
}

fn lockdown_of(read: io::Result<String>) -> Finding {
    let text = match read {
        Ok(text) => text,
        // A kernel that cannot be locked down.
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => {
            let found = format!("not readable here: {error}");
            return Finding { state: State::Unknown, ..Finding::present("kernel lockdown", found) };
        }
    };
    let mode = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or("none", |(mode, _)| mode);
    if mode == "confidentiality" {
        let cost = "nothing can be recorded: the kernel does not let BPF programs read memory";
        return Finding::absent("kernel lockdown", State::Missing, mode, cost, "boot without lockdown=confidentiality");
    }
    Finding::present("kernel lockdown", mode)
}

fn hardware_counters() -> Finding {
    match open_cycles_counter() {
        Ok(_) => Finding::present("hardware counters", "cycles can be counted"),
        Err(error) => {
            let found = match error {
                nix::Error::ENOENT | nix::Error::EOPNOTSUPP | nix::Error::ENODEV => {
                    "this processor, or virtual machine, has none".into()
                }
                other => format!("cycles cannot be counted: {other}"),
            };
            let fix = "use a machine or an instance type with a PMU";
            Finding::absent("hardware counters", State::Lacking, &found, "no cycles, stalls or cache misses", fix)
        }
    }
}

/// Opens a counter of this thread's user-space cycles, as `perf stat -e cycles:u` does.
fn open_cycles_counter() -> nix::Result<OwnedFd> {
    let mut attributes = sys::perf_event_attr {
        type_: sys::PERF_TYPE_HARDWARE,
        config: u64::from(sys::PERF_COUNT_HW_CPU_CYCLES),
        ..Default::default()
    };
    attributes.set_disabled(1);
    attributes.set_exclude_kernel(1);
    let (this_thread, any_cpu) = (0, -1);
    open_perf_event(attributes, this_thread, any_cpu)
}

fn paranoid() -> Finding {
    let level = read("/proc/sys/kernel/perf_event_paranoid").unwrap_or_else(|| "not readable".into());
    let unprivileged = read("/proc/sys/kernel/unprivileged_bpf_disabled").unwrap_or_else(|| "not readable".into());
    let found = format!("perf_event_paranoid {level}, unprivileged_bpf_disabled {unprivileged}");
    Finding::present("kernel.* settings", format!("{found} (irrelevant with the capabilities above)"))
}

fn tracefs() -> Finding {
    let folders = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"];
    tracefs_of(folders.map(|folder| std::fs::read_dir(folder).map(drop)))
}

fn tracefs_of(read: [io::Result<()>; 2]) -> Finding {
    const COST: &str = "jobs of devices (GPUs, NPUs) are not recorded";
    if read.iter().any(Result::is_ok) {
        return Finding::present("tracefs", "mounted");
    }
    let refused = read.iter().filter_map(|read| read.as_ref().err()).find(|error| error.kind() != ErrorKind::NotFound);
    match refused {
        Some(error) => {
            let found = format!("not readable here: {error}");
            Finding::absent("tracefs", State::Lacking, &found, COST, "record as root where a device's jobs matter")
        }
        None => {
            let fix = "sudo mount -t tracefs tracefs /sys/kernel/tracing";
            Finding::absent("tracefs", State::Lacking, "not mounted", COST, fix)
        }
    }
}

/// What this process's control groups let it have: BPF maps count.
fn memory_limit() -> Finding {
    let Some(bytes) = profinfer_machine::memory_limit() else {
        return Finding::present("memory of the control group", "no limit");
    };
    let found = format!("{} MiB", bytes >> 20);
    if bytes >= 256 << 20 {
        return Finding::present("memory of the control group", found);
    }
    let cost = "the ring buffer may not fit into the memory limit";
    let fix = "record with a smaller --ring-size, or raise memory.max";
    Finding::absent("memory of the control group", State::Lacking, &found, cost, fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_has_a_cost_and_a_fix() {
        for finding in examine() {
            let absent = matches!(finding.state, State::Lacking | State::Missing);
            assert_eq!(absent, finding.cost.is_some() && finding.fix.is_some(), "{finding:?}");
            assert!(!finding.found.is_empty(), "{finding:?}");
        }
    }

    #[test]
    fn what_may_not_be_read_is_not_taken_for_absent() {
        let failed = |kind: ErrorKind| io::Error::from(kind);
        let unknown = lockdown_of(Err(failed(ErrorKind::PermissionDenied)));
        assert_eq!((unknown.state, unknown.found.contains("not readable")), (State::Unknown, true));
        assert_eq!(lockdown_of(Err(failed(ErrorKind::NotFound))).found, "none");
        assert_eq!(lockdown_of(Ok("none integrity [confidentiality]".into())).state, State::Missing);
        let [denied, gone] = [ErrorKind::PermissionDenied, ErrorKind::NotFound];
        let found = |one, other| tracefs_of([Err(failed(one)), Err(failed(other))]);
        assert!(found(denied, gone).found.contains("not readable"));
        assert_eq!(found(gone, gone).found, "not mounted");
        assert_eq!(tracefs_of([Err(failed(gone)), Ok(())]).state, State::Present);
        assert!(found(gone, gone).cost.is_some_and(|cost| cost.contains("jobs of devices")));
    }

    #[test]
    fn one_missing_thing_is_enough() {
        let there = Finding::needed("ring buffer", true, "");
        let gone = Finding::needed("ring buffer", false, "use Linux 5.10 or later");
        assert!(can_record(std::slice::from_ref(&there)));
        assert!(!can_record(&[there, gone]));
    }
}
