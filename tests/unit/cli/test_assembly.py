from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme

from controllers.main import PROGRAM
from manager.cli import assembly
from manager.cli.assembly import assembled
from manager.cli.failure import ServerUnusable
from manager.cli.settings import Settings
from manager.controller import ControllerOptions
from manager.http.server import CannotServe
from manager.kube.errors import ConfigError
from manager.manager import CannotStart, Manager
from manager.settings import SettingValues
from tests.support.certificates import trusting
from tests.support.scripted_wire import Reply, ScriptedWire, Unreached
from tests.support.settings import load_settings
from tests.unit.cli.conftest import OPERATORS, VERSION_ANSWER, Plain
from tests.unit.conftest import LogLines
from tests.unit.leader.lease_server import PREFIX, lease_server


@pytest.fixture(autouse=True)
def set_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the operators that were set up."""
    seen: list[str] = []
    monkeypatch.setattr(Plain, "set_up", seen)
    return seen


async def assemble(flags: dict[str, str], then: Callable[[Any], Any] = lambda manager: None) -> Any:
    async with assembled(PROGRAM, load_settings(flags), OPERATORS, SettingValues()) as manager:
        return then(manager)


@pytest.mark.virtual_time
async def test_every_operator_is_set_up_with_its_limit(wire: ScriptedWire, set_up: list[str]):

    def limits(manager: Manager) -> list[int]:
        return [each.options.max_concurrent_reconciles for each in manager.controllers]

    default = ControllerOptions().max_concurrent_reconciles
    assert await assemble({"concurrency": "foo=3"}, limits) == [default, 3, default]
    assert set_up == ["memcached", "foo", "pet"]


@pytest.mark.virtual_time
async def test_an_election_is_held_only_when_asked_for(wire: ScriptedWire):

    def takes_part(manager: Any) -> bool:
        return "leader-election" in manager.health.readiness.names

    assert not await assemble({}, takes_part)
    assert await assemble({"leader_elect": "true"}, takes_part)
    assert await assemble({"shards": "4"}, takes_part)


@pytest.mark.virtual_time
@pytest.mark.parametrize("flag", [{"leader_elect": "true"}, {"shards": "4"}])
async def test_the_lease_has_connections_of_its_own(
    wire: ScriptedWire, monkeypatch: pytest.MonkeyPatch, flag: dict[str, str]
):
    lane, stop = ScriptedWire(), asyncio.Event()
    wires = [wire, lane]
    monkeypatch.setattr(assembly, "HttpWire", lambda *_, **__: wires.pop(0))
    off = {f"{each}_bind_address": "0" for each in ("metrics", "health_probe", "console")}
    flags = {**flag, **off}
    async with (
        lease_server() as leases,
        assembled(PROGRAM, load_settings(flags), [], SettingValues()) as manager,
    ):
        leases.serve(lane)
        running = asyncio.create_task(manager.run(stop))
        await asyncio.sleep(30)
        assert lane.sent("PUT", f"{PREFIX}*")
        assert not [sent for sent in wire.requests if sent.path.startswith(PREFIX)]
        stop.set()
        await running
    assert wire.closed
    assert lane.closed


@pytest.mark.virtual_time
async def test_pages_that_are_off_are_not_served(wire: ScriptedWire):

    def pages(manager: Any) -> int:
        return len(manager._kept)

    off: dict[str, str] = {}
    for served, name in enumerate(("metrics", "health_probe", "console")):
        assert await assemble(off, pages) == 3 - served
        off[f"{name}_bind_address"] = "0"
    assert await assemble(off, pages) == 0


async def metrics_answer(
    flags: dict[str, str], *, server: str = "metrics", path: str = "/metrics"
) -> tuple[str, int]:
    """With which scheme /metrics, or another page, is served, and how it answers who has no token."""
    off = {f"{each}_bind_address": "0" for each in ("metrics", "health_probe", "console")}
    flags = {**off, f"{server}_bind_address": "127.0.0.1:0", **flags}
    started = assembled(PROGRAM, load_settings(flags), OPERATORS, SettingValues())
    async with started as manager, AsyncExitStack() as stack:
        address = await stack.enter_async_context(manager._kept[0].enter())
        session = await stack.enter_async_context(aiohttp.ClientSession())
        for scheme in ("https", "http"):
            with suppress(aiohttp.ClientError):
                async with session.get(f"{scheme}://{address}{path}", ssl=trusting()) as answer:
                    return scheme, answer.status
    raise AssertionError("it is not served")


async def test_metrics_are_for_everybody_unless_they_are_to_be_secure(wire: ScriptedWire):
    assert await metrics_answer({}) == ("http", 200)
    assert await metrics_answer({"metrics_secure": "true"}) == ("https", 401)


async def test_what_became_of_objects_is_for_everybody_on_a_persons_machine_and_for_whoever_may_in_a_pod(
    wire: ScriptedWire, monkeypatch: pytest.MonkeyPatch
):
    wire.on("GET", "/apis/cache.example.com/v1", Reply.status(404, "NotFound"))
    path = "/api/objects/pets.petstore.example.com/default/rex"
    assert await metrics_answer({}, server="console", path=path) == ("http", 404)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert await metrics_answer({}, server="console", path=path) == ("https", 401)


async def test_a_certificate_in_a_folder_is_served(wire: ScriptedWire, tmp_path: Path):
    flags = {"metrics_secure": "true", "metrics_cert_path": str(tmp_path), "metrics_cert_key": "my.key"}
    with pytest.raises(CannotServe, match=rf"{tmp_path}/tls.crt \(--metrics-cert-path\) cannot be read: No"):
        await metrics_answer(flags)
    issued = trustme.CA().issue_cert("localhost")
    issued.cert_chain_pems[0].write_to_path(str(tmp_path / "tls.crt"))
    issued.private_key_pem.write_to_path(str(tmp_path / "my.key"))
    assert await metrics_answer(flags) == ("https", 401)


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (Unreached(), "does not answer: "),
        (Reply.status(401, "Unauthorized"), "does not accept the credentials: "),
        (Reply.status(404, "NotFound"), "does not answer like an API server: "),
        (Reply.json([]), "does not answer like an API server: "),
        (Reply.json({}), "does not answer like an API server: "),
    ],
)
async def test_a_server_that_cannot_be_used_is_named_with_what_named_it(
    wire: ScriptedWire, set_up: list[str], step: Any, expected: str
):
    wire.on("GET", "/version", step)
    with pytest.raises(ServerUnusable) as error:
        await assemble({})
    assert str(error.value).startswith(f"the API server https://api.example.com (kubeconfig k) {expected}")
    assert set_up == []


@pytest.mark.virtual_time
async def test_a_server_that_comes_up_within_seconds_is_waited_for(wire: ScriptedWire, set_up: list[str]):
    wire.on("GET", "/version", Unreached(), Unreached(), VERSION_ANSWER)
    await assemble({})
    assert 0 < asyncio.get_running_loop().time() <= 5
    assert set_up


@pytest.mark.virtual_time
async def test_a_server_that_never_comes_up_is_given_up_within_seconds(wire: ScriptedWire):
    wire.on("GET", "/version", Unreached())
    with pytest.raises(ServerUnusable):
        await assemble({})
    assert asyncio.get_running_loop().time() <= 5


@pytest.mark.virtual_time
async def test_not_being_allowed_to_ask_for_the_version_is_no_hindrance(
    wire: ScriptedWire, set_up: list[str]
):
    wire.on("GET", "/version", Reply.status(403, "Forbidden"))
    await assemble({})
    assert len(set_up) == 3


async def test_no_configuration_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch):
    async def load_config(**_: object) -> None:
        raise ConfigError("no cluster to talk to")

    monkeypatch.setattr(assembly, "load_config", load_config)
    with pytest.raises(ConfigError, match="no cluster to talk to"):
        await assemble({})


@pytest.mark.virtual_time
async def test_an_operator_that_cannot_be_set_up_closes_the_connection(wire: ScriptedWire):
    class Broken(Plain):
        def setup(self) -> None:
            raise LookupError("nothing there")

    with pytest.raises(LookupError):
        async with assembled(PROGRAM, load_settings({}), [Broken], SettingValues()):
            pytest.fail("it was assembled")
    assert wire.closed


async def test_assembled_manager_takes_free_ports_where_the_default_ones_are_in_use(
    wire: ScriptedWire, monkeypatch: pytest.MonkeyPatch, log_lines: LogLines
):
    with ExitStack() as stack:
        for name in ("console", "metrics", "health_probe"):
            taken = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            setting = getattr(Settings, f"{name}_bind_address")
            monkeypatch.setattr(setting, "default", f"127.0.0.1:{taken.getsockname()[1]}")
        async with assembled(PROGRAM, load_settings({}), [Plain], SettingValues()) as manager:
            stop = asyncio.Event()
            running = asyncio.create_task(manager.run(stop))
            await asyncio.sleep(0.1)
            stop.set()
            await running
    moved = [line["event"] for line in log_lines if "another port" in line["event"]]
    assert [each.partition("; ")[2] for each in moved] == [
        f"--{name}-bind-address sets one" for name in ("metrics", "health-probe", "console")
    ]


async def test_a_port_of_the_console_that_is_in_use_is_found_before_an_operator_keeps_anything(
    wire: ScriptedWire,
):
    opened: list[str] = []

    @asynccontextmanager
    async def connection() -> AsyncIterator[None]:
        opened.append("a connection")
        yield

    class Keeps(Plain):
        def setup(self) -> None:
            self.manager.keep(connection)

    off = {f"{each}_bind_address": "0" for each in ("metrics", "health_probe")}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = load_settings({**off, "console_bind_address": f"127.0.0.1:{port}"})
        async with assembled(PROGRAM, settings, [Keeps], SettingValues()) as manager:
            with pytest.raises(CannotStart, match="cannot serve console"):
                await manager.run(asyncio.Event())
    assert not opened
