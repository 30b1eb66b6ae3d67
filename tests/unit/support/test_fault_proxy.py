from __future__ import annotations

import gc
import http.client
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.certificates import Authority
from tests.support.eventually import eventually
from tests.support.fault_proxy import FaultProxy
from tests.support.kubeconfig import Credentials


@pytest.mark.filterwarnings("error")
def test_fault_proxy_closes_a_connection_without_a_hello_when_it_ends(tmp_path: Path):
    nobody = Credentials(server="https://127.0.0.1:1", authority=Authority("nobody").pem, token="t")
    with FaultProxy(nobody, folder=tmp_path) as proxy:
        address = urlsplit(Credentials.read(proxy.kubeconfig).server)
        silent = socket.create_connection((str(address.hostname), address.port))
        eventually(lambda: bool(proxy.open_transports()), every=0.01)
    with silent:
        assert proxy.open_transports() == []
        # The collector warns of open transports.
        gc.collect()


BROKEN = r"reset|closed|EOF"
"""What a client sees of a reset differs between versions of OpenSSL."""


def test_a_connection_that_came_up_before_it_refuses_is_refused_too_and_a_server_that_is_away_shows_as_broken(
    tmp_path: Path,
):
    nobody = Credentials(server="https://127.0.0.1:1", authority=Authority("nobody").pem, token="t")
    with FaultProxy(nobody, folder=tmp_path) as proxy:
        credentials = Credentials.read(proxy.kubeconfig)
        server, context = urlsplit(credentials.server).netloc, credentials.ssl_context(tmp_path)
        for before in (lambda: None, proxy.refuse):
            connection = http.client.HTTPSConnection(server, context=context, timeout=20)
            connection.connect()
            before()
            connection.request("GET", "/version")
            with pytest.raises((OSError, http.client.HTTPException), match=BROKEN):
                connection.getresponse()
            connection.close()
        assert proxy.count() == 1
