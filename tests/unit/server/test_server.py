"""The HTTP server: certificates, addresses, routes of operators, and pages that require a token."""

from __future__ import annotations

import asyncio
import io
import random
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

import aiohttp
import pytest
import trustme
from aiohttp import web
from structlog.testing import capture_logs

from manager.kube.transport import Transport
from manager.process.manager import CannotStart, Manager, Runnable
from manager.server import HttpServer, Limits
from manager.server.access import WAITING, Access, TooManyQuestions, claims_of
from manager.server.server import CannotServe, guarded, serve
from manager.telemetry.metrics import Metrics
from manager.tls import served
from manager.tls.served import CertificateFiles, ServedCertificate
from manager.util.address import BindAddress
from manager.util.program import Program
from tests.support.certificates import trusting
from tests.support.eventually import eventually_async
from tests.support.reviews import RIGHTS, TOKENS, access_by, api_server, reviewed_rights, serve_reviews
from tests.support.scripted_wire import Delayed, Reply, ScriptedWire
from tests.support.served_pages import Headers, ServePages, Site, serving
from tests.unit.conftest import LogLines
from tests.unit.server.test_connection import client, refuses, site

ANY_PORT = BindAddress("127.0.0.1", 0)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def secret(authority: trustme.CA, tmp_path: Path) -> Secret:
    return Secret(authority, tmp_path / "secret")


class Secret:
    """Folder in which the kubelet mounts a Secret; an update replaces the link `..data`."""

    def __init__(self, authority: trustme.CA, folder: Path) -> None:
        self._authority = authority
        self._version = 0
        self.folder = folder
        folder.mkdir()
        for name in ("tls.crt", "tls.key"):
            (folder / name).symlink_to(f"..data/{name}")
        self.renew()

    def renew(self) -> None:
        self._version += 1
        version = self.folder / f"..version_{self._version}"
        version.mkdir()
        issued = self._authority.issue_cert("localhost", "127.0.0.1")
        (version / "tls.crt").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        (version / "tls.key").write_bytes(issued.private_key_pem.bytes())
        link = self.folder / "..data_tmp"
        link.symlink_to(version.name)
        link.replace(self.folder / "..data")

    @property
    def certificate(self) -> ServedCertificate:
        return ServedCertificate(CertificateFiles(self.folder / "tls.crt", self.folder / "tls.key"))


async def hello(request: web.Request) -> web.StreamResponse:
    return web.Response(text="hello")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "RECHECK_INTERVAL", 0.01)


def https_site(secret: Secret) -> AbstractAsyncContextManager[BindAddress]:
    return serving("pages", ANY_PORT, {"/": hello}, certificate=secret.certificate)


async def presented(address: BindAddress, context: ssl.SSLContext, name: str | None) -> bytes:
    """Return the certificate that the server sends on a new connection."""
    _, writer = await asyncio.open_connection("127.0.0.1", address.port, ssl=context, server_hostname=name)
    certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return certificate


async def until_another_is_presented(
    than: bytes, address: BindAddress, context: ssl.SSLContext, name: str
) -> None:
    async with asyncio.timeout(10):
        while await presented(address, context, name) == than:
            pass


# A client that is given an IP address sends no server name: Prometheus and the kubelet do so.
@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
@pytest.mark.each_loop
async def test_https_server_presents_a_renewed_certificate_and_keeps_open_connections(
    authority: trustme.CA, secret: Secret, name: str
):
    client = trusting(authority.cert_pem.bytes())
    async with https_site(secret) as address:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", address.port, ssl=client, server_hostname=name
        )
        for _ in range(2):
            before = await presented(address, client, name)
            secret.renew()
            await until_another_is_presented(before, address, client, name)
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200 OK")
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_3])
@pytest.mark.filterwarnings("ignore:.*TLSv1_1 is deprecated:DeprecationWarning")
@pytest.mark.each_loop
async def test_server_accepts_tls_1_2_and_refuses_tls_1_1_and_tls_1_3(
    authority: trustme.CA, secret: Secret, version: ssl.TLSVersion
):
    """Refuse TLS 1.3 too, because it allows any number of key updates."""
    client = trusting(authority.cert_pem.bytes())
    async with https_site(secret) as address:
        assert await presented(address, client, "localhost")  # this client offers TLS 1.2 and 1.3
        client.set_ciphers("ALL:@SECLEVEL=0")
        client.maximum_version = ssl.TLSVersion.MAXIMUM_SUPPORTED
        client.minimum_version = version
        client.maximum_version = version
        with pytest.raises(OSError):  # noqa: PT011 - a reset or an alert, as it comes
            await presented(address, client, "localhost")


