"""All programs side by side, each on a control plane of its own: the CPU that each uses at the same time.

What runs one after the other is compared with the machine as it was a minute before, which may be half as
fast. Here whatever slows one program down slows all of them. Only figures of one round are to be compared:
so many at once, each takes several times as long as alone.
"""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from benchmarks.sessions.process import QUIET, QUIET_SHARE
from tests.support.memcacheds import memcached, memcached_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.parts import Sizes
    from benchmarks.sessions.stand import Stand

PART = "side"
WITHIN = 300.0
# Seconds that it usually takes of each program: to begin, and for one object or one change.
BEGIN, OBJECT, CHANGE = 9.0, 0.01, 0.03


def seconds(count: int, rounds: int, sizes: Sizes) -> float:
    """How long so many programs usually take."""
    each = BEGIN + (rounds + 1) * (sizes.side * OBJECT + sizes.changes * CHANGE)
    return count * each


class Side:
    """Programs that stand ready, until the `with` block ends."""

    def __init__(self, stands: Mapping[str, Stand], sizes: Sizes) -> None:
        self._stands = stands
        self._sizes = sizes
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> None:
        with contextlib.ExitStack() as stack:
            for stand in self._stands.values():
                stack.callback(stand.close)
                stand.open()
            self._stack = stack.pop_all()

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def round(self, number: int) -> None:
        """New objects, of which all programs hear at the same moment; then changes, one after the other.

        Round 0 is not taken down: in it connections are made, and code gets warm.
        """
        names = [f"side-{number}-{index:04d}" for index in range(self._sizes.side)]
        stands = list(self._stands.values())
        for stand in stands:
            stand.process.freeze()
            stand.plane.api.create_many(memcached_path("default"), map(memcached, names))
        begun, server = _used(stands), _used_by_servers(stands)
        for stand in stands:
            stand.process.thaw()
        for stand in stands:
            _wait_observed(stand, names)
        _rest(stands)
        new, server = _grown(_used(stands), begun), _grown(_used_by_servers(stands), server)

        begun, size = _used(stands), 5 + number % 2
        with ThreadPoolExecutor(len(stands), thread_name_prefix="changes") as pool:
            for _ in pool.map(lambda stand: self._change(stand, names, size), stands):
                pass
        _rest(stands)
        changed = _grown(_used(stands), begun)
        for index, stand in enumerate(stands):
            figures = {
                "cpu_ms": new[index] / len(names) * 1000,
                "server_cpu_ms": server[index] / len(names) * 1000,
                "change_cpu_ms": changed[index] / self._sizes.changes * 1000,
            }
            if number:
                stand.recorder.record(PART, number, figures)

    def _change(self, stand: Stand, names: Sequence[str], size: int) -> None:
        for index in range(self._sizes.changes):
            name = names[index * len(names) // self._sizes.changes]
            changed = stand.plane.api.patch(memcached_path("default", name), {"spec": {"size": size}})
            stand.watch.wait_generation(name, changed["metadata"]["generation"], stand.process, WITHIN)


def _wait_observed(stand: Stand, names: Sequence[str]) -> None:
    for name in names:
        stand.watch.wait_generation(name, 1, stand.process, WITHIN)


def _used(stands: Sequence[Stand]) -> list[float]:
    return [stand.process.cpu_seconds() for stand in stands]


def _used_by_servers(stands: Sequence[Stand]) -> list[float]:
    return [stand.plane.part("apiserver").cpu_seconds() for stand in stands]


def _grown(now: Sequence[float], before: Sequence[float]) -> list[float]:
    return [after - then for after, then in zip(now, before, strict=True)]


def _rest(stands: Sequence[Stand]) -> None:
    """Until all are idle: Events, and a look at what was written, are part of the work."""
    until, used = time.monotonic() + WITHIN, [0.0] * len(stands)
    while time.monotonic() < until:
        time.sleep(QUIET)
        before, used = used, _used(stands)
        if max(_grown(used, before)) <= QUIET_SHARE * QUIET:
            return
    raise TimeoutError(f"the programs were not idle after {WITHIN:.0f} s")
