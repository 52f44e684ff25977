//! The loops of x86-64, in assembly: what is measured is what stands here, whatever the compiler. Each is there in the
//! three widths that processors have: 128 bits, which all have, 256 bits of AVX2, 512 bits of AVX-512.
//!
//! Registers are those of the ABI of C: `rdi`, `rsi`, `rdx`, `rcx` for what comes in, `r8` for [`Scratch`].

use super::{Lanes, Peak, Scratch, Sweep, sources};
use profinfer_schema::Quantity;
use std::arch::asm;

/// Loops over memory, which go over eight vectors at a time.
macro_rules! sweeps {
    ($module:ident, $register:literal, $width:literal, $clear:literal, $add:literal, $load:literal, $move:literal,
     $stream:literal, $end:literal) => {
        mod $module {
            use super::{Scratch, asm};

            /// Adds up all 64-bit words, eight sums a lane, into the scratch.
            ///
            /// # Safety
            /// As for `SweepFn`; the processor has these instructions.
            pub(super) unsafe fn read(at: *mut u8, bytes: usize, passes: u64, scratch: &mut Scratch) {
                // SAFETY: within the loop `r9` goes from `at` to `at + bytes` in steps of what is loaded; the scratch
                // has space for eight registers.
                unsafe {
                    asm!(
                        ".irp i, 0,1,2,3,4,5,6,7", $clear, ".endr",
                        "2:", "mov r9, rdi", "mov rcx, rsi",
                        "3:", ".irp i, 0,1,2,3,4,5,6,7", $add, ".endr",
                        concat!("add r9, 8*", $width), "dec rcx", "jnz 3b",
                        "dec rdx", "jnz 2b",
                        ".irp i, 0,1,2,3,4,5,6,7",
                        concat!($load, " [r8 + \\i*", $width, "], ", $register, "\\i"), ".endr",
                        $end,
                        inout("rdi") at => _, inout("rsi") bytes / (8 * $width) => _, inout("rdx") passes => _,
                        inout("r8") scratch.0.as_mut_ptr() => _, clobber_abi("C"), options(nostack)
                    );
                }
            }

            sweeps!(@store write, $register, $width, $load, $move, $end);
            sweeps!(@store write_streaming, $register, $width, $load, $stream, $end);
            sweeps!(@copy copy, $register, $width, $load, $move, $end);
            sweeps!(@copy copy_streaming, $register, $width, $load, $stream, $end);
        }
    };
    (@store $name:ident, $register:literal, $width:literal, $load:literal, $store:literal, $end:literal) => {
        /// Stores the scratch's first vector everywhere.
        ///
        /// # Safety
        /// As for `SweepFn`; the processor has these instructions.
        pub(super) unsafe fn $name(at: *mut u8, bytes: usize, passes: u64, scratch: &mut Scratch) {
            // SAFETY: within the loop `r9` goes from `at` to `at + bytes` in steps of what is stored.
            unsafe {
                asm!(
                    concat!($load, " ", $register, "0, [r8]"),
                    "2:", "mov r9, rdi", "mov rcx, rsi",
                    "3:", ".irp i, 0,1,2,3,4,5,6,7",
                    concat!($store, " [r9 + \\i*", $width, "], ", $register, "0"), ".endr",
                    concat!("add r9, 8*", $width), "dec rcx", "jnz 3b",
                    "dec rdx", "jnz 2b",
                    "sfence", $end,
                    inout("rdi") at => _, inout("rsi") bytes / (8 * $width) => _, inout("rdx") passes => _,
                    inout("r8") scratch.0.as_mut_ptr() => _, clobber_abi("C"), options(nostack)
                );
            }
        }
    };
    (@copy $name:ident, $register:literal, $width:literal, $load:literal, $store:literal, $end:literal) => {
        /// Copies the first half to the second.
        ///
        /// # Safety
        /// As for `SweepFn`; the processor has these instructions.
        pub(super) unsafe fn $name(at: *mut u8, bytes: usize, passes: u64, scratch: &mut Scratch) {
            let _ = scratch;
            let half = bytes / 2;
            // SAFETY: within the loop `r9` goes through the first half and `r10` through the second, in steps of what is
            // moved.
            unsafe {
                asm!(
                    "2:", "mov r9, rdi", "mov r10, r8", "mov rcx, rsi",
                    "3:",
                    ".irp i, 0,1,2,3,4,5,6,7", concat!($load, " ", $register, "\\i, [r9 + \\i*", $width, "]"), ".endr",
                    ".irp i, 0,1,2,3,4,5,6,7", concat!($store, " [r10 + \\i*", $width, "], ", $register, "\\i"), ".endr",
                    concat!("add r9, 8*", $width), concat!("add r10, 8*", $width), "dec rcx", "jnz 3b",
                    "dec rdx", "jnz 2b",
                    "sfence", $end,
                    inout("rdi") at => _, inout("rsi") half / (8 * $width) => _, inout("rdx") passes => _,
                    inout("r8") at.add(half) => _, clobber_abi("C"), options(nostack)
                );
            }
        }
    };
}

