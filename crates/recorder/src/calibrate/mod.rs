//! What a probe costs on this machine, measured by kind of instruction: thread CPU time of functions of profinfer with an
//! empty program at them, less that of their twins without; and how long the span of a function is that does nothing. The
//! figures are saved in a file for this kernel and processor; on another one they are not used.

mod code;
mod file;

pub(crate) use code::COMMON;
pub use file::{Calibration, costs};

use crate::bpf::{AttachMode, Features, TestProbe};
use code::{Function, Mapped, Measured};
use nix::time::{ClockId, clock_gettime};
use profinfer_compiler::{CostTable, InstructionKind as Kind};
use profinfer_diagnostics::{Code, Diagnostic};
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Rounds, in each of which every kind is measured once.
const ROUNDS: usize = 31;
/// Rounds end after this time.
const LONGEST: Duration = Duration::from_secs(6);
/// Calls in one measurement: some milliseconds of emulated probes.
const CALLS: u32 = 2000;

/// Measures, which takes some seconds.
///
/// # Errors
/// The kernel does not take the programs or the probes (B004, B005, B006).
pub fn measure() -> Result<Calibration, Diagnostic> {
    let mode = Features::probe()?.attach_mode();
    measure_with(mode)
}

fn measure_with(mode: AttachMode) -> Result<Calibration, Diagnostic> {
    let cannot = |what: &str, error: &dyn std::fmt::Display| {
        Diagnostic::error(Code::AttachFailed, format!("{what}: {error}")).hint("see `profinfer doctor`")
    };
    let mapped = Mapped::new().map_err(|error| cannot("functions to measure cannot be mapped", &error))?;
    let mut probed: Vec<(&Function, TestProbe, Vec<f64>)> = Vec::new();
    let (path, mut timed) = (mapped.path(), None);
    for function in mapped.functions() {
        let probe = match function.measured {
            Measured::Entry => TestProbe::attach(mode, &path, function.offset, false),
            Measured::EntryAndReturn => TestProbe::attach(mode, &path, function.offset, true),
            Measured::Span => TestProbe::attach_timer(mode, &path, function.offset).map(|(probe, timer)| {
                timed = Some(timer);
                probe
            }),
        };
        let probe = probe.map_err(|error| cannot("profinfer cannot probe its test function", &error))?;
        // The first hits prepare what the later ones use.
        function.call(50);
        function.call_twin(50);
        probed.push((function, probe, Vec::new()));
    }
    let span_ns = || timed.as_ref().and_then(|timer| timer.total_ns().ok()).unwrap_or(0) as f64;
    let started = Instant::now();
    for round in 0..ROUNDS {
        if round > 2 && started.elapsed() > LONGEST {
            break;
        }
        for (function, _, samples) in &mut probed {
            let account = |what: &dyn Fn()| match function.measured {
                Measured::Span => elapsed(span_ns, what),
                Measured::Entry | Measured::EntryAndReturn => elapsed(cpu_time, what),
            };
            let with = account(&|| function.call(CALLS));
            let without = elapsed(cpu_time, || function.call_twin(CALLS));
            samples.push((with - without).max(0.0) / f64::from(CALLS));
        }
    }
    let of = |kind: Kind, measured: Measured| {
        let samples = probed.iter().find(|(function, ..)| (function.kind, function.measured) == (kind, measured));
        samples.and_then(|(.., samples)| median(samples))
    };
    let ns: BTreeMap<_, _> =
        Kind::ALL.into_iter().filter_map(|kind| Some((kind, of(kind, Measured::Entry)?))).collect();
    let pair = of(COMMON, Measured::EntryAndReturn);
    let return_ns = pair.zip(ns.get(&COMMON)).map(|(pair, entry)| pair.saturating_sub(*entry));
    let span_ns = of(COMMON, Measured::Span).filter(|ns| *ns > 0);
    let source = format!("measured by `profinfer doctor --calibrate`, attached by {}", mode_name(mode));
    let costs =
        CostTable { source, ns, return_ns, span_ns, record_ns: None, nop5_writes_stack: false, built_in: false };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Calibration::of_this_machine(now.as_secs(), costs))
}

fn mode_name(mode: AttachMode) -> &'static str {
    match mode {
        AttachMode::Session => "uprobe.multi and uprobe.session",
        AttachMode::Multi => "uprobe.multi",
        AttachMode::Single => "perf events",
    }
}

/// Nanoseconds of this thread's processor time.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from);
    time.as_nanos() as f64
}

/// By how much an account grows meanwhile.
fn elapsed(account: impl Fn() -> f64, what: impl FnOnce()) -> f64 {
    let before = account();
    what();
    account() - before
}

/// The middle one, in whole nanoseconds.
fn median(samples: &[f64]) -> Option<u32> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).map(|median| median.round().clamp(0.0, 1e9) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_the_median() {
        assert_eq!(median(&[5.0, 1.0, 700.4]), Some(5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    #[ignore = "needs root"]
    fn what_the_kernel_emulates_is_cheaper_than_what_it_steps() {
        for mode in [AttachMode::Session, AttachMode::Multi, AttachMode::Single] {
            let costs = measure_with(mode).expect("privileges").costs;
            let stepped = costs.of(Kind::Stepped);
            for kind in [Kind::Nop, Kind::Jump] {
                assert!(costs.of(kind) > 50, "{mode:?}: {costs:?}");
                assert!(costs.of(kind) < stepped, "{mode:?}: {costs:?}");
            }
            assert!(costs.return_ns.is_some_and(|ns| ns > 50), "{mode:?}: {costs:?}");
            // A part of the two traps: not none of them, and not more than both with the taking of the time.
            let both = costs.return_ns.map(|ns| ns + costs.of(COMMON));
            let within = |span: u32| both.is_some_and(|both| span > both / 10 && span < both + 100);
            assert!(costs.span_ns.is_some_and(within), "{mode:?}: {costs:?}");
        }
    }
}
