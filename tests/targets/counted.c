#include "counted.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void (*in_graph)(unsigned long number);
void (*in_operator)(struct toy_params *params, unsigned long number);
struct toy_tensor counted_tensor = { .op = TOY_MATMUL, .name = "blk.0.tensor", .shape = { 64, 1 } };
static struct counts *counts;
volatile long counted_sink;

struct counts *count_in(char **arguments)
{
	int fd = open(arguments[1], O_RDWR | O_CREAT, 0600);

	if (fd < 0 || ftruncate(fd, sizeof(*counts)))
		exit(97);
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (counts == MAP_FAILED)
		exit(97);
	close(fd);
	return counts;
}

__attribute__((noinline)) void toy_operator(struct toy_params *params, struct toy_tensor *tensor)
{
	unsigned long number = __sync_add_and_fetch(&counts->operators, 1);

	if (in_operator)
		in_operator(params, number);
	for (long i = 0; i < 100; i++)
		counted_sink += i;
	if (tensor)
		counted_sink += tensor->op;
}

__attribute__((noinline)) int toy_graph(int operators, int lanes)
{
	struct toy_params params = { 0, lanes };
	unsigned long number = __sync_add_and_fetch(&counts->graphs, 1);

	if (in_graph)
		in_graph(number);
	for (int i = 0; i < operators; i++)
		toy_operator(&params, &counted_tensor);
	counted_sink++;
	return operators;
}

__attribute__((noinline)) int toy_step(struct toy_batch batch, int operators, int lanes)
{
	__sync_add_and_fetch(&counts->steps, 1);
	counted_tensor.shape[1] = batch.tokens;
	return toy_graph(operators, lanes) == operators ? 0 : -1;
}

void run_steps(int steps, int operators)
{
	for (int i = 0; i < steps; i++) {
		struct toy_batch batch = { .tokens = 1 };

		toy_step(batch, operators, 1);
	}
}
