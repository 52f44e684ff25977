//! What a function is called with where debug information does not say: a C++ symbol has the types of its parameters. Whether
//! it is a method, and so has a `this` before them, is told by what else the file has of its class.

use super::{Candidate, families};
use profinfer_binary::{FunctionSignature, TargetSymbols, TargetType, declared};
use profinfer_probeset::path::NamePattern;

/// Adds the signature in a candidate's symbol.
pub(super) fn guess(target: &dyn TargetSymbols, candidate: &mut Candidate) {
    let Some(declaration) = declared(&candidate.symbol) else { return };
    if !candidate.family.is_empty() {
        let this = ("this".to_owned(), TargetType::Pointer(None));
        let others = families::parameters(candidate).into_iter();
        let others = others.map(|ty| (String::new(), ty.unwrap_or_else(|| TargetType::Other(String::new()))));
        candidate.guess = Some("that all of them have, from the symbols; a static function has no `this`");
        let parameters = std::iter::once(this).chain(others).collect();
        candidate.signature = Some(FunctionSignature { parameters, returns: None });
        return;
    }
    let mut parameters: Vec<(String, TargetType)> = Vec::new();
    if let Some(class) = class_of(&candidate.place) {
        let is_class = declaration.is_const || has_class(target, candidate.file, class);
        let is_likely = is_class || written_as_a_class(class);
        if is_likely {
            let class = TargetType::Struct(class.to_owned(), 0);
            parameters.push(("this".to_owned(), TargetType::Pointer(Some(Box::new(class)))));
        }
        candidate.guess = Some(match (declaration.is_const, is_likely) {
            (true, _) => "from the symbol; a returned class may shift the arguments",
            (false, true) => "from the symbol; a static function has no `this`, and a returned class shifts",
            (false, false) => "from the symbol; a method has `this` first, and a returned class shifts",
        });
    } else {
        candidate.guess = Some("from the symbol; a returned class may shift the arguments");
    }
    // What cannot be placed ends the list.
    let types = declaration.parameters.into_iter().map(|ty| ty.unwrap_or_else(|| TargetType::Other(String::new())));
    parameters.extend(types.map(|ty| (String::new(), ty)));
    candidate.signature = Some(FunctionSignature { parameters, returns: None });
}

/// What stands before the last `::`.
fn class_of(place: &str) -> Option<&str> {
    place.rsplit_once("::").map(|(class, _)| class).filter(|class| !class.ends_with('*'))
}

/// Whether a file has what only classes have: a function that makes or ends one.
fn has_class(target: &dyn TargetSymbols, file: usize, class: &str) -> bool {
    let last = class.rsplit("::").next().unwrap_or(class);
    let plain = !class.contains('<');
    plain
        && [format!("{class}::{last}"), format!("{class}::~{last}")]
            .into_iter()
            .any(|name| !target.functions(file, &NamePattern(name)).is_empty())
}

/// By the habit of writing classes with a capital.
fn written_as_a_class(class: &str) -> bool {
    class.rsplit("::").next().is_some_and(|last| last.starts_with(|c: char| c.is_ascii_uppercase()))
}
