from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
from aiohttp import web
from structlog.testing import capture_logs

from controllers.main import PROGRAM
from manager.cli import assembly
from manager.cli.assembly import assembled
from manager.cli.failure import ServerUnusable
from manager.cli.settings import Settings
from manager.controller import ControllerOptions
from manager.kube.errors import Unreachable
from manager.operator import AnyOperator
from manager.operator.child_progress import Rollouts
from manager.process.manager import CannotStart, Lifespan, Manager
from manager.server.server import CannotServe
from manager.settings import SettingValues
from tests.support.certificates import trusting
from tests.support.scripted_wire import LostBefore, Reply, ScriptedWire, Sent, Stall, Unreached
from tests.support.settings import load_settings
from tests.unit.cli.conftest import OPERATORS, VERSION_ANSWER, Plain
from tests.unit.conftest import LogLines
from tests.unit.election.conftest import PREFIX, lease_server

PAGES = {
    "metrics_bind_address": "metrics",
    "health_probe_bind_address": "health",
    "console_bind_address": "console",
}
"""Name of the server that each address setting starts, in order of the start."""


@pytest.fixture(autouse=True)
def set_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which each operator's name is added at its setup."""
    seen: list[str] = []
    monkeypatch.setattr(Plain, "set_up", seen)
    return seen


def started(flags: dict[str, str], operators: Sequence[AnyOperator] = OPERATORS) -> Any:
    return assembled(PROGRAM, load_settings(flags), operators, SettingValues())


async def assemble(flags: dict[str, str], then: Callable[[Any], Any] = lambda manager: None) -> Any:
    async with started(flags) as manager:
        return then(manager)


@asynccontextmanager
async def serving(
    flags: dict[str, str], operators: Sequence[AnyOperator] = OPERATORS
) -> AsyncIterator[LogLines]:
    """Serve the pages of a manager; yield the log lines with the addresses."""
    with capture_logs() as lines:
        async with started(flags, operators) as manager, AsyncExitStack() as stack:
            for lifespan in manager._lifespans:
                await stack.enter_async_context(lifespan.enter())
            yield [line for line in lines if line["event"] == "serving"]


@pytest.mark.virtual_time
async def test_assembly_sets_max_concurrent_reconciles_and_max_concurrent_rollouts_of_each_operator(
    wire: ScriptedWire, set_up: list[str], monkeypatch: pytest.MonkeyPatch
):
    limits: list[int | None] = []
    monkeypatch.setattr(Rollouts, "limit", lambda self, most: limits.append(most))
    monkeypatch.setattr(OPERATORS[2], "options", ControllerOptions(max_concurrent_rollouts=7))
    # The manager works without the right to read the version.
    wire.on("GET", "/version", Reply.status(403, "Forbidden"))

    def concurrency(manager: Manager) -> list[int]:
        return [each.options.max_concurrent_reconciles for each in manager.controllers]

    default = ControllerOptions().max_concurrent_reconciles
    flags = {"concurrency": "foo=3", "max_concurrent_rollouts": "foo=3"}
    assert await assemble(flags, concurrency) == [default, 3, default]
    assert set_up == ["memcached", "foo", "pet"]
    assert limits == [None, 3, 7]
    limits.clear()
    await assemble({"max_concurrent_rollouts": "memcached=2,pet=0"})
    assert limits == [2, None, None]


@pytest.mark.virtual_time
async def test_manager_uses_leader_election_only_with_flag_leader_elect_or_flag_shards(wire: ScriptedWire):

    def takes_part(manager: Any) -> bool:
        return "leader-election" in manager.health.readiness.names

    assert not await assemble({}, takes_part)
    assert await assemble({"leader_elect": "true"}, takes_part)
    assert await assemble({"shards": "4"}, takes_part)


@pytest.mark.virtual_time
@pytest.mark.parametrize("flag", [{"leader_elect": "true"}, {"shards": "4"}])
async def test_assembled_manager_sends_lease_requests_on_separate_connections(
    wire: ScriptedWire, monkeypatch: pytest.MonkeyPatch, flag: dict[str, str]
):
    lane, stop = ScriptedWire(), asyncio.Event()
    wires = [wire, lane]
    monkeypatch.setattr(assembly, "HttpWire", lambda *_, **__: wires.pop(0))
    async with lease_server() as leases, started({**flag, "console_bind_address": "0"}, []) as manager:
        leases.serve(lane)
        running = asyncio.create_task(manager.run(stop))
        await asyncio.sleep(30)
        assert lane.sent("PUT", f"{PREFIX}*")
        assert not [sent for sent in wire.requests if sent.path.startswith(PREFIX)]
        stop.set()
        await running
    assert wire.closed
    assert lane.closed


