/*
 * Steps of two threads that overlap: each begins before the one before it has ended, on the other thread. A step has
 * five operators, two of them before the next step begins.
 *
 *   overlapping STEPS [open]
 *
 * With `open`, a step more begins and goes on until the program's input ends.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t passed = PTHREAD_COND_INITIALIZER;
static int steps, turn;

__attribute__((noinline, noipa)) void operator_of(int step) { __asm__ volatile("" : : "r"(step)); }
__attribute__((noinline, noipa)) void step_begin(int step) { __asm__ volatile("" : : "r"(step)); }
__attribute__((noinline, noipa)) void step_end(int step) { __asm__ volatile("" : : "r"(step)); }

/* Every step has two turns: its beginning comes before the end of the one before it. */
static int begins(int step) { return step == 1 ? 0 : 2 * step - 3; }
static int ends(int step) { return step == steps ? 2 * step - 1 : 2 * step; }

static void wait_for(int mine)
{
	pthread_mutex_lock(&mutex);
	while (turn != mine)
		pthread_cond_wait(&passed, &mutex);
	pthread_mutex_unlock(&mutex);
}

static void pass(void)
{
	pthread_mutex_lock(&mutex);
	turn++;
	pthread_cond_broadcast(&passed);
	pthread_mutex_unlock(&mutex);
}

__attribute__((noinline, noipa)) void run_step(int step)
{
	step_begin(step);
	for (int at = 0; at < 2; at++)
		operator_of(step);
	pass();
	wait_for(ends(step));
	for (int at = 0; at < 3; at++)
		operator_of(step);
	step_end(step);
}

static void *run(void *first)
{
	for (int step = *(int *)first; step <= steps; step += 2) {
		wait_for(begins(step));
		run_step(step);
		pass();
	}
	return NULL;
}

int main(int count, char **words)
{
	int first[2] = { 1, 2 };
	pthread_t threads[2];

	steps = count > 1 ? atoi(words[1]) : 1;
	for (int at = 0; at < 2; at++)
		pthread_create(&threads[at], NULL, run, &first[at]);
	for (int at = 0; at < 2; at++)
		pthread_join(threads[at], NULL);
	printf("%d\n", steps);
	fflush(stdout);
	if (count > 2 && !strcmp(words[2], "open")) {
		char byte;
		step_begin(steps + 1);
		operator_of(steps + 1);
		return read(0, &byte, 1) > 0;
	}
	return 0;
}
