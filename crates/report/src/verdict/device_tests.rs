//! Verdicts on steps that give work to a device, of records whose times are written here.

use super::*;
use crate::verdict::DeviceBound::{Copy, Device, Host, Operators, Unknown};
use profinfer_analysis::testing::{Put, Records};
use profinfer_analysis::{Rules, Timeline};

/// Verdict on decode of three steps of a millisecond each: `fill` makes their calls.
fn judged(fill: impl Fn(&mut Records, u64)) -> DeviceVerdict {
    judged_in(Phase::Decode, fill)
}

/// The same; what is outside of steps has none.
fn judged_in(phase: Phase, fill: impl Fn(&mut Records, u64)) -> DeviceVerdict {
    let mut r = Records::default();
    r.push("thread", 7, (1, 1), &[("pid", Put::Int(1))]);
    let bits = u64::from(1.0_f32.to_bits());
    r.push("properties", 7, (1, 2), &[("name", Put::Text("toy")), ("period", Put::Int(bits))]);
    for at in [1_000_000, 2_000_000, 3_000_000] {
        fill(&mut r, at);
        r.push("graph", 7, (at, at + 990_000), &[("backend", Put::Text("gpu"))]);
        if phase != Phase::Outside {
            r.push("step", 7, (at, at + 1_000_000), &[("tokens", Put::Int(1))]);
        }
    }
    let mut timeline = Timeline::new(&r.schema, Rules::default(), 1);
    let mut statistics = Statistics::default();
    r.records.iter().for_each(|record| timeline.record(record, &mut statistics));
    timeline.finish(&mut statistics);
    judge(&statistics, timeline.catalogue(), phase).unwrap()
}

fn submit(r: &mut Records, span: (u64, u64)) {
    r.push("submit", 7, span, &[("queue", Put::Int(1)), ("fence", Put::Int(3))]);
}

