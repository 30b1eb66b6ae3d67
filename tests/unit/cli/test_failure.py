"""Errors of the first request to the API server; test_assembly.py tests the wait for a server."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import trustme
from yarl import URL

from manager.cli.failure import ServerUnavailable, ServerUnusable, server_version
from manager.kube.config import ClusterConfig
from manager.kube.credentials import FixedCredentials
from manager.kube.tls import Pem, Tls, TlsFiles
from manager.kube.transport import Transport
from manager.kube.wire import LONGEST
from tests.support.scripted_wire import Reply, ScriptedWire


async def test_error_for_status_401_names_the_expired_client_certificate(
    wire: ScriptedWire, transport: Transport
):
    ended = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    issued = trustme.CA().issue_cert("a.test", not_after=ended).cert_chain_pems[0].bytes()
    tls = Tls(TlsFiles(certificate=Pem("client-certificate-data", data=issued)))
    config = ClusterConfig(
        server=URL("https://api.example.com"),
        source="kubeconfig k",
        credentials=FixedCredentials(None),
        tls=tls,
    )
    wire.on("GET", "/version", Reply.status(401, "Unauthorized"))
    with pytest.raises(ServerUnusable, match=r"-data: the client certificate has expired, at 2026-01-02 03:"):
        await server_version(transport, config)


async def test_error_for_an_endless_answer_names_the_server(wire: ScriptedWire, transport: Transport):
    server = URL("http://api.example.com")
    config = ClusterConfig(server=server, source="k", credentials=FixedCredentials(None), tls=None)
    wire.on("GET", "/version", Reply(body=bytes(LONGEST + 1)))
    with pytest.raises(ServerUnusable, match=r"http://api\.example\.com .*: the answer is longer") as raised:
        await server_version(transport, config)
    assert not isinstance(raised.value, ServerUnavailable), "a later attempt would fail, too"
