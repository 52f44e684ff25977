//! Checked expressions to C for the kernel. Every expression becomes one C expression, or one call that fills a member
//! of `record`. It stands in a macro of `bpf-runtime/program.h` that has the label `pf_unreadable`: a read that fails
//! jumps there. `call` is the hit of the probe.

use super::ast::{BinaryOp, Type, UnaryOp};
use super::checked::{Base, Checked, ClassPart, Count, Held, InMap, Key, Memory, Node, Part, Term};
use super::numbers::{fixed_size, without_sign};

/// Names of the constants that are filled in when the object is loaded.
pub trait Symbols {
    /// Bytes from the start of a view to its member.
    fn offset(&mut self, view: &str, member: &str) -> String;
    /// Bytes of a view.
    fn size(&mut self, view: &str) -> String;
    /// An enumeration's constant.
    fn constant(&mut self, enumeration: &str, name: &str) -> String;
    /// Where an argument is.
    fn argument(&mut self, index: usize) -> String;
    /// The value of an argument of the enclosing call.
    fn enclosing(&mut self, index: usize) -> String;
    /// Bit at which a member of some bits begins, in the integer at its offset.
    fn shift(&mut self, view: &str, member: &str) -> String;
    /// How the library that the target was built with lays out strings.
    fn strings(&mut self) -> String;
    /// A number within a class of the library.
    fn class(&mut self, of: &Type, part: ClassPart) -> String;
    /// The value that an argument had at the entry, where that is not read again.
    fn saved(&mut self, _argument: usize) -> Option<String> {
        None
    }
    /// The name of this piece of memory, where several expressions need it and it is read once.
    fn piece(&mut self, _memory: &Checked) -> Option<String> {
        None
    }
}

/// How a member of a record gets its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Store {
    /// It is assigned this number.
    Value(String),
    /// This call writes it; not 0: it cannot be read.
    Fill(String),
    /// Its elements are assigned these numbers.
    Elements(Vec<String>),
}

/// How `record->MEMBER` gets the expression's value.
pub fn store(checked: &Checked, member: &str, symbols: &mut dyn Symbols) -> Store {
    let mut writer = Writer { symbols };
    let (at, size) = (format!("&record->{member}"), format!("sizeof(record->{member})"));
    match (&checked.node, &checked.ty) {
        (Node::Slice { start, count, max, part: Some(part), .. }, element) => {
            Store::Fill(writer.parts(&at, start, count, part, *max, element))
        }
        (Node::Slice { start, count, rows, max, part: None }, element) => {
            let rows = rows.as_ref().map(|(count, stride)| (&**count, &**stride));
            Store::Fill(writer.list(&at, start, count, rows, *max, element))
        }
        (Node::List(items), Type::Array(..)) => Store::Elements(items.iter().map(|item| writer.value(item)).collect()),
        (_, Type::CStr(bound)) => Store::Fill(format!("pf_read_text({at}, {bound}, {})", writer.value(checked))),
        (Node::Memory(memory), Type::StdString(bound)) => {
            let (address, kind) = (writer.address(memory), writer.symbols.strings());
            Store::Fill(format!("pf_read_string(call, {at}, {bound}, {address}, {kind})"))
        }
        // A word is read on the stack, whence it is copied: the kernel checks any other destination at length.
        (Node::Memory(memory), ty) if !ty.is_word() || memory.base == Base::Object => {
            Store::Fill(writer.read(memory, &at, &size))
        }
        _ => Store::Value(bare(&writer.value(checked))),
    }
}

/// The expression's value as a 64-bit number with sign.
pub fn value(checked: &Checked, symbols: &mut dyn Symbols) -> String {
    bare(&Writer { symbols }.value(checked))
}

/// Without the parentheses around all of it: what it stands in has its own.
fn bare(text: &str) -> String {
    let inner = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).filter(|_| is_enclosed(text));
    inner.unwrap_or(text).to_owned()
}

