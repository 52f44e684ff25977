//! The loops of arm64, in assembly: what is measured is what stands here, whatever the compiler. Vectors are of the 128
//! bits that all processors have; the wider ones of SVE are not used.

use super::{Lanes, Peak, Scratch, Sweep, sources};
use profinfer_schema::Quantity;
use std::arch::asm;

/// Adds up all 64-bit words into eight vectors, which go into the scratch.
///
/// # Safety
/// As for [`super::SweepFn`].
unsafe fn read(at: *mut u8, bytes: usize, passes: u64, scratch: &mut Scratch) {
    // SAFETY: within the loop `x9` goes from `at` to `at + bytes` in steps of what is loaded; the scratch has space for
    // eight registers.
    unsafe {
        asm!(
            ".irp i, 0,1,2,3,4,5,6,7", "movi v\\i\\().2d, #0", ".endr",
            "2:", "mov x9, x0", "mov x10, x1",
            "3:",
            "ldp q16, q17, [x9]", "ldp q18, q19, [x9, #32]", "ldp q20, q21, [x9, #64]", "ldp q22, q23, [x9, #96]",
            "add v0.2d, v0.2d, v16.2d", "add v1.2d, v1.2d, v17.2d", "add v2.2d, v2.2d, v18.2d",
            "add v3.2d, v3.2d, v19.2d", "add v4.2d, v4.2d, v20.2d", "add v5.2d, v5.2d, v21.2d",
            "add v6.2d, v6.2d, v22.2d", "add v7.2d, v7.2d, v23.2d",
            "add x9, x9, #128", "subs x10, x10, #1", "b.ne 3b",
            "subs x2, x2, #1", "b.ne 2b",
            ".irp i, 0,1,2,3,4,5,6,7", "str q\\i, [x3, #(16 * \\i)]", ".endr",
            inout("x0") at => _, inout("x1") bytes / 128 => _, inout("x2") passes => _,
            inout("x3") scratch.0.as_mut_ptr() => _, clobber_abi("C"), options(nostack)
        );
    }
}

macro_rules! store {
    ($name:ident, $instruction:literal) => {
        /// Stores the scratch's first vector everywhere.
        ///
        /// # Safety
        /// As for [`super::SweepFn`].
        unsafe fn $name(at: *mut u8, bytes: usize, passes: u64, scratch: &mut Scratch) {
            // SAFETY: within the loop `x9` goes from `at` to `at + bytes` in steps of what is stored.
            unsafe {
                asm!(
                    "ldr q0, [x3]",
                    "2:", "mov x9, x0", "mov x10, x1",
                    "3:", ".irp i, 0,32,64,96", concat!($instruction, " q0, q0, [x9, #\\i]"), ".endr",
                    "add x9, x9, #128", "subs x10, x10, #1", "b.ne 3b",
                    "subs x2, x2, #1", "b.ne 2b",
                    inout("x0") at => _, inout("x1") bytes / 128 => _, inout("x2") passes => _,
                    inout("x3") scratch.0.as_mut_ptr() => _, clobber_abi("C"), options(nostack)
                );
            }
        }
    };
}

store!(write, "stp");
store!(write_streaming, "stnp");

macro_rules! copy {
    ($name:ident, $instruction:literal) => {
        /// Copies the first half to the second.
        ///
        /// # Safety
        /// As for [`super::SweepFn`].
        unsafe fn $name(at: *mut u8, bytes: usize, passes: u64, scratch: &mut Scratch) {
            let _ = scratch;
            let half = bytes / 2;
            // SAFETY: within the loop `x9` goes through the first half and `x11` through the second, in steps of what
            // is moved.
            unsafe {
                asm!(
                    "2:", "mov x9, x0", "mov x11, x3", "mov x10, x1",
                    "3:",
                    "ldp q16, q17, [x9]", "ldp q18, q19, [x9, #32]", "ldp q20, q21, [x9, #64]", "ldp q22, q23, [x9, #96]",
                    concat!($instruction, " q16, q17, [x11]"), concat!($instruction, " q18, q19, [x11, #32]"),
                    concat!($instruction, " q20, q21, [x11, #64]"), concat!($instruction, " q22, q23, [x11, #96]"),
                    "add x9, x9, #128", "add x11, x11, #128", "subs x10, x10, #1", "b.ne 3b",
                    "subs x2, x2, #1", "b.ne 2b",
                    inout("x0") at => _, inout("x1") half / 128 => _, inout("x2") passes => _,
                    inout("x3") at.add(half) => _, clobber_abi("C"), options(nostack)
                );
            }
        }
    };
}

