// An engine whose layers are virtual: overrides of all kinds, which it counts itself. Stripped, it still has its types.
// `virtuals [STEPS [MICROSECONDS]]`: so many steps, with so much sleep after each.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <unistd.h>
#include <vector>

#define KEEP __attribute__((noinline, noclone))

namespace eng {

// Its destructor has it returned in memory, small as it is.
struct Status {
	long code;
	KEEP explicit Status(long c) : code(c) {}
	KEEP Status(const Status &other) : code(other.code) {}
	KEEP ~Status() { code = 0; }
};

struct Layer {
	int id;
	explicit Layer(int i) : id(i) {}
	virtual ~Layer() {}
	virtual int unrelated(int n) { return n; }
	virtual Status run(int n) = 0;
};

struct Add : Layer {
	using Layer::Layer;
	KEEP Status run(int n) override { return Status(n + id); }
};

struct Mul : Layer {
	using Layer::Layer;
	KEEP Status run(int n) override { return Status(n * id + 1); }
};

// Has what it inherits in its own table.
struct Deep : Add {
	using Add::Add;
	int unrelated(int n) override { return n + 1; }
};

struct Deeper : Deep {
	using Deep::Deep;
	KEEP Status run(int n) override { return Status(n - 3 * id); }
};

struct Named {
	const char *label = "named";
	virtual ~Named() {}
	virtual const char *name() const { return label; }
	virtual int more(int n) { return n; }
};

// A layer second: its table leads to a thunk.
struct Both : Named, Layer {
	explicit Both(int i) : Layer(i) {}
	KEEP Status run(int n) override { return Status(n + 7 * id); }
};

// There is one layer in the whole object, wherever that is.
struct Shared : virtual Layer {
	int before = 1;
	explicit Shared(int i) : Layer(i) {}
	KEEP Status run(int n) override { return Status(n + id + before); }
};

struct Diamond : Named, Shared {
	explicit Diamond(int i) : Layer(i), Shared(i) {}
	KEEP Status run(int n) override { return Status(n + 2 * id); }
};

namespace {
struct Hidden : Layer {
	using Layer::Layer;
	KEEP Status run(int n) override { return Status(n ^ id); }
};
} // namespace

// Nobody's base: the one function of two classes.
struct First : Layer {
	using Layer::Layer;
	KEEP Status run(int n) override;
};
Status First::run(int n)
{
	return Status(n + 100);
}
struct Second : Layer {
	using Layer::Layer;
	int unrelated(int n) override;
	Status run(int n) override __attribute__((alias("_ZN3eng5First3runEi")));
};
int Second::unrelated(int n)
{
	return n + 2;
}

template <class T> struct Typed : Layer {
	T value = 3;
	using Layer::Layer;
	KEEP Status run(int n) override { return Status(n + static_cast<long>(value)); }
};

// Not a layer, however alike.
struct Other {
	virtual ~Other() {}
	virtual int unrelated(int n) { return n; }
	virtual Status run(int n) { return Status(n); }
};

struct Engine {
	virtual ~Engine() {}
	virtual long step(int number) = 0;
};

struct Runner : Engine {
	std::vector<std::unique_ptr<Layer>> layers;
	Other other;
	KEEP long step(int number) override
	{
		long sum = 0;
		for (auto &layer : layers)
			sum += layer->run(number).code;
		Other *volatile opaque = &other;
		return sum + opaque->run(number).code;
	}
};

} // namespace eng

template <class T> static void add(eng::Runner &runner, int count, int &id)
{
	while (count--)
		runner.layers.push_back(std::make_unique<T>(id++));
}

int main(int argc, char **argv)
{
	int steps = argc > 1 ? atoi(argv[1]) : 3, id = 10;
	eng::Runner runner;
	add<eng::Add>(runner, 1, id);
	add<eng::Mul>(runner, 2, id);
	add<eng::Deep>(runner, 3, id);
	add<eng::Deeper>(runner, 1, id);
	add<eng::Both>(runner, 2, id);
	add<eng::Shared>(runner, 1, id);
	add<eng::Diamond>(runner, 2, id);
	add<eng::Hidden>(runner, 1, id);
	add<eng::First>(runner, 1, id);
	add<eng::Second>(runner, 1, id);
	add<eng::Typed<int>>(runner, 2, id);
	add<eng::Typed<float>>(runner, 1, id);
	eng::Engine *volatile engine = &runner;
	long sum = 0;
	for (int number = 1; number <= steps; number++) {
		sum += engine->step(number);
		if (argc > 2)
			usleep(atoi(argv[2]));
	}
	printf("%ld\n", sum);
	return 0;
}
