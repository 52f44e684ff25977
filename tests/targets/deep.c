/*
 * A step within more calls than the kernel watches the returns of: its own return and its graph's are not seen. Before
 * and after it, steps as usual. A number says how deep the calls are.
 */
#include "counted.h"
#include <stdlib.h>

static int depth, deepest;

static void deeper(struct toy_params *params, unsigned long number)
{
	if (++depth < deepest) {
		toy_operator(params, &counted_tensor);
	} else {
		in_operator = NULL;
		run_steps(1, 2);
	}
	depth--;
}

int main(int argc, char **argv)
{
	struct toy_params params = { 0, 1 };

	count_in(argv);
	deepest = atoi(argv[2]);
	run_steps(3, 2);
	in_operator = deeper;
	toy_operator(&params, &counted_tensor);
	in_operator = NULL;
	run_steps(3, 2);
	return 0;
}