/// Bytes from the start of the object that is described to a value that lies in it, where that needs no code.
pub fn offset_in_object(checked: &Checked, symbols: &mut dyn Symbols) -> Option<String> {
    let Node::Memory(Memory { base: Base::Object, terms }) = &checked.node else { return None };
    if matches!(checked.ty, Type::CStr(_) | Type::StdString(_)) {
        return None; // what is read is elsewhere
    }
    let is_constant = |term: &Term| match term {
        Term::Member { .. } => true,
        Term::Element { index, bound, .. } => {
            index.node == Node::Int(0) || bound.is_none() && matches!(index.node, Node::Int(_))
        }
    };
    terms.iter().all(is_constant).then(|| Writer { symbols }.offset(terms))
}

/// The C type of a value in a record.
pub fn c_type(ty: &Type) -> &'static str {
    match ty {
        Type::Int { size: 1, signed: true } => "__s8",
        Type::Int { size: 1, signed: false } | Type::Bool => "__u8",
        Type::Int { size: 2, signed: true } => "__s16",
        Type::Int { size: 2, signed: false } => "__u16",
        Type::Int { size: 4, signed: true } | Type::Enum(_) => "__s32",
        Type::Int { size: 4, signed: false } | Type::Float { size: 4 } => "__u32",
        Type::Int { signed: true, .. } => "__s64",
        _ => "__u64",
    }
}

struct Writer<'s> {
    symbols: &'s mut dyn Symbols,
}

