"""Comparison of a cluster's final state with the state of a fresh cluster that gets the same specs."""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from typing import Any, NamedTuple

import orjson

from devcluster import DevCluster
from devcluster.storage import Change, Key
from manager.api import Resource
from manager.client.child_label import label_key, label_of
from manager.operator import NAME_TAKEN, AnyOperator, Owns
from manager_tools.simulation.loop import EPOCH
from manager_tools.simulation.plan import PROGRAM

Object = dict[str, Any]

EVICT = "devcluster.local/evict"
"""The annotation with which a user makes devcluster evict a pod."""

_CHANCE = frozenset(
    (
        *("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "deletionTimestamp"),
        *("lastTransitionTime", "lastUpdateTime", "lastProbeTime", "startTime", "observedGeneration"),
        *(
            "clusterIP",
            "clusterIPs",
            "nodePort",
            "healthCheckNodePort",
            "podIP",
            "podIPs",
            "hostIP",
            "hostIPs",
        ),
        *("nodeName", "volumeName", "volume.kubernetes.io/selected-node"),
        "imagePullPolicy",  # the pod keeps its result from the first image
        *("deletionGracePeriodSeconds", "deployment.kubernetes.io/revision", "spoilt", EVICT),
    )
)
"""Fields that the control plane chooses, and additions by users to objects of others."""

_ABSENT = object()

_OF_THE_SERVER = frozenset(("managedFields", "resourceVersion"))

_CHOSEN = frozenset(
    ("uid", "clusterIP", "clusterIPs", "podIP", "podIPs", "hostIP", "hostIPs", "ip", "nodeName", "volumeName")
)
"""Fields that the control plane chooses, and that operators copy to other fields."""
_CHOSEN_IN = ("nodes", "pods", "services", "persistentvolumeclaims")
_SHORTEST_TOKEN = 8

_GIVEN_UP = "a Deployment of it has given up"

_OF_THIS_SPEC = "its status was made for this spec"

_LABEL = label_key(PROGRAM.name)

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_POD = re.compile(r"\b([a-z0-9-]+)-[bcdf4-9]{1,10}-[bcdfghjklmnpqrstvwxz2456789]{5}\b")
"""The pattern of the names of a ReplicaSet's pods."""
_SHORT_UID = re.compile(r"(?<![0-9a-z])[0-9a-f]{8}(?![0-9a-z])")
_TOKEN_VOLUME = re.compile(r"\bkube-api-access-[bcdfghjklmnpqrstvwxz2456789]{5}\b")
_TIME = re.compile(r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?")
_BEFORE, _LONGEST = 86_400.0, 30 * 86_400.0
"""Times within these seconds around the start of a run count as times of the run."""


class Asked(NamedTuple):
    """An object that users create in a fresh cluster, with the time of its creation in virtual seconds."""

    resource: str
    object: Object
    at: float = 0.0


class State(NamedTuple):
    """The objects of a cluster at one moment."""

    objects: Object
    """The objects in the form for the comparison, by place."""
    born: Mapping[str, float]
    """The creation time of each object in the cluster, in virtual seconds, by place."""


@dataclass(frozen=True)
class Chance:
    """Random fields (by name) and random values, which a comparison ignores."""

    fields: frozenset[str] = _CHANCE
    values: re.Pattern[str] | None = None
    short_uids: frozenset[str] = frozenset()
    """The beginnings of UIDs, which operators use in names."""

    def text(self, text: str) -> str:
        """Return the text with its random parts replaced by `*`."""
        text = _TIME.sub(_without_time, _UUID.sub("*", _POD.sub(r"\1-*", _TOKEN_VOLUME.sub("*", text))))
        text = _SHORT_UID.sub(lambda found: "*" if found[0] in self.short_uids else found[0], text)
        return text if self.values is None else self.values.sub("*", text)


def chance_in(cluster: DevCluster, ignored: frozenset[str], drawn: Iterable[str] = ()) -> Chance:
    """Return the random values in a cluster: addresses, nodes, and the UIDs and tokens in `drawn`.

    `ignored` are the names of fields with random values. An operator may have copied a random value to a
    status, or used the first part of a UID in a name.
    """
    chosen, short_uids = set[str](), set[str]()
    for text in drawn:
        if _UUID.fullmatch(text):
            short_uids.add(text.partition("-")[0])
        elif len(text) >= _SHORTEST_TOKEN:
            chosen |= {text, base64.b64encode(text.encode()).decode()}
    for resource in _CHOSEN_IN:
        for each in cluster.client.list(resource):
            chosen.update(_chosen(each))
            metadata = each["metadata"]
            if resource == "nodes" or metadata.get("generateName"):
                chosen.add(metadata["name"])
    chosen = {each for each in chosen if each not in {"", "None"} and not _UUID.fullmatch(each)}
    longest_first = sorted(chosen, key=lambda each: (-len(each), each))
    values = rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, longest_first))})(?![A-Za-z0-9])"
    return Chance(_CHANCE | ignored, re.compile(values) if chosen else None, frozenset(short_uids))


