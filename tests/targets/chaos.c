/*
 * chaos COUNTS ENGINE [word…]: runs steps of an engine (a library) and compares each result with what it must be.
 * Words:
 *   ms=N         for so long (2000)
 *   wait         begin when there is a line (or an end) on standard input
 *   reload       dlopen and dlclose around each round
 *   children=N   N child processes at a time do the same, one generation after the other
 *   steps=N      of a round (5)
 *   rounds=N     so many, whatever the time
 *   pause=US     between two rounds
 *   work=US      each operator takes so long
 *   vfork=N, spawn=N  N child processes, made in this way one after the other, do the same 20 times, while a thread
 *                computes
 *   beside=ENGINE  a thread loads this engine, calls and unloads it, over and over, while the main thread computes
 *   quiet        print nothing
 * -DLINKED: the engine is part of the program, which may be static then.
 */
#include "chaos.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct chaos_counts *counts;
static const char *engine;
static const char *beside;
static char **arguments;
static long steps = 5, ms = 2000, rounds = -1, pause_us, children, reload, vforks, spawns;
extern char **environ;

static double now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

/* What a step must give, computed here. */
static long expected(int tokens, int operators)
{
	long all = 0;

	for (int k = 0; k < operators; k++) {
		long op = k % 3, sum = op;

		for (long i = 0; i < 20 + k; i++)
			sum = sum * 31 + (i ^ op);
		all += sum;
	}
	return all * tokens;
}

static void add(unsigned long *count, unsigned long more)
{
	__atomic_add_fetch(count, more, __ATOMIC_RELAXED);
}

static void round_of(long (*step)(int, int))
{
	for (long i = 0; i < steps; i++) {
		int tokens = i ? 1 : 8;

		if (step(tokens, CHAOS_OPERATORS) != expected(tokens, CHAOS_OPERATORS))
			add(&counts->wrong, 1);
		add(&counts->steps, 1);
		add(&counts->operators, CHAOS_OPERATORS);
	}
}

#ifdef LINKED
#define dlopen(name, flags) ((void *)(name))
#define dlsym(library, name) ((void *)chaos_step)
#define dlclose(library) ((void)(library))
#define dlerror() ""
#endif

static void *open_engine(const char *engine)
{
	/* While it is replaced there may be none for an instant. */
	for (int i = 0; i < 100; i++) {
		void *library = dlopen(engine, RTLD_NOW | RTLD_LOCAL);

		if (library)
			return library;
		usleep(1000);
	}
	fprintf(stderr, "%s\n", dlerror());
	_exit(98);
}

static void run(const char *engine, double until, long most, long reload)
{
	void *library = open_engine(engine);
	long (*step)(int, int) = (long (*)(int, int))dlsym(library, "chaos_step");

	add(&counts->processes, 1);
	add(&counts->loads, 1);
	for (long done = 0; (most < 0 || done < most) && (most >= 0 || now_ms() < until); done++) {
		if (reload && done) {
			dlclose(library);
			library = open_engine(engine);
			step = (long (*)(int, int))dlsym(library, "chaos_step");
			add(&counts->loads, 1);
		}
		round_of(step);
		if (pause_us)
			usleep(pause_us);
	}
}

static double until;
static volatile int is_over;

static void *work_beside(void *unused)
{
	/* Until the main thread is done; each of these opens it anew. */
	do
		run(beside ? beside : engine, 0, 2, beside != NULL);
	while (!is_over);
	return unused;
}

/* A child process that runs this program again, for 20 rounds. */
static int make_child(int by_vfork)
{
	char *words[] = { arguments[0], arguments[1], arguments[2], "rounds=20", "reload", "quiet", NULL };
	pid_t child;
	int status = 1;

	if (!by_vfork) {
		if (posix_spawn(&child, arguments[0], NULL, NULL, words, environ))
			return 1;
	} else if (!(child = vfork())) {
		execv(arguments[0], words);
		_exit(94);
	}
	return child < 0 || waitpid(child, &status, 0) != child || status;
}

int main(int argc, char **argv)
{
	int status = 0, file, wait_first = 0, quiet = 0;

	if (argc < 3 || (file = open(argv[1], O_RDWR | O_CREAT, 0644)) < 0 || ftruncate(file, sizeof(*counts)))
		return 97;
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	engine = argv[2];
	arguments = argv;
	for (int i = 3; i < argc; i++) {
		if (!strncmp(argv[i], "ms=", 3))
			ms = atol(argv[i] + 3);
		else if (!strncmp(argv[i], "steps=", 6))
			steps = atol(argv[i] + 6);
		else if (!strncmp(argv[i], "rounds=", 7))
			rounds = atol(argv[i] + 7);
		else if (!strncmp(argv[i], "pause=", 6))
			pause_us = atol(argv[i] + 6);
		else if (!strncmp(argv[i], "work=", 5))
			setenv("CHAOS_WORK", argv[i] + 5, 1);
		else if (!strncmp(argv[i], "children=", 9))
			children = atol(argv[i] + 9);
		else if (!strncmp(argv[i], "vfork=", 6))
			vforks = atol(argv[i] + 6);
		else if (!strncmp(argv[i], "spawn=", 6))
			spawns = atol(argv[i] + 6);
		else if (!strncmp(argv[i], "beside=", 7))
			beside = argv[i] + 7;
		else if (!strcmp(argv[i], "quiet"))
			quiet = 1;
		else if (!strcmp(argv[i], "reload"))
			reload = 1;
		else if (!strcmp(argv[i], "wait"))
			wait_first = 1;
	}
	if (wait_first)
		getchar();
	until = now_ms() + ms;
	if (vforks || spawns || beside) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, work_beside, NULL))
			return 93;
		while (vforks-- > 0)
			status |= make_child(1);
		while (spawns-- > 0)
			status |= make_child(0);
		if (beside)
			run(engine, until, rounds, reload);
		is_over = 1;
		pthread_join(thread, NULL);
	} else if (!children) {
		run(engine, until, rounds, reload);
	} else {
		for (long started = 0, ended = 0;; ended++) {
			int child_status;

			while (started - ended < children && now_ms() < until) {
				pid_t child = fork();

				if (!child) {
					run(engine, until, rounds < 0 ? 20 : rounds, reload);
					_exit(0);
				}
				started++;
			}
			if (started == ended)
				break;
			if (wait(&child_status) > 0 && child_status)
				status = 96;
		}
	}
	if (!quiet)
		printf("%lu steps %lu operators %lu wrong %lu loads %lu processes\n", counts->steps, counts->operators,
		       counts->wrong, counts->loads, counts->processes);
	return status ? status : counts->wrong ? 95 : 0;
}
