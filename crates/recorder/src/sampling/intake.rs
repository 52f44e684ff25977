//! Samples out of the ring: read, their addresses made places.

use super::mappings::Mappings;
use super::unwind::{Registers, Returns, StackUnwinder};
use profinfer_schema::bpf::{KERNEL_FRAMES, STACK_REGISTERS, STACK_RETURNS, sample_flags};
use profinfer_schema::{CodePlace, HEADER_SIZE, NO_SITE, Sample, Sampling};
use profinfer_trace::RecordHeader;
use std::collections::BTreeSet;

/// Samples that wait for the trace to begin.
const EARLY: usize = 1 << 16;
/// Distinct addresses of the kernel whose functions are stored.
const KERNEL_ADDRESSES: usize = 1 << 16;

/// Addresses of the kernel, as many as have space.
#[derive(Debug, Default)]
pub(super) struct KernelAddresses {
    all: BTreeSet<u64>,
    new: Vec<u64>,
}

impl KernelAddresses {
    fn add(&mut self, address: u64) {
        if self.all.len() < KERNEL_ADDRESSES && self.all.insert(address) {
            self.new.push(address);
        }
    }

    /// Those that were not taken before.
    pub(super) fn take_new(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.new)
    }
}

/// Takes samples out of the ring.
#[derive(Debug, Default)]
pub(crate) struct SampleIntake {
    /// What the samples are, without lists.
    pub(super) described: Sampling,
    pub(super) mappings: Mappings,
    pub(super) unwinder: StackUnwinder,
    /// Addresses of the kernel that samples are at.
    pub(super) kernel: KernelAddresses,
    /// Samples before the trace began.
    early: Vec<Sample>,
    /// Samples that were left out: malformed, or too many before the trace began.
    pub(super) dropped: u64,
}

impl SampleIntake {
    /// A process has other files mapped than before.
    pub(crate) fn changed(&mut self, pid: u32) {
        self.mappings.changed(pid);
    }

    /// Reads a sample as the program sends it; `None` where it is malformed.
    pub(crate) fn read(&mut self, record: &[u8]) -> Option<Sample> {
        let sample = self.parse(record);
        self.dropped += u64::from(sample.is_none());
        sample
    }

    fn parse(&mut self, record: &[u8]) -> Option<Sample> {
        let header = RecordHeader::read(record)?;
        let at = HEADER_SIZE as usize;
        let word = |index: usize| Some(u64::from_ne_bytes(*record.get(at + 8 * index..)?.first_chunk()?));
        let (start, who, address, stack) = (word(0)?, word(1)?, word(2)?, word(3)?);
        // By the structure: u32 pid, u16 within, u16 flags.
        let [pid_0, pid_1, pid_2, pid_3, within_0, within_1, flags_0, flags_1] = who.to_ne_bytes();
        let pid = u32::from_ne_bytes([pid_0, pid_1, pid_2, pid_3]);
        let within = u16::from_ne_bytes([within_0, within_1]);
        let flags = u16::from_ne_bytes([flags_0, flags_1]);
        let in_kernel = flags & sample_flags::IN_KERNEL != 0;
        // Words of the structure before its frames.
        const FIXED: usize = 4;
        let words = |first: usize, count: usize| (first..first + count).map(word).collect::<Option<Vec<u64>>>();
        // A negative number is an error: there are no frames then.
        let length = |bytes: u64| usize::try_from(bytes.cast_signed().max(0)).unwrap_or(usize::MAX);
        let bytes = length(stack);
        let has_copy = flags & sample_flags::STACK_COPY != 0;
        self.unwinder.cut += u64::from(self.described.unwind_tables && !has_copy);
        let has_stack = has_copy || flags & sample_flags::FRAMES != 0;
        let (returns, of_kernel, first) = if has_stack {
            let at = FIXED + STACK_RETURNS;
            let of_kernel = words(at + 1, (length(word(at)?) / 8).min(KERNEL_FRAMES))?;
            (words(FIXED, STACK_RETURNS)?, of_kernel, at + 1 + KERNEL_FRAMES)
        } else {
            (Vec::new(), Vec::new(), FIXED)
        };
        let mut returns = Returns::new(&returns);
        let mut places = Vec::with_capacity(2);
        // The user's stack begins where the thread is, or where it entered the kernel.
        if in_kernel {
            let callers = of_kernel.into_iter().skip(1).map(|returns_to| returns_to.saturating_sub(1));
            for address in std::iter::once(address).chain(callers) {
                self.kernel.add(address);
                places.push(CodePlace { module: CodePlace::KERNEL, offset: address });
            }
        } else {
            places.push(self.mappings.place(pid, address, header.start));
        }
        let frames = if has_copy {
            let registers: Registers = words(first, STACK_REGISTERS)?.try_into().ok()?;
            let copy = record.get(at + 8 * (first + STACK_REGISTERS)..)?.get(..bytes)?;
            // What is mapped is read again where it has changed.
            if in_kernel {
                self.mappings.place(pid, registers[0], header.start);
            }
            self.unwinder.frames(pid, registers, copy, &returns, &self.mappings)
        } else {
            let frames = words(first, (bytes / 8).min(Sample::MOST_FRAMES - 1))?.into_iter();
            let frames = frames.map(|frame| returns.next_original(frame)).enumerate();
            // A caller is where its call is, not where that returns to: the next instruction may be another function's.
            frames.map(|(index, frame)| if index == 0 { frame } else { frame.saturating_sub(1) }).collect()
        };
        let of_user = frames.iter().skip(usize::from(!in_kernel)).filter(|frame| **frame != 0);
        for frame in of_user.take(Sample::MOST_FRAMES - places.len()) {
            places.push(self.mappings.place(pid, *frame, header.start));
        }
        Some(Sample {
            time: header.start,
            tid: header.tid,
            pid,
            cpu: header.cpu,
            in_kernel,
            without_detail: flags & sample_flags::WITHOUT_DETAIL != 0,
            within: (within != NO_SITE).then_some((within, start)),
            frames: places,
        })
    }

