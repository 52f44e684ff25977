//! Mangled names of C++ functions, as a person writes them. Symbols come from files and programs of others: what one
//! stands for is bounded.

use cpp_demangle::{BorrowedSymbol, DemangleOptions, DemangleWrite, ParseOptions};

/// A mangled name can stand for one that is exponentially longer; in real template libraries
/// about ten times.
const MAX_DEMANGLED: usize = 64 << 10;
const MAX_TIMES_LONGER: usize = 64;
/// Short names may be so long in any case.
const ALWAYS_DEMANGLED: usize = 1 << 10;

/// The demangled name without parameters, return type and ABI tags; `None` if it is not mangled, or malformed.
pub fn demangled(symbol: &str) -> Option<String> {
    text(symbol, &parsed(symbol)?, &DemangleOptions::new().no_params().no_return_type())
        .map(|name| without_qualifier(symbol, name))
}

/// The same, and with parameters.
pub fn demangled_with_parameters(symbol: &str) -> Option<(String, String)> {
    let (parsed, options) = (parsed(symbol)?, DemangleOptions::new().no_return_type());
    let name = without_qualifier(symbol, text(symbol, &parsed, &options.no_params())?);
    Some((name, text(symbol, &parsed, &options)?))
}

/// The name of a function of which the symbol may have been cut: then without its template arguments.
pub fn demangled_or_begun(symbol: &str) -> Option<String> {
    demangled(symbol).or_else(|| begun(symbol.strip_prefix("_Z")?))
}

fn parsed(symbol: &str) -> Option<BorrowedSymbol<'_>> {
    let is_mangled = symbol.starts_with("_Z");
    is_mangled.then(|| BorrowedSymbol::new_with_options(symbol.as_bytes(), &ParseOptions::default()).ok())?
}

fn text(symbol: &str, parsed: &BorrowedSymbol<'_>, options: &DemangleOptions) -> Option<String> {
    let mut text = Bounded::of(symbol);
    parsed.structured_demangle(&mut text, options).ok()?;
    Some(without_tags(text.text))
}

/// The names with which a mangled name begins, each after its length: `2at6native4copyI…` is `at::native::copy<…>`.
fn begun(mangled: &str) -> Option<String> {
    let mut rest = mangled.strip_prefix('N').unwrap_or(mangled);
    let mut names = Vec::new();
    if let Some(after) = rest.strip_prefix("St") {
        names.push("std");
        rest = after;
    }
    loop {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (length, after) = rest.split_at(digits);
        let Some(name) = length.parse().ok().and_then(|length: usize| after.get(..length)) else { break };
        names.push(if name.starts_with("_GLOBAL__N_") { "(anonymous namespace)" } else { name });
        rest = &after[name.len()..];
    }
    let arguments = if rest.starts_with('I') { "<…>" } else { "" };
    (!names.is_empty()).then(|| names.join("::") + arguments)
}

/// What is within a function, such as a lambda, is printed with the `const` that other names lose with their parameters.
fn without_qualifier(symbol: &str, mut name: String) -> String {
    if symbol.starts_with("_ZZ") && name.ends_with("() const") {
        name.truncate(name.len() - " const".len());
    }
    name
}

/// `name` of `name[abi:cxx11]`.
fn without_tags(name: String) -> String {
    if !name.contains("[abi:") {
        return name;
    }
    let mut plain = String::with_capacity(name.len());
    let mut rest = name.as_str();
    while let Some((before, after)) = rest.split_once("[abi:") {
        plain.push_str(before);
        rest = after.split_once(']').map_or("", |(_, after)| after);
    }
    plain.push_str(rest);
    plain
}

/// Text that refuses to grow without end.
struct Bounded {
    text: String,
    most: usize,
}

impl Bounded {
    /// For what a symbol stands for.
    fn of(symbol: &str) -> Self {
        let most = symbol.len().saturating_mul(MAX_TIMES_LONGER).saturating_add(ALWAYS_DEMANGLED).min(MAX_DEMANGLED);
        Self { text: String::new(), most }
    }
}

impl DemangleWrite for Bounded {
    fn write_string(&mut self, text: &str) -> std::fmt::Result {
        if self.text.len() + text.len() > self.most {
            return Err(std::fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_that_was_cut_has_its_names() {
        let whole = "_ZN2at6native12_GLOBAL__N_14copyINS_4HalfEEEvPT_";
        assert_eq!(demangled_or_begun(whole).unwrap(), "at::native::(anonymous namespace)::copy<at::Half>");
        assert_eq!(demangled_or_begun(&whole[..34]).unwrap(), "at::native::(anonymous namespace)::copy<…>");
        assert_eq!(demangled_or_begun("_Z3addILi7EEvmP").unwrap(), "add<…>");
        assert_eq!(demangled_or_begun("_ZNSt3fooI").unwrap(), "std::foo<…>");
        for other in ["add", "_Z", "_Z9short", "_ZN", "_Z99999999999999999999a"] {
            assert_eq!(demangled_or_begun(other), None, "{other}");
        }
    }
}
