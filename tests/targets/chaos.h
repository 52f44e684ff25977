#pragma once

#define CHAOS_OPERATORS 16

enum chaos_op { CHAOS_ADD, CHAOS_MATMUL, CHAOS_NORM };

struct chaos_tensor {
#ifdef OTHER_LAYOUT
	long length;
	char name[32];
	enum chaos_op op;
#else
	enum chaos_op op;
	char name[32];
	long length;
#endif
};

/* What all processes of a run did, in a file that they share and that outlives them. */
struct chaos_counts {
	unsigned long steps, operators, wrong, loads, processes;
};

long chaos_step(int tokens, int operators);
