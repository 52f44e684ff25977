// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/*
 * A module for Linux 6.1: a device with three rings whose jobs the kernel's GPU scheduler gives to a mock of hardware,
 * two at a time; each ring of the mock runs its jobs one after the other. Writing "RING MS NUMBER" to
 * /dev/mock_scheduler pushes a job that takes so long, with 0 forever. Reading waits for a job of the same open file
 * and gives
 *   RING NUMBER pushed NS run NS began NS done NS
 * on CLOCK_MONOTONIC: before the job was pushed, when the scheduler gave it to the mock, when the mock turned to it,
 * and when it was done with it.
 */
#include <drm/gpu_scheduler.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#define RINGS 3
#define IN_HARDWARE 2

struct ring {
	struct drm_gpu_scheduler scheduler;
	struct drm_sched_entity entity;
	struct mutex pushing;
	spinlock_t lock, fence_lock;
	struct list_head in_hardware;
	struct hrtimer timer;
	u64 context, seqno;
};

/* What one open file pushed, and the mock is done with. */
struct giver {
	struct kref references;
	spinlock_t lock;
	struct list_head done;
	wait_queue_head_t changed;
};

struct result {
	struct list_head in_list;
	unsigned int ring, number, ms;
	u64 pushed, run, began, done;
	struct giver *giver;
};

struct job {
	struct drm_sched_job base;
	struct result *result;
};

struct hardware_fence {
	struct dma_fence base;
	struct list_head in_list;
	struct result *result;
};

static struct ring rings[RINGS];

static void free_giver(struct kref *references)
{
	kfree(container_of(references, struct giver, references));
}

static const char *name_of_driver(struct dma_fence *fence)
{
	return "mock";
}

static const char *name_of_timeline(struct dma_fence *fence)
{
	return "mock hardware";
}

static const struct dma_fence_ops fence_operations = {
	.get_driver_name = name_of_driver,
	.get_timeline_name = name_of_timeline,
};

/* With the ring's lock. */
static void start(struct ring *ring)
{
	struct hardware_fence *first = list_first_entry_or_null(&ring->in_hardware, struct hardware_fence, in_list);

	if (!first)
		return;
	first->result->began = ktime_get_ns();
	if (first->result->ms)
		hrtimer_start(&ring->timer, ms_to_ktime(first->result->ms), HRTIMER_MODE_REL);
}

static enum hrtimer_restart finish(struct hrtimer *timer)
{
	struct ring *ring = container_of(timer, struct ring, timer);
	struct hardware_fence *fence;
	struct result *result;
	struct giver *giver;
	unsigned long flags;

	spin_lock_irqsave(&ring->lock, flags);
	fence = list_first_entry(&ring->in_hardware, struct hardware_fence, in_list);
	list_del(&fence->in_list);
	result = fence->result;
	giver = result->giver;
	result->done = ktime_get_ns();
	dma_fence_signal(&fence->base);
	start(ring);
	spin_unlock_irqrestore(&ring->lock, flags);
	dma_fence_put(&fence->base);
	spin_lock_irqsave(&giver->lock, flags);
	list_add_tail(&result->in_list, &giver->done);
	wake_up_all(&giver->changed);
	spin_unlock_irqrestore(&giver->lock, flags);
	return HRTIMER_NORESTART;
}

static struct dma_fence *run_job(struct drm_sched_job *base)
{
	struct result *result = container_of(base, struct job, base)->result;
	struct ring *ring = &rings[result->ring];
	struct hardware_fence *fence = kzalloc(sizeof(*fence), GFP_KERNEL);
	unsigned long flags;

	result->run = ktime_get_ns();
	if (!fence)
		return ERR_PTR(-ENOMEM);
	dma_fence_init(&fence->base, &fence_operations, &ring->fence_lock, ring->context, ++ring->seqno);
	dma_fence_get(&fence->base);
	fence->result = result;
	spin_lock_irqsave(&ring->lock, flags);
	list_add_tail(&fence->in_list, &ring->in_hardware);
	if (list_is_singular(&ring->in_hardware))
		start(ring);
	spin_unlock_irqrestore(&ring->lock, flags);
	return &fence->base;
}

static enum drm_gpu_sched_stat timed_out(struct drm_sched_job *base)
{
	return DRM_GPU_SCHED_STAT_NOMINAL;
}

static void free_job(struct drm_sched_job *base)
{
	drm_sched_job_cleanup(base);
	kfree(container_of(base, struct job, base));
}

