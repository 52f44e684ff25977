/*
 * queue [word=N…]: a runtime with a queue on a thread of its own, as accelerators' runtimes have it. Words:
 *   steps=N      steps
 *   encode=N     microseconds that the host spends on encoding each of five operators
 *   work=N       microseconds that the device computes each step, in two submissions
 *   (QUEUE_TIMESTAMPS in the environment: the device measures each operator)
 *   idle=N       microseconds that the host does something else after each step
 *   copy=N       microseconds that the copy before each step takes
 *   submit=N     microseconds that the call takes that submits work
 *   first=1      it runs before all other programs (SCHED_FIFO): what is measured beside a call is in it, too
 * The third operator is computed with the second, the fifth is empty. Results are waited for after the step: first with a
 * timeout that is too short. For each step it says
 *   step S submitted NS done NS finished NS worked NS copying NS submitting NS encoding NS waiting NS
 * on CLOCK_MONOTONIC: before the first submission, when the wait returned, and when the device was done; then how long the
 * device worked, and how long the host was in calls of each kind.
 */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct node {
	char name[16];
	char op[16];
	int64_t shape[2];
};

struct plan {
	int32_t count;
	struct node **nodes;
};

struct job {
	uint64_t fence;
	long microseconds;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct job jobs[4096];
static long submitted, started;
static uint64_t signalled;
static long finished_at, worked;
static long copying, submitting, encoding, waiting, copy_time, submit_time;
static uint64_t ticks[4];

static long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void until(long end)
{
	while (now() < end)
		;
}

static void *device(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&mutex);
	for (;;) {
		while (started == submitted)
			pthread_cond_wait(&changed, &mutex);
		struct job job = jobs[started++ % 4096];

		pthread_mutex_unlock(&mutex);
		long since = now();
		struct timespec work = { job.microseconds / 1000000, job.microseconds % 1000000 * 1000 };

		nanosleep(&work, NULL);
		pthread_mutex_lock(&mutex);
		if (job.fence)
			signalled = job.fence;
		finished_at = now();
		worked += finished_at - since;
		pthread_cond_broadcast(&changed);
	}
	return NULL;
}

__attribute__((noinline)) int q_submit(void *queue, uint64_t fence, long microseconds)
{
	(void)queue;
	until(now() + submit_time * 1000);
	pthread_mutex_lock(&mutex);
	jobs[submitted++ % 4096] = (struct job){ fence, microseconds };
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
	return 0;
}

__attribute__((noinline)) int q_wait(uint64_t fence, long microseconds)
{
	struct timespec end;
	int result = 0;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_nsec += microseconds % 1000000 * 1000;
	end.tv_sec += microseconds / 1000000 + end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	pthread_mutex_lock(&mutex);
	while (signalled < fence && !result)
		result = pthread_cond_timedwait(&changed, &mutex, &end);
	pthread_mutex_unlock(&mutex);
	return result;
}

__attribute__((noinline)) _Bool q_encode(struct plan *plan, int32_t index, long microseconds)
{
	until(now() + microseconds * 1000);
	return strcmp(plan->nodes[index]->op, "VIEW") != 0;
}

__attribute__((noinline)) void q_copy(void *to, const void *from, uint64_t bytes)
{
	long since = now();

	do
		memcpy(to, from, bytes);
	while (now() < since + copy_time * 1000);
}

__attribute__((noinline)) int q_timestamps(uint64_t *data, uint32_t count)
{
	memcpy(data, ticks, count * sizeof(*data));
	return 0;
}

__attribute__((noinline)) void q_describe(char *name, float *period)
{
	strcpy(name, "toy device");
	*period = 2;
}

static void timed_submit(void *queue, uint64_t fence, long microseconds)
{
	long since = now();

	q_submit(queue, fence, microseconds);
	submitting += now() - since;
}

static void timed_wait(uint64_t fence, long microseconds)
{
	long since = now();

	q_wait(fence, microseconds);
	waiting += now() - since;
}

__attribute__((noinline)) void q_compute(struct plan *plan, long encode, long work, uint64_t fence, long *since)
{
	uint64_t data[4];

	for (int32_t index = 0; index < plan->count; index += index == 1 ? 2 : 1) {
		long before = now();

		q_encode(plan, index, encode);
		encoding += now() - before;
		if (index == 0) {
			*since = now();
			timed_submit(plan, 0, work / 4);
		}
	}
	timed_submit(plan, fence, work - work / 4);
	/* One before the first operator, one after each of the three that are not empty. */
	for (int i = 0; i < 4; i++)
		ticks[i] = 1000 * fence + (uint64_t)(i * i * 100);
	if (getenv("QUEUE_TIMESTAMPS"))
		q_timestamps(data, 4);
}

__attribute__((noinline)) void q_step(int32_t tokens, struct plan *plan, long encode, long work, uint64_t fence, long *since)
{
	char buffer[4096] = { 0 }, other[4096];

	long before = now();

	q_copy(other, buffer, 64 * (uint64_t)tokens);
	copying += now() - before;
	q_compute(plan, encode, work, fence, since);
}

static long word(int count, char **words, const char *name, long otherwise)
{
	size_t length = strlen(name);

	for (int i = 1; i < count; i++)
		if (!strncmp(words[i], name, length) && words[i][length] == '=')
			return atol(words[i] + length + 1);
	return otherwise;
}

int main(int count, char **words)
{
	static struct node nodes[] = { { "first", "MUL_MAT", { 8, 2 } }, { "norm", "NORM", { 8, 2 } }, { "scaled", "MUL", { 8, 2 } },
				       { "last", "ADD", { 8, 2 } }, { "view", "VIEW", { 16, 1 } } };
	struct node *order[] = { &nodes[0], &nodes[1], &nodes[2], &nodes[3], &nodes[4] };
	struct plan plan = { 5, order };
	long steps = word(count, words, "steps", 3), encode = word(count, words, "encode", 100);
	long work = word(count, words, "work", 20000), idle = word(count, words, "idle", 1000);
	pthread_t thread;
	char name[16];
	float period;

	if (word(count, words, "first", 0))
		sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ .sched_priority = 10 });
	copy_time = word(count, words, "copy", 0);
	submit_time = word(count, words, "submit", 0);
	pthread_create(&thread, NULL, device, NULL);
	q_describe(name, &period);
	for (long step = 1; step <= steps; step++) {
		long since = 0;

		worked = copying = submitting = encoding = waiting = 0;
		q_step(step == 1 ? 4 : 1, &plan, encode, work, (uint64_t)step, &since);
		timed_wait((uint64_t)step, work / 8);
		timed_wait((uint64_t)step, 60000000);
		long done = now();

		printf("step %ld submitted %ld done %ld finished %ld worked %ld copying %ld submitting %ld encoding %ld waiting %ld\n", step,
		       since, done, finished_at, worked, copying, submitting, encoding, waiting);
		usleep((useconds_t)idle);
	}
	return 0;
}
