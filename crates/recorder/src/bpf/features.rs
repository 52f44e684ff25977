//! What this kernel can do and what this process may do, found by trying: version numbers lie where vendors backport.

use super::link::{Places, link_uprobes};
use crate::host::kernel_version;
use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{MapType, ProgramType};
use nix::libc;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use profinfer_diagnostics::{Code, Diagnostic};
use std::ffi::CStr;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

/// How uprobe programs are attached, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AttachMode {
    /// One program for entry and return (`uprobe.session`, Linux 6.13).
    Session,
    /// A program for the entry and one for the return, all sites of a file at once (`uprobe.multi`, Linux 6.10: before,
    /// its filter by process does not work).
    Multi,
    /// The same two programs, each site by itself (perf uprobes, before 6.10): slow to attach and to detach.
    Single,
}

/// The kernels that an object is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernels {
    /// Linux 5.18 and later.
    Recent,
    /// Linux 5.10 and later: state of threads in a hash map, short loops, cookies only if the kernel has them.
    Old,
}

/// A capability that recording may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability {
    /// Such as `CAP_BPF`.
    pub name: &'static str,
    bit: u32,
}

/// To load programs and make maps.
pub const CAP_BPF: Capability = Capability { name: "CAP_BPF", bit: 39 };
/// To attach programs to uprobes and tracepoints, and to read counters.
pub const CAP_PERFMON: Capability = Capability { name: "CAP_PERFMON", bit: 38 };
/// Stands for the two above, and is what single uprobes need.
pub const CAP_SYS_ADMIN: Capability = Capability { name: "CAP_SYS_ADMIN", bit: 21 };
/// To inspect another user's process.
pub const CAP_SYS_PTRACE: Capability = Capability { name: "CAP_SYS_PTRACE", bit: 19 };
/// To send signals to another user's process.
pub const CAP_KILL: Capability = Capability { name: "CAP_KILL", bit: 5 };

impl AttachMode {
    /// Whether this process may attach probes in this way.
    ///
    /// # Errors
    /// B005, with the capability that it takes.
    pub fn permitted(self) -> Result<(), Diagnostic> {
        if self != Self::Single || super::perf_event::may_probe_by_perf_events() {
            return Ok(());
        }
        let problem = Diagnostic::error(Code::Privilege, "not permitted: attaching uprobes by perf events");
        Err(match CAP_SYS_ADMIN.is_granted() {
            true => problem.hint("a security module or a container forbids it; see `profinfer doctor`"),
            false => problem
                .with_note("missing: CAP_SYS_ADMIN")
                .with_note("with uprobe.multi (Linux 6.10 or later) it would not be needed")
                .hint(grant(&[CAP_SYS_ADMIN])),
        })
    }
}

impl Capability {
    /// Whether this process has it, in effect.
    pub fn is_granted(self) -> bool {
        self.is_in("CapEff:") == Some(true)
    }

    /// Whether no program of this process can get it, not even by `sudo`: a container or a service manager has removed it.
    fn is_withheld(self) -> bool {
        self.is_in("CapBnd:") == Some(false)
    }

    fn is_in(self, set: &str) -> Option<bool> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(set))?;
        Some(u64::from_str_radix(line.trim(), 16).ok()? >> self.bit & 1 == 1)
    }
}

/// Whether this process is in a user namespace, whose capabilities the kernel does not accept for BPF.
fn is_in_user_namespace() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let map: Vec<&str> = map.split_whitespace().collect();
    !map.is_empty() && map != ["0", "0", "4294967295"]
}

/// Whether a seccomp filter refuses the system call `bpf`. Of a process with CAP_BPF, the kernel itself refuses a command
/// that it does not have as invalid, not as forbidden.
fn seccomp_forbids_bpf() -> bool {
    const NO_COMMAND: std::ffi::c_long = i32::MAX as std::ffi::c_long;
    // SAFETY: without a command the call neither reads nor writes memory.
    let result = unsafe { libc::syscall(libc::SYS_bpf, NO_COMMAND, std::ptr::null::<u8>(), 0) };
    result < 0 && nix::Error::last() == nix::Error::EPERM && CAP_BPF.is_granted()
}

