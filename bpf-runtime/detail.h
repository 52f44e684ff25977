// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/*
 * Detail that comes and goes: where the recorder keeps to a price, it attaches the probes of operators for a while and
 * detaches them again. Attaching takes milliseconds, so an instant decides: what begins between the two below counts.
 */
#pragma once
#include "record.h"

/* 0: everything is recorded all the time, and the verifier leaves all of this out. */
const volatile __u64 pf_detail_switches;

/* Set by the recorder: ns, CLOCK_MONOTONIC. Both in the future when they are set, so that neither is ever late. */
__u64 pf_detail_since;
__u64 pf_detail_until;
/* 1: graphs come and go with the detail. */
__u64 pf_graphs_switch;

static __always_inline _Bool pf_detail_on(__u64 now)
{
	return !pf_detail_switches || (now >= pf_detail_since && now < pf_detail_until);
}

static __always_inline _Bool pf_graphs_on(__u64 now)
{
	return !pf_detail_switches || !pf_graphs_switch || pf_detail_on(now);
}

/* Whether a span began before the detail that is recorded now: its end, if it was seen, is another one's. */
static __always_inline _Bool pf_detail_is_stale(__u64 start)
{
	return pf_detail_switches && start < pf_detail_since;
}

/* Whether nobody watches, or has watched, for the end of a span that is open. */
static __always_inline _Bool pf_detail_is_unwatched(__u64 start, __u64 now)
{
	return pf_detail_is_stale(start) || !pf_detail_on(now);
}

static __always_inline _Bool pf_graphs_are_stale(__u64 start)
{
	return pf_graphs_switch && pf_detail_is_stale(start);
}

static __always_inline _Bool pf_graphs_are_unwatched(__u64 start, __u64 now)
{
	return pf_graphs_are_stale(start) || !pf_graphs_on(now);
}
