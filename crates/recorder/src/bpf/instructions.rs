//! The instructions of the small programs that are written here, and the maps that these have.

use libbpf_rs::libbpf_sys as sys;
use std::ffi::CStr;
use std::os::fd::{FromRawFd, OwnedFd};

pub(super) const ADD: u8 = 0x0f;
pub(super) const ADD_IMMEDIATE: u8 = 0x07;
pub(super) const CALL: u8 = 0x85;
pub(super) const EXIT: u8 = 0x95;
pub(super) const JUMP_IF_EQUAL: u8 = 0x15;
pub(super) const LOAD: u8 = 0x79;
pub(super) const LOAD_IMMEDIATE: u8 = 0x18;
pub(super) const MOVE: u8 = 0xbf;
pub(super) const MOVE_IMMEDIATE: u8 = 0xb7;
pub(super) const STORE: u8 = 0x7b;
pub(super) const STORE_IMMEDIATE: u8 = 0x7a;
pub(super) const STORE_WORD_IMMEDIATE: u8 = 0x62;
pub(super) const SUBTRACT: u8 = 0x1f;

/// An instruction with its registers, to and from.
pub(super) fn instruction(code: u8, (to, from): (u8, u8), off: i16, imm: i32) -> sys::bpf_insn {
    let mut instruction = sys::bpf_insn { code, off, imm, ..sys::bpf_insn::default() };
    instruction.set_dst_reg(to);
    instruction.set_src_reg(from);
    instruction
}

/// Makes a map of one entry, whose key has four bytes.
///
/// # Errors
/// The system's.
pub(super) fn map_of_one(kind: sys::bpf_map_type, name: &CStr, value_bytes: usize) -> nix::Result<OwnedFd> {
    let (key, value) = (size_of::<u32>() as u32, value_bytes as u32);
    // SAFETY: the name is a C string, and options may be absent.
    let fd = unsafe { sys::bpf_map_create(kind, name.as_ptr(), key, value, 1, std::ptr::null()) };
    if fd < 0 {
        return Err(nix::Error::from_raw(-fd));
    }
    // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
