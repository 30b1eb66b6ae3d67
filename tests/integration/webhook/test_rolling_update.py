"""A rolling update under load: one pod follows another, and no review is lost."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import threading
from collections import Counter
from typing import TYPE_CHECKING, Self

import pytest

from tests.integration.webhook.load import Load
from tests.support.crds import install_crds
from tests.support.envtest import BARE
from tests.support.eventually import eventually
from tests.support.pets import pet, pet_path
from tests.support.ports import PortBlock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import RunManager, StartControlPlane
    from tests.support.control_plane import ControlPlane
    from tests.support.manager_process import ManagerProcess

DELAY = 4.0
HEARD_WITHIN = 1.0
"""Seconds after which nobody is sent to a pod that is not ready, as nodes hear of it."""


class Service:
    """Leads new connections to pods that are ready, and leaves those that there are alone, as nodes do."""

    def __init__(self) -> None:
        self._pods: dict[int, ManagerProcess] = {}
        self._ready: list[int] = []
        self._turn = itertools.count()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listening.getsockname()[1]
        self._ended = threading.Event()
        self.connections: Counter[int] = Counter()

    def __enter__(self) -> Self:
        self._threads = [threading.Thread(target=asyncio.run, args=(self._lead(),))]
        self._threads.append(threading.Thread(target=self._probe))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def add(self, port: int, pod: ManagerProcess) -> None:
        """One pod more, which listens there."""
        self._pods[port] = pod

    def leads_to(self, *ports: int) -> None:
        """Assert that these are the ports it leads to."""
        assert sorted(self._ready) == sorted(ports)

    def _probe(self) -> None:
        while not self._ended.wait(HEARD_WITHIN):
            self._ready = [port for port, pod in list(self._pods.items()) if _is_ready(pod)]

    async def _lead(self) -> None:
        # A protocol forgets its task when the caller hangs up; one that waits for the pod would be collected.
        leading: set[asyncio.Task[None]] = set()

        async def lead(here: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            leading.add(task)
            task.add_done_callback(leading.discard)
            ready = self._ready
            with contextlib.closing(back.transport):
                if not ready:
                    return
                port = ready[next(self._turn) % len(ready)]
                with contextlib.suppress(OSError):
                    there, on = await asyncio.open_connection("127.0.0.1", port)
                    self.connections[port] += 1
                    with contextlib.closing(on.transport):
                        await asyncio.gather(_pass_on(here, on), _pass_on(there, back))

        async with await asyncio.start_server(lead, sock=self._listening):
            await asyncio.to_thread(self._ended.wait)


async def _pass_on(here: asyncio.StreamReader, there: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await here.read(65536):
            there.write(data)
            await there.drain()
        there.write_eof()


def _is_ready(pod: ManagerProcess) -> bool:
    with contextlib.suppress(OSError):
        return pod.probe("/readyz/webhook")[0] == 200
    return False


def create(plane: ControlPlane) -> None:
    """Which fails where no webhook answers."""
    plane.api.request("POST", pet_path("default"), query={"dryRun": "All"}, body=pet("first"))


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as made:
        yield made


@pytest.mark.contract
def test_a_rolling_update_under_load_loses_no_review(
    own_control_plane: StartControlPlane, run_manager: RunManager, service: Service
) -> None:
    plane = own_control_plane(parts=BARE)  # of our own: its API server calls our webhooks
    install_crds(plane)

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
        service.add(port, started)
        return started.wait_ready()

    with PortBlock(3) as ports:
        old = pod(ports[0])
        eventually(lambda: create(plane))
        with Load(plane, pet_path("default"), pet("load"), callers=10, every=0.1) as load:
            for port in (ports[1], ports[2]):
                new = pod(port)
                eventually(lambda port=port: service.leads_to(port - 1, port))
                assert old.stop() == 0
                load.goes_on()
                old = new
            eventually(lambda: service.leads_to(ports[2]))
            load.goes_on()
    assert load.failures == {}
    assert service.connections.keys() == {ports[0], ports[1], ports[2]}
    assert old.stop() == 0