impl Writer<'_> {
    /// Elements into the record's tail; the member has `count`, `total` and `elements`.
    fn list(
        &mut self,
        at: &str,
        start: &Memory,
        count: &Count,
        rows: Option<(&Checked, &Checked)>,
        max: u64,
        element: &Type,
    ) -> String {
        let size = fixed_size(element).unwrap_or(8);
        let (address, elements) = (self.address(start), format!("{}.elements", at.trim_start_matches('&')));
        let count = match count {
            Count::Number(count) => self.value(count),
            Count::UntilNull { more } => {
                return format!("pf_read_list_until_null({at}, {elements}, {max}, {}, {address})", u8::from(*more));
            }
        };
        match rows {
            Some((rows, stride)) => {
                let (rows, stride) = (self.value(rows), self.value(stride));
                format!("pf_rows(call, {at}, {count}, {rows}, {stride}, {address})")
            }
            None => format!("pf_read_list({at}, {elements}, {size}, {max}, {count}, {address})"),
        }
    }

    /// A part of each element into the record's tail.
    fn parts(&mut self, at: &str, start: &Memory, count: &Count, part: &Part, max: u64, element: &Type) -> String {
        let size = fixed_size(element).unwrap_or(8);
        if let Type::Map { .. } = part.of {
            return self.entries(at, start, part, max, size);
        }
        let (address, offset, stride) = (self.address(start), self.offset(&part.terms), self.size(&part.of));
        let count = count.number().map_or_else(|| max.to_string(), |count| self.value(count));
        let elements = format!("{}.elements", at.trim_start_matches('&'));
        format!("pf_read_parts({at}, {elements}, {size}, {max}, {count}, {address} + {offset}, {stride})")
    }

    /// Keys or values of a map, or parts of them, into the record's tail.
    fn entries(&mut self, at: &str, start: &Memory, part: &Part, max: u64, size: u64) -> String {
        let (address, terms, how) =
            (self.address(start), self.offset(&part.terms), self.symbols.class(&part.of, ClassPart::Walk));
        let elements = format!("{}.elements", at.trim_start_matches('&'));
        let value = if part.values { format!(" + PF_MAP_VALUE({how})") } else { String::new() };
        let offset = format!("PF_MAP_ELEMENT({how}){value} + {terms}");
        let offset = offset.strip_suffix(" + 0").unwrap_or(&offset);
        format!("pf_read_entries(call, {at}, {elements}, {size}, {max}, {address}, {how}, {offset})")
    }

    /// A call that reads a place of memory into `into`.
    fn read(&mut self, memory: &Memory, into: &str, size: &str) -> String {
        match &memory.base {
            Base::Argument(index) => {
                let place = self.symbols.argument(*index);
                let offset = self.offset(&memory.terms);
                format!("pf_argument_read(call, {place}, {offset}, {into}, {size})")
            }
            Base::Object => {
                let offset = self.offset(&memory.terms);
                format!("pf_object_read(call, {offset}, {into}, {size})")
            }
            Base::Pointer(_) => {
                let address = self.address(memory);
                format!("pf_read({into}, {size}, {address})")
            }
        }
    }

    /// The address of a place behind a pointer. Places within an argument or the object have none: they
    /// are reached through the address that those were read from.
    fn address(&mut self, memory: &Memory) -> String {
        let base = match &memory.base {
            Base::Pointer(pointer) => self.value(pointer),
            Base::Argument(index) => format!("pf_argument_address(call, {})", self.symbols.argument(*index)),
            Base::Object => "call->object".to_owned(),
        };
        match self.offset(&memory.terms).as_str() {
            "0" => base,
            offset => format!("{base} + {offset}"),
        }
    }

    fn offset(&mut self, terms: &[Term]) -> String {
        let mut parts = Vec::new();
        for term in terms {
            match term {
                Term::Member { view, member } => parts.push(self.symbols.offset(view, member)),
                Term::Element { index, .. } if index.node == Node::Int(0) => {}
                Term::Element { of, index, bound } => {
                    let stride = self.size(of);
                    let at = self.value(index);
                    parts.push(match bound {
                        Some(bound) => format!("PF_INDEX({at}, {bound}) * {stride}"),
                        None => format!("{at} * {stride}"),
                    });
                }
            }
        }
        if parts.is_empty() { "0".to_owned() } else { parts.join(" + ") }
    }

    fn size(&mut self, ty: &Type) -> String {
        match ty {
            Type::View(view) => self.symbols.size(view),
            Type::Array(of, n) => format!("{n} * {}", self.size(of)),
            Type::StdString(_) => format!("pf_string_bytes({})", self.symbols.strings()),
            Type::Optional(_) | Type::Variant(_) | Type::Map { .. } => self.symbols.class(ty, ClassPart::Size),
            ty => ty.library_size().or_else(|| fixed_size(ty)).unwrap_or(1).to_string(),
        }
    }

    /// A C expression of type `__s64` that writes nothing.
    fn value(&mut self, checked: &Checked) -> String {
        let ty = c_type(&checked.ty);
        match &checked.node {
            Node::Int(value) if *value < 0 => format!("({value}LL)"),
            // A number without suffix would be of 32 bits, and so what is computed of such numbers alone.
            Node::Int(value) => format!("{value}LL"),
            Node::Constant { enumeration, name } => {
                format!("PF_KNOWN({})", self.symbols.constant(enumeration, name))
            }
            Node::Argument(index) => match self.symbols.saved(*index) {
                Some(saved) => format!("(__s64)({ty}){saved}"),
                None => format!("PF_ARGUMENT({ty}, {})", self.symbols.argument(*index)),
            },
            Node::Enclosing(index) => format!("(__s64)({ty}){}", self.symbols.enclosing(*index)),
            Node::Return => format!("(__s64)({ty})pf_result(call)"),
            Node::Tid => "(__s64)call->thread->tid".to_owned(),
            Node::Cpu => "(__s64)bpf_get_smp_processor_id()".to_owned(),
            Node::Memory(memory) => match self.symbols.piece(checked) {
                Some(piece) => piece,
                None => self.word(ty, memory),
            },
            Node::Bits { storage, view, member, bits, signed } => {
                let stored = self.value(storage);
                let shift = self.symbols.shift(view, member);
                // Shifted to the top and back: with a sign where the bits have one.
                let (back, unused) = (if *signed { "__s64" } else { "__u64" }, 64 - bits);
                format!("(__s64)(({back})((__u64){stored} >> ({shift} & 63) << {unused}) >> {unused})")
            }
            Node::Relative { place, size, signed, back, most } => {
                let distance = c_type(&Type::Int { size: *size, signed: *signed });
                let minus = if *back { "-" } else { "" };
                format!("PF_RELATIVE({distance}, {}, {minus}, {most})", self.address(place))
            }
            Node::VectorSize { vector, of } => {
                let (address, stride) = (self.address(vector), self.size(of));
                format!("PF_VECTOR_SIZE({address}, {stride})")
            }
            Node::VectorElement { vector, of, index } => {
                if let Some(piece) = self.symbols.piece(checked) {
                    return piece;
                }
                let (address, stride) = (self.address(vector), self.size(of));
                match index {
                    Some(index) => format!("PF_VECTOR_ELEMENT({address}, {stride}, {})", self.value(index)),
                    None => format!("PF_VECTOR_BEGIN({address}, {stride})"),
                }
            }
            Node::Held { place, of, what } => match self.symbols.piece(checked) {
                Some(piece) => piece,
                None => self.held(place, of, *what),
            },
            Node::Map { place, of, what } => match self.symbols.piece(checked) {
                Some(piece) => piece,
                None => self.in_map(place, of, what),
            },
            Node::Element { first, count, of, index } => match self.symbols.piece(checked) {
                Some(piece) => piece,
                None => {
                    let stride = self.size(of);
                    let (first, count, index) = (self.value(first), self.value(count), self.value(index));
                    format!("PF_ELEMENT({first}, {count}, {stride}, {index})")
                }
            },
            Node::Address(memory) => format!("(__s64)({})", self.address(memory)),
            Node::Cast(number) => match ty {
                "__s64" | "__u64" => self.value(number),
                ty => format!("(__s64)({ty}){}", self.operand(number)),
            },
            Node::Unary(op, operand) => {
                let operand = self.value(operand);
                match op {
                    UnaryOp::Not => format!("(__s64)!({operand})"),
                    UnaryOp::Negate => format!("(-({operand}))"),
                    UnaryOp::Complement => format!("(~({operand}))"),
                }
            }
            // C reads the right side only where the left side leaves it open, too: it may be behind a null pointer.
            Node::Binary(op, left, right) => {
                let sign = if without_sign(left, right) { "__u64" } else { "__s64" };
                let (left, right) = (self.operand(left), self.operand(right));
                binary(*op, &left, &right, sign)
            }
            Node::Conditional(condition, then, otherwise) => {
                let (condition, then, otherwise) =
                    (self.operand(condition), self.operand(then), self.operand(otherwise));
                format!("({condition} ? (__s64){then} : {otherwise})")
            }
            // A list or a capture is no number; the type checker has refused it.
            Node::Slice { .. } | Node::Match(_) | Node::List(_) => "0".to_owned(),
        }
    }

    /// What a class that may be empty has.
    fn held(&mut self, place: &Memory, of: &Type, what: Held) -> String {
        let (address, tag) = (self.address(place), self.symbols.class(of, ClassPart::Tag));
        let alternatives = if let Type::Variant(alternatives) = of { alternatives.len() } else { 0 };
        match what {
            Held::HasValue => format!("PF_HAS_VALUE({address}, {tag})"),
            Held::Value => format!("PF_OPTIONAL_VALUE({address}, {tag})"),
            Held::Index => format!("PF_VARIANT_INDEX({address}, {tag}, {alternatives})"),
            Held::Alternative(number) => format!("PF_ALTERNATIVE({address}, {tag}, {alternatives}, {number})"),
        }
    }

    /// What a map or set has.
    fn in_map(&mut self, place: &Memory, of: &Type, what: &InMap) -> String {
        let (address, how) = (self.address(place), self.symbols.class(of, ClassPart::Walk));
        match what {
            InMap::Size => format!("PF_MAP_SIZE({address}, {how})"),
            InMap::Contains(key) => format!("PF_LOOK_UP({address}, {how}, {})", self.wanted(of, key)),
            InMap::Value(key) => format!("PF_MAPPED({address}, {how}, {})", self.wanted(of, key)),
        }
    }

    /// The call that says which key is looked for.
    fn wanted(&mut self, of: &Type, key: &Key) -> String {
        match key {
            Key::Text(text) => {
                let word = |bytes: &[u8]| {
                    let word = bytes.iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
                    format!("{word:#x}")
                };
                let words = text.as_bytes().chunks(8).map(word).collect::<Vec<_>>().join(", ");
                let words = if words.is_empty() { "0" } else { &words };
                format!("PF_WANT_TEXT({}, {}, {words})", self.symbols.strings(), text.len())
            }
            Key::Number(number) => {
                let of = if let Type::Map { key, .. } = of { fixed_size(key) } else { None };
                format!("pf_want_number(call, {}, {})", of.unwrap_or(8), self.value(number))
            }
        }
    }

    /// A value that stands beside an operator.
    fn operand(&mut self, checked: &Checked) -> String {
        let value = self.value(checked);
        let uncast = value.strip_prefix("(__s64)").unwrap_or(&value);
        let is_name = uncast.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if is_name || is_enclosed(&value) { value } else { format!("({value})") }
    }

    /// A number in memory.
    fn word(&mut self, ty: &str, memory: &Memory) -> String {
        match &memory.base {
            Base::Argument(index) => {
                let place = self.symbols.argument(*index);
                format!("PF_GET_PART({ty}, {place}, {})", self.offset(&memory.terms))
            }
            Base::Object => format!("PF_GET_OBJECT({ty}, {})", self.offset(&memory.terms)),
            Base::Pointer(_) => format!("PF_GET({ty}, {})", self.address(memory)),
        }
    }
}

