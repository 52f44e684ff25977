"""Weights of ONNX models that `run_*_costs.py` make: small random numbers, the same each time."""

import numpy as np
from onnx import numpy_helper


class Weights:
    def __init__(self):
        self.random = np.random.default_rng(1)
        self.tensors = []

    def __call__(self, name, *shape, kind=np.float32):
        if kind == np.float32:
            values = (self.random.random(shape, dtype=np.float32) - np.float32(0.5)) / np.float32(64)
        else:
            values = self.random.integers(-9, 9, shape, dtype=kind)
        return self.constant(name, values)

    def constant(self, name, values):
        self.tensors.append(numpy_helper.from_array(np.asarray(values), name))
        return name
