"""Never a second record and never an orphan, whatever fails between any two steps of the Pet operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.eventually import eventually
from tests.support.fault_proxy import Match
from tests.support.loop_thread import LoopThread
from tests.support.pets import assert_in_step, pet, pet_path, records
from tests.support.petstores import Faults, local_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import RunManager
    from tests.support.control_plane import ControlPlane
    from tests.support.fault_proxy import FaultProxy
    from tests.support.manager_process import ManagerProcess


class FaultyStore(LoopThread):
    """A pet store in memory, beside the test; it fails calls on demand."""

    def __init__(self, **options: Any) -> None:
        super().__init__("faulty-store")
        self._faults = Faults()
        self._store = local_store(faults=self._faults, grace=0.1, **options)
        self.fail, self.calls = self._faults.fail, self._faults.calls

    async def _open(self) -> None:
        self.address = str((await self._store.__aenter__()).server.address)

    async def _close(self) -> None:
        await self._store.__aexit__(None, None, None)


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
