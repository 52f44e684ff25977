#!/usr/bin/env python3
"""Reads a trace as docs/trace-format.md describes it, knowing nothing else, and prints what `profinfer dump` prints.

trace_format.py TRACE            prints the records as NDJSON
trace_format.py --samples TRACE  prints the timer samples as NDJSON
trace_format.py TRACE EXPECTED   says where the records differ from those in EXPECTED, and exits with 1
"""

import json
import struct
import sys
import zlib

MAGIC = b"\x89PFI\r\n\x1a\n"
MARK = b"\xf5PF\n"
SITES, EVENTS, SAMPLES, SAMPLING = 3, 4, 8, 9
JSON_KINDS = {1: "origin", 2: "schema", 3: "sites", 5: "losses", 6: "notice", 7: "end", SAMPLING: "sampling"}
MODULES = {0xFFFF: "unknown", 0xFFFE: "anonymous", 0xFFFD: "kernel"}


def frames(data):
    """Kind and payload of each frame."""
    magic, version, _ = struct.unpack_from("<8sII", data)
    assert magic == MAGIC and version == 1, "not a trace of version 1"
    at = 16
    while at < len(data):
        mark, kind, flags, _, stored, raw, checksum, own = struct.unpack_from("<4sBBHIIII", data, at)
        assert mark == MARK and own == zlib.crc32(data[at : at + 20]), f"no frame at {at}"
        payload = data[at + 24 : at + 24 + stored]
        assert checksum == zlib.crc32(payload), f"damaged frame at {at}"
        if flags & 1:
            import zstandard

            payload = zstandard.ZstdDecompressor().decompress(payload, max_output_size=raw)
        assert len(payload) == raw
        yield kind, payload
        at += 24 + stored


def shape(ty):
    """Bytes of a value, and values in the fixed part."""
    if isinstance(ty, str):
        return {"bool": 1, "pointer": 8, "duration": 8}[ty], 1
    [(name, of)] = ty.items()
    if name in ("int", "uint", "float"):
        return of, 1
    if name in ("text", "hex"):
        return 1, of
    if name == "array":
        width, count = shape(of[0])
        return width, count * of[1]
    return {"enum": (4, 1), "object": (8, 1), "list": (8, 1), "match": (1, 0)}[name]


def list_of(record):
    """The last field, if it is a list."""
    last = record["fields"][-1] if record["fields"] else {"ty": "bool"}
    return last if isinstance(last["ty"], dict) and "list" in last["ty"] else None


def columns(record):
    """Offset, width and values a record of a type's columns."""
    yield from ((2, 2, 1), (4, 2, 1), (6, 2, 1), (24, 8, 1))
    at = 32
    for field in sorted(record["fields"], key=lambda field: field["offset"]):
        width, count = shape(field["ty"])
        if count == 0:
            continue
        offset = field["offset"]
        if offset > at:
            yield at, 1, offset - at
        yield (offset + 4, 4, 1) if field is list_of(record) else (offset, width, count)
        at = offset + width * count
    if record["size"] > at:
        yield at, 1, record["size"] - at


def unzigzag(value):
    return value >> 1 if value % 2 == 0 else -(value >> 1) - 1


