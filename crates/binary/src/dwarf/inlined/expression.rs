//! DWARF expressions, as far as a probe can follow them: a register, memory at a register, a register and some bytes, a
//! constant. Anything else (pieces, values at the caller's entry, addresses) is no location.

use super::Reader;
use gimli::{Encoding, Expression, Operation};

/// Operations of one expression.
const MAX_OPERATIONS: usize = 64;

/// What offsets are counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    /// A register's value and some bytes.
    Register(u16, i64),
    /// The canonical frame address and some bytes.
    Frame(i64),
}

/// The value of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    /// The value is in a register.
    Register(u16),
    /// The value is in memory there.
    Memory(Base),
    /// The value is that sum.
    Sum(Base),
    /// The value is a constant.
    Constant(i64),
}

impl Base {
    fn plus(self, bytes: i64) -> Option<Self> {
        Some(match self {
            Self::Register(register, offset) => Self::Register(register, offset.checked_add(bytes)?),
            Self::Frame(offset) => Self::Frame(offset.checked_add(bytes)?),
        })
    }
}

/// An entry of the expression's stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Item {
    Constant(i64),
    Sum(Base),
    /// The eight bytes in memory there.
    Loaded(Base),
}

/// What the frame base of a function is.
pub(super) fn frame_base(expression: Expression<Reader<'_>>, encoding: Encoding) -> Option<Base> {
    match value(expression, encoding, None)? {
        // Here, and here only, a register means its contents.
        Value::Register(register) => Some(Base::Register(register, 0)),
        Value::Memory(base) => Some(base),
        _ => None,
    }
}

/// The value of an expression; `frame` is the function's frame base.
pub(super) fn value(expression: Expression<Reader<'_>>, encoding: Encoding, frame: Option<Base>) -> Option<Value> {
    let mut operations = expression.operations(encoding);
    let mut stack: Vec<Item> = Vec::new();
    for count in 0.. {
        let operation = operations.next().ok()?;
        let Some(operation) = operation else { break };
        if count >= MAX_OPERATIONS {
            return None;
        }
        let last = |operations: &mut gimli::OperationIter<_>| matches!(operations.next(), Ok(None));
        match operation {
            Operation::Register { register } => {
                return (count == 0 && last(&mut operations)).then_some(Value::Register(register.0));
            }
            Operation::ImplicitValue { data } => {
                let constant = constant(data.slice())?;
                return (count == 0 && last(&mut operations)).then_some(Value::Constant(constant));
            }
            Operation::StackValue => {
                let value = match stack.pop()? {
                    Item::Constant(constant) => Value::Constant(constant),
                    Item::Sum(base) => Value::Sum(base),
                    Item::Loaded(base) => Value::Memory(base),
                };
                return last(&mut operations).then_some(value);
            }
            other => step(&other, frame, &mut stack)?,
        }
    }
    // What is left is the address of the value.
    match stack.pop()? {
        Item::Sum(base) => Some(Value::Memory(base)),
        Item::Constant(_) | Item::Loaded(_) => None,
    }
}

fn step(operation: &Operation<Reader<'_>>, frame: Option<Base>, stack: &mut Vec<Item>) -> Option<()> {
    let item = match *operation {
        Operation::Nop => return Some(()),
        Operation::UnsignedConstant { value } => Item::Constant(value.cast_signed()),
        Operation::SignedConstant { value } => Item::Constant(value),
        Operation::RegisterOffset { register, offset, base_type } if base_type.0 == 0 => {
            Item::Sum(Base::Register(register.0, offset))
        }
        Operation::FrameOffset { offset } => Item::Sum(frame?.plus(offset)?),
        Operation::CallFrameCFA => Item::Sum(Base::Frame(0)),
        Operation::PlusConstant { value } => plus(stack.pop()?, value.cast_signed())?,
        Operation::Plus => match (stack.pop()?, stack.pop()?) {
            (Item::Constant(constant), other) | (other, Item::Constant(constant)) => plus(other, constant)?,
            _ => return None,
        },
        Operation::Minus => match (stack.pop()?, stack.pop()?) {
            (Item::Constant(constant), other) => plus(other, constant.checked_neg()?)?,
            _ => return None,
        },
        Operation::Deref { base_type, size: 8, space: false } if base_type.0 == 0 => match stack.pop()? {
            Item::Sum(base) => Item::Loaded(base),
            _ => return None,
        },
        _ => return None,
    };
    stack.push(item);
    Some(())
}

fn plus(item: Item, bytes: i64) -> Option<Item> {
    match item {
        Item::Constant(constant) => Some(Item::Constant(constant.wrapping_add(bytes))),
        Item::Sum(base) => Some(Item::Sum(base.plus(bytes)?)),
        Item::Loaded(_) => None,
    }
}

/// A little-endian number of at most eight bytes.
fn constant(bytes: &[u8]) -> Option<i64> {
    if bytes.is_empty() || bytes.len() > 8 {
        return None;
    }
    let mut eight = [0; 8];
    eight.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(i64::from_le_bytes(eight))
}
