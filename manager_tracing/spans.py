"""Spans of reconciles, of their requests, and of webhook reviews."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from opentelemetry import context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanContext, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from manager.telemetry.runs import (
    CALLED,
    NO_ANSWER,
    SPARED,
    ReconcileRecord,
    RequestRecord,
    resource_and_name,
)
from manager.telemetry.tracing import current_trace
from manager.util import clock

_REMEMBERED = 10_000
"""The number of writes, and of objects, whose spans are remembered for links."""

_ERROR_CODES = 400

_FROM_STRANGERS = TraceContextTextMapPropagator()

_version = re.compile(rb'"resourceVersion"\s*:\s*"([0-9]{1,19})"')

_MEMBER = r"[a-z0-9][a-z0-9_\-*/@]{0,127}=[!-+\--<>-~]{1,128}"
_PARENT = {
    "traceparent": re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"),
    "tracestate": re.compile(rf"(?=.{{1,512}}\Z){_MEMBER}(?:,{_MEMBER}){{0,31}}"),
}
"""The headers of W3C Trace Context, level 1, without spaces, and no longer than every system passes on."""


class SpanTracer:
    """A factory of spans, shared by all operators: one operator's write may trigger another's reconcile."""

    def __init__(self, provider: TracerProvider) -> None:
        self.spans = provider.get_tracer("operator-manager")
        self._written: OrderedDict[Hashable, SpanContext] = OrderedDict()

    def reconcile(self, run: ReconcileRecord) -> ReconcileSpans:
        """Start the span of a reconcile; the span is current in the calling task until it ends."""
        return ReconcileSpans(self, run)

    def review(self, path: str, headers: Mapping[str, str]) -> ReviewSpan:
        """Start the span of a webhook's review; `headers` may contain the caller's trace."""
        return ReviewSpan(self, path, headers)

    def remember(self, what: Hashable, span: SpanContext) -> None:
        """Remember the span of a reconcile or a write, which may trigger another reconcile."""
        self._written[what] = span
        self._written.move_to_end(what)
        if len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)

    def known(self, what: Hashable) -> SpanContext | None:
        """Return the remembered span of a reconcile or a write; None if it is unknown."""
        return self._written.get(what)

    def headers(self, span: Span) -> dict[str, str]:
        """Return the headers with which the receiver of a request continues the trace."""
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(span))
        if (parent := carrier.get("traceparent")) is not None:
            # API servers refuse any flag except the first: level 2 of the standard added another one.
            carrier["traceparent"] = f"{parent[:-2]}{int(parent[-2:], 16) & 1:02x}"
        return carrier

    def fail(self, span: Span, kind: str, message: str, at: int | None = None) -> None:
        """Mark a span as failed, without a traceback, which may contain confidential data."""
        attributes = {"exception.type": kind, "exception.message": message}
        span.add_event("exception", attributes, timestamp=at)
        span.set_attribute("error.type", kind)
        span.set_status(trace.Status(trace.StatusCode.ERROR, message))


def _calendar() -> Callable[[float], int]:
    offset = clock.now().timestamp() - clock.monotonic()
    return lambda moment: int((moment + offset) * 1e9)


class ReconcileSpans:
    """The spans of one reconcile, and of its requests; the reconcile's span is current in its task."""

    def __init__(self, tracer: SpanTracer, run: ReconcileRecord) -> None:
        self.tracer = tracer
        self.at = _calendar()
        self._run = run
        begun = run.started - run.waited
        self.span = tracer.spans.start_span(
            f"reconcile {run.controller}",
            context=context.Context(),
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
        self.inside: Context = trace.set_span_in_context(self.span)
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
        self._token = context.attach(self.inside)
        self._trace_token = current_trace.set(self)

    def _links(self) -> list[Any]:
        run, tracer = self._run, self.tracer
        found: dict[int, SpanContext] = {}
        for each in run.triggers:
            what: Hashable = each.new or (run.controller, run.namespace, run.name)
            if each.why in {"event", "freed", "requeue", "back-off", "probe"} and (
                known := tracer.known(what)
            ):
                found[known.span_id] = known
        return [trace.Link(each) for each in found.values()]

    @property
    def exemplar(self) -> dict[str, str] | None:
        """Return the labels that link a metric to this trace; None if the trace is not sampled."""
        own = self.span.get_span_context()
        if not own.trace_flags.sampled:
            return None
        return {"trace_id": f"{own.trace_id:032x}", "span_id": f"{own.span_id:016x}"}

    def request(self, sent: RequestRecord) -> RequestSpan:
        """Start the span of a request to the API server."""
        return RequestSpan(self, sent)

    def ended(self) -> None:
        """Finish the reconcile's span with the values from its complete record."""
        run, span, tracer = self._run, self.span, self.tracer
        end = self.at(run.started + run.seconds)
        for each in run.requests:
            if each.code == SPARED:
                what = {"verb": each.verb, "url.path": each.path}
                span.add_event("write spared", what, timestamp=self.at(each.at))
            elif each.code == CALLED:
                begun, ended = self.at(each.at), self.at(each.at + each.seconds)
                kind = trace.SpanKind.CLIENT
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
        current_trace.reset(self._trace_token)
        context.detach(self._token)
        span.end(end)


class RequestSpan:
    """The span of one request, including its retries."""

    def __init__(self, of: ReconcileSpans, sent: RequestRecord) -> None:
        self._of, self._sent = of, sent
        tracer = of.tracer
        attributes = {"k8s.verb": sent.verb, "url.path": sent.path}
        if sent.name:
            attributes["k8s.object.name"] = sent.name
        self._span = tracer.spans.start_span(
            f"{sent.verb} {resource_and_name(sent.path)[0]}",
            of.inside,
            kind=trace.SpanKind.CLIENT,
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
            of.tracer.fail(span, type(error).__name__, f"status {sent.code} (0: no answer)", end)
        elif sent.verb != "get" and (found := _version.search(answer)) is not None:
            of.tracer.remember(int(found[1]), span.get_span_context())
        span.end(end)


class ReviewSpan:
    """The span of a webhook's review, in the API server's trace if the review's headers contain one."""

    def __init__(self, tracer: SpanTracer, path: str, headers: Mapping[str, str]) -> None:
        self._tracer = tracer
        self._at = _calendar()
        self._span = tracer.spans.start_span(
            f"review {path}",
            _FROM_STRANGERS.extract(_parent_in(headers), context=context.Context()),
            kind=trace.SpanKind.SERVER,
            attributes={"http.route": path},
            start_time=self._at(clock.monotonic()),
        )
        self._token = context.attach(trace.set_span_in_context(self._span))

    def ended(self, status: int) -> None:
        """Finish the span of the review with the HTTP status of the answer; 0 means no answer."""
        end = self._at(clock.monotonic())
        if status:
            self._span.set_attribute("http.response.status_code", status)
        if not status or status >= _ERROR_CODES:
            self._tracer.fail(self._span, str(status or "no answer"), "the review failed", end)
        context.detach(self._token)
        self._span.end(end)


def _parent_in(headers: Mapping[str, str]) -> dict[str, str]:
    """Return a caller's valid trace headers, in the format that API servers use; any client may send them.

    OpenTelemetry would read more headers, be slow for some of them, and log invalid ones verbatim.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    return {name: lower[name] for name, form in _PARENT.items() if form.fullmatch(lower.get(name, ""))}
