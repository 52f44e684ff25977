//! Where in a function a probe is put: the cheapest instruction of its straight-line start that every call passes,
//! that nothing jumps into, and where the arguments are still where the calling convention put them. What an
//! instruction does is decoded by `x86` and `arm64`, what a hit of it costs by `cost`; the choice is the same for both.

mod arm64;
mod cost;
mod x86;

pub use cost::{CostTable, Kind};

use super::abi::ArgumentPlace;
use profinfer_binary::Arch;
use std::ops::Range;

/// What a probe needs to find unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// Registers that its expressions read, as DWARF numbers them.
    pub(super) registers: Vec<u16>,
    /// The return is probed too: the kernel replaces the return address, so that must be where the call put it.
    pub(super) returns: bool,
    /// Arguments are read from the stack: the stack pointer's movement must be tracked.
    pub(super) stack: bool,
    /// What it reads is certain at the first instruction only.
    pub(super) at_entry: bool,
}

impl Needs {
    /// The same for a function that has its arguments where debug information places them, if it places any.
    pub(super) fn of_clone(&self, places: &[(String, u64)]) -> Option<Self> {
        let places = places.iter().map(|(_, place)| ArgumentPlace(*place));
        let mut needs = Self { registers: Vec::new(), stack: false, ..self.clone() };
        let mut any = false;
        for place in places {
            any = true;
            needs.at_entry |= place.is_in_memory();
            needs.registers.extend(place.registers());
        }
        any.then_some(needs)
    }
}

/// Reads what code refers to: so many bytes, from so many bytes behind the function's first instruction.
pub(super) type Data<'a> = &'a dyn Fn(i64, usize) -> Vec<u8>;

/// The instructions of a function.
#[derive(Clone, Copy)]
pub(super) struct Code<'a> {
    /// The instruction set.
    pub(super) arch: Arch,
    /// From the first instruction to the last.
    pub(super) bytes: &'a [u8],
    /// Where the first one is, in the file: pages of memory are pages of the file.
    pub(super) file_offset: u64,
    /// The function is longer than `bytes`: what jumps into its start is undetermined.
    pub(super) is_cut: bool,
    /// Pieces of the function that the compiler put elsewhere.
    pub(super) apart: &'a [Piece],
    /// There may be more of them.
    pub(super) has_unread: bool,
    /// Tables that it jumps by are read with it.
    pub(super) data: Data<'a>,
}

/// Code that a function leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// From the first instruction to the last.
    pub(super) bytes: Vec<u8>,
    /// Bytes from the function's start.
    pub(super) at: i64,
    /// It is a piece of the function for certain, not another function.
    pub(super) is_own: bool,
}

impl<'a> Code<'a> {
    /// Code that is all of its function.
    pub(super) fn new(arch: Arch, bytes: &'a [u8], file_offset: u64, data: Data<'a>) -> Self {
        Self { arch, bytes, file_offset, is_cut: false, apart: &[], has_unread: false, data }
    }

    /// All pieces: bytes, where they are, whether they are the function's for certain.
    fn pieces(self) -> impl Iterator<Item = (&'a [u8], i64, bool)> {
        let apart = self.apart.iter().map(|piece| (piece.bytes.as_slice(), piece.at, piece.is_own));
        std::iter::once((self.bytes, 0, true)).chain(apart)
    }

    /// Whether bytes from the function's start are in one of the pieces.
    fn has(self, at: i64) -> bool {
        self.pieces().any(|(bytes, start, _)| (start..start.saturating_add(bytes.len() as i64)).contains(&at))
    }
}

/// A chosen instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chosen {
    /// Bytes from the function's first instruction.
    pub(super) offset: u64,
    /// Bytes that the stack pointer is below its value at the first instruction.
    pub(super) stack_moved: u16,
    /// The instruction's text.
    pub(super) instruction: String,
    /// Expected nanoseconds a hit; `None` where the instruction is not recognised.
    pub(super) cost_ns: Option<u32>,
    /// Why it is no cheaper one.
    pub(super) reason: String,
    /// No jump from the body comes back to here: it is the entry, or the frame is not made yet.
    pub(super) is_settled: bool,
}

/// Bytes of a function that are searched for jumps back into its start.
pub(super) const MAX_CODE: usize = 1 << 20;
/// Bytes that are read of a function of unknown length.
pub(super) const CODE_OF_UNKNOWN_SIZE: usize = 8 * 1024;
/// Why there is nothing cheaper than the cheapest.
pub(super) const CHEAPEST: &str = "the cheapest kind there is";
/// Instructions from the start that are considered.
const MAX_START: usize = 24;

/// A set of registers, by their DWARF numbers, which are below 64 in both architectures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Registers(u64);

impl Registers {
    fn add(&mut self, number: u16) {
        self.0 |= 1_u64.checked_shl(number.into()).unwrap_or(0);
    }

