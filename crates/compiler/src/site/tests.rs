use super::*;

fn code(arch: Arch, bytes: &[u8]) -> Code<'_> {
    Code::new(arch, bytes, 0x1000, &|_, _| Vec::new())
}

fn site(arch: Arch, bytes: &[u8], registers: &[u16], returns: bool) -> Chosen {
    let needs = Needs { registers: registers.to_vec(), returns, stack: true, at_entry: false };
    choose(code(arch, bytes), &needs, &CostTable::built_in(arch, None)).expect("a site")
}

fn chosen(code: &[u8], registers: &[u16], returns: bool) -> (u64, u16, String) {
    let chosen = site(Arch::X86_64, code, registers, returns);
    (chosen.offset, chosen.stack_moved, chosen.instruction)
}

fn arm(words: &[u32], registers: &[u16], returns: bool) -> (u64, u16, String, String) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let chosen = site(Arch::Aarch64, &bytes, registers, returns);
    (chosen.offset, chosen.stack_moved, chosen.instruction, chosen.reason)
}

// ---- x86-64 ------------------------------------------------------------------------------------------------------

#[test]
fn a_push_at_the_start_is_cheap_already() {
    // push rbp; mov rbp, rsp; ret
    assert_eq!(chosen(&[0x55, 0x48, 0x89, 0xe5, 0xc3], &[5], true), (0, 0, "push rbp".into()));
}

#[test]
fn a_dear_start_is_passed_over_for_the_branch_behind_it() {
    // test rdi, rdi; je +4; …
    assert_eq!(chosen(&[0x48, 0x85, 0xff, 0x74, 0x04, 0x90, 0xc3], &[5], true), (3, 0, "je +0x9".into()));
    // endbr64; push r15
    assert_eq!(chosen(&[0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x57, 0xc3], &[5], true), (4, 0, "push r15".into()));
}

#[test]
fn an_argument_that_is_overwritten_ends_the_search() {
    // mov rdi, rsi; push rbx: the push is too late for an expression that reads rdi.
    let code = [0x48, 0x89, 0xf7, 0x53, 0xc3];
    assert_eq!(chosen(&code, &[5], false), (0, 0, "mov rdi, rsi".into()));
    assert_eq!(chosen(&code, &[4], false), (3, 0, "push rbx".into()));
    let reason = site(Arch::X86_64, &code, &[5], false).reason;
    assert_eq!(reason, "`push rbx` at +0x3 would be cheaper, but `mov rdi, rsi` overwrites an argument");
}

#[test]
fn a_moved_stack_pointer_is_reckoned_with_unless_the_return_is_probed() {
    // sub rsp, 24; je +0
    let code = [0x48, 0x83, 0xec, 0x18, 0x74, 0x00, 0xc3];
    assert_eq!(chosen(&code, &[5], false), (4, 24, "je +0x6".into()));
    assert_eq!(chosen(&code, &[5], true), (0, 0, "sub rsp, 0x18".into()));
    let reason = site(Arch::X86_64, &code, &[5], true).reason;
    assert!(reason.ends_with("`sub rsp, 0x18` moves the stack pointer, and the return is probed"), "{reason}");
}

#[test]
fn a_place_that_is_jumped_to_is_no_site() {
    // mov eax, [rdi]; push rbx; pop rbx; jmp -4 (to the push)
    let code = [0x8b, 0x07, 0x53, 0x5b, 0xeb, 0xfc];
    let chosen = site(Arch::X86_64, &code, &[5], false);
    assert_eq!(chosen.offset, 0);
    assert_eq!(chosen.reason, "`push rbx` at +0x2 would be cheaper, but +0x2 is jumped to from +0x4");
}

