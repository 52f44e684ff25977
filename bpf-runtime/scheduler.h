// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/* Threads that come and go, programs that are replaced, and the scheduler's events. */
#pragma once
#include "detail.h"
#include "span.h"
#include "waiting.h"

/* Sends a record that is not one of a thread's events, so has no number. */
static __always_inline void pf_send_unnumbered(void *record, __u64 size)
{
	struct pf_header *header = record;

	header->cpu = bpf_get_smp_processor_id();
	if (bpf_ringbuf_output(&pf_ring, record, size, BPF_RB_NO_WAKEUP))
		pf_lose_unplaced(header->type, PF_RING_FULL);
}

/* Generated: ends the spans that wait for another probe's entry. */
static __always_inline void pf_close_spans(struct pf_thread *thread, __u64 now);
/* Generated: counts the calls of a thread that will never return. */
static __always_inline void pf_count_calls(struct pf_thread *thread, __u64 now);

static __always_inline struct pf_thread *pf_mine(struct task_struct *task)
{
	struct pf_thread *thread = pf_thread_of(task);

	return thread && thread->owner == PF_MINE ? thread : NULL;
}

/* The last record of a thread. */
static __always_inline void pf_send_exit(struct pf_thread *thread, __u64 now)
{
	struct pf_thread_exit_record record;

	pf_start(&record, PF_THREAD_EXIT, PF_NO_SITE, thread->tid, now);
	pf_send(thread, &record, sizeof(record));
	/* What it has not shown, another thread must. */
	if (thread->unseen)
		__sync_fetch_and_add(&pf_unplaced, thread->unseen);
	thread->unseen = 0;
}

#define PF_SIGSTOP 19
/* Of the kernel's states of tasks: __TASK_STOPPED. */
#define PF_TASK_UNINTERRUPTIBLE 2
#define PF_TASK_STOPPED 4
/* Pid namespaces around a process that are searched. */
#define PF_NAMESPACES 8
/* A recorder that has given no sign of life for so long is itself stopped, and would let nothing run on: ns. */
#define PF_SILENCE 500000000ULL

/* A page that the recorder and its guardian share with the programs. */
struct pf_life {
	__u64 beat; /* when the recorder last gave a sign of life: ns, CLOCK_MONOTONIC; 0: nobody continues processes */
	__u64 released; /* by the guardian: processes that were continued before the recorder had inspected them */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pf_life);
} pf_life SEC(".maps");

/*
 * Processes (as the recorder's namespace numbers them) that were stopped here, and when: written before the signal is
 * sent. The guardian, which outlives a recorder that is killed, holds this map and continues those, and no others.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PF_MOST_STOPPED);
	__type(key, __u32);
	__type(value, __u64);
} pf_stopped SEC(".maps");

/* Which of these stops is over; written by the recorder and the guardian alone. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PF_MOST_STOPPED);
	__type(key, __u32);
	__type(value, __u64);
} pf_answered SEC(".maps");

/* Whether the kernel lets the recorder send a signal to the process, by whose it is. */
static __always_inline _Bool pf_may_be_stopped(struct task_struct *task)
{
	const struct cred *cred;
	kuid_t uid = {}, suid = {};

	if (pf_may_stop != PF_STOPS_OF_USER)
		return pf_may_stop == PF_STOPS_ALL;
	cred = PF_KERNEL(task, cred);
	if (bpf_probe_read_kernel(&uid, sizeof(uid), &cred->uid) ||
	    bpf_probe_read_kernel(&suid, sizeof(suid), &cred->suid))
		return 0;
	return uid.val == pf_recorder_uid || suid.val == pf_recorder_uid;
}

/* A process's number as the recorder sees it; 0 where it sees none. */
static __always_inline __u32 pf_number_for_recorder(struct task_struct *task)
{
	struct pid *pid = PF_KERNEL(PF_KERNEL(task, group_leader), thread_pid);
	struct upid number;
	unsigned int inode;

	for (int level = 0; pid && level < PF_NAMESPACES; level++) {
		if (bpf_probe_read_kernel(&number, sizeof(number), &pid->numbers[level]))
			break;
		if (bpf_probe_read_kernel(&inode, sizeof(inode), &number.ns->ns.inum))
			break;
		if (inode == pf_recorder_ino)
			return number.nr;
	}
	return 0;
}

/* Stops the running thread's process, if the recorder is there to continue it; whether it did. */
static __always_inline _Bool pf_stop_now(__u32 number, __u64 now, __u64 beat)
{
	if ((__s64)(now - beat) > (__s64)PF_SILENCE)
		return 0;
	if (bpf_map_update_elem(&pf_stopped, &number, &now, BPF_ANY))
		return 0;
	if (!bpf_send_signal_thread(PF_SIGSTOP))
		return 1;
	bpf_map_delete_elem(&pf_stopped, &number);
	return 0;
}

