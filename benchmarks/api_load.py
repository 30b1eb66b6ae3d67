"""A client with little CPU usage that sends a job's requests to an API server and measures their durations.

    python -m benchmarks.api_load KUBECONFIG JOB

JOB is a JSON object: `do` names one of the functions below, the other fields are its arguments. The result is
a line of JSON. The client has its own process, so that its CPU time does not count as the server's.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import httptools
import uvloop

from tests.support.kubeconfig import Credentials

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 120.0
CONNECTIONS = 16
WATCH = "/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=600&resourceVersion={}"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
MEMCACHEDS = "/apis/cache.example.com/v1/namespaces/default/memcacheds"
JSON = "application/json"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


class Connection(asyncio.Protocol):
    """A connection to the API server, with one request at a time."""

    def __init__(self) -> None:
        self.delays: list[float] | None = None
        """The milliseconds from each write to its watch event."""
        self._enough = 0
        self._body: list[bytes] = []
        self._done: asyncio.Future[bytes] | None = None
        self._gone = asyncio.Event()
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None

    async def send(self, request: bytes) -> bytes:
        """Send a request and return the response's body.

        Raises:
            OSError: the response is an error, or the connection is closed.
        """
        self._start(request)
        assert self._done is not None
        return await self._done

    def watch(self, request: bytes, events: int) -> asyncio.Future[bytes]:
        """Send a watch request; the future is done after `events` events. `delays` has their delays in ms."""
        self.delays, self._enough = [], events
        self._start(request)
        assert self._done is not None
        return self._done

    async def close(self) -> None:
        """Close the connection immediately, and wait until it is closed."""
        if self._transport is not None:
            self._transport.abort()
            await self._gone.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the open connection."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the current request, because the connection is closed."""
        self._gone.set()
        if self._done is not None and not self._done.done():
            self._done.set_exception(error or ConnectionResetError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        """Parse the received bytes as HTTP."""
        self._parser.feed_data(data)

    def on_body(self, part: bytes) -> None:
        """Store a part of a response; for a watch, store only the delay of each event in this part."""
        if self.delays is None:
            self._body.append(part)
            return
        now = time.monotonic_ns()
        for line in part.splitlines():
            # The writer has stored the time of the write in the object.
            _, found, sent = line.partition(b'"sent":"')
            if found:
                self.delays.append((now - int(sent[: sent.index(b'"')])) / 1e6)
        if len(self.delays) >= self._enough and self._done is not None and not self._done.done():
            self._done.set_result(b"")

    def on_message_complete(self) -> None:
        """Complete the current request."""
        body, self._body = b"".join(self._body), []
        if self._done is None or self._done.done():
            return
        if self._parser.get_status_code() < HTTPStatus.MULTIPLE_CHOICES:
            self._done.set_result(body)
        else:
            self._done.set_exception(OSError(body.decode(errors="replace")))

    def _start(self, request: bytes) -> None:
        assert self._transport is not None
        self._done = asyncio.get_running_loop().create_future()
        self._transport.write(request)


class Client:
    """A client with one user's token for one server."""

    def __init__(self, kubeconfig: Path) -> None:
        credentials = Credentials.read(kubeconfig)
        address = urlsplit(credentials.server)
        self._host, self._port = address.hostname or "", address.port or 443
        self._head = f"Host: {address.netloc}\r\nAccept: application/json\r\n"
        self._head += f"User-Agent: benchmark\r\nAuthorization: Bearer {credentials.token}\r\n"
        self._context = ssl.create_default_context(cadata=(credentials.authority or b"").decode())

    async def connect(self, count: int) -> list[Connection]:
        """Open `count` connections."""
        loop = asyncio.get_running_loop()
        made = [
            await loop.create_connection(Connection, self._host, self._port, ssl=self._context)
            for _ in range(count)
        ]
        return [connection for _, connection in made]

    def request(self, method: str, path: str, body: Any = None, content_type: str = JSON) -> bytes:
        """Build the bytes of an HTTP request."""
        data = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
        head = f"{method} {path} HTTP/1.1\r\n{self._head}"
        head += f"Content-Type: {content_type}\r\nContent-Length: {len(data)}\r\n\r\n"
        return head.encode() + data


async def requests(client: Client, *, kind: str, count: int, first: int = 0) -> dict[str, Any]:
    make = KINDS[kind]
    waiting = iter([make(client, f"load-{index:06d}") for index in range(first, first + count)])
    pool = await client.connect(CONNECTIONS)

    async def work(connection: Connection) -> None:
        for request in waiting:
            await connection.send(request)

    started = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for connection in pool:
            group.create_task(work(connection))
    return {"rate": count / (time.monotonic() - started)}


async def one(client: Client, *, path: str, rounds: int = 5) -> dict[str, Any]:
    (connection,) = await client.connect(1)
    request, times, size = client.request("GET", path), [], 0
    for _ in range(rounds):
        started = time.monotonic()
        size = len(await connection.send(request))
        times.append(time.monotonic() - started)
    return {"seconds": min(times), "bytes": size}


async def watch(client: Client, *, events: int) -> dict[str, Any]:
    """Measure the milliseconds from each write to its watch event.

    Prints `ready` once the watch is open; another process then runs the job `writes` to write the objects.
    """
    lister, stream = await client.connect(2)
    version = json.loads(await lister.send(client.request("GET", f"{CONFIG_MAPS}?limit=1")))["metadata"]
    over = stream.watch(client.request("GET", WATCH.format(version["resourceVersion"])), events)
    await asyncio.sleep(0.5)
    print("ready", flush=True)
    async with asyncio.timeout(PATIENCE):
        await over
    delays = sorted(stream.delays or ())
    return {"p50": delays[len(delays) // 2], "p99": delays[len(delays) * 99 // 100]}


async def writes(client: Client, *, count: int, rate: float) -> dict[str, Any]:
    (connection,) = await client.connect(1)
    started = time.monotonic()
    for index in range(count):
        await asyncio.sleep(started + index / rate - time.monotonic())
        body = config_map(f"seen-{index}", sent=str(time.monotonic_ns()))
        await connection.send(client.request("POST", CONFIG_MAPS, body))
    return {}


def config_map(name: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "labels": {"app": "load"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": "value", **data}}


def memcached(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "cache.example.com/v1",
        "kind": "Memcached",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"size": 1},
    }


def status(name: str) -> dict[str, Any]:
    condition = {
        "type": "Available",
        "status": "True",
        "reason": "Load",
        "message": name,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 1,
    }
    return {"status": {"conditions": [condition]}}


KINDS: dict[str, Callable[[Client, str], bytes]] = {
    "create ConfigMap": lambda client, name: client.request("POST", CONFIG_MAPS, config_map(name)),
    "create custom object": lambda client, name: client.request("POST", MEMCACHEDS, memcached(name)),
    "get ConfigMap": lambda client, name: client.request("GET", f"{CONFIG_MAPS}/{name}"),
    "patch status": lambda client, name: client.request(
        "PATCH", f"{MEMCACHEDS}/{name}/status", status(name), MERGE
    ),
    "apply ConfigMap": lambda client, name: client.request(
        "PATCH", f"{CONFIG_MAPS}/{name}?fieldManager=load&force=true", config_map(name, more="y"), APPLY
    ),
}
JOBS: dict[str, Callable[..., Any]] = {"requests": requests, "one": one, "watch": watch, "writes": writes}


def main(kubeconfig: str, text: str) -> None:
    job = json.loads(text)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(JOBS[job.pop("do")](Client(Path(kubeconfig)), **job))
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
