// What lies behind a vector and an array in place is readable, and none of theirs: the program prints what is theirs.
#include <cstdio>
#include <cstdlib>
#include <vector>

struct Lists {
	std::vector<long> numbers;
	void *in_place[3];
	void *behind;
	long from;
};

extern "C" __attribute__((noinline)) int lists_step(Lists *lists)
{
	__asm__ volatile("" ::"r"(lists) : "memory");
	return 0;
}

int main()
{
	for (long size = 0; size < 5; size++) {
		Lists lists;
		// There is room for more, all of it with values.
		lists.numbers.assign(8, 7);
		for (long i = 0; i < size; i++)
			lists.numbers[i] = 10 + i;
		lists.numbers.resize(size);
		for (long i = 0; i < 3; i++)
			lists.in_place[i] = (void *)(i < size ? 0x1000 + i : 0);
		lists.behind = (void *)0x2000;
		lists.from = size - 2;
		lists_step(&lists);
	}
}
