from __future__ import annotations

import asyncio
import base64
import itertools
import json
import random
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from manager.kube.transport import Transport
from manager.server.access import (
    ACCEPTED_TOKEN_KEPT,
    SLACK,
    STRANGERS_AT_ONCE,
    STRANGERS_PER_SECOND,
    WAITING,
    Access,
    Answers,
    Place,
    ReviewFailed,
    TooManyQuestions,
    User,
    Verdict,
)
from manager.util.clock import now
from manager_tools.simulation.loop import EPOCH
from tests.support.reviews import RIGHTS, TOKENS
from tests.support.scripted_wire import (
    Delayed,
    LostAfter,
    LostBefore,
    Reply,
    ScriptedWire,
    Sent,
    Stall,
    Unreached,
)

pytestmark = pytest.mark.virtual_time
PROMETHEUS = User("prometheus", "7-8-9", ("pods", "system:authenticated"), (("pod", ("prometheus-0",)),))
CONSOLE = "operator-manager-console"


@pytest.fixture
def access(transport: Transport, rng: random.Random) -> Access:
    return Access(transport, rng=rng)


@pytest.fixture
def console(transport: Transport, rng: random.Random) -> Access:
    return Access(transport, rng=rng, audience=CONSOLE)


def reviewed(status: dict[str, Any]) -> Reply:
    return Reply.json({"status": status}, status=201)


def accepted() -> Reply:
    user: dict[str, Any] = {"username": "prometheus", "uid": "7-8-9"}
    user |= {"groups": ["pods", "system:authenticated"], "extra": {"pod": ["prometheus-0"]}}
    return reviewed({"authenticated": True, "user": user, "audiences": ["https://kubernetes.default.svc"]})


def refused() -> Reply:
    return reviewed({"user": {}, "error": "[invalid bearer token, token lookup failed]"})


ALLOWED = reviewed({"allowed": True, "reason": "RBAC: allowed by ..."})
DENIED = reviewed({"allowed": False})


def allow(wire: ScriptedWire) -> None:
    """Accept every token as Prometheus's, and allow every request."""
    wire.on("POST", TOKENS, accepted())
    wire.on("POST", RIGHTS, ALLOWED)


async def ask(access: Access, token: str = "t", path: str = "/metrics") -> Verdict:
    return await access.verdict(token, "get", path)


@asynccontextmanager
async def repeated(work: Callable[[int], Awaitable[object]], *, pause: float = 0.0) -> AsyncIterator[None]:
    """Call `work` with 0, 1 and so on during the block, with `pause` seconds between two calls."""

    async def repeat() -> None:
        for number in itertools.count():
            await work(number)
            await asyncio.sleep(pause)

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def seconds_until_allowed(access: Access, token: str, client: str) -> float:
    began = asyncio.get_running_loop().time()
    assert (await access.verdict(token, "get", "/metrics", client=client)).allowed
    return asyncio.get_running_loop().time() - began


async def test_auth_allows_a_user_whom_the_subject_access_review_allows(wire: ScriptedWire, access: Access):
    allow(wire)
    assert await ask(access) == Verdict(PROMETHEUS, allowed=True)
    [token], [right] = wire.sent("POST", TOKENS), wire.sent("POST", RIGHTS)
    assert token.json() == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "t"},
    }
    assert right.json() == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": "prometheus",
            "uid": "7-8-9",
            "groups": ["pods", "system:authenticated"],
            "extra": {"pod": ["prometheus-0"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        },
    }


@pytest.mark.parametrize("status", [{"allowed": False}, {}, {"allowed": True, "denied": True}])
async def test_auth_denies_a_user_whom_the_subject_access_review_denies(
    wire: ScriptedWire, access: Access, status: dict[str, Any]
):
    wire.on("POST", TOKENS, reviewed({"authenticated": True, "user": {"username": "u"}}))
    wire.on("POST", RIGHTS, reviewed(status))
    assert await ask(access) == Verdict(User("u", groups=("system:authenticated",)), allowed=False)


