#!/usr/bin/env python3
"""An OTLP receiver over HTTP, by OpenTelemetry's own definitions.

usage: otlp_receiver.py [--refuse N]

Prints its port, then a line of JSON for each metric and span that it is sent. The first N requests get 503.
"""

import argparse
import base64
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def attributes(of):
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in of.attributes}


def metrics(body):
    request = json_format.Parse(body, ExportMetricsServiceRequest())
    for resource in request.resource_metrics:
        of = attributes(resource.resource)
        for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
            kind = metric.WhichOneof("data")
            for point in getattr(metric, kind).data_points:
                row = {"metric": metric.name, "unit": metric.unit, "kind": kind, "resource": of}
                row |= {"attributes": attributes(point), "from": point.start_time_unix_nano, "at": point.time_unix_nano}
                if kind == "histogram":
                    assert sum(point.bucket_counts) == point.count, metric
                    assert len(point.bucket_counts) == len(point.explicit_bounds) + 1, metric
                    row |= {"count": point.count, "sum": point.sum}
                else:
                    row["value"] = point.as_double
                yield row


def spans(body):
    # Identifiers are hexadecimal in OTLP, unlike all other bytes in the JSON of protocol buffers.
    document = json.loads(body)
    for resource in document["resourceSpans"]:
        for span in (span for scope in resource["scopeSpans"] for span in scope["spans"]):
            for key in ("traceId", "spanId", "parentSpanId"):
                if key in span:
                    span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
    request = json_format.ParseDict(document, ExportTraceServiceRequest())
    for resource in request.resource_spans:
        of = attributes(resource.resource)
        for span in (span for scope in resource.scope_spans for span in scope.spans):
            assert len(span.trace_id) == 16 and len(span.span_id) == 8, span
            yield {
                "span": span.name,
                "resource": of,
                "trace": span.trace_id.hex(),
                "id": span.span_id.hex(),
                "parent": span.parent_span_id.hex(),
                "start": span.start_time_unix_nano,
                "end": span.end_time_unix_nano,
                "attributes": attributes(span),
            }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--refuse", type=int, default=0)
    refuse = parser.parse_args().refuse

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            nonlocal refuse
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.headers["Content-Type"] == "application/json"
            readers = {"/v1/metrics": metrics, "/v1/traces": spans}
            if refuse > 0 or self.path not in readers:
                self.send_response(503 if refuse > 0 else 404)
                refuse -= 1
            else:
                rows = "".join(json.dumps(row) + "\n" for row in readers[self.path](body))
                print(rows, end="", flush=True)
                self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


main()
