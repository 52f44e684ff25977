// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/* One hit of a probe: where its arguments are, and reads of the target's memory. */
#pragma once
#include "registers.h"
#include "thread.h"

struct pf_call {
	struct pt_regs *regs;
	struct pf_thread *thread;
	__u64 now;
	__u64 sp; /* the stack pointer at the function's first instruction */
	__u64 object; /* address of the object that is being described */
	__u64 block_start; /* bytes from the object's start to the first byte in thread->block */
	__u16 site;
	__u32 tried; /* bit i: pieces[i] was read, or could not be */
	__u64 pieces[PF_PIECES]; /* of the target's memory, that several expressions need */
	_Bool unreadable; /* an argument in memory was */
	_Bool implausible; /* what was read cannot be what it is taken for */
	_Bool empty; /* what was to be read is not there, and need not be */
	_Bool not_all; /* it may be among what is not visited */
};

static __always_inline long pf_read(void *into, __u32 size, __u64 address)
{
	return bpf_probe_read_user(into, size, (void *)address);
}

static __always_inline long pf_read_text(void *into, __u32 size, __u64 address)
{
	/* What was here before is no part of it: objects are compared whole. A read that fails leaves zeros. */
	if (__builtin_constant_p(size) && size <= 256)
		__builtin_memset(into, 0, size);
	else
		bpf_probe_read_user(into, size, NULL);
	/* No text is an empty one. */
	if (!address)
		return 0;
	return bpf_probe_read_user_str(into, size, (void *)address) < 0 ? -1 : 0;
}

/* The sum of a register and an offset, by which arguments of inlined copies are found. */
static __always_inline __u64 pf_place_sum(struct pf_call *call, __u64 place)
{
	return pf_register(call->regs, PF_PLACE_REGISTER(place)) + PF_PLACE_SIGNED_OFFSET(place);
}

/* The value of which an argument is the lowest bytes. */
static __always_inline __u64 pf_narrow(__u64 place, __u64 value)
{
	__u32 unused = 64 - (8 << PF_PLACE_LOG_SIZE(place));

	value <<= unused & 63;
	return place & PF_PLACE_SIGNED ? (__u64)((__s64)value >> (unused & 63)) : value >> (unused & 63);
}

/* An argument of a static probe. */
static __noinline __u64 pf_static_argument(struct pf_call *call, __u64 place)
{
	__u64 address = pf_place_sum(call, place);
	__u64 value = 0;

	if (PF_PLACE_KIND(place) == PF_IN_REGISTER)
		return pf_narrow(place, address);
	if (PF_PLACE_KIND(place) == PF_INDEXED)
		address += pf_register(call->regs, PF_PLACE_SECOND(place)) << PF_PLACE_SHIFT(place);
	if (pf_read(&value, 1 << PF_PLACE_LOG_SIZE(place), address))
		call->unreadable = 1;
	return pf_narrow(place, value);
}

static __always_inline __u64 pf_argument(struct pf_call *call, __u64 place)
{
	__u64 value = 0;

	if (PF_PLACE_KIND(place) == PF_CONSTANT) {
		value = PF_PLACE_SIGNED_OFFSET(place);
		return place & PF_PLACE_SIZED ? pf_narrow(place, value) : value;
	}
	if (place & PF_PLACE_SIZED)
		return pf_static_argument(call, place);
	if (PF_PLACE_KIND(place) == PF_ON_STACK) {
		if (pf_read(&value, sizeof(value), call->sp + PF_PLACE_OFFSET(place)))
			call->unreadable = 1;
	} else if (PF_PLACE_KIND(place) == PF_IN_MEMORY) {
		if (pf_read(&value, sizeof(value), pf_place_sum(call, place)))
			call->unreadable = 1;
	} else {
		value = pf_place_sum(call, place);
	}
	return value;
}

