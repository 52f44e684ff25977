/* Killed inside of an operator, after some steps. */
#include "counted.h"
#include <signal.h>

static void end(struct toy_params *params, unsigned long number)
{
	if (number == 50)
		raise(SIGKILL);
}

int main(int argc, char **argv)
{
	count_in(argv);
	in_operator = end;
	run_steps(20, 6);
	return 0;
}
