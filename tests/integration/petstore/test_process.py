"""`petstore serve` as a process, used by the petstore commands and by grpcurl."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from petstore.client import NoAnswer, PetStoreClient
from tests.support.petstore_process import CALL_WITHIN, PetStoreProcess, petstore
from tests.support.petstores import pet
from tests.support.tools import tool


@pytest.fixture
def store(tmp_path: Path) -> Iterator[PetStoreProcess]:
    with PetStoreProcess(tmp_path) as running:
        yield running


def test_petstore_commands_create_read_and_delete_pets(store: PetStoreProcess):
    environ = {"PETSTORE_ADDRESS": store.address}

    def run(*arguments: str) -> str:
        done = petstore(*arguments, environ=environ)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    thor = run("add", "Thor", "--type", "dog", "--birthday", "2021-04-01", "--idempotency-key", "k").strip()
    assert run("add", "Thor", "--type=dog", "--birthday=2021-04-01", "--idempotency-key=k").strip() == thor
    tron = json.loads(run("add", "Tr\x1bon", "--type=cat", "--birthday=2020-06-25", "-o", "json"))["id"]
    assert run("search").splitlines() == [
        f"{'ID':36}  TYPE     BIRTHDAY    NAME",
        f"{thor}  dog      2021-04-01  Thor",
        f"{tron}  cat      2020-06-25  Tr\\x1bon",
    ]
    both = json.loads(run("search", "--output=json"))
    assert [one["name"] for one in both] == ["Thor", "Tr\x1bon"]
    assert [one.get("idempotencyKey") for one in both] == ["k", None]
    assert json.loads(run("search", "--born-before", "2021-01-01", "-o", "json"))[0]["id"] == tron
    assert json.loads(run("search", "--type", "bird", "-o", "json")) == []
    assert run("delete", thor, "no-such-id") == f"{thor} is gone\nno-such-id is gone\n"
    nobody = petstore("search", "--name", "Thor", environ=environ)
    assert (nobody.returncode, nobody.stdout, nobody.stderr) == (0, "", "No pets found.\n")
    blank = petstore("add", " ", "--type", "dog", "--birthday", "2021-04-01", environ=environ)
    assert (blank.returncode, blank.stderr) == (1, "petstore: pets[0].name: must not be blank\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_petstore_stops_cleanly_on_a_signal(store: PetStoreProcess, number: signal.Signals):
    assert store.stop(number) == 0
    lines = store.process.output().splitlines()
    assert lines == [
        f"petstore: serving at {store.address}, pets are in {store.data}",
        f"petstore: metrics at http://{store.metrics_address}/metrics",
        "petstore: ready; Ctrl-C stops it",
        "petstore: stopping",
    ]
    # The store keeps all data in one file.
    assert {path.name for path in store.folder.iterdir()} == {"petstore.log", "pets.db", "pets.db-lock"}


def test_petstore_keeps_acknowledged_writes_when_it_is_killed(store: PetStoreProcess):
    async def add_until_killed() -> tuple[dict[str, str], int]:
        known: dict[str, str] = {}
        unknown = 0

        async def adder(first: int) -> None:
            nonlocal unknown
            for number in range(first, 1_000_000, 50):
                key = f"key-{number}"
                try:
                    (known[key],) = await client.add([pet(f"pet-{number}", idempotency_key=key)])
                except NoAnswer:
                    unknown += 1
                    return
                if len(known) == 1000:
                    store.process.signal(signal.SIGKILL)

        async with PetStoreClient(store.address, timeout=20) as client, asyncio.TaskGroup() as adders:
            for first in range(50):
                adders.create_task(adder(first))
        return known, unknown

    async def look(known: dict[str, str], unknown: int) -> None:
        async with PetStoreClient(store.address, timeout=20) as client:
            found = {one.idempotency_key: one.id async for one in client.search()}
            assert known.items() <= found.items()
            assert len(found) - len(known) <= unknown
            first = list(known)[:1000]
            again = await client.add([pet(idempotency_key=key) for key in first])
            assert again == [known[key] for key in first]

    known, unknown = asyncio.run(add_until_killed())
    assert len(known) >= 1000
    assert store.process.wait(10) == -signal.SIGKILL
    store.start()
    asyncio.run(look(known, unknown))


def test_petstore_serves_grpcurl_through_server_reflection(tmp_path: Path):
    grpcurl = tool("grpcurl")

    def run(*arguments: str) -> str:
        command = [grpcurl, "-plaintext", "-max-time", "20", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=CALL_WITHIN, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    with PetStoreProcess(tmp_path, "--allow-change-sampler") as store:
        services = run(store.address, "list").split()
        assert {"grpc.health.v1.Health", "petstore.PetStore"} <= set(services)
        assert "idempotency_key = 5" in run(store.address, "describe", "petstore.Pet")
        for name in ("", "petstore.PetStore"):
            asked = json.dumps({"service": name})
            health = run("-d", asked, store.address, "grpc.health.v1.Health/Check")
            assert json.loads(health) == {"status": "SERVING"}
        birthday = {"year": 2021, "month": 4, "day": 1}
        thor = {"name": "Thor", "type": "PTCanine", "birthday": birthday}
        added = run("-d", json.dumps({"pets": [thor]}), store.address, "petstore.PetStore/AddPets")
        (identity,) = json.loads(added)["ids"]
        found = run("-d", '{"names": ["Thor"]}', store.address, "petstore.PetStore/SearchPets")
        assert json.loads(found) == {"id": identity, **thor}
        sampler = '{"sampler": {"type": "STFloat", "float_value": 0.5}}'
        assert json.loads(run("-d", sampler, store.address, "petstore.PetStore/ChangeSampler")) == {}
