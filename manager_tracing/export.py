"""The export of spans to the collector or the console that the environment names."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from yarl import URL

from manager.telemetry.tracing import CannotTrace
from manager.util.address import NotAProxy, http_url, proxy_for
from manager.util.program import Program
from manager.util.small_file import read_small_file

_ANSWER = 4096
"""The number of bytes that are read of a collector's answer, which may contain an error."""


def make_provider(program: Program, environ: Mapping[str, str]) -> TracerProvider:
    """Return a provider with the exporters that the environment names. Raises CannotTrace."""
    exporters = environ.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    named = {"service.name": program.name, "service.version": program.version}
    resource = Resource.create(named | dict(OTELResourceDetector().detect().attributes))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    for name in exporters.split(","):
        exporter: SpanExporter
        match name.strip():
            case "otlp":
                exporter = _otlp(environ)
            case "console":
                exporter = ConsoleSpanExporter()
            case _:
                raise CannotTrace(f"OTEL_TRACES_EXPORTER: otlp, console or none is expected, not {name!r}")
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _otlp(environ: Mapping[str, str]) -> SpanExporter:
    for name in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if protocol := environ.get(name):
            if protocol != "http/protobuf":
                raise CannotTrace(f"{name}: http/protobuf is expected, not {protocol!r}")
            break
    proxy: URL | None = None
    # If both variables are set, the second one counts.
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        if not (address := environ.get(name)):
            continue
        if (endpoint := http_url(address)) is None:
            raise CannotTrace(f"{name}: a URL of http or https is expected, such as http://localhost:4318")
        try:
            proxy = proxy_for(endpoint, environ)
        except NotAProxy as error:
            raise CannotTrace(str(error)) from None
        if proxy is not None and proxy.scheme == "socks5":
            raise CannotTrace(f"{name}: traces do not go through the socks5:// proxy: name it in NO_PROXY")
    _check_files(environ)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - 21 ms

    return OTLPSpanExporter(session=make_session(proxy))


def _check_files(environ: Mapping[str, str]) -> None:
    for kind in ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"):
        for name in (f"OTEL_EXPORTER_OTLP_{kind}", f"OTEL_EXPORTER_OTLP_TRACES_{kind}"):
            if not (path := environ.get(name)):
                continue
            try:
                content = read_small_file(path)
            except OSError as error:
                raise CannotTrace(f"{name}: {path}: {error.strerror}") from None
            if kind != "CERTIFICATE":
                continue
            try:
                trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                trust.load_verify_locations(cadata=content.decode("ascii"))
            except (ssl.SSLError, ValueError):
                raise CannotTrace(f"{name}: {path}: it holds no certificate in PEM") from None


def make_session(proxy: URL | None) -> Any:
    """Return an HTTP session for the collector that reads only the beginning of a response, undecoded.

    It uses the given proxy: `requests` would choose its own, and quote a password that it cannot parse.
    """
    from requests import PreparedRequest, Response, Session  # noqa: PLC0415 - 41 ms, 6 MB
    from requests.adapters import HTTPAdapter  # noqa: PLC0415 - as above

    class Bounded(HTTPAdapter):
        def send(self, request: PreparedRequest, *_: Any, **options: Any) -> Response:
            response = super().send(request, **{**options, "stream": True})
            # If the content is set, `requests` does not read or decompress the response again.
            response._content = response.raw.read(_ANSWER, decode_content=False)  # noqa: SLF001 - the attribute that `requests` uses
            response.close()
            return response

    session = Session()
    session.headers["Accept-Encoding"] = "identity"
    session.trust_env = False
    if proxy is not None:
        session.proxies = {"http": str(proxy), "https": str(proxy)}
    for scheme in ("http://", "https://"):
        session.mount(scheme, Bounded())
    return session
