"""Traces by OpenTelemetry of reconciles, reviews and calls.

Nothing of OpenTelemetry is imported unless the standard `OTEL_*` variables ask for traces.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import threading
from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self

from manager.telemetry.logs import get_logger
from manager.telemetry.runs import (
    CALLED,
    NO_ANSWER,
    SPARED,
    ReconcileRecord,
    RequestRecord,
    resource_and_name,
)
from manager.util import clock
from manager.util.address import NotAProxy, http_url, proxy_for
from manager.util.program import Program
from manager.util.rate_limit import Repeats
from manager.util.small_file import read_small_file

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext, TracerProvider
    from yarl import URL

_ASKING = (
    "OTEL_TRACES_EXPORTER",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
)

_REMEMBERED = 10_000
"""The number of writes, and objects, whose spans are remembered for links."""

_ERROR_CODES = 400

_version = re.compile(rb'"resourceVersion"\s*:\s*"([0-9]{1,19})"')

_FLUSH = 5.0
"""Seconds that spans which are still unsent may hold up the end of the process."""


_MEMBER = r"[a-z0-9][a-z0-9_\-*/@]{0,127}=[!-+\--<>-~]{1,128}"
_PARENT = {
    "traceparent": re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"),
    "tracestate": re.compile(rf"(?=.{{1,512}}\Z){_MEMBER}(?:,{_MEMBER}){{0,31}}"),
}
"""The headers of W3C Trace Context, level 1, without spaces, and no longer than everybody has to hand on."""


_ANSWER = 4096
"""Bytes of a collector's answer that are read: it may say what is wrong."""


class CannotTrace(Exception):
    """Requested traces that cannot be set up; the one-line message gives the reason."""


class Tracer:
    """Factory of spans. A process has one, as a write of one reconcile may trigger another reconcile."""

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry import context, propagate, trace  # noqa: PLC0415 - optional; with the SDK 20 ms
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - as above
            TraceContextTextMapPropagator,
        )

        self.trace, self.context, self.propagate = trace, context, propagate
        self.from_strangers = TraceContextTextMapPropagator()
        self.spans = provider.get_tracer("operator-manager")
        self._written: OrderedDict[Hashable, SpanContext] = OrderedDict()

    def remember(self, what: Hashable, span: SpanContext) -> None:
        """Note in which span something was done that may ask for a reconcile."""
        self._written[what] = span
        self._written.move_to_end(what)
        if len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)

    def known(self, what: Hashable) -> SpanContext | None:
        """Return the span in which it was done, if we did it."""
        return self._written.get(what)

    def headers(self, span: Span) -> dict[str, str]:
        """Return the headers by which the other side joins the trace."""
        carrier: dict[str, str] = {}
        self.propagate.inject(carrier, self.trace.set_span_in_context(span))
        if (parent := carrier.get("traceparent")) is not None:
            # API servers refuse any flag but the first: one more came with level 2 of the standard.
            carrier["traceparent"] = f"{parent[:-2]}{int(parent[-2:], 16) & 1:02x}"
        return carrier

    def fail(self, span: Span, kind: str, message: str, at: int | None = None) -> None:
        """Mark a span as failed, without a traceback, as that may contain confidential data."""
        attributes = {"exception.type": kind, "exception.message": message}
        span.add_event("exception", attributes, timestamp=at)
        span.set_attribute("error.type", kind)
        span.set_status(self.trace.Status(self.trace.StatusCode.ERROR, message))


def _calendar() -> Callable[[float], int]:
    """Return a function from moments of the loop's clock to nanoseconds of the calendar."""
    offset = clock.now().timestamp() - clock.monotonic()
    return lambda moment: int((moment + offset) * 1e9)


