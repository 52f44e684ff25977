//! The file format of speedscope (<https://www.speedscope.app/file-format-schema.json>): one sampled profile.

use super::folded::stacks;
use super::names::Symbolizer;
use super::selection::Selection;
use indexmap::IndexSet;
use profinfer_analysis::{Catalogue, Profile};
use profinfer_schema::Sampling;
use serde_json::{Value, json};

/// The profile as JSON. Weights are CPU time in ns: samples times the timer's period.
pub fn speedscope(
    name: &str,
    sampling: &Sampling,
    of: (&Profile, &Catalogue),
    selection: &Selection,
    symbols: &mut dyn Symbolizer,
) -> Value {
    let period = 1_000_000_000 / u64::from(sampling.hz.max(1));
    let mut frames: IndexSet<String> = IndexSet::new();
    let (mut samples, mut weights, mut end) = (Vec::new(), Vec::new(), 0);
    for (stack, count) in stacks(sampling, of, selection, symbols) {
        samples.push(stack.into_iter().map(|frame| frames.insert_full(frame).0).collect::<Vec<_>>());
        weights.push(count * period);
        end += count * period;
    }
    let frames: Vec<Value> = frames.into_iter().map(|name| json!({ "name": name })).collect();
    json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": concat!("profinfer ", env!("CARGO_PKG_VERSION")),
        "name": name,
        "activeProfileIndex": 0,
        "shared": { "frames": frames },
        "profiles": [{
            "type": "sampled",
            "name": name,
            "unit": "nanoseconds",
            "startValue": 0,
            "endValue": end,
            "samples": samples,
            "weights": weights,
        }],
    })
}