async def fetch(address: BindAddress, host: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"http://{host}:{address.port}/") as answer:
        return await answer.text()


@pytest.mark.parametrize("has_ipv6", [socket.has_dualstack_ipv6(), False])
async def test_serve_listens_on_every_interface_when_the_address_has_no_host(
    has_ipv6: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: has_ipv6)
    async with serving("pages", BindAddress("", 0), {"/": hello}) as address:
        assert await fetch(address, "127.0.0.1") == "hello"
        if has_ipv6:
            assert await fetch(address, "[::1]") == "hello"


@pytest.mark.parametrize("host", ["127.0.0.1", ""])
async def test_serve_error_names_a_port_in_use(host: str):
    async with serving("pages", BindAddress(host, 0), {}) as taken:
        with pytest.raises(CannotServe) as error:
            async with serving("metrics", taken, {}):
                pytest.fail("it was served")
    assert str(error.value) == f"cannot serve metrics on {taken}: Address already in use"


@pytest.mark.parametrize(
    ("host", "problem"), [("192.0.2.1", "Cannot assign requested address"), ("nowhere.invalid", "")]
)
async def test_serve_error_names_a_host_that_is_not_this_machine(host: str, problem: str):
    with pytest.raises(CannotServe, match=f"^cannot serve metrics on {host}:0: {problem}"):
        async with serving("metrics", BindAddress(host, 0), {}, any_port=True):
            pytest.fail("it was served")


@pytest.mark.parametrize("host", ["127.0.0.1", ""])
async def test_serve_uses_another_port_when_the_default_port_is_in_use(host: str, log_lines: LogLines):
    async with (
        serving("pages", BindAddress(host, 0), {}) as taken,
        serving("console", taken, {"/": hello}, flag="--console-bind-address", any_port=True) as address,
    ):
        assert (address.host, address.port != taken.port) == (host, True)
        assert await fetch(address, "127.0.0.1") == "hello"
    [warning] = [line for line in log_lines if line["log_level"] == "warning"]
    assert warning["event"] == "address in use: using another port"
    assert (warning["address"], warning["flag"]) == (str(taken), "--console-bind-address")


async def test_server_port_can_be_used_again_immediately_after_the_stop():
    async with serving("pages", ANY_PORT, {"/": hello}) as address:
        await fetch(address, "127.0.0.1")
    async with serving("pages", address, {"/": hello}):
        assert await fetch(address, "127.0.0.1") == "hello"


async def test_stopping_server_sends_a_connection_close_header_with_each_response():
    leaving = False

    async def sends_itself(request: web.Request) -> web.StreamResponse:
        response = web.Response(text="hello")
        await response.prepare(request)
        await response.write_eof()
        return response

    pages = {"/": hello, "/itself": sends_itself}
    async with (
        serving("pages", ANY_PORT, pages, leaving=lambda: leaving) as address,
        aiohttp.ClientSession() as session,
    ):
        for path in pages:
            for leaving in (False, True):
                async with session.get(f"http://{address}{path}") as answer:
                    assert await answer.text() == "hello"
                    assert answer.headers.get("Connection") == ("close" if leaving else None)


