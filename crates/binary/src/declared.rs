//! The parameters in a C++ symbol: their types, as far as a mangled name has them. It has neither their
//! names nor the result, nor whether a function is a method or static.

use super::TargetType;
use super::names::with_parameters;

/// Classes of the C++ library that are given by address where they are taken by value.
const BY_ADDRESS: [&str; 6] = [
    "std::string",
    "std::__cxx11::basic_string",
    "std::basic_string",
    "std::vector",
    "std::shared_ptr",
    "std::function",
];

/// The declaration in a symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// Types of the parameters, without `this`; `None` from the first on that cannot be placed.
    pub parameters: Vec<Option<TargetType>>,
    /// It is a method of an object that it does not change, and so has a `this`.
    pub is_const: bool,
}

/// The declaration in a mangled symbol; `None` for one that is not mangled.
pub fn declared(symbol: &str) -> Option<Declared> {
    let (list, after) = with_parameters(symbol)?;
    let parameters = match list.trim() {
        "" | "void" => Vec::new(),
        list => split(list).into_iter().map(|text| type_of(text.trim())).collect(),
    };
    Some(Declared { parameters, is_const: after.split_whitespace().any(|word| word == "const") })
}

/// The parts of a list between commas that stand in no brackets.
fn split(list: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0usize);
    for (at, c) in list.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' | ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(list.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(list.get(start..).unwrap_or_default());
    parts
}

fn type_of(text: &str) -> Option<TargetType> {
    let plain = |text: &str| {
        let text = text.trim();
        let text = text.strip_prefix("const ").unwrap_or(text);
        text.strip_suffix(" const").unwrap_or(text).trim().to_owned()
    };
    let text = plain(text);
    // What a pointer, a reference, a function or an array is given by, is an address.
    if text.ends_with([')', ']']) {
        return Some(TargetType::Pointer(None));
    }
    if text.ends_with(['*', '&']) {
        let to = text.trim_end_matches(['&']).strip_suffix('*').or_else(|| text.strip_suffix('&'))?;
        let to = plain(to.trim_end_matches('&'));
        let class = !to.is_empty() && !to.ends_with(['*', ')', ']']) && fundamental(&to).is_none() && to != "void";
        return Some(TargetType::Pointer(class.then(|| Box::new(TargetType::Struct(to, 0)))));
    }
    if BY_ADDRESS
        .iter()
        .any(|prefix| text.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('<')))
    {
        return Some(TargetType::Pointer(None));
    }
    fundamental(&text)
}

fn fundamental(name: &str) -> Option<TargetType> {
    let int = |size, signed| Some(TargetType::Int { size, signed });
    match name {
        "bool" => Some(TargetType::Bool),
        "char" | "signed char" => int(1, true),
        "unsigned char" => int(1, false),
        "short" => int(2, true),
        "unsigned short" => int(2, false),
        "int" => int(4, true),
        "unsigned int" => int(4, false),
        "long" | "long long" => int(8, true),
        "unsigned long" | "unsigned long long" => int(8, false),
        "float" => Some(TargetType::Float { size: 4 }),
        "double" => Some(TargetType::Float { size: 8 }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str) -> Option<TargetType> {
        Some(TargetType::Pointer(Some(Box::new(TargetType::Struct(name.to_owned(), 0)))))
    }

    #[test]
    fn a_mangled_name_says_what_a_function_takes() {
        // ns::Layer::run(int, ns::Tensor const&, float*, std::vector<int> const&, unsigned long) const
        let declaration = declared("_ZNK2ns5Layer3runEiRKNS_6TensorEPfRKSt6vectorIiSaIiEEm").unwrap();
        assert!(declaration.is_const);
        assert_eq!(
            declaration.parameters[..3],
            [Some(TargetType::Int { size: 4, signed: true }), class("ns::Tensor"), Some(TargetType::Pointer(None)),]
        );
        assert!(matches!(declaration.parameters[3], Some(TargetType::Pointer(_))));
        assert_eq!(declaration.parameters[4], Some(TargetType::Int { size: 8, signed: false }));
        assert_eq!(declared("_Z4stepv"), Some(Declared { parameters: Vec::new(), is_const: false }));
        assert_eq!(declared("plain_c"), None);
        // A class by value may be in registers or not: what comes after it cannot be placed.
        assert_eq!(declared("_Z3runN2ns4SizeEi").unwrap().parameters[0], None);
        // A function that takes a function.
        assert_eq!(declared("_Z3runPFivE").unwrap().parameters, [Some(TargetType::Pointer(None))]);
    }

    proptest::proptest! {
        #[test]
        fn any_symbol_is_answered(symbol in "_Z[A-Za-z0-9_]{0,60}") {
            let _ = declared(&symbol);
        }
    }
}
