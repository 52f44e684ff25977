/* Each operator calls itself, 99 deep: 5 steps of 1 operator. */
#include "counted.h"

static int depth;

static void again(struct toy_params *params, unsigned long number)
{
	if (++depth < 100)
		toy_operator(params, &counted_tensor);
	depth--;
}

int main(int argc, char **argv)
{
	count_in(argv);
	in_operator = again;
	run_steps(5, 1);
	return 0;
}