/*
 * Stops the process until the recorder has inspected what it has mapped. The thread itself gets the signal, so that
 * it does not run on until another one has taken it; and it gets it before the recorder can answer. Where it must not
 * be stopped, the recorder inspects it all the same, but what the process calls until then is lost.
 */
static __always_inline void pf_stop(struct pf_thread *thread, enum pf_control type)
{
	__u32 number = pf_number_for_recorder(pf_task()), first = 0;
	struct pf_life *life = bpf_map_lookup_elem(&pf_life, &first);
	__u64 beat = life ? *(volatile __u64 *)&life->beat : 0;
	struct pf_control_record *record;

	/* Before the recording begins, all is inspected when it does; after its end, nothing is. */
	if (!beat)
		return;
	/* The recorder has no such process; or what it has mapped is not inspected. */
	record = number ? bpf_ringbuf_reserve(&pf_ring, sizeof(*record), 0) : 0;
	if (!record) {
		pf_lose(PF_EXEC, PF_NOT_ATTACHED);
		return;
	}
	pf_start(record, type, PF_NO_SITE, thread->tid, bpf_ktime_get_ns());
	record->pid = number;
	record->stopped = 0;
	/* What may not be stopped is inspected while it runs: the recorder reports what came too late. */
	if (pf_may_be_stopped(pf_task())) {
		record->stopped = pf_stop_now(number, record->header.start, beat);
		if (!record->stopped)
			pf_lose(PF_EXEC, PF_NOT_ATTACHED);
	}
	bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
}

/* Whether a process is stopped until the recorder has inspected it. */
static __always_inline _Bool pf_stands_for_recorder(struct task_struct *task)
{
	__u32 number = pf_number_for_recorder(task);
	__u64 *stopped = bpf_map_lookup_elem(&pf_stopped, &number), *answered;

	if (!stopped)
		return 0;
	answered = bpf_map_lookup_elem(&pf_answered, &number);
	return !answered || *answered != *stopped;
}

/* With its last thread, a process ends: its number may be another one's from now on. */
static __always_inline void pf_forget_stopped(struct task_struct *task)
{
	struct signal_struct *signal = PF_KERNEL(task, signal);
	__u32 number;
	int live = 0;

	if (signal)
		bpf_probe_read_kernel(&live, sizeof(live), &signal->live.counter);
	if (live)
		return;
	number = pf_number_for_recorder(task);
	bpf_map_delete_elem(&pf_stopped, &number);
}

SEC("tp_btf/sched_process_exit") int pf_thread_exit(__u64 *arguments)
{
	struct pf_thread *thread = pf_thread_of(pf_task());
	__u64 now = bpf_ktime_get_ns();

	if (!thread || thread->owner != PF_MINE)
		return 0;
	pf_forget_stopped(pf_task());
	pf_close_spans(thread, now);
	pf_count_calls(thread, now);
	pf_note_end(thread);
	pf_waits_no_more(thread);
	pf_send_exit(thread, now);
	return 0;
}

/* For each thread there is, when the recording has ended: no later record will show what it has lost. */
SEC("iter/task") int pf_end(__u64 *arguments)
{
	struct task_struct *task = (void *)arguments[1];
	struct pf_thread *thread;

	if (!task)
		return 0;
	thread = pf_thread_of(task);
	if (!thread || thread->owner != PF_MINE)
		return 0;
	if (thread->unseen || pf_unplaced)
		pf_introduce(thread, task);
	return 0;
}

SEC("tp_btf/sched_process_fork") int pf_fork(__u64 *arguments)
{
	struct task_struct *child = (void *)arguments[1];
	struct pf_thread *parent = pf_current_anywhere();
	struct pf_thread *thread;
	struct pf_fork_record record;

	if (!parent)
		return 0;
	if ((__u32)child->tgid != parent->pid) {
		pf_start(&record, PF_FORK, PF_NO_SITE, parent->tid, bpf_ktime_get_ns());
		record.child_tid = child->pid;
		record.child_pid = child->tgid;
		pf_send(parent, &record, sizeof(record));
		if (!pf_follow_forks)
			return 0;
	}
	thread = pf_adopt(child, PF_THREAD);
	if (thread)
		thread->forked_by_thread = parent->forked_by_thread || parent->tid != parent->pid;
	return 0;
}

/* In the dynamic linker, where debuggers are told that it has mapped a library, or is about to. */
static __always_inline int pf_mapped_enter(struct pt_regs *regs)
{
	struct pf_thread *thread = pf_current(PF_THREAD);

	if (thread)
		pf_stop(thread, PF_MAPPED);
	return 0;
}
PF_AT_UPROBE("uprobe.multi", pf_mapped, return pf_mapped_enter(regs))

