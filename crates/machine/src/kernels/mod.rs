//! The loops that are measured: over memory ([`Sweep`]), and of arithmetic alone ([`Peak`]). They know of no threads and
//! no clock. Each is chosen by the features that the kernel reports for all processors, by the kernel's names.

#[cfg(target_arch = "aarch64")]
mod arm64;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "aarch64")]
use arm64 as arch;
use profinfer_schema::Quantity;
#[cfg(target_arch = "x86_64")]
use x86 as arch;

/// What a loop takes its sources from and leaves its results in: space for 16 of the widest registers.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(super) struct Scratch([u64; 128]);

impl Scratch {
    fn with(sources: [u64; 3]) -> Self {
        let mut words = [0; 128];
        for (word, source) in words.chunks_exact_mut(8).zip(sources) {
            word.fill(source);
        }
        Self(words)
    }
}

/// A loop over memory: where it starts, bytes, how many times, scratch.
///
/// # Safety
/// The bytes are there to be read and written by nobody else, start at a multiple of 64 and are a multiple, not nothing,
/// of [`GRAIN`]; it goes over them at least once.
type SweepFn = unsafe fn(*mut u8, usize, u64, &mut Scratch);

/// Bytes of a sweep are a multiple of this: both halves have whole turns of every loop.
pub(super) const GRAIN: usize = 4096;

/// Memory of a sweep, aligned as the loops need it.
#[derive(Debug, Clone, Copy)]
#[repr(align(4096))]
pub(super) struct Page(#[cfg_attr(not(test), allow(dead_code, reason = "only the loops read it"))] [u8; GRAIN]);

impl Page {
    /// A page of zeroes.
    pub(super) const EMPTY: Self = Self([0; GRAIN]);
}

/// A loop over memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sweep {
    /// What it measures. One pass over n bytes loads n ([`Quantity::Read`]), stores n (`Write…`), or loads n/2 and stores
    /// n/2 (`Copy…`): n count in each case.
    pub(super) quantity: Quantity,
    /// The instructions that do it.
    pub(super) instructions: &'static str,
    run: SweepFn,
}

impl Sweep {
    /// Passes over the pages `times` times, at least once. Returns the sum of all words read, for [`Quantity::Read`].
    pub(super) fn run(&self, pages: &mut [Page], passes: u64) -> u64 {
        let bytes = size_of_val(pages);
        if bytes == 0 {
            return 0;
        }
        let mut scratch = Scratch::with([PATTERN, 0, 0]);
        // SAFETY: the pages are ours alone, aligned and of the size that the loop needs; there is at least one, and one
        // pass. The loop was chosen by the processors' features.
        unsafe { (self.run)(pages.as_mut_ptr().cast(), bytes, passes.max(1), &mut scratch) };
        // The sums of a read take the place of the pattern, whatever the registers' width.
        if self.quantity == Quantity::Read { scratch.0.iter().fold(0, |sum, word| sum.wrapping_add(*word)) } else { 0 }
    }
}

/// The value that the storing loops store.
const PATTERN: u64 = 0x0101_0101_0101_0101;

/// How accumulators are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "tests add them up, and no architecture has all of them")]
pub(super) enum Lanes {
    F64,
    F32,
    F16,
    I32,
    I16,
}

/// A loop of arithmetic: how many rounds, scratch.
///
/// # Safety
/// The processor has its instructions; there is at least one round.
type PeakFn = unsafe fn(u64, &mut Scratch);

/// A loop of arithmetic.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peak {
    /// What it measures.
    pub(super) quantity: Quantity,
    /// The instructions that do it.
    pub(super) instructions: &'static str,
    /// Multiplications and additions in one round.
    pub(super) operations: u64,
    #[cfg_attr(not(test), allow(dead_code, reason = "tests add them up"))]
    lanes: Lanes,
    sources: [u64; 3],
    run: PeakFn,
}

impl Peak {
    /// Runs through all accumulators `times` times, at least once.
    pub(super) fn run(&self, rounds: u64) -> Scratch {
        let mut scratch = Scratch::with(self.sources);
        // SAFETY: the loop was chosen by the processors' features, and there is at least one round.
        unsafe { (self.run)(rounds.max(1), &mut scratch) };
        scratch
    }
}

/// Ones, as each kind of number has them: every product adds 1, so that the accumulators count the products.
mod sources {
    const fn three(word: u64) -> [u64; 3] {
        [word; 3]
    }
    pub(super) const FP64: [u64; 3] = three(0x3ff0_0000_0000_0000);
    pub(super) const FP32: [u64; 3] = three(0x3f80_0000_3f80_0000);
    pub(super) const FP16: [u64; 3] = three(0x3c00_3c00_3c00_3c00);
    pub(super) const BF16: [u64; 3] = three(0x3f80_3f80_3f80_3f80);
    pub(super) const INT8: [u64; 3] = three(0x0101_0101_0101_0101);
    #[cfg(target_arch = "x86_64")]
    pub(super) const INT16: [u64; 3] = three(0x0001_0001_0001_0001);
    /// Bytes, and the 16-bit ones that their sums are multiplied with.
    #[cfg(target_arch = "x86_64")]
    pub(super) const INT8_WIDENED: [u64; 3] = [0x0101_0101_0101_0101, 0x0101_0101_0101_0101, 0x0001_0001_0001_0001];
}

/// The loops over memory for processors with these features.
pub(super) fn sweeps(has: &dyn Fn(&str) -> bool) -> Vec<Sweep> {
    arch::sweeps(has)
}

/// The loops of arithmetic for processors with these features, one for each kind of number that they have.
pub(super) fn peaks(has: &dyn Fn(&str) -> bool) -> Vec<Peak> {
    arch::peaks(has)
}
