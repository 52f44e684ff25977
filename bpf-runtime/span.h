// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/*
 * Open spans of a thread. A call's frame is its stack pointer at entry: a later entry at or above it, or
 * a return above it, means that the call never returned (longjmp, exception), which is counted. A handler of signals
 * that runs on a separate stack is within the call it interrupts, wherever that stack lies.
 */
#pragma once
#include "call.h"
#include "preemption.h"
#include "trampoline.h"

static __noinline _Bool pf_on_signal_stack(__u64 sp)
{
	struct task_struct *task = pf_task();

	return sp - PF_KERNEL(task, sas_ss_sp) - 1 < PF_KERNEL(task, sas_ss_size);
}

#ifdef PF_OLD_KERNEL

static __always_inline _Bool pf_is_elsewhere(struct pf_thread *thread, __u64 sp)
{
	return 0;
}

#else

#if defined(__TARGET_ARCH_x86)
#define PF_THREAD_POINTER(task) PF_KERNEL(task, thread.fsbase)
#else
#define PF_THREAD_POINTER(task) PF_KERNEL(task, thread.uw.tp_value)
#endif

/* Bytes of a stack that a call of an engine is certainly within. */
#define PF_NEAR_HOME (256 * 1024)

struct pf_area {
	__u64 low;
	__u64 high;
};

static long pf_note_area(struct task_struct *task, struct vm_area_struct *area, struct pf_area *found)
{
	found->low = area->vm_start;
	found->high = area->vm_end;
	return 0;
}

/*
 * Whether a stack pointer is on none of the stacks in the kernel's records: the one that the thread was made with, by
 * the first thread's beginning or by the thread-local variables, which libraries put at its end; and that for signals.
 */
static __noinline _Bool pf_is_elsewhere(struct pf_thread *thread, __u64 sp)
{
	struct task_struct *task = pf_task();
	struct mm_struct *mm = PF_KERNEL(task, mm);
	struct pf_area area = {};
	__u64 home;

	if (pf_on_signal_stack(sp) || !mm)
		return 0;
	if (PF_KERNEL(task, pid) == PF_KERNEL(task, tgid) && !thread->forked_by_thread)
		home = PF_KERNEL(mm, start_stack);
	else
		home = PF_THREAD_POINTER(task);
	/* What is mapped may be changing just now. The next call asks again; this one's stack is judged by its distance. */
	if (bpf_find_vma(task, sp, pf_note_area, &area, 0))
		return home - sp >= PF_NEAR_HOME;
	if (home - area.low >= area.high - area.low)
		return 1;
	thread->stack_low = area.low;
	thread->stack_high = area.high;
	return 0;
}

#endif

/*
 * Whether the return of a call must not be probed: it was made on a stack that the program made (a fiber, a coroutine).
 * The kernel takes the probed calls of a thread to lie on one stack, and returns to the wrong place, or ends the
 * process, where the program leaves a stack with such calls for another one. Where a session's program does so at the
 * entry, the kernel leaves the return address alone.
 */
static __always_inline _Bool pf_must_not_return(struct pf_call *call, __u16 type)
{
	struct pf_thread *thread = call->thread;

	if (call->sp - thread->stack_low < thread->stack_high - thread->stack_low)
		return 0;
	if (!pf_is_elsewhere(thread, call->sp))
		return 0;
	__sync_fetch_and_add(&pf_calls_elsewhere, 1);
#ifdef PF_NO_SESSIONS
	return 0; /* it is probed already */
#else
	pf_lose_records(thread, type, PF_MISSING_RETURN, 1);
	return 1;
#endif
}

/* Whether a call that was entered at `frame_sp` has been left, now that the stack ends at `sp`. */
static __always_inline _Bool pf_is_abandoned(__u64 frame_sp, __u64 sp, _Bool also_at)
{
	_Bool frame_in_handler, now_in_handler;

	if (frame_sp == sp)
		return also_at;
	frame_in_handler = pf_on_signal_stack(frame_sp);
	now_in_handler = pf_on_signal_stack(sp);
	if (frame_in_handler != now_in_handler)
		return frame_in_handler;
	return frame_sp < sp;
}

