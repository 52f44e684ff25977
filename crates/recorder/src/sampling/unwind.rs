//! Callers by the unwind tables of the files that a process has mapped, from registers and a copy of its stack: for code
//! without frame pointers. The stack's contents go no further than this.

use super::mappings::{Mapping, Mappings};
use framehop::{
    CacheNative, Error, ExplicitModuleSectionInfo, MayAllocateDuringUnwind, Module, UnwindRegsNative, Unwinder as _,
    UnwinderNative,
};
use object::elf::PF_X;
use object::{Object, ObjectSection, ObjectSegment, ReadCache, ReadRef, SegmentFlags};
use profinfer_schema::Sample;
use profinfer_schema::bpf::{STACK_COPY_BYTES, STACK_PIECE_BYTES, STACK_REGISTERS};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of the unwind tables of one file, and of all files. The tables of the largest libraries have some 40 MB.
const FILE_BYTES: u64 = 128 << 20;
const ALL_BYTES: u64 = 512 << 20;

/// What a processor does with return addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Convention {
    /// Bytes of the code that calls return to whose return is probed.
    code: u64,
    /// Bytes that this code may have saved below the stack pointer.
    saved: u64,
    /// Bits of an address of user space: above them a return address may be signed.
    address_bits: u64,
    /// A call has its return address at its stack pointer at entry; elsewhere the callee saves it in its frame, if at all.
    pushes: bool,
}

impl Convention {
    const X86_64: Self = Self { code: 64, saved: 24, address_bits: u64::MAX, pushes: true };
    /// The code is one instruction, in the first slot of many.
    const ARM64: Self = Self { code: 4, saved: 0, address_bits: (1 << 48) - 1, pushes: false };
    const HERE: Self = if cfg!(target_arch = "aarch64") { Self::ARM64 } else { Self::X86_64 };
}

/// The instruction, stack and frame pointer of a thread, and its link register: 0 where the processor has none.
pub(super) type Registers = [u64; STACK_REGISTERS];

/// Where calls return to: the kernel has put its own address in the place of those whose return is probed.
#[derive(Debug, Clone)]
pub(super) struct Returns {
    convention: Convention,
    trampoline: u64,
    /// Of each such call the original address and the stack pointer at entry, the innermost first.
    calls: Vec<(u64, u64)>,
    /// How many of them were asked for in turn.
    taken: usize,
}

impl Returns {
    /// From what a sample has: the kernel's address, then the calls; 0 after the last.
    pub(super) fn new(words: &[u64]) -> Self {
        Self::of(Convention::HERE, words)
    }

    fn of(convention: Convention, words: &[u64]) -> Self {
        let (trampoline, calls) = words.split_first().map_or((0, &[][..]), |(first, rest)| (*first, rest));
        let calls = calls.chunks_exact(2).map(|call| (call[0], call[1])).take_while(|(original, _)| *original != 0);
        Self { convention, trampoline, calls: calls.collect(), taken: 0 }
    }

    /// Whether an instruction is of the code that such calls return to.
    fn is_returning(&self, instruction: u64) -> bool {
        let end = self.trampoline.saturating_add(self.convention.code);
        self.trampoline != 0 && (self.trampoline..end).contains(&instruction)
    }

    fn is_of_kernel(&self, address: u64) -> bool {
        self.trampoline != 0 && address & self.convention.address_bits == self.trampoline
    }

    /// Where the call returns to that is returning, and the stack pointer from then on.
    fn returning(&self, bottom: u64) -> Option<(u64, u64)> {
        let popped = if self.convention.pushes { 8 } else { 0 };
        // A call that was left by other ways than its return may still be there, and this one not any more.
        let mut calls = self.calls.iter().map(|(original, stack)| (*original, stack.saturating_add(popped)));
        calls.find(|(_, after)| (bottom..=bottom.saturating_add(self.convention.saved)).contains(after))
    }

    /// The original of a return address that is at an address of the stack.
    fn original_at(&self, address: u64, at: u64) -> u64 {
        if !self.is_of_kernel(address) {
            return address;
        }
        let pushes = self.convention.pushes;
        // A callee saves it below the stack pointer at entry, and above those of the calls in it.
        let is_of_call = |call: &&(u64, u64)| if pushes { call.1 == at } else { call.1 > at };
        self.calls.iter().find(is_of_call).map_or(address, |(original, _)| *original)
    }