async def test_server_stop_ends_a_request_that_takes_longer_than_the_drain_limit():
    started = asyncio.Event()

    async def stuck(request: web.Request) -> web.StreamResponse:
        started.set()
        return await asyncio.Event().wait() or web.Response()

    async with serving("pages", ANY_PORT, {"/": stuck}, limits=Limits(drain=0.01)) as address:
        request = asyncio.create_task(fetch(address, "127.0.0.1"))
        await started.wait()
    with pytest.raises(aiohttp.ClientError):
        await request


LONG = 30.0

routes = web.RouteTableDef()


@routes.get("/hello/{name}")
async def greet(request: web.Request) -> web.Response:
    return web.Response(text=f"hello {request.match_info['name']}")


@routes.post("/echo")
async def echo(request: web.Request) -> web.Response:
    return web.Response(body=await request.read())


class Callbacks:
    """Manager whose operators have HTTP handlers."""

    def __init__(self) -> None:
        metrics, rng = Metrics(), random.Random(1)
        transport = Transport(ScriptedWire(), metrics=metrics, rng=rng, user_agent="test")
        self.manager = Manager(
            transport, program=Program("test", "0"), metrics=metrics, rng=rng, identity="test"
        )
        self.stop = asyncio.Event()

    @asynccontextmanager
    async def running(self, server: HttpServer, *more: web.RouteDef) -> AsyncIterator[str]:
        """Run the manager with routes on a separate server; yield the server's address."""
        self.manager.add_routes([*more, *routes], server=server)
        with capture_logs() as lines:
            running = asyncio.create_task(self.manager.run(self.stop))
            try:
                yield await eventually_async(partial(served_address, lines))
            finally:
                self.stop.set()
                await running


async def served_address(lines: LogLines) -> str:
    """Return the first address that the log lines report as served."""
    return str(next(line for line in lines if line["event"] == "serving")["address"])


async def answered(url: str, data: bytes | io.BytesIO | None = None) -> tuple[int, str]:
    method = "GET" if data is None else "POST"
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, data=data, ssl=trusting()) as answer,
    ):
        return answer.status, await answer.text()


@pytest.mark.parametrize(
    ("added", "problem"),
    [
        ([web.get("/metrics", greet)], "cannot serve pages: GET /metrics is registered twice"),
        ([web.get("metrics", greet)], "path should be started with /"),
        ([web.get("/{name", greet)], "Invalid path"),
    ],
    ids=["twice", "relative", "malformed"],
)
async def test_server_adds_routes_after_its_start_unless_a_route_is_invalid(
    added: list[web.RouteDef], problem: str
):
    async with serve("pages", ANY_PORT, [web.get("/metrics", greet)]) as server:
        assert (await answered(f"http://{server.address}/hello/ann"))[0] == 404
        await server.add_routes(routes)
        with pytest.raises(CannotServe, match=problem):
            await server.add_routes(added)
        assert await answered(f"http://{server.address}/hello/ann") == (200, "hello ann")
        assert await answered(f"http://{server.address}/echo", b"text") == (200, "text")


async def test_server_answers_413_when_a_handler_reads_a_body_of_more_than_1_mib():
    async with serve("pages", ANY_PORT, routes) as server:
        url = f"http://{server.address}/echo"
        assert (await answered(url, io.BytesIO(bytes(1024 * 1024))))[0] == 200
        assert (await answered(url, io.BytesIO(bytes(1024 * 1024 + 1))))[0] == 413


