//! States of threads, by the scheduler's events.

use crate::ids::TextId;

/// Bits of the kernel's task states.
const UNINTERRUPTIBLE: u64 = 0x2;
const NO_LOAD: u64 = 0x400;
const STOPPED: u64 = 0x4;
const TRACED: u64 = 0x8;
/// Beside them: the recorder itself stopped the process; it waits for a lock of the kernel.
const BY_RECORDER: u64 = profinfer_schema::bpf::STOPPED_BY_RECORDER as u64;
const WITHOUT_IO: u64 = profinfer_schema::bpf::WITHOUT_IO as u64;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum ThreadState {
    /// It is on a cpu.
    Running,
    /// It could be, and is not.
    Runnable,
    /// It waits for an event: a lock, also of the kernel, a timer, a message.
    Sleeping,
    /// It waits for input or output, uninterruptibly: mostly for a disk.
    Blocked,
    /// A signal or a debugger stopped it.
    Stopped,
    /// The recorder stopped it, to place probes in what it had mapped.
    Attaching,
    /// The trace does not show it.
    #[default]
    Unknown,
}

impl ThreadState {
    /// That of a thread which leaves its cpu with these bits.
    pub(crate) fn of_kernel(bits: u64) -> Self {
        match bits {
            0 => Self::Runnable,
            bits if bits & BY_RECORDER != 0 => Self::Attaching,
            bits if bits & (STOPPED | TRACED) != 0 => Self::Stopped,
            bits if bits & UNINTERRUPTIBLE != 0 && bits & (NO_LOAD | WITHOUT_IO) == 0 => Self::Blocked,
            _ => Self::Sleeping,
        }
    }
}

/// What a thread does, since when.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Track {
    pub(crate) state: ThreadState,
    /// Where it runs, or waits to.
    pub(crate) cpu: Option<u16>,
    pub(crate) since: u64,
}

/// A time that a thread was in one state; never [`ThreadState::Unknown`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawState {
    pub(crate) thread: u32,
    pub(crate) state: ThreadState,
    pub(crate) cpu: Option<u16>,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// A time that another ran while a thread could have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawInstead {
    pub(crate) thread: u32,
    pub(crate) runner: Runner,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// Who ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Runner {
    pub(crate) tid: u32,
    /// 0: nobody, the cpu was idle.
    pub(crate) pid: u32,
    pub(crate) name: Option<TextId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uninterruptible_waits_are_for_io_unless_the_recorder_tells_otherwise() {
        let killable = 0x100;
        let state = |bits: u64| ThreadState::of_kernel(bits);
        assert_eq!(state(UNINTERRUPTIBLE), ThreadState::Blocked);
        assert_eq!(state(UNINTERRUPTIBLE | killable), ThreadState::Blocked);
        assert_eq!(state(UNINTERRUPTIBLE | killable | WITHOUT_IO), ThreadState::Sleeping);
        assert_eq!(state(UNINTERRUPTIBLE | NO_LOAD), ThreadState::Sleeping);
        assert_eq!((state(0), state(1)), (ThreadState::Runnable, ThreadState::Sleeping));
    }
}
