// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/*
 * Counts of one thread. The kernel has some for each thread; others are counted by each cpu, for whatever runs
 * there: those are read when a thread comes to a cpu and when it leaves, so that what is added up between is its own,
 * wherever and beside whomever it ran.
 */
#pragma once
#include "counter_state.h"
#include "thread.h"

struct sched_entity___counts {
	__u64 nr_migrations;
} __kernel_type;

struct task_struct___counts {
	unsigned long nvcsw;
	unsigned long nivcsw;
	unsigned long min_flt;
	unsigned long maj_flt;
	struct sched_entity___counts se;
} __kernel_type;

#define PF_TASK_COUNT(task, member) PF_KERNEL((struct task_struct___counts *)(task), member)
/* What was read before is read again after this, not remembered. */
#define PF_ORDER() asm volatile("" ::: "memory")

static __always_inline __u64 pf_major_faults(struct task_struct *task)
{
	return PF_TASK_COUNT(task, maj_flt);
}

static __always_inline __u64 pf_minor_faults(struct task_struct *task)
{
	return PF_TASK_COUNT(task, min_flt);
}

static __always_inline __u64 pf_faults(struct task_struct *task)
{
	return pf_major_faults(task) + pf_minor_faults(task);
}

static __always_inline __u64 pf_voluntary_switches(struct task_struct *task)
{
	return PF_TASK_COUNT(task, nvcsw);
}

static __always_inline __u64 pf_involuntary_switches(struct task_struct *task)
{
	return PF_TASK_COUNT(task, nivcsw);
}

static __always_inline __u64 pf_switches(struct task_struct *task)
{
	return pf_voluntary_switches(task) + pf_involuntary_switches(task);
}

static __always_inline __u64 pf_migrations(struct task_struct *task)
{
	return PF_TASK_COUNT(task, se.nr_migrations);
}

/* A span may be ended from outside of its thread, when the recording ends: what the thread has counted is unknown. */
static __always_inline _Bool pf_runs(struct pf_thread *thread)
{
	return PF_KERNEL(pf_task(), pid) == thread->tid;
}

#ifdef PF_COUNTERS
#define PF_NO_ENTRY -2 /* ENOENT */
/* A thread that is switched in the middle of a reading reads again. */
#define PF_MOST_READINGS 4
#define PF_NOT_KNOWN (~0ULL)
/* A thousandth of a span, as a power of two: so much of it may go uncounted without being called an estimate. */
#define PF_NEGLIGIBLE 10

static long (*const bpf_perf_event_read_value)(void *map, __u64 index, struct pf_count *into, __u32 size) = (void *)55;

/* Of each counter, the event of each cpu. The recorder opens them. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, PF_COUNTERS);
	__type(key, __u32);
	__type(value, __u32);
} pf_events SEC(".maps");

/* The value of a counter of this cpu; whether it has one. */
static __always_inline _Bool pf_read_counter(__u32 counter, struct pf_count *into)
{
	__u32 index = counter * pf_cpus + bpf_get_smp_processor_id();
	long error = bpf_perf_event_read_value(&pf_events, index, into, sizeof(*into));

	return !error || (error == PF_NO_ENTRY && (pf_partial_counters >> counter) & 1);
}

/* From now on, what the cpu counts is the thread's. */
static __always_inline void pf_take_up(struct pf_counts *counts, __u64 switches)
{
	struct pf_count now = {};

	for (int i = 0; i < PF_COUNTERS; i++) {
		if (!pf_read_counter(i, &now))
			counts->breaks++;
		counts->base[i] = now;
	}
	counts->switches = switches;
	counts->known = 1;
	PF_ORDER();
	counts->on = 1;
}

/* What a counter is on the thread that runs; below 0 where that is unknown. */
static __noinline int pf_count_now(struct pf_thread *thread, __u32 counter, struct pf_count *into)
{
	struct task_struct *task = pf_task();
	struct pf_counts *counts = &thread->counts;
	struct pf_count now = {};

	if (counter >= PF_COUNTERS)
		return -1;
	for (int i = 0; i < PF_MOST_READINGS; i++) {
		__u64 switches = pf_switches(task);
		_Bool read;

		PF_ORDER();
		if (!counts->on || counts->switches != switches) {
			/* It was switched between the two readings of the number: again. */
			if (pf_switches(task) != switches)
				continue;
			/* It ran before the recording began; or its coming here was missed, which must not happen. */
			if (counts->known)
				counts->breaks++;
			pf_take_up(counts, switches);
		}
		read = pf_read_counter(counter, &now);
		into->value = counts->sum[counter].value + now.value - counts->base[counter].value;
		into->enabled = counts->sum[counter].enabled + now.enabled - counts->base[counter].enabled;
		into->running = counts->sum[counter].running + now.running - counts->base[counter].running;
		PF_ORDER();
		if (pf_switches(task) == switches) {
			if (read)
				return 0;
			break;
		}
	}
	into->enabled = PF_NOT_KNOWN;
	return -1;
}

