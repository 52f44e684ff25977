//! Whether what the target has can be read as the spec declares it. What a C++ library class contains follows from
//! that class's name alone, which debug information and lock files have.

use profinfer_binary::TargetType;
use profinfer_probeset::path::Type;

/// What a name that is no number's is in the target, where that was found.
pub(super) type Ask<'a> = &'a dyn Fn(&str) -> Option<TargetType>;

/// Whether a member of the target can be read as the spec declares it.
pub(super) fn fits(declared: &Type, target: &TargetType, ask: Ask<'_>) -> bool {
    match (declared, target) {
        (Type::Int { size, signed }, TargetType::Int { size: of, signed: is }) => {
            u64::from(*size) == *of && signed == is
        }
        (Type::Int { size, .. }, TargetType::Enum(_, of)) => u64::from(*size) == *of,
        (Type::Int { size: 1, .. } | Type::Bool, TargetType::Bool) => true,
        (Type::Bool, TargetType::Int { size: 1, .. }) => true,
        (Type::Float { size }, TargetType::Float { size: of }) => u64::from(*size) == *of,
        (Type::Enum(name), TargetType::Enum(of, 4)) => same_name(name, of),
        (Type::Pointer(to), TargetType::Pointer(of)) => match (&**to, of.as_deref()) {
            (Type::Void, _) | (_, None) => true,
            (Type::View(name), Some(TargetType::Struct(of, _) | TargetType::Other(of))) => same_name(name, of),
            (to, Some(of)) => fits(to, of, ask),
        },
        (Type::Reference(to), target @ TargetType::Pointer(_)) => fits(&Type::Pointer(to.clone()), target, ask),
        (Type::Bits { size, signed, bits }, TargetType::Bits { size: of, signed: is, bits: has, .. }) => {
            u64::from(*size) == *of && signed == is && bits == has
        }
        (Type::StdString(_), TargetType::Struct(name, size)) => is_string(name) && matches!(size, 8 | 24 | 32),
        (Type::StdVector(of), TargetType::Struct(name, 24)) => holds(name, "vector", of, ask),
        (Type::Optional(of), TargetType::Struct(name, _)) => holds(name, "optional", of, ask),
        (Type::Variant(of), TargetType::Struct(name, _)) => holds_one_of(name, of, ask),
        (Type::Map { .. }, TargetType::Struct(name, _)) => holds_by_key(name, declared, ask),
        (Type::Smart { to, shared: true }, TargetType::Struct(name, 16)) => holds(name, "shared_ptr", to, ask),
        (Type::Smart { to, shared: false }, TargetType::Struct(name, 8)) => holds(name, "unique_ptr", to, ask),
        (Type::Relative { size, .. }, target) => bytes_of(target).is_none_or(|bytes| bytes == u64::from(*size)),
        (Type::CStr(_), TargetType::Pointer(to)) => {
            to.as_deref().is_none_or(|to| matches!(to, TargetType::Int { size: 1, .. }))
        }
        (Type::Object(_), TargetType::Pointer(_)) => true,
        (Type::Array(of, n), TargetType::Array(is, Some(length))) => n == length && fits(of, is, ask),
        (Type::Chars(n), TargetType::Array(is, Some(length))) => {
            n == length && matches!(**is, TargetType::Int { size: 1, .. })
        }
        (Type::Hex(n), target) => bytes_of(target).is_none_or(|bytes| bytes >= *n),
        (Type::View(name), TargetType::Struct(of, _)) => same_name(name, of),
        _ => false,
    }
}

fn bytes_of(target: &TargetType) -> Option<u64> {
    match target {
        TargetType::Int { size, .. } | TargetType::Float { size } => Some(*size),
        TargetType::Enum(_, size) | TargetType::Struct(_, size) => Some(*size),
        TargetType::Bool => Some(1),
        TargetType::Pointer(_) => Some(8),
        TargetType::Array(of, length) => bytes_of(of)?.checked_mul((*length)?),
        TargetType::Bits { .. } | TargetType::Other(_) => None,
    }
}

