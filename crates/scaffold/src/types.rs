//! Types of debug information as the language writes them, and the members of a struct that have a meaning.

use super::words;
use profinfer_binary::{Layout, TargetType};

/// Bytes of a text behind a pointer that are read.
const TEXT_BYTES: u64 = 64;
/// Elements and bytes of an array in place that are taken.
const MOST_ELEMENTS: u64 = 64;
const MOST_CHARS: u64 = 256;

/// What a pointer points to, where that is a struct with a name that can be written.
pub(super) fn pointed(ty: &TargetType) -> Option<&str> {
    match ty {
        TargetType::Pointer(Some(to)) => by_value(to),
        _ => None,
    }
}

/// What a pointer points to, where that is only declared.
pub(super) fn declared_only(ty: &TargetType) -> Option<&str> {
    match ty {
        TargetType::Pointer(Some(to)) => match &**to {
            TargetType::Struct(name, 0) if is_qualified(name) => Some(name),
            _ => None,
        },
        _ => None,
    }
}

/// The name of a struct.
pub(super) fn by_value(ty: &TargetType) -> Option<&str> {
    match ty {
        TargetType::Struct(name, size) if *size > 0 && is_qualified(name) => Some(name),
        _ => None,
    }
}

/// A number's type.
pub(super) fn number(ty: &TargetType) -> Option<String> {
    Some(match ty {
        TargetType::Int { size, signed } if matches!(size, 1 | 2 | 4 | 8) => {
            format!("{}{}", if *signed { 'i' } else { 'u' }, size * 8)
        }
        TargetType::Enum(_, size) if matches!(size, 1 | 2 | 4 | 8) => format!("i{}", size * 8),
        TargetType::Bool => "bool".to_owned(),
        TargetType::Float { size } if matches!(size, 4 | 8) => format!("f{}", size * 8),
        _ => return None,
    })
}

/// Whether a name can stand as a type.
pub(super) fn is_qualified(name: &str) -> bool {
    !name.is_empty() && name.len() <= 100 && name.split("::").all(is_name)
}

/// Whether a name can stand for a value.
pub(super) fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !name.starts_with("pf_")
        && name.len() <= 100
}

/// A member that has a meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meant {
    /// The field's name.
    pub(super) field: &'static str,
    /// The member.
    pub(super) member: String,
    /// Its type in a view.
    pub(super) ty: String,
}

/// A field, the words that its member may be called by, and what is written for its type.
type Sought<'a> = (&'static str, &'a [&'a str], &'a dyn Fn(&TargetType) -> Option<String>);

/// The members of a struct that an object is described by, as far as they can be told by their names and types.
pub(super) fn described(name: &str, layout: &Layout) -> Vec<Meant> {
    let mut meant: Vec<Meant> = Vec::new();
    let own = |ty: &TargetType| pointed(ty) == Some(name);
    let kinds: [Sought<'_>; 5] = [
        ("op", words::OP, &enumeration),
        ("name", words::NAME, &text),
        ("dtype", words::DTYPE, &enumeration),
        ("shape", words::SHAPE, &numbers),
        ("inputs", words::INPUTS, &|ty| match ty {
            TargetType::Array(of, Some(n)) if own(of) && *n <= MOST_ELEMENTS => Some(format!("{name}*[{n}]")),
            _ => None,
        }),
    ];
    for (field, words, ty_of) in kinds {
        let taken = |member: &str| meant.iter().any(|meant| meant.member == member);
        let found = layout.members.iter().filter(|(member, _)| is_name(member) && !taken(member));
        let found = found.filter_map(|(member, (_, ty))| Some((words::place(member, words)?, member, ty_of(ty)?)));
        if let Some((_, member, ty)) = found.min_by_key(|(place, ..)| *place) {
            meant.push(Meant { field, member: member.clone(), ty });
        }
    }
    meant
}

/// An integer member with one of these names.
pub(super) fn integer_member(layout: &Layout, of: &[&str]) -> Option<(String, String)> {
    let found = layout.members.iter().filter(|(member, _)| is_name(member)).filter_map(|(member, (_, ty))| {
        let TargetType::Int { .. } = ty else { return None };
        Some((words::place(member, of)?, member.clone(), number(ty)?))
    });
    found.min_by_key(|(place, ..)| *place).map(|(_, member, ty)| (member, ty))
}

/// Any member that can be read, for a view of which only the size matters.
pub(super) fn any_member(layout: &Layout) -> Option<(String, String)> {
    let members = layout.members.iter().filter(|(member, _)| is_name(member));
    members.filter_map(|(member, (at, ty))| Some((*at, member.clone(), readable(ty)?))).min().map(|(_, m, ty)| (m, ty))
}

fn readable(ty: &TargetType) -> Option<String> {
    number(ty).or_else(|| matches!(ty, TargetType::Pointer(_)).then(|| "void*".to_owned()))
}

fn enumeration(ty: &TargetType) -> Option<String> {
    match ty {
        TargetType::Enum(name, 4) if is_qualified(name) => Some(format!("enum {name}")),
        _ => None,
    }
}

fn text(ty: &TargetType) -> Option<String> {
    let is_char = |ty: &TargetType| matches!(ty, TargetType::Int { size: 1, .. });
    match ty {
        TargetType::Array(of, Some(n)) if is_char(of) && (2..=MOST_CHARS).contains(n) => Some(format!("char[{n}]")),
        TargetType::Pointer(Some(to)) if is_char(to) => Some(format!("cstr({TEXT_BYTES})")),
        _ => None,
    }
}

fn numbers(ty: &TargetType) -> Option<String> {
    match ty {
        TargetType::Array(of, Some(n)) if (1..=MOST_ELEMENTS).contains(n) => match **of {
            TargetType::Int { size: 4 | 8, .. } => Some(format!("{}[{n}]", number(of)?)),
            _ => None,
        },
        _ => None,
    }
}
