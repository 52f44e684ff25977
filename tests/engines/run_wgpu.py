"""Computes on a GPU with wgpu-py, and prints a line of JSON: how often it called what, bytes, and times by its clock.

run_wgpu.py STEPS [COUNT] [ROUNDS] [wait] [poll]

Each step uploads COUNT numbers, runs two pipelines, `double` and `add_one`, in a submission each, and reads the result
back, which is a copy, a submission and a wait. `double` multiplies and divides ROUNDS times before. `wait` waits for a
line before the first step, and says `ready`. `poll` asks every ms whether the two pipelines are done, before that.
"""

import array
import json
import os
import sys
import time

import wgpu

CODE = """
@group(0) @binding(0) var<storage, read_write> values: array<u32>;

@compute @workgroup_size(64)
fn double(@builtin(global_invocation_id) id: vec3<u32>) {
    var value = values[id.x];
    for (var i = 0u; i < ROUNDSu; i++) {
        value = value * 1664525u + 1013904223u;
    }
    values[id.x] = select(values[id.x] * 2u, value, value == 1u && id.x == 0xffffffffu);
}

@compute @workgroup_size(64)
fn add_one(@builtin(global_invocation_id) id: vec3<u32>) {
    values[id.x] = values[id.x] + 1u;
}
"""


def polled(device):
    """How often it asked whether all is done."""
    from wgpu.backends.wgpu_native import _api, ffi

    asked = 1
    # A byte: what is above it in the result is undefined.
    while _api.libf.wgpuDevicePoll(device._internal, False, ffi.NULL) & 0xFF == 0:
        asked += 1
        time.sleep(0.001)
    return asked


def main(steps, count, rounds, waits, polls):
    adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
    device = adapter.request_device_sync()
    module = device.create_shader_module(code=CODE.replace("ROUNDS", str(rounds)))
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_DST | wgpu.BufferUsage.COPY_SRC
    buffer = device.create_buffer(size=4 * count, usage=usage)
    pipelines, groups = [], []
    for name in ("double", "add_one"):
        pipeline = device.create_compute_pipeline(
            label=f"pipeline {name}", layout="auto", compute={"module": module, "entry_point": name}
        )
        pipelines.append(pipeline)
        entries = [{"binding": 0, "resource": {"buffer": buffer, "offset": 0, "size": 4 * count}}]
        groups.append(device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries))
    said = {"pid": os.getpid(), "submissions": 0, "dispatches": 0, "writes": [], "copies": [], "steps": [], "polls": []}
    if waits:
        print("ready", flush=True)
        sys.stdin.readline()
    for step in range(steps):
        device.queue.write_buffer(buffer, 0, array.array("I", range(step, step + count)))
        said["writes"].append(4 * count)
        commands = []
        for pipeline, group in zip(pipelines, groups):
            encoder = device.create_command_encoder()
            compute = encoder.begin_compute_pass()
            compute.set_pipeline(pipeline)
            compute.set_bind_group(0, group)
            compute.dispatch_workgroups(count // 64)
            compute.end()
            commands.append(encoder.finish())
            said["dispatches"] += 1
        submitted = time.monotonic_ns()
        for command in commands:
            device.queue.submit([command])
            said["submissions"] += 1
        if polls:
            said["polls"].append(polled(device))
            done = time.monotonic_ns()
        # A copy to a buffer that can be mapped, and the wait for it.
        result = device.queue.read_buffer(buffer)
        done = done if polls else time.monotonic_ns()
        said["submissions"] += 1
        said["copies"].append(4 * count)
        said["steps"].append([submitted, done])
        values = list(result.cast("I"))
        if values != [(2 * (step + i) + 1) & 0xFFFFFFFF for i in range(count)]:
            sys.exit(f"step {step}: {values[:4]}")
    said["device"] = adapter.info["device"]
    print(json.dumps(said))


numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
if not numbers:
    sys.exit(__doc__)
numbers += [4096, 0][len(numbers) - 1 :]
main(*numbers, "wait" in sys.argv, "poll" in sys.argv)