/// What the kernel has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    /// Its type information, at `/sys/kernel/btf/vmlinux`.
    pub btf: bool,
    /// Ring buffers.
    pub ring_buffer: bool,
    /// Storage at each thread, for programs at uprobes.
    pub task_storage: bool,
    /// A program can ask which site it runs at.
    pub cookies: bool,
    /// Loops in the kernel (`bpf_loop`).
    pub loops: bool,
    /// The tracepoint of a context switch records the state of the thread that leaves.
    pub switch_state: bool,
    /// Programs at tracepoints, with types (`tp_btf`).
    pub typed_tracepoints: bool,
    /// `uprobe.multi`, with a filter for a whole process.
    pub uprobe_multi: bool,
    /// `uprobe.session`.
    pub uprobe_session: bool,
}

impl Features {
    /// Tries each.
    ///
    /// # Errors
    /// B005 where this process may not even load a program, so that nothing can be tried.
    pub fn probe() -> Result<Self, Diagnostic> {
        let quiet = super::libbpf_messages::LibbpfMessages::capture();
        let supported = |result: libbpf_rs::Result<bool>| result.unwrap_or(false);
        let has = |helper| supported(ProgramType::Kprobe.is_helper_supported(helper));
        let uprobe_multi = uprobe_links_work(sys::BPF_TRACE_UPROBE_MULTI)?;
        let features = Self {
            btf: std::path::Path::new("/sys/kernel/btf/vmlinux").exists(),
            ring_buffer: supported(MapType::RingBuf.is_supported()),
            task_storage: supported(MapType::TaskStorage.is_supported())
                && has(sys::BPF_FUNC_task_storage_get)
                && has(sys::BPF_FUNC_get_current_task_btf),
            cookies: has(sys::BPF_FUNC_get_attach_cookie),
            loops: has(sys::BPF_FUNC_loop),
            switch_state: typed_tracepoint_works(c"sched_switch", &READ_FOURTH_ARGUMENT),
            typed_tracepoints: typed_tracepoint_works(c"sched_process_exit", &[]),
            uprobe_multi,
            uprobe_session: uprobe_multi && uprobe_links_work(sys::BPF_TRACE_UPROBE_SESSION)?,
        };
        drop(quiet);
        Ok(features)
    }

    /// The best way that this kernel has to attach uprobes.
    pub fn attach_mode(self) -> AttachMode {
        match (self.uprobe_session, self.uprobe_multi) {
            (true, _) => AttachMode::Session,
            (false, true) => AttachMode::Multi,
            (false, false) => AttachMode::Single,
        }
    }

    /// The kernels to compile for, so that the programs run on this one.
    pub fn kernels(self) -> Kernels {
        let recent = self.task_storage && self.cookies && self.loops && self.switch_state;
        if recent { Kernels::Recent } else { Kernels::Old }
    }

    /// What recording cannot do without and this kernel lacks.
    ///
    /// # Errors
    /// B004, for the first that is missing.
    pub fn require(self) -> Result<(), Diagnostic> {
        let needed = [
            (self.btf, "type information (BTF)", "use a kernel built with CONFIG_DEBUG_INFO_BTF=y"),
            (self.ring_buffer, "BPF ring buffers", "use Linux 5.10 or later"),
            (self.typed_tracepoints, "BPF programs at tracepoints", "use a kernel with CONFIG_FTRACE and BTF"),
        ];
        match needed.into_iter().find(|(has, ..)| !has) {
            None => Ok(()),
            Some((_, what, hint)) => {
                let message = format!("this kernel has no {what}");
                Err(Diagnostic::error(Code::KernelFeature, message).hint(format!("{hint}; see `profinfer doctor`")))
            }
        }
    }
}

/// The diagnostic for a refused operation, with the command that fixes it.
pub fn missing_privilege(what: &str) -> Diagnostic {
    let missing: Vec<&str> =
        [CAP_BPF, CAP_PERFMON].into_iter().filter(|cap| !cap.is_granted()).map(|cap| cap.name).collect();
    let mut problem = Diagnostic::error(Code::Privilege, format!("not permitted: {what}"));
    if is_in_user_namespace() {
        problem = problem
            .with_note("this is a user namespace, such as a rootless container: its capabilities are not enough");
        return problem.hint("record from outside it, as root: `sudo profinfer record -p PID`");
    }
    if missing.is_empty() && seccomp_forbids_bpf() {
        problem = problem.with_note("the capabilities are there; a seccomp filter forbids the system call `bpf`");
        return problem.hint(
            "run the container with `--security-opt seccomp=unconfined` or a profile that allows bpf and \
             perf_event_open; or record from outside it: `profinfer record -p PID`",
        );
    }
    let lockable = locked_memory(kernel_version(), getrlimit(Resource::RLIMIT_MEMLOCK).ok().map(|(soft, _)| soft));
    if let Some(bytes) = lockable.filter(|_| missing.is_empty()) {
        return too_little_locked(problem, bytes);
    }
    if missing.is_empty() {
        problem = problem.with_note(
            "the capabilities are there; a security module, seccomp, kernel lockdown or a container forbids it",
        );
        return problem.hint("see `profinfer doctor`; in a container, run with --privileged or --cap-add");
    }
    problem.with_note(format!("missing: {}", missing.join(", "))).hint(grant(&[]))
}

