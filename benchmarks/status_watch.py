"""A watch that records the time at which each object has a status for its latest spec."""

from __future__ import annotations

import contextlib
import http
import http.client
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode, urlsplit

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.control_plane import ControlPlane
    from tests.support.daemon import Daemon

CHUNK = 1 << 16
AGAIN = 0.05
MEMCACHEDS = "/apis/cache.example.com/v1/memcacheds"


class StatusWatch:
    """A watch in a thread, within a `with` block, that records the objects' statuses.

    All times are in monotonic seconds. By name, `seen` has the time of the first event, and `converged` the
    time of the first current status. `observed` has the latest generation with a status, and its time.
    """

    def __init__(self, plane: ControlPlane) -> None:
        """Set up the watch; objects that exist already count only when they change."""
        self.seen: dict[str, float] = {}
        self.converged: dict[str, float] = {}
        self.observed: dict[str, tuple[int, float]] = {}
        self._changed = threading.Condition()
        self._version = plane.api.get(MEMCACHEDS, limit="1")["metadata"]["resourceVersion"]
        credentials = plane.credentials
        context = credentials.ssl_context(plane.folder / "scratch")
        self._connection = http.client.HTTPSConnection(urlsplit(credentials.server).netloc, context=context)
        self._headers = {"Authorization": f"Bearer {credentials.token}"}
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="status-watch")

    def __enter__(self) -> Self:
        self._connection.connect()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        while self._thread.is_alive():  # the thread may be about to connect again
            if self._connection.sock is not None:
                with contextlib.suppress(OSError):
                    self._connection.sock.shutdown(socket.SHUT_RDWR)
            self._thread.join(0.1)
        self._connection.close()

    def wait(self, count: int, process: Daemon, timeout: float) -> None:
        """Wait until `count` objects have a current status, which `process` writes.

        Raises TimeoutError after `timeout` seconds, and DaemonDied if the process ends.
        """
        self._wait(
            lambda: len(self.converged) >= count,
            lambda: f"{len(self.converged)} of {count} converged",
            process,
            timeout,
        )

    def wait_generation(self, name: str, generation: int, process: Daemon, timeout: float) -> float:
        """Wait until an object's status is for this generation; return the time of that status.

        Raises TimeoutError after `timeout` seconds, and DaemonDied if the process ends.
        """
        self._wait(
            lambda: self.observed.get(name, (0, 0.0))[0] >= generation,
            lambda: f"no status of {name} for generation {generation}",
            process,
            timeout,
        )
        return self.observed[name][1]

    def wait_seen(self, count: int, timeout: float) -> None:
        """Wait until the watch has seen `count` objects. Raises TimeoutError."""
        deadline = time.monotonic() + timeout
        while len(self.seen) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the watch showed {len(self.seen)} of {count} objects")
            time.sleep(0.02)

    def _wait(
        self, condition: Callable[[], bool], found: Callable[[], str], process: Daemon, timeout: float
    ) -> None:
        deadline = time.monotonic() + timeout
        with self._changed:
            while not self._changed.wait_for(condition, timeout=0.2):
                process.check()
                if not self._thread.is_alive():
                    raise TimeoutError("the watch on the statuses has ended")
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{process.name}: {found()} within {timeout:g} s; {process.tail()}")

    def _run(self) -> None:
        try:
            # The API server ends a watch that is too slow; the next watch gets the missing events.
            while not self._stopping:
                self._follow()
        except (OSError, ValueError, http.client.HTTPException):
            if not self._stopping:
                raise

    def _follow(self) -> None:
        query = {"watch": "true", "resourceVersion": self._version, "timeoutSeconds": 3600}
        self._connection.request("GET", f"{MEMCACHEDS}?{urlencode(query)}", headers=self._headers)
        answer = self._connection.getresponse()
        if answer.status != http.HTTPStatus.OK:
            text = answer.read().decode(errors="replace")
            # A server that has just started has not filled its caches yet.
            if answer.status not in {http.HTTPStatus.TOO_MANY_REQUESTS, http.HTTPStatus.SERVICE_UNAVAILABLE}:
                raise OSError(f"the watch on {MEMCACHEDS} was refused: {text}")
            time.sleep(AGAIN)
            return
        # The response's own readline needs more CPU than all other code here, on shared cores.
        rest = b""
        while chunk := answer.read1(CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                event = orjson.loads(line)
                if event["type"] == "ERROR":
                    raise OSError(f"the watch on {MEMCACHEDS} failed: {event['object'].get('message')}")
                self._see(event["object"])

    def _see(self, obj: dict[str, Any]) -> None:
        metadata, now = obj["metadata"], time.monotonic()
        self._version = metadata["resourceVersion"]
        self.seen.setdefault(metadata["name"], now)
        observed = obj.get("status", {}).get("observedGeneration")
        if observed is None:
            return
        with self._changed:
            if observed > self.observed.get(metadata["name"], (0, 0.0))[0]:
                self.observed[metadata["name"]] = (observed, now)
            if observed == metadata["generation"]:
                self.converged.setdefault(metadata["name"], now)
            self._changed.notify_all()
