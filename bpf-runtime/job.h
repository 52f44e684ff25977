// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/*
 * Jobs that a device runs for the target, as the kernel's driver reports them: by the scheduler of the DRM subsystem, or by
 * fences of drivers without it. What gave the job is known when it is queued or its fence is made, in the target's thread;
 * what becomes of it is reported anywhere, by the same key.
 */
#pragma once
#include "scheduler.h"

/* What the beginning of a job is: the schema's JobSince. */
enum pf_job_since {
	PF_JOB_SINCE_RUN = 1,
	PF_JOB_SINCE_EMITTED = 2,
	PF_JOB_SINCE_CREATED = 3,
};

struct pf_job_key {
	__u64 of_fences; /* 1: of a fence without a scheduler */
	__u64 first;
	__u64 second;
};

struct pf_job {
	__u64 queued;
	__u64 started; /* 0: not yet */
	__u32 tid; /* 0: of another process */
	__u32 since;
	char name[16];
	char driver[16];
};

/* Jobs that a device is not done with are followed until so many others have begun. */
#define PF_JOBS_FOLLOWED 16384

/* Jobs that are not done yet. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PF_JOBS_FOLLOWED);
	__type(key, struct pf_job_key);
	__type(value, struct pf_job);
} pf_jobs SEC(".maps");

struct pf_job_added {
	struct pf_job_key key;
	__u64 queued;
};

#define BPF_MAP_TYPE_QUEUE 22

/* All that were added to them, in that order, those that are done among them. Each job that is not done is here, too. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, PF_JOBS_FOLLOWED);
	__type(value, struct pf_job_added);
} pf_jobs_added SEC(".maps");

static long (*const bpf_map_push_elem)(void *map, const void *value, __u64 flags) = (void *)87;
static long (*const bpf_map_pop_elem)(void *map, void *value) = (void *)88;

struct pf_job_ring {
	char name[16];
	char driver[16];
};

#define BPF_MAP_TYPE_LRU_HASH 9

/*
 * When a ring of the scheduler was done with its latest job, whosever it was. It runs its jobs one after the other: one
 * that it got before has begun then.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 256);
	__type(key, struct pf_job_ring);
	__type(value, __u64);
} pf_job_rings SEC(".maps");

/*
 * Where a tracepoint's event has its fields, as the kernel's own description tells: 16 bits each of ring, driver, first
 * and second key; 0: it has none. The highest bit: of a text, it is a pointer; of a key, it has 4 bytes.
 */
#define PF_JOB_FIELD(format, index) (((format) >> (16 * (index))) & 0x7fff)
#define PF_JOB_FLAG(format, index) (((format) >> (16 * (index))) & 0x8000)

static __always_inline void pf_job_text(char text[16], void *event, __u64 format, __u32 index)
{
	__u64 offset = PF_JOB_FIELD(format, index), place = 0;

	if (!offset)
		return;
	if (PF_JOB_FLAG(format, index)) {
		bpf_probe_read_kernel(&place, sizeof(place), event + offset);
	} else {
		/* Lower half: where in the event the text begins. */
		bpf_probe_read_kernel(&place, 4, event + offset);
		place = (__u64)event + (place & 0xffff);
	}
	bpf_probe_read_kernel_str(text, 16, (void *)place);
}

static __always_inline __u64 pf_job_number(void *event, __u64 format, __u32 index)
{
	__u64 offset = PF_JOB_FIELD(format, index), number = 0;

	if (!offset)
		return 0;
	if (PF_JOB_FLAG(format, index))
		bpf_probe_read_kernel(&number, 4, event + offset);
	else
		bpf_probe_read_kernel(&number, 8, event + offset);
	return number;
}

static __always_inline void pf_job_key_of(struct pf_job_key *key, void *event, __u64 format, _Bool of_fences)
{
	key->of_fences = of_fences;
	key->first = pf_job_number(event, format, 2);
	key->second = pf_job_number(event, format, 3);
}

/* Fences of the scheduler itself, and those that stand for others: `drm_sched`, `dma_fence_array`, `stub`. */
static __always_inline _Bool pf_job_is_of_others(const struct pf_job *job)
{
	const char *driver = job->driver;

	return (driver[0] == 'd' && driver[1] == 'r' && driver[2] == 'm' && driver[3] == '_') ||
	       (driver[0] == 'd' && driver[1] == 'm' && driver[2] == 'a' && driver[3] == '_') ||
	       (driver[0] == 's' && driver[1] == 't' && driver[2] == 'u' && driver[3] == 'b');
}

