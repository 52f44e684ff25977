//! Launching the target: as the user who called, and stopped before its first instruction until the probes that follow
//! it are attached.

use super::process::TargetProcess;
use super::signals;
use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::unistd::{Gid, Uid, User};
use profinfer_diagnostics::{Code, Diagnostic};
use std::ffi::{CString, OsString};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::thread::JoinHandle;

/// A person who called through `sudo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) uid: Uid,
    pub(super) gid: Gid,
    groups: Vec<Gid>,
    name: OsString,
    home: OsString,
}

impl Caller {
    /// Who called, where this program was made root by `sudo`.
    pub(super) fn through_sudo() -> Option<Self> {
        let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
        let (uid, gid) = (number("SUDO_UID")?, number("SUDO_GID")?);
        (Uid::effective().is_root() && uid != 0).then(|| Self::of(Uid::from_raw(uid), Gid::from_raw(gid)))
    }

    fn of(uid: Uid, gid: Gid) -> Self {
        let user = User::from_uid(uid).ok().flatten();
        let name = user.as_ref().map(|user| user.name.clone()).unwrap_or_default();
        let groups = CString::new(name.clone()).ok().filter(|name| !name.is_empty());
        let groups = groups.and_then(|name| nix::unistd::getgrouplist(&name, gid).ok());
        let home = user.map(|user| user.dir.into_os_string()).unwrap_or_default();
        Self { uid, gid, groups: groups.unwrap_or_else(|| vec![gid]), name: name.into(), home }
    }

    /// Their home, where it is recorded.
    pub(super) fn home(&self) -> Option<&Path> {
        Some(Path::new(&self.home)).filter(|home| home.is_absolute())
    }

    /// Gives up root for good. Calls nothing but system calls.
    fn become_this(&self) -> nix::Result<()> {
        nix::unistd::setgroups(&self.groups)?;
        nix::unistd::setresgid(self.gid, self.gid, self.gid)?;
        nix::unistd::setresuid(self.uid, self.uid, self.uid)
    }
}

/// A child process that waits to be released. Dropping it instead ends it, and nothing of the command has run.
#[derive(Debug)]
pub(super) struct StoppedChild {
    process: TargetProcess,
    release: std::io::PipeWriter,
    starting: JoinHandle<std::io::Result<Child>>,
    program: OsString,
}

impl StoppedChild {
    /// Makes the child. It has its process number for good, and runs nothing of the command yet. `signals` is the
    /// signal mask that the command starts with. `without_stdout`: the trace has the standard output; the command's goes to
    /// standard error.
    pub(super) fn new(
        words: &[OsString],
        environment: &[(String, String)],
        caller: Option<&Caller>,
        signals: SigSet,
        without_stdout: bool,
    ) -> Result<Self, Diagnostic> {
        let [program, arguments @ ..] = words else {
            return Err(Diagnostic::error(Code::LaunchFailed, "there is no command to launch")
                .hint("`profinfer record PROBESET -- COMMAND…`, or `-p PID` for a running process"));
        };
        let failed = |error: std::io::Error| cannot_launch(program, &error);
        let (wait, release) = std::io::pipe().map_err(failed)?;
        let (mut announced, announce) = std::io::pipe().map_err(failed)?;
        let mut command = Command::new(program);
        command.args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
        if let Some(caller) = caller {
            command.env("HOME", &caller.home).env("USER", &caller.name).env("LOGNAME", &caller.name);
        }
        if without_stdout {
            command.stdout(std::io::stderr().as_fd().try_clone_to_owned().map_err(failed)?);
        }
        let (caller, ours) = (caller.cloned(), release.as_raw_fd());
        let wait_for_release = move || {
            signals::restore_for_command();
            sigprocmask(SigmaskHow::SIG_SETMASK, Some(&signals), None)?;
            if let Some(caller) = &caller {
                caller.become_this()?;
            }
            // SAFETY: this is the child's copy of the descriptor; without closing it, the child would never see
            // that the recorder is gone. Nothing in the child uses it afterwards.
            unsafe { libc::close(ours) };
            nix::unistd::write(announce.as_fd(), &std::process::id().to_ne_bytes())?;
            match nix::unistd::read(wait.as_fd(), &mut [0])? {
                0 => Err(Errno::ECANCELED.into()),
                _ => Ok(()),
            }
        };
        // SAFETY: the closure only makes system calls and allocates nothing, as is needed between fork and exec.
        unsafe { command.pre_exec(wait_for_release) };
        // Starting waits for the exec, and so for the release: that is for another thread.
        let starting = std::thread::Builder::new().spawn(move || command.spawn()).map_err(failed)?;
        let mut pid = [0; 4];
        if announced.read_exact(&mut pid).is_err() {
            let error = starting.join().ok().and_then(Result::err).unwrap_or(Errno::ECHILD.into());
            return Err(cannot_launch(program, &error));
        }
        let process = TargetProcess::of(i32::from_ne_bytes(pid), None).map_err(|error| failed(error.into()))?;
        Ok(Self { process, release, starting, program: program.clone() })
    }

