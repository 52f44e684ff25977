// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/* Registers of the probed thread, numbered as in DWARF for the architecture. */
#pragma once
#include "bpf.h"

/*
 * In assembly, so that each load has a separate constant offset: the compiler would merge them into one at a computed
 * offset, which the verifier refuses. Out of line, since there are as many cases as registers: in each place where an
 * argument is read they were a third of a program, and of the time to compile it.
 */
#define PF_CASE(number, field)                                                                                         \
	case number:                                                                                                   \
		asm volatile("%0 = *(u64 *)(%1 + %2)"                                                                  \
			     : "=r"(value)                                                                             \
			     : "r"(regs), "i"(offsetof(struct pt_regs, field)));                                       \
		break

#if defined(__TARGET_ARCH_x86)

struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

static __noinline __u64 pf_register(struct pt_regs *regs, __u32 number)
{
	__u64 value = 0;

	/* clang-format off */
	switch (number) {
	PF_CASE(0, ax); PF_CASE(1, dx); PF_CASE(2, cx); PF_CASE(3, bx); PF_CASE(4, si); PF_CASE(5, di);
	PF_CASE(6, bp); PF_CASE(7, sp); PF_CASE(8, r8); PF_CASE(9, r9); PF_CASE(10, r10); PF_CASE(11, r11);
	PF_CASE(12, r12); PF_CASE(13, r13); PF_CASE(14, r14); PF_CASE(15, r15);
	}
	/* clang-format on */
	return value;
}

#define PF_STACK_POINTER 7
#define PF_RESULT 0
/* `ret` takes the return address off the stack. */
#define PF_RETURN_ADDRESS 8

#elif defined(__TARGET_ARCH_arm64)

struct pt_regs {
	unsigned long regs[31], sp, pc, pstate;
};

static __noinline __u64 pf_register(struct pt_regs *regs, __u32 number)
{
	__u64 value = 0;

	/* clang-format off */
	switch (number) {
	PF_CASE(0, regs[0]); PF_CASE(1, regs[1]); PF_CASE(2, regs[2]); PF_CASE(3, regs[3]); PF_CASE(4, regs[4]);
	PF_CASE(5, regs[5]); PF_CASE(6, regs[6]); PF_CASE(7, regs[7]); PF_CASE(8, regs[8]); PF_CASE(9, regs[9]);
	PF_CASE(10, regs[10]); PF_CASE(11, regs[11]); PF_CASE(12, regs[12]); PF_CASE(13, regs[13]);
	PF_CASE(14, regs[14]); PF_CASE(15, regs[15]); PF_CASE(16, regs[16]); PF_CASE(17, regs[17]);
	PF_CASE(18, regs[18]); PF_CASE(19, regs[19]); PF_CASE(20, regs[20]); PF_CASE(21, regs[21]);
	PF_CASE(22, regs[22]); PF_CASE(23, regs[23]); PF_CASE(24, regs[24]); PF_CASE(25, regs[25]);
	PF_CASE(26, regs[26]); PF_CASE(27, regs[27]); PF_CASE(28, regs[28]); PF_CASE(29, regs[29]);
	PF_CASE(30, regs[30]); PF_CASE(31, sp);
	}
	/* clang-format on */
	return value;
}

#define PF_STACK_POINTER 31
#define PF_RESULT 0
#define PF_RETURN_ADDRESS 0

#else
#error "define __TARGET_ARCH_x86 or __TARGET_ARCH_arm64"
#endif
