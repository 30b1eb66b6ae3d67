"""Traces of reconciles, requests and reviews, for which `manager_tracing` uses OpenTelemetry."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Protocol

from manager.telemetry.runs import ReconcileRecord, RequestRecord
from manager.util.program import Program

_ASKING = (
    "OTEL_TRACES_EXPORTER",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
)


class CannotTrace(Exception):
    """Requested traces cannot be set up; the one-line message gives the reason."""


class RequestTrace(Protocol):
    """The trace of one request with all its attempts."""

    headers: Mapping[str, str]
    """Headers by which the API server continues the trace."""

    def ended(self, answer: bytes, error: BaseException | None) -> None:
        """Finish the trace of the request, with the response or the error."""


class ReconcileTrace(Protocol):
    """The trace of one reconcile."""

    @property
    def exemplar(self) -> dict[str, str] | None:
        """Return the labels that link a metric to this trace; None if the trace is not sampled."""

    def request(self, sent: RequestRecord) -> RequestTrace:
        """Begin the trace of a request to the API server."""

    def ended(self) -> None:
        """Finish the trace of the reconcile from its complete record."""


class ReviewTrace(Protocol):
    """The trace of a webhook's review."""

    def ended(self, status: int) -> None:
        """Finish the trace with the HTTP status of the answer; 0 means no answer."""


class Tracer(Protocol):
    """A factory of traces; a process has one."""

    def reconcile(self, run: ReconcileRecord) -> ReconcileTrace:
        """Begin the trace of a reconcile; until the reconcile ends, it is the task's `current_trace`."""

    def review(self, path: str, headers: Mapping[str, str]) -> ReviewTrace:
        """Begin the trace of a review, in the API server's trace if the review's headers contain one."""


current_tracer: ContextVar[Tracer | None] = ContextVar("current_tracer", default=None)
"""The factory of traces; None unless traces are requested."""

current_trace: ContextVar[ReconcileTrace | None] = ContextVar("current_trace", default=None)
"""The trace of the calling task's reconcile, if there is one."""


def asking_variable(environ: Mapping[str, str]) -> str | None:
    """Return OpenTelemetry's variable that requests traces; None without one, or if traces are disabled."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    if environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
        return None
    return next((name for name in _ASKING if environ.get(name)), None)


@asynccontextmanager
async def tracing(program: Program, environ: Mapping[str, str]) -> AsyncIterator[None]:
    """Trace the calling task, and all tasks that it starts, if OpenTelemetry's variables request it.

    Raises CannotTrace.
    """
    if (variable := asking_variable(environ)) is None:
        yield
        return
    from manager_tracing.sdk import sdk_tracer  # noqa: PLC0415 - 1 ms, where traces are made

    async with sdk_tracer(program, environ, variable) as tracer:
        token = current_tracer.set(tracer)
        try:
            yield
        finally:
            current_tracer.reset(token)
