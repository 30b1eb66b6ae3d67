"""Sees, from outside, when each object has a status for its latest spec."""

from __future__ import annotations

import http.client
import json
import threading
import time
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from tests.support.control_plane import ControlPlane
    from tests.support.daemon import Daemon

CHUNK = 1 << 16
MEMCACHEDS = "/apis/cache.example.com/v1/memcacheds"


class StatusWatch:
    """Counts in a thread, with one watch, while the `with` block lasts.

    `seen` maps each name to the moment (monotonic seconds) at which the object was first seen, `converged` to
    that of its status.
    """

    def __init__(self, plane: ControlPlane, path: str = MEMCACHEDS) -> None:
        """`path` is that of all objects of the kind."""
        self.seen: dict[str, float] = {}
        self.converged: dict[str, float] = {}
        self._changed = threading.Condition()
        self._path = path
        self._version = plane.api.get(path, limit="1")["metadata"]["resourceVersion"]
        credentials = plane.credentials
        context = credentials.ssl_context(plane.folder / "scratch")
        self._connection = http.client.HTTPSConnection(urlsplit(credentials.server).netloc, context=context)
        self._headers = {"Authorization": f"Bearer {credentials.token}"}
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="status-watch")

    def __enter__(self) -> Self:
        query = f"watch=true&resourceVersion={self._version}&timeoutSeconds=3600"
        self._connection.request("GET", f"{self._path}?{query}", headers=self._headers)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        if self._connection.sock is not None:
            self._connection.sock.shutdown(2)
        self._thread.join()
        self._connection.close()

    def wait(self, count: int, process: Daemon, timeout: float) -> None:
        """Wait until `count` of them have converged, by the work of `process`.

        Raises:
            TimeoutError: fewer had after `timeout` seconds.
            DaemonDied: the process ended before.
        """
        deadline = time.monotonic() + timeout
        with self._changed:
            while not self._changed.wait_for(lambda: len(self.converged) >= count, timeout=1.0):
                process.check()
                if time.monotonic() > deadline:
                    found = f"{len(self.converged)} of {count} converged within {timeout:g} s"
                    raise TimeoutError(f"{process.name}: {found}; {process.tail()}")

    def _run(self) -> None:
        try:
            answer = self._connection.getresponse()
            # The response's own readline costs more than all the rest here, and we share the machine's cores.
            rest = b""
            while chunk := answer.read1(CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._see(json.loads(line)["object"])
        except (OSError, ValueError, http.client.HTTPException):
            if not self._stopping:
                raise

    def _see(self, obj: dict[str, Any]) -> None:
        metadata = obj["metadata"]
        self.seen.setdefault(metadata["name"], time.monotonic())
        if obj.get("status", {}).get("observedGeneration") != metadata["generation"]:
            return
        with self._changed:
            self.converged.setdefault(metadata["name"], time.monotonic())
            self._changed.notify_all()
