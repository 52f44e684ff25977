/*
 * planned [lie]: graphs by plans that are used again and again, each with a number of its own. What is changed when is
 * known: see tests/root/record_cost.rs. With `lie`, a plan keeps its number though one of its things has changed.
 */
#include <stdio.h>
#include <string.h>

#define THINGS 4

struct thing {
	int kind;
	char name[12];
	struct thing *inputs[2];
};

struct plan {
	int count;
	unsigned long number;
};

struct thing things[THINGS];
volatile long sink;

#define PROBED __attribute__((noinline))

PROBED void plan_operator(struct thing *thing)
{
	sink += thing->kind;
}

PROBED int plan_graph(struct plan *plan)
{
	for (int i = 0; i < plan->count; i++)
		plan_operator(&things[i]);
	return plan->count;
}

PROBED int plan_step(struct plan *plan)
{
	return plan_graph(plan);
}

static void steps(struct plan *plan, int count)
{
	for (int i = 0; i < count; i++)
		plan_step(plan);
}

int main(int argc, char **argv)
{
	int lie = argc > 1 && !strcmp(argv[1], "lie");
	struct plan plan = { THINGS, 7 };

	for (int i = 0; i < THINGS; i++) {
		snprintf(things[i].name, sizeof(things[i].name), "thing %d", i);
		things[i].inputs[0] = i ? &things[i - 1] : NULL;
	}
	steps(&plan, 10);
	/* Another plan, and things that are not what they were. */
	things[1].kind = 1;
	plan.number += !lie;
	steps(&plan, 40);
	things[1].kind = 2;
	plan.number += !lie;
	steps(&plan, 5);
	/* One without a number. */
	plan.number = 0;
	for (int kind = 3; kind < 6; kind++) {
		things[1].kind = kind;
		steps(&plan, 1);
	}
	return 0;
}
