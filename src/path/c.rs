//! Checked expressions to C for the kernel. Every expression becomes the body of a small function of its own, which
//! returns 0, or -1 where the target's memory cannot be read; the calls it makes are those of `bpf-runtime/`.

use super::ast::{BinaryOp, Type, UnaryOp};
use super::check::fixed_size;
use super::checked::{Base, Checked, Memory, Node, Part, Term};

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
    /// Bit at which a member of some bits begins, in the integer at its offset.
    fn shift(&mut self, view: &str, member: &str) -> String;
    /// How the library that the target was built with lays out strings.
    fn strings(&mut self) -> String;
    /// The value that an argument had at the entry, where that is not read again.
    fn kept(&mut self, _argument: usize) -> Option<String> {
        None
    }
    /// A function that reads this piece of memory for all expressions that need it, where there is one.
    fn piece(&mut self, _memory: &Checked) -> Option<String> {
        None
    }
}

/// The body of a function that stores the expression's value in `*field`.
pub fn store(checked: &Checked, symbols: &mut dyn Symbols) -> Vec<String> {
    let mut body = Body::new(symbols);
    body.store(checked);
    body.lines
}

/// The body of a function that returns 1 where the expression is not zero, else 0.
pub fn condition(checked: &Checked, symbols: &mut dyn Symbols) -> Vec<String> {
    let mut body = Body::new(symbols);
    let value = body.value(checked);
    body.line(format!("return {value} != 0;"));
    body.lines
}

/// Bytes from the start of the object that is described to a value that lies in it, where that needs no code.
pub fn offset_in_object(checked: &Checked, symbols: &mut dyn Symbols) -> Option<String> {
    let Node::Memory(Memory { base: Base::Object, terms }) = &checked.node else { return None };
    if matches!(checked.ty, Type::CStr(_) | Type::StdString(_)) {
        return None; // what is read is elsewhere
    }
    let mut body = Body::new(symbols);
    let offset = body.offset(terms);
    body.lines.is_empty().then_some(offset)
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

struct Body<'s> {
    symbols: &'s mut dyn Symbols,
    lines: Vec<String>,
    depth: usize,
    temporaries: usize,
}

impl<'s> Body<'s> {
    fn new(symbols: &'s mut dyn Symbols) -> Self {
        Self { symbols, lines: Vec::new(), depth: 0, temporaries: 0 }
    }

    fn line(&mut self, text: impl AsRef<str>) {
        self.lines.push(format!("{}{}", "\t".repeat(self.depth), text.as_ref()));
    }

    fn temporary(&mut self) -> String {
        self.temporaries += 1;
        format!("v{}", self.temporaries)
    }

    fn store(&mut self, checked: &Checked) {
        match (&checked.node, &checked.ty) {
            (Node::Slice { start, count, max, part: Some(part), .. }, element) => {
                self.store_parts(start, count.as_deref(), part, *max, element);
            }
            (Node::Slice { start, count, rows, max, part: None }, element) => {
                let rows = rows.as_ref().map(|(count, stride)| (&**count, &**stride));
                self.store_list(start, count.as_deref(), rows, *max, element);
            }
            (Node::List(items), Type::Array(of, _)) => {
                for (at, item) in items.iter().enumerate() {
                    let value = self.value(item);
                    self.line(format!("(*field)[{at}] = ({}){value};", c_type(of)));
                }
                self.line("return 0;");
            }
            (_, Type::CStr(bound)) => {
                let pointer = self.value(checked);
                self.line(format!("return pf_read_text(field, {bound}, (__u64){pointer});"));
            }
            (Node::Memory(memory), Type::StdString(bound)) => {
                let (address, kind) = (self.address(memory), self.symbols.strings());
                self.line(format!("return pf_read_string(call, field, {bound}, {address}, {kind});"));
            }
            // A word is read on the stack, whence it is copied: the kernel checks any other destination at length.
            (Node::Memory(memory), ty) if !ty.is_word() || memory.base == Base::Object => {
                let call = self.read(memory, "field", "sizeof(*field)");
                self.line(format!("return {call};"));
            }
            (_, ty) => {
                let value = self.value(checked);
                self.line(format!("*field = ({}){value};", c_type(ty)));
                self.line("return 0;");
            }
        }
    }

