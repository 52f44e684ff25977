// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/*
 * Objects are described once and referred to by address. What was said of each is remembered as a fingerprint of its
 * described fields; the description is repeated when the fingerprint changes.
 */
#pragma once
#include "call.h"

struct pf_object_key {
	__u64 address;
	__u32 pid;
	__u32 type;
};

/* Least recently used: an object that falls out is described again, which costs but loses nothing. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct pf_object_key);
	__type(value, __u64);
} pf_objects SEC(".maps");

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

	if (at + size > PF_BLOCK)
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

/* A fingerprint of a record's fields: multiply and rotate over its words. */
static __always_inline __u64 pf_fingerprint(const void *record, __u32 size)
{
	const __u64 *word = record + sizeof(struct pf_header);
	__u64 hash = 0x9e3779b97f4a7c15;

	for (__u32 i = 0; i < (size - sizeof(struct pf_header)) / 8; i++) {
		hash = (hash ^ word[i]) * 0xff51afd7ed558ccd;
		hash ^= hash >> 32;
	}
	return hash;
}

/* Whether this has not been said of the object yet; remembers that it has now. */
static __always_inline _Bool pf_is_news(struct pf_thread *thread, __u64 address, __u32 type, __u64 fingerprint)
{
	struct pf_object_key key = { .address = address, .pid = thread->pid, .type = type };
	__u64 *known = bpf_map_lookup_elem(&pf_objects, &key);

	if (known && *known == fingerprint)
		return 0;
	if (bpf_map_update_elem(&pf_objects, &key, &fingerprint, BPF_ANY))
		pf_lose(type, PF_OBJECT_TABLE_FULL);
	return 1;
}
