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

#if defined(__TARGET_ARCH_x86)
#define PF_INSTRUCTION(context) ((context)->regs.ip)
#else
#define PF_INSTRUCTION(context) ((context)->regs.pc)
#endif

#define PF_USER_STACK (1 << 8)

/* Flags of a sample. */
#define PF_SAMPLE_IN_KERNEL 1
#define PF_SAMPLE_WITHOUT_DETAIL 2 /* operators were not recorded then */

struct pf_sample_record {
	struct pf_header header;
	__u64 within_start; /* when the span began that was open */
	__u32 pid; /* as the recorder's namespace numbers it; 0: it has no such process */
	__u16 within; /* the record type of that span; PF_NO_SITE: none was open */
	__u16 flags;
	__u64 address; /* of the instruction that was to be executed next */
	__s64 stack_bytes; /* of the frames that follow; negative: they could not be read */
	__u64 frame[]; /* of the user's stack, the innermost first */
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
	record->address = PF_INSTRUCTION(context);
	/* The kernel's half of the addresses. */
	record->flags = record->address >> 63 ? PF_SAMPLE_IN_KERNEL : 0;
	if (!pf_detail_on(now))
		record->flags |= PF_SAMPLE_WITHOUT_DETAIL;
}

#define PF_TAKE_SAMPLE(most)                                                                                           \
	do {                                                                                                           \
		struct pf_sample_record *record =                                                                      \
			bpf_ringbuf_reserve(&pf_ring, sizeof(*record) + (most) * sizeof(record->frame[0]), 0);         \
		if (!record) {                                                                                         \
			__sync_fetch_and_add(&pf_samples_lost, 1);                                                     \
			return 0;                                                                                      \
		}                                                                                                      \
		pf_fill_sample(record, context, now);                                                                  \
		record->stack_bytes =                                                                                  \
			bpf_get_stack(context, record->frame, (most) * sizeof(record->frame[0]), PF_USER_STACK);       \
		bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);                                                          \
	} while (0)

SEC("perf_event") int pf_sample(struct bpf_perf_event_data *context)
{
	__u64 now = bpf_ktime_get_ns();

	if (!pf_wanted())
		return 0;
	__sync_fetch_and_add(&pf_samples, 1);
	/* The user's place is wanted also where the kernel was interrupted: which call or fault led there. */
	if (pf_sample_stacks)
		PF_TAKE_SAMPLE(PF_SAMPLE_FRAMES);
	else
		PF_TAKE_SAMPLE(1);
	return 0;
}
