//! The syntax trees. Nothing here is checked beyond its grammar.

use super::name_pattern::NamePattern;
use profinfer_diagnostics::{Span, Spanned};

/// A type as a probeset writes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Type {
    /// `void`; only behind a pointer, or as a function's result.
    Void,
    /// `u8` … `i64`: size in bytes (1, 2, 4, 8) and signedness.
    Int {
        /// 1, 2, 4 or 8.
        size: u32,
        /// Two's complement or unsigned.
        signed: bool,
    },
    /// `f32` (4) or `f64` (8).
    Float {
        /// 4 or 8.
        size: u32,
    },
    /// `bool`, one byte.
    Bool,
    /// `T*`.
    Pointer(Box<Type>),
    /// `T&`: passed and stored as a pointer, used as what it refers to.
    Reference(Box<Type>),
    /// `T[n]`.
    Array(Box<Type>, u64),
    /// `enum E`: a C enumeration, `int`-sized unless the target has another size.
    Enum(String),
    /// The name of a view (a struct or class whose members the spec lists).
    View(String),
    /// `char[n]`: text up to the first NUL, at most `n` bytes, stored in place.
    Chars(u64),
    /// `cstr(n)`: a pointer to NUL-terminated text of which at most `n` bytes are read.
    CStr(u64),
    /// `hex(n)`: `n` bytes shown in hexadecimal.
    Hex(u64),
    /// `std::string(n)`: at most `n` bytes.
    StdString(u64),
    /// `std::vector<T>`.
    StdVector(Box<Type>),
    /// `std::map<K, V>` and its kin.
    Map {
        /// A tree in the order of its keys; otherwise `unordered_`.
        sorted: bool,
        /// `multi`: several elements may have one key.
        multiple: bool,
        /// What its elements are found by.
        key: Box<Type>,
        /// What a key stands for; a set has none.
        value: Option<Box<Type>>,
    },
    /// `std::optional<T>`.
    Optional(Box<Type>),
    /// `std::variant<A, B>`; an alternative that is `std::monostate` is [`Type::Void`].
    Variant(Vec<Type>),
    /// `std::shared_ptr<T>`, or `std::unique_ptr<T>` without a custom deleter: used as a pointer.
    Smart {
        /// What it points to.
        to: Box<Type>,
        /// `shared_ptr`.
        shared: bool,
    },
    /// `relative<i32, T>`: a number of bytes from its own place to a `T`; used as a pointer, null where it is 0.
    Relative {
        /// The number's size in bytes.
        size: u32,
        /// The number's signedness.
        signed: bool,
        /// `-i32`: bytes back.
        back: bool,
        /// What is there.
        to: Box<Type>,
        /// No more bytes than this, either way.
        most: u64,
    },
    /// `u32:3`: some bits of an integer; a member only.
    Bits {
        /// The integer's size in bytes.
        size: u32,
        /// Its signedness.
        signed: bool,
        /// How many bits.
        bits: u32,
    },
    /// `object O`: an address that stands for a described object.
    Object(String),
}

impl Type {
    /// Whether a value of it has an address however it is passed: a function is given its address.
    pub fn is_passed_by_address(&self) -> bool {
        matches!(self, Self::StdString(_) | Self::StdVector(_) | Self::Map { .. } | Self::Smart { .. })
    }

    /// Whether it holds a value, or does not: how a function is given one depends on what that is.
    pub fn may_be_empty(&self) -> bool {
        matches!(self, Self::Optional(_) | Self::Variant(_))
    }

    /// Whether how it is laid out depends on what it holds, or on which library has it.
    pub fn is_laid_out_by_library(&self) -> bool {
        self.may_be_empty() || matches!(self, Self::Map { .. })
    }

    /// Bytes in memory of the library's types, which all libraries agree on.
    pub fn library_size(&self) -> Option<u64> {
        match self {
            Self::StdVector(_) => Some(24),
            Self::Smart { shared: true, .. } => Some(16),
            Self::Smart { shared: false, .. } => Some(8),
            _ => None,
        }
    }

