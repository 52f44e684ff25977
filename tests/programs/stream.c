// Bandwidth of memory as a compiler's loops reach it, by STREAM's rules: arrays four times the last-level cache, best of
// several repetitions, bytes loaded and bytes stored counted, what is loaded only to be stored to not counted.
// Usage: stream BYTES-OF-AN-ARRAY REPETITIONS; prints the best read, write and copy in bytes a second.
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

static uint64_t *a, *b;
static size_t count;
static volatile uint64_t sink;

static void read_all(void)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < count; i++)
		sum += a[i];
	sink = sum;
}

static void write_all(void)
{
	for (size_t i = 0; i < count; i++)
		a[i] = 0x0101010101010101;
}

static void copy_all(void)
{
	for (size_t i = 0; i < count; i++)
		b[i] = a[i];
}

int main(int argc, char **argv)
{
	static void (*const loops[])(void) = { read_all, write_all, copy_all };
	double best[3] = { 0 };
	cpu_set_t cpus;
	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	if (argc != 3)
		return 2;
	size_t bytes = strtoull(argv[1], NULL, 10) / 4096 * 4096;
	count = bytes / 8;
	a = aligned_alloc(4096, bytes);
	b = aligned_alloc(4096, bytes);
	if (!a || !b || !bytes)
		return 1;
	for (size_t i = 0; i < count; i++) {
		a[i] = i;
		b[i] = 0;
	}
	for (int repetition = 0; repetition < atoi(argv[2]); repetition++) {
		for (int loop = 0; loop < 3; loop++) {
			double start = now();
			loops[loop]();
			double rate = (loop == 2 ? 2 : 1) * (double)bytes / (now() - start);
			if (rate > best[loop])
				best[loop] = rate;
		}
	}
	printf("%.0f %.0f %.0f\n", best[0], best[1], best[2]);
	return 0;
}
