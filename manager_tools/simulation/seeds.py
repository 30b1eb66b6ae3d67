"""Simulation runs: one plan, many plans, the crash points of a plan, and the reduction of a failing plan."""

from __future__ import annotations

import gc
import importlib
import math
import multiprocessing
import random
import re
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Unpack

from manager.api import Resource
from manager.operator import AnyOperator
from manager.util.memory import tune_garbage_collector
from manager_tools.simulation.comparing import different_from_fresh, missing, resource_of, without_history
from manager_tools.simulation.faults import befall
from manager_tools.simulation.guards import guarded
from manager_tools.simulation.loop import simulate
from manager_tools.simulation.plan import Plan, plan_of
from manager_tools.simulation.scene import Violation, is_upkeep
from manager_tools.simulation.services import Handler
from manager_tools.simulation.world import STAYS_CALM, Given, Outside, World

Samples = Mapping[str, Sequence[dict[str, Any]]]
"""Valid specs, by kind and group."""

_STAYS_CALM = 4
"""Of this many seeds, the first is observed longer in the calm, as are runs with certificates."""
_SEES_RENEWALS = 2_500.0
"""Calm seconds of a run with certificates, so that a write follows even a manager's death at a renewal."""
_AHEAD = 4
"""The number of submitted runs for each process: few, so that all of them end soon after a failure."""
_SHRINKS = 80
"""The maximum number of runs to reduce a failing plan."""
_SHRINKS_FOR = 45.0
"""The maximum real seconds to reduce a failing plan: less than a minute."""


_NOT_FRESH, _IN_FRESH = "not as a fresh install has it", "in a fresh install"
_OF_COMPARISON = (_NOT_FRESH, _IN_FRESH)
"""The beginnings of violations that only a comparison with a fresh cluster finds."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run.

    Attributes: `violations` are the failed checks; `digest` is the same for the same seed, on any machine;
    `writes` counts the managers' writes, also to external systems, and `looks` their reads of such systems;
    `seconds` are virtual; `timeline` has (seconds, process, event); `accepted` counts the objects of each
    resource that the API server accepted; `lost` counts the objects that only the fresh cluster has, and
    `doubled` those that only the run's cluster has; `settled` is the time from the last fault or step until
    changes ended.
    """

    plan: Plan
    violations: tuple[Violation, ...]
    digest: str
    writes: int
    looks: int
    seconds: float
    timeline: tuple[tuple[float, str, str], ...]
    accepted: Mapping[str, int] = field(default_factory=dict)
    lost: int = 0
    doubled: int = 0
    settled: float = 0.0

    @property
    def sort(self) -> str:
        """Return the category of the failure: its message without names and numbers."""
        what = self.violations[0].what if self.violations else ""
        return re.sub(r"[0-9][-0-9a-z.]*|[^\s/]*/\S*", "*", what)[:60]


def crash_points(plan: Plan, operators: Sequence[AnyOperator], **given: Unpack[Given]) -> Iterator[Plan]:
    """Yield plans with a single fault each: every type of fault below, at every write of a manager.

    Faults `before` and `after`: the manager dies right before or after the write, and restarts or, with two
    replicas, the other one takes over. `freeze`: the manager is paused until the other one has taken over.
    `stale`: the manager restarts and reads an old state. `meddle`: users change any object right after the
    write. `refuse`: the server refuses the manager's requests for a while, beginning with the write. `look`:
    the manager is paused after a read of an external system, instead of at a write.
    """
    calm = replace(plan, faults=(), replicas=1)
    seen = run(calm, operators, compare=False, **given)
    for number in range(1, seen.writes + 1):
        for when in ("before", "after"):
            for replicas in (1, 2):
                yield replace(calm, crash_at=(number, when), replicas=replicas)
        yield replace(calm, crash_at=(number, "freeze"), replicas=2)
        for when in ("stale", "meddle", "refuse"):
            if when != "meddle" or calm.steps:
                yield replace(calm, crash_at=(number, when))
    for number in range(1, seen.looks + 1):
        yield replace(calm, crash_at=(number, "look"), replicas=2)


def run(
    plan: Plan, operators: Sequence[AnyOperator], *, compare: bool = True, **given: Unpack[Given]
) -> Outcome:
    """Run the plan, and compare the result with a fresh cluster."""
    with _collected_at_the_end():
        return _run(plan, operators, compare, given)


def _run(plan: Plan, operators: Sequence[AnyOperator], compare: bool, given: Given) -> Outcome:
    world = World(
        plan=plan,
        operators=operators,
        befall=befall,
        stays_calm=_calm_seconds(plan),
        outside=_outsides(operators),
        given=given,
    )
    before = _open_files()
    _simulate(world)
    left = _open_files() - before
    violations, lost, doubled = list(world.violations), 0, 0
    if left:
        violations.append(Violation(world.timeline[-1][0], f"{len(left)} files are left open"))
    if compare and not violations:
        more, lost, doubled = _compared(world)
        violations += more
    return Outcome(
        plan,
        tuple(violations),
        world.digest,
        world.writes,
        world.looks,
        world.timeline[-1][0],
        tuple(world.timeline),
        dict(world.people.accepted),
        lost,
        doubled,
        max(0.0, world.last_unrest - world.ended_at),
    )


