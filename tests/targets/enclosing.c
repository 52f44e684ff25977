/*
 * Runs items of plans by their numbers, as delegates do: what runs an item has neither the plan nor the item. Prints what
 * each call was. Nested plans, a call outside of a plan, and one in a plan that was left by longjmp.
 */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

struct item {
	int kind;
	int function;
	long size;
};

struct plan {
	long count;
	struct item *items;
	struct plan *inner;
};

/* Kinds by number; functions of those that have one. */
static const char *const kinds[] = { "Nothing (NC)", "Product (NC, F32)", "Binary (ND)" };
static const char *const functions[] = { "No Function", "Add (ND)", "Multiply (ND)" };
static jmp_buf away;

__attribute__((noinline)) int run_item(int kind, unsigned long index)
{
	__asm__ volatile("" : "+r"(kind), "+r"(index));
	if (kind < 0)
		longjmp(away, 1);
	return kind + (int)index;
}

__attribute__((noinline)) int run_plan(struct plan *plan)
{
	int sum = 0;

	for (long i = 0; i < plan->count; i++) {
		struct item *item = &plan->items[i];

		if (item->kind >= 0)
			printf("%s %ld\n", item->kind == 2 ? functions[item->function + 1] : kinds[item->kind], item->size);
		sum += run_item(item->kind, (unsigned long)i);
		__asm__ volatile("" ::: "memory");
	}
	if (plan->inner)
		sum += run_plan(plan->inner);
	return sum;
}

__attribute__((noinline)) int step(struct plan *one, struct plan *other)
{
	int sum = run_plan(one) + run_plan(other);

	printf("%s outside\n", kinds[1]);
	return sum + run_item(1, 0);
}

int main(int argc, char **argv)
{
	struct item few[] = { { 1, 0, 100 }, { 2, 0, 101 } }, many[] = { { 0, 0, 200 }, { 2, 1, 201 }, { 1, 0, 202 } };
	struct item leaves[] = { { 1, 0, 300 }, { -1, 0, 0 } };
	struct plan one = { 2, few, NULL }, other = { 3, many, NULL }, left = { 2, leaves, NULL };
	struct plan outer = { 1, few, &other };
	int rounds = argc > 1 ? atoi(argv[1]) : 1, sum = 0;

	for (int i = 0; i < rounds; i++)
		sum += step(&one, &other);
	if (argc > 2) {
		/* The outermost plan is the one whose argument is read: within another, nothing is. */
		sum += run_plan(&outer);
		if (!setjmp(away))
			sum += run_plan(&left);
		sum += step(&other, &one);
	}
	fprintf(stderr, "%d\n", sum);
	return 0;
}
