/* After two steps of four operators, the program ends within an operator that has called another one. */
#include "counted.h"
#include <unistd.h>

static void call_and_end(struct toy_params *params, unsigned long number)
{
	if (number != 2 * 4 + 1)
		return;
	toy_operator(params, &counted_tensor);
	_exit(0);
}

int main(int argc, char **argv)
{
	count_in(argv);
	in_operator = call_and_end;
	run_steps(3, 4);
	return 0;
}
