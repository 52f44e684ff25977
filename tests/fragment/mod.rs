//! Short probesets for tests and documents: only the sections that matter are written, the others are added here.

/// What a fragment is completed with, by top key. It stands after the fragment, so that the fragment's lines keep
/// their numbers.
const REST: &[(&str, &str)] = &[
    ("profinfer", "profinfer: 1\n"),
    ("engine", "engine: toy\n"),
    ("modules", "modules: { toy: libtoy.so* }\n"),
    ("probes", "probes:\n  step:\n    at: toy:toy_step(i32 n)\n    role: step\n    fields: { tokens: n }\n"),
];

/// A fragment with the sections it lacks.
pub(crate) fn complete(fragment: &str) -> String {
    let mut text = fragment.to_owned();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    for (key, section) in REST {
        let has = |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':'));
        if !fragment.lines().any(has) {
            text.push_str(section);
        }
    }
    text
}
