/*
 * gpu_jobs MODE [word=N…]: gives jobs to drivers of the kernel. Words: steps=N, threads=N (in each step, each with a
 * submission), jobs=N (of each submission), and ms=N. Modes:
 *   sched   jobs of mock_scheduler.c, the second of a submission twice as long; threads take turns at two rings. Each:
 *             job RING NUMBER pushed NS run NS began NS done NS
 *   stuck   jobs that are never done; nobody waits for them
 *   vgem    a fence at a buffer of the driver vgem, signalled after so long: the program itself is the device. Each:
 *             fence NUMBER signalled NS NS
 *   leave   the same, but not signalled: left to the driver, which signals it when the program ends
 *   virtio  a buffer at the host of an emulated machine, which is told to make it
 * Each submission ends with
 *   submission NUMBER thread TID submitted NS NS waited NS
 * NUMBER is what it has as fence. Times are on CLOCK_MONOTONIC; two are those before and after a call.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The kernel's interface, which does not change: drm.h, vgem_drm.h and virtgpu_drm.h of libdrm. */
struct drm_version {
	int version[3];
	size_t name_length;
	char *name;
	size_t date_length;
	char *date;
	size_t description_length;
	char *description;
};
struct drm_dumb {
	uint32_t height, width, bits, flags, handle, pitch;
	uint64_t size;
};
struct vgem_attach {
	uint32_t handle, flags, fence, padding;
};
struct vgem_signal {
	uint32_t fence, flags;
};
struct virtio_resource {
	uint32_t target, format, bind, width, height, depth, layers, levels, samples, flags;
	uint32_t handle, resource, size, stride;
};
struct virtio_wait {
	uint32_t handle, flags;
};
#define DRM_VERSION _IOWR('d', 0x00, struct drm_version)
#define DRM_CREATE_DUMB _IOWR('d', 0xb2, struct drm_dumb)
#define VGEM_ATTACH _IOWR('d', 0x41, struct vgem_attach)
#define VGEM_SIGNAL _IOW('d', 0x42, struct vgem_signal)
#define VGEM_WRITE 1
#define VIRTIO_CREATE _IOWR('d', 0x44, struct virtio_resource)
#define VIRTIO_WAIT _IOWR('d', 0x48, struct virtio_wait)

enum mode { SCHED, STUCK, VGEM, LEAVE, VIRTIO, MODES };
static const char *const names[MODES] = { "sched", "stuck", "vgem", "leave", "virtio" };

static enum mode mode;
static long threads, ms, jobs;

/* What a thread has of its own. */
struct lane {
	long number;
	int32_t step;
	int device, ring;
	uint32_t handle, fence;
	long submitted[2];
};
static struct lane lanes[16];

