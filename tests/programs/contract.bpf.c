// A hand-written program that keeps the contract between generated programs and the recorder, and little else:
// it counts calls by cookie, so that a test can compare them with what really happened.
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static __u64 (*bpf_get_attach_cookie)(void *context) = (void *)174;
extern _Bool bpf_session_is_return(void) __attribute__((section(".ksyms"), weak));

struct {
	__uint(type, 27);
	__uint(max_entries, 4096);
} pf_ring SEC(".maps");

struct {
	__uint(type, 1);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u64);
} pf_threads SEC(".maps");

struct {
	__uint(type, 6);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} pf_losses SEC(".maps");

const volatile __u64 weight = 1;
VARIABLES

#ifdef PF_OLD_KERNEL
struct {
	__uint(type, 6);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} pf_site_cookie SEC(".maps");

static __u64 cookie(void *context)
{
	__u32 only = 0;
	__u64 *cookie = bpf_map_lookup_elem(&pf_site_cookie, &only);

	return pf_has_cookies || !cookie ? 0 : *cookie;
}
#else
static __u64 cookie(void *context) { return bpf_get_attach_cookie(context); }
#endif

static __attribute__((noinline)) int count(__u64 cookie)
{
	__u32 entry = cookie;
	__u64 *losses = bpf_map_lookup_elem(&pf_losses, &entry);

	if (!losses || !pf_enabled)
		return 0;
	__sync_fetch_and_add(losses, weight);
	__sync_fetch_and_add(&pf_steps, 1);
	return 0;
}

SEC("uprobe.session") int call(void *context)
{
	count(cookie(context) + (bpf_session_is_return() ? 1 : 0));
	return 0;
}

SEC("uprobe.multi") int call_entry(void *context) { return count(cookie(context)); }
SEC("uretprobe.multi") int call_return(void *context) { return count(cookie(context) + 1); }

SEC("uprobe.multi") int once_entry(void *context) { return count(cookie(context)); }

#line 3 "toy.yaml"
SEC("uprobe.multi") int refused_entry(void *context) { return *(int *)(context + 100000); }

SEC("uprobe.multi") int pf_mapped(void *context) { return count(30); }
SEC("tp_btf/sched_process_exit") int pf_thread_exit(void *context) { return 0; }
SEC("tp_btf/sched_process_fork") int pf_fork(void *context) { return 0; }
SEC("iter/task") int pf_end(void *context) { return 0; }
SEC("tp_btf/sched_process_exec") int pf_exec(void *context) { return 0; }

char _license[] SEC("license") = "GPL";
