//! The functions by which `std::function` objects call closures, in files without symbols.
//!
//! A closure that becomes such an object has type information, which stripping leaves, with its name. libstdc++ makes two
//! functions for it: `_Function_handler<…>::_M_manager`, the only code that refers to this type information, and `_M_invoke`,
//! which calls the closure. Where an object is made, code stores the addresses of both, one after the other.
//!
//! Nothing read is believed: there are bounds on all of it, and a closure whose objects seem to be made in different ways has
//! no function.

mod arm64;
mod stores;
mod x86;

use super::Arch;
use super::elf::Image;
use super::pointers::{Pointer, Pointers};
use super::rtti::Classes;
use super::{references, unwind_ranges};
use profinfer_probeset::symbol::demangled_with_parameters;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use stores::{Addresses, Stores};

/// The name of the functions that are found.
pub(crate) const INVOKE: &str = "_M_invoke";
/// What stands for the types of arguments that the name of a closure does not have.
const UNKNOWN: &str = "?";
/// Closures of one file; the largest real libraries have some thousands.
const MAX_CLOSURES: usize = 1 << 16;
/// Bytes of all their names.
const MAX_NAMES: usize = 32 << 20;
/// Bytes of the longest `_M_manager`: what refers to type information for other purposes may be longer.
const MAX_MANAGER: u64 = 1024;
/// Bytes of a function in which objects may be made, and of all of them.
const MAX_MAKER: usize = 256 << 10;
const MAX_MAKERS: usize = 16 << 20;

/// A function by which objects call a closure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Invoker {
    /// As the demangled symbol has it, with `auto` for the type of the result, which is not in the file.
    pub(crate) name: String,
    /// What stands between its parentheses.
    pub(crate) parameters: String,
    /// Bytes from the start of the file.
    pub(crate) file_offset: u64,
    pub(crate) size: u64,
}

/// Finds them all, among functions in the order of their places in the file.
pub(crate) fn invokers(image: &Image, classes: &Classes, functions: &[Range<u64>]) -> Vec<Invoker> {
    let code = Code { image, pointers: &classes.pointers, functions };
    let closures: HashMap<u64, usize> = closures(classes).collect();
    let mut left = MAX_NAMES;
    let mut invokers = Vec::new();
    for (closure, offset) in code.invokers(&code.managers(&closures)) {
        let Some(range) = unwind_ranges::with(functions, offset) else { continue };
        let Some((name, parameters)) = classes.all.get(closure).and_then(|class| names(&class.mangled)) else {
            continue;
        };
        let Some(rest) = left.checked_sub(name.len() + parameters.len()) else { break };
        left = rest;
        invokers.push(Invoker { name, parameters, file_offset: range.start, size: range.end - range.start });
    }
    invokers
}

/// The closures among the classes: address of the type information, and number.
fn closures(classes: &Classes) -> impl Iterator<Item = (u64, usize)> {
    // A closure is a class within a function (`Z…E`) without a name of its own: `Ul…E`, and Clang's `$_0`.
    let is_closure = |mangled: &str| mangled.starts_with('Z') && (mangled.contains("EUl") || mangled.contains("$_"));
    let all = classes.all.iter().enumerate().filter(move |(_, class)| is_closure(&class.mangled));
    all.map(|(number, class)| (class.typeinfo, number)).take(MAX_CLOSURES)
}

/// The name of the function that calls a closure, and what stands between its parentheses.
fn names(mangled: &str) -> Option<(String, String)> {
    let (_, whole) = demangled_with_parameters(&format!("_ZTS{mangled}"))?;
    let closure = whole.strip_prefix("typeinfo name for ")?;
    let parameters = match closure.rsplit_once("::{lambda(") {
        Some((_, last)) => last.rsplit_once(")#").filter(|(_, number)| number.ends_with('}'))?.0,
        None => closure.rsplit_once("::$_").map(|_| UNKNOWN)?,
    };
    let passed = parameters.split(", ").filter(|parameter| !parameter.is_empty()).map(|of| format!(", {of}&&"));
    Some((
        format!("std::_Function_handler<auto ({parameters}), {closure}>::{INVOKE}"),
        format!("std::_Any_data const&{}", passed.collect::<String>()),
    ))
}

/// The code of an image.
struct Code<'a> {
    image: &'a Image,
    pointers: &'a Pointers,
    functions: &'a [Range<u64>],
}

impl Code<'_> {
    /// The functions that manage closures' objects: address, and number of the closure.
    fn managers(&self, closures: &HashMap<u64, usize>) -> HashMap<u64, usize> {
        let mut managers = HashMap::new();
        for (place, address) in self.references(closures.keys()) {
            let function = unwind_ranges::with(self.functions, place);
            let manager = function.filter(|range| range.end - range.start <= MAX_MANAGER);
            let manager = manager.and_then(|range| self.image.address_of(range.start));
            if let (Some(manager), Some(closure)) = (manager, closures.get(&address)) {
                managers.insert(manager, *closure);
            }
        }
        managers
    }

    /// The functions that are stored behind managers, as bytes from the start of the file, by the number of the closure.
    fn invokers(&self, managers: &HashMap<u64, usize>) -> BTreeMap<usize, u64> {
        let makers: BTreeSet<(u64, u64)> = self
            .references(managers.keys())
            .into_iter()
            .filter_map(|(place, _)| unwind_ranges::with(self.functions, place))
            .map(|range| (range.start, range.end))
            .collect();
        let mut found: BTreeMap<usize, Option<u64>> = BTreeMap::new();
        let mut left = MAX_MAKERS;
        for (start, end) in makers {
            let length = usize::try_from(end - start).unwrap_or(usize::MAX).min(MAX_MAKER).min(left);
            left -= length;
            for (manager, invoker) in self.stored_in(start, length, managers) {
                let (Some(closure), Some(invoker)) = (managers.get(&manager), self.start(invoker)) else { continue };
                // All objects of one closure are called by one function.
                found
                    .entry(*closure)
                    .and_modify(|one| *one = one.filter(|one| *one == invoker))
                    .or_insert(Some(invoker));
            }
        }
        found.into_iter().filter_map(|(closure, invoker)| Some((closure, invoker?))).collect()
    }

    /// The pairs of addresses that a function stores one after the other, of which the first is a manager's.
    fn stored_in(&self, start: u64, length: usize, managers: &HashMap<u64, usize>) -> Vec<(u64, u64)> {
        let Some(address) = self.image.address_of(start) else { return Vec::new() };
        let bytes = self.image.slice(start, length);
        let mut stores = Stores::new(managers);
        match self.image.arch() {
            Arch::X86_64 => x86::follow(bytes, address, self, &mut stores),
            Arch::Aarch64 => arm64::follow(bytes, address, self, &mut stores),
        }
        stores.pairs
    }

    fn references<'k>(&self, wanted: impl Iterator<Item = &'k u64>) -> Vec<(u64, u64)> {
        references::find(self.image, self.pointers, self.functions, &wanted.copied().collect())
    }

    /// Where a function begins, as bytes from the start of the file; `None` for what is none.
    fn start(&self, address: u64) -> Option<u64> {
        let offset = self.image.code_offset(address)?;
        unwind_ranges::with(self.functions, offset).filter(|range| range.start == offset).map(|range| range.start)
    }
}

impl Addresses for Code<'_> {
    fn at(&self, place: u64) -> Option<u64> {
        match self.pointers.at(place)? {
            Pointer::Address(address) => Some(address),
            Pointer::Import(..) => None,
        }
    }
}

#[cfg(test)]
mod tests;
