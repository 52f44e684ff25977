//! A first probeset for a binary that nobody has described yet: functions that are likely to matter, by generic words of
//! their names and what they are called with, and views of the types they take. It marks guesses in comments, and
//! is independent of engines. The result is a text for `check`.

mod families;
mod signatures;
mod trial;
mod types;
mod virtuals;
mod words;
mod write;

pub use trial::{Call, Measured, choose, measure};
pub use write::write;

use profinfer_binary::{Function, FunctionSignature, TargetFile, TargetSymbols};
use profinfer_diagnostics::{Source, Span};
use profinfer_probeset::path::{NamePattern, parse_attach};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Functions of which the signature is asked for: those with the likeliest names.
const MOST_ASKED: usize = 2000;

/// What a candidate is; anything else is a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// One call for a token or a batch.
    Step,
    /// One computation of a graph.
    Graph,
    /// One operator.
    Operator,
}

/// A function that may be worth a probe.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The target's file.
    pub file: usize,
    /// What stands after `module:` in an attach point, without a signature: a function's name, with `*` for what cannot be
    /// written; or a class and a slot of its virtual table.
    pub place: String,
    /// The symbol.
    pub symbol: String,
    /// What it is called with, if debug information or the symbol has it.
    pub signature: Option<FunctionSignature>,
    /// What of the signature is no more than likely.
    pub guess: Option<&'static str>,
    /// Bytes of its code.
    pub size: u64,
    /// What a trial run showed of it.
    pub trial: Option<Measured>,
    /// Its role by that.
    pub role: Option<Role>,
    /// Of a slot of a virtual table: how many classes derive from the class, and how many different functions they have.
    pub overrides: Option<(usize, usize)>,
    /// The functions, where one pattern is of a method of several classes.
    family: Vec<families::Method>,
    /// How likely it is.
    score: i64,
}

impl Candidate {
    /// Where it is, in the words of an attach point, without a signature.
    pub fn attach_point(&self, module: &str) -> String {
        let kind = if self.overrides.is_some() { "virtual " } else { "" };
        format!("{kind}{module}:{}", self.place)
    }

    /// Of several functions only these were called, by their places: of one, it is that.
    pub fn narrow(&mut self, called: &BTreeSet<String>) {
        let Some(only) = called.first().filter(|_| called.len() == 1 && !self.family.is_empty()) else { return };
        let mut symbols = self.family.iter().filter(|method| method.place == *only).map(|method| &method.symbol);
        // Which of several overloads was called is unknown.
        self.symbol = symbols.next().filter(|_| symbols.next().is_none()).cloned().unwrap_or_default();
        self.place.clone_from(only);
        self.family.clear();
    }

    /// The class of a slot.
    fn base(&self) -> Option<&str> {
        self.overrides?;
        self.place.rsplit_once('[').map(|(base, _)| base)
    }

    /// Its likely role, from its name. What many classes have is for one operator each.
    fn kind(&self) -> Option<words::CallKind> {
        if self.family.is_empty() { words::kind(&self.place) } else { Some(words::CallKind::Operator) }
    }
}

/// Functions of a target whose names match, the likeliest first, at most `most`.
///
/// `only` a file is one that the draft is for: if it has none of them, the others are taken.
pub fn candidates(
    target: &dyn TargetSymbols,
    patterns: &[NamePattern],
    only: Option<usize>,
    most: usize,
) -> Vec<Candidate> {
    if let Some(only) = only {
        let found = candidates_of(target, patterns, &|file| file == only, most);
        if !found.is_empty() {
            return found;
        }
    }
    candidates_of(target, patterns, &|_| true, most)
}

fn candidates_of(
    target: &dyn TargetSymbols,
    patterns: &[NamePattern],
    wanted: &dyn Fn(usize) -> bool,
    most: usize,
) -> Vec<Candidate> {
    let mut all = Vec::new();
    let own = |file: &&TargetFile| !of_the_system(&file.name);
    let files = || target.files().iter().enumerate().filter(|(number, _)| wanted(*number));
    let has_main = files().any(|(_, file)| own(&file));
    for (file, _) in files().filter(|(_, file)| !has_main || own(file)) {
        let mut seen = BTreeSet::new();
        for function in patterns.iter().flat_map(|pattern| target.functions(file, pattern)) {
            if let Some(place) = place(&function.name)
                && seen.insert(place.clone())
            {
                all.push(candidate(file, place, function));
            }
        }
        all.extend(virtuals::candidates(target, file, patterns));
    }
    let mut all = families::gather(all);
    likeliest(&mut all);
    all.truncate(MOST_ASKED);
    let mut symbols: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for candidate in all.iter().filter(|candidate| candidate.overrides.is_none() && candidate.family.is_empty()) {
        symbols.entry(candidate.file).or_default().push(&candidate.symbol);
    }
    let signatures: BTreeMap<usize, BTreeMap<String, FunctionSignature>> =
        symbols.into_iter().map(|(file, symbols)| (file, target.signatures(file, &symbols))).collect();
    for candidate in &mut all {
        if candidate.family.is_empty() {
            candidate.signature =
                signatures.get(&candidate.file).and_then(|of_file| of_file.get(&candidate.symbol)).cloned();
        }
        // Functions with readable arguments are preferred.
        let takes = candidate.signature.iter().flat_map(|signature| &signature.parameters);
        candidate.score += takes.filter(|(_, ty)| types::pointed(ty).is_some()).count().min(3) as i64;
    }
    likeliest(&mut all);
    varied(all, most)
}

