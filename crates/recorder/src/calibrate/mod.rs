//! What a probe costs on this machine, measured by kind of instruction: thread CPU time of functions of profinfer with an
//! empty program at them, less that of their twins without. The figures are saved in a file for this kernel and
//! processor; on another one they are not used.

mod code;
mod file;

pub use file::{Calibration, costs};

use crate::bpf::{AttachMode, EmptyProbe, Features};
use code::{Function, Mapped};
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
    let mut probed: Vec<(&Function, EmptyProbe, Vec<f64>)> = Vec::new();
    for function in mapped.functions() {
        let probe = EmptyProbe::attach(mode, &mapped.path(), function.offset, function.returns)
            .map_err(|error| cannot("profinfer cannot probe its test function", &error))?;
        // The first hits prepare what the later ones use.
        function.call(50);
        function.call_twin(50);
        probed.push((function, probe, Vec::new()));
    }
    let started = Instant::now();
    for round in 0..ROUNDS {
        if round > 2 && started.elapsed() > LONGEST {
            break;
        }
        for (function, _, samples) in &mut probed {
            let with = cpu_time(|| function.call(CALLS));
            let without = cpu_time(|| function.call_twin(CALLS));
            samples.push((with - without).max(0.0) / f64::from(CALLS));
        }
    }
    let mut medians = BTreeMap::new();
    let mut pair = None;
    for (function, _, samples) in &mut probed {
        let Some(median) = median(samples) else { continue };
        if function.returns {
            pair = Some((function.kind, median));
        } else {
            medians.insert(function.kind, median);
        }
    }
    let return_ns = pair.and_then(|(kind, pair): (Kind, u32)| Some(pair.saturating_sub(*medians.get(&kind)?)));
    let source = format!("measured by `profinfer doctor --calibrate`, attached by {}", mode_name(mode));
    let costs =
        CostTable { source, ns: medians, return_ns, record_ns: None, nop5_writes_stack: false, built_in: false };
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
fn cpu_time(what: impl FnOnce()) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from);
        time.as_nanos() as f64
    };
    let before = now();
    what();
    now() - before
}

/// The middle one, in whole nanoseconds.
fn median(samples: &mut [f64]) -> Option<u32> {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).map(|median| median.round().clamp(0.0, 1e9) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_the_median() {
        assert_eq!(median(&mut [5.0, 1.0, 700.4]), Some(5));
        assert_eq!(median(&mut []), None);
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
        }
    }
}
