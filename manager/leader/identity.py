"""What tells one replica from another in a lease."""

from __future__ import annotations

import socket
import uuid
from random import Random

__all__ = ["new_identity"]


def new_identity(rng: Random) -> str:
    """Return `<host name>_<uuid>`, new for each process.

    The host name (in a cluster, the pod's) is for people. The UUID makes it unique: a container that is
    started again in the same pod must not take its predecessor's lease for its own. So `rng` must not be
    seeded alike in two replicas.
    """
    return f"{socket.gethostname()}_{uuid.UUID(int=rng.getrandbits(128), version=4)}"