sweeps!(xmm, "xmm", 16, "pxor xmm\\i, xmm\\i", "paddq xmm\\i, [r9 + \\i*16]", "movdqu", "movdqa", "movntdq", "");
sweeps!(
    ymm,
    "ymm",
    32,
    "vpxor xmm\\i, xmm\\i, xmm\\i",
    "vpaddq ymm\\i, ymm\\i, [r9 + \\i*32]",
    "vmovdqu",
    "vmovdqa",
    "vmovntdq",
    "vzeroupper"
);
sweeps!(
    zmm,
    "zmm",
    64,
    "vpxor xmm\\i, xmm\\i, xmm\\i",
    "vpaddq zmm\\i, zmm\\i, [r9 + \\i*64]",
    "vmovdqu64",
    "vmovdqa64",
    "vmovntdq",
    "vzeroupper"
);

/// A loop that adds products to accumulators, which do not wait for one another.
macro_rules! peak {
    ($name:ident, $register:literal, $width:literal, $load:literal, $clear:literal, $accumulators:literal,
     [$a:literal, $b:literal, $c:literal], [$($step:literal),+], $end:literal) => {
        /// Runs through the accumulators `times` times, and stores them in the scratch.
        ///
        /// # Safety
        /// The processor has these instructions.
        unsafe fn $name(rounds: u64, scratch: &mut Scratch) {
            // SAFETY: of memory only the scratch is used, which has space for three sources and for all accumulators.
            unsafe {
                asm!(
                    concat!(".irp i, ", $accumulators), $clear, ".endr",
                    concat!($load, " ", $register, $a, ", [r8]"),
                    concat!($load, " ", $register, $b, ", [r8 + 64]"),
                    concat!($load, " ", $register, $c, ", [r8 + 128]"),
                    ".p2align 5",
                    "2:", concat!(".irp i, ", $accumulators), $($step,)+ ".endr",
                    "dec rdx", "jnz 2b",
                    concat!(".irp i, ", $accumulators),
                    concat!($load, " [r8 + \\i*", $width, "], ", $register, "\\i"), ".endr",
                    $end,
                    inout("rdx") rounds => _, inout("r8") scratch.0.as_mut_ptr() => _, clobber_abi("C"), options(nostack)
                );
            }
        }
    };
}

macro_rules! peak_xmm {
    ($name:ident, [$($step:literal),+]) => {
        peak!($name, "xmm", 16, "movdqu", "pxor xmm\\i, xmm\\i", "0,1,2,3,4,5,6,7,8,9,10,11", ["13", "14", "15"],
            [$($step),+], "");
    };
}

macro_rules! peak_ymm {
    ($name:ident, [$($step:literal),+]) => {
        peak!($name, "ymm", 32, "vmovdqu", "vpxor xmm\\i, xmm\\i, xmm\\i", "0,1,2,3,4,5,6,7,8,9,10,11",
            ["13", "14", "15"], [$($step),+], "vzeroupper");
    };
}

macro_rules! peak_zmm {
    ($name:ident, [$($step:literal),+]) => {
        peak!($name, "zmm", 64, "vmovdqu64", "vpxor xmm\\i, xmm\\i, xmm\\i", "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
            ["29", "30", "31"], [$($step),+], "vzeroupper");
    };
}

peak_xmm!(fp64_xmm, ["movapd xmm12, xmm13", "mulpd xmm12, xmm14", "addpd xmm\\i, xmm12"]);
peak_xmm!(fp32_xmm, ["movaps xmm12, xmm13", "mulps xmm12, xmm14", "addps xmm\\i, xmm12"]);
peak_xmm!(int16_xmm, ["movdqa xmm12, xmm13", "pmaddwd xmm12, xmm14", "paddd xmm\\i, xmm12"]);
peak_ymm!(fp64_ymm, ["vfmadd231pd ymm\\i, ymm13, ymm14"]);
peak_ymm!(fp32_ymm, ["vfmadd231ps ymm\\i, ymm13, ymm14"]);
peak_ymm!(int8_ymm, ["vpmaddubsw ymm12, ymm13, ymm14", "vpmaddwd ymm12, ymm12, ymm15", "vpaddd ymm\\i, ymm\\i, ymm12"]);
peak_ymm!(int8_dot_ymm, ["{{vex}} vpdpbusd ymm\\i, ymm13, ymm14"]);
peak_zmm!(fp64_zmm, ["vfmadd231pd zmm\\i, zmm29, zmm30"]);
peak_zmm!(fp32_zmm, ["vfmadd231ps zmm\\i, zmm29, zmm30"]);
peak_zmm!(fp16_zmm, ["vfmadd231ph zmm\\i, zmm29, zmm30"]);
peak_zmm!(bf16_zmm, ["vdpbf16ps zmm\\i, zmm29, zmm30"]);
peak_zmm!(int8_zmm, ["vpmaddubsw zmm28, zmm29, zmm30", "vpmaddwd zmm28, zmm28, zmm31", "vpaddd zmm\\i, zmm\\i, zmm28"]);
peak_zmm!(int8_dot_zmm, ["vpdpbusd zmm\\i, zmm29, zmm30"]);

