// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/*
 * The target's threads that could run and do not, by the cpu that they wait for: while one does, the trace says who
 * runs on that cpu. A thread that the kernel moves while it waits is counted where it began to wait, until it runs.
 */
#pragma once
#include "thread.h"

/* Beyond, nothing is told of others. A power of two. */
#define PF_MOST_CPUS 1024
/* Switches between others that are told after a thread of the target has begun to wait. */
#define PF_MOST_OTHERS 256

/* `place` of a thread; another number is one more than the cpu it waits for. */
#define PF_NOWHERE 0
#define PF_RUNS 0xffffffff

struct pf_queue {
	__s32 waiting;
	__u32 told; /* switches between others since the last thread began to wait */
};

struct pf_queue pf_queues[PF_MOST_CPUS];

static __always_inline __u32 pf_cpu_of(struct task_struct *task)
{
	struct task_struct___old_cpu *old = (void *)task;

	if (PF_HAS_MEMBER(old, cpu))
		return PF_KERNEL(old, cpu);
	return PF_KERNEL(task, thread_info.cpu);
}

static __always_inline void pf_waits_no_more(struct pf_thread *thread)
{
	__u32 place = thread->place;

	thread->place = PF_NOWHERE;
	if (place != PF_NOWHERE && place != PF_RUNS)
		__sync_fetch_and_add(&pf_queues[(place - 1) & (PF_MOST_CPUS - 1)].waiting, -1);
}

static __always_inline void pf_waits(struct pf_thread *thread, __u32 cpu)
{
	struct pf_queue *queue = &pf_queues[cpu & (PF_MOST_CPUS - 1)];

	pf_waits_no_more(thread);
	if (cpu >= PF_MOST_CPUS)
		return;
	thread->place = cpu + 1;
	queue->told = 0;
	__sync_fetch_and_add(&queue->waiting, 1);
}

static __always_inline void pf_leaves(struct pf_thread *thread, __u32 cpu, _Bool goes_on)
{
	if (goes_on)
		pf_waits(thread, cpu);
	else
		pf_waits_no_more(thread);
}

static __always_inline void pf_arrives(struct pf_thread *thread)
{
	pf_waits_no_more(thread);
	thread->place = PF_RUNS;
}

/* One that has not left its cpu yet runs on there. */
static __always_inline void pf_wakes(struct pf_thread *thread, __u32 cpu)
{
	if (thread->place != PF_RUNS)
		pf_waits(thread, cpu);
}

/* Whether a switch between threads of others is to be told. */
static __always_inline _Bool pf_tells_of_others(__u32 cpu)
{
	struct pf_queue *queue = &pf_queues[cpu & (PF_MOST_CPUS - 1)];

	return cpu < PF_MOST_CPUS && queue->waiting > 0 && queue->told++ < PF_MOST_OTHERS;
}
