// Overrides that call their base's on the same object, and on another one: `refined STEPS` prints, for each operator in the
// order of their ends, its number and what it returned.
#include <cstdio>
#include <cstdlib>

#define KEEP __attribute__((noinline, noclone))

namespace eng {

// Its destructor has it returned in memory.
struct Status {
	long code, seen;
	explicit Status(long c) : code(c), seen(c + 1000) {}
	Status(const Status &other) : code(other.code), seen(other.seen) {}
	~Status() { code = 0; }
};

struct Layer {
	int id;
	explicit Layer(int i) : id(i) {}
	virtual ~Layer() {}
	virtual Status run(int n) = 0;
};

struct Plain : Layer {
	using Layer::Layer;
	KEEP Status run(int n) override { return Status(n + id); }
};

// Calls its base's as the last thing that it does: a jump, where the compiler makes it one.
struct Refined : Plain {
	using Plain::Plain;
	KEEP Status run(int n) override { return Plain::run(n * 2); }
};

// Calls its base's, and does more.
struct More : Refined {
	using Refined::Refined;
	KEEP Status run(int n) override
	{
		Status of_base = Refined::run(n + 1);
		return Status(of_base.code + 7);
	}
};

static void print(const Layer &layer, const Status &status)
{
	printf("%d %ld\n", layer.id, status.code);
}

// Another layer lies in it, which is an operator too.
struct Around : Plain {
	Refined inner;
	explicit Around(int i) : Plain(i), inner(i + 100) {}
	KEEP Status run(int n) override
	{
		Status of_inner = inner.run(n);
		print(inner, of_inner);
		return Plain::run(static_cast<int>(of_inner.code));
	}
};

KEEP long step(Layer **layers, int number)
{
	long sum = 0;
	for (int i = 0; layers[i]; i++) {
		Status status = layers[i]->run(number);
		print(*layers[i], status);
		sum += status.code;
	}
	return sum;
}

} // namespace eng

int main(int argc, char **argv)
{
	eng::Layer *layers[] = { new eng::Plain(1), new eng::Refined(2), new eng::More(3), new eng::Around(4), nullptr };
	eng::Layer **volatile all = layers;
	for (int number = 1; number <= atoi(argv[1]); number++)
		eng::step(all, number);
	return argc > 9;
}
