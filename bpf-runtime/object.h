// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/*
 * Objects are described once and referred to by address. The last description of each is remembered as a fingerprint of its
 * described fields; the description is repeated when the fingerprint changes. Within one graph an object stays as it is:
 * it is inspected once, and once in all graphs of one identity.
 */
#pragma once
#include "call.h"

/* A power of two. */
#define PF_OBJECTS (1 << 17)

/*
 * The state of an object. Its place in the table follows from its address; another that has the same place takes it
 * over, and is told apart by the key that is mixed into both words. Each is written and compared whole, so that it is
 * right or of no use whatever other threads write meanwhile.
 */
struct pf_object {
	__u64 described; /* fingerprint of the last description */
	__u64 seen; /* the graph that it was read in, or that graph's identity */
};

/* An array and not a hash table: the lookup is a few instructions of the program itself. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PF_OBJECTS);
	__type(key, __u32);
	__type(value, struct pf_object);
} pf_objects SEC(".maps");

static __always_inline __u64 pf_mix(__u64 hash)
{
	hash *= 0xff51afd7ed558ccd;
	hash ^= hash >> 32;
	hash *= 0xc4ceb9fe1a85ec53;
	return hash ^ hash >> 29;
}

/* Objects of this many bytes of address space, a power of two, keep their order in the table. */
#define PF_REGION (16 * PF_OBJECTS)

/*
 * An object of a process, in a number: its region of the address space, mixed, and where it is in that. Objects that lie
 * together, as those of a graph do, have places together: the table's pages that a graph needs are few, and a page that
 * the processor does not know costs as much as a read.
 */
static __always_inline __u64 pf_object_key(struct pf_thread *thread, __u64 address, __u32 type)
{
	__u64 region = address / PF_REGION ^ ((__u64)thread->pid << 32 | type) * 0x9e3779b97f4a7c15;

	return pf_mix(region) + address % PF_REGION;
}

static __always_inline struct pf_object *pf_object(__u64 key)
{
	__u32 place = key / 16 & (PF_OBJECTS - 1);

	return bpf_map_lookup_elem(&pf_objects, &place);
}

/*
 * What `seen` is of an object that was read in a graph; with `around`, together with what it refers to. 0: in none,
 * so that nothing is taken as unchanged.
 */
static __always_inline __u64 pf_sight(__u64 graph, __u64 key, _Bool around)
{
	return graph ? key ^ (graph << 1 | around) : 0;
}

static __always_inline _Bool pf_has_seen(struct pf_thread *thread, const struct pf_object *known, __u64 key,
					 _Bool around)
{
	__u64 graph = thread->graph, seen = known->seen;

	if (!graph)
		return 0;
	return seen == pf_sight(graph, key, 1) || (!around && seen == pf_sight(graph, key, 0));
}

/*
 * Graphs of one identity have the same objects: what was read in one is not read in the next. One of so many
 * is read all the same. Where an object is not what it was, identities are worth nothing, and the loss is counted:
 * operators since may have been told of as what they were before.
 */
#define PF_GRAPHS_A_CHECK 32

_Bool pf_identities_fail;

static __always_inline void pf_graph_begins(struct pf_call *call, __u64 identity)
{
	struct pf_thread *thread = call->thread;
	__u64 memory = 0;

	thread->graph = call->now;
	thread->vouched = 0;
	if (!identity || pf_identities_fail)
		return;
	/* Another program in the same process counts its graphs anew. */
	bpf_probe_read_kernel(&memory, sizeof(memory), &pf_task()->mm);
	identity = pf_mix(identity ^ pf_mix(memory)) | 1;
	if (thread->graphs++ % PF_GRAPHS_A_CHECK)
		thread->graph = identity;
	else
		thread->vouched = identity;
}

/* Whether an object was passed over because of its graph's identity, up to now. */
static __always_inline _Bool pf_was_vouched_for(struct pf_thread *thread, const struct pf_object *known, __u64 key)
{
	__u64 graph = thread->vouched, seen = known->seen;

	return graph && (seen == pf_sight(graph, key, 0) || seen == pf_sight(graph, key, 1));
}

static __always_inline void pf_changed_unseen(__u16 type)
{
	pf_identities_fail = 1;
	pf_lose(type, PF_CHANGED_UNSEEN);
}

/* Another object may be at an address now: the description of the one before does not apply. */
static __always_inline void pf_object_forget(struct pf_thread *thread, __u64 address, __u32 type)
{
	struct pf_object *known = pf_object(pf_object_key(thread, address, type));

	if (!known)
		return;
	known->described = 0;
	known->seen = 0;
}

/* Reads the part of an object that its description needs, all at once: a read costs more than its bytes. */
static __always_inline long pf_object_block(struct pf_call *call, __u64 address, __u64 start, __u64 length)
{
	call->object = address;
	call->block_start = start;
	if (length > PF_BLOCK)
		return -1;
	return pf_read(call->thread->block, length, address + start);
}

