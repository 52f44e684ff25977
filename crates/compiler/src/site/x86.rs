//! What x86-64 instructions do, and what the kernel does with them under a probe (`arch/x86/kernel/uprobes.c`).

use super::{Code, Kind, Line, MAX_START, Registers, Stack, Step, signed};
use iced_x86::{
    Code as Operation, Decoder, DecoderOptions, FastFormatter, FlowControl, Instruction, InstructionInfoFactory,
    Mnemonic, OpAccess, OpKind, Register,
};
use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};

/// The smallest page: a nop of five bytes that crosses one is not made a call.
const PAGE: u64 = 4096;
/// How far back an indirect jump's register is searched for.
const SEARCH_BACK: usize = 12;
/// Entries of a table that are read.
const MAX_TABLE: u64 = 4096;

/// Operations of one byte that are not probed: invalid, privileged, or with their own traps.
const REFUSED: &[RangeInclusive<u8>] = &[
    0x06..=0x07,
    0x0e..=0x0e,
    0x16..=0x17,
    0x1e..=0x1f,
    0x27..=0x27,
    0x2f..=0x2f,
    0x37..=0x37,
    0x3f..=0x3f,
    0x60..=0x62,
    0x6c..=0x6f,
    0x82..=0x82,
    0x9a..=0x9a,
    0xcc..=0xcf,
    0xd4..=0xd6,
    0xe4..=0xe7,
    0xea..=0xea,
    0xec..=0xef,
    0xf1..=0xf1,
    0xf4..=0xf4,
    0xfa..=0xfb,
];

/// Operations of two bytes (after `0f`) that some kernels do not probe.
const REFUSED_LONG: &[RangeInclusive<u8>] =
    &[0x00..=0x01, 0x05..=0x09, 0x0b..=0x0b, 0x30..=0x30, 0x34..=0x35, 0x37..=0x37, 0x78..=0x79, 0xae..=0xae];

/// The recommended nops of three to eight bytes, which kernels emulate; that of five is a kind of its own.
const LONG_NOPS: &[&[u8]] = &[
    &[0x0f, 0x1f, 0x00],
    &[0x0f, 0x1f, 0x40, 0x00],
    &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
    &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
];
const NOP5: &[u8] = &[0x0f, 0x1f, 0x44, 0x00, 0x00];

/// The start of a part of some code, and the jumps of the whole code into it.
pub(super) fn line(code: Code<'_>, part: Range<usize>) -> Line {
    let mut line = Line::default();
    let Some(bytes) = code.bytes.get(part.clone()) else { return line };
    let mut info = InstructionInfoFactory::new();
    let mut end = part.start as u64;
    for instruction in Decoder::with_ip(64, bytes, part.start as u64, DecoderOptions::NONE).iter().take(MAX_START) {
        if instruction.is_invalid() {
            break;
        }
        end = instruction.ip();
        line.steps.push(step(&instruction, code, &mut info));
        if instruction.flow_control() != FlowControl::Next {
            break;
        }
    }
    let length = code.bytes.len() as u64;
    for (bytes, at, is_own) in code.pieces() {
        // A function that this one ends with a call of may jump by tables of its own.
        let (mut by_table, mut leads_back) = (false, is_own);
        let mut past: VecDeque<Instruction> = VecDeque::with_capacity(SEARCH_BACK);
        for instruction in &mut Decoder::with_ip(64, bytes, at.cast_unsigned(), DecoderOptions::NONE) {
            if is_near_branch(&instruction) {
                let target = instruction.near_branch_target();
                leads_back |= (1..length).contains(&target);
                if target > part.start as u64 && target <= end {
                    line.jumps.push((instruction.ip().cast_signed(), target));
                }
            }
            if is_jump_by_table(&instruction, &past, &mut info) {
                match table(&instruction, &past, code) {
                    Some(targets) => line.jumps.extend(
                        targets
                            .into_iter()
                            .filter(|target| *target > part.start as u64 && *target <= end)
                            .map(|target| (instruction.ip().cast_signed(), target)),
                    ),
                    None => by_table = true,
                }
            }
            if past.len() == SEARCH_BACK {
                past.pop_front();
            }
            past.push_back(instruction);
        }
        line.jumps_by_table |= by_table && leads_back;
    }
    line
}

