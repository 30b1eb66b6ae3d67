"""The ports of the demo's programs: the usual ones if they are free, else others."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import tempfile
from pathlib import Path

__all__ = ["Ports"]


class Ports(contextlib.ExitStack):
    """Claimed ports; while entered, it protects them from other demos until the programs listen."""

    def claim(self, preferred: int) -> int:
        """Claim that port of 127.0.0.1, or another one if it is taken; returns the port."""
        if _free(preferred) and self._lock(preferred):
            return preferred
        while True:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                bound: int = probe.getsockname()[1]
            if self._lock(bound):  # the system may give one that another demo has claimed
                return bound

    def _lock(self, port: int) -> bool:
        """Lock the port; returns False if another demo of this user has claimed it."""
        path = Path(tempfile.gettempdir()) / f"operator-manager-demo-{os.getuid()}-{port}.lock"
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            file = os.open(path, flags, 0o600)
        except OSError:
            return False
        self.callback(os.close, file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
