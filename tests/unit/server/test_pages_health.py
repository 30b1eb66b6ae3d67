from __future__ import annotations

import pytest

from manager.server.pages import health_routes
from manager.telemetry.health import Health
from tests.support.served_pages import ServePages, Site

PLAIN = "text/plain; charset=utf-8"


@pytest.fixture
async def site(serve_pages: ServePages) -> Site:
    health = Health()
    health.liveness.add("loop", lambda: None)
    health.readiness.add("cache", lambda: "Pod is not synced")
    return await serve_pages(health_routes(health))


async def test_health_page_says_ok_when_the_process_is_healthy(site: Site):
    answer = await site.get("/healthz")
    assert (answer.status, answer.content_type, answer.text) == (200, PLAIN, "ok")


async def test_verbose_shows_every_check(site: Site):
    answer = await site.get("/healthz?verbose")
    assert answer.text == "[+]ping ok\n[+]loop ok\nhealthz check passed\n"
    assert (await site.get("/healthz?verbose=true")).text == answer.text


async def test_health_page_lists_all_checks_without_verbose_when_one_fails(site: Site):
    answer = await site.get("/readyz")
    assert answer.status == 500
    assert answer.text == "[+]ping ok\n[-]cache failed: Pod is not synced\nreadyz check failed\n"


async def test_health_page_ignores_trailing_slash(site: Site):
    with_slash, without = await site.get("/readyz/"), await site.get("/readyz")
    assert (with_slash.status, with_slash.text) == (without.status, without.text)


async def test_health_page_can_exclude_a_check(site: Site):
    assert (await site.get("/readyz?exclude=cache")).text == "ok"


async def test_health_page_excludes_several_checks_and_warns_about_unknown_ones(site: Site):
    answer = await site.get("/readyz?verbose&exclude=cache&exclude=nope")
    assert answer.status == 200
    assert "[+]cache excluded: ok" in answer.text
    assert 'no matches for "nope"' in answer.text


async def test_health_check_has_a_path_of_its_own(site: Site):
    good, bad = await site.get("/readyz/ping"), await site.get("/readyz/cache")
    assert (good.status, good.text) == (200, "ok")
    assert (bad.status, bad.text) == (500, "Pod is not synced\n")
    assert (await site.get("/healthz/loop?verbose")).text == "[+]loop ok\n"


async def test_health_page_answers_not_found_for_unknown_check(site: Site):
    assert (await site.get("/readyz/nope")).status == 404
    assert (await site.get("/healthz/cache")).status == 404


async def test_health_page_accepts_head_and_refuses_post(site: Site):
    assert (await site.get("/healthz", method="HEAD")).status == 200
    assert (await site.get("/healthz", method="POST")).status == 405