/* Where a struct that was passed by value lies in memory; 0 where it is in registers. */
static __always_inline __u64 pf_argument_address(struct pf_call *call, __u64 place)
{
	if (PF_PLACE_KIND(place) == PF_STRUCT_ON_STACK)
		return call->sp + PF_PLACE_OFFSET(place);
	if (PF_PLACE_KIND(place) == PF_STRUCT_BY_REFERENCE)
		return pf_register(call->regs, PF_PLACE_REGISTER(place));
	if (PF_PLACE_KIND(place) == PF_STRUCT_IN_MEMORY)
		return pf_place_sum(call, place);
	return 0;
}

/* Part of a struct that was passed by value. */
static __always_inline long pf_argument_read(struct pf_call *call, __u64 place, __u64 offset, void *into, __u32 size)
{
	__u64 halves[3] = {};

	if (PF_PLACE_KIND(place) != PF_STRUCT_IN_REGISTERS)
		return pf_read(into, size, pf_argument_address(call, place) + offset);
	if (offset + size > 16)
		return -1;
	halves[0] = pf_register(call->regs, PF_PLACE_REGISTER(place));
	halves[1] = pf_register(call->regs, PF_PLACE_SECOND(place));
	return bpf_probe_read_kernel(into, size, (void *)halves + (offset & 15));
}

static __always_inline __u64 pf_result(struct pf_call *call)
{
	return pf_register(call->regs, PF_RESULT);
}

/* Division as C has it, by what is not zero (PF_DIVIDE): the processor has no signed one before version 4. */
static __always_inline __s64 pf_divide(__s64 left, __s64 right)
{
	__u64 a = left < 0 ? -left : left, b = right < 0 ? -right : right;
	__u64 quotient = b ? a / b : 0;

	return (left < 0) != (right < 0) ? -quotient : quotient;
}

static __always_inline __s64 pf_remainder(__s64 left, __s64 right)
{
	return right ? left - pf_divide(left, right) * right : 0;
}

/* The same of numbers without a sign; their bits are those of a number with one. */
static __always_inline __s64 pf_divide_unsigned(__u64 left, __u64 right)
{
	return right ? left / right : 0;
}

static __always_inline __s64 pf_remainder_unsigned(__u64 left, __u64 right)
{
	return right ? left % right : 0;
}

/* A field of variable length; its elements follow the record's fixed part. */
struct pf_list {
	__u32 count; /* elements that follow */
	__u32 total; /* elements there were */
};

static __always_inline long pf_read_list(void *field, void *elements, __u32 size, __u32 max, __s64 count, __u64 address)
{
	struct pf_list *list = field;
	__u32 wanted;
	__u64 bytes;

	list->count = 0;
	if (count < 0)
		count = 0;
	list->total = count > 0xffffffffLL ? 0xffffffff : count;
	wanted = list->total;
	if (wanted > max)
		wanted = max;
	bytes = (__u64)wanted * size;
	/* The verifier of 5.10 knows no copies of a number: what is compared must be what is used. */
	asm volatile("" : "+r"(bytes));
	if (bytes > (__u64)max * size || pf_read(elements, bytes, address))
		return -1;
	list->count = wanted;
	return 0;
}

/* A part of each element: parts lie `stride` bytes apart, and are read one by one. */
static __always_inline long pf_read_parts(void *field, void *elements, __u32 size, __u32 max, __s64 count,
					  __u64 address, __u64 stride)
{
	struct pf_list *list = field;
	__u32 i;

	list->count = 0;
	if (count < 0)
		count = 0;
	list->total = count > 0xffffffffLL ? 0xffffffff : count;
	for (i = 0; i < max; i++) {
		if (i >= list->total)
			break;
		if (pf_read(elements + i * size, size, address + i * stride))
			return -1;
	}
	list->count = i;
	return 0;
}

/* Notes which rows a list consists of; they are read when the list is sent, in as many records as they fill. */
static __always_inline long pf_rows(struct pf_call *call, void *field, __s64 width, __s64 count, __s64 stride,
				    __u64 address)
{
	struct pf_list *list = field;
	struct pf_rows *rows = &call->thread->rows;

	list->count = 0;
	list->total = 0;
	rows->address = address;
	rows->stride = stride;
	rows->width = width < 0 ? 0 : width > 0xffff ? 0xffff : width;
	rows->count = count < 0 ? 0 : count > 0xffff ? 0xffff : count;
	return 0;
}