def _simulate(world: World) -> None:
    with guarded() as world.refused:
        simulate(world.run(), random.Random(f"{world.plan.seed}/order"))


def _calm_seconds(plan: Plan) -> float:
    if plan.keeps_certificates:
        return _SEES_RENEWALS
    return STAYS_CALM if plan.seed % _STAYS_CALM == 0 else 0.0


def _compared(world: World) -> tuple[list[Violation], int, int]:
    """Compare with a fresh cluster; return the differences, and the numbers of missing and further objects.

    If operators read the time, the fresh cluster gets the objects at the same times. Then the states are
    compared at several moments, and must be equal at one of them, because a cluster may be busy at the
    others.
    """
    follows_clock = world.clock_use.is_read
    fresh = replace(
        world,
        plan=Plan(world.plan.seed, replicas=1, steps=(), faults=()),
        objects=world.asked if follows_clock else [each._replace(at=0.0) for each in world.asked],
        stays_calm=0.0,  # the first run has already checked that it stays calm
        clocks_are_right=True,
        drawn_before=world.drawn,
        moments=[moment for moment, _ in world.states] if follows_clock else (),
    )
    _simulate(fresh)
    at, lost, doubled, found = world.timeline[-1][0], 0, 0, list[str]()
    resources = world.clock_use.resources | fresh.clock_use.resources
    for (_, have), (_, wanted) in zip(world.states, fresh.states, strict=False):
        one, other = without_history(have, wanted, resources, world.ended_at)
        found = [f"{_NOT_FRESH}: {what}" for what in different_from_fresh(one, other)]
        lost, doubled = missing(other, one), missing(one, other)
        if not found:
            break
    found += [f"{_IN_FRESH}, {each.what}" for each in fresh.violations]
    return [Violation(at, each) for each in found], lost, doubled


@contextmanager
def _collected_at_the_end() -> Iterator[None]:
    """Collect garbage rarely in the block, in which all objects of a world stay in use; collect all after it.

    Objects from before the block are not collected. At the end of the block, nothing may refer to the world.
    """
    usual = gc.get_threshold()
    tune_garbage_collector()
    gc.freeze()
    try:
        yield
    finally:
        gc.collect()
        gc.unfreeze()
        gc.set_threshold(*usual)


def run_all(
    plans: Iterable[Plan], operators: Sequence[AnyOperator], *, jobs: int, **given: Unpack[Given]
) -> Generator[Outcome, None, None]:
    """Run the plans in `jobs` processes; yield the results in order, without timelines of successful runs."""
    if jobs == 1:
        for plan in plans:
            yield _slim(run(plan, operators, **given))
        return
    context = multiprocessing.get_context("fork")
    with ExitStack() as stack:
        pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(operators, given))
        stack.callback(pool.shutdown, cancel_futures=True)
        running: deque[Future[Outcome]] = deque()
        for plan in plans:
            running.append(pool.submit(_run_slim, plan))
            if len(running) > jobs * _AHEAD:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