/* value * enabled / running, for any that the three may be. */
static __always_inline __u64 pf_scaled(__u64 value, __u64 enabled, __u64 running)
{
	if (enabled >> 32) {
		enabled >>= 20;
		running >>= 20;
	}
	if (!running)
		return value;
	return value / running * enabled + value % running * enabled / running;
}

/*
 * How far a counter has risen on the thread since a span's start: 0; 1 if it was not counted all the time, and this is
 * an estimate; below 0 if it is unknown.
 */
static __noinline int pf_count_rise(struct pf_thread *thread, __u32 counter, struct pf_count *at, __u64 breaks,
				    __u64 *into)
{
	struct pf_count now = {};
	__u64 value, enabled, running;

	*into = 0;
	if (pf_count_now(thread, counter, &now) || at->enabled == PF_NOT_KNOWN || thread->counts.breaks != breaks)
		return -1;
	value = now.value - at->value;
	enabled = now.enabled - at->enabled;
	running = now.running - at->running;
	/* While others open events, the kernel stops all of them for an instant. */
	if (enabled - running <= enabled >> PF_NEGLIGIBLE) {
		*into = value;
		/* Where the thread was on other cpus all the time, it has not risen. */
		return enabled || (pf_partial_counters >> counter) & 1 ? 0 : -1;
	}
	/* From less than a sixteenth of the time, an estimate may be anything. */
	if (!running || running > enabled || running < enabled >> 4)
		return -1;
	*into = pf_scaled(value, enabled, running);
	return 1;
}

static __always_inline struct pf_counts *pf_counts_of(struct task_struct *task)
{
	struct pf_thread *thread = pf_thread_of(task);

	return thread && thread->owner == PF_MINE ? &thread->counts : NULL;
}

/* A thread leaves this cpu, and another one comes. */
SEC("tp_btf/sched_switch") int pf_count_switch(__u64 *arguments)
{
	struct task_struct *prev = (void *)arguments[1];
	struct task_struct *next = (void *)arguments[2];
	struct pf_counts *counts = pf_counts_of(prev);
	struct pf_count now = {};
	__u64 switches;

	if (counts && counts->known) {
		switches = pf_switches(prev);
		if (!counts->on || counts->switches + 1 != switches)
			counts->breaks++;
		for (int i = 0; i < PF_COUNTERS; i++) {
			if (!pf_read_counter(i, &now))
				counts->breaks++;
			counts->sum[i].value += now.value - counts->base[i].value;
			counts->sum[i].enabled += now.enabled - counts->base[i].enabled;
			counts->sum[i].running += now.running - counts->base[i].running;
		}
		counts->switches = switches;
		counts->on = 0;
	}
	counts = pf_counts_of(next);
	if (counts) {
		switches = pf_switches(next);
		if (counts->known && (counts->on || counts->switches != switches))
			counts->breaks++;
		pf_take_up(counts, switches);
	}
	return 0;
}

/* The rise of a CPUs' counter during a span, in a field of its record. */
#define PF_COUNT_EVENT(number, member, scaled, counter, place)                                                         \
	do {                                                                                                           \
		int pf_rise = -1;                                                                                      \
                                                                                                                       \
		record->member = 0;                                                                                    \
		if (runs)                                                                                              \
			pf_rise = pf_count_rise(thread, counter, &before->at[place], before->breaks, &record->member); \
		if (pf_rise < 0)                                                                                       \
			record->header.missing |= 1 << (number);                                                       \
		if (pf_rise > 0)                                                                                       \
			record->scaled |= 1 << (number);                                                               \
	} while (0)
#endif

/* The same of a count that the kernel has for each thread. */
#define PF_COUNT_TASK(number, member, function, place)                                                                 \
	do {                                                                                                           \
		record->member = 0;                                                                                    \
		if (runs)                                                                                              \
			record->member = function(pf_task()) - before->at[place].value;                                \
		else                                                                                                   \
			record->header.missing |= 1 << (number);                                                       \
	} while (0)