    /// Changes the names of the probeset's definitions in it.
    pub fn rename(&mut self, change: &impl Fn(&mut String)) {
        match self {
            Self::Enum(name) | Self::View(name) | Self::Object(name) => change(name),
            Self::Pointer(of)
            | Self::Reference(of)
            | Self::Array(of, _)
            | Self::StdVector(of)
            | Self::Optional(of)
            | Self::Smart { to: of, .. }
            | Self::Relative { to: of, .. } => of.rename(change),
            Self::Variant(alternatives) => alternatives.iter_mut().for_each(|one| one.rename(change)),
            Self::Map { key, value, .. } => {
                key.rename(change);
                value.iter_mut().for_each(|value| value.rename(change));
            }
            Self::Void
            | Self::Int { .. }
            | Self::Float { .. }
            | Self::Bool
            | Self::Bits { .. }
            | Self::Chars(_)
            | Self::CStr(_)
            | Self::Hex(_)
            | Self::StdString(_) => {}
        }
    }

    /// Whether a value of it is a number or an address, of eight bytes at most.
    pub fn is_word(&self) -> bool {
        matches!(
            self,
            Self::Int { .. }
                | Self::Float { .. }
                | Self::Bool
                | Self::Pointer(_)
                | Self::Reference(_)
                | Self::Enum(_)
                | Self::Object(_)
        )
    }
}

/// The parts of an expression, by references of either kind.
macro_rules! children {
    ($kind:expr, $as_ref:ident, $iter:ident $(, $mutable:tt)?) => {
        match $kind {
            ExprKind::Member { base, .. }
            | ExprKind::Alternative { base, .. }
            | ExprKind::All { base }
            | ExprKind::Cast { base, .. }
            | ExprKind::Matches { base, .. }
            | ExprKind::Unary { operand: base, .. } => vec![base],
            ExprKind::Index { base, index } | ExprKind::Contains { base, key: index, .. } => vec![base, index],
            ExprKind::Slice { base, from, to, rows, .. } => {
                let ends = [Some(base), from.$as_ref(), to.$as_ref()].into_iter().flatten();
                let rows = rows.$iter().flat_map(|rows| [&$($mutable)? rows.count, &$($mutable)? rows.stride]);
                ends.map(|end| &$($mutable)? **end).chain(rows).collect()
            }
            ExprKind::Binary { left, right, .. } => vec![left, right],
            ExprKind::Conditional { condition, then, otherwise } => vec![condition, then, otherwise],
            ExprKind::List(items) => items.$iter().collect(),
            ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Text(_)
            | ExprKind::Name(_)
            | ExprKind::Return
            | ExprKind::Tid
            | ExprKind::Cpu
            | ExprKind::Match(_) => Vec::new(),
        }
    };
}

/// An expression and the place it was written at.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where it was written.
    pub span: Span,
}

impl Expr {
    /// The expressions that an expression consists of.
    pub fn children(&self) -> Vec<&Self> {
        children!(&self.kind, as_ref, iter)
    }

    /// The same, to be changed.
    pub fn children_mut(&mut self) -> Vec<&mut Self> {
        children!(&mut self.kind, as_mut, iter_mut, mut)
    }

    /// Whether something holds for it or for any part of it.
    pub fn any(&self, holds: &dyn Fn(&Self) -> bool) -> bool {
        holds(self) || self.children().into_iter().any(|child| child.any(holds))
    }

    /// How many expressions it consists of.
    pub fn parts(&self) -> usize {
        1 + self.children().into_iter().map(Self::parts).sum::<usize>()
    }

    /// A name; also a word that is one where something is called so.
    pub(super) fn as_name(&self) -> Option<&str> {
        match &self.kind {
            ExprKind::Name(name) => Some(name),
            ExprKind::Tid => Some("tid"),
            ExprKind::Cpu => Some("cpu"),
            _ => None,
        }
    }

    /// Makes an expression over a view's members one over those of a view that is written as `base`.
    pub fn see_from(&mut self, base: &Self, arrow: bool, is_member: &dyn Fn(&str) -> bool) {
        if let Some(name) = self.as_name()
            && is_member(name)
        {
            let name = Spanned::new(name.to_owned(), self.span.clone());
            self.kind = ExprKind::Member { base: Box::new(base.clone()), name, arrow };
            return;
        }
        self.children_mut().into_iter().for_each(|child| child.see_from(base, arrow, is_member));
    }

