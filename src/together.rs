//! Which of several probesets that nobody named are recorded together: as many as fit the stack budget of a thread.

use profinfer_compiler::StackBudget;
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use profinfer_probeset::{self as spec, Probeset};
use std::cmp::Reverse;

/// The probesets that are recorded.
#[derive(Debug)]
pub(crate) struct Together {
    /// Each by itself.
    pub(crate) probesets: Vec<Probeset>,
    /// All as one.
    pub(crate) whole: Probeset,
}

/// Combines probesets, each of which the target must have or not. Leaves out those that exceed the stack budget of a thread
/// beside the others: first those tested on the fewest builds, of these the largest. `budget` is `None` if it cannot be
/// computed; the recording then reports why.
///
/// # Errors
/// They cannot be combined.
pub(crate) fn fitting(
    mut probesets: Vec<Probeset>,
    required: bool,
    budget: impl Fn(&Probeset) -> Option<StackBudget>,
) -> Result<(Together, Vec<Probeset>), Diagnostics> {
    let mut left_out = Vec::new();
    loop {
        let whole = spec::combine(probesets.iter().map(|probeset| (probeset.clone(), required)).collect())?;
        // A single one is not checked here: planning it reports why it does not fit.
        let several = if probesets.len() > 1 { budget(&whole) } else { None };
        let Some(used) = several.filter(|used| !used.fits()) else {
            return Ok((Together { probesets, whole }, left_out));
        };
        let least = (0..probesets.len()).min_by_key(|number| {
            (probesets[*number].tested.len(), Reverse(used.parts.get(*number).copied().unwrap_or_default()))
        });
        left_out.extend(least.map(|number| probesets.remove(number)));
    }
}

/// Says that a probeset is left out.
pub(crate) fn left_out(probeset: &Probeset) -> Diagnostic {
    let message = format!("{} ({}) is not recorded", probeset.name, probeset.engine.value);
    Diagnostic::warning(Code::OutOfRange, message)
        .with_note("the records of all these engines exceed the BPF stack budget of a thread".to_owned())
        .hint(format!("to record it, name it: `profinfer record {}`", probeset.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use profinfer_binary::Arch;
    use profinfer_compiler::{Selection, stack_budget};
    use profinfer_probeset::{Library, load_text};

    fn probeset(name: &str, bytes: usize, tested: usize) -> Probeset {
        let tested = match tested {
            0 => String::new(),
            builds => format!("tested: [{}]\n", vec!["a build"; builds].join(", ")),
        };
        let text = format!(
            "profinfer: 1\nengine: {name} engine\nmodules: {{ m: libm.so }}\n{tested}probes:\n  step: {{ at: 'm:decode(i32 n)', \
             role: step, fields: {{ tokens: n }} }}\n  layer: {{ at: 'm:layer(cstr({bytes}) v)', role: operator, nested: all, \
             fields: {{ op: v }} }}\n"
        );
        load_text(&format!("{name}.yaml"), &text, &Library::new(&[])).unwrap().0
    }

    fn names(probesets: &[Probeset]) -> Vec<&str> {
        probesets.iter().map(|probeset| probeset.name.as_str()).collect()
    }

    /// `record` without a probeset waits for any of them: the engine that is left out would be the user's.
    #[test]
    fn all_shipped_probesets_fit_together() {
        let shipped: Vec<Probeset> = crate::engines::offered();
        for arch in [Arch::X86_64, Arch::Aarch64] {
            let budget = |whole: &Probeset| stack_budget(whole, &Selection::default(), arch).ok();
            let (_, left_out) = fitting(Vec::clone(&shipped), false, budget).unwrap();
            assert_eq!(names(&left_out), Vec::<&str>::new());
        }
    }

    #[test]
    fn the_least_tested_are_left_out_until_the_rest_fits() {
        let budget = |whole: &Probeset| stack_budget(whole, &Selection::default(), Arch::X86_64).ok();
        let all = || vec![probeset("a", 880, 3), probeset("b", 590, 1), probeset("c", 880, 1), probeset("d", 180, 2)];
        let (taken, left) = fitting(all(), true, budget).unwrap();
        assert_eq!((names(&taken.probesets), names(&left)), (vec!["a", "b", "d"], vec!["c"]));
        assert!(taken.whole.parts.iter().all(|part| part.required) && budget(&taken.whole).unwrap().fits());
        assert_eq!(left_out(&left[0]).message, "c (c engine) is not recorded");
        // If all fit, all are taken.
        let (taken, left) = fitting(all().split_off(2), false, budget).unwrap();
        assert_eq!((names(&taken.probesets), left.len()), (vec!["c", "d"], 0));
        // A single one is taken in any case: planning it reports why it does not fit.
        let (taken, _) = fitting(vec![probeset("huge", 4000, 0)], true, budget).unwrap();
        assert_eq!(names(&taken.probesets), ["huge"]);
    }
}
