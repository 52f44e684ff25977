// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/* The state of counters: for each thread, and for each open span that has some. Only in programs that count. */
#pragma once
#include "record.h"

/* As the kernel gives it. */
struct pf_count {
	__u64 value;
	__u64 enabled; /* ns that it was to be counted */
	__u64 running; /* ns that it was */
};

/* What a span's counters were at its start. It follows the span's record. */
struct pf_before {
	__u64 breaks;
	struct pf_count at[];
};
#define PF_BEFORE(many)                                                                                                \
	struct {                                                                                                       \
		__u64 breaks;                                                                                          \
		struct pf_count at[many];                                                                              \
	}

#define PF_COUNTED_FRAMES(name, limit, many)                                                                           \
	struct {                                                                                                       \
		__u64 depth;                                                                                           \
		struct {                                                                                               \
			__u64 sp;                                                                                      \
			__u64 within;                                                                                  \
			struct name##_record record;                                                                   \
			PF_BEFORE(many) before;                                                                        \
		} frame[limit];                                                                                        \
	} name

#define PF_COUNTED_OPEN(name, many)                                                                                    \
	struct {                                                                                                       \
		__u64 open;                                                                                            \
		struct name##_record record;                                                                           \
		PF_BEFORE(many) before;                                                                                \
	} name##_open

#ifdef PF_COUNTERS
/* What a thread has counted: the counters are the cpu's, and count whatever runs on it. */
struct pf_counts {
	__u64 known; /* some time of it was seen from its start */
	__u64 on; /* it runs, and `base` is what the counters of its cpu were when it came there */
	__u64 switches; /* as the kernel counts them: how often it had left a cpu then */
	__u64 breaks; /* how often something of it was missed */
	struct pf_count base[PF_COUNTERS];
	struct pf_count sum[PF_COUNTERS]; /* of its earlier times on cpus */
};
#endif
