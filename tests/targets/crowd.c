/* 8 threads, 2000 operators each, and the steps of a ninth; then another second of steps, far apart. */
#include "counted.h"
#include <pthread.h>
#include <stddef.h>
#include <unistd.h>

static void *run(void *argument)
{
	struct toy_params params = { (int)(long)argument, 9 };

	for (int i = 0; i < 2000; i++)
		toy_operator(&params, &counted_tensor);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[8];

	count_in(argv);
	for (long i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, run, (void *)(i + 1));
	run_steps(100, 10);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 20; i++) {
		usleep(50000);
		run_steps(1, 10);
	}
	return 0;
}
