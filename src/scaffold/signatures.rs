//! What a function is called with where debug information does not say: a C++ symbol has the types of its parameters. Whether
//! it is a method, and so has a `this` before them, is told by what else the file has of its class.

use super::Candidate;
use crate::path::NamePattern;
use crate::target::{FunctionSignature, Target, TargetType, declared};

/// Fills in what a candidate's symbol says.
pub(super) fn guess(target: &dyn Target, candidate: &mut Candidate) {
    let Some(said) = declared(&candidate.symbol) else { return };
    let mut parameters: Vec<(String, TargetType)> = Vec::new();
    if let Some(class) = class_of(&candidate.place) {
        let is_class = said.is_const || has_class(target, candidate.file, class);
        let looks_so = is_class || written_as_a_class(class);
        if looks_so {
            let class = TargetType::Struct(class.to_owned(), 0);
            parameters.push(("this".to_owned(), TargetType::Pointer(Some(Box::new(class)))));
        }
        candidate.guess = Some(match (said.is_const, looks_so) {
            (true, _) => "by the symbol; a class that is returned may shift the arguments",
            (false, true) => {
                "by the symbol; a static function would have no `this`, and a class that is returned shifts"
            }
            (false, false) => "by the symbol; a method would have `this` before, and a class that is returned shifts",
        });
    } else {
        candidate.guess = Some("by the symbol; a class that is returned may shift the arguments");
    }
    // What cannot be placed ends the list.
    let known = said.parameters.into_iter().map(|ty| ty.unwrap_or_else(|| TargetType::Other(String::new())));
    parameters.extend(known.map(|ty| (String::new(), ty)));
    candidate.signature = Some(FunctionSignature { parameters, returns: None });
}

/// What stands before the last `::`.
fn class_of(place: &str) -> Option<&str> {
    place.rsplit_once("::").map(|(class, _)| class).filter(|class| !class.ends_with('*'))
}

/// Whether a file has what only classes have: a function that makes or ends one.
fn has_class(target: &dyn Target, file: usize, class: &str) -> bool {
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