    /// Whether a function's result is in it, which is there when the function returns.
    pub fn names_result(&self) -> bool {
        self.any(&|part| part.kind == ExprKind::Return)
    }
}

/// The kinds of expression. A path is an expression made of names, members, indices, slices and casts.
#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// A number; `0x` and character constants included.
    Int(i64),
    /// A number with a fraction (analysis only).
    Float(f64),
    /// A text in double quotes (analysis only).
    Text(String),
    /// An argument, enum constant or (in the analysis) field.
    Name(String),
    /// The function's result; read when it returns.
    Return,
    /// The thread's number.
    Tid,
    /// The processor's number.
    Cpu,
    /// The text under the n-th `*` of the attach point's pattern, from 1; 0: the whole name.
    Match(u32),
    /// `base.name` or `base->name`.
    Member {
        /// The struct, or the pointer to it.
        base: Box<Expr>,
        /// The member.
        name: Spanned<String>,
        /// Written `->`.
        arrow: bool,
    },
    /// `base.get<n>`: that alternative of a variant.
    Alternative {
        /// The variant, or the pointer to it.
        base: Box<Expr>,
        /// Which one.
        number: Spanned<u64>,
        /// Written `->`.
        arrow: bool,
    },
    /// `base[index]`.
    Index {
        /// An array or pointer.
        base: Box<Expr>,
        /// Which element.
        index: Box<Expr>,
    },
    /// `base.contains(key)`: whether a map or set has it.
    Contains {
        /// The map, or the pointer to it.
        base: Box<Expr>,
        /// The key.
        key: Box<Expr>,
        /// Written `->`.
        arrow: bool,
    },
    /// `base[*]`: every element (analysis only).
    All {
        /// A list.
        base: Box<Expr>,
    },
    /// `base[a..b]`, `base[..n] max m`, `base[..] until null`.
    Slice {
        /// An array or pointer.
        base: Box<Expr>,
        /// First element, 0 where left out.
        from: Option<Box<Expr>>,
        /// One past the last element.
        to: Option<Box<Expr>>,
        /// `rows n stride s`: that many rows of such elements, each starting that many bytes after the one before.
        rows: Option<Box<Rows>>,
        /// No more elements than this are read.
        max: Option<Spanned<u64>>,
        /// Ends at the first null element.
        until_null: bool,
    },
    /// `base as TYPE`; `p as i32[.. n] max m` is a slice of `p as i32*`.
    Cast {
        /// The value that is cast.
        base: Box<Expr>,
        /// The type it is seen as.
        ty: Spanned<Type>,
    },
    /// `!x`, `-x`, `~x`.
    Unary {
        /// The operator.
        op: UnaryOp,
        /// What it is applied to.
        operand: Box<Expr>,
    },
    /// `a op b`.
    Binary {
        /// The operator.
        op: BinaryOp,
        /// Left side.
        left: Box<Expr>,
        /// Right side.
        right: Box<Expr>,
    },
    /// `a ? b : c`.
    Conditional {
        /// The condition.
        condition: Box<Expr>,
        /// Where it holds.
        then: Box<Expr>,
        /// Where it does not.
        otherwise: Box<Expr>,
    },
    /// `[a, b, c]`: so many elements.
    List(Vec<Expr>),
    /// `text ~ "regex"`: the first group of the first match, else the whole match (analysis only).
    Matches {
        /// The text.
        base: Box<Expr>,
        /// The regular expression.
        pattern: Spanned<String>,
    },
}

/// The outer dimension of a slice: `rows n stride s`.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    /// How many rows.
    pub count: Expr,
    /// Bytes from the start of one row to the start of the next.
    pub stride: Expr,
}

/// Prefix operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnaryOp {
    /// `!`
    Not,
    /// `-`
    Negate,
    /// `~`
    Complement,
}

