"""Requests to the webhook server: each gets a clear response, and none leaks resources."""

from __future__ import annotations

import asyncio
import gzip
import io
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from dataclasses import replace
from datetime import timedelta
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.test_utils import make_mocked_request

from manager.server.server import CannotServe
from manager.telemetry.metrics import Metrics
from manager.tls import served
from manager.tls.served import ClientAuthorities, SelfSigned, ServedCertificate
from manager.util import clock
from manager.util.address import BindAddress
from manager.webhook import Admission, AdmissionRequest, JsonObject
from manager.webhook.endpoints import endpoints_of
from manager.webhook.registration import Conversion, Webhooks
from manager.webhook.server import LIMITS, Bodies, WebhookServer
from tests.support.certificates import Authority, trusting
from tests.support.effort import Effort
from tests.support.eventually import eventually_async
from tests.unit.webhook.reviews import OldThing, Thing, admission_review, conversion_review, thing

MUTATE = "/mutate-test-example-com-v1-thing"
JSON = {"Content-Type": "application/json"}
LONG = 30.0
REVIEW = admission_review("CREATE", new=thing())


async def default(given: JsonObject, request: AdmissionRequest) -> None:
    given["spec"]["seen"] = True


async def convert(given: JsonObject) -> None: ...


class Site:
    """A webhook server and a client of it."""

    def __init__(self, server: WebhookServer, metrics: Metrics, bodies: Bodies) -> None:
        self.server, self.metrics, self.bodies = server, metrics, bodies
        self.session: aiohttp.ClientSession

    @property
    def address(self) -> BindAddress:
        assert self.server.bound is not None
        return self.server.bound

    async def ask(
        self, body: Any, *, path: str = MUTATE, method: str = "POST", headers: dict[str, str] = JSON
    ) -> tuple[int, Any]:
        url = f"https://{self.address}{path}"
        async with self.session.request(method, url, data=body, headers=headers) as answer:
            text = await answer.read()
            return answer.status, orjson.loads(text) if answer.content_type == "application/json" else text

    async def asked_by(self, context: ssl.SSLContext, body: bytes, *, path: str = MUTATE) -> int | None:
        """Send a request on a new connection; return its status, or None if the connection fails."""
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(connector=connector) as session:
            try:
                url = f"https://{self.address}{path}"
                async with session.post(url, data=body, headers=JSON) as answer:
                    return answer.status
            except aiohttp.ClientError:
                return None

    async def works(self) -> None:
        """Assert that the server still answers reviews, and that it has freed all memory."""
        status, answer = await self.ask(REVIEW)
        assert (status, answer["response"]["allowed"]) == (200, True)
        assert self.bodies.held == 0
        assert self.in_flight(MUTATE) == 0

    def in_flight(self, path: str) -> float | None:
        return self._sample("requests_in_flight", webhook=path)

    def count(self, code: int, path: str = MUTATE) -> float:
        return self._sample("requests_total", webhook=path, code=str(code)) or 0

    def _sample(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"controller_runtime_webhook_{name}", labels)


@asynccontextmanager
async def site(
    *, bodies: Bodies | None = None, act: Any = default, clients: ClientAuthorities | None = None
) -> AsyncIterator[Site]:
    admission = Admission(Thing)
    admission.functions["default"] = act
    conversion = Conversion(Thing, {("to_hub", OldThing): convert, ("from_hub", OldThing): convert})
    metrics, bodies = Metrics(), bodies or Bodies()
    endpoints = endpoints_of(Webhooks([admission, conversion]), metrics)
    server = WebhookServer(
        BindAddress("127.0.0.1", 0),
        endpoints,
        ServedCertificate(SelfSigned(), clients=clients),
        metrics=metrics,
        limits=replace(LIMITS, head=LONG, drain=LONG),
        bodies=bodies,
    )
    running = asyncio.create_task(server.run())
    try:
        await until(lambda: server.problem is None)
        made = Site(server, metrics, bodies)
        connector = aiohttp.TCPConnector(ssl=trusting())
        async with aiohttp.ClientSession(connector=connector) as made.session:
            yield made
            if act is default and clients is None:
                await made.works()
    finally:
        running.cancel()
        await asyncio.wait([running])


async def until(condition: Callable[[], bool]) -> None:
    async def holds() -> bool:
        return condition()

    await eventually_async(holds)


def showing(folder: Path, pair: tuple[bytes, bytes]) -> ssl.SSLContext:
    """Return a client's TLS context with this client certificate and key."""
    (folder / "client.pem").write_bytes(b"\n".join(pair))
    context = trusting()
    context.load_cert_chain(folder / "client.pem")
    return context


