"""The ports of the demo's programs: those that a person expects, where nobody else has them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import tempfile
from pathlib import Path

__all__ = ["Ports"]


class Ports(contextlib.ExitStack):
    """While entered, keeps what was claimed from other demos, which may start before the programs listen."""

    def claim(self, preferred: int) -> int:
        """That port of 127.0.0.1, or another when it is taken."""
        if _free(preferred) and self._lock(preferred):
            return preferred
        while True:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                bound: int = probe.getsockname()[1]
            if self._lock(bound):  # the system may give one that another demo has claimed
                return bound

    def _lock(self, port: int) -> bool:
        """Whether no other demo of this user has claimed it."""
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