/// Where direct jumps lead, calls left out: bytes from the code's start.
pub(super) fn jumps(bytes: &[u8]) -> Vec<i64> {
    let is_jump = |instruction: &Instruction| {
        is_near_branch(instruction)
            && matches!(instruction.flow_control(), FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch)
    };
    let mut decoder = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE);
    decoder.iter().filter(is_jump).map(|jump| jump.near_branch_target().cast_signed()).collect()
}

fn is_near_branch(instruction: &Instruction) -> bool {
    matches!(instruction.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64)
}

fn step(instruction: &Instruction, code: Code<'_>, info: &mut InstructionInfoFactory) -> Step {
    let start = usize::try_from(instruction.ip()).unwrap_or(usize::MAX);
    let bytes = code.bytes.get(start..start.saturating_add(instruction.len())).unwrap_or_default();
    Step {
        offset: instruction.ip(),
        text: text(instruction),
        kind: kind(instruction, bytes, code.file_offset.wrapping_add(instruction.ip())),
        writes: written(instruction, info),
        stack: stack(instruction, info),
        // It is on the stack, at the stack pointer.
        moves_return_address: false,
        writes_memory: instruction.stack_pointer_increment() >= 0
            && info.info(instruction).used_memory().iter().any(|used| writes(used.access())),
    }
}

/// Has the decoder and the formatter make their tables.
pub(super) fn load() {
    let nop = Decoder::with_ip(64, &[0x90], 0, DecoderOptions::NONE).decode();
    std::hint::black_box(text(&nop));
}

/// Whether an instruction begins at an offset, as far as one can be told after the other.
pub(super) fn begins_instruction(bytes: &[u8], offset: u64) -> bool {
    let mut decoder = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE);
    let of_offset = decoder.iter().take_while(|instruction| !instruction.is_invalid());
    of_offset.map(|instruction| instruction.ip()).find(|at| *at >= offset) == Some(offset)
}

/// Whether a function may keep something below its stack pointer. Compilers have none do so that calls others; of those
/// that do not, one that never has an address from there cannot.
pub(super) fn may_write_below_stack(bytes: &[u8]) -> bool {
    let mut info = InstructionInfoFactory::new();
    let mut reaches = false;
    for instruction in &mut Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE) {
        if instruction.is_invalid() {
            return true;
        }
        if matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall) {
            return false;
        }
        let moves_stack = instruction.stack_pointer_increment() != 0;
        let info = info.info(&instruction);
        let in_memory = |used: &iced_x86::UsedMemory| {
            let is_stack = used.base() == Register::RSP || used.index() == Register::RSP;
            is_stack && !moves_stack && (used.displacement().cast_signed() < 0 || used.index() != Register::None)
        };
        let copies = |used: &iced_x86::UsedRegister| {
            used.register() == Register::RSP && !writes(used.access()) && instruction.memory_base() != Register::RSP
        };
        reaches |= info.used_memory().iter().any(in_memory) || info.used_registers().iter().any(copies);
        // An address on the stack, made for later.
        reaches |= instruction.mnemonic() == Mnemonic::Lea && instruction.memory_base() == Register::RSP;
    }
    reaches
}

