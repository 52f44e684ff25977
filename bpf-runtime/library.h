// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/*
 * What C++ libraries store in memory: vectors, strings, classes that may be empty, and pointers as distances. What cannot be what it
 * is taken for is not passed on: it is noted in the call, and counted as implausible.
 */
#pragma once
#include "call.h"

/* No text and no vector of an engine is larger, in bytes. */
#define PF_MOST_BYTES (1ULL << 40)

static __always_inline long pf_refuse(struct pf_call *call)
{
	call->implausible = 1;
	return -1;
}

/* libstdc++ and libc++ lay a vector out alike. */
struct pf_vector {
	__u64 begin;
	__u64 end;
	__u64 room;
	__u64 count;
};

static __always_inline long pf_read_vector(struct pf_call *call, struct pf_vector *vector, __u64 address, __u64 stride)
{
	__u64 bytes;

	if (pf_read(vector, offsetof(struct pf_vector, count), address))
		return -1;
	bytes = vector->end - vector->begin;
	if (vector->end < vector->begin || vector->room < vector->end || bytes > PF_MOST_BYTES)
		return pf_refuse(call);
	vector->count = stride ? bytes / stride : 0;
	if (vector->count * stride != bytes || (bytes && !vector->begin))
		return pf_refuse(call);
	return 0;
}

/* Whether the flag of an optional is set. */
static __always_inline long pf_read_flag(struct pf_call *call, __u8 *flag, __u64 address)
{
	if (pf_read(flag, sizeof(*flag), address))
		return -1;
	return *flag > 1 ? pf_refuse(call) : 0;
}

/* What is not there, and need not be. */
static __always_inline long pf_is_empty(struct pf_call *call)
{
	call->empty = 1;
	return -1;
}

/* The number of the alternative that a variant has. `tag`: eight times its offset, and its bytes, 1 or 4. */
static __always_inline long pf_read_number(struct pf_call *call, __u32 *number, __u64 address, __u64 tag, __u32 count)
{
	__u8 narrow = 0;
	long failed;

	*number = 0;
	if ((tag & 7) == 1) {
		failed = pf_read(&narrow, sizeof(narrow), address + (tag >> 3));
		/* None is the largest number of its size. */
		*number = narrow == 0xff ? -1U : narrow;
	} else {
		failed = pf_read(number, sizeof(*number), address + (tag >> 3));
	}
	if (failed)
		return -1;
	if (*number == -1U)
		return pf_is_empty(call);
	return *number >= count ? pf_refuse(call) : 0;
}

static __always_inline __u64 pf_string_bytes(__u64 strings)
{
	return strings == PF_LIBSTDCXX ? 32 : strings == PF_LIBSTDCXX_COW ? 8 : 24;
}

/* Where a string's text is, how long it is, and how long it may be where it is. */
struct pf_string {
	__u64 text;
	__u64 length;
	__u64 room;
};

static __always_inline long pf_find_string(struct pf_string *string, __u64 address, __u64 strings)
{
	__u64 word[3] = {};

	if (strings == PF_LIBSTDCXX) {
		/* The text's address, its length, and the capacity where the text is not in place. */
		if (pf_read(word, sizeof(word), address))
			return -1;
		string->text = word[0];
		string->length = word[1];
		string->room = word[0] == address + 16 ? 15 : word[2];
	} else if (strings == PF_LIBSTDCXX_COW) {
		/* The text's address; before it length, capacity, and how many share it. */
		if (pf_read(&string->text, sizeof(string->text), address) ||
		    pf_read(word, 2 * sizeof(__u64), string->text - 24))
			return -1;
		string->length = word[0];
		string->room = word[1];
	} else if (strings != PF_LIBCXX) {
		return -1;
	} else {
		if (pf_read(word, sizeof(word), address))
			return -1;
		if (word[0] & 1) {
			/* The capacity with its lowest bit set, the length, the text's address. */
			string->text = word[2];
			string->length = word[1];
			string->room = word[0] & ~1ULL;
		} else {
			/* Twice the length in a byte, then the text. */
			string->text = address + 1;
			string->length = (word[0] & 0xff) >> 1;
			string->room = 22;
		}
	}
	return 0;
}

static __always_inline long pf_read_string(struct pf_call *call, void *field, __u32 size, __u64 address, __u64 strings)
{
	struct pf_string string = {};
	__u32 length;

	__builtin_memset(field, 0, size);
	if (pf_find_string(&string, address, strings))
		return -1;
	if (!string.text || string.length > string.room || string.room > PF_MOST_BYTES)
		return pf_refuse(call);
	length = string.length > size ? size : string.length;
	if (length > size)
		return -1;
	return length && pf_read(field, length, string.text) ? -1 : 0;
}

/* Whether a distance leads further than it may. */
static __always_inline _Bool pf_is_far(struct pf_call *call, __s64 distance, __s64 most)
{
	if (distance <= most && distance >= -most)
		return 0;
	pf_refuse(call);
	return 1;
}

/* The address that a distance leads to from its place; 0 leads nowhere. */
static __always_inline __u64 pf_relative(__u64 place, __s64 distance)
{
	return distance ? place + distance : 0;
}