/// Adds signatures from symbols for candidates without debug information.
pub fn guess_signatures(target: &dyn TargetSymbols, candidates: &mut [Candidate]) {
    for candidate in candidates.iter_mut().filter(|candidate| candidate.signature.is_none()) {
        signatures::guess(target, candidate);
    }
}

/// The first of each kind, then the second of each, and so on: a hundred operators do not hide the one step.
fn varied(candidates: Vec<Candidate>, most: usize) -> Vec<Candidate> {
    let mut places: BTreeMap<Option<words::CallKind>, usize> = BTreeMap::new();
    let mut ranked: Vec<(usize, Candidate)> = candidates
        .into_iter()
        .map(|candidate| {
            let place = places.entry(candidate.kind()).or_default();
            *place += 1;
            (*place, candidate)
        })
        .collect();
    ranked.sort_by_key(|(place, _)| *place);
    ranked.into_iter().take(most).map(|(_, candidate)| candidate).collect()
}

/// Whether a file is the system's: the C and C++ libraries and what loads them.
fn of_the_system(file: &str) -> bool {
    const SYSTEM: [&str; 14] = [
        "libc.so",
        "libc-",
        "ld-",
        "libm.so",
        "libm-",
        "libmvec",
        "libpthread",
        "libdl.",
        "librt.",
        "libstdc++",
        "libc++",
        "libgcc_s",
        "libgomp",
        "libomp",
    ];
    SYSTEM.iter().any(|start| file.starts_with(start))
}

fn candidate(file: usize, place: String, function: Function) -> Candidate {
    let score = words::score(&function.name) + i64::from(function.size >= 64);
    Candidate {
        file,
        place,
        symbol: function.symbol,
        signature: None,
        guess: None,
        size: function.size,
        trial: None,
        role: None,
        overrides: None,
        family: Vec::new(),
        score,
    }
}

fn likeliest(all: &mut [Candidate]) {
    all.sort_by(|a, b| b.score.cmp(&a.score).then_with(|| a.place.cmp(&b.place)));
}

/// The name as an attach point has it, with `*` for what cannot be written there; `None` for what is no engine's own
/// function, or makes and ends objects.
pub fn place(name: &str) -> Option<String> {
    let foreign = ["_", "std::", "__gnu_cxx::", "frame_dummy", "register_tm", "deregister_tm"];
    if foreign.iter().any(|start| name.starts_with(start))
        || name == "main"
        || name.contains(['{', '#', '"', '*', '?', '\''])
    {
        return None;
    }
    let place = without_arguments(&name.replace("(anonymous namespace)", "*"))?;
    let mut parts = place.rsplit("::");
    let (last, class) = (parts.next().unwrap_or_default(), parts.next());
    if last.starts_with('~') || class.is_some_and(|class| class.trim_end_matches("<*>") == last) {
        return None;
    }
    let text = format!("m:{place}()");
    let span = Span::new(&Arc::new(Source { name: String::new(), text: text.clone() }), 0..text.len());
    parse_attach(&text, &span).is_ok().then_some(place)
}

/// `f<*>` of `f<(kind)2, g<int>>`: what stands in angle brackets can be anything.
fn without_arguments(name: &str) -> Option<String> {
    let (mut place, mut depth) = (String::new(), 0usize);
    for c in name.chars() {
        match c {
            '<' if depth == 0 => {
                depth = 1;
                place.push_str("<*");
            }
            '<' => depth += 1,
            '>' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    place.push('>');
                }
            }
            c if depth == 0 => place.push(c),
            _ => {}
        }
    }
    (depth == 0).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_is_a_wildcard() {
        let text = |name: &str| place(name);
        assert_eq!(text("ns::Engine::run").as_deref(), Some("ns::Engine::run"));
        assert_eq!(text("ns::(anonymous namespace)::eval").as_deref(), Some("ns::*::eval"));
        assert_eq!(text("ns::eval<(ns::CallKind)2>").as_deref(), Some("ns::eval<*>"));
        assert_eq!(text("ns::Box<ns::T<int> >::eval").as_deref(), Some("ns::Box<*>::eval"));
        assert_eq!(text("ns::Box::operator()").as_deref(), Some("ns::Box::operator()"));
        // Not what makes and ends objects, and not the C++ library's.
        for name in ["ns::Box::Box", "ns::Box<int>::Box", "ns::Box::~Box", "std::sort", "ns::f::{lambda}"] {
            assert_eq!(text(name), None, "{name}");
        }
    }
}
