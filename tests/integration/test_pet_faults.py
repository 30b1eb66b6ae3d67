"""Never a second record and never an orphan, whatever fails between any two steps of the Pet operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.eventually import eventually
from tests.support.fault_proxy import Match
from tests.support.loop_thread import LoopThread
from tests.support.pets import assert_in_step, forget, pet, pet_path, records
from tests.support.petstores import Faults, Held, local_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import RunManager
    from tests.support.control_plane import ControlPlane
    from tests.support.fault_proxy import FaultProxy
    from tests.support.manager_process import ManagerProcess

# Longer than the test waits for anything, so that nobody comes back before the manager is killed.
LATE = 60.0


class HeldCall:
    """A call that the store beside holds up."""

    def __init__(self, thread: LoopThread, held: Held) -> None:
        self._thread = thread
        self._held = held

    def wait(self) -> None:
        """Until it is held."""
        self._thread.run(self._held.reached.wait())

    def release(self) -> None:
        """Let it go on, if its caller still waits."""
        self._thread.loop.call_soon_threadsafe(self._held.released.set)


class FaultyStore(LoopThread):
    """A pet store in memory, beside the test; it fails calls, or holds them, on demand."""

    def __init__(self, **options: Any) -> None:
        super().__init__("faulty-store")
        self._faults = Faults()
        self._store = local_store(faults=self._faults, grace=0.1, **options)
        self.fail, self.calls = self._faults.fail, self._faults.calls

    async def _open(self) -> None:
        self.address = str((await self._store.__aenter__()).server.address)

    async def _close(self) -> None:
        await self._store.__aexit__(None, None, None)

    def hold(self, method: str, when: str) -> HeldCall:
        """Hold up the next call of `method`, "before" or "after" its effect."""
        return HeldCall(self, self._faults.hold(method, when))


class Trial:
    """A manager between an API server and a store, each of which fails on demand."""

    def __init__(
        self,
        plane: ControlPlane,
        namespace: str,
        proxy: FaultProxy,
        store: FaultyStore,
        manager: ManagerProcess,
    ) -> None:
        self.plane = plane
        self.namespace = namespace
        self.proxy = proxy
        self.store = store
        self.manager = manager

    def create(self, name: str) -> None:
        self.plane.api.create(pet_path(self.namespace), pet(name, name=name))

    def rename(self, name: str, to: str) -> None:
        self.plane.api.patch(pet_path(self.namespace, name), {"spec": {"name": to}})

    def delete(self, name: str) -> None:
        self.plane.api.delete(pet_path(self.namespace, name))

    def settle(self) -> None:
        """Every Pet that is not to go is ready, and no other is there."""

        def all_in_step() -> None:
            items = self.plane.api.get(pet_path(self.namespace))["items"]
            assert not [each for each in items if "deletionTimestamp" in each["metadata"]]
            assert_in_step(self.plane, self.namespace, self.store.address)

        eventually(all_in_step)

    def writes(self, name: str, part: str = "") -> Match:
        return Match(method="PATCH", path=f"/pets/{name}{part}$")

    def crash(self, meanwhile: Callable[[], None], held: list[HeldCall]) -> None:
        """Kill the manager, do something that it does not see, and start it again."""
        self.manager.kill()
        meanwhile()
        self.proxy.heal()
        self.manager.start_again()
        self.manager.wait_ready()
        for each in held:
            each.release()


@pytest.fixture
def trial(
    crds: ControlPlane,
    namespace: str,
    run_manager: RunManager,
    fault_proxy: Callable[[Path], FaultProxy],
) -> Iterator[Trial]:
    # A store that knows keys makes it easier; each life of a Pet is tried with both without a manager.
    with FaultyStore(ignore_idempotency_keys=True) as store:
        proxy = fault_proxy(crds.kubeconfig)
        manager = run_manager(
            proxy.kubeconfig,
            f"--namespaces={namespace}",
            "--controllers=pet",
            f"--petstore-address={store.address}",
        ).wait_ready()
        yield Trial(crds, namespace, proxy, store, manager)


def test_calls_that_fail(trial: Trial) -> None:
    for when in ("before", "after"):
        trial.store.fail("AddPets", when)
        trial.create(f"add-{when}")
        trial.settle()
        trial.store.fail("UpdatePets", when)
        trial.rename(f"add-{when}", "renamed")
        trial.settle()
    # Two Pets say the same now; each keeps its own.

    trial.proxy.drop(match=trial.writes("mark-lost"))
    trial.create("mark-lost")
    trial.proxy.lose_answers(match=trial.writes("mark-unheard"))
    trial.create("mark-unheard")
    trial.proxy.drop(match=trial.writes("status-lost", "/status"))
    trial.create("status-lost")
    trial.proxy.lose_answers(match=trial.writes("status-unheard", "/status"))
    trial.create("status-unheard")
    trial.settle()

    for when in ("before", "after"):
        trial.store.fail("DeletePets", when)
        trial.delete(f"add-{when}")
        trial.settle()
    trial.proxy.drop(match=trial.writes("mark-lost"))
    trial.delete("mark-lost")
    trial.proxy.lose_answers(match=trial.writes("mark-unheard"))
    trial.delete("mark-unheard")
    trial.settle()
    # An answer that is lost, and nothing after it but the end.
    trial.store.fail("AddPets", "after")
    added = trial.store.calls["AddPets"]
    trial.create("short-lived")
    eventually(lambda: trial.store.calls["AddPets"] > added)
    trial.delete("short-lived")
    trial.settle()
    assert {each["name"] for each in records(trial.store.address)} == {"status-lost", "status-unheard"}
    assert trial.manager.stop() == 0


def test_a_manager_that_is_killed(trial: Trial) -> None:
    """Each time in the middle of as many things as there are steps."""
    held = []
    for name, when in (("unheard-of", "before"), ("unknown", "after"), ("renamed", "after")):
        held.append(trial.store.hold("AddPets", when))
        trial.create(name)
        held[-1].wait()
    trial.proxy.delay(LATE, match=trial.writes("unsaid", "/status"))
    trial.create("unsaid")
    eventually(lambda: trial.proxy.count(trial.writes("unsaid", "/status")) == 1)
    trial.crash(lambda: trial.rename("renamed", "in-between"), held)
    trial.settle()

    held = [trial.store.hold("UpdatePets", "after")]
    trial.rename("unsaid", "said")
    held[-1].wait()
    for name, when in (("unheard-of", "before"), ("unknown", "after")):
        held.append(trial.store.hold("DeletePets", when))
        trial.delete(name)
        held[-1].wait()
    held.append(trial.store.hold("AddPets", "after"))
    trial.create("never-known")
    held[-1].wait()
    trial.crash(lambda: trial.delete("never-known"), held)
    trial.settle()
    assert {each["name"] for each in records(trial.store.address)} == {"in-between", "said"}

    # A start over what is settled writes nothing.
    assert trial.manager.stop() == 0
    patches, calls = trial.proxy.count(Match(method="PATCH", path="/pets/")), dict(trial.store.calls)
    trial.manager.start_again()
    trial.manager.wait_ready()

    def looked_at_all() -> bool:
        return trial.manager.metrics().value("controller_runtime_reconcile_total", controller="pet") >= 2

    eventually(looked_at_all)
    assert trial.proxy.count(Match(method="PATCH", path="/pets/")) == patches
    assert trial.store.calls == calls
    for name in ("renamed", "unsaid"):
        trial.delete(name)
    eventually(lambda: records(trial.store.address) == [])
    trial.settle()


def test_pets_that_are_gone_while_no_watch_tells_of_it_get_no_record_again(
    crds: ControlPlane, namespace: str, run_manager: RunManager, fault_proxy: Callable[[Path], FaultProxy]
) -> None:
    """As for a new leader whose watch is held back: another one has removed Pets and records meanwhile."""
    names = [f"gone-{number}" for number in range(5)]
    with FaultyStore() as store:
        proxy = fault_proxy(crds.kubeconfig)
        manager = run_manager(
            proxy.kubeconfig,
            f"--namespaces={namespace}",
            "--controllers=pet",
            f"--petstore-address={store.address}",
            "--petstore-check-interval=500ms",
        ).wait_ready()
        trial = Trial(crds, namespace, proxy, store, manager)
        for name in (*names, "stays"):
            trial.create(name)
        trial.settle()
        assert proxy.stall_watches(Match(path="/pets$"))
        for name in names:
            trial.delete(name)
            crds.api.patch(pet_path(namespace, name), {"metadata": {"finalizers": None}})
        for each in records(store.address):
            forget(store.address, each["id"])
        # Its check finds all records lost, and it adds what the API server says is there.
        asked = [Match(method="GET", path=f"/pets/{name}$") for name in names]
        eventually(lambda: all(proxy.count(match) >= 2 for match in asked))
        eventually(lambda: [each["name"] for each in records(store.address)] == ["stays"])
        assert store.calls["AddPets"] == len(names) + 2
        assert manager.stop() == 0
