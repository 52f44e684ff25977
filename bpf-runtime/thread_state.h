// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/*
 * The state of each thread: its count of records, its open spans, and space to build records in. Space on the
 * thread, not on the cpu: a probe may be preempted, and another thread's would then write over it.
 *
 * It hangs on the kernel's own structure of the thread. Old kernels let no program at a uprobe do that: there it is in
 * a hash map, by the address of that structure. Either way it goes when the structure goes.
 */
#pragma once
#include "record.h"

/* Objects that wait to be read while one is described. A power of two. */
#define PF_WORK 64
/* Objects that one description may lead to. */
#define PF_MOST_OBJECTS 4096

enum pf_owner { PF_UNKNOWN, PF_MINE, PF_OTHERS };

/* Rows of elements that a list is read from: `[.. width] rows count stride stride`. */
struct pf_rows {
	__u64 address;
	__u64 stride; /* bytes */
	__u32 width; /* elements of a row */
	__u32 count;
};

/* A map whose elements are visited (map.h). */
struct pf_entries {
	__u64 how; /* its class is laid out */
	__u64 count; /* elements */
	__u64 node; /* the one that is visited; 0 after the last */
	__u64 end; /* what the last one's parents end at, in a tree */
	__u64 strings; /* the layout of its keys; 0: they are numbers */
	__u64 key_bytes;
	__u64 wanted[PF_KEY_WORDS]; /* the key that is looked for, with zeros after it */
	__u64 key[PF_KEY_WORDS]; /* the one that was read last */
};

struct pf_thread {
	__u32 seq;
	__u32 tid;
	__u32 pid;
	__u32 owner;
	__u64 graph; /* what tells the graph that is open on the thread from every other: when it began, or its identity; 0: none is */
	__u64 vouched; /* the identity of an open graph whose objects are read all the same */
	__u32 unseen; /* records lost since the last one that was sent */
	__u32 graphs; /* that had an identity */
	__u32 place; /* waiting.h: whether it runs, or the cpu that it waits for */
	__u32 forked_by_thread; /* a process that another thread than the first has made: it runs on that one's stack */
	__u64 reclaim_since; /* reclaim.h: when that which is open began */
	__u32 reclaim; /* which it is; 0: none */
	__u32 failed; /* program.h: bit i: pieces[i] could not be read; the verifier would follow each value of it by itself on the stack */
	__u64 stack_low; /* span.h: the stack that it was made with, as far as that is recorded */
	__u64 stack_high;
	__u32 within_step; /* 1: steps are open */
	__u32 in_window; /* 1: among them one that --steps asked for */
	__u64 step_window; /* pf_detail_since when the last of them began in which detail was recorded */
	struct pf_rows rows;
	__u64 work[PF_WORK];
	__u8 block[PF_BLOCK] __attribute__((aligned(8)));
	struct pf_spans spans; /* generated: open spans and records in the making */
#ifdef PF_COUNTERS
	struct pf_counts counts;
#endif
#ifdef PF_MAPS
	struct pf_entries entries;
#endif
#ifdef PF_OLD_KERNEL
	__u32 work_next;
	__u32 work_end;
	__u64 rows_filled;
	__u64 ended; /* its calls are accounted for, though it is not gone yet */
#endif
};

#ifdef PF_OLD_KERNEL

/* Of the target, at one time; the space for them is taken at the start. */
#define PF_MOST_THREADS 1024

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PF_MOST_THREADS);
	__type(key, __u64);
	__type(value, struct pf_thread);
} pf_threads SEC(".maps");

/* What a new thread's state is copied from: it is larger than a program's stack. */
const struct pf_thread pf_new_thread;

static __always_inline struct pf_thread *pf_thread_of(struct task_struct *task)
{
	__u64 key = (__u64)task;

	return bpf_map_lookup_elem(&pf_threads, &key);
}

static __always_inline struct pf_thread *pf_make_thread(struct task_struct *task)
{
	__u64 key = (__u64)task;

	bpf_map_update_elem(&pf_threads, &key, &pf_new_thread, BPF_NOEXIST);
	return bpf_map_lookup_elem(&pf_threads, &key);
}

SEC("tp_btf/sched_process_free") int pf_thread_gone(__u64 *arguments)
{
	__u64 key = arguments[0];

	bpf_map_delete_elem(&pf_threads, &key);
	return 0;
}

/* Space is scarce: facts about threads that are not the target's are found out each time. */
static __always_inline void pf_note_other(struct task_struct *task)
{
}

static __always_inline void pf_note_end(struct pf_thread *thread)
{
	thread->ended = 1;
}

#else

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct pf_thread);
} pf_threads SEC(".maps");

static __always_inline struct pf_thread *pf_thread_of(struct task_struct *task)
{
	return bpf_task_storage_get(&pf_threads, task, NULL, 0);
}

static __always_inline struct pf_thread *pf_make_thread(struct task_struct *task)
{
	return bpf_task_storage_get(&pf_threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

static __always_inline void pf_note_other(struct task_struct *task)
{
	struct pf_thread *thread = pf_make_thread(task);

	if (thread)
		thread->owner = PF_OTHERS;
}

static __always_inline void pf_note_end(struct pf_thread *thread)
{
}

#endif
