/*
 * counting faults PAGES SLEEPS | counting turns LANES MS CPU: work whose counts the kernel itself tells, read just
 * inside of each function, and said on standard output.
 *   faults  one call that touches so many new pages and sleeps so many times
 *   turns   so many threads on one cpu, each with a call of so many ms of its own time: they take turns
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static long clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

__attribute__((noinline)) int counted_faults(long pages, long sleeps)
{
	struct rusage before, after;
	char *memory;

	getrusage(RUSAGE_THREAD, &before);
	memory = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(memory, pages * 4096, MADV_NOHUGEPAGE);
	for (long i = 0; i < pages; i++)
		memory[i * 4096] = 1;
	for (long i = 0; i < sleeps; i++)
		usleep(200);
	getrusage(RUSAGE_THREAD, &after);
	munmap(memory, pages * 4096);
	printf("faults %ld %ld %ld %ld\n", after.ru_minflt - before.ru_minflt, after.ru_majflt - before.ru_majflt,
	       after.ru_nvcsw - before.ru_nvcsw, after.ru_nivcsw - before.ru_nivcsw);
	fflush(stdout);
	return 0;
}

__attribute__((noinline)) int counted_turn(int lane, long ms)
{
	long start = clock_ns(CLOCK_THREAD_CPUTIME_ID), wall = clock_ns(CLOCK_MONOTONIC), own;

	do {
		for (volatile int i = 0; i < 10000; i++)
			;
		own = clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
	} while (own < ms * 1000000);
	printf("turn %d %ld %ld\n", lane, own, clock_ns(CLOCK_MONOTONIC) - wall);
	fflush(stdout);
	return lane;
}

/* Ends the span of an `until` probe. */
__attribute__((noinline)) int counted_end(int lane)
{
	__asm__ volatile("" ::: "memory");
	return lane;
}

static long ms, cpu;

static void *lane(void *number)
{
	cpu_set_t set;
	int lane = (int)(long)number;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
	counted_turn(lane, ms);
	counted_end(lane);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[16];
	long lanes;

	if (argc == 4 && !strcmp(argv[1], "faults"))
		return counted_faults(atol(argv[2]), atol(argv[3]));
	if (argc != 5 || strcmp(argv[1], "turns") || (lanes = atol(argv[2])) > 16)
		return 2;
	ms = atol(argv[3]);
	cpu = atol(argv[4]);
	for (long i = 0; i < lanes; i++)
		pthread_create(&threads[i], NULL, lane, (void *)i);
	for (long i = 0; i < lanes; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
