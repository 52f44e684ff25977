//! Expressions with resolved names and types: what the type checker returns, and C is written from.

use super::ast::{BinaryOp, Type, UnaryOp};
use profinfer_diagnostics::Span;

/// An expression with its type. A value of up to eight bytes, or a stretch of memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// What it is.
    pub node: Node,
    /// Its type.
    pub ty: Type,
    /// Where it was written.
    pub span: Span,
}

/// The kinds of checked expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// A number.
    Int(i64),
    /// A constant of an enumeration, with its value from the target.
    Constant {
        /// The enumeration.
        enumeration: String,
        /// The constant.
        name: String,
    },
    /// An argument that is a number or pointer.
    Argument(usize),
    /// An argument of the enclosing call, by its place among those that the scope has of it.
    Enclosing(usize),
    /// The function's result.
    Return,
    /// The thread's number.
    Tid,
    /// The processor's number.
    Cpu,
    /// A capture of the attach point: constant at the site, without cost in the kernel.
    Match(u32),
    /// The value stored at a place, of the type's size.
    Memory(Memory),
    /// A range of elements whose number is determined when it is read.
    Slice {
        /// The first element.
        start: Memory,
        /// How many there are.
        count: Count,
        /// How many rows of so many there are, and the bytes from one to the next.
        rows: Option<(Box<Checked>, Box<Checked>)>,
        /// How many are read at most, of one row or of all.
        max: u64,
        /// Of each element only this part is read: `elements[..n].member`.
        part: Option<Part>,
    },
    /// Some bits of the integer that is stored at the member's place.
    Bits {
        /// The integer.
        storage: Box<Checked>,
        /// The view.
        view: String,
        /// The member.
        member: String,
        /// How many bits.
        bits: u32,
        /// They are in two's complement.
        signed: bool,
    },
    /// A pointer that is stored as a distance from its own place.
    Relative {
        /// Where the number is.
        place: Memory,
        /// The number's size.
        size: u32,
        /// The number's signedness.
        signed: bool,
        /// It counts back.
        back: bool,
        /// It is no more than this, either way.
        most: u64,
    },
    /// How many elements a `std::vector` has.
    VectorSize {
        /// The vector.
        vector: Memory,
        /// What it holds.
        of: Type,
    },
    /// A pointer to an element of a `std::vector`; without an index to the first, which need not be there.
    VectorElement {
        /// The vector.
        vector: Memory,
        /// What it holds.
        of: Type,
        /// Which element; one that the vector has not got cannot be read.
        index: Option<Box<Checked>>,
    },
    /// What a map or set of the C++ library has.
    Map {
        /// Where it is.
        place: Memory,
        /// Its class.
        of: Type,
        /// What is asked.
        what: InMap,
    },
    /// Whether a class that may be empty holds a value, which one, or where that is.
    Held {
        /// Where the class is.
        place: Memory,
        /// The class.
        of: Type,
        /// What is asked.
        what: Held,
    },
    /// A pointer to one of the `elements` of a view.
    Element {
        /// The pointer to the first.
        first: Box<Checked>,
        /// How many there are.
        count: Box<Checked>,
        /// Their type.
        of: Type,
        /// Which one; one that is not there cannot be read.
        index: Box<Checked>,
    },
    /// The address of a place.
    Address(Memory),
    /// A number as its own type has it, converted to another type.
    Cast(Box<Checked>),
    /// Prefix operator.
    Unary(UnaryOp, Box<Checked>),
    /// Infix operator.
    Binary(BinaryOp, Box<Checked>, Box<Checked>),
    /// `a ? b : c`.
    Conditional(Box<Checked>, Box<Checked>, Box<Checked>),
    /// Numbers or addresses of one type, one after the other.
    List(Vec<Checked>),
}

/// How many elements a range has.
#[derive(Debug, Clone, PartialEq)]
pub enum Count {
    /// This number.
    Number(Box<Checked>),
    /// Those before the first null.
    UntilNull {
        /// There may be some beyond those that are read at most.
        more: bool,
    },
}

impl Count {
    /// The number, where there is one.
    pub fn number(&self) -> Option<&Checked> {
        match self {
            Self::Number(number) => Some(number),
            Self::UntilNull { .. } => None,
        }
    }
}

/// What is asked of a map or set.
#[derive(Debug, Clone, PartialEq)]
pub enum InMap {
    /// How many elements it has.
    Size,
    /// Whether it has the key, 0 or 1.
    Contains(Key),
    /// A pointer to what the key stands for.
    Value(Key),
}

/// A key that is looked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Key {
    /// A text.
    Text(String),
    /// A number or an address.
    Number(Box<Checked>),
}

