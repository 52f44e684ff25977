"""Weights of ONNX models that `run_*_costs.py` make: small random numbers, the same each time."""

import numpy as np
from onnx import numpy_helper


class Weights:
    def __init__(self):
        self.random = np.random.default_rng(1)
        self.tensors = []

    def __call__(self, name, *shape):
        values = (self.random.random(shape, dtype=np.float32) - np.float32(0.5)) / np.float32(64)
        self.tensors.append(numpy_helper.from_array(values, name))
        return name
