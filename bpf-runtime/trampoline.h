// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/* Return addresses of calls whose return is probed: the kernel has put its own in their place. */
#pragma once
#include "kernel.h"

/* Where such calls return to in the current process; 0 where there is none. */
static __always_inline __u64 pf_trampoline(void)
{
	struct xol_area *area = NULL;
	struct mm_struct *mm = PF_KERNEL(pf_task(), mm);
	__u64 trampoline = 0;

	if (!mm || !PF_HAS_MEMBER(mm, uprobes_state) || !PF_HAS_MEMBER(area, vaddr))
		return 0;
	bpf_probe_read_kernel(&area, sizeof(area), &mm->uprobes_state.xol_area);
	if (area)
		bpf_probe_read_kernel(&trampoline, sizeof(trampoline), &area->vaddr);
	return trampoline;
}

/*
 * The trampoline, and of each of the current thread's calls where it would have returned to and its stack pointer at
 * entry, the innermost first; 0 after the last. Of calls that return for one another only the outermost has another
 * address than the trampoline's.
 */
static __always_inline void pf_original_returns(__u64 into[PF_STACK_RETURNS])
{
	struct return_instance *call = NULL;
	struct task_struct *task = pf_task();
	struct uprobe_task *calls = NULL;
	__u32 found = 1;

	for (__u32 i = 0; i < PF_STACK_RETURNS; i++)
		into[i] = 0;
	into[0] = pf_trampoline();
	if (!into[0] || !PF_HAS_MEMBER(task, utask) || !PF_HAS_MEMBER(calls, return_instances) ||
	    !PF_HAS_MEMBER(call, orig_ret_vaddr) || !PF_HAS_MEMBER(call, stack))
		return;
	bpf_probe_read_kernel(&calls, sizeof(calls), &task->utask);
	if (!calls)
		return;
	bpf_probe_read_kernel(&call, sizeof(call), &calls->return_instances);
	for (__u32 i = 0; i < PF_STACK_RETURNS && call && found < PF_STACK_RETURNS - 1; i++) {
		__u64 returns_to = 0;

		bpf_probe_read_kernel(&returns_to, sizeof(returns_to), &call->orig_ret_vaddr);
		if (returns_to != into[0]) {
			into[found] = returns_to;
			bpf_probe_read_kernel(into + found + 1, sizeof(*into), &call->stack);
			found += 2;
		}
		bpf_probe_read_kernel(&call, sizeof(call), &call->next);
	}
}
