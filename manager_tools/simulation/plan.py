"""The plan of a simulation run: user actions and faults with their times, drawn from a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from manager.operator import AnyOperator
from manager.util.nesting import TOO_DEEP, is_too_deep
from manager.util.program import Program

PROGRAM = Program("simulated", "0")
LEASE_NAMESPACE = "kube-system"

PLANTED = "planted"
"""The beginning of passwords, tokens and other secrets in a simulation, by which leaks are found."""

NAMESPACES = ("default", "team")
NAMES = ("web", "db", "tron")
"""Few names, so that names are in use and are used again."""

ACTS = {
    "create": 8,
    "change": 6,
    "delete": 3,
    "orphan": 1,
    "apply": 1.5,
    "spoil child": 2,
    "relabel child": 1,
    "apply child": 1,
    "delete child": 2,
    "evict pod": 1,
    "take name": 1.5,
    "free name": 1,
    "annotate": 1,
    "empty status": 1,
    "hold": 1,
    "drop finalizer": 0.7,
    "delete namespace": 0.3,
}
"""The users' actions with their frequencies."""

_MINUTES = 5.0
_MOST_STEPS = 40
_MOST_FAULTS = 10
_DENSE = 8
"""The last of this many seeds has three times as many steps and faults, which find more per second.

In such a run, managers also rotate their webhook certificates.
"""
_DENSE_MINUTES = 8.0

KINDS_OF_FAULT: dict[str, tuple[float, str]] = {
    "kill": (3, "{manager} is killed"),
    "stop": (2, "{manager} gets a stop signal"),
    "scale": (3, "{manager} gets a stop signal, and starts again {seconds} later"),
    "mode": (2, "managers stop in turn, and use leader election instead of shards for {seconds}"),
    "reborn": (3, "{manager} is killed, and the next manager reads data from {seconds} ago"),
    "freeze": (2, "{manager} is frozen for {seconds}"),
    "cut": (2, "all connections of {manager} break"),
    "refusing": (1, "{manager} cannot open connections for {seconds}"),
    "silent": (2, "the connections of {manager} transfer no data for {seconds}"),
    "loss": (3, "{size} of the requests and responses of {manager} is lost for {seconds}"),
    "refusals": (3, "{size} of the requests of {manager} gets 429, 500 or 503 for {seconds}"),
    "slow": (2, "the API server takes seconds for each request of {manager}, for {seconds}"),
    "lag": (3, "watch events of {manager} arrive {seconds} late"),
    "torn": (2, "{size} of the watch lines of {manager} breaks off in the middle, for {seconds}"),
    "twice": (1, "the API server gets {size} of the writes of {manager} twice, for {seconds}"),
    "skips": (2, "watches of {manager} send nothing for {seconds}, and then only the last states"),
    "behind": (3, "{manager} reads from two API servers for {seconds}, and one of them has old data"),
    "stale": (2, "lists of {manager} are {seconds} old, and are not streamed"),
    "compact": (2, "{manager} gets no data for {seconds}; then the watch history has expired (410)"),
    "no_bookmarks": (1, "watches of {manager} get no bookmarks for {seconds}"),
    "power": (2, "the cluster is killed, and started from its disk {seconds} later"),
    "backup": (1, "the cluster is killed, and started {seconds} later with a backup of its disk"),
    "rights": (1, "managers have no rights for {seconds}"),
    "some_rights": (2, "managers lack some of their rights for {seconds} (403)"),
    "definition": (1, "a kind's CRD is deleted, and created again {seconds} after its objects are gone"),
    "token": (2, "the managers' token is replaced, and they can read the new token {seconds} later (401)"),
    "untrusted": (1, "the API server does not trust the webhooks' certificate of {manager} for {seconds}"),
    "secret": (2, "another client deletes or damages the Secret with the webhooks' certificates"),
    "bundle": (1, "another client damages the CA bundles of a webhook configuration or CRD"),
    "keepers": (1, "the Secret is deleted, and all managers issue webhook certificates for {seconds}"),
    "jump": (2, "the wall clock of {manager} jumps, and jumps back {seconds} later"),
    "server_jump": (1, "the wall clock of the API server jumps, and jumps back {seconds} later"),
    "drift": (1, "the clocks of {manager} run faster or slower for {seconds}"),
}
"""The kinds of faults, with frequency and description."""

OF_CERTIFICATES = frozenset({"secret", "bundle", "keepers"})
"""Faults that need managers with their own webhook certificates."""
ALONE = tuple(each for each in KINDS_OF_FAULT if each not in {"scale", "mode"})
"""Faults that need only one active manager, and so no shards: all except `scale` and `mode`."""
NO_EXCUSE = frozenset({"secret", "keepers"})
"""Faults during which each webhook must still be trusted."""

Seconds = Annotated[float, Meta(ge=0, le=86_400)]
"""Virtual seconds; a handwritten plan has at most a day."""
When = Annotated[str, Meta(pattern="^(before|after|freeze|stale|meddle|refuse|look)$")]


