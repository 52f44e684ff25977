//! Causes made on purpose with the toy queue: a slow device, a host that encodes or does something else, large copies,
//! slow submissions. The verdict, its shares and the idle gaps are those of the toy's own clock.

use super::queue::{Known, Run};
use serde_json::Value;

/// A share of the time, as far as one may be off.
const NEAR: f64 = 0.02;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number: {value}"))
}

/// Records it, and compares the verdict on decode with the toy's clock.
fn judged(words: &[&str], bound: &str, first_screen: &str) -> (Run, Value) {
    let run = Run::new(&[], &[words, &["steps=7", "first=1"]].concat());
    let report = run.report();
    let verdicts = report["verdict"]["devices"].as_array().unwrap();
    let decode = verdicts.iter().find(|verdict| verdict["phase"] == "decode").unwrap_or_else(|| panic!("{report:#}"));
    assert_eq!((&decode["bound"], &decode["confidence"]), (&bound.into(), &"high".into()), "{decode:#}");
    // A decode step begins with the results of the step before it.
    let (first, rest) = run.known.split_first().unwrap();
    let time = (rest.last().unwrap().done - first.done) as f64;
    let sum = |of: fn(&Known) -> u64| rest.iter().map(of).sum::<u64>() as f64 / time;
    assert_eq!(decode["steps"], rest.len());
    assert!((number(&decode["step_ns"]) * rest.len() as f64 / time - 1.0).abs() < NEAR, "{decode:#}");
    for (part, known) in [
        ("device", sum(|of| of.waiting)),
        ("encoding", sum(|of| of.encoding)),
        ("submitting", sum(|of| of.submitting)),
        ("copying", sum(|of| of.copying)),
    ] {
        let part_found = number(&decode["parts"][part]);
        assert!((part_found - known).abs() < NEAR, "{part}: {known} by the toy's clock\n{decode:#}");
    }
    let parts: f64 = decode["parts"].as_object().unwrap().values().map(number).sum();
    assert!((parts - 1.0).abs() < 1e-6, "{decode:#}");
    // The device's time is a bound, and called so: what the toy's device worked lies within.
    let worked = sum(|of| of.worked);
    assert!(worked <= number(&decode["busy_at_most"]) + 1e-3, "{worked}: {decode:#}");
    assert!(1.0 - worked >= number(&decode["idle_at_least"]) - 1e-3, "{worked}: {decode:#}");
    assert_eq!(decode["busy_measured"], Value::Null);
    let screen = String::from_utf8(run.read("report", &[])).unwrap().replace('\n', " ");
    for expected in [first_screen, "% of the time (a bound) and has nothing to do in at least"] {
        assert!(screen.contains(expected), "{expected:?} in {screen}");
    }
    let decode = decode.clone();
    (run, decode)
}

#[test]
#[ignore = "needs root"]
fn a_slow_device_is_waited_for() {
    judged(&["work=40000", "encode=200", "idle=500"], "device", "Decode is device-bound: the host waits");
}

/// The host encodes while its first submission is pending: that the device is done long before is unknown, and the
/// device's bound is far from what it worked. The verdict does not rest on it.
#[test]
#[ignore = "needs root"]
fn a_host_that_encodes_slowly_limits_a_fast_device() {
    let (run, decode) =
        judged(&["work=2000", "encode=8000", "idle=100"], "host", "Decode is host-bound: encoding takes");
    assert!(number(&decode["busy_at_most"]) > 0.5, "{decode:#}");
    assert!(number(&decode["faster_device_saves_at_most"]) < 0.2, "{decode:#}");
    let text = String::from_utf8(run.read("report", &["--by", "backend"])).unwrap();
    for expected in ["What the host did while the device had work", "Longest times without work", "encoding 9"] {
        assert!(text.contains(expected), "{expected:?} in\n{text}");
    }
}

#[test]
#[ignore = "needs root"]
fn gaps_are_as_long_as_the_host_does_something_else() {
    let (run, decode) = judged(
        &["work=4000", "encode=100", "idle=30000"],
        "host",
        "Decode is host-bound: other work of the host takes",
    );
    let report = run.report();
    let found = &report["offload"]["device_use"];
    assert_eq!(
        (&found["steps"], &found["steps_without_end"], &found["steps_overlapping"]),
        (&7.into(), &0.into(), &0.into())
    );
    // Before the first submission, between each two, and none at the end: the last step ends with its results.
    assert_eq!(found["gaps"], 7);
    let gaps = found["longest_gaps"].as_array().unwrap();
    let mut longer = Vec::new();
    for (step, of) in (2_u64..).zip(run.known.windows(2)) {
        let known = (of[1].submitted - of[0].done) as f64;
        let gap = gaps.iter().find(|gap| gap["step"] == step).unwrap_or_else(|| panic!("{step}: {found:#}"));
        let duration = number(&gap["duration_ns"]);
        // From the end of a wait to the begin of a call: the toy takes its times within.
        assert!(duration >= known, "step {step}: {duration} ns recorded, {known} ns known");
        longer.push(duration / known - 1.0);
        assert!(number(&gap["host"]["between_steps"]) > 0.9 * known, "{gap}");
    }
    longer.sort_by(f64::total_cmp);
    assert!(longer[longer.len() / 2] < 0.01, "{longer:?}");
    assert!(number(&decode["idle_at_least"]) > 0.8, "{decode:#}");
}

#[test]
#[ignore = "needs root"]
fn large_copies_limit() {
    judged(&["work=2000", "encode=100", "idle=100", "copy=30000"], "copy", "in copies of 64 B per step, at");
}

#[test]
#[ignore = "needs root"]
fn slow_submissions_limit() {
    let screen = "in 2 calls per step that submit work";
    judged(&["work=2000", "encode=100", "idle=100", "submit=15000"], "submission", screen);
}
