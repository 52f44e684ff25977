//! Before Linux 5.15 a program cannot ask which site it runs at. There each site has a small program, which the kernel
//! verifies in microseconds: it stores the site's cookie in a map, where [`Continuation`]'s program reads it, and continues
//! in that one ("tail call"). Both run without preemption, on one CPU: the map has an entry for each.

use super::features::load_instructions;
use super::instructions::{
    ADD_IMMEDIATE, CALL, EXIT, JUMP_IF_EQUAL, LOAD_IMMEDIATE, MOVE, MOVE_IMMEDIATE, STORE, STORE_WORD_IMMEDIATE,
    instruction, map_of_one,
};
use libbpf_rs::libbpf_sys as sys;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// The map of cookies, in objects for old kernels.
pub(super) const COOKIES: &str = "pf_site_cookie";

/// Where the sites' programs continue.
#[derive(Debug)]
pub(super) struct Continuation {
    map: OwnedFd,
}

impl Continuation {
    /// In a loaded program.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn of(program: BorrowedFd<'_>) -> nix::Result<Self> {
        let map = map_of_one(sys::BPF_MAP_TYPE_PROG_ARRAY, c"site_program", size_of::<u32>())?;
        let (key, value) = (0_u32, program.as_raw_fd());
        // SAFETY: both pointers are to live values of the sizes that the map was made with.
        let result = unsafe {
            sys::bpf_map_update_elem(
                map.as_raw_fd(),
                std::ptr::from_ref(&key).cast(),
                std::ptr::from_ref(&value).cast(),
                sys::BPF_ANY.into(),
            )
        };
        if result == 0 { Ok(Self { map }) } else { Err(nix::Error::from_raw(-result)) }
    }

    /// Loads the program of a site, for this type of attachment.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn at_site(
        &self,
        cookie: u64,
        cookies: BorrowedFd<'_>,
        attach_type: sys::bpf_attach_type,
    ) -> nix::Result<OwnedFd> {
        load_instructions(sys::BPF_PROG_TYPE_KPROBE, attach_type, 0, &self.program(cookie, cookies))
    }

    fn program(&self, cookie: u64, cookies: BorrowedFd<'_>) -> [sys::bpf_insn; 18] {
        const LOOKUP: i32 = sys::BPF_FUNC_map_lookup_elem as i32;
        const TAIL_CALL: i32 = sys::BPF_FUNC_tail_call as i32;
        const MAP: u8 = 1;
        const STACK: u8 = 10;
        // The second half of a load of 64 bits.
        let high = |half: i32| instruction(0, (0, 0), 0, half);
        [
            instruction(MOVE, (6, 1), 0, 0),
            instruction(STORE_WORD_IMMEDIATE, (STACK, 0), -4, 0),
            instruction(MOVE, (2, STACK), 0, 0),
            instruction(ADD_IMMEDIATE, (2, 0), 0, -4),
            instruction(LOAD_IMMEDIATE, (1, MAP), 0, cookies.as_raw_fd()),
            high(0),
            instruction(CALL, (0, 0), 0, LOOKUP),
            instruction(JUMP_IF_EQUAL, (0, 0), 8, 0),
            instruction(LOAD_IMMEDIATE, (1, 0), 0, cookie as i32),
            high((cookie >> 32) as i32),
            instruction(STORE, (0, 1), 0, 0),
            instruction(MOVE, (1, 6), 0, 0),
            instruction(LOAD_IMMEDIATE, (2, MAP), 0, self.map.as_raw_fd()),
            high(0),
            instruction(MOVE_IMMEDIATE, (3, 0), 0, 0),
            instruction(CALL, (0, 0), 0, TAIL_CALL),
            instruction(MOVE_IMMEDIATE, (0, 0), 0, 0),
            instruction(EXIT, (0, 0), 0, 0),
        ]
    }
}
