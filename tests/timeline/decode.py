"""Decodes a Perfetto trace with Perfetto's own message definitions, as a viewer does, and prints its slices as JSON."""

import json
import sys
import zlib

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent


def packets(data):
    """Every packet, those in compressed blocks in their place."""
    trace = Trace()
    trace.ParseFromString(data)
    for packet in trace.packet:
        if packet.HasField("compressed_packets"):
            yield from packets(zlib.decompress(packet.compressed_packets))
        else:
            yield packet


def slices(data):
    names, argument_names, texts = {}, {}, {}
    tracks, stacks, shown, samples = {}, {}, [], []
    clock = 0
    for packet in packets(data):
        for snapshot in packet.clock_snapshot.clocks:
            if snapshot.is_incremental:
                clock = snapshot.timestamp
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in tracks, "a track is described once"
            parent = tracks[track.parent_uuid] + "/" if track.HasField("parent_uuid") else ""
            tracks[track.uuid] = parent + (track.process.process_name or track.name)
        interned = packet.interned_data
        names.update((entry.iid, entry.name) for entry in interned.event_names)
        argument_names.update((entry.iid, entry.name) for entry in interned.debug_annotation_names)
        texts.update((entry.iid, entry.str.decode()) for entry in interned.debug_annotation_string_values)
        if not packet.HasField("track_event"):
            continue
        assert packet.trusted_packet_sequence_id == 1
        if packet.HasField("timestamp_clock_id"):
            time = packet.timestamp
        else:
            clock += packet.timestamp
            time = clock
        event = packet.track_event
        stack = stacks.setdefault(event.track_uuid, [])
        if event.type in (TrackEvent.TYPE_SLICE_BEGIN, TrackEvent.TYPE_INSTANT):
            arguments = {
                argument_names[a.name_iid]: a.int_value if a.HasField("int_value") else
                a.double_value if a.HasField("double_value") else texts[a.string_value_iid]
                for a in event.debug_annotations
            }
            begun = {"track": tracks[event.track_uuid], "name": names[event.name_iid], "start": time, "end": time,
                     "depth": len(stack), "arguments": arguments, "flows_out": list(event.flow_ids),
                     "flows_in": list(event.terminating_flow_ids)}
            shown.append(begun)
            if event.type == TrackEvent.TYPE_SLICE_BEGIN:
                stack.append(begun)
        elif event.type == TrackEvent.TYPE_SLICE_END:
            stack.pop()["end"] = time
        elif event.type == TrackEvent.TYPE_COUNTER:
            samples.append({"track": tracks[event.track_uuid], "time": time, "value": event.double_counter_value})
    assert not any(stacks.values()), "every slice ends"
    return {"slices": shown, "samples": samples}


with open(sys.argv[1], "rb") as file:
    json.dump(slices(file.read()), sys.stdout)