static long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void fail(const char *what)
{
	fprintf(stderr, "gpu_jobs: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void call(int device, unsigned long request, void *argument, const char *name)
{
	if (ioctl(device, request, argument))
		fail(name);
}

/* The device whose driver has this name. */
static int open_card(const char *driver)
{
	for (int number = 0; number < 8; number++) {
		char path[32], name[32] = "";
		struct drm_version version = { .name = name, .name_length = sizeof(name) - 1 };
		int device;

		snprintf(path, sizeof(path), "/dev/dri/card%d", number);
		device = open(path, O_RDWR | O_CLOEXEC);
		if (device < 0)
			continue;
		if (!ioctl(device, DRM_VERSION, &version) && !strcmp(name, driver))
			return device;
		close(device);
	}
	errno = ENODEV;
	fail(driver);
	return -1;
}

__attribute__((noinline)) int job_submit(void *queue, uint64_t fence, struct lane *lane)
{
	struct virtio_resource resource = {
		.target = 2, .format = 1, .width = 64, .height = 64, .depth = 1, .layers = 1, .size = 64 * 64 * 4
	};
	struct vgem_attach attach = { .handle = lane->handle, .flags = VGEM_WRITE };
	char line[64];

	(void)queue;
	lane->submitted[0] = now();
	switch (mode) {
	case SCHED:
	case STUCK:
		for (long job = 0; job < jobs; job++) {
			long lasts = mode == STUCK ? 0 : ms * (job + 1);

			snprintf(line, sizeof(line), "%d %ld %lu", lane->ring, lasts, fence);
			if (write(lane->device, line, strlen(line)) < 0)
				fail("write");
		}
		break;
	case VGEM:
	case LEAVE:
		call(lane->device, VGEM_ATTACH, &attach, "attach a fence");
		lane->fence = attach.fence;
		break;
	default:
		call(lane->device, VIRTIO_CREATE, &resource, "create a resource");
		lane->handle = resource.handle;
	}
	lane->submitted[1] = now();
	return 0;
}

__attribute__((noinline)) int job_wait(uint64_t fence, struct lane *lane)
{
	struct vgem_signal signal = { .fence = lane->fence };
	struct virtio_wait wait = { .handle = lane->handle };
	char line[200];
	long before;

	switch (mode) {
	case SCHED:
		for (long job = 0; job < jobs; job++) {
			ssize_t length = read(lane->device, line, sizeof(line) - 1);

			if (length < 0)
				fail("read");
			printf("job %.*s", (int)length, line);
		}
		break;
	case VGEM:
		usleep((useconds_t)(ms * 1000));
		before = now();
		call(lane->device, VGEM_SIGNAL, &signal, "signal a fence");
		printf("fence %lu signalled %ld %ld\n", fence, before, now());
		break;
	case VIRTIO:
		call(lane->device, VIRTIO_WAIT, &wait, "wait for a resource");
		break;
	default:
		break;
	}
	return 0;
}

static void *submission(void *argument)
{
	struct lane *lane = argument;
	uint64_t fence = (uint64_t)(lane->number * 1000 + lane->step);

	job_submit((void *)(uintptr_t)(lane->ring + 1), fence, lane);
	job_wait(fence, lane);
	printf("submission %lu thread %ld submitted %ld %ld waited %ld\n", fence, syscall(SYS_gettid),
	       lane->submitted[0], lane->submitted[1], now());
	return NULL;
}

__attribute__((noinline)) void job_step(int32_t tokens)
{
	pthread_t started[16];

	for (long number = 0; number < threads; number++) {
		lanes[number].step = tokens;
		pthread_create(&started[number], NULL, submission, &lanes[number]);
	}
	for (long number = 0; number < threads; number++)
		pthread_join(started[number], NULL);
}

static void prepare(struct lane *lane)
{
	struct drm_dumb dumb = { .width = 64, .height = 64, .bits = 32 };

	switch (mode) {
	case SCHED:
	case STUCK:
		lane->ring = mode == STUCK ? 2 : (int)(lane->number % 2);
		lane->device = open("/dev/mock_scheduler", O_RDWR | O_CLOEXEC);
		if (lane->device < 0)
			fail("/dev/mock_scheduler");
		break;
	case VGEM:
	case LEAVE:
		lane->device = open_card("vgem");
		call(lane->device, DRM_CREATE_DUMB, &dumb, "create a buffer");
		lane->handle = dumb.handle;
		break;
	default:
		lane->device = open_card("virtio_gpu");
	}
}

static long word(int count, char **words, const char *name, long otherwise)
{
	size_t length = strlen(name);

	for (int i = 2; i < count; i++)
		if (!strncmp(words[i], name, length) && words[i][length] == '=')
			return atol(words[i] + length + 1);
	return otherwise;
}

int main(int count, char **words)
{
	long steps;

	for (mode = 0; mode < MODES && (count < 2 || strcmp(words[1], names[mode]));)
		mode++;
	threads = word(count, words, "threads", 1);
	if (mode == MODES || threads > 16)
		return 2;
	steps = word(count, words, "steps", 3);
	ms = word(count, words, "ms", 20);
	jobs = word(count, words, "jobs", 1);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (long number = 0; number < threads; number++) {
		lanes[number].number = number + 1;
		prepare(&lanes[number]);
	}
	for (int32_t step = 1; step <= steps; step++)
		job_step(step);
	return 0;
}
