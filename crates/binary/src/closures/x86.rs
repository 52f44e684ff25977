//! x86-64.

use super::stores::{Addresses, Stores};
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

/// Registers that a call may change, with all vector registers.
const CHANGED_BY_CALLS: [Register; 9] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];
const VECTORS: usize = 16;
const WORD: u64 = 8;

/// Follows the addresses in a function, one instruction after the other.
pub(super) fn follow(bytes: &[u8], start: u64, addresses: &dyn Addresses, stores: &mut Stores<'_>) {
    let mut info = InstructionInfoFactory::new();
    for instruction in &mut Decoder::with_ip(64, bytes, start, DecoderOptions::NONE) {
        match instruction.flow_control() {
            _ if instruction.is_invalid() => return,
            FlowControl::Next => step(&instruction, addresses, stores, &mut info),
            FlowControl::ConditionalBranch => {}
            FlowControl::Call | FlowControl::IndirectCall => {
                CHANGED_BY_CALLS.iter().filter_map(|register| general(*register)).for_each(|of| stores.set(of, None));
                (0..VECTORS).for_each(|of| stores.set_vector(of, [None; 2]));
            }
            _ => stores.forget_registers(),
        }
    }
}

/// The number of a general register of 64 bits.
fn general(register: Register) -> Option<usize> {
    register.is_gpr64().then(|| register.number())
}

fn vector(register: Register) -> Option<usize> {
    register.is_xmm().then(|| register.number())
}

/// Where an instruction's operand in memory is: a place of the image, or a distance from a register.
enum Operand {
    Place(u64),
    From(usize, i64),
}

fn operand(instruction: &Instruction) -> Option<Operand> {
    if instruction.memory_index() != Register::None || instruction.segment_prefix() != Register::None {
        return None;
    }
    if instruction.is_ip_rel_memory_operand() {
        return Some(Operand::Place(instruction.ip_rel_memory_address()));
    }
    let base = general(instruction.memory_base())?;
    Some(Operand::From(base, instruction.memory_displacement64().cast_signed()))
}

fn step(
    instruction: &Instruction,
    addresses: &dyn Addresses,
    stores: &mut Stores<'_>,
    info: &mut InstructionInfoFactory,
) {
    let is_memory = |operand: u32| instruction.op_kind(operand) == OpKind::Memory;
    let word = || match operand(instruction)? {
        Operand::Place(place) => addresses.at(place),
        Operand::From(base, distance) => stores.load(base, distance),
    };
    let two_words = || match operand(instruction) {
        Some(Operand::Place(place)) => [addresses.at(place), addresses.at(place.wrapping_add(WORD))],
        Some(Operand::From(base, at)) => [0, WORD].map(|more| stores.load(base, at.wrapping_add_unsigned(more))),
        None => [None; 2],
    };
    let (to, from) = (instruction.op0_register(), instruction.op1_register());
    let of_vector = |register: Register| vector(register).map(|of| stores.vector(of)).unwrap_or_default();
    let of_general = |register: Register| general(register).and_then(|of| stores.get(of));
    match (instruction.mnemonic(), general(to), vector(to)) {
        (Mnemonic::Lea, Some(to), _) => {
            let address = match operand(instruction) {
                Some(Operand::Place(place)) => Some(place),
                _ => None,
            };
            stores.set(to, address);
        }
        (Mnemonic::Mov, Some(to), _) => stores.set(to, if is_memory(1) { word() } else { of_general(from) }),
        (Mnemonic::Mov, ..) if is_memory(0) => store(instruction, stores, &[of_general(from)]),
        (Mnemonic::Movq | Mnemonic::Vmovq, _, Some(to)) => {
            let low = match vector(from) {
                _ if is_memory(1) => word(),
                Some(_) => of_vector(from)[0],
                None => of_general(from),
            };
            stores.set_vector(to, [low, None]);
        }
        (Mnemonic::Movq | Mnemonic::Vmovq, ..) if is_memory(0) => store(instruction, stores, &of_vector(from)[..1]),
        (Mnemonic::Movhps | Mnemonic::Movhpd, _, Some(of)) => stores.set_vector(of, [of_vector(to)[0], word()]),
        (Mnemonic::Movhps | Mnemonic::Movhpd, ..) => store(instruction, stores, &of_vector(from)[1..]),
        (Mnemonic::Punpcklqdq | Mnemonic::Unpcklpd, _, Some(of)) if !is_memory(1) => {
            stores.set_vector(of, [of_vector(to)[0], of_vector(from)[0]]);
        }
        (Mnemonic::Pinsrq, _, Some(of)) if instruction.immediate8() == 1 => {
            let high = if is_memory(1) { word() } else { of_general(from) };
            stores.set_vector(of, [of_vector(to)[0], high]);
        }
        (Mnemonic::Vpunpcklqdq, _, Some(of)) if !is_memory(2) => {
            stores.set_vector(of, [of_vector(from)[0], of_vector(instruction.op2_register())[0]]);
        }
        (Mnemonic::Vpinsrq, _, Some(of)) if instruction.immediate8() == 1 => {
            let high = if is_memory(2) { word() } else { of_general(instruction.op2_register()) };
            stores.set_vector(of, [of_vector(from)[0], high]);
        }
        (moves, _, Some(to)) if is_move_of_vector(moves) => {
            stores.set_vector(to, if is_memory(1) { two_words() } else { of_vector(from) });
        }
        (moves, ..) if is_move_of_vector(moves) && is_memory(0) => store(instruction, stores, &of_vector(from)),
        _ => unknown(instruction, stores, info),
    }
}

fn is_move_of_vector(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{Movaps, Movdqa, Movdqu, Movups, Vmovaps, Vmovdqa, Vmovdqu, Vmovups};
    matches!(mnemonic, Movaps | Movups | Movdqa | Movdqu | Vmovaps | Vmovups | Vmovdqa | Vmovdqu)
}

/// Stores words one after the other.
fn store(instruction: &Instruction, stores: &mut Stores<'_>, words: &[Option<u64>]) {
    if let Some(Operand::From(base, distance)) = operand(instruction) {
        stores.store_words(base, distance, words);
    }
}

fn writes(access: OpAccess) -> bool {
    !matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess | OpAccess::None)
}

/// Whatever it writes is unknown.
fn unknown(instruction: &Instruction, stores: &mut Stores<'_>, info: &mut InstructionInfoFactory) {
    let effects = info.info(instruction);
    let is_store = effects.used_memory().iter().any(|used| writes(used.access()));
    if let Some(base) = general(instruction.memory_base()).filter(|_| is_store) {
        let is_indexed = instruction.memory_index() != Register::None;
        let bytes = i64::try_from(instruction.memory_size().size()).ok().filter(|bytes| *bytes > 0 && !is_indexed);
        stores.store_other(base, bytes.map(|bytes| (instruction.memory_displacement64().cast_signed(), bytes)));
    }
    for used in effects.used_registers() {
        if !writes(used.access()) {
            continue;
        }
        let register = used.register().full_register();
        if let Some(of) = general(register) {
            stores.set(of, None);
        } else if used.register().is_vector_register() {
            stores.set_vector(register.number(), [None; 2]);
        }
    }
}
