// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/*
 * The kernel's BPF interface, as far as profinfer uses it: integer types, map kinds, helper numbers, kernel types.
 * All of it is the kernel's stable interface, written down here so that compiling needs no header of the system.
 */
#pragma once

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef signed short __s16;
typedef unsigned int __u32;
typedef signed int __s32;
typedef unsigned long long __u64;
typedef signed long long __s64;
typedef __u64 size_t;

#define NULL ((void *)0)
#define offsetof(type, member) __builtin_offsetof(type, member)
#define SEC(name) __attribute__((section(name), used))
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __ksym __attribute__((section(".ksyms")))
#define __weak __attribute__((weak))
#define __kernel_type __attribute__((preserve_access_index))

/* The form of numbers and types in BTF map definitions. */
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_PERF_EVENT_ARRAY 4
#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_MAP_TYPE_RINGBUF 27
#define BPF_MAP_TYPE_TASK_STORAGE 29
#define BPF_F_NO_PREALLOC 1
#define BPF_F_MMAPABLE 1024
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1
#define BPF_RB_AVAIL_DATA 0
#define BPF_RB_RING_SIZE 1
#define BPF_RB_NO_WAKEUP 1
#define BPF_RB_FORCE_WAKEUP 2
#define BPF_ANY 0
#define BPF_NOEXIST 1

struct bpf_pidns_info {
	__u32 pid;
	__u32 tgid;
};

/* Kernel types: only what is read, found by BTF at load whatever the kernel's layout. */
struct ns_common {
	unsigned int inum;
} __kernel_type;

struct pid_namespace {
	struct ns_common ns;
} __kernel_type;

/* Whole: an array of it is stepped through with its size. */
struct upid {
	int nr;
	struct pid_namespace *ns;
} __kernel_type;

struct pid {
	unsigned int level;
	struct upid numbers[];
} __kernel_type;

typedef struct {
	__u32 val;
} __kernel_type kuid_t;

struct cred {
	kuid_t uid;
	kuid_t suid;
} __kernel_type;

struct thread_info {
	__u32 cpu;
} __kernel_type;

typedef struct {
	int counter;
} __kernel_type atomic_t;

/* What differs between architectures: both members are where the thread-local variables are. */
struct thread_struct {
#if defined(__TARGET_ARCH_x86)
	unsigned long fsbase;
#else
	struct {
		unsigned long tp_value;
	} uw;
#endif
} __kernel_type;

/* What the threads of a process share. */
struct signal_struct {
	atomic_t live; /* threads that have not ended */
} __kernel_type;

struct task_struct {
	struct thread_info thread_info;
	int nr_cpus_allowed;
	int pid;
	int tgid;
	char comm[16];
	struct pid *thread_pid;
	struct task_struct *group_leader;
	struct signal_struct *signal;
	struct mm_struct *mm;
	const struct cred *cred;
	struct uprobe_task *utask;
	unsigned long sas_ss_sp; /* the stack for signals */
	size_t sas_ss_size;
	unsigned int __state;
	unsigned int in_iowait : 1;
	struct thread_struct thread;
} __kernel_type;

/* Where the kernel has calls return to whose return is probed: the start of a separate page in the process. */
struct xol_area {
	unsigned long vaddr;
} __kernel_type;

struct uprobes_state {
	struct xol_area *xol_area;
} __kernel_type;

/* A call whose return is probed, and where it would have returned to; then the one around it. */
struct return_instance {
	unsigned long stack; /* at the call's entry */
	unsigned long orig_ret_vaddr;
	struct return_instance *next;
} __kernel_type;

struct uprobe_task {
	struct return_instance *return_instances;
} __kernel_type;

struct mm_struct {
	struct uprobes_state uprobes_state;
	unsigned long start_stack; /* of the first thread */
} __kernel_type;

/* Memory that is mapped in one piece. */
struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
} __kernel_type;

/* Before Linux 5.14. */
struct task_struct___old_state {
	long state;
} __kernel_type;

/* Before Linux 5.16. */
struct task_struct___old_cpu {
	unsigned int cpu;
} __kernel_type;

/* Whether the running kernel's structure has a member. */
#define PF_HAS_MEMBER(pointer, member) __builtin_preserve_field_info((pointer)->member, 2)

/* Where a member is, how many bytes it has, and what leaves its bits of 64 where it is a bit field. */
#define PF_FIELD_OFFSET(pointer, member) __builtin_preserve_field_info((pointer)->member, 0)
#define PF_FIELD_BYTES(pointer, member) __builtin_preserve_field_info((pointer)->member, 1)
#define PF_FIELD_LEFT(pointer, member) __builtin_preserve_field_info((pointer)->member, 4)
#define PF_FIELD_RIGHT(pointer, member) __builtin_preserve_field_info((pointer)->member, 5)

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value, __u64 flags) = (void *)2;
static long (*const bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static __u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static __u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static __u64 (*const bpf_get_current_task)(void) = (void *)35;
static long (*const bpf_get_stack)(void *context, void *into, __u32 size, __u64 flags) = (void *)67;
static long (*const bpf_probe_read_user)(void *into, __u32 size, const void *from) = (void *)112;
static long (*const bpf_probe_read_kernel)(void *into, __u32 size, const void *from) = (void *)113;
static long (*const bpf_probe_read_user_str)(void *into, __u32 size, const void *from) = (void *)114;
static long (*const bpf_probe_read_kernel_str)(void *into, __u32 size, const void *from) = (void *)115;
static long (*const bpf_send_signal_thread)(__u32 signal) = (void *)117;
static long (*const bpf_get_ns_current_pid_tgid)(__u64 dev, __u64 ino, struct bpf_pidns_info *into,
						 __u32 size) = (void *)120;
static long (*const bpf_ringbuf_output)(void *ring, void *data, __u64 size, __u64 flags) = (void *)130;
static void *(*const bpf_ringbuf_reserve)(void *ring, __u64 size, __u64 flags) = (void *)131;
static void (*const bpf_ringbuf_submit)(void *data, __u64 flags) = (void *)132;
static __u64 (*const bpf_ringbuf_query)(void *ring, __u64 what) = (void *)134;
static void *(*const bpf_task_storage_get)(void *map, struct task_struct *task, void *value, __u64 flags) = (void *)156;
static struct task_struct *(*const bpf_get_current_task_btf)(void) = (void *)158;
static __u64 (*const bpf_get_attach_cookie)(void *context) = (void *)174;
static struct pt_regs *(*const bpf_task_pt_regs)(struct task_struct *task) = (void *)175;
static long (*const bpf_find_vma)(struct task_struct *task, __u64 address, void *callback, void *context,
				  __u64 flags) = (void *)180;
static long (*const bpf_loop)(__u32 times, void *callback, void *context, __u64 flags) = (void *)181;

/* Kernel 6.13 and later: whether a session program runs at the function's return. */
extern _Bool bpf_session_is_return(void) __ksym __weak;

char LICENSE[] SEC("license") = "Dual MIT/GPL";