    /// The child's number.
    pub(super) fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// Runs the command; returns when it has taken the child's place.
    pub(super) fn release(mut self) -> Result<TargetProcess, Diagnostic> {
        let written = self.release.write_all(&[1]);
        drop(self.release);
        let started = self.starting.join().unwrap_or_else(|_| Err(Errno::ECHILD.into()));
        match written.and(started) {
            Ok(child) => {
                self.process.adopt(child);
                Ok(self.process)
            }
            Err(error) => Err(cannot_launch(&self.program, &error)),
        }
    }
}

fn cannot_launch(program: &OsString, error: &std::io::Error) -> Diagnostic {
    let hint = match error.kind() {
        std::io::ErrorKind::NotFound => "check the spelling and PATH; run a shell's built-in command with `sh -c '…'`",
        std::io::ErrorKind::PermissionDenied => "`chmod +x` it; under sudo it runs as the user who called",
        _ => "try the command by itself",
    };
    Diagnostic::error(Code::LaunchFailed, format!("cannot run `{}`: {error}", program.display())).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::super::process::Ending;
    use super::*;
    use std::time::Duration;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn nothing_runs_before_the_release() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ran");
        let child =
            StoppedChild::new(&words(&["touch", file.to_str().unwrap()]), &[], None, SigSet::empty(), false).unwrap();
        let pid = child.pid();
        std::thread::sleep(Duration::from_millis(50));
        assert!(!file.exists());
        let mut process = child.release().unwrap();
        assert_eq!(process.pid(), pid);
        assert_eq!(process.ending(Duration::from_secs(10)), Some(Ending::Exited(0)));
        assert!(file.exists());
    }

    #[test]
    fn what_is_not_released_never_runs() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ran");
        let child =
            StoppedChild::new(&words(&["touch", file.to_str().unwrap()]), &[], None, SigSet::empty(), false).unwrap();
        let StoppedChild { process, release, starting, .. } = child;
        drop(release);
        assert!(starting.join().unwrap().is_err());
        assert!(!file.exists());
        drop(process);
    }

    #[test]
    fn a_missing_program_is_said() {
        let child = StoppedChild::new(&words(&["/no/such/program"]), &[], None, SigSet::empty(), false).unwrap();
        let problem = child.release().unwrap_err();
        assert_eq!(problem.code, Code::LaunchFailed);
        assert!(problem.message.contains("/no/such/program"));
        assert_eq!(StoppedChild::new(&[], &[], None, SigSet::empty(), false).unwrap_err().code, Code::LaunchFailed);
    }

    #[test]
    #[ignore = "needs root"]
    fn the_command_runs_as_the_caller_for_good() {
        let caller = Caller::of(Uid::from_raw(65534), Gid::from_raw(65534));
        let script =
            "test $(id -u) = 65534 && test $(id -G) = 65534 && ! grep -q '^CapEff:.*[1-9a-f]' /proc/self/status";
        let child =
            StoppedChild::new(&words(&["sh", "-c", script]), &[], Some(&caller), SigSet::empty(), false).unwrap();
        assert_eq!(child.release().unwrap().ending(Duration::from_secs(10)), Some(Ending::Exited(0)));
    }
}
