// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/*
 * What the recorder and these programs agree on. Generated from crates/schema/src/bpf.rs: do not edit.
 * `BLESS=1 cargo test -p profinfer-schema` writes it anew.
 */
#pragma once
#include "bpf.h"

/* Every record starts with this; docs/trace-format.md describes it. */
struct pf_header {
	__u16 type;
	__u16 site;
	__u16 cpu;
	__u16 missing; /* bit i: field i could not be read */
	__u32 tid;
	__u32 seq; /* the thread's count of records from 1, lost ones included; 0: not counted */
	__u64 start; /* ns, CLOCK_MONOTONIC */
	__u64 duration; /* ns */
};
_Static_assert(sizeof(struct pf_header) == 32, "the header's size is part of the trace format");

#define PF_MOST_FIELDS 16 /* the bits of `missing` */
#define PF_NO_SITE 0xffff
#define PF_ABSENT_VALUE 0x4000000000000000 /* an offset or constant that the target lacks */

/* Record types that every program has; then come the probeset's objects and probes. */
enum pf_type {
	PF_THREAD,
	PF_THREAD_EXIT,
	PF_SWITCH,
	PF_WAKEUP,
	PF_FORK,
	PF_EXEC,
	PF_FIRST_OF_PROBESET,
};

struct pf_thread_record {
	struct pf_header header;
	__u32 pid;
	__u32 ns_tid;
	__u32 ns_pid;
	__u16 cpus_allowed;
	__u16 created;
	char comm[16];
};
_Static_assert(sizeof(struct pf_thread_record) == 64, "thread");

struct pf_thread_exit_record {
	struct pf_header header;
};
_Static_assert(sizeof(struct pf_thread_exit_record) == 32, "thread_exit");

struct pf_switch_record {
	struct pf_header header;
	__u32 prev_pid;
	__u32 prev_state;
	__u32 next_tid;
	__u32 next_pid;
	char prev_comm[16];
	char next_comm[16];
};
_Static_assert(sizeof(struct pf_switch_record) == 80, "switch");

struct pf_wakeup_record {
	struct pf_header header;
	__u32 waker_tid;
	__u32 waker_pid;
	__u32 target_cpu;
	__u32 reserved;
};
_Static_assert(sizeof(struct pf_wakeup_record) == 48, "wakeup");

struct pf_fork_record {
	struct pf_header header;
	__u32 child_tid;
	__u32 child_pid;
};
_Static_assert(sizeof(struct pf_fork_record) == 40, "fork");

struct pf_exec_record {
	struct pf_header header;
	__u32 cpus_allowed;
	__u32 reserved;
};
_Static_assert(sizeof(struct pf_exec_record) == 40, "exec");

/* Records that are for the recorder and never reach a trace. */
enum pf_control {
	PF_MAPPED = 0xff00,
	PF_EXECUTED = 0xff01,
	PF_LAST_STEP = 0xff02,
	PF_SAMPLE = 0xff03,
};

/* Losses, counted for each record type; docs/completeness.md describes them. */
enum pf_loss {
	PF_RING_FULL,
	PF_READ_FAILED,
	PF_MISSING_ENTRY,
	PF_MISSING_RETURN,
	PF_RECURSION,
	PF_TOO_DEEP,
	PF_NO_THREAD_STATE,
	PF_OBJECT_TABLE_FULL,
	PF_TRUNCATED,
	PF_NOT_ATTACHED,
	PF_STILL_OPEN,
	PF_UNDECIDED,
	PF_CHANGED_UNSEEN,
	PF_IMPLAUSIBLE,
	PF_JOB_TABLE_FULL,
};
#define PF_LOSSES_PER_TYPE 16
#define PF_CALLS_WITHIN 15 /* no loss: calls within one that stands for them */

/* Where an argument is: bits 0 to 7 of its place. */
enum pf_place {
	PF_IN_REGISTER = 1,
	PF_ON_STACK = 2,
	PF_STRUCT_ON_STACK = 3,
	PF_STRUCT_BY_REFERENCE = 4,
	PF_STRUCT_IN_REGISTERS = 5,
	PF_IN_MEMORY = 6,
	PF_SUM = 7,
	PF_CONSTANT = 8,
	PF_STRUCT_IN_MEMORY = 9,
	PF_INDEXED = 10,
};
#define PF_PLACE_KIND(place) (0xff & (place))
#define PF_PLACE_REGISTER(place) (((place) >> 8) & 0xff) /* as DWARF numbers it */
#define PF_PLACE_SECOND(place) (((place) >> 16) & 0xff)
#define PF_PLACE_SHIFT(place) (((place) >> 24) & 3) /* of the second register */
#define PF_PLACE_LOG_SIZE(place) (((place) >> 26) & 3)
#define PF_PLACE_SIGNED (1 << 28)
#define PF_PLACE_SIZED (1 << 29) /* size and sign are valid */
#define PF_PLACE_OFFSET(place) ((__u32)((place) >> 32)) /* from the stack pointer at the entry */
#define PF_PLACE_SIGNED_OFFSET(place) ((__s64)(place) >> 32) /* from the register's value */

/* A site's cookie: its number, and how far the stack pointer is below its value at the entry. */
#define PF_COOKIE_SITE(cookie) ((__u16)(cookie))
#define PF_COOKIE_STACK(cookie) (((cookie) >> 16) & 0xffff)

/* How a C++ library lays out std::string. */
enum pf_strings {
	PF_LIBSTDCXX = 1,
	PF_LIBSTDCXX_COW = 2,
	PF_LIBCXX = 3,
};