    fn has(self, number: u16) -> bool {
        self.0 & 1_u64.checked_shl(number.into()).unwrap_or(0) != 0
    }
}

/// What an instruction does to the stack pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stack {
    /// It goes down by so many bytes (up, where negative).
    Down(i32),
    /// It gets an unknown value.
    Unknown,
}

/// One instruction, as far as the choice goes.
#[derive(Debug)]
struct Step {
    /// Bytes from the start of the code.
    offset: u64,
    text: String,
    /// `None`: the kernel does not let it be probed.
    kind: Option<Kind>,
    /// Registers that it may change.
    writes: Registers,
    stack: Stack,
    /// It reads or changes the register that has the return address, where a register has it.
    moves_return_address: bool,
    /// It writes memory, not counting what it pushes.
    writes_memory: bool,
}

/// The straight-line start of some code, and the jumps into it that were found.
#[derive(Debug, Default)]
struct Line {
    /// Instructions from the first up to and including the first that can go elsewhere.
    steps: Vec<Step>,
    /// Where direct jumps come from and go to, for those that go into the start, but not to its first instruction.
    jumps: Vec<(i64, u64)>,
    /// The code jumps by a table that cannot be read: it may go anywhere.
    jumps_by_table: bool,
}

/// Chooses the site of a function; `None` where the kernel takes no instruction that would do.
pub(super) fn choose(code: Code<'_>, needs: &Needs, costs: &CostTable) -> Option<Chosen> {
    let line = decode(code, 0..code.bytes.len());
    let Some(first) = line.steps.first() else {
        // Bytes that cannot be read, or that the decoder does not know: the kernel may still know them.
        let reason = "the instruction is not recognised";
        return Some(Chosen {
            offset: 0,
            stack_moved: 0,
            instruction: hex(code.bytes),
            cost_ns: None,
            reason: reason.into(),
            is_settled: true,
        });
    };
    // Compilers keep the stack pointer of each instruction the same, however it is come to. So no jump from the body
    // goes to before an instruction that belongs to making the frame.
    let frame = line.steps.iter().rev().find(|step| matches!(step.stack, Stack::Down(down) if down > 0));
    let settled = frame.map_or(first.offset, |step| step.offset);
    let barrier = if needs.at_entry {
        Some((first.offset, "where its arguments are is certain there only"))
    } else if code.is_cut {
        Some((settled, "the function is too long to be searched for jumps into its start"))
    } else if line.jumps_by_table {
        Some((settled, "the function jumps by a table, which may lead to there"))
    } else if code.has_unread {
        Some((settled, "the function jumps to code that cannot be read, which may lead back to there"))
    } else {
        None
    };
    let chosen = Search { line: &line, needs, costs, barrier }.run(&|_| true)?;
    Some(Chosen { is_settled: chosen.offset <= settled, ..chosen })
}

/// Where a function's own jumps lead that are no calls, outside of all its pieces: bytes from its start.
pub(super) fn leads_out(code: Code<'_>) -> Vec<i64> {
    let mut targets = match code.arch {
        Arch::X86_64 => x86::jumps(code.bytes),
        Arch::Aarch64 => arm64::jumps(code.bytes),
    };
    targets.retain(|target| !code.has(*target));
    targets.sort_unstable();
    targets.dedup();
    targets
}

/// A place that is not chosen but given.
pub(super) fn at(code: Code<'_>, offset: u64, costs: &CostTable) -> Chosen {
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(code.bytes.len());
    let line = decode(code, start..code.bytes.len());
    let step = line.steps.first();
    Chosen {
        offset,
        stack_moved: 0,
        instruction: step.map_or_else(|| hex(&code.bytes[start..]), |step| step.text.clone()),
        cost_ns: step.and_then(|step| step.kind).map(|kind| costs.of(kind)),
        reason: "the place that the probeset gives".to_owned(),
        is_settled: false,
    }
}

/// Has the disassembler make its tables, which it makes at the first instruction otherwise: processes that are forked from
/// this one share them then.
pub fn load_disassembler() {
    x86::load();
}

/// Whether an instruction begins at an offset, in code from the function's first instruction on.
pub(super) fn begins_instruction(arch: Arch, bytes: &[u8], offset: u64) -> bool {
    match arch {
        Arch::X86_64 => x86::begins_instruction(bytes, offset),
        Arch::Aarch64 => offset < bytes.len() as u64 && offset.is_multiple_of(arm64::SIZE as u64),
    }
}

/// Whether the kernel makes a call of a probe at the first instruction.
pub(super) fn becomes_call(code: Code<'_>, costs: &CostTable) -> bool {
    let line = || decode(code, 0..code.bytes.len());
    costs.nop5_writes_stack && line().steps.first().is_some_and(|step| step.kind == Some(Kind::Nop5))
}

/// Whether a function may keep something below its stack pointer, where the calling convention lets those do so that
/// call no others.
pub(super) fn may_write_below_stack(code: Code<'_>) -> bool {
    match code.arch {
        Arch::X86_64 => code.is_cut || x86::may_write_below_stack(code.bytes),
        Arch::Aarch64 => false,
    }
}

