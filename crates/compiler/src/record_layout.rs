//! Layouts of records: computed here once; the generated C asserts them, the trace's schema carries them, the decoder
//! reads by them.

use profinfer_diagnostics::{Code, Diagnostic};
use profinfer_probeset::path::{Checked, Definitions, Node, Type};
use profinfer_schema::Role;
use profinfer_schema::{FieldLayout, FieldType, HEADER_SIZE, MAX_FIELDS, RecordKind, RecordType};

/// The name of the field that `waiting from` adds: nanoseconds of the span after that probe's last entry.
pub const WAITING: &str = "waiting";
/// The name of the field that marks which counters are estimates.
pub const SCALED: &str = "scaled";

/// The fields of a role whose records the runtime fills in (`bpf-runtime/fault.h`, `reclaim.h`, `job.h`).
pub(super) fn kernel_fields(role: Role) -> Option<Vec<(String, FieldType)>> {
    let fields: &[(&str, FieldType)] = match role {
        Role::Fault => &[("address", FieldType::Pointer)],
        Role::PageCache => &[
            ("inode", FieldType::Uint(8)),
            ("offset", FieldType::Uint(8)),
            ("bytes", FieldType::Uint(8)),
            ("device", FieldType::Uint(4)),
        ],
        Role::Reclaim => &[("reclaim_kind", FieldType::Uint(4))],
        Role::Job => &[
            ("queued", FieldType::Uint(8)),
            ("name", FieldType::Text(16)),
            ("driver", FieldType::Text(16)),
            ("job_since", FieldType::Uint(4)),
        ],
        _ => return None,
    };
    Some(fields.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone())).collect())
}

/// How a value is stored in a record.
///
/// # Errors
/// `P006` for what cannot be a field, `S014` for what this version cannot record yet.
pub(super) fn field_type(value: &Checked, definitions: &dyn Definitions) -> Result<FieldType, Diagnostic> {
    let element = |ty: &Type| stored(ty, definitions);
    match &value.node {
        Node::Match(n) => Ok(FieldType::Match(*n)),
        Node::Slice { .. } if is_text_elsewhere(&value.ty) => Err(no_texts(&value.ty)),
        Node::Slice { max, .. } => {
            element(&value.ty).map(|of| FieldType::List(Box::new(of), u32::try_from(*max).unwrap_or(u32::MAX)))
        }
        _ => element(&value.ty),
    }
    .map_err(|problem| problem.at(&value.span))
}

fn stored(ty: &Type, definitions: &dyn Definitions) -> Result<FieldType, Diagnostic> {
    let length = |n: u64| u32::try_from(n).map_err(|_| Diagnostic::error(Code::OutOfRange, format!("{n} bytes")));
    Ok(match ty {
        Type::Int { size, signed: true } => FieldType::Int(*size),
        Type::Int { size, signed: false } => FieldType::Uint(*size),
        Type::Float { size } => FieldType::Float(*size),
        Type::Bool => FieldType::Bool,
        Type::Enum(name) => FieldType::Enum(name.clone()),
        Type::Object(name) => FieldType::Object(name.clone()),
        Type::Chars(n) | Type::CStr(n) | Type::StdString(n) => FieldType::Text(length(*n)?),
        Type::Hex(n) => FieldType::Hex(length(*n)?),
        Type::Array(of, _) if is_text_elsewhere(of) => return Err(no_texts(of)),
        Type::Array(of, n) => FieldType::Array(Box::new(stored(of, definitions)?), length(*n)?),
        // A pointer to what an object is, is a reference to that object.
        Type::Pointer(to) => match &**to {
            Type::View(view) => match definitions.object_of_view(view) {
                Some(object) => FieldType::Object(object.to_owned()),
                None => FieldType::Pointer,
            },
            _ => FieldType::Pointer,
        },
        Type::View(name) => {
            return Err(Diagnostic::error(Code::NotAField, format!("a whole {name} cannot be recorded"))
                .hint("take one of its members, or make it an object and refer to it by address"));
        }
        Type::Void => return Err(Diagnostic::error(Code::NotAField, "void cannot be recorded")),
        Type::StdVector(_) => {
            return Err(Diagnostic::error(Code::NotAField, format!("a whole {ty} cannot be recorded"))
                .hint("take its elements, such as `[..] max 8`, or its `size`"));
        }
        Type::Map { value, .. } => {
            let elements = if value.is_some() { "(… [..] max 8).second" } else { "[..] max 8" };
            return Err(Diagnostic::error(Code::NotAField, format!("a whole {ty} cannot be recorded")).hint(format!(
                "take what a key stands for, `[KEY]`, its elements, such as `{elements}`, or its `size`"
            )));
        }
        Type::Optional(_) => {
            return Err(Diagnostic::error(Code::NotAField, format!("a whole {ty} cannot be recorded"))
                .hint("take its `value`, which is absent if it has none, or `has_value`"));
        }
        Type::Variant(_) => {
            return Err(Diagnostic::error(Code::NotAField, format!("a whole {ty} cannot be recorded"))
                .hint("take an alternative, such as `get<0>`, which is absent if it has another, or its `index`"));
        }
        Type::Smart { .. } | Type::Relative { .. } | Type::Reference(_) | Type::Bits { .. } => {
            return Err(Diagnostic::error(Code::NotAField, format!("{ty} cannot be recorded as it is stored"))
                .hint("take what it points to, or one element"));
        }
    })
}

/// Text that is not where its value is: one is fetched by itself, a list of them is not.
fn is_text_elsewhere(ty: &Type) -> bool {
    matches!(ty, Type::CStr(_) | Type::StdString(_))
}

fn no_texts(ty: &Type) -> Diagnostic {
    Diagnostic::error(Code::NotAField, format!("a list of {ty} cannot be recorded"))
        .hint("take one of them, such as `[0]`, or their addresses")
}

/// Lays out fields one after the other, each at its alignment; the whole is a multiple of eight bytes.
///
/// # Errors
/// `S011` for too many fields, `P007` for a list that is not the last field.
pub(super) fn lay_out(
    name: &str,
    kind: RecordKind,
    fields: Vec<(String, FieldType)>,
) -> Result<RecordType, Diagnostic> {
    if fields.len() > MAX_FIELDS {
        let message = format!("{name} has {} fields; a record holds {MAX_FIELDS}", fields.len());
        return Err(Diagnostic::error(Code::OutOfRange, message));
    }
    let (lists, mut ordered): (Vec<_>, Vec<_>) =
        fields.into_iter().partition(|(_, ty)| matches!(ty, FieldType::List(..)));
    if lists.len() > 1 {
        let message = format!("{name} has {} lists; a record holds one", lists.len());
        return Err(Diagnostic::error(Code::Unbounded, message).hint("record the others by another probe"));
    }
    // The list's elements follow the fixed part, so it comes last.
    ordered.extend(lists);
    let mut offset = HEADER_SIZE;
    let mut laid_out = Vec::with_capacity(ordered.len());
    for (name, ty) in ordered {
        offset = offset.next_multiple_of(ty.align());
        let size = ty.size();
        laid_out.push(FieldLayout { name, offset, ty });
        offset = offset.saturating_add(size);
    }
    Ok(RecordType { name: name.to_owned(), kind, role: None, size: offset.next_multiple_of(8), fields: laid_out })
}