#[test]
fn a_piece_that_is_elsewhere_may_jump_back_into_the_start() {
    // mov eax, [rdi]; push rbx; ret, and elsewhere a jmp to the push
    let bytes = [0x8b, 0x07, 0x53, 0xc3];
    let costs = CostTable::built_in(Arch::X86_64, None);
    let with =
        |apart: &[Piece]| choose(Code { apart, ..code(Arch::X86_64, &bytes) }, &Needs::default(), &costs).unwrap();
    let piece = |bytes: &[u8], at| Piece { bytes: bytes.to_vec(), at, is_own: false };
    assert_eq!(with(&[]).offset, 2);
    let chosen = with(&[piece(&[0xc3], 0x100), piece(&[0xeb, 0x10], -0x10)]);
    assert_eq!(chosen.offset, 0);
    assert!(chosen.reason.ends_with("+0x2 is jumped to from -0x10"), "{}", chosen.reason);
    assert_eq!(with(&[piece(&[0xeb, 0x10], -0x100)]).offset, 2, "elsewhere to elsewhere");
}

#[test]
fn a_piece_that_may_lead_anywhere_is_the_functions_or_not() {
    // mov eax, [rdi]; je +0x4; ret
    let code = code(Arch::X86_64, &[0x8b, 0x07, 0x74, 0x00, 0xc3]);
    let costs = CostTable::built_in(Arch::X86_64, None);
    let at = |code: Code<'_>| choose(code, &Needs::default(), &costs).unwrap().offset;
    // jmp [rax*8]
    let piece = |is_own| [Piece { bytes: vec![0xff, 0x24, 0xc5, 0, 0, 0, 0], at: 0x100, is_own }];
    let with = |is_own| choose(Code { apart: &piece(is_own), ..code }, &Needs::default(), &costs).unwrap().offset;
    assert_eq!((at(code), with(false), with(true)), (2, 2, 0));
    assert_eq!(at(Code { has_unread: true, ..code }), 0);
}

#[test]
fn what_jumps_lead_out_to_is_found_without_calls() {
    // je +0x10; call +0x20; jmp -0x10; jmp to the start
    let bytes = [0x74, 0x0e, 0xe8, 0x19, 0, 0, 0, 0xeb, 0xe7, 0xeb, 0xf5];
    let out = |apart: &[Piece]| leads_out(Code { apart, ..code(Arch::X86_64, &bytes) });
    assert_eq!(out(&[]), [-0x10, 0x10]);
    assert_eq!(out(&[Piece { bytes: vec![0x90; 4], at: 0xe, is_own: true }]), [-0x10]);
    // cbz x0, +0x40; bl +0x40; b -8
    let words: [u32; 3] = [0xb400_0200, 0x9400_0010, 0x17ff_fffc];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(leads_out(code(Arch::Aarch64, &bytes)), [-8, 0x40]);
}

#[test]
fn where_code_leads_is_written_from_the_functions_start() {
    // mov eax, [rip+0x10]; jmp -0x10; call +0x40
    let at = |bytes: &[u8]| chosen(bytes, &[], false).2;
    assert_eq!(at(&[0xeb, 0xee]), "jmp -0x10");
    assert_eq!(at(&[0xe8, 0x3b, 0, 0, 0]), "call +0x40");
    assert_eq!(at(&[0x8b, 0x05, 0x10, 0, 0, 0, 0xc3]), "mov eax, [rip+0x10]");
}

#[test]
fn a_realigned_stack_ends_the_search() {
    // lea r10, [rsp+8]; and rsp, -32; push [r10-8]; push rbp
    let bytes = [0x4c, 0x8d, 0x54, 0x24, 0x08, 0x48, 0x83, 0xe4, 0xe0, 0x41, 0xff, 0x72, 0xf8, 0x55];
    assert_eq!(chosen(&bytes, &[5], false).0, 0);
    let needs = Needs { registers: vec![5], returns: false, ..Needs::default() };
    let costs = CostTable::built_in(Arch::X86_64, None);
    assert_eq!(choose(code(Arch::X86_64, &bytes), &needs, &costs).unwrap().instruction, "push rbp");
}