/* How a map of a C++ library is laid out, and how much of it is looked at. */
#define PF_MAP_SORTED 1
#define PF_MAP_COLOUR_FIRST 2
#define PF_MAP_FIRST(how) (((how) >> 8) & 0xff)
#define PF_MAP_COUNT(how) (((how) >> 16) & 0xff)
#define PF_MAP_ELEMENT(how) (((how) >> 24) & 0xff)
#define PF_MAP_VALUE(how) ((how) >> 32)
#define PF_MOST_ENTRIES 32
#define PF_MOST_KEY 63 /* bytes; one less than a power of two */
#define PF_KEY_WORDS 8

/* Values of pf_may_stop. */
#define PF_STOPS_NOTHING 0
#define PF_STOPS_OF_USER 1
#define PF_STOPS_ALL 2

/* Values of pf_sample_stacks. */
#define PF_STACKS_INNERMOST 0
#define PF_STACKS_FRAME_POINTERS 1
#define PF_STACKS_COPY 2

/* Bits of a sample's flags. */
#define PF_SAMPLE_IN_KERNEL 1
#define PF_SAMPLE_WITHOUT_DETAIL 2 /* operators were not recorded then */
#define PF_SAMPLE_FRAMES 4 /* the frames of its stack follow */
#define PF_SAMPLE_STACK_COPY 8 /* registers and a copy of the stack follow */

/* Beside the kernel's states of tasks. */
#define PF_STOPPED_BY_RECORDER 0x80000000
#define PF_WITHOUT_IO 0x40000000

/* Bounds. */
#define PF_BLOCK 1024 /* bytes of an object that are read at once */
#define PF_NESTED 8 /* open calls of a probe with `nested: all` on one thread */
#define PF_MOST_FRAMES 64 /* of a sample's stack */
#define PF_STACK_RETURNS 25 /* before these */
#define PF_KERNEL_FRAMES 32 /* of the kernel's stack, between them */
#define PF_STACK_COPY_BYTES 65536 /* of the stack that a sample has a copy of */
#define PF_STACK_PIECE 4096 /* bytes of it that are copied at once: a page */
#define PF_STACK_REGISTERS 4 /* before the copy */
#define PF_MOST_STOPPED 4096 /* processes stopped at one time */

/* Set by the recorder before the program is loaded. */
const volatile __u64 pf_ns_dev; /* device of the target's pid namespace */
const volatile __u64 pf_ns_ino; /* inode of the target's pid namespace */
const volatile __u64 pf_ns_pid; /* the target's process number in that namespace */
const volatile __u64 pf_follow_forks; /* 1: child processes are recorded too; the probes then fire in every process */
const volatile __u64 pf_first_step; /* first step to record, counted from 1; 0: all steps */
const volatile __u64 pf_last_step; /* last step to record */
const volatile __u64 pf_recorder_ino; /* inode of the recorder's pid namespace */
const volatile __u64 pf_recorder_uid; /* the recorder's user */
const volatile __u64 pf_may_stop; /* which processes the recorder can continue: PF_STOPS_NOTHING, _OF_USER or _ALL */
const volatile __u64 pf_detail_switches; /* 1: the probes of operators are attached and detached while recording */
const volatile __u64 pf_page_bytes; /* bytes of a page: the unit of the page cache */
const volatile __u64 pf_sample_stacks; /* what samples have of the user's stack: PF_STACKS_… */
#ifdef PF_COUNTERS
const volatile __u64 pf_cpus; /* possible CPUs */
const volatile __u64 pf_partial_counters; /* bit i: some CPUs cannot count counter i */
#endif
#ifdef PF_OLD_KERNEL
const volatile __u64 pf_has_cookies; /* 1: a program can ask which site it runs at; 0: see site_program.rs */
#endif
#ifdef PF_JOBS
const volatile __u64 pf_job_queued; /* fields of the tracepoint, see job.h */
const volatile __u64 pf_job_run; /* the same */
const volatile __u64 pf_job_done; /* the same */
const volatile __u64 pf_fence_made; /* the same */
const volatile __u64 pf_fence_emitted; /* the same */
const volatile __u64 pf_fence_signaled; /* the same */
#endif

/* Shared with the recorder while both run. */
__u64 pf_enabled; /* 1 once everything is attached */
__u64 pf_steps; /* steps begun */
__u64 pf_within_steps; /* threads that are in a step */
__u64 pf_calls_elsewhere; /* calls on stacks that the target made (fibers, coroutines) */
__u64 pf_detail_since; /* detail is recorded from here on: ns, CLOCK_MONOTONIC */
__u64 pf_detail_until; /* and up to here */
__u64 pf_graphs_switch; /* 1: graphs are attached and detached with the detail */
__u64 pf_steps_switch; /* 1: steps are, too */
__u64 pf_step_came; /* 1: a step has begun since pf_detail_since */
__u64 pf_waiting_since; /* entries that `waiting` is measured from are seen from here on: ns, CLOCK_MONOTONIC */
__u64 pf_waiting_until; /* and up to here; 0: always */
__u64 pf_other_slots; /* 1: there are sites of slots that are not probed any more */
__u64 pf_loss_changes; /* how often pf_losses has changed */
__u64 pf_samples; /* timer samples taken, lost ones included */
__u64 pf_samples_lost; /* of them, those that the ring had no space for */
#ifdef PF_JOBS
__u64 pf_jobs_pending; /* jobs of the target's that are not done */
#endif
