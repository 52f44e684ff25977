/* A number of threads that live at the same time, and one operator on each; before and after, steps on the first one. */
#include "counted.h"
#include <pthread.h>
#include <stdlib.h>

static pthread_barrier_t all;

static void *one(void *unused)
{
	struct toy_params params = { 1, 2 };

	toy_operator(&params, &counted_tensor);
	pthread_barrier_wait(&all);
	return NULL;
}

int main(int argc, char **argv)
{
	int count = atoi(argv[2]);
	pthread_t *threads = calloc(count, sizeof(*threads));
	pthread_attr_t small;

	count_in(argv);
	run_steps(3, 2);
	pthread_barrier_init(&all, NULL, count + 1);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	for (int i = 0; i < count; i++)
		if (pthread_create(&threads[i], &small, one, NULL))
			exit(96);
	pthread_barrier_wait(&all);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	run_steps(3, 2);
	return 0;
}
