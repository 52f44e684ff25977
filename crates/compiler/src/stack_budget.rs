//! How much of a thread's state a plan's spans and records in the making take, which the kernel bounds, and how much of it
//! each of several probesets that are recorded together.

use super::model::ProbePlan;
use profinfer_diagnostics::{Code, Diagnostic};
use profinfer_probeset::{Part, Probeset};
use profinfer_schema::{BUILTIN, FieldType, RecordType, identifier};

/// Bytes of a thread's state that spans and records in the making may take. The kernel grants some 64 KiB of state; but each
/// thread of the target has as much as its engines take, so this is what all shipped probesets at once need, and not more.
const MAX_SPAN_BYTES: u64 = 21 * 1024;
/// Bytes of it that a counter of the cpus takes.
const COUNTER_BYTES: u64 = 48;

/// The part of a thread's state that a probeset uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackBudget {
    /// Bytes, of all.
    pub taken: u64,
    /// Of each of the probesets that are recorded together, by its number; none where there is one.
    pub parts: Vec<u64>,
}

impl StackBudget {
    pub(super) fn of(plan: &ProbePlan, probeset: &Probeset) -> Self {
        let mut budget = Self { taken: COUNTER_BYTES * plan.events() as u64, parts: vec![0; probeset.parts.len()] };
        for (index, record) in plan.schema.records.iter().enumerate().skip(BUILTIN) {
            let bytes = bytes(plan, index, record);
            budget.taken += bytes;
            let engine = probeset.names.engine(&record.name);
            if let Some(of_part) = engine.and_then(|engine| budget.parts.get_mut(usize::from(engine.0))) {
                *of_part += bytes;
            }
        }
        budget
    }

    /// Whether it is granted.
    pub fn fits(&self) -> bool {
        self.taken <= MAX_SPAN_BYTES
    }

    /// That it does not, by whom.
    pub(super) fn refusal(&self, probeset: &Probeset) -> Option<Diagnostic> {
        if self.fits() {
            return None;
        }
        let of = match probeset.parts.as_slice() {
            [] => String::new(),
            parts => format!(" of {}", parts.iter().map(shown).collect::<Vec<_>>().join(" and ")),
        };
        let message =
            format!("the records in the making{of} take {} bytes a thread; {MAX_SPAN_BYTES} are the most", self.taken);
        let problem = Diagnostic::error(Code::OutOfRange, message);
        let of_parts = || probeset.parts.iter().zip(&self.parts);
        let Some((largest, _)) = of_parts().max_by_key(|(_, bytes)| **bytes) else {
            return Some(problem.hint("make lists, texts and `nested: all` probes smaller or fewer"));
        };
        let problem = of_parts().fold(problem, |problem, (part, bytes)| {
            problem.with_note(format!("{bytes} bytes of them are for {}", shown(part)))
        });
        let of_largest = identifier(&largest.key, "*");
        Some(problem.hint(format!(
            "record them one at a time, or leave out what you can do without: `--level graph`, or `--no-probe` with one of \
             `{of_largest}`"
        )))
    }
}

fn shown(part: &Part) -> String {
    format!("{} ({})", part.probeset, part.engine)
}

/// What one kind of record takes while it is made: as often as it can be at once.
fn bytes(plan: &ProbePlan, index: usize, record: &RecordType) -> u64 {
    let shapes = plan.programs.iter().flat_map(|p| &p.actions).filter(|a| a.record == index);
    let copies = shapes.clone().map(|a| u64::from(a.shape.frames()));
    let saved =
        shapes.clone().map(|a| a.saved.len() as u64).max().filter(|saved| *saved > 0).map_or(0, |saved| saved + 1);
    let counts = shapes.map(|a| a.counts.fields.len() as u64).max().unwrap_or(0);
    (8 + u64::from(record.size) + tail_bytes(plan, index, record) + 24 * counts + 8 * saved) * copies.max().unwrap_or(1)
}

fn tail_bytes(plan: &ProbePlan, index: usize, record: &RecordType) -> u64 {
    let room = if plan.has_rows(index) { 2 } else { 1 };
    let bytes = |ty: &FieldType| match ty {
        FieldType::List(of, max) => room * u64::from(of.size()) * u64::from(*max),
        _ => 0,
    };
    record.fields.iter().map(|field| bytes(&field.ty)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Selection, plan, stack_budget};
    use profinfer_binary::Arch;
    use profinfer_probeset::{Library, combine, load_text};

    /// A probeset whose calls within calls take so many bytes, eight times and more.
    fn probeset(name: &str, bytes: usize) -> Probeset {
        let text = format!(
            "profinfer: 1\nengine: {name} engine\nmodules: {{ m: libm.so }}\nprobes:\n  step: {{ at: 'm:decode(cstr({bytes}) v)', \
             role: step, fields: {{ tokens: '1', text: v }} }}\n  layer: {{ at: 'm:layer(cstr({bytes}) v)', role: operator, \
             nested: all, fields: {{ op: v }} }}\n"
        );
        load_text(&format!("{name}.yaml"), &text, &Library::new(&[])).unwrap().0
    }

    #[test]
    fn probesets_that_fit_one_by_one_and_not_together_are_named() {
        let selection = Selection::default();
        let (small, large) = (probeset("small", 920), probeset("large", 1400));
        for alone in [&small, &large] {
            assert!(plan(alone, &selection, Arch::X86_64).is_ok());
        }
        let together = combine(vec![(small, true), (large, true)]).unwrap();
        let budget = stack_budget(&together, &selection, Arch::X86_64).unwrap();
        assert!(!budget.fits() && budget.parts[0] < budget.parts[1], "{budget:?}");
        assert_eq!(budget.taken, budget.parts.iter().sum::<u64>(), "nothing is shared here");
        let problems = plan(&together, &selection, Arch::X86_64).unwrap_err();
        let [problem] = problems.0.as_slice() else { panic!("{problems:?}") };
        assert_eq!(problem.code, Code::OutOfRange);
        let expected = format!(
            "the records in the making of small (small engine) and large (large engine) take {} bytes a thread; \
             {MAX_SPAN_BYTES} are the most",
            budget.taken
        );
        assert_eq!(problem.message, expected);
        assert!(problem.notes[1].ends_with("bytes of them are for large (large engine)"), "{problem:?}");
        assert!(problem.hint.as_ref().is_some_and(|hint| hint.contains("`large__*`")), "{problem:?}");
        // The hint helps.
        let without = Selection { without: vec!["large__layer".to_owned()], ..Selection::default() };
        assert!(plan(&together, &without, Arch::X86_64).is_ok());
    }
}