class Clients:
    """Clients with certificates of two CAs; the server trusts only the first CA."""

    def __init__(self, folder: Path) -> None:
        self.authority, self.other = Authority("the API server's"), Authority("another")
        self.file = folder / "ca.crt"
        self.file.write_bytes(self.authority.pem)
        self.right = showing(folder, self.authority.user("kube-apiserver"))
        self.wrong = showing(folder, self.other.user("kube-apiserver"))


@pytest.fixture
def clients(tmp_path: Path) -> Clients:
    return Clients(tmp_path)


class Requests:
    """Client that sends many requests on one connection; further connections resume its TLS session."""

    def __init__(
        self, address: BindAddress, context: ssl.SSLContext, earlier: Requests | None = None
    ) -> None:
        connected = socket.create_connection((address.host, address.port))
        self.socket = context.wrap_socket(connected, session=earlier and earlier.socket.session)
        self.is_resumed = self.socket.session_reused

    async def ask(self) -> tuple[int, bool] | None:
        """Return the status, and whether the server closes the connection; None without a response."""
        return await asyncio.to_thread(self._ask)

    def close(self) -> None:
        self.socket.close()

    def _ask(self) -> tuple[int, bool] | None:
        answer = HTTPResponse(self.socket)
        try:
            self.socket.sendall(head(len(REVIEW)) + REVIEW)
            answer.begin()
            answer.read()
        except (OSError, HTTPException):
            return None
        return answer.status, answer.will_close


@pytest.mark.each_loop
async def test_server_accepts_client_certificates_while_their_authority_is_trusted(
    clients: Clients, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(served, "RECHECK_INTERVAL", 0.01)
    server = showing(tmp_path, clients.authority.server("kube-apiserver"))
    async with site(clients=ClientAuthorities(clients.file)) as made:

        async def asked(context: ssl.SSLContext) -> int | None:
            return await made.asked_by(context, REVIEW)

        assert await asked(clients.right) == 200
        assert [await asked(each) for each in (clients.wrong, server, trusting())] == [None, None, None]

        async def changed() -> bool:
            return await asked(clients.wrong) == 200 and await asked(clients.right) is None

        with closing(await asyncio.to_thread(Requests, made.address, clients.right)) as kept:
            assert [await kept.ask(), await kept.ask()] == [(200, False)] * 2
            clients.file.write_bytes(clients.other.pem)
            await eventually_async(changed)
            assert [await kept.ask(), await kept.ask()] == [(200, True), None]
        clients.file.write_bytes(b"half of a certificate")
        await asyncio.sleep(0.05)
        assert (await asked(clients.wrong), await asked(trusting())) == (200, None)


async def test_server_closes_open_and_resumed_connections_after_the_client_certificate_has_expired(
    clients: Clients, monkeypatch: pytest.MonkeyPatch
):
    async with site(clients=ClientAuthorities(clients.file)) as made:
        with ExitStack() as stack:

            async def connected(earlier: Requests | None = None) -> Requests:
                kept = await asyncio.to_thread(Requests, made.address, clients.right, earlier)
                return stack.enter_context(closing(kept))

            kept = await connected()
            assert await kept.ask() == (200, False)
            again = await connected(kept)
            assert (again.is_resumed, await again.ask()) == (True, (200, False))
            later = clock.now() + timedelta(days=3650)
            monkeypatch.setattr(clock, "now", lambda: later)
            assert [await kept.ask(), await kept.ask()] == [(200, True), None]
            over = await connected(again)
            assert (over.is_resumed, await over.ask()) == (True, None)


@pytest.mark.each_loop
async def test_server_answers_clients_without_a_certificate_only_at_the_conversion_endpoint(clients: Clients):
    conversion = conversion_review("v1alpha1", thing())
    shown = {"right": clients.right, "wrong": clients.wrong, "none": trusting()}
    async with site(clients=ClientAuthorities(clients.file, required=False)) as made:
        for path, body, answers in (
            (MUTATE, REVIEW, {"right": 200, "wrong": None, "none": 401}),
            ("/convert", conversion, {"right": 200, "wrong": None, "none": 200}),
        ):
            found = {name: await made.asked_by(context, body, path=path) for name, context in shown.items()}
            assert (path, found) == (path, answers)


async def connect(address: BindAddress) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(address.host, address.port, ssl=trusting())


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        (b"hello", 400, "not an AdmissionReview"),
        (bytes(50_000_000), 413, "at most 7340032 bytes"),
    ],
    ids=["text", "50 MB"],
)
async def test_server_answers_an_invalid_review_with_a_status_object(body: bytes, status: int, told: str):
    async with site() as made:
        got, answer = await made.ask(io.BytesIO(body))
        assert (got, answer["kind"], answer["code"]) == (status, "Status", status)
        assert told in answer["message"]
        assert made.count(status) == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 415),
        ({"Content-Type": "application/yaml"}, 415),
        ({"Content-Type": "text/plain" + ";" * 8000}, 415),
        (JSON | {"Content-Encoding": "gzip"}, 415),
        *(
            ({"Content-Type": f"Application/JSON{parameters}"}, 400)
            for parameters in (
                " ;charset=utf-8",
                ";" * 8000,
                ";x" + ";" * 8000,
                ';a="b"' * 1300,
                ";" + '"' * 8000,
            )
        ),
    ],
)
async def test_server_checks_a_hostile_content_type_at_low_cost(headers: dict[str, str], status: int):
    async with site() as made:
        with Effort() as spent:
            got, answer = await made.ask(b"{}", headers=headers)
        assert got == status
        assert answer["reason"] == ("UnsupportedMediaType" if status == 415 else "BadRequest")
        assert spent.units < 20