/*
 * Whether a call that was entered at `frame_sp` has been left although the stack reaches further: the return address that
 * the kernel put there was overwritten. On processors that have it in a register, nothing shows that.
 */
static __noinline _Bool pf_is_overwritten(__u64 frame_sp)
{
	__u64 trampoline = PF_RETURN_ADDRESS ? pf_trampoline() : 0, returns_to = 0;

	if (!trampoline || pf_read(&returns_to, sizeof(returns_to), frame_sp))
		return 0;
	return returns_to != trampoline;
}

/* Sites of slots of methods that are not probed any more. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PF_NO_SITE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u32);
} pf_other_sites SEC(".maps");

static __noinline int pf_is_other_site(__u32 site)
{
	return bpf_map_lookup_elem(&pf_other_sites, &site) != NULL;
}

/*
 * Whether a call is of a slot whose probes were removed: it is not in the trace. Its return may not be seen, and calls of
 * the slot that is recorded are no parts of it.
 */
static __always_inline _Bool pf_is_of_other_slot(const __u64 *frame)
{
	return pf_other_slots && pf_is_other_site(((const struct pf_header *)(frame + 2))->site);
}

/*
 * Drops frames whose stack is gone: those below `sp` and, at the entry of another call (`also_at`), the one at it and those
 * that were written over; and those of other slots. `is_loss`: their ends were watched for.
 */
static __always_inline void pf_drop_abandoned(struct pf_thread *thread, __u64 *depth, void *frames, __u32 stride,
					      __u32 limit, __u64 sp, _Bool also_at, __u16 type, _Bool is_loss)
{
	for (__u32 i = 0; i < limit; i++) {
		__u64 top = *depth;
		__u64 *frame;
		_Bool of_other_slot;

		if (top == 0 || top > limit)
			break;
		frame = frames + (top - 1) * stride;
		of_other_slot = pf_is_of_other_slot(frame);
		if (!of_other_slot && !pf_is_abandoned(frame[0], sp, also_at) &&
		    !(also_at && pf_is_overwritten(frame[0])))
			break;
		*depth = top - 1;
		if (!of_other_slot && is_loss)
			pf_lose_records(thread, type, PF_MISSING_RETURN, 1);
		/* Calls that were taken as parts of it may have come after it was left. */
		if (limit == 1 && frame[1] && is_loss)
			pf_lose_records(thread, type, PF_TOO_DEEP, frame[1]);
	}
}

/*
 * Whether a function was jumped to as the last thing that another one does: it will return for both. Where that one's
 * return is probed, the return address is the kernel's by now; after a call that was left it would be the program's.
 */
static __always_inline _Bool pf_is_tail_call(struct pf_call *call)
{
	__u64 trampoline = pf_trampoline(), returns_to = 0;

	if (!trampoline)
		return 0;
	if (PF_RETURN_ADDRESS)
		pf_read(&returns_to, sizeof(returns_to), call->sp);
	else
		returns_to = pf_register(call->regs, 30);
	return returns_to == trampoline;
}

/*
 * A new frame's record, or NULL where this call is nested in one that counts. With `object`, the one that a method is
 * called on: where an override calls its base's on the same object, the two are one call.
 */
static __always_inline void *pf_push(struct pf_call *call, __u64 *depth, void *frames, __u32 stride, __u32 limit,
				     __u16 type, __u64 object)
{
	__u64 top = *depth;
	__u64 *frame;
	_Bool same = 0;

	if (top && top <= limit) {
		frame = frames + (top - 1) * stride;
		same = frame[0] == call->sp && pf_is_tail_call(call);
	}
	if (!same)
		pf_drop_abandoned(call->thread, depth, frames, stride, limit, call->sp, 1, type, 1);
	top = *depth;
	/* The outermost stands for both. */
	if (same && limit == 1)
		return NULL;
	if (object && top && top <= limit) {
		frame = frames + (top - 1) * stride;
		if (frame[1] == object)
			return NULL;
	}
	if (top >= limit) {
		frame = frames;
		if (limit > 1)
			pf_lose_records(call->thread, type, PF_TOO_DEEP, 1);
		else
			frame[1]++;
		return NULL;
	}
	frame = frames + top * stride;
	frame[0] = call->sp;
	frame[1] = object;
	*depth = top + 1;
	return frame + 2;
}