async def test_assembly_serves_health_metrics_and_console_unless_their_address_is_0(wire: ScriptedWire):
    flags = dict.fromkeys(PAGES, "127.0.0.1:0")
    for off in (None, *PAGES):
        flags |= {} if off is None else {off: "0"}
        async with serving(flags) as lines:
            served = [line["what"] for line in lines]
        assert served == [name for flag, name in PAGES.items() if flags[flag] != "0"]


async def metrics_answer(
    flags: dict[str, str],
    *,
    server: str = "metrics",
    path: str = "/metrics",
    operators: Sequence[AnyOperator] = OPERATORS,
) -> tuple[str, int]:
    """Return the URL scheme of a server's page, and its HTTP status for a client without a token."""
    flags = {"console_bind_address": "0", f"{server}_bind_address": "127.0.0.1:0", **flags}
    async with serving(flags, operators) as [line], aiohttp.ClientSession() as session:
        for scheme in ("https", "http"):
            with suppress(aiohttp.ClientError):
                async with session.get(f"{scheme}://{line['address']}{path}", ssl=trusting()) as answer:
                    return scheme, answer.status
    raise AssertionError("no server starts")


async def test_console_serves_objects_without_a_token_only_outside_of_a_pod(
    wire: ScriptedWire, monkeypatch: pytest.MonkeyPatch
):
    wire.on("GET", "/apis/cache.example.com/v1", Reply.status(404, "NotFound"))
    path = "/api/objects/pets.petstore.example.com/default/rex"
    assert await metrics_answer({}, server="console", path=path) == ("http", 404)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert await metrics_answer({}, server="console", path=path) == ("https", 401)


async def test_metrics_server_uses_the_certificate_of_metrics_cert_path(wire: ScriptedWire, tmp_path: Path):
    flags = {"metrics_secure": "true", "metrics_cert_path": str(tmp_path), "metrics_cert_key": "my.key"}
    with pytest.raises(CannotServe, match=rf"{tmp_path}/tls.crt \(--metrics-cert-path\) cannot be read: No"):
        await metrics_answer(flags)
    issued = trustme.CA().issue_cert("localhost")
    issued.cert_chain_pems[0].write_to_path(str(tmp_path / "tls.crt"))
    issued.private_key_pem.write_to_path(str(tmp_path / "my.key"))
    assert await metrics_answer(flags) == ("https", 401)


def distrusted(error: ssl.SSLError) -> Callable[[Sent], Reply]:
    """Return a step that fails with a TLS error."""

    def step(_: Sent) -> Reply:
        raise Unreachable("cannot connect (scripted)") from error

    return step


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (distrusted(ssl.SSLCertVerificationError("self-signed")), "does not answer: cannot connect"),
        (Reply.status(401, "Unauthorized"), "does not accept the credentials: "),
        (Reply.status(400, "BadRequest"), "does not answer like an API server: "),
        (Reply.status(404, "NotFound"), "does not answer like an API server: "),
        (Reply.json([]), "does not answer like an API server: "),
        (Reply.json({}), "does not answer like an API server: "),
    ],
)
async def test_assembly_fails_soon_after_a_permanent_error_of_the_api_server(
    wire: ScriptedWire, set_up: list[str], step: Any, expected: str
):
    for earlier in ([], [Unreached()]):
        wire.on("GET", "/version", *earlier, step)
        with pytest.raises(ServerUnusable) as error:
            await assemble({})
        assert str(error.value).startswith(
            f"the API server https://api.example.com (kubeconfig k) {expected}"
        )
    assert asyncio.get_running_loop().time() < 5
    assert set_up == []
    assert wire.closed


