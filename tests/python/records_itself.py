"""Runs a toy engine in this process, records itself, and prints as JSON what it did and what the trace has."""

import ctypes
import json
import sys

import profinfer


class Batch(ctypes.Structure):
    _fields_ = [("tokens", ctypes.c_int), ("padding", ctypes.c_long * 4)]


library, probeset, output = sys.argv[1:]
engine = ctypes.CDLL(library)
engine.toy_step.argtypes = [Batch, ctypes.c_int, ctypes.c_int]
engine.toy_step(Batch(1), 4, 2)  # before: not recorded
with profinfer.record(probeset, output=output) as recording:
    for _ in range(7):
        engine.toy_step(Batch(3), 4, 2)
engine.toy_step(Batch(1), 4, 2)  # after: not recorded
trace = recording.trace()
refused = []
for attempt in (lambda: trace.table("nothing"), lambda: profinfer.read("missing.pfi")):
    try:
        attempt()
    except profinfer.Error as error:
        refused.append(str(error))
operators = trace.operators
print(
    json.dumps(
        {
            "steps": [row["tokens"] for row in trace.steps.to_pylist() if row["step"]],
            "operators": operators.num_rows,
            "ops": sorted(set(operators.column("op").to_pylist())),
            "work_ns": sum(operators.column("work_ns").to_pylist()),
            "batches": sum(batch.num_rows for batch in trace.batches("operators")),
            "reported": trace.report()["completeness"]["steps"],
            "engine": trace.info()["origin"]["engine"],
            "refused": refused,
        }
    )
)