    /// Keeps a sample until the trace begins.
    pub(crate) fn defer(&mut self, sample: Sample) {
        if self.early.len() < EARLY {
            self.early.push(sample);
        } else {
            self.dropped += 1;
        }
    }

    /// Samples that came before the trace.
    pub(crate) fn take_early(&mut self) -> Vec<Sample> {
        std::mem::take(&mut self.early)
    }

    /// Files that samples are in, those that were not given before.
    pub(crate) fn news(&mut self) -> Option<Sampling> {
        self.mappings.has_news().then(|| {
            let (first_module, modules) = self.mappings.take_news();
            Sampling { first_module, modules, ..self.described.clone() }
        })
    }

    /// Samples that found no trace.
    pub(super) fn drop_early(&mut self) -> u64 {
        self.take_early().len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(flags: u16, address: u64, frames: &[u64], count: i64) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_SIZE as usize];
        bytes[8..12].copy_from_slice(&7_u32.to_ne_bytes());
        bytes[16..24].copy_from_slice(&1000_u64.to_ne_bytes());
        bytes.extend(900_u64.to_ne_bytes());
        bytes.extend(std::process::id().to_ne_bytes());
        bytes.extend(9_u16.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(address.to_ne_bytes());
        bytes.extend((count.saturating_mul(8)).to_ne_bytes());
        frames.iter().for_each(|frame| bytes.extend(frame.to_ne_bytes()));
        bytes
    }

    #[test]
    fn a_sample_is_read_with_its_place_in_the_file() {
        let mut intake = SampleIntake::default();
        let here = record as fn(u16, u64, &[u64], i64) -> Vec<u8> as usize as u64;
        let sample = intake.read(&record(0, here, &[here], 1)).unwrap();
        assert_eq!((sample.time, sample.tid, sample.within), (1000, 7, Some((9, 900))));
        assert_eq!(sample.frames.len(), 1);
        let news = intake.news().unwrap();
        let exe = std::env::current_exe().unwrap();
        let number = usize::from(sample.frames[0].module);
        assert_eq!((news.first_module, news.modules[number].path.as_str()), (0, exe.to_str().unwrap()));
        assert_eq!(news.modules[number].size, exe.metadata().unwrap().len());
        assert_eq!(intake.news(), None);
    }

    #[test]
    fn what_is_in_no_file_is_in_none() {
        let mut intake = SampleIntake::default();
        let heap = Box::new(5_u64);
        let heap = std::ptr::from_ref(&*heap) as u64;
        let module = |intake: &mut SampleIntake, address| intake.read(&record(0, address, &[], 0)).unwrap().frames[0];
        assert_eq!(module(&mut intake, heap), CodePlace { module: CodePlace::ANONYMOUS, offset: heap });
        assert_eq!(module(&mut intake, 5).module, CodePlace::UNKNOWN);
        let kernel = u64::MAX - 99;
        let sample = intake.read(&record(sample_flags::IN_KERNEL, kernel, &[heap], 1)).unwrap();
        let modules: Vec<u16> = sample.frames.iter().map(|frame| frame.module).collect();
        assert_eq!(modules, [CodePlace::KERNEL, CodePlace::ANONYMOUS], "and where it entered the kernel");
        assert_eq!(intake.kernel.take_new(), [kernel]);
    }

    #[test]
    fn a_stack_has_the_kernels_callers_and_original_returns() {
        let (kernel, trampoline, original) = (u64::MAX - 99, 0x7fff_ffff_e000, 0x55);
        let mut words = vec![0; STACK_RETURNS + 1 + KERNEL_FRAMES];
        words[..3].copy_from_slice(&[trampoline, original, 0x7f00]);
        words[STACK_RETURNS..STACK_RETURNS + 3].copy_from_slice(&[16, kernel, kernel + 40]);
        words.extend([7, trampoline, 9]);
        let mut intake = SampleIntake::default();
        let flags = sample_flags::IN_KERNEL | sample_flags::FRAMES;
        let sample = intake.read(&record(flags, kernel, &words, 3)).unwrap();
        let offsets: Vec<u64> = sample.frames.iter().map(|frame| frame.offset).collect();
        assert_eq!(offsets, [kernel, kernel + 39, 7, original - 1, 8]);
        assert_eq!(intake.kernel.take_new(), [kernel, kernel + 39], "both have names");
    }

    #[test]
    fn what_is_malformed_is_counted() {
        let mut intake = SampleIntake::default();
        let whole = record(0, 5, &[5, 6], 2);
        assert!(intake.read(&whole[..whole.len() - 1]).is_none());
        assert!(intake.read(&whole[..40]).is_none());
        assert!(intake.read(&record(0, 5, &[], -14)).is_some(), "an error instead of a stack");
        assert!(intake.read(&record(0, 5, &[], i64::MAX)).is_none());
        assert_eq!(intake.dropped, 3);
    }
}
