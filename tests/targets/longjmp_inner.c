/* In the third of six graphs, an operator is left by longjmp and nothing else is: that step alone misses something. */
#include "counted.h"
#include <setjmp.h>

static jmp_buf back;
static int leaves;

static void leave(struct toy_params *params, unsigned long number)
{
	if (leaves)
		longjmp(back, 1);
}

static void call(unsigned long number)
{
	struct toy_params params = { 0, 1 };

	leaves = number == 3;
	if (leaves && !setjmp(back))
		toy_operator(&params, &counted_tensor);
	leaves = 0;
}

int main(int argc, char **argv)
{
	count_in(argv);
	in_graph = call;
	in_operator = leave;
	run_steps(6, 4);
	return 0;
}
