//! The global variables of a BPF object: name → section and place in it, from the ELF symbol table; and whether they are
//! those that the recorder sets and reads. And the memory that they are in, shared with the programs.

use crate::mapping::Mapping;
use libbpf_rs::{MapCore, MapHandle};
use nix::sys::mman::ProtFlags;
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use profinfer_diagnostics::{Code, Diagnostic};
use profinfer_schema::bpf::{VARIABLES, Variable as Agreed, VariableKind};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU64;

/// Where a variable is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Variable {
    /// `.rodata`, `.data` or `.bss`.
    pub(super) section: String,
    /// Bytes from the section's start.
    pub(super) offset: usize,
    /// Bytes.
    pub(super) size: usize,
}

/// The memory of the variables that programs share with this process.
#[derive(Debug, Default)]
pub(super) struct SharedVariables {
    /// By the end of the map's name, which is the section's.
    sections: Vec<(&'static str, Mapping, usize)>,
}

impl SharedVariables {
    /// Maps those among these maps of a loaded object, by name, that have variables.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn of(maps: &BTreeMap<String, MapHandle>) -> nix::Result<Self> {
        let mut sections = Vec::new();
        for section in [".data", ".bss"] {
            let Some((_, map)) = maps.iter().find(|(name, _)| name.ends_with(section)) else { continue };
            let bytes = map.value_size() as usize;
            let mapping = Mapping::new(map.as_fd(), 0, bytes, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)?;
            sections.push((section, mapping, bytes));
        }
        Ok(Self { sections })
    }

    /// A variable of 64 bits.
    pub(super) fn word(&self, variable: &Variable) -> Option<&AtomicU64> {
        let (_, mapping, bytes) = self.sections.iter().find(|(section, ..)| *section == variable.section)?;
        if !variable.offset.is_multiple_of(8) || variable.offset.checked_add(8)? > *bytes {
            return None;
        }
        // SAFETY: the address is inside the shared memory and aligned; it stays mapped as long as `self`, which the result
        // borrows. The kernel side writes it with whole-word stores.
        Some(unsafe { AtomicU64::from_ptr(mapping.start().byte_add(variable.offset).cast()) })
    }
}

/// Every global variable of an ELF object; none where it is not readable.
pub(super) fn variables(elf: &[u8]) -> HashMap<String, Variable> {
    let Ok(file) = object::File::parse(elf) else { return HashMap::new() };
    let data = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Data);
    data.filter_map(|symbol| {
        let section = file.section_by_index(symbol.section_index()?).ok()?.name().ok()?.to_owned();
        let offset = usize::try_from(symbol.address()).ok()?;
        let size = usize::try_from(symbol.size()).ok()?;
        Some((symbol.name().ok()?.to_owned(), Variable { section, offset, size }))
    })
    .collect()
}

/// Compares an object's variables with the contract and with the constants that the target decides. A variable that one
/// side renamed would be a number that nobody sets.
///
/// # Errors
/// X001 where a variable is missing, unknown, or not what it should be.
pub(super) fn check(
    variables: &HashMap<String, Variable>,
    constants: &BTreeMap<String, u64>,
    of_target: &BTreeSet<String>,
) -> Result<(), Diagnostic> {
    let bug = |message: String| Err(Diagnostic::error(Code::Bug, format!("bug: {message}")));
    let agreed = |name: &str| VARIABLES.iter().find(|variable| variable.name == name);
    for expected in VARIABLES.iter().filter(|expected| expected.kind != VariableKind::Internal) {
        match variables.get(expected.name) {
            None if expected.only_with.is_none() => {
                return bug(format!("the BPF object lacks the variable `{}`", expected.name));
            }
            Some(variable) if !fits(variable, expected) => {
                let (name, Variable { section, size, .. }) = (expected.name, variable);
                return bug(format!("the BPF object has `{name}` as {size} bytes in {section}"));
            }
            Some(_)
                if expected.kind == VariableKind::Constant
                    && expected.only_with != Some("PF_OLD_KERNEL")
                    && !constants.contains_key(expected.name) =>
            {
                return bug(format!("the recorder does not set the constant `{}`", expected.name));
            }
            _ => {}
        }
    }
    let is_data = |variable: &Variable| matches!(variable.section.as_str(), ".rodata" | ".data" | ".bss");
    let is_constant = |name: &str| agreed(name).is_some_and(|agreed| agreed.kind == VariableKind::Constant);
    if let Some(name) = constants.keys().find(|name| !is_constant(name)) {
        return bug(format!("the recorder sets `{name}`, which is no constant of the contract"));
    }
    // Those that are learned while it runs can be written.
    let is_word = |variable: &Variable| is_word_constant(variable) || is_data(variable) && variable.size == 8;
    if let Some(name) = of_target.iter().find(|name| !variables.get(*name).is_some_and(is_word)) {
        return bug(format!("the BPF object lacks the constant `{name}` of the target"));
    }
    let unknown = |(name, variable): &(&String, &Variable)| {
        is_data(variable) && agreed(name).is_none() && !of_target.contains(*name)
    };
    match variables.iter().filter(unknown).map(|(name, _)| name).min() {
        Some(name) => bug(format!("the recorder does not know the variable `{name}` of the BPF object")),
        None => Ok(()),
    }
}

