//! The ways through a function's machine code, as far as they are determined without running it: to decide whether
//! an instruction of an inlined copy is passed exactly once each time the copy is run.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};
use profinfer_binary::{Arch, TargetBytes};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// Bytes of one function that are decoded.
const MAX_CODE: u64 = 1 << 20;
/// Instructions of the function around that may stand between two of the copy for it to be still the copy.
const MAX_GAP: usize = 16;

/// Where execution goes after an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// To the next.
    Next,
    /// To the next, after another function.
    Call,
    /// To the next, or there.
    Branch(u64),
    /// There.
    Jump(u64),
    /// Where a register or memory points.
    Computed,
    /// Out of the function.
    Out,
}

#[derive(Debug, Clone, Copy)]
struct Step {
    length: u64,
    kind: Kind,
    /// It may be there only to fill up to the next block.
    filling: bool,
}

/// Why a copy's runs cannot be counted, in words that follow its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// The function around is too large, or has bytes that are no instructions.
    Undecoded,
    /// Execution gets into the copy elsewhere than at its entry.
    SeveralEntries,
    /// A jump with undetermined targets may lead into it.
    ComputedJump,
    /// Its first instruction is also the start of a loop.
    Loop,
    /// Execution leaves it and comes back.
    Left,
    /// Its first statements are there more than once.
    Duplicated,
}

impl Why {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Undecoded => "the code around cannot be followed",
            Self::SeveralEntries => "it is entered at several places",
            Self::ComputedJump => "a computed jump may lead into the middle of it",
            Self::Loop => "it begins with a loop",
            Self::Left => "the compiler has spread it over the code around",
            Self::Duplicated => "its first statements are there more than once",
        }
    }
}

/// One function's code, by bytes from the start of the file.
#[derive(Debug)]
pub(super) struct Flow {
    steps: BTreeMap<u64, Step>,
    /// From where execution comes to an instruction. Those that nothing leads to are not there.
    before: HashMap<u64, Vec<u64>>,
    entry: u64,
}

impl Flow {
    /// Decodes a function, whose first range begins with its entry.
    pub(super) fn read(
        arch: Arch,
        target: &(impl TargetBytes + ?Sized),
        file: usize,
        ranges: &[Range<u64>],
    ) -> Result<Self, Why> {
        let entry = ranges.first().ok_or(Why::Undecoded)?.start;
        let mut steps = BTreeMap::new();
        let mut left = MAX_CODE;
        for range in ranges {
            let length = range.end.saturating_sub(range.start);
            left = left.checked_sub(length).ok_or(Why::Undecoded)?;
            let code = target.code(file, range.start, usize::try_from(length).map_err(|_| Why::Undecoded)?);
            if code.len() as u64 != length {
                return Err(Why::Undecoded);
            }
            match arch {
                Arch::X86_64 => decode_x86(&code, range.start, &mut steps)?,
                Arch::Aarch64 => decode_aarch64(&code, range.start, &mut steps),
            }
        }
        let mut flow = Self { steps, before: HashMap::new(), entry };
        flow.connect();
        Ok(flow)
    }

    /// Notes for each instruction where execution comes from; what only fills up leads nowhere.
    fn connect(&mut self) {
        let jumped_to: BTreeSet<u64> = self
            .steps
            .values()
            .filter_map(|step| match step.kind {
                Kind::Branch(to) | Kind::Jump(to) => Some(to),
                _ => None,
            })
            .collect();
        let mut unreached = false;
        let mut before: HashMap<u64, Vec<u64>> = HashMap::new();
        let mut expected = self.entry;
        for (at, step) in &self.steps {
            let falls_here = *at == expected && !unreached;
            let reached = falls_here || *at == self.entry || jumped_to.contains(at);
            let skipped = step.filling && !reached;
            expected = at + step.length;
            unreached = skipped || !matches!(step.kind, Kind::Next | Kind::Call | Kind::Branch(_));
            if !skipped {
                for to in self.after(*at) {
                    before.entry(to).or_default().push(*at);
                }
            }
        }
        self.before = before;
    }

