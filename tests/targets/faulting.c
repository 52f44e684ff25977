/*
 * An engine whose weights are a mapped file, and which says how often it waited for it: `faulting FILE STEPS LANES cold|warm`.
 * Each step, an operator of each layer reads one of the four experts of its weight, each lane its half of it. Cold, the
 * file is put out of memory before each step; what one page's touch reads is that page alone.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define LAYERS 3
#define EXPERTS 4
#define PAGE 4096
#define EXPERT_PAGES 16
#define MAX_LANES 4
/* The weights begin within a page of the file's header. */
#define HEADER 1024

enum toy_op { NONE, MUL_MAT_ID };
enum toy_type { TOY_F32 };
struct toy_tensor {
	enum toy_op op;
	enum toy_type type;
	char name[32];
	long shape[3];
	struct toy_tensor *inputs[1];
	void *data;
};
struct toy_params {
	int lane, lanes;
};

static struct toy_tensor weights[LAYERS], results[LAYERS];
static int expert_of[LAYERS];
static long faults_of[LAYERS][EXPERTS], cpu_ns_of[LAYERS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
volatile long toy_sink;

static long faults(int of)
{
	struct rusage usage;

	getrusage(of, &usage);
	return usage.ru_majflt;
}

static long cpu_ns(void)
{
	struct timespec used;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return used.tv_sec * 1000000000 + used.tv_nsec;
}

__attribute__((noinline)) void toy_operator(struct toy_params *params, struct toy_tensor *tensor)
{
	int layer = tensor - results, expert = expert_of[layer], part = EXPERT_PAGES / params->lanes;
	volatile char *data = (char *)weights[layer].data + (long)expert * EXPERT_PAGES * PAGE;
	long before = faults(RUSAGE_THREAD), cpu_before = cpu_ns();

	/* The last byte of each page's worth: no page is touched for two experts. */
	for (int page = params->lane * part; page < (params->lane + 1) * part; page++)
		toy_sink += data[page * PAGE];
	cpu_before = cpu_ns() - cpu_before;
	pthread_mutex_lock(&lock);
	cpu_ns_of[layer] += cpu_before;
	faults_of[layer][expert] += faults(RUSAGE_THREAD) - before;
	pthread_mutex_unlock(&lock);
}

static void *run_lane(void *params)
{
	for (int layer = 0; layer < LAYERS; layer++)
		toy_operator(params, &results[layer]);
	return NULL;
}

__attribute__((noinline)) int toy_step(int tokens, int step, int lanes)
{
	pthread_t threads[MAX_LANES];
	struct toy_params params[MAX_LANES];

	for (int layer = 0; layer < LAYERS; layer++)
		expert_of[layer] = (step + layer) % EXPERTS;
	for (int lane = 0; lane < lanes; lane++)
		params[lane] = (struct toy_params){ lane, lanes };
	for (int lane = 1; lane < lanes; lane++)
		pthread_create(&threads[lane], NULL, run_lane, &params[lane]);
	run_lane(&params[0]);
	for (int lane = 1; lane < lanes; lane++)
		pthread_join(threads[lane], NULL);
	return tokens;
}

int main(int argc, char **argv)
{
	int steps = argc > 4 ? atoi(argv[2]) : 0, lanes = argc > 4 ? atoi(argv[3]) : 0;
	long size = PAGE + LAYERS * EXPERTS * EXPERT_PAGES * PAGE, before, all = 0;
	int file = argc > 4 ? open(argv[1], O_RDWR | O_CREAT, 0600) : -1;
	char *block = calloc(1, size), *map;

	if (file < 0 || lanes < 1 || lanes > MAX_LANES || write(file, block, size) != size || fsync(file))
		return 2;
	map = mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
	if (map == MAP_FAILED || madvise(map, size, MADV_RANDOM))
		return 3;
	for (int layer = 0; layer < LAYERS; layer++) {
		struct toy_tensor *weight = &weights[layer], *result = &results[layer];

		snprintf(weight->name, sizeof(weight->name), "blk.%d.exps.weight", layer);
		weight->shape[0] = PAGE / sizeof(float);
		weight->shape[1] = EXPERT_PAGES;
		weight->shape[2] = EXPERTS;
		weight->data = map + HEADER + (long)layer * EXPERTS * EXPERT_PAGES * PAGE;
		result->op = MUL_MAT_ID;
		snprintf(result->name, sizeof(result->name), "out-%d", layer);
		result->shape[0] = result->shape[1] = result->shape[2] = 1;
		result->inputs[0] = weight;
	}
	/* Something is read, and there is time to see what is mapped. */
	posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
	if (pread(file, block, 1, 0) != 1)
		return 5;
	usleep(300000);
	if (!strcmp(argv[4], "warm"))
		for (long at = 0; at < size; at += PAGE)
			if (pread(file, block, PAGE, at) != PAGE)
				return 5;
	for (int step = 0; step < steps; step++) {
		if (!strcmp(argv[4], "cold") &&
		    (madvise(map, size, MADV_DONTNEED) || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED)))
			return 4;
		before = faults(RUSAGE_SELF);
		toy_step(1, step, lanes);
		all += faults(RUSAGE_SELF) - before;
	}
	printf("all %ld\n", all);
	for (int layer = 0; layer < LAYERS; layer++)
		printf("cpu %d %ld\n", layer, cpu_ns_of[layer]);
	for (int layer = 0; layer < LAYERS; layer++)
		for (int expert = 0; expert < EXPERTS; expert++)
			printf("%s %d %ld\n", weights[layer].name, expert, faults_of[layer][expert]);
	return 0;
}
