// A network of layers by a virtual method, for drafts of probesets: `layers RUNS [wait]`, where it waits for the end of its
// input before it runs.
#include <cstdio>
#include <cstdlib>

namespace net {

struct Tensor {
	float values[64];
};

class Layer {
public:
	virtual ~Layer();
	virtual void prepare(int size) = 0;
	virtual int forward(const Tensor &input, Tensor *output) const = 0;
	int size = 0;
};

Layer::~Layer() {}

// Each layer's methods are functions of their own: what they compute differs.
#define LAYER(NAME, FACTOR)                                                                                            \
	class NAME : public Layer {                                                                                    \
	public:                                                                                                        \
		~NAME() override { size = FACTOR; }                                                                    \
		void prepare(int of) override { size = of + FACTOR; }                                                  \
		int forward(const Tensor &input, Tensor *output) const override                                        \
		{                                                                                                      \
			for (int i = 0; i < 64; i++)                                                                   \
				output->values[i] = input.values[i] * FACTOR + size;                                   \
			return FACTOR;                                                                                 \
		}                                                                                                      \
	};

LAYER(Convolution, 2)
LAYER(Pooling, 3)
LAYER(Softmax, 5)
LAYER(Concat, 7)
LAYER(Reshape, 11)
LAYER(Attention, 13)

class Session {
public:
	Session();
	int run(Tensor &tensor, int length) const;

private:
	Layer *layers[6];
};

__attribute__((noinline)) Session::Session()
{
	Layer *all[] = { new Convolution, new Pooling, new Softmax, new Concat, new Reshape, new Attention };
	for (int i = 0; i < 6; i++) {
		layers[i] = all[i];
		layers[i]->prepare(i);
	}
}

__attribute__((noinline)) int Session::run(Tensor &tensor, int length) const
{
	Tensor other = tensor;
	int sum = length;
	for (Layer *layer : layers) {
		sum += layer->forward(tensor, &other);
		tensor = other;
	}
	return sum;
}

} // namespace net

int main(int count, char **arguments)
{
	while (count > 2 && getchar() != EOF)
		;
	net::Session session;
	net::Tensor tensor = {};
	int sum = 0;
	for (int i = 0; i < atoi(arguments[1]); i++)
		sum += session.run(tensor, i);
	printf("%d\n", sum);
}
