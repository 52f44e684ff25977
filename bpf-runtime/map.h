// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/*
 * The maps and sets of C++ libraries. Their elements are visited in the map's order, at most PF_MOST_ENTRIES of them:
 * which way a key lies depends on the target's functions, which are not called. What is visited is kept in the thread's
 * state, so that the functions below need no arguments: kernel 5.10 verifies such a function once, and not for each of
 * its calls.
 */
#pragma once
#include "library.h"

/* A look-up: an element, none, what cannot be read, what is no map, more elements than are visited. */
enum pf_look_up { PF_KEY_FOUND, PF_NO_KEY, PF_NO_MEMORY, PF_NO_MAP, PF_NOT_ALL };

/* Edges from an element of a tree to the next: a tree that is deeper has more elements than memory. */
#define PF_MOST_EDGES 64

/* Links of a node of a tree, in either library's order. */
struct pf_links {
	__u64 left;
	__u64 right;
	__u64 parent;
};

static __always_inline long pf_read_links(struct pf_links *links, __u64 node, __u64 how)
{
	__u64 word[3] = {};

	/* After the colour: parent, left, right. Otherwise: left, right, parent, the colour. */
	if (pf_read(word, sizeof(word), how & PF_MAP_COLOUR_FIRST ? node + 8 : node))
		return -1;
	links->left = how & PF_MAP_COLOUR_FIRST ? word[1] : word[0];
	links->right = how & PF_MAP_COLOUR_FIRST ? word[2] : word[1];
	links->parent = how & PF_MAP_COLOUR_FIRST ? word[0] : word[2];
	return 0;
}

/* The element after one of a tree: the first of those on its right, else the first that it is on the left of. */
static __always_inline enum pf_look_up pf_next_in_tree(struct pf_entries *entries)
{
	__u64 node = entries->node, child = 0;
	struct pf_links links;
	_Bool down = 0;

	for (__u32 i = 0; i < PF_MOST_EDGES; i++) {
		if (pf_read_links(&links, node, entries->how))
			return PF_NO_MEMORY;
		if (down) {
			if (!links.left)
				goto found;
			node = links.left;
			continue;
		}
		if (!child && links.right) {
			node = links.right;
			down = 1;
			continue;
		}
		if (child && links.left == child)
			goto found;
		if (child && links.right != child)
			return PF_NO_MAP;
		child = node;
		node = links.parent;
		if (node == entries->end) {
			node = 0;
			goto found;
		}
	}
	return PF_NO_MAP;
found:
	entries->node = node;
	return PF_KEY_FOUND;
}

/* Goes on to the next element; to 0 after the last. */
__noinline int pf_next_entry(void)
{
	struct pf_thread *thread = pf_thread_of(pf_task());
	__u64 next = 0;

	if (!thread)
		return PF_NO_MEMORY;
	if (thread->entries.how & PF_MAP_SORTED)
		return pf_next_in_tree(&thread->entries);
	if (pf_read(&next, sizeof(next), thread->entries.node))
		return PF_NO_MEMORY;
	thread->entries.node = next;
	return PF_KEY_FOUND;
}

/* Whether the element that is visited has the key that is looked for. */
static __always_inline enum pf_look_up pf_has_key(struct pf_entries *entries)
{
	__u64 at = entries->node + PF_MAP_ELEMENT(entries->how), differs = 0;
	__u64 bytes = entries->key_bytes;
	struct pf_string string = {};

	if (entries->strings) {
		if (pf_find_string(&string, at, entries->strings))
			return PF_NO_MEMORY;
		if (!string.text || string.length > string.room || string.room > PF_MOST_BYTES)
			return PF_NO_MAP;
		if (string.length != bytes)
			return PF_NO_KEY;
		at = string.text;
	}
	bytes &= PF_MOST_KEY;
	/* What was read before is of the same length: nothing of it remains. */
	if (bytes && pf_read(entries->key, bytes, at))
		return PF_NO_MEMORY;
	for (__u32 i = 0; i < PF_KEY_WORDS; i++)
		differs |= entries->key[i] ^ entries->wanted[i];
	return differs ? PF_NO_KEY : PF_KEY_FOUND;
}

/* Goes on to the element that has the key, if it is among those that are visited. */
__noinline int pf_find_entry(void)
{
	struct pf_thread *thread = pf_thread_of(pf_task());
	int found;

	if (!thread)
		return PF_NO_MEMORY;
	for (__u32 i = 0; i < PF_MOST_ENTRIES; i++) {
		if (i >= thread->entries.count)
			return thread->entries.node ? PF_NO_MAP : PF_NO_KEY;
		if (!thread->entries.node)
			return PF_NO_MAP;
		found = pf_has_key(&thread->entries);
		if (found != PF_NO_KEY)
			return found;
		found = pf_next_entry();
		if (found != PF_KEY_FOUND)
			return found;
	}
	if (thread->entries.count > PF_MOST_ENTRIES)
		return PF_NOT_ALL;
	return thread->entries.node ? PF_NO_MAP : PF_NO_KEY;
}