UNAVAILABLE = {
    "refused": Unreached(),
    "silent": Stall(),
    "hangs up": LostBefore(),
    "handshake": distrusted(ssl.SSLError("handshake failure")),
    "500": Reply.status(500, "InternalError"),
    "503": Reply.status(503, "ServiceUnavailable"),
    "429": Reply.status(429, "TooManyRequests", retry_after=1),
}


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("step", "flags"),
    [
        *((step, {}) for step in UNAVAILABLE.values()),
        (Unreached(), {"leader_elect": "true"}),
        (Unreached(), {"shards": "4"}),
    ],
    ids=[*UNAVAILABLE, "leader election", "shards"],
)
async def test_manager_is_live_but_not_ready_while_it_waits_for_the_api_server(
    wire: ScriptedWire, set_up: list[str], step: Any, flags: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    made: list[Manager] = []
    monkeypatch.setattr(assembly, "Manager", lambda *a, **b: made.append(Manager(*a, **b)) or made[0])
    wire.on("GET", "/version", step)
    loop = asyncio.get_running_loop()
    with capture_logs() as lines:
        assembling = asyncio.create_task(
            assemble(flags, lambda manager: manager.health.readiness.problem("start"))
        )
        # One log line soon, and no further lines for some time.
        await asyncio.sleep(6)
        [line] = lines
        assert line["log_level"] == "warning"
        assert line["event"] == "waiting for the API server"
        assert line["error"].startswith("the API server https://api.example.com (kubeconfig k) ")
        await asyncio.sleep(200)
        assert lines == [line]
        health = made[0].health
        assert health.liveness.report().healthy
        assert health.readiness.problem("start") == line["error"]
        await asyncio.sleep(3_600)
        assert not assembling.done()
        assert len(lines) <= 3_600 / 300 + 1
        assert set_up == []
        wire.on("GET", "/version", VERSION_ANSWER)
        began = loop.time()
        assert await assembling is None
    assert loop.time() - began < 20
    assert [each["event"] for each in lines[-3:] if each["event"] == "the API server answers"]
    assert set_up


@pytest.mark.virtual_time
async def test_assembly_closes_the_connection_when_an_operator_setup_fails(wire: ScriptedWire):
    class Broken(Plain):
        def setup(self) -> None:
            raise LookupError("nothing there")

    with pytest.raises(LookupError):
        async with started({}, [Broken]):
            pytest.fail("the manager was assembled")
    assert wire.closed


async def test_assembled_manager_uses_free_ports_when_the_default_ports_are_in_use(
    wire: ScriptedWire, monkeypatch: pytest.MonkeyPatch, log_lines: LogLines
):
    with ExitStack() as stack:
        for name in ("console", "metrics", "health_probe"):
            taken = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            setting = getattr(Settings, f"{name}_bind_address")
            monkeypatch.delenv(f"OPERATOR_MANAGER_{name.upper()}_BIND_ADDRESS", raising=False)
            monkeypatch.setattr(setting, "default", f"127.0.0.1:{taken.getsockname()[1]}")
        async with started({}, [Plain]) as manager:
            stop = asyncio.Event()
            running = asyncio.create_task(manager.run(stop))
            await asyncio.sleep(0.1)
            stop.set()
            await running
    moved = [line["flag"] for line in log_lines if "another port" in line["event"]]
    assert moved == [f"--{name}-bind-address" for name in ("metrics", "health-probe", "console")]


async def test_manager_starts_no_operator_lifespan_when_the_console_port_is_in_use(wire: ScriptedWire):
    opened: list[str] = []

    @asynccontextmanager
    async def connection() -> AsyncIterator[None]:
        opened.append("a connection")
        yield

    class Opener(Plain):
        def setup(self) -> None:
            self.manager.add(Lifespan(connection))

    with socket.create_server(("127.0.0.1", 0)) as taken:
        flags = {"console_bind_address": f"127.0.0.1:{taken.getsockname()[1]}"}
        async with started(flags, [Opener]) as manager:
            with pytest.raises(CannotStart, match="cannot serve console"):
                await manager.run(asyncio.Event())
    assert not opened


class Called(Plain):
    """Operator with an HTTP route for other programs."""

    def setup(self) -> None:
        self.manager.add_routes([web.get("/called", self.called)])

    async def called(self, request: web.Request) -> web.Response:
        return web.Response(text="thanks")


@pytest.mark.parametrize("path", ["/metrics", "/called"])
async def test_metrics_server_requires_a_token_only_when_metrics_secure_is_set(wire: ScriptedWire, path: str):
    assert await metrics_answer({}, path=path, operators=[Called]) == ("http", 200)
    assert await metrics_answer({}, path="/other", operators=[Called]) == ("http", 404)
    secure = {"metrics_secure": "true"}
    assert await metrics_answer(secure, path=path, operators=[Called]) == ("https", 401)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (
            {"namespaces": "nope,there,hidden"},
            "a namespace of --namespaces does not exist; the manager watches it",
        ),
        (dict.fromkeys(PAGES, "0"), "routes of operators are not served: --metrics-bind-address is 0"),
        ({}, "the console is not served: no installed package provides it"),
    ],
    ids=["a namespace that does not exist", "routes without a server", "no package with a console"],
)
async def test_assembly_warns_of_a_missing_namespace_and_of_routes_or_a_console_that_are_not_served(
    wire: ScriptedWire,
    monkeypatch: pytest.MonkeyPatch,
    log_lines: LogLines,
    flags: dict[str, str],
    expected: str,
):
    wire.on("GET", "/api/v1/namespaces/nope", Reply.status(404, "NotFound", 'namespaces "nope" not found'))
    wire.on("GET", "/api/v1/namespaces/there", Reply.json({"metadata": {"name": "there"}}))
    wire.on("GET", "/api/v1/namespaces/hidden", Reply.status(403, "Forbidden", "you may not"))
    if not flags:
        monkeypatch.setattr(assembly, "_CONSOLE", "operator_manager.no_console")
    async with started({"metrics_bind_address": "127.0.0.1:0", **flags}, [Called]):
        pass
    [warning] = [line["event"] for line in log_lines if line["log_level"] == "warning"]
    assert warning.startswith(expected)
