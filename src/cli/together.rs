//! Which of several probesets that nobody named are recorded together: as many as a thread has room for.

use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::plan::Room;
use crate::spec::{self, Probeset};
use std::cmp::Reverse;

/// The probesets that are recorded.
#[derive(Debug)]
pub(crate) struct Together {
    /// Each by itself.
    pub(crate) probesets: Vec<Probeset>,
    /// All as one.
    pub(crate) whole: Probeset,
}

/// Combines probesets, each of which the target must have or not, and leaves out those for which there is no room beside the
/// others: first what was tested on the fewest builds, of such the one that takes the most. `room` is `None` where that cannot
/// be told, which the recording will say itself.
///
/// # Errors
/// They cannot be combined.
pub(crate) fn fitting(
    mut probesets: Vec<Probeset>,
    required: bool,
    room: impl Fn(&Probeset) -> Option<Room>,
) -> Result<(Together, Vec<Probeset>), Diagnostics> {
    let mut left_out = Vec::new();
    loop {
        let whole = spec::combine(probesets.iter().map(|probeset| (probeset.clone(), required)).collect())?;
        // One alone is not planned for this: it is recorded, or planning it says why not.
        let several = if probesets.len() > 1 { room(&whole) } else { None };
        let Some(room) = several.filter(|room| !room.fits()) else {
            return Ok((Together { probesets, whole }, left_out));
        };
        let least = (0..probesets.len()).min_by_key(|number| {
            (probesets[*number].tested.len(), Reverse(room.parts.get(*number).copied().unwrap_or_default()))
        });
        left_out.extend(least.map(|number| probesets.remove(number)));
    }
}

/// Says that a probeset is left out.
pub(crate) fn left_out(probeset: &Probeset) -> Diagnostic {
    let message = format!("{} ({}) is not looked for", probeset.name, probeset.engine.value);
    Diagnostic::warning(Code::OutOfRange, message)
        .with_note("a thread has no room for the records of all of them at a time".to_owned())
        .hint(format!("name it to record it: `profinfer record {}`", probeset.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Selection, room};
    use crate::spec::{Library, load_text};
    use crate::target::Arch;

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

    #[test]
    fn the_least_tested_are_left_out_until_there_is_room() {
        let room = |whole: &Probeset| room(whole, &Selection::default(), Arch::X86_64).ok();
        let all = || vec![probeset("a", 300, 3), probeset("b", 200, 1), probeset("c", 300, 1), probeset("d", 60, 2)];
        let (taken, left) = fitting(all(), true, room).unwrap();
        assert_eq!((names(&taken.probesets), names(&left)), (vec!["a", "b", "d"], vec!["c"]));
        assert!(taken.whole.parts.iter().all(|part| part.required) && room(&taken.whole).unwrap().fits());
        assert_eq!(left_out(&left[0]).message, "c (c engine) is not looked for");
        // With room for all of them, all are taken.
        let (taken, left) = fitting(all().split_off(2), false, room).unwrap();
        assert_eq!((names(&taken.probesets), left.len()), (vec!["c", "d"], 0));
        // One alone is taken, whatever it needs: planning it says why it cannot be.
        let (taken, _) = fitting(vec![probeset("huge", 2000, 0)], true, room).unwrap();
        assert_eq!(names(&taken.probesets), ["huge"]);
    }
}
