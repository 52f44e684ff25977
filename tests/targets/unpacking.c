/*
 * unpacking LANES STEPS: operators whose functions unpack, multiply, copy, fault and spin for known times; see
 * tests/root/sampled.rs. When it ends it prints the CPU time of each by the threads' clocks, in ns: `name time`.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define PROBED __attribute__((noinline, noclone))
#define LANES 64
#define UNIT 400000
#define FRESH (6 << 20)

enum unpack_op { OP_MUL_MAT, OP_CPY, OP_GROW, OP_ADD };

struct unpack_node {
	enum unpack_op op;
	char name[28];
};

static struct unpack_node nodes[] = {
	{ OP_MUL_MAT, "blk.0.mul" }, { OP_CPY, "blk.0.copy" }, { OP_GROW, "blk.1.grow" }, { OP_ADD, "blk.1.add" }
};

enum part { UNPACK, DOT, COPY, FAULT, SPIN, PARTS };

static const char *names[PARTS] = { "unpack", "dot", "copy", "fault", "spin" };
static _Atomic uint64_t spent[PARTS];
volatile uint64_t sink;

static inline __attribute__((always_inline)) uint64_t spin(uint64_t times)
{
	uint64_t value = 1;

	while (times--) {
		value += value << 3 ^ times;
		__asm__ volatile("" : "+r"(value));
	}
	return value;
}

PROBED uint64_t unpack_rows(uint64_t times)
{
	return spin(times);
}

PROBED uint64_t dot_rows(uint64_t times)
{
	return spin(times) + 1;
}

PROBED uint64_t copy_rows(uint64_t times)
{
	return spin(times) + 2;
}

PROBED uint64_t barrier_spin(uint64_t times)
{
	return spin(times) + 3;
}

/* Time of the kernel's, nearly all of it: a page fault for each page. */
PROBED uint64_t grow_rows(volatile char *fresh)
{
	uint64_t sum = 0;

	for (int at = 0; at < FRESH; at += 4096)
		sum += fresh[at] = 1;
	return sum;
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

#define SPEND(part, value)                                                                                             \
	do {                                                                                                           \
		uint64_t from = now();                                                                                 \
		sink += (value);                                                                                       \
		spent[part] += now() - from;                                                                           \
	} while (0)

PROBED void unpack_operator(int lane, struct unpack_node *node, char *fresh)
{
	switch (node->op) {
	case OP_MUL_MAT:
		SPEND(UNPACK, unpack_rows(3 * UNIT));
		SPEND(DOT, dot_rows(4 * UNIT));
		break;
	case OP_CPY:
		SPEND(COPY, copy_rows(2 * UNIT));
		break;
	case OP_GROW:
		SPEND(FAULT, grow_rows(fresh));
		break;
	case OP_ADD:
		SPEND(SPIN, barrier_spin(2 * UNIT));
		break;
	}
	sink += lane;
}

static void *run_lane(void *lane)
{
	char *fresh = mmap(NULL, FRESH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise(fresh, FRESH, MADV_NOHUGEPAGE);
	for (unsigned i = 0; i < sizeof(nodes) / sizeof(*nodes); i++)
		unpack_operator((int)(intptr_t)lane, &nodes[i], fresh);
	munmap(fresh, FRESH);
	return NULL;
}

PROBED int unpack_graph(int lanes)
{
	pthread_t threads[LANES];

	for (int lane = 1; lane < lanes; lane++)
		pthread_create(&threads[lane], NULL, run_lane, (void *)(intptr_t)lane);
	run_lane(NULL);
	for (int lane = 1; lane < lanes; lane++)
		pthread_join(threads[lane], NULL);
	return lanes;
}

PROBED int unpack_step(int tokens, int lanes)
{
	return unpack_graph(lanes) + tokens;
}

int main(int argc, char **argv)
{
	int lanes = argc > 1 ? atoi(argv[1]) : 1, steps = argc > 2 ? atoi(argv[2]) : 20;

	for (int step = 0; step < steps; step++)
		unpack_step(1, lanes);
	for (int part = 0; part < PARTS; part++)
		printf("%s %llu\n", names[part], (unsigned long long)spent[part]);
	return 0;
}
