//! What arm64 instructions do, and what the kernel does with them under a probe
//! (`arch/arm64/kernel/probes/decode-insn.c`).

use super::{Code, Kind, Line, MAX_START, Registers, Stack, Step};
use std::ops::Range;
use yaxpeax_arch::{Decoder, U8Reader};
use yaxpeax_arm::armv8::a64::{InstDecoder, Instruction, Opcode, Operand};

/// Bytes of an instruction.
pub(super) const SIZE: usize = 4;
/// The register that a call leaves the return address in.
const LINK: u16 = 30;
/// As DWARF numbers it.
const STACK_POINTER: u16 = 31;
/// How far back an indirect jump's register is searched for.
const SEARCH_BACK: usize = 8;

/// What the kernel does with the words that are `value` under `mask`; the first that fits. `None` is refused. Words that
/// fit none are executed out of line.
const KINDS: &[(u32, u32, Option<Kind>)] = &[
    // b, bl, b.cond, cbz and cbnz, tbz and tbnz
    (0xfc00_0000, 0x1400_0000, Some(Kind::Jump)),
    (0xfc00_0000, 0x9400_0000, Some(Kind::Call)),
    (0xff00_0010, 0x5400_0000, Some(Kind::Jump)),
    (0x7e00_0000, 0x3400_0000, Some(Kind::Jump)),
    (0x7e00_0000, 0x3600_0000, Some(Kind::Jump)),
    // br, blr, ret; all else that branches by register, with authentication or not
    (0xffff_fc1f, 0xd61f_0000, Some(Kind::Jump)),
    (0xffff_fc1f, 0xd63f_0000, Some(Kind::Call)),
    (0xffff_fc1f, 0xd65f_0000, Some(Kind::Jump)),
    (0xfe00_0000, 0xd600_0000, None),
    // adr, adrp
    (0x1f00_0000, 0x1000_0000, Some(Kind::Address)),
    // Exceptions (svc, brk …), writes of system registers, reads of the interrupt mask.
    (0xff00_0000, 0xd400_0000, None),
    (0xfff0_0000, 0xd510_0000, None),
    (0xfff8_f01f, 0xd500_401f, None),
    (0xffff_ffe0, 0xd53b_4220, None),
    // Hints: nop, pac*, bti; no others. Kernels differ on aut*, which no function starts with.
    (0xffff_ffff, 0xd503_201f, Some(Kind::Nop)),
    (0xffff_ffff, 0xd503_20ff, Some(Kind::Stepped)),
    (0xffff_ffbf, 0xd503_211f, Some(Kind::Stepped)),
    (0xffff_ff9f, 0xd503_231f, Some(Kind::Stepped)),
    (0xffff_ff3f, 0xd503_241f, Some(Kind::Stepped)),
    (0xffff_f01f, 0xd503_201f, None),
    // Loads relative to the instruction, and exclusive loads and stores.
    (0x3b00_0000, 0x1800_0000, None),
    (0x3f00_0000, 0x0800_0000, None),
];

/// Operations that change no register but the base of an address that is written back.
fn only_reads(operation: Opcode) -> bool {
    use Opcode as O;
    matches!(
        operation,
        O::STP | O::STNP | O::STR | O::STRB | O::STRH | O::STUR | O::STURB | O::STURH | O::STTR | O::STTRB | O::STTRH
    ) || matches!(operation, O::CBZ | O::CBNZ | O::TBZ | O::TBNZ | O::Bcc(_) | O::B | O::BR | O::RET)
        || matches!(operation, O::CCMP | O::CCMN | O::PRFM | O::PRFUM | O::HINT | O::DMB(_) | O::DSB(_) | O::ISB)
}

/// Operations whose first operand is the only register that they change.
fn writes_first(operation: Opcode) -> bool {
    use Opcode as O;
    matches!(
        operation,
        O::MOVN | O::MOVK | O::MOVZ | O::ADC | O::SBC | O::AND | O::ORR | O::ORN | O::EOR | O::EON | O::BIC | O::ADD
    ) || matches!(
        operation,
        O::SUB | O::ADDS | O::SUBS | O::ANDS | O::BICS | O::BFM | O::UBFM | O::SBFM | O::ADR | O::ADRP | O::EXTR
    ) || matches!(
        operation,
        O::LDR | O::LDRB | O::LDRH | O::LDRSB | O::LDRSH | O::LDRSW | O::LDUR | O::LDURB | O::LDURH | O::LDURSW
    ) || matches!(operation, O::CSEL | O::CSINC | O::CSINV | O::CSNEG | O::MADD | O::MSUB | O::UDIV | O::SDIV)
        || matches!(operation, O::LSLV | O::LSRV | O::ASRV | O::RORV | O::MRS)
}

