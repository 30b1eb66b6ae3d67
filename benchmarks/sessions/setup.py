"""A program on its own control plane, for several measurements."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from benchmarks.program import Election, Setting
from benchmarks.sessions.plane import create, fresh_plane, name_of, store_copies
from benchmarks.sessions.process import health_ports, resident_mb, started, wait_quiet, wait_ready
from benchmarks.sessions.requests import WATCHES, Requests, watches
from benchmarks.status_watch import StatusWatch
from tests.support.memcacheds import memcached_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.program import Program
    from benchmarks.results import Recorder
    from tests.support.daemon import Daemon
    from tests.support.envtest import EnvtestControlPlane

START_WITHIN = 30.0
CHANGE_WITHIN = 30.0
SEEN_WITHIN = 60.0
# Seconds from the last change until the effects of all changes are over.
AFTERMATH = 1.0


class Setup:
    """A control plane with finished objects and a program that watches them, from `open` until `close`."""

    def __init__(self, program: Program, recorder: Recorder) -> None:
        self.program = program
        self.recorder = recorder
        self.objects = 0
        self._size = 3
        self._stack = contextlib.ExitStack()
        self._running = contextlib.ExitStack()
        self._watching = contextlib.ExitStack()
        self._steady: tuple[Requests, float, float] | None = None
        self.plane: EnvtestControlPlane
        self.watch: StatusWatch
        self.process: Daemon

    def open(self) -> None:
        """Start a control plane, and let the program finish its first object."""
        self.plane = self._stack.enter_context(fresh_plane())
        self._stack.enter_context(self._watching)
        self.rewatch()
        self._stack.enter_context(self._running)
        self.start()
        create(self.plane, 0)
        self.watch.wait_generation(name_of(0), 1, self.process, START_WITHIN)
        # A created Deployment may have a field manager with a digest of its content (this project's manager
        # sets one), so the program would update a copy. A changed Deployment has no such field manager.
        self.watch.wait_generation(name_of(0), self.resize(), self.process, START_WITHIN)
        wait_quiet(self.process, timeout=10.0)
        self.objects = 1

    def close(self) -> None:
        """Stop the program, and delete the control plane."""
        self._stack.close()

    @property
    def runs(self) -> bool:
        """Return whether the program is running."""
        return self.process.running

    def start(self) -> None:
        """Start the program; it watches the objects that exist."""
        addresses = self._running.enter_context(health_ports())
        setting = Setting(health_address=addresses[0])
        self.process = self._running.enter_context(started(self.program, self.plane, setting))
        if self.program.tells_readiness:
            wait_ready(self.process, addresses[0], START_WITHIN)

    def stop(self) -> None:
        """Stop the program."""
        self._running.close()

    def grow(self, count: int) -> None:
        """Add finished objects until there are `count`."""
        store_copies(self.plane, self.objects, count, of=0)
        self.objects = count
        self.watch.wait_seen(count, SEEN_WITHIN + count / 500)

    def change(self, number: int, group: str, count: int) -> None:
        """Change `count` objects, one after the other, and wait each time for the new status."""
        self.process.check()
        counted, cpu = Requests(self.plane), self.process.cpu_seconds()
        self._size = 7 - self._size
        delays = []
        for index in range(count):
            # The changed objects are distributed over all objects.
            name = name_of(index * self.objects // count)
            began = time.monotonic()
            changed = self.plane.api.patch(memcached_path("default", name), {"spec": {"size": self._size}})
            generation = changed["metadata"]["generation"]
            delays.append(self.watch.wait_generation(name, generation, self.process, CHANGE_WITHIN) - began)
        time.sleep(AFTERMATH)
        requests = counted.so_far()
        figures = {
            "ms": sorted(delays)[len(delays) // 2] * 1000,
            "cpu_ms": (self.process.cpu_seconds() - cpu) / count * 1000,
            "requests": sum(requests.values()) / count - 1,  # one request is from the suite
        }
        by_group = {f"{group}: {name}": count for name, count in requests.items()}
        self.recorder.record("change", number, figures, group=group, requests=by_group)

    def begin_steady(self) -> None:
        """Begin to measure the program without changes."""
        self.process.check()
        self._steady = (Requests(self.plane), self.process.cpu_seconds(), time.monotonic())

    def end_steady(self, number: int) -> None:
        """End the measurement without changes; record its figures per minute."""
        assert self._steady is not None
        self.process.check()
        counted, cpu, began = self._steady
        minutes = (time.monotonic() - began) / 60
        requests = counted.so_far()
        figures = {
            "requests": sum(requests.values()) / minutes,
            "cpu_ms": (self.process.cpu_seconds() - cpu) / minutes * 1000,
        }
        self.recorder.record("steady", number, figures, requests=requests)

    def ten(self, number: int, settle: float) -> None:
        """Measure watches and memory of a program that runs ten controllers of one kind."""
        before = watches(self.plane.server_metrics(WATCHES), "memcacheds")
        with health_ports() as (address,):
            setting = Setting(workload="ten", health_address=address)
            with started(self.program, self.plane, setting) as process:
                wait_ready(process, address, START_WITHIN)
                time.sleep(settle)
                now = watches(self.plane.server_metrics(WATCHES), "memcacheds")
                figures: Mapping[str, float] = {"watches": now - before, "mb": resident_mb(process)}
        self.recorder.record("ten", number, figures)

    def replica(self, address: str, name: str) -> Daemon:
        """Return one of two replicas with leader election; it is not started yet."""
        setting = Setting(health_address=address, election=Election(f"bench-{self.program.name}"))
        return self.program.daemon(self.plane.kubeconfig, self.plane.folder, setting, replica=name)

    def unwatch(self) -> None:
        """Stop the watch of the statuses, before the API server is restarted."""
        self._watching.close()

    def rewatch(self) -> None:
        """Start the watch of the statuses again."""
        self._watching.close()
        self.watch = self._watching.enter_context(StatusWatch(self.plane))

    def resize(self) -> int:
        """Change the first object's size; return its new generation."""
        self._size = 7 - self._size
        changed = self.plane.api.patch(memcached_path("default", name_of(0)), {"spec": {"size": self._size}})
        return int(changed["metadata"]["generation"])
