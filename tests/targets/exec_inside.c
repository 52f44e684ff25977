/* A new program, this one again, takes the place of the first inside of an operator; by a thread, where asked for. */
#include "counted.h"
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static char **words;

static void replace(struct toy_params *params, unsigned long number)
{
	if (number == 8)
		execl("/proc/self/exe", words[0], words[1], "again", NULL);
}

static void *run(void *argument)
{
	in_operator = replace;
	run_steps(5, 3);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	count_in(argv);
	words = argv;
	if (argc > 2 && !strcmp(argv[2], "again")) {
		run_steps(4, 3);
		return 0;
	}
	if (argc > 2 && !strcmp(argv[2], "thread")) {
		pthread_create(&thread, NULL, run, NULL);
		pthread_join(thread, NULL);
	}
	run(NULL);
	return 0;
}
