//! What a program needs to find unchanged at its site. The calling convention decides it, by the sizes and members of the
//! structs that are passed by value; these may be described in the files of other probes.

use super::Placer;
use crate::abi::argument_place;
use crate::model::{Program, ProgramKind, RelocationKind};
use crate::relocate::Relocator;
use crate::site::Needs;
use std::collections::BTreeSet;

/// The files that are asked for types, and those of each module.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    files: Vec<usize>,
    modules: Vec<(String, Vec<usize>)>,
}

impl<'a> Placer<'a> {
    /// The registers that the program's expressions read, so that the site can be chosen before they change.
    pub(super) fn needs(&self, index: usize, program: &Program, files: &[usize]) -> Needs {
        let of_module = || Asked { files: files.to_vec(), modules: Vec::new() };
        self.needs_by(&self.relocator_of(self.asked.clone().unwrap_or_else(of_module)), index, program)
    }

    fn needs_by(&self, relocator: &Relocator<'_>, index: usize, program: &Program) -> Needs {
        let mut needs = Needs { returns: program.kind == ProgramKind::Span, ..Needs::default() };
        let Some(signature) = program.signature() else { return needs };
        let passed = |view: &str| relocator.passed(view, &program.span);
        for relocation in program.relocations.iter().filter_map(|r| self.plan.relocations.get(*r)) {
            let RelocationKind::Argument { program: of, argument } = relocation.what else { continue };
            if of == index {
                match argument_place(self.plan.arch, signature, argument, &passed) {
                    Ok(place) => {
                        needs.registers.extend(place.registers());
                        needs.stack |= place.on_stack();
                    }
                    // The problem is reported, with its hint, when the value is filled in.
                    Err(_) => needs.at_entry = true,
                }
            }
        }
        needs
    }

    /// Whether sites would be chosen otherwise by the files that values are taken from.
    pub(super) fn has_other_needs(&self) -> bool {
        let relocator = self.relocator();
        let placed: BTreeSet<usize> = self.placement.sites.iter().map(|site| site.program).collect();
        let differs = |index: &usize| {
            let (Some(then), Some(program)) = (self.needs.get(index), self.plan.programs.get(*index)) else {
                return false;
            };
            *then != self.needs_by(&relocator, *index, program)
        };
        placed.iter().any(differs)
    }

    /// The source of values of the placed programs.
    pub(super) fn relocator(&self) -> Relocator<'a> {
        self.relocator_of(self.asked()).with_functions(&self.functions)
    }

    fn relocator_of(&self, asked: Asked) -> Relocator<'a> {
        Relocator::new(self.plan, self.probeset, self.target, asked.files, asked.modules)
    }

    /// The files that values are taken from.
    pub(super) fn asked(&self) -> Asked {
        let mut files = self.files.clone();
        // Types are described in any file of the modules, not only in those with a site.
        files.extend(self.modules.values().flatten().filter(|file| !self.files.contains(file)));
        files.dedup();
        let modules = self.modules.iter().map(|(name, files)| (name.clone(), files.clone()));
        Asked { files, modules: modules.collect() }
    }
}