@pytest.mark.each_loop
async def test_server_answers_408_when_a_body_is_too_slow():
    async with site(bodies=Bodies(seconds=0.1)) as made:
        reader, writer = await connect(made.address)
        writer.write(head(1000) + b"{")
        assert (await reader.readline()).startswith(b"HTTP/1.1 408")
        writer.transport.abort()
        assert made.count(408) == 1


@pytest.mark.each_loop
async def test_server_drops_a_request_that_waits_for_memory_when_its_client_disconnects():
    length = 1_000_000
    async with site(bodies=Bodies(at_once=2 * length, patience=LONG, waits=LONG)) as made:
        _, holding = await connect(made.address)
        holding.write(head(length) + b"{")
        await until(lambda: made.bodies.held == 2 * length)
        writers = [(await connect(made.address))[1] for _ in range(5)]
        for writer in writers:
            writer.write(head(length))
        await until(lambda: made.in_flight(MUTATE) == 6)
        for writer in writers:
            writer.transport.abort()
        await until(lambda: made.in_flight(MUTATE) == 1)
        holding.transport.abort()
        await until(lambda: made.bodies.held == 0)


@pytest.mark.parametrize("text", ["1h" * 1000, "1" * 2000 + "s", "soon", "-1s", "0s", ""])
async def test_server_ignores_an_invalid_timeout_parameter_at_low_cost(text: str):
    async with site() as made:
        await made.works()
        with Effort() as spent:
            assert (await made.ask(REVIEW, path=f"{MUTATE}?timeout={text}"))[0] == 200
        assert spent.units < 1


async def test_server_answers_503_when_no_memory_is_free_for_a_review():
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def wait(given: JsonObject, request: AdmissionRequest) -> None:
        entered.set()
        await go_on.wait()

    bodies = Bodies(at_once=2 * len(REVIEW) + 100, small=0, waits=0.1)
    async with site(bodies=bodies, act=wait) as made:
        first = asyncio.create_task(made.ask(REVIEW))
        await entered.wait()
        status, answer = await made.ask(REVIEW)
        assert (status, answer["reason"]) == (503, "ServiceUnavailable")
        go_on.set()
        assert (await first)[0] == 200
        await made.works()