/* The end of a job is not waited for any more. */
static __always_inline void pf_give_up_job(const struct pf_job_key *key, __u32 tid, __u16 type)
{
	if (bpf_map_delete_elem(&pf_jobs, key) || !tid)
		return;
	__sync_fetch_and_add(&pf_jobs_pending, -1);
	pf_lose(type, PF_JOB_TABLE_FULL);
}

/* One that is never done, as of a device that hangs, gives way to later ones. */
static __always_inline void pf_oldest_job_gives_way(__u16 type)
{
	struct pf_job_added oldest = {};
	struct pf_job *job;

	if (bpf_map_pop_elem(&pf_jobs_added, &oldest))
		return;
	job = bpf_map_lookup_elem(&pf_jobs, &oldest.key);
	/* If it is done, the key may be another's. */
	if (job && job->queued == oldest.queued)
		pf_give_up_job(&oldest.key, job->tid, type);
}

static __always_inline void pf_add_job(const struct pf_job_key *key, const struct pf_job *job, __u16 type)
{
	struct pf_job_added added = { .key = *key, .queued = job->queued };
	struct pf_job *before = bpf_map_lookup_elem(&pf_jobs, key);
	long failed;

	/* The kernel numbers another one so: this one's end was not seen. */
	if (before)
		pf_give_up_job(key, before->tid, type);
	failed = bpf_map_push_elem(&pf_jobs_added, &added, BPF_ANY);
	if (failed) {
		pf_oldest_job_gives_way(type);
		failed = bpf_map_push_elem(&pf_jobs_added, &added, BPF_ANY);
	}
	if (!failed)
		failed = bpf_map_update_elem(&pf_jobs, key, job, BPF_ANY);
	if (!job->tid)
		return;
	if (failed)
		pf_lose(type, PF_JOB_TABLE_FULL);
	else
		__sync_fetch_and_add(&pf_jobs_pending, 1);
}

/* The target's thread gives a job to the driver; where its fence is emitted, to the device, too. */
static __always_inline int pf_job_begins(void *event, __u64 format, __u32 since, _Bool of_fences, __u16 type)
{
	struct pf_thread *thread = pf_current_anywhere();
	struct pf_job job = {};
	struct pf_job_key key;

	if (!thread || !pf_wanted())
		return 0;
	pf_job_key_of(&key, event, format, of_fences);
	/* Some drivers number a fence when it is emitted: it becomes known then. */
	if (of_fences && !key.second)
		return 0;
	job.queued = bpf_ktime_get_ns();
	job.started = since == PF_JOB_SINCE_EMITTED ? job.queued : 0;
	job.tid = thread->tid;
	job.since = since;
	pf_job_text(job.name, event, format, 0);
	pf_job_text(job.driver, event, format, 1);
	if (of_fences && pf_job_is_of_others(&job))
		return 0;
	pf_add_job(&key, &job, type);
	return 0;
}

/* The scheduler gives a job to the device. One of another process is of interest for when the ring is done with it. */
static __always_inline int pf_job_runs(void *event, __u64 format, __u16 type)
{
	struct pf_job other = {};
	struct pf_job_key key;
	struct pf_job *job;

	pf_job_key_of(&key, event, format, 0);
	job = bpf_map_lookup_elem(&pf_jobs, &key);
	if (job && !job->started) {
		job->started = bpf_ktime_get_ns();
		job->since = PF_JOB_SINCE_RUN;
	} else if (!job) {
		pf_job_text(other.name, event, format, 0);
		pf_job_text(other.driver, event, format, 1);
		other.queued = bpf_ktime_get_ns();
		pf_add_job(&key, &other, type);
	}
	return 0;
}

static __always_inline int pf_fence_is_emitted(void *event, __u64 format, __u16 type)
{
	struct pf_job_key key;
	struct pf_job *job;

	pf_job_key_of(&key, event, format, 1);
	job = bpf_map_lookup_elem(&pf_jobs, &key);
	if (!job)
		return pf_job_begins(event, format, PF_JOB_SINCE_EMITTED, 1, type);
	if (!job->started) {
		job->started = bpf_ktime_get_ns();
		job->since = PF_JOB_SINCE_EMITTED;
	}
	return 0;
}

