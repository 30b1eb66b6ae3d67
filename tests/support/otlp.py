"""A collector of trace spans."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Receiver(TraceServiceServicer):
    """OTLP collector of spans, over gRPC for API servers and over HTTP for the manager."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: list[tuple[str, Span]] = []
        self._grpc = grpc.server(ThreadPoolExecutor(2))
        add_TraceServiceServicer_to_server(self, self._grpc)
        self.grpc_port = self._grpc.add_insecure_port("127.0.0.1:0")
        self.asked, self.silent, self.closing = threading.Event(), threading.Event(), threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.asked.set()
                if receiver.silent.is_set():
                    receiver.closing.wait()
                    return
                receiver.Export(pb.ExportTraceServiceRequest.FromString(body), None)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Write no request log."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever)
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> Self:
        self._grpc.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._grpc.stop(None).wait()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def Export(self, request: Any, _: Any) -> Any:  # noqa: N802 - its name in the protocol
        with self._lock:
            for resource in request.resource_spans:
                named = {each.key: each.value.string_value for each in resource.resource.attributes}
                for scope in resource.scope_spans:
                    self._spans += [(named.get("service.name", ""), span) for span in scope.spans]
        return pb.ExportTraceServiceResponse()

    def trace_of(self, name: str, **attributes: str) -> list[tuple[str, Span]]:
        """Return all spans of the first trace that has a span with this name and these attributes."""
        with self._lock:
            spans = list(self._spans)
        for _, span in spans:
            has = {each.key: each.value.string_value for each in span.attributes}
            if span.name == name and attributes.items() <= has.items():
                return [each for each in spans if each[1].trace_id == span.trace_id]
        return []
