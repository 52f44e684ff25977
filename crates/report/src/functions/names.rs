//! What a place in code is called.

use profinfer_schema::{CodePlace, Sampling};
use std::borrow::Cow;
use std::collections::HashMap;

/// What a symbolizer calls a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SymbolName {
    /// By a symbol or the like.
    Named(String),
    /// By the address of its first instruction in its file.
    Address(u64),
}

/// A function, or the file or kind of code if there is no symbol.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Function {
    /// Its name, `+0x…` for an address in its file, or what it is part of in brackets.
    pub name: String,
    /// The file's name; `kernel`; empty where it is in neither.
    pub module: String,
    /// It has a name of its own.
    pub known: bool,
}

impl Function {
    /// The name where no module is shown beside it.
    pub(super) fn full_name(&self) -> Cow<'_, str> {
        if !self.known && self.name.starts_with('+') {
            return Cow::Owned(format!("{}{}", self.module, self.name));
        }
        Cow::Borrowed(&self.name)
    }
}

/// Gives functions their names, by the files that samples are in.
pub trait Symbolizer {
    /// The function at a place in the file of a module, by its index; `None` where the file is gone, is another one than
    /// was sampled, or has no function there.
    fn function(&mut self, module: usize, offset: u64) -> Option<SymbolName>;
}

/// Names of places, each found once.
pub(super) struct Names<'s> {
    sampling: &'s Sampling,
    symbols: &'s mut dyn Symbolizer,
    found: HashMap<CodePlace, Function>,
}

impl<'s> Names<'s> {
    pub(super) fn new(sampling: &'s Sampling, symbols: &'s mut dyn Symbolizer) -> Self {
        Self { sampling, symbols, found: HashMap::new() }
    }

    pub(super) fn of(&mut self, place: CodePlace) -> Function {
        if let Some(function) = self.found.get(&place) {
            return function.clone();
        }
        let function = self.find(place);
        self.found.insert(place, function.clone());
        function
    }

    /// The path of a place's module, if it is in one.
    pub(super) fn path(&self, place: CodePlace) -> Option<&'s str> {
        self.sampling.modules.get(usize::from(place.module)).map(|module| module.path.as_str())
    }

    fn find(&mut self, place: CodePlace) -> Function {
        let unknown =
            |name: &str, module: &str| Function { name: name.to_owned(), module: module.to_owned(), known: false };
        match place.module {
            CodePlace::ANONYMOUS => unknown("[code without a file]", ""),
            CodePlace::KERNEL => {
                let within = |function: &&profinfer_schema::KernelFunction| {
                    (function.start..function.end).contains(&place.offset)
                };
                match self.sampling.kernel.iter().find(within) {
                    Some(function) => Function { name: function.name.clone(), module: "kernel".into(), known: true },
                    None => unknown("[kernel]", "kernel"),
                }
            }
            number => {
                let Some(path) = self.path(place) else { return unknown("[unknown]", "") };
                let file = path.rsplit('/').next().unwrap_or(path);
                match self.symbols.function(usize::from(number), place.offset) {
                    Some(SymbolName::Named(name)) => Function { name, module: file.to_owned(), known: true },
                    Some(SymbolName::Address(address)) => unknown(&format!("+{address:#x}"), file),
                    None => unknown(&format!("[{}]", file.trim_matches(['[', ']'])), file),
                }
            }
        }
    }
}