/* When a job that is done began. */
static __always_inline __u64 pf_job_began(const struct pf_job *job, _Bool of_fences, __u64 now)
{
	__u64 began = job->started ? job->started : job->queued, *before;
	struct pf_job_ring ring;

	if (of_fences)
		return began;
	__builtin_memcpy(ring.name, job->name, sizeof(ring.name));
	__builtin_memcpy(ring.driver, job->driver, sizeof(ring.driver));
	before = bpf_map_lookup_elem(&pf_job_rings, &ring);
	if (before && *before > began)
		began = *before;
	bpf_map_update_elem(&pf_job_rings, &ring, &now, BPF_ANY);
	return began < now ? began : now;
}

#define PF_JOB_TRACEPOINT(function, category, event) SEC("tp/" #category "/" #event) int function(void *event_of_kernel)

#define PF_AT_JOB_QUEUED(function, structure, type, category, event)                                                   \
	PF_JOB_TRACEPOINT(function, category, event)                                                                   \
	{                                                                                                              \
		return pf_job_begins(event_of_kernel, pf_job_queued, PF_JOB_SINCE_CREATED, 0, type);                   \
	}
#define PF_AT_JOB_RUN(function, structure, type, category, event)                                                      \
	PF_JOB_TRACEPOINT(function, category, event)                                                                   \
	{                                                                                                              \
		return pf_job_runs(event_of_kernel, pf_job_run, type);                                                 \
	}
#define PF_AT_FENCE_MADE(function, structure, type, category, event)                                                   \
	PF_JOB_TRACEPOINT(function, category, event)                                                                   \
	{                                                                                                              \
		return pf_job_begins(event_of_kernel, pf_fence_made, PF_JOB_SINCE_CREATED, 1, type);                   \
	}
#define PF_AT_FENCE_EMITTED(function, structure, type, category, event)                                                \
	PF_JOB_TRACEPOINT(function, category, event)                                                                   \
	{                                                                                                              \
		return pf_fence_is_emitted(event_of_kernel, pf_fence_emitted, type);                                   \
	}
#define PF_AT_JOB_ENDS(function, structure, type, category, event, format, of_fences)                                  \
	PF_JOB_TRACEPOINT(function, category, event)                                                                   \
	{                                                                                                              \
		__u64 now = bpf_ktime_get_ns();                                                                        \
		struct structure record = {};                                                                          \
		struct pf_job_key key;                                                                                 \
		struct pf_job *job;                                                                                    \
                                                                                                                       \
		pf_job_key_of(&key, event_of_kernel, format, of_fences);                                               \
		job = bpf_map_lookup_elem(&pf_jobs, &key);                                                             \
		if (!job)                                                                                              \
			return 0;                                                                                      \
		pf_start(&record, type, PF_NO_SITE, job->tid, pf_job_began(job, of_fences, now));                      \
		if (!job->tid) {                                                                                       \
			bpf_map_delete_elem(&pf_jobs, &key);                                                           \
			return 0;                                                                                      \
		}                                                                                                      \
		record.header.duration = now - record.header.start;                                                    \
		record.queued = job->queued;                                                                           \
		record.job_since = job->since;                                                                         \
		__builtin_memcpy(record.name, job->name, sizeof(record.name));                                         \
		__builtin_memcpy(record.driver, job->driver, sizeof(record.driver));                                   \
		if (bpf_map_delete_elem(&pf_jobs, &key))                                                               \
			return 0;                                                                                      \
		__sync_fetch_and_add(&pf_jobs_pending, -1);                                                            \
		pf_send_unnumbered(&record, sizeof(record));                                                           \
		return 0;                                                                                              \
	}
#define PF_AT_JOB_DONE(function, structure, type, category, event)                                                     \
	PF_AT_JOB_ENDS(function, structure, type, category, event, pf_job_done, 0)
#define PF_AT_FENCE_SIGNALED(function, structure, type, category, event)                                               \
	PF_AT_JOB_ENDS(function, structure, type, category, event, pf_fence_signaled, 1)