@dataclass(frozen=True, slots=True)
class Step:
    """A user action at a virtual time; `draw` is the seed of its random choices."""

    at: Seconds
    act: Annotated[str, Meta(pattern=f"^({'|'.join(ACTS)})$")]
    kind: Annotated[int, Meta(ge=0)]
    """The index of the operator whose kind the action is about."""
    draw: Annotated[int, Meta(ge=0)]

    def __str__(self) -> str:
        return f"{self.at:8.3f}  {self.act}"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that begins at a virtual time and lasts some virtual seconds.

    `size` is the fraction of requests, or of parts of streams, that the fault affects, from 0 to 1.
    """

    at: Seconds
    what: Annotated[str, Meta(pattern=f"^({'|'.join(KINDS_OF_FAULT)})$")]
    replica: Annotated[int, Meta(ge=0)]
    seconds: Seconds
    size: Annotated[float, Meta(ge=0, le=1)] = 0.0
    draw: Annotated[int, Meta(ge=0)] = 0
    """The seed of the fault's other random choices."""

    def __str__(self) -> str:
        words = KINDS_OF_FAULT[self.what][1]
        seconds, size = f"{self.seconds:.1f} s", f"{self.size:.0%}"
        return words.format(manager=f"manager-{self.replica}", seconds=seconds, size=size)


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a simulation run; everything else in the run is drawn from the plan's seed."""

    seed: int
    replicas: Annotated[int, Meta(ge=1, le=9)]
    steps: tuple[Step, ...]
    faults: tuple[Fault, ...]
    crash_at: tuple[int, When] | None = None
    shards: Annotated[int, Meta(ge=0, le=256)] = 0
    keeps_certificates: bool = False
    """Whether managers rotate their webhook certificates, and the API server trusts no others."""

    def to_json(self) -> str:
        """Encode the plan as JSON, which `from_json` decodes."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str | bytes, *, kinds: int) -> Plan:
        """Decode a plan; raise ValueError if it is invalid for this number of kinds."""
        if is_too_deep(text.encode() if isinstance(text, str) else text):
            raise ValueError(f"it is no plan of a simulation: {TOO_DEEP}")
        try:
            plan = msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"it is no plan of a simulation: {error}") from None
        if plan.shards & (plan.shards - 1):
            raise ValueError("it is no plan of a simulation: it is no power of two - at `$.shards`")
        beyond = [f"steps[{at}].kind" for at, each in enumerate(plan.steps) if each.kind >= kinds]
        beyond += [
            f"faults[{at}].replica" for at, each in enumerate(plan.faults) if each.replica >= plan.replicas
        ]
        if beyond:
            there = f"there are {kinds} kinds and {plan.replicas} replicas"
            raise ValueError(
                f"it is no plan of a simulation: {there}, and the first is 0 - at `$.{beyond[0]}`"
            )
        return plan


def plan_of(
    seed: int,
    operators: Sequence[AnyOperator],
    *,
    minutes: float | None = None,
    fault: str | None = None,
    shards: int = 0,
) -> Plan:
    """Return the plan of a seed: user actions and faults during `minutes` of virtual time.

    By default (None), the seed decides on the minutes. `fault` limits the plan to one kind of fault. `shards`
    above 0 adds replicas, which divide this number of shards among them.
    """
    rng = random.Random(f"{seed}/plan")
    dense = fault is None and seed % _DENSE == _DENSE - 1
    times_as_many = 3 if dense else 1
    keeps = dense or fault in OF_CERTIFICATES
    if minutes is None:
        minutes = _DENSE_MINUTES if dense else _MINUTES
    replicas, seconds = rng.choice((2, 3, 4, 5) if shards else (1, 2, 2, 3)), minutes * 60
    count = rng.randrange(5, _MOST_STEPS) * times_as_many
    done = steps(rng, len(operators), seconds=seconds, count=count)
    times, count = [step.at for step in done], rng.randrange(_MOST_FAULTS) * times_as_many
    if fault is None:
        kinds = tuple(KINDS_OF_FAULT) if shards else ALONE
        kinds = tuple(each for each in kinds if keeps or each not in OF_CERTIFICATES)
        wrong = faults(rng, replicas, seconds=seconds, count=count, near=times, kinds=kinds)
    else:
        wrong = faults(rng, replicas, seconds=seconds, count=max(count, 1), near=times, kinds=(fault,))
    return Plan(
        seed=seed,
        replicas=replicas,
        steps=tuple(done),
        faults=tuple(wrong),
        shards=shards,
        keeps_certificates=keeps,
    )


def steps(rng: random.Random, kinds: int, *, seconds: float, count: int) -> list[Step]:
    """Draw `count` user actions at times within `seconds`; each one is on one of `kinds` kinds."""
    acts, weights = list(ACTS), list(ACTS.values())
    made = [
        Step(
            at=0.0 if number < kinds else rng.uniform(0.0, seconds),
            act="create" if number < kinds else rng.choices(acts, weights)[0],
            kind=number if number < kinds else rng.randrange(kinds),
            draw=rng.getrandbits(64),
        )
        for number in range(count)
    ]
    return sorted(made, key=lambda step: step.at)


def faults(
    rng: random.Random,
    replicas: int,
    *,
    seconds: float,
    count: int,
    near: Sequence[float],
    kinds: Sequence[str] = (),
) -> list[Fault]:
    """Draw `count` faults of these kinds within `seconds`, half of them close to one of the times `near`."""
    weights = [KINDS_OF_FAULT[kind][0] for kind in kinds]
    made = [
        Fault(
            at=_when(rng, seconds, near),
            what=rng.choices(kinds, weights)[0],
            replica=rng.randrange(replicas),
            seconds=rng.choice((1.0, 5.0, 20.0, 60.0)) * rng.uniform(0.5, 1.5),
            size=rng.choice((0.05, 0.3, 0.8)),
            draw=rng.getrandbits(64),
        )
        for _ in range(count)
    ]
    return sorted(made, key=lambda fault: fault.at)


def _when(rng: random.Random, seconds: float, near: Sequence[float]) -> float:
    if near and rng.random() < 0.5:  # noqa: PLR2004 - half
        return max(0.0, rng.choice(near) - rng.choice((0.0, 0.002, 0.5, 5.0, -0.05, -0.5)))
    return rng.uniform(0.0, seconds)
