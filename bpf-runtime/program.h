// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/*
 * What generated programs are written in. In all of it `call` is the hit of the probe (struct pf_call *) and `record` the
 * record that is filled in. Reads jump to the label `pf_unreadable` where they fail; the macro around them has it.
 */
#pragma once
#include "call.h"
#include "fault.h"
#include "library.h"
#include "object.h"
#include "reclaim.h"
#include "sample.h"
#include "scheduler.h"
#include "span.h"

/* ---- The beginning of a program, which returns here where there is nothing to do ---- */

/* At a function's entry: declares `call`. The result tells whether the return is of no interest. */
#define PF_ENTER(type)                                                                                                 \
	struct pf_call pf_here, *call = &pf_here;                                                                      \
	int skip = 1;                                                                                                  \
                                                                                                                       \
	if (!pf_enter(call, regs, type))                                                                               \
	return skip
/* At its return. */
#define PF_LEAVE()                                                                                                     \
	struct pf_call pf_here, *call = &pf_here;                                                                      \
                                                                                                                       \
	if (!pf_leave(call, regs))                                                                                     \
	return 0
/* Goes on while probes of a tier are recorded; the first also only in the steps that are wanted. */
#define PF_WHILE_WANTED(tier)                                                                                          \
	if (!pf_wanted())                                                                                              \
		return skip;                                                                                           \
	PF_WHILE_ON(tier)
/* The same for a step: while it is open, others may begin that are not wanted. */
#define PF_WHILE_STEP_WANTED(tier)                                                                                     \
	if (!pf_enabled || (pf_first_step && !call->thread->in_window) || !pf_##tier##_on(call->now)) {                \
		pf_note_steps(call->thread);                                                                           \
		return skip;                                                                                           \
	}
