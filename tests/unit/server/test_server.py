"""The HTTP server: certificates, addresses, routes of operators, and pages that require a token."""

from __future__ import annotations

import asyncio
import io
import random
import socket
import ssl
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import aiohttp
import pytest
import trustme
from aiohttp import web
from structlog.testing import capture_logs

from manager.kube.transport import Transport
from manager.process.manager import Manager, Runnable
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
from tests.support.scripted_wire import Reply, ScriptedWire, Sent
from tests.support.served_pages import Headers, ServePages, Site, serving
from tests.unit.conftest import LogLines
from tests.unit.server.test_connection import asked, head, hello, refuses

ANY_PORT = BindAddress("127.0.0.1", 0)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def secret(authority: trustme.CA, tmp_path: Path) -> Secret:
    return Secret(authority, tmp_path)


class Secret:
    """Folder in which the kubelet mounts a Secret; an update replaces the link `..data`."""

    def __init__(self, authority: trustme.CA, folder: Path) -> None:
        self._authority, self._folder = authority, folder
        self.files = {"cert_file": folder / "..data/tls.crt", "key_file": folder / "..data/tls.key"}
        self.renew()

    def renew(self) -> None:
        version, link = Path(tempfile.mkdtemp(dir=self._folder)), self._folder / "..data_tmp"
        issued = self._authority.issue_cert("localhost", "127.0.0.1")
        issued.cert_chain_pems[0].write_to_path(str(version / "tls.crt"))
        issued.private_key_pem.write_to_path(str(version / "tls.key"))
        link.symlink_to(version.name)
        link.replace(self._folder / "..data")


async def presented(address: BindAddress, context: ssl.SSLContext, name: str | None) -> bytes:
    """Return the certificate that the server sends on a new connection."""
    _, writer = await asyncio.open_connection("127.0.0.1", address.port, ssl=context, server_hostname=name)
    certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return certificate


# A client that is given an IP address sends no server name: Prometheus and the kubelet do so.
@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
@pytest.mark.each_loop
async def test_https_server_presents_a_renewed_certificate_and_keeps_open_connections(
    authority: trustme.CA, secret: Secret, name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(served, "RECHECK_INTERVAL", 0.01)
    certificate = ServedCertificate(CertificateFiles(*secret.files.values()))
    client = trusting(authority.cert_pem.bytes())
    async with serving("pages", ANY_PORT, {"/": hello}, certificate=certificate) as address:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", address.port, ssl=client, server_hostname=name
        )
        for _ in range(2):
            before = await presented(address, client, name)
            secret.renew()
            async with asyncio.timeout(10):
                while await presented(address, client, name) == before:
                    pass
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200 OK")
        writer.close()
        await writer.wait_closed()


async def answered(url: str, data: bytes | io.BytesIO | None = None) -> tuple[int, str]:
    method = "GET" if data is None else "POST"
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, data=data, ssl=trusting()) as answer,
    ):
        return answer.status, await answer.text()


@pytest.mark.parametrize("has_ipv6", [socket.has_dualstack_ipv6(), False])
async def test_serve_listens_on_every_interface_when_the_address_has_no_host(
    has_ipv6: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: has_ipv6)
    async with serving("pages", BindAddress("", 0), {"/": hello}) as address:
        for host in ("127.0.0.1", *(["[::1]"] if has_ipv6 else ())):
            assert await answered(f"http://{host}:{address.port}/") == (200, "hello")


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
        assert await answered(f"http://127.0.0.1:{address.port}/") == (200, "hello")
    [warning] = [line for line in log_lines if line["log_level"] == "warning"]
    assert warning["event"] == "address in use: using another port"
    assert (warning["address"], warning["flag"]) == (str(taken), "--console-bind-address")


async def test_server_port_can_be_used_again_immediately_after_the_stop():
    async with serving("pages", ANY_PORT, {"/": hello}) as address:
        await answered(f"http://{address}/")
    async with serving("pages", address, {"/": hello}):
        assert await answered(f"http://{address}/") == (200, "hello")


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
        request = asyncio.create_task(answered(f"http://{address}/"))
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


@pytest.fixture
def manager(transport: Transport, metrics: Metrics, rng: random.Random) -> Manager:
    return Manager(transport, program=Program("test", "0"), metrics=metrics, rng=rng, identity="test")


async def served_address(lines: LogLines) -> str:
    """Return the first address that the log lines report as served."""
    return str(next(line for line in lines if line["event"] == "serving")["address"])


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

    for page in (hello, streamed, greet):  # greet fails without a name
        answer = await asked(page, head("GET / HTTP/1.1"))
        assert b" 500 " in answer if page is greet else b" 200 " in answer
        assert b"\r\nX-Content-Type-Options: nosniff\r\n" in answer
        assert b"aiohttp" not in answer


@pytest.mark.each_loop
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_separate_server_refuses_connections_and_answers_running_requests_when_the_manager_stops(
    manager: Manager, scheme: str, secret: Secret, log_lines: LogLines
):
    entered, answer = asyncio.Event(), asyncio.Event()

    async def waits(request: web.Request) -> web.Response:
        entered.set()
        await answer.wait()
        return web.Response(text="done")

    files = secret.files if scheme == "https" else {}
    server = HttpServer(name="callbacks", address=ANY_PORT, limits=Limits(drain=LONG), **files)
    manager.add_routes([web.get("/wait", waits), *routes], server=server)
    assert manager.certificates.keys() == ({"callbacks"} if files else set())
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run(stop))
        address = await eventually_async(partial(served_address, log_lines))
        assert await answered(f"{scheme}://{address}/hello/ann") == (200, "hello ann")
        waiting = group.create_task(answered(f"{scheme}://{address}/wait"))
        await entered.wait()
        stop.set()
        await eventually_async(lambda: refuses(BindAddress(ANY_PORT.host, int(address.rpartition(":")[2]))))
        answer.set()
    assert waiting.result() == (200, "done")


async def test_http_server_without_an_address_serves_nothing(manager: Manager, log_lines: LogLines):
    manager.add_routes(routes, server=HttpServer(name="callbacks", address=None))
    stop = asyncio.Event()

    async def end() -> None:
        stop.set()

    manager.add(Runnable("end", end))  # it runs after the start of all servers
    await manager.run(stop)
    assert [line for line in log_lines if line["event"] == "serving"] == []


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
    refused = asyncio.Event()

    async def review_late(_: Sent) -> Reply:
        await refused.wait()
        return Reply.json({"status": {}}, status=201)

    wire.on("POST", TOKENS, review_late)
    with capture_logs() as lines:
        asked = [get(guarded_site, bearer(f"junk-{each}")) for each in range(WAITING + 5)]
        answers = []
        for each in asyncio.as_completed(asked):
            answers.append(await each)
            if len(answers) == 5:
                refused.set()
    assert [status for status, _, _ in answers] == [429] * 5 + [401] * WAITING
    assert {answered.get("Retry-After") for _, _, answered in answers[:5]} == {"1"}
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