/// One decoded instruction with its word.
#[derive(Debug, Clone, Copy)]
struct Decoded {
    word: u32,
    instruction: Instruction,
}

fn decoded(bytes: &[u8], at: usize) -> Option<Decoded> {
    let bytes: [u8; SIZE] = bytes.get(at..at.checked_add(SIZE)?)?.try_into().ok()?;
    let instruction = InstDecoder::default().decode(&mut U8Reader::new(&bytes)).ok()?;
    Some(Decoded { word: u32::from_le_bytes(bytes), instruction })
}

/// The start of a part of some code, and the jumps of the whole code into it.
pub(super) fn line(code: Code<'_>, part: Range<usize>) -> Line {
    let mut line = Line::default();
    let mut end = part.start;
    for at in part.clone().step_by(SIZE).take(MAX_START) {
        let Some(found) = decoded(&code.bytes[..part.end.min(code.bytes.len())], at) else { break };
        end = at;
        line.steps.push(step(&found, at));
        if leads_elsewhere(&found) {
            break;
        }
    }
    let length = code.bytes.len() as i64;
    for (bytes, piece, is_own) in code.pieces() {
        // A function that this one ends with a call of may jump by tables of its own.
        let (mut by_table, mut leads_back) = (false, is_own);
        for at in (0..bytes.len()).step_by(SIZE) {
            let Some(found) = decoded(bytes, at) else { continue };
            let from = piece.saturating_add(at as i64);
            let target = target(&found, from);
            leads_back |= target.is_some_and(|to| (1..length).contains(&to));
            if let Some(target) = target.filter(|to| *to > part.start as i64 && *to <= end as i64) {
                line.jumps.push((from, target.unsigned_abs()));
            }
            by_table |= is_jump_by_table(&found, bytes, at);
        }
        line.jumps_by_table |= by_table && leads_back;
    }
    line
}

/// Where direct jumps lead, calls left out: bytes from the code's start.
pub(super) fn jumps(bytes: &[u8]) -> Vec<i64> {
    let found = |at: usize| decoded(bytes, at).filter(|found| kind(found.word) == Some(Kind::Jump));
    (0..bytes.len()).step_by(SIZE).filter_map(|at| target(&found(at)?, at as i64)).collect()
}

fn step(found: &Decoded, at: usize) -> Step {
    let (text, writes) = (text(found), written(found));
    let moves_return_address = uses(&found.instruction, LINK) || writes.has(LINK);
    let (kind, stack) = (kind(found.word), stack(found, writes));
    // No probe there writes below the stack pointer, so nobody asks.
    let writes_memory = false;
    Step { offset: at as u64, text, kind, stack, writes, moves_return_address, writes_memory }
}

fn kind(word: u32) -> Option<Kind> {
    let found = KINDS.iter().find(|(mask, value, _)| word & mask == *value);
    found.map_or(Some(Kind::Stepped), |(_, _, kind)| *kind)
}

/// Whether the next instruction may be another than the following one; a system call and a trap too.
fn leads_elsewhere(found: &Decoded) -> bool {
    matches!(kind(found.word), Some(Kind::Jump | Kind::Call))
        || found.word & 0xff00_0000 == 0xd400_0000
        || found.word & 0xfe00_0000 == 0xd600_0000
        || matches!(found.instruction.opcode, Opcode::Invalid | Opcode::UDF)
}

/// Where a direct jump goes; an address is none, though it is relative too.
fn target(found: &Decoded, from: i64) -> Option<i64> {
    if !matches!(kind(found.word), Some(Kind::Jump | Kind::Call)) {
        return None;
    }
    found.instruction.operands.iter().find_map(|operand| match operand {
        Operand::PCOffset(offset) => from.checked_add(*offset),
        _ => None,
    })
}

