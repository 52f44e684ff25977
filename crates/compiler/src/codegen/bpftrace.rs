//! The same probes as a script for bpftrace, where that language allows: to inspect a target with another tool, and
//! to compare what both see. It shares no code with the generated C beyond the plan, so that one checks the other.

use super::source::comment;
use crate::place::is_absent_value;
use crate::{Action, ArgumentIn, PlacedSite, Placement, ProbePlan, Program, RelocationKind, Shape, argument_in};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use profinfer_probeset::Probeset;
use profinfer_probeset::path::{Base, Checked, Memory, Node, Place, Term, Type, UnaryOp, fixed_size};

use profinfer_binary::{Arch, Target};
use profinfer_schema::Role;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Values that one line of output may have: they pass over a stack of 512 bytes.
const MOST_VALUES: usize = 24;
/// Texts of one line, each of which takes 64 bytes of that stack.
const MOST_TEXTS: usize = 4;
/// Bytes of a text, by default.
const TEXT_BYTES: u64 = 64;
/// Elements of an array that are written one by one.
const MOST_ELEMENTS: u64 = 16;

/// Writes the script of a plan on one target. What bpftrace cannot express is left out, each with a diagnostic.
///
/// # Errors
/// `G001` where nothing at all can be expressed.
pub fn bpftrace(
    plan: &ProbePlan,
    probeset: &Probeset,
    placement: &Placement,
    target: &dyn Target,
) -> Result<(String, Diagnostics), Diagnostics> {
    let mut script = Script { plan, placement, target, problems: Diagnostics::new(), told: BTreeSet::new() };
    let mut text = format!(
        "// Probeset {}, by profinfer. A line a hit: PROBE, thread, instant in ns, fields; PROBE.end with the duration.\n\
         // Run it with a process number, or with 0 and -c COMMAND.\n",
        comment(&probeset.name)
    );
    let mut blocks = 0;
    for (index, program) in plan.programs.iter().enumerate() {
        let block = script.program(index, program);
        blocks += usize::from(!block.is_empty());
        text.push_str(&block);
    }
    if blocks == 0 {
        let nothing =
            Diagnostic::error(Code::NotInBpftrace, "none of the probes can be expressed in bpftrace's language");
        script.problems.push(nothing.hint("`profinfer record` has them all"));
        return Err(script.problems);
    }
    Ok((text, script.problems))
}

struct Script<'a> {
    plan: &'a ProbePlan,
    placement: &'a Placement,
    target: &'a dyn Target,
    problems: Diagnostics,
    told: BTreeSet<String>,
}

/// Values of a line: the format, and what fills it in.
#[derive(Default)]
struct Line {
    format: String,
    values: Vec<String>,
    texts: usize,
}

/// A file's path, and a symbol of it.
type SymbolOfFile = (String, String);

/// Why a value cannot be expressed.
type Expressed<T> = Result<T, &'static str>;