/// Whether a text is a call, or in parentheses, from its first to its last character.
fn is_enclosed(text: &str) -> bool {
    let name = text.find('(').unwrap_or(0);
    if !text.get(..name).unwrap_or_default().chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return false;
    }
    let mut depth = 0_usize;
    for (at, c) in text.char_indices().skip_while(|(at, _)| *at < name) {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            // `(__s64)x` ends its first parenthesis before its end.
            return at + 1 == text.len();
        }
    }
    false
}

/// `sign`: the type that both are seen as where it matters whether numbers have a sign.
fn binary(op: BinaryOp, left: &str, right: &str, sign: &str) -> String {
    let operator = match (op, sign) {
        (BinaryOp::Div, "__u64") => return format!("PF_DIVIDE_UNSIGNED({left}, {right})"),
        (BinaryOp::Rem, "__u64") => return format!("PF_REMAINDER_UNSIGNED({left}, {right})"),
        (BinaryOp::Div, _) => return format!("PF_DIVIDE({left}, {right})"),
        (BinaryOp::Rem, _) => return format!("PF_REMAINDER({left}, {right})"),
        // A shift by 64 or more has no meaning in C; the processor's is to use the low six bits.
        (BinaryOp::Shl, _) => return format!("(__s64)((__u64){left} << ({right} & 63))"),
        // A comparison is a number of 32 bits in C.
        (BinaryOp::Shr, "__u64") => return format!("(__s64)((__u64){left} >> ({right} & 63))"),
        (BinaryOp::Shr, _) => return format!("((__s64){left} >> ({right} & 63))"),
        (BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge, "__u64") => {
            return format!("((__u64){left} {} (__u64){right})", op.symbol());
        }
        (other, _) => other.symbol(),
    };
    format!("({left} {operator} {right})")
}

#[cfg(test)]
mod tests {
    use super::is_enclosed;

    #[test]
    fn only_what_binds_by_itself_goes_without_parentheses() {
        for text in ["(a + b)", "PF_GET(__s32, (x) + 1)", "f()"] {
            assert!(is_enclosed(text), "{text}");
        }
        for text in ["(__s64)x", "(a) + (b)", "PF_GET(a) + PF_GET(b)", "-x", "(__s64)(a + b)"] {
            assert!(!is_enclosed(text), "{text}");
        }
    }
}