    /// Where execution goes from an instruction, within the function.
    fn after(&self, at: u64) -> impl Iterator<Item = u64> + use<'_> {
        let step = self.steps.get(&at);
        let next = step.and_then(|step| match step.kind {
            Kind::Next | Kind::Call | Kind::Branch(_) => at.checked_add(step.length),
            _ => None,
        });
        let there = step.and_then(|step| match step.kind {
            Kind::Branch(to) | Kind::Jump(to) => Some(to),
            _ => None,
        });
        next.into_iter().chain(there).filter(|to| self.steps.contains_key(to))
    }

    fn before(&self, at: u64) -> &[u64] {
        self.before.get(&at).map_or(&[], Vec::as_slice)
    }

    /// The instructions from one on that are executed one after the other whenever that one is, up to and including the
    /// first that can go elsewhere.
    pub(super) fn straight_line(&self, from: u64, limit: usize) -> Vec<Range<u64>> {
        let mut line: Vec<Range<u64>> = Vec::new();
        let mut at = from;
        while let Some(step) = self.steps.get(&at) {
            let joined = line.last().is_some_and(|last| self.before(at) != [last.start]);
            if joined || line.len() >= limit {
                break;
            }
            line.push(at..at + step.length);
            if step.kind != Kind::Next {
                break;
            }
            at += step.length;
        }
        line
    }

    /// The instruction at `entry`, or the first of those that run straight into it, if each run of a copy passes that
    /// exactly once. `statements` are where the copy's statements begin.
    pub(super) fn passed_once(&self, copy: &[Range<u64>], entry: u64, statements: &[(u64, u32)]) -> Result<u64, Why> {
        let inside = self.inside(copy);
        if !inside.contains(&entry) {
            return Err(Why::Undecoded);
        }
        let entry = self.start_of_line(&inside, entry);
        if self.before(entry).iter().any(|from| inside.contains(from)) {
            return Err(Why::Loop);
        }
        self.single_entry(&inside, entry)?;
        self.not_left(&inside, entry)?;
        self.not_duplicated(entry, statements)?;
        Ok(entry)
    }

    /// The first instruction of the copy from which execution runs straight into another.
    fn start_of_line(&self, inside: &BTreeSet<u64>, mut at: u64) -> u64 {
        for _ in 0..MAX_GAP {
            let &[before] = self.before(at) else { break };
            let runs_on = self.steps.get(&before).is_some_and(|step| step.kind == Kind::Next);
            if !inside.contains(&before) || !runs_on {
                break;
            }
            at = before;
        }
        at
    }

    /// The copy's instructions, those of the function around that were moved in between included.
    fn inside(&self, copy: &[Range<u64>]) -> BTreeSet<u64> {
        let mut inside: BTreeSet<u64> =
            copy.iter().flat_map(|range| self.steps.range(range.clone()).map(|(at, _)| *at)).collect();
        let ends = inside.iter().filter_map(|at| {
            let step = self.steps.get(at).filter(|step| step.kind == Kind::Next)?;
            Some((*at, at + step.length)).filter(|(_, next)| !inside.contains(next))
        });
        let gaps: Vec<u64> = ends.filter_map(|(end, next)| self.gap(&inside, Some(end), next)).flatten().collect();
        inside.extend(gaps);
        // Instructions without a place in the source are often the first of a block, to which the copy's jump by a
        // table leads.
        if inside.iter().any(|at| self.is_computed(*at)) {
            let heads = self.steps.keys().filter(|at| self.is_unreached(**at) && !inside.contains(*at));
            let heads: Vec<u64> = heads.filter_map(|at| self.gap(&inside, None, *at)).flatten().collect();
            inside.extend(heads);
        }
        inside
    }

    /// The instructions from one on, executed one after the other, that run straight into the copy.
    fn gap(&self, inside: &BTreeSet<u64>, mut from: Option<u64>, mut at: u64) -> Option<Vec<u64>> {
        let mut gap = Vec::new();
        while self.before(at) == from.as_slice() {
            if inside.contains(&at) {
                return Some(gap);
            }
            let step = self.steps.get(&at).filter(|step| step.kind == Kind::Next && gap.len() < MAX_GAP)?;
            gap.push(at);
            from = Some(at);
            at += step.length;
        }
        None
    }

    /// No determined path leads to it.
    fn is_unreached(&self, at: u64) -> bool {
        let filling = self.steps.get(&at).is_some_and(|step| step.filling);
        self.before(at).is_empty() && at != self.entry && !filling
    }

    fn is_computed(&self, at: u64) -> bool {
        self.steps.get(&at).is_some_and(|step| step.kind == Kind::Computed)
    }

    /// Nothing of the copy is reached but through its entry.
    fn single_entry(&self, inside: &BTreeSet<u64>, entry: u64) -> Result<(), Why> {
        // What no determined path leads to is reached by computed jumps and exceptions: from the copy itself, where it
        // is a part of that; else from anywhere.
        let unreached = self.steps.keys().copied().filter(|at| self.is_unreached(*at) && !inside.contains(at));
        let mut open: Vec<u64> = unreached.collect();
        open.push(self.entry);
        let reached = self.reach(open, entry);
        if reached.iter().any(|at| inside.contains(at)) {
            return Err(Why::SeveralEntries);
        }
        if reached.iter().any(|at| self.is_computed(*at)) {
            return Err(Why::ComputedJump);
        }
        Ok(())
    }

    /// Execution does not come back into the copy, once it has left, but by its entry.
    fn not_left(&self, inside: &BTreeSet<u64>, entry: u64) -> Result<(), Why> {
        let exits = inside.iter().flat_map(|at| self.after(*at)).filter(|to| !inside.contains(to)).collect();
        let reached = self.reach(exits, entry);
        if reached.iter().any(|at| inside.contains(at)) { Err(Why::Left) } else { Ok(()) }
    }

    /// The statements that begin on the straight line from the entry begin nowhere else in the copy: a loop around it
    /// was not unrolled.
    fn not_duplicated(&self, entry: u64, statements: &[(u64, u32)]) -> Result<(), Why> {
        if statements.is_empty() {
            return Err(Why::Duplicated);
        }
        let line = self.straight_line(entry, usize::MAX);
        let end = line.last().map_or(entry, |last| last.end);
        let first: BTreeSet<u32> =
            statements.iter().filter(|(at, _)| (entry..end).contains(at)).map(|(_, number)| *number).collect();
        let mut begun: BTreeSet<u32> = BTreeSet::new();
        let mut beginnings = statements.iter().map(|(_, number)| *number).filter(|number| first.contains(number));
        if beginnings.any(|number| !begun.insert(number)) {
            return Err(Why::Duplicated);
        }
        Ok(())
    }

    /// Every instruction that is reached from some without passing another.
    fn reach(&self, mut open: Vec<u64>, without: u64) -> BTreeSet<u64> {
        let mut reached = BTreeSet::new();
        while let Some(at) = open.pop() {
            if at != without && reached.insert(at) {
                open.extend(self.after(at));
            }
        }
        reached
    }
}

