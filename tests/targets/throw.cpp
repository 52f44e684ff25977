// Five operators are left by an exception that their caller catches: 10 steps of one operator in the graph's own
// loop, and one before it.
#include "counted.h"

static bool throws;

static void leave(toy_params *, unsigned long number)
{
	if (throws && number % 4 == 1)
		throw number;
}

static void call(unsigned long)
{
	toy_params params = { 0, 1 };

	throws = true;
	try {
		toy_operator(&params, &counted_tensor);
	} catch (unsigned long) {
	}
	throws = false;
}

int main(int, char **argv)
{
	count_in(argv);
	in_graph = call;
	in_operator = leave;
	run_steps(10, 1);
	return 0;
}