impl Script<'_> {
    fn tell(&mut self, what: &str, why: &str, span: &profinfer_diagnostics::Span) {
        let message = format!("{what} is not part of the script: {why}");
        if self.told.insert(message.clone()) {
            self.problems.push(Diagnostic::warning(Code::NotInBpftrace, message).at(span));
        }
    }

    fn program(&mut self, index: usize, program: &Program) -> String {
        let name = program.probes.join(", ");
        if !matches!(program.place, Place::Function { .. }) {
            let why = match program.place {
                Place::Virtual { .. } | Place::Usdt { .. } => "it is at no function by name",
                _ => "it is at an event of the kernel",
            };
            self.tell(&format!("`{name}`"), why, &program.span);
            return String::new();
        }
        let placement = self.placement;
        let sites: Vec<&PlacedSite> = placement.sites.iter().filter(|site| site.program == index).collect();
        let mut text = String::new();
        // Functions of one text share a block; where names of functions are values, each has its own.
        let mut groups: Vec<(String, String, Vec<SymbolOfFile>)> = Vec::new();
        for site in sites {
            let place = match self.place(program, site) {
                Ok(place) => place,
                Err(why) => {
                    let what = format!("`{name}` at {}", site.site.place());
                    self.tell(&what, why, &program.span);
                    continue;
                }
            };
            let (entry, ends) = self.bodies(index, program, site);
            match groups.iter_mut().find(|(a, b, _)| *a == entry && *b == ends) {
                Some((_, _, places)) => places.push(place),
                None => groups.push((entry, ends, vec![place])),
            }
        }
        for (entry, ends, places) in groups {
            let join = |prefix: &str| {
                let places: Vec<String> =
                    places.iter().map(|(path, symbol)| format!("{prefix}:{path}:\"{symbol}\"")).collect();
                places.join(",\n")
            };
            if entry.is_empty() && ends.is_empty() {
                continue;
            }
            let _ = write!(text, "\n{} /$1 == 0 || pid == $1/\n{{\n{entry}}}\n", join("uprobe"));
            if !ends.is_empty() {
                let _ = write!(text, "\n{} /$1 == 0 || pid == $1/\n{{\n{ends}}}\n", join("uretprobe"));
            }
        }
        text
    }

    /// The file and the symbol of a site.
    fn place(&self, program: &Program, site: &PlacedSite) -> Expressed<(String, String)> {
        if site.site.inlined_into.is_some() {
            return Err("bpftrace finds no inlined copies");
        }
        let Place::Function { pattern, offset, .. } = &program.place else { return Err("it is at no function") };
        if *offset != 0 {
            return Err("it is at an instruction within its function");
        }
        let entry = site.site.file_offset.checked_sub(site.site.function_offset).ok_or("its place is absurd")?;
        let file = self.target.files().iter().position(|file| file.path == site.path);
        let functions = file.map_or_else(Vec::new, |file| self.target.functions(file, &pattern.value));
        let Some(function) = functions.iter().find(|function| function.file_offset == entry) else {
            return Err("its file has no symbol there");
        };
        let plain = |text: &str, more: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
        };
        let path = site.path.to_string_lossy().into_owned();
        if !plain(&function.symbol, "_.$@") || !plain(&path, "_./+-@=~,") {
            return Err("its name has characters that a script cannot have");
        }
        Ok((path, function.symbol.clone()))
    }

    /// What happens at a site's entry, and at its return.
    fn bodies(&mut self, index: usize, program: &Program, site: &PlacedSite) -> (String, String) {
        let mut entry = String::new();
        let mut end = String::new();
        for ended in &program.ends {
            entry.push_str(&self.end_of_open(ended));
        }
        if program.notes_entry {
            let _ = writeln!(entry, "\t@{}_last[tid] = nsecs;", map_name(&program.probes[0]));
        }
        for action in &program.actions {
            let (at_entry, at_return) = self.action(index, program, site, action);
            entry.push_str(&at_entry);
            end.push_str(&at_return);
        }
        (entry, end)
    }

    /// Ends an open span of a probe that lasts until this entry.
    fn end_of_open(&self, probe: &str) -> String {
        let name = map_name(probe);
        let waits =
            self.plan.programs.iter().flat_map(|program| &program.actions).find_map(|action| match &action.shape {
                Shape::Until { waiting_from } if action.probe == probe => waiting_from.clone(),
                _ => None,
            });
        let mut text = format!("\tif (@{name}_start[tid]) {{\n");
        match waits {
            None => {
                let _ = writeln!(text, "\t\tprintf(\"{probe}.end\\t%d\\t%llu\\n\", tid, nsecs - @{name}_start[tid]);");
            }
            Some(from) => {
                let last = format!("@{}_last[tid]", map_name(&from));
                let _ = writeln!(
                    text,
                    "\t\tprintf(\"{probe}.end\\t%d\\t%llu\\twaiting=%llu\\n\", tid, nsecs - @{name}_start[tid], \
                     {last} > @{name}_start[tid] ? nsecs - {last} : 0);"
                );
            }
        }
        let _ = writeln!(text, "\t\tdelete(@{name}_start[tid]);\n\t}}");
        text
    }

    fn action(&mut self, index: usize, program: &Program, site: &PlacedSite, action: &Action) -> (String, String) {
        if action.role.is_of_the_kernel() || action.role == Role::Boundary {
            return (String::new(), String::new());
        }
        let cx = Reading { plan: self.plan, placement: self.placement, program: index, site, object: None };
        let when = match action.when.as_ref().map(|when| cx.number(when)).transpose() {
            Ok(when) => when,
            Err(why) => {
                self.tell(&format!("`{}`", action.probe), why, &program.span);
                return (String::new(), String::new());
            }
        };
        let (before, after) = (self.line(&cx, action, false), self.line(&cx, action, true));
        let name = map_name(&action.probe);
        let enter = before.printf(&action.probe, "nsecs");
        let (mut entry, mut end) = (String::new(), String::new());
        let outermost = matches!(action.shape, Shape::Call { frames: 1 }).then(|| format!("@{name}_depth[tid] == 1"));
        let conditions: Vec<String> = outermost.into_iter().chain(when).collect();
        let condition = if conditions.is_empty() { "1".to_owned() } else { conditions.join(" && ") };
        let open = format!("\tif ({condition}) {{\n");
        match &action.shape {
            Shape::Instant => {
                let _ = writeln!(entry, "{open}\t\t{enter}\t}}");
            }
            Shape::Until { .. } => {
                let _ = write!(entry, "{open}\t\t{enter}\t\t@{name}_start[tid] = nsecs;\n\t}}\n");
            }
            Shape::Call { .. } => {
                let _ = write!(
                    entry,
                    "\t@{name}_depth[tid] = @{name}_depth[tid] + 1;\n{open}\t\t{enter}\
                     \t\t@{name}_start[tid, @{name}_depth[tid]] = nsecs;\n\t}}\n"
                );
                let exit = after.printf(
                    &format!("{}.end", action.probe),
                    &format!("nsecs - @{name}_start[tid, @{name}_depth[tid]]"),
                );
                let _ = write!(
                    end,
                    "\tif (@{name}_start[tid, @{name}_depth[tid]]) {{\n\t\t{exit}\
                     \t\tdelete(@{name}_start[tid, @{name}_depth[tid]]);\n\t}}\n\
                     \tif (@{name}_depth[tid]) {{\n\t\t@{name}_depth[tid] = @{name}_depth[tid] - 1;\n\t}}\n"
                );
            }
        }
        (entry, end)
    }

    /// The fields that are read at the entry, or at the return.
    fn line(&mut self, cx: &Reading<'_>, action: &Action, at_return: bool) -> Line {
        let mut line = Line::default();
        for field in action.fields.iter().filter(|field| field.at_return == at_return) {
            let layout = &self.plan.schema.records[action.record].fields[field.index];
            if at_return && reads_argument(&field.value) {
                self.left_out(
                    &action.probe,
                    &layout.name,
                    "arguments are not there any more at the return",
                    &field.value,
                );
                continue;
            }
            if let Err(why) = line.add(cx, &layout.name, &field.value) {
                self.left_out(&action.probe, &layout.name, why, &field.value);
            }
            self.object(cx, action, &layout.name, field, &mut line);
        }
        line
    }

    /// The members of an object, beside its address: a script has no memory of what was described.
    fn object(&mut self, cx: &Reading<'_>, action: &Action, name: &str, field: &crate::FieldPlan, line: &mut Line) {
        let profinfer_schema::FieldType::Object(object) =
            &self.plan.schema.records[action.record].fields[field.index].ty
        else {
            return;
        };
        let (Some(object), Ok(address)) =
            (self.plan.objects.iter().find(|plan| plan.name == *object), cx.number(&field.value))
        else {
            return;
        };
        let inside = Reading { object: Some(address), ..*cx };
        for member in &object.fields {
            let layout = &self.plan.schema.records[object.record].fields[member.index];
            let full = format!("{name}.{}", layout.name);
            if let Err(why) = line.add(&inside, &full, &member.value) {
                self.left_out(&action.probe, &full, why, &member.value);
            }
        }
    }

    fn left_out(&mut self, probe: &str, field: &str, why: &str, value: &Checked) {
        self.tell(&format!("`{field}` of `{probe}`"), why, &value.span);
    }
}

