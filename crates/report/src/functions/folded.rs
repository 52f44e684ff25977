//! Folded stacks: a line a stack, as flame graph tools read them.

use super::frames::{Frame, around, functions};
use super::names::{Names, Symbolizer};
use super::selection::Selection;
use profinfer_analysis::{Catalogue, Profile};
use profinfer_schema::Sampling;
use std::collections::BTreeMap;

/// Stacks with what they are in, the root first: phase, layer, operator type, operator, functions.
pub(super) fn stacks(
    sampling: &Sampling,
    (profile, catalogue): (&Profile, &Catalogue),
    selection: &Selection,
    symbols: &mut dyn Symbolizer,
) -> BTreeMap<Vec<String>, u64> {
    let mut names = Names::new(sampling, symbols);
    let mut stacks: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    for (phase, within, waiting, stack, count) in profile.counts() {
        if !selection.wants(phase, within, catalogue) {
            continue;
        }
        let around = around(phase, within, waiting, (profile, catalogue));
        let frames = around.into_iter().chain(functions(&mut names, profile, stack));
        *stacks.entry(frames.map(|Frame { name, .. }| name).collect()).or_default() += count;
    }
    stacks
}

/// The stacks as text.
pub fn folded(
    sampling: &Sampling,
    of: (&Profile, &Catalogue),
    selection: &Selection,
    symbols: &mut dyn Symbolizer,
) -> String {
    let line = |(frames, count): (Vec<String>, u64)| {
        let frames: Vec<String> = frames.iter().map(|frame| plain(frame)).collect();
        format!("{} {count}\n", frames.join(";"))
    };
    stacks(sampling, of, selection, symbols).into_iter().map(line).collect()
}

/// A frame without what divides frames and lines.
fn plain(frame: &str) -> String {
    profinfer_diagnostics::printable(frame).replace(';', ":")
}