async def test_response_headers_contain_no_server_version_and_forbid_content_sniffing():
    async def streamed(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        return response

    for page in (greet, streamed):
        async with site(page) as address, client(address) as one:
            one.send(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer = await one.rest()
        assert b"\r\nX-Content-Type-Options: nosniff\r\n" in answer
        assert b"aiohttp" not in answer


@pytest.mark.each_loop
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_separate_server_refuses_connections_and_answers_running_requests_when_the_manager_stops(
    scheme: str, tmp_path: Path
):
    entered, answer = asyncio.Event(), asyncio.Event()

    async def waits(request: web.Request) -> web.Response:
        entered.set()
        await answer.wait()
        return web.Response(text="done")

    files = {}
    if scheme == "https":
        files = {"cert_file": tmp_path / "tls.crt", "key_file": tmp_path / "tls.key"}
        issued = trustme.CA().issue_cert("localhost")
        issued.cert_chain_pems[0].write_to_path(str(files["cert_file"]))
        issued.private_key_pem.write_to_path(str(files["key_file"]))
    callbacks = Callbacks()
    server = HttpServer(name="callbacks", address=ANY_PORT, limits=Limits(drain=LONG), **files)
    async with callbacks.running(server, web.get("/wait", waits)) as address:
        assert await answered(f"{scheme}://{address}/hello/ann") == (200, "hello ann")
        waiting = asyncio.create_task(answered(f"{scheme}://{address}/wait"))
        await entered.wait()
        callbacks.stop.set()
        await eventually_async(lambda: refuses(BindAddress(ANY_PORT.host, int(address.rpartition(":")[2]))))
        answer.set()
        assert await waiting == (200, "done")
    assert callbacks.manager.certificates.keys() == ({"callbacks"} if files else set())


async def test_http_server_without_an_address_serves_nothing(log_lines: LogLines):
    callbacks = Callbacks()
    callbacks.manager.add_routes(routes, server=HttpServer(name="callbacks", address=None))

    async def stop() -> None:
        callbacks.stop.set()

    callbacks.manager.add(Runnable("stop", stop))  # it runs after the start of all servers
    await callbacks.manager.run(callbacks.stop)
    assert [line for line in log_lines if line["event"] == "serving"] == []


async def test_manager_cannot_start_when_the_port_of_a_server_is_in_use():
    async with serve("pages", ANY_PORT, routes) as taken:
        callbacks = Callbacks()
        server = HttpServer(name="callbacks", address=taken.address)
        callbacks.manager.add_routes(routes, server=server)
        told = f"cannot serve callbacks on {taken.address}: Address already in use"
        with pytest.raises(CannotStart, match=told):
            await callbacks.manager.run(callbacks.stop)


def test_http_server_requires_certificate_and_key_together():
    with pytest.raises(ValueError, match="the server of callbacks needs both cert_file and key_file"):
        HttpServer(name="callbacks", address=None, cert_file=Path("tls.crt"))


CANNOT_ASK = Reply.status(403, "Forbidden", "the manager may not ask")


async def secret_page(request: web.Request) -> web.StreamResponse:
    return web.Response(text="secret")


@pytest.fixture
def wire() -> ScriptedWire:
    return api_server()


@pytest.fixture
def access(wire: ScriptedWire) -> Access:
    return access_by(wire)


@pytest.fixture
async def guarded_site(serve_pages: ServePages, access: Access) -> Site:
    return await serve_pages({"/metrics": guarded(secret_page, access)})


async def get(
    guarded_site: Site, headers: Headers, *, method: str = "GET"
) -> tuple[int, str, Mapping[str, str]]:
    answer = await guarded_site.get("/metrics", method=method, headers=headers)
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
async def test_guarded_page_is_served_only_to_users_with_permission_for_the_method(
    guarded_site: Site, wire: ScriptedWire, header: str, method: str, status: int, text: str
):
    found, answered, headers = await get(guarded_site, {"Authorization": header}, method=method)
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
        [("Authorization", "Bearer ")],
        [("Authorization", "Basic YW5uOnRva2Vu")],
        [("Authorization", "Bearer ann-token more")],
        [("Authorization", "Bearer ännchen-token")],
        [("Authorization", "Bearer ann-token"), ("Authorization", "Bearer ann-token")],
    ],
)
async def test_guarded_page_answers_401_without_a_review_when_the_token_is_missing_or_malformed(
    guarded_site: Site, wire: ScriptedWire, headers: list[tuple[str, str]]
):
    status, text, answered = await get(guarded_site, headers)
    assert (status, text) == (401, "Unauthorized\n")
    assert answered["WWW-Authenticate"] == "Bearer"
    assert wire.requests == []


