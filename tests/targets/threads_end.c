/* Threads that end inside of an operator: 3 by pthread_exit, 3 cancelled; then 4 steps of 2 operators. */
#include "counted.h"
#include <pthread.h>
#include <stddef.h>
#include <unistd.h>

static int cancelled;

static void end(struct toy_params *params, unsigned long number)
{
	if (params->lane == 0)
		return;
	if (!cancelled)
		pthread_exit(NULL);
	for (;;)
		pause();
}

static void *run(void *argument)
{
	struct toy_params params = { 1, 2 };

	toy_operator(&params, &counted_tensor);
	return NULL;
}

int main(int argc, char **argv)
{
	struct counts *counts = count_in(argv);

	in_operator = end;
	for (int i = 0; i < 6; i++) {
		unsigned long before = *(volatile unsigned long *)&counts->operators;
		pthread_t thread;

		cancelled = i >= 3;
		pthread_create(&thread, NULL, run, NULL);
		while (cancelled && *(volatile unsigned long *)&counts->operators == before)
			usleep(100);
		if (cancelled)
			pthread_cancel(thread);
		pthread_join(thread, NULL);
	}
	run_steps(4, 2);
	return 0;
}
