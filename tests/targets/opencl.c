/*
 * A program that uses OpenCL: kernels and copies on two queues in order, waits by event, by queue and by copies that
 * block. It says what the device measured of each command, by the queues' profiles, and between which times of
 * CLOCK_MONOTONIC each part was enqueued and known to be done:
 *   work W enqueued NS done NS device NS
 */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ITEMS 4096

static const char *source = "kernel void spin(global uint *numbers, uint rounds) {"
			    "  uint n = numbers[get_global_id(0)];"
			    "  for (uint i = 0; i < rounds; i++) n = n * 1664525u + 1013904223u;"
			    "  numbers[get_global_id(0)] = n;"
			    "}";

static long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void check(cl_int status)
{
	if (status != CL_SUCCESS) {
		fprintf(stderr, "OpenCL: %d\n", status);
		exit(1);
	}
}

static cl_kernel kernel;

static void spin(cl_command_queue queue, cl_uint rounds, cl_event *event)
{
	size_t items = ITEMS;

	check(clSetKernelArg(kernel, 1, sizeof(rounds), &rounds));
	check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, event));
}

/* What the device measured from the first command's beginning to the last one's end. */
static long measured(cl_event first, cl_event last)
{
	cl_ulong start, end;

	check(clGetEventProfilingInfo(first, CL_PROFILING_COMMAND_START, sizeof(start), &start, NULL));
	check(clGetEventProfilingInfo(last, CL_PROFILING_COMMAND_END, sizeof(end), &end, NULL));
	return (long)(end - start);
}

int main(void)
{
	static cl_uint numbers[ITEMS];
	cl_platform_id platform;
	cl_device_id device;
	cl_event events[16], copied;
	cl_int status;
	char name[256];
	long since, done;

	check(clGetPlatformIDs(1, &platform, NULL));
	check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
	check(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof(name), name, NULL));
	printf("device %s\n", name);
	cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);

	check(status);
	cl_command_queue one = clCreateCommandQueue(context, device, CL_QUEUE_PROFILING_ENABLE, &status);

	check(status);
	cl_command_queue other = clCreateCommandQueue(context, device, CL_QUEUE_PROFILING_ENABLE, &status);

	check(status);
	cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof(numbers), NULL, &status);

	check(status);
	cl_mem second = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof(numbers), NULL, &status);

	check(status);
	cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &status);

	check(status);
	check(clBuildProgram(program, 1, &device, "", NULL, NULL));
	kernel = clCreateKernel(program, "spin", &status);
	check(status);
	check(clSetKernelArg(kernel, 0, sizeof(buffer), &buffer));
	/* Compiled for this number of items. */
	spin(one, 1, NULL);
	check(clFinish(one));

	/* A write that blocks, kernels, and an event that is waited for; the kernel behind it is not. */
	check(clEnqueueWriteBuffer(one, buffer, CL_TRUE, 0, 1000, numbers, 0, NULL, NULL));
	since = now();
	for (int i = 0; i < 3; i++)
		spin(one, 20000, &events[i]);
	check(clFlush(one));
	spin(one, 20000, &events[3]);
	check(clWaitForEvents(1, &events[2]));
	done = now();
	check(clFinish(one));
	printf("work 0 enqueued %ld done %ld device %ld\n", since, done, measured(events[0], events[2]));

	/* Many kernels and a finish. */
	since = now();
	for (int i = 0; i < 12; i++)
		spin(one, 5000, &events[i]);
	check(clFinish(one));
	done = now();
	printf("work 1 enqueued %ld done %ld device %ld\n", since, done, measured(events[0], events[11]));

	/* A read that blocks ends the kernels before it; the other queue's copy is waited for by its event. */
	since = now();
	spin(one, 20000, &events[0]);
	spin(one, 20000, &events[1]);
	check(clEnqueueReadBuffer(one, buffer, CL_TRUE, 0, 500, numbers, 0, NULL, &events[2]));
	done = now();
	printf("work 2 enqueued %ld done %ld device %ld\n", since, done, measured(events[0], events[2]));
	since = now();
	check(clEnqueueCopyBuffer(other, buffer, second, 0, 0, 2000, 0, NULL, NULL));
	check(clEnqueueReadBuffer(other, second, CL_FALSE, 0, 700, numbers, 0, NULL, &copied));
	check(clWaitForEvents(1, &copied));
	done = now();
	printf("work 3 enqueued %ld done %ld device %ld\n", since, done, measured(copied, copied));
	return 0;
}