class Payload:
    """Columns, one after the other."""

    def __init__(self, payload):
        self.payload, self.at = payload, 0

    def take(self, length):
        self.at += length
        assert self.at <= len(self.payload)
        return self.payload[self.at - length : self.at]

    def varint(self):
        value = shift = 0
        while True:
            [byte] = self.take(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def planes(self, n, p):
        planes = [self.take(n) for _ in range(p)]
        return [sum(plane[i] << 8 * k for k, plane in enumerate(planes)) for i in range(n)]

    def column(self, n, width):
        encoding, p = self.take(2)
        if encoding == 0:
            return self.planes(n, p)
        if encoding == 1:
            return [int.from_bytes(self.take(p), "little")] * n
        if encoding == 2:
            values, previous = [], 0
            for delta in self.planes(n, p):
                previous = (previous + unzigzag(delta)) % 2 ** (8 * width)
                values.append(previous)
            return values
        assert encoding == 3
        entries = [int.from_bytes(self.take(width), "little") for _ in range(self.varint())]
        return [entries[index] for index in self.planes(n, p)]


class Block(Payload):
    """The records of an events frame."""

    def __init__(self, payload, types):
        super().__init__(payload)
        n = self.varint()
        groups = [(self.varint(), self.varint()) for _ in range(self.varint())]
        arrival = self.column(n, 4)
        ordered = {}  # type -> numbers of its records, group by group
        for group, (ty, _) in sorted(enumerate(groups), key=lambda pair: (pair[1][0], pair[0])):
            ordered.setdefault(ty, []).extend(i for i in range(n) if arrival[i] == group)
        counts = [0] * n
        for ty, numbers in ordered.items():
            if list_of(types[ty]):
                for number, count in zip(numbers, self.column(len(numbers), 4)):
                    counts[number] = count
        self.records = [bytearray(types[groups[group][0]]["size"]) for group in arrival]
        for ty, numbers in ordered.items():
            self.read_type(types[ty], numbers, counts)
        seqs, starts = self.column(n, 4), self.column(n, 8)
        last, latest = {}, 0
        for number, group in enumerate(arrival):
            ty, tid = groups[group]
            seq, end = last.get(tid, (-1, latest))
            seq = (seq + 1 + unzigzag(seqs[number])) % 2**32
            start = (end + unzigzag(starts[number])) % 2**64
            record = self.records[number]
            struct.pack_into("<H", record, 0, ty)
            struct.pack_into("<IIQ", record, 8, tid, seq, start)
            latest = (start + struct.unpack_from("<Q", record, 24)[0]) % 2**64
            last[tid] = seq, latest
        assert self.at == len(payload)

    def read_type(self, record_type, numbers, counts):
        for offset, width, count in columns(record_type):
            values = iter(self.column(len(numbers) * count, width))
            for number in numbers:
                for i in range(count):
                    place = offset + i * width
                    self.records[number][place : place + width] = next(values).to_bytes(width, "little")
        field = list_of(record_type)
        if field:
            width, each = shape(field["ty"]["list"][0])
            values = iter(self.column(sum(counts[number] for number in numbers) * each, width))
            for number in numbers:
                struct.pack_into("<I", self.records[number], field["offset"], counts[number])
                for _ in range(counts[number] * each):
                    self.records[number] += next(values).to_bytes(width, "little")


class Samples(Payload):
    """The samples of a samples frame."""

    def __init__(self, payload, modules):
        super().__init__(payload)
        n, f = self.varint(), self.varint()
        widths = {"time": 8, "tid": 4, "pid": 4, "cpu": 2, "flags": 1, "type": 2, "since": 8, "frames": 1}
        columns = {name: self.column(n, width) for name, width in widths.items()}
        places = list(zip(self.column(f, 2), self.column(f, 8)))
        assert self.at == len(payload) and sum(columns["frames"]) == f
        self.samples = []
        for i in range(n):
            sample = {name: columns[name][i] for name in ("time", "tid", "pid", "cpu")}
            sample["in_kernel"], sample["without_detail"] = bool(columns["flags"][i] & 1), bool(columns["flags"][i] & 2)
            if columns["type"][i] != 0xFFFF:
                sample["within"] = [columns["type"][i], (sample["time"] - columns["since"][i]) % 2**64]
            frames, places = places[: columns["frames"][i]], places[columns["frames"][i] :]
            sample["frames"] = [[MODULES[m] if m in MODULES else modules[m]["path"], offset] for m, offset in frames]
            self.samples.append(sample)


class Trace:
    def __init__(self, data):
        self.sites = {}
        self.modules = []
        self.frames = frames(data)

    def records(self):
        for kind, payload in self.frames:
            if kind == EVENTS:
                for record in Block(payload, self.schema["records"]).records:
                    yield self.line(bytes(record))
            elif kind in JSON_KINDS:
                value = json.loads(payload)
                if kind == SITES:
                    self.sites.update((site["id"], site) for site in value["sites"])
                    self.schema["enums"].update(value.get("enums", {}))
                else:
                    setattr(self, JSON_KINDS[kind], value)

    def samples(self):
        """Modules may come after the samples that are in them."""
        stored = list(self.frames)
        for kind, payload in stored:
            if kind == SAMPLING:
                value = json.loads(payload)
                assert value["first_module"] == len(self.modules)
                self.modules += value["modules"]
        for kind, payload in stored:
            if kind == SAMPLES:
                yield from Samples(payload, self.modules).samples

    def line(self, record):
        ty, site, cpu, missing, tid, seq, start, duration = struct.unpack_from("<HHHHIIQQ", record)
        kind = self.schema["records"][ty]
        fields, cut = {}, {}
        for index, field in enumerate(kind["fields"]):
            value = None if missing >> index & 1 else self.field(field, kind, record, site)
            fields[field["name"]] = value
            if field is list_of(kind) and value is not None:
                [total] = struct.unpack_from("<I", record, field["offset"] + 4)
                if total > len(value):
                    cut[field["name"]] = total
        line = {{"object": "object", "span": "probe", "mark": "probe"}.get(kind["kind"], "event"): kind["name"]}
        if kind["kind"] == "object":
            line["address"] = fields.pop(kind["fields"][0]["name"])
        line.update(kind=kind["kind"], tid=tid, cpu=cpu, start_ns=start - self.origin["monotonic_ns"])
        line.update(duration_ns=duration, seq=seq, fields=fields)
        if kind.get("role"):
            line["role"] = kind["role"]
        if site in self.sites:
            line["function"] = self.sites[site]["function"]
        if cut:
            line["cut"] = cut
        return line

    def field(self, field, kind, record, site):
        ty, at = field["ty"], field["offset"]
        if isinstance(ty, dict) and "match" in ty:
            captures = self.sites.get(site, {}).get("captures", [])
            if ty["match"] == 0:
                return self.sites.get(site, {}).get("function")
            return captures[ty["match"] - 1] if ty["match"] <= len(captures) else None
        if isinstance(ty, dict) and "list" in ty:
            [count] = struct.unpack_from("<I", record, at)
            return self.elements(ty["list"][0], count, record[kind["size"] :])
        return self.value(ty, record[at:])

    def elements(self, ty, count, data):
        width, each = shape(ty)
        return [self.value(ty, data[i * width * each :]) for i in range(count)]

    def value(self, ty, data):
        if isinstance(ty, str):
            number = int.from_bytes(data[: shape(ty)[0]], "little")
            return {"bool": number != 0, "duration": number, "pointer": hex(number)}[ty]
        [(name, of)] = ty.items()
        if name in ("int", "uint"):
            return int.from_bytes(data[:of], "little", signed=name == "int")
        if name == "float":
            return struct.unpack_from("<f" if of == 4 else "<d", data)[0]
        if name == "enum":
            number = int.from_bytes(data[:4], "little", signed=True)
            return self.schema["enums"].get(of, {}).get(str(number), number)
        if name == "text":
            return data[:of].split(b"\0")[0].decode("utf-8", "replace")
        if name == "hex":
            return data[:of].hex()
        if name == "object":
            return hex(int.from_bytes(data[:8], "little"))
        values = self.elements(of[0], of[1], data)
        if of[0] == "pointer" or "object" in of[0]:
            while values and values[-1] == "0x0":
                values.pop()
        return values


def main():
    if sys.argv[1] == "--samples":
        with open(sys.argv[2], "rb") as file:
            for sample in Trace(file.read()).samples():
                print(json.dumps(sample))
        return
    with open(sys.argv[1], "rb") as file:
        lines = list(Trace(file.read()).records())
    if len(sys.argv) < 3:
        for line in lines:
            print(json.dumps(line))
        return
    with open(sys.argv[2], encoding="utf-8") as file:
        expected = [json.loads(line) for line in file]
    for number, (line, other) in enumerate(zip(lines, expected), 1):
        if line != other:
            sys.exit(f"record {number} differs:\n  read     {line}\n  expected {other}")
    if len(lines) != len(expected):
        sys.exit(f"{len(lines)} records were read, {len(expected)} are expected")


main()
