/*
 * The second of eight steps is left by longjmp, from its graph's third operator; the later ones begin deeper on the stack
 * than it did, so that only what is written over it shows that it is gone.
 */
#include "counted.h"
#include <setjmp.h>
#include <string.h>

static jmp_buf back;

static void leave(struct toy_params *params, unsigned long number)
{
	if (number == 4 + 3)
		longjmp(back, 1);
}

static __attribute__((noinline)) void deeper(void)
{
	volatile char stack[16384];

	memset((char *)stack, 1, sizeof(stack));
	run_steps(1, 4);
	__asm__ volatile("" ::"r"(stack) : "memory");
}

int main(int argc, char **argv)
{
	count_in(argv);
	in_operator = leave;
	if (!setjmp(back))
		run_steps(2, 4);
	in_operator = NULL;
	for (int step = 2; step < 8; step++)
		deeper();
	return 0;
}
