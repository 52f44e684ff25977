/*
 * An engine whose results can be checked: each operator computes a sum that its caller knows beforehand. Builds differ
 * by -DPADDING=N (N bytes of other code before each function) and -DOTHER_LAYOUT (members of the tensor in another
 * order), never in what they compute.
 */
#include "chaos.h"
#include <stdlib.h>
#include <time.h>

/* Microseconds of an operator; 0: as long as its sum takes. */
static long work_us = -1;

static void spin(void)
{
	struct timespec from, now;

	clock_gettime(CLOCK_MONOTONIC, &from);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - from.tv_sec) * 1000000000L + now.tv_nsec - from.tv_nsec < work_us * 1000);
}

#ifdef PADDING
#define STRING_(x) #x
#define STRING(x) STRING_(x)
/* Code that is never run, so that the same offset lies within another instruction. */
#define PAD __asm__(".section .text\n.fill " STRING(PADDING) ", 1, 0x90\n.byte 0x48, 0xb8\n.quad 0x9090909090909090\n")
PAD;
#endif

__attribute__((noinline)) long chaos_operator(struct chaos_tensor *tensor)
{
	long sum = tensor->op;

	if (work_us > 0)
		spin();
	for (long i = 0; i < tensor->length; i++)
		sum = sum * 31 + (i ^ tensor->op);
	return sum;
}

#ifdef PADDING
PAD;
#endif

__attribute__((noinline)) long chaos_graph(struct chaos_tensor *tensors, int operators)
{
	long sum = 0;

	for (int i = 0; i < operators; i++)
		sum += chaos_operator(&tensors[i]);
	return sum;
}

__attribute__((noinline)) long chaos_step(int tokens, int operators)
{
	static __thread struct chaos_tensor tensors[CHAOS_OPERATORS];

	if (work_us < 0)
		work_us = getenv("CHAOS_WORK") ? atol(getenv("CHAOS_WORK")) : 0;

	for (int i = 0; i < operators; i++) {
		tensors[i] = (struct chaos_tensor){ .op = i % 3, .length = 20 + i };
		__builtin_memcpy(tensors[i].name, "blk.0.tensor", 13);
		tensors[i].name[4] = '0' + i % 10;
	}
	return chaos_graph(tensors, operators) * tokens;
}
