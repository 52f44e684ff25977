//! Callers of timer samples by unwind tables: every kernel lets the program in, and gives the callers that the toy has.

use super::machine::{Arch, Step};
use super::{PROBESET, every_kernel};
use profinfer_schema::CodePlace;
use profinfer_trace::{Item, TraceReader};

/// With so much work in operators that most samples are there.
pub(crate) fn steps() -> Vec<Step> {
    let record = format!("profinfer record {PROBESET} --sample 999 --stacks dwarf -o /run/sampled.pfi");
    vec![("sampled".to_owned(), format!("TOY_WORK=600000 {record} -- /bin/toy 5 12 2"))]
}

fn samples_have_callers(arch: Arch) {
    for (kernel, reported) in every_kernel(arch) {
        let mut reader = TraceReader::new(reported.trace("sampled", 0)).unwrap();
        let mut samples = Vec::new();
        while let Some(item) = reader.next() {
            if let Item::Samples(some) = item {
                samples.extend_from_slice(some);
            }
        }
        let sampling = reader.meta().sampling.clone().unwrap();
        assert_eq!((sampling.absent, sampling.unwind_tables), (None, true), "Linux {}", kernel.series);
        // What interrupted the toy's own code within an operator has a caller in the toy, up to a thread's beginning.
        let place = |place: &CodePlace| sampling.modules.get(usize::from(place.module)).map(|module| &*module.path);
        let toy = |of: &CodePlace| place(of).is_some_and(|path| path.ends_with("/toy"));
        let of_toy =
            samples.iter().filter(|sample| !sample.in_kernel && sample.within.is_some() && toy(&sample.frames[0]));
        let depths: Vec<usize> = of_toy.map(|sample| sample.frames.len()).collect();
        eprintln!("cut {} of {}, {depths:?}", sampling.cut, samples.len());
        let whole = depths.iter().filter(|depth| **depth >= 4).count();
        // Tables are made while the toy runs: nobody holds it. On a busy machine they come late, and half of the ring is full
        // by then: samples have no copy of the stack, and the trace counts them.
        let uncopied = depths.iter().filter(|depth| **depth == 1).count().min(usize::try_from(sampling.cut).unwrap());
        let copied = depths.len() - uncopied;
        assert!(
            copied >= 20.max(uncopied) && whole * 10 >= copied * 9,
            "Linux {}: {whole} of {copied} samples have callers, {uncopied} no copy, of {} ({} cut): {depths:?}",
            kernel.series,
            samples.len(),
            sampling.cut
        );
    }
}

#[test]
#[ignore = "needs root"]
fn samples_have_callers_on_x86_64() {
    samples_have_callers(Arch::Amd64);
}

#[test]
#[ignore = "needs root"]
fn samples_have_callers_on_arm64() {
    samples_have_callers(Arch::Arm64);
}