/* The record of the call that returns, or NULL where its entry was not recorded. */
static __always_inline void *pf_pop(struct pf_call *call, __u64 *depth, void *frames, __u32 stride, __u32 limit,
				    __u16 type)
{
	__u64 top;
	__u64 *frame;

	pf_drop_abandoned(call->thread, depth, frames, stride, limit, call->sp, 0, type, 1);
	top = *depth;
	if (top == 0 || top > limit)
		return NULL;
	frame = frames + (top - 1) * stride;
	if (frame[0] != call->sp)
		return NULL;
	*depth = top - 1;
	if (limit == 1 && frame[1])
		pf_lose_many(type, PF_CALLS_WITHIN, frame[1]);
	return frame + 2;
}

/* Calls that are open when their thread or program ends never return. */
static __always_inline void pf_count_open(struct pf_thread *thread, __u64 *depth, const void *frames, __u32 stride,
					  __u32 limit, __u16 type)
{
	__u64 top = *depth;
	__u32 open = 0;

	*depth = 0;
	for (__u32 i = 0; i < limit; i++)
		open += i < top && !pf_is_of_other_slot(frames + i * stride);
	if (!open)
		return;
	/* Where the recording has ended before, they are what was still open then: no record is lost. */
	if (!pf_enabled) {
		pf_lose_many(type, PF_STILL_OPEN, open);
		return;
	}
	pf_lose_records(thread, type, PF_MISSING_RETURN, open);
	/* As above: they may have come after it was left. */
	if (limit == 1 && ((const __u64 *)frames)[1])
		pf_lose_records(thread, type, PF_TOO_DEEP, ((const __u64 *)frames)[1]);
}

/* Tells the recorder that the steps of --steps are over; where the ring was full, the next step does so again. */
static __noinline void pf_tell_window_over(struct pf_thread *thread)
{
	if (pf_steps >= pf_last_step && !pf_in_window && !pf_window_over)
		pf_window_over = pf_control(PF_LAST_STEP, thread->tid, 0);
}

/* A step begins: counts it, and opens the window of --steps, which is closed while no thread is in such a step. */
static __always_inline void pf_step_begins(struct pf_thread *thread)
{
	_Bool opened, wanted;
	__u64 step;

	/* Before the step counts: where another thread's ends meanwhile, this one is not over. */
	opened = pf_first_step && (thread->in_window || (pf_steps + 1 >= pf_first_step && pf_steps < pf_last_step));
	if (opened && !thread->in_window)
		__sync_fetch_and_add(&pf_in_window, 1);
	step = pf_count(&pf_steps);
	if (!pf_first_step)
		return;
	wanted = step >= pf_first_step && step <= pf_last_step;
	if (opened != wanted)
		__sync_fetch_and_add(&pf_in_window, wanted ? 1 : -1);
	thread->in_window = wanted;
	if (!wanted)
		pf_tell_window_over(thread);
}

/*
 * Whether a thread is in a step that began before the detail that is recorded now. A call of an operator may be open there,
 * and others that it makes are none.
 */
static __always_inline _Bool pf_in_earlier_step(const struct pf_thread *thread)
{
	return pf_detail_switches && !pf_steps_switch && thread->within_step && thread->step_window != pf_detail_since;
}

/* Told after each change whether steps are open on a thread: counts the threads that are in one. */
static __always_inline void pf_note_step(struct pf_thread *thread, _Bool is_within)
{
	if (pf_first_step && !is_within && thread->in_window) {
		thread->in_window = 0;
		__sync_fetch_and_add(&pf_in_window, -1);
		pf_tell_window_over(thread);
	}
	if (thread->within_step == is_within)
		return;
	thread->within_step = is_within;
	__sync_fetch_and_add(&pf_within_steps, is_within ? 1 : -1);
}

