from __future__ import annotations

import random
import socket
import subprocess
import sys
import uuid

import pytest

from manager.election.config import host_clock, new_identity


def test_an_identity_names_the_host_and_is_new_each_time():
    rng = random.Random(1)
    first, second = new_identity(rng), new_identity(rng)
    assert first != second
    host, _, unique = first.rpartition("_")
    assert host == socket.gethostname()
    assert str(uuid.UUID(unique)) == unique


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux names the boot of its kernel")
def test_host_clock_is_the_same_in_every_process_of_the_host():
    code = "from manager.election.config import host_clock; print(host_clock())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout == f"{host_clock()}\n"
    host, _, boot = host_clock().partition("/")
    assert host == socket.gethostname()
    assert uuid.UUID(boot)
