/*
 * A library with some functions of CUDA's driver (-DLIBRARY), whose streams are threads that sleep, and a program that
 * uses it. A kernel takes as many milliseconds as its grid is wide; a graph as many as its kernels. The program says
 *   work W submitted NS done NS
 * on CLOCK_MONOTONIC, before the first call that gives work to a stream, and when the wait for it returned. With `late` it
 * waits for a line on standard input once all is set up.
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

/* A graph is the time of its kernels; a stream that captures adds to it. */
struct graph {
	long milliseconds;
};

static struct graph captured[4], executables[4];
static struct stream *capturing;

EXPORTED int cuModuleGetFunction(void **function, void *module, const char *name)
{
	static char functions[16][64];
	static int count;

	(void)module;
	strncpy(functions[count], name, sizeof(functions[0]) - 1);
	*function = functions[count++];
	return 0;
}

EXPORTED int cuStreamBeginCapture_v2(struct stream *stream, int mode)
{
	(void)mode;
	capturing = stream;
	captured[0].milliseconds = 0;
	return 0;
}

EXPORTED int cuStreamEndCapture(struct stream *stream, struct graph **graph)
{
	(void)stream;
	capturing = NULL;
	*graph = &captured[0];
	return 0;
}

EXPORTED int cuGraphInstantiateWithFlags(struct graph **executable, struct graph *graph, unsigned long flags)
{
	(void)flags;
	executables[0] = *graph;
	*executable = &executables[0];
	return 0;
}

/* It fails for a graph without kernels. */
EXPORTED int cuGraphExecUpdate_v2(struct graph *executable, struct graph *graph, void *result)
{
	(void)result;
	if (!graph->milliseconds)
		return 910;
	*executable = *graph;
	return 0;
}

EXPORTED int cuLaunchKernel(void *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
			    unsigned shared, struct stream *stream, void **parameters, void **extra)
{
	(void)kernel, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)parameters, (void)extra;
	if (stream == capturing) {
		captured[0].milliseconds += gx;
		return 0;
	}
	return give(stream, gx);
}

struct launch {
	unsigned sizes[7];
	struct stream *stream;
};

EXPORTED int cuLaunchKernelEx(const struct launch *launch, void *kernel, void **parameters, void **extra)
{
	(void)kernel, (void)parameters, (void)extra;
	return give(launch->stream, launch->sizes[0]);
}

EXPORTED int cuStreamWaitEvent(struct stream *stream, struct event *event, unsigned flags)
{
	(void)flags;
	return give_job(stream, (struct job){ .after = event->stream, .number = event->number });
}

EXPORTED int cuGraphLaunch(struct graph *executable, struct stream *stream)
{
	return give(stream, executable->milliseconds);
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

EXPORTED int cuCtxSynchronize_v2(void)
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
int cuModuleGetFunction(void **function, void *module, const char *name);
int cuStreamBeginCapture_v2(void *stream, int mode);
int cuStreamEndCapture(void *stream, void **graph);
int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long flags);
int cuGraphExecUpdate_v2(void *executable, void *graph, void *result);
int cuLaunchKernel(void *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
		   void *stream, void **parameters, void **extra);
struct launch {
	unsigned sizes[7];
	void *stream;
};

int cuLaunchKernelEx(const struct launch *launch, void *kernel, void **parameters, void **extra);
int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
int cuGraphLaunch(void *graph, void *stream);
int cuEventRecord(struct event *event, void *stream);
int cuEventSynchronize(struct event *event);
int cuStreamSynchronize(void *stream);
int cuCtxSynchronize_v2(void);
int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t bytes, void *stream);
int cuMemcpyDtoH_v2(void *to, const void *from, size_t bytes);

static long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void *multiply, *add;

static void launch(void *stream, unsigned milliseconds)
{
	cuLaunchKernel(milliseconds > 10 ? multiply : add, milliseconds, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}

int main(int count, char **words)
{
	static char host[4096], device[4096];
	void *one, *other, *graph, *executable;
	struct event event;
	long since;

	cuStreamCreate(&one, 0);
	cuStreamCreate(&other, 0);
	cuModuleGetFunction(&multiply, NULL, "_Z10multiply_fI6__halfEvPT_");
	cuModuleGetFunction(&add, NULL, "add_f32");
	if (count > 1 && !strcmp(words[1], "late")) {
		printf("ready\n");
		fflush(stdout);
		getchar();
	}
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
	cuStreamBeginCapture_v2(other, 0);
	launch(other, 4);
	launch(other, 6);
	cuStreamEndCapture(other, &graph);
	cuGraphInstantiateWithFlags(&executable, graph, 0);
	since = now();
	for (int i = 0; i < 12; i++)
		cuGraphLaunch(executable, other);
	cuStreamSynchronize(other);
	printf("work 1 submitted %ld done %ld\n", since, now());
	/* Both at once, waited for together. */
	since = now();
	launch(one, 120);
	launch(other, 60);
	cuCtxSynchronize_v2();
	printf("work 2 submitted %ld done %ld\n", since, now());
	/* One after the other, although on two. */
	since = now();
	launch(other, 40);
	cuEventRecord(&event, other);
	cuStreamWaitEvent(one, &event, 0);
	cuLaunchKernelEx(&(struct launch){ { 30 }, one }, multiply, NULL, NULL);
	cuStreamSynchronize(one);
	printf("work 3 submitted %ld done %ld\n", since, now());
	/* The same executable, for another graph; a failed update leaves that. */
	cuStreamBeginCapture_v2(other, 0);
	launch(other, 20);
	cuStreamEndCapture(other, &graph);
	cuGraphExecUpdate_v2(executable, graph, NULL);
	since = now();
	cuGraphLaunch(executable, other);
	cuGraphLaunch(executable, other);
	cuStreamBeginCapture_v2(other, 0);
	cuStreamEndCapture(other, &graph);
	cuGraphExecUpdate_v2(executable, graph, NULL);
	cuGraphLaunch(executable, other);
	cuStreamSynchronize(other);
	printf("work 4 submitted %ld done %ld\n", since, now());
	cuMemcpyDtoH_v2(host, device, 500);
	return 0;
}
#endif
