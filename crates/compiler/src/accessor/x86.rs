//! Straight-line x86-64 code.

use super::{MAX_INSTRUCTIONS, Machine, Shown, Until, Value};
use iced_x86::{
    Decoder, DecoderOptions, FastFormatter, FlowControl, Instruction, InstructionInfoFactory, MemorySize, Mnemonic,
    OpAccess, OpKind, Register,
};

/// Registers of integer arguments, in order.
const ARGUMENTS: [Register; 6] =
    [Register::RDI, Register::RSI, Register::RDX, Register::RCX, Register::R8, Register::R9];

/// Follows code up to its return, or to the first load.
pub(super) fn follow(code: &[u8], argument: usize, until: Until) -> Result<Shown, String> {
    let argument = ARGUMENTS.get(argument).ok_or("its argument is not in a register")?;
    let mut machine = Machine::new(number(*argument).unwrap_or_default(), number(Register::RSP).unwrap_or_default());
    let mut info = InstructionInfoFactory::new();
    for instruction in Decoder::with_ip(64, code, 0, DecoderOptions::NONE).iter().take(MAX_INSTRUCTIONS) {
        if instruction.is_invalid() {
            return Err("an invalid instruction".to_owned());
        }
        match instruction.flow_control() {
            FlowControl::Next => {}
            FlowControl::Return => return Ok(machine.shown(number(Register::RAX).unwrap_or_default())),
            _ => return Err(text(&instruction)),
        }
        step(&instruction, &mut machine, &mut info).ok_or_else(|| text(&instruction))?;
        if machine.is_done(until) {
            return Ok(machine.shown(number(Register::RAX).unwrap_or_default()));
        }
    }
    Err("it does not return soon".to_owned())
}

fn text(instruction: &Instruction) -> String {
    let mut text = String::new();
    FastFormatter::new().format(instruction, &mut text);
    text
}

/// The number of a general register, whatever part of it is meant.
fn number(register: Register) -> Option<usize> {
    let full = register.full_register();
    full.is_gpr64().then(|| full.number())
}

/// The address that an instruction's memory operand means.
fn address(instruction: &Instruction, machine: &Machine) -> Value {
    if instruction.memory_index() != Register::None || instruction.segment_prefix() != Register::None {
        return Value::Unknown;
    }
    match number(instruction.memory_base()) {
        Some(base) if instruction.memory_base() != Register::RIP => {
            machine.sum(base, instruction.memory_displacement64().cast_signed())
        }
        _ => Value::Unknown,
    }
}

fn loaded_bytes(instruction: &Instruction) -> u32 {
    let size = instruction.memory_size();
    if size == MemorySize::Unknown { 0 } else { u32::try_from(size.size()).unwrap_or_default() }
}

/// `None` where the code is not believed.
fn step(instruction: &Instruction, machine: &mut Machine, info: &mut InstructionInfoFactory) -> Option<()> {
    let is_register = |operand: u32| instruction.op_kind(operand) == OpKind::Register;
    let is_memory = |operand: u32| instruction.op_kind(operand) == OpKind::Memory;
    match instruction.mnemonic() {
        Mnemonic::Endbr64 | Mnemonic::Nop | Mnemonic::Cdqe => return Some(()),
        Mnemonic::Push if is_register(0) => {
            let value = machine.get(number(instruction.op0_register())?);
            let top = machine.sum(machine.stack_pointer, -8);
            machine.set(machine.stack_pointer, top.clone());
            return machine.store(&top, value).then_some(());
        }
        Mnemonic::Pop if is_register(0) => {
            let top = machine.get(machine.stack_pointer);
            let value = machine.load(&top, 8);
            machine.set(machine.stack_pointer, machine.sum(machine.stack_pointer, 8));
            machine.set(number(instruction.op0_register())?, value);
            return Some(());
        }
        Mnemonic::Leave => {
            let frame = machine.get(number(Register::RBP)?);
            machine.set(machine.stack_pointer, frame.clone());
            let value = machine.load(&frame, 8);
            machine.set(machine.stack_pointer, machine.sum(machine.stack_pointer, 8));
            machine.set(number(Register::RBP)?, value);
            return Some(());
        }
        Mnemonic::Lea => {
            let value = address(instruction, machine);
            let is_whole = instruction.op0_register().is_gpr64();
            machine.set(number(instruction.op0_register())?, if is_whole { value } else { Value::Unknown });
            return Some(());
        }
        Mnemonic::Add | Mnemonic::Sub if is_register(0) && instruction.op0_register().is_gpr64() => {
            if let Some(bytes) = immediate(instruction) {
                let bytes = if instruction.mnemonic() == Mnemonic::Sub { -bytes } else { bytes };
                let register = number(instruction.op0_register())?;
                machine.set(register, machine.sum(register, bytes));
                return Some(());
            }
        }
        Mnemonic::Mov if is_register(0) && is_register(1) && instruction.op0_register().is_gpr64() => {
            let value = machine.get(number(instruction.op1_register())?);
            machine.set(number(instruction.op0_register())?, value);
            return Some(());
        }
        Mnemonic::Mov if is_memory(0) => {
            let value = match is_register(1) && instruction.op1_register().is_gpr64() {
                true => machine.get(number(instruction.op1_register())?),
                false => Value::Unknown,
            };
            let to = address(instruction, machine);
            return machine.store(&to, value).then_some(());
        }
        Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd if is_memory(1) => {
            let from = address(instruction, machine);
            let value = machine.load(&from, loaded_bytes(instruction));
            machine.set(number(instruction.op0_register())?, value);
            return Some(());
        }
        _ => {}
    }
    others(instruction, machine, info)
}

fn immediate(instruction: &Instruction) -> Option<i64> {
    let is_immediate = matches!(
        instruction.op1_kind(),
        OpKind::Immediate8 | OpKind::Immediate8to64 | OpKind::Immediate32to64 | OpKind::Immediate32
    );
    is_immediate.then(|| instruction.immediate(1).cast_signed())
}

/// Computes something: what it reads is noted, what it writes is unknown.
fn others(instruction: &Instruction, machine: &mut Machine, info: &mut InstructionInfoFactory) -> Option<()> {
    let used = info.info(instruction);
    let writes = |access: OpAccess| {
        matches!(access, OpAccess::Write | OpAccess::ReadWrite | OpAccess::CondWrite | OpAccess::ReadCondWrite)
    };
    if used.used_memory().iter().any(|memory| writes(memory.access())) {
        return None;
    }
    let written: Vec<usize> = used
        .used_registers()
        .iter()
        .filter(|used| writes(used.access()))
        .filter_map(|used| number(used.register()))
        .collect();
    if !used.used_memory().is_empty() {
        let from = address(instruction, machine);
        let _ = machine.load(&from, loaded_bytes(instruction));
    }
    if written.contains(&machine.stack_pointer) {
        return None;
    }
    for register in written {
        machine.set(register, Value::Unknown);
    }
    Some(())
}
