//! A program that measures, by the clock that spans have, the time from a function's entry to its return. The entry and the
//! return take turns: a hit stores the time if none is stored, and else adds what has passed since to a sum.

use super::features::load_instructions;
use super::instructions::{
    ADD, CALL, EXIT, JUMP_IF_EQUAL, LOAD, LOAD_IMMEDIATE, MOVE_IMMEDIATE, STORE, STORE_IMMEDIATE, SUBTRACT,
    instruction, map_of_one,
};
use libbpf_rs::libbpf_sys as sys;
use std::os::fd::{AsRawFd, OwnedFd};

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
        Ok(Self { map: map_of_one(sys::BPF_MAP_TYPE_ARRAY, c"span_timer", size_of::<Value>())? })
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
        const KTIME_GET_NS: i32 = sys::BPF_FUNC_ktime_get_ns as i32;
        const MAP_VALUE: u8 = 2;
        vec![
            instruction(CALL, (0, 0), 0, KTIME_GET_NS),
            instruction(LOAD_IMMEDIATE, (1, MAP_VALUE), 0, self.map.as_raw_fd()),
            instruction(0, (0, 0), 0, 0),
            instruction(LOAD, (2, 1), 0, 0),
            instruction(JUMP_IF_EQUAL, (2, 0), 7, 0),
            instruction(SUBTRACT, (0, 2), 0, 0),
            instruction(LOAD, (2, 1), SUM, 0),
            instruction(ADD, (2, 0), 0, 0),
            instruction(STORE, (1, 2), SUM, 0),
            instruction(STORE_IMMEDIATE, (1, 0), 0, 0),
            instruction(MOVE_IMMEDIATE, (0, 0), 0, 0),
            instruction(EXIT, (0, 0), 0, 0),
            instruction(STORE, (1, 0), 0, 0),
            instruction(MOVE_IMMEDIATE, (0, 0), 0, 0),
            instruction(EXIT, (0, 0), 0, 0),
        ]
    }
}
