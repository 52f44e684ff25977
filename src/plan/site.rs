//! Where in a function a probe is put: the cheapest instruction of its straight-line start that every call passes,
//! that nothing jumps into, and where the arguments are still where the calling convention put them.

use crate::target::Arch;
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Formatter, Instruction, InstructionInfoFactory, IntelFormatter,
    OpAccess, OpKind, Register,
};

/// What a probe needs to find unchanged.
#[derive(Debug, Clone, Default)]
pub(super) struct Needs {
    /// Registers that its expressions read, as DWARF numbers them.
    pub(super) registers: Vec<u16>,
    /// The return address must be at the stack pointer: the return is probed too.
    pub(super) returns: bool,
    /// Arguments are read from the stack: the stack pointer's movement must be known.
    pub(super) stack: bool,
}

/// A chosen instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chosen {
    /// Bytes from the function's first instruction.
    pub(super) offset: u64,
    /// Bytes that the stack pointer is below its value at the first instruction.
    pub(super) stack_moved: u16,
    /// The instruction's text.
    pub(super) instruction: String,
    /// Expected nanoseconds a hit; `None` where this architecture has no table.
    pub(super) cost_ns: Option<u32>,
}

/// Nanoseconds of one hit by the kind of instruction under the probe, measured with an empty program on an x86-64
/// virtual machine, kernel 6.18.
mod cost {
    /// A five-byte nop, which the kernel turns into a call.
    pub(super) const CALLED: u32 = 475;
    /// Instructions that the kernel emulates.
    pub(super) const EMULATED: u32 = 700;
    /// Everything else is executed out of line under a single-step trap.
    pub(super) const STEPPED: u32 = 14_000;
}

/// Above this, a site is worth a note.
pub(super) const DEAR_NS: u32 = 5_000;

/// Bytes of a function that are searched for jumps back into its start.
pub(super) const MAX_CODE: usize = 64 * 1024;
/// Instructions from the start that are considered.
const MAX_START: usize = 24;

/// Chooses the site of a function whose code is given.
pub(super) fn choose(arch: Arch, code: &[u8], needs: &Needs) -> Chosen {
    let entry = || Chosen { offset: 0, stack_moved: 0, instruction: hex(code), cost_ns: None };
    match arch {
        Arch::X86_64 => choose_x86(code, needs).unwrap_or_else(entry),
        Arch::Aarch64 => entry(),
    }
}

