"""What a cluster has come to, to be compared with a fresh install of what people have asked for."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from manager.operator import NAME_TAKEN, Owns
from manager.shards.ranges import label_key, label_of
from manager.simulation.replica import PROGRAM

if TYPE_CHECKING:
    from devcluster import DevCluster
    from devcluster.storage import Key
    from manager.api import Resource
    from manager.operator import AnyOperator

__all__ = [
    "asked_for",
    "controller_of",
    "different_from_fresh",
    "made_state",
    "owned_resources",
    "resource_of",
    "state_of",
]

Object = dict[str, Any]

_CHANCE = frozenset(
    (
        *("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "deletionTimestamp"),
        *("lastTransitionTime", "lastUpdateTime", "lastProbeTime", "startTime", "observedGeneration"),
        *("clusterIP", "clusterIPs", "nodePort", "volumeName", "podIP", "podIPs", "hostIP"),
        "imagePullPolicy",  # it stays what it became with the first image
        *("deletionGracePeriodSeconds", "deployment.kubernetes.io/revision", "spoilt"),
    )
)
"""Fields that differ from run to run, and what people have added to what is not theirs."""

_GIVEN_UP = "a Deployment of it has given up"

_OF_THIS_SPEC = "its status was made for this spec"

_LABEL = label_key(PROGRAM.name)

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_POD = re.compile(r"\b([a-z0-9-]+)-[bcdf4-9]{1,10}-[bcdfghjklmnpqrstvwxz2456789]{5}\b")
"""The name of a ReplicaSet's pod."""


def resource_of_manifest(manifest: Object) -> str:
    """Return the resource of a role, a binding or an account."""
    group, _, _ = manifest["apiVersion"].rpartition("/")
    return f"{manifest['kind'].lower()}s.{group}".rstrip(".")


def resource_of(kind: type[Resource]) -> str:
    """How the cluster's own client names it."""
    return f"{kind.plural}.{kind.gvk.group}".rstrip(".")


def owned_resources(operators: Sequence[AnyOperator]) -> list[str]:
    """The kinds of children."""
    kinds = [each.kind for operator in operators for each in operator.sources if isinstance(each, Owns)]
    return list(dict.fromkeys(map(resource_of, kinds)))


def controller_of(obj: Object) -> Object | None:
    """The owner reference of who made it."""
    references = obj.get("metadata", {}).get("ownerReferences") or ()
    return next((each for each in references if each.get("controller")), None)


def state_of(
    cluster: DevCluster, operators: Sequence[AnyOperator], ignored: frozenset[str], *, shared: bool
) -> Object:
    """The operators' objects and their children by place, without what is up to chance, or `ignored`.

    With `shared`, children have the label of their owner's range.
    """
    found: Object = {}
    chance, given_up = _CHANCE | ignored, _owners_of_what_gave_up(cluster)
    ours = [resource_of(each.kind) for each in operators]
    for resources, left_out in (
        (ours, chance),
        (owned_resources(operators), chance | {"status"}),
    ):
        for resource in resources:
            for each in cluster.client.list(resource):
                metadata = each["metadata"]
                place = f"{resource} {metadata.get('namespace', '')}/{metadata['name']}"
                found[place] = _comparable(_with_label_judged(each, shared=shared), left_out)
                observed = (each.get("status") or {}).get("observedGeneration") if resource in ours else None
                if observed is not None:
                    found[place][_OF_THIS_SPEC] = observed == metadata["generation"]
                if metadata["uid"] in given_up:
                    found[place][_GIVEN_UP] = True
    return found


def made_state(
    cluster: DevCluster,
    operators: Sequence[AnyOperator],
    made: Iterable[Key],
    ignored: frozenset[str],
    kept: frozenset[str],
) -> Object:
    """What is there of what managers have `made` beside those kinds, but for the resources `kept`."""
    known = {*owned_resources(operators), *(resource_of(each.kind) for each in operators), *kept}
    found: Object = {}
    for key in made:
        resource = f"{key.plural}.{key.group}".rstrip(".")
        if resource not in known and (obj := cluster.client.peek(resource, key.namespace, key.name)):
            found[f"{resource} {key.namespace}/{key.name}"] = _comparable(obj, _CHANCE | ignored)
    return found


def _with_label_judged(obj: Object, *, shared: bool) -> Object:
    """Without the label of the owner's range, whose UID is up to chance, if it is as it should be."""
    if (owner := controller_of(obj)) is None:
        return obj
    metadata = obj["metadata"]
    labels = dict(metadata.get("labels") or {})
    value, wanted = labels.pop(_LABEL, None), label_of(owner["uid"])
    if value != wanted and (shared or value is not None):
        labels[_LABEL] = f"{value} and not {wanted}"
    kept = {name: each for name, each in metadata.items() if name != "labels"}
    return {**obj, "metadata": {**kept, "labels": labels} if labels else kept}


def _owners_of_what_gave_up(cluster: DevCluster) -> set[str]:
    """The uids of objects with a Deployment that waits for its pods no more."""
    return {
        owner["uid"]
        for each in cluster.client.list("deployments.apps")
        for condition in each.get("status", {}).get("conditions", ())
        if condition.get("reason") == "ProgressDeadlineExceeded"
        for owner in each["metadata"].get("ownerReferences") or ()
    }


