//! A target's type as text that can be read back: `i64[4]`, `struct tensor:336*[10]`, `enum op:4`, `void*`.

use super::TargetType;

/// Pointers and arrays around a type; more than any that is read.
const MAX_AROUND: usize = 16;
/// Bytes of a number.
const MAX_NUMBER: u64 = 16;
/// Bytes of a struct, and elements of an array.
const MAX_SIZE: u64 = 1 << 40;

/// The text of a type.
pub(super) fn write(ty: &TargetType) -> String {
    match ty {
        TargetType::Int { .. } | TargetType::Float { .. } | TargetType::Bool => ty.to_string(),
        TargetType::Pointer(None) => "void*".to_owned(),
        TargetType::Pointer(Some(to)) => format!("{}*", write(to)),
        TargetType::Array(of, Some(n)) => format!("{}[{n}]", write(of)),
        TargetType::Array(of, None) => format!("{}[]", write(of)),
        TargetType::Enum(name, size) => format!("enum {name}:{size}"),
        TargetType::Struct(name, size) => format!("struct {name}:{size}"),
        TargetType::Bits { size, signed, bits, shift } => {
            format!("bits {}{}:{bits}:{shift}", if *signed { 'i' } else { 'u' }, size * 8)
        }
        // With quotes, because it may end in anything.
        TargetType::Other(name) => format!("other \"{name}\""),
    }
}

/// The type of a text; `None` where it is none.
pub(super) fn parse(text: &str) -> Option<TargetType> {
    inside(text, 0)
}

fn inside(text: &str, depth: usize) -> Option<TargetType> {
    if depth > MAX_AROUND {
        return None;
    }
    if text == "void*" {
        return Some(TargetType::Pointer(None));
    }
    if let Some(to) = text.strip_suffix('*') {
        return Some(TargetType::Pointer(Some(Box::new(inside(to, depth + 1)?))));
    }
    if let Some(array) = text.strip_suffix(']') {
        let (of, length) = array.rsplit_once('[')?;
        let length = if length.is_empty() { None } else { Some(bounded(length, MAX_SIZE)?) };
        return Some(TargetType::Array(Box::new(inside(of, depth + 1)?), length));
    }
    let sized = |text: &str| {
        let (name, size) = text.rsplit_once(':')?;
        Some((name.to_owned(), bounded(size, MAX_SIZE)?))
    };
    match text.split_once(' ') {
        Some(("enum", rest)) => sized(rest).map(|(name, size)| TargetType::Enum(name, size)),
        Some(("struct", rest)) => sized(rest).map(|(name, size)| TargetType::Struct(name, size)),
        Some(("bits", rest)) => bits_of(rest),
        Some(("other", rest)) => Some(TargetType::Other(rest.strip_prefix('"')?.strip_suffix('"')?.to_owned())),
        Some(_) => None,
        None => number(text),
    }
}

/// `u32:3:5`: three bits from bit 5.
fn bits_of(text: &str) -> Option<TargetType> {
    let (of, rest) = text.split_once(':')?;
    let (bits, shift) = rest.split_once(':')?;
    let TargetType::Int { size, signed } = number(of)? else { return None };
    let (bits, shift) = (bounded(bits, size * 8)?, bounded(shift, size * 8)?);
    let fits = bits > 0 && bits + shift <= size * 8;
    let narrow = |number: u64| u32::try_from(number).ok();
    fits.then_some(TargetType::Bits { size, signed, bits: narrow(bits)?, shift: narrow(shift)? })
}

fn number(text: &str) -> Option<TargetType> {
    if text == "bool" {
        return Some(TargetType::Bool);
    }
    let (kind, bits) = text.split_at_checked(1)?;
    let size = bounded(bits, MAX_NUMBER * 8).filter(|bits| *bits > 0 && bits % 8 == 0)? / 8;
    match kind {
        "i" | "u" => Some(TargetType::Int { size, signed: kind == "i" }),
        "f" => Some(TargetType::Float { size }),
        _ => None,
    }
}

fn bounded(text: &str, most: u64) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| digits && *number <= most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_type() -> impl Strategy<Value = TargetType> {
        let name = "[a-zA-Z_:<>,* ]{0,12}";
        let plain =
            prop_oneof![
                (1..=16_u64, any::<bool>()).prop_map(|(size, signed)| TargetType::Int { size, signed }),
                (1..=16_u64).prop_map(|size| TargetType::Float { size }),
                Just(TargetType::Bool),
                (1..=8_u64, any::<bool>(), 1..=4_u32, 0..=4_u32)
                    .prop_map(|(size, signed, bits, shift)| TargetType::Bits { size, signed, bits, shift }),
                Just(TargetType::Pointer(None)),
                (name, 0..1000_u64).prop_map(|(name, size)| TargetType::Enum(name, size)),
                (name, 0..1000_u64).prop_map(|(name, size)| TargetType::Struct(name, size)),
                "[^\u{0}]{0,12}".prop_map(TargetType::Other),
            ];
        plain.prop_recursive(8, 8, 1, |inner| {
            prop_oneof![
                inner.clone().prop_map(|to| TargetType::Pointer(Some(Box::new(to)))),
                (inner, proptest::option::of(0..1000_u64)).prop_map(|(of, n)| TargetType::Array(Box::new(of), n)),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(ty in any_type()) {
            prop_assert_eq!(parse(&write(&ty)), Some(ty));
        }

        #[test]
        fn any_text_is_read(text in "\\PC{0,40}") {
            let _ = parse(&text);
        }
    }

    #[test]
    fn what_is_no_type_is_refused() {
        let deep = "*".repeat(100_000);
        for bad in
            ["", "i", "i7", "i0", "i256", "x8", "i64[", "i64[-1]", "i64[x]", "enum a", "struct", "other a", &deep]
        {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
