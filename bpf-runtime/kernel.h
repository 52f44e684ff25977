// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/*
 * What differs between kernels: with PF_OLD_KERNEL, a program makes do with what Linux 5.10 has. docs/kernels.md shows
 * what that costs. Where a thread's state is stored differs too: thread_state.h.
 */
#pragma once
#include "contract.h"

#ifdef PF_OLD_KERNEL

/* Only its address is available, not its type: members are read by a helper. */
static __always_inline struct task_struct *pf_task(void)
{
	return (struct task_struct *)bpf_get_current_task();
}

#define PF_KERNEL(pointer, member)                                                                                     \
	({                                                                                                             \
		typeof((pointer)->member) pf_value = 0;                                                                \
		bpf_probe_read_kernel(&pf_value, sizeof(pf_value), &(pointer)->member);                                \
		pf_value;                                                                                              \
	})

/* Where a site's program stores its cookie before it continues in one of these, on kernels without cookies. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} pf_site_cookie SEC(".maps");

static __always_inline __u64 pf_cookie(void *context)
{
	__u32 only = 0;
	__u64 *cookie;

	if (pf_has_cookies)
		return bpf_get_attach_cookie(context);
	cookie = bpf_map_lookup_elem(&pf_site_cookie, &only);
	return cookie ? *cookie : 0;
}

/* Before Linux 5.18 the tracepoint does not have it. */
static __always_inline __u32 pf_prev_state(__u64 *arguments)
{
	struct task_struct *prev = (void *)arguments[1];
	struct task_struct___old_state *old = (void *)prev;

	if (PF_HAS_MEMBER(old, state))
		return PF_KERNEL(old, state);
	return PF_KERNEL(prev, __state);
}

/* Adds one and gives the sum. Another thread may have added, too, before it is read. */
static __always_inline __u64 pf_count(__u64 *counter)
{
	__sync_fetch_and_add(counter, 1);
	return *(volatile __u64 *)counter;
}

/*
 * Turns of a loop: the verifier walks through every one. What a turn does is in a function whose arguments are numbers,
 * which is verified once and by itself.
 */
#define PF_MOST_TURNS 256

#else

static __always_inline struct task_struct *pf_task(void)
{
	return bpf_get_current_task_btf();
}

#define PF_KERNEL(pointer, member) ((pointer)->member)

static __always_inline __u64 pf_cookie(void *context)
{
	return bpf_get_attach_cookie(context);
}

static __always_inline __u32 pf_prev_state(__u64 *arguments)
{
	return arguments[3];
}

static __always_inline __u64 pf_count(__u64 *counter)
{
	return __sync_fetch_and_add(counter, 1) + 1;
}

#endif