#[test]
fn a_nop_of_five_bytes_is_worth_what_the_kernel_makes_of_it() {
    // push rbx; nop5; pop rbx; ret
    let bytes = [0x53, 0x0f, 0x1f, 0x44, 0x00, 0x00, 0x5b, 0xc3];
    let needs = Needs { registers: vec![5], ..Needs::default() };
    let at = |kernel, file_offset| {
        let code = Code { file_offset, ..code(Arch::X86_64, &bytes) };
        choose(code, &needs, &CostTable::built_in(Arch::X86_64, Some(kernel))).unwrap().offset
    };
    assert_eq!(at((6, 18), 0x1000), 1, "called");
    assert_eq!(at((6, 17), 0x1000), 0, "only emulated, as the push is");
    assert_eq!(at((6, 1), 0x1000), 0, "stepped");
    assert_eq!(at((6, 18), 0x1ffa), 1, "up to the page's end");
    assert_eq!(at((6, 18), 0x1ffc), 0, "across a page it is no call");
}

#[test]
fn a_nop_that_becomes_a_call_is_no_site_once_something_may_lie_below_the_stack() {
    let costs = |nop5_writes_stack| CostTable { nop5_writes_stack, ..CostTable::built_in(Arch::X86_64, Some((6, 18))) };
    let at =
        |bytes: &[u8], writes| choose(code(Arch::X86_64, bytes), &Needs::default(), &costs(writes)).unwrap().offset;
    // mov [rsp-8], rdi; nop5; ret
    let stored = [0x48, 0x89, 0x7c, 0x24, 0xf8, 0x0f, 0x1f, 0x44, 0, 0, 0xc3];
    assert_eq!((at(&stored, true), at(&stored, false)), (0, 5));
    // endbr64; nop5; ret: nothing is stored yet.
    let first = [0xf3, 0x0f, 0x1e, 0xfa, 0x0f, 0x1f, 0x44, 0, 0, 0xc3];
    assert_eq!((at(&first, true), at(&first, false)), (4, 4));
    assert!(becomes_call(code(Arch::X86_64, &stored[5..]), &costs(true)));
    assert!(!becomes_call(code(Arch::X86_64, &stored[5..]), &costs(false)));
    assert!(!becomes_call(code(Arch::X86_64, &stored), &costs(true)));
}

#[test]
fn a_function_keeps_something_below_the_stack_only_if_it_calls_no_other() {
    let may = |bytes: &[u8]| may_write_below_stack(code(Arch::X86_64, bytes));
    // mov [rsp-8], rdi; ret
    assert!(may(&[0x48, 0x89, 0x7c, 0x24, 0xf8, 0xc3]));
    // push rbp; mov rbp, rsp; mov [rbp-8], rdi; pop rbp; ret
    assert!(may(&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0x7d, 0xf8, 0x5d, 0xc3]));
    // The same with a call in it.
    assert!(!may(&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0x7d, 0xf8, 0xe8, 0, 0, 0, 0, 0x5d, 0xc3]));
    // sub rsp, 8; mov [rsp], rdi; add rsp, 8; ret
    assert!(!may(&[0x48, 0x83, 0xec, 8, 0x48, 0x89, 0x3c, 0x24, 0x48, 0x83, 0xc4, 8, 0xc3]));
    // push rbx; mov rax, rdi; pop rbx; ret
    assert!(!may(&[0x53, 0x48, 0x89, 0xf8, 0x5b, 0xc3]));
    // lea rax, [rsp-64]: an address for later.
    assert!(may(&[0x48, 0x8d, 0x44, 0x24, 0xc0, 0xc3]));
    assert!(may(&[0x06]), "what cannot be decoded");
    assert!(may_write_below_stack(Code { is_cut: true, ..code(Arch::X86_64, &[0xc3]) }));
}