/// How many bytes of BPF maps a process may have by its limit of locked memory; `None` where that has no part in it: from
/// Linux 5.11 on they count for the control group. The library that loads programs raises the limit where it may.
fn locked_memory(kernel: (u32, u32), limit: Option<u64>) -> Option<u64> {
    limit.filter(|bytes| kernel < (5, 11) && *bytes != RLIM_INFINITY)
}

fn too_little_locked(problem: Diagnostic, bytes: u64) -> Diagnostic {
    let note = format!(
        "the capabilities are there; before Linux 5.11 BPF maps count as locked memory, of which this process may have \
         {} KiB (RLIMIT_MEMLOCK): to raise that takes CAP_SYS_RESOURCE",
        bytes >> 10
    );
    problem.with_note(note).hint(
        "allow it, as root: `ulimit -l unlimited`; in a service, `LimitMEMLOCK=infinity`; in a container, \
         `--ulimit memlock=-1`",
    )
}

/// What gives this program its privileges: those that recording usually takes, and more.
pub fn grant(more: &[Capability]) -> String {
    let usual = [CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE, CAP_KILL];
    let withheld: Vec<String> = usual
        .iter()
        .chain(more)
        .filter(|capability| capability.is_withheld())
        .map(|capability| format!("--cap-add {}", capability.name.trim_start_matches("CAP_")))
        .collect();
    if !withheld.is_empty() {
        return format!(
            "start the container with `{}` (a service: CapabilityBoundingSet=), or record from outside it: \
             `profinfer record -p PID`",
            withheld.join(" ")
        );
    }
    let names: Vec<String> = usual.iter().chain(more).map(|capability| capability.name.to_lowercase()).collect();
    let program = std::env::current_exe().map_or_else(|_| "profinfer".to_owned(), |path| path.display().to_string());
    format!("`sudo profinfer …`, or once: `sudo setcap {}+ep {program}`", names.join(","))
}

/// A load from a tracepoint's arguments.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadArgument {
    offset: i16,
}

/// What some instructions, then `return 0` are, which every kernel accepts.
fn small_program(reads: &[ReadArgument]) -> Vec<sys::bpf_insn> {
    const MOV64_IMMEDIATE: u8 = 0xb7;
    const LOAD_DOUBLE_WORD: u8 = 0x79;
    const EXIT: u8 = 0x95;
    let instruction = |code| sys::bpf_insn { code, ..sys::bpf_insn::default() };
    let reads = reads.iter().map(|read| {
        let mut load = instruction(LOAD_DOUBLE_WORD);
        load.set_dst_reg(0);
        load.set_src_reg(1); // where the arguments are
        load.off = read.offset;
        load
    });
    reads.chain([instruction(MOV64_IMMEDIATE), instruction(EXIT)]).collect()
}

/// The fourth argument: the state of the thread that leaves.
const READ_FOURTH_ARGUMENT: [ReadArgument; 1] = [ReadArgument { offset: 24 }];

/// Whether links of a type can be made: making one at `/`, which is no file, fails with EBADF where the kernel has
/// them. A process filter of -1 is refused with EINVAL only by kernels whose filter takes a process and not a thread.
fn uprobe_links_work(attach_type: sys::bpf_attach_type) -> Result<bool, Diagnostic> {
    let program = match load_small(sys::BPF_PROG_TYPE_KPROBE, attach_type, 0, &[]) {
        Ok(program) => program,
        Err(nix::Error::EPERM) => return Err(missing_privilege("loading a BPF program")),
        Err(_) => return Ok(false),
    };
    let places = Places { offsets: vec![0], ..Places::default() };
    let attempt = |process| link_uprobes(program.as_fd(), attach_type, c"/", &places, process, 0).err();
    Ok(attempt(0) == Some(nix::Error::EBADF) && attempt(u32::MAX) == Some(nix::Error::EINVAL))
}

