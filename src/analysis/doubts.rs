//! What a decoded value gives away of a path that reads the wrong bytes: text that is not text, a shape that no memory
//! holds, a constant without a name. A doubt is no proof: it says where to look.

use crate::trace::{FieldType, RecordKind, RecordView, Value};

/// Elements that no array of one machine has.
const MOST_ELEMENTS: i128 = 1 << 48;
/// Tokens that no step has, and numbers that no expert or lane has.
const MOST_COUNTED: i64 = 1 << 24;
/// Numbers that a quantity of a model does not come near to.
const LARGEST_FLOAT: f64 = 1e30;

/// What is doubtful about a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Doubt {
    /// It could not be read: a pointer on the way is null, or not one.
    Unread,
    /// A null pointer where an object is named.
    Null,
    /// Text with bytes that are no text.
    NotText,
    /// Text that fills its bound: it is perhaps longer.
    TextFull,
    /// A constant that its enumeration has no name for.
    NoName,
    /// A negative or absurd extent.
    Extent,
    /// A negative or absurd number where something is counted or numbered.
    Number,
    /// A list that was cut at its bound, or fills it.
    ListFull,
    /// A number that is none, or an absurd one.
    NoNumber,
}

impl Doubt {
    /// What is wrong, as a few words after the value.
    pub fn said(self) -> &'static str {
        match self {
            Self::Unread => "could not be read: null, or no address",
            Self::Null => "is null",
            Self::NotText => "is not text",
            Self::TextFull => "fills its bound: it may be cut",
            Self::NoName => "is no constant of its enumeration",
            Self::Extent => "has a negative or absurd extent",
            Self::Number => "is negative or absurd",
            Self::ListFull => "is at its bound: it may be cut",
            Self::NoNumber => "is no number, or an absurd one",
        }
    }

    /// What to look at.
    pub fn look_at(self) -> &'static str {
        match self {
            Self::Unread | Self::Null => {
                "a pointer on its way is null here: guard it with `when`, or the argument is another than it seems"
            }
            Self::NotText | Self::Extent | Self::Number | Self::NoNumber => {
                "an offset or a type on its way is wrong, or the argument is another than it seems"
            }
            Self::NoName => "the member is another one, or `enums` lacks the constant",
            Self::TextFull | Self::ListFull => "give a larger bound, unless a wrong length was read",
        }
    }
}

/// The doubtful fields of a record, by their index.
pub fn doubts(record: RecordView<'_>) -> Vec<(usize, Doubt)> {
    let kind = record.kind();
    if !matches!(kind.kind, RecordKind::Span | RecordKind::Mark | RecordKind::Object) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (index, field) in kind.fields.iter().enumerate() {
        // What was not counted, or has not happened, is absent by right.
        if matches!(field.ty, FieldType::Counter | FieldType::Duration | FieldType::Scaled | FieldType::Match(_)) {
            continue;
        }
        let value = record.field(index);
        let cut = record.list_total(index).zip(record.list_count(index)).is_some_and(|(total, count)| total > count);
        let doubt = if cut { Some(Doubt::ListFull) } else { of_value(&field.name, &field.ty, &value) };
        found.extend(doubt.map(|doubt| (index, doubt)));
    }
    found
}

/// What is doubtful about one value; reserved names have meanings that bound it.
fn of_value(name: &str, ty: &FieldType, value: &Value<'_>) -> Option<Doubt> {
    match (ty, value) {
        (_, Value::Missing) => Some(Doubt::Unread),
        (FieldType::Object(_), Value::Object { address: 0, .. }) if name == "node" => Some(Doubt::Null),
        (FieldType::Text(most), Value::Text(text)) => {
            let not_text = |c: char| c == char::REPLACEMENT_CHARACTER || (c.is_control() && !c.is_whitespace());
            if text.chars().any(not_text) {
                return Some(Doubt::NotText);
            }
            (*most > 1 && text.len() as u64 + 1 >= u64::from(*most)).then_some(Doubt::TextFull)
        }
        (FieldType::Enum(_), Value::Enum { name: None, .. }) => Some(Doubt::NoName),
        (FieldType::Float(_), Value::Float(number)) => {
            (!number.is_finite() || number.abs() > LARGEST_FLOAT).then_some(Doubt::NoNumber)
        }
        (FieldType::Array(..) | FieldType::List(..), Value::List(values)) if name == "shape" => absurd_shape(values),
        (FieldType::List(_, most), Value::List(values)) if values.len() as u64 == u64::from(*most) => {
            Some(Doubt::ListFull)
        }
        (FieldType::List(..) | FieldType::Array(..), Value::List(values)) if name == "ids" => {
            values.iter().any(uncountable).then_some(Doubt::Number)
        }
        (FieldType::Array(of, _) | FieldType::List(of, _), Value::List(values)) => {
            values.iter().find_map(|value| of_value("", of, value)).filter(|doubt| *doubt != Doubt::Unread)
        }
        (FieldType::Int(_) | FieldType::Uint(_), value) if matches!(name, "tokens" | "lane" | "sequence_count") => {
            uncountable(value).then_some(Doubt::Number)
        }
        _ => None,
    }
}

