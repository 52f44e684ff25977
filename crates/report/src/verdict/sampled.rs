//! What timer samples show of the work within operators: shares with their intervals, and a sentence.

use super::model::{ClassShare, SampledClasses};
use super::parts::SampledShares;
use crate::functions::{Class, ClassCounts, FEW, SampledWork, wilson};
use crate::numbers::ratios::ratio;
use crate::numbers::units::share;
use profinfer_analysis::{Kind, Phase, group_digits};
use std::cmp::Reverse;

/// A class is mentioned if its share is at least this, certainly.
const WORTH_MENTIONING: f64 = 0.05;

/// The parts of an operator's time on CPUs that are not work, by the samples in all of its name and type; nothing where
/// these are few.
pub(super) fn shares(samples: Option<&SampledWork>, phase: Phase, kind: &Kind) -> SampledShares {
    let counts = samples.and_then(|samples| samples.operators(phase, &kind.pattern, &kind.op));
    let Some(counts) = counts else { return SampledShares::default() };
    let all = counts.all();
    let part = |count: u64| if count < FEW { 0.0 } else { ratio(count, all) };
    SampledShares { kernel: part(counts.in_kernel()), waiting: part(counts.of(Class::Wait)) }
}

/// By class.
pub(super) fn classes(counts: &ClassCounts) -> SampledClasses {
    let samples = counts.all();
    let row = |class: Class| {
        let (function, _) = counts.most(class)?;
        let count = counts.of(class);
        let (low, high) = wilson(count, samples);
        Some(ClassShare {
            what: class.as_str(),
            samples: count,
            share: ratio(count, samples),
            interval: [low, high],
            few: count < FEW,
            function: function.to_owned(),
        })
    };
    let mut classes: Vec<ClassShare> = Class::ALL.into_iter().filter_map(row).collect();
    classes.sort_by_key(|row| Reverse(row.samples));
    SampledClasses { samples, classes }
}

/// Whether the samples prove that a class matters.
pub(super) fn is_certain(row: &ClassShare) -> bool {
    !row.few && row.interval[0] >= WORTH_MENTIONING
}

/// `11.0 to 13.7 %`.
pub(super) fn interval([low, high]: [f64; 2]) -> String {
    format!("{:.1} to {}", low * 100.0, share(high))
}

/// What is not as one would expect of operators; nothing where they only compute.
pub(super) fn sentence(phase: Phase, sampled: &SampledClasses) -> Option<String> {
    let words = |row: &ClassShare| match row.what {
        what if what == Class::Fault.as_str() => Some("are page faults"),
        what if what == Class::Kernel.as_str() => Some("are other work of the kernel"),
        what if what == Class::Wait.as_str() => Some("spin at barriers"),
        what if what == Class::Copy.as_str() => Some("copy or fill memory"),
        what if what == Class::Dequantise.as_str() => Some("convert quantised numbers"),
        what if what == Class::Multiply.as_str() => Some("multiply"),
        _ => None,
    };
    let told: Vec<(&ClassShare, &str)> =
        sampled.classes.iter().filter(|row| is_certain(row)).filter_map(|row| Some((row, words(row)?))).collect();
    if told.iter().all(|(row, _)| row.what == Class::Multiply.as_str()) {
        return None;
    }
    let parts: Vec<String> = told
        .iter()
        .map(|(row, words)| {
            format!("{} ({}) {words}, most in `{}`", share(row.share), interval(row.interval), row.function)
        })
        .collect();
    let of = match phase {
        Phase::Prefill => "prefill's",
        Phase::Decode => "decode's",
        Phase::Run => "the run's",
        Phase::Outside => "other",
    };
    let samples = group_digits(sampled.samples);
    Some(format!("Of {samples} samples in {of} operators (95 % intervals), {}.", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(what: Class, share: f64, interval: [f64; 2], samples: u64) -> ClassShare {
        let function = format!("of_{}", what.as_str());
        ClassShare { what: what.as_str(), samples, share, interval, few: samples < FEW, function }
    }

    #[test]
    fn only_what_samples_prove_is_mentioned() {
        let of = |classes: Vec<ClassShare>| sentence(Phase::Decode, &SampledClasses { samples: 1000, classes });
        let multiply = row(Class::Multiply, 0.6, [0.57, 0.63], 600);
        assert_eq!(of(vec![multiply.clone()]), None);
        assert_eq!(of(vec![multiply.clone(), row(Class::Copy, 0.06, [0.047, 0.076], 60)]), None, "it may be less");
        assert_eq!(of(vec![row(Class::Fault, 0.5, [0.3, 0.7], 10)]), None, "few samples");
        let both = of(vec![multiply, row(Class::Dequantise, 0.3, [0.272, 0.329], 300)]);
        let expected = "Of 1,000 samples in decode's operators (95 % intervals), 60.0 % (57.0 to 63.0 %) multiply, most in \
                        `of_multiply`; 30.0 % (27.2 to 32.9 %) convert quantised numbers, most in `of_dequantise`.";
        assert_eq!(both.as_deref(), Some(expected));
    }
}
