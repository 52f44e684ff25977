/*
 * A library with some functions of CUDA's driver (-DLIBRARY), whose streams are threads that sleep, and a program that
 * uses it. A kernel takes as many milliseconds as its grid is wide; a graph takes ten. The program says
 *   work W submitted NS done NS
 * on CLOCK_MONOTONIC, before the first call that gives work to a stream, and when the wait for it returned.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#ifdef LIBRARY
#include "streams.h"

EXPORTED int cuStreamCreate(struct stream **stream, unsigned flags)
{
	(void)flags;
	return open_stream(stream);
}

EXPORTED int cuLaunchKernel(void *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
			    unsigned shared, struct stream *stream, void **parameters, void **extra)
{
	(void)kernel, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)parameters, (void)extra;
	return give(stream, gx);
}

EXPORTED int cuGraphLaunch(void *graph, struct stream *stream)
{
	(void)graph;
	return give(stream, 10);
}

EXPORTED int cuEventRecord(struct event *event, struct stream *stream)
{
	*event = (struct event){ stream, stream->given };
	return 0;
}

EXPORTED int cuEventSynchronize(struct event *event)
{
	return await(event->stream, event->number);
}

EXPORTED int cuStreamSynchronize(struct stream *stream)
{
	return await(stream, stream->given);
}

EXPORTED int cuCtxSynchronize(void)
{
	return await_all();
}

EXPORTED int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t bytes, struct stream *stream)
{
	memcpy(to, from, bytes);
	return give(stream, 0);
}

EXPORTED int cuMemcpyDtoH_v2(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
	return 0;
}
#else
struct event {
	void *stream;
	unsigned number;
};

int cuStreamCreate(void **stream, unsigned flags);
int cuLaunchKernel(void *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
		   void *stream, void **parameters, void **extra);
int cuGraphLaunch(void *graph, void *stream);
int cuEventRecord(struct event *event, void *stream);
int cuEventSynchronize(struct event *event);
int cuStreamSynchronize(void *stream);
int cuCtxSynchronize(void);
int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t bytes, void *stream);
int cuMemcpyDtoH_v2(void *to, const void *from, size_t bytes);

static long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void launch(void *stream, unsigned milliseconds)
{
	cuLaunchKernel(NULL, milliseconds, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}

int main(void)
{
	static char host[4096], device[4096];
	void *one, *other;
	struct event event;
	long since;

	cuStreamCreate(&one, 0);
	cuStreamCreate(&other, 0);
	/* Three kernels and an event, and a kernel behind it that nobody waits for yet. */
	since = now();
	launch(one, 50);
	launch(one, 30);
	launch(one, 40);
	cuEventRecord(&event, one);
	launch(one, 5);
	cuEventSynchronize(&event);
	printf("work 0 submitted %ld done %ld\n", since, now());
	/* A graph, many times. */
	cuMemcpyHtoDAsync_v2(device, host, 1000, other);
	cuStreamSynchronize(other);
	since = now();
	for (int i = 0; i < 12; i++)
		cuGraphLaunch(NULL, other);
	cuStreamSynchronize(other);
	printf("work 1 submitted %ld done %ld\n", since, now());
	/* Both at once, waited for together. */
	since = now();
	launch(one, 120);
	launch(other, 60);
	cuCtxSynchronize();
	printf("work 2 submitted %ld done %ld\n", since, now());
	cuMemcpyDtoH_v2(host, device, 500);
	return 0;
}
#endif