impl Line {
    fn printf(&self, what: &str, time: &str) -> String {
        let values: String = self.values.iter().map(|value| format!(", {value}")).collect();
        format!("printf(\"{what}\\t%d\\t%llu{}\\n\", tid, {time}{values});\n", self.format)
    }

    fn add(&mut self, cx: &Reading<'_>, name: &str, value: &Checked) -> Expressed<()> {
        let (format, values) = cx.values(value)?;
        let texts = usize::from(format == "%s");
        if self.values.len() + values.len() > MOST_VALUES || self.texts + texts > MOST_TEXTS {
            return Err("a line has no space for more");
        }
        self.texts += texts;
        let _ = write!(self.format, "\\t{name}={format}");
        self.values.extend(values);
        Ok(())
    }
}

/// What an expression is read from.
#[derive(Clone)]
struct Reading<'a> {
    plan: &'a ProbePlan,
    placement: &'a Placement,
    program: usize,
    site: &'a PlacedSite,
    /// The address of the object whose members are read.
    object: Option<String>,
}

impl Reading<'_> {
    /// A value's format, and what fills it in.
    fn values(&self, value: &Checked) -> Expressed<(String, Vec<String>)> {
        if let Node::Match(n) = value.node {
            let captures = &self.site.site.captures;
            let text = match (n as usize).checked_sub(1) {
                Some(n) => captures.get(n).ok_or("this function has no such wildcard")?,
                None => &self.site.site.function,
            };
            let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "_:<>, ".contains(c));
            return if plain { Ok((text.clone(), Vec::new())) } else { Err("a name has characters that cannot stand") };
        }
        if let (Node::List(items), Type::Array(of, _)) = (&value.node, &value.ty) {
            let (_, format) = scalar(of).ok_or("bpftrace has no such type")?;
            let values = items.iter().map(|item| self.number(item)).collect::<Expressed<Vec<String>>>()?;
            return Ok((format!("[{}]", vec![format; values.len()].join(",")), values));
        }
        match &value.ty {
            Type::Chars(n) => {
                Ok(("%s".to_owned(), vec![format!("str({}, {})", self.address(value)?, (*n).min(TEXT_BYTES))]))
            }
            Type::CStr(n) => {
                Ok(("%s".to_owned(), vec![format!("str({}, {})", self.word(value, "uint64")?, (*n).min(TEXT_BYTES))]))
            }
            Type::Array(of, n) => {
                let (Some(size), Some((ty, format))) = (fixed_size(of), scalar(of)) else {
                    return Err("its elements are no numbers");
                };
                if *n > MOST_ELEMENTS {
                    return Err("it has many elements");
                }
                let start = self.address(value)?;
                let values = (0..*n).map(|at| format!("*({ty} *)({start} + {})", at * size)).collect();
                let formats = vec![format; usize::try_from(*n).unwrap_or_default()].join(",");
                Ok((format!("[{formats}]"), values))
            }
            ty => {
                let (_, format) = scalar(ty).ok_or("bpftrace has no such type")?;
                Ok((format.to_owned(), vec![self.number(value)?]))
            }
        }
    }

    /// An expression whose value is a number.
    fn number(&self, value: &Checked) -> Expressed<String> {
        Ok(match &value.node {
            Node::Int(number) => format!("({number})"),
            Node::Constant { enumeration, name } => {
                let kind = RelocationKind::Constant { enumeration: enumeration.clone(), name: name.clone() };
                format!("({})", self.relocation(&kind)?.cast_signed())
            }
            Node::Return => {
                let (ty, _) = scalar(&value.ty).ok_or("bpftrace has no such type")?;
                format!("({ty})retval")
            }
            Node::Tid => "tid".to_owned(),
            Node::Cpu => "cpu".to_owned(),
            Node::Argument(_) | Node::Memory(_) => {
                let (ty, _) = scalar(&value.ty).ok_or("bpftrace has no such type")?;
                self.word(value, ty)?
            }
            Node::Cast(number) => {
                let (ty, _) = scalar(&value.ty).ok_or("bpftrace has no such type")?;
                format!("(({ty}){})", self.number(number)?)
            }
            Node::Unary(op, operand) => {
                let op = match op {
                    UnaryOp::Not => "!",
                    UnaryOp::Negate => "-",
                    UnaryOp::Complement => "~",
                };
                format!("({op}{})", self.number(operand)?)
            }
            Node::Binary(op, left, right) => {
                format!("({} {} {})", self.number(left)?, op.symbol(), self.number(right)?)
            }
            Node::Conditional(condition, then, otherwise) => {
                let (condition, then) = (self.number(condition)?, self.number(then)?);
                format!("({condition} ? {then} : {})", self.number(otherwise)?)
            }
            Node::Enclosing(_) => return Err("it is an argument of another call"),
            Node::Match(_) => return Err("a name is no number"),
            Node::Slice { .. } => return Err("bpftrace has no lists of variable length"),
            Node::List(_) => return Err("a list is no number"),
            Node::Bits { .. }
            | Node::Relative { .. }
            | Node::VectorSize { .. }
            | Node::VectorElement { .. }
            | Node::Held { .. }
            | Node::Map { .. }
            | Node::Element { .. }
            | Node::Address(_) => return Err("it takes more than one read"),
        })
    }

    /// A word as a type: an argument, or what is stored at a place.
    fn word(&self, value: &Checked, ty: &str) -> Expressed<String> {
        match &value.node {
            Node::Argument(argument) => Ok(match self.argument(*argument)? {
                ArgumentIn::Register(register) => format!("({ty}){}", self.register(register)),
                ArgumentIn::Stack(offset) => format!("*({ty} *)(reg(\"sp\") + {offset})"),
                _ => return Err("its argument is in several places"),
            }),
            Node::Memory(memory) => match (&memory.base, self.by_value(memory)?) {
                (Base::Argument(_), Some(shifted)) => Ok(format!("({ty})({shifted})")),
                _ => Ok(format!("*({ty} *)({})", self.place(memory)?)),
            },
            _ => self.number(value),
        }
    }

    /// A part of a struct that is in registers.
    fn by_value(&self, memory: &Memory) -> Expressed<Option<String>> {
        let Base::Argument(argument) = memory.base else { return Ok(None) };
        let ArgumentIn::Registers(first, second) = self.argument(argument)? else { return Ok(None) };
        let mut offset = 0;
        for term in &memory.terms {
            let Term::Member { view, member } = term else { return Err("an element of a struct that is in registers") };
            offset += self.relocation(&RelocationKind::Offset { view: view.clone(), member: member.clone() })?;
        }
        let register = self.register(if offset < 8 { first } else { second });
        Ok(Some(format!("{register} >> {}", offset % 8 * 8)))
    }

    /// Where a stretch of memory starts.
    fn address(&self, value: &Checked) -> Expressed<String> {
        match &value.node {
            Node::Memory(memory) => self.place(memory),
            _ => Err("it is not in memory"),
        }
    }

    fn place(&self, memory: &Memory) -> Expressed<String> {
        let mut text = match &memory.base {
            Base::Object => self.object.clone().ok_or("it is of no object")?,
            Base::Pointer(pointer) => self.word(pointer, "uint64")?,
            Base::Argument(argument) => match self.argument(*argument)? {
                ArgumentIn::StackStruct(offset) => format!("(reg(\"sp\") + {offset})"),
                ArgumentIn::Reference(register) => self.register(register),
                _ => return Err("a struct that is in registers has no address"),
            },
        };
        for term in &memory.terms {
            match term {
                Term::Member { view, member } => {
                    let kind = RelocationKind::Offset { view: view.clone(), member: member.clone() };
                    let _ = write!(text, " + {}", self.relocation(&kind)?);
                }
                Term::Element { of, index, bound } => {
                    if bound.is_some() {
                        return Err("an index would have to be compared with its array's length");
                    }
                    let _ = write!(text, " + {} * {}", self.number(index)?, self.size(of)?);
                }
            }
        }
        Ok(format!("({text})"))
    }

    fn size(&self, ty: &Type) -> Expressed<u64> {
        match ty {
            Type::View(view) => self.relocation(&RelocationKind::Size { view: view.clone() }),
            Type::Array(of, n) => self.size(of)?.checked_mul(*n).ok_or("its size is absurd"),
            ty => fixed_size(ty).ok_or("its size is not available"),
        }
    }

    fn argument(&self, argument: usize) -> Expressed<ArgumentIn> {
        let kind = RelocationKind::Argument { program: self.program, argument };
        argument_in(self.relocation(&kind)?).ok_or("its argument's place is not one of a call")
    }

    fn relocation(&self, kind: &RelocationKind) -> Expressed<u64> {
        let symbol = self.plan.symbol(kind).ok_or("a place is not available")?;
        // Of several builds in one process, each may have its own.
        let value = match self.site.values.get(symbol) {
            Some(value) => Some(*value),
            None => self.placement.values.iter().find(|value| value.symbol == symbol).map(|value| value.value),
        };
        let value = value.ok_or("a place is not available")?;
        if is_absent_value(kind, value) { Err("the target does not have it") } else { Ok(value) }
    }

    fn register(&self, number: u8) -> String {
        const X86_64: [&str; 8] = ["ax", "dx", "cx", "bx", "si", "di", "bp", "sp"];
        match (self.plan.arch, X86_64.get(usize::from(number))) {
            (Arch::X86_64, Some(name)) => format!("reg(\"{name}\")"),
            _ => format!("reg(\"r{number}\")"),
        }
    }
}

