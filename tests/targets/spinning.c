/*
 * spinning LANES STEPS: functions that spin for known parts of the time, inside and outside of operators; see
 * tests/root/samples.rs. When it ends it prints the CPU time of each by the threads' clocks, in ns: `name time`.
 * Threads are made anew for each graph.
 */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PROBED __attribute__((noinline, noclone))
#define LANES 64

enum spin_op { SPIN_MUL, SPIN_ADD, SPIN_JIT, SPIN_READ };

struct spin_node {
	enum spin_op op;
	char name[28];
};

static struct spin_node nodes[] = {
	{ SPIN_MUL, "blk.0.mul" }, { SPIN_ADD, "blk.0.add" }, { SPIN_JIT, "blk.1.jit" }, { SPIN_READ, "blk.1.read" }
};

enum part { LARGE, SMALL, INLINED, PLT, JIT, SYSTEM, BETWEEN, OUTSIDE, LOADING, PARTS };

static const char *names[PARTS] = { "large", "small", "inlined", "library_spin", "jit", "system", "between", "outside",
				    "loading" };
static _Atomic uint64_t spent[PARTS];
static uint64_t (*generated)(uint64_t);
volatile uint64_t sink;

/* In libspinning.so: called through a stub of the linker. */
uint64_t library_spin(uint64_t times);

static inline __attribute__((always_inline)) uint64_t spin(uint64_t times)
{
	uint64_t value = 1;

	while (times--) {
		value += value << 3 ^ times;
		__asm__ volatile("" : "+r"(value));
	}
	return value;
}

PROBED uint64_t large(uint64_t times)
{
	return spin(times);
}

PROBED uint64_t small(uint64_t times)
{
	return spin(times) + 1;
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

#define UNIT 400000

/* The inlined loop is this function's own. */
PROBED uint64_t multiply(void)
{
	SPEND(LARGE, large(6 * UNIT));
	SPEND(SMALL, small(3 * UNIT));
	SPEND(INLINED, spin(2 * UNIT));
	return sink;
}

PROBED void add(void)
{
	SPEND(PLT, library_spin(4 * UNIT));
}

PROBED void run_generated(void)
{
	SPEND(JIT, generated(3 * UNIT));
}

/* Time of the kernel's. */
PROBED void read_system(void)
{
	static char buffer[1 << 16];
	FILE *zero = fopen("/dev/zero", "r");

	setvbuf(zero, NULL, _IONBF, 0);
	SPEND(SYSTEM, ({
		      uint64_t sum = 0;
		      for (int i = 0; i < 150; i++)
			      sum += read(fileno(zero), buffer, sizeof(buffer));
		      sum;
	      }));
	fclose(zero);
}

PROBED void spin_operator(int lane, struct spin_node *node)
{
	switch (node->op) {
	case SPIN_MUL:
		multiply();
		break;
	case SPIN_ADD:
		add();
		break;
	case SPIN_JIT:
		run_generated();
		break;
	case SPIN_READ:
		read_system();
		break;
	}
	sink += lane;
}

PROBED uint64_t between(uint64_t times)
{
	return spin(times) + 2;
}

PROBED uint64_t outside(uint64_t times)
{
	return spin(times) + 3;
}

PROBED uint64_t loading(uint64_t times)
{
	return spin(times) + 4;
}

static void *run_lane(void *lane)
{
	for (unsigned i = 0; i < sizeof(nodes) / sizeof(*nodes); i++) {
		spin_operator((int)(intptr_t)lane, &nodes[i]);
		SPEND(BETWEEN, between(UNIT));
	}
	return NULL;
}

PROBED int spin_graph(int lanes)
{
	pthread_t threads[LANES];

	for (int lane = 1; lane < lanes; lane++)
		pthread_create(&threads[lane], NULL, run_lane, (void *)(intptr_t)lane);
	run_lane(NULL);
	for (int lane = 1; lane < lanes; lane++)
		pthread_join(threads[lane], NULL);
	return lanes;
}

PROBED int spin_step(int lanes)
{
	SPEND(OUTSIDE, outside(2 * UNIT));
	return spin_graph(lanes);
}

/* The same loop as `spin`, in memory without a file. */
static void generate(void)
{
#if defined(__x86_64__)
	static const unsigned char code[] = {
		0xb8, 1, 0, 0, 0, /* mov $1, %eax */
		0x48, 0x8d, 0x14, 0xc0, /* 1: lea (%rax,%rax,8), %rdx */
		0x48, 0x31, 0xfa, /* xor %rdi, %rdx */
		0x48, 0x89, 0xd0, /* mov %rdx, %rax */
		0x48, 0xff, 0xcf, /* dec %rdi */
		0x75, 0xf1, /* jne 1b */
		0xc3, /* ret */
	};
#else
	static const unsigned int code[] = { 0xd2800021, 0x8b010c21, 0xca000021, 0xf1000400, 0x54ffffa1, 0xaa0103e0,
					     0xd65f03c0 };
#endif
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(memory, code, sizeof(code));
	__builtin___clear_cache(memory, (char *)memory + sizeof(code));
	generated = (uint64_t(*)(uint64_t))memory;
}

int main(int argc, char **argv)
{
	int lanes = argc > 1 ? atoi(argv[1]) : 1, steps = argc > 2 ? atoi(argv[2]) : 20;

	generate();
	for (int step = 0; step < steps; step++) {
		spin_step(lanes);
		SPEND(LOADING, loading(2 * UNIT));
	}
	for (int part = 0; part < PARTS; part++)
		printf("%s %llu\n", names[part], (unsigned long long)spent[part]);
	return 0;
}