/// What the kernel does with an instruction; `None` where it refuses a probe.
fn kind(instruction: &Instruction, bytes: &[u8], file_offset: u64) -> Option<Kind> {
    // Segment prefixes other than fs and gs, and lock; `notrack` and branch hints are such prefixes too.
    let prefixes = bytes.iter().take_while(|byte| is_prefix(**byte)).count();
    let (prefixes, operation) = bytes.split_at(prefixes);
    if prefixes.iter().any(|prefix| matches!(prefix, 0x26 | 0x2e | 0x36 | 0x3e | 0xf0)) {
        return None;
    }
    let wide = operation.first().is_some_and(|byte| (0x40..=0x4f).contains(byte));
    let operation = if wide { &operation[1..] } else { operation };
    let in_any = |ranges: &[RangeInclusive<u8>], byte: u8| ranges.iter().any(|range| range.contains(&byte));
    match *operation {
        // AVX: the operation's byte stands behind the prefix, and is found among those of one byte.
        [0xc5, _, byte, ..] | [0xc4, _, _, byte, ..] | [0x62, _, _, _, byte, ..] if in_any(REFUSED, byte) => None,
        [0xc4 | 0xc5 | 0x62, ..] => Some(Kind::Stepped),
        [0x0f, byte, ..] if in_any(REFUSED_LONG, byte) => None,
        // A write of the stack segment holds back the trap of the step.
        [0x8e, ..] if instruction.op0_register() == Register::SS => None,
        [0x17, ..] => None,
        [byte, ..] if byte != 0x0f && in_any(REFUSED, byte) => None,
        // Processors do not agree on what a jump of 16 bits is.
        [0x70..=0x7f | 0xe8 | 0xe9 | 0xeb, ..] | [0x0f, 0x80..=0x8f, ..] if prefixes.contains(&0x66) => None,
        [0x90] if !wide && prefixes.iter().all(|prefix| *prefix == 0x66) => Some(Kind::Nop),
        _ if bytes == NOP5 && file_offset % PAGE + 5 <= PAGE => Some(Kind::Nop5),
        _ if bytes == NOP5 || LONG_NOPS.contains(&bytes) => Some(Kind::LongNop),
        [0x50..=0x57] if prefixes.is_empty() && (bytes.len() == 1 || bytes[0] == 0x41) => Some(Kind::Push),
        [0x70..=0x7f | 0xe9 | 0xeb, ..] | [0x0f, 0x80..=0x8f, ..] => Some(Kind::Jump),
        [0xe8, ..] => Some(Kind::Call),
        _ => Some(Kind::Stepped),
    }
}

fn is_prefix(byte: u8) -> bool {
    matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0x66 | 0x67 | 0xf0 | 0xf2 | 0xf3)
}

/// Whether an indirect jump takes its target from a table, as a `switch` does. A call at the end of a function is an
/// indirect jump too, but to where a pointer in memory, or an argument, points.
fn is_jump_by_table(jump: &Instruction, past: &VecDeque<Instruction>, info: &mut InstructionInfoFactory) -> bool {
    if jump.flow_control() != FlowControl::IndirectBranch {
        return false;
    }
    if jump.op0_kind() == OpKind::Memory {
        return jump.memory_index() != Register::None;
    }
    let register = jump.op0_register().full_register();
    let mut writes_it =
        |instruction: &&Instruction| written(instruction, info).has(dwarf_number(register).unwrap_or(u16::MAX));
    match past.iter().rev().find(&mut writes_it) {
        None => false,
        Some(writer) if writer.mnemonic() == Mnemonic::Mov && writer.op1_kind() == OpKind::Memory => {
            writer.memory_index() != Register::None
        }
        Some(writer) => !matches!(writer.mnemonic(), Mnemonic::Mov | Mnemonic::Pop),
    }
}

