"""Makes tensors with an engine's own functions, and compares what is at given offsets with what those functions say.

layout_of_ggml.py LIBRARY MEMBER=OFFSET...      prints `ok`, or what differs
"""

import ctypes
import sys


class Parameters(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


import _pywhispercpp  # with the libraries that it needs

assert _pywhispercpp
library = ctypes.CDLL(sys.argv[1])
at = {name: int(offset) for name, offset in (word.split("=") for word in sys.argv[2:])}
for name in ("ggml_init", "ggml_new_tensor_2d", "ggml_add", "ggml_view_1d", "ggml_get_data"):
    getattr(library, name).restype = ctypes.c_void_p
library.ggml_get_name.restype = library.ggml_op_name.restype = ctypes.c_char_p
pointer = ctypes.c_void_p
library.ggml_init.argtypes = [Parameters]
context = library.ggml_init(Parameters(1 << 20, None, False))
library.ggml_new_tensor_2d.argtypes = [pointer, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
left = library.ggml_new_tensor_2d(context, 0, 5, 3)
right = library.ggml_new_tensor_2d(context, 0, 5, 3)
library.ggml_add.argtypes = [pointer, pointer, pointer]
total = library.ggml_add(context, left, right)
library.ggml_set_name.argtypes = [pointer, ctypes.c_char_p]
library.ggml_set_name(total, b"sum")
library.ggml_view_1d.argtypes = [pointer, pointer, ctypes.c_int64, ctypes.c_size_t]
view = library.ggml_view_1d(context, total, 4, 0)
library.ggml_get_data.argtypes = [pointer]


def word(address, size=8):
    return int.from_bytes(ctypes.string_at(address, size), "little")


found = {
    "name": ctypes.string_at(total + at["name"]),
    "op": library.ggml_op_name(word(total + at["op"], 4)),
    "ne": [word(total + at["ne"] + 8 * i) for i in range(4)],
    "src": [word(total + at["src"] + 8 * i) for i in range(2)],
    "data": word(total + at["data"]),
    "view_src": word(view + at["view_src"]),
}
expected = {"name": b"sum", "op": b"ADD", "ne": [5, 3, 1, 1], "src": [left, right], "view_src": total}
expected["data"] = library.ggml_get_data(ctypes.c_void_p(total))
differ = {name: (found[name], expected[name]) for name in expected if found[name] != expected[name]}
print(differ or "ok")
