/*
 * fibers N ROUNDS [malloc]: N fibers, each in the middle of a call when another one goes on, as `swapcontext` has it.
 * Each result is compared with what it must be. It prints the calls it made; status 1: a result was wrong.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define MOST 16
#define STACK (256 * 1024)

static ucontext_t main_context, contexts[MOST];
static int current, ended[MOST];
static long wrong, steps, operators;

/* Leaves in the middle, and returns when it is resumed. */
__attribute__((noinline)) long fiber_operator(long number)
{
	volatile long kept = number * 31;

	swapcontext(&contexts[current], &main_context);
	return kept + number;
}

static void run(int number, int rounds)
{
	for (long i = 0; i < rounds; i++) {
		if (fiber_operator(number + i) != (number + i) * 32)
			wrong++;
		operators++;
	}
	ended[number] = 1;
}

/* One turn of every fiber; called on the thread's own stack. */
__attribute__((noinline)) long fiber_step(int fibers)
{
	long left = 0;

	for (int i = fibers - 1; i >= 0; i--) {
		if (ended[i])
			continue;
		current = i;
		swapcontext(&main_context, &contexts[i]);
		left += !ended[i];
	}
	return left;
}

int main(int argc, char **argv)
{
	int fibers = argc > 1 ? atoi(argv[1]) : 4, rounds = argc > 2 ? atoi(argv[2]) : 10;

	for (int i = 0; i < fibers && i < MOST; i++) {
		char *stack = argc > 3 && !strcmp(argv[3], "malloc") ?
				      malloc(STACK) :
				      mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		getcontext(&contexts[i]);
		contexts[i].uc_stack.ss_sp = stack;
		contexts[i].uc_stack.ss_size = STACK;
		contexts[i].uc_link = &main_context;
		makecontext(&contexts[i], (void (*)(void))run, 2, i, rounds);
	}
	do
		steps++;
	while (fiber_step(fibers));
	printf("%ld steps %ld operators %ld wrong\n", steps, operators, wrong);
	return wrong != 0;
}