#define PF_WHILE_ON(tier)                                                                                              \
	if (!pf_##tier##_on(call->now))                                                                                \
	return skip
/* The same for operators and all that has no other tier. */
#define PF_WHILE_DETAIL_WANTED()                                                                                       \
	PF_WHILE_WANTED(detail);                                                                                       \
	if (pf_in_earlier_step(call->thread))                                                                          \
	return skip

/* At the entry of a step, before and after the lines above. A graph that was left in the middle would go on for ever. */
#define PF_STEP_BEGINS(is_outermost)                                                                                   \
	do {                                                                                                           \
		if (is_outermost)                                                                                      \
			pf_step_begins(call->thread);                                                                  \
		call->thread->graph = 0;                                                                               \
	} while (0)
#define PF_STEP_CAME()                                                                                                 \
	do {                                                                                                           \
		if (pf_detail_switches && call->now >= pf_detail_since)                                                \
			pf_step_came = 1;                                                                              \
	} while (0)
/* At the end of its program: its record begins no later than now. */
#define PF_STEP_IS_OPEN()                                                                                              \
	do {                                                                                                           \
		if (pf_detail_switches && bpf_ktime_get_ns() >= pf_detail_since)                                       \
			call->thread->step_window = pf_detail_since;                                                   \
		pf_note_steps(call->thread);                                                                           \
	} while (0)

/* What follows is done with a record, if there is one. */
#define PF_WITH_RECORD(name, expression) for (struct name##_record *record = (expression); record; record = NULL)

/* ---- Reads: each is a number of 64 bits ---- */

/* An argument; a number in the target's memory, in a struct that was passed by value, in the object that was read. */
#define PF_ARGUMENT(type, place) ((__s64)(type)pf_argument(call, place))
#define PF_GET(type, address) PF_TRY(type, pf_read(&pf_value, sizeof(pf_value), address), pf_value)
#define PF_GET_PART(type, place, offset)                                                                               \
	PF_TRY(type, pf_argument_read(call, place, offset, &pf_value, sizeof(pf_value)), pf_value)
#define PF_GET_OBJECT(type, offset) PF_TRY(type, pf_object_read(call, offset, &pf_value, sizeof(pf_value)), pf_value)
#define PF_TRY(type, read, result)                                                                                     \
	({                                                                                                             \
		type pf_value;                                                                                         \
		if (read)                                                                                              \
			goto pf_unreadable;                                                                            \
		(__s64)(result);                                                                                       \
	})

/* A constant of the target that it may lack. */
#define PF_KNOWN(constant)                                                                                             \
	({                                                                                                             \
		if ((constant) == PF_ABSENT_VALUE)                                                                     \
			goto pf_unreadable;                                                                            \
		(__s64)(constant);                                                                                     \
	})

/* A number that several expressions of a program need: it is read once a hit. */
#define PF_PIECE(number, type, read)                                                                                   \
	({                                                                                                             \
		PF_READ_PIECE(number, type, read);                                                                     \
		PF_GOT_PIECE(number, type);                                                                            \
	})
#define PF_READ_PIECE(number, type, read)                                                                              \
	do {                                                                                                           \
		__label__ pf_unreadable, pf_tried;                                                                     \
		if (call->tried & (1 << (number)))                                                                     \
			break;                                                                                         \
		call->tried |= 1 << (number);                                                                          \
		*(type *)&call->pieces[number] = (read);                                                               \
		if (!pf_take_unreadable(call))                                                                         \
			goto pf_tried;                                                                                 \
	pf_unreadable:                                                                                                 \
		call->thread->failed |= 1 << (number);                                                                 \
		call->pieces[number] = pf_take_failure(call);                                                          \
	pf_tried:;                                                                                                     \
	} while (0)
/* Each use of what could not be read fails as the reading did. */
#define PF_GOT_PIECE(number, type)                                                                                     \
	({                                                                                                             \
		if (call->thread->failed & (1 << (number))) {                                                          \
			pf_give_failure(call, call->pieces[number]);                                                   \
			goto pf_unreadable;                                                                            \
		}                                                                                                      \
		(__s64) * (type *)&call->pieces[number];                                                               \
	})

/* An index that must be below a bound. */
#define PF_INDEX(index, bound)                                                                                         \
	({                                                                                                             \
		__s64 pf_index = (index);                                                                              \
		if ((__u64)pf_index >= (bound))                                                                        \
			goto pf_unreadable;                                                                            \
		pf_index;                                                                                              \
	})

/* Nothing can be divided by zero: there is no such value. */
#define PF_DIVIDE(left, right) PF_BY(pf_divide, left, right)
#define PF_REMAINDER(left, right) PF_BY(pf_remainder, left, right)
#define PF_DIVIDE_UNSIGNED(left, right) PF_BY(pf_divide_unsigned, left, right)
#define PF_REMAINDER_UNSIGNED(left, right) PF_BY(pf_remainder_unsigned, left, right)
#define PF_BY(operation, left, right)                                                                                  \
	({                                                                                                             \
		__s64 pf_divisor = (right);                                                                            \
		if (!pf_divisor)                                                                                       \
			goto pf_unreadable;                                                                            \
		operation(left, pf_divisor);                                                                           \
	})

/* The address that a distance leads to from its place, at most `most` bytes away. */
#define PF_RELATIVE(type, address, minus, most)                                                                        \
	({                                                                                                             \
		__u64 pf_at = (address);                                                                               \
		type pf_distance;                                                                                      \
		if (pf_read(&pf_distance, sizeof(pf_distance), pf_at) || pf_is_far(call, pf_distance, most))           \
			goto pf_unreadable;                                                                            \
		(__s64) pf_relative(pf_at, minus(__s64) pf_distance);                                                  \
	})

/* Of a C++ vector whose elements are `stride` bytes apart. */
#define PF_VECTOR_SIZE(address, stride)                                                                                \
	PF_TRY(struct pf_vector, pf_read_vector(call, &pf_value, address, stride), pf_value.count)
#define PF_VECTOR_BEGIN(address, stride)                                                                               \
	PF_TRY(struct pf_vector, pf_read_vector(call, &pf_value, address, stride), pf_value.begin)
#define PF_VECTOR_ELEMENT(address, stride, index)                                                                      \
	({                                                                                                             \
		struct pf_vector pf_vector;                                                                            \
		__u64 pf_stride = (stride);                                                                            \
		__s64 pf_index;                                                                                        \
		if (pf_read_vector(call, &pf_vector, address, pf_stride))                                              \
			goto pf_unreadable;                                                                            \
		pf_index = (index);                                                                                    \
		if ((__u64)pf_index >= pf_vector.count)                                                                \
			goto pf_unreadable;                                                                            \
		(__s64)(pf_vector.begin + pf_index * pf_stride);                                                       \
	})

/* Of an optional whose flag is `tag` bytes from its address; the value is at that address. */
#define PF_HAS_VALUE(address, tag) PF_TRY(__u8, pf_read_flag(call, &pf_value, (address) + (tag)), pf_value)
#define PF_OPTIONAL_VALUE(address, tag)                                                                                \
	({                                                                                                             \
		__u64 pf_at = (address);                                                                               \
		__u8 pf_flag;                                                                                          \
		if (pf_read_flag(call, &pf_flag, pf_at + (tag)) || (!pf_flag && pf_is_empty(call)))                    \
			goto pf_unreadable;                                                                            \
		(__s64) pf_at;                                                                                         \
	})

/* Of a variant of `count` alternatives, each of which is at its address. */
#define PF_VARIANT_INDEX(address, tag, count)                                                                          \
	PF_TRY(__u32, pf_read_number(call, &pf_value, address, tag, count), pf_value)
#define PF_ALTERNATIVE(address, tag, count, wanted)                                                                    \
	({                                                                                                             \
		__u64 pf_at = (address);                                                                               \
		__u32 pf_number;                                                                                       \
		if (pf_read_number(call, &pf_number, pf_at, tag, count) ||                                             \
		    (pf_number != (wanted) && pf_is_empty(call)))                                                      \
			goto pf_unreadable;                                                                            \
		(__s64) pf_at;                                                                                         \
	})

/* Of elements that are `stride` bytes apart. */
#define PF_ELEMENT(first, count, stride, index)                                                                        \
	({                                                                                                             \
		__s64 pf_at = (index);                                                                                 \
		if (pf_at < 0 || pf_at >= (count))                                                                     \
			goto pf_unreadable;                                                                            \
		(__s64)((first) + pf_at * (stride));                                                                   \
	})

/* ---- Fields of a record: the number is the bit in `missing` that is set where the field cannot be read ---- */

#define PF_FIELD(number, member, value) PF_STORE(number, member, record->member = (value))
#define PF_ELEMENTS(number, member, ...) PF_STORE(number, member, (void)(__VA_ARGS__))
#define PF_FILL(number, member, read) PF_STORE(number, member, if (read) goto pf_unreadable)
#define PF_STORE(number, member, ...)                                                                                  \
	do {                                                                                                           \
		__label__ pf_unreadable, pf_stored;                                                                    \
		/* Without the size of what it lists, an address could be computed. */                                 \
		if (PF_ABSENT_IN(record) >> (number)&1)                                                                \
			goto pf_unreadable;                                                                            \
		__VA_ARGS__;                                                                                           \
		if (!pf_take_unreadable(call))                                                                         \
			goto pf_stored;                                                                                \
	pf_unreadable:                                                                                                 \
		call->unreadable = 0;                                                                                  \
		__builtin_memset(&record->member, 0, sizeof(record->member));                                          \
		pf_missing(call, record, number, PF_ABSENT_IN(record));                                                \
	pf_stored:;                                                                                                    \
	} while (0)

/* A list is empty then. */
#define PF_LIST(number, member, read)                                                                                  \
	do {                                                                                                           \
		__label__ pf_unreadable, pf_stored;                                                                    \
		record->member.count = 0;                                                                              \
		record->member.total = 0;                                                                              \
		call->thread->rows.count = 0;                                                                          \
		if (read)                                                                                              \
			goto pf_unreadable;                                                                            \
		if (!pf_take_unreadable(call))                                                                         \
			goto pf_stored;                                                                                \
	pf_unreadable:                                                                                                 \
		call->unreadable = 0;                                                                                  \
		record->member.count = 0;                                                                              \
		record->member.total = 0;                                                                              \
		pf_missing(call, record, number, PF_ABSENT_IN(record));                                                \
	pf_stored:;                                                                                                    \
	} while (0)

/* ---- Conditions ---- */

/* Whether a record is wanted. One whose condition cannot be read is lost: it might have been. */
#define PF_HOLDS(type, condition)                                                                                      \
	({                                                                                                             \
		__label__ pf_unreadable, pf_decided;                                                                   \
		_Bool pf_answer = (condition) != 0;                                                                    \
		if (!pf_take_unreadable(call))                                                                         \
			goto pf_decided;                                                                               \
	pf_unreadable:                                                                                                 \
		/* A value that is not there, and need not be, holds nothing. */                                       \
		if (!(type##_ABSENT >> 63) && !call->empty)                                                            \
			pf_lose_records(call->thread, type, PF_UNDECIDED, 1);                                          \
		pf_forget_failure(call);                                                                               \
		pf_answer = 0;                                                                                         \
	pf_decided:;                                                                                                   \
		pf_answer;                                                                                             \
	})

/* A number, or another one where it cannot be read. */
#define PF_VALUE_OR(otherwise, value)                                                                                  \
	({                                                                                                             \
		__label__ pf_unreadable, pf_read_it;                                                                   \
		__s64 pf_number = (value);                                                                             \
		if (!pf_take_unreadable(call))                                                                         \
			goto pf_read_it;                                                                               \
	pf_unreadable:                                                                                                 \
		pf_forget_failure(call);                                                                               \
		pf_number = otherwise;                                                                                 \
	pf_read_it:;                                                                                                   \
		pf_number;                                                                                             \
	})

/* ---- Records: NULL where none begins or ends here ---- */

/* The record of a call: from here to its return. */
#define PF_BEGIN_CALL(name, tier, limit, object)                                                                       \
	({                                                                                                             \
		struct name##_record *pf_record = NULL;                                                                \
		PF_FORGET(call->thread, name, tier);                                                                   \
		if (!pf_must_not_return(call, TYPE_##name##_record))                                                   \
			pf_record = PF_PUSH(call, name, limit, TYPE_##name##_record, object);                          \
		if (pf_record)                                                                                         \
			PF_START(pf_record, name, 0);                                                                  \
		pf_record;                                                                                             \
	})
#define PF_END_CALL(name, tier, limit)                                                                                 \
	({                                                                                                             \
		struct name##_record *pf_record;                                                                       \
		PF_FORGET(call->thread, name, tier);                                                                   \
		pf_record = PF_POP(call, name, limit, TYPE_##name##_record);                                           \
		if (pf_record)                                                                                         \
			pf_record->header.duration = call->now - pf_record->header.start;                              \
		pf_record;                                                                                             \
	})

/* The record of a span that another probe's entry ends, and that end. */
#define PF_BEGIN_UNTIL(name, tier)                                                                                     \
	({                                                                                                             \
		struct name##_record *pf_record = NULL;                                                                \
		/* Of one that is stale nobody has seen the end. */                                                    \
		if (!call->thread->spans.name##_open.open ||                                                           \
		    pf_##tier##_is_stale(call->thread->spans.name##_open.record.header.start)) {                       \
			pf_record = &call->thread->spans.name##_open.record;                                           \
			PF_START(pf_record, name, 0);                                                                  \
		}                                                                                                      \
		pf_record;                                                                                             \
	})
#define PF_END_UNTIL(name, tier)                                                                                       \
	({                                                                                                             \
		struct name##_record *pf_record = NULL;                                                                \
		if (thread->spans.name##_open.open) {                                                                  \
			thread->spans.name##_open.open = 0;                                                            \
			pf_record = &thread->spans.name##_open.record;                                                 \
			if (pf_##tier##_is_stale(pf_record->header.start))                                             \
				pf_record = NULL;                                                                      \
			else                                                                                           \
				pf_record->header.duration = now - pf_record->header.start;                            \
		}                                                                                                      \
		pf_record;                                                                                             \
	})

/* The record of an instant. */
#define PF_INSTANT(name)                                                                                               \
	({                                                                                                             \
		struct name##_record *pf_record = &call->thread->spans.name##_instant;                                 \
		PF_START(pf_record, name, call->now);                                                                  \
		pf_record;                                                                                             \
	})

#define PF_START(record, name, time) pf_start(record, TYPE_##name##_record, call->site, call->thread->tid, time)

/* A span begins where its entry's program ends, and ends where that of its end begins: it contains neither. */
#define PF_BEGINS() (record->header.start = bpf_ktime_get_ns())
#define PF_BEGINS_AT(header, time)                                                                                     \
	do {                                                                                                           \
		if (header)                                                                                            \
			(header)->start = time;                                                                        \
	} while (0)

/* `waiting` of a span that ends now: the time since the last entry of `from`, if that was within the span. */
#define PF_WAITING(number, from)                                                                                       \
	do {                                                                                                           \
		__u64 pf_last = thread->spans.from##_last;                                                             \
		record->waiting = pf_last > record->header.start ? now - pf_last : 0;                                  \
		/* Where none was ever seen on the thread, it cannot be told from one that is not probed. */           \
		if (!pf_last || !pf_waiting_is_known(record->header.start, now))                                       \
			record->header.missing |= 1 << (number);                                                       \
	} while (0)
#define PF_NO_WAITING(number)                                                                                          \
	do {                                                                                                           \
		record->header.missing |= 1 << (number);                                                               \
		record->waiting = 0;                                                                                   \
	} while (0)

#define PF_SEND() pf_send(call->thread, record, sizeof(*record))
/* A record that ends with a list of at most so many elements. */
#define PF_SEND_LIST(member, most)                                                                                     \
	do {                                                                                                           \
		__u32 pf_count = record->member.count;                                                                 \
		if (record->member.total > pf_count)                                                                   \
			pf_lose(record->header.type, PF_TRUNCATED);                                                    \
		if (pf_count > (most))                                                                                 \
			pf_count = (most);                                                                             \
		pf_send(call->thread, record,                                                                          \
			offsetof(typeof(*record), member.elements) + pf_count * sizeof(record->member.elements[0]));   \
	} while (0)

/* Saves an argument for the return. */
#define PF_SAVE(name, limit, number, place) pf_save(call, PF_TOP_SAVED(name, limit), number, place)

/* An argument of the open call of a probe. */
#define PF_ENCLOSING(name, limit, number)                                                                              \
	pf_enclosing(call, call->thread->spans.name.depth, PF_TOP(name, limit).sp,                                     \
		     (limit) == 1 && PF_TOP(name, limit).within, PF_TOP_SAVED(name, limit), number)
#define PF_TOP(name, limit) call->thread->spans.name.frame[(call->thread->spans.name.depth - 1) & ((limit)-1)]
#define PF_TOP_SAVED(name, limit) PF_SAVED_OF(call, name, limit, call->thread->spans.name.depth - 1)

/* ---- Open calls ---- */

/* Drops the calls whose return was not watched for. */
#define PF_FORGET(thread, name, tier)                                                                                  \
	do {                                                                                                           \
		if ((thread)->spans.name.depth &&                                                                      \
		    pf_##tier##_is_stale((thread)->spans.name.frame[0].record.header.start))                           \
			(thread)->spans.name.depth = 0;                                                                \
	} while (0)
/* The same at the end of their thread, as far as nobody watches for returns. */
#define PF_FORGET_LEFT(thread, name, tier, now)                                                                        \
	do {                                                                                                           \
		if ((thread)->spans.name.depth &&                                                                      \
		    pf_##tier##_is_unwatched((thread)->spans.name.frame[0].record.header.start, now))                  \
			(thread)->spans.name.depth = 0;                                                                \
	} while (0)
/*
 * Where a call returns, those that it called and that are still open never will; in pf_drop_left, whose `but` and `also`
 * are its own types. That has no address of `call`: a function without a result may leave it in the register for one,
 * and the verifier refuses to return it.
 */
#define PF_DROP_LEFT(name, tier, limit)                                                                                \
	do {                                                                                                           \
		if (but == TYPE_##name##_record || also == TYPE_##name##_record)                                       \
			break;                                                                                         \
		PF_FORGET(thread, name, tier);                                                                         \
		/* While probes come off, ends may be missed; what is open may still end with a probe. */              \
		PF_DROP_WITHIN(thread, name, limit, sp, TYPE_##name##_record, pf_##tier##_on(now));                    \
	} while (0)
/* Calls of a thread that ends never return. */
#define PF_COUNT_LEFT(name, tier, limit)                                                                               \
	do {                                                                                                           \
		PF_FORGET_LEFT(thread, name, tier, now);                                                               \
		PF_COUNT_OPEN(thread, name, limit, TYPE_##name##_record);                                              \
	} while (0)

/* ---- Objects ---- */

#define PF_DESCRIBE(object, member) object##_describe(call->thread, record->member, call->now)
#define PF_DESCRIBE_EACH(object, member, count)                                                                        \
	do {                                                                                                           \
		for (int pf_i = 0; pf_i < (count); pf_i++)                                                             \
			object##_describe(call->thread, record->member[pf_i], call->now);                              \
	} while (0)

/* Puts an address on the list of objects to inspect. */
#define PF_ENQUEUE(address)                                                                                            \
	do {                                                                                                           \
		__u64 pf_address = (address);                                                                          \
		if (pf_address)                                                                                        \
			thread->work[(*end)++ & (PF_WORK - 1)] = pf_address;                                           \
	} while (0)
#define PF_ENQUEUE_EACH(count, address)                                                                                \
	do {                                                                                                           \
		for (int i = 0; i < (count); i++)                                                                      \
			PF_ENQUEUE(address);                                                                           \
	} while (0)

/* Describes an object that refers to no others of its kind. */
#define PF_DESCRIBE_ALONE(name)                                                                                        \
	static __always_inline int name##_describe(struct pf_thread *thread, __u64 address, __u64 now)                 \
	{                                                                                                              \
		return name##_inspect(thread, address, now, 1);                                                        \
	}

/*
 * Describes an object and what it refers to: that may have changed though the object itself has not. Further away, only
 * what is new leads on. On old kernels a loop's turn is a global subprogram, which is verified once and by itself.
 */
#ifdef PF_OLD_KERNEL
#define PF_DESCRIBE_ALL(name)                                                                                          \
	__noinline int name##_inspect_global(__u64 address, __u64 now, __u32 around)                                   \
	{                                                                                                              \
		struct pf_thread *thread = pf_thread_of(pf_task());                                                    \
                                                                                                                       \
		return thread ? name##_inspect(thread, address, now, around != 0) : -1;                                \
	}                                                                                                              \
	__noinline int name##_describe_global(__u64 address, __u64 now)                                                \
	{                                                                                                              \
		struct pf_thread *thread = pf_thread_of(pf_task());                                                    \
                                                                                                                       \
		if (!thread || name##_inspect_global(address, now, 1) <= 0)                                            \
			return 0;                                                                                      \
		thread->work_next = 0;                                                                                 \
		thread->work_end = 0;                                                                                  \
		name##_enqueue(thread, &thread->work_end);                                                             \
		_Pragma("clang loop unroll(disable)") for (int i = 0; i < PF_MOST_TURNS; i++)                          \
		{                                                                                                      \
			if (!pf_has_work(TYPE_##name##_object, &thread->work_next, thread->work_end))                  \
				return 1;                                                                              \
			if (name##_inspect_global(thread->work[thread->work_next++ & (PF_WORK - 1)], now, 0) > 1)      \
				name##_enqueue(thread, &thread->work_end);                                             \
		}                                                                                                      \
		if (thread->work_next != thread->work_end)                                                             \
			pf_lose(TYPE_##name##_object, PF_TRUNCATED);                                                   \
		return 1;                                                                                              \
	}                                                                                                              \
	static __always_inline int name##_describe(struct pf_thread *thread, __u64 address, __u64 now)                 \
	{                                                                                                              \
		return name##_describe_global(address, now);                                                           \
	}
#else
#define PF_DESCRIBE_ALL(name)                                                                                          \
	static long name##_visit(__u32 index, struct pf_walk *walk)                                                    \
	{                                                                                                              \
		if (!pf_has_work(TYPE_##name##_object, &walk->next, walk->end))                                        \
			return 1;                                                                                      \
		if (name##_inspect(walk->thread, walk->thread->work[walk->next++ & (PF_WORK - 1)], walk->now, 0) > 1)  \
			name##_enqueue(walk->thread, &walk->end);                                                      \
		return 0;                                                                                              \
	}                                                                                                              \
	static __noinline int name##_describe(struct pf_thread *thread, __u64 address, __u64 now)                      \
	{                                                                                                              \
		struct pf_walk walk = { .thread = thread, .now = now };                                                \
                                                                                                                       \
		if (name##_inspect(thread, address, now, 1) <= 0)                                                      \
			return 0;                                                                                      \
		name##_enqueue(thread, &walk.end);                                                                     \
		bpf_loop(PF_MOST_OBJECTS, name##_visit, &walk, 0);                                                     \
		if (walk.next != walk.end)                                                                             \
			pf_lose(TYPE_##name##_object, PF_TRUNCATED);                                                   \
		return 1;                                                                                              \
	}
#endif

/* ---- Lists that are read row by row: in as many records as the rows fill ---- */

#define PF_ROWS_OF(name, number, member, most)                                                                         \
	static __always_inline void name##_send(struct pf_thread *thread, __u32 count)                                 \
	{                                                                                                              \
		struct name##_record *record = &thread->spans.name##_instant;                                          \
                                                                                                                       \
		if (count > (most))                                                                                    \
			count = (most);                                                                                \
		record->member.count = count;                                                                          \
		record->member.total = count;                                                                          \
		pf_send(thread, record,                                                                                \
			offsetof(struct name##_record, member.elements) + count * sizeof(record->member.elements[0])); \
	}                                                                                                              \
	static long name##_row(__u32 row, struct pf_row_walk *walk)                                                    \
	{                                                                                                              \
		struct pf_thread *thread = walk->thread;                                                               \
		struct name##_record *record = &thread->spans.name##_instant;                                          \
		__u32 width = thread->rows.width;                                                                      \
		__u32 filled;                                                                                          \
                                                                                                                       \
		if (width > (most)) {                                                                                  \
			width = (most);                                                                                \
			pf_lose(TYPE_##name##_record, PF_TRUNCATED);                                                   \
		}                                                                                                      \
		if (walk->filled + width > (most)) {                                                                   \
			name##_send(thread, walk->filled);                                                             \
			walk->filled = 0;                                                                              \
		}                                                                                                      \
		filled = walk->filled;                                                                                 \
		/* Compared above; the verifier has forgotten. */                                                      \
		if (filled > (most))                                                                                   \
			return 1;                                                                                      \
		if (pf_read((void *)record->member.elements + filled * sizeof(record->member.elements[0]),             \
			    width * sizeof(record->member.elements[0]),                                                \
			    thread->rows.address + row * thread->rows.stride)) {                                       \
			record->header.missing |= 1 << (number);                                                       \
			pf_lose(TYPE_##name##_record, PF_READ_FAILED);                                                 \
			return 1;                                                                                      \
		}                                                                                                      \
		walk->filled = filled + width;                                                                         \
		return 0;                                                                                              \
	}                                                                                                              \
	PF_SEND_ROWS(name)

#ifdef PF_OLD_KERNEL
#define PF_SEND_ROWS(name)                                                                                             \
	__noinline int name##_row_global(__u32 row)                                                                    \
	{                                                                                                              \
		struct pf_row_walk walk = { .thread = pf_thread_of(pf_task()) };                                       \
		int last;                                                                                              \
                                                                                                                       \
		if (!walk.thread)                                                                                      \
			return 1;                                                                                      \
		walk.filled = walk.thread->rows_filled;                                                                \
		last = name##_row(row, &walk);                                                                         \
		walk.thread->rows_filled = walk.filled;                                                                \
		return last;                                                                                           \
	}                                                                                                              \
	__noinline int name##_send_rows_global(__u32 count)                                                            \
	{                                                                                                              \
		struct pf_thread *thread = pf_thread_of(pf_task());                                                    \
                                                                                                                       \
		if (!thread)                                                                                           \
			return 0;                                                                                      \
		thread->rows_filled = 0;                                                                               \
		if (count > PF_MOST_TURNS)                                                                             \
			pf_lose(TYPE_##name##_record, PF_TRUNCATED);                                                   \
		_Pragma("clang loop unroll(disable)") for (__u32 row = 0; row < PF_MOST_TURNS;                         \
							   row++) if (row >= count || name##_row_global(row)) break;   \
		/* Rows that cannot be read end the list; that some are missing is sent. */                            \
		if (thread->rows_filled || thread->spans.name##_instant.header.missing)                                \
			name##_send(thread, thread->rows_filled);                                                      \
		return 0;                                                                                              \
	}                                                                                                              \
	static __always_inline void name##_send_rows(struct pf_thread *thread)                                         \
	{                                                                                                              \
		name##_send_rows_global(thread->rows.count);                                                           \
	}
#else
#define PF_SEND_ROWS(name)                                                                                             \
	static __always_inline void name##_send_rows(struct pf_thread *thread)                                         \
	{                                                                                                              \
		struct pf_row_walk walk = { .thread = thread };                                                        \
                                                                                                                       \
		bpf_loop(thread->rows.count, name##_row, &walk, 0);                                                    \
		/* Rows that cannot be read end the list; that some are missing is sent. */                            \
		if (walk.filled || thread->spans.name##_instant.header.missing)                                        \
			name##_send(thread, walk.filled);                                                              \
	}
#endif