/* Rows that are being read. */
struct pf_row_walk {
	struct pf_thread *thread;
	__u32 filled; /* elements in the record */
};

/* `more`: whether there may be elements beyond `max`, which is otherwise the end of an array. */
static __always_inline long pf_read_list_until_null(void *field, __u64 *elements, __u32 max, int more, __u64 address)
{
	struct pf_list *list = field;
	__u64 next;
	__u32 count;

	list->count = 0;
	for (count = 0; count < max; count++) {
		if (pf_read(&elements[count], sizeof(*elements), address + count * sizeof(*elements)))
			return -1;
		if (!elements[count])
			break;
	}
	list->count = count;
	list->total = count;
	/* Whether there are more: how many is not counted. */
	if (more && count == max && !pf_read(&next, sizeof(next), address + max * sizeof(next)) && next)
		list->total = max + 1;
	return 0;
}

static __always_inline void pf_forget_failure(struct pf_call *call)
{
	call->unreadable = 0;
	call->implausible = 0;
	call->empty = 0;
	call->not_all = 0;
}

/* At the beginning of a hit. */
static __always_inline void pf_nothing_read(struct pf_call *call)
{
	call->object = 0;
	call->block_start = 0;
	call->tried = 0;
	call->thread->failed = 0;
	for (int i = 0; i < PF_PIECES; i++)
		call->pieces[i] = 0;
	pf_forget_failure(call);
}

/* Begins a hit at a function's entry: one of that type of record. */
static __always_inline _Bool pf_enter(struct pf_call *call, struct pt_regs *regs, __u16 type)
{
	__u64 cookie;

	if (!pf_enabled)
		return 0;
	call->now = bpf_ktime_get_ns();
	call->thread = pf_current(type);
	if (!call->thread)
		return 0;
	cookie = pf_cookie(regs);
	call->regs = regs;
	call->site = PF_COOKIE_SITE(cookie);
	call->sp = pf_register(regs, PF_STACK_POINTER) + PF_COOKIE_STACK(cookie);
	pf_nothing_read(call);
	return 1;
}

/* Begins a hit at a function's return. */
static __always_inline _Bool pf_leave(struct pf_call *call, struct pt_regs *regs)
{
	if (!pf_enabled)
		return 0;
	call->now = bpf_ktime_get_ns();
	call->thread = pf_known();
	if (!call->thread)
		return 0;
	call->regs = regs;
	call->site = PF_COOKIE_SITE(pf_cookie(regs));
	call->sp = pf_register(regs, PF_STACK_POINTER) - PF_RETURN_ADDRESS;
	pf_nothing_read(call);
	return 1;
}

/* Whether an argument could not be read since this was last asked. */
static __always_inline _Bool pf_take_unreadable(struct pf_call *call)
{
	_Bool unreadable = call->unreadable;

	call->unreadable = 0;
	return unreadable;
}

/* Why something could not be read, which is forgotten here; and the same again. */
static __always_inline __u64 pf_take_failure(struct pf_call *call)
{
	__u64 failure = call->empty | call->implausible << 1 | call->not_all << 2;

	pf_forget_failure(call);
	return failure;
}

static __always_inline void pf_give_failure(struct pf_call *call, __u64 failure)
{
	call->empty = failure & 1;
	call->implausible = failure >> 1 & 1;
	call->not_all = failure >> 2 & 1;
}

/* Notes that a field could not be read, or that what was there cannot be it. */
static __always_inline void pf_missing(struct pf_call *call, void *record, __u32 field, __u64 absent)
{
	struct pf_header *header = record;
	enum pf_loss kind = call->implausible ? PF_IMPLAUSIBLE : call->not_all ? PF_TRUNCATED : PF_READ_FAILED;

	header->missing |= 1 << field;
	/* What the target has nothing for, or a class that may be empty has not got, is absent, and no loss. */
	if (!(absent >> field & 1) && !call->empty)
		pf_lose(header->type, kind);
	call->implausible = 0;
	call->empty = 0;
	call->not_all = 0;
}
