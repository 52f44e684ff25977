/* Streams of a toy device: each is a thread that sleeps as long as a job takes, one job after the other. */
#include <pthread.h>
#include <string.h>
#include <time.h>

#define EXPORTED __attribute__((visibility("default"), noinline))

struct stream;

/* It takes that long, once the other stream has done so many. */
struct job {
	long milliseconds;
	struct stream *after;
	unsigned number;
};

struct stream {
	pthread_t thread;
	struct job jobs[256];
	unsigned given, done;
};

struct event {
	struct stream *stream;
	unsigned number;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct stream streams[4];
static unsigned stream_count;

static void *work(void *argument)
{
	struct stream *stream = argument;

	pthread_mutex_lock(&mutex);
	for (;;) {
		while (stream->given == stream->done)
			pthread_cond_wait(&changed, &mutex);
		struct job job = stream->jobs[stream->done % 256];
		struct timespec time = { job.milliseconds / 1000, job.milliseconds % 1000 * 1000000 };

		while (job.after && job.after->done < job.number)
			pthread_cond_wait(&changed, &mutex);

		pthread_mutex_unlock(&mutex);
		nanosleep(&time, NULL);
		pthread_mutex_lock(&mutex);
		stream->done++;
		pthread_cond_broadcast(&changed);
	}
	return NULL;
}

static int give_job(struct stream *stream, struct job job)
{
	pthread_mutex_lock(&mutex);
	stream->jobs[stream->given++ % 256] = job;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
	return 0;
}

static int give(struct stream *stream, long milliseconds)
{
	return give_job(stream, (struct job){ .milliseconds = milliseconds });
}

static int await(struct stream *stream, unsigned number)
{
	pthread_mutex_lock(&mutex);
	while (stream->done < number)
		pthread_cond_wait(&changed, &mutex);
	pthread_mutex_unlock(&mutex);
	return 0;
}

static int open_stream(struct stream **stream)
{
	*stream = &streams[stream_count++];
	return pthread_create(&(*stream)->thread, NULL, work, *stream);
}

static int await_all(void)
{
	for (unsigned i = 0; i < stream_count; i++)
		await(&streams[i], streams[i].given);
	return 0;
}
