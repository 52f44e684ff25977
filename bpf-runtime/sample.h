// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/*
 * Timer samples: where a thread of the target was, and which span was open on it. A sample interrupts anything, also a
 * program of this object on the same thread: it reads the thread's state, and changes nothing in it. It is no event: it
 * has no number, and what is lost of it is counted separately.
 */
#pragma once
#include "detail.h"
#include "fault.h"
#include "scheduler.h"
#include "trampoline.h"

#if defined(__TARGET_ARCH_x86)
#define PF_INSTRUCTION(of) ((of)->ip)
#define PF_FRAME_POINTER(of) ((of)->bp)
#define PF_LINK(of) 0
#else
#define PF_INSTRUCTION(of) ((of)->pc)
#define PF_FRAME_POINTER(of) ((of)->regs[29])
#define PF_LINK(of) ((of)->regs[30])
#endif

#define PF_USER_STACK (1 << 8)

struct pf_sample_record {
	struct pf_header header;
	__u64 within_start; /* when the span began that was open */
	__u32 pid; /* as the recorder's namespace numbers it; 0: it has no such process */
	__u16 within; /* the record type of that span; PF_NO_SITE: none was open */
	__u16 flags;
	__u64 address; /* of the instruction that was to be executed next */
	__s64 stack_bytes; /* of what follows, registers left out; negative: it could not be read */
	/*
	 * Without callers: the innermost frame. Else PF_STACK_RETURNS; the frames of the kernel's stack, the innermost
	 * first, and before them how many bytes they are; the same of the user's stack, or PF_STACK_REGISTERS and a copy
	 * of it.
	 */
	__u64 frame[];
};

/* The open span that a sample is assigned to: an operator's before all others, then the last that began. */
struct pf_within {
	__u64 start;
	__u32 rank;
	__u16 type;
};

static __always_inline void pf_consider(struct pf_within *within, struct pf_header *span, __u16 type, __u32 rank)
{
	__u64 start = span->start;

	/* The program of its entry was interrupted: it has not begun. */
	if (!start)
		return;
	if (rank < within->rank || (rank == within->rank && start <= within->start))
		return;
	within->start = start;
	within->rank = rank;
	within->type = type;
}

