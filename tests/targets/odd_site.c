/*
 * One of the engine's functions has an instruction that the kernel will not probe, behind one that it would. 3 steps of
 * 2 operators.
 */
#include "counted.h"

__asm__(".text\n.globl toy_odd\n.type toy_odd, @function\ntoy_odd:\n"
#ifdef __x86_64__
	"	nop\n	hlt\n	ret\n"
#else
	"	nop\n	hlt #0\n	ret\n"
#endif
	".size toy_odd, .-toy_odd\n");

int main(int argc, char **argv)
{
	count_in(argv);
	run_steps(3, 2);
	return 0;
}