    /// The original of the link register: it is that of the innermost call, where it is of use at all.
    fn original_of_link(&self, link: u64, bottom: u64) -> u64 {
        if !self.is_of_kernel(link) {
            return link;
        }
        self.calls.iter().find(|(_, stack)| *stack >= bottom).map_or(link, |(original, _)| *original)
    }

    /// The original of a return address without its place: ask for each of a stack in turn.
    pub(super) fn next_original(&mut self, address: u64) -> u64 {
        if !self.is_of_kernel(address) {
            return address;
        }
        let call = self.calls.get(self.taken);
        self.taken += 1;
        call.map_or(address, |(original, _)| *original)
    }
}

/// Finds the callers of samples.
#[derive(Default)]
pub(super) struct StackUnwinder {
    processes: HashMap<u32, Process>,
    /// By the module's number; `None` where a file has none, or there is no space for them.
    tables: HashMap<u16, Option<Tables>>,
    bytes: u64,
    cache: CacheNative<MayAllocateDuringUnwind>,
    /// Stacks that go on beyond what was copied, or of which nothing was.
    pub(super) cut: u64,
}

impl std::fmt::Debug for StackUnwinder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StackUnwinder").field("bytes", &self.bytes).field("cut", &self.cut).finish_non_exhaustive()
    }
}

/// A process's mappings, as they were when last read.
struct Process {
    revision: u64,
    unwinder: UnwinderNative<Arc<[u8]>, MayAllocateDuringUnwind>,
}

/// What is needed of a file.
#[derive(Clone)]
struct Tables {
    /// Where its code is to be: bytes of the file, and the address of the first.
    code: Vec<(Range<u64>, u64)>,
    /// `.eh_frame` and `.eh_frame_hdr`, each with its addresses.
    frames: (Range<u64>, Arc<[u8]>),
    index: Option<(Range<u64>, Arc<[u8]>)>,
}

impl StackUnwinder {
    /// The frames of a stack, the innermost first: where an instruction is, and then where calls are.
    pub(super) fn frames(
        &mut self,
        pid: u32,
        [instruction, bottom, frame, link]: Registers,
        stack: &[u8],
        returns: &Returns,
        mappings: &Mappings,
    ) -> Vec<u64> {
        let registers = if returns.is_returning(instruction) {
            // The kernel's code for returns is as if the call had returned already.
            let Some((returns_to, after)) = returns.returning(bottom) else {
                self.cut += 1;
                return vec![instruction];
            };
            [returns_to, after, frame, link]
        } else {
            [instruction, bottom, frame, returns.original_of_link(link, bottom)]
        };
        let instruction = registers[0];
        let Some(revision) = mappings.revision(pid) else { return vec![instruction] };
        if self.processes.get(&pid).is_none_or(|process| process.revision != revision) {
            let unwinder = self.unwinder(pid, mappings);
            self.processes.insert(pid, Process { revision, unwinder });
        }
        let Some(process) = self.processes.get(&pid) else { return Vec::new() };
        let mut read = |address: u64| {
            let at = usize::try_from(address.checked_sub(bottom).ok_or(())?).map_err(drop)?;
            let bytes = stack.get(at..).and_then(|rest| rest.first_chunk()).ok_or(())?;
            Ok(returns.original_at(u64::from_ne_bytes(*bytes), address))
        };
        let mut frames = Vec::new();
        let mut walk = process.unwinder.iter_frames(instruction, native(registers), &mut self.cache, &mut read);
        while frames.len() < Sample::MOST_FRAMES {
            match walk.next() {
                // A caller is where its call is, not where that returns to: it may be another function.
                Ok(Some(frame)) => frames.push(frame.address_for_lookup()),
                Ok(None) => break,
                Err(error) => {
                    let end = bottom.saturating_add(stack.len() as u64);
                    let is_beyond =
                        matches!(error, Error::CouldNotReadStack(address) if address.saturating_add(8) > end);
                    // The copy ends where no further page fits, or where no page is.
                    let is_full = stack.len() > STACK_COPY_BYTES - STACK_PIECE_BYTES;
                    self.cut += u64::from(is_beyond && is_full);
                    break;
                }
            }
        }
        frames
    }

    fn unwinder(&mut self, pid: u32, mappings: &Mappings) -> UnwinderNative<Arc<[u8]>, MayAllocateDuringUnwind> {
        let mut unwinder = UnwinderNative::new();
        for mapping in mappings.code(pid) {
            if let Some(module) = self.tables_of(pid, &mapping, mappings).and_then(|tables| tables.module(&mapping)) {
                unwinder.add_module(module);
            }
        }
        unwinder
    }