/// The widest loops over memory that a processor with these features can run.
pub(super) fn sweeps(has: &dyn Fn(&str) -> bool) -> Vec<Sweep> {
    let of = |quantity, instructions, run| Sweep { quantity, instructions, run };
    if has("avx512f") {
        vec![
            of(Quantity::Read, "vpaddq zmm, m512", zmm::read),
            of(Quantity::Write, "vmovdqa64 m512, zmm", zmm::write),
            of(Quantity::WriteStreaming, "vmovntdq m512, zmm", zmm::write_streaming),
            of(Quantity::Copy, "vmovdqu64, vmovdqa64 zmm", zmm::copy),
            of(Quantity::CopyStreaming, "vmovdqu64, vmovntdq zmm", zmm::copy_streaming),
        ]
    } else if has("avx2") {
        vec![
            of(Quantity::Read, "vpaddq ymm, m256", ymm::read),
            of(Quantity::Write, "vmovdqa m256, ymm", ymm::write),
            of(Quantity::WriteStreaming, "vmovntdq m256, ymm", ymm::write_streaming),
            of(Quantity::Copy, "vmovdqu, vmovdqa ymm", ymm::copy),
            of(Quantity::CopyStreaming, "vmovdqu, vmovntdq ymm", ymm::copy_streaming),
        ]
    } else {
        vec![
            of(Quantity::Read, "paddq xmm, m128", xmm::read),
            of(Quantity::Write, "movdqa m128, xmm", xmm::write),
            of(Quantity::WriteStreaming, "movntdq m128, xmm", xmm::write_streaming),
            of(Quantity::Copy, "movdqu, movdqa xmm", xmm::copy),
            of(Quantity::CopyStreaming, "movdqu, movntdq xmm", xmm::copy_streaming),
        ]
    }
}

/// For each kind of number the instructions that do most with it.
pub(super) fn peaks(has: &dyn Fn(&str) -> bool) -> Vec<Peak> {
    // Multiplications a round: accumulators by lanes by products that a lane takes up.
    let of = |quantity, instructions, products: u64, lanes, sources, run| Peak {
        quantity,
        instructions,
        operations: 2 * products,
        lanes,
        sources,
        run,
    };
    let mut peaks = Vec::new();
    if has("avx512f") {
        peaks.push(of(Quantity::Fp64, "vfmadd231pd zmm", 16 * 8, Lanes::F64, sources::FP64, fp64_zmm));
        peaks.push(of(Quantity::Fp32, "vfmadd231ps zmm", 16 * 16, Lanes::F32, sources::FP32, fp32_zmm));
        if has("avx512_fp16") {
            peaks.push(of(Quantity::Fp16, "vfmadd231ph zmm", 16 * 32, Lanes::F16, sources::FP16, fp16_zmm));
        }
        if has("avx512_bf16") {
            peaks.push(of(Quantity::Bf16, "vdpbf16ps zmm", 16 * 32, Lanes::F32, sources::BF16, bf16_zmm));
        }
    } else if has("avx2") && has("fma") {
        peaks.push(of(Quantity::Fp64, "vfmadd231pd ymm", 12 * 4, Lanes::F64, sources::FP64, fp64_ymm));
        peaks.push(of(Quantity::Fp32, "vfmadd231ps ymm", 12 * 8, Lanes::F32, sources::FP32, fp32_ymm));
    } else {
        peaks.push(of(Quantity::Fp64, "mulpd, addpd xmm", 12 * 2, Lanes::F64, sources::FP64, fp64_xmm));
        peaks.push(of(Quantity::Fp32, "mulps, addps xmm", 12 * 4, Lanes::F32, sources::FP32, fp32_xmm));
    }
    peaks.push(if has("avx512f") && has("avx512_vnni") {
        of(Quantity::Int8, "vpdpbusd zmm", 16 * 64, Lanes::I32, sources::INT8, int8_dot_zmm)
    } else if has("avx2") && has("avx_vnni") {
        of(Quantity::Int8, "vpdpbusd ymm", 12 * 32, Lanes::I32, sources::INT8, int8_dot_ymm)
    } else if has("avx512f") && has("avx512bw") {
        let name = "vpmaddubsw, vpmaddwd, vpaddd zmm";
        of(Quantity::Int8, name, 16 * 64, Lanes::I32, sources::INT8_WIDENED, int8_zmm)
    } else if has("avx2") {
        let name = "vpmaddubsw, vpmaddwd, vpaddd ymm";
        of(Quantity::Int8, name, 12 * 32, Lanes::I32, sources::INT8_WIDENED, int8_ymm)
    } else {
        of(Quantity::Int16, "pmaddwd, paddd xmm", 12 * 8, Lanes::I32, sources::INT16, int16_xmm)
    });
    peaks
}
