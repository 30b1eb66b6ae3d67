"""Webhook server of a manager: when it runs, what it logs, and whether the API server can call it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import urlsplit

import pytest
from structlog.testing import capture_logs
from yarl import URL

from apis.cache.v1.memcached import Memcached
from controllers.main import PROGRAM
from manager import webhook
from manager.cli import webhooks
from manager.cli.assembly import assembled
from manager.cli.webhooks import AGAIN_EVERY, NotCalled, certificate_way, reached_address
from manager.kube.config import IN_CLUSTER, ClusterConfig
from manager.operator import AnyOperator
from manager.settings import SettingsError, SettingValues
from manager.tls.served import ClientAuthorities
from manager.util.address import BindAddress
from manager.webhook import AdmissionRequest
from tests.support.certificates import Authority
from tests.support.kinds import GadgetOperator
from tests.support.scripted_wire import Reply, ScriptedWire, Sent
from tests.support.settings import load_settings
from tests.unit.cli.conftest import OPERATORS, Config, Plain
from tests.unit.conftest import LogLines
from tests.unit.connected import connected

AUTHORITY = Authority("of the API server")


class With(Plain):
    """Operator that has a webhook."""

    @webhook.validate_create
    async def accept(self, obj: Memcached, request: AdmissionRequest) -> None: ...


FILES = {"webhook_cert_path": "/certificates", "webhook_bind_address": ":9443"}


async def assemble(flags: dict[str, str], *, known: AnyOperator = With) -> tuple[bool, LogLines]:
    """Return whether the assembled manager serves webhooks, and its log lines about webhooks."""
    with capture_logs() as lines:
        async with assembled(
            PROGRAM, load_settings(flags), (), SettingValues(), (known, *OPERATORS)
        ) as manager:
            served = "webhook" in manager.health.readiness.names
            assert served == any(each.name == "webhooks" for each in manager._runnables)
    return served, [line for line in lines if line["logger_name"] == "webhook"]


@pytest.mark.parametrize(
    ("flags", "known", "outcome"),
    [
        ({}, With, (True, [])),
        ({"enable_webhooks": "false"}, With, (False, ["webhooks are off: the settings disable them"])),
        ({"webhook_bind_address": "0"}, With, (False, ["webhooks are off: the settings disable them"])),
        ({}, OPERATORS[0], (False, [])),
    ],
    ids=["a disabled operator", "off", "no address", "no webhook"],
)
async def test_webhooks_are_served_only_when_enabled_and_declared_by_an_operator(
    wire: ScriptedWire, flags: dict[str, str], known: AnyOperator, outcome: tuple[bool, list[str]]
):
    served, lines = await assemble({**FILES, **flags}, known=known)
    assert (served, [line["event"] for line in lines]) == outcome


async def test_webhooks_are_off_and_a_hint_is_logged_when_the_api_server_is_remote(wire: ScriptedWire):
    served, [line] = await assemble({})
    assert not served
    assert line["reason"] == "the API server https://api.example.com is not on this machine"
    assert "--webhook-url" in line["hint"]
    assert [each.path for each in wire.requests] == ["/version"]


@pytest.mark.parametrize(
    ("flags", "warned"),
    [
        ({"webhook_url": "https://dev.example.test:9443"}, True),
        ({"webhook_cert_path": "/certificates"}, True),
        ({"webhook_url": "https://127.0.0.1:9443"}, False),
        ({"webhook_url": "https://localhost:9443"}, False),
        ({"webhook_url": "https://dev.example.test:9443", "webhook_bind_address": "127.0.0.1:9443"}, False),
    ],
)
async def test_assembly_warns_when_webhook_flags_prevent_calls_by_the_api_server(
    wire: ScriptedWire, flags: dict[str, str], warned: bool, tmp_path: Path
):
    served, told = await assemble({"webhook_local_path": str(tmp_path), **flags})
    assert served
    assert ["give --webhook-bind-address=:9443" in line["hint"] for line in told] == [True] * warned


def reach(monkeypatch: pytest.MonkeyPatch, *problems: NotCalled) -> None:
    """Let the search for a reachable address raise each of `problems` once, and then succeed."""
    left = iter(problems)

    async def reached(*_: object) -> tuple[BindAddress, str]:
        if (problem := next(left, None)) is not None:
            raise problem
        return BindAddress("127.0.0.1", 19443), "https://127.0.0.1:19443"

    monkeypatch.setattr(webhooks, "reached_address", reached)


async def test_webhooks_are_served_and_no_warning_is_logged_when_the_api_server_can_reach_them(
    wire: ScriptedWire, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    reach(monkeypatch)
    assert await assemble({"webhook_local_path": str(tmp_path)}) == (True, [])


@pytest.mark.virtual_time
async def test_webhooks_start_when_a_repeated_check_shows_that_the_api_server_can_reach_them(
    wire: ScriptedWire, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, log_lines: LogLines
):
    reach(monkeypatch, *[NotCalled("the API server has called no webhook within 5 s", passing=True)] * 3)
    settings = load_settings({"webhook_local_path": str(tmp_path)})
    async with assembled(PROGRAM, settings, (), SettingValues(), (With,)) as manager:
        assert "webhook" not in manager.health.readiness.names
        later = {each.name: each for each in manager._runnables}
        assert later["webhook-certificates"].leader_only
        serving = asyncio.create_task(later["webhooks"].run())
        await asyncio.sleep(2 * AGAIN_EVERY + 1)
        assert "webhook" not in manager.health.readiness.names
        await asyncio.sleep(AGAIN_EVERY)
        assert "no certificate" in str(manager.health.readiness.problem("webhook"))
        serving.cancel()
        await asyncio.wait([serving])
    told = [line for line in log_lines if "webhooks" in line["event"]]
    assert [line["log_level"] for line in told] == ["warning", "debug", "debug", "info"]
    assert told[0]["hint"] == "the manager tests again later"


@pytest.mark.virtual_time
async def test_webhooks_stay_off_when_the_api_server_cannot_reach_them(
    wire: ScriptedWire, monkeypatch: pytest.MonkeyPatch, log_lines: LogLines
):
    reach(monkeypatch, *(NotCalled("it may run in a container", passing=each) for each in (True, False)))
    async with assembled(PROGRAM, load_settings({}), (), SettingValues(), (With,)) as manager:
        later = {each.name: each for each in manager._runnables}
        await later["webhooks"].run()
        assert "webhook" not in manager.health.readiness.names
    assert "--webhook-url" in log_lines[-1]["hint"]


BROKEN = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "ca.crt cannot be read: No such file"),
        (b"hello", "ca.crt has no certificate of an authority"),
        (b"", "ca.crt has no certificate of an authority"),
        (b"\xff\xfeh\0", "ca.crt has no certificate of an authority"),
        (ssl.PEM_cert_to_DER_cert(AUTHORITY.pem.decode()), "ca.crt has no certificate of an authority"),
        (AUTHORITY.user("api-server")[0], "ca.crt has no certificate of an authority"),
        (AUTHORITY.pem + BROKEN, "ca.crt has no certificate of an authority in PEM, or a broken one"),
    ],
    ids=["missing", "text", "empty", "binary", "DER", "of a client", "one of two is broken"],
)
async def test_assembly_refuses_an_invalid_webhook_client_ca_file(
    wire: ScriptedWire, tmp_path: Path, content: bytes | None, told: str
):
    file = tmp_path / "ca.crt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError, match=f"^--webhook-client-ca-file: .*{told}"):
        await assemble({**FILES, "webhook_client_ca_file": str(file)})


@pytest.mark.parametrize(("operator", "required"), [(With, True), (GadgetOperator, False)])
async def test_webhook_client_ca_file_makes_client_certificates_required_unless_a_kind_has_conversions(
    wire: ScriptedWire, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, operator: AnyOperator, required: bool
):
    made = Mock(wraps=ClientAuthorities)
    monkeypatch.setattr(webhooks, "ClientAuthorities", made)
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.pem)
    flags = {**FILES, "webhook_client_ca_file": str(tmp_path / "ca.crt")}
    assert await assemble(flags, known=operator) == (True, [])
    made.assert_called_once_with(tmp_path / "ca.crt", required=required)


@pytest.mark.parametrize(
    ("flags", "source", "way"),
    [
        ({}, "kubeconfig k", None),
        ({}, IN_CLUSTER, "secret"),
        (FILES, IN_CLUSTER, "files"),
        ({"webhook_url": "https://localhost:9443"}, "kubeconfig k", "local"),
        ({"webhook_certificates": "secret"}, "kubeconfig k", "secret"),
        ({"webhook_certificates": "local", "webhook_url": "https://localhost:9443"}, IN_CLUSTER, "local"),
    ],
)
def test_webhook_certificates_setting_auto_becomes_files_or_local_or_secret_or_none(
    flags: dict[str, str], source: str, way: str | None
):
    config: Any = Config(source)
    assert certificate_way(load_settings(flags), config) == way


CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class Server:
    """API server that can, or cannot, call webhooks on this machine."""

    def __init__(self, *, calls: bool = True, allowed: bool = True, says: str = "") -> None:
        self.wire = ScriptedWire()
        self._calls = calls
        self._says = says or "failed calling webhook"
        self._url = ""
        self.wire.on("POST", REVIEWS, Reply.json({"status": {"allowed": allowed}}))
        self.wire.on("POST", CONFIGURATIONS, self._register)
        self.wire.on("DELETE", f"{CONFIGURATIONS}/*", Reply.json({}))
        self.wire.on("POST", CONFIG_MAPS, self._create)

    def _register(self, request: Sent) -> Reply:
        [webhook] = request.json()["webhooks"]
        self._url = webhook["clientConfig"]["url"]
        return Reply.json({})

    async def _create(self, request: Sent) -> Reply:
        assert request.query["dryRun"] == "All"
        if self._calls:
            at = urlsplit(self._url)
            _, writer = await asyncio.open_connection(at.hostname, at.port)
            writer.write(b"\x16\x03\x01")
            await writer.drain()
            writer.close()
        return Reply.status(500, "InternalError", self._says)


async def tried(server: Server, flags: dict[str, str], at: str = "https://127.0.0.1:6443") -> tuple[str, str]:
    transport = connected(server.wire).transport
    no_credentials: Any = None
    config = ClusterConfig(server=URL(at), source="kubeconfig k", credentials=no_credentials, tls=None)
    address, url = await reached_address(load_settings(flags), transport, config, PROGRAM)
    return str(address), url


def left(server: Server) -> int:
    """Return the number of webhook configurations that remain on the server."""
    return len(server.wire.sent("POST", CONFIGURATIONS)) - len(server.wire.sent("DELETE"))


async def test_reached_address_returns_a_free_local_port_that_the_api_server_has_called():
    server = Server()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address, url = await tried(server, {})
        assert url == f"https://{address}"
        assert address.startswith("127.0.0.1:")
        assert not address.endswith(f":{taken.getsockname()[1]}")
    assert left(server) == 0


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("127.0.0.1:19443", "https://127.0.0.1:19443"),
        (":19443", "https://127.0.0.1:19443"),
        ("0.0.0.0:19443", "https://127.0.0.1:19443"),
        ("[::1]:19443", "https://[::1]:19443"),
    ],
)
async def test_reached_address_returns_the_bind_address_from_the_settings(given: str, url: str):
    assert await tried(Server(), {"webhook_bind_address": given}) == (given, url)


@pytest.mark.parametrize(
    ("says", "problem", "is_temporary"),
    [
        ('failed calling webhook "reach": connection refused', "it may run in a container$", False),
        ("", r"has called no webhook within 0\.05 s$", True),
        ("context deadline exceeded", r"has called no webhook within 0\.05 s$", True),
    ],
)
async def test_reached_address_raises_not_called_error_when_the_api_server_does_not_call_the_webhook(
    monkeypatch: pytest.MonkeyPatch, says: str, problem: str, is_temporary: bool
):
    monkeypatch.setattr(webhooks, "_PATIENCE", 0.05)
    server = Server(calls=False, says=says)
    with pytest.raises(NotCalled, match=problem) as error:
        await tried(server, {})
    assert error.value.passing is is_temporary
    assert left(server) == 0


@pytest.mark.parametrize(
    ("at", "problem", "asked"),
    [
        ("https://127.0.0.1:6443", "^these credentials may not register webhooks$", [REVIEWS]),
        ("https://cluster.test:6443", r"server https://cluster\.test:6443.* is not on this machine$", []),
    ],
)
async def test_reached_address_registers_no_webhook_without_rights_or_for_a_remote_server(
    at: str, problem: str, asked: list[str]
):
    server = Server(allowed=False)
    with pytest.raises(NotCalled, match=problem):
        await tried(server, {}, at)
    assert [each.path for each in server.wire.requests] == asked