static __always_inline long pf_read_map_size(struct pf_call *call, __u64 *count, __u64 address, __u64 how)
{
	/* No element is smaller than a link. */
	if (how == PF_ABSENT_VALUE || pf_read(count, sizeof(*count), address + PF_MAP_COUNT(how)))
		return -1;
	return *count > PF_MOST_BYTES / sizeof(__u64) ? pf_refuse(call) : 0;
}

/* Goes to the first element. */
static __always_inline long pf_open_map(struct pf_call *call, __u64 address, __u64 how)
{
	struct pf_entries *entries = &call->thread->entries;
	__u64 count = 0, first = 0;

	if (pf_read_map_size(call, &count, address, how))
		return -1;
	if (pf_read(&first, sizeof(first), address + PF_MAP_FIRST(how)))
		return -1;
	entries->how = how;
	entries->count = count;
	entries->node = count ? first : 0;
	entries->end = address + 8;
	return 0;
}

static __always_inline long pf_not_looked_up(struct pf_call *call, int found)
{
	if (found == PF_NO_MAP)
		return pf_refuse(call);
	call->not_all = found == PF_NOT_ALL;
	return -1;
}

/* 1: the element was found; 0: there is none. Below 0: that is not known. */
static __always_inline long pf_look_up(struct pf_call *call, __u64 address, __u64 how)
{
	int found;

	if (pf_open_map(call, address, how))
		return -1;
	found = pf_find_entry();
	if (found == PF_KEY_FOUND)
		return 1;
	return found == PF_NO_KEY ? 0 : pf_not_looked_up(call, found);
}

/* The key that is looked for: a number of so many bytes. */
static __always_inline void pf_want_number(struct pf_call *call, __u32 bytes, __u64 value)
{
	struct pf_entries *entries = &call->thread->entries;

	for (__u32 i = 0; i < PF_KEY_WORDS; i++)
		entries->key[i] = entries->wanted[i] = 0;
	entries->wanted[0] = bytes < 8 ? value & ((1ULL << bytes * 8) - 1) : value;
	entries->key_bytes = bytes;
	entries->strings = 0;
}

/* A text of so many bytes, eight of them in a word. */
static __always_inline void pf_want_text(struct pf_call *call, __u64 strings, __u32 bytes, const __u64 *words,
					 __u32 many)
{
	struct pf_entries *entries = &call->thread->entries;

	for (__u32 i = 0; i < PF_KEY_WORDS; i++) {
		entries->key[i] = 0;
		entries->wanted[i] = i < many ? words[i] : 0;
	}
	entries->key_bytes = bytes;
	entries->strings = strings;
}

/* The elements' parts that lie `offset` bytes from their nodes. */
static __always_inline long pf_read_entries(struct pf_call *call, void *field, void *elements, __u32 size, __u32 max,
					    __u64 address, __u64 how, __u64 offset)
{
	struct pf_list *list = field;
	struct pf_entries *entries = &call->thread->entries;
	__u32 i;
	int found;

	if (pf_open_map(call, address, how))
		return -1;
	for (i = 0; i < max; i++) {
		if (i >= entries->count)
			break;
		if (!entries->node)
			return pf_refuse(call);
		if (pf_read(elements + i * size, size, entries->node + offset))
			return -1;
		found = pf_next_entry();
		if (found != PF_KEY_FOUND)
			return pf_not_looked_up(call, found);
	}
	if (entries->count <= max && entries->node)
		return pf_refuse(call);
	list->count = i;
	list->total = entries->count > 0xffffffffULL ? 0xffffffff : entries->count;
	return 0;
}

/* A look-up: 1, or 0 where there is no such key. `want` says what is looked for, once the map's place is known. */
#define PF_LOOK_UP(address, layout, want)                                                                              \
	({                                                                                                             \
		__u64 pf_at = (address), pf_how = (layout);                                                            \
		long pf_found;                                                                                         \
		want;                                                                                                  \
		pf_found = pf_look_up(call, pf_at, pf_how);                                                            \
		if (pf_found < 0)                                                                                      \
			goto pf_unreadable;                                                                            \
		(__s64) pf_found;                                                                                      \
	})
/* The address of what a key stands for. */
#define PF_MAPPED(address, layout, want)                                                                               \
	({                                                                                                             \
		__u64 pf_layout = (layout);                                                                            \
		if (!PF_LOOK_UP(address, pf_layout, want) && pf_is_empty(call))                                        \
			goto pf_unreadable;                                                                            \
		(__s64)(call->thread->entries.node + PF_MAP_ELEMENT(pf_layout) + PF_MAP_VALUE(pf_layout));             \
	})
#define PF_MAP_SIZE(address, layout) PF_TRY(__u64, pf_read_map_size(call, &pf_value, address, layout), pf_value)
#define PF_WANT_TEXT(strings, bytes, ...)                                                                              \
	({                                                                                                             \
		const __u64 pf_words[] = { __VA_ARGS__ };                                                              \
		pf_want_text(call, strings, bytes, pf_words, sizeof(pf_words) / sizeof(*pf_words));                    \
	})
