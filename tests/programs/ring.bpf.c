// For benches/ring.rs: what sending a record costs with one ring for all and one for each cpu, and a source of records
// at any rate.
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name
#define __array(name, value) typeof(value) *name[]

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static __u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static __u32 (*bpf_get_smp_processor_id)(void) = (void *)8;
static long (*bpf_ringbuf_output)(void *ring, void *data, __u64 size, __u64 flags) = (void *)130;
static long (*bpf_loop)(__u32 times, void *callback, void *context, __u64 flags) = (void *)181;

struct ring {
	__uint(type, 27);
	__uint(max_entries, 16 * 1024 * 1024);
};

struct ring pf_ring SEC(".maps");
struct ring ring_0 SEC(".maps"), ring_1 SEC(".maps"), ring_2 SEC(".maps"), ring_3 SEC(".maps");

struct {
	__uint(type, 12);
	__uint(max_entries, 4);
	__type(key, __u32);
	__array(values, struct ring);
} rings SEC(".maps") = { .values = { &ring_0, &ring_1, &ring_2, &ring_3 } };

struct record {
	__u16 type, site, cpu, missing;
	__u32 tid, seq;
	__u64 start, duration;
	__u64 node;
	__u32 lane, padding;
};

__u64 lost = 0;
__u64 sent = 0;
__u64 produce_count = 0;

static inline __attribute__((always_inline)) void fill(struct record *record, __u32 seq)
{
	__builtin_memset(record, 0, sizeof(*record));
	record->site = 0xffff;
	record->tid = 1000 + (seq & 1);
	record->seq = seq / 2 + 1;
	record->start = bpf_ktime_get_ns();
	record->duration = 1000 + (seq * 2654435761u >> 20);
	record->node = 0x7f0000000000 + seq % 300 * 336;
	record->lane = seq & 1;
}

SEC("uprobe.multi") int hit_nothing(void *context) { return 0; }

SEC("uprobe.multi") int hit_filled(void *context)
{
	struct record record;

	fill(&record, 1);
	return record.start == 0;
}

SEC("uprobe.multi") int hit_shared(void *context)
{
	struct record record;

	fill(&record, 1);
	if (bpf_ringbuf_output(&pf_ring, &record, sizeof(record), 1))
		__sync_fetch_and_add(&lost, 1);
	return 0;
}

SEC("uprobe.multi") int hit_percpu(void *context)
{
	__u32 cpu = bpf_get_smp_processor_id() & 3;
	void *ring = bpf_map_lookup_elem(&rings, &cpu);
	struct record record;

	fill(&record, 1);
	if (!ring || bpf_ringbuf_output(ring, &record, sizeof(record), 1))
		__sync_fetch_and_add(&lost, 1);
	return 0;
}

static long one(__u32 index, void *context)
{
	struct record record;

	fill(&record, sent++);
	if (bpf_ringbuf_output(&pf_ring, &record, sizeof(record), 1))
		lost++;
	return 0;
}

SEC("syscall") int produce(void *context)
{
	bpf_loop(produce_count, one, 0, 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
