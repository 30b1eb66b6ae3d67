"""Errors of the first request to the API server; test_assembly.py tests the wait for a server."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import trustme
from yarl import URL

from manager.cli.failure import ServerUnusable, server_version
from manager.kube.config import ClusterConfig
from manager.kube.credentials import FixedCredentials
from manager.kube.tls import Pem, Tls, TlsFiles
from tests.support.scripted_wire import Reply, ScriptedWire
from tests.unit.connected import connected


async def test_error_for_status_401_names_the_expired_client_certificate():
    ended = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    issued = trustme.CA().issue_cert("a.test", not_after=ended).cert_chain_pems[0].bytes()
    tls = Tls(TlsFiles(certificate=Pem("client-certificate-data", data=issued)))
    config = ClusterConfig(
        server=URL("https://api.example.com"),
        source="kubeconfig k",
        credentials=FixedCredentials(None),
        tls=tls,
    )
    wire = ScriptedWire()
    wire.on("GET", "/version", Reply.status(401, "Unauthorized"))
    transport = connected(wire).transport
    with pytest.raises(ServerUnusable, match=r"-data: the client certificate has expired, at 2026-01-02 03:"):
        await server_version(transport, config)