#[test]
fn instructions_that_the_kernel_refuses_are_no_sites() {
    let kind = |bytes: &[u8]| x86::line(code(Arch::X86_64, bytes), 0..bytes.len()).steps[0].kind;
    let refused: &[&[u8]] = &[
        &[0xf0, 0x48, 0x0f, 0xb1, 0x0f],                // lock cmpxchg
        &[0x3e, 0xff, 0xe0],                            // notrack jmp rax
        &[0x2e, 0x75, 0x00],                            // jne with a hint
        &[0xcc],                                        // int3
        &[0xf4],                                        // hlt
        &[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0], // the longest nop
        &[0x0f, 0x05],                                  // syscall
        &[0x8e, 0xd0],                                  // mov ss, eax
    ];
    for bytes in refused {
        assert_eq!(kind(bytes), None, "{bytes:x?}");
    }
    let taken: &[(&[u8], Kind)] = &[
        (&[0x90], Kind::Nop),
        (&[0x66, 0x90], Kind::Nop),
        (&[0x0f, 0x1f, 0x44, 0, 0], Kind::Nop5),
        (&[0x0f, 0x1f, 0x40, 0], Kind::LongNop),
        (&[0x57], Kind::Push),
        (&[0x41, 0x51], Kind::Push),
        (&[0x48, 0x57], Kind::Stepped), // a needless prefix
        (&[0x6a, 0x01], Kind::Stepped), // push of a number
        (&[0x0f, 0x84, 0, 0, 0, 0], Kind::Jump),
        (&[0xeb, 0x00], Kind::Jump),
        (&[0xe3, 0x00], Kind::Stepped), // jrcxz
        (&[0xff, 0xe0], Kind::Stepped), // jmp rax
        (&[0xe8, 0, 0, 0, 0], Kind::Call),
        (&[0xf3, 0x0f, 0x1e, 0xfa], Kind::Stepped),       // endbr64
        (&[0x48, 0x8b, 0x05, 0, 0, 0, 0], Kind::Stepped), // mov rax, [rip]
        (&[0xc5, 0xf8, 0x77], Kind::Stepped),             // vzeroupper
        (&[0xf3, 0x90], Kind::Stepped),                   // pause
    ];
    for (bytes, expected) in taken {
        assert_eq!(kind(bytes), Some(*expected), "{bytes:x?}");
    }
    // ud2 alone: there is nothing to probe.
    let costs = CostTable::built_in(Arch::X86_64, None);
    assert_eq!(choose(code(Arch::X86_64, &[0x0f, 0x0b]), &Needs::default(), &costs), None);
}

#[test]
fn a_jump_by_table_may_lead_anywhere_but_into_the_making_of_the_frame() {
    // test rdi, rdi; je +N; movslq rax, [rdx+rdi*4]; add rax, rdx; jmp rax
    let table = [0x48, 0x63, 0x04, 0xba, 0x48, 0x01, 0xd0, 0xff, 0xe0];
    let test = [0x48, 0x85, 0xff, 0x74, 0x09];
    let by_table = [&test[..], &table, &[0xc3]].concat();
    let chosen = site(Arch::X86_64, &by_table, &[5], false);
    assert_eq!(chosen.offset, 0);
    assert!(chosen.reason.contains("jumps by a table"), "{}", chosen.reason);
    // With a push behind: the frame is not made yet.
    let framed = [&[0x48, 0x85, 0xff, 0x53][..], &test, &table, &[0xc3]].concat();
    assert_eq!(site(Arch::X86_64, &framed, &[5], false).offset, 3);
    // mov rax, [rdi+8]; jmp rax: a call at the function's end.
    let pointer = [&test[..], &[0x48, 0x8b, 0x47, 0x08, 0xff, 0xe0, 0xc3]].concat();
    assert_eq!(site(Arch::X86_64, &pointer, &[5], false).offset, 3);
}

