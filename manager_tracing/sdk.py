"""The start and the end of the OpenTelemetry SDK, and the handling of its log messages."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

from manager.telemetry.logs import get_logger
from manager.telemetry.tracing import CannotTrace, Tracer
from manager.util.program import Program
from manager.util.rate_limit import Repeats

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_FLUSH = 5.0
"""Seconds for which unsent spans may delay the end of the process."""


@asynccontextmanager
async def sdk_tracer(program: Program, environ: Mapping[str, str], asking: str) -> AsyncIterator[Tracer]:
    """Set up the SDK according to the environment, and send all remaining spans at the end.

    `asking` is the variable that requests traces. Raises CannotTrace.
    """
    with _SdkMessages() as messages:
        try:
            tracer, provider = await asyncio.to_thread(_set_up, program, environ)
        except ImportError as error:
            raise CannotTrace(
                f"{asking} is set, and needs what operator-manager[tracing] installs"
            ) from error
        except ValueError as error:  # raised by the SDK for an invalid value
            raise CannotTrace(_without_headers(str(error), environ)) from None
        if messages.at_the_start:  # for other invalid values, the SDK only logs that it uses its default
            await _sent_in_time(provider)
            raise CannotTrace(_without_headers(messages.at_the_start[0], environ))
        messages.starts = False
        try:
            yield tracer
        finally:
            await _sent_in_time(provider)


def _set_up(program: Program, environ: Mapping[str, str]) -> tuple[Tracer, TracerProvider]:
    """Import OpenTelemetry, and create its components; OpenTelemetry logs invalid variables."""
    from manager_tracing.export import make_provider  # noqa: PLC0415 - 19 ms, in a thread, after `_SdkMessages`
    from manager_tracing.spans import SpanTracer  # noqa: PLC0415 - 8 ms, likewise

    provider = make_provider(program, environ)
    return SpanTracer(provider), provider


def _without_headers(complaint: str, environ: Mapping[str, str]) -> str:
    """Return the SDK's error message without quoted headers, which may contain the collector's token."""
    for name in ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"):
        headers = [each.strip() for each in environ.get(name, "").split(",")]
        if any(each and each in complaint for each in headers):
            return f"{name}: name=value is expected, with commas between several, and values in URL encoding"
    return f"the OTEL_* variables cannot be used: {complaint}"


class _SdkMessages(logging.Handler):
    """The only handler of the SDK's messages: it collects them at the start, and counts repetitions later."""

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
        # Count by the place in the SDK's code, because messages of one place differ in their numbers.
        if (times := self._repeats[record.pathname, record.lineno].count()) is not None:
            report = {"message": record.getMessage(), "times": times, "exc_info": record.exc_info}
            get_logger(record.name).log(record.levelno, "the OpenTelemetry SDK reported a problem", **report)


async def _sent_in_time(provider: Any) -> None:
    """Send all remaining spans, but wait only for a limited time if the collector does not answer.

    It uses a daemon thread, because the interpreter waits for an executor's threads at its end.
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
