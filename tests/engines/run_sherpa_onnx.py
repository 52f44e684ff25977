"""Runs the model of run_onnxruntime.py on the build of ONNX Runtime that sherpa-onnx brings, through its C interface.

run_sherpa_onnx.py FOLDER RUNS [profile]

sherpa-onnx itself runs speech models only; the library beside it is the whole engine. With `profile` the engine writes
FOLDER/profile.json.
"""

import ctypes
import glob
import importlib.util
import os
import sys

from run_onnxruntime import ROWS, WIDTH, inputs, model, write_down

# Places in the table of functions that `OrtGetApiBase` leads to. They stay as they are: functions are added at its end.
ERROR_MESSAGE, CREATE_ENV, CREATE_SESSION_FROM_ARRAY, RUN, CREATE_OPTIONS = 2, 3, 8, 9, 10
ENABLE_PROFILING, INTRA_OP_THREADS, INTER_OP_THREADS, TENSOR_OF_DATA, CPU_MEMORY = 14, 24, 25, 49, 69
DEFAULT_ALLOCATOR, END_PROFILING = 78, 110
API_VERSION, WARNING, FLOAT, BOOL = 11, 2, 1, 9


class Engine:
    """The functions of the library that are used here. What it makes lives as long as the process."""

    def __init__(self, library: str) -> None:
        class Base(ctypes.Structure):
            _fields_ = [("api", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)),
                        ("version", ctypes.CFUNCTYPE(ctypes.c_char_p))]

        get = ctypes.CDLL(library).OrtGetApiBase
        get.restype = ctypes.POINTER(Base)
        base = get().contents
        self.version = base.version().decode()
        self.functions = ctypes.cast(base.api(API_VERSION), ctypes.POINTER(ctypes.c_void_p))

    def call(self, place: int, *arguments) -> None:
        status = ctypes.CFUNCTYPE(ctypes.c_void_p, *map(type, arguments))(self.functions[place])(*arguments)
        if status:
            message = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)(self.functions[ERROR_MESSAGE])(status)
            raise RuntimeError(message.decode())

    def make(self, place: int, *arguments) -> ctypes.c_void_p:
        """Calls a function whose last argument is where it puts what it made."""
        made = ctypes.c_void_p()
        self.call(place, *arguments, ctypes.pointer(made))
        return made


def main() -> None:
    folder, runs = sys.argv[1], int(sys.argv[2])
    profile = sys.argv[3:] == ["profile"]
    # The package itself looks for a sound card's library: only its folder is wanted.
    package = importlib.util.find_spec("sherpa_onnx").submodule_search_locations[0]
    engine = Engine(glob.glob(os.path.join(package, "lib", "libonnxruntime.so*"))[0])
    text = ctypes.c_char_p
    env = engine.make(CREATE_ENV, ctypes.c_int(WARNING), text(b"test"))
    options = engine.make(CREATE_OPTIONS)
    for threads in (INTRA_OP_THREADS, INTER_OP_THREADS):
        engine.call(threads, options, ctypes.c_int(1))
    if profile:
        engine.call(ENABLE_PROFILING, options, text(os.path.join(folder, "ort").encode()))
    data = model()
    session = engine.make(CREATE_SESSION_FROM_ARRAY, env, text(data), ctypes.c_size_t(len(data)), options)
    memory = engine.make(CPU_MEMORY, ctypes.c_int(0), ctypes.c_int(0))
    feed = inputs()

    def tensor(array, kind):
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        place = ctypes.c_void_p(array.ctypes.data)
        dims = ctypes.cast(shape, ctypes.c_void_p)
        return engine.make(TENSOR_OF_DATA, memory, place, ctypes.c_size_t(array.nbytes), dims,
                           ctypes.c_size_t(array.ndim), ctypes.c_int(kind)).value

    names = (text * 2)(b"x", b"choice")
    values = (ctypes.c_void_p * 2)(tensor(feed["x"], FLOAT), tensor(feed["choice"], BOOL))
    outputs = (text * 1)(b"y")
    result = feed["x"].copy()
    results = (ctypes.c_void_p * 1)(tensor(result, FLOAT))
    assert result.shape == (ROWS, WIDTH)
    for _ in range(runs):
        engine.call(RUN, session, ctypes.c_void_p(), names, values, ctypes.c_size_t(2), outputs, ctypes.c_size_t(1),
                    results)
    if profile:
        allocator = engine.make(DEFAULT_ALLOCATOR)
        path = engine.make(END_PROFILING, session, allocator)
        write_down(folder, engine.version, ctypes.cast(path, text).value.decode())


if __name__ == "__main__":
    main()
