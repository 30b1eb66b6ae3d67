from __future__ import annotations

import socket
from pathlib import Path

import pytest

from demo.ports import Ports


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return a free port, on a machine without another demo."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        bound: int = probe.getsockname()[1]
        return bound


def test_a_free_port_is_taken(port: int):
    with Ports() as ports:
        assert ports.claim(port) == port


def test_claim_returns_another_port_when_a_program_listens_on_the_wanted_one(port: int):
    with socket.socket() as program, Ports() as ports:
        program.bind(("127.0.0.1", port))
        program.listen()
        assert ports.claim(port) not in {port, 0}


def test_claim_returns_different_ports_to_two_demos_before_either_listens(port: int):
    with Ports() as one, Ports() as other:
        assert one.claim(port) == port
        assert other.claim(port) not in {port, 0}
    with Ports() as later:
        assert later.claim(port) == port
