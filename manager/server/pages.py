"""The pages `/healthz` and `/readyz`, with a path for each check, and `/metrics`."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable

from prometheus_client import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from manager.server.access import Answers
from manager.server.lean import web
from manager.telemetry.health import Checks, Health
from manager.telemetry.metrics import Metrics
from manager.util.loop import in_thread

_HEADERS = {"Cache-Control": "no-cache, private"}

_SLICE = 0.002
"""Seconds of rendering after which other tasks run."""

_END = b"# EOF\n"
_OPEN_METRICS = "application/openmetrics-text"


def health_routes(health: Health) -> web.RouteTableDef:
    """Return the routes of health checks.

    `/readyz` returns `ok`, or all checks with status 500; `?verbose` always returns all checks, and
    `?exclude=NAME` (repeatable) omits some. `/readyz/NAME` is one check alone.
    """
    routes = web.RouteTableDef()
    for checks in (health.liveness, health.readiness):
        _add_checks(routes, checks)
    return routes


def _add_checks(routes: web.RouteTableDef, checks: Checks) -> None:
    path = f"/{checks.title}"

    @routes.get(path)
    @routes.get(f"{path}/")
    async def show_all(request: web.Request) -> web.Response:
        report = checks.report(excluded=request.query.getall("exclude", ()))
        brief = report.healthy and "verbose" not in request.query
        return _answer(200 if report.healthy else 500, "ok" if brief else report.text)

    @routes.get(f"{path}/{{check}}")
    async def show_one(request: web.Request) -> web.Response:
        name = request.match_info["check"]
        if name not in checks.names:
            return _answer(404, f"{checks.title} has no check named {name}\n")
        if (problem := checks.problem(name)) is not None:
            return _answer(500, f"{problem}\n")
        return _answer(200, f"[+]{name} ok\n" if "verbose" in request.query else "ok")


def _answer(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text, headers=_HEADERS)


class _One(Collector):
    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return (self._family,)


async def exposition(metrics: Metrics, accept: str) -> tuple[bytes, str]:
    """Return all metric families as text, with the content type: OpenMetrics if accepted, else plain.

    Other tasks run between families: some thousand series take tens of milliseconds.
    """
    loop = asyncio.get_running_loop()
    encode: Callable[[Collector], bytes]
    encode, content_type = choose_encoder(accept)
    open_metrics = content_type.startswith(_OPEN_METRICS)
    parts: list[bytes] = []
    # Reading files blocks, if only briefly. Other handlers may occupy all threads of `asyncio.to_thread`.
    process = await in_thread(lambda: list(metrics.process_registry.collect()))
    turn_ends = loop.time() + _SLICE
    for family in itertools.chain(metrics.registry.collect(), process):
        part = encode(_One(family))
        parts.append(part.removesuffix(_END) if open_metrics else part)
        if loop.time() >= turn_ends:
            await asyncio.sleep(0)
            turn_ends = loop.time() + _SLICE
    if open_metrics:
        parts.append(_END)
    return b"".join(parts), content_type


def metrics_routes(metrics: Metrics) -> web.RouteTableDef:
    """Return the route of a page that shows `metrics`.

    Concurrent requests get the same rendered text, and rendering takes at most half of the time.
    """
    shared: Answers[str, tuple[bytes, str]] = Answers(limit=0, keep_yes=0, keep_no=0)
    turn = asyncio.Lock()
    rested_at = 0.0
    routes = web.RouteTableDef()

    @routes.get("/metrics")
    async def show(request: web.Request) -> web.Response:
        # A scraper may send several Accept headers, which together are one list. There are only two results:
        # a client that invents versions must not cause a rendering for each, and some take long to parse.
        accepted = ",".join(request.headers.getall("Accept", ()))
        accept = _OPEN_METRICS if _OPEN_METRICS in accepted else ""

        async def render() -> tuple[bytes, str]:
            nonlocal rested_at
            loop = asyncio.get_running_loop()
            async with turn:
                await asyncio.sleep(rested_at - loop.time())
                began = loop.time()
                rendered = await exposition(metrics, accept)
                rested_at = loop.time() + (loop.time() - began)
                return rendered

        body, content_type = await shared.get(accept, render)
        return web.Response(body=body, headers={"Content-Type": content_type})

    return routes
