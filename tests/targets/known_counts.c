/*
 * known_counts [ROUNDS [LANES]]: an engine whose operators execute known numbers of instructions, under what makes
 * counting hard. Each lane is a thread that calls two operators a round; all lanes are on one cpu, together with a busy
 * thread that is no lane; and every few milliseconds all of them are moved to the other cpu. For each operator it says
 *   lane operator KNOWN NAIVE OWN
 * where NAIVE is how far the cpu's own count differs between the operator's end and its beginning, each read on the cpu
 * that the thread is then on, and OWN what the kernel has counted for the thread; -1 where there is no such counter.
 *
 * An emulated processor's counter goes on with the instructions of the others. So nothing else runs while lanes do: they
 * are moved while a thread of the highest priority keeps each cpu, and whoever launched this moves along.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_LANES 8
#define MAX_ROUNDS 64
#define CPUS 2
/* Each turn of the loop is two instructions. */
#define SHORT 4000000L
#define LONG 10000000L
#define MOVE_EVERY_US 7000

#if defined(__aarch64__)
#define TURN "subs %0, %0, #1\n\tb.ne 1b"
#define YIELD "yield"
#elif defined(__x86_64__)
#define TURN "dec %0\n\tjnz 1b"
#define YIELD "pause"
#endif

struct outcome {
	const char *name;
	long known, naive, own;
};

static int rounds = 3, lanes = 3;
static int of_cpu[CPUS];
static int numbers[MAX_LANES + 1]; /* of the threads that are moved */
static struct outcome outcomes[MAX_LANES][2 * MAX_ROUNDS];
static pthread_barrier_t start;
static volatile int done, keeping;
static sem_t keep;
static long moves;

static __attribute__((always_inline)) inline void spin(long turns)
{
	__asm__ volatile("1: " TURN : "+r"(turns) : : "cc");
}

__attribute__((noinline)) void known_short(int lane)
{
	spin(SHORT);
}

__attribute__((noinline)) void known_long(int lane)
{
	spin(LONG);
}

/* Instructions of this program, or of whatever runs on a cpu. */
static int open_counter(int thread, int cpu)
{
	struct perf_event_attr event = {
		.type = PERF_TYPE_HARDWARE,
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.size = sizeof(event),
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};

	return syscall(SYS_perf_event_open, &event, thread, cpu, -1, 0);
}

static long counted(int counter)
{
	long count;

	return read(counter, &count, sizeof(count)) == sizeof(count) ? count : -1;
}

static long counted_here(void)
{
	return counted(of_cpu[sched_getcpu() % CPUS]);
}

static void measure(void (*operator)(int), const char *name, long known, int lane, int own, struct outcome *outcome)
{
	long own_before = counted(own), before = counted_here(), after;

	operator(lane);
	after = counted_here();
	*outcome = (struct outcome){ name, known, after - before, counted(own) - own_before };
	if (before < 0)
		outcome->naive = -1;
	if (own_before < 0)
		outcome->own = -1;
}

static void *run_lane(void *argument)
{
	int lane = (long)argument, own = open_counter(0, -1);

	numbers[lane] = syscall(SYS_gettid);
	pthread_barrier_wait(&start);
	for (int round = 0; round < rounds; round++) {
		struct outcome *outcome = &outcomes[lane][2 * round];

		measure(known_short, "short", 2 * SHORT, lane, own, outcome);
		measure(known_long, "long", 2 * LONG, lane, own, outcome + 1);
	}
	return NULL;
}

/* One step: all lanes' rounds. */
__attribute__((noinline)) int known_step(int number)
{
	pthread_t threads[MAX_LANES];

	for (long lane = 0; lane < lanes; lane++)
		pthread_create(&threads[lane], NULL, run_lane, (void *)lane);
	for (int lane = 0; lane < lanes; lane++)
		pthread_join(threads[lane], NULL);
	return number;
}

/* Preempts the lanes, and is counted by their cpu. */
static void *be_busy(void *argument)
{
	numbers[MAX_LANES] = syscall(SYS_gettid);
	pthread_barrier_wait(&start);
	while (!done)
		spin(10000);
	return NULL;
}

static void pin(int thread, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(thread, sizeof(set), &set);
}

/* The highest priority, on one cpu. */
static void keep_to(int cpu)
{
	struct sched_param priority = { .sched_priority = 50 };

	pin(0, cpu);
	if (sched_setscheduler(0, SCHED_FIFO, &priority))
		perror("sched_setscheduler");
}

static void move_process(int process, int cpu)
{
	char path[64];
	struct dirent *entry;
	DIR *threads;

	snprintf(path, sizeof(path), "/proc/%d/task", process);
	threads = opendir(path);
	if (!threads)
		return;
	while ((entry = readdir(threads)))
		if (atoi(entry->d_name))
			pin(atoi(entry->d_name), cpu);
	closedir(threads);
}

/* To the other processor, where one thread of the host emulates both. */
static void give_way(void)
{
	__asm__ volatile(YIELD : : : "memory");
}

/* Keeps the second cpu while the others are moved. */
static void *keep_second(void *argument)
{
	keep_to(1);
	pthread_barrier_wait(&start);
	for (;;) {
		sem_wait(&keep);
		if (done)
			return NULL;
		keeping = 1;
		while (keeping)
			give_way();
	}
}

/* Keeps the first cpu, and moves all others. */
static void *move_all(void *argument)
{
	keep_to(0);
	pthread_barrier_wait(&start);
	while (!done) {
		sem_post(&keep);
		while (!keeping && !done)
			give_way();
		moves++;
		for (int i = 0; i <= MAX_LANES; i++)
			if (numbers[i])
				pin(numbers[i], moves % CPUS);
		move_process(getppid(), moves % CPUS);
		keeping = 0;
		usleep(MOVE_EVERY_US);
	}
	sem_post(&keep);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t busy, mover, keeper;
	int status;

	rounds = argc > 1 ? atoi(argv[1]) : rounds;
	lanes = argc > 2 ? atoi(argv[2]) : lanes;
	if (rounds < 1 || rounds > MAX_ROUNDS || lanes < 1 || lanes > MAX_LANES)
		return 2;
	for (int cpu = 0; cpu < CPUS; cpu++)
		of_cpu[cpu] = open_counter(-1, cpu);
	sem_init(&keep, 0, 0);
	pthread_barrier_init(&start, NULL, lanes + 3);
	pthread_create(&busy, NULL, be_busy, NULL);
	pthread_create(&keeper, NULL, keep_second, NULL);
	pthread_create(&mover, NULL, move_all, NULL);
	status = known_step(0);
	done = 1;
	pthread_join(busy, NULL);
	pthread_join(mover, NULL);
	pthread_join(keeper, NULL);
	for (int lane = 0; lane < lanes; lane++)
		for (int i = 0; i < 2 * rounds; i++) {
			struct outcome *outcome = &outcomes[lane][i];

			printf("%d %s %ld %ld %ld\n", lane, outcome->name, outcome->known, outcome->naive, outcome->own);
		}
	fprintf(stderr, "moved %ld times\n", moves);
	return status;
}