copy!(copy, "stp");
copy!(copy_streaming, "stnp");

/// A loop that adds products to 24 accumulators, which do not wait for one another.
macro_rules! peak {
    ($name:ident, $extension:literal, $step:literal) => {
        /// Runs through the accumulators `times` times, and stores them in the scratch.
        ///
        /// # Safety
        /// The processor has these instructions.
        unsafe fn $name(rounds: u64, scratch: &mut Scratch) {
            // SAFETY: of memory only the scratch is used, which has space for the sources and for all accumulators.
            unsafe {
                asm!(
                    $extension,
                    ".irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23",
                    "movi v\\i\\().2d, #0", ".endr",
                    "ldr q30, [x3]", "ldr q31, [x3, #64]",
                    "2:", ".irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23", $step, ".endr",
                    "subs x2, x2, #1", "b.ne 2b",
                    ".irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23",
                    "str q\\i, [x3, #(16 * \\i)]", ".endr",
                    inout("x2") rounds => _, inout("x3") scratch.0.as_mut_ptr() => _, clobber_abi("C"), options(nostack)
                );
            }
        }
    };
}

peak!(fp64, "", "fmla v\\i\\().2d, v30.2d, v31.2d");
peak!(fp32, "", "fmla v\\i\\().4s, v30.4s, v31.4s");
peak!(fp16, ".arch_extension fp16", "fmla v\\i\\().8h, v30.8h, v31.8h");
peak!(bf16, ".arch_extension bf16", "bfmmla v\\i\\().4s, v30.8h, v31.8h");
peak!(int8_matrix, ".arch_extension i8mm", "smmla v\\i\\().4s, v30.16b, v31.16b");
peak!(int8_dot, ".arch_extension dotprod", "sdot v\\i\\().4s, v30.16b, v31.16b");
peak!(int8, "", "smlal v\\i\\().8h, v30.8b, v31.8b");

/// The loops over memory.
pub(super) fn sweeps(_has: &dyn Fn(&str) -> bool) -> Vec<Sweep> {
    let of = |quantity, instructions, run| Sweep { quantity, instructions, run };
    vec![
        of(Quantity::Read, "ldp q, add v.2d", read),
        of(Quantity::Write, "stp q", write),
        of(Quantity::WriteStreaming, "stnp q", write_streaming),
        of(Quantity::Copy, "ldp q, stp q", copy),
        of(Quantity::CopyStreaming, "ldp q, stnp q", copy_streaming),
    ]
}

/// For each kind of number the instructions that do most with it.
pub(super) fn peaks(has: &dyn Fn(&str) -> bool) -> Vec<Peak> {
    // Multiplications an instruction: lanes by products that a lane takes up.
    let of = |quantity, instructions, products: u64, lanes, sources, run| Peak {
        quantity,
        instructions,
        operations: 2 * 24 * products,
        lanes,
        sources,
        run,
    };
    let mut peaks = vec![
        of(Quantity::Fp64, "fmla v.2d", 2, Lanes::F64, sources::FP64, fp64),
        of(Quantity::Fp32, "fmla v.4s", 4, Lanes::F32, sources::FP32, fp32),
    ];
    if has("asimdhp") {
        peaks.push(of(Quantity::Fp16, "fmla v.8h", 8, Lanes::F16, sources::FP16, fp16));
    }
    if has("bf16") {
        peaks.push(of(Quantity::Bf16, "bfmmla v.4s", 16, Lanes::F32, sources::BF16, bf16));
    }
    peaks.push(if has("i8mm") {
        of(Quantity::Int8, "smmla v.4s", 32, Lanes::I32, sources::INT8, int8_matrix)
    } else if has("asimddp") {
        of(Quantity::Int8, "sdot v.4s", 16, Lanes::I32, sources::INT8, int8_dot)
    } else {
        of(Quantity::Int8, "smlal v.8h", 8, Lanes::I16, sources::INT8, int8)
    });
    peaks
}
