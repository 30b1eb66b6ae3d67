from __future__ import annotations

import random
import socket
import uuid

from manager.leader.lease import new_identity


def test_an_identity_names_the_host_and_is_new_each_time():
    rng = random.Random(1)
    first, second = new_identity(rng), new_identity(rng)
    assert first != second
    host, _, unique = first.rpartition("_")
    assert host == socket.gethostname()
    assert str(uuid.UUID(unique)) == unique
