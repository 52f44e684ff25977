/*
 * toy [STEPS [OPERATORS [LANES]]] [word…]: runs the engine, then says what it did. Words, in the order of their doing:
 *   wait       sleep until there is a line (or an end) on standard input
 *   load=FILE  take the engine from this library, mapped now; else it is linked in, where it is (-DLINKED)
 *   fork       a child process runs as many steps too; the parent waits for it
 *   exec       start again by execv, without this word
 *   sleep=MS   this long between two steps
 *   work=US    each operator works for so many microseconds on this machine; else for a fraction of one
 *   barrier=US each lane spends so many microseconds in each barrier
 *   slow=N     each operator of the first N steps works for 13 ms
 *   more=N,L   from the N-th step on (from 0), L lanes
 *   forever    steps without an end
 *   crash      a segmentation fault after the steps
 *   exit=CODE  exit status
 */
#include "toy_engine.h"
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef int (*step_function)(struct toy_batch, int, int);

#define SLOW_US 13000

static char rounds[24] = "200";
static char slow_rounds[24];
static int steps = 10, operators = 6, lanes = 2, sleep_ms, forever, slow, more = -1, more_lanes;

static long now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

/* Rounds that take so long. Of many short trials the fastest counts: nobody else ran meanwhile. */
static void rounds_of(long us, char *text, size_t size)
{
	static long fastest_ns;
	const long trial = 20000;

	for (int i = 0; i < 50 && (i || !fastest_ns); i++) {
		volatile long result;
		long before = now_ns(), ns;

		result = toy_work(trial, i);
		(void)result;
		ns = now_ns() - before;
		if (ns > 0 && (!fastest_ns || ns < fastest_ns))
			fastest_ns = ns;
	}
	snprintf(text, size, "%ld", us * 1000 * trial / fastest_ns);
}

static void run(step_function step, const char *who)
{
	int done = 0, computed = 0;

	for (; done < steps || forever; done++) {
		struct toy_batch batch = { .tokens = done ? 1 : 8 };

		if (done == more)
			lanes = more_lanes;
		if (slow)
			setenv("TOY_WORK", done < slow ? slow_rounds : rounds, 1);
		if (step(batch, operators, lanes))
			exit(99);
		computed += operators * lanes;
		if (sleep_ms)
			usleep(sleep_ms * 1000);
	}
	printf("%s %d steps %d graphs %d operators\n", who, done, done, computed);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int *numbers[] = { &steps, &operators, &lanes };
	int status = 0, crash = 0, forks = 0, at = 0;
#ifdef LINKED
	step_function step = toy_step;
#else
	step_function step = NULL;
#endif

	for (int i = 1; i < argc; i++) {
		char *word = argv[i];

		if (*word >= '0' && *word <= '9' && at < 3) {
			*numbers[at++] = atoi(word);
		} else if (!strcmp(word, "wait")) {
			getchar();
		} else if (!strncmp(word, "load=", 5)) {
			void *library = dlopen(word + 5, RTLD_NOW);

			step = library ? (step_function)dlsym(library, "toy_step") : NULL;
		} else if (!strcmp(word, "fork")) {
			forks = 1;
		} else if (!strcmp(word, "exec")) {
			memmove(&argv[i], &argv[i + 1], (argc - i) * sizeof(*argv));
			execv("/proc/self/exe", argv);
		} else if (!strncmp(word, "sleep=", 6)) {
			sleep_ms = atoi(word + 6);
		} else if (!strncmp(word, "work=", 5)) {
			rounds_of(atol(word + 5), rounds, sizeof(rounds));
			setenv("TOY_WORK", rounds, 1);
		} else if (!strncmp(word, "barrier=", 8)) {
			char waits[24];

			rounds_of(atol(word + 8), waits, sizeof(waits));
			setenv("TOY_BARRIER", waits, 1);
		} else if (!strncmp(word, "slow=", 5)) {
			slow = atoi(word + 5);
			rounds_of(SLOW_US, slow_rounds, sizeof(slow_rounds));
		} else if (!strncmp(word, "more=", 5)) {
			sscanf(word + 5, "%d,%d", &more, &more_lanes);
		} else if (!strcmp(word, "forever")) {
			forever = 1;
		} else if (!strcmp(word, "crash")) {
			crash = 1;
		} else if (!strncmp(word, "exit=", 5)) {
			status = atoi(word + 5);
		}
	}
	if (!step) {
		fprintf(stderr, "no engine: %s\n", dlerror());
		return 98;
	}
	if (forks) {
		pid_t child = fork();

		if (!child) {
			run(step, "child");
			_exit(0);
		}
		waitpid(child, NULL, 0);
	}
	run(step, "parent");
	if (crash)
		raise(SIGSEGV);
	return status;
}