fn uncountable(value: &Value<'_>) -> bool {
    match value {
        Value::Int(number) => !(0..=MOST_COUNTED).contains(number),
        Value::Uint(number) => *number > MOST_COUNTED.unsigned_abs(),
        _ => false,
    }
}

/// Extents that are negative, or whose product no memory holds.
fn absurd_shape(extents: &[Value<'_>]) -> Option<Doubt> {
    let numbers = extents.iter().filter_map(|extent| match extent {
        Value::Int(number) => Some(i128::from(*number)),
        Value::Uint(number) => Some(i128::from(*number)),
        _ => None,
    });
    let mut product = 1_i128;
    for number in numbers {
        // A place that is not used may be 0.
        product = product.saturating_mul(number.max(1));
        if number < 0 || product > MOST_ELEMENTS {
            return Some(Doubt::Extent);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubt(name: &str, ty: FieldType, value: Value<'_>) -> Option<Doubt> {
        of_value(name, &ty, &value)
    }

    #[test]
    fn values_that_cannot_be_are_doubted_and_others_not() {
        let shape = |extents: &[i64]| {
            let values = extents.iter().map(|extent| Value::Int(*extent)).collect();
            doubt("shape", FieldType::Array(Box::new(FieldType::Int(8)), 4), Value::List(values))
        };
        assert_eq!(shape(&[4096, 32, 1, 1]), None);
        assert_eq!(shape(&[64, 2, 0, 0]), None);
        assert_eq!(shape(&[4096, -1, 1, 1]), Some(Doubt::Extent));
        assert_eq!(shape(&[140_735_000_000_000, 32, 1, 1]), Some(Doubt::Extent));
        assert_eq!(shape(&[i64::MAX, i64::MAX, i64::MAX, i64::MAX]), Some(Doubt::Extent));
        let text = |text: &'static str| doubt("name", FieldType::Text(8), Value::Text(text.into()));
        assert_eq!(text("blk.0"), None);
        assert_eq!(text(""), None);
        assert_eq!(text("a\u{fffd}"), Some(Doubt::NotText));
        assert_eq!(text("a\u{1}"), Some(Doubt::NotText));
        assert_eq!(text("12345678"), Some(Doubt::TextFull));
        assert_eq!(text("1234567"), Some(Doubt::TextFull));
        let constant = |name| doubt("op", FieldType::Enum("E".into()), Value::Enum { value: 7, name });
        assert_eq!((constant(Some("ADD")), constant(None)), (None, Some(Doubt::NoName)));
        let tokens = |number| doubt("tokens", FieldType::Int(4), Value::Int(number));
        assert_eq!((tokens(512), tokens(-3), tokens(2_000_000_000)), (None, Some(Doubt::Number), Some(Doubt::Number)));
        assert_eq!(doubt("other", FieldType::Int(4), Value::Int(-3)), None);
        assert_eq!(doubt("x", FieldType::Float(4), Value::Float(f64::NAN)), Some(Doubt::NoNumber));
        assert_eq!(doubt("name", FieldType::Text(8), Value::Missing), Some(Doubt::Unread));
        let node = |address| doubt("node", FieldType::Object("t".into()), Value::Object { name: "t", address });
        assert_eq!((node(0), node(4096)), (Some(Doubt::Null), None));
        let list = |count: i64| {
            let values = (0..count).map(Value::Int).collect();
            doubt("ids", FieldType::List(Box::new(FieldType::Int(4)), 4), Value::List(values))
        };
        assert_eq!((list(3), list(4)), (None, Some(Doubt::ListFull)));
    }
}
