/*
 * Two units with different types of one name, and a function each: compiled once with -DSECOND. Each function returns the
 * member that it reads.
 */
#ifdef SECOND
struct context {
	int tokens;
	int others[4];
};

__attribute__((noinline)) int second_call(struct context *of)
{
	__asm__ volatile("" ::: "memory");
	return of->tokens;
}

void second_run(int number)
{
	struct context of = { 1000 + number, { 7, 7, 7, 7 } };

	second_call(&of);
}
#else
struct context {
	int others[4];
	int tokens;
};

void second_run(int number);

__attribute__((noinline)) int first_step(struct context *of)
{
	__asm__ volatile("" ::: "memory");
	return of->tokens;
}

int main(void)
{
	for (int i = 1; i <= 10; i++) {
		struct context of = { { 9, 9, 9, 9 }, i };

		first_step(&of);
		second_run(i);
	}
	return 0;
}
#endif