class ReconcileTrace:
    """The spans of one reconcile: its own, which is current in the task, and those of what it sends."""

    def __init__(self, tracer: Tracer, run: ReconcileRecord) -> None:
        self.tracer = tracer
        self.at = _calendar()
        self._run = run
        begun = run.started - run.waited
        self.span = tracer.spans.start_span(
            f"reconcile {run.controller}",
            context=tracer.context.Context(),
            links=self._links(),
            start_time=self.at(begun),
            attributes={
                "k8s.controller.name": run.controller,
                "k8s.namespace.name": run.namespace,
                "k8s.object.name": run.name,
                "reconcile.id": run.id,
                "reconcile.attempt": run.attempt,
                "reconcile.priority": int(run.priority),
                "reconcile.triggers": run.triggered,
            },
        )
        self.inside: Context = tracer.trace.set_span_in_context(self.span)
        for each in run.triggers:
            attributes = {"why": each.text}
            if each.name:
                attributes |= {"k8s.object.name": each.name, "k8s.namespace.name": each.namespace}
            if each.new:
                attributes["k8s.object.resource_version"] = str(each.new)
            at = self.at(max(each.at, begun)) if each.at else self.at(begun)
            self.span.add_event("enqueued", attributes, timestamp=at)
        queued = tracer.spans.start_span("queue wait", self.inside, start_time=self.at(begun))
        queued.end(self.at(run.started))
        self._token = tracer.context.attach(self.inside)
        self._trace_token = _current.set(self)

    def _links(self) -> list[Any]:
        run, tracer = self._run, self.tracer
        found: dict[int, SpanContext] = {}
        for each in run.triggers:
            what: Hashable = each.new or (run.controller, run.namespace, run.name)
            if each.why in {"event", "freed", "requeue", "back-off", "probe"} and (
                known := tracer.known(what)
            ):
                found[known.span_id] = known
        return [tracer.trace.Link(each) for each in found.values()]

    @property
    def exemplar(self) -> dict[str, str] | None:
        """Return the labels that lead from a metric to this trace; None if the trace is not sampled."""
        context = self.span.get_span_context()
        if not context.trace_flags.sampled:
            return None
        return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}

    def request(self, sent: RequestRecord) -> RequestTrace:
        """Start the span of a request to the API server."""
        return RequestTrace(self, sent)

    def ended(self) -> None:
        """Finish the span of the reconcile from its complete record."""
        run, span, tracer = self._run, self.span, self.tracer
        end = self.at(run.started + run.seconds)
        for each in run.requests:
            if each.code == SPARED:
                what = {"verb": each.verb, "url.path": each.path}
                span.add_event("write spared", what, timestamp=self.at(each.at))
            elif each.code == CALLED:
                begun, ended = self.at(each.at), self.at(each.at + each.seconds)
                kind = tracer.trace.SpanKind.CLIENT
                call = tracer.spans.start_span(each.path, self.inside, kind=kind, start_time=begun)
                if each.error:
                    tracer.fail(call, each.error, each.error, ended)
                call.end(ended)
        for event in run.events:
            what = {"type": event.type, "reason": event.reason}
            span.add_event("Event", what, timestamp=self.at(event.at))
        span.set_attributes(
            {
                "reconcile.outcome": run.outcome,
                "reconcile.seconds": run.seconds,
                "reconcile.requests": run.requested,
                "reconcile.writes": run.writes,
                "reconcile.writes_spared": run.spared,
            }
        )
        if run.next_in is not None:
            span.set_attribute("reconcile.next_in", run.next_in)
        if run.failure:
            span.set_attribute("reconcile.failure", run.failure)
            tracer.fail(span, run.error_type, run.error, end)
        elif run.outcome == "cancelled":
            tracer.fail(span, "cancelled", "the reconcile was cancelled", end)
        tracer.remember((run.controller, run.namespace, run.name), span.get_span_context())
        _current.reset(self._trace_token)
        tracer.context.detach(self._token)
        span.end(end)


class RequestTrace:
    """The span of one request, all its attempts included."""

    def __init__(self, of: ReconcileTrace, sent: RequestRecord) -> None:
        self._of, self._sent = of, sent
        tracer = of.tracer
        attributes = {"k8s.verb": sent.verb, "url.path": sent.path}
        if sent.name:
            attributes["k8s.object.name"] = sent.name
        self._span = tracer.spans.start_span(
            f"{sent.verb} {resource_and_name(sent.path)[0]}",
            of.inside,
            kind=tracer.trace.SpanKind.CLIENT,
            attributes=attributes,
            start_time=of.at(clock.monotonic()),
        )
        self.headers = tracer.headers(self._span)

    def ended(self, answer: bytes, error: BaseException | None) -> None:
        """Finish the span of the request, with the response or the error."""
        span, sent, of = self._span, self._sent, self._of
        if sent.code != NO_ANSWER:
            span.set_attribute("http.response.status_code", sent.code)
        if sent.attempts > 1:
            span.set_attribute("http.request.resend_count", sent.attempts - 1)
        end = of.at(clock.monotonic())
        if error is not None:
            of.tracer.fail(span, type(error).__name__, f"no answer, or {sent.code}", end)
        elif sent.verb != "get" and (found := _version.search(answer)) is not None:
            of.tracer.remember(int(found[1]), span.get_span_context())
        span.end(end)


