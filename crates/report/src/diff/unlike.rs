//! In what two traces are not alike beside their times: what a reader must know before the first number.

use super::rows::{DiffSide, PhaseDiff, PhaseOfSide, Unlike};
use profinfer_trace::Meta;

use profinfer_schema::Origin;
use std::collections::BTreeMap;

/// Modules whose builds are compared.
const MODULES: usize = 8;

/// Everything in which the traces are not alike, most telling first.
pub(super) fn unlike(a: &DiffSide<'_>, b: &DiffSide<'_>, phases: &[PhaseDiff]) -> Vec<Unlike> {
    let mut found = Vec::new();
    let (of_a, of_b) = (&a.meta.origin, &b.meta.origin);
    let mut compare = |what: &str, a: String, b: String| {
        if a != b {
            found.push(Unlike { what: what.to_owned(), a, b });
        }
    };
    let host = |of: &Origin| of.host.clone();
    let (host_a, host_b) = (host(of_a), host(of_b));
    compare("engine", of_a.engine.clone(), of_b.engine.clone());
    compare(
        "processor",
        format!("{}, {}", host_a.cpu_model, host_a.arch),
        format!("{}, {}", host_b.cpu_model, host_b.arch),
    );
    compare("processors", host_a.cpus.to_string(), host_b.cpus.to_string());
    compare("machine", host_a.name, host_b.name);
    compare("kernel", host_a.kernel, host_b.kernel);
    compare("CPU quota", quota(of_a), quota(of_b));
    compare("probeset", probeset(of_a, of_b), probeset(of_b, of_a));
    let (command_a, command_b) = changed_words(&of_a.command, &of_b.command);
    compare("command", command_a, command_b);
    for (name, a, b) in builds(a.meta, b.meta) {
        compare(&format!("build of {name}"), a, b);
    }
    let weights = |of: &DiffSide<'_>| of.series.types_of_weights().into_iter().collect::<Vec<_>>().join(", ");
    let (weights_a, weights_b) = (weights(a), weights(b));
    // Unknown is not different.
    if !weights_a.is_empty() && !weights_b.is_empty() {
        compare("types of weights", weights_a, weights_b);
    }
    for phase in phases {
        let sides = [phase.a, phase.b];
        if sides.iter().any(|side| side.whole_steps == 0) {
            continue;
        }
        let [lanes_a, lanes_b] = sides.map(|side| side.lanes.to_string());
        compare(&format!("lanes in {}", phase.phase), lanes_a, lanes_b);
        let [steps_a, steps_b] = sides.map(|side| side.steps.to_string());
        compare(&format!("steps in {}", phase.phase), steps_a, steps_b);
        if let [Some(tokens_a), Some(tokens_b)] = sides.map(|side| side.tokens)
            && (tokens_a * phase.b.whole_steps) != (tokens_b * phase.a.whole_steps)
        {
            compare(&format!("tokens in {}", phase.phase), tokens_a.to_string(), tokens_b.to_string());
        }
        let recorded = |side: PhaseOfSide| match side.whole_steps == side.steps {
            true => "every step".to_owned(),
            false => format!("{} of {} steps", side.whole_steps, side.steps),
        };
        compare(&format!("recorded whole in {}", phase.phase), recorded(sides[0]), recorded(sides[1]));
    }
    let (options_a, options_b) = changed_words(&of_a.options, &of_b.options);
    compare("options of the recording", options_a, options_b);
    compare("recorder", of_a.recorder.clone(), of_b.recorder.clone());
    found
}

fn quota(origin: &Origin) -> String {
    origin.cpu_quota.map_or_else(|| "none".to_owned(), |cpus| format!("{cpus} CPUs"))
}

/// The probeset by name, with a checksum where only its text differs.
fn probeset(of: &Origin, other: &Origin) -> String {
    let texts = |origin: &Origin| origin.sources.iter().map(|(_, text)| text.clone()).collect::<Vec<_>>();
    if of.probeset == other.probeset && texts(of) != texts(other) {
        let sum = texts(of)
            .iter()
            .flat_map(|text| text.bytes())
            .fold(0_u32, |sum, byte| sum.wrapping_mul(0x0100_0193) ^ u32::from(byte));
        return format!("{} (text {sum:08x})", of.probeset);
    }
    of.probeset.clone()
}

/// The words that two commands do not share at their beginning and end.
fn changed_words(a: &[String], b: &[String]) -> (String, String) {
    let mut head = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let most = a.len().min(b.len()) - head;
    let tail = a.iter().rev().zip(b.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    // An option's value stands with its option.
    if a.len() == b.len() && head + tail < a.len() && head > 0 && a[head - 1].starts_with('-') {
        head -= 1;
    }
    let words = |of: &[String]| of.get(head..of.len() - tail).unwrap_or(&[]).join(" ");
    let or_none = |text: String| if text.is_empty() { "none".to_owned() } else { text };
    let (a, b) = (words(a), words(b));
    if a == b { (String::new(), String::new()) } else { (or_none(a), or_none(b)) }
}

/// Modules of the same name whose builds differ.
fn builds(a: &Meta, b: &Meta) -> Vec<(String, String, String)> {
    let ids = |meta: &Meta| -> BTreeMap<String, String> {
        let id = |id: &String| id.chars().take(12).collect();
        meta.modules.iter().filter_map(|m| Some((m.name.clone(), m.build_id.as_ref().map(id)?))).collect()
    };
    let of_b = ids(b);
    let pairs = ids(a).into_iter().filter_map(|(name, id)| Some((name.clone(), id, of_b.get(&name)?.clone())));
    pairs.filter(|(_, a, b)| a != b).take(MODULES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn only_the_words_that_differ_are_listed() {
        let changed = |a: &str, b: &str| changed_words(&words(a), &words(b));
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(changed("run --threads 1 -m x", "run --threads 2 -m x"), pair("--threads 1", "--threads 2"));
        assert_eq!(changed("run -m x", "run -m x --flash on"), pair("none", "--flash on"));
        assert_eq!(changed("run x", "run x"), pair("", ""));
        assert_eq!(changed("", "run"), pair("none", "run"));
        assert_eq!(changed("a a a", "a a"), pair("a", "none"));
    }
}