    fn tables_of(&mut self, pid: u32, mapping: &Mapping, mappings: &Mappings) -> Option<Tables> {
        if let Some(tables) = self.tables.get(&mapping.module) {
            return tables.clone();
        }
        let read = match mappings.vdso_bytes(pid, mapping) {
            Some(bytes) => Tables::read(bytes.as_slice()),
            // A file that cannot be opened now may be at another time, or for another process.
            None => Tables::read(&ReadCache::new(mappings.open(pid, mapping)?)),
        };
        let read = read.filter(|tables| self.bytes + tables.bytes() <= ALL_BYTES);
        self.bytes += read.as_ref().map_or(0, Tables::bytes);
        self.tables.insert(mapping.module, read.clone());
        read
    }
}

#[cfg(target_arch = "aarch64")]
fn native([_, stack, frame, link]: Registers) -> UnwindRegsNative {
    let mask = framehop::aarch64::PtrAuthMask::from_max_known_address(Convention::HERE.address_bits);
    UnwindRegsNative::new_with_ptr_auth_mask(mask, mask.strip_ptr_auth(link), stack, frame)
}

#[cfg(not(target_arch = "aarch64"))]
fn native([instruction, stack, frame, _]: Registers) -> UnwindRegsNative {
    UnwindRegsNative::new(instruction, stack, frame)
}

