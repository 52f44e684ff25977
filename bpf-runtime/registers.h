// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/* Registers of the probed thread, numbered as in DWARF for the architecture. */
#pragma once
#include "bpf.h"

#if defined(__TARGET_ARCH_x86)

struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

static __always_inline __u64 pf_register(struct pt_regs *regs, __u32 number)
{
	switch (number) {
	case 0: return regs->ax;
	case 1: return regs->dx;
	case 2: return regs->cx;
	case 3: return regs->bx;
	case 4: return regs->si;
	case 5: return regs->di;
	case 6: return regs->bp;
	case 7: return regs->sp;
	case 8: return regs->r8;
	case 9: return regs->r9;
	case 10: return regs->r10;
	case 11: return regs->r11;
	case 12: return regs->r12;
	case 13: return regs->r13;
	case 14: return regs->r14;
	case 15: return regs->r15;
	}
	return 0;
}

#define PF_STACK_POINTER 7
#define PF_RESULT 0
/* `ret` takes the return address off the stack. */
#define PF_RETURN_ADDRESS 8

#elif defined(__TARGET_ARCH_arm64)

struct pt_regs {
	unsigned long regs[31], sp, pc, pstate;
};

#define PF_CASE(n) case n: return regs->regs[n]

static __always_inline __u64 pf_register(struct pt_regs *regs, __u32 number)
{
	switch (number) {
	PF_CASE(0); PF_CASE(1); PF_CASE(2); PF_CASE(3); PF_CASE(4); PF_CASE(5); PF_CASE(6); PF_CASE(7);
	PF_CASE(8); PF_CASE(9); PF_CASE(10); PF_CASE(11); PF_CASE(12); PF_CASE(13); PF_CASE(14); PF_CASE(15);
	PF_CASE(16); PF_CASE(17); PF_CASE(18); PF_CASE(19); PF_CASE(20); PF_CASE(21); PF_CASE(22); PF_CASE(23);
	PF_CASE(24); PF_CASE(25); PF_CASE(26); PF_CASE(27); PF_CASE(28); PF_CASE(29); PF_CASE(30);
	case 31: return regs->sp;
	}
	return 0;
}

#define PF_STACK_POINTER 31
#define PF_RESULT 0
#define PF_RETURN_ADDRESS 0

#else
#error "define __TARGET_ARCH_x86 or __TARGET_ARCH_arm64"
#endif
