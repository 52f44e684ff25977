/*
 * An engine that counts its calls in a file, so that the exact numbers are there however the process ends, and that
 * lets something happen inside of them.
 */
#pragma once
#ifdef __cplusplus
extern "C" {
#endif

#include "toy_engine.h"

struct counts {
	unsigned long steps, graphs, operators;
};

/* Called inside each call, after it was counted. */
extern void (*in_graph)(unsigned long number);
extern void (*in_operator)(struct toy_params *params, unsigned long number);

/* Opens the file that the first argument names; counts go on from where they are. */
struct counts *count_in(char **arguments);
/* `steps` steps of one graph, of some operators on one lane. */
void run_steps(int steps, int operators);

int toy_graph(int operators, int lanes);
void toy_operator(struct toy_params *params, struct toy_tensor *tensor);

extern struct toy_tensor counted_tensor;

#ifdef __cplusplus
}
#endif
