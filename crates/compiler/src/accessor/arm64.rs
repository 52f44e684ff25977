//! Straight-line arm64 code.

use super::{MAX_INSTRUCTIONS, Machine, Shown, Until, Value};
use yaxpeax_arch::{Decoder, U8Reader};
use yaxpeax_arm::armv8::a64::InstDecoder;

const STACK_POINTER: usize = 31;
/// Vector registers, whose contents are of no interest.
const VECTOR: usize = 32;

/// Integer arguments that are passed in registers.
const ARGUMENTS: usize = 8;

/// Follows code up to its return, or to the first load.
pub(super) fn follow(code: &[u8], argument: usize, until: Until) -> Result<Shown, String> {
    if argument >= ARGUMENTS {
        return Err("its argument is not in a register".to_owned());
    }
    let mut machine = Machine::new(argument, STACK_POINTER);
    for word in code.chunks_exact(4).take(MAX_INSTRUCTIONS) {
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        if word & 0xffff_fc1f == 0xd65f_0000 {
            return Ok(machine.shown(0));
        }
        step(word, &mut machine).ok_or_else(|| text(word))?;
        if machine.is_done(until) {
            return Ok(machine.shown(0));
        }
    }
    Err("it does not return soon".to_owned())
}

fn text(word: u32) -> String {
    let bytes = word.to_le_bytes();
    let decoded = InstDecoder::default().decode(&mut U8Reader::new(&bytes));
    decoded.map_or_else(|_| format!("{word:#010x}"), |instruction| instruction.to_string())
}

fn bits(word: u32, from: u32, count: u32) -> u32 {
    word >> from & ((1 << count) - 1)
}

/// A number of so many bits with its sign.
fn signed(value: u32, count: u32) -> i64 {
    i64::from(((value << (32 - count)) as i32) >> (32 - count))
}

/// `None` where the code is not believed.
fn step(word: u32, machine: &mut Machine) -> Option<()> {
    let (rd, rn) = (bits(word, 0, 5) as usize, bits(word, 5, 5) as usize);
    // Hints: nop, bti, pac, aut.
    if word & 0xffff_f01f == 0xd503_201f {
        return Some(());
    }
    // Branches, exceptions, system registers.
    if word & 0x1c00_0000 == 0x1400_0000 {
        return None;
    }
    if matches!(word & 0xff80_0000, 0x9100_0000 | 0xd100_0000) {
        let bytes = i64::from(bits(word, 10, 12)) << if bits(word, 22, 1) == 1 { 12 } else { 0 };
        let value = machine.sum(rn, if word >> 30 & 1 == 1 { -bytes } else { bytes });
        machine.set(rd, value);
        return Some(());
    }
    // mov Xd, Xm
    if word & 0xffe0_ffe0 == 0xaa00_03e0 {
        let value = machine.get(bits(word, 16, 5) as usize);
        machine.set(rd, value);
        return Some(());
    }
    let is_vector = bits(word, 26, 1) == 1;
    if word & 0x3a00_0000 == 0x2800_0000 {
        return pair(word, is_vector, machine);
    }
    if word & 0x3a00_0000 == 0x3800_0000 {
        return one(word, is_vector, machine);
    }
    // Loads by other ways, atomics.
    if word & 0x0a00_0000 == 0x0800_0000 {
        return None;
    }
    // Something is computed. Vector instructions may write a general register: all of them make it unknown.
    machine.set(rd, Value::Unknown);
    Some(())
}

/// A load or store of one register.
fn one(word: u32, is_vector: bool, machine: &mut Machine) -> Option<()> {
    let (rt, rn) = (bits(word, 0, 5) as usize, bits(word, 5, 5) as usize);
    let (size, operation) = (bits(word, 30, 2), bits(word, 22, 2));
    let log = if is_vector { (operation >> 1) << 2 | size } else { size };
    let bytes = 1_u32 << log;
    let offset = if word & 0x3b00_0000 == 0x3900_0000 || word & 0x3f00_0000 == 0x3d00_0000 {
        i64::from(bits(word, 10, 12)) << log
    } else if bits(word, 21, 1) == 0 && bits(word, 10, 2) == 0 {
        signed(bits(word, 12, 9), 9)
    } else {
        // With a register as index, or written back.
        return None;
    };
    let at = machine.sum(rn, offset);
    let is_store = if is_vector { operation & 1 == 0 } else { operation == 0 };
    if is_store {
        let value = if is_vector || bytes < 8 { Value::Unknown } else { machine.get(rt) };
        return machine.store(&at, value).then_some(());
    }
    let value = machine.load(&at, bytes);
    machine.set(if is_vector { VECTOR + rt % 32 } else { rt }, if is_vector { Value::Unknown } else { value });
    Some(())
}

/// A load or store of two.
fn pair(word: u32, is_vector: bool, machine: &mut Machine) -> Option<()> {
    let (first, second) = (bits(word, 0, 5) as usize, bits(word, 10, 5) as usize);
    let (rn, mode) = (bits(word, 5, 5) as usize, bits(word, 23, 2));
    let log = if is_vector { 2 + bits(word, 30, 2) } else { 2 + bits(word, 31, 1) };
    let bytes = 1_u32 << log;
    let distance = signed(bits(word, 15, 7), 7) << log;
    // After the access, before it, or not at all.
    let (at, after) = match mode {
        1 => (0, Some(distance)),
        3 => (distance, Some(distance)),
        _ => (distance, None),
    };
    let (low, high) = (machine.sum(rn, at), machine.sum(rn, at + i64::from(bytes)));
    if bits(word, 22, 1) == 0 {
        let value = |machine: &Machine, register| if is_vector { Value::Unknown } else { machine.get(register) };
        let (one, other) = (value(machine, first), value(machine, second));
        (machine.store(&low, one) && machine.store(&high, other)).then_some(())?;
    } else {
        let (one, other) = (machine.load(&low, bytes), machine.load(&high, bytes));
        if !is_vector {
            machine.set(first, one);
            machine.set(second, other);
        }
    }
    if let Some(distance) = after {
        let moved = machine.sum(rn, distance);
        machine.set(rn, moved);
    }
    Some(())
}
