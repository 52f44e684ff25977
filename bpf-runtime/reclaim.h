// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/* Memory that the kernel takes back, or moves together, before a thread gets what it asks for. */
#pragma once
#include "detail.h"
#include "scheduler.h"

/*
 * A kind is a number of the schema's ReclaimKind. Within one that is open, another is a part of it: one time is counted
 * once. One of the same kind that begins again has an end that was not seen.
 */
static __always_inline int pf_reclaim_begins(__u32 kind)
{
	struct pf_thread *thread = pf_current_anywhere();

	if (!thread || (thread->reclaim && thread->reclaim != kind))
		return 0;
	thread->reclaim = kind;
	thread->reclaim_since = bpf_ktime_get_ns();
	return 0;
}

/* Since when; 0 where that is unknown, or not to be recorded. */
static __always_inline __u64 pf_reclaim_ends(struct pf_thread *thread, __u32 kind)
{
	if (!thread || thread->reclaim != kind)
		return 0;
	thread->reclaim = 0;
	return pf_wanted() && pf_detail_on(thread->reclaim_since) ? thread->reclaim_since : 0;
}

#define PF_AT_RECLAIM(name, structure, type, event, number)                                                            \
	SEC("tp_btf/" #event "_begin") int name(__u64 *arguments)                                                      \
	{                                                                                                              \
		return pf_reclaim_begins(number);                                                                      \
	}                                                                                                              \
	SEC("tp_btf/" #event "_end") int name##_end(__u64 *arguments)                                                  \
	{                                                                                                              \
		__u64 now = bpf_ktime_get_ns();                                                                        \
		struct pf_thread *thread = pf_current_anywhere();                                                      \
		__u64 since = pf_reclaim_ends(thread, number);                                                         \
		struct structure record = {};                                                                          \
                                                                                                                       \
		if (!since)                                                                                            \
			return 0;                                                                                      \
		pf_start(&record, type, PF_NO_SITE, thread->tid, since);                                               \
		record.header.duration = now - since;                                                                  \
		record.reclaim_kind = number;                                                                          \
		pf_send(thread, &record, sizeof(record));                                                              \
		return 0;                                                                                              \
	}