fn is_word_constant(variable: &Variable) -> bool {
    variable.section == ".rodata" && variable.size == 8
}

fn fits(variable: &Variable, expected: &Agreed) -> bool {
    match expected.kind {
        VariableKind::Constant => is_word_constant(variable),
        VariableKind::Shared => matches!(variable.section.as_str(), ".data" | ".bss") && variable.size == 8,
        VariableKind::Internal => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Variables = HashMap<String, Variable>;

    /// What an object of this version has, and what the recorder sets.
    fn agreed() -> (Variables, BTreeMap<String, u64>, BTreeSet<String>) {
        let of = |section: &str| Variable { section: section.into(), offset: 0, size: 8 };
        let mut variables = Variables::from([("offset_of_node__name".to_owned(), of(".rodata"))]);
        let mut constants = BTreeMap::new();
        for variable in VARIABLES {
            let is_constant = variable.kind == VariableKind::Constant;
            variables.insert(variable.name.to_owned(), of(if is_constant { ".rodata" } else { ".bss" }));
            if is_constant {
                constants.insert(variable.name.to_owned(), 1);
            }
        }
        (variables, constants, BTreeSet::from(["offset_of_node__name".to_owned()]))
    }

    #[test]
    fn a_variable_that_the_object_lacks_is_a_bug() {
        for name in ["pf_ns_ino", "pf_enabled", "offset_of_node__name"] {
            let (mut variables, constants, of_target) = agreed();
            assert_eq!(check(&variables, &constants, &of_target), Ok(()));
            variables.remove(name);
            let problem = check(&variables, &constants, &of_target).unwrap_err();
            assert_eq!(problem.code, Code::Bug);
            assert!(problem.message.starts_with("bug: the BPF object lacks"), "{}", problem.message);
            assert!(problem.message.contains(name), "{}", problem.message);
        }
    }

    #[test]
    fn a_variable_that_the_recorder_does_not_know_is_a_bug() {
        for (old, new) in [("pf_queues", "pf_waiters"), ("pf_has_cookies", "pf_asks_cookies")] {
            let (mut variables, constants, of_target) = agreed();
            let renamed = variables.remove(old).unwrap();
            variables.insert(new.to_owned(), renamed);
            let problem = check(&variables, &constants, &of_target).unwrap_err();
            assert_eq!(
                problem.message,
                format!("bug: the recorder does not know the variable `{new}` of the BPF object")
            );
        }
    }

    #[test]
    fn what_the_recorder_sets_and_what_the_program_has_must_agree() {
        let (variables, mut constants, of_target) = agreed();
        constants.remove("pf_first_step");
        let problem = check(&variables, &constants, &of_target).unwrap_err();
        assert!(problem.message.contains("does not set the constant `pf_first_step`"), "{}", problem.message);
        let (variables, mut constants, of_target) = agreed();
        constants.insert("pf_frist_step".into(), 1);
        let problem = check(&variables, &constants, &of_target).unwrap_err();
        assert!(problem.message.contains("`pf_frist_step`"), "{}", problem.message);
        let (mut variables, constants, of_target) = agreed();
        variables.get_mut("pf_steps").unwrap().section = ".rodata".into();
        assert!(check(&variables, &constants, &of_target).is_err(), "a shared variable in read-only memory");
    }
}
