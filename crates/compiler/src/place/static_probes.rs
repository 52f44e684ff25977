//! The places of static probes (USDT), each with its own arguments.

use super::super::abi::ArgumentPlace;
use super::{BTreeMap, Code, Diagnostic, PlacedSite, Placer, Program, RelocationKind, Severity, Site};
use crate::site as instruction;
use profinfer_binary::{ArgumentLocation, StaticSite};
use profinfer_schema::bpf::site_cookie;

/// Bytes of the instruction: it does nothing.
const INSTRUCTION: usize = 16;

impl Placer<'_> {
    /// Places a program at a static probe; the number of places, or why there is none.
    pub(super) fn static_probe(
        &mut self,
        index: usize,
        program: &Program,
        files: &[usize],
        (provider, name): (&str, &str),
    ) -> Result<usize, Diagnostic> {
        let sites = |file: &usize| {
            let found = self.target.static_sites(*file, provider, name);
            found.into_iter().map(|site| (*file, site)).collect::<Vec<_>>()
        };
        let found: Vec<(usize, StaticSite)> = files.iter().flat_map(sites).collect();
        if found.is_empty() {
            let names = files.iter().filter_map(|f| self.target.files().get(*f)).map(|f| f.name.as_str());
            let names = names.collect::<Vec<_>>().join(", ");
            let message = format!("no static probe `{provider}:{name}` in {names}");
            let hint = "`readelf -n FILE` lists those that there are; they may have been left out of the build";
            return Err(Diagnostic::error(Code::FunctionNotFound, message).at(&program.span).hint(hint));
        }
        self.not_too_many(program, found.len())?;
        self.right_architecture(files)?;
        let mut refused = Vec::new();
        let mut placed = 0;
        for (file, site) in found {
            match self.static_site(index, program, file, &site, name) {
                Ok(()) => placed += 1,
                Err(problem) => refused.push(problem),
            }
        }
        if placed == 0 && !refused.is_empty() {
            return Err(refused.swap_remove(0));
        }
        // What is not seen at one of several places is missed.
        let missed = refused.into_iter().map(|problem| Diagnostic { severity: Severity::Warning, ..problem });
        self.problems.0.extend(missed);
        Ok(placed)
    }

    fn static_site(
        &mut self,
        index: usize,
        program: &Program,
        file: usize,
        found: &StaticSite,
        name: &str,
    ) -> Result<(), Diagnostic> {
        let id = self.next_id(program)?;
        self.harmless(program, file, found.file_offset, name)?;
        let values = self.static_arguments(index, program, found, name)?;
        let Some(of) = self.target.files().get(file) else { return Ok(()) };
        let bytes = self.target.code(file, found.file_offset, INSTRUCTION);
        let (arch, file_offset) = (self.plan.arch, found.file_offset);
        let data: instruction::Data<'_> = &|distance, len| self.target.near(file, file_offset, distance, len);
        let code = instruction::Code::new(arch, &bytes, file_offset, data);
        let there = instruction::at(code, 0, &self.plan.costs);
        let (id_of_file, path) = (of.id, of.path.clone());
        let module = self.module_number(file);
        self.placement.sites.push(PlacedSite {
            site: Site {
                id,
                probes: program.probes.clone(),
                alternative: program.alternative,
                module,
                function: name.to_owned(),
                file_offset,
                function_offset: 0,
                instruction: there.instruction,
                captures: Vec::new(),
                inlined_into: None,
            },
            program: index,
            file: id_of_file,
            path,
            cookie: site_cookie(id, 0),
            cost_ns: there.cost_ns,
            reason: there.reason,
            semaphore: found.semaphore,
            values,
        });
        Ok(())
    }

    /// Where the arguments are that the program reads, by C variable.
    fn static_arguments(
        &self,
        index: usize,
        program: &Program,
        found: &StaticSite,
        name: &str,
    ) -> Result<BTreeMap<String, u64>, Diagnostic> {
        let relocations = program.relocations.iter().filter_map(|relocation| self.plan.relocations.get(*relocation));
        let mut values = BTreeMap::new();
        for relocation in relocations {
            let RelocationKind::Argument { program: of, argument } = relocation.what else { continue };
            if of != index {
                continue;
            }
            let problem = |why: String| {
                let message = format!("argument {} of the static probe `{name}` {why}", argument + 1);
                Diagnostic::error(Code::ArgumentPlace, message)
                    .at(&relocation.span)
                    .with_note(format!("at {:#x} of the file", found.file_offset))
            };
            let Some(argument_found) = found.arguments.get(argument) else {
                let count = found.arguments.len();
                return Err(
                    problem(format!("is not there: it has {count}")).hint("arguments are counted as they stand")
                );
            };
            let place = ArgumentPlace::of_static(self.plan.arch, argument_found).ok_or_else(|| {
                let text = match &argument_found.place {
                    ArgumentLocation::Unreadable(text) => format!("cannot be read from `{text}`"),
                    _ => "is farther from its register than can be encoded".to_owned(),
                };
                problem(text).hint("registers for fractions and addresses of variables cannot be read")
            })?;
            values.insert(relocation.symbol.clone(), place.0);
        }
        Ok(values)
    }
}
