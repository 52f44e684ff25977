/* Every fifth operator is left, with its graph and step, by longjmp: 20 steps of 4 operators, then 3 whole ones. */
#include "counted.h"
#include <setjmp.h>
#include <stddef.h>

static jmp_buf back;

static void leave(struct toy_params *params, unsigned long number)
{
	if (number % 5 == 0)
		longjmp(back, 1);
}

int main(int argc, char **argv)
{
	count_in(argv);
	in_operator = leave;
	for (volatile int step = 0; step < 20; step++)
		if (!setjmp(back))
			run_steps(1, 4);
	in_operator = NULL;
	run_steps(3, 4);
	return 0;
}