/// Infix operators, with C's precedence and meaning on 64-bit integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BinaryOp {
    Mul,
    Div,
    Rem,
    Add,
    Sub,
    Shl,
    Shr,
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
    BitAnd,
    BitXor,
    BitOr,
    And,
    Or,
}

impl BinaryOp {
    /// As it is written, here as in C.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Mul => "*",
            Self::Div => "/",
            Self::Rem => "%",
            Self::Add => "+",
            Self::Sub => "-",
            Self::Shl => "<<",
            Self::Shr => ">>",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
            Self::Eq => "==",
            Self::Ne => "!=",
            Self::BitAnd => "&",
            Self::BitXor => "^",
            Self::BitOr => "|",
            Self::And => "&&",
            Self::Or => "||",
        }
    }
}

/// Where a probe goes: one alternative of a probe's `at`.
#[derive(Debug, Clone, PartialEq)]
pub struct AttachPoint {
    /// The place.
    pub place: Place,
    /// `until [X, Y]`: entry only; the span ends at the thread's next entry of one of these probes.
    pub until: Vec<Spanned<String>>,
    /// `waiting from Z`: the last entry of Z before the end splits work from waiting.
    pub waiting_from: Option<Spanned<String>>,
    /// The whole text.
    pub span: Span,
}

/// The kinds of place.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// `module:function(TYPE name, …) -> type` and `module:function+offset`.
    Function {
        /// A module of the probeset.
        module: Spanned<String>,
        /// The symbol: a C name, a demangled C++ name without its parameters, or a glob of either.
        pattern: Spanned<NamePattern>,
        /// What it is called with.
        signature: Signature,
        /// Bytes beyond the function's first instruction.
        offset: u64,
    },
    /// `virtual module:Base[slot](this, …)`; `Base[slot,slot]` where calls may come by several; and `Base[slot|slot]` where one
    /// of several is to be found.
    Virtual {
        /// A module of the probeset.
        module: Spanned<String>,
        /// The class whose overrides are meant.
        base: Spanned<String>,
        /// Indices into its virtual table: at least one.
        slots: Vec<u32>,
        /// All that these may be instead, these included; empty where the probeset states them.
        candidates: Vec<Vec<u32>>,
        /// What the method is called with.
        signature: Signature,
    },
    /// `usdt module:provider:name(TYPE name, …)`.
    Usdt {
        /// A module of the probeset.
        module: Spanned<String>,
        /// The provider.
        provider: Spanned<String>,
        /// The probe's name.
        name: Spanned<String>,
        /// Its arguments.
        signature: Signature,
    },
    /// `tracepoint category:name`.
    Tracepoint {
        /// The category, such as `sched`.
        category: Spanned<String>,
        /// The event.
        name: Spanned<String>,
    },
    /// `software event`: one of the kernel's counts, wherever it increases.
    Software {
        /// The event, as perf calls it, such as `major-faults`.
        event: Spanned<String>,
    },
    /// `probe X`: wherever that one is, in the same program.
    Probe(Spanned<String>),
}

impl Place {
    /// The module whose files it is in.
    pub fn module(&self) -> Option<&Spanned<String>> {
        match self {
            Self::Function { module, .. } | Self::Virtual { module, .. } | Self::Usdt { module, .. } => Some(module),
            Self::Tracepoint { .. } | Self::Software { .. } | Self::Probe(_) => None,
        }
    }

    /// The arguments that are read there.
    pub fn signature(&self) -> Option<&Signature> {
        match self {
            Self::Function { signature, .. } | Self::Virtual { signature, .. } | Self::Usdt { signature, .. } => {
                Some(signature)
            }
            Self::Tracepoint { .. } | Self::Software { .. } | Self::Probe(_) => None,
        }
    }

    /// The same place in each of the slots that it may be.
    pub fn of_each_slot(self) -> Vec<Self> {
        match &self {
            Self::Virtual { candidates, .. } if !candidates.is_empty() => {
                let of_slots = |slots: &Vec<u32>| match self.clone() {
                    Self::Virtual { module, base, candidates, signature, .. } => {
                        Self::Virtual { module, base, slots: slots.clone(), candidates, signature }
                    }
                    other => other,
                };
                candidates.iter().map(of_slots).collect()
            }
            _ => vec![self],
        }
    }