def shrunk(
    outcome: Outcome,
    operators: Sequence[AnyOperator],
    *,
    runs: int = _SHRINKS,
    seconds: float = _SHRINKS_FOR,
    enough: Callable[[], object] = lambda: False,
    **given: Unpack[Given],
) -> Outcome:
    """Return a run that fails in the same way with fewer faults and steps.

    The search ends after `runs` runs, after some real `seconds`, or when `enough` returns true.
    """
    now = time.monotonic
    best, began, longest = outcome, now(), 0.0

    def fails_alike(plan: Plan) -> bool:
        nonlocal best, longest, runs
        if not runs or enough() or now() - began + longest > seconds:
            return False
        runs, since = runs - 1, now()
        compare = outcome.sort.startswith(_OF_COMPARISON)
        came = run(plan, operators, compare=compare, **given)
        longest = max(longest, now() - since)
        if alike := came.sort == outcome.sort:
            best = came
        return alike

    failed_at = outcome.violations[0].at if outcome.violations else math.inf
    for smaller in (
        replace(best.plan, faults=()),
        replace(
            best.plan,
            faults=tuple(each for each in best.plan.faults if each.at <= failed_at),
            steps=tuple(each for each in best.plan.steps if each.at <= failed_at),
        ),
    ):
        if smaller != best.plan and fails_alike(smaller):
            break
    for part in ("faults", "steps"):
        size = max(1, len(getattr(best.plan, part)) // 2)
        while size:
            start = 0
            while start < len(kept := getattr(best.plan, part)):
                if not fails_alike(replace(best.plan, **{part: kept[:start] + kept[start + size :]})):
                    start += size
            size //= 2
    return best


def assert_holds(
    *operators: AnyOperator,
    seeds: Iterable[int] = range(20),
    minutes: float | None = None,
    samples: Sequence[Resource] = (),
    services: Mapping[str, Handler] | None = None,
    may_differ: Iterable[str] = (),
    heartbeats: Iterable[str] = (),
) -> None:
    """Check operators in simulations; raise an AssertionError with the full story when a seed fails.

    Simulated users create objects with values drawn from the schema. `samples` are valid objects, for kinds
    whose constraints are hard to guess; the check fails if the API server accepted no object of a kind in any
    seed.

    `services` are aiohttp handlers by URL (`http://HOST:PORT`) that answer the operators' HTTP calls. No
    other network exists: any other look-up or connection fails the test, with the host's name.

    `may_differ` names fields, anywhere in objects, that may differ from a fresh install. It is needed for
    fields with times of day, counts or durations. Timestamps may always differ.

    `heartbeats` names fields that an operator changes continually on purpose. These fields may differ, too,
    and a write that changes nothing else does not count as activity. Changes by the manager's clock or
    `@every` need no such name.
    """
    given: Given = {
        "samples": specs_of(each.to_wire() for each in samples),
        "services": services or {},
        "may_differ": _names("may_differ", may_differ),
        "heartbeats": _names("heartbeats", heartbeats),
    }
    if not operators or not (seeds := [*seeds]):
        raise ValueError("assert_holds needs an operator and a seed at least")
    accepted: Counter[str] = Counter()
    for seed in seeds:
        outcome = run(plan_of(seed, operators, minutes=minutes), operators, **given)
        accepted.update(outcome.accepted)
        if outcome.violations:
            raise AssertionError(story_of(shrunk(outcome, operators, **given)))
    if missing := never_accepted(accepted, operators):
        raise AssertionError(f"{missing}: give `samples`")


def _names(what: str, fields: Iterable[str]) -> frozenset[str]:
    names = [fields] if isinstance(fields, str) else [*fields]
    paths = [each for each in names if each.lstrip(".").startswith(("spec.", "status."))]
    if paths or isinstance(fields, str):
        name = (paths or names)[0].rpartition(".")[2]
        raise ValueError(f"{what} takes a list of fields' names, such as [{name!r}], and is {fields!r}")
    return frozenset(names)


def specs_of(objects: Iterable[dict[str, Any]]) -> Samples:
    """Return the specs of the objects by their kind and group, such as `Pet.petstore.example.com`."""
    found: dict[str, list[dict[str, Any]]] = {}
    for each in objects:
        group, _, _ = each["apiVersion"].rpartition("/")
        found.setdefault(f"{each['kind']}.{group}", []).append(each.get("spec") or {})
    return found


def never_accepted(accepted: Mapping[str, int], operators: Sequence[AnyOperator]) -> str:
    """Return a message about each kind without any object that the API server accepted; "" for none."""
    kinds = [each.kind.gvk.kind for each in operators if not accepted.get(resource_of(each.kind))]
    return f"the API server took none of the objects made up for {', '.join(kinds)}" if kinds else ""


def story_of(outcome: Outcome) -> str:
    """Return a text that describes a failed run: faults, violations, and events."""
    plan = outcome.plan
    lines = [f"seed {plan.seed}, {plan.replicas} replicas"]
    if plan.crash_at is not None:
        lines.append(f"crash point {plan.crash_at[0]}: {plan.crash_at[1]}")
    if plan.faults:
        lines += ["", "what went wrong:", *(f"{fault.at:10.3f}  {fault}" for fault in plan.faults)]
    lines += ["", "what did not hold:", *(f"  {each}" for each in outcome.violations)]
    lines += ["", "what happened (virtual seconds):"]
    lines += [f"{at:10.3f}  {who:<14} {what}" for at, who, what in outcome.timeline if _is_news(what)]
    return "\n".join(lines)


def _is_news(what: str) -> bool:
    return not is_upkeep(what)


def _open_files() -> set[Path]:
    folder = Path("/dev/fd")
    # The listing has its own descriptor, too, which is closed before `exists`.
    return {each for each in folder.iterdir() if each.exists()} if folder.is_dir() else set()


def _outsides(operators: Sequence[AnyOperator]) -> dict[AnyOperator, type[Outside]]:
    found = {}
    for operator in operators:
        outside: Any = operator.outside
        if isinstance(outside, str) and outside:
            module, _, name = outside.partition(":")
            try:
                outside = getattr(importlib.import_module(module), name)
            except (ImportError, AttributeError) as error:
                raise TypeError(f"{operator.__name__}.outside: {error}") from error
        if not outside:
            continue
        if not (isinstance(outside, type) and issubclass(outside, Outside)):
            raise TypeError(f"{operator.__name__}.outside: {outside!r} is no subclass of `Outside`")
        found[operator] = outside
    return found


_known: Any = ()


def _begin(*known: Any) -> None:
    global _known  # noqa: PLW0603 - of a process that does nothing else
    _known = known
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)  # the parent ends the workers, though Ctrl-C reaches all


def _run_slim(plan: Plan) -> Outcome:
    operators, given = _known
    return _slim(run(plan, operators, **given))


def _slim(outcome: Outcome) -> Outcome:
    return outcome if outcome.violations else replace(outcome, timeline=())
