//! A program that measures, by the clock that spans have, the time from a function's entry to its return. The entry and the
//! return take turns: a hit stores the time if none is stored, and else adds what has passed since to a sum.

use super::features::load_instructions;
use libbpf_rs::libbpf_sys as sys;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The map's value: when the function was entered, 0 outside of it; and the sum. ns.
type Value = [u64; 2];
/// Bytes to the sum.
const SUM: i16 = 8;

/// The sum, and the programs' access to it.
#[derive(Debug)]
pub struct SpanTimer {
    map: OwnedFd,
}

impl SpanTimer {
    pub(super) fn new() -> nix::Result<Self> {
        let (key, value) = (size_of::<u32>() as u32, size_of::<Value>() as u32);
        // SAFETY: the name is a C string, and options may be absent.
        let fd = unsafe {
            let name = c"span_timer".as_ptr();
            sys::bpf_map_create(sys::BPF_MAP_TYPE_ARRAY, name, key, value, 1, std::ptr::null())
        };
        if fd < 0 {
            return Err(nix::Error::from_raw(-fd));
        }
        // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
        Ok(Self { map: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// The sum, ns.
    ///
    /// # Errors
    /// The system's, where the map cannot be read.
    pub fn total_ns(&self) -> nix::Result<u64> {
        let (key, mut value): (u32, Value) = (0, [0, 0]);
        // SAFETY: both pointers are to live values of the sizes that the map was made with.
        let result = unsafe {
            sys::bpf_map_lookup_elem(
                self.map.as_raw_fd(),
                std::ptr::from_ref(&key).cast(),
                std::ptr::from_mut(&mut value).cast(),
            )
        };
        if result == 0 { Ok(value[1]) } else { Err(nix::Error::from_raw(-result)) }
    }

    /// Loads a program for the entry, the return or both.
    pub(super) fn load(&self, attach_type: sys::bpf_attach_type) -> nix::Result<OwnedFd> {
        load_instructions(sys::BPF_PROG_TYPE_KPROBE, attach_type, 0, &self.program())
    }

    fn program(&self) -> Vec<sys::bpf_insn> {
        const CALL: u8 = 0x85;
        const KTIME_GET_NS: i32 = sys::BPF_FUNC_ktime_get_ns as i32;
        const LOAD_IMMEDIATE: u8 = 0x18;
        const LOAD: u8 = 0x79;
        const STORE: u8 = 0x7b;
        const STORE_IMMEDIATE: u8 = 0x7a;
        const SUBTRACT: u8 = 0x1f;
        const ADD: u8 = 0x0f;
        const MOVE_IMMEDIATE: u8 = 0xb7;
        const JUMP_IF_EQUAL: u8 = 0x15;
        const EXIT: u8 = 0x95;
        const MAP_VALUE: u8 = 2;
        let new = |code: u8, (to, from): (u8, u8), off: i16, imm: i32| {
            let mut instruction = sys::bpf_insn { code, off, imm, ..sys::bpf_insn::default() };
            instruction.set_dst_reg(to);
            instruction.set_src_reg(from);
            instruction
        };
        vec![
            new(CALL, (0, 0), 0, KTIME_GET_NS),
            new(LOAD_IMMEDIATE, (1, MAP_VALUE), 0, self.map.as_raw_fd()),
            new(0, (0, 0), 0, 0),
            new(LOAD, (2, 1), 0, 0),
            new(JUMP_IF_EQUAL, (2, 0), 7, 0),
            new(SUBTRACT, (0, 2), 0, 0),
            new(LOAD, (2, 1), SUM, 0),
            new(ADD, (2, 0), 0, 0),
            new(STORE, (1, 2), SUM, 0),
            new(STORE_IMMEDIATE, (1, 0), 0, 0),
            new(MOVE_IMMEDIATE, (0, 0), 0, 0),
            new(EXIT, (0, 0), 0, 0),
            new(STORE, (1, 0), 0, 0),
            new(MOVE_IMMEDIATE, (0, 0), 0, 0),
            new(EXIT, (0, 0), 0, 0),
        ]
    }
}
