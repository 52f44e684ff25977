// Tensors whose shapes are in vectors, for learning: `tensors COUNT ROUNDS` prints each one's address and shape, and runs all
// of them ROUNDS times. PAD words lie before the vectors.
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
#include <vector>

#ifndef PAD
#define PAD 0
#endif

struct Tensor {
	void *methods;
	long padding[PAD + 1];
	std::vector<long> strides; // with zeroes, which no shape has
	int rank;
	std::vector<long> shape;
	long extents[3];
	long end;
};

extern "C" __attribute__((noinline)) void run_tensor(Tensor *tensor)
{
	asm volatile("" : : "r"(tensor) : "memory");
}

extern "C" __attribute__((noinline)) void step(std::vector<Tensor *> *all)
{
	for (Tensor *tensor : *all)
		run_tensor(tensor);
	usleep(5000);
}

int main(int argc, char **argv)
{
	std::vector<Tensor *> all;
	for (int i = 0; i < atoi(argv[1]); i++) {
		Tensor *tensor = new Tensor();
		tensor->methods = tensor;
		tensor->strides = {i % 2, 0, i};
		tensor->rank = 2;
		tensor->shape = {1 + i, 64 * (1 + i % 3)};
		for (int at = 0; at < 3; at++)
			tensor->extents[at] = 7 + i + at;
		tensor->end = 0; // no extents begin one later
		all.push_back(tensor);
		printf("%p %ld %ld %ld\n", (void *)tensor, tensor->shape[0], tensor->shape[1], tensor->extents[2]);
	}
	fflush(stdout);
	for (int round = 0; argc > 2 && round < atoi(argv[2]); round++)
		step(&all);
	return 0;
}