#define PF_PUSH(call, name, limit, type, object)                                                                       \
	pf_push(call, &(call)->thread->spans.name.depth, (call)->thread->spans.name.frame,                             \
		sizeof((call)->thread->spans.name.frame[0]), limit, type, object)
/* Where a call returns, those that it called and that are still open never will. */
#define PF_DROP_WITHIN(thread, name, limit, sp, type, is_loss)                                                         \
	pf_drop_abandoned(thread, &(thread)->spans.name.depth, (thread)->spans.name.frame,                             \
			  sizeof((thread)->spans.name.frame[0]), limit, sp, 0, type, is_loss)
#define PF_COUNT_OPEN(thread, name, limit, type)                                                                       \
	pf_count_open(thread, &(thread)->spans.name.depth, (thread)->spans.name.frame,                                 \
		      sizeof((thread)->spans.name.frame[0]), limit, type)
#define PF_POP(call, name, limit, type)                                                                                \
	pf_pop(call, &(call)->thread->spans.name.depth, (call)->thread->spans.name.frame,                              \
	       sizeof((call)->thread->spans.name.frame[0]), limit, type)

static __always_inline void pf_save(struct pf_call *call, __u64 *saved, __u32 number, __u64 place)
{
	if (!number)
		saved[0] = 0;
	saved[1 + number] = pf_argument(call, place);
	if (pf_take_unreadable(call))
		saved[0] |= 1ULL << number;
}

static __always_inline __u64 pf_saved(struct pf_call *call, __u64 *saved, __u32 number)
{
	if (saved[0] & 1ULL << number)
		call->unreadable = 1;
	return saved[1 + number];
}

/* An argument of the call that this one is in. In a step that began before its operators were recorded, that call did, too. */
static __always_inline __u64 pf_not_enclosed(struct pf_call *call)
{
	call->unreadable = 1;
	call->empty |= pf_detail_switches && !pf_step_came;
	return 0;
}

static __always_inline __u64 pf_enclosing(struct pf_call *call, __u64 depth, __u64 sp, _Bool nested, __u64 *saved,
					  __u32 number)
{
	/* Of nested calls only the outermost is saved. */
	if (!depth || nested || sp <= call->sp)
		return pf_not_enclosed(call);
	return pf_saved(call, saved, number);
}

/*
 * The programs of a span: one for kernels with sessions, a pair for those without. An object for one kernel need not
 * have both: PF_NO_SESSIONS and PF_NO_PAIRS leave one out.
 */
#ifdef PF_NO_SESSIONS
#define PF_SESSION(name)
#else
/* The verifier may have lost that the result is 0 or 1, which the compiler relies on. */
#define PF_SESSION(name)                                                                                               \
	static __always_inline int name##_hit(struct pt_regs *regs)                                                    \
	{                                                                                                              \
		int skip;                                                                                              \
                                                                                                                       \
		if (bpf_session_is_return())                                                                           \
			return name##_leave(regs);                                                                     \
		skip = name##_enter(regs);                                                                             \
		asm volatile("" : "+r"(skip));                                                                         \
		return skip & 1;                                                                                       \
	}                                                                                                              \
	PF_AT_UPROBE("uprobe.session", name, return name##_hit(regs))
#endif

#ifdef PF_NO_PAIRS
#define PF_PAIR(name)
#else
#define PF_PAIR(name)                                                                                                  \
	PF_ENTRY(name)                                                                                                 \
	PF_AT_UPROBE("uretprobe.multi", name##_return, return name##_leave(regs))
#endif

#define PF_SPAN(name) PF_SESSION(name) PF_PAIR(name)

#define PF_ENTRY(name) PF_AT_UPROBE("uprobe.multi", name##_entry, name##_enter(regs); return 0)