/* Copies from that part. Sizes are constants, so this becomes plain loads and stores. */
static __always_inline long pf_object_read(struct pf_call *call, __u64 offset, void *into, __u32 size)
{
	__u64 at = offset - call->block_start;
	const __u8 *from;
	__u8 *to = into;
	__u32 i = 0;

	if (at > PF_BLOCK - size)
		return -1;
	from = call->thread->block + at;
	for (; i + 8 <= size; i += 8)
		*(__u64 *)(to + i) = *(const __u64 *)(from + i);
	if (i + 4 <= size) {
		*(__u32 *)(to + i) = *(const __u32 *)(from + i);
		i += 4;
	}
	for (; i < size; i++)
		to[i] = from[i];
	return 0;
}

/* A fingerprint in the making: four words at a time that need not wait for one another. */
struct pf_hash {
	__u64 a, b, c, d;
};

static __always_inline void pf_hash_word(struct pf_hash *hash, __u64 word)
{
	__u64 a = (hash->a ^ word) * 0xff51afd7ed558ccd;

	hash->a = hash->b;
	hash->b = hash->c;
	hash->c = hash->d;
	hash->d = a ^ a >> 32;
}

static __always_inline __u64 pf_hash_end(const struct pf_hash *hash)
{
	return pf_mix((hash->a ^ hash->b * 0x9e3779b97f4a7c15) + (hash->c * 0xc4ceb9fe1a85ec53 ^ hash->d));
}

/* Adds bytes of the object that was read. */
static __always_inline void pf_hash_block(struct pf_hash *hash, struct pf_call *call, __u64 offset, __u32 size)
{
	__u64 at = offset - call->block_start;
	const __u8 *from;
	__u32 i = 0;

	if (at > PF_BLOCK - size)
		return;
	from = call->thread->block + at;
	for (; i + 8 <= size; i += 8)
		pf_hash_word(hash, *(const __u64 *)(from + i));
	if (i + 4 <= size) {
		pf_hash_word(hash, *(const __u32 *)(from + i));
		i += 4;
	}
	for (; i < size; i++)
		pf_hash_word(hash, from[i]);
}

/* An address in the object that was read last. */
static __always_inline __u64 pf_block_address(struct pf_thread *thread, __u64 at)
{
	return at > PF_BLOCK - sizeof(__u64) ? 0 : *(__u64 *)(thread->block + at);
}

/* Adds the fields of a record. */
static __always_inline void pf_hash_record(struct pf_hash *hash, const void *record, __u32 size)
{
	const __u64 *word = record + sizeof(struct pf_header);

	for (__u32 i = 0; i < (size - sizeof(struct pf_header)) / 8; i++)
		pf_hash_word(hash, word[i]);
}

/* An object that is being inspected. */
struct pf_inspection {
	struct pf_object *known;
	struct pf_hash hash;
	__u64 key;
	__u64 fingerprint;
	int news;
};

/*
 * Begins to inspect an object: 1. 0: it was inspected in this graph already. Below 0: there is none that can be read.
 * `around`: what it refers to will be inspected, too.
 */
static __always_inline int pf_inspect(struct pf_inspection *it, struct pf_call *call, __u64 address, int around,
				      __u16 type, __u64 first_byte, __u64 bytes)
{
	it->key = pf_object_key(call->thread, address, type);
	it->known = pf_object(it->key);
	it->hash = (struct pf_hash){ it->key, 0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb };
	it->news = 1;
	if (!address || !it->known)
		return -1;
	if (pf_has_seen(call->thread, it->known, it->key, around))
		return 0;
	if (pf_object_block(call, address, first_byte, bytes)) {
		pf_lose(type, PF_READ_FAILED);
		return -1;
	}
	return 1;
}

/* Whether what was hashed is not what was described last. */
static __always_inline _Bool pf_is_news(struct pf_inspection *it)
{
	it->fingerprint = pf_hash_end(&it->hash);
	return it->known->described != it->fingerprint;
}

static __always_inline void pf_send_description(struct pf_inspection *it, struct pf_thread *thread, void *record,
						__u64 size)
{
	struct pf_header *header = record;

	if (pf_was_vouched_for(thread, it->known, it->key))
		pf_changed_unseen(header->type);
	/* What did not get away is described again. */
	it->known->described = pf_send(thread, record, size) ? it->fingerprint : 0;
	it->news = 2;
}

/* 2: the object was described just now; 1: there was no news. */
static __always_inline int pf_inspected(struct pf_inspection *it, struct pf_thread *thread, int around)
{
	it->known->seen = it->known->described == it->fingerprint ? pf_sight(thread->graph, it->key, around) : 0;
	return it->news;
}

/* The objects that wait to be inspected, as numbers of their entries in the thread's list. */
struct pf_walk {
	struct pf_thread *thread;
	__u64 now;
	__u32 next;
	__u32 end;
};

/* Whether one waits. Where there were more than the list holds, the oldest are written over. */
static __always_inline _Bool pf_has_work(__u16 type, __u32 *next, __u32 end)
{
	if (*next == end)
		return 0;
	if (end - *next > PF_WORK) {
		pf_lose(type, PF_TRUNCATED);
		*next = end - PF_WORK;
	}
	return 1;
}
