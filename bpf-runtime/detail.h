// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/*
 * Detail that comes and goes: where the recorder has a budget, it attaches the probes of operators for a while and
 * detaches them again. Attaching takes milliseconds, so an instant decides: what begins between the two below counts.
 */
#pragma once
#include "record.h"

/*
 * Without pf_detail_switches everything is recorded all the time, and the verifier leaves all of this out. The recorder
 * sets the instants of contract.h in the future, so that none is late. What begins before pf_step_came belongs to a step
 * that was not seen.
 */

/*
 * For each tier of probes, of which some come and go:
 *   on            whether what begins now is recorded
 *   is_stale      whether a span began before the detail that is recorded now: its end, if it was seen, is another one's
 *   is_unwatched  whether nobody watches, or has watched, for the end of a span that is open
 */
#define PF_TIER(tier, switches, in_a_step)                                                                             \
	static __always_inline _Bool pf_##tier##_on(__u64 now)                                                         \
	{                                                                                                              \
		return !pf_detail_switches || !(switches) ||                                                           \
		       (now >= pf_detail_since && now < pf_detail_until && (in_a_step));                               \
	}                                                                                                              \
	static __always_inline _Bool pf_##tier##_is_stale(__u64 start)                                                 \
	{                                                                                                              \
		return pf_detail_switches && (switches) && start < pf_detail_since;                                    \
	}                                                                                                              \
	static __always_inline _Bool pf_##tier##_is_unwatched(__u64 start, __u64 now)                                  \
	{                                                                                                              \
		return pf_##tier##_is_stale(start) || !pf_##tier##_on(now);                                            \
	}

PF_TIER(always, 0, 1)
PF_TIER(step, pf_steps_switch, 1)
PF_TIER(graph, pf_graphs_switch, !pf_steps_switch || pf_step_came)
PF_TIER(detail, 1, !pf_steps_switch || pf_step_came)

/* Whether every entry that `waiting` is measured from was seen in a span from `start` to `end`. */
static __always_inline _Bool pf_waiting_is_known(__u64 start, __u64 end)
{
	return start >= pf_waiting_since && (!pf_waiting_until || end < pf_waiting_until);
}
