"""Command `explain` with the response of a manager, or of another program on the manager's port."""

from __future__ import annotations

import asyncio
import os
import random
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
import trustme

from apis.petstore.v1beta1.pet import Pet
from controllers.cache.memcached import MemcachedOperator
from controllers.main import PROGRAM
from controllers.petstore.pet import PetOperator
from manager.api import ObjectKey
from manager.kube.errors import ConfigError
from manager.kube.transport import Transport
from manager.telemetry.metrics import Metrics
from manager_console.diagnosis.explanation import ManagerReport, ShardOwner
from manager_console.diagnosis.shard_holders import ShardLeases
from manager_shards.shard_set import ShardSet
from manager_tools.commands import explain
from manager_tools.commands.explain import ExplainArguments
from tests.support.scripted_wire import Reply, ScriptedWire
from tests.unit.election.conftest import LEASES, NAME, NAMESPACE
from tests.unit.election.program import COUNT, Program, program
from tests.unit.manager_tools.commands.test_explain_text import CONTROLLER, RUN

__all__ = ["program"]

REX = ObjectKey("zoo", "rex")
OWNER = {"controller": "pet", "shard": 0, "shards": 4, "holder": "pod_1", "here": False}


async def asked(manager: str, **flags: str) -> tuple[ManagerReport, str]:
    """Return the report of the manager and an error text, which is empty on success."""
    arguments = replace(ExplainArguments("pet", "rex", "zoo"), manager=manager, **flags)
    return await explain._ask(PROGRAM, arguments, Pet, REX, "a-uid")


@asynccontextmanager
async def answering(
    *pieces: bytes, ends: bool = True, tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """Send `pieces` to each client, and then spaces without end if `ends` is false; yield the URL."""
    serving = set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        await reader.readuntil(b"\r\n\r\n")
        try:
            for piece in pieces:
                writer.write(piece)
            while not ends:
                await asyncio.sleep(0.02)
                writer.write(b" ")
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls) as server:
        host, port = server.sockets[0].getsockname()
        yield f"http{'s' if tls else ''}://{host}:{port}"
        if serving:
            await asyncio.wait(serving)  # until the servers notice the disconnected client


def page(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


async def test_explain_reads_reconcile_records_and_the_owning_replica_from_the_manager():
    for manager_answer, owners in (
        ({"controllers": [CONTROLLER], "owners": [OWNER]}, [ShardOwner("pet", 0, 4, "pod_1", here=False)]),
        ({"controllers": [CONTROLLER]}, []),
    ):
        async with answering(page(orjson.dumps(manager_answer))) as manager:
            report, why = await asked(manager)
        [found] = report.controllers
        assert (found.controller, found.runs[0].requests[0].code, why) == ("foo", 200, "")
        assert report.owners == owners


async def test_explain_ignores_the_report_of_an_object_with_the_same_name_but_another_uid():
    other = {"controllers": [{**CONTROLLER, "uid": "another"}], "owners": [OWNER]}
    async with answering(page(orjson.dumps(other))) as manager:
        report, why = await asked(manager)
    assert (report.controllers, report.owners) == ([], [])
    assert why.startswith(f"The manager at {manager} is one of another cluster")


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[]", b"5", b"{}", b'{"controllers":null}', b'{"controllers":[1,2]}', b"[" * 100_000),
        *(
            orjson.dumps({"controllers": [{**CONTROLLER, name: value}]})
            for name, value in (("runs", [1]), ("uid", 5), ("next", 1), ("next", {"at": "1", "triggers": []}))
        ),
        *(orjson.dumps({"controllers": [{**CONTROLLER, "runs": [{**RUN, name: None}]}]}) for name in RUN),
        orjson.dumps({"controllers": [{name: CONTROLLER[name] for name in CONTROLLER if name != "runs"}]}),
        *(orjson.dumps({"controllers": [], "owners": [{**OWNER, name: []}]}) for name in OWNER),
        *(orjson.dumps({"controllers": [CONTROLLER], "owners": each}) for each in (None, [5], {})),
    ],
)
async def test_explain_reports_that_no_manager_answers_when_the_response_is_malformed(body: bytes):
    async with answering(page(body)) as manager:
        report, why = await asked(manager)
    assert report.controllers == []
    assert why.startswith(f"No manager answers at {manager} (")


@pytest.mark.parametrize(
    "begin", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"]
)
async def test_explain_stops_reading_an_endless_response_after_a_timeout(
    begin: bytes, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(explain, "_PATIENCE", 0.2)
    async with answering(begin, ends=False) as manager:
        report, why = await asked(manager)
    assert (report.controllers, why.startswith("No manager answers at")) == ([], True)


async def test_explain_gives_the_reason_when_the_manager_sends_no_report(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(explain, "_LONGEST", 1000)
    async with answering(page(b" " * 2000)) as manager:
        assert "longer than 1000 bytes" in (await asked(manager))[1]
    assert (await asked(manager))[1].startswith(f"No manager answers at {manager} (")  # no server listens
    for status in (302, 403, 404):
        head = b"HTTP/1.1 %d No\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n" % status
        async with answering(head) as manager:
            assert f"answers {status}:" in (await asked(manager))[1]


async def test_explain_needs_the_tls_server_name_to_trust_a_port_forwarded_manager(tmp_path: Path):
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("webhooks.system.svc").configure_cert(tls)
    file = tmp_path / "ca.crt"
    authority.cert_pem.write_to_path(str(file))
    answer = page(orjson.dumps({"controllers": [CONTROLLER]}))
    async with answering(answer, tls=tls) as manager:
        flags = {"manager_ca_file": str(file)}
        assert "its certificate is not trusted" in (await asked(manager, **flags))[1]
        name = "webhooks.system.svc"
        report, why = await asked(manager, **flags, manager_tls_server_name=name)
        assert ([each.controller for each in report.controllers], why) == (["foo"], "")


@pytest.mark.parametrize("flag", ["manager_token_file", "manager_ca_file"])
@pytest.mark.parametrize("kind", ["endless", "pipe", "missing"])
async def test_explain_error_names_the_flag_of_an_unreadable_file(flag: str, kind: str, tmp_path: Path):
    file = Path("/dev/zero") if kind == "endless" else tmp_path / kind
    if kind == "pipe":
        os.mkfifo(file)
    with pytest.raises(ConfigError, match=f"--{flag.replace('_', '-')}: {file} cannot be read"):
        await asked("https://127.0.0.1:1", **{flag: str(file)})


@pytest.mark.virtual_time
async def test_explain_finds_the_owning_replica_by_shard_leases_without_asking_the_manager(program: Program):
    wire = ScriptedWire()
    program.server.serve(wire)
    transport = Transport(wire, metrics=Metrics(), rng=random.Random(1), user_agent="test")
    leases = ShardLeases(transport, namespace=NAMESPACE, name=NAME)
    assert await explain._owners(leases, [PetOperator], "a-uid") == []
    await program.start("a")
    [owner] = await explain._owners(leases, [PetOperator], "a-uid")
    assert owner == ShardOwner("pet", 0, COUNT, "a", owner.renewed)
    [owner] = await explain._owners(leases, [MemcachedOperator], "a-uid")
    assert owner.shard == ShardSet.of(COUNT, ()).number_of("a-uid")
    # Without the right to read Leases, a user gets all other information.
    wire.on("GET", LEASES, Reply.status(403, "Forbidden", "no right to leases"))
    assert await explain._owners(leases, [PetOperator], "a-uid") == []
