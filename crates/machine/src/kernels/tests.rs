//! The loops do as many operations, and go over as many bytes, as is counted: their results say so.

use super::{GRAIN, Lanes, Page, Peak, Scratch, Sweep, peaks, sweeps};
use profinfer_schema::Quantity;
use std::collections::BTreeSet;

/// What this machine's processors have, as in `/proc/cpuinfo`.
fn features() -> BTreeSet<String> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let list = cpuinfo.lines().find(|line| line.starts_with("flags") || line.starts_with("Features")).unwrap();
    list.split_once(':').unwrap().1.split_whitespace().map(str::to_owned).collect()
}

/// The features less ever more of them: the loops of older processors run here too.
fn lesser_machines() -> Vec<BTreeSet<String>> {
    let mut machines = vec![features()];
    for lacking in
        ["amx", "avx512_fp16", "avx512_vnni", "avx512", "avx_vnni", "avx2", "bf16", "i8mm", "asimddp", "asimdhp"]
    {
        let mut fewer = machines.last().unwrap().clone();
        fewer.retain(|feature| !feature.starts_with(lacking));
        machines.push(fewer);
    }
    machines
}

fn all<T>(of: impl Fn(&dyn Fn(&str) -> bool) -> Vec<T>) -> Vec<T> {
    lesser_machines().iter().flat_map(|features| of(&|name| features.contains(name))).collect()
}

/// The sum of all accumulators.
fn sum(scratch: &Scratch, lanes: Lanes) -> f64 {
    let halves = |word: &u64| [*word as u32, (*word >> 32) as u32];
    let quarters = |word: &u64| [0, 16, 32, 48].map(|shift| (*word >> shift) as u16);
    let words = scratch.0.iter();
    match lanes {
        Lanes::F64 => words.map(|word| f64::from_bits(*word)).sum(),
        Lanes::F32 => words.flat_map(halves).map(|bits| f64::from(f32::from_bits(bits))).sum(),
        Lanes::I32 => words.flat_map(halves).map(|bits| f64::from(bits.cast_signed())).sum(),
        Lanes::I16 => words.flat_map(quarters).map(|bits| f64::from(bits.cast_signed())).sum(),
        Lanes::F16 => words.flat_map(quarters).map(half).sum(),
    }
}

/// A 16-bit float that is no infinity.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023) / 1024.0);
    if exponent == 0 { fraction * 2f64.powi(-14) } else { (1.0 + fraction) * 2f64.powi(exponent - 15) }
}

#[test]
fn every_product_adds_one() {
    let peaks: Vec<Peak> = all(peaks);
    assert!(peaks.len() >= 3);
    for peak in peaks {
        for rounds in [1, 2, 7, 1000] {
            let products = sum(&peak.run(rounds), peak.lanes);
            // A product is a multiplication and an addition.
            assert_eq!(2.0 * products, (peak.operations * rounds) as f64, "{peak:?}, {rounds} rounds");
        }
    }
}

#[test]
fn the_sum_of_ones_is_read_right() {
    assert_eq!([0x3c00, 0x6400, 0, 0x4200].map(half), [1.0, 1024.0, 0.0, 3.0]);
}

fn pages(count: usize) -> Vec<Page> {
    let mut pages = vec![Page::EMPTY; count];
    for (number, byte) in pages.iter_mut().flat_map(|page| &mut page.0).enumerate() {
        *byte = (number * 7 + number / 251) as u8;
    }
    pages
}

fn bytes(pages: &[Page]) -> Vec<u8> {
    pages.iter().flat_map(|page| page.0).collect()
}

fn of(quantity: Quantity) -> Vec<Sweep> {
    all(sweeps).into_iter().filter(|sweep| sweep.quantity == quantity).collect()
}

#[test]
fn a_read_loads_each_word_once_in_every_pass() {
    for sweep in of(Quantity::Read) {
        for count in [1, 2, 5] {
            let mut pages = pages(count);
            let before = bytes(&pages);
            let words = before.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
            let once = words.fold(0, u64::wrapping_add);
            assert_eq!(sweep.run(&mut pages, 1), once, "{sweep:?}");
            assert_eq!(sweep.run(&mut pages, 3), once.wrapping_mul(3), "{sweep:?}");
            assert_eq!(bytes(&pages), before, "nothing is changed");
        }
    }
}

#[test]
fn a_write_stores_to_each_byte_and_no_other() {
    for sweep in of(Quantity::Write).into_iter().chain(of(Quantity::WriteStreaming)) {
        let mut pages = pages(5);
        let before = bytes(&pages);
        sweep.run(&mut pages[1..4], 1);
        let after = bytes(&pages);
        assert_eq!(after[..GRAIN], before[..GRAIN], "{sweep:?}");
        assert!(after[GRAIN..4 * GRAIN].iter().all(|byte| *byte == 1), "{sweep:?}");
        assert_eq!(after[4 * GRAIN..], before[4 * GRAIN..], "{sweep:?}");
    }
}

#[test]
fn a_copy_makes_the_second_half_the_first() {
    for sweep in of(Quantity::Copy).into_iter().chain(of(Quantity::CopyStreaming)) {
        for count in [1, 3] {
            let mut pages = pages(count + 2);
            let before = bytes(&pages);
            sweep.run(&mut pages[1..=count], 2);
            let after = bytes(&pages);
            let half = count * GRAIN / 2;
            assert_eq!(after[..GRAIN + half], before[..GRAIN + half], "{sweep:?}");
            assert_eq!(after[GRAIN + half..GRAIN + 2 * half], before[GRAIN..GRAIN + half], "{sweep:?}");
            assert_eq!(after[GRAIN + 2 * half..], before[GRAIN + 2 * half..], "{sweep:?}");
        }
    }
}

#[test]
fn nothing_is_no_sweep() {
    for sweep in all(sweeps) {
        assert_eq!(sweep.run(&mut [], 1), 0);
    }
}
