//! Offsets from the engine's own code: a small function that returns a member has its offset in an instruction. Only
//! straight-line code from the argument to the return is believed; anything else is refused with the instruction that was
//! the reason.

mod arm64;
mod x86;

use profinfer_binary::Arch;
use std::collections::BTreeMap;

/// Instructions of one function.
const MAX_INSTRUCTIONS: usize = 64;
/// Bytes of one function.
pub(crate) const MAX_BYTES: usize = 512;
/// Pointers followed from the argument.
const MAX_DEPTH: usize = 4;
/// Largest offset.
const MAX_OFFSET: i64 = 1 << 20;

/// What a register has, as far as it comes from the argument.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Value {
    /// Something else.
    #[default]
    Unknown,
    /// An address: the argument, followed through pointers at these offsets, and bytes from there.
    Address(Chain),
    /// An address on the stack: bytes from the stack pointer at the entry.
    Frame(i64),
}

/// Offsets of the pointers that are followed from the argument, and bytes from the last one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Chain {
    loads: Vec<i64>,
    offset: i64,
    /// Bytes of the last load.
    size: u32,
}

/// What a function returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Offsets of the pointers that are followed from the argument.
    pub(crate) loads: Vec<i64>,
    /// Bytes from the last pointer to the returned address.
    pub(crate) offset: i64,
    /// Bytes of the last load.
    pub(crate) size: u32,
}

/// What the code of a function shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    /// What it returns, if that comes from the argument.
    pub(crate) returned: Option<Found>,
    /// The first thing that it reads of the argument: the offset, and the bytes.
    pub(crate) first_load: Option<(i64, u32)>,
}

/// The registers and the stack while a function is followed.
struct Machine {
    registers: [Value; 64],
    stack: BTreeMap<i64, Value>,
    first_load: Option<(i64, u32)>,
    /// The number of the register of the stack pointer.
    stack_pointer: usize,
}

impl Machine {
    fn new(argument: usize, stack_pointer: usize) -> Self {
        let mut machine = Self {
            registers: std::array::from_fn(|_| Value::Unknown),
            stack: BTreeMap::new(),
            first_load: None,
            stack_pointer,
        };
        machine.set(argument, Value::Address(Chain::default()));
        machine.set(stack_pointer, Value::Frame(0));
        machine
    }

    fn get(&self, register: usize) -> Value {
        self.registers.get(register).cloned().unwrap_or_default()
    }

    fn set(&mut self, register: usize, value: Value) {
        if let Some(slot) = self.registers.get_mut(register) {
            *slot = value;
        }
    }

    /// A register's value and some bytes.
    fn sum(&self, register: usize, bytes: i64) -> Value {
        match self.get(register) {
            Value::Address(mut chain) => match chain.offset.checked_add(bytes) {
                Some(offset) => {
                    chain.offset = offset;
                    Value::Address(chain)
                }
                None => Value::Unknown,
            },
            Value::Frame(at) => at.checked_add(bytes).map_or(Value::Unknown, Value::Frame),
            Value::Unknown => Value::Unknown,
        }
    }

    /// What is read from an address.
    fn load(&mut self, address: &Value, size: u32) -> Value {
        match address {
            Value::Frame(at) => self.stack.get(at).cloned().unwrap_or_default(),
            Value::Address(chain) => {
                if chain.loads.is_empty() && self.first_load.is_none() {
                    self.first_load = Some((chain.offset, size));
                }
                if chain.loads.len() >= MAX_DEPTH {
                    return Value::Unknown;
                }
                let mut loads = chain.loads.clone();
                loads.push(chain.offset);
                Value::Address(Chain { loads, offset: 0, size })
            }
            Value::Unknown => Value::Unknown,
        }
    }

    /// Whether a write there leaves the target's memory alone.
    fn store(&mut self, address: &Value, value: Value) -> bool {
        match address {
            Value::Frame(at) => {
                self.stack.insert(*at, value);
                true
            }
            _ => false,
        }
    }

    /// Whether everything that is sought was seen.
    fn is_done(&self, until: Until) -> bool {
        until == Until::FirstLoad && self.first_load.is_some()
    }

    fn shown(self, result: usize) -> Shown {
        let is_plausible = |found: &Found| {
            let offsets = || found.loads.iter().chain(std::iter::once(&found.offset));
            offsets().all(|offset| (0..=MAX_OFFSET).contains(offset))
        };
        let returned = match self.get(result) {
            Value::Address(Chain { loads, offset, size }) => Some(Found { loads, offset, size }).filter(is_plausible),
            _ => None,
        };
        Shown { returned, first_load: self.first_load.filter(|(offset, _)| (0..=MAX_OFFSET).contains(offset)) }
    }
}

/// Which part of a function is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// Its return.
    Return,
    /// The first thing that it reads of the argument: what comes after that, branches too, does not matter.
    FirstLoad,
}

/// Follows a function from its first instruction, by one of its first arguments, counted from 0.
///
/// # Errors
/// The instruction that is the reason why it is not believed.
pub(crate) fn follow(arch: Arch, code: &[u8], argument: usize, until: Until) -> Result<Shown, String> {
    let code = code.get(..MAX_BYTES).unwrap_or(code);
    match arch {
        Arch::X86_64 => x86::follow(code, argument, until),
        Arch::Aarch64 => arm64::follow(code, argument, until),
    }
}

#[cfg(test)]
mod tests;
