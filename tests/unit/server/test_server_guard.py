from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from manager.kube.transport import Transport
from manager.server.access import WAITING, Access, TooManyQuestions
from manager.server.server import guarded
from manager.telemetry.metrics import Metrics
from tests.support.scripted_wire import Delayed, Reply, ScriptedWire, Sent
from tests.support.served_pages import Headers, ServePages, Site

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
RIGHTS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


async def secret(request: web.Request) -> web.StreamResponse:
    return web.Response(text="secret")


class Cluster:
    """An API server that knows `ann`, who may get the page, and `bob`, who may not."""

    def __init__(self) -> None:
        self.wire = ScriptedWire()
        self.asked: list[tuple[str, str, str]] = []
        self.up()

    def up(self) -> None:
        self.wire.on("POST", TOKENS, self._token)
        self.wire.on("POST", RIGHTS, self._right)

    def down(self, *paths: str) -> None:
        for path in paths:
            self.wire.on("POST", path, Reply.status(403, "Forbidden", "the manager may not ask"))

    def _token(self, sent: Sent) -> Reply:
        name = sent.json()["spec"]["token"].removesuffix("s-token")
        known = name in {"ann", "bob"}
        return Reply.json({"status": {"authenticated": known, "user": {"username": name}}}, status=201)

    def _right(self, sent: Sent) -> Reply:
        spec = sent.json()["spec"]
        what = spec["nonResourceAttributes"]
        self.asked.append((spec["user"], what["verb"], what["path"]))
        return Reply.json({"status": {"allowed": spec["user"] == "ann"}}, status=201)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def access(cluster: Cluster) -> Access:
    transport = Transport(cluster.wire, metrics=Metrics(), rng=random.Random(1), user_agent="test")
    return Access(transport, rng=random.Random(1))


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
        ("Bearer anns-token", "GET", 200, "secret"),
        ("bearer anns-token", "GET", 200, "secret"),
        ("BEARER anns-token", "HEAD", 200, ""),
        ("Bearer bobs-token", "GET", 403, "Authorization denied for user bob\n"),
        ("Bearer whose", "GET", 401, "Unauthorized\n"),
    ],
)
async def test_guarded_page_is_served_only_to_a_user_with_the_right_to_the_method(
    site: Site, cluster: Cluster, header: str, method: str, status: int, text: str
):
    found, answered, headers = await get(site, {"Authorization": header}, method=method)
    assert (found, answered) == (status, text)
    assert headers["X-Content-Type-Options"] == "nosniff"
    user = header.split()[1].removesuffix("s-token")
    assert cluster.asked == ([] if status == 401 else [(user, method.lower(), "/metrics")])


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("Authorization", "")],
        [("Authorization", "Bearer")],
        [("Authorization", "Bearer ")],
        [("Authorization", "Basic YW5uOnRva2Vu")],
        [("Authorization", "anns-token")],
        [("Authorization", "Bearer anns-token more")],
        [("Authorization", "Bearer ännchens-token")],
        [("Authorization", "Bearer anns-token"), ("Authorization", "Bearer anns-token")],
    ],
)
async def test_guarded_page_answers_401_and_sends_no_review_without_a_token(
    site: Site, cluster: Cluster, headers: list[tuple[str, str]]
):
    status, text, answered = await get(site, headers)
    assert (status, text) == (401, "Unauthorized\n")
    assert answered["WWW-Authenticate"] == "Bearer"
    assert cluster.wire.requests == []


async def test_guarded_page_answers_429_when_too_many_token_reviews_wait(site: Site, cluster: Cluster):
    cluster.wire.on("POST", TOKENS, Delayed(0.2, Reply.json({"status": {}}, status=201)))
    with capture_logs() as lines:
        answers = await asyncio.gather(*(get(site, bearer(f"junk-{each}")) for each in range(WAITING + 5)))
    assert Counter(status for status, _, _ in answers) == {401: WAITING, 429: 5}
    assert {answered.get("Retry-After") for status, _, answered in answers if status == 429} == {"1"}
    assert {line["log_level"] for line in lines} <= {"debug"}


async def test_guarded_page_answers_429_when_too_many_access_reviews_wait(
    serve_pages: ServePages, access: Access
):
    async def turned_away(_: web.Request) -> web.StreamResponse:
        raise TooManyQuestions("too many questions wait already")

    site = await serve_pages({"/metrics": guarded(turned_away, access)})
    assert (await get(site, bearer("anns-token")))[0] == 429


@pytest.mark.parametrize("fails", [TOKENS, RIGHTS])
async def test_server_that_cannot_be_asked_is_reported_once_and_admits_nobody(
    site: Site, cluster: Cluster, fails: str
):
    cluster.down(fails)
    with capture_logs() as lines:
        for _ in range(3):
            status, text, _ = await get(site, bearer("anns-token"))
            expected = "Authentication" if fails == TOKENS else "Authorization for user ann"
            assert (status, text) == (500, f"{expected} failed\n")
        cluster.up()
        assert (await get(site, bearer("anns-token")))[0] == 200
    told = [(line["log_level"], line.get("error")) for line in lines if line["log_level"] != "debug"]
    assert told == [("warning", "the manager may not ask"), ("info", None)]


async def test_guarded_page_logs_no_token(site: Site, cluster: Cluster):
    with capture_logs() as lines:
        for token in ("anns-token", "bobs-token", "whose-token"):
            await get(site, bearer(token))
        cluster.down(TOKENS, RIGHTS)
        await get(site, bearer("other-token"))
    assert lines
    assert "-token" not in str(lines)