@pytest.mark.parametrize("status", [{"authenticated": False}, {}, {"error": "invalid bearer token"}])
async def test_auth_denies_an_invalid_token_without_a_subject_access_review(
    wire: ScriptedWire, access: Access, status: dict[str, Any]
):
    wire.on("POST", TOKENS, reviewed(status))
    for after, reviews in ((0, 1), (9, 1), (2, 2)):
        await asyncio.sleep(after)
        assert await ask(access) == Verdict(None, allowed=False)
        assert (len(wire.sent("POST", TOKENS)), wire.sent("POST", RIGHTS)) == (reviews, [])


async def reviews_needed(wire: ScriptedWire, access: Access, *, after: float) -> tuple[int, int]:
    """Return the numbers of token and access reviews for a request `after` seconds after the first one."""
    await ask(access)
    before = len(wire.sent("POST", TOKENS)), len(wire.sent("POST", RIGHTS))
    await asyncio.sleep(after)
    await ask(access)
    return len(wire.sent("POST", TOKENS)) - before[0], len(wire.sent("POST", RIGHTS)) - before[1]


@pytest.mark.parametrize(
    ("right", "after", "expected"),
    [
        (ALLOWED, 59, (0, 0)),
        (ALLOWED, 61, (1, 0)),
        (ALLOWED, 299, (1, 0)),
        (ALLOWED, 301, (1, 1)),
        (DENIED, 29, (0, 0)),
        (DENIED, 31, (0, 1)),
    ],
)
async def test_auth_cache_keeps_token_reviews_60_s_and_grants_300_s_and_denials_30_s(
    wire: ScriptedWire, access: Access, right: Reply, after: float, expected: tuple[int, int]
):
    wire.on("POST", TOKENS, accepted())
    wire.on("POST", RIGHTS, right)
    assert await reviews_needed(wire, access, after=after) == expected


async def test_auth_reuses_the_cached_rights_of_a_user_with_a_new_token(wire: ScriptedWire, access: Access):
    def each_with_its_id(sent: Sent) -> Reply:
        identifier = {"authentication.kubernetes.io/credential-id": [sent.json()["spec"]["token"]]}
        user = {"username": "ann", "extra": identifier}
        return Reply.json({"status": {"authenticated": True, "user": user}})

    wire.on("POST", TOKENS, each_with_its_id)
    wire.on("POST", RIGHTS, ALLOWED)
    await ask(access, "one")
    await ask(access, "two")
    assert len(wire.sent("POST", TOKENS)) == 2
    assert len(wire.sent("POST", RIGHTS)) == 1


async def test_auth_review_result_applies_only_to_the_reviewed_path(wire: ScriptedWire, access: Access):
    wire.on("POST", TOKENS, accepted())
    wire.on("POST", RIGHTS, ALLOWED, DENIED)
    assert (await ask(access, path="/metrics")).allowed
    assert not (await ask(access, path="/other")).allowed


async def flood(access: Access, *, client: str, number: int) -> list[Verdict | BaseException]:
    """Send `number` unknown tokens at the same time; return the verdicts or errors."""
    asking = (access.verdict(f"{client}-{each}", "get", "/metrics", client=client) for each in range(number))
    return await asyncio.gather(*asking, return_exceptions=True)


async def test_auth_limits_reviews_during_a_flood_of_tokens(wire: ScriptedWire, access: Access):
    most = 0

    def answer(_: Sent) -> Delayed:
        nonlocal most
        most = max(most, wire.in_progress)
        return Delayed(0.1, refused())

    wire.on("POST", TOKENS, answer)
    async with asyncio.TaskGroup() as group:
        floods = [group.create_task(flood(access, client=f"10.0.0.{each}", number=100)) for each in range(9)]
    answered = [each for one in floods for each in one.result()]
    assert Counter(map(type, answered)) == {Verdict: 9 * WAITING, TooManyQuestions: 9 * (100 - WAITING)}
    assert len(wire.requests) == 9 * WAITING
    assert most == STRANGERS_AT_ONCE
    assert asyncio.get_running_loop().time() >= (9 * WAITING - STRANGERS_PER_SECOND) / STRANGERS_PER_SECOND


