// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/*
 * Programs at uprobes. Since Linux 6.13 such a program has its stack on the CPU, not on the thread, as if no other
 * thread could run the same program there before it ends. A kernel with preemption does not see to that: two threads
 * would write over each other's variables, and with them over what the kernel takes for its own pointers. So there
 * the CPU is held while a program runs. The stack is only used in the function that is called meanwhile: what is around
 * it has no variables in memory.
 */
#pragma once
#include "kernel.h"

#ifdef PF_OLD_KERNEL

#define PF_AT_UPROBE(section, name, body)                                                                              \
	SEC(section) int name(struct pt_regs *regs)                                                                    \
	{                                                                                                              \
		body;                                                                                                  \
	}

#else

struct bpf_prog_aux {
	void *priv_stack_ptr;
} __kernel_type;

/* Kernel 6.10 and later. */
extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

static __always_inline _Bool pf_stack_is_the_cpu_s(void)
{
	struct bpf_prog_aux *aux = NULL;

	return PF_HAS_MEMBER(aux, priv_stack_ptr);
}

#define PF_AT_UPROBE(section, name, body)                                                                              \
	static __noinline int name##_held(struct pt_regs *regs)                                                        \
	{                                                                                                              \
		body;                                                                                                  \
	}                                                                                                              \
	SEC(section) int name(struct pt_regs *regs)                                                                    \
	{                                                                                                              \
		int result;                                                                                            \
                                                                                                                       \
		if (pf_stack_is_the_cpu_s())                                                                           \
			bpf_preempt_disable();                                                                         \
		result = name##_held(regs);                                                                            \
		if (pf_stack_is_the_cpu_s())                                                                           \
			bpf_preempt_enable();                                                                          \
		return result;                                                                                         \
	}

#endif