@pytest.mark.each_loop
async def test_memory_limit_admits_the_smallest_waiting_request_body_first():
    room, order = 1_000_000, list[int]()
    bodies = Bodies(at_once=room, small=0)

    async def hold(size: int) -> None:
        async with bodies.held_body(sized(size), limit=room):
            order.append(size)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group, bodies.held_body(sized(room // 2), limit=room):
        for size in (400_000, 300_000, 10):
            group.create_task(hold(size))
        await asyncio.sleep(0.01)
        assert order == []
    assert order == [10, 300_000, 400_000]
    assert bodies.held == 0


def sized(length: int) -> web.Request:
    """Return a request with this Content-Length and an empty body."""
    return make_mocked_request("POST", "/", {"Content-Length": str(length)}, payload=EMPTY_PAYLOAD)


async def test_server_answers_one_large_review_at_a_time_while_small_reviews_continue():
    entered, go_on, at_once = asyncio.Event(), asyncio.Event(), 0

    async def wait(given: JsonObject, request: AdmissionRequest) -> None:
        nonlocal at_once
        if "text" in given["spec"]:
            at_once += 1
            assert at_once == 1
            entered.set()
            await go_on.wait()
            at_once -= 1

    large = admission_review("CREATE", new=thing(spec={"text": "x" * 100_000}))
    async with site(act=wait) as made:
        asking = [asyncio.create_task(made.ask(large)) for _ in range(3)]
        await entered.wait()
        assert (await made.ask(REVIEW))[0] == 200
        go_on.set()
        assert [(await each)[0] for each in asking] == [200, 200, 200]


def head(length: int, path: str = MUTATE) -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (
        path.encode(),
        length,
    )


def much(size: int) -> bytes:
    """Return a ConversionReview of ten objects that is about `size` bytes long."""
    return conversion_review("v1", *[thing(spec={"text": "x" * (size // 10)})] * 10)


@pytest.mark.each_loop
async def test_memory_limit_drops_an_incomplete_body_when_another_large_body_waits():
    async with site(bodies=Bodies(at_once=1_000_000, patience=0.0)) as made:
        reader, writer = await connect(made.address)
        writer.write(head(500_000) + bytes(499_000))
        await until(lambda: made.bodies.held == 1_000_000)
        assert (await made.ask(REVIEW))[0] == 200
        assert made.bodies.held == 1_000_000
        assert (await made.ask(admission_review("CREATE", new=thing(spec={"t": "x" * 90_000}))))[0] == 200
        with suppress(ConnectionError):
            assert await reader.read() == b""
        await until(lambda: made.bodies.held == 0)


@asynccontextmanager
async def unread_conversion(made: Site, size: int) -> AsyncIterator[asyncio.StreamReader]:
    """Request a long conversion, and do not read the response."""
    reader, writer = await connect(made.address)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    review = much(size)
    writer.write(head(len(review), "/convert") + review)
    yield reader
    writer.transport.abort()


@pytest.mark.each_loop
async def test_server_drops_an_unread_response_when_a_new_request_needs_memory():
    size = 11_000_000
    async with site(bodies=Bodies(at_once=size * 3, patience=0.0)) as made:
        async with unread_conversion(made, size):
            await until(lambda: made.bodies.held == 2 * len(much(size)))
            assert (await made.ask(io.BytesIO(much(size)), path="/convert"))[0] == 200
        await until(lambda: made.in_flight("/convert") == 0)


@pytest.mark.each_loop
async def test_server_drops_a_response_that_the_client_does_not_read_in_time():
    size = 11_000_000
    async with site(bodies=Bodies(taken_within=0.1)) as made, unread_conversion(made, size) as reader:
        await until(lambda: made.count(200, "/convert") == 1)
        assert made.in_flight("/convert") == made.bodies.held == 0
        reader._transport.resume_reading()  # type: ignore[attr-defined]
        with suppress(ConnectionError):
            assert len(await reader.read()) < size


async def test_server_refuses_a_request_with_two_content_encoding_headers():
    async with site() as made:
        reader, writer = await connect(made.address)
        packed = gzip.compress(REVIEW)
        more = b"Content-Encoding: identity\r\nContent-Encoding: gzip\r\nContent-Length:"
        writer.write(head(len(packed)).replace(b"Content-Length:", more) + packed)
        assert (await reader.readline()).split()[1] in {b"400", b"415"}
        writer.transport.abort()


async def fail(given: JsonObject, request: AdmissionRequest) -> None:
    raise LookupError


async def dawdle(given: JsonObject, request: AdmissionRequest) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("act", "status", "reason", "told"),
    [
        (fail, 500, "InternalError", r"failed unexpectedly \(LookupError\)"),
        (dawdle, 504, "Timeout", "took longer than"),
    ],
)
async def test_server_answers_with_a_status_object_when_a_function_fails_or_times_out(
    act: Any, status: int, reason: str, told: str
):
    async with site(act=act) as made:
        got, answer = await made.ask(REVIEW, path=f"{MUTATE}?timeout=100ms")
        assert (got, answer["kind"], answer["reason"]) == (status, "Status", reason)
        assert re.search(told, answer["message"])
        assert made.count(status) == 1


async def test_server_raises_a_cannot_serve_error_when_the_port_is_in_use():
    async with site() as made:
        second = WebhookServer(made.address, (), ServedCertificate(SelfSigned()), metrics=Metrics())
        with pytest.raises(CannotServe, match=r" \(--webhook-bind-address\): Address already in use$"):
            await second.run()
        assert second.problem == f"nothing listens on {made.address} yet"