#[test]
fn a_table_that_can_be_read_has_the_targets_of_the_jump() {
    // test rdi, rdi; je +26; cmp edi, 1; ja +26; lea rdx, [rip+…] (+0x100); movsxd rax, [rdx+rdi*4]; add rax, rdx;
    // jmp rax; ret
    let bytes = [
        0x48, 0x85, 0xff, 0x74, 0x15, 0x83, 0xff, 0x01, 0x77, 0x10, 0x48, 0x8d, 0x15, 0xef, 0, 0, 0, 0x48, 0x63, 0x04,
        0xba, 0x48, 0x01, 0xd0, 0xff, 0xe0, 0xc3,
    ];
    let costs = CostTable::built_in(Arch::X86_64, None);
    let offset = |targets: [i32; 2]| {
        let data = move |start: i64, len: usize| {
            assert_eq!((start, len), (0x100, 8), "as many entries as the comparison lets through");
            targets.iter().flat_map(|target| (target - 0x100).to_le_bytes()).collect()
        };
        let code = Code { data: &data, ..code(Arch::X86_64, &bytes) };
        choose(code, &Needs::default(), &costs).unwrap()
    };
    assert_eq!(offset([26, 26]).instruction, "je +0x1a");
    let back = offset([26, 3]);
    assert_eq!(back.offset, 0);
    assert!(back.reason.contains("+0x3 is jumped to from +0x18"), "{}", back.reason);
    let unread = choose(code(Arch::X86_64, &bytes), &Needs::default(), &costs).unwrap();
    assert!(unread.reason.contains("jumps by a table"), "{}", unread.reason);
}

#[test]
fn what_is_too_long_to_be_searched_is_probed_at_its_entry() {
    let bytes = [0x48, 0x85, 0xff, 0x74, 0x04, 0x90, 0xc3];
    let cut = Code { is_cut: true, ..code(Arch::X86_64, &bytes) };
    let chosen = choose(cut, &Needs::default(), &CostTable::built_in(Arch::X86_64, None)).unwrap();
    assert_eq!(chosen.offset, 0);
    assert!(chosen.reason.contains("too long"), "{}", chosen.reason);
}

// ---- arm64 -------------------------------------------------------------------------------------------------------

const BTI_C: u32 = 0xd503_245f;
const PACIASP: u32 = 0xd503_233f;
const STP_FP_LR: u32 = 0xa9be_7bfd;
const CBZ_X0: u32 = 0xb400_0040;
const RET: u32 = 0xd65f_03c0;
const NOP: u32 = 0xd503_201f;

#[test]
fn on_arm64_the_branch_behind_the_prologue_is_cheap() {
    // stp x29, x30, [sp, #-32]!; mov x29, sp; cbz x0
    let words = [STP_FP_LR, 0x9100_03fd, CBZ_X0, RET];
    assert_eq!(arm(&words, &[0], false).0, 8);
    assert_eq!(arm(&words, &[0], false).1, 32);
    let (offset, _, text, reason) = arm(&words, &[0], true);
    assert_eq!((offset, text.as_str()), (0, "stp x29, x30, [sp, #-0x20]!"));
    assert_eq!(
        reason,
        "`cbz x0, $+0x8` at +0x8 would be cheaper, but `stp x29, x30, [sp, #-0x20]!` copies or signs the return \
         address, and the return is probed"
    );
}

#[test]
fn on_arm64_a_signed_return_address_is_not_replaced() {
    // bti c; paciasp; cbz x0: behind paciasp the kernel would replace what is signed.
    let words = [BTI_C, PACIASP, CBZ_X0, RET];
    assert_eq!(arm(&words, &[0], true).0, 0);
    assert_eq!(arm(&words, &[0], false).0, 8);
    // bti c; cbz x0
    assert_eq!(arm(&[BTI_C, CBZ_X0, RET], &[0], true).0, 4);
}

