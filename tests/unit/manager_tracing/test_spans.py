"""Spans of reconciles and webhook reviews, as a trace collector receives them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, get_current_span
from prometheus_client.openmetrics.exposition import generate_latest

from manager import Context, Operator
from manager.api import ObjectMeta
from manager.kube.errors import Invalid, Unreachable
from manager.kube.wire import WireRequest
from manager.telemetry.runs import called
from manager.telemetry.tracing import current_tracer
from manager_kinds.core_v1 import ConfigMap
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting, GreetingSpec
from manager_tools.testing import LocalWire, World, operated
from manager_tracing.spans import SpanTracer
from tests.support.effort import Effort

pytestmark = pytest.mark.virtual_time

Do = Callable[[Any, Context], Any]


class Traced:
    """Test environment in which every reconcile is traced."""

    def __init__(self, world: World, exporter: InMemorySpanExporter) -> None:
        self.world = world
        self._exporter = exporter

    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def roots(self) -> list[ReadableSpan]:
        """Return the spans of reconciles in the order of their ends."""
        return [span for span in self.spans() if span.name == "reconcile greeting"]

    def children(self, root: ReadableSpan) -> dict[str, ReadableSpan]:
        mine = [span for span in self.spans() if span.parent and span.parent.span_id == root.context.span_id]
        return {span.name: span for span in sorted(mine, key=lambda each: each.start_time)}


@asynccontextmanager
async def traced(do: Do) -> AsyncIterator[Traced]:
    """Run an operator whose reconcile is `do`, and create a Greeting; yield after a minute."""

    class Doing(Operator[Greeting]):
        name = "greeting"
        owns = (ConfigMap,)

        async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
            await do(greeting, ctx)

    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    current_tracer.set(SpanTracer(provider))
    async with operated(Doing) as world:
        await world.create(Greeting(metadata=ObjectMeta(name="hello"), spec=GreetingSpec(size=7)))
        await asyncio.sleep(60)
        yield Traced(world, exporter)
    provider.shutdown()


def config(name: str = "one") -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data={"a": "b"})


async def test_reconcile_trace_contains_queue_time_and_requests(monkeypatch: pytest.MonkeyPatch):
    sent: list[Mapping[str, str]] = []
    answer = LocalWire.answer

    async def noted(self: LocalWire, request: WireRequest) -> Any:
        if "traceparent" in request.headers:
            sent.append(request.headers)
        return await answer(self, request)

    monkeypatch.setattr(LocalWire, "answer", noted)

    current: list[int] = []

    async def apply(greeting: Greeting, ctx: Context) -> None:
        current.append(get_current_span().get_span_context().span_id)
        await ctx.apply(config())
        ctx.condition("Ready", True, "Done")
        called("store/Add", 0.0)

    async with traced(apply) as world:
        first, second, *_ = world.roots()
        children = world.children(first)
        page = generate_latest(world.world.manager.metrics.registry).decode()
    assert first.parent is None
    assert current[:2] == [first.context.span_id, second.context.span_id]
    attributes = dict(first.attributes or {})
    assert attributes["k8s.controller.name"] == "greeting"
    assert (attributes["k8s.namespace.name"], attributes["k8s.object.name"]) == ("default", "hello")
    assert (attributes["reconcile.attempt"], attributes["reconcile.outcome"]) == (0, "success")
    assert len(str(attributes["reconcile.id"])) == 16
    assert "reconcile.priority" in attributes
    assert set(children) == {"queue wait", "post configmaps", "patch greetings/status", "store/Add"}
    post = children["post configmaps"]
    assert post.kind is SpanKind.CLIENT
    assert dict(post.attributes or {})["http.response.status_code"] == 201
    parent = f"00-{first.context.trace_id:032x}-{post.context.span_id:016x}-01"
    assert [headers["traceparent"] == parent for headers in sent] == [True, False]
    assert first.status.status_code is StatusCode.UNSET
    # The write of the first reconcile triggered the second, which wrote nothing.
    links = {each.context.span_id for each in second.links}
    assert links & {post.context.span_id, children["patch greetings/status"].context.span_id}
    assert [each.name for each in second.events].count("write spared") >= 1
    assert f'trace_id="{second.context.trace_id:032x}"' in page


async def test_reconcile_span_records_when_its_events_and_external_calls_happened():
    async def work(greeting: Greeting, ctx: Context) -> None:
        await asyncio.sleep(1)
        ctx.event("Greeted", "told")
        await asyncio.sleep(9)
        called("store/Add", 4.0, "Unavailable")
        await asyncio.sleep(20)

    async with traced(work) as world:
        root, *_ = world.roots()
        call = world.children(root)["store/Add"]
        begun = world.children(root)["queue wait"].end_time
    [event] = [each for each in root.events if each.name == "Event"]
    times = [event.timestamp, call.start_time, call.end_time, root.end_time]
    assert [round((at - begun) / 1e9, 3) for at in times] == [1, 6, 10, 30]
    assert call.status.status_code is StatusCode.ERROR
    assert dict(call.attributes or {})["error.type"] == "Unavailable"


@pytest.mark.parametrize(
    ("error", "kind", "failure"),
    [
        (Unreachable("nobody there"), "Unreachable", "fault"),
        (ValueError("Xk-secret"), "ValueError", "unexpected"),
        (ExceptionGroup("several", [KeyError("Xk-secret")]), "ExceptionGroup", "panic"),
    ],
)
async def test_spans_of_failed_reconciles_and_requests_have_error_status_without_secrets(
    error: Exception, kind: str, failure: str
):
    async def fail(greeting: Greeting, ctx: Context) -> None:
        with pytest.raises(Invalid):
            await ctx.client.create(config("Not A Name"))
        raise error

    async with traced(fail) as world:
        first, second, *_ = world.roots()
        post = world.children(first)["post configmaps"]
    assert [each.status.status_code for each in (first, post)] == [StatusCode.ERROR] * 2
    refusal = dict(post.attributes or {})
    assert (refusal["http.response.status_code"], refusal["error.type"]) == (422, "Invalid")
    attributes = dict(first.attributes or {})
    assert (attributes["error.type"], attributes["reconcile.outcome"]) == (kind, "error")
    assert attributes["reconcile.failure"] in {failure, "unexpected"}
    assert "Xk-secret" not in str(first.to_json())
    assert [each.name for each in first.events].count("exception") == 1
    # The failed attempt triggers the next attempt.
    assert [each.context.span_id for each in second.links] == [first.context.span_id]
    assert dict(second.attributes or {})["reconcile.attempt"] == 1


async def test_reconcile_span_ends_when_the_reconcile_is_cancelled():
    async def hang(greeting: Greeting, ctx: Context) -> None:
        await asyncio.sleep(1_000_000)

    async with traced(hang) as world:
        controller = world.world.manager.controllers[0]
        await controller.stop(grace=0.0)
        [root] = world.roots()
    assert dict(root.attributes or {})["reconcile.outcome"] == "cancelled"
    assert root.status.status_code is StatusCode.ERROR


async def test_webhook_review_span_belongs_to_the_trace_of_the_api_server():
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer, trace, parent = SpanTracer(provider), "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    for status in (200, 503, 0):
        of = {"Traceparent": f"00-{trace}-{parent}-01", "tracestate": "vendor=a:b,other=c"}
        tracer.review("/mutate", of).ended(status)
    tracer.review("/mutate", {"traceparent": "nonsense"}).ended(200)
    *known, unknown = exporter.get_finished_spans()
    assert {span.context.trace_state.to_header() for span in known} == {"vendor=a:b,other=c"}
    for span in known:
        assert f"{span.context.trace_id:032x}" == trace
        assert span.parent is not None
        assert f"{span.parent.span_id:016x}" == parent
        assert (span.name, span.kind) == ("review /mutate", SpanKind.SERVER)
    assert [span.status.status_code is StatusCode.ERROR for span in known] == [False, True, True]
    assert unknown.parent is None
    provider.shutdown()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("baggage", f"a{' ' * 8150}b"),
        ("tracestate", f"a{' ' * 8150}b"),
        ("tracestate", "a" * 8190),
        ("tracestate", ",".join(["a"] * 4000)),
        ("tracestate", "what a stranger wants to have in the log"),
        ("tracestate", ",".join(f"k{number}={'v' * 100}" for number in range(6))),
        ("traceparent", "00-" * 2700),
        ("traceparent", f"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-{'x' * 8000}"),
    ],
)
async def test_webhook_review_ignores_malformed_and_overlong_trace_headers_cheaply_and_without_logs(
    name: str, value: str, caplog: pytest.LogCaptureFixture
):
    provider = TracerProvider(shutdown_on_exit=False)
    headers = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", name: value}
    tracer = SpanTracer(provider)
    with Effort() as spent:
        for _ in range(20):
            review, span = tracer.review("/mutate", headers), get_current_span()
            review.ended(200)
    provider.shutdown()
    assert isinstance(span, ReadableSpan)
    assert (span.parent is None, span.context.trace_state) == (name == "traceparent", {})
    assert spent.units < 20
    assert caplog.text == ""