/// Where a jump by a table may lead: bytes from the function's start. Found for what gcc and clang make of a `switch` in
/// code for any address: the number is compared, the table's address put into a register, a distance of four bytes read
/// there and added to it.
fn table(jump: &Instruction, past: &VecDeque<Instruction>, code: Code<'_>) -> Option<Vec<u64>> {
    let target = jump.op0_register();
    let mut before = past.iter().rev();
    let sum = before.find(|i| i.op0_kind() == OpKind::Register && i.op0_register() == target)?;
    if sum.mnemonic() != Mnemonic::Add || sum.op1_kind() != OpKind::Register {
        return None;
    }
    let summands = [sum.op0_register(), sum.op1_register()];
    let load = before.find(|i| i.mnemonic() == Mnemonic::Movsxd && summands.contains(&i.op0_register()))?;
    let base = load.memory_base();
    let is_load = load.op1_kind() == OpKind::Memory
        && (load.memory_index_scale(), load.memory_displacement64()) == (4, 0)
        && load.memory_index() != Register::None
        && summands.contains(&base)
        && load.op0_register() != base;
    let address =
        past.iter().rev().find(|i| i.op0_kind() == OpKind::Register && i.op0_register() == base && **i != *sum)?;
    if !is_load || address.mnemonic() != Mnemonic::Lea || !address.is_ip_rel_memory_operand() {
        return None;
    }
    let bound = past.iter().rev().find(|i| i.mnemonic() == Mnemonic::Cmp)?;
    let is_left_above =
        past.iter().any(|i| matches!(i.mnemonic(), Mnemonic::Ja | Mnemonic::Jae) && i.ip() > bound.ip());
    let is_bound = is_left_above && bound.op1_kind() != OpKind::Register && bound.op1_kind() != OpKind::Memory;
    let entries = bound.immediate(1).checked_add(1).filter(|entries| is_bound && *entries <= MAX_TABLE)?;
    let start = address.ip_rel_memory_address().cast_signed();
    let bytes = (code.data)(start, usize::try_from(entries).ok()?.checked_mul(4)?);
    let (words, _) = bytes.as_chunks::<4>();
    let lead = |word: &[u8; 4]| start.wrapping_add(i64::from(i32::from_le_bytes(*word))).cast_unsigned();
    (words.len() as u64 == entries).then(|| words.iter().map(lead).collect())
}

fn written(instruction: &Instruction, info: &mut InstructionInfoFactory) -> Registers {
    let mut registers = Registers::default();
    for used in info.info(instruction).used_registers().iter().filter(|used| writes(used.access())) {
        if let Some(number) = dwarf_number(used.register()) {
            registers.add(number);
        }
    }
    registers
}

/// What the instruction does to the stack pointer.
fn stack(instruction: &Instruction, info: &mut InstructionInfoFactory) -> Stack {
    if instruction.stack_pointer_increment() != 0 {
        return Stack::Down(-instruction.stack_pointer_increment());
    }
    let moves = info
        .info(instruction)
        .used_registers()
        .iter()
        .any(|used| writes(used.access()) && used.register().full_register() == Register::RSP);
    if !moves {
        return Stack::Down(0);
    }
    let immediate = || i32::try_from(instruction.immediate(1).cast_signed()).ok();
    let is_stack_pointer = instruction.op0_kind() == OpKind::Register && instruction.op0_register() == Register::RSP;
    let down = match instruction.code() {
        Operation::Sub_rm64_imm8 | Operation::Sub_rm64_imm32 if is_stack_pointer => immediate(),
        Operation::Add_rm64_imm8 | Operation::Add_rm64_imm32 if is_stack_pointer => {
            immediate().and_then(i32::checked_neg)
        }
        _ => None,
    };
    down.map_or(Stack::Unknown, Stack::Down)
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

/// The instruction, with what it leads to or reads by its place as bytes from the function's start, or from itself. By the
/// formatter whose tables are small: each recorder has its own.
fn text(instruction: &Instruction) -> String {
    let mut text = String::new();
    let mut formatter = FastFormatter::new();
    let options = formatter.options_mut();
    options.set_space_after_operand_separator(true);
    options.set_uppercase_hex(false);
    options.set_use_hex_prefix(true);
    options.set_rip_relative_addresses(true);
    formatter.format(instruction, &mut text);
    if is_near_branch(instruction) {
        text.truncate(text.rfind(' ').map_or(text.len(), |space| space + 1));
        text.push_str(&signed(instruction.near_branch_target().cast_signed()));
    }
    text
}
