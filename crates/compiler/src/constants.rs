//! Which numbers of the target an expression needs, as constants that a loader fills in, and what each is called in the C.

use super::model::RelocationKind;
use profinfer_diagnostics::Span;
use profinfer_probeset::path::{Base, Checked, ClassPart, InMap, Key, Node, Term, Type};

/// The relocations that an expression of a program (or of an object, without one) needs, in the order it reads them.
pub fn relocations_of(checked: &Checked, program: Option<usize>, module: Option<&str>) -> Vec<RelocationKind> {
    let mut kinds = Vec::new();
    collect(checked, program, module, &mut kinds);
    kinds.reverse();
    kinds.into_iter().map(|(kind, _)| kind).collect()
}

/// The same, each with where it was written, last first.
pub(super) fn collect(
    checked: &Checked,
    program: Option<usize>,
    module: Option<&str>,
    into: &mut Vec<(RelocationKind, Span)>,
) {
    checked.visit(&mut |part| {
        let span = part.span.clone();
        let argument = |argument: usize| program.map(|program| RelocationKind::Argument { program, argument });
        match &part.node {
            Node::Constant { enumeration, name } => {
                let kind = RelocationKind::Constant { enumeration: enumeration.clone(), name: name.clone() };
                into.push((kind, span));
            }
            Node::Argument(index) => into.extend(argument(*index).map(|kind| (kind, span))),
            Node::Bits { view, member, .. } => {
                into.push((RelocationKind::Shift { view: view.clone(), member: member.clone() }, span));
            }
            Node::Element { of, .. } => {
                let module = || module.map(str::to_owned);
                into.extend(has_string(of).then(|| (RelocationKind::Strings { module: module() }, span.clone())));
                into.extend(view_within(of).map(|view| (RelocationKind::Size { view }, span.clone())));
                let class =
                    |of: &Type| RelocationKind::Class { of: of.clone(), part: ClassPart::Size, module: module() };
                into.extend(class_within(of).map(|of| (class(of), span)));
            }
            _ => {
                let Some((memory, of)) = part.place() else { return };
                let strings = || RelocationKind::Strings { module: module.map(str::to_owned) };
                let class = |of: &Type, part: ClassPart| {
                    let kind = RelocationKind::Class { of: of.clone(), part, module: module.map(str::to_owned) };
                    (kind, span.clone())
                };
                if has_string(&part.ty) || of.is_some_and(has_string) {
                    into.push((strings(), span.clone()));
                }
                if let Node::Held { of, .. } = &part.node {
                    into.push(class(of, ClassPart::Tag));
                }
                if let Node::Map { of, what, .. } = &part.node {
                    into.push(class(of, ClassPart::Walk));
                    if matches!(what, InMap::Contains(Key::Text(_)) | InMap::Value(Key::Text(_))) {
                        into.push((strings(), span.clone()));
                    }
                }
                into.extend(of.and_then(view_within).map(|view| (RelocationKind::Size { view }, span.clone())));
                into.extend(of.and_then(class_within).map(|of| class(of, ClassPart::Size)));
                if let Base::Argument(index) = memory.base {
                    into.extend(argument(index).map(|kind| (kind, span.clone())));
                }
                let parts = match &part.node {
                    Node::Slice { part: Some(part), .. } => part.terms.as_slice(),
                    _ => &[],
                };
                if let Node::Slice { part: Some(part), .. } = &part.node {
                    into.extend(view_within(&part.of).map(|view| (RelocationKind::Size { view }, span.clone())));
                    into.extend(matches!(part.of, Type::Map { .. }).then(|| class(&part.of, ClassPart::Walk)));
                }
                for term in memory.terms.iter().chain(parts) {
                    match term {
                        Term::Member { view, member } => {
                            let kind = RelocationKind::Offset { view: view.clone(), member: member.clone() };
                            into.push((kind, span.clone()));
                        }
                        Term::Element { of, .. } => {
                            if has_string(of) {
                                into.push((strings(), span.clone()));
                            }
                            into.extend(view_within(of).map(|view| (RelocationKind::Size { view }, span.clone())));
                            into.extend(class_within(of).map(|of| class(of, ClassPart::Size)));
                        }
                    }
                }
            }
        }
    });
}

/// Whether bytes of a type depend on how strings are laid out.
fn has_string(ty: &Type) -> bool {
    match ty {
        Type::StdString(_) => true,
        Type::Array(of, _) => has_string(of),
        _ => false,
    }
}

/// The view whose size an element's size depends on.
fn view_within(ty: &Type) -> Option<String> {
    match ty {
        Type::View(view) => Some(view.clone()),
        Type::Array(of, _) => view_within(of),
        _ => None,
    }
}

/// The class of the library whose size an element's size depends on.
fn class_within(ty: &Type) -> Option<&Type> {
    match ty {
        Type::Array(of, _) => class_within(of),
        ty => ty.is_laid_out_by_library().then_some(ty),
    }
}

/// A name that tells a reader of the C what the constant is; an argument's carries its program's name.
pub(super) fn symbol_of(kind: &RelocationKind, program_name: impl Fn(usize) -> String) -> String {
    let of_type = |ty: &Type| -> String {
        let named = ty.to_string().replace('*', "_ptr").replace('&', "_ref").replace(", ", "__");
        named.trim_end_matches('>').chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
    };
    let identifier =
        |name: &str| name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect::<String>();
    match kind {
        RelocationKind::Offset { view, member } => format!("offset_of_{}__{}", identifier(view), identifier(member)),
        RelocationKind::Size { view } => format!("size_of_{}", identifier(view)),
        RelocationKind::Shift { view, member } => format!("bit_of_{}__{}", identifier(view), identifier(member)),
        RelocationKind::Strings { module: None } => "strings".to_owned(),
        RelocationKind::Strings { module: Some(module) } => format!("strings_of_{}", identifier(module)),
        RelocationKind::Class { of, part, module } => {
            let part = match part {
                ClassPart::Tag => "tag",
                ClassPart::Size => "size",
                ClassPart::Walk => "elements",
            };
            let module = module.as_ref().map_or_else(String::new, |module| format!("_in_{}", identifier(module)));
            format!("{part}_of_{}{module}", of_type(of))
        }
        RelocationKind::Constant { enumeration, name } => {
            format!("constant_{}__{}", identifier(enumeration), identifier(name))
        }
        RelocationKind::Argument { program, argument } => {
            format!("place_of_{}__argument_{argument}", program_name(*program))
        }
        RelocationKind::BlockStart { object } => format!("first_byte_of_{object}"),
        RelocationKind::BlockLength { object } => format!("bytes_of_{object}"),
        RelocationKind::Absent { record } => format!("absent_in_{record}"),
    }
}