/// The first instruction's bytes, where there is no decoder for it.
pub(super) fn hex(code: &[u8]) -> String {
    code.iter().take(4).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

fn choose_x86(code: &[u8], needs: &Needs) -> Option<Chosen> {
    let start: Vec<Instruction> = straight_line(code);
    let targets = jump_targets(code, start.last()?.next_ip());
    let mut info = InstructionInfoFactory::new();
    let mut best: Option<(u32, &Instruction, u16)> = None;
    let mut moved: i32 = 0;
    for instruction in &start {
        // A jump to here, or between here and the entry, would make later sites miss calls or count twice.
        if instruction.ip() > 0 && targets.iter().any(|t| *t > 0 && *t <= instruction.ip()) {
            break;
        }
        if needs.returns && moved != 0 || needs.stack && u16::try_from(moved).is_err() {
            break;
        }
        let cost = cost_of(instruction);
        if best.is_none_or(|(cheapest, ..)| cost < cheapest) {
            best = Some((cost, instruction, u16::try_from(moved).unwrap_or_default()));
        }
        if overwrites(instruction, &needs.registers, &mut info) {
            break;
        }
        match stack_movement(instruction, &mut info) {
            Some(down) => moved = moved.saturating_add(down),
            None if needs.returns || needs.stack => break,
            // Nobody asks where the stack pointer was.
            None => {}
        }
    }
    let (cost, instruction, stack_moved) = best?;
    Some(Chosen { offset: instruction.ip(), stack_moved, instruction: text(instruction), cost_ns: Some(cost) })
}

/// Instructions from the first up to and including the first that can go elsewhere.
fn straight_line(code: &[u8]) -> Vec<Instruction> {
    let mut line = Vec::new();
    for instruction in Decoder::with_ip(64, code, 0, DecoderOptions::NONE).iter().take(MAX_START) {
        if instruction.is_invalid() {
            break;
        }
        line.push(instruction);
        if instruction.flow_control() != FlowControl::Next {
            break;
        }
    }
    line
}

/// Offsets within the start that some direct jump of the function goes to.
fn jump_targets(code: &[u8], end_of_start: u64) -> Vec<u64> {
    Decoder::with_ip(64, code, 0, DecoderOptions::NONE)
        .iter()
        .filter(|i| matches!(i.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64))
        .map(|i| i.near_branch_target())
        .filter(|target| *target <= end_of_start)
        .collect()
}

/// Expected nanoseconds of a hit of a probe at an instruction.
pub(super) fn cost_of(instruction: &Instruction) -> u32 {
    let register_push = matches!(instruction.code(), Code::Push_r64) && instruction.op0_register().is_gpr64();
    match instruction.flow_control() {
        _ if instruction.code() == Code::Nop_rm32 && instruction.len() == 5 => cost::CALLED,
        _ if instruction.code() == Code::Nopd && instruction.len() == 1 => cost::EMULATED,
        _ if register_push => cost::EMULATED,
        FlowControl::ConditionalBranch
            if !instruction.is_jcx_short() && !instruction.is_loop() && !instruction.is_loopcc() =>
        {
            cost::EMULATED
        }
        FlowControl::UnconditionalBranch | FlowControl::Call => cost::EMULATED,
        _ => cost::STEPPED,
    }
}

fn overwrites(instruction: &Instruction, registers: &[u16], info: &mut InstructionInfoFactory) -> bool {
    info.info(instruction).used_registers().iter().any(|used| {
        writes(used.access()) && dwarf_number(used.register()).is_some_and(|number| registers.contains(&number))
    })
}

/// Bytes that the instruction moves the stack pointer down; `None` where it gets a value that is not known.
fn stack_movement(instruction: &Instruction, info: &mut InstructionInfoFactory) -> Option<i32> {
    if instruction.stack_pointer_increment() != 0 {
        return Some(-instruction.stack_pointer_increment());
    }
    let moves = info
        .info(instruction)
        .used_registers()
        .iter()
        .any(|used| writes(used.access()) && used.register().full_register() == Register::RSP);
    if !moves {
        return Some(0);
    }
    match instruction.code() {
        Code::Sub_rm64_imm8 | Code::Sub_rm64_imm32 => i32::try_from(instruction.immediate(1).cast_signed()).ok(),
        Code::Add_rm64_imm8 | Code::Add_rm64_imm32 => {
            i32::try_from(instruction.immediate(1).cast_signed()).ok()?.checked_neg()
        }
        _ => None,
    }
}

fn writes(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

fn dwarf_number(register: Register) -> Option<u16> {
    Some(match register.full_register() {
        Register::RAX => 0,
        Register::RDX => 1,
        Register::RCX => 2,
        Register::RBX => 3,
        Register::RSI => 4,
        Register::RDI => 5,
        Register::RBP => 6,
        Register::RSP => 7,
        Register::R8 => 8,
        Register::R9 => 9,
        Register::R10 => 10,
        Register::R11 => 11,
        Register::R12 => 12,
        Register::R13 => 13,
        Register::R14 => 14,
        Register::R15 => 15,
        _ => return None,
    })
}

/// An instruction as a person reads it.
pub(super) fn text(instruction: &Instruction) -> String {
    let mut text = String::new();
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_space_after_operand_separator(true);
    options.set_show_branch_size(false);
    options.set_branch_leading_zeros(false);
    options.set_uppercase_hex(false);
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    formatter.format(instruction, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(code: &[u8], registers: &[u16], returns: bool) -> (u64, u16, String) {
        let needs = Needs { registers: registers.to_vec(), returns, stack: true };
        let chosen = choose(Arch::X86_64, code, &needs);
        (chosen.offset, chosen.stack_moved, chosen.instruction)
    }

    #[test]
    fn a_push_at_the_start_is_cheap_already() {
        // push rbp; mov rbp, rsp; ret
        assert_eq!(chosen(&[0x55, 0x48, 0x89, 0xe5, 0xc3], &[5], true), (0, 0, "push rbp".into()));
    }

    #[test]
    fn a_dear_start_is_passed_over_for_the_branch_behind_it() {
        // test rdi, rdi; je +4; …
        assert_eq!(chosen(&[0x48, 0x85, 0xff, 0x74, 0x04, 0x90, 0xc3], &[5], true), (3, 0, "je 9".into()));
        // endbr64; push r15
        assert_eq!(chosen(&[0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x57, 0xc3], &[5], true), (4, 0, "push r15".into()));
    }

    #[test]
    fn an_argument_that_is_overwritten_ends_the_search() {
        // mov rdi, rsi; push rbx: the push is too late for an expression that reads rdi.
        let code = [0x48, 0x89, 0xf7, 0x53, 0xc3];
        assert_eq!(chosen(&code, &[5], false), (0, 0, "mov rdi, rsi".into()));
        assert_eq!(chosen(&code, &[4], false), (3, 0, "push rbx".into()));
    }

    #[test]
    fn a_moved_stack_pointer_is_reckoned_with_unless_the_return_is_probed() {
        // sub rsp, 24; je +0
        let code = [0x48, 0x83, 0xec, 0x18, 0x74, 0x00, 0xc3];
        assert_eq!(chosen(&code, &[5], false), (4, 24, "je 6".into()));
        assert_eq!(chosen(&code, &[5], true), (0, 0, "sub rsp, 0x18".into()));
    }

    #[test]
    fn a_place_that_is_jumped_to_is_no_site() {
        // mov eax, [rdi]; push rbx; pop rbx; jmp -4 (to the push)
        let code = [0x8b, 0x07, 0x53, 0x5b, 0xeb, 0xfc];
        assert_eq!(chosen(&code, &[5], false).0, 0);
    }

    #[test]
    fn a_realigned_stack_ends_the_search() {
        // lea r10, [rsp+8]; and rsp, -32; push [r10-8]; push rbp
        let code = [0x4c, 0x8d, 0x54, 0x24, 0x08, 0x48, 0x83, 0xe4, 0xe0, 0x41, 0xff, 0x72, 0xf8, 0x55];
        assert_eq!(chosen(&code, &[5], false).0, 0);
        let needs = Needs { registers: vec![5], returns: false, stack: false };
        assert_eq!(choose(Arch::X86_64, &code, &needs).instruction, "push rbp");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_have_a_site(code in proptest::collection::vec(0_u8.., 0..200)) {
            let chosen = choose(Arch::X86_64, &code, &Needs { registers: vec![5, 4], returns: true, stack: false });
            proptest::prop_assert!(chosen.offset as usize <= code.len());
        }
    }
}