/// What is asked of a class that may be empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Whether it has a value, 0 or 1.
    HasValue,
    /// A pointer to the value.
    Value,
    /// The number of the alternative that it has.
    Index,
    /// A pointer to the alternative of this number.
    Alternative(u64),
}

/// A number within a class of the C++ library that depends on the sizes of what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClassPart {
    /// Where it has whether it has a value, or which.
    Tag,
    /// Its size.
    Size,
    /// How the elements of a map are reached, as in `profinfer_schema::bpf::map_bits`.
    Walk,
}

impl Checked {
    /// Calls `each` with this expression and every one inside it.
    pub fn visit(&self, each: &mut dyn FnMut(&Self)) {
        each(self);
        for child in self.children() {
            child.visit(each);
        }
    }

    /// The expressions right inside it.
    pub fn children(&self) -> Vec<&Self> {
        match &self.node {
            Node::Memory(memory)
            | Node::Relative { place: memory, .. }
            | Node::VectorSize { vector: memory, .. }
            | Node::Held { place: memory, .. }
            | Node::Address(memory) => memory.children(),
            Node::Element { first, count, index, .. } => vec![first, count, index],
            Node::Map { place, what, .. } => {
                let mut children = place.children();
                if let InMap::Contains(Key::Number(key)) | InMap::Value(Key::Number(key)) = what {
                    children.push(key);
                }
                children
            }
            Node::VectorElement { vector, index, .. } => {
                let mut children = vector.children();
                children.extend(index.as_deref());
                children
            }
            Node::Bits { storage, .. } => vec![storage],
            Node::Slice { start, count, rows, .. } => {
                let mut children = start.children();
                children.extend(count.number());
                children.extend(rows.iter().flat_map(|(count, stride)| [&**count, &**stride]));
                children
            }
            Node::Cast(operand) | Node::Unary(_, operand) => vec![operand],
            Node::Binary(_, left, right) => vec![left, right],
            Node::Conditional(condition, then, otherwise) => vec![condition, then, otherwise],
            Node::List(items) => items.iter().collect(),
            _ => Vec::new(),
        }
    }
}

impl Checked {
    /// Whether it is what a C++ reference refers to.
    pub(super) fn is_referred_to(&self) -> bool {
        match &self.node {
            Node::Memory(Memory { base: Base::Pointer(address), terms }) => {
                terms.is_empty() && matches!(address.ty, Type::Reference(_))
            }
            _ => false,
        }
    }

    /// The place that it is read from, and the type of the elements there, where their size is needed.
    pub fn place(&self) -> Option<(&Memory, Option<&Type>)> {
        match &self.node {
            Node::Memory(memory) | Node::Slice { start: memory, .. } => Some((memory, None)),
            Node::Relative { place, .. } | Node::Address(place) | Node::Held { place, .. } => Some((place, None)),
            Node::Map { place, .. } => Some((place, None)),
            Node::VectorSize { vector, of } | Node::VectorElement { vector, of, .. } => Some((vector, Some(of))),
            _ => None,
        }
    }
}

impl Memory {
    fn children(&self) -> Vec<&Checked> {
        let pointer = match &self.base {
            Base::Pointer(pointer) => Some(&**pointer),
            _ => None,
        };
        let mut children: Vec<&Checked> = pointer.into_iter().collect();
        for term in &self.terms {
            if let Term::Element { index, .. } = term {
                children.push(index);
            }
        }
        children
    }
}

/// A part of each element of a slice.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The elements' type, whose size is from one to the next; or the map whose elements they are.
    pub of: Type,
    /// Of the elements of a map, what their keys stand for, and not the keys.
    pub values: bool,
    /// Members on the way to it.
    pub terms: Vec<Term>,
}

/// A place in the target's memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    /// Where it starts.
    pub base: Base,
    /// The summand.
    pub terms: Vec<Term>,
}

/// What a place is relative to.
#[derive(Debug, Clone, PartialEq)]
pub enum Base {
    /// An argument passed by value.
    Argument(usize),
    /// An address.
    Pointer(Box<Checked>),
    /// The object that is being described.
    Object,
}

/// A number of bytes added to a place.
#[derive(Debug, Clone, PartialEq)]
pub enum Term {
    /// The member's offset in the view.
    Member {
        /// The view.
        view: String,
        /// The member.
        member: String,
    },
    /// An index times the size of an element.
    Element {
        /// The element's type.
        of: Type,
        /// Which one.
        index: Box<Checked>,
        /// The array's length, if the index is not a constant within it.
        bound: Option<u64>,
    },
}
