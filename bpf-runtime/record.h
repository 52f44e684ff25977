// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/* Records: their header, the ring they leave through, and the accounts of those that could not. */
#pragma once
#include "contract.h"
#include "kernel.h"

/* Parts of static assertions on the layout of a record. */
#define PF_AT(structure, member, bytes) (offsetof(struct structure, member) == (bytes))
#define PF_SIZE(structure, bytes) (sizeof(struct structure) == (bytes))

#define PF_LOSS_COUNTERS (PF_LOSSES_PER_TYPE * PF_TYPES)

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 * 1024 * 1024); /* the recorder sets what it wants */
} pf_ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PF_LOSS_COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} pf_losses SEC(".maps");

__u64 pf_in_window; /* threads that are in a step that is to be recorded */
__u64 pf_window_over; /* 1: the recorder was told that no such step will begin */

/* Out of line: what is seldom done and stands in many places. */
static __noinline void pf_lose_many(__u16 type, enum pf_loss kind, __u64 many)
{
	__u32 index = type * PF_LOSSES_PER_TYPE + kind;
	__u64 *count = bpf_map_lookup_elem(&pf_losses, &index);

	if (count)
		__sync_fetch_and_add(count, many);
	__sync_fetch_and_add(&pf_loss_changes, 1);
}

static __always_inline void pf_lose(__u16 type, enum pf_loss kind)
{
	pf_lose_many(type, kind, 1);
}

/* Whether events are wanted now. */
static __always_inline _Bool pf_wanted(void)
{
	return pf_enabled && (pf_first_step == 0 || pf_in_window);
}

struct pf_control_record {
	struct pf_header header; /* start: for a process that was stopped, what `pf_stopped` has of it */
	__u64 pid; /* as the recorder's namespace numbers it */
	__u64 stopped; /* 1: it waits to be continued */
};

/* Whether there was room for it. */
static __always_inline _Bool pf_control(enum pf_control type, __u32 tid, __u32 pid)
{
	struct pf_control_record record = {
		.header = { .type = type, .site = PF_NO_SITE, .tid = tid, .start = bpf_ktime_get_ns() }, .pid = pid
	};

	return !bpf_ringbuf_output(&pf_ring, &record, sizeof(record), BPF_RB_FORCE_WAKEUP);
}

/*
 * Frames of a probe: `depth` calls are open; each frame is its stack pointer, the calls within it that were taken as
 * parts of it, and the record in the making.
 */
#define PF_FRAMES(name, limit)                                                                                         \
	struct {                                                                                                       \
		__u64 depth;                                                                                           \
		struct {                                                                                               \
			__u64 sp;                                                                                      \
			__u64 within;                                                                                  \
			struct name##_record record;                                                                   \
		} frame[limit];                                                                                        \
	} name

/* Arguments of open calls that are read again when these return: a word that marks the unreadable ones, the values. */
#define PF_SAVED(name, limit, many) __u64 name##_saved[limit][1 + (many)]
/* Those of a call by its number; the limit is a power of two. */
#define PF_SAVED_OF(call, name, limit, number) ((call)->thread->spans.name##_saved[(number) & ((limit)-1)])

/* A span that is ended by another probe's entry: at most one is open on a thread. */
#define PF_OPEN(name)                                                                                                  \
	struct {                                                                                                       \
		__u64 open;                                                                                            \
		struct name##_record record;                                                                           \
	} name##_open