async def test_auth_limits_reviews_of_one_user_without_delaying_other_users(
    wire: ScriptedWire, access: Access
):
    """Let one user send requests about many objects; each request needs a review."""

    def user(sent: Sent) -> Reply:
        return reviewed({"authenticated": True, "user": {"username": sent.json()["spec"]["token"]}})

    wire.on("POST", TOKENS, user)
    wire.on("POST", RIGHTS, lambda sent: ALLOWED if sent.json()["spec"]["user"] == "jane" else DENIED)

    async def ask_about_many_objects(number: int) -> None:
        asking = (
            access.verdict("pod", "get", Place("g", "pets", "ns", f"{number}-{each}"), client="10.0.0.1")
            for each in range(2 * WAITING)
        )
        await asyncio.gather(*asking, return_exceptions=True)

    async with repeated(ask_about_many_objects, pause=0.1):
        await asyncio.sleep(20)
        assert await seconds_until_allowed(access, "jane", "10.0.0.2") < 0.2
    assert len(wire.sent("POST", RIGHTS)) <= 22 * STRANGERS_PER_SECOND + 1


async def test_auth_does_not_delay_other_users_when_accounts_of_one_namespace_cause_many_reviews(
    wire: ScriptedWire, access: Access
):
    wire.on("POST", TOKENS, reviewed({"authenticated": True, "user": {"username": "jane"}}))
    wire.on("POST", RIGHTS, lambda sent: ALLOWED if sent.json()["spec"]["user"] == "jane" else DENIED)

    async def ask_as_many_accounts(number: int) -> None:
        users = [User(f"system:serviceaccount:team:account-{account}") for account in range(200)]
        asking = (access.may(each, "get", Place("g", "pets", "ns", f"{number}")) for each in users)
        await asyncio.gather(*asking, return_exceptions=True)

    async with repeated(ask_as_many_accounts):
        await asyncio.sleep(2.5)
        assert await seconds_until_allowed(access, "t", "10.0.0.2") < 0.2


async def test_auth_answers_a_client_while_others_send_invalid_tokens(wire: ScriptedWire, access: Access):
    def answer(sent: Sent) -> Delayed:
        return Delayed(1.0, accepted() if sent.json()["spec"]["token"] == "prometheus" else refused())

    wire.on("POST", TOKENS, answer)
    wire.on("POST", RIGHTS, ALLOWED)
    async with repeated(lambda _: flood(access, client="10.0.0.1", number=100)):
        await asyncio.sleep(2.5)
        # At first this client is unknown too, and then its token is cached.
        assert await seconds_until_allowed(access, "prometheus", "10.0.0.2") <= 2.0
        await asyncio.sleep(ACCEPTED_TOKEN_KEPT)
        assert await seconds_until_allowed(access, "prometheus", "10.0.0.1") <= 1.1


async def test_auth_raises_a_too_many_questions_error_after_a_long_wait(wire: ScriptedWire, access: Access):
    wire.on("POST", TOKENS, Delayed(3.0, refused()))
    answered = await flood(access, client="10.0.0.1", number=3)
    assert [type(each) for each in answered] == [Verdict, Verdict, TooManyQuestions]


def web_token(claims: object, head: object = {"alg": "RS256", "kid": "k"}) -> str:
    def part(value: object) -> str:
        text = value if isinstance(value, bytes) else json.dumps(value).encode()
        return base64.urlsafe_b64encode(text).decode().rstrip("=")

    return f"{part(head)}.{part(claims)}.{part(b'signature')}"


async def test_auth_refuses_an_expired_token_without_a_request(wire: ScriptedWire, access: Access):
    token = web_token({"exp": now().timestamp() - SLACK - 10, "iss": "https://kubernetes.default.svc"})
    assert await ask(access, token) == Verdict(None, allowed=False)
    assert wire.requests == []


@pytest.mark.parametrize("audience", [CONSOLE, ["https://kubernetes.default.svc", CONSOLE]])
@pytest.mark.parametrize("meant", [[CONSOLE], ["https://kubernetes.default.svc"], None])
async def test_console_access_accepts_a_console_token_only_when_the_server_confirms_its_audience(
    wire: ScriptedWire, console: Access, audience: object, meant: list[str] | None
):
    token = web_token({"exp": now().timestamp() + 60, "aud": audience})
    status = {"authenticated": True, "user": {"username": "u"}, "audiences": meant}
    wire.on("POST", TOKENS, reviewed(status))
    wire.on("POST", RIGHTS, ALLOWED)
    assert (await ask(console, token)).allowed is (meant == [CONSOLE])
    [sent] = wire.sent("POST", TOKENS)
    assert sent.json()["spec"] == {"token": token, "audiences": [CONSOLE]}


