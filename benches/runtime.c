/*
 * What benches/runtime.rs probes: functions that do nothing and start with `push`, the cheap instruction that most
 * functions start with. For each line `NAME CALLS BYTES` on standard input it calls that function and its bare twin, and
 * answers how long each took, in ns. Before each call it reads so many bytes of memory, which empties caches.
 */
#include <stdio.h>
#include <stdlib.h>
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

#define PARTS(X)                                                                                                       \
	X(trap) X(event) X(call) X(field) X(two_fields) X(seen) X(known) X(references) X(description) X(describes)     \
	X(reused) X(other_lane)
#define DEFINE(name) EMPTY(part_##name)
PARTS(DEFINE)
EMPTY(bare)

static struct params params, other = { .lane = 1 };
static struct thing inputs[2] = { { .kind = 1, .name = "weight" }, { .kind = 2, .name = "activation" } };
static struct plain plain = { .kind = 4, .name = "plain" };
static struct thing thing = { .kind = 3, .name = "result", .inputs = { &inputs[0], &inputs[1] } };

typedef void (*part)(struct params *, void *);

/* An exception that the kernel answers by itself: what a trap costs at least. */
static void exception(struct params *params, void *thing)
{
	(void)params, (void)thing;
#if defined(__x86_64__)
	/* A call of the emulated `vsyscall` page is a page fault. */
	((long (*)(void *, void *, void *))0xffffffffff600800UL)(NULL, NULL, NULL);
#elif defined(__aarch64__)
	/* The kernel emulates reads of this register. */
	long value;

	asm volatile("mrs %0, id_aa64pfr0_el1" : "=r"(value));
#endif
}

static const struct {
	const char *name;
	part call;
} parts[] = {
	{ "exception", exception },
#define ROW(name) { #name, part_##name },
	PARTS(ROW)
};

static int has_exception(void)
{
#if defined(__x86_64__)
	char line[512];
	int found = 0;
	FILE *maps = fopen("/proc/self/maps", "r");

	while (maps && fgets(line, sizeof(line), maps))
		found |= strstr(line, "[vsyscall]") != NULL;
	if (maps)
		fclose(maps);
	return found;
#else
	return 1;
#endif
}

static char *memory;

/* As an engine reads weights between two operators. */
static void read_memory(long bytes)
{
	static volatile long sum;

	for (long i = 0; i < bytes; i += 64)
		sum += memory[i];
}

static void find_memory(long bytes)
{
	free(memory);
	memory = malloc(bytes);
	if (!memory)
		exit(1);
	memset(memory, 1, bytes);
}

static long now_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

static inline __attribute__((always_inline)) long calls_ns(part call, long calls, long bytes)
{
	struct params *lane = call == part_other_lane ? &other : &params;
	int references = call == part_references || call == part_describes || call == part_reused ||
			 call == part_other_lane;
	/* A call to read a thread's time is a way into the kernel, which would be warm then. */
	clockid_t clock = bytes ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID;
	long start = now_ns(clock), sum = 0;

	for (long i = 0; i < calls; i++) {
		plain.data = call == part_description ? (char *)0 + i : NULL;
		if (bytes) {
			read_memory(bytes);
			start = now_ns(clock);
		}
		call(lane, references ? (void *)&thing : &plain);
		if (bytes)
			sum += now_ns(clock) - start;
	}
	return bytes ? sum : now_ns(clock) - start;
}

/* Within one call of this, things stay as they are. */
__attribute__((noinline)) long graph(part call, long calls, long bytes)
{
	return calls_ns(call, calls, bytes);
}

/* The same without a graph around it. */
__attribute__((noinline)) long loose(part call, long calls, long bytes)
{
	return calls_ns(call, calls, bytes);
}

/* What ends the last span of a round. */
__attribute__((noinline)) void finish(void)
{
	asm volatile("");
}

int main(void)
{
	char name[32];
	long calls, bytes;

	while (scanf("%31s %ld %ld", name, &calls, &bytes) == 3) {
		find_memory(bytes);
		for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
			if (!strcmp(parts[i].name, name)) {
				part call = parts[i].call;
				int in_graph = call == part_seen || call == part_references || call == part_reused;
				int absent = call == exception && !has_exception();
				long with = absent ? 0
					  : in_graph ? graph(call, calls, bytes)
						     : loose(call, calls, bytes);

				finish();
				printf("%ld %ld\n", absent ? 0 : loose(bare, calls, bytes), with);
				fflush(stdout);
			}
	}
	return 0;
}
