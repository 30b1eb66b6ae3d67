from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from manager.server.access import WAITING, Access
from manager.server.server import guarded
from tests.support.reviews import RIGHTS, TOKENS, access_by, api_server, reviewed_rights, serve_reviews
from tests.support.scripted_wire import Delayed, Reply, ScriptedWire
from tests.support.served_pages import Headers, ServePages, Site

CANNOT_ASK = Reply.status(403, "Forbidden", "the manager may not ask")


async def secret(request: web.Request) -> web.StreamResponse:
    return web.Response(text="secret")


@pytest.fixture
def wire() -> ScriptedWire:
    return api_server()


@pytest.fixture
def access(wire: ScriptedWire) -> Access:
    return access_by(wire)


@pytest.fixture
async def site(serve_pages: ServePages, access: Access) -> Site:
    return await serve_pages({"/metrics": guarded(secret, access)})


async def get(site: Site, headers: Headers, *, method: str = "GET") -> tuple[int, str, Mapping[str, str]]:
    answer = await site.get("/metrics", method=method, headers=headers)
    return answer.status, answer.text, answer.headers


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize(
    ("header", "method", "status", "text"),
    [
        ("Bearer ann-token", "GET", 200, "secret"),
        ("bearer ann-token", "GET", 200, "secret"),
        ("BEARER ann-token", "HEAD", 200, ""),
        ("Bearer bob-token", "GET", 403, "Authorization denied for user bob\n"),
        ("Bearer whose", "GET", 401, "Unauthorized\n"),
    ],
)
async def test_guarded_page_is_served_only_to_a_user_with_the_right_to_the_method(
    site: Site, wire: ScriptedWire, header: str, method: str, status: int, text: str
):
    found, answered, headers = await get(site, {"Authorization": header}, method=method)
    assert (found, answered) == (status, text)
    assert headers["X-Content-Type-Options"] == "nosniff"
    asked = [(spec["user"], spec["nonResourceAttributes"]) for spec in reviewed_rights(wire)]
    right = {"path": "/metrics", "verb": method.lower()}
    assert asked == ([] if status == 401 else [(header.split()[1].removesuffix("-token"), right)])


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("Authorization", "")],
        [("Authorization", "Bearer")],
        [("Authorization", "Bearer ")],
        [("Authorization", "Basic YW5uOnRva2Vu")],
        [("Authorization", "ann-token")],
        [("Authorization", "Bearer ann-token more")],
        [("Authorization", "Bearer ännchen-token")],
        [("Authorization", "Bearer ann-token"), ("Authorization", "Bearer ann-token")],
    ],
)
async def test_guarded_page_answers_401_and_sends_no_review_without_a_token(
    site: Site, wire: ScriptedWire, headers: list[tuple[str, str]]
):
    status, text, answered = await get(site, headers)
    assert (status, text) == (401, "Unauthorized\n")
    assert answered["WWW-Authenticate"] == "Bearer"
    assert wire.requests == []


async def test_guarded_page_answers_429_when_too_many_token_reviews_wait(site: Site, wire: ScriptedWire):
    wire.on("POST", TOKENS, Delayed(0.2, Reply.json({"status": {}}, status=201)))
    with capture_logs() as lines:
        answers = await asyncio.gather(*(get(site, bearer(f"junk-{each}")) for each in range(WAITING + 5)))
    assert Counter(status for status, _, _ in answers) == {401: WAITING, 429: 5}
    assert {answered.get("Retry-After") for status, _, answered in answers if status == 429} == {"1"}
    assert {line["log_level"] for line in lines} <= {"debug"}


@pytest.mark.parametrize("fails", [TOKENS, RIGHTS])
async def test_guarded_page_denies_every_user_and_reports_once_when_reviews_fail(
    site: Site, wire: ScriptedWire, fails: str
):
    wire.on("POST", fails, CANNOT_ASK)
    with capture_logs() as lines:
        for _ in range(3):
            status, text, _ = await get(site, bearer("ann-token"))
            expected = "Authentication" if fails == TOKENS else "Authorization for user ann"
            assert (status, text) == (500, f"{expected} failed\n")
        serve_reviews(wire)
        assert (await get(site, bearer("ann-token")))[0] == 200
    told = [(line["log_level"], line.get("error")) for line in lines if line["log_level"] != "debug"]
    assert told == [("warning", "the manager may not ask"), ("info", None)]


async def test_guarded_page_never_logs_a_token(site: Site, wire: ScriptedWire):
    with capture_logs() as lines:
        for token in ("ann-token", "bob-token", "whose-token"):
            await get(site, bearer(token))
        wire.on("POST", TOKENS, CANNOT_ASK)
        await get(site, bearer("other-token"))
    assert lines
    assert "-token" not in str(lines)
