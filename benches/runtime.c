/*
 * What benches/runtime.rs probes: functions that do nothing and start with `push`, the cheap instruction that most
 * functions start with. For each line `NAME CALLS` on standard input it calls that function and its bare twin, and says
 * how much processor time each took, in ns.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MEMBERS                                                                                                        \
	int kind;                                                                                                      \
	int dtype;                                                                                                     \
	long shape[4];                                                                                                 \
	struct thing *inputs[10];                                                                                      \
	void *data;                                                                                                    \
	char name[64];

struct thing {
	MEMBERS
};

/* The same, of which the probeset does not read what it refers to. */
struct plain {
	MEMBERS
};

struct params {
	int lane;
	int lanes;
};

#if defined(__x86_64__)
#define EMPTY(name) asm(".globl " #name "\n.type " #name ", @function\n" #name ": push %rbp\npop %rbp\nret\n"          \
			".size " #name ", .-" #name "\n"); void name(struct params *, void *);
#elif defined(__aarch64__)
#define EMPTY(name) asm(".globl " #name "\n.type " #name ", %function\n" #name ": stp x29, x30, [sp, #-16]!\n"         \
			"ldp x29, x30, [sp], #16\nret\n.size " #name ", .-" #name "\n"); void name(struct params *, void *);
#endif

#define PARTS(X) X(trap) X(event) X(call) X(field) X(two_fields) X(seen) X(known) X(references) X(description)
#define DEFINE(name) EMPTY(part_##name)
PARTS(DEFINE)
EMPTY(bare)

static struct params params;
static struct thing inputs[2] = { { .kind = 1, .name = "weight" }, { .kind = 2, .name = "activation" } };
static struct plain plain = { .kind = 4, .name = "plain" };
static struct thing thing = { .kind = 3, .name = "result", .inputs = { &inputs[0], &inputs[1] } };

typedef void (*part)(struct params *, void *);

static const struct {
	const char *name;
	part call;
} parts[] = {
#define ROW(name) { #name, part_##name },
	PARTS(ROW)
};

static long now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

/* Within one call of this, things stay as they are. */
__attribute__((noinline)) long graph(part call, long calls)
{
	long start = now_ns();

	for (long i = 0; i < calls; i++) {
		plain.data = call == part_description ? (char *)0 + i : NULL;
		call(&params, call == part_references ? (void *)&thing : &plain);
	}
	return now_ns() - start;
}

/* The same without a graph around it. */
__attribute__((noinline)) long loose(part call, long calls)
{
	long start = now_ns();

	for (long i = 0; i < calls; i++) {
		plain.data = call == part_description ? (char *)0 + i : NULL;
		call(&params, call == part_references ? (void *)&thing : &plain);
	}
	return now_ns() - start;
}

/* What ends the last span of a round. */
__attribute__((noinline)) void finish(void)
{
	asm volatile("");
}

int main(void)
{
	char name[32];
	long calls;

	while (scanf("%31s %ld", name, &calls) == 2)
		for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
			if (!strcmp(parts[i].name, name)) {
				int in_graph = parts[i].call == part_seen || parts[i].call == part_references;
				long with = in_graph ? graph(parts[i].call, calls) : loose(parts[i].call, calls);

				finish();
				printf("%ld %ld\n", loose(bare, calls), with);
				fflush(stdout);
			}
	return 0;
}