def asked_for(
    cluster: DevCluster, operators: Sequence[AnyOperator], given: Iterable[str], made: Container[object]
) -> list[tuple[str, Object]]:
    """What people have asked for, as it stands, with its resource: what nobody owns, and then the objects.

    Of the resources `given` it is what is not `made` by managers.
    """
    brought = [
        (resource, _bare(each))
        for resource in sorted(given)
        for each in cluster.client.list(resource)
        if _place(resource, each) not in made
    ]
    free = brought + [
        (resource, _bare(each))
        for resource in owned_resources(operators)
        for each in cluster.client.list(resource)
        if not each["metadata"].get("ownerReferences")
    ]
    resources = [resource_of(each.kind) for each in operators]
    return free + [
        (resource, _bare(each)) for resource in resources for each in cluster.client.list(resource)
    ]


def different_from_fresh(have: Object, fresh: Object) -> Iterator[str]:
    """Where a state differs from that of a fresh install, in words, but for what a status tells of the past.

    A Deployment that was once complete does not give up, even when it was so for a moment with no pod. An
    object whose name for a child is taken says what it had come to before, and has the children from then.
    """
    have, fresh = dict(have), dict(fresh)
    stuck = {_named(each) for each in fresh.values() if _name_taken(each)}
    for place in have.keys() - fresh.keys():
        if _owner(have[place]) in stuck:
            del have[place]
    for place in have.keys() & fresh.keys():
        one, other = have[place], fresh[place]
        if not (isinstance(one, dict) and isinstance(other, dict) and "status" in one and "status" in other):
            continue
        if one.get(_GIVEN_UP) != other.get(_GIVEN_UP):
            compared = frozenset[str]()
        elif _name_taken(other):
            compared = frozenset({"conditions"})
        else:
            continue
        have[place], fresh[place] = (_with_status(each, compared) for each in (one, other))
    return differences(have, fresh)


def _name_taken(obj: Any) -> bool:
    status = obj.get("status") if isinstance(obj, dict) else None
    conditions = status.get("conditions") if isinstance(status, dict) else None
    return any(each.get("reason") == NAME_TAKEN for each in conditions or ())


def _named(obj: Object) -> tuple[str, ...]:
    metadata = obj["metadata"]
    return obj["kind"], metadata.get("namespace", ""), metadata["name"]


def _owner(obj: Any) -> tuple[str, ...] | None:
    """Who has it, in the same namespace."""
    if not isinstance(obj, dict) or (controller := controller_of(obj)) is None:
        return None
    return controller["kind"], obj["metadata"].get("namespace", ""), controller["name"]


def _with_status(obj: Object, compared: frozenset[str]) -> Object:
    status = {name: value for name, value in obj["status"].items() if name in compared}
    return {**obj, "status": status, _GIVEN_UP: False}


def differences(have: Any, fresh: Any, where: str = "") -> Iterator[str]:
    """Where two states differ, in words."""
    if isinstance(have, dict) and isinstance(fresh, dict):
        for name in sorted({*have, *fresh}):
            if name not in fresh:
                yield f"{where}{name} is not there: {have[name]}"
            elif name not in have:
                yield f"{where}{name} is only there: {fresh[name]}"
            else:
                yield from differences(have[name], fresh[name], f"{where}{name}: ")
    elif isinstance(have, list) and isinstance(fresh, list) and len(have) == len(fresh):
        for number, (one, other) in enumerate(zip(have, fresh, strict=True)):
            yield from differences(one, other, f"{where}{number}: ")
    elif have != fresh:
        yield f"{where}{have!r} instead of {fresh!r}"


def missing(whole: Mapping[str, Any], part: Mapping[str, Any]) -> int:
    """How many objects, and items of lists outside of the cluster, only the first one has."""
    count = len(whole.keys() - part.keys())
    for place, value in whole.items():
        if isinstance(value, list) and isinstance(part.get(place), list):
            count += max(0, len(value) - len(part[place]))
    return count


def _comparable(value: Any, chance: frozenset[str]) -> Any:
    if isinstance(value, dict):
        kept = {name: _comparable(inner, chance) for name, inner in value.items() if name not in chance}
        # Of what has nothing else in it, nothing is left.
        return {name: inner for name, inner in kept.items() if inner != {} or not value[name]}
    if isinstance(value, list):
        return sorted((_comparable(each, chance) for each in value), key=_type_of)
    return _UUID.sub("*", _POD.sub(r"\1-*", value)) if isinstance(value, str) else value


def _type_of(item: Any) -> str:
    """Conditions come in the order in which they were first set."""
    return str(item.get("type", "")) if isinstance(item, dict) else ""


def _place(resource: str, obj: Object) -> tuple[str, ...]:
    """As a `Key`."""
    plural, _, group = resource.partition(".")
    return group, plural, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _bare(obj: Object) -> Object:
    kept = {name: value for name, value in obj.items() if name not in {"status", "metadata"}}
    if isinstance(kept.get("spec"), dict):
        kept["spec"] = {name: value for name, value in kept["spec"].items() if name not in _CHANCE}
    metadata = obj["metadata"]
    stays = ("name", "namespace", "labels", "annotations")
    return {**kept, "metadata": {name: metadata[name] for name in stays if name in metadata}}
