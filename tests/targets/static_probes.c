/*
 * Static probes as sys/sdt.h writes them, in the forms that compilers choose and some that they rarely do: the notes
 * are written by hand, so that each form is there whatever the compiler. It counts what it does itself.
 */
#include <stdio.h>
#include <stdlib.h>

#define PROBE(name, semaphore, arguments, ...)                                                                         \
	__asm__ volatile("990: nop\n"                                                                                  \
			 ".pushsection .note.stapsdt,\"\",\"note\"\n"                                                  \
			 ".balign 4\n"                                                                                 \
			 ".4byte 992f-991f, 994f-993f, 3\n"                                                            \
			 "991: .asciz \"stapsdt\"\n"                                                                   \
			 "992: .balign 4\n"                                                                            \
			 "993: .8byte 990b\n"                                                                          \
			 ".8byte _.stapsdt.base\n"                                                                     \
			 ".8byte " semaphore "\n"                                                                      \
			 ".asciz \"toy\"\n"                                                                            \
			 ".asciz \"" name "\"\n"                                                                       \
			 ".asciz \"" arguments "\"\n"                                                                  \
			 "994: .balign 4\n"                                                                            \
			 ".popsection\n"                                                                               \
			 ".ifndef _.stapsdt.base\n"                                                                    \
			 ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"                       \
			 ".weak _.stapsdt.base\n"                                                                      \
			 ".hidden _.stapsdt.base\n"                                                                    \
			 "_.stapsdt.base: .space 1\n"                                                                  \
			 ".size _.stapsdt.base,1\n"                                                                    \
			 ".popsection\n"                                                                               \
			 ".endif\n" ::__VA_ARGS__)

/* How many look at the probe of that name. */
volatile unsigned short toy_guarded_semaphore __attribute__((section(".probes"), used));

static long table[64];

__attribute__((noinline)) static void guarded(short number, long *seen)
{
	if (!toy_guarded_semaphore)
		return;
	(*seen)++;
	PROBE("guarded", "toy_guarded_semaphore", "-2@%w0 8@%1", "r"(number), "r"(seen));
}

int main(int argc, char **argv)
{
	int steps = argc > 1 ? atoi(argv[1]) : 3;
	long total = 1, seen = 0, items = 0, values = 0;

	for (int step = 1; step <= steps; step++) {
		PROBE("begin", "0", "-4@%0 8@%1", "r"(step), "m"(total));
		for (long item = 0; item < 4; item++) {
			long value = -1000 * item - step;

			table[item + 3] = value;
			items++;
			values += value;
			if (item & 1)
				PROBE("item", "0", "-4@%k0 -8@24(%1,%0,8) 4@$7", "r"(item), "r"((long *)table), "m"(table));
			else
				PROBE("item", "0", "-4@%k0 -8@%1 4@$5 8@nowhere(%%rip)", "r"(item), "m"(value));
		}
		guarded(-step, &seen);
		total += step;
		PROBE("end", "0", "");
	}
	printf("items %ld values %ld guarded %ld\n", items, values, seen);
	return 0;
}
