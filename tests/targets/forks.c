/*
 * Children made inside of an operator: one returns through its parent's calls, one ends there, one is made by vfork and
 * runs another program. 6 steps of 3 operators.
 */
#define _GNU_SOURCE
#include "counted.h"
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

static int is_child;

static void make_child(struct toy_params *params, unsigned long number)
{
	pid_t child;

	if (is_child)
		return;
	if (number == 4) {
		child = fork();
		is_child = child == 0;
	} else if (number == 8) {
		child = fork();
		if (!child)
			_exit(0);
	} else if (number == 11) {
		child = vfork();
		if (!child) {
			execl("/bin/true", "true", NULL);
			_exit(1);
		}
	} else {
		return;
	}
	if (child > 0)
		waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
	count_in(argv);
	in_operator = make_child;
	for (int step = 0; step < 6 && !is_child; step++)
		run_steps(1, 3);
	return 0;
}