#define PF_WITHIN_CALL(name, tier, limit, rank)                                                                        \
	do {                                                                                                           \
		__u64 pf_depth = *(volatile __u64 *)&thread->spans.name.depth;                                         \
		struct pf_header *pf_span = &thread->spans.name.frame[(pf_depth - 1) & ((limit)-1)].record.header;     \
		if (pf_depth && pf_depth <= (limit) && !pf_##tier##_is_stale(pf_span->start))                          \
			pf_consider(within, pf_span, TYPE_##name##_record, rank);                                      \
	} while (0)
#define PF_WITHIN_UNTIL(name, tier, rank)                                                                              \
	do {                                                                                                           \
		struct pf_header *pf_span = &thread->spans.name##_open.record.header;                                  \
		if (thread->spans.name##_open.open && !pf_##tier##_is_stale(pf_span->start))                           \
			pf_consider(within, pf_span, TYPE_##name##_record, rank);                                      \
	} while (0)

/* Generated: considers every span that is open on a thread. */
static __always_inline void pf_find_open(struct pf_thread *thread, struct pf_within *within);

static __always_inline void pf_fill_sample(struct pf_sample_record *record, struct bpf_perf_event_data *context,
					   __u64 now)
{
	struct task_struct *task = pf_task();
	struct pf_thread *thread = pf_thread_of(task);
	struct pf_within within = { .type = PF_NO_SITE };

	if (thread && thread->owner == PF_MINE)
		pf_find_open(thread, &within);
	pf_start(record, PF_SAMPLE, PF_NO_SITE, PF_KERNEL(task, pid), now);
	record->header.cpu = bpf_get_smp_processor_id();
	record->within_start = within.start;
	record->within = within.type;
	record->pid = pf_number_for_recorder(task);
	record->address = PF_INSTRUCTION(&context->regs);
	/* The kernel's half of the addresses. */
	record->flags = record->address >> 63 ? PF_SAMPLE_IN_KERNEL : 0;
	if (!pf_detail_on(now))
		record->flags |= PF_SAMPLE_WITHOUT_DETAIL;
}

/*
 * Whether a sample may have a copy of the stack. Half of the ring is for events. Linux 5.10 has no helper for the registers
 * with which a thread entered the kernel.
 */
static __always_inline int pf_may_copy(struct bpf_perf_event_data *context)
{
#ifdef PF_OLD_KERNEL
	if (PF_INSTRUCTION(&context->regs) >> 63)
		return 0;
#endif
	return (bpf_ringbuf_query(&pf_ring, BPF_RB_AVAIL_DATA) + PF_STACK_COPY_BYTES) * 2 <
	       bpf_ringbuf_query(&pf_ring, BPF_RB_RING_SIZE);
}

#define PF_COPY_REGISTERS(into, of)                                                                                    \
	do {                                                                                                           \
		(into)[0] = PF_INSTRUCTION(of);                                                                        \
		(into)[1] = (of)->sp;                                                                                  \
		(into)[2] = PF_FRAME_POINTER(of);                                                                      \
		(into)[3] = PF_LINK(of);                                                                               \
	} while (0)

#define PF_BEFORE_STACK (PF_STACK_RETURNS + 1 + PF_KERNEL_FRAMES)

/* What comes before the user's stack. */
static __always_inline void pf_begin_stack(struct pf_sample_record *record, struct bpf_perf_event_data *context)
{
	__u64 *kernel = record->frame + PF_STACK_RETURNS;

	pf_original_returns(record->frame);
	kernel[0] = 0;
	if (record->flags & PF_SAMPLE_IN_KERNEL)
		kernel[0] = bpf_get_stack(context, kernel + 1, PF_KERNEL_FRAMES * sizeof(__u64), 0);
}

/* Copies the user's registers and stack; gives how many bytes of the stack. */
static __always_inline __s64 pf_copy_stack(struct pf_sample_record *record, struct bpf_perf_event_data *context)
{
	__u64 *registers = record->frame + PF_BEFORE_STACK;
	__u8 *into = (__u8 *)(registers + PF_STACK_REGISTERS);
	__u64 bytes;

#ifndef PF_OLD_KERNEL
	if (record->flags & PF_SAMPLE_IN_KERNEL) {
		struct pt_regs regs = {};

		/* By a helper: the compiler would read both with one load, and the verifier wants them apart. */
		bpf_probe_read_kernel(&regs, sizeof(regs), bpf_task_pt_regs(pf_task()));
		PF_COPY_REGISTERS(registers, &regs);
	} else
#endif
		PF_COPY_REGISTERS(registers, &context->regs);
	pf_begin_stack(record, context);
	record->flags |= PF_SAMPLE_STACK_COPY;
	/* To the end of the page, then whole pages. */
	bytes = PF_STACK_PIECE - (registers[1] & (PF_STACK_PIECE - 1));
	if (bpf_probe_read_user(into, bytes, (void *)registers[1]))
		return 0;
	for (__u32 pages = 1; pages < PF_STACK_COPY_BYTES / PF_STACK_PIECE; pages++) {
		if (bytes > PF_STACK_COPY_BYTES - PF_STACK_PIECE ||
		    bpf_probe_read_user(into + bytes, PF_STACK_PIECE, (void *)(registers[1] + bytes)))
			break;
		bytes += PF_STACK_PIECE;
	}
	return bytes;
}

/* Frames by frame pointers; gives how many bytes they are. */
static __always_inline __s64 pf_take_frames(struct pf_sample_record *record, struct bpf_perf_event_data *context)
{
	pf_begin_stack(record, context);
	record->flags |= PF_SAMPLE_FRAMES;
	return bpf_get_stack(context, record->frame + PF_BEFORE_STACK, PF_MOST_FRAMES * sizeof(__u64), PF_USER_STACK);
}

/* `bytes` are what follows a record at most, `stack` puts it there and gives how many bytes it is. */
#define PF_TAKE_SAMPLE(bytes, stack)                                                                                   \
	do {                                                                                                           \
		struct pf_sample_record *record = bpf_ringbuf_reserve(&pf_ring, sizeof(*record) + (bytes), 0);         \
		if (!record) {                                                                                         \
			__sync_fetch_and_add(&pf_samples_lost, 1);                                                     \
			return 0;                                                                                      \
		}                                                                                                      \
		pf_fill_sample(record, context, now);                                                                  \
		record->stack_bytes = (stack);                                                                         \
		bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);                                                          \
	} while (0)

SEC("perf_event") int pf_sample(struct bpf_perf_event_data *context)
{
	__u64 now = bpf_ktime_get_ns();

	if (!pf_wanted())
		return 0;
	__sync_fetch_and_add(&pf_samples, 1);
	/* The user's place is wanted also where the kernel was interrupted: which call or fault led there. */
	if (pf_sample_stacks == PF_STACKS_COPY && pf_may_copy(context))
		PF_TAKE_SAMPLE((PF_BEFORE_STACK + PF_STACK_REGISTERS) * sizeof(__u64) + PF_STACK_COPY_BYTES,
			       pf_copy_stack(record, context));
	else if (pf_sample_stacks == PF_STACKS_FRAME_POINTERS)
		PF_TAKE_SAMPLE((PF_BEFORE_STACK + PF_MOST_FRAMES) * sizeof(__u64), pf_take_frames(record, context));
	else
		PF_TAKE_SAMPLE(sizeof(__u64), bpf_get_stack(context, record->frame, sizeof(__u64), PF_USER_STACK));
	return 0;
}
