//! A first probeset for a binary that nobody has described yet: functions that are likely to matter, by generic words of
//! their names and what they are called with, and views of the types they take. It guesses, says so in comments, and
//! knows no engine. What comes out is a text that `check` takes.

mod types;
mod words;
mod write;

pub use write::write;

use crate::diag::{Source, Span};
use crate::path::{NamePattern, parse_attach};
use crate::target::{Function, FunctionSignature, Target, TargetFile};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Functions of which the signature is asked for: those with the likeliest names.
const MOST_ASKED: usize = 2000;

/// A function that may be worth a probe.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The target's file.
    pub file: usize,
    /// What stands after `module:` in an attach point, without a signature. Another way to find functions than by their
    /// names says here how they are found.
    pub place: String,
    /// The symbol.
    pub symbol: String,
    /// What it is called with, where debug information says so.
    pub signature: Option<FunctionSignature>,
    /// Bytes of its code.
    pub size: u64,
    /// How often it was called in a trial run.
    pub calls: Option<u64>,
    /// How likely it looks.
    score: i64,
}

impl Candidate {
    /// What it looks like, by its name.
    fn kind(&self) -> Option<words::Kind> {
        words::kind(&self.place)
    }
}

/// Functions of a target whose names match, the likeliest first, at most `most`.
pub fn candidates(target: &dyn Target, patterns: &[NamePattern], most: usize) -> Vec<Candidate> {
    let mut all = Vec::new();
    let own = |file: &&TargetFile| !of_the_system(&file.name);
    let has_own = target.files().iter().any(|file| own(&file));
    for (file, _) in target.files().iter().enumerate().filter(|(_, file)| !has_own || own(file)) {
        let mut seen = BTreeSet::new();
        for function in patterns.iter().flat_map(|pattern| target.functions(file, pattern)) {
            if can_be_named(&function) && seen.insert(function.name.clone()) {
                all.push(candidate(file, function));
            }
        }
    }
    likeliest(&mut all);
    all.truncate(MOST_ASKED);
    let mut symbols: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for candidate in &all {
        symbols.entry(candidate.file).or_default().push(&candidate.symbol);
    }
    let known: BTreeMap<usize, BTreeMap<String, FunctionSignature>> =
        symbols.into_iter().map(|(file, symbols)| (file, target.signatures(file, &symbols))).collect();
    for candidate in &mut all {
        candidate.signature = known.get(&candidate.file).and_then(|known| known.get(&candidate.symbol)).cloned();
        // What is called with something that can be looked at says more.
        let takes = candidate.signature.iter().flat_map(|signature| &signature.parameters);
        candidate.score += takes.filter(|(_, ty)| types::pointed(ty).is_some()).count().min(3) as i64;
    }
    likeliest(&mut all);
    varied(all, most)
}

/// Those that a trial run called, at most `most`.
pub fn called(mut candidates: Vec<Candidate>, most: usize) -> Vec<Candidate> {
    candidates.retain(|candidate| candidate.calls != Some(0));
    likeliest(&mut candidates);
    varied(candidates, most)
}

/// The first of each kind, then the second of each, and so on: a hundred operators do not hide the one step.
fn varied(candidates: Vec<Candidate>, most: usize) -> Vec<Candidate> {
    let mut places: BTreeMap<Option<words::Kind>, usize> = BTreeMap::new();
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

fn candidate(file: usize, function: Function) -> Candidate {
    let score = words::score(&function.name) + i64::from(function.size >= 64);
    Candidate {
        file,
        place: function.name,
        symbol: function.symbol,
        signature: None,
        size: function.size,
        calls: None,
        score,
    }
}

fn likeliest(all: &mut [Candidate]) {
    all.sort_by(|a, b| b.score.cmp(&a.score).then_with(|| a.place.cmp(&b.place)));
}

/// Whether an attach point can have the name, and an engine it as its own.
fn can_be_named(function: &Function) -> bool {
    let name = function.name.as_str();
    let foreign = ["_", "std::", "main", "frame_dummy", "register_tm", "deregister_tm"];
    if foreign.iter().any(|start| name.starts_with(start)) || name.contains(['*', '?', '{', ' ', '(', '#', '"']) {
        return false;
    }
    let text = format!("m:{name}()");
    let span = Span::new(&Arc::new(Source { name: String::new(), text: text.clone() }), 0..text.len());
    parse_attach(&text, &span).is_ok()
}
