/*
 * Steps of two threads, each with an operator. The second thread does nothing for a tenth of a second after each: its
 * operator, which ends where the next one begins, is open long after the step has ended.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static pthread_barrier_t begins, ends;
static long steps;

__attribute__((noinline)) void compute(int lane)
{
	__asm__ volatile("" : : "r"(lane));
}

__attribute__((noinline)) void step(long number)
{
	pthread_barrier_wait(&begins);
	compute(0);
	pthread_barrier_wait(&ends);
	__asm__ volatile("" : : "r"(number));
}

static void *second(void *unused)
{
	for (long at = 0; at < steps; at++) {
		pthread_barrier_wait(&begins);
		compute(1);
		pthread_barrier_wait(&ends);
		nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	steps = argc > 1 ? atol(argv[1]) : 0;
	pthread_barrier_init(&begins, NULL, 2);
	pthread_barrier_init(&ends, NULL, 2);
	if (pthread_create(&thread, NULL, second, NULL))
		return 1;
	for (long at = 0; at < steps; at++)
		step(at);
	return pthread_join(thread, NULL);
}
