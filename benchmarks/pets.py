"""Many Pets wait when the program starts; how long until the store has each and its status says so?

    python -m benchmarks.pets [--objects 1000] [--rounds 3] [--concurrency N]...

The yardstick is a bare loop that sends the same two writes for each Pet to the API server, and asks no store.
Real API server and etcd, no other controllers, a real store; the rounds of all programs are interleaved.
KUBEBUILDER_ASSETS names the folder with the control plane's programs.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.bare import MERGE_PATCH, BareLoop, run
from benchmarks.program import CONCURRENCY, Program
from benchmarks.status_watch import StatusWatch
from benchmarks.table import table
from tests.support.crds import install_crds
from tests.support.envtest import BARE, EnvtestControlPlane, why_not
from tests.support.manager_process import PROGRAM
from tests.support.pets import pet, pet_path, records
from tests.support.petstore_process import PetStoreProcess

PETS = "/apis/petstore.example.com/v1beta1/pets"
TIMEOUT = 600.0
NOTE = '{"name":"Thor","type":"dog","birthday":"2021-04-01"}'


class BarePets(BareLoop):
    """The metadata and a status each."""

    PATH = PETS

    async def work(self, obj: dict[str, Any]) -> None:
        """Write the metadata, then the status."""
        metadata = obj["metadata"]
        path = pet_path(metadata["namespace"], metadata["name"])
        marks = {
            "resourceVersion": metadata["resourceVersion"],
            "finalizers": ["pet.petstore.example.com/finalizer"],
            "annotations": {"pet.petstore.example.com/added-as": NOTE},
        }
        await self.send("PATCH", path, {"metadata": marks}, MERGE_PATCH)
        await self.send("PATCH", f"{path}/status", {"status": status(metadata["generation"])}, MERGE_PATCH)


def status(generation: int) -> dict[str, Any]:
    """Build a status of the operator's size."""
    identity = "0c0c1eb5-6ff5-4a2c-a6d1-0a1d1f1a9c1e"
    conditions = [
        {
            "type": kind,
            "status": "True",
            "reason": "InStore",
            "message": f"the store has it as {identity}",
            "observedGeneration": generation,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for kind in ("Ready", "StoreReachable")
    ]
    return {"id": identity, "observedGeneration": generation, "conditions": conditions}


def yardstick(concurrency: int) -> Program:
    command = [sys.executable, "-m", "benchmarks.pets", "--bare={kubeconfig}", f"--concurrency={concurrency}"]
    return Program(f"bare {concurrency}", command)


def manager(concurrency: int, store: str) -> Program:
    command = [
        str(PROGRAM),
        "run",
        "--kubeconfig={kubeconfig}",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
        "--console-bind-address=0",
        "--webhook-bind-address=0",
        "--controllers=pet",
        f"--concurrency=pet={concurrency}",
        f"--petstore-address={store}",
        "--log-level=warn",
    ]
    return Program(f"manager {concurrency}", command)


def measure(objects: int, concurrency: int, *, as_bare: bool) -> tuple[float, float, float]:
    """Return Pets per second from first to last status, and the program's and store's CPU ms per Pet."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        plane = stack.enter_context(EnvtestControlPlane(folder / "plane", parts=BARE, measured=True))
        (folder / "store").mkdir()
        store = stack.enter_context(PetStoreProcess(folder / "store"))
        install_crds(plane)
        pets = (pet(f"bench-{index}", name=f"Pet {index}") for index in range(objects))
        plane.api.create_many(pet_path("default"), pets)
        watch = stack.enter_context(StatusWatch(plane, PETS))
        program = yardstick(concurrency) if as_bare else manager(concurrency, store.address)
        process = program.daemon(plane.kubeconfig, folder)
        process.start()
        stack.callback(process.stop)
        watch.wait(1, process, TIMEOUT)
        cpu, already = process.cpu_seconds(), len(watch.converged)
        store_cpu = store.process.cpu_seconds()
        watch.wait(objects, process, TIMEOUT)
        each = 1000 / (objects - already)
        cpu, store_cpu = process.cpu_seconds() - cpu, store.process.cpu_seconds() - store_cpu
        assert as_bare or len(records(store.address)) == objects
    moments = sorted(watch.converged.values())
    return (objects - 1) / (moments[-1] - moments[0]), cpu * each, store_cpu * each


def compare(options: argparse.Namespace) -> None:
    results: dict[str, list[tuple[float, float, float]]] = {}
    for number in range(1, options.rounds + 1):
        for concurrency in options.concurrency or [CONCURRENCY]:
            for name, as_bare in (("bare", True), ("manager", False)):
                began = time.monotonic()
                result = measure(options.objects, concurrency, as_bare=as_bare)
                results.setdefault(f"{name} {concurrency}", []).append(result)
                took = time.monotonic() - began
                print(
                    f"round {number}: {name} {concurrency}: {result[0]:.0f} Pets/s ({took:.0f} s)",
                    file=sys.stderr,
                )
    print(f"{options.objects} Pets, {options.rounds} rounds; medians")
    rows = [
        [name, *(statistics.median(column) for column in zip(*measured, strict=True))]
        for name, measured in results.items()
    ]
    print(table(["", "Pets/s", "CPU ms each", "store CPU ms each"], rows))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--objects", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", type=int, action="append", help="objects worked on at a time")
    parser.add_argument("--bare", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:
        run(BarePets, options.bare, options.concurrency[0])
        return
    problem = why_not()
    if problem:
        sys.exit(f"benchmarks.pets: {problem}")
    compare(options)


if __name__ == "__main__":
    main()
