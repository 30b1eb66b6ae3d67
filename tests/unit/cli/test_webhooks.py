"""Webhook server of a manager: the conditions on which it runs, and the log lines about it."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from apis.cache.v1.memcached import Memcached
from controllers.main import PROGRAM
from manager import webhook
from manager.cli import webhooks
from manager.cli.assembly import assembled
from manager.cli.webhooks import AGAIN_EVERY, NotCalled, certificate_way
from manager.kube.config import IN_CLUSTER
from manager.operator import AnyOperator
from manager.settings import SettingsError, SettingValues
from manager.tls.served import ClientAuthorities
from manager.util.address import BindAddress
from manager.webhook import AdmissionRequest
from tests.support.certificates import Authority
from tests.support.kinds import GadgetOperator
from tests.support.scripted_wire import ScriptedWire
from tests.support.settings import load_settings
from tests.unit.cli.conftest import OPERATORS, Config, Plain
from tests.unit.conftest import LogLines

AUTHORITY = Authority("of the API server")

pytestmark = pytest.mark.virtual_time


class With(Plain):
    """Operator with a webhook."""

    @webhook.validate_create
    async def accept(self, obj: Memcached, request: AdmissionRequest) -> None: ...


FILES = {"webhook_cert_path": "/certificates", "webhook_bind_address": ":9443"}


async def assemble(flags: dict[str, str], *, known: AnyOperator = With) -> tuple[bool, list[str]]:
    """Return whether the manager serves webhooks, and its log lines about them."""
    with capture_logs() as lines:
        async with assembled(
            PROGRAM, load_settings(flags), (), SettingValues(), (known, *OPERATORS)
        ) as manager:
            served = "webhook" in manager.health.readiness.names
            assert served == any(each.name == "webhooks" for each in manager._runnables)
    return served, [line["event"] for line in lines if line["logger_name"] == "webhook"]


@pytest.mark.parametrize(
    ("flags", "known", "outcome"),
    [
        ({}, With, (True, [])),
        ({"enable_webhooks": "false"}, With, (False, ["webhooks are off, as the settings say"])),
        ({"webhook_bind_address": "0"}, With, (False, ["webhooks are off, as the settings say"])),
        ({}, OPERATORS[0], (False, [])),
    ],
    ids=["a disabled operator", "off", "no address", "no webhook"],
)
async def test_webhooks_are_served_when_any_known_operator_has_webhooks_unless_they_are_off(
    wire: ScriptedWire, flags: dict[str, str], known: AnyOperator, outcome: tuple[bool, list[str]]
):
    assert await assemble({**FILES, **flags}, known=known) == outcome


async def test_webhooks_are_off_with_a_logged_hint_when_the_api_server_cannot_reach_this_machine(
    wire: ScriptedWire,
):
    served, [line] = await assemble({})
    assert not served
    assert line.startswith("webhooks are off: the API server https://api.example.com is not on this machine;")
    assert "--webhook-url" in line
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
async def test_assembly_warns_of_webhook_flags_that_prevent_calls_of_the_api_server(
    wire: ScriptedWire, flags: dict[str, str], warned: bool, tmp_path: Path
):
    served, told = await assemble({"webhook_local_path": str(tmp_path), **flags})
    assert served
    assert ["give --webhook-bind-address=:9443" in line for line in told] == [True] * warned


async def test_webhooks_are_served_at_the_address_that_the_api_server_reached(
    wire: ScriptedWire, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    async def reached(*_: object) -> tuple[BindAddress, str]:
        return BindAddress("127.0.0.1", 19443), "https://127.0.0.1:19443"

    monkeypatch.setattr(webhooks, "reached_address", reached)
    assert await assemble({"webhook_local_path": str(tmp_path)}) == (True, [])


async def test_webhooks_start_later_when_the_api_server_was_at_first_too_slow(
    wire: ScriptedWire, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, log_lines: LogLines
):
    tests = iter([True, True, True, False])

    async def reached(*_: object) -> tuple[BindAddress, str]:
        if next(tests):
            raise NotCalled("the API server has called no webhook within 5 s", passing=True)
        return BindAddress("127.0.0.1", 19443), "https://127.0.0.1:19443"

    monkeypatch.setattr(webhooks, "reached_address", reached)
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
    told = [(line["log_level"], line["event"]) for line in log_lines if "webhooks" in line["event"]]
    assert [level for level, _ in told] == ["warning", "debug", "debug", "info"]
    assert told[0][1].startswith(
        "webhooks are off: the API server has called no webhook within 5 s; the test"
    )


async def test_webhooks_stay_off_when_the_api_server_cannot_reach_them(
    wire: ScriptedWire, monkeypatch: pytest.MonkeyPatch, log_lines: LogLines
):
    tests = iter([True, False])

    async def reached(*_: object) -> tuple[BindAddress, str]:
        raise NotCalled("it may run in a container", passing=next(tests))

    monkeypatch.setattr(webhooks, "reached_address", reached)
    async with assembled(PROGRAM, load_settings({}), (), SettingValues(), (With,)) as manager:
        later = {each.name: each for each in manager._runnables}
        await later["webhooks"].run()
        assert "webhook" not in manager.health.readiness.names
    assert "--webhook-url" in log_lines[-1]["event"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "ca.crt cannot be read: No such file"),
        (b"hello", "ca.crt has no certificate of an authority"),
        (b"", "ca.crt has no certificate of an authority"),
        (b"\xff\xfeh\0", "ca.crt has no certificate of an authority"),
        (ssl.PEM_cert_to_DER_cert(AUTHORITY.pem.decode()), "ca.crt has no certificate of an authority"),
        (AUTHORITY.user("api-server")[0], "ca.crt has no certificate of an authority"),
    ],
    ids=["missing", "text", "empty", "binary", "DER", "of a client"],
)
async def test_assembly_refuses_a_client_authority_file_without_an_authority(
    wire: ScriptedWire, tmp_path: Path, content: bytes | None, told: str
):
    file = tmp_path / "ca.crt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError, match=f"^--webhook-client-ca-file: .*{told}"):
        await assemble({**FILES, "webhook_client_ca_file": str(file)})


@pytest.mark.parametrize(("operator", "required"), [(With, True), (GadgetOperator, False)])
async def test_webhooks_require_a_client_certificate_unless_a_kind_is_converted(
    wire: ScriptedWire, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, operator: AnyOperator, required: bool
):
    made: list[bool] = []

    class Noted(ClientAuthorities):
        def __init__(self, file: Path, *, required: bool) -> None:
            super().__init__(file, required=required)
            made.append(required)

    monkeypatch.setattr(webhooks, "ClientAuthorities", Noted)
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.pem)
    flags = {**FILES, "webhook_client_ca_file": str(tmp_path / "ca.crt")}
    assert await assemble(flags, known=operator) == (True, [])
    assert made == [required]


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
def test_certificate_way_depends_on_flags_and_config_source(
    flags: dict[str, str], source: str, way: str | None
):
    config: Any = Config(source)
    assert certificate_way(load_settings(flags), config) == way
