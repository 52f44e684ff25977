/*
 * hard [ROUNDS]: functions that are put into others in ways that make their runs hard to count. It says how often it ran
 * each. A probe on one of them sees each run, or is refused.
 */
#include <stdio.h>
#include <stdlib.h>

#define INLINED static inline __attribute__((always_inline)) void
#define APART __attribute__((noinline)) void

struct thing {
	int kind;
	int size;
	long sum;
};

static struct thing *things[8];
static long ran[8];
volatile long sink;

/* Loops of few rounds, which compilers write out. */
INLINED written_out(struct thing *thing)
{
	ran[0]++;
	thing->sum += thing->kind;
}
APART write_out(void)
{
	for (int i = 0; i < 3; i++)
		written_out(things[i]);
}

/* The same with a condition. */
INLINED conditional(struct thing *thing)
{
	ran[1]++;
	if (thing->kind & 1)
		thing->sum += thing->size;
}
APART run_conditional(void)
{
	for (int i = 0; i < 2; i++)
		conditional(things[i]);
}

/* A loop that compilers unroll or take the first round of. */
INLINED summed(struct thing *thing)
{
	ran[2]++;
	sink += thing->size;
}
APART sum_up(int count)
{
	for (int i = 0; i < count; i++)
		summed(things[i & 7]);
}

/* It begins with a loop of its own. */
INLINED looping(struct thing *thing)
{
	int left = thing->size;

	do {
		sink += left;
	} while (left-- > 0);
	ran[3]++;
}
APART run_looping(struct thing *thing)
{
	looping(thing);
}

/* Its first question is answered where it is called. */
INLINED asked_again(struct thing *thing)
{
	if (thing->kind == 2)
		sink += 2;
	else if (thing->kind == 3)
		sink += thing->size;
	ran[4]++;
}
APART ask_again(struct thing *thing)
{
	switch (thing->kind) {
	case 0:
		return;
	case 1:
		sink++;
		break;
	case 2:
		sink += 5;
		break;
	case 3:
		sink += 6;
		break;
	case 4:
		sink += 8;
		break;
	case 5:
		sink *= 3;
		break;
	}
	asked_again(thing);
}

/* It returns early, and is followed by more of itself. */
INLINED early(struct thing *thing, int again)
{
	ran[5]++;
	if (!thing->size)
		return;
	sink += thing->kind * again;
}
APART twice(struct thing *thing)
{
	early(thing, 1);
	early(thing, 2);
}

/* Called only sometimes. */
INLINED seldom(struct thing *thing)
{
	ran[6]++;
	sink += thing->size;
}
APART now_and_then(struct thing *thing, int round)
{
	if (round % 3 == 0)
		seldom(thing);
	sink++;
}

/* In a function that is itself put into another, and into two. */
INLINED innermost(struct thing *thing)
{
	ran[7]++;
	if (thing->kind > 3)
		sink++;
}
INLINED middle(struct thing *thing)
{
	sink += 9;
	innermost(thing);
}
APART outer(struct thing *thing)
{
	if (thing->size & 1)
		middle(thing);
	else
		innermost(thing);
}

APART step(int round)
{
	write_out();
	run_conditional();
	sum_up(round % 5);
	run_looping(things[round & 7]);
	ask_again(things[round & 7]);
	twice(things[round & 7]);
	now_and_then(things[round & 7], round);
	outer(things[round & 7]);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 10;

	for (int i = 0; i < 8; i++) {
		things[i] = malloc(sizeof(struct thing));
		*things[i] = (struct thing){ i % 7, i % 4, 0 };
	}
	for (int i = 0; i < rounds; i++)
		step(i);
	printf("written_out %ld conditional %ld summed %ld looping %ld asked_again %ld early %ld seldom %ld innermost %ld\n",
	       ran[0], ran[1], ran[2], ran[3], ran[4], ran[5], ran[6], ran[7]);
	return 0;
}
