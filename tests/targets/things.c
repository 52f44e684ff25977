/*
 * Operators on things, inside graphs and outside, on two threads; with barriers on one of them. What is changed when is
 * known: see tests/root/record_cost.rs.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define THINGS 4

struct thing {
	int kind;
	char name[12];
	struct thing *inputs[2];
};

struct thing things[THINGS], leaf;
volatile long sink;

#define PROBED __attribute__((noinline))

PROBED void thing_operator(struct thing *thing)
{
	sink += thing->kind;
}

PROBED void thing_barrier(long n)
{
	sink += n;
}

PROBED int thing_graph(struct thing *first, int count, int barriers)
{
	for (int i = 0; i < count; i++) {
		thing_operator(&first[i]);
		for (int b = 0; b < barriers; b++)
			thing_barrier(b);
	}
	return count;
}

PROBED int thing_step(int n)
{
	/* Nothing changes: each thing and the leaf are described once. */
	for (int graph = 0; graph < 3; graph++)
		thing_graph(things, THINGS, 3);
	/* The leaf, which no operator is: seen as the input of each thing. */
	leaf.kind++;
	thing_graph(things, THINGS, 3);
	/* One of the things. */
	things[2].kind++;
	thing_graph(things, THINGS, 3);
	/* There and back. */
	things[2].kind--;
	thing_graph(things, THINGS, 3);
	/* Outside a graph each change counts. */
	for (int i = 0; i < 5; i++) {
		things[0].kind++;
		thing_operator(&things[0]);
	}
	return n;
}

static struct thing other = { .kind = 7, .name = "other" };

static void *elsewhere(void *argument)
{
	for (int i = 0; i < 3; i++) {
		other.kind++;
		thing_graph(&other, 1, 0);
	}
	return argument;
}

int main(void)
{
	pthread_t thread;

	strcpy(leaf.name, "leaf");
	for (int i = 0; i < THINGS; i++) {
		snprintf(things[i].name, sizeof(things[i].name), "thing %d", i);
		things[i].inputs[0] = &leaf;
		things[i].inputs[1] = i ? &things[i - 1] : NULL;
	}
	thing_step(1);
	pthread_create(&thread, NULL, elsewhere, NULL);
	pthread_join(thread, NULL);
	return 0;
}
