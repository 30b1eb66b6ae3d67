"""Configuration of the OpenTelemetry SDK by environment variables."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

import pytest

from manager.telemetry.logs import captured
from manager.telemetry.tracing import CannotTrace, tracing
from manager.util.program import Program

pytestmark = pytest.mark.virtual_time

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TO = f"{ENDPOINT}=http://collector.example"


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ("OTEL_TRACES_EXPORTER=zipkin", "OTEL_TRACES_EXPORTER: otlp, console or none is expected"),
        *(
            (f"{names}=grpc; {TO}", f"^{names.split('=')[0]}: http/protobuf is expected, not 'grpc'$")
            for names in (
                "OTEL_EXPORTER_OTLP_PROTOCOL",
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc; OTEL_EXPORTER_OTLP_PROTOCOL",
            )
        ),
        ("OTEL_TRACES_EXPORTER=otlp; OTEL_BSP_MAX_QUEUE_SIZE=-1", "used: max_queue_size must be a positive"),
        (f"{ENDPOINT}=http://me:s3cret/x@collector", f"^{ENDPOINT}: a URL of http or https is expected"),
        (
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=grpc://collector",
            "^OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: a URL of http or https is expected",
        ),
        (f"{TO}; HTTP_PROXY=http://me:s3cret@proxy:99999", "^HTTP_PROXY: not the URL of an http"),
        (f"{TO}; HTTP_PROXY=http://me:s3cret/x@proxy", "^HTTP_PROXY: not the URL of an http"),
        *(
            (f"{TO}; {name}={file}", f"^{name}: {file}: {said}$")
            for name, file, said in (
                ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/dev/zero", "it is not a regular file"),
                ("OTEL_EXPORTER_OTLP_CERTIFICATE", __file__, "it holds no certificate in PEM"),
                ("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "/no/where", "No such file or directory"),
                ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/", "Is a directory"),
            )
        ),
        *(
            (
                f"{TO}; {name}=a=b, Authorization Bearer s3cret",
                f"^{name}: name=value is expected, with commas",
            )
            for name in ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")
        ),
        (f'{TO}; OTEL_EXPORTER_OTLP_HEADERS=token="s3cret"', "and values in URL encoding$"),
        ("OTEL_TRACES_EXPORTER=console; OTEL_TRACES_SAMPLER=sometimes", "recognize sampler sometimes"),
        ("OTEL_TRACES_EXPORTER=console; OTEL_BSP_SCHEDULE_DELAY=5s", "value for OTEL_BSP_SCHEDULE_DELAY"),
    ],
)
async def test_sdk_tracer_raises_cannot_trace_for_invalid_or_unsupported_environment_variables(
    monkeypatch: pytest.MonkeyPatch, environ: str, told: str
):
    variables = dict(each.split("=", 1) for each in environ.split("; "))
    for name, value in variables.items():  # the SDK reads the process environment
        monkeypatch.setenv(name, value)
    with pytest.raises(CannotTrace, match=told) as caught:
        async with tracing(Program("test", "0"), variables):
            pass
    assert "s3cret" not in str(caught.value)


async def test_sdk_tracer_logs_a_repeated_sdk_warning_once_and_later_with_a_count():
    """Log a warning every 7 s from another thread, as the SDK does without a collector."""
    sdk = logging.getLogger("opentelemetry.exporter.anything")

    def fails() -> None:
        sdk.warning("Transient error %s, retrying in %.2fs.", "refused", 1.5)

    told: list[dict[str, Any]] = []
    with captured(lambda _, fields: told.append(fields)):
        async with tracing(Program("test", "0"), {"OTEL_TRACES_EXPORTER": "console"}):
            for _ in range(20):
                await asyncio.to_thread(fails)
                await asyncio.sleep(7)
    assert [each["message"] for each in told] == ["Transient error refused, retrying in 1.50s."] * 2
    assert [(each["logger_name"], each["times"]) for each in told] == [(sdk.name, 1), (sdk.name, 9)]
    assert logging.getLogger("opentelemetry").handlers == []


@pytest.mark.parametrize(
    "missing", ["opentelemetry.sdk.resources", "opentelemetry.exporter.otlp.proto.http.trace_exporter"]
)
async def test_sdk_tracer_names_the_extra_that_installs_missing_packages(
    monkeypatch: pytest.MonkeyPatch, missing: str
):
    monkeypatch.delitem(sys.modules, "manager_tracing.export", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(
        CannotTrace, match=r"ENDPOINT is set, and needs what operator-manager\[tracing\] installs"
    ):
        async with tracing(Program("test", "0"), {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:1"}):
            pass