fn decode(code: Code<'_>, part: Range<usize>) -> Line {
    match code.arch {
        Arch::X86_64 => x86::line(code, part),
        Arch::Aarch64 => arm64::line(code, part),
    }
}

/// Bytes from the function's start, which are negative for some pieces that are elsewhere.
fn signed(offset: i64) -> String {
    format!("{}{:#x}", if offset < 0 { '-' } else { '+' }, offset.unsigned_abs())
}

/// The first instruction's bytes, where there is no text for it.
fn hex(code: &[u8]) -> String {
    code.iter().take(4).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

/// One choice.
struct Search<'a> {
    line: &'a Line,
    needs: &'a Needs,
    costs: &'a CostTable,
    /// The last offset that may be a site, and why.
    barrier: Option<(u64, &'a str)>,
}

impl Search<'_> {
    fn run(&self, allowed: &dyn Fn(u64) -> bool) -> Option<Chosen> {
        let mut best: Option<(u32, &Step, u16)> = None;
        let mut moved: i32 = 0;
        // Whether something may lie below the stack pointer by now.
        let mut has_written = false;
        // Why the search ends before this step.
        let mut end: Option<(usize, String)> = None;
        for (index, step) in self.line.steps.iter().enumerate() {
            if let Some(reason) = self.unreachable_in_line(step) {
                end = Some((index, reason));
                break;
            }
            let harms = has_written && step.kind == Some(Kind::Nop5) && self.costs.nop5_writes_stack;
            has_written |= step.writes_memory;
            if let Some(kind) = step.kind.filter(|_| allowed(step.offset) && !harms) {
                let cost = self.costs.of(kind);
                if best.is_none_or(|(cheapest, ..)| cost < cheapest) {
                    best = Some((cost, step, u16::try_from(moved).unwrap_or_default()));
                }
            }
            match self.after(step, &mut moved) {
                Ok(()) => {}
                Err(reason) => {
                    end = Some((index + 1, reason));
                    break;
                }
            }
        }
        let (cost, step, stack_moved) = best?;
        Some(Chosen {
            offset: step.offset,
            stack_moved,
            instruction: step.text.clone(),
            cost_ns: Some(cost),
            reason: self.reason(cost, end),
            is_settled: false,
        })
    }

    /// Why a step cannot be a site, nor any behind it, by how it is come to.
    fn unreachable_in_line(&self, step: &Step) -> Option<String> {
        // A jump to here, or between here and the entry, would make later sites count what is no call.
        if let Some((from, to)) = self.line.jumps.iter().find(|(_, to)| *to <= step.offset) {
            return Some(format!("+{to:#x} is jumped to from {}", signed(*from)));
        }
        self.barrier.filter(|(last, _)| step.offset > *last).map(|(_, reason)| reason.to_owned())
    }

    /// Why nothing behind a step can be a site, by what the step does.
    fn after(&self, step: &Step, moved: &mut i32) -> Result<(), String> {
        let text = &step.text;
        if self.needs.registers.iter().any(|register| step.writes.has(*register)) {
            return Err(format!("`{text}` overwrites an argument"));
        }
        if self.needs.returns && step.moves_return_address {
            return Err(format!("`{text}` copies or signs the return address, and the return is probed"));
        }
        match step.stack {
            Stack::Down(down) => *moved = moved.saturating_add(down),
            Stack::Unknown if self.needs.returns || self.needs.stack => {
                return Err(format!("`{text}` sets the stack pointer"));
            }
            // Nobody asks where the stack pointer was.
            Stack::Unknown => {}
        }
        if self.needs.returns && *moved != 0 {
            return Err(format!("`{text}` moves the stack pointer, and the return is probed"));
        }
        if self.needs.stack && u16::try_from(*moved).is_err() {
            return Err(format!("`{text}` moves the stack pointer too far"));
        }
        Ok(())
    }

    /// Why there is nothing cheaper than `cost`.
    fn reason(&self, cost: u32, end: Option<(usize, String)>) -> String {
        if cost <= self.costs.cheapest() {
            return CHEAPEST.to_owned();
        }
        if let Some((first_beyond, why)) = end {
            let cheaper = |step: &&Step| step.kind.is_some_and(|kind| self.costs.of(kind) < cost);
            if let Some(step) = self.line.steps.get(first_beyond..).unwrap_or_default().iter().find(cheaper) {
                return format!("`{}` at +{:#x} would be cheaper, but {why}", step.text, step.offset);
            }
        }
        match self.line.steps.len() {
            1 => "its first instruction leads elsewhere".to_owned(),
            MAX_START => format!("nothing cheaper in the first {MAX_START} instructions"),
            n => format!("nothing cheaper in the {n} instructions up to its first branch"),
        }
    }
}

#[cfg(test)]
mod tests;
