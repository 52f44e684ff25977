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
 */
#include "chaos.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct chaos_counts *counts;
static const char *engine;
static long steps = 5, ms = 2000, rounds = -1, pause_us, children, reload;

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

static void *open_engine(void)
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

static void run(double until, long most)
{
	void *library = open_engine();
	long (*step)(int, int) = (long (*)(int, int))dlsym(library, "chaos_step");

	add(&counts->processes, 1);
	add(&counts->loads, 1);
	for (long done = 0; (most < 0 || done < most) && (most >= 0 || now_ms() < until); done++) {
		if (reload && done) {
			dlclose(library);
			library = open_engine();
			step = (long (*)(int, int))dlsym(library, "chaos_step");
			add(&counts->loads, 1);
		}
		round_of(step);
		if (pause_us)
			usleep(pause_us);
	}
}

int main(int argc, char **argv)
{
	int status = 0, file, wait_first = 0;
	double until;

	if (argc < 3 || (file = open(argv[1], O_RDWR | O_CREAT, 0644)) < 0 || ftruncate(file, sizeof(*counts)))
		return 97;
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	engine = argv[2];
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
		else if (!strcmp(argv[i], "reload"))
			reload = 1;
		else if (!strcmp(argv[i], "wait"))
			wait_first = 1;
	}
	if (wait_first)
		getchar();
	until = now_ms() + ms;
	if (!children) {
		run(until, rounds);
	} else {
		for (long started = 0, ended = 0;; ended++) {
			int child_status;

			while (started - ended < children && now_ms() < until) {
				pid_t child = fork();

				if (!child) {
					run(until, rounds < 0 ? 20 : rounds);
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
	printf("%lu steps %lu operators %lu wrong %lu loads %lu processes\n", counts->steps, counts->operators,
	       counts->wrong, counts->loads, counts->processes);
	return status ? status : counts->wrong ? 95 : 0;
}