static const struct drm_sched_backend_ops operations = {
	.run_job = run_job,
	.timedout_job = timed_out,
	.free_job = free_job,
};

static int open_giver(struct inode *inode, struct file *file)
{
	struct giver *giver = kzalloc(sizeof(*giver), GFP_KERNEL);

	if (!giver)
		return -ENOMEM;
	kref_init(&giver->references);
	spin_lock_init(&giver->lock);
	INIT_LIST_HEAD(&giver->done);
	init_waitqueue_head(&giver->changed);
	file->private_data = giver;
	return 0;
}

static int release_giver(struct inode *inode, struct file *file)
{
	struct giver *giver = file->private_data;

	kref_put(&giver->references, free_giver);
	return 0;
}

static ssize_t push(struct file *file, const char __user *text, size_t length, loff_t *place)
{
	struct giver *giver = file->private_data;
	struct result *result;
	struct ring *ring;
	struct job *job;
	char line[64] = "";
	int error;

	if (length >= sizeof(line) || copy_from_user(line, text, length))
		return -EFAULT;
	result = kzalloc(sizeof(*result), GFP_KERNEL);
	job = kzalloc(sizeof(*job), GFP_KERNEL);
	error = result && job ? -EINVAL : -ENOMEM;
	if (error == -ENOMEM || sscanf(line, "%u %u %u", &result->ring, &result->ms, &result->number) != 3 ||
	    result->ring >= RINGS)
		goto out;
	ring = &rings[result->ring];
	error = drm_sched_job_init(&job->base, &ring->entity, NULL);
	if (error)
		goto out;
	job->result = result;
	result->giver = giver;
	kref_get(&giver->references);
	mutex_lock(&ring->pushing);
	result->pushed = ktime_get_ns();
	drm_sched_job_arm(&job->base);
	drm_sched_entity_push_job(&job->base);
	mutex_unlock(&ring->pushing);
	return length;
out:
	kfree(result);
	kfree(job);
	return error;
}

static ssize_t take(struct file *file, char __user *text, size_t length, loff_t *place)
{
	struct giver *giver = file->private_data;
	struct result *result;
	unsigned long flags;
	char line[160];
	int size;

	if (wait_event_interruptible(giver->changed, !list_empty(&giver->done)))
		return -EINTR;
	spin_lock_irqsave(&giver->lock, flags);
	result = list_first_entry(&giver->done, struct result, in_list);
	list_del(&result->in_list);
	spin_unlock_irqrestore(&giver->lock, flags);
	size = scnprintf(line, sizeof(line), "%u %u pushed %llu run %llu began %llu done %llu\n", result->ring,
			 result->number, result->pushed, result->run, result->began, result->done);
	kfree(result);
	kref_put(&giver->references, free_giver);
	if (length < size || copy_to_user(text, line, size))
		return -EFAULT;
	return size;
}

static const struct file_operations file_operations = {
	.owner = THIS_MODULE,
	.open = open_giver,
	.release = release_giver,
	.write = push,
	.read = take,
};
static struct miscdevice device = { .minor = MISC_DYNAMIC_MINOR, .name = "mock_scheduler", .fops = &file_operations };

static int __init load(void)
{
	static const char *const names[RINGS] = { "mock.compute", "mock.copy", "mock.stuck" };
	int error = misc_register(&device);

	for (int i = 0; !error && i < RINGS; i++) {
		struct drm_gpu_scheduler *scheduler = &rings[i].scheduler;

		mutex_init(&rings[i].pushing);
		spin_lock_init(&rings[i].lock);
		spin_lock_init(&rings[i].fence_lock);
		INIT_LIST_HEAD(&rings[i].in_hardware);
		hrtimer_init(&rings[i].timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
		rings[i].timer.function = finish;
		rings[i].context = dma_fence_context_alloc(1);
		error = drm_sched_init(scheduler, &operations, IN_HARDWARE, 0, MAX_SCHEDULE_TIMEOUT, NULL, NULL,
				       names[i], device.this_device);
		if (!error)
			error = drm_sched_entity_init(&rings[i].entity, DRM_SCHED_PRIORITY_NORMAL, &scheduler, 1, NULL);
	}
	return error;
}

/* It is never unloaded: a job can last forever. */
module_init(load);
MODULE_DESCRIPTION("A mock of a GPU's rings");
MODULE_LICENSE("Dual MIT/GPL");
