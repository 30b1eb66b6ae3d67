"""The cluster of a simulated world, and the disk that survives the cluster's restarts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from http import HTTPStatus

from devcluster import DevCluster
from devcluster.admission import WebhookClient
from devcluster.api.local import LocalClient
from devcluster.clock import Clock
from devcluster.errors import StatusError
from devcluster.storage.records import Change, JournalFailed, Key, Stored
from manager_tools.simulation.loop import VirtualLoop

_BUMP = 1_000_000
_SET_UP = {
    *("customresourcedefinitions", "namespaces", "serviceaccounts"),
    *("clusterroles", "clusterrolebindings", "roles", "rolebindings"),
}
_FLUSHED_WITHIN = 0.004
"""The maximum seconds from a write until the disk has it."""


_SHARDED = 0.5
"""The share of clusters that support sharded lists and watches."""


class Disk:
    """A simulated disk of a cluster. A power failure loses changes that are not flushed."""

    def __init__(self, rng: random.Random) -> None:
        self.version = 0
        self.highest = 0
        """A version above which versions continue after a `rewind` that does not restore versions."""
        self.stuck = False
        """Whether flushing is blocked."""
        self._is_off = False
        self._rng = rng
        self._objects: dict[Key, Stored] = {}
        self._unflushed: list[Change] = []
        self._flushed: list[tuple[float, Change]] = []
        self._flushing: asyncio.TimerHandle | None = None
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def load(self) -> Iterator[Stored]:
        """Return all objects on the disk."""
        return iter(tuple(self._objects.values()))

    def write(self, change: Change) -> None:
        """Accept a change, and flush it after a short delay."""
        if self._is_off:
            return
        self._unflushed.append(change)
        if self._flushing is None:
            delay = self._rng.uniform(0.0, _FLUSHED_WITHIN)
            self._flushing = asyncio.get_running_loop().call_later(delay, self._flush)

    async def durable(self, version: int) -> None:
        """Wait until all changes up to that version are flushed; raise JournalFailed if they are lost."""
        if self._is_off:
            raise JournalFailed("the power has failed (simulated)")
        if version > self.version and self._unflushed:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((version, waiter))
            await waiter

    async def aclose(self) -> None:
        """Flush all pending changes."""
        if self._flushing is not None:
            self._flush()

    def lose(self) -> tuple[Disk, int]:
        """Simulate a power failure; return the disk after it, and the number of lost changes."""
        lost, self._unflushed = self._unflushed, []
        self._is_off = True
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        for _, waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(JournalFailed("the power has failed (simulated)"))
        self._waiting = []
        left = Disk(self._rng)
        left.version, left.highest = self.version, self.highest
        left._objects, left._flushed = self._objects, self._flushed
        return left, len(lost)

    def rewind(self, then: float, *, versions_too: bool = False) -> set[str]:
        """Restore the state at the time `then`, as from a backup; return the UIDs of objects created later.

        By default, resource versions continue above all earlier ones, as with etcd's `--bump-revision`. With
        `versions_too`, resource versions are also restored if they had grown by at least `_BUMP`. The last
        change of a kind in `_SET_UP`, and all changes before that one, are never undone.
        """
        lost = set()
        while self._flushed and self._flushed[-1][0] > then:
            _, change = self._flushed[-1]
            if change.key.plural in _SET_UP:
                break
            self._flushed.pop()
            if change.old is not None:
                self._objects[change.key] = change.old
            elif (gone := self._objects.pop(change.key, None)) is not None:
                lost.add(gone.uid)
        self.highest = max(self.highest, self.version)
        self.version = self._flushed[-1][1].version if self._flushed else 0
        if not versions_too or self.highest - self.version < _BUMP:
            self.highest += _BUMP
            self.version = self.highest
        return lost

    def _flush(self) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        if self.stuck:
            return
        for change in self._unflushed:
            if change.new is None:
                self._objects.pop(change.key, None)
            else:
                self._objects[change.key] = change.new
            self.version = change.version
            self._flushed.append((asyncio.get_running_loop().time(), change))
        self._unflushed = []
        waiting, self._waiting = self._waiting, []
        for version, waiter in waiting:
            if version > self.version:
                self._waiting.append((version, waiter))
            elif not waiter.done():
                waiter.set_result(None)


class ControlPlane:
    """A cluster that can be killed, and restarted from its disk."""

    cluster: DevCluster
    """The running cluster, or the last one."""

    def __init__(
        self,
        seed: str,
        *,
        webhooks: WebhookClient,
        account: tuple[str, str],
        token: str,
        seen: Callable[[Change], None],
        started: Callable[[], None],
    ) -> None:
        """Create a control plane.

        `account` is namespace and name of the managers' account. `seen` is called with each change, during
        the write; `started` is called after each start.
        """
        self.disk = Disk(random.Random(f"{seed}/disk"))
        namespace, name = account
        self._user = f"system:serviceaccount:{namespace}:{name}"
        self._groups = "system:serviceaccounts", f"system:serviceaccounts:{namespace}"
        self.token = token
        """The only token that the cluster accepts from managers."""
        self.skew = 0.0
        """The error of the cluster's wall clock in seconds."""
        self._rng = random.Random(f"{seed}/cluster")
        self._gates = random.Random(f"{seed}/gates")
        self._webhooks = webhooks
        self._seen = seen
        self._started = started
        self._unsubscribe: Callable[[], None]
        self._up = asyncio.Event()

    @property
    def is_up(self) -> bool:
        """Return whether the cluster responds."""
        return self._up.is_set()

    @property
    def client(self) -> LocalClient:
        """Return the cluster's own client; raises StatusError while the cluster is down."""
        if not self.is_up:
            code = HTTPStatus.SERVICE_UNAVAILABLE
            raise StatusError(code, "ServiceUnavailable", "the cluster is down")
        return self.cluster.client

    async def start(self) -> None:
        """Start the cluster with the objects on the disk."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        # Each started cluster either filters by shard or ignores shards, as servers of two versions do.
        gates = ["ShardedListAndWatch"] if self._gates.random() < _SHARDED else []
        # The first cluster of a process reads the table of kinds.
        self.cluster = await asyncio.to_thread(
            DevCluster,
            port=None,
            journal=self.disk,
            clock=Clock(lambda: loop.wall_clock() + self.skew),
            rng=self._rng,
            pod_ready_delay=2.0,
            webhooks=self._webhooks,
            feature_gates=gates,
        )
        self._unsubscribe = self.cluster.store.subscribe(self._seen)
        self.cluster.add_user(self._user, self._groups, token=self.token)
        await self.cluster.start()
        self._up.set()
        self._started()

    def go_ahead(self) -> float:
        """Raise the resource version by a large step.

        Return the loop time at which all earlier writes are flushed: the `then` for `Disk.rewind`.
        """
        self.disk.highest = max(self.disk.highest, self.cluster.store.version) + _BUMP
        self.cluster.store.version = self.disk.highest
        return asyncio.get_running_loop().time() + _FLUSHED_WITHIN

    def take_only(self, token: str) -> None:
        """Accept only this token from managers from now on."""
        self.cluster.authenticator.remove(self.token)
        self.token = token
        self.cluster.add_user(self._user, self._groups, token=token)

    async def kill(self) -> int:
        """Kill the cluster at once; return the number of lost changes."""
        self._up.clear()
        self._unsubscribe()
        self.disk, lost = self.disk.lose()
        await self.cluster.stop()
        return lost

    async def stop(self) -> None:
        """Shut the cluster down cleanly."""
        if self.is_up:
            await self.cluster.stop()

    async def lasting(self, write: Callable[[LocalClient], Awaitable[object]]) -> None:
        """Make a write, and repeat it until it is flushed, so that no fault of the disk can undo it."""
        while True:
            client = await self.there()
            store = self.cluster.store
            try:
                await write(client)
                await store.durable(store.version)
            except JournalFailed:
                continue
            except StatusError as error:
                if error.code != HTTPStatus.CONFLICT:
                    raise
            if self.is_up and self.cluster.store is store:
                return

    async def there(self) -> LocalClient:
        """Wait until the cluster responds; return its client."""
        await self._up.wait()
        return self.cluster.client
