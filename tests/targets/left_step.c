/* Steps, one of which a thread does not return from, as it ends within; then nothing to do for seconds. */
#include "counted.h"
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static __thread int leaves;

static void end(struct toy_params *params, unsigned long number)
{
	if (leaves)
		syscall(SYS_exit, 0);
}

static void *leave(void *argument)
{
	leaves = 1;
	run_steps(1, 6);
	return argument;
}

static void pause_for(long ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&time, NULL);
}

int main(int argc, char **argv)
{
	pthread_t thread;

	count_in(argv);
	in_operator = end;
	for (int i = 0; i < 100; i++) {
		run_steps(1, 6);
		pause_for(5);
		if (i == 50 && pthread_create(&thread, NULL, leave, NULL))
			return 1;
	}
	pause_for(3000);
	run_steps(10, 6);
	return 0;
}
