/*
 * Operators are interrupted by a handler that computes one itself, on a stack of its own, which lies above the
 * interrupted one or below. 8 steps of 4 operators.
 */
#define _GNU_SOURCE
#include "counted.h"
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#define STACK (1 << 18)

static char *stack;
static volatile sig_atomic_t handles;

static void handler(int number)
{
	struct toy_params params = { 0, 1 };

	handles = 1;
	toy_operator(&params, &counted_tensor);
	handles = 0;
}

static void interrupt(struct toy_params *params, unsigned long number)
{
	if (!handles && number % 3 == 0)
		raise(SIGUSR1);
}

static void *run(void *argument)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
	stack_t own = { .ss_sp = stack, .ss_size = STACK };

	sigaltstack(&own, NULL);
	sigaction(SIGUSR1, &action, NULL);
	run_steps(8, 4);
	return NULL;
}

int main(int argc, char **argv)
{
	char *memory = mmap(NULL, 3 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int above = argc > 2 && !strcmp(argv[2], "above");
	pthread_attr_t attributes;
	pthread_t thread;

	count_in(argv);
	in_operator = interrupt;
	stack = above ? memory + 2 * STACK : memory;
	pthread_attr_init(&attributes);
	pthread_attr_setstack(&attributes, above ? memory : memory + 2 * STACK, STACK);
	pthread_create(&thread, &attributes, run, NULL);
	pthread_join(thread, NULL);
	return 0;
}