    /// `ns::Base[3|4]`, of a method whose slot is to be found: what a lock file calls it.
    pub fn open_slot(&self) -> Option<String> {
        match self {
            Self::Virtual { base, candidates, .. } if !candidates.is_empty() => {
                let slots: Vec<String> = candidates.iter().map(|slots| listed(slots)).collect();
                Some(format!("{}[{}]", base.value, slots.join("|")))
            }
            _ => None,
        }
    }

    /// The slot, of a virtual method; of several the first.
    pub fn slot(&self) -> Option<u32> {
        if let Self::Virtual { slots, .. } = self { slots.first().copied() } else { None }
    }

    /// Whether it is a function's entry, which has a return; other instructions have none.
    pub fn is_call(&self) -> bool {
        matches!(self, Self::Function { offset: 0, .. } | Self::Virtual { .. })
    }
}

/// Slots as the language writes them.
pub fn listed(slots: &[u32]) -> String {
    slots.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// A function's arguments and result as far as the spec reads them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Signature {
    /// The arguments in order; `this` is a `void*` named `this` unless a type is given.
    pub params: Vec<Param>,
    /// `…`: there are more that the spec does not read.
    pub variadic: bool,
    /// What it returns; `None` where the spec does not say.
    pub returns: Option<Spanned<Type>>,
    /// `-> memory`: it returns a class whose address the caller passes in a hidden argument.
    pub in_memory: bool,
}

/// One argument.
#[derive(Debug, Clone, PartialEq)]
pub struct Param {
    /// The name used in paths; `None` where it is only there to hold its place.
    pub name: Option<Spanned<String>>,
    /// Its type.
    pub ty: Spanned<Type>,
}

impl std::fmt::Display for NamePattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Void => f.write_str("void"),
            Self::Int { size, signed } => write!(f, "{}{}", if *signed { 'i' } else { 'u' }, size * 8),
            Self::Float { size } => write!(f, "f{}", size * 8),
            Self::Bool => f.write_str("bool"),
            Self::Pointer(to) => write!(f, "{to}*"),
            Self::Reference(to) => write!(f, "{to}&"),
            Self::Array(of, n) => write!(f, "{of}[{n}]"),
            Self::Enum(name) => write!(f, "enum {name}"),
            Self::View(name) => f.write_str(name),
            Self::Chars(n) => write!(f, "char[{n}]"),
            Self::CStr(n) => write!(f, "cstr({n})"),
            Self::Hex(n) => write!(f, "hex({n})"),
            Self::StdString(n) => write!(f, "std::string({n})"),
            Self::StdVector(of) => write!(f, "std::vector<{of}>"),
            Self::Map { sorted, multiple, key, value } => {
                let (unordered, multi) =
                    (if *sorted { "" } else { "unordered_" }, if *multiple { "multi" } else { "" });
                match value {
                    Some(value) => write!(f, "std::{unordered}{multi}map<{key}, {value}>"),
                    None => write!(f, "std::{unordered}{multi}set<{key}>"),
                }
            }
            Self::Optional(of) => write!(f, "std::optional<{of}>"),
            Self::Variant(alternatives) => {
                let shown = |one: &Self| if *one == Self::Void { "std::monostate".to_owned() } else { one.to_string() };
                write!(f, "std::variant<{}>", alternatives.iter().map(shown).collect::<Vec<_>>().join(", "))
            }
            Self::Smart { to, shared } => write!(f, "std::{}_ptr<{to}>", if *shared { "shared" } else { "unique" }),
            Self::Relative { size, signed, back, to, .. } => {
                let (minus, kind) = (if *back { "-" } else { "" }, if *signed { 'i' } else { 'u' });
                write!(f, "relative<{minus}{kind}{}, {to}>", size * 8)
            }
            Self::Bits { size, signed, bits } => {
                write!(f, "{}{}:{bits}", if *signed { 'i' } else { 'u' }, size * 8)
            }
            Self::Object(name) => write!(f, "object {name}"),
        }
    }
}
