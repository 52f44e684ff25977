//! Code as compilers make it, and code that must not be believed.

use super::*;
use proptest::prelude::*;

fn x86(code: &[u8]) -> Result<Shown, String> {
    follow(Arch::X86_64, code, 0, Until::Return)
}

fn arm64(words: &[u32]) -> Result<Shown, String> {
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    follow(Arch::Aarch64, &code, 0, Until::Return)
}

fn returned(shown: Result<Shown, String>) -> (Vec<i64>, i64, u32) {
    let found = shown.unwrap().returned.unwrap();
    (found.loads, found.offset, found.size)
}

#[test]
fn an_address_and_a_value_on_x86() {
    // lea rax, [rdi+100h]; ret
    assert_eq!(returned(x86(&[0x48, 0x8d, 0x87, 0, 1, 0, 0, 0xc3])), (vec![], 256, 0));
    // endbr64; mov rax, [rdi+0F8h]; ret
    assert_eq!(returned(x86(&[0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8b, 0x87, 0xf8, 0, 0, 0, 0xc3])), (vec![0xf8], 0, 8));
    // mov eax, [rdi+4]; ret
    assert_eq!(returned(x86(&[0x8b, 0x47, 4, 0xc3])), (vec![4], 0, 4));
    // mov rax, [rdi+8]; add rax, 10h; ret
    assert_eq!(returned(x86(&[0x48, 0x8b, 0x47, 8, 0x48, 0x83, 0xc0, 0x10, 0xc3])), (vec![8], 16, 8));
    // Without optimisation: push rbp; mov rbp, rsp; mov [rbp-8], rdi; mov rax, [rbp-8]; mov rax, [rax+20h]; pop rbp; ret
    let unoptimised =
        [0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0x7d, 0xf8, 0x48, 0x8b, 0x45, 0xf8, 0x48, 0x8b, 0x40, 0x20, 0x5d, 0xc3];
    assert_eq!(returned(x86(&unoptimised)), (vec![0x20], 0, 8));
    // mov rax, [rdi+10h]; imul rax, [rdi+18h]; ret
    let product = x86(&[0x48, 0x8b, 0x47, 0x10, 0x48, 0x0f, 0xaf, 0x47, 0x18, 0xc3]).unwrap();
    assert_eq!((product.returned, product.first_load), (None, Some((16, 8))));
}

#[test]
fn a_branch_a_call_and_a_write_are_not_believed_on_x86() {
    // test rdi, rdi; je +2
    let branch = x86(&[0x48, 0x85, 0xff, 0x74, 2, 0x90, 0x90, 0xc3]).unwrap_err();
    assert!(branch.starts_with("je"), "{branch}");
    assert!(x86(&[0xe8, 0, 0, 0, 0, 0xc3]).unwrap_err().starts_with("call"));
    // mov dword ptr [rdi], 0
    assert!(x86(&[0xc7, 0x07, 0, 0, 0, 0, 0xc3]).unwrap_err().starts_with("mov"));
    // jmp to itself: a cycle
    assert!(x86(&[0xeb, 0xfe]).unwrap_err().starts_with("jmp"));
    assert!(x86(&[0x90; 600]).is_err());
    assert!(x86(&[]).is_err());
    // lea rax, [rdi+rsi]: an index
    assert_eq!(x86(&[0x48, 0x8d, 0x04, 0x37, 0xc3]).unwrap().returned, None);
    // lea eax, [rdi+100h]: half an address
    assert_eq!(x86(&[0x8d, 0x87, 0, 1, 0, 0, 0xc3]).unwrap().returned, None);
    // lea rax, [rdi-8]: before the object
    assert_eq!(x86(&[0x48, 0x8d, 0x47, 0xf8, 0xc3]).unwrap().returned, None);
}

#[test]
fn the_same_on_arm64() {
    // add x0, x0, #256; ret
    assert_eq!(returned(arm64(&[0x9104_0000, 0xd65f_03c0])), (vec![], 256, 0));
    // bti c; ldr x0, [x0, #248]; ret
    assert_eq!(returned(arm64(&[0xd503_245f, 0xf940_7c00, 0xd65f_03c0])), (vec![248], 0, 8));
    // ldr w0, [x0, #4]; ret
    assert_eq!(returned(arm64(&[0xb940_0400, 0xd65f_03c0])), (vec![4], 0, 4));
    // ldp x1, x2, [x0, #16]; mul x0, x1, x2; ret
    let product = arm64(&[0xa941_0801, 0x9b02_7c20, 0xd65f_03c0]).unwrap();
    assert_eq!((product.returned, product.first_load), (None, Some((16, 8))));
    // ldr q0, [x0, #16]; ret
    assert_eq!(arm64(&[0x3dc0_0400, 0xd65f_03c0]).unwrap().first_load, Some((16, 16)));
    // cbz x0, +8
    assert!(arm64(&[0xb400_0040, 0xd65f_03c0]).unwrap_err().starts_with("cbz"));
    // str x1, [x0]: a write to the object
    assert!(arm64(&[0xf900_0001, 0xd65f_03c0]).unwrap_err().starts_with("str"));
}

#[test]
fn the_first_load_may_come_before_a_branch_and_of_another_argument() {
    let first = |arch, code: &[u8], argument| {
        let shown = follow(arch, code, argument, Until::FirstLoad);
        shown.map(|shown| shown.first_load)
    };
    // cmp qword ptr [rsi+28h], 0; je +8; push r15
    let code = [0x48, 0x83, 0x7e, 0x28, 0, 0x74, 8, 0x41, 0x57];
    assert_eq!(first(Arch::X86_64, &code, 1), Ok(Some((0x28, 8))));
    // Of the first argument nothing is read before the branch.
    assert!(first(Arch::X86_64, &code, 0).unwrap_err().starts_with("je"));
    // mov rax, [rdi+10h]; test rax, rax; je +4; mov rdx, [rsi+28h]: only perhaps.
    let code = [0x48, 0x8b, 0x47, 0x10, 0x48, 0x85, 0xc0, 0x74, 4, 0x48, 0x8b, 0x56, 0x28, 0xc3];
    assert!(first(Arch::X86_64, &code, 1).unwrap_err().starts_with("je"));
    assert!(first(Arch::X86_64, &code, 6).is_err());
    // ldr x2, [x1, #40]; cbz x2, +8
    let code: Vec<u8> = [0xf940_1422_u32, 0xb400_0042].iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(first(Arch::Aarch64, &code, 1), Ok(Some((40, 8))));
    assert!(first(Arch::Aarch64, &code, 0).unwrap_err().starts_with("cbz"));
}

proptest! {
    #[test]
    fn any_bytes_come_to_an_end(code in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = x86(&code);
        let _ = follow(Arch::Aarch64, &code, 0, Until::Return);
        for (argument, arch) in [(1, Arch::X86_64), (7, Arch::Aarch64), (9, Arch::X86_64)] {
            let _ = follow(arch, &code, argument, Until::FirstLoad);
        }
    }
}