/// The name of a class of the C++ library without its namespaces: `vector<int, std::allocator<int> >`.
pub(super) fn in_std(name: &str) -> Option<&str> {
    let rest = name.strip_prefix("std::")?;
    // Libraries version themselves by inline namespaces: `std::__cxx11::`, `std::__1::`, `std::__ndk1::`.
    let versioned = rest.split_once("::").filter(|(head, _)| head.starts_with("__") && !head.contains('<'));
    Some(versioned.map_or(rest, |(_, inner)| inner))
}

fn is_string(name: &str) -> bool {
    let plain = in_std(name).unwrap_or(name);
    plain == "string" || plain.starts_with("basic_string<char")
}

/// Whether a class of the C++ library is this template of that type. Where its name has no type, it is believed.
fn holds(name: &str, template: &str, of: &Type, ask: Ask<'_>) -> bool {
    let plain = in_std(name).unwrap_or(name);
    let Some(arguments) = plain.strip_prefix(template) else { return false };
    match arguments.strip_prefix('<') {
        Some(arguments) => is_named(first_argument(arguments), of, ask),
        // Some compilers leave the arguments out of the name.
        None => arguments.is_empty(),
    }
}

/// Whether a class of the C++ library is a variant of these types, in this order.
fn holds_one_of(name: &str, of: &[Type], ask: Ask<'_>) -> bool {
    let plain = in_std(name).unwrap_or(name);
    let Some(arguments) = plain.strip_prefix("variant") else { return false };
    let Some(mut rest) = arguments.strip_prefix('<') else { return arguments.is_empty() };
    for (number, alternative) in of.iter().enumerate() {
        let one = first_argument(rest);
        let fits = match alternative {
            Type::Void => in_std(one) == Some("monostate"),
            _ => is_named(one, alternative, ask),
        };
        let ends = if number + 1 == of.len() { '>' } else { ',' };
        rest = rest.trim_start().strip_prefix(one).unwrap_or_default().trim_start();
        match rest.strip_prefix(ends) {
            Some(after) if fits => rest = after,
            _ => return false,
        }
    }
    true
}

/// Whether a class of the C++ library is this map or set of these types.
fn holds_by_key(name: &str, declared: &Type, ask: Ask<'_>) -> bool {
    let Type::Map { key, value, .. } = declared else { return false };
    let (plain, declared) = (in_std(name).unwrap_or(name), declared.to_string());
    let class = declared.trim_start_matches("std::").split('<').next().unwrap_or_default();
    let Some(arguments) = plain.strip_prefix(class) else { return false };
    let Some(rest) = arguments.strip_prefix('<') else { return arguments.is_empty() };
    let of_key = first_argument(rest);
    let rest = rest.trim_start().strip_prefix(of_key).unwrap_or_default().trim_start();
    let of_value = |value| rest.strip_prefix(',').is_some_and(|rest| is_named(first_argument(rest), value, ask));
    is_named(of_key, key, ask) && value.as_deref().is_none_or(of_value)
}

