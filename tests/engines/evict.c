/*
 * Preloaded into llama.cpp: before each batch, the model is put out of memory: all of it, or EVICT_BYTES in its middle;
 * before the first EVICT_BATCHES batches only, if that is set. At its end the process says how many major faults it had
 * while batches were decoded, as /proc/self/stat counts them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* llama_batch: passed by value, looked at by nobody here. */
struct batch {
	char bytes[56];
};

static long faults;

static long counted(void)
{
	char text[1024] = "", *rest;
	FILE *stat = fopen("/proc/self/stat", "r");
	long number = 0;

	if (stat && fgets(text, sizeof(text), stat) && (rest = strrchr(text, ')')))
		sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %ld", &number);
	if (stat)
		fclose(stat);
	return number;
}

static unsigned long variable(const char *name, unsigned long otherwise)
{
	const char *text = getenv(name);

	return text ? strtoul(text, NULL, 10) : otherwise;
}

static void evict(void)
{
	static unsigned long batches;
	char line[4096], path[4096];
	unsigned long start, end, offset, bytes = variable("EVICT_BYTES", 0) & ~4095ul;
	FILE *maps;

	if (batches++ >= variable("EVICT_BATCHES", -1ul))
		return;
	maps = fopen("/proc/self/maps", "r");

	while (maps && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %4095s", &start, &end, path) != 3 || !strstr(path, ".gguf"))
			continue;
		int file = open(path, O_RDONLY);

		offset = 0;
		if (bytes > 0 && bytes < end - start) {
			offset = (end - start - bytes) / 2 & ~4095ul;
			start += offset;
			end = start + bytes;
		}
		madvise((void *)start, end - start, MADV_DONTNEED);
		/* Page by page, as where memory is short: what is read ahead is not waited for. */
		madvise((void *)start, end - start, MADV_RANDOM);
		/* The file is mapped as a whole. */
		posix_fadvise(file, offset, bytes, POSIX_FADV_DONTNEED);
		close(file);
	}
	if (maps)
		fclose(maps);
}

int llama_decode(void *context, struct batch batch)
{
	int (*decode)(void *, struct batch) = dlsym(RTLD_NEXT, "llama_decode");
	long before;
	int status;

	evict();
	before = counted();
	status = decode(context, batch);
	faults += counted() - before;
	return status;
}

__attribute__((destructor)) static void say(void)
{
	printf("major faults %ld\n", faults);
}