class ReviewTrace:
    """The span of a webhook's review, in the API server's trace if the review's headers name one."""

    def __init__(self, tracer: Tracer, path: str, headers: Mapping[str, str]) -> None:
        self._tracer = tracer
        self._at = _calendar()
        self._span = tracer.spans.start_span(
            f"review {path}",
            tracer.from_strangers.extract(_parent_in(headers), context=tracer.context.Context()),
            kind=tracer.trace.SpanKind.SERVER,
            attributes={"http.route": path},
            start_time=self._at(clock.monotonic()),
        )
        self._token = tracer.context.attach(tracer.trace.set_span_in_context(self._span))

    def ended(self, status: int) -> None:
        """Finish the span of the review with the HTTP status of the answer; 0 means no answer."""
        end = self._at(clock.monotonic())
        if status:
            self._span.set_attribute("http.response.status_code", status)
        if not status or status >= _ERROR_CODES:
            self._tracer.fail(self._span, str(status or "no answer"), "there is no verdict", end)
        self._tracer.context.detach(self._token)
        self._span.end(end)


def _parent_in(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the valid trace headers of a caller, as API servers send them; any client may have sent them.

    OpenTelemetry would read more headers, be slow on some of them, and log invalid ones verbatim.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    return {name: lower[name] for name, form in _PARENT.items() if form.fullmatch(lower.get(name, ""))}


_tracer: ContextVar[Tracer | None] = ContextVar("tracer", default=None)
_current: ContextVar[ReconcileTrace | None] = ContextVar("current_trace", default=None)


current_tracer = _tracer.get
"""Returns the factory of spans; None unless traces are requested."""

current_trace = _current.get
"""Returns the trace of the reconcile that the calling task belongs to, if there is one."""


def is_asked_for(environ: Mapping[str, str]) -> bool:
    """Return whether the standard variables ask for traces."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
        return False
    return any(environ.get(name) for name in _ASKING)


@asynccontextmanager
async def tracing(program: Program, environ: Mapping[str, str]) -> AsyncIterator[None]:
    """Make spans in the calling task, and all that it starts, if the standard variables ask for it.

    Raises CannotTrace.
    """
    if not is_asked_for(environ):
        yield
        return
    with _SdkMessages() as messages:
        try:
            provider = await asyncio.to_thread(_provider, program, environ)
            tracer = Tracer(provider)
        except ImportError as error:
            asking = next(name for name in _ASKING if environ.get(name))
            raise CannotTrace(
                f"{asking} is set, and needs what operator-manager[tracing] installs"
            ) from error
        except ValueError as error:  # the SDK's, for a value that it cannot use
            raise CannotTrace(_without_headers(str(error), environ)) from None
        if messages.at_the_start:  # of others it only logs that it takes its default
            await _sent_in_time(provider)
            raise CannotTrace(_without_headers(messages.at_the_start[0], environ))
        messages.starts = False
        token = _tracer.set(tracer)
        try:
            yield
        finally:
            _tracer.reset(token)
            await _sent_in_time(provider)


def _without_headers(complaint: str, environ: Mapping[str, str]) -> str:
    """Return the SDK's error message without quoted headers, as one may hold the collector's token."""
    for name in ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"):
        headers = [each.strip() for each in environ.get(name, "").split(",")]
        if any(each and each in complaint for each in headers):
            return f"{name}: name=value is expected, with commas between several, and values in URL encoding"
    return f"the OTEL_* variables cannot be used: {complaint}"


class _SdkMessages(logging.Handler):
    """The only handler of the SDK's messages: it collects them at the start, and later counts repetitions."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.starts = True
        self.at_the_start: list[str] = []
        self._sdk = logging.getLogger("opentelemetry")
        self._loop = asyncio.get_running_loop()
        self._repeats: defaultdict[tuple[str, int], Repeats] = defaultdict(Repeats)

    def __enter__(self) -> Self:
        self._sdk.addHandler(self)
        self._sdk.propagate = False
        self._sdk.setLevel(logging.WARNING)
        return self

    def __exit__(self, *_: object) -> None:
        self._sdk.removeHandler(self)
        self._sdk.propagate = True
        self._sdk.setLevel(logging.NOTSET)

    def emit(self, record: logging.LogRecord) -> None:
        if self.starts:
            self.at_the_start.append(record.getMessage())
            return
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._log, record)

    def _log(self, record: logging.LogRecord) -> None:
        # Count per place in the SDK's code, as messages of one place differ in their numbers.
        if (times := self._repeats[record.pathname, record.lineno].count()) is not None:
            log = get_logger(record.name)
            log.log(record.levelno, record.getMessage(), times=times, exc_info=record.exc_info)