fn decode_x86(code: &[u8], start: u64, steps: &mut BTreeMap<u64, Step>) -> Result<(), Why> {
    let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return Err(Why::Undecoded);
        }
        let is_near =
            matches!(instruction.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64);
        let kind = match instruction.flow_control() {
            FlowControl::Next => Kind::Next,
            FlowControl::Call | FlowControl::IndirectCall | FlowControl::Interrupt => Kind::Call,
            FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend if is_near => {
                Kind::Branch(instruction.near_branch_target())
            }
            FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => Kind::Next,
            FlowControl::UnconditionalBranch if is_near => Kind::Jump(instruction.near_branch_target()),
            FlowControl::UnconditionalBranch | FlowControl::Return | FlowControl::Exception => Kind::Out,
            FlowControl::IndirectBranch => Kind::Computed,
        };
        let filling = matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3)
            || instruction.mnemonic() == Mnemonic::Xchg && instruction.op0_register() == instruction.op1_register();
        steps.insert(instruction.ip(), Step { length: instruction.len() as u64, kind, filling });
    }
    Ok(())
}

/// Source: "Arm Architecture Reference Manual for A-profile", C4.1.93, branches.
fn decode_aarch64(code: &[u8], start: u64, steps: &mut BTreeMap<u64, Step>) {
    for (index, bytes) in code.chunks_exact(4).enumerate() {
        let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let at = start + index as u64 * 4;
        // A field of that many bits from that bit on, which counts instructions from here.
        let to = |from: u32, bits: u32| {
            let field = (word >> from << (32 - bits)).cast_signed() >> (32 - bits);
            at.wrapping_add_signed(i64::from(field) * 4)
        };
        let kind = match word {
            _ if word & 0xfc00_0000 == 0x1400_0000 => Kind::Jump(to(0, 26)),
            _ if word & 0xfc00_0000 == 0x9400_0000 => Kind::Call,
            _ if word & 0xff00_0000 == 0x5400_0000 => Kind::Branch(to(5, 19)),
            _ if word & 0x7e00_0000 == 0x3400_0000 => Kind::Branch(to(5, 19)),
            _ if word & 0x7e00_0000 == 0x3600_0000 => Kind::Branch(to(5, 14)),
            // Branches to a register: 0 is a jump, 1 a call, 2 a return.
            _ if word & 0xfe00_0000 == 0xd600_0000 => match word >> 21 & 0xf {
                1 | 9 => Kind::Call,
                2 | 4 | 5 => Kind::Out,
                _ => Kind::Computed,
            },
            // Traps, and what is no instruction.
            _ if word & 0xffe0_001f == 0xd420_0000 || word & 0xffff_0000 == 0 => Kind::Out,
            _ => Kind::Next,
        };
        steps.insert(at, Step { length: 4, kind, filling: word == 0xd503_201f });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profinfer_binary::FakeTarget;

    /// The flow of code at file offset 0x1000.
    fn flow(code: &[u8]) -> Flow {
        let target = FakeTarget::new(Arch::X86_64).file("libengine.so").function("f", 0x1000, code);
        let range = 0x1000..0x1000 + code.len() as u64;
        Flow::read(Arch::X86_64, &target, 0, std::slice::from_ref(&range)).unwrap()
    }

    fn passes(code: &[u8], copy: Range<u64>, statements: &[(u64, u32)]) -> Result<u64, Why> {
        let copy = 0x1000 + copy.start..0x1000 + copy.end;
        let statements: Vec<(u64, u32)> = statements.iter().map(|(at, number)| (0x1000 + at, *number)).collect();
        flow(code).passed_once(std::slice::from_ref(&copy), copy.start, &statements).map(|entry| entry - 0x1000)
    }

    #[test]
    fn a_copy_in_a_loop_is_passed_once_a_round() {
        // xor eax, eax; [mov ecx, [rdi]; add edx, ecx]; inc eax; cmp eax, 4; jne to the copy; ret
        let code = [0x31, 0xc0, 0x8b, 0x0f, 0x01, 0xca, 0xff, 0xc0, 0x83, 0xf8, 0x04, 0x75, 0xf5, 0xc3];
        assert_eq!(passes(&code, 2..6, &[(2, 0), (4, 1)]), Ok(2));
        assert_eq!(passes(&code, 2..6, &[]), Err(Why::Duplicated), "it may have been unrolled");
        assert_eq!(passes(&code, 2..6, &[(2, 0), (4, 1), (5, 0)]), Err(Why::Duplicated));
        let line = flow(&code).straight_line(0x1002, 24);
        assert_eq!(line.iter().map(|range| range.start - 0x1000).collect::<Vec<_>>(), [2, 4, 6, 8, 11]);
    }

    #[test]
    fn a_copy_that_begins_with_its_own_loop_is_not_counted() {
        // [dec edi; jne to it]; ret
        assert_eq!(passes(&[0xff, 0xcf, 0x75, 0xfc, 0xc3], 0..4, &[(0, 0)]), Err(Why::Loop));
    }

    #[test]
    fn a_copy_that_is_entered_in_the_middle_is_not_counted() {
        // test edi, edi; je over the first of the copy; [mov ecx, [rdi]; add edx, ecx]; ret
        let code = [0x85, 0xff, 0x74, 0x02, 0x8b, 0x0f, 0x01, 0xca, 0xc3];
        assert_eq!(passes(&code, 4..8, &[(4, 0)]), Err(Why::SeveralEntries));
    }

    #[test]
    fn a_computed_jump_before_a_copy_may_lead_anywhere() {
        // test edi, edi; je to the copy; jmp rax; [mov ecx, [rdi]; add edx, ecx]; ret
        let code = [0x85, 0xff, 0x74, 0x02, 0xff, 0xe0, 0x8b, 0x0f, 0x01, 0xca, 0xc3];
        assert_eq!(passes(&code, 6..10, &[(6, 0)]), Err(Why::ComputedJump));
    }

    #[test]
    fn a_copy_that_was_peeled_off_its_loop_is_not_counted() {
        // [mov ecx, [rdi]]; inc eax; then a loop: [add edx, ecx]; inc eax; jne to the loop; ret
        let code = [0x8b, 0x0f, 0xff, 0xc0, 0x01, 0xca, 0xff, 0xc0, 0x75, 0xfa, 0xc3];
        let copy = [0x1000..0x1002, 0x1004..0x1006];
        assert_eq!(flow(&code).passed_once(&copy, 0x1000, &[(0x1000, 0)]), Err(Why::Left));
    }

    #[test]
    fn instructions_moved_into_a_copy_do_not_part_it() {
        // [mov ecx, [rdi]]; inc eax; [add edx, ecx]; ret
        let code = [0x8b, 0x0f, 0xff, 0xc0, 0x01, 0xca, 0xc3];
        let copy = [0x1000..0x1002, 0x1004..0x1006];
        assert_eq!(flow(&code).passed_once(&copy, 0x1000, &[(0x1000, 0)]), Ok(0x1000));
        assert_eq!(flow(&code).passed_once(&copy, 0x1004, &[(0x1000, 0)]), Ok(0x1000), "an entry in the middle");
    }

    #[test]
    fn what_fills_up_to_a_block_leads_nowhere() {
        // test edi, edi; je to the copy; ret; nop; nop; [mov ecx, [rdi]; jmp out]; ret
        let code = [0x85, 0xff, 0x74, 0x03, 0xc3, 0x90, 0x90, 0x8b, 0x0f, 0xeb, 0x00, 0xc3];
        assert_eq!(flow(&code).before(0x1007), [0x1002]);
        assert_eq!(passes(&code, 7..11, &[(7, 0)]), Ok(7));
    }

    #[test]
    fn branches_of_arm64_are_followed() {
        // cbz x0, +12; add; b -8; ret; br x1
        let words: [u32; 5] = [0xb400_0060, 0x8b01_0000, 0x17ff_fffe, 0xd65f_03c0, 0xd61f_0020];
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut steps = BTreeMap::new();
        decode_aarch64(&code, 0, &mut steps);
        let kinds: Vec<Kind> = steps.values().map(|step| step.kind).collect();
        assert_eq!(kinds, [Kind::Branch(12), Kind::Next, Kind::Jump(0), Kind::Out, Kind::Computed]);
    }

    proptest::proptest! {
        #[test]
        fn any_code_is_answered(code in proptest::collection::vec(0_u8.., 1..200), at in 0_u64..200, length in 1_u64..50) {
            for arch in [Arch::X86_64, Arch::Aarch64] {
                let target = FakeTarget::new(arch).file("libengine.so").function("f", 0, &code);
                let range = 0..code.len() as u64;
                if let Ok(flow) = Flow::read(arch, &target, 0, std::slice::from_ref(&range)) {
                    let copy = at..at + length;
                    let _ = flow.passed_once(std::slice::from_ref(&copy), at, &[(at, 0)]);
                    let _ = flow.straight_line(at, 24);
                }
            }
        }
    }
}