/// The type of a number in the script, and its format.
fn scalar(ty: &Type) -> Option<(&'static str, &'static str)> {
    Some(match ty {
        Type::Int { size, signed } => match (size, signed) {
            (1, true) => ("int8", "%lld"),
            (2, true) => ("int16", "%lld"),
            (4, true) => ("int32", "%lld"),
            (8, true) => ("int64", "%lld"),
            (1, false) => ("uint8", "%llu"),
            (2, false) => ("uint16", "%llu"),
            (4, false) => ("uint32", "%llu"),
            _ => ("uint64", "%llu"),
        },
        Type::Bool => ("uint8", "%llu"),
        Type::Enum(_) => ("int32", "%lld"),
        Type::Pointer(_) | Type::Object(_) => ("uint64", "0x%llx"),
        _ => return None,
    })
}

fn reads_argument(value: &Checked) -> bool {
    let mut reads = false;
    value.visit(&mut |part| {
        let of_argument = |memory: &Memory| matches!(memory.base, Base::Argument(_));
        reads |= match &part.node {
            Node::Argument(_) => true,
            Node::Memory(memory) | Node::Slice { start: memory, .. } => of_argument(memory),
            _ => false,
        };
    });
    reads
}

/// A probe's name is an identifier already; this separates its maps from others'.
fn map_name(probe: &str) -> String {
    format!("p_{probe}")
}
