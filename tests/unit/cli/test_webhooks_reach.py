"""Reachability of this machine: the command tests it before it registers webhooks with the API server."""

from __future__ import annotations

import asyncio
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest
from yarl import URL

from controllers.main import PROGRAM
from manager.cli import webhooks
from manager.cli.webhooks import NotCalled, reached_address
from manager.kube.config import ClusterConfig
from tests.support.scripted_wire import Reply, ScriptedWire, Sent
from tests.support.settings import load_settings
from tests.unit.connected import connected

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class Server:
    """API server that can or cannot reach this machine."""

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
    """Return the number of webhook configurations left on the server."""
    return len(server.wire.sent("POST", CONFIGURATIONS)) - len(server.wire.sent("DELETE"))


async def test_reached_address_returns_a_free_local_port_when_the_server_calls():
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
async def test_reached_address_uses_the_given_bind_address(given: str, url: str):
    assert await tried(Server(), {"webhook_bind_address": given}) == (given, url)


async def test_reached_address_raises_not_called_when_the_server_cannot_call():
    refused = 'failed calling webhook "reach": dial tcp 127.0.0.1:4: connect: connection refused'
    server = Server(calls=False, says=refused)
    with pytest.raises(NotCalled, match=r"127\.0\.0\.1:\d+; it may run in a container$") as error:
        await tried(server, {})
    assert not error.value.passing
    assert left(server) == 0


@pytest.mark.parametrize("says", ["", "context deadline exceeded"])
async def test_reached_address_raises_a_temporary_not_called_error_when_the_server_is_slow(
    monkeypatch: pytest.MonkeyPatch, says: str
):
    monkeypatch.setattr(webhooks, "_PATIENCE", 0.05)
    server = Server(calls=False, says=says)
    with pytest.raises(NotCalled, match=r"has called no webhook within 0\.05 s$") as error:
        await tried(server, {})
    assert error.value.passing
    assert left(server) == 0


async def test_reached_address_sends_nothing_to_a_server_on_another_machine():
    server = Server()
    with pytest.raises(NotCalled, match=r"API server https://cluster\.test:6443.* is not on this machine$"):
        await tried(server, {}, "https://cluster.test:6443")
    assert server.wire.requests == []


async def test_reached_address_raises_not_called_without_the_right_to_register_webhooks():
    server = Server(allowed=False)
    with pytest.raises(NotCalled, match=r"^these credentials may not register any$"):
        await tried(server, {})
    assert [each.path for each in server.wire.requests] == [REVIEWS]
