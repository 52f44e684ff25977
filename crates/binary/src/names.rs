//! Names of functions: how a symbol becomes the name that a person writes, and which symbols a pattern means.

use profinfer_probeset::path::NamePattern;
use profinfer_probeset::symbol::{demangled, demangled_with_parameters};
use regex::{Regex, RegexBuilder};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Longer symbols are ignored; the longest of real template libraries have about 10 kB.
pub(crate) const MAX_SYMBOL: usize = 16 << 10;
/// Bytes of a compiled pattern.
const MAX_REGEX: usize = 1 << 20;
/// Patterns whose compiled form is stored: 100 MB at most, some kilobytes each in practice.
const MOST_COMPILED: usize = 512;

/// Suffixes that a compiler gives to a changed copy of a whole function.
const CLONES: [&str; 6] = ["isra", "constprop", "lto_priv", "localalias", "llvm", "__uniq"];
/// Those of them whose parameters may be fewer than the source's, and in other places.
const WITHOUT_PARAMETERS: [&str; 2] = ["isra", "constprop"];
/// Beginnings of the suffixes of a function's versions for several processors, one of which is chosen at start-up. On
/// x86-64 they name the features, on arm64 these stand behind `_M`.
const VERSIONS: [&str; 29] = [
    "default",
    "arch_",
    "_M",
    "adx",
    "aes",
    "amx",
    "apx",
    "avx",
    "bmi",
    "cmov",
    "cx16",
    "f16c",
    "fma",
    "fxsr",
    "gfni",
    "lzcnt",
    "mmx",
    "movbe",
    "pclmul",
    "popcnt",
    "rdrnd",
    "sha",
    "sse",
    "ssse3",
    "sve",
    "vaes",
    "vpclmulqdq",
    "xop",
    "xsave",
];
/// Suffixes of a piece cut out of a function, or of the code that chooses one of its versions.
const PARTS: [&str; 4] = ["cold", "part", "resolver", "ifunc"];
/// How symbols of what is within a function begin.
const WITHIN: &str = "_ZZ";
/// Mangled code that only leads to a function: thunks, thread-local wrappers.
const THUNKS: [&str; 5] = ["_ZTh", "_ZTv", "_ZTc", "_ZTW", "_ZTH"];

/// Words of demangled names that stand in the mangled name as an abbreviation, or not at all.
const UNSPELLED: [&str; 45] = [
    "std",
    "allocator",
    "basic_string",
    "string",
    "basic_istream",
    "basic_ostream",
    "basic_iostream",
    "istream",
    "ostream",
    "iostream",
    "char_traits",
    "operator",
    "anonymous",
    "namespace",
    "lambda",
    "unnamed",
    "type",
    "auto",
    "decltype",
    "nullptr_t",
    "new",
    "delete",
    "unsigned",
    "signed",
    "char8_t",
    "char16_t",
    "char32_t",
    "wchar_t",
    "short",
    "char",
    "int",
    "long",
    "__int128",
    "float",
    "double",
    "bool",
    "void",
    "const",
    "volatile",
    "true",
    "false",
    "sizeof",
    "alignof",
    "noexcept",
    "__float128",
];

/// What a symbol's suffixes mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SymbolKind {
    /// A function, or a copy of the whole of one.
    Function,
    /// A piece of one.
    Part,
}

/// A symbol that a pattern means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Match {
    /// Demangled, without parameters and clone suffixes.
    pub(crate) name: String,
    /// The text under each wildcard.
    pub(crate) captures: Vec<String>,
}

static COMPILED: Mutex<BTreeMap<String, Option<Regex>>> = Mutex::new(BTreeMap::new());

