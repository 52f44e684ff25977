//! Places that a probeset gives within a function, where a probe would change what the target computes: they are refused.

use super::Placer;
use crate::model::Program;
use crate::site;
use profinfer_binary::Function;
use profinfer_diagnostics::{Code, Diagnostic};
use profinfer_probeset::path::NamePattern;

/// Bytes of an instruction, at most.
const LONGEST_INSTRUCTION: usize = 16;

impl Placer<'_> {
    /// Refuses a place where no instruction of the function begins: the processor would not see the breakpoint, but
    /// another instruction.
    pub(super) fn at_an_instruction(
        &self,
        program: &Program,
        file: usize,
        function: &Function,
        offset: u64,
    ) -> Result<(), Diagnostic> {
        let size = if function.size == 0 { site::CODE_OF_UNKNOWN_SIZE as u64 } else { function.size };
        let up_to = usize::try_from(offset).unwrap_or(usize::MAX).saturating_add(LONGEST_INSTRUCTION);
        let is_within = || {
            let bytes = self.target.code(file, function.file_offset, up_to);
            site::begins_instruction(self.plan.arch, &bytes, offset)
        };
        if offset < size && is_within() {
            return Ok(());
        }
        let message = format!("no instruction of `{}` begins at +{offset:#x}", function.name);
        let problem = Diagnostic::error(Code::HarmfulSite, message).at(&program.span);
        let problem = if function.size == 0 { problem } else { problem.with_note(format!("it has {size:#x} bytes")) };
        Err(problem.hint("`objdump -d` shows where instructions begin; offsets are those of one build"))
    }

    /// Refuses a place within a function where a probe would have the kernel write over what the function has below its
    /// stack pointer.
    pub(super) fn harmless(
        &self,
        program: &Program,
        file: usize,
        file_offset: u64,
        name: &str,
    ) -> Result<(), Diagnostic> {
        let (arch, no_data) = (self.plan.arch, |_: i64, _: usize| Vec::new());
        let here = self.target.code(file, file_offset, LONGEST_INSTRUCTION);
        let code = site::Code::new(arch, &here, file_offset, &no_data);
        if !site::becomes_call(code, &self.plan.costs) {
            return Ok(());
        }
        let has = |function: &&Function| {
            file_offset.checked_sub(function.file_offset).is_some_and(|distance| distance < function.size)
        };
        let functions = self.target.functions(file, &NamePattern("*".to_owned()));
        let function = functions.iter().filter(has).max_by_key(|function| function.size);
        let is_safe = function.is_some_and(|function| {
            if function.file_offset == file_offset {
                return true;
            }
            let size = usize::try_from(function.size).unwrap_or(usize::MAX);
            let bytes = self.target.code(file, function.file_offset, size.min(site::MAX_CODE));
            let (file_offset, is_cut) = (function.file_offset, size > site::MAX_CODE);
            let whole = site::Code { is_cut, ..site::Code::new(arch, &bytes, file_offset, &no_data) };
            !site::may_write_below_stack(whole)
        });
        if is_safe {
            return Ok(());
        }
        let within = function.map_or_else(String::new, |function| format!(" in `{}`", function.name));
        let message = format!(
            "`{name}` is a nop of 5 bytes{within}, which this kernel would make a call that writes below the stack \
             pointer: the function may keep data there"
        );
        Err(Diagnostic::error(Code::HarmfulSite, message)
            .at(&program.span)
            .with_note(format!("at {file_offset:#x} of the file"))
            .hint("add an alternative to the list under `at:`, or `optional: true`; kernels with the fix take it"))
    }
}

#[cfg(test)]
mod tests {
    use crate::{PlacementOptions, Selection, place, plan};
    use profinfer_binary::{Arch, FakeTarget};
    use profinfer_diagnostics::Code;
    use profinfer_probeset::{Library, load_text};

    /// Where a probe at an offset is, and why it is nowhere.
    fn placed(arch: Arch, code: &[u8], offset: u64) -> (Option<u64>, Option<Code>) {
        let text = format!(
            "profinfer: 1
engine: toy
modules: {{ toy: libtoy.so }}
probes:
  step: {{ at: 'toy:run()', role: step }}
  within: {{ at: toy:run+{offset}, role: mark }}
"
        );
        let probeset = load_text("toy.yaml", &text, &Library::new(&[])).unwrap().0;
        let target = FakeTarget::new(arch).file("libtoy.so").function("run", 0x1000, code);
        let plan = plan(&probeset, &Selection::default(), arch).unwrap().0;
        let placement = place(&plan, &probeset, &target, PlacementOptions { lock: None, cache: None }).0;
        let site = placement.sites.iter().find(|site| site.site.probes[0] == "within");
        (site.map(|site| site.site.function_offset), placement.unplaced.first().map(|unplaced| unplaced.problem.code))
    }

    #[test]
    fn a_breakpoint_is_at_the_beginning_of_an_instruction_of_the_function() {
        // push rbp; mov rbp, rsp; ret
        let code = &[0x55, 0x48, 0x89, 0xe5, 0xc3];
        let refused = (None, Some(Code::HarmfulSite));
        for (offset, is_instruction) in [(1, true), (2, false), (3, false), (4, true), (5, false), (4096, false)] {
            let expected = if is_instruction { (Some(offset), None) } else { refused };
            assert_eq!(placed(Arch::X86_64, code, offset), expected, "+{offset}");
        }
        // nop; ret
        let code = &[0x1f, 0x20, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6];
        for (offset, is_instruction) in [(1, false), (4, true), (6, false), (8, false)] {
            let expected = if is_instruction { (Some(offset), None) } else { refused };
            assert_eq!(placed(Arch::Aarch64, code, offset), expected, "+{offset}");
        }
    }
}
