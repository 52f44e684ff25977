/*
 * Arguments that cannot be read where the probe is: no address, none of the process's, and a page that is not in memory
 * until the function itself touches it. 5 of each; then 4 steps of 2 operators that can be.
 */
#define _GNU_SOURCE
#include "counted.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	FILE *file = tmpfile();
	struct toy_params *paged;

	count_in(argv);
	for (int i = 0; i < 4096; i++)
		putc(0, file);
	fflush(file);
	paged = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(file), 0);
	for (int i = 0; i < 5; i++) {
		toy_operator(NULL, NULL);
		toy_operator((void *)(uintptr_t)0xdead000, NULL);
		madvise(paged, 4096, MADV_DONTNEED);
		toy_operator(paged, &counted_tensor);
	}
	run_steps(4, 2);
	return 0;
}
