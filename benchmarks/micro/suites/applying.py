"""Applying an unchanged child: the cost of finding out that no request is needed."""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from apis.cache.v1.memcached import Memcached
from benchmarks.micro.benchmark import Benchmark, ready
from benchmarks.micro.documents import sample
from benchmarks.micro.world import World
from manager.client import Outcome
from manager.client.ownership import holds, own_entries
from manager_kinds.apps_v1 import Deployment

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.micro.benchmark import Work

Object = dict[str, Any]


def live() -> Object:
    """Return the Deployment from the API server."""
    document: Object = orjson.loads(sample("deployment"))
    return document


def wanted() -> Object:
    """Return the operator's desired Deployment."""
    metadata = live()["metadata"]
    names = ("name", "namespace", "labels", "ownerReferences")
    return {"metadata": {name: metadata[name] for name in names}, "spec": _wanted_spec(live()["spec"])}


def _wanted_spec(spec: Object) -> Object:
    """Return the spec without the server's defaults."""
    container = spec["template"]["spec"]["containers"][0]
    names = ("name", "image", "command", "ports", "securityContext")
    template = {
        "metadata": {"labels": spec["template"]["metadata"]["labels"]},
        "spec": {
            **{
                name: spec["template"]["spec"][name]
                for name in ("automountServiceAccountToken", "enableServiceLinks")
            },
            "securityContext": spec["template"]["spec"]["securityContext"],
            "containers": [{name: container[name] for name in names}],
        },
    }
    return {"replicas": spec["replicas"], "selector": spec["selector"], "template": template}


def owned() -> Object:
    """Return the fields that the server recorded for us when it created the Deployment."""
    created = own_entries(live()["metadata"]["managedFields"], "operator-manager-memcached").created
    assert created is not None
    return dict(created)


def owned_exactly(fields: Any) -> Object:
    """Return the fields that the server would have recorded for an apply."""
    if not isinstance(fields, dict):
        return {}
    record: Object = {}
    for name, value in fields.items():
        if name in {"containers", "ports"}:
            key = "name" if name == "containers" else None
            record[f"f:{name}"] = {_list_key(item, key): {".": {}, **owned_exactly(item)} for item in value}
        else:
            record[f"f:{name}"] = owned_exactly(value)
    return record


def _list_key(item: Object, key: str | None) -> str:
    names = (key,) if key else ("containerPort", "protocol")
    return "k:" + orjson.dumps({name: item[name] for name in names}).decode()


def contains(found: Any, expected: Any) -> bool:
    """Compare as most operators do: all desired fields have the desired values."""
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(
            name in found and contains(found[name], value) for name, value in expected.items()
        )
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(contains, found, expected))
    return bool(found == expected)


def comparison(compare: Callable[..., bool], record: Object, *, equal: bool) -> Work:
    found, expected = live(), wanted()
    fields = {"metadata": {name: expected["metadata"][name] for name in ("labels", "ownerReferences")}}
    fields["spec"] = copy.deepcopy(expected["spec"])
    if not equal:
        fields["spec"]["template"]["spec"]["containers"][0]["image"] = "memcached:changed"
    assert compare(fields, found, record) is equal
    return lambda: compare(fields, found, record)


def naive() -> Work:
    found, expected = live(), wanted()
    assert contains(found, expected)
    return lambda: contains(found, expected)


def apply() -> Work:
    """Apply a Deployment that needs no change."""
    world = World()
    world.hold(Deployment, sample("deployment"))
    owner = Memcached.decode(sample("memcached"))
    child = world.operator.deployment(owner)

    async def work() -> None:
        applied = await world.client.apply(child, owner=owner)
        assert applied.outcome is Outcome.UNCHANGED

    return work


def naive_apply() -> Work:
    """Decode what is held, and compare."""
    raw, expected = sample("deployment"), wanted()
    return lambda: contains(orjson.loads(raw), expected)


def applied_record(obj: Object, spec: Object) -> Object:
    """Return the record of an apply of this spec, and of the object's labels and owner."""
    metadata = obj["metadata"]
    record = owned_exactly({"metadata": {"labels": metadata["labels"]}, "spec": spec})
    [reference] = metadata["ownerReferences"]
    key = "k:" + orjson.dumps({"uid": reference["uid"]}).decode()
    record["f:metadata"]["f:ownerReferences"] = {key: {}}
    return record


BENCHMARKS = (
    Benchmark(
        "apply.compare-created",
        "a Deployment compared with the desired one, by the record of a create",
        ready(lambda: comparison(partial(holds, exact=False), owned(), equal=True)),
        against=("apply.compare-naive",),
    ),
    Benchmark(
        "apply.compare-applied",
        "the same by the record of an apply",
        ready(
            lambda: comparison(
                partial(holds, exact=True), applied_record(live(), wanted()["spec"]), equal=True
            )
        ),
        against=("apply.compare-naive",),
    ),
    Benchmark(
        "apply.compare-different",
        "the same where the image differs",
        ready(
            lambda: comparison(
                partial(holds, exact=True), applied_record(live(), wanted()["spec"]), equal=False
            )
        ),
        against=("apply.compare-naive",),
    ),
    Benchmark("apply.compare-naive", "the same without records: are the desired values there?", ready(naive)),
    Benchmark(
        "apply.unchanged",
        "a client's apply of a Deployment that is as it should be",
        ready(apply),
        against=("apply.unchanged-naive",),
    ),
    Benchmark("apply.unchanged-naive", "its JSON decoded and compared", ready(naive_apply)),
)
