#!/usr/bin/env python3
"""An OTLP receiver by HTTP or gRPC, by OpenTelemetry's own definitions.

usage: otlp_receiver.py [--protocol http/json|http/protobuf|grpc] [--refuse N] [--port PORT] [--header NAME=VALUE]
                        [--tls CERTIFICATE KEY]

Prints its port, then a line of JSON for each metric and span that it is sent. The first N requests are refused for now.
Requests without the header are refused for ever.
"""

import argparse
import base64
import json
import ssl
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


def attributes(of):
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in of.attributes}


def metrics(request):
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


def spans(request):
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


def from_json(body, request):
    # Identifiers are hexadecimal in OTLP, unlike all other bytes in the JSON of protocol buffers.
    document = json.loads(body)
    for resource in document.get("resourceSpans", []):
        for span in (span for scope in resource["scopeSpans"] for span in scope["spans"]):
            for key in ("traceId", "spanId", "parentSpanId"):
                if key in span:
                    span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
    return json_format.ParseDict(document, request)


class Receiver:
    def __init__(self, options):
        self.refuse = options.refuse
        self.header = options.header and tuple(options.header.split("=", 1))

    def refuses(self):
        self.refuse -= 1
        return self.refuse >= 0

    def lacks(self, headers):
        return self.header is not None and headers.get(self.header[0]) != self.header[1]

    def show(self, rows):
        print("".join(json.dumps(row) + "\n" for row in rows), end="", flush=True)


def serve_http(receiver, options):
    is_json = options.protocol == "http/json"

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.headers["Content-Type"] == ("application/json" if is_json else "application/x-protobuf")
            kinds = {
                "/v1/metrics": (ExportMetricsServiceRequest, metrics),
                "/v1/traces": (ExportTraceServiceRequest, spans),
            }
            if receiver.lacks(self.headers):
                self.send_response(401)
            elif receiver.refuses():
                self.send_response(503)
            elif self.path not in kinds:
                self.send_response(404)
            else:
                kind, rows = kinds[self.path]
                receiver.show(rows(from_json(body, kind()) if is_json else kind.FromString(body)))
                self.send_response(200)
            answer = b"{}" if is_json else b""
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    if options.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*options.tls)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    print(server.server_port, flush=True)
    server.serve_forever()


def serve_grpc(receiver, options):
    class Service:
        def __init__(self, rows, answer):
            self.rows, self.answer = rows, answer

        def Export(self, request, context):
            if receiver.lacks(dict(context.invocation_metadata())):
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "no key")
            if receiver.refuses():
                context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
            receiver.show(self.rows(request))
            return self.answer()

    server = grpc.server(ThreadPoolExecutor(4))
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(
        Service(metrics, ExportMetricsServiceResponse), server
    )
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Service(spans, ExportTraceServiceResponse), server)
    address = f"127.0.0.1:{options.port}"
    if options.tls:
        certificate, key = (open(name, "rb").read() for name in options.tls)
        port = server.add_secure_port(address, grpc.ssl_server_credentials([(key, certificate)]))
    else:
        port = server.add_insecure_port(address)
    server.start()
    print(port, flush=True)
    server.wait_for_termination()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--protocol", default="http/json")
    parser.add_argument("--refuse", type=int, default=0)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--header")
    parser.add_argument("--tls", nargs=2)
    options = parser.parse_args()
    serve = serve_grpc if options.protocol == "grpc" else serve_http
    serve(Receiver(options), options)


main()
