/* Numbers that do not fit in those with a sign. */
#include <stdint.h>

enum mode { MODE_NONE, MODE_FAST = 0x80000001 };

struct numbers {
	uint64_t big;
	uint64_t one;
	enum mode mode;
};

__attribute__((noinline)) int numbers_step(struct numbers *numbers)
{
	__asm__ volatile("" ::"r"(numbers) : "memory");
	return 0;
}

int main(void)
{
	struct numbers numbers = {0xfffffffffffffff5, 1, MODE_FAST};

	return numbers_step(&numbers);
}
