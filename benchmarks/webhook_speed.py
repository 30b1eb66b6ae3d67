"""Measure webhooks: the time of a response within the process, and responses per second over TLS.

    python -m benchmarks.webhook_speed

The AdmissionReviews are for the Pet operator, in the form that the API server sends. The TLS server has its
own process, whose CPU seconds show the capacity of one core. The clients keep their connections open.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import orjson
import uvloop

from benchmarks.api_load import Connection
from benchmarks.table import table
from controllers.petstore.pet import PetOperator
from manager.telemetry.logs import configured
from manager.telemetry.metrics import Metrics
from manager.tls.served import SelfSigned, ServedCertificate
from manager.util.address import BindAddress
from manager.webhook.endpoints import endpoints_of
from manager.webhook.registration import Webhooks
from manager.webhook.server import WebhookServer
from tests.support.admission import webhooks_of
from tests.support.daemon import Daemon
from tests.support.ports import PortBlock

REVIEWS, CONNECTIONS, OBJECTS = 5_000, 16, 5_000
GROUP = "petstore.example.com"
SAMPLES = Path(__file__).with_name("samples")
SPECS = {
    "v1alpha1": {"name": "Thor", "type": "dog", "birthday": "2021-04-01T00:00:00Z"},
    "v1beta1": {"name": "Thor", "species": "dog", "birthday": "2021-04-01"},
}
HEAD = (
    "POST {path}?timeout=10s HTTP/1.1\r\nHost: x\r\n"
    "Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
)


def pet(name: str, version: str) -> dict[str, Any]:
    raw = (SAMPLES / "pet.json").read_text().replace("@name@", name).replace("@version@", version)
    found: dict[str, Any] = orjson.loads(raw)
    return {**found, "spec": dict(SPECS[version])}


def admission_review(*, tidy: bool) -> bytes:
    """Return an AdmissionReview of a Pet's update; an untidy Pet needs a patch."""
    review = orjson.loads((SAMPLES / "admission-review.json").read_bytes())
    old, new = pet("thor", "v1beta1"), pet("thor", "v1beta1")
    if not tidy:
        new["spec"] |= {"name": " Thor ", "species": "Dog"}
    review["request"] |= {"object": new, "oldObject": old}
    return orjson.dumps(review)


def conversion_review(start: str, end: str) -> bytes:
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "desiredAPIVersion": f"{GROUP}/{end}",
        "objects": [pet(f"pet-{number}", start) for number in range(OBJECTS)],
    }
    return orjson.dumps(
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
    )


async def serve(port: int) -> None:
    metrics = Metrics()
    endpoints = endpoints_of(Webhooks(webhooks_of(PetOperator)), metrics)
    address, certificate = BindAddress("127.0.0.1", port), ServedCertificate(SelfSigned())
    await WebhookServer(address, endpoints, certificate, metrics=metrics).run()


async def connected(port: int) -> Connection:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(Connection, "127.0.0.1", port, ssl=context)
    return connection


async def ask(connection: Connection, path: str, body: bytes) -> float:
    begun = time.perf_counter()
    await connection.send(HEAD.format(path=path, length=len(body)).encode() + body)
    return time.perf_counter() - begun


async def within(endpoint: Any, body: bytes, count: int = REVIEWS) -> list[float]:
    seconds = []
    for _ in range(count):
        begun = time.perf_counter()
        await endpoint.answer(body)
        seconds.append(time.perf_counter() - begun)
    return seconds


async def over_tls(server: Daemon, port: int, path: str, body: bytes) -> list[object]:
    clients = [await connected(port) for _ in range(CONNECTIONS)]
    for client in clients:
        await ask(client, path, body)
    numbers = iter(range(REVIEWS))
    seconds: list[float] = []

    async def work(client: Connection) -> None:
        for _ in numbers:
            taken = await ask(client, path, body)
            seconds.append(taken)

    used, begun = server.cpu_seconds(), time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for client in clients:
            group.create_task(work(client))
    elapsed, used = time.perf_counter() - begun, server.cpu_seconds() - used
    for client in clients:
        await client.close()
    return [REVIEWS / elapsed, REVIEWS / used, statistics.median(seconds) * 1e3]


async def measure(server: Daemon, port: int) -> None:
    for _ in range(100):
        try:
            await (await connected(port)).close()
            break
        except OSError:
            await asyncio.sleep(0.1)
    endpoints = {each.path: each for each in endpoints_of(Webhooks(webhooks_of(PetOperator)), Metrics())}
    paths = {"defaults": f"/mutate-{GROUP.replace('.', '-')}-v1beta1-pet", "convert": "/convert"}
    paths["validation"] = paths["defaults"].replace("mutate", "validate")
    admissions = (
        ("defaults, nothing to change", "defaults", admission_review(tidy=True)),
        ("defaults, a patch of two fields", "defaults", admission_review(tidy=False)),
        ("validation of a change", "validation", admission_review(tidy=True)),
    )
    rows: list[list[object]] = []
    for label, sort, body in admissions:
        seconds = await within(endpoints[paths[sort]], body)
        quantiles = statistics.quantiles(seconds, n=100)
        rows.append([label, len(body), quantiles[49] * 1e6, quantiles[98] * 1e6])
    print(table(["within the process", "bytes", "median µs", "99th percentile µs"], rows))
    rows = []
    for label, sort, body in admissions:
        rows.append([label, *await over_tls(server, port, paths[sort], body)])
    print(table(["over TLS, kept alive", "a second", "a CPU second of the server", "median ms"], rows))
    rows = []
    for start, end in (("v1alpha1", "v1beta1"), ("v1beta1", "v1alpha1")):
        body = conversion_review(start, end)
        inside = min(await within(endpoints["/convert"], body, 5))
        client = await connected(port)
        outside = min([await ask(client, "/convert", body) for _ in range(5)])
        await client.close()
        rows.append([f"{OBJECTS} Pets, {start} to {end}", len(body) / 1e6, inside * 1e3, outside * 1e3])
    print(table(["conversion in one review", "MB", "within the process ms", "over TLS ms"], rows))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--serve", type=int, metavar="PORT", help="only serve, on this port")
    options = parser.parse_args()
    with configured(level="warn", log_format="json"):
        if options.serve is not None:
            uvloop.run(serve(options.serve))
            return
        with PortBlock(1) as ports, tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "benchmarks.webhook_speed", f"--serve={ports[0]}"]
            server = Daemon("webhooks", command, log=Path(folder) / "log")
            server.start()
            try:
                uvloop.run(measure(server, ports[0]))
            finally:
                server.kill()


if __name__ == "__main__":
    main()
