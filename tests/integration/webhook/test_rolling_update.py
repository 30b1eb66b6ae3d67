"""A rolling update under load, in which no review fails."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator

import pytest

from tests.conftest import RunManager, StartControlPlane
from tests.support.control_plane import ControlPlane
from tests.support.envtest import BARE
from tests.support.eventually import eventually
from tests.support.forwarder import Forwarder
from tests.support.load import Load
from tests.support.loop_thread import LoopThread
from tests.support.manager_process import ManagerProcess
from tests.support.pets import pet, pet_path
from tests.support.ports import PortBlock

DELAY = 7.0
HEARD_WITHIN = 0.5
"""Seconds after which nodes send no new connection to an unready pod."""


class Service(LoopThread):
    """Forwarder of new connections to ready pods; open connections stay, as with kube-proxy."""

    def __init__(self) -> None:
        super().__init__("service")
        self.pods: dict[int, ManagerProcess] = {}
        self._ready: list[int] = []
        self._turn = itertools.count()
        self._forwarder = Forwarder(self._choose)
        self.connections = self._forwarder.connections

    async def _open(self) -> None:
        self.port = (await self._forwarder.__aenter__()).port
        self._prober = asyncio.create_task(self._probe())

    async def _close(self) -> None:
        self._prober.cancel()
        await asyncio.wait([self._prober])
        await self._forwarder.__aexit__()

    def leads_to(self, *ports: int) -> None:
        """Assert that the Service forwards to these ports only."""
        assert sorted(self._ready) == sorted(ports)

    async def _probe(self) -> None:
        while True:
            await asyncio.sleep(HEARD_WITHIN)
            pods = list(self.pods.items())
            self._ready = [port for port, pod in pods if await asyncio.to_thread(_is_ready, pod)]

    def _choose(self) -> int | None:
        ready = self._ready
        return ready[next(self._turn) % len(ready)] if ready else None


def _is_ready(pod: ManagerProcess) -> bool:
    with contextlib.suppress(OSError):
        return pod.probe("/readyz/webhook")[0] == 200
    return False


def create(plane: ControlPlane) -> None:
    """Dry-run a creation, which fails if no webhook responds."""
    plane.api.request("POST", pet_path("default"), query={"dryRun": "All"}, body=pet("first"))


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as made:
        yield made


@pytest.mark.contract
@pytest.mark.long
def test_admission_reviews_under_load_succeed_during_a_rolling_update(
    own_control_plane: StartControlPlane, run_manager: RunManager, service: Service
):
    plane = own_control_plane(parts=BARE, crds=True)  # not shared: its API server calls our webhooks

    def pod(port: int) -> ManagerProcess:
        started = run_manager(
            plane.kubeconfig,
            "--controllers=memcached",
            "--webhook-certificates=secret",
            f"--webhook-bind-address=127.0.0.1:{port}",
            f"--webhook-url=https://127.0.0.1:{service.port}",
            f"--shutdown-delay={DELAY:g}s",
            "--leader-elect",
            "--leader-election-namespace=default",
        )
        service.pods[port] = started
        return started.wait_ready()

    with PortBlock(3) as ports:
        old = pod(ports[0])
        eventually(lambda: create(plane))
        with Load(lambda: create(plane), callers=10, every=0.1) as load:
            for port in (ports[1], ports[2]):
                new = pod(port)
                eventually(lambda port=port: service.leads_to(port - 1, port))
                assert old.stop() == 0
                load.wait_for_progress()
                old = new
            eventually(lambda: service.leads_to(ports[2]))
            load.wait_for_progress()
    assert load.failures == {}
    assert service.connections.keys() == {ports[0], ports[1], ports[2]}
    assert old.stop() == 0
