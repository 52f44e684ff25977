/* The library of spinning.c. */
#include <stdint.h>

uint64_t library_spin(uint64_t times)
{
	uint64_t value = 1;

	while (times--) {
		value += value << 3 ^ times;
		__asm__ volatile("" : "+r"(value));
	}
	return value;
}
