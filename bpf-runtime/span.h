// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/*
 * Open spans of a thread. A call's frame is known by the stack pointer at its entry: a later entry at or above it, or
 * a return above it, means that the call never returned (longjmp, exception), which is counted.
 */
#pragma once
#include "call.h"

/* Drops frames whose stack is gone: those below `sp`, and with `also_at` the one at it. */
static __always_inline void pf_drop_abandoned(__u64 *depth, void *frames, __u32 stride, __u32 limit, __u64 sp,
					      _Bool also_at, __u16 type)
{
	for (__u32 i = 0; i < limit; i++) {
		__u64 top = *depth;
		__u64 frame_sp;

		if (top == 0 || top > limit)
			break;
		frame_sp = *(__u64 *)(frames + (top - 1) * stride);
		if (frame_sp > sp || (frame_sp == sp && !also_at))
			break;
		*depth = top - 1;
		pf_lose(type, PF_MISSING_RETURN);
	}
}

/* A new frame's record, or NULL where this call is nested in one that counts. */
static __always_inline void *pf_push(struct pf_call *call, __u64 *depth, void *frames, __u32 stride, __u32 limit,
				     __u16 type)
{
	__u64 top;
	void *frame;

	pf_drop_abandoned(depth, frames, stride, limit, call->sp, 1, type);
	top = *depth;
	if (top >= limit) {
		if (limit > 1)
			pf_lose(type, PF_TOO_DEEP);
		return NULL;
	}
	frame = frames + top * stride;
	*(__u64 *)frame = call->sp;
	*depth = top + 1;
	return frame + sizeof(__u64);
}

/* The record of the call that returns, or NULL where its entry was not recorded. */
static __always_inline void *pf_pop(struct pf_call *call, __u64 *depth, void *frames, __u32 stride, __u32 limit,
				    __u16 type)
{
	__u64 top;
	void *frame;

	pf_drop_abandoned(depth, frames, stride, limit, call->sp, 0, type);
	top = *depth;
	if (top == 0 || top > limit)
		return NULL;
	frame = frames + (top - 1) * stride;
	if (*(__u64 *)frame != call->sp)
		return NULL;
	*depth = top - 1;
	return frame + sizeof(__u64);
}

/* Calls that are open when their thread ends never return. */
static __always_inline void pf_count_open(__u64 depth, __u32 limit, __u16 type)
{
	for (__u32 i = 0; i < limit && i < depth; i++)
		pf_lose(type, PF_MISSING_RETURN);
}

#define PF_PUSH(call, name, limit, type)                                                                               \
	pf_push(call, &(call)->thread->spans.name.depth, (call)->thread->spans.name.frame,                             \
		sizeof((call)->thread->spans.name.frame[0]), limit, type)
#define PF_POP(call, name, limit, type)                                                                                \
	pf_pop(call, &(call)->thread->spans.name.depth, (call)->thread->spans.name.frame,                              \
	       sizeof((call)->thread->spans.name.frame[0]), limit, type)

/* The programs of a span: one for kernels with sessions, a pair for those without. */
#define PF_SPAN(name)                                                                                                  \
	SEC("uprobe.session") int name(struct pt_regs *regs)                                                           \
	{                                                                                                              \
		if (bpf_session_is_return())                                                                           \
			return name##_leave(regs);                                                                     \
		return name##_enter(regs);                                                                             \
	}                                                                                                              \
	SEC("uprobe.multi") int name##_entry(struct pt_regs *regs)                                                     \
	{                                                                                                              \
		name##_enter(regs);                                                                                    \
		return 0;                                                                                              \
	}                                                                                                              \
	SEC("uretprobe.multi") int name##_return(struct pt_regs *regs)                                                 \
	{                                                                                                              \
		return name##_leave(regs);                                                                             \
	}

#define PF_ENTRY(name)                                                                                                 \
	SEC("uprobe.multi") int name##_entry(struct pt_regs *regs)                                                     \
	{                                                                                                              \
		name##_enter(regs);                                                                                    \
		return 0;                                                                                              \
	}
