// A function that returns a class-like struct in memory, and calls another that does: the register in which its place came
// in is used again.

struct result {
	long number, square, more[2];
};

static volatile long one = 1;

__attribute__((noinline, noclone)) struct result other(long number)
{
	struct result made = { number * one, number * number * one, { 0, 0 } };

	return made;
}

__attribute__((noinline, noclone)) struct result returned(long number)
{
	struct result inner = other(-number), made = { number, inner.square, { one, one } };

	return made;
}

int main(void)
{
	long sum = 0;

	for (long number = 1; number <= 20; number++)
		sum += returned(number).square;
	return sum != 2870;
}