    /// Elements into the record's tail; `field` has `count`, `total` and `elements`.
    fn store_list(
        &mut self,
        start: &Memory,
        count: Option<&Checked>,
        rows: Option<(&Checked, &Checked)>,
        max: u64,
        element: &Type,
    ) {
        let size = fixed_size(element).unwrap_or(8);
        let address = self.address(start);
        match (count, rows) {
            (Some(count), Some((rows, stride))) => {
                let (count, rows, stride) = (self.value(count), self.value(rows), self.value(stride));
                self.line(format!("return pf_rows(call, field, {count}, {rows}, {stride}, {address});"));
            }
            (Some(count), None) => {
                let count = self.value(count);
                self.line(format!("return pf_read_list(field, field->elements, {size}, {max}, {count}, {address});"));
            }
            (None, _) => {
                self.line(format!("return pf_read_list_until_null(field, field->elements, {max}, {address});"))
            }
        }
    }

    /// A part of each element into the record's tail.
    fn store_parts(&mut self, start: &Memory, count: Option<&Checked>, part: &Part, max: u64, element: &Type) {
        let size = fixed_size(element).unwrap_or(8);
        let (address, offset, stride) = (self.address(start), self.offset(&part.terms), self.size(&part.of));
        let count = count.map_or_else(|| max.to_string(), |count| self.value(count));
        self.line(format!(
            "return pf_read_parts(field, field->elements, {size}, {max}, {count}, {address} + {offset}, {stride});"
        ));
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

    /// The address of a place behind a pointer. Places within an argument or the object have none of their own: they
    /// are reached through the address that those were read from.
    fn address(&mut self, memory: &Memory) -> String {
        let base = match &memory.base {
            Base::Pointer(pointer) => format!("(__u64){}", self.value(pointer)),
            Base::Argument(index) => {
                let place = self.symbols.argument(*index);
                format!("pf_argument_address(call, {place})")
            }
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
                    if let Some(bound) = bound {
                        self.line(format!("if ((__u64){at} >= {bound})"));
                        self.line("\treturn -1;");
                    }
                    parts.push(format!("{at} * {stride}"));
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
            ty => ty.library_size().or_else(|| fixed_size(ty)).unwrap_or(1).to_string(),
        }
    }

    /// A C expression of type `__s64` without side effects.
    fn value(&mut self, checked: &Checked) -> String {
        match &checked.node {
            Node::Int(value) if *value < 0 => format!("({value}LL)"),
            Node::Int(value) => value.to_string(),
            Node::Constant { enumeration, name } => format!("(__s64){}", self.symbols.constant(enumeration, name)),
            Node::Argument(index) => {
                let value = match self.symbols.kept(*index) {
                    Some(kept) => kept,
                    None => format!("pf_argument(call, {})", self.symbols.argument(*index)),
                };
                format!("(__s64)({}){value}", c_type(&checked.ty))
            }
            Node::Return => format!("(__s64)({})pf_result(call)", c_type(&checked.ty)),
            Node::Tid => "(__s64)call->thread->tid".to_owned(),
            Node::Cpu => "(__s64)bpf_get_smp_processor_id()".to_owned(),
            Node::Memory(memory) => {
                let temporary = self.temporary();
                self.line(format!("{} {temporary};", c_type(&checked.ty)));
                let call = match self.symbols.piece(checked) {
                    Some(piece) => format!("{piece}(call, &{temporary})"),
                    None => self.read(memory, &format!("&{temporary}"), &format!("sizeof({temporary})")),
                };
                self.line(format!("if ({call})"));
                self.line("\treturn -1;");
                format!("(__s64){temporary}")
            }
            Node::Bits { storage, view, member, bits, signed } => {
                let stored = self.value(storage);
                let shift = self.symbols.shift(view, member);
                // Shifted to the top and back: with a sign where the bits have one.
                let (back, unused) = (if *signed { "__s64" } else { "__u64" }, 64 - bits);
                format!("(__s64)(({back})((__u64){stored} >> ({shift} & 63) << {unused}) >> {unused})")
            }
            Node::Relative { place, size, signed, back, most } => {
                let (at, distance) = (self.temporary(), self.temporary());
                let ty = c_type(&Type::Int { size: *size, signed: *signed });
                let address = self.address(place);
                self.line(format!("__u64 {at} = {address};"));
                self.line(format!("{ty} {distance};"));
                self.line(format!("if (pf_read(&{distance}, sizeof({distance}), {at}))"));
                self.line("\treturn -1;");
                let minus = if *back { "-" } else { "" };
                self.line(format!("if (pf_is_far(call, {distance}, {most}))"));
                self.line("\treturn -1;");
                format!("pf_relative({at}, {minus}(__s64){distance})")
            }
            Node::VectorSize { vector, of } => {
                let read = self.vector(vector, of);
                format!("(__s64){read}.count")
            }
            Node::VectorElement { vector, of, index } => {
                if let Some(piece) = self.symbols.piece(checked) {
                    let temporary = self.temporary();
                    self.line(format!("__u64 {temporary};"));
                    self.line(format!("if ({piece}(call, &{temporary}))"));
                    self.line("\treturn -1;");
                    return format!("(__s64){temporary}");
                }
                let stride = self.size(of);
                let read = self.vector(vector, of);
                let Some(index) = index else { return format!("(__s64){read}.begin") };
                let index = self.value(index);
                self.line(format!("if ((__u64)({index}) >= {read}.count)"));
                self.line("\treturn -1;");
                format!("(__s64)({read}.begin + ({index}) * ({stride}))")
            }
            Node::Address(memory) => format!("(__s64)({})", self.address(memory)),
            Node::Unary(op, operand) => {
                let operand = self.value(operand);
                match op {
                    UnaryOp::Not => format!("(__s64)!({operand})"),
                    UnaryOp::Negate => format!("(-({operand}))"),
                    UnaryOp::Complement => format!("(~({operand}))"),
                }
            }
            Node::Binary(op @ (BinaryOp::And | BinaryOp::Or), left, right) => self.short_circuit(*op, left, right),
            Node::Binary(op, left, right) => {
                let (left, right) = (self.value(left), self.value(right));
                binary(*op, &left, &right)
            }
            Node::Conditional(condition, then, otherwise) => {
                let result = self.temporary();
                self.line(format!("__s64 {result};"));
                let condition = self.value(condition);
                self.line(format!("if ({condition}) {{"));
                self.assign_in_block(&result, then);
                self.line("} else {");
                self.assign_in_block(&result, otherwise);
                self.line("}");
                result
            }
            // A list or a capture is no number; the type checker has refused it.
            Node::Slice { .. } | Node::Match(_) | Node::List(_) => "0".to_owned(),
        }
    }

    /// The temporary that holds a vector's ends.
    fn vector(&mut self, vector: &Memory, of: &Type) -> String {
        let (address, stride) = (self.address(vector), self.size(of));
        let temporary = self.temporary();
        self.line(format!("struct pf_vector {temporary};"));
        self.line(format!("if (pf_read_vector(call, &{temporary}, {address}, {stride}))"));
        self.line("\treturn -1;");
        temporary
    }

    fn assign_in_block(&mut self, result: &str, value: &Checked) {
        self.depth += 1;
        let value = self.value(value);
        self.line(format!("{result} = {value};"));
        self.depth -= 1;
    }

    /// The right side is read only where the left side leaves it open: it may be behind a null pointer otherwise.
    fn short_circuit(&mut self, op: BinaryOp, left: &Checked, right: &Checked) -> String {
        let result = self.temporary();
        let left = self.value(left);
        self.line(format!("__s64 {result} = {left} != 0;"));
        self.line(if op == BinaryOp::And { format!("if ({result}) {{") } else { format!("if (!{result}) {{") });
        self.depth += 1;
        let right = self.value(right);
        self.line(format!("{result} = {right} != 0;"));
        self.depth -= 1;
        self.line("}");
        result
    }
}

fn binary(op: BinaryOp, left: &str, right: &str) -> String {
    let operator = match op {
        BinaryOp::Div => return format!("pf_divide({left}, {right})"),
        BinaryOp::Rem => return format!("pf_remainder({left}, {right})"),
        // A shift by 64 or more has no meaning in C; the processor's is to use the low six bits.
        BinaryOp::Shl => return format!("(__s64)((__u64)({left}) << (({right}) & 63))"),
        BinaryOp::Shr => return format!("(({left}) >> (({right}) & 63))"),
        other => other.symbol(),
    };
    format!("(({left}) {operator} ({right}))")
}
