/*
 * An engine whose weights are a mapped file that may be larger than its memory: `reclaiming FILE STEPS`. Each step, an
 * operator of each layer reads its weight, one byte of each page.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LAYERS 4
#define PAGE 4096

enum toy_op { NONE, MUL_MAT };
enum toy_type { TOY_F32 };
struct toy_tensor {
	enum toy_op op;
	enum toy_type type;
	char name[32];
	long shape[3];
	struct toy_tensor *inputs[1];
	void *data;
};
struct toy_params {
	int lane, lanes;
};

static struct toy_tensor results[LAYERS];
static char *weights[LAYERS];
static long layer_bytes;
volatile long toy_sink;

__attribute__((noinline)) void toy_operator(struct toy_params *params, struct toy_tensor *tensor)
{
	volatile char *data = weights[tensor - results];

	for (long at = params->lane; at < layer_bytes; at += PAGE)
		toy_sink += data[at];
}

__attribute__((noinline)) int toy_step(int tokens, int step, int lanes)
{
	struct toy_params params = { 0, lanes };

	for (int layer = 0; layer < LAYERS; layer++)
		toy_operator(&params, &results[layer]);
	return tokens + 0 * step;
}

int main(int argc, char **argv)
{
	int file = argc > 2 ? open(argv[1], O_RDONLY) : -1, steps = argc > 2 ? atoi(argv[2]) : 0;
	struct stat about;
	char *map;

	if (file < 0 || fstat(file, &about))
		return 2;
	map = mmap(NULL, about.st_size, PROT_READ, MAP_SHARED, file, 0);
	if (map == MAP_FAILED)
		return 3;
	layer_bytes = about.st_size / LAYERS / PAGE * PAGE;
	for (int layer = 0; layer < LAYERS; layer++) {
		struct toy_tensor *result = &results[layer];

		weights[layer] = map + layer * layer_bytes;
		result->op = MUL_MAT;
		snprintf(result->name, sizeof(result->name), "out-%d", layer);
		result->shape[0] = result->shape[1] = result->shape[2] = 1;
		result->data = weights[layer];
	}
	for (int step = 0; step < steps; step++)
		toy_step(1, step, 1);
	return 0;
}
