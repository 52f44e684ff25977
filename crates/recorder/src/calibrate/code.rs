//! Functions of a few instructions, one for each kind that a probe's cost depends on, in a file of memory that is mapped
//! to be executed. Each is there twice: to be probed, and to be left alone.

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use profinfer_compiler::InstructionKind as Kind;
use std::ffi::c_void;
use std::io::Write;
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::ptr::NonNull;

/// Bytes from one function to the next.
const STRIDE: usize = 32;
/// Bytes that are mapped: the smallest page of any machine contains all functions, and the largest is not exceeded.
const MAPPED: usize = 4096;

/// A function: its first instruction is of the kind; what follows undoes what that does, and returns.
#[cfg(target_arch = "x86_64")]
const FUNCTIONS: &[(Kind, &[u8])] = &[
    (Kind::Nop, &[0x90, 0xc3]),
    (Kind::Nop5, &[0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3]),
    (Kind::LongNop, &[0x0f, 0x1f, 0x40, 0x00, 0xc3]),
    // push rbx; pop rbx; ret
    (Kind::Push, &[0x53, 0x5b, 0xc3]),
    // jmp to the next; ret
    (Kind::Jump, &[0xeb, 0x00, 0xc3]),
    // call to the last ret; ret; ret
    (Kind::Call, &[0xe8, 0x01, 0x00, 0x00, 0x00, 0xc3, 0xc3]),
    // mov eax, eax; ret
    (Kind::Stepped, &[0x89, 0xc0, 0xc3]),
];

/// The same for arm64. What a call would be has to save the return address first, so it is taken to be as a jump.
#[cfg(target_arch = "aarch64")]
const FUNCTIONS: &[(Kind, &[u8])] = &[
    (Kind::Nop, &[0x1f, 0x20, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6]),
    // b to the next; ret
    (Kind::Jump, &[0x01, 0x00, 0x00, 0x14, 0xc0, 0x03, 0x5f, 0xd6]),
    // adr x9, itself; ret
    (Kind::Address, &[0x09, 0x00, 0x00, 0x10, 0xc0, 0x03, 0x5f, 0xd6]),
    // mov x9, x9; ret
    (Kind::Stepped, &[0xe9, 0x03, 0x09, 0xaa, 0xc0, 0x03, 0x5f, 0xd6]),
];

/// A kind that functions commonly start with here, and that is emulated: its function is also there to be probed at the
/// entry and the return, by an empty program and by one that takes the time.
#[cfg(target_arch = "x86_64")]
pub(crate) const COMMON: Kind = Kind::Push;
#[cfg(target_arch = "aarch64")]
pub(crate) const COMMON: Kind = Kind::Jump;

/// What is measured of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measured {
    /// What a probe at its entry costs.
    Entry,
    /// What probes at its entry and its return cost.
    EntryAndReturn,
    /// How long the span from its entry to its return is.
    Span,
}

/// A function in the mapped file.
#[derive(Debug)]
pub(super) struct Function {
    /// The kind of its first instruction.
    pub(super) kind: Kind,
    /// What it is there for.
    pub(super) measured: Measured,
    /// Bytes from the start of the file.
    pub(super) offset: u64,
    at: extern "C" fn(),
    twin: extern "C" fn(),
}

impl Function {
    /// Calls the function that is probed many times.
    pub(super) fn call(&self, times: u32) {
        for _ in 0..times {
            (self.at)();
        }
    }

    /// Calls the one that is not.
    pub(super) fn call_twin(&self, times: u32) {
        for _ in 0..times {
            (self.twin)();
        }
    }
}

/// The mapped file.
#[derive(Debug)]
pub(super) struct Mapped {
    file: std::fs::File,
    start: NonNull<c_void>,
    functions: Vec<Function>,
}

impl Mapped {
    /// Makes and maps the file.
    pub(super) fn new() -> std::io::Result<Self> {
        let mut bytes = vec![0; MAPPED];
        let all = FUNCTIONS.iter().map(|(kind, code)| (*kind, Measured::Entry, *code));
        let common = FUNCTIONS.iter().filter(|(kind, _)| *kind == COMMON).flat_map(|(kind, code)| {
            [Measured::EntryAndReturn, Measured::Span].map(|measured| (*kind, measured, *code))
        });
        let wanted: Vec<(Kind, Measured, &[u8])> = all.chain(common).collect();
        for (index, (_, _, code)) in wanted.iter().enumerate() {
            for at in [2 * index * STRIDE, (2 * index + 1) * STRIDE] {
                bytes[at..at + code.len()].copy_from_slice(code);
            }
        }
        let mut file = std::fs::File::from(memfd_create(c"profinfer-calibration", MFdFlags::MFD_CLOEXEC)?);
        file.write_all(&bytes)?;
        let length = NonZeroUsize::new(MAPPED).ok_or(std::io::ErrorKind::InvalidInput)?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_EXEC;
        // SAFETY: a new mapping at a place of the kernel's choice, of a file that nobody else has.
        let start = unsafe { mmap(None, length, protection, MapFlags::MAP_PRIVATE, &file, 0)? };
        let function = |offset: usize| {
            // SAFETY: at the offset, which is within the mapping, are the instructions of a whole function that takes
            // nothing and gives nothing. The mapping lives as long as the functions, which are only lent.
            unsafe { std::mem::transmute::<*mut u8, extern "C" fn()>(start.as_ptr().cast::<u8>().add(offset)) }
        };
        let functions = wanted.iter().enumerate().map(|(index, (kind, measured, _))| Function {
            kind: *kind,
            measured: *measured,
            offset: (2 * index * STRIDE) as u64,
            at: function(2 * index * STRIDE),
            twin: function((2 * index + 1) * STRIDE),
        });
        let functions = functions.collect();
        Ok(Self { file, start, functions })
    }

    /// The functions in it.
    pub(super) fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// A path by which the kernel finds the file, in this process.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it is what was mapped, whole, and nothing of it is used afterwards.
        let _ = unsafe { munmap(self.start, MAPPED) };
    }
}
