"""Decodes the samples of a Perfetto trace with Perfetto's own message definitions, as a viewer does, and prints them as
JSON: times, threads, and the frames of their stacks with their files, the outermost first."""

import json
import sys
import zlib

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Profiling, Trace


def packets(data):
    """Every packet, those in compressed blocks in their place."""
    trace = Trace()
    trace.ParseFromString(data)
    for packet in trace.packet:
        if packet.HasField("compressed_packets"):
            yield from packets(zlib.decompress(packet.compressed_packets))
        else:
            yield packet


def read(data):
    names, paths, mappings, frames, stacks, threads, samples = {}, {}, {}, {}, {}, {}, []
    lost, timebase, clock = 0, None, None
    for packet in packets(data):
        assert packet.trusted_packet_sequence_id == 1
        if packet.HasField("trace_packet_defaults"):
            clock = packet.trace_packet_defaults.timestamp_clock_id
            base = packet.trace_packet_defaults.perf_sample_defaults.timebase
            timebase = [base.name, base.frequency]
        threads.update((thread.tid, thread.tgid) for thread in packet.process_tree.threads)
        interned = packet.interned_data
        names.update((entry.iid, entry.str.decode()) for entry in interned.function_names)
        paths.update((entry.iid, entry.str.decode()) for entry in interned.mapping_paths)
        mappings.update((entry.iid, "/".join(paths[path] for path in entry.path_string_ids)) for entry in interned.mappings)
        frames.update((entry.iid, [names[entry.function_name_id], mappings[entry.mapping_id]]) for entry in interned.frames)
        stacks.update((entry.iid, [frames[frame] for frame in entry.frame_ids]) for entry in interned.callstacks)
        if not packet.HasField("perf_sample"):
            continue
        sample = packet.perf_sample
        if sample.HasField("kernel_records_lost"):
            lost += sample.kernel_records_lost
            continue
        assert threads[sample.tid] == sample.pid
        samples.append({"time": packet.timestamp, "tid": sample.tid, "pid": sample.pid, "cpu": sample.cpu,
                        "in_kernel": sample.cpu_mode == Profiling.MODE_KERNEL, "stack": stacks[sample.callstack_iid]})
    return {"samples": samples, "lost": lost, "timebase": timebase, "clock": clock}


with open(sys.argv[1], "rb") as file:
    json.dump(read(file.read()), sys.stdout)