SEC("tp_btf/sched_process_exec") int pf_exec(__u64 *arguments)
{
	struct task_struct *task = pf_task();
	struct pf_thread *thread = pf_current_anywhere();
	struct pf_exec_record record = {};
	__u64 now = bpf_ktime_get_ns();

	if (!thread)
		return 0;
	/* The program whose calls were open is gone, and its stack. */
	thread->stack_low = 0;
	thread->stack_high = 0;
	thread->forked_by_thread = 0;
	pf_close_spans(thread, now);
	pf_count_calls(thread, now);
	if (thread->tid != PF_KERNEL(task, pid)) {
		/* It was not the first thread of its process, and has that one's number from now on. */
		pf_send_exit(thread, now);
		thread->tid = PF_KERNEL(task, pid);
		thread->seq = 0;
		pf_introduce(thread, task);
	}
	pf_start(&record, PF_EXEC, PF_NO_SITE, thread->tid, now);
	record.cpus_allowed = PF_KERNEL(task, nr_cpus_allowed);
	pf_send(thread, &record, sizeof(record));
	pf_stop(thread, PF_EXECUTED);
	return 0;
}

/* Whether a thread that leaves its cpu waits for input or output, not for a lock of the kernel. */
static __always_inline _Bool pf_waits_for_io(struct task_struct *task)
{
	__u64 bits = 0;

	if (!PF_HAS_MEMBER(task, in_iowait))
		return 1;
	bpf_probe_read_kernel(&bits, PF_FIELD_BYTES(task, in_iowait), (char *)task + PF_FIELD_OFFSET(task, in_iowait));
	return bits << PF_FIELD_LEFT(task, in_iowait) >> PF_FIELD_RIGHT(task, in_iowait);
}

/*
 * Sent for a switch from or to a thread of the target; for others, only while one of the target's waits for that cpu,
 * so that the trace shows who ran instead.
 */
static __always_inline int pf_record_switch(__u64 *arguments)
{
	struct task_struct *prev = (void *)arguments[1];
	struct task_struct *next = (void *)arguments[2];
	__u64 now = bpf_ktime_get_ns();
	__u32 cpu = bpf_get_smp_processor_id();
	struct pf_thread *from, *to;
	struct pf_switch_record record;

	if (!pf_wanted() || !pf_detail_on(now))
		return 0;
	from = pf_current_anywhere();
	to = pf_mine(next);
	if (!from && !to && !pf_tells_of_others(cpu))
		return 0;
	pf_start(&record, PF_SWITCH, PF_NO_SITE, prev->pid, now);
	record.prev_pid = prev->tgid;
	/* One that was preempted goes on, whatever it was about to wait for. */
	record.prev_state = arguments[0] & 1 ? 0 : pf_prev_state(arguments);
	if (record.prev_state & PF_TASK_STOPPED && pf_stands_for_recorder(prev))
		record.prev_state |= PF_STOPPED_BY_RECORDER;
	if (record.prev_state & PF_TASK_UNINTERRUPTIBLE && !pf_waits_for_io(prev))
		record.prev_state |= PF_WITHOUT_IO;
	record.next_tid = next->pid;
	record.next_pid = next->tgid;
	if (from)
		pf_leaves(from, cpu, record.prev_state == 0);
	if (to)
		pf_arrives(to);
	bpf_probe_read_kernel(record.prev_comm, sizeof(record.prev_comm), prev->comm);
	bpf_probe_read_kernel(record.next_comm, sizeof(record.next_comm), next->comm);
	pf_send_unnumbered(&record, sizeof(record));
	return 0;
}

static __always_inline int pf_record_wakeup(__u64 *arguments)
{
	struct task_struct *woken = (void *)arguments[0];
	struct pf_thread *thread = pf_mine(woken);
	struct task_struct *waker = pf_task();
	struct pf_wakeup_record record = {};
	__u64 now = bpf_ktime_get_ns();

	if (!thread || !pf_wanted() || !pf_detail_on(now))
		return 0;
	pf_start(&record, PF_WAKEUP, PF_NO_SITE, woken->pid, now);
	record.waker_tid = PF_KERNEL(waker, pid);
	record.waker_pid = PF_KERNEL(waker, tgid);
	record.target_cpu = pf_cpu_of(woken);
	pf_wakes(thread, record.target_cpu);
	pf_send_unnumbered(&record, sizeof(record));
	return 0;
}

#define PF_AT_SWITCH(name)                                                                                             \
	SEC("tp_btf/sched_switch") int name(__u64 *arguments)                                                          \
	{                                                                                                              \
		return pf_record_switch(arguments);                                                                    \
	}
#define PF_AT_WAKEUP(name)                                                                                             \
	SEC("tp_btf/sched_wakeup") int name(__u64 *arguments)                                                          \
	{                                                                                                              \
		return pf_record_wakeup(arguments);                                                                    \
	}
/* A thread that was just made. */
#define PF_AT_NEW_WAKEUP                                                                                               \
	SEC("tp_btf/sched_wakeup_new") int pf_wakeup_new(__u64 *arguments)                                             \
	{                                                                                                              \
		return pf_record_wakeup(arguments);                                                                    \
	}