/// Whether `br` goes by a table, as a `switch` does: its register was computed, not loaded from a fixed place in memory
/// or given as an argument, as with a call at the end of a function.
fn is_jump_by_table(jump: &Decoded, code: &[u8], at: usize) -> bool {
    let (Opcode::BR, Operand::Register(_, register)) = (jump.instruction.opcode, jump.instruction.operands[0]) else {
        return false;
    };
    let before = (1..=SEARCH_BACK).map_while(|back| at.checked_sub(back * SIZE)).filter_map(|at| decoded(code, at));
    let writer = before.into_iter().find(|found| written(found).has(register));
    let Some(writer) = writer else { return false };
    match writer.instruction.opcode {
        Opcode::LDR => !matches!(writer.instruction.operands[1], Operand::RegPreIndex(..) | Operand::PCOffset(_)),
        Opcode::ORR | Opcode::LDP | Opcode::LDUR => false,
        _ => true,
    }
}

/// Registers that may change: where it is unclear which of its operands an instruction changes, all of them.
fn written(found: &Decoded) -> Registers {
    let mut registers = Registers::default();
    let operation = found.instruction.opcode;
    for (index, operand) in found.instruction.operands.iter().enumerate() {
        let is_result = !only_reads(operation) && (index == 0 || !writes_first(operation));
        match *operand {
            Operand::Register(_, number) if is_result && number < 31 => registers.add(number),
            Operand::RegShift(_, _, _, number) if is_result && index == 0 && number < 31 => registers.add(number),
            Operand::RegisterOrSP(_, number) if is_result => registers.add(number),
            Operand::RegisterPair(_, number) if is_result => {
                registers.add(number);
                registers.add(number.saturating_add(1));
            }
            Operand::RegPreIndex(base, _, true)
            | Operand::RegPostIndex(base, _)
            | Operand::RegPostIndexReg(base, _) => registers.add(base),
            _ => {}
        }
    }
    match found.word {
        // bl and blr
        word if matches!(kind(word), Some(Kind::Call)) => registers.add(LINK),
        // Hints that sign or strip: those without a register operand are about x30 or, for 7 to 15, x17.
        word if word & 0xffff_f01f == 0xd503_201f => match word >> 5 & 0x7f {
            7 | 24..=31 => registers.add(LINK),
            8..=15 => registers.add(17),
            _ => {}
        },
        _ => {}
    }
    registers
}

/// Whether a register is among the operands.
fn uses(instruction: &Instruction, register: u16) -> bool {
    instruction.operands.iter().any(|operand| match *operand {
        Operand::Register(_, number)
        | Operand::RegisterOrSP(_, number)
        | Operand::RegShift(_, _, _, number)
        | Operand::RegPreIndex(number, ..)
        | Operand::RegPostIndex(number, _) => number == register,
        Operand::RegisterPair(_, number) => number == register || number.saturating_add(1) == register,
        Operand::RegRegOffset(one, other, ..) | Operand::RegPostIndexReg(one, other) => {
            one == register || other == register
        }
        _ => false,
    })
}

fn stack(found: &Decoded, written: Registers) -> Stack {
    if !written.has(STACK_POINTER) {
        return Stack::Down(0);
    }
    let immediate = (found.word >> 10 & 0xfff).cast_signed() << ((found.word >> 22 & 1) * 12);
    // sub and add of a number, from the stack pointer to itself
    match found.word & 0xff80_03ff {
        0xd100_03ff => return Stack::Down(immediate),
        0x9100_03ff => return Stack::Down(-immediate),
        _ => {}
    }
    let moved = found.instruction.operands.iter().find_map(|operand| match *operand {
        Operand::RegPreIndex(STACK_POINTER, offset, true) | Operand::RegPostIndex(STACK_POINTER, offset) => {
            Some(offset)
        }
        _ => None,
    });
    moved.and_then(i32::checked_neg).map_or(Stack::Unknown, Stack::Down)
}

fn text(found: &Decoded) -> String {
    match found.word {
        0xd503_241f => "bti".to_owned(),
        0xd503_245f => "bti c".to_owned(),
        0xd503_249f => "bti j".to_owned(),
        0xd503_24df => "bti jc".to_owned(),
        _ => found.instruction.to_string(),
    }
}
