/*
 * scheduled [word=N…]: an engine whose lanes say what the kernel counted for them while they computed. Words:
 *   lanes=N      threads that share each operator
 *   steps=N      steps
 *   operators=N  operators of a step
 *   work=N       microseconds of cpu time that each lane computes in each operator
 *   nap=N        microseconds that each lane sleeps in each operator
 *   pause=N      microseconds that the first lane sleeps in a step, outside its operators
 *   lock=1       all lanes but one wait for a lock while they compute in turn
 *   cpu=N        lane i is pinned to cpu N + i
 *   only=N       all lanes are pinned to cpu N
 *   watch=PID    says how long that process ran while the first lane computed
 * Lanes wait for each other after each operator, spinning. Says for each lane
 *   lane L tid T from NS to NS voluntary N involuntary N ran NS waited NS watched NS
 */
#define _GNU_SOURCE
#include "toy_engine.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_OPERATORS 64
#define MAX_LANES 16

static struct toy_tensor tensors[MAX_OPERATORS];
static long lanes = 1, steps = 1, operators = 8, work = 1000, nap, pause_us, lock, cpu = -1, only = -1, watch;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_long arrived;

static long now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void compute(void)
{
	long until = now(CLOCK_THREAD_CPUTIME_ID) + work * 1000;

	while (now(CLOCK_THREAD_CPUTIME_ID) < until)
		;
}

__attribute__((noinline)) void toy_operator(struct toy_params *params, struct toy_tensor *tensor)
{
	if (lock)
		pthread_mutex_lock(&mutex);
	compute();
	if (lock)
		pthread_mutex_unlock(&mutex);
	if (nap)
		usleep(nap);
	tensor->shape[3] = params->lane;
}

static void barrier(long times)
{
	atomic_fetch_add(&arrived, 1);
	while (atomic_load(&arrived) < times * lanes)
		;
}

/* What the kernel has counted for the calling thread. */
struct counts {
	long time, voluntary, involuntary, ran, waited, watched;
};

static void read_schedstat(const char *path, long *ran, long *waited)
{
	FILE *file = fopen(path, "r");

	if (!file || fscanf(file, "%ld %ld", ran, waited) != 2)
		exit(97);
	fclose(file);
}

static struct counts read_counts(void)
{
	struct counts counts = { 0 };
	struct rusage usage, later;
	char path[64];
	long waited;

	/* Again while the thread is switched between: the first call of the clock may wait for a page. */
	do {
		getrusage(RUSAGE_THREAD, &usage);
		if (watch) {
			snprintf(path, sizeof(path), "/proc/%ld/schedstat", watch);
			read_schedstat(path, &counts.watched, &waited);
		}
		read_schedstat("/proc/thread-self/schedstat", &counts.ran, &counts.waited);
		counts.time = now(CLOCK_MONOTONIC);
		getrusage(RUSAGE_THREAD, &later);
	} while (usage.ru_nvcsw != later.ru_nvcsw || usage.ru_nivcsw != later.ru_nivcsw);
	counts.voluntary = usage.ru_nvcsw;
	counts.involuntary = usage.ru_nivcsw;
	return counts;
}

static void *run_lane(void *argument)
{
	struct toy_params params = { (int)(long)argument, lanes };
	struct counts before, after;

	before = read_counts();
	for (int i = 0; i < operators; i++) {
		toy_operator(&params, &tensors[i]);
		barrier(i + 1);
	}
	if (!params.lane && pause_us)
		usleep(pause_us);
	after = read_counts();
	printf("lane %d tid %ld from %ld to %ld voluntary %ld involuntary %ld ran %ld waited %ld watched %ld\n", params.lane,
	       syscall(SYS_gettid), before.time, after.time, after.voluntary - before.voluntary,
	       after.involuntary - before.involuntary, after.ran - before.ran, after.waited - before.waited, after.watched - before.watched);
	return NULL;
}

static void pin(pthread_attr_t *attributes, long to)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(to, &set);
	if (attributes ? pthread_attr_setaffinity_np(attributes, sizeof(set), &set) :
			 sched_setaffinity(0, sizeof(set), &set))
		exit(96);
}

__attribute__((noinline)) int toy_graph(int operators, int lanes)
{
	pthread_t threads[MAX_LANES];
	pthread_attr_t attributes;

	arrived = 0;
	for (long lane = 1; lane < lanes; lane++) {
		pthread_attr_init(&attributes);
		if (cpu >= 0)
			pin(&attributes, cpu + lane);
		pthread_create(&threads[lane], &attributes, run_lane, (void *)lane);
	}
	run_lane(NULL);
	for (int lane = 1; lane < lanes; lane++)
		pthread_join(threads[lane], NULL);
	return operators;
}

__attribute__((noinline)) int toy_step(struct toy_batch batch, int operators, int lanes)
{
	for (int i = 0; i < operators; i++) {
		tensors[i].op = i % 3;
		snprintf(tensors[i].name, sizeof(tensors[i].name), "blk.%d.tensor", i);
		tensors[i].shape[0] = 64;
		tensors[i].shape[1] = batch.tokens;
	}
	return toy_graph(operators, lanes) == operators ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct {
		const char *word;
		long *value;
	} words[] = { { "lanes", &lanes }, { "steps", &steps }, { "operators", &operators }, { "work", &work },
		      { "nap", &nap },     { "pause", &pause_us }, { "lock", &lock },	  { "cpu", &cpu },
		      { "only", &only },   { "watch", &watch } };

	for (int i = 1; i < argc; i++) {
		char *equals = strchr(argv[i], '=');

		for (size_t w = 0; equals && w < sizeof(words) / sizeof(*words); w++)
			if (!strncmp(argv[i], words[w].word, equals - argv[i]))
				*words[w].value = atol(equals + 1);
	}
	if (lanes < 1 || lanes > MAX_LANES || operators > MAX_OPERATORS)
		return 2;
	if (only >= 0 || cpu >= 0)
		pin(NULL, only >= 0 ? only : cpu);
	for (int i = 0; i < steps; i++)
		if (toy_step((struct toy_batch){ .tokens = i ? 1 : 8 }, operators, lanes))
			return 1;
	return 0;
}