/// Frees the memory of compiled regular expressions.
#[cfg(target_os = "linux")]
pub(crate) fn forget_compiled() {
    COMPILED.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// A regular expression, compiled once: each file that a target maps is asked for the same names.
fn compiled(text: &str) -> Option<Regex> {
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(regex) = compiled.get(text) {
        return regex.clone();
    }
    let regex = RegexBuilder::new(text).size_limit(MAX_REGEX).build().ok();
    if compiled.len() < MOST_COMPILED {
        compiled.insert(text.to_owned(), regex.clone());
    }
    regex
}

/// A pattern, ready to be compared with many symbols.
#[derive(Debug)]
pub(crate) struct Matcher {
    pattern: String,
    /// `None` for a plain name.
    regex: Option<Regex>,
    /// For each choice that its braces leave, the texts that a symbol of it contains, mangled or not.
    choices: Vec<Vec<String>>,
    /// It is compared with names with their parameters.
    with_parameters: bool,
    /// It has wildcards, and names nothing within a function: they do not reach there. What a compiler makes of a lambda may
    /// be called for each number of a tensor.
    is_outermost: bool,
}

impl Matcher {
    /// `None` for a pattern that is malformed or too costly, which means no function.
    pub(crate) fn new(pattern: &NamePattern) -> Option<Self> {
        let regex = if pattern.is_glob() { Some(compiled(&pattern.to_regex())?) } else { None };
        let before_parameters = pattern.before_parameters();
        let of_names = NamePattern(before_parameters.unwrap_or(&pattern.0).to_owned());
        Some(Self {
            pattern: pattern.0.clone(),
            regex,
            choices: of_names.choices().iter().map(|choice| literals(choice)).collect(),
            with_parameters: before_parameters.is_some(),
            is_outermost: pattern.has_wildcards() && !pattern.is_within_function(),
        })
    }

    /// Texts of which every symbol that the pattern means contains one, mangled or not; `None` where none is certain.
    pub(crate) fn literals(&self) -> Option<Vec<&str>> {
        self.choices.iter().map(|choice| longest(choice)).collect()
    }

    /// Whether the pattern means this symbol.
    pub(crate) fn matches(&self, symbol: &str) -> Option<Match> {
        // To demangle a name costs far more than to see that it cannot be meant.
        let may_be = |literals: &Vec<String>| literals.iter().all(|literal| symbol.contains(literal));
        if symbol.len() > MAX_SYMBOL || !self.choices.iter().any(may_be) {
            return None;
        }
        if self.regex.is_none() && self.pattern == symbol {
            return Some(Match { name: readable(symbol).1, captures: Vec::new() });
        }
        if THUNKS.iter().any(|thunk| symbol.starts_with(thunk)) || (symbol.starts_with(WITHIN) && self.is_outermost) {
            return None;
        }
        let (kind, name) = readable(symbol);
        if kind == SymbolKind::Part {
            return None;
        }
        if self.with_parameters {
            let (parameters, qualifiers) = with_parameters(symbol)?;
            let name = printable(format!("{name}({parameters}){qualifiers}"));
            return Some(Match { captures: self.captures(&name)?, name });
        }
        let captures = self.captures(&name).or_else(|| self.captures(unversioned(symbol)))?;
        Some(Match { name, captures })
    }

    /// The same of a function without a symbol: its name, and what stands between its parentheses.
    pub(crate) fn matches_name(&self, name: &str, parameters: &str) -> Option<Match> {
        let name = printable(match self.with_parameters {
            true => format!("{name}({parameters})"),
            false => name.to_owned(),
        });
        Some(Match { captures: self.captures(&name)?, name })
    }

    fn captures(&self, name: &str) -> Option<Vec<String>> {
        let Some(regex) = &self.regex else { return (self.pattern == name).then(Vec::new) };
        let groups = regex.captures(name)?;
        Some(groups.iter().skip(1).map(|group| group.map_or_else(String::new, |g| g.as_str().to_owned())).collect())
    }
}

/// `memcpy` of `memcpy@@GLIBC_2.14`.
fn unversioned(symbol: &str) -> &str {
    symbol.split_once('@').map_or(symbol, |(name, _)| name)
}

/// A symbol's name without version, suffixes and parameters.
pub(crate) fn readable_name(symbol: &str) -> String {
    if symbol.len() > MAX_SYMBOL { String::new() } else { readable(symbol).1 }
}

/// A class's name, of the one that its type information has: mangled, without `_Z`.
pub(crate) fn class_name(mangled: &str) -> String {
    let name = || {
        let symbol = format!("_ZTS{mangled}");
        demangled(&symbol).filter(|_| symbol.len() <= MAX_SYMBOL)?.strip_prefix("typeinfo name for ").map(str::to_owned)
    };
    printable(name().unwrap_or_else(|| mangled.to_owned()))
}

/// A name without line breaks and other characters that steer a terminal: no compiler writes any.
fn printable(name: String) -> String {
    // There are hundreds of thousands of them, and hardly any has such a character.
    if name.contains(profinfer_diagnostics::steers) { profinfer_diagnostics::printable(&name) } else { name }
}

/// The kind of a symbol and its name without version, suffixes and parameters.
fn readable(symbol: &str) -> (SymbolKind, String) {
    let symbol = unversioned(symbol);
    // A dot never stands in a C or mangled name but before a suffix; the first character is a name's.
    let Some(dot) = symbol.get(1..).and_then(|rest| rest.find('.')).map(|at| at + 1) else {
        return (SymbolKind::Function, demangle(symbol));
    };
    let (stem, suffixes) = (&symbol[..dot], &symbol[dot + 1..]);
    if suffixes.split('.').any(|word| PARTS.contains(&word)) {
        return (SymbolKind::Part, demangle(stem));
    }
    if suffixes.split('.').all(names_a_copy) {
        return (SymbolKind::Function, demangle(stem));
    }
    // Any other suffix is another function's name: `run._omp_fn.0` is the body of a parallel loop in `run`.
    (SymbolKind::Function, printable(format!("{}.{suffixes}", demangle(stem))))
}

/// Whether a symbol is that of a copy of a whole function which a compiler may have left parameters out of.
pub fn may_lack_parameters(symbol: &str) -> bool {
    let suffixes = unversioned(symbol).get(1..).and_then(|rest| rest.split_once('.')).map(|(_, suffixes)| suffixes);
    suffixes.is_some_and(|suffixes| suffixes.split('.').any(|word| WITHOUT_PARAMETERS.contains(&word)))
}

fn names_a_copy(word: &str) -> bool {
    let number = word.bytes().all(|b| b.is_ascii_digit());
    let hash = word.len() >= 8 && word.bytes().all(|b| b.is_ascii_hexdigit());
    number || hash || CLONES.contains(&word) || VERSIONS.iter().any(|version| word.starts_with(version))
}

/// The demangled name without parameters, return type, qualifiers and ABI tags; the symbol itself for C.
fn demangle(symbol: &str) -> String {
    printable(demangled(symbol).unwrap_or_else(|| symbol.to_owned()))
}

/// What stands between a mangled function's parentheses, and what stands behind them.
pub(crate) fn with_parameters(symbol: &str) -> Option<(String, String)> {
    let symbol = unversioned(symbol);
    let stem = symbol.get(1..).and_then(|rest| rest.find('.')).map_or(symbol, |at| &symbol[..=at]);
    if !stem.starts_with("_Z") || stem.len() > MAX_SYMBOL {
        return None;
    }
    let (name, all) = demangled_with_parameters(stem)?;
    let rest = all.strip_prefix(&name)?.strip_prefix('(')?;
    let end = rest.rfind(')')?;
    Some((rest[..end].to_owned(), rest[end + 1..].to_owned()))
}

/// The longest one; of several the first.
fn longest(literals: &[String]) -> Option<&str> {
    literals.iter().rev().max_by_key(|literal| literal.len()).map(String::as_str)
}

/// The runs of identifier characters outside braces that a mangled name must spell out.
fn literals(pattern: &str) -> Vec<String> {
    let mut literals = Vec::new();
    let mut start = 0;
    let mut before = ' ';
    let mut in_braces = false;
    for (at, c) in pattern.char_indices().chain([(pattern.len(), ' ')]) {
        if c.is_ascii_alphanumeric() || c == '_' {
            continue;
        }
        let run = pattern.get(start..at).unwrap_or_default();
        let whole = !matches!(before, '*' | '?' | '}') && !matches!(c, '*' | '?' | '{');
        if !in_braces && !run.is_empty() && spelled(run, whole) {
            literals.push(run.to_owned());
        }
        in_braces = c == '{' || (in_braces && c != '}');
        start = at + c.len_utf8();
        before = c;
    }
    literals
}

/// Whether a mangled name that demangles to a name with this run has it too; beside a wildcard the run may be only a
/// piece of a word.
fn spelled(run: &str, whole: bool) -> bool {
    // Numbers are written otherwise: the `#1` of a lambda, template arguments.
    !run.starts_with(|c: char| c.is_ascii_digit())
        && !UNSPELLED.iter().any(|word| if whole { *word == run } else { word.contains(run) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, symbol: &str) -> Option<(String, Vec<String>)> {
        Matcher::new(&NamePattern(pattern.to_owned()))?.matches(symbol).map(|m| (m.name, m.captures))
    }

    fn plain(name: &str) -> Option<(String, Vec<String>)> {
        Some((name.to_owned(), Vec::new()))
    }

    #[test]
    fn operators_and_lambdas_mean_themselves() {
        let (product, assigned, sum) = ("_ZNK2ns1TmlERKS0_", "_ZN2ns1TmLERKS0_", "_ZNK2ns1TplERKS0_");
        assert_eq!(matches("ns::T::operator*", product), plain("ns::T::operator*"));
        assert_eq!(matches("ns::T::operator*=", assigned), plain("ns::T::operator*="));
        let whole = "ns::T::operator*(ns::T const&) const";
        assert_eq!(matches(whole, product), plain(whole));
        for (pattern, other) in
            [("ns::T::operator*", assigned), ("ns::T::operator*", sum), ("ns::T::operator*=", product), (whole, sum)]
        {
            assert_eq!(matches(pattern, other), None, "{pattern} {other}");
        }
        assert_eq!(matches("ns::T::operator{*}", sum), Some(("ns::T::operator+".into(), vec!["+".into()])));
        let (own, caller) = ("_ZZ2goENKUliiE_clEii", "_Z4callIZ2goEUliiE_EvT_");
        for name in ["go::{lambda(int, int)#1}::operator()", "go::{lambda(int, int)#1}::operator()(int, int) const"] {
            assert_eq!(matches(name, own), plain(name));
            assert_eq!(matches(&name.replace("#1", "#2"), own), None);
        }
        let name = "call<go::{lambda(int, int)#1}>(go::{lambda(int, int)#1})";
        assert_eq!(matches(name, caller), plain(name));
    }

    /// What a compiler makes of a lambda may be called for each number of a tensor.
    #[test]
    fn wildcards_do_not_reach_within_functions() {
        let (outer, lambda) = ("_ZN2ns10SquareEvalEP1CP1N", "_ZZN2ns10SquareEvalEP1CP1NENUlfE_4_FUNEf");
        let local = "_ZZN2ns10SquareEvalEP1CP1NEN5Local3runEi";
        for pattern in ["ns::*Eval*", "ns::*Eval*(C*, N*)", "*Eval*", "ns::{Square,Cube}*"] {
            assert!(matches(pattern, outer).is_some(), "{pattern}");
            assert_eq!((matches(pattern, lambda), matches(pattern, local)), (None, None), "{pattern}");
        }
        assert!(matches("ns::SquareEval(C*, N*)::Local::*(int)", local).is_some());
        assert!(matches("ns::*::{lambda(float)#1}::_FUN", lambda).is_some());
        assert!(matches("ns::SquareEval(C*, N*)::Local::run(int)", local).is_some());
    }

    #[test]
    fn a_c_name_means_itself_and_its_clones() {
        assert_eq!(matches("run", "run"), plain("run"));
        for clone in [
            "run.isra.0",
            "run.constprop.1",
            "run.lto_priv.3",
            "run.isra.0.constprop.2",
            "run.llvm.1234abcd",
            "run.avx2.0",
        ] {
            assert_eq!(matches("run", clone), plain("run"), "{clone}");
        }
        for version in [
            "default.1",
            "_Msve",
            "_MsveMbf16",
            "_Mdotprod",
            "fma.2",
            "avx2_fma.0",
            "bmi2.0",
            "popcnt.0",
            "ssse3",
            "f16c.0",
            "amx-tile.3",
            "amx_int8.0",
            "arch_haswell.0",
            "sse4.2.1",
        ] {
            assert_eq!(matches("run", &format!("run.{version}")), plain("run"), "{version}");
        }
        assert_eq!(matches("run", "running"), None);
        assert_eq!(matches("run", "rerun"), None);
        assert_eq!(matches("run", "run._omp_fn.0"), None);
        assert_eq!(matches("run._omp_fn.*", "run._omp_fn.0"), Some(("run._omp_fn.0".into(), vec!["0".into()])));
    }

    #[test]
    fn a_part_of_a_function_is_not_the_function() {
        for part in ["run.cold", "run.part.0", "run.isra.0.cold", "run.constprop.0.part.0", "run.cold.1"] {
            assert_eq!(matches("run", part), None, "{part}");
            assert_eq!(matches("ru*", part), None, "{part}");
        }
        assert_eq!(matches("run.cold", "run.cold"), plain("run"), "unless the whole symbol is written");
    }

    #[test]
    fn versions_are_not_part_of_the_name() {
        assert_eq!(matches("memcpy", "memcpy@@GLIBC_2.14"), plain("memcpy"));
        assert_eq!(matches("memcpy", "memcpy@GLIBC_2.2.5"), plain("memcpy"));
    }

    #[test]
    fn a_cpp_name_is_written_without_parameters() {
        assert_eq!(matches("space::foo", "_ZN5space3fooEibc"), plain("space::foo"));
        assert_eq!(matches("Box::get", "_ZNK3Box3getEi"), plain("Box::get"), "const method");
        assert_eq!(matches("twice<int>", "_Z5twiceIiET_S0_"), plain("twice<int>"), "return type left out");
        assert_eq!(matches("Box::Box", "_ZN3BoxC1Ev"), plain("Box::Box"));
        assert_eq!(matches("Box::~Box", "_ZN3BoxD1Ev"), plain("Box::~Box"));
        assert_eq!(matches("text", "_Z4textB5cxx11v"), plain("text"), "ABI tag");
        assert_eq!(matches("space::foo", "_ZN5space3fooEibc.isra.0"), plain("space::foo"));
        assert_eq!(matches("_ZN5space3fooEibc", "_ZN5space3fooEibc"), plain("space::foo"), "by its symbol");
    }

    #[test]
    fn operators_and_overloads_are_named() {
        const TWO: &str = "_ZNK2op4GemmclERK6TensorS3_RS1_";
        const ONE: &str = "_ZNK2op4GeluclERK6TensorRS1_";
        assert_eq!(matches("op::Gemm::operator()", TWO), plain("op::Gemm::operator()"));
        assert_eq!(matches("op::*::operator()", ONE).unwrap().1, ["Gelu"]);
        assert_eq!(matches("op::*::operator()", "_ZN2op4Gelu3runEv"), None);
        let by_arguments = "op::*::operator()(Tensor const&, Tensor&) const";
        assert_eq!(matches(by_arguments, ONE).unwrap().1, ["Gelu"]);
        assert_eq!(matches(by_arguments, TWO), None);
        assert_eq!(matches("op::*::operator()(Tensor const&, Tensor&)", ONE), None, "not const");
        let name = "op::Gemm::operator()(Tensor const&, Tensor const&, Tensor&) const";
        assert_eq!(matches(name, TWO), plain(name), "with parameters");
        assert_eq!(matches("Set::operator<<", "_ZN3SetlsEi"), plain("Set::operator<<"));
    }

    #[test]
    fn thunks_are_left_out() {
        assert_eq!(matches("*::f", "_ZN1B1fEv"), Some(("B::f".into(), vec!["B".into()])));
        assert_eq!(matches("*::f", "_ZThn16_N1B1fEv"), None);
    }

    #[test]
    fn globs_give_what_their_wildcards_stood_for() {
        assert_eq!(
            matches("kernel_*_fused", "kernel_add_fused"),
            Some(("kernel_add_fused".into(), vec!["add".into()]))
        );
        assert_eq!(
            matches("Eng::CPU*::on{Execute,Resize}", "_ZN3Eng7CPUConv9onExecuteEv"),
            Some(("Eng::CPUConv::onExecute".into(), vec!["Conv".into(), "Execute".into()]))
        );
        assert_eq!(matches("r?n", "ran"), plain("ran"));
        assert_eq!(matches("Eng::{C*x,CP?C*}::onExecute", "_ZN3Eng7CPUConv9onExecuteEv").unwrap().1, ["CPUConv"]);
        assert_eq!(matches("r?n", "rain"), None);
    }

    #[test]
    fn the_literal_is_in_every_mangled_name() {
        let literal = |pattern: &str| longest(&literals(pattern)).map(str::to_owned);
        assert_eq!(literal("context::process_ubatch"), Some("process_ubatch".into()));
        assert_eq!(literal("std::string::*"), None, "std::string is written Ss");
        assert_eq!(literal("Eng::CPU*::on{Execute,Resize}"), Some("Eng".into()));
        assert_eq!(literal("*tring::size"), Some("size".into()));
        assert_eq!(literal("*"), None);
        assert_eq!(literal("std::vector<int, std::allocator<int> >::push_back"), Some("push_back".into()));
        let of_choices = |pattern: &str| {
            let matcher = Matcher::new(&NamePattern(pattern.to_owned())).unwrap();
            matcher.literals().map(|all| all.into_iter().map(str::to_owned).collect::<Vec<_>>())
        };
        assert_eq!(of_choices("{eval,engine::evaluate}"), Some(vec!["eval".into(), "evaluate".into()]));
        assert_eq!(of_choices("{eval,*}"), None);
        assert_eq!(of_choices("{go,run}_{a,b}(int)").unwrap(), ["go_a", "run_a", "go_b", "run_b"]);
        assert!(matches("{eval,engine::evaluate}", "_ZN6engine8evaluateEi").is_some());
        assert!(
            matches("{go(int),run(int)}", "_Z3runi").is_some() && matches("{go(int),run(int)}", "_Z2goi").is_some()
        );
        assert!(matches("std::*::c_str", "_ZNKSs5c_strEv").is_some());
        assert!(matches("*operator()*", "_ZN3BoxclEv").is_some());
    }

    #[test]
    fn a_name_that_would_grow_without_end_is_left_as_it_is() {
        let mut bomb = String::from("_Z1fI1A");
        for _ in 0..60 {
            bomb.push_str("1BI");
        }
        bomb.push('E');
        assert_eq!(matches("nothing", &bomb), None);
    }

    proptest::proptest! {
        #[test]
        fn any_symbol_and_pattern_are_answered(symbol in "(_Z)?[A-Za-z0-9_.@]{0,80}", pattern in "[A-Za-z*?:_{},]{0,20}") {
            let _ = matches(&pattern, &symbol);
        }

        #[test]
        fn a_plain_name_means_itself(name in "[A-Za-z_][A-Za-z0-9_]{0,30}") {
            proptest::prop_assume!(!name.starts_with("_Z"));
            proptest::prop_assert!(matches(&name, &name).is_some());
            let glob = format!("*{}", &name[1..]);
            proptest::prop_assert!(matches(&glob, &name).is_some());
        }
    }
}
