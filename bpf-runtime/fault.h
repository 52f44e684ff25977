// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/* Memory that had to be fetched: pages that a thread waited for, and parts of files that came into the page cache. */
#pragma once
#include "detail.h"
#include "registers.h"
#include "scheduler.h"

/* What a program at a perf event is given. */
struct bpf_perf_event_data {
	struct pt_regs regs;
	__u64 sample_period;
	__u64 addr; /* of a fault: the address that was touched */
};

struct super_block {
	__u32 s_dev;
} __kernel_type;

struct inode {
	unsigned long i_ino;
	struct super_block *i_sb;
} __kernel_type;

struct address_space {
	struct inode *host;
} __kernel_type;

/* Pages that the page cache has as one. Its flags come first. */
struct folio {
	struct address_space *mapping;
	unsigned long index;
	unsigned long _flags_1; /* its lowest byte: the order */
} __kernel_type;

/* Linux 5.16 to 6.5. */
struct folio___old_order {
	unsigned char _folio_order;
} __kernel_type;

/* Before Linux 5.16. */
struct page {
	struct address_space *mapping;
	unsigned long index;
} __kernel_type;

enum pageflags { PF_NOT_THE_KERNELS, PG_head };

struct pf_cached {
	__u64 inode;
	__u64 offset;
	__u64 bytes;
	__u32 device;
};

#define PF_READ(into, pointer, member) bpf_probe_read_kernel(&(into), sizeof(into), &(pointer)->member)

/* How many pages a folio has, as a power of two. */
static __always_inline __u32 pf_order(struct folio *folio)
{
	struct folio___old_order *old = (void *)folio;
	unsigned long flags = 0;
	unsigned char order = 0;

	/* Only of several pages: behind a single one lies another folio. */
	bpf_probe_read_kernel(&flags, sizeof(flags), folio);
	if (!(flags >> __builtin_preserve_enum_value(*(typeof(enum pageflags) *)PG_head, 1) & 1))
		return 0;
	if (PF_HAS_MEMBER(folio, _flags_1)) {
		PF_READ(flags, folio, _flags_1);
		order = flags;
	} else if (PF_HAS_MEMBER(old, _folio_order)) {
		PF_READ(order, old, _folio_order);
	}
	return order & 31;
}

/* Which part of which file was put into the page cache; 0 where that cannot be read. */
static __always_inline _Bool pf_read_cached(struct pf_cached *cached, void *added)
{
	struct folio *folio = added;
	struct page *page = added;
	struct address_space *mapping = NULL;
	struct super_block *block = NULL;
	struct inode *inode = NULL;
	unsigned long index = 0, number = 0;
	__u32 device = 0, order = 0;

	if (PF_HAS_MEMBER(folio, mapping)) {
		PF_READ(mapping, folio, mapping);
		PF_READ(index, folio, index);
		order = pf_order(folio);
	} else {
		PF_READ(mapping, page, mapping);
		PF_READ(index, page, index);
	}
	if (!mapping || PF_READ(inode, mapping, host) || !inode || PF_READ(number, inode, i_ino) ||
	    PF_READ(block, inode, i_sb) || !block || PF_READ(device, block, s_dev))
		return 0;
	cached->inode = number;
	cached->device = device;
	cached->offset = index * pf_page_bytes;
	cached->bytes = pf_page_bytes << order;
	return 1;
}

/* The thread that runs, if it is the target's and this is a time that is recorded. */
static __always_inline struct pf_thread *pf_recorded_anywhere(__u64 now)
{
	struct pf_thread *thread = pf_current_anywhere();

	return thread && pf_wanted() && pf_detail_on(now) ? thread : NULL;
}

/* A thread of the target goes on after a major fault. */
#define PF_AT_FAULT(name, structure, type)                                                                             \
	SEC("perf_event") int name(struct bpf_perf_event_data *context)                                                \
	{                                                                                                              \
		__u64 now = bpf_ktime_get_ns();                                                                        \
		struct pf_thread *thread = pf_recorded_anywhere(now);                                                  \
		struct structure record;                                                                               \
                                                                                                                       \
		if (!thread)                                                                                           \
			return 0;                                                                                      \
		pf_start(&record, type, PF_NO_SITE, thread->tid, now);                                                 \
		record.address = context->addr;                                                                        \
		pf_send(thread, &record, sizeof(record));                                                              \
		return 0;                                                                                              \
	}

/* A thread of the target has a part of a file read, by touching it or ahead of that. */
#define PF_AT_PAGE_CACHE(name, structure, type)                                                                        \
	SEC("tp_btf/mm_filemap_add_to_page_cache") int name(__u64 *arguments)                                          \
	{                                                                                                              \
		__u64 now = bpf_ktime_get_ns();                                                                        \
		struct pf_thread *thread = pf_recorded_anywhere(now);                                                  \
		struct pf_cached cached = {};                                                                          \
		struct structure record = {};                                                                          \
                                                                                                                       \
		if (!thread)                                                                                           \
			return 0;                                                                                      \
		pf_start(&record, type, PF_NO_SITE, thread->tid, now);                                                 \
		/* A swapped page is no part of a file. */                                                             \
		if (!pf_read_cached(&cached, (void *)arguments[0]))                                                    \
			record.header.missing = 0xf;                                                                   \
		record.inode = cached.inode;                                                                           \
		record.offset = cached.offset;                                                                         \
		record.bytes = cached.bytes;                                                                           \
		record.device = cached.device;                                                                         \
		pf_send(thread, &record, sizeof(record));                                                              \
		return 0;                                                                                              \
	}
