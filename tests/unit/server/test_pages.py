from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open_metrics
from prometheus_client.parser import text_string_to_metric_families as read_plain

import manager.server.pages as page_module
from manager.server.pages import exposition, health_routes, metrics_routes
from manager.telemetry.health import Health
from manager.telemetry.metrics import Metrics
from tests.support.effort import turns_of_others
from tests.support.served_pages import ServePages, Site, occupied_threads

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.3"
)


@pytest.fixture
def metrics() -> Metrics:
    metrics = Metrics()
    metrics.reconcile_total.labels("memcached", "success").inc(3)
    metrics.reconcile_time.labels("memcached").observe(0.2)
    return metrics


@pytest.fixture
async def site(serve_pages: ServePages, metrics: Metrics) -> Site:
    return await serve_pages(metrics_routes(metrics))


@pytest.mark.parametrize(
    "accept",
    [None, "*/*", "text/plain;version=0.0.4", "text/plain;version=x", f"text/plain;version={'9' * 5000}"],
)
async def test_metrics_page_has_the_prometheus_text_format_by_default(site: Site, accept: str | None):
    answer = await site.get("/metrics", headers={"Accept": accept} if accept else {})
    assert answer.content_type == "text/plain; version=0.0.4; charset=utf-8"
    samples = {s.name: s.value for family in read_plain(answer.text) for s in family.samples}
    assert samples["controller_runtime_reconcile_total"] == 3


async def test_metrics_page_has_the_openmetrics_format_for_prometheus(site: Site):
    answer = await site.get("/metrics", headers={"Accept": PROMETHEUS})
    assert answer.content_type.startswith("application/openmetrics-text; version=1.0.0; charset=utf-8")
    assert answer.text.count("# EOF") == 1
    names = {family.name for family in read_open_metrics(answer.text)}
    assert {"controller_runtime_reconcile", "process_resident_memory_bytes"} <= names


async def test_metrics_page_has_all_metrics_when_reconcilers_occupy_all_threads(metrics: Metrics):
    # The event loop computes the values.
    metrics.unfinished_work.labels("q", "c").set_function(lambda: asyncio.get_running_loop().time())
    with occupied_threads():
        async with asyncio.timeout(20):
            plain, _ = await exposition(metrics, "")
            open_metrics, _ = await exposition(metrics, PROMETHEUS)
    names = {family.name for family in read_plain(plain.decode())}
    assert {"process_resident_memory_bytes", "workqueue_unfinished_work_seconds"} <= names
    assert names == {family.name for family in read_open_metrics(open_metrics.decode())}


async def test_metrics_page_yields_to_other_tasks_during_a_large_scrape(metrics: Metrics):
    for number in range(300):
        metrics.rest_latency.labels("GET", f"host-{number}").observe(1)
        metrics.work_duration.labels("q", f"c-{number}").observe(1)
    assert await turns_of_others(exposition(metrics, "")) >= 2


async def test_metrics_page_is_rendered_once_for_concurrent_requests(
    serve_pages: ServePages, monkeypatch: pytest.MonkeyPatch
):
    rendered = asked = 0
    all_asked = asyncio.Event()
    [route] = metrics_routes(Metrics())

    async def asks(request: web.Request) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        if asked == 30:
            all_asked.set()
        return await route.handler(request)

    async def counted(metrics: Metrics, accept: str) -> tuple[bytes, str]:
        nonlocal rendered
        rendered += 1
        await all_asked.wait()
        return await exposition(metrics, accept)

    monkeypatch.setattr(page_module, "exposition", counted)
    site = await serve_pages({"/metrics": asks})
    # Requests for unknown OpenMetrics versions share the rendered page too.
    accepted = (f"application/openmetrics-text;version=1.0.{number}" for number in range(30))
    asking = (site.get("/metrics", headers={"Accept": each}) for each in accepted)
    answers = await asyncio.gather(*asking)
    assert {answer.status for answer in answers} == {200}
    assert rendered == 1
    assert all("# HELP" in answer.text for answer in answers)


ALL = "[+]ping ok\n[+]loop ok\nhealthz check passed\n"
EXCLUDED = """[+]ping ok
[+]cache excluded: ok
warn: some health checks cannot be excluded: no matches for "nope"
readyz check passed
"""
FAILED = "[+]ping ok\n[-]cache failed: Pod is not synced\nreadyz check failed\n"


@pytest.fixture
async def health_site(serve_pages: ServePages) -> Site:
    health = Health()
    health.liveness.add("loop", lambda: None)
    health.readiness.add("cache", lambda: "Pod is not synced")
    return await serve_pages(health_routes(health))


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/healthz", 200, "ok"),
        ("/healthz?verbose=true", 200, ALL),
        ("/readyz/", 500, FAILED),
        ("/readyz?exclude=cache", 200, "ok"),
        ("/readyz?verbose&exclude=cache&exclude=nope", 200, EXCLUDED),
        ("/readyz/ping", 200, "ok"),
        ("/readyz/cache", 500, "Pod is not synced\n"),
        ("/healthz/loop?verbose", 200, "[+]loop ok\n"),
        ("/readyz/nope", 404, "readyz has no check named nope\n"),
        ("/healthz/cache", 404, "healthz has no check named cache\n"),
    ],
)
async def test_health_page_supports_verbose_exclude_and_single_check_requests(
    health_site: Site, path: str, status: int, text: str
):
    answer = await health_site.get(path)
    assert (answer.status, answer.text) == (status, text)
    assert answer.content_type == "text/plain; charset=utf-8"


async def test_health_page_accepts_head_and_refuses_post(health_site: Site):
    assert (await health_site.get("/healthz", method="HEAD")).status == 200
    assert (await health_site.get("/healthz", method="POST")).status == 405