/// The text up to the comma or bracket that ends the first of a template's arguments.
fn first_argument(arguments: &str) -> &str {
    let mut depth = 0_usize;
    let end = arguments.char_indices().find(|(_, c)| {
        match c {
            '<' | '(' => depth += 1,
            '>' | ',' if depth == 0 => return true,
            '>' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        false
    });
    end.map_or(arguments, |(at, _)| &arguments[..at]).trim()
}

/// Whether a type of the target that is identified by its name can be read as the spec declares it.
fn is_named(name: &str, declared: &Type, ask: Ask<'_>) -> bool {
    let name = unqualified(name);
    if *declared == Type::Void {
        return true; // nothing of it is read
    }
    if let Some(to) = name.strip_suffix('*').map(unqualified) {
        return match declared {
            Type::Pointer(of) => **of == Type::Void || to == "void" || is_named(to, of, ask),
            Type::CStr(_) => to == "void" || matches!(number(to), Some(TargetType::Int { size: 1, .. })),
            Type::Object(_) => true,
            _ => false,
        };
    }
    if name.contains("(*)") {
        // A pointer to a function.
        return matches!(declared, Type::Pointer(of) if **of == Type::Void);
    }
    if name == "char" {
        // Its sign is the platform's.
        return [true, false].iter().any(|signed| fits(declared, &TargetType::Int { size: 1, signed: *signed }, ask));
    }
    if let Some(number) = number(name) {
        return fits(declared, &number, ask);
    }
    match declared {
        Type::View(view) => same_name(view, name),
        Type::Enum(of) => same_name(of, name),
        Type::StdString(_) => is_string(name),
        Type::StdVector(of) => holds(name, "vector", of, ask),
        Type::Optional(of) => holds(name, "optional", of, ask),
        Type::Variant(of) => holds_one_of(name, of, ask),
        Type::Map { .. } => holds_by_key(name, declared, ask),
        Type::Smart { to, shared } => holds(name, if *shared { "shared_ptr" } else { "unique_ptr" }, to, ask),
        Type::Int { .. } => in_std(name).is_none() && !matches!(ask(name), Some(TargetType::Struct(..))),
        Type::Array(..) | Type::Chars(_) => in_std(name).is_some_and(|plain| plain.starts_with("array<")),
        Type::Hex(_) | Type::Relative { .. } => true,
        _ => false,
    }
}

fn unqualified(name: &str) -> &str {
    let mut name = name.trim();
    loop {
        let plain =
            name.strip_suffix(" const").or_else(|| name.strip_suffix("*const").map(|_| &name[..name.len() - 5]));
        let plain = plain.or_else(|| name.strip_prefix("const ")).map(str::trim);
        match plain {
            Some(plain) => name = plain,
            None => return name,
        }
    }
}

/// A number's type by C's names, in whatever order compilers write their words.
fn number(name: &str) -> Option<TargetType> {
    let (mut long, mut short, mut signed, mut kind) = (0, false, None, None);
    for word in name.split_whitespace() {
        match word {
            "long" => long += 1,
            "short" => short = true,
            "signed" => signed = Some(true),
            "unsigned" => signed = Some(false),
            word if kind.is_none() => kind = Some(word),
            _ => return None,
        }
    }
    let int = |size| TargetType::Int { size, signed: signed.unwrap_or(true) };
    Some(match (kind, short, long) {
        (Some("bool" | "_Bool"), false, 0) => TargetType::Bool,
        (Some("char"), false, 0) => int(1),
        (Some("char8_t"), false, 0) => TargetType::Int { size: 1, signed: false },
        (Some("char16_t"), false, 0) => TargetType::Int { size: 2, signed: false },
        (Some("char32_t"), false, 0) => TargetType::Int { size: 4, signed: false },
        (Some("__int128"), false, 0) => int(16),
        (Some("_Float16" | "__bf16" | "std::float16_t" | "std::bfloat16_t"), false, 0) => TargetType::Float { size: 2 },
        (Some("float"), false, 0) => TargetType::Float { size: 4 },
        (Some("double"), false, 0) => TargetType::Float { size: 8 },
        (Some("double"), false, 1) => TargetType::Float { size: 16 },
        (None | Some("int"), true, 0) => int(2),
        (None | Some("int"), false, 1 | 2) => int(8),
        (Some("int"), false, 0) => int(4),
        (None, false, 0) if signed.is_some() => int(4),
        _ => return None,
    })
}

/// Names that strings have in debug information.
pub(super) const STRING_NAMES: [&str; 2] =
    ["std::string", "std::basic_string<char, std::char_traits<char>, std::allocator<char> >"];

/// Equal, or equal up to the namespaces that one of them leaves out.
fn same_name(one: &str, other: &str) -> bool {
    let qualifies = |long: &str, short: &str| long.strip_suffix(short).is_some_and(|rest| rest.ends_with("::"));
    one == other || qualifies(one, other) || qualifies(other, one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use profinfer_diagnostics::{Source, Span};
    use profinfer_probeset::path::parse_type;
    use std::sync::Arc;

    fn declared(text: &str) -> Type {
        let span = Span::new(&Arc::new(Source { name: "test.yaml".into(), text: text.into() }), 0..text.len());
        parse_type(text, &span).unwrap()
    }

    /// Of what the target has, `Shape` is a class and `Kind` an enumeration; it has no others.
    fn named(name: &str) -> Option<TargetType> {
        match name {
            "ns::Shape" => Some(TargetType::Struct(name.to_owned(), 8)),
            "ns::Kind" => Some(TargetType::Enum(name.to_owned(), 0)),
            _ => None,
        }
    }

    fn is(name: &str, size: u64, as_declared: &str) -> bool {
        fits(&declared(as_declared), &TargetType::Struct(name.to_owned(), size), &named)
    }

    #[test]
    fn a_vector_is_of_elements_of_the_same_size_and_kind() {
        let vector = |of: &str, declared: &str| {
            is(&format!("std::vector<{of}, std::allocator<{of}> >"), 24, &format!("std::vector<{declared}>"))
        };
        let fit = [
            ("int", "i32"),
            ("unsigned int", "u32"),
            ("long int", "i64"),
            ("long", "i64"),
            ("long unsigned int", "u64"),
            ("unsigned long long", "u64"),
            ("short int", "i16"),
            ("unsigned short", "u16"),
            ("char", "i8"),
            ("char", "u8"),
            ("signed char", "i8"),
            ("float", "f32"),
            ("double", "f64"),
            ("float*", "f32*"),
            ("float const*", "f32*"),
            ("const char*", "cstr(8)"),
            ("char const* const", "cstr(8)"),
            ("ns::Shape*", "void*"),
            ("void*", "Shape*"),
            ("void (*)(int)", "void*"),
            ("ns::Shape", "ns::Shape"),
            ("ns::Shape*", "Shape*"),
            ("ns::Kind", "enum ns::Kind"),
            ("ns::Kind", "i32"),
            ("ns::Unknown", "i32"),
            ("std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string(8)"),
            ("std::shared_ptr<ns::Shape>", "std::shared_ptr<ns::Shape>"),
            ("std::vector<int, std::allocator<int> >", "std::vector<i32>"),
        ];
        for (of, declared) in fit {
            assert!(vector(of, declared), "{of} as {declared}");
        }
        let other = [
            ("long int", "i32"),
            ("unsigned int", "i32"),
            ("float", "i32"),
            ("int", "f32"),
            ("double", "f32"),
            ("bool", "i32"),
            ("int*", "i32"),
            ("int", "i32*"),
            ("long*", "i32*"),
            ("float", "cstr(8)"),
            ("int*", "cstr(8)"),
            ("ns::Shape", "i32"),
            ("ns::Shape", "f32"),
            ("ns::Shape", "ns::Kind"),
            ("ns::Shape", "Shape*"),
            ("int", "enum ns::Kind"),
            ("std::pair<int, int>", "i64"),
            ("std::shared_ptr<ns::Shape>", "std::shared_ptr<ns::Kind>"),
            ("std::unique_ptr<ns::Shape, std::default_delete<ns::Shape> >", "std::shared_ptr<ns::Shape>"),
            ("std::vector<long int, std::allocator<long int> >", "std::vector<i32>"),
            ("std::basic_string<wchar_t, std::char_traits<wchar_t>, std::allocator<wchar_t> >", "std::string(8)"),
        ];
        for (of, declared) in other {
            assert!(!vector(of, declared), "{of} as {declared}");
        }
    }

    #[test]
    fn pointers_to_what_a_class_owns_are_compared_too() {
        assert!(is("std::shared_ptr<int>", 16, "std::shared_ptr<i32>"));
        assert!(!is("std::shared_ptr<double>", 16, "std::shared_ptr<i32>"));
        assert!(is("std::__1::unique_ptr<float, std::__1::default_delete<float> >", 8, "std::unique_ptr<f32>"));
        assert!(!is("std::unique_ptr<float, std::default_delete<float> >", 8, "std::unique_ptr<i32>"));
        assert!(is("std::shared_ptr<void>", 16, "std::shared_ptr<void>"));
        // A name without its arguments does not constrain them.
        assert!(is("std::vector", 24, "std::vector<i32>"));
        assert!(!is("std::vector_like<int>", 24, "std::vector<i32>"));
    }

    #[test]
    fn what_a_class_that_may_be_empty_holds_is_compared() {
        assert!(is("std::optional<int>", 8, "std::optional<i32>"));
        assert!(is("std::__1::optional<ns::Shape>", 16, "std::optional<ns::Shape>"));
        assert!(is("std::optional<std::vector<int, std::allocator<int> > >", 32, "std::optional<std::vector<i32>>"));
        assert!(!is("std::optional<long>", 16, "std::optional<i32>"));
        assert!(!is("std::vector<int>", 24, "std::optional<i32>"));
        let variants = [
            ("std::variant<int, long>", "std::variant<i32, i64>", true),
            (
                "std::variant<std::monostate, std::vector<int, std::allocator<int> >, float>",
                "std::variant<std::monostate, std::vector<i32>, f32>",
                true,
            ),
            ("std::__1::variant<std::__1::monostate, ns::Shape*>", "std::variant<std::monostate, Shape*>", true),
            ("std::variant<int, long>", "std::variant<i64, i32>", false),
            ("std::variant<int, long>", "std::variant<i32>", false),
            ("std::variant<int>", "std::variant<i32, i64>", false),
            ("std::variant<int, long>", "std::variant<std::monostate, i64>", false),
            ("std::variant<", "std::variant<i32>", false),
            ("std::variant", "std::variant<i32>", true),
        ];
        for (name, declared, fits) in variants {
            assert_eq!(is(name, 24, declared), fits, "{name} as {declared}");
        }
    }

    #[test]
    fn the_keys_and_values_of_maps_are_compared() {
        let strings = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
        let named =
            format!("std::unordered_map<{strings}, ns::Shape, std::hash<{strings} >, std::equal_to<{strings} > >");
        let cases = [
            (named.as_str(), "std::unordered_map<std::string, Shape>", true),
            (named.as_str(), "std::unordered_map<std::string, i32>", false),
            (named.as_str(), "std::unordered_map<i32, Shape>", false),
            (named.as_str(), "std::map<std::string, Shape>", false),
            ("std::map<int, long, std::less<int>, A<std::pair<int const, long> > >", "std::map<i32, i64>", true),
            ("std::__1::map<int, long>", "std::map<i32, i64>", true),
            ("std::map<int, long>", "std::multimap<i32, i64>", false),
            ("std::map<int, long>", "std::set<i32>", false),
            ("std::set<int, std::less<int>, std::allocator<int> >", "std::set<i32>", true),
            ("std::set<long>", "std::set<i32>", false),
            ("std::map<int>", "std::map<i32, i64>", false),
            ("std::map<", "std::map<i32, i64>", false),
            ("std::map", "std::map<i32, i64>", true),
        ];
        for (name, declared, fits) in cases {
            assert_eq!(is(name, 48, declared), fits, "{name} as {declared}");
        }
    }

    #[test]
    fn names_that_no_compiler_gives_do_no_harm() {
        for name in [
            "std::vector<",
            "std::vector<,",
            "std::vector<>",
            "std::vector<<<<",
            "std::vector<*",
            "std::vector<const >",
        ] {
            is(name, 24, "std::vector<i32>");
            is(name, 24, "std::vector<std::vector<Shape*>>");
        }
    }
}
