from __future__ import annotations

import gc
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


"""What a client sees of a reset differs between versions of OpenSSL."""
