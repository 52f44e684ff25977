/*
 * A library with some functions of HIP's runtime (-DLIBRARY), whose streams are threads that sleep, and a program that
 * uses it. A kernel takes as many milliseconds as its grid is wide; a graph takes ten. The program says
 *   work W submitted NS done NS
 * on CLOCK_MONOTONIC, before the first call that gives work to a stream, and when the wait for it returned.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct dim3 {
	uint32_t x, y, z;
};

/* As the runtime's: the name, then much else. */
struct properties {
	char name[256];
	char rest[1216];
};

#ifdef LIBRARY
#include "streams.h"

EXPORTED int hipStreamCreate(struct stream **stream)
{
	return open_stream(stream);
}

EXPORTED int hipGetDevicePropertiesR0600(struct properties *properties, int device)
{
	(void)device;
	strcpy(properties->name, "Toy Instinct");
	return 0;
}

EXPORTED int hipLaunchKernel(const void *kernel, struct dim3 grid, struct dim3 block, void **arguments, size_t shared,
			     struct stream *stream)
{
	(void)kernel, (void)block, (void)arguments, (void)shared;
	return give(stream, grid.x);
}

EXPORTED int hipModuleLaunchKernel(void *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
				   unsigned shared, struct stream *stream, void **parameters, void **extra)
{
	(void)kernel, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)parameters, (void)extra;
	return give(stream, gx);
}

EXPORTED int hipExtModuleLaunchKernel(void *kernel, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by,
				      uint32_t bz, size_t shared, struct stream *stream, void **parameters, void **extra,
				      void *before, void *after, uint32_t flags)
{
	(void)kernel, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)parameters, (void)extra;
	(void)before, (void)after, (void)flags;
	return give(stream, gx);
}

EXPORTED int hipGraphLaunch(void *graph, struct stream *stream)
{
	(void)graph;
	return give(stream, 10);
}

EXPORTED int hipEventRecord(struct event *event, struct stream *stream)
{
	*event = (struct event){ stream, stream->given };
	return 0;
}

EXPORTED int hipEventSynchronize(struct event *event)
{
	return await(event->stream, event->number);
}

EXPORTED int hipStreamSynchronize(struct stream *stream)
{
	return await(stream, stream->given);
}

EXPORTED int hipDeviceSynchronize(void)
{
	return await_all();
}

EXPORTED int hipMemcpy(void *to, const void *from, size_t bytes, int kind)
{
	(void)kind;
	memcpy(to, from, bytes);
	return 0;
}

EXPORTED int hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, struct stream *stream)
{
	(void)kind;
	memcpy(to, from, bytes);
	return give(stream, 0);
}

EXPORTED int hipMemcpyWithStream(void *to, const void *from, size_t bytes, int kind, struct stream *stream)
{
	(void)kind;
	await(stream, stream->given);
	memcpy(to, from, bytes);
	return 0;
}
#else
struct event {
	void *stream;
	unsigned number;
};

int hipStreamCreate(void **stream);
int hipGetDevicePropertiesR0600(struct properties *properties, int device);
int hipLaunchKernel(const void *kernel, struct dim3 grid, struct dim3 block, void **arguments, size_t shared, void *stream);
int hipModuleLaunchKernel(void *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
			  unsigned shared, void *stream, void **parameters, void **extra);
int hipExtModuleLaunchKernel(void *kernel, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz,
			     size_t shared, void *stream, void **parameters, void **extra, void *before, void *after,
			     uint32_t flags);
int hipGraphLaunch(void *graph, void *stream);
int hipEventRecord(struct event *event, void *stream);
int hipEventSynchronize(struct event *event);
int hipStreamSynchronize(void *stream);
int hipDeviceSynchronize(void);
int hipMemcpy(void *to, const void *from, size_t bytes, int kind);
int hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream);
int hipMemcpyWithStream(void *to, const void *from, size_t bytes, int kind, void *stream);

static long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void launch(void *stream, unsigned milliseconds)
{
	hipLaunchKernel(NULL, (struct dim3){ milliseconds, 1, 1 }, (struct dim3){ 1, 1, 1 }, NULL, 0, stream);
}

int main(void)
{
	static char host[4096], device[4096];
	static struct properties properties;
	void *one, *other;
	struct event event;
	long since;

	hipStreamCreate(&one);
	hipStreamCreate(&other);
	hipGetDevicePropertiesR0600(&properties, 0);
	/* Three kernels, each launched in another way, and an event, and a kernel behind it that nobody waits for yet. */
	since = now();
	launch(one, 50);
	hipModuleLaunchKernel(NULL, 30, 1, 1, 1, 1, 1, 0, one, NULL, NULL);
	hipExtModuleLaunchKernel(NULL, 40, 1, 1, 1, 1, 1, 0, one, NULL, NULL, NULL, NULL, 0);
	hipEventRecord(&event, one);
	launch(one, 5);
	hipEventSynchronize(&event);
	printf("work 0 submitted %ld done %ld\n", since, now());
	/* A graph, many times. */
	hipMemcpyAsync(device, host, 1000, 1, other);
	hipStreamSynchronize(other);
	since = now();
	for (int i = 0; i < 12; i++)
		hipGraphLaunch(NULL, other);
	hipStreamSynchronize(other);
	printf("work 1 submitted %ld done %ld\n", since, now());
	/* Both at once, waited for together. */
	since = now();
	launch(one, 120);
	launch(other, 60);
	hipDeviceSynchronize();
	printf("work 2 submitted %ld done %ld\n", since, now());
	/* A copy that waits for the kernel before it. */
	since = now();
	launch(one, 100);
	hipMemcpyWithStream(host, device, 500, 2, one);
	printf("work 3 submitted %ld done %ld\n", since, now());
	hipMemcpy(device, device + 2048, 300, 3);
	hipMemcpy(device, host, 200, 4);
	return 0;
}
#endif
