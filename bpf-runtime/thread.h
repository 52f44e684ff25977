// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/* The target's threads: which they are, and the numbers and the sending of their records. */
#pragma once
#include "thread_state.h"

/*
 * What is lost has a number too, so that a gap in a thread's numbering shows where. What no thread can show (it has
 * ended, or its state was not to be had) waits here for the next record of any thread. Two threads may take it at
 * once: then the same moment is shown twice. The accounts in pf_losses are exact whatever happens here.
 */
__u64 pf_unplaced;

/* Gives a record its number and sends it; whether it got away. */
static __always_inline _Bool pf_send(struct pf_thread *thread, void *record, __u64 size)
{
	struct pf_header *header = record;
	__u32 others = pf_unplaced;

	/* Not a thread's first record: it has nothing about the time before. */
	if (others && thread->seq) {
		pf_unplaced = 0;
		thread->seq += others;
		thread->unseen += others;
	}
	header->seq = ++thread->seq;
	header->cpu = bpf_get_smp_processor_id();
	if (bpf_ringbuf_output(&pf_ring, record, size, BPF_RB_NO_WAKEUP)) {
		thread->unseen++;
		pf_lose(header->type, PF_RING_FULL);
		return 0;
	}
	thread->unseen = 0;
	return 1;
}

/* Records of a thread that will never be sent. */
static __noinline void pf_lose_records(struct pf_thread *thread, __u16 type, enum pf_loss kind, __u32 many)
{
	thread->seq += many;
	thread->unseen += many;
	pf_lose_many(type, kind, many);
}

/* A record that has no thread to number it. */
static __always_inline void pf_lose_unplaced(__u16 type, enum pf_loss kind)
{
	__sync_fetch_and_add(&pf_unplaced, 1);
	pf_lose(type, kind);
}

static __always_inline void pf_start(void *record, __u16 type, __u16 site, __u32 tid, __u64 now)
{
	struct pf_header *header = record;

	header->type = type;
	header->site = site;
	header->cpu = 0;
	header->missing = 0;
	header->tid = tid;
	header->seq = 0;
	header->start = now;
	header->duration = 0;
}

/* A thread's number in the innermost pid namespace it is in. */
static __always_inline __u32 pf_ns_number(struct task_struct *task)
{
	struct pid *pid = PF_KERNEL(task, thread_pid);
	unsigned int level = 0;
	int number = 0;

	if (!pid)
		return 0;
	bpf_probe_read_kernel(&level, sizeof(level), &pid->level);
	bpf_probe_read_kernel(&number, sizeof(number), &pid->numbers[level & 31].nr);
	return number;
}

static __always_inline _Bool pf_is_target_process(void)
{
	struct bpf_pidns_info numbers = {};

	if (bpf_get_ns_current_pid_tgid(pf_ns_dev, pf_ns_ino, &numbers, sizeof(numbers)))
		return 0;
	return numbers.tgid == pf_ns_pid;
}

/* Records which thread this is. */
static __always_inline void pf_introduce(struct pf_thread *thread, struct task_struct *task)
{
	struct pf_thread_record record = {};

	pf_start(&record, PF_THREAD, PF_NO_SITE, thread->tid, bpf_ktime_get_ns());
	record.pid = thread->pid;
	record.ns_tid = pf_ns_number(task);
	record.ns_pid = pf_ns_number(PF_KERNEL(task, group_leader));
	record.created = thread->seq == 0 && task != pf_task();
	record.cpus_allowed = PF_KERNEL(task, nr_cpus_allowed);
	bpf_probe_read_kernel(record.comm, sizeof(record.comm), task->comm);
	pf_send(thread, &record, sizeof(record));
}

/* Makes the state of a thread of the target; without it, a record of that type is lost. */
static __noinline struct pf_thread *pf_adopt(struct task_struct *task, __u16 type)
{
	struct pf_thread *thread;

	thread = pf_make_thread(task);
	if (!thread) {
		pf_lose_unplaced(type, PF_NO_THREAD_STATE);
		return NULL;
	}
	thread->owner = PF_MINE;
	thread->tid = PF_KERNEL(task, pid);
	thread->pid = PF_KERNEL(task, tgid);
	pf_introduce(thread, task);
	return thread;
}

/* The state of the thread that runs, if it is the target's; without it, a record of that type is lost. */
static __always_inline struct pf_thread *pf_current(__u16 type)
{
	struct task_struct *task = pf_task();
	struct pf_thread *thread = pf_thread_of(task);

	if (thread && thread->owner == PF_MINE)
		return thread;
	if (thread && thread->owner == PF_OTHERS)
		return NULL;
	/* Without children to follow, the kernel fires probes in the target only. */
	if (!pf_follow_forks || pf_is_target_process())
		return pf_adopt(task, type);
	pf_note_other(task);
	return NULL;
}

/* The same where a call returns: one whose entry found no state is accounted for. */
static __always_inline struct pf_thread *pf_known(void)
{
	struct pf_thread *thread = pf_thread_of(pf_task());

	return thread && thread->owner == PF_MINE ? thread : NULL;
}

/* The same where any thread of the machine may run: at a tracepoint. */
static __always_inline struct pf_thread *pf_current_anywhere(void)
{
	struct task_struct *task = pf_task();
	struct pf_thread *thread = pf_thread_of(task);

	if (thread)
		return thread->owner == PF_MINE ? thread : NULL;
	return pf_is_target_process() ? pf_adopt(task, PF_THREAD) : NULL;
}
