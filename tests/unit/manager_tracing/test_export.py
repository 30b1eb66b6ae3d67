"""Export of spans to a collector of traces."""

from __future__ import annotations

import gzip
import os
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from yarl import URL

from manager.util.program import Program
from manager_tracing.export import make_provider, make_session


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({}, "program"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=attribute"}, "attribute"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=attribute", "OTEL_SERVICE_NAME": "variable"}, "variable"),
    ],
)
def test_service_name_is_from_the_environment_or_else_the_name_of_the_program(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], name: str
):
    for variable in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in (environ | {"OTEL_TRACES_EXPORTER": "console"}).items():
        monkeypatch.setenv(variable, value)  # the SDK reads the process environment
    provider = make_provider(Program("program", "1.2.3"), os.environ)
    provider.shutdown()
    assert provider.resource.attributes["service.name"] == name
    assert provider.resource.attributes["service.version"] == "1.2.3"


@contextmanager
def collector(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[int]:
    """Run a trace collector that answers one request with `answer`, and yield its port."""
    methods = {"do_POST": answer, "log_message": lambda *_: None}
    with HTTPServer(("127.0.0.1", 0), type("Handler", (BaseHTTPRequestHandler,), methods)) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        yield server.server_port
        thread.join(10)
        assert not thread.is_alive()


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_exporter_stops_reading_when_the_response_of_the_collector_is_endless(encoding: str):
    """Serve a compression bomb, or a response without an end."""
    sent = 0

    def endless(request: BaseHTTPRequestHandler) -> None:
        nonlocal sent
        request.send_response(200)
        request.send_header("Content-Encoding", encoding)
        request.end_headers()
        piece = gzip.compress(bytes(1 << 24)) if encoding == "gzip" else bytes(1 << 16)
        with suppress(ConnectionError):
            while True:
                sent += request.wfile.write(piece)

    with collector(endless) as port, make_session(None) as session:
        found = session.post(f"http://127.0.0.1:{port}/v1/traces", data=b"spans")
    assert len(found.content) <= 4096
    assert found.ok
    assert sent < 1 << 24


def test_exporter_session_uses_the_given_proxy_and_ignores_the_http_proxy_environment_variable(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("http_proxy", "http://me:s3cret@127.0.0.1:99999")
    seen: list[tuple[str, str | None]] = []

    def proxy(request: BaseHTTPRequestHandler) -> None:
        seen.append((request.path, request.headers["Proxy-Authorization"]))
        request.send_response(200)
        request.end_headers()

    with collector(proxy) as port, make_session(URL(f"http://me:p%40ss@127.0.0.1:{port}")) as session:
        assert session.post("http://collector.example/v1/traces", data=b"spans").ok
    assert seen == [("http://collector.example/v1/traces", f"Basic {b64encode(b'me:p@ss').decode()}")]
