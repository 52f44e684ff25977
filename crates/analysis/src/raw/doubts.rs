//! Implausible values, which suggest that a path reads the wrong bytes: text that is not text, a shape beyond all
//! memory, a constant without a name.

use profinfer_schema::{FieldMeaning, FieldType, RecordKind};

use profinfer_trace::{RecordView, Value};

/// More elements than an array in memory has.
const MAX_ELEMENTS: i128 = 1 << 48;
/// More than a step has tokens, or a model has experts.
const MAX_COUNT: i64 = 1 << 24;
/// More than any quantity of a model.
const MAX_FLOAT: f64 = 1e30;

/// Why a value is implausible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Doubt {
    /// It could not be read: a pointer in its path is null or invalid.
    Unread,
    /// A null pointer where an object is named.
    Null,
    /// Text with other bytes.
    NotText,
    /// Text that fills its bound: it may be cut.
    TextFull,
    /// A constant that its enumeration has no name for.
    NoName,
    /// A negative or implausible extent.
    Extent,
    /// A count or index that is negative or implausibly large.
    Number,
    /// A list that was cut at its bound, or fills it.
    ListFull,
    /// Not a number, or implausibly large.
    NoNumber,
}

impl Doubt {
    /// What is wrong, as a predicate of the field.
    pub fn message(self) -> &'static str {
        match self {
            Self::Unread => "could not be read: null or an invalid address",
            Self::Null => "is null",
            Self::NotText => "is not text",
            Self::TextFull => "fills its bound: it may be cut",
            Self::NoName => "is not a constant of its enumeration",
            Self::Extent => "has a negative or implausible extent",
            Self::Number => "is negative or implausibly large",
            Self::ListFull => "is at its bound: it may be cut",
            Self::NoNumber => "is not a number, or implausibly large",
        }
    }

    /// What to check.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Unread | Self::Null => {
                "a pointer in its path is null: guard it with `when`, or check which argument it is"
            }
            Self::NotText | Self::Extent | Self::Number | Self::NoNumber => {
                "an offset or a type in its path is wrong, or it is another argument"
            }
            Self::NoName => "it is another member, or `enums` lacks the constant",
            Self::TextFull | Self::ListFull => "increase the bound, unless the length itself is wrong",
        }
    }
}

/// The implausible fields of a record, by their index.
pub fn doubts(record: RecordView<'_>) -> Vec<(usize, Doubt)> {
    let kind = record.kind();
    if !matches!(kind.kind, RecordKind::Span | RecordKind::Mark | RecordKind::Object) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (index, field) in kind.fields.iter().enumerate() {
        // These may be absent.
        if matches!(field.ty, FieldType::Counter | FieldType::Duration | FieldType::Scaled | FieldType::Match(_)) {
            continue;
        }
        let value = record.field(index);
        let cut = record.list_total(index).zip(record.list_count(index)).is_some_and(|(total, count)| total > count);
        let doubt =
            if cut { Some(Doubt::ListFull) } else { of_value(FieldMeaning::of(&field.name), &field.ty, &value) };
        found.extend(doubt.map(|doubt| (index, doubt)));
    }
    found
}

/// What is implausible about one value; its meaning bounds it.
fn of_value(meaning: Option<FieldMeaning>, ty: &FieldType, value: &Value<'_>) -> Option<Doubt> {
    match (ty, value) {
        (_, Value::Missing) => Some(Doubt::Unread),
        (FieldType::Object(_), Value::Object { address: 0, .. }) if meaning == Some(FieldMeaning::Node) => {
            Some(Doubt::Null)
        }
        (FieldType::Text(most), Value::Text(text)) => {
            let not_text = |c: char| c == char::REPLACEMENT_CHARACTER || (c.is_control() && !c.is_whitespace());
            if text.chars().any(not_text) {
                return Some(Doubt::NotText);
            }
            (*most > 1 && text.len() as u64 + 1 >= u64::from(*most)).then_some(Doubt::TextFull)
        }
        (FieldType::Enum(_), Value::Enum { name: None, .. }) => Some(Doubt::NoName),
        (FieldType::Float(_), Value::Float(number)) => {
            (!number.is_finite() || number.abs() > MAX_FLOAT).then_some(Doubt::NoNumber)
        }
        (FieldType::Array(..) | FieldType::List(..), Value::List(values)) if meaning == Some(FieldMeaning::Shape) => {
            implausible_shape(values)
        }
        (FieldType::List(_, most), Value::List(values)) if values.len() as u64 == u64::from(*most) => {
            Some(Doubt::ListFull)
        }
        (FieldType::List(..) | FieldType::Array(..), Value::List(values)) if meaning == Some(FieldMeaning::Ids) => {
            values.iter().any(uncountable).then_some(Doubt::Number)
        }
        (FieldType::Array(of, _) | FieldType::List(of, _), Value::List(values)) => {
            values.iter().find_map(|value| of_value(None, of, value)).filter(|doubt| *doubt != Doubt::Unread)
        }
        (FieldType::Int(_) | FieldType::Uint(_), value)
            if matches!(meaning, Some(FieldMeaning::Tokens | FieldMeaning::Lane | FieldMeaning::SequenceCount)) =>
        {
            uncountable(value).then_some(Doubt::Number)
        }
        _ => None,
    }
}

fn uncountable(value: &Value<'_>) -> bool {
    match value {
        Value::Int(number) => !(0..=MAX_COUNT).contains(number),
        Value::Uint(number) => *number > MAX_COUNT.unsigned_abs(),
        _ => false,
    }
}

/// Extents that are negative, or whose product no memory holds.
fn implausible_shape(extents: &[Value<'_>]) -> Option<Doubt> {
    let numbers = extents.iter().filter_map(|extent| match extent {
        Value::Int(number) => Some(i128::from(*number)),
        Value::Uint(number) => Some(i128::from(*number)),
        _ => None,
    });
    let mut product = 1_i128;
    for number in numbers {
        // A place that is not used may be 0.
        product = product.saturating_mul(number.max(1));
        if number < 0 || product > MAX_ELEMENTS {
            return Some(Doubt::Extent);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubt(name: &str, ty: FieldType, value: Value<'_>) -> Option<Doubt> {
        of_value(FieldMeaning::of(name), &ty, &value)
    }

    #[test]
    fn implausible_values_are_found_and_others_not() {
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