fn wait(r: &mut Records, span: (u64, u64)) {
    r.push("wait_fence", 7, span, &[("fence", Put::Int(3))]);
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

/// A program that polls: nothing is recorded until the fence is reset.
#[test]
fn who_polls_is_neither_device_nor_host_bound() {
    let polls = |r: &mut Records, at: u64| {
        submit(r, (at, at + 10_000));
        wait(r, (at + 900_000, at + 900_100));
    };
    let verdict = judged(polls);
    assert_eq!((verdict.bound, verdict.confidence), (Unknown, Confidence::Low));
    assert!(near(verdict.busy_at_most, 0.9001) && verdict.busy_measured.is_none(), "{verdict:#?}");
    assert!(verdict.evidence[1].contains("works in at most 90.0 % of the time (a bound)"), "{:?}", verdict.evidence);
    // With what the device measured, it is known.
    let timed = |ns: i64| {
        judged(move |r, at| {
            r.push("dispatch", 7, (at, at + 1000), &[("encoded", Put::Int(1))]);
            polls(r, at);
            r.push("ticks", 7, (at + 910_000, at + 910_100), &[("timestamps", Put::List(&[0, ns]))]);
        })
    };
    let measured = timed(800_000);
    assert_eq!(measured.bound, Device, "{measured:#?}");
    assert!(near(measured.busy_measured.unwrap(), 0.8), "{measured:#?}");
    assert!(
        measured.evidence[1].contains("computes operators in 80.0 % of the time (measured)"),
        "{:?}",
        measured.evidence
    );
    // An operator's time that contains a wait for the host is not the device's work: none was pending.
    assert!(near(timed(950_000).busy_measured.unwrap(), 0.9001));
}

/// A host that does nothing that is recorded is not blamed: it may wait for a person.
#[test]
fn without_steps_the_host_is_not_the_limit() {
    let verdict = judged_in(Phase::Outside, |r, at| {
        submit(r, (at, at + 10_000));
        wait(r, (at + 20_000, at + 100_000));
    });
    assert_eq!((verdict.bound, verdict.confidence), (Host, Confidence::Low));
    let [main, device] = &verdict.evidence[..] else { panic!("{verdict:#?}") };
    assert!(main.starts_with("In 85.7 % of the time no work is pending"), "{main}");
    assert!(device.ends_with("from the first submission to the last result."), "{device}");
}

/// A bound of 98 % of the time, and a host that hardly waits.
#[test]
fn a_large_bound_makes_no_device_bound_step() {
    let verdict = judged(|r, at| {
        submit(r, (at + 10_000, at + 20_000));
        r.push("dispatch", 7, (at + 20_000, at + 900_000), &[("encoded", Put::Int(1))]);
        wait(r, (at + 910_000, at + 990_000));
    });
    assert_eq!((verdict.bound, verdict.confidence, verdict.also), (Host, Confidence::High, None));
    assert!(near(verdict.busy_at_most, 0.98) && near(verdict.parts.encoding, 0.88), "{verdict:#?}");
    assert!(verdict.evidence[0].contains("host-bound: encoding takes 88.0 % of its time"), "{:?}", verdict.evidence);
    assert!(verdict.evidence[1].contains("a faster device saves at most"), "{:?}", verdict.evidence);
}

/// Of copies while other work is pending it is unknown whether they wait for it.
#[test]
fn copies_that_may_wait_are_probable() {
    let copies = |from: u64| {
        move |r: &mut Records, at: u64| {
            submit(r, (at + from, at + from + 1000));
            r.push("copy", 7, (at + 20_000, at + 900_000), &[("bytes", Put::Int(1 << 20))]);
            wait(r, (at + 910_000, at + 990_000));
        }
    };
    let (before, after) = (judged(copies(10_000)), judged(copies(901_000)));
    assert_eq!((before.bound, before.confidence), (Copy, Confidence::Low));
    assert_eq!((after.bound, after.confidence), (Copy, Confidence::High));
    // The device may be what they wait for, or has nothing to do meanwhile.
    let saves = |verdict: &DeviceVerdict| verdict.faster_device_saves_at_most;
    assert!(near(saves(&before), 0.08 + 0.001 + 0.019 + 0.88), "{before:#?}");
    assert!(near(saves(&after), 0.08 + 0.001 + 0.008), "{after:#?}");
    assert!(before.evidence[0].contains("is probably copy-bound"), "{:?}", before.evidence);
    assert!(after.evidence[0].contains("in copies of 1.00 MiB per step, at 1.19 GB/s"), "{:?}", after.evidence);
}

/// Operators that came back to the CPU, as long as the device: both are named.
#[test]
fn operators_on_the_cpu_and_a_second_cause() {
    let verdict = judged(|r, at| {
        r.push("kernel", 7, (at + 10_000, at + 510_000), &[]);
        submit(r, (at + 520_000, at + 530_000));
        wait(r, (at + 540_000, at + 990_000));
    });
    assert_eq!((verdict.bound, verdict.confidence, verdict.also), (Operators, Confidence::Medium, Some(Device)));
    assert!(verdict.evidence[0].ends_with("During another 45.0 % the host waits for the device."), "{verdict:#?}");
}

/// Of operators on the CPU it is named whether the device computes such ones too.
#[test]
fn operators_on_the_cpu_are_named() {
    let verdict = judged(|r, at| {
        let described = [("address", Put::Int(5)), ("op", Put::Text("MUL_MAT")), ("name", Put::Text("first"))];
        r.push("tensor", 7, (at, at), &described);
        r.push("call", 7, (at + 10_000, at + 609_900), &[("op", Put::Text("MUL_MAT"))]);
        // It called the other, and has next to no time of its own.
        r.push("call", 7, (at + 10_000, at + 610_000), &[("op", Put::Text("LINEAR"))]);
        r.push("call", 7, (at + 620_000, at + 820_000), &[("op", Put::Text("ARGSORT"))]);
        r.push("dispatch", 7, (at + 830_000, at + 831_000), &[("node", Put::Int(5)), ("encoded", Put::Int(1))]);
        submit(r, (at + 850_000, at + 851_000));
        wait(r, (at + 900_000, at + 990_000));
    });
    assert_eq!(verdict.bound, Operators);
    let expected = "Decode is limited by operators on the CPU: 80.0 % of its time. Of this, MUL_MAT 75.0 %, which the \
                    device computes elsewhere: layers or data are not offloaded; ARGSORT 25.0 %, which the device \
                    computes nowhere: its backend may lack them.";
    assert_eq!(verdict.evidence[0], expected);
}

/// An eager framework: each operator's call launches a kernel. What takes the time is that, and no work of the CPU.
#[test]
fn operators_that_launch_kernels_are_encoding() {
    let verdict = judged(|r, at| {
        for from in (0..40).map(|number| at + 10_000 + number * 20_000) {
            r.push("dispatch", 7, (from + 10_000, from + 12_000), &[("encoded", Put::Int(1))]);
            submit(r, (from + 12_000, from + 13_000));
            r.push("call", 7, (from, from + 15_000), &[("op", Put::Text("addmm"))]);
        }
        r.push("call", 7, (at + 820_000, at + 880_000), &[("op", Put::Text("item"))]);
        wait(r, (at + 900_000, at + 910_000));
    });
    assert_eq!(verdict.bound, Host, "{verdict:#?}");
    assert!(near(verdict.parts.encoding, 0.56) && near(verdict.parts.operators, 0.06), "{verdict:#?}");
    assert!(!verdict.evidence[0].contains("addmm"), "{:?}", verdict.evidence);
}