@pytest.mark.parametrize("audience", ["", "https://kubernetes.default.svc", [], 7, [f"{CONSOLE}s"]])
async def test_console_access_token_review_requests_no_audience_for_a_token_without_the_console_audience(
    wire: ScriptedWire, console: Access, audience: object
):
    allow(wire)
    token = web_token({"exp": now().timestamp() + 60, "aud": audience})
    assert (await ask(console, token)).allowed
    assert [sent.json()["spec"] for sent in wire.sent("POST", TOKENS)] == [{"token": token}]


@pytest.mark.parametrize(
    "token",
    [
        "abcdef.0123456789abcdef",
        "!.?.%",
        web_token({"iss": "legacy, for ever"}),
        web_token({"exp": EPOCH + 3600}),
        web_token({"exp": EPOCH - SLACK / 2}),
        web_token({"exp": "yesterday"}),
        web_token({"exp": 1}, head={"no": "algorithm"}),
        web_token({"exp": 1}).replace(".", "=.", 1),
        web_token(b'{"exp":1e999}'),
        web_token(b'{"exp":1' + b"0" * 500 + b"}"),
        web_token(b'{"x":' + b"[" * 6000),
        web_token(b'{"x":' + b"[" * 5000 + b"]" * 5000 + b',"exp":1}'),
        web_token(b"\xff\xfe"),
        web_token({"exp": 1}) + ".more",
    ],
    ids=lambda token: token[:12],
)
async def test_auth_sends_a_review_for_every_token_that_is_not_certainly_expired(
    wire: ScriptedWire, access: Access, token: str
):
    allow(wire)
    assert (await ask(access, token)).allowed


@pytest.mark.parametrize(
    "fault",
    [
        Unreached(),
        LostBefore(),
        LostAfter(accepted()),
        Reply.status(500, "InternalError"),
        Reply.status(503, "ServiceUnavailable"),
        Reply.status(429, "TooManyRequests", retry_after=1),
        Reply.status(429, "TooManyRequests"),
    ],
)
async def test_auth_retries_a_review_after_a_transient_fault(wire: ScriptedWire, access: Access, fault: Any):
    wire.on("POST", TOKENS, fault, fault, accepted())
    wire.on("POST", RIGHTS, fault, ALLOWED)
    assert (await ask(access)).allowed


@pytest.mark.parametrize(
    ("path", "answer", "said"),
    [
        (TOKENS, Unreached(), "cannot connect"),
        (TOKENS, Stall(), "did not answer within 8 s"),
        (TOKENS, Reply.status(500, "InternalError"), "InternalError"),
        (TOKENS, Reply.status(403, "Forbidden", message="tokenreviews is forbidden"), "tokenreviews is forb"),
        (TOKENS, Reply.json({}), "not a TokenReview"),
        (TOKENS, Reply.json([]), "not a TokenReview"),
        (TOKENS, Reply.json({"status": 3}), "not a TokenReview"),
        (TOKENS, Reply.json({"status": {"authenticated": "yes"}}), "not a TokenReview"),
        (RIGHTS, Stall(), "did not answer within 8 s"),
    ],
)
async def test_auth_raises_review_failed_within_10_seconds_with_the_reason_and_the_authenticated_user(
    wire: ScriptedWire, access: Access, path: str, answer: Any, said: str
):
    allow(wire)
    wire.on("POST", path, answer)
    with pytest.raises(ReviewFailed, match=said) as error:
        await ask(access, "secret-token")
    assert asyncio.get_running_loop().time() < 10
    assert error.value.user == (PROMETHEUS if path == RIGHTS else None)
    assert "secret-token" not in str(error.value)
    allow(wire)
    assert (await ask(access, "secret-token")).allowed


async def test_auth_does_not_retry_a_review_that_the_server_forbids(wire: ScriptedWire, access: Access):
    wire.on("POST", TOKENS, Reply.status(403, "Forbidden"))
    with pytest.raises(ReviewFailed):
        await ask(access)
    assert len(wire.sent("POST", TOKENS)) == 1


