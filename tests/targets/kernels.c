/* Kernels whose nodes have a name and a type, in one of several layouts (-DPAD=N words before them, of what -DFILL is). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef PAD
#define PAD 0
#endif
#ifndef FILL
#define FILL 0
#endif

struct node {
	long id;
#if PAD
	void *pad[PAD];
#endif
	const char *name;
	const char *op;
	int inputs;
};

struct kernel {
	void *table;
	struct node *node;
};

static const char *const ops[] = { "conv", "softmax", "add" };
static char rubbish[] = "\001\002\003\004\005\006\007\x90\x91";
static long done;

__attribute__((noinline)) const char *node_name(const struct node *node)
{
	return node->name;
}

__attribute__((noinline)) int node_inputs(const struct node *node)
{
	return node->inputs;
}

__attribute__((noinline)) void run_conv(struct kernel *kernel)
{
	done += kernel->node->id;
}

__attribute__((noinline)) void run_softmax(struct kernel *kernel)
{
	done -= kernel->node->id;
}

__attribute__((noinline)) void run_add(struct kernel *kernel)
{
	done ^= kernel->node->id;
}

__attribute__((noinline)) void step(struct kernel **kernels, int count)
{
	void (*const run[])(struct kernel *) = { run_conv, run_softmax, run_add };

	for (int i = 0; i < count; i++)
		run[i % 3](kernels[i]);
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 24, rounds = argc > 2 ? atoi(argv[2]) : 200;
	struct kernel **kernels = calloc(count, sizeof(*kernels));

	for (int i = 0; i < count; i++) {
		char name[32];

		snprintf(name, sizeof(name), "layer%d/x", i);
		kernels[i] = calloc(1, sizeof(**kernels));
		kernels[i]->table = rubbish;
		kernels[i]->node = calloc(1, sizeof(struct node) + 64);
		kernels[i]->node->id = i;
#if PAD
		for (int word = 0; word < PAD; word++)
			kernels[i]->node->pad[word] = FILL ? (void *)rubbish : (void *)0;
#endif
		kernels[i]->node->name = strdup(name);
		kernels[i]->node->op = ops[i % 3];
		kernels[i]->node->inputs = i % 4;
	}
	for (int round = 0; round < rounds; round++) {
		step(kernels, count);
		usleep(10000);
	}
	printf("%ld %s %d\n", done, node_name(kernels[0]->node), node_inputs(kernels[0]->node));
	return 0;
}