/// Whether a program can be loaded for a tracepoint, and read these arguments of it.
fn typed_tracepoint_works(name: &CStr, reads: &[ReadArgument]) -> bool {
    // SAFETY: the name is a valid C string; the call only reads it.
    let id = unsafe { sys::libbpf_find_vmlinux_btf_id(name.as_ptr(), sys::BPF_TRACE_RAW_TP) };
    let loads = |id| load_small(sys::BPF_PROG_TYPE_TRACING, sys::BPF_TRACE_RAW_TP, id, reads).is_ok();
    u32::try_from(id).is_ok_and(loads)
}

pub(super) fn load_small(
    program_type: sys::bpf_prog_type,
    attach_type: sys::bpf_attach_type,
    kernel_type_id: u32,
    reads: &[ReadArgument],
) -> nix::Result<OwnedFd> {
    load_instructions(program_type, attach_type, kernel_type_id, &small_program(reads))
}

pub(super) fn load_instructions(
    program_type: sys::bpf_prog_type,
    attach_type: sys::bpf_attach_type,
    kernel_type_id: u32,
    instructions: &[sys::bpf_insn],
) -> nix::Result<OwnedFd> {
    let options = sys::bpf_prog_load_opts {
        sz: size_of::<sys::bpf_prog_load_opts>() as sys::size_t,
        expected_attach_type: attach_type,
        attach_btf_id: kernel_type_id,
        ..Default::default()
    };
    // SAFETY: every pointer is to a live value of the type that libbpf declares; the count is the array's.
    let fd = unsafe {
        sys::bpf_prog_load(
            program_type,
            std::ptr::null(),
            c"GPL".as_ptr(),
            instructions.as_ptr(),
            instructions.len() as sys::size_t,
            std::ptr::from_ref(&options).cast_mut(),
        )
    };
    if fd < 0 {
        return Err(nix::Error::from_raw(-fd));
    }
    // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locked_memory_matters_before_it_is_the_control_groups() {
        assert_eq!(locked_memory((5, 10), Some(64 << 10)), Some(64 << 10));
        assert_eq!(locked_memory((5, 10), Some(RLIM_INFINITY)), None);
        assert_eq!(locked_memory((5, 11), Some(64 << 10)), None);
        assert_eq!(locked_memory((6, 18), Some(64 << 10)), None);
        let problem = too_little_locked(Diagnostic::error(Code::Privilege, "not permitted"), 64 << 10);
        assert!(problem.notes[0].contains("may have 64 KiB (RLIMIT_MEMLOCK)"), "{problem:?}");
        assert!(problem.hint.is_some_and(|hint| hint.contains("ulimit -l unlimited")));
    }

    #[test]
    fn the_best_mode_is_taken() {
        let all = Features {
            btf: true,
            ring_buffer: true,
            task_storage: true,
            cookies: true,
            loops: true,
            switch_state: true,
            typed_tracepoints: true,
            uprobe_multi: true,
            uprobe_session: true,
        };
        assert_eq!(all.attach_mode(), AttachMode::Session);
        assert_eq!(Features { uprobe_session: false, ..all }.attach_mode(), AttachMode::Multi);
        let old = Features { uprobe_session: false, uprobe_multi: false, ..all };
        assert_eq!(old.attach_mode(), AttachMode::Single);
        assert!(old.require().is_ok());
        assert_eq!(old.kernels(), Kernels::Recent, "how probes are attached is another matter");
        for lacking in [
            Features { task_storage: false, ..old },
            Features { cookies: false, ..old },
            Features { loops: false, ..old },
            Features { switch_state: false, ..old },
        ] {
            assert_eq!((lacking.kernels(), lacking.require()), (Kernels::Old, Ok(())), "{lacking:?}");
        }
        let bare = Features { btf: false, ..all };
        assert_eq!(bare.require().unwrap_err().code, Code::KernelFeature);
    }

    #[test]
    #[ignore = "needs root"]
    fn finds_what_this_kernel_has() {
        let features = Features::probe().expect("privileges");
        let (major, minor) = crate::host::kernel_version();
        assert_eq!(features.uprobe_multi, (major, minor) >= (6, 10), "{major}.{minor}: {features:?}");
        assert_eq!(features.uprobe_session, (major, minor) >= (6, 13), "{major}.{minor}: {features:?}");
        assert_eq!(features.require(), Ok(()), "{features:?}");
    }
}