async def test_auth_stores_no_token_in_plain_text(wire: ScriptedWire, access: Access):
    allow(wire)
    await ask(access, "secret-token")
    assert len(access._users) == 1
    assert "secret-token" not in repr(access._users._known)


class Oracle:
    """Lookup function that takes one second and counts its calls."""

    def __init__(self, answer: str | Exception = "yes") -> None:
        self.answer = answer
        self.asked = 0
        self.given_up = 0

    async def __call__(self) -> str:
        self.asked += 1
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def answers(limit: int = 10) -> Answers[str, str]:
    return Answers(limit=limit, keep_yes=60, keep_no=10)


@pytest.mark.parametrize(("answer", "seconds"), [("yes", 60), ("", 10)])
async def test_answer_cache_keeps_an_answer_for_its_lifetime(answer: str, seconds: float):
    oracle, remembered = Oracle(answer), answers()
    assert await remembered.get("q", oracle) == answer
    await asyncio.sleep(seconds / 2)
    await remembered.get("q", oracle)  # use does not extend the lifetime
    await asyncio.sleep(seconds / 2 - 0.1)
    assert await remembered.get("q", oracle) == answer
    assert oracle.asked == 1
    await asyncio.sleep(0.2)
    assert remembered.was_yes("q") is bool(answer)  # also for an expired answer
    oracle.answer = ""
    assert await remembered.get("q", oracle) == ""
    assert oracle.asked == 2
    assert not remembered.was_yes("q")


async def test_answer_cache_frees_the_memory_of_an_expired_answer():
    remembered: Answers[str, set[str]] = Answers(limit=10, keep_yes=60, keep_no=10)

    async def find() -> set[str]:
        return {"yes"}

    seen = weakref.ref(await remembered.get("q", find))
    await asyncio.sleep(59)
    assert seen() is not None
    await asyncio.sleep(2)
    assert seen() is None


async def test_answer_cache_raises_a_failure_for_all_callers_and_does_not_cache_it():
    oracle, remembered = Oracle(ValueError("no")), answers()
    asked = [asyncio.create_task(remembered.get("q", oracle)) for _ in range(3)]
    results = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(result) for result in results] == [ValueError] * 3
    oracle.answer = "yes"
    assert await remembered.get("q", oracle) == "yes"
    assert oracle.asked == 2


async def test_answer_cache_shares_one_lookup_until_its_last_caller_is_cancelled():
    oracle, remembered = Oracle(), answers()
    leaving, *staying = asking = [asyncio.create_task(remembered.get("q", oracle)) for _ in range(20)]
    await asyncio.sleep(0.5)
    leaving.cancel()
    await asyncio.wait(asking)
    assert leaving.cancelled()
    assert {task.result() for task in staying} == {"yes"}
    assert (oracle.asked, oracle.given_up) == (1, 0)
    asking = [asyncio.create_task(remembered.get("other", oracle)) for _ in range(2)]
    await asyncio.sleep(0.5)
    for task in asking:
        task.cancel()
    await asyncio.wait(asking)
    assert (oracle.asked, oracle.given_up, len(asyncio.all_tasks())) == (2, 1, 1)


@pytest.mark.parametrize("after", [0.5, 0.0], ids=["begun", "not begun"])
async def test_answer_cache_repeats_a_cancelled_lookup_for_the_next_caller(after: float):
    oracle, remembered = Oracle(), answers()
    leaving = asyncio.create_task(remembered.get("q", oracle))
    await asyncio.sleep(after)
    leaving.cancel()
    if after:
        await asyncio.sleep(0)
    assert await remembered.get("q", oracle) == "yes"
    assert oracle.asked == (2 if after else 1)


async def test_answer_cache_evicts_the_least_recently_used_answer_beyond_the_limit():
    oracle, remembered = Oracle(), answers(limit=2)
    await remembered.get("a", oracle)
    await remembered.get("b", oracle)
    await remembered.get("a", oracle)
    await remembered.get("c", oracle)
    assert len(remembered) == 2
    await remembered.get("a", oracle)
    assert oracle.asked == 3
    await remembered.get("b", oracle)
    assert oracle.asked == 4
    await asyncio.gather(*(remembered.get(f"junk {number}", Oracle("")) for number in range(5)))
    assert len(remembered) == 4
    await remembered.get("b", oracle)
    assert oracle.asked == 4
