// An engine whose layers compute in one slot, are asked in another, and load in a third: `slots STEPS [MICROSECONDS]`, so
// many for each layer. ORDER says which declaration comes first, and so which slot each has; ALIKE has two that compute,
// THREADS a thread for each step, BLOCKED one whose question takes two seconds, and who makes a step then. It prints how
// often a layer computed.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <thread>
#include <vector>

#ifndef ORDER
#define ORDER 0
#endif

#ifdef ALIKE
#define QUESTIONS 1
#else
#define QUESTIONS 5
#endif

static long computed;
static int work_us = 75;

static long now_ns()
{
	timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void work(int microseconds)
{
	long end = now_ns() + microseconds * 1000L;
	while (now_ns() < end)
		;
}

struct Layer {
	int id = 0;
	virtual ~Layer() {}
// Slots 2, 3 and 4.
#if ORDER == 0
	virtual long compute(int number) = 0;
	virtual long ask(int number) = 0;
	virtual long load(int number) = 0;
#elif ORDER == 1
	virtual long load(int number) = 0;
	virtual long compute(int number) = 0;
	virtual long ask(int number) = 0;
#else
	virtual long ask(int number) = 0;
	virtual long load(int number) = 0;
	virtual long compute(int number) = 0;
#endif
};

template <int KIND> struct Kind : Layer {
	__attribute__((noinline)) long compute(int number) override
	{
		work(work_us);
		computed++;
		return number + KIND;
	}
	__attribute__((noinline)) long ask(int number) override
	{
#ifdef ALIKE
		work(work_us);
#endif
#ifdef BLOCKED
		if (number < 0)
			std::this_thread::sleep_for(std::chrono::seconds(2));
#endif
		return number * KIND + id;
	}
	__attribute__((noinline)) long load(int number) override
	{
		work(3 * work_us);
		return number - KIND;
	}
};

static std::vector<std::unique_ptr<Layer>> layers;

extern "C" __attribute__((noinline)) long engine_step(int number)
{
	long sum = 0;
	for (auto &layer : layers) {
		for (int times = 0; times < QUESTIONS; times++)
			sum += layer->ask(number);
		sum += layer->compute(number);
	}
	return sum;
}

int main(int argc, char **argv)
{
	int steps = argc > 1 ? atoi(argv[1]) : 5;
	long sum = 0;
	work_us = argc > 2 ? atoi(argv[2]) : 75;
	for (int group = 0; group < 4; group++) {
		layers.push_back(std::make_unique<Kind<1>>());
		layers.push_back(std::make_unique<Kind<2>>());
		layers.push_back(std::make_unique<Kind<3>>());
	}
	for (auto &layer : layers)
		sum += layer->load(++layers.back()->id);
#ifdef BLOCKED
	std::thread late([steps] {
		volatile long answer = layers.front()->ask(-1);
		answer += engine_step(steps + 1);
	});
#endif
	for (int number = 1; number <= steps; number++)
#ifdef THREADS
		std::thread([&sum, number] { sum += engine_step(number); }).join();
#else
		sum += engine_step(number);
#endif
#ifdef BLOCKED
	late.join();
#endif
	fprintf(stderr, "sum %ld\n", sum);
	printf("%ld\n", computed);
	return 0;
}
