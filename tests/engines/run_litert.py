"""Runs a small network of random weights with LiteRT. `--make` writes the model first, where it is not there:
convolutions, a residual, pooling, a classifier. `--operators FILE` writes what the interpreter itself says of its
nodes, in the order of execution: its type, and its first output's name, element type and shape. The predecessor
`tflite-runtime` runs a model that is there: it cannot write one.

`--kernels` leaves out the interpreter's default delegate (XNNPACK): each operator is a kernel of LiteRT's own."""

import argparse
import contextlib
import json
import os

import numpy as np

try:
    from ai_edge_litert import interpreter as litert
    from ai_edge_litert import schema_py_generated as schema
except ImportError:
    from tflite_runtime import interpreter as litert

CLASSES = 10
CHANNELS = 16


class Network:
    """A model that grows an operator at a time."""

    def __init__(self):
        self.random = np.random.default_rng(7)
        self.graph = schema.SubGraphT()
        self.graph.name = b"main"
        self.graph.tensors, self.graph.operators = [], []
        self.model = schema.ModelT()
        self.model.version = 3
        self.model.description = b"random weights"
        self.model.operatorCodes = []
        self.model.buffers = [schema.BufferT()]  # the first is empty, and is what no tensor's data is in

    def tensor(self, name, shape, values=None):
        tensor = schema.TensorT()
        tensor.name, tensor.shape = name.encode(), list(shape)
        tensor.type = schema.TensorType.FLOAT32
        tensor.buffer = 0
        if values is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(values.tobytes(), dtype=np.uint8)
            tensor.buffer = len(self.model.buffers)
            tensor.type = schema.TensorType.INT32 if values.dtype == np.int32 else schema.TensorType.FLOAT32
            self.model.buffers.append(buffer)
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def weights(self, name, shape):
        values = (self.random.standard_normal(shape) * 0.1).astype(np.float32)
        return self.tensor(name, shape, values)

    def operator(self, kind, inputs, name, shape, options=None):
        code = getattr(schema.BuiltinOperator, kind)
        codes = [known.builtinCode for known in self.model.operatorCodes]
        if code not in codes:
            new = schema.OperatorCodeT()
            new.builtinCode, new.version = code, 1
            new.deprecatedBuiltinCode = min(code, 127)
            self.model.operatorCodes.append(new)
            codes.append(code)
        operator = schema.OperatorT()
        operator.opcodeIndex = codes.index(code)
        operator.inputs = inputs
        operator.outputs = [self.tensor(name, shape)]
        if options is not None:
            kind_of_options = type(options).__name__.removesuffix("T")
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, kind_of_options)
            operator.builtinOptions = options
        self.graph.operators.append(operator)
        return operator.outputs[0]

    def write(self, path):
        import flatbuffers

        self.model.subgraphs = [self.graph]
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), file_identifier=b"TFL3")
        with open(path + ".part", "wb") as file:
            file.write(builder.Output())
        os.rename(path + ".part", path)


def same_size(options):
    options.padding = schema.Padding.SAME
    options.strideW = options.strideH = 1
    return options


def make_model(path):
    network = Network()
    image = network.tensor("image", (1, 32, 32, 3))
    shape = (1, 32, 32, CHANNELS)
    convolution = same_size(schema.Conv2DOptionsT())
    convolution.dilationWFactor = convolution.dilationHFactor = 1
    weights = [network.weights("stem/kernel", (CHANNELS, 3, 3, 3)), network.weights("stem/bias", (CHANNELS,))]
    stem = network.operator("CONV_2D", [image, *weights], "stem/conv", shape, convolution)
    depthwise = same_size(schema.DepthwiseConv2DOptionsT())
    depthwise.depthMultiplier = depthwise.dilationWFactor = depthwise.dilationHFactor = 1
    weights = [network.weights("block/kernel", (1, 3, 3, CHANNELS)), network.weights("block/bias", (CHANNELS,))]
    block = network.operator("DEPTHWISE_CONV_2D", [stem, *weights], "block/depthwise", shape, depthwise)
    block = network.operator("LOGISTIC", [block], "block/logistic", shape)
    block = network.operator("MUL", [block, stem], "block/mul", shape, schema.MulOptionsT())
    block = network.operator("ADD", [block, stem], "block/add", shape, schema.AddOptionsT())
    pool = schema.Pool2DOptionsT()
    pool.padding = schema.Padding.VALID
    pool.strideW = pool.strideH = pool.filterWidth = pool.filterHeight = 4
    pooled = network.operator("AVERAGE_POOL_2D", [block], "pool", (1, 8, 8, CHANNELS), pool)
    flat = network.tensor("flat/shape", (2,), np.array([1, 8 * 8 * CHANNELS], dtype=np.int32))
    pooled = network.operator("RESHAPE", [pooled, flat], "flat", (1, 8 * 8 * CHANNELS), schema.ReshapeOptionsT())
    weights = [network.weights("head/kernel", (CLASSES, 8 * 8 * CHANNELS)), network.weights("head/bias", (CLASSES,))]
    head = schema.FullyConnectedOptionsT()
    scores = network.operator("FULLY_CONNECTED", [pooled, *weights], "head/scores", (1, CLASSES), head)
    softmax = schema.SoftmaxOptionsT()
    softmax.beta = 1.0
    output = network.operator("SOFTMAX", [scores], "head/softmax", (1, CLASSES), softmax)
    network.graph.inputs, network.graph.outputs = [image], [output]
    network.write(path)


def said_of(interpreter):
    """The nodes that are executed, by the interpreter's word. Those that a delegate has taken are behind one node."""
    tensors = {tensor["index"]: tensor for tensor in interpreter.get_tensor_details()}
    for operator in interpreter._get_ops_details():
        output = tensors[int(operator["outputs"][0])]
        shape = [int(extent) for extent in output["shape"]]
        dtype = np.dtype(output["dtype"]).name.upper()
        inputs = [tensors[int(index)]["name"] for index in operator["inputs"] if int(index) >= 0]
        yield {"type": operator["op_name"], "name": output["name"], "dtype": dtype, "shape": shape, "inputs": inputs}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--operators")
    parser.add_argument("--make", action="store_true")
    arguments = parser.parse_args()
    path = os.path.abspath(arguments.model)
    if arguments.make and not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        make_model(path)

    resolvers = litert.OpResolverType
    resolver = resolvers.BUILTIN_WITHOUT_DEFAULT_DELEGATES if arguments.kernels else resolvers.AUTO
    interpreter = litert.Interpreter(
        model_path=path, num_threads=arguments.threads, experimental_op_resolver_type=resolver
    )
    interpreter.allocate_tensors()
    image = np.random.default_rng(1).standard_normal((1, 32, 32, 3)).astype(np.float32)
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image)
    for _ in range(arguments.runs):
        interpreter.invoke()
    if arguments.operators:
        with open(arguments.operators, "w", encoding="utf-8") as file:
            for operator in said_of(interpreter):
                file.write(json.dumps(operator) + "\n")
    with contextlib.suppress(BrokenPipeError):
        print("ran", arguments.runs)


if __name__ == "__main__":
    main()