async def _sent_in_time(provider: Any) -> None:
    """Send all remaining spans, without waiting for a collector that does not answer.

    The SDK keeps no limit of time of its own here. A thread of an executor would be waited for at the end.
    """
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def shut_down() -> None:
        provider.shutdown()
        with suppress(RuntimeError):  # the loop is closed: no task waits
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=shut_down, name="spans", daemon=True).start()
    with suppress(TimeoutError):
        async with asyncio.timeout(_FLUSH):
            await done.wait()


def _provider(program: Program, environ: Mapping[str, str]) -> Any:
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - as above
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - as above
    from opentelemetry.sdk.trace.export import (  # noqa: PLC0415 - as above
        BatchSpanProcessor,
        ConsoleSpanExporter,
        SpanExporter,
    )

    exporters = environ.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    provider = TracerProvider(
        resource=Resource.create(
            {
                "service.name": environ.get("OTEL_SERVICE_NAME") or program.name,
                "service.version": program.version,
            }
        ),
        shutdown_on_exit=False,
    )
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


def _otlp(environ: Mapping[str, str]) -> Any:
    named = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = next((environ[name] for name in named if environ.get(name)), "http/protobuf")
    if protocol != "http/protobuf":
        raise CannotTrace(f"OTEL_EXPORTER_OTLP_PROTOCOL: http/protobuf is expected, not {protocol!r}")
    proxy: URL | None = None
    # The second counts, where both are there.
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
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - 55 ms

    return OTLPSpanExporter(session=_session(proxy))


def _check_files(environ: Mapping[str, str]) -> None:
    """Raise CannotTrace for a file that the SDK would open later, where the open could block forever."""
    for kind in ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"):
        for name in (f"OTEL_EXPORTER_OTLP_{kind}", f"OTEL_EXPORTER_OTLP_TRACES_{kind}"):
            if not (path := environ.get(name)):
                continue
            try:
                content = read_small_file(path)
                if kind == "CERTIFICATE":
                    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                    trust.load_verify_locations(cadata=content.decode("ascii"))
            except (ssl.SSLError, ValueError):
                raise CannotTrace(f"{name}: {path}: it holds no certificate in PEM") from None
            except OSError as error:
                raise CannotTrace(f"{name}: {path}: {error.strerror}") from None


def _session(proxy: URL | None) -> Any:
    """Return an HTTP session for the collector that reads only the beginning of a response, as it is.

    It uses the given proxy: `requests` would find one of its own, and quote a password that it cannot parse.
    """
    from requests import PreparedRequest, Response, Session  # noqa: PLC0415 - 60 ms, 7 MB
    from requests.adapters import HTTPAdapter  # noqa: PLC0415 - as above

    class Bounded(HTTPAdapter):
        def send(self, request: PreparedRequest, *_: Any, **options: Any) -> Response:
            response = super().send(request, **{**options, "stream": True})
            # With the content set, `requests` does not read or decompress the response again.
            response._content = response.raw.read(_ANSWER, decode_content=False)  # noqa: SLF001 - as it is read by `requests`
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