def _chosen(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for inner, each in value.items():
            yield from _chosen(each, inner)
    elif isinstance(value, list):
        for each in value:
            yield from _chosen(each, name)
    elif name in _CHOSEN and isinstance(value, str):
        yield value


def _without_time(found: re.Match[str]) -> str:
    try:
        moment = datetime.fromisoformat(found[0] if found[2] else f"{found[0]}+00:00")
    except ValueError:
        return found[0]
    return "<time>" if _is_of_the_run(moment.timestamp()) else found[0]


def _is_of_the_run(seconds: float) -> bool:
    return EPOCH - _BEFORE <= seconds <= EPOCH + _LONGEST


def resource_of_manifest(manifest: Object) -> str:
    """Return the resource of a Role, a binding or a ServiceAccount, as `plural.group`."""
    group, _, _ = manifest["apiVersion"].rpartition("/")
    return f"{manifest['kind'].lower()}s.{group}".rstrip(".")


def resource_of(kind: type[Resource]) -> str:
    """Return the resource as `plural.group`, the notation of the simulated cluster's client."""
    return f"{kind.plural}.{kind.gvk.group}".rstrip(".")


def owned_resources(operators: Sequence[AnyOperator]) -> list[str]:
    """Return the resources of the operators' children."""
    kinds = [each.kind for operator in operators for each in operator.sources if isinstance(each, Owns)]
    return list(dict.fromkeys(map(resource_of, kinds)))


def controller_of(obj: Object) -> Object | None:
    """Return the owner reference with `controller: true`, or None."""
    references = obj.get("metadata", {}).get("ownerReferences") or ()
    return next((each for each in references if each.get("controller")), None)


def state_of(
    cluster: DevCluster,
    operators: Sequence[AnyOperator],
    chance: Chance,
    *,
    shared: bool = False,
    made: Collection[Key] = (),
    kept: frozenset[str] = frozenset(),
    born: Mapping[str, float] | None = None,
) -> State:
    """Return the operators' objects, their children and all objects in `made`, without random parts.

    `made` has the objects that managers created. Objects of other controllers, such as a Deployment's pods,
    are included only if they are in `made`. Of `made`, resources in `kept` are left out. With `shared`,
    children must have the label of their owner's shard. `born` has the creation times by UID.
    """
    found: list[tuple[str, str, Object]] = []
    given_up = _owners_of_what_gave_up(cluster)
    own, owned = [resource_of(each.kind) for each in operators], owned_resources(operators)
    kinds = {each.kind.gvk.kind for each in operators}
    of_children = replace(chance, fields=chance.fields | {"status"})
    for resources, left_out in ((own, chance), (owned, of_children)):
        for resource in resources:
            for each in cluster.client.list(resource):
                metadata, controller = each["metadata"], controller_of(each)
                is_ours = controller is None or controller["kind"] in kinds
                if not is_ours and _place(resource, each) not in made:
                    continue
                state = _comparable(_with_label_judged(each, shared=shared), left_out)
                observed = (each.get("status") or {}).get("observedGeneration") if resource in own else None
                if observed is not None:
                    state[_OF_THIS_SPEC] = observed == metadata["generation"]
                if metadata["uid"] in given_up:
                    state[_GIVEN_UP] = True
                found.append((left_out.text(_shown(resource, metadata)), metadata["uid"], state))
    for key in made:
        resource = f"{key.plural}.{key.group}".rstrip(".")
        if resource not in {*own, *owned, *kept} and (
            obj := cluster.client.peek(resource, key.namespace, key.name)
        ):
            place = chance.text(_shown(resource, obj["metadata"]))
            found.append((place, obj["metadata"]["uid"], _comparable(obj, chance)))
    states: dict[str, tuple[str, Object]] = {}
    for place, uid, state in sorted(found, key=lambda each: (each[0], str(each[2]))):
        # Places that differ only in random parts are numbered.
        numbered = (f"{place} ({number})" if number > 1 else place for number in count(1))
        states[next(each for each in numbered if each not in states)] = uid, state
    return State(
        {place: state for place, (_, state) in states.items()},
        {place: (born or {}).get(uid, 0.0) for place, (uid, _) in states.items()},
    )


def _shown(resource: str, metadata: Object) -> str:
    name, prefix = metadata["name"], metadata.get("generateName")
    if prefix and name.startswith(prefix):
        name = f"{prefix}*"
    return f"{resource} {metadata.get('namespace', '')}/{name}"


def _with_label_judged(obj: Object, *, shared: bool) -> Object:
    """Remove a correct label of the owner's shard; if it is wrong or missing, set a text that says so."""
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
    return {
        owner["uid"]
        for each in cluster.client.list("deployments.apps")
        for condition in each.get("status", {}).get("conditions", ())
        if condition.get("reason") == "ProgressDeadlineExceeded"
        for owner in each["metadata"].get("ownerReferences") or ()
    }


def asked_for(
    cluster: DevCluster,
    operators: Sequence[AnyOperator],
    given: Iterable[str],
    made: Container[object],
    born: Mapping[str, float],
    scheduled: Container[str] = (),
) -> list[Asked]:
    """Return the objects that users created, in their final form; those of the operators' kinds come last.

    Objects in `made`, which managers created, are left out if their resource is in `given` or `scheduled`.
    `born` has the creation times by UID.
    """
    brought = [
        Asked(resource, _bare(each))
        for resource in sorted(given)
        for each in cluster.client.list(resource)
        if _place(resource, each) not in made
    ]
    free = [
        Asked(resource, _bare(each))
        for resource in owned_resources(operators)
        for each in cluster.client.list(resource)
        if not each["metadata"].get("ownerReferences")
        and not (resource in scheduled and _place(resource, each) in made)
    ]
    own = [
        Asked(resource, _bare(each), born.get(each["metadata"]["uid"], 0.0))
        for resource in map(resource_of, (each.kind for each in operators))
        for each in cluster.client.list(resource)
        # An operator's object may be a child of another operator's object.
        if controller_of(each) is None
    ]
    return brought + free + own


def different_from_fresh(have: Object, fresh: Object) -> Iterator[str]:
    """Yield the differences between the objects of a cluster and the objects of a fresh cluster.

    Differences are ignored where a status depends on the history. A Deployment that was complete once, even
    for a moment without pods, never exceeds its progress deadline. If another object takes a child's name,
    the child's owner keeps its earlier status and children.
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


def without_history(
    have: State, fresh: State, resources: Container[str], since: float
) -> tuple[Object, Object]:
    """Return both states without the objects that a schedule created before the time `since`.

    Managers create and delete objects of `resources` by schedule. They do not catch up after an absence, so
    earlier objects may differ.
    """
    past = {
        place
        for place in have.objects.keys() | fresh.objects.keys()
        if place.partition(" ")[0] in resources
        and (have if place in have.objects else fresh).born.get(place, since) < since
    }
    one, other = (
        {place: value for place, value in each.objects.items() if place not in past} for each in (have, fresh)
    )
    return one, other


def _name_taken(obj: Any) -> bool:
    status = obj.get("status") if isinstance(obj, dict) else None
    conditions = status.get("conditions") if isinstance(status, dict) else None
    return any(each.get("reason") == NAME_TAKEN for each in conditions or ())


def _named(obj: Object) -> tuple[str, ...]:
    metadata = obj["metadata"]
    return obj["kind"], metadata.get("namespace", ""), metadata["name"]


def _owner(obj: Any) -> tuple[str, ...] | None:
    if not isinstance(obj, dict) or (controller := controller_of(obj)) is None:
        return None
    return controller["kind"], obj["metadata"].get("namespace", ""), controller["name"]


def _with_status(obj: Object, compared: frozenset[str]) -> Object:
    status = {name: value for name, value in obj["status"].items() if name in compared}
    return {**obj, "status": status, _GIVEN_UP: False}


def differences(have: Any, fresh: Any) -> Iterator[str]:
    """List the differences between two states in words."""
    for path, one, other in _differing(have, fresh):
        where = ": ".join(map(str, path))
        if other is _ABSENT:
            yield f"{where} is not there: {one}"
        elif one is _ABSENT:
            yield f"{where} is only there: {other}"
        else:
            yield f"{where}: {one!r} instead of {other!r}"


def changed_fields(change: Change) -> list[str]:
    """Return the paths of the fields that a write has changed, except fields that the API server sets."""
    before, after = (
        {} if each is None else orjson.loads(each.data) for each in (change.old, change.new or change.final)
    )
    paths = [path for path, _, _ in _differing(before, after) if not _OF_THE_SERVER.intersection(path)]
    shown = ("".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path) for path in paths)
    return [each.removeprefix(".") for each in shown]


def _differing(one: Any, other: Any, *path: str | int) -> Iterator[tuple[tuple[str | int, ...], Any, Any]]:
    """Yield the paths at which two values differ, with the values; `_ABSENT` is a missing value."""
    names: Iterable[Any]
    if isinstance(one, dict) and isinstance(other, dict):
        names = sorted({*one, *other})
        one, other = ({name: each.get(name, _ABSENT) for name in names} for each in (one, other))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        names = range(len(one))
    elif one != other:
        yield path, one, other
        return
    else:
        return
    for name in names:
        yield from _differing(one[name], other[name], *path, name)


def missing(whole: Mapping[str, Any], part: Mapping[str, Any]) -> int:
    """Count the objects and list items that `whole` has and `part` does not have."""
    count = len(whole.keys() - part.keys())
    for place, value in whole.items():
        if isinstance(value, list) and isinstance(part.get(place), list):
            count += max(0, len(value) - len(part[place]))
    return count


def _comparable(value: Any, chance: Chance) -> Any:
    if isinstance(value, dict):
        kept = {
            chance.text(name): _comparable(inner, chance)
            for name, inner in value.items()
            if name not in chance.fields
        }
        # A container without other content is removed.
        return {name: inner for name, inner in kept.items() if inner != {} or not value.get(name, True)}
    if isinstance(value, list):
        return sorted((_comparable(each, chance) for each in value), key=_type_of)
    if isinstance(value, str):
        return chance.text(value)
    if isinstance(value, int | float) and (_is_of_the_run(value) or _is_of_the_run(value / 1000)):
        return "<time>"
    return value


def _type_of(item: Any) -> str:
    """Return a condition's type as sort key; the stored order depends on which condition was set first."""
    return str(item.get("type", "")) if isinstance(item, dict) else ""


def _place(resource: str, obj: Object) -> tuple[str, ...]:
    plural, _, group = resource.partition(".")
    return group, plural, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


_OF_JOBS = (
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
)
"""Labels that the control plane gives a Job and its pods, and refuses on other Jobs."""


def _without_selector(spec: Object) -> Object:
    template = dict(spec["template"])
    template["metadata"] = _unlabelled(template.get("metadata") or {})
    return {**spec, "template": template, "selector": None}


def _unlabelled(metadata: Object) -> Object:
    labels = {name: each for name, each in (metadata.get("labels") or {}).items() if name not in _OF_JOBS}
    return {**metadata, "labels": labels}


def _bare(obj: Object) -> Object:
    kept = {name: value for name, value in obj.items() if name not in {"status", "metadata"}}
    if isinstance(kept.get("spec"), dict):
        kept["spec"] = {name: value for name, value in kept["spec"].items() if name not in _CHANCE}
    metadata = obj["metadata"]
    if obj.get("kind") == "Job":
        kept["spec"], metadata = _without_selector(kept["spec"]), _unlabelled(metadata)
    stays = ("name", "generateName", "namespace", "labels", "annotations")
    return {**kept, "metadata": {name: metadata[name] for name in stays if name in metadata}}
