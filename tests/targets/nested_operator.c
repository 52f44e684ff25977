/* Steps of one long operator, which calls the same function for its parts. */
#include <stdlib.h>
#include <time.h>

static long now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

__attribute__((noinline)) int compute(int level)
{
	long until = now_us() + 200;
	int sum = level;

	for (int part = 0; level == 0 && part < 100; part++)
		sum += compute(1);
	while (level && now_us() < until)
		sum++;
	__asm__ volatile("" : "+r"(sum));
	return sum;
}

__attribute__((noinline)) int step(int number)
{
	int sum = number + compute(0);

	__asm__ volatile("" : "+r"(sum));
	return sum;
}

int main(int argc, char **argv)
{
	int sum = 0;

	for (int number = argc > 1 ? atoi(argv[1]) : 0; number; number--)
		sum += step(number);
	return sum == 1;
}
