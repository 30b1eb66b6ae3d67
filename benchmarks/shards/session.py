"""A control plane with many finished objects, and replicas that join and leave."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.sessions.plane import create, fresh_plane, name_of, store_copies
from benchmarks.sessions.process import wait_quiet, wait_ready
from benchmarks.shards.figures import Change, Use
from benchmarks.shards.replica import LEASE, SHARDS, Replica, number_of
from benchmarks.status_watch import StatusWatch
from manager_shards.shard_set import ShardSet
from tests.support.eventually import eventually
from tests.support.memcacheds import memcached_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from benchmarks.shards.figures import Figures
    from tests.support.envtest import EnvtestControlPlane

__all__ = ["NAMESPACES", "measure"]

GATE = "--feature-gates=ShardedListAndWatch=true"
NAMESPACES = [f"team-{number}" for number in range(5)]
MEMCACHEDS = "/apis/cache.example.com/v1/memcacheds"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
PAGE = "500"
REPLICAS = (1, 2, 3)
WITHIN = 300.0
# The largest share of a core that an idle replica uses.
QUIET_SHARE = 0.1
POLL = 0.01
WRITERS = 4


def measure(figures: Figures, step: Callable[[str], None]) -> None:
    """Measure the usage of one, two and three replicas, and the shards that move between replicas."""
    with fresh_plane(GATE) as plane:
        step("objects are stored")
        session = Session(plane, figures)
        with StatusWatch(plane) as watch:
            session.watch = watch
            for count in REPLICAS:
                step(f"replicas that start together: {count}")
                with session.replicas(count) as replicas:
                    figures.uses[str(count)] = session.use(replicas)
            step("replicas that come and go")
            with session.replicas(max(REPLICAS)) as replicas, contextlib.ExitStack() as later:
                figures.changes += session.changes(replicas, later)


class Session:
    """The steps of the measurement on one control plane."""

    watch: StatusWatch

    def __init__(self, plane: EnvtestControlPlane, figures: Figures) -> None:
        self._plane = plane
        self._figures = figures
        self._started = 0
        self._shards = ShardSet.of(SHARDS, range(SHARDS))
        for namespace in NAMESPACES:
            plane.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        self._finish_one()
        store_copies(plane, 1, figures.objects, of=0, namespaces=NAMESPACES)
        self._names: dict[int, list[str]] = {number: [] for number in range(SHARDS)}
        # The API server refuses list requests until its cache has all stored objects.
        some = partial(plane.api.request, "GET", MEMCACHEDS, query={"limit": "1"}, accept=METADATA)
        eventually(some, within=WITHIN)
        for metadata in self._listed():
            self._names[self._shards.number_of(metadata["uid"])].append(metadata["name"])
        assert sum(map(len, self._names.values())) == figures.objects

    @contextlib.contextmanager
    def replicas(self, count: int) -> Iterator[list[Replica]]:
        """Start `count` replicas together; yield them when they own all shards, evenly."""
        with contextlib.ExitStack() as stack:
            replicas = [self._start(stack) for _ in range(count)]
            for each in replicas:
                wait_ready(each.process, each.health, WITHIN)
            self._shared_out(replicas)
            yield replicas
            for each in replicas:
                if each.process.running:
                    each.stop()

    def use(self, replicas: Sequence[Replica]) -> list[Use]:
        """Change some objects; return each replica's usage for its start, and for these changes."""
        idle(replicas)
        starts = [self._start_of(each) for each in replicas]
        self._change_some(replicas[0])
        idle(replicas)
        return [
            dataclasses.replace(
                start,
                load_mb=each.received_mb - start.start_mb,
                load_cpu_s=each.cpu_seconds - start.start_cpu_s,
            )
            for each, start in zip(replicas, starts, strict=True)
        ]

    def changes(self, replicas: list[Replica], stack: contextlib.ExitStack) -> Iterator[Change]:
        """Yield the effect of each replica that leaves (-) or joins (+), in the order - + - + - - +."""
        for how in (signal.SIGTERM, signal.SIGKILL):
            yield self._without(replicas, how)
            yield self._with_another(replicas, stack)
        yield self._without(replicas, signal.SIGTERM)
        yield self._without(replicas, signal.SIGTERM)
        yield self._with_another(replicas, stack)

    def _without(self, replicas: list[Replica], how: signal.Signals) -> Change:
        before = self._owners(replicas)
        gone = replicas.pop(0)
        theirs = gone.shards()
        held = self._holders()
        ended = time.monotonic()
        gone.process.signal(how)
        free: dict[int, float] = dict.fromkeys(theirs, ended) if how is signal.SIGKILL else {}
        taken: dict[int, float] = {}
        with ThreadPoolExecutor(WRITERS, thread_name_prefix="change") as pool:
            changed = {number: pool.submit(self._change, number) for number in free}
            while len(taken) < len(theirs):
                if time.monotonic() > ended + WITHIN:
                    raise TimeoutError(f"{len(theirs) - len(taken)} shards of {gone.name} were not taken")
                now, at = self._holders(), time.monotonic()
                for number in theirs - free.keys():
                    if now[number] != held[number]:
                        free[number] = at
                        changed[number] = pool.submit(self._change, number)
                taken |= {
                    number: at for number in theirs - taken.keys() if now[number] not in {held[number], ""}
                }
                time.sleep(POLL)
        statuses = {
            number: self.watch.wait_generation(*changed[number].result(), replicas[0].process, WITHIN)
            for number in sorted(theirs)
        }
        gone.process.wait(WITHIN)
        self._shared_out(replicas)
        name = "SIGTERM" if how is signal.SIGTERM else "kill -9"
        return Change(
            what=f"one ends by {name}",
            replicas=len(replicas),
            moved=self._moved(before, self._owners(replicas)),
            expected=self._objects(theirs),
            came=None,
            unowned_s=[taken[number] - free[number] for number in statuses],
            status_s=[at - free[number] for number, at in statuses.items()],
        )

    def _with_another(self, replicas: list[Replica], stack: contextlib.ExitStack) -> Change:
        before = self._owners(replicas)
        replicas.append(self._start(stack))
        wait_ready(replicas[-1].process, replicas[-1].health, WITHIN)
        self._shared_out(replicas)
        idle(replicas)
        return Change(
            what="one comes",
            replicas=len(replicas),
            moved=self._moved(before, self._owners(replicas)),
            expected=self._objects(replicas[-1].shards()),
            unowned_s=[],
            status_s=[],
            came=self._start_of(replicas[-1]),
        )

    def _start_of(self, replica: Replica) -> Use:
        return Use(
            objects=self._objects(replica.shards()),
            start_mb=replica.received_mb,
            start_cpu_s=replica.cpu_seconds,
            memory_mb=replica.memory_mb,
        )

    def _start(self, stack: contextlib.ExitStack) -> Replica:
        self._started += 1
        return stack.enter_context(Replica(self._plane, self._started))

    def _finish_one(self) -> None:
        """Create the object to copy, then change it; this removes a digest that would be wrong in copies."""
        create(self._plane, 0)
        with StatusWatch(self._plane) as self.watch, self.replicas(1) as (replica,):
            self.watch.wait_generation(name_of(0), 1, replica.process, WITHIN)
            self.watch.wait_generation(*self._resize("default", name_of(0)), replica.process, WITHIN)
            idle([replica])
            self._figures.idle_mb = replica.memory_mb

    def _change_some(self, replica: Replica) -> None:
        names = [name for names in self._names.values() for name in names]
        chosen = [names[index * len(names) // self._figures.load] for index in range(self._figures.load)]
        with ThreadPoolExecutor(WRITERS, thread_name_prefix="load") as pool:
            changed = list(pool.map(lambda name: self._resize(namespace_of(name), name), chosen))
        for name, generation in changed:
            self.watch.wait_generation(name, generation, replica.process, WITHIN)

    def _change(self, number: int) -> tuple[str, int]:
        name = self._names[number][0]
        return self._resize(namespace_of(name), name)

    def _resize(self, namespace: str, name: str) -> tuple[str, int]:
        path = memcached_path(namespace, name)
        size = self._plane.api.get(path)["spec"]["size"] % 9 + 1
        return name, int(self._plane.api.patch(path, {"spec": {"size": size}})["metadata"]["generation"])

    def _shared_out(self, replicas: Sequence[Replica]) -> None:
        deadline = time.monotonic() + WITHIN
        while True:
            for each in replicas:
                each.process.check()
            shares = [len(each.shards()) for each in replicas]
            if sum(shares) == SHARDS and max(shares) - min(shares) <= 1:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"the shards are shared out as {shares}")
            time.sleep(0.1)

    def _owners(self, replicas: Sequence[Replica]) -> dict[int, str]:
        return {number: each.name for each in replicas for number in each.shards()}

    def _moved(self, before: dict[int, str], after: dict[int, str]) -> int:
        return self._objects(number for number in after if before.get(number) != after[number])

    def _objects(self, numbers: Iterable[int]) -> int:
        return sum(len(self._names[number]) for number in numbers)

    def _holders(self) -> dict[int, str]:
        leases = self._plane.api.get(LEASES, labelSelector=f"{LEASE}/lease=shard")["items"]
        return {
            number_of(each["metadata"]["name"]): each["spec"].get("holderIdentity", "") for each in leases
        }

    def _listed(self) -> Iterator[dict[str, Any]]:
        query = {"limit": PAGE}
        while True:
            text = self._plane.api.request("GET", MEMCACHEDS, query=query, accept=METADATA)
            page = json.loads(text)
            yield from (each["metadata"] for each in page["items"])
            if not (more := page["metadata"].get("continue")):
                return
            query = {"limit": PAGE, "continue": more}


def idle(replicas: Sequence[Replica]) -> None:
    for each in replicas:
        if not wait_quiet(each.process, timeout=WITHIN, share=QUIET_SHARE):
            raise TimeoutError(f"{each.name} is not idle within {WITHIN:g} s")


def namespace_of(name: str) -> str:
    number = int(name.removeprefix("object-"))
    return NAMESPACES[number % len(NAMESPACES)] if number else "default"