#[test]
fn on_arm64_arguments_and_the_stack_are_tracked() {
    // mov x0, x1; cbz x0
    assert_eq!(arm(&[0xaa01_03e0, CBZ_X0, RET], &[0], false).0, 0);
    assert_eq!(arm(&[0xaa01_03e0, CBZ_X0, RET], &[1], false).0, 4);
    // ldr w1, [x0, #16]! changes both
    for register in [0, 1] {
        assert_eq!(arm(&[0xb841_0c01, CBZ_X0, RET], &[register], false).0, 0);
    }
    // ldp x1, x2, [x0]
    assert_eq!(arm(&[0xa940_0801, CBZ_X0, RET], &[2], false).0, 0);
    // sub sp, sp, #0x20; sub sp, sp, #1, lsl #12; b
    assert_eq!(arm(&[0xd100_83ff, 0xd140_07ff, 0x1400_0002, RET], &[0], false).1, 0x1020);
    // sub sp, x1, #16: to an unknown place
    assert_eq!(arm(&[0xd100_403f, CBZ_X0, RET], &[0], false).0, 0);
}

#[test]
fn on_arm64_what_the_kernel_refuses_is_no_site() {
    let kind = |word: u32| {
        let bytes = word.to_le_bytes();
        arm64::line(code(Arch::Aarch64, &bytes), 0..4).steps[0].kind
    };
    // ldr x0, literal; ldxr; svc; msr; yield; braa; autiasp
    for word in [0x5800_0040, 0xc85f_7c00, 0xd400_0001, 0xd51b_d041, 0xd503_203f, 0xd71f_0801, 0xd503_23bf] {
        assert_eq!(kind(word), None, "{word:x}");
    }
    let taken = [
        (NOP, Kind::Nop),
        (BTI_C, Kind::Stepped),
        (PACIASP, Kind::Stepped),
        (CBZ_X0, Kind::Jump),
        (RET, Kind::Jump),
        (0x3707_ffc0, Kind::Jump),    // tbnz
        (0x5400_0040, Kind::Jump),    // b.eq
        (0x9400_0002, Kind::Call),    // bl
        (0x9000_0000, Kind::Address), // adrp
        (0xd53b_d041, Kind::Stepped), // mrs x1, tpidr_el0
        (STP_FP_LR, Kind::Stepped),
    ];
    for (word, expected) in taken {
        assert_eq!(kind(word), Some(expected), "{word:x}");
    }
    // Where the entry is refused, the next will do: ldr x9, literal; cbz x0.
    assert_eq!(arm(&[0x5800_0049, CBZ_X0, RET], &[0], true).0, 4);
}

#[test]
fn on_arm64_jumps_into_the_start_are_seen() {
    // mov x9, x0; cbz x9 (the target); b -4
    let words = [0xaa00_03e9, 0xb400_0049, 0x17ff_ffff, RET];
    let (offset, _, _, reason) = arm(&words, &[0], false);
    assert_eq!(offset, 0);
    assert!(reason.ends_with("+0x4 is jumped to from +0x8"), "{reason}");
    // A table: ldrb w1, [x2, x0]; adr x3; add x1, x3, w1, sxtb #2; br x1
    let words = [0xaa00_03e9, CBZ_X0, 0x3860_6841, 0x1000_0063, 0x8b21_8861, 0xd61f_0020];
    assert_eq!(arm(&words, &[0], false).0, 0);
    // A call through a pointer: ldr x1, [x0, #8]; br x1
    assert_eq!(arm(&[0xaa00_03e9, CBZ_X0, 0xf940_0401, 0xd61f_0020], &[0], false).0, 4);
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_taken(code_bytes in proptest::collection::vec(0_u8.., 0..200), is_arm in proptest::bool::ANY) {
        let arch = if is_arm { Arch::Aarch64 } else { Arch::X86_64 };
        let needs = Needs { registers: vec![5, 4], returns: true, ..Needs::default() };
        let costs = CostTable::built_in(arch, None);
        if let Some(chosen) = choose(code(arch, &code_bytes), &needs, &costs) {
            proptest::prop_assert!(chosen.offset as usize <= code_bytes.len());
        }
        let part = code_bytes.len() / 3;
        let given = at(code(arch, &code_bytes), part as u64, &costs);
        proptest::prop_assert_eq!(given.offset as usize, part);
    }
}