impl Tables {
    /// Of an ELF file; `None` where it has none, or too many.
    fn read<'a>(data: impl ReadRef<'a>) -> Option<Self> {
        let file = object::File::parse(data).ok()?;
        let section = |name: &str| {
            let section = file.section_by_name(name).filter(|section| section.size() <= FILE_BYTES)?;
            let bytes = section.data().ok()?;
            Some((section.address()..section.address().checked_add(section.size())?, Arc::from(bytes)))
        };
        let code = file.segments().filter_map(|segment| {
            let (start, length) = segment.file_range();
            let is_code = matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.0 & PF_X.0 != 0);
            Some((start..start.checked_add(length)?, segment.address())).filter(|_| is_code)
        });
        Some(Self { code: code.collect(), frames: section(".eh_frame")?, index: section(".eh_frame_hdr") })
    }

    fn bytes(&self) -> u64 {
        (self.frames.1.len() + self.index.as_ref().map_or(0, |(_, bytes)| bytes.len())) as u64
    }

    /// The file where it is mapped.
    fn module(&self, mapping: &Mapping) -> Option<Module<Arc<[u8]>>> {
        // Mappings are of whole pages.
        let end = mapping.offset.saturating_add(mapping.end - mapping.start);
        let (part, address) = self.code.iter().find(|(part, _)| part.start < end && mapping.offset < part.end)?;
        let base = mapping.start.wrapping_add(part.start).wrapping_sub(mapping.offset).wrapping_sub(*address);
        let (index_range, index) = self.index.clone().unzip();
        let sections = ExplicitModuleSectionInfo {
            eh_frame_svma: Some(self.frames.0.clone()),
            eh_frame: Some(Arc::clone(&self.frames.1)),
            eh_frame_hdr_svma: index_range,
            eh_frame_hdr: index,
            ..ExplicitModuleSectionInfo::default()
        };
        Some(Module::new(String::new(), mapping.start..mapping.end, base, sections))
    }
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::*;
    use profinfer_schema::bpf::STACK_RETURNS;
    use proptest::prelude::*;
    use std::arch::asm;
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::sync::LazyLock;

    /// This thread's registers and innermost stack, and its callers by the C library's unwinder.
    #[inline(never)]
    fn here() -> (Registers, Vec<u8>, Vec<u64>) {
        let (instruction, bottom, frame): (u64, u64, u64);
        let mut callers = [std::ptr::null_mut(); 256];
        // SAFETY: registers are read, nothing else; the C library writes as many addresses as there is space for.
        let found = unsafe {
            asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", out(reg) instruction, out(reg) bottom, out(reg) frame);
            nix::libc::backtrace(callers.as_mut_ptr(), 256)
        };
        let mut stack = vec![0; STACK_COPY_BYTES];
        let memory = File::open("/proc/self/mem").unwrap();
        let length = memory.read_at(&mut stack, bottom).unwrap();
        // As the kernel's program copies: to the end of a page, then whole pages.
        let page = STACK_PIECE_BYTES - usize::try_from(bottom).unwrap() % STACK_PIECE_BYTES;
        stack.truncate(length.min(page + STACK_COPY_BYTES - STACK_PIECE_BYTES));
        let callers = callers.iter().take(usize::try_from(found).unwrap()).map(|caller| caller.addr() as u64);
        ([instruction, bottom, frame, 0], stack, callers.collect())
    }

    /// The same from below so many calls, each with so many numbers on the stack.
    #[inline(never)]
    fn below<const N: usize>(frames: u32) -> (Registers, Vec<u8>, Vec<u64>) {
        let space = std::hint::black_box([frames; N]);
        let found = if frames == 0 { here() } else { below::<N>(frames - 1) };
        std::hint::black_box(space);
        found
    }

    fn unwound((registers, stack, _): &(Registers, Vec<u8>, Vec<u64>)) -> (Vec<u64>, u64) {
        let (mut mappings, mut unwinder) = (Mappings::default(), StackUnwinder::default());
        mappings.place(std::process::id(), registers[0], 1);
        let returns = Returns::new(&[]);
        let frames = unwinder.frames(std::process::id(), *registers, stack, &returns, &mappings);
        (frames, unwinder.cut)
    }

    #[test]
    fn callers_are_those_of_the_c_librarys_unwinder() {
        let taken = below::<16>(2);
        let (frames, cut) = unwound(&taken);
        // Both begin in the same function. The C library gives where calls return to.
        let expected: Vec<u64> = taken.2.iter().skip(1).map(|address| address - 1).collect();
        assert_eq!((&frames[1..], cut), (&expected[..], 0));
        assert!(frames.len() > 6, "{frames:x?}");
    }

    #[test]
    fn a_stack_that_is_larger_than_its_copy_is_cut() {
        let taken = below::<1024>(50);
        let (frames, cut) = unwound(&taken);
        let expected: Vec<u64> = taken.2.iter().skip(1).map(|address| address - 1).collect();
        assert_eq!((&frames[1..], cut), (&expected[..frames.len() - 1], 1));
        assert!((4..60).contains(&frames.len()), "{}", frames.len());
    }

    #[test]
    fn the_kernels_return_address_stands_for_the_original() {
        let taken = below::<16>(2);
        let (frames, _) = unwound(&taken);
        let trampoline = 0x7fff_ffff_e000_u64;
        let (registers, mut stack, callers) = taken;
        // Of two of the calls the return is probed. Before them is one that was left by other ways.
        let mut words = vec![trampoline, 0x5555, registers[1] - 800];
        for address in [callers[1], callers[3]] {
            // The last one: the list of callers is on the stack, too, before them.
            let at = stack.chunks_exact(8).rposition(|word| word == address.to_ne_bytes()).unwrap();
            stack[8 * at..8 * at + 8].copy_from_slice(&trampoline.to_ne_bytes());
            words.extend([address, registers[1] + 8 * at as u64]);
        }
        let first_return = words[4];
        words.resize(STACK_RETURNS, 0);
        let (mut mappings, mut unwinder) = (Mappings::default(), StackUnwinder::default());
        let pid = std::process::id();
        mappings.place(pid, registers[0], 1);
        let returns = Returns::new(&words);
        assert_eq!(unwinder.frames(pid, registers, &stack, &returns, &mappings), frames);
        // The first of them returns: the kernel's code has saved three registers below.
        let bottom = first_return + 8 - 24;
        let rest = &stack[usize::try_from(bottom - registers[1]).unwrap()..];
        // With frame pointers it has given back its caller's.
        let word =
            |at: u64| u64::from_ne_bytes(*stack[usize::try_from(at - registers[1]).unwrap()..].first_chunk().unwrap());
        let frame = if registers[2] + 8 == first_return { word(registers[2]) } else { registers[2] };
        let returning = [trampoline + 13, bottom, frame, 0];
        let callers_of_it = unwinder.frames(pid, returning, rest, &returns, &mappings);
        assert_eq!(callers_of_it[0], callers[1], "where it goes on");
        assert_eq!(callers_of_it[1..], frames[2..]);
        assert_eq!(unwinder.cut, 0);
        // Nobody can tell which call it is.
        let returns = Returns::new(&[trampoline, 0]);
        assert_eq!(unwinder.frames(pid, returning, rest, &returns, &mappings), [trampoline + 13]);
        assert_eq!(unwinder.cut, 1);
    }

    #[test]
    fn return_addresses_of_arm64_are_signed_and_saved_anywhere() {
        let trampoline = 0xffff_8000_1000_u64;
        let signed = trampoline | 0x7f << 56;
        // The innermost was left by other ways; two are open.
        let words = [trampoline, 0x55, 0x1000, 0x66, 0x2000, 0x77, 0x3000, 0, 0];
        let returns = Returns::of(Convention::ARM64, &words);
        assert!(
            returns.is_returning(trampoline) && !returns.is_returning(trampoline + 4),
            "the next slot is another's"
        );
        assert_eq!(returns.original_at(signed, 0x1f48), 0x66);
        assert_eq!(returns.original_at(signed, 0x2f08), 0x77);
        assert_eq!(returns.original_at(0x1234, 0x2f08), 0x1234);
        assert_eq!(returns.original_at(signed, 0x3000), signed, "it is no such call's");
        // A link register that is out of date takes nothing from those that are saved.
        assert_eq!(returns.original_of_link(trampoline, 0x1f00), 0x66);
        assert_eq!(returns.original_at(signed, 0x1f48), 0x66);
        assert_eq!(returns.returning(0x2000), Some((0x66, 0x2000)));
    }

    #[test]
    fn a_file_that_could_not_be_opened_is_tried_again() {
        let (mut mappings, mut unwinder) = (Mappings::default(), StackUnwinder::default());
        let pid = std::process::id();
        mappings.place(pid, unwound as *const () as u64, 1);
        let own = mappings.code(pid).next().unwrap();
        // As of a process that has ended.
        assert!(unwinder.tables_of(u32::MAX, &own, &mappings).is_none());
        assert!(unwinder.tables_of(pid, &own, &mappings).is_some());
    }

    /// This program's.
    static OWN_TABLES: LazyLock<Tables> =
        LazyLock::new(|| Tables::read(&ReadCache::new(File::open("/proc/self/exe").unwrap())).unwrap());

    proptest! {
        /// Whatever a target's registers and stack are: there are frames, and an end.
        #[test]
        fn any_stack_has_an_end(
            words in prop::collection::vec(any::<u64>(), 0..200),
            near in prop::collection::vec(0_u64..4096, 0..50),
            (offset, frame) in (any::<u16>(), any::<u64>()),
        ) {
            let pid = std::process::id();
            let (mut mappings, mut unwinder) = (Mappings::default(), StackUnwinder::default());
            let code = unwound as *const () as u64;
            mappings.place(pid, code, 1);
            let near = near.iter().map(|word| 0x10_000 + word);
            let stack: Vec<u8> = words.into_iter().chain(near).flat_map(u64::to_ne_bytes).collect();
            for frame in [frame, 0x10_000 + frame % 4096] {
                let registers = [code + u64::from(offset), 0x10_000, frame, 0];
                let frames = unwinder.frames(pid, registers, &stack, &Returns::new(&[]), &mappings);
                prop_assert!((1..=Sample::MOST_FRAMES).contains(&frames.len()));
            }
        }

        /// Nor do damaged tables harm.
        #[test]
        fn any_tables_are_tables_or_none(damage in prop::collection::vec((any::<u32>(), any::<u8>()), 1..2000)) {
            let mut tables = OWN_TABLES.clone();
            let start = |bytes: &[u8]| bytes[..bytes.len().min(1 << 16)].to_vec();
            let mut damaged = [start(&tables.frames.1), start(&tables.index.as_ref().unwrap().1)];
            for (at, byte) in damage {
                let table = &mut damaged[usize::from(byte % 2)];
                let at = at as usize % table.len();
                table[at] = byte;
            }
            let [frames, index] = damaged;
            tables.frames.1 = frames.into();
            tables.index.iter_mut().for_each(|of| of.1 = index.clone().into());
            let (part, _) = tables.code[0].clone();
            let mapping = Mapping { start: 0x400_000, end: 0x400_000 + part.end - part.start, offset: part.start, module: 0 };
            let mut unwinder = UnwinderNative::<Arc<[u8]>, MayAllocateDuringUnwind>::new();
            unwinder.add_module(tables.module(&mapping).unwrap());
            let mut cache = CacheNative::<MayAllocateDuringUnwind>::default();
            for at in (0..mapping.end - mapping.start).step_by(4099) {
                let registers = native([0x400_000 + at, 0x10_000, 0x10_100, 0]);
                let mut read = |address: u64| if address < 0x20_000 { Ok(address.wrapping_mul(64)) } else { Err(()) };
                let mut walk = unwinder.iter_frames(0x400_000 + at, registers, &mut cache, &mut read);
                (0..Sample::MOST_FRAMES).take_while(|_| matches!(walk.next(), Ok(Some(_)))).count();
            }
        }
    }
}
