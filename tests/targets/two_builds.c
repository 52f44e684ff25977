// Two builds of one engine: compiled with -DENGINE into a library, also with -DNEWER, where members and constants have moved;
// without it into a program that loads the libraries that it is given, one after the other, and runs all that it has.
#ifdef ENGINE

#ifdef NEWER
enum op { OP_MUL, OP_ADD, OP_LAST };
struct node {
	long added[2];
	int size;
	enum op op;
};
#else
enum op { OP_ADD, OP_MUL, OP_LAST };
struct node {
	enum op op;
	int size;
};
#endif

__attribute__((noinline)) void node_compute(struct node *node)
{
	__asm__ volatile("" : : "r"(node) : "memory");
}

__attribute__((noinline)) void engine_run(int tokens)
{
	struct node add = {.op = OP_ADD, .size = tokens * 100};
	struct node last = {.op = OP_LAST, .size = tokens * 100 + 1};
	node_compute(&add);
	node_compute(&last);
	__asm__ volatile("" : : : "memory");
}

#else

#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	void (*run[8])(int) = {0};
	for (int count = 1; count < argc && count <= 8; count++) {
		void *library = dlopen(argv[count], RTLD_NOW | RTLD_LOCAL);
		if (!library || !(run[count - 1] = (void (*)(int))dlsym(library, "engine_run"))) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		for (int round = 0; round < 5; round++)
			for (int engine = 0; engine < count; engine++)
				run[engine](engine + 1);
	}
	return 0;
}

#endif