async def test_guarded_page_answers_429_when_too_many_token_reviews_wait(
    guarded_site: Site, wire: ScriptedWire
):
    wire.on("POST", TOKENS, Delayed(0.2, Reply.json({"status": {}}, status=201)))
    with capture_logs() as lines:
        answers = await asyncio.gather(
            *(get(guarded_site, bearer(f"junk-{each}")) for each in range(WAITING + 5))
        )
    assert Counter(status for status, _, _ in answers) == {401: WAITING, 429: 5}
    assert {answered.get("Retry-After") for status, _, answered in answers if status == 429} == {"1"}
    assert {line["log_level"] for line in lines} <= {"debug"}


async def test_guarded_page_answers_429_when_its_handler_raises_a_too_many_questions_error(
    serve_pages: ServePages, access: Access
):
    async def asks_too_much(_: web.Request) -> web.StreamResponse:
        raise TooManyQuestions("too many access reviews wait already")

    pages = await serve_pages({"/metrics": guarded(asks_too_much, access)})
    assert (await get(pages, bearer("ann-token")))[0] == 429


@pytest.mark.parametrize("fails", [TOKENS, RIGHTS])
async def test_guarded_page_answers_500_and_logs_one_warning_while_token_or_access_reviews_fail(
    guarded_site: Site, wire: ScriptedWire, fails: str
):
    wire.on("POST", fails, CANNOT_ASK)
    with capture_logs() as lines:
        for _ in range(3):
            status, text, _ = await get(guarded_site, bearer("ann-token"))
            expected = "Authentication" if fails == TOKENS else "Authorization for user ann"
            assert (status, text) == (500, f"{expected} failed\n")
        serve_reviews(wire)
        assert (await get(guarded_site, bearer("ann-token")))[0] == 200
    told = [(line["log_level"], line.get("error")) for line in lines if line["log_level"] != "debug"]
    assert told == [("warning", "the manager may not ask"), ("info", None)]


@pytest.mark.parametrize("fails", [TOKENS, RIGHTS])
async def test_guarded_page_logs_no_recovery_and_few_lines_while_reviews_of_some_requests_fail(
    guarded_site: Site, wire: ScriptedWire, fails: str
):
    assert (await get(guarded_site, bearer("ann-token")))[0] == 200
    wire.on("POST", fails, CANNOT_ASK)
    failing, expired = "x" if fails == TOKENS else "bob-token", "eyJhbGciOiJ4In0.eyJleHAiOiAxfQ."
    assert claims_of(expired).have_expired
    with capture_logs() as lines:
        for number in range(12):
            assert (await get(guarded_site, bearer(failing)))[0] == 500
            for token in ("ann-token", expired, *([] if fails == TOKENS else [f"x-{number}"])):
                await get(guarded_site, bearer(token))
    assert [line["log_level"] for line in lines if line["log_level"] != "debug"] == ["warning"]


async def test_guarded_page_limits_its_log_lines_when_reviews_fail_and_succeed_again_and_again(
    guarded_site: Site, wire: ScriptedWire
):
    with capture_logs() as lines:
        for number in range(12):
            wire.on("POST", TOKENS, CANNOT_ASK)
            assert (await get(guarded_site, bearer("x")))[0] == 500
            serve_reviews(wire)
            assert (await get(guarded_site, bearer(f"ann-{number}")))[0] == 200
    assert 2 <= sum(line["log_level"] != "debug" for line in lines) < 10


async def test_guarded_page_never_logs_a_token(guarded_site: Site, wire: ScriptedWire):
    with capture_logs() as lines:
        for token in ("ann-token", "bob-token", "whose-token"):
            await get(guarded_site, bearer(token))
        wire.on("POST", TOKENS, CANNOT_ASK)
        await get(guarded_site, bearer("other-token"))
    assert lines
    assert "-token" not in str(lines)
