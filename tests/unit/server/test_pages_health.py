from __future__ import annotations

import pytest

from manager.server.pages import health_routes
from manager.telemetry.health import Health
from tests.support.served_pages import ServePages, Site

ALL = "[+]ping ok\n[+]loop ok\nhealthz check passed\n"
EXCLUDED = """[+]ping ok
[+]cache excluded: ok
warn: some health checks cannot be excluded: no matches for "nope"
readyz check passed
"""
FAILED = "[+]ping ok\n[-]cache failed: Pod is not synced\nreadyz check failed\n"


@pytest.fixture
async def site(serve_pages: ServePages) -> Site:
    health = Health()
    health.liveness.add("loop", lambda: None)
    health.readiness.add("cache", lambda: "Pod is not synced")
    return await serve_pages(health_routes(health))


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/healthz", 200, "ok"),
        ("/healthz?verbose", 200, ALL),
        ("/healthz?verbose=true", 200, ALL),
        ("/readyz", 500, FAILED),
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
async def test_health_page_reports_only_the_requested_checks(site: Site, path: str, status: int, text: str):
    answer = await site.get(path)
    assert (answer.status, answer.text) == (status, text)
    assert answer.content_type == "text/plain; charset=utf-8"


async def test_health_page_accepts_head_and_refuses_post(site: Site):
    assert (await site.get("/healthz", method="HEAD")).status == 200
    assert (await site.get("/healthz", method="POST")).status == 405
