/* An inference engine of ten lines, with call counts that are known. */
#pragma once

enum toy_op { TOY_ADD, TOY_MATMUL, TOY_NORM };

struct toy_tensor {
	enum toy_op op;
	char name[32];
	long shape[4];
	struct toy_tensor *inputs[2];
};

struct toy_params {
	int lane;
	int lanes;
};

struct toy_batch {
	int tokens;
	long padding[4];
};

/* One step: a graph of `operators` operators, each computed by `lanes` threads. */
int toy_step(struct toy_batch batch, int operators, int lanes);

/*
 * So many rounds of work. Each needs the result of the one before, in a register, so that a round takes a few cycles on
 * any processor; how long that is, toy.c measures.
 */
static inline long toy_work(long rounds, long factor)
{
	long result = factor;

	for (long i = 0; i < rounds; i++) {
		result = result * factor + i;
		__asm__ volatile("" : "+r"(result));
	}
	return result;
}
