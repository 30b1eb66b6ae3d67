"""Declarations of an operator about other kinds: those that it owns, watches and reads."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, get_args, get_origin

import orjson

from manager.api import ApiModel, ObjectKey, Resource, is_crd
from manager.cache import WHOLE, CacheEvent, IndexFunction, Informer, Meta, Record, Selection, steps_of
from manager.controller.predicate import (
    Predicate,
    any_of,
    compares_status,
    created_or_deleted,
    label_changed,
)
from manager.util import clock
from manager_kinds.core_v1 import Pod
from manager_kinds.pod_health import PARTS_OF_HEALTH, PodHealth

_SHORTEST = 4
"""So many letters a name has at least for which another one may be a slip: `one` is not `on`."""
_ALIKE = 0.8

Enqueue: TypeAlias = Callable[[Meta, Informer], Iterable[ObjectKey]]
"""Maps the metadata of a changed object to the keys of the objects to reconcile.

The second argument is the cache of the operator's own kind. Look objects up by an index, so that the cost
does not grow with their number. It is called for the old and the new state of the object, in the event loop.
"""


@dataclass(frozen=True, kw_only=True)
class _Source:
    """Common part of all sources."""

    kind: type[Resource] = field(kw_only=False)

    metadata_only: bool = False
    """Fetch and keep only metadata, at a fraction of the cost, to be read through `client.metadata`."""

    selection: Selection = WHOLE
    """Which objects: `Selection.of(label_selector="app=web", field_selector="…", namespaces=[…])`.

    With `keeps=["status.phase"]` only these parts of each are kept. They are read through `client.selecting`
    with the same arguments."""

    indexes: Mapping[str, IndexFunction] = field(default_factory=dict)
    """Functions by name: `client.list(kind, index=(name, value))` finds what they gave that value for."""


@dataclass(frozen=True, kw_only=True)
class Owns(_Source):
    """A kind of children: a change of one enqueues the object that is its controller.

    If a child could not be created because its name was taken, the object is reconciled when the holder of
    the name changes or is deleted.

    Of objects that are not owned, the cache has only metadata, and reads ask the API server, unless the kind
    is declared in `reads` or `watches` too, or has a selection or indexes here.
    """

    on: Predicate | None = None
    """Which events of the children count; default all. A change of the controller always counts."""

    prune: bool = False
    """After a successful reconcile, delete the children of this kind that it has not applied."""


@dataclass(frozen=True, kw_only=True)
class Watch(_Source):
    """A kind that others own: a label, or a function, says which of our objects a change concerns.

    Raises ValueError unless exactly one of them is given.
    """

    label: str = ""
    """The label with the name of the object to reconcile, in the same namespace."""

    enqueue: Enqueue | None = None
    on: Predicate | None = None
    """Which events count; default all."""

    def __post_init__(self) -> None:
        if bool(self.label) is (self.enqueue is not None):
            raise ValueError(f"Watch({self.kind.__name__}) needs either label or enqueue")

    def keys(self, meta: Meta, objects: Informer) -> Iterator[ObjectKey]:
        """Yield the keys of the objects to reconcile because of an object with this metadata."""
        if self.enqueue is not None:
            yield from self.enqueue(meta, objects)
        elif name := meta.labels.get(self.label):
            yield ObjectKey(meta.namespace, name)


def pod_health_changed(event: CacheEvent) -> bool:
    """Return whether a pod's problem has changed, or whether it counts as a replica (see `PodHealth`)."""
    if event.old is None or event.new is None:
        return True
    return _reported(event.old) != _reported(event.new)


def _reported(record: Record) -> tuple[object, ...]:
    health = PodHealth.of(orjson.loads(record.raw), clock.now())
    # Without a problem, the last reconcile has set the timer.
    over_at = None if health.problem is None else health.look_again_at
    return health.is_active, health.problem, health.is_stuck, over_at


_POD_CHANGED = any_of(created_or_deleted, label_changed, pod_health_changed)


@dataclass(frozen=True, kw_only=True)
class WatchPods(Watch):
    """The pods of our objects' Deployments, to be read by `ctx.pods`.

    Of each only what its health depends on is kept, and only a change of that is an event. Without a label
    selector in `selection`, those are watched that have `label`.
    """

    kind: type[Resource] = field(default=Pod, init=False)
    on: Predicate | None = _POD_CHANGED

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen = self.selection._asdict()
        chosen["label_selector"] = chosen["label_selector"] or self.label
        object.__setattr__(self, "selection", Selection.of(**{**chosen, "keeps": PARTS_OF_HEALTH}))


@dataclass(frozen=True, kw_only=True)
class Reads(_Source):
    """A kind that is cached to be read; its changes enqueue nothing."""


def check_spelling(cls: type, base: type, hooks: Sequence[str]) -> None:
    """Raise TypeError for a member of `cls` that `base` does not have, and that is most likely misspelt.

    That is: it is called almost as something of `base` that may be set and is not, or as one of `hooks`, and
    is of the same sort.
    """
    attributes = {
        name: value
        for name, value in vars(base).items()
        if name in base.__annotations__ and len(name) >= _SHORTEST and name != "name"
    }
    for name, value in vars(cls).items():
        method = inspect.isfunction(value)
        if name.startswith(("_", *(f"{hook}_" for hook in hooks))) or hasattr(base, name):
            continue
        known = hooks if method else (each for each in attributes if _is_like(value, attributes[each]))
        meant = difflib.get_close_matches(name.lower(), known, n=1, cutoff=_ALIKE)
        if meant and meant[0] not in vars(cls):
            what = "called" if method else "read"
            raise TypeError(f"{cls.__name__}.{name}: it is never {what}; did you mean {meant[0]}?")


def _is_like(value: object, default: object) -> bool:
    if isinstance(default, tuple):
        return isinstance(value, tuple | list | set) or (
            isinstance(value, type) and issubclass(value, Resource)
        )
    return isinstance(value, Mapping if isinstance(default, Mapping) else type(default))


def check_sources(operator: str, sources: Iterable[Owns | Watch | Reads]) -> None:
    """Raise TypeError for an index or a predicate that looks at what the objects of a source do not have."""
    for source in sources:
        where = f"{operator}: {type(source).__name__}({source.kind.__name__})"
        check_indexes(f"{where}.indexes", source.kind, source.indexes)
        if not isinstance(source, Reads):
            _check_predicate(where, source)


def _check_predicate(where: str, source: Owns | Watch) -> None:
    if source.on is None or not compares_status(source.on):
        return
    if source.metadata_only:
        raise TypeError(f"{where}: with metadata_only, status_changed never lets an event pass")
    keeps = source.selection.keeps
    if keeps and not any(each == "status" or each.startswith(("status.", "status[")) for each in keeps):
        raise TypeError(f"{where}: its selection keeps no status, so status_changed never lets an event pass")


def check_indexes(where: str, kind: type[Resource], indexes: Mapping[str, IndexFunction]) -> None:
    """Raise TypeError for an index by a field that the kind does not have.

    Only for a kind that the model defines: of others a model may have fewer fields than there are.
    """
    if not is_crd(kind):
        return
    for name, function in indexes.items():
        said = check_path(kind, steps_of(function))
        if said is not None:
            raise TypeError(f"{where}[{name!r}]: {kind.__name__} {said}")


def check_path(kind: type[Resource], steps: Iterable[tuple[str, bool]]) -> str | None:
    """Return what is wrong with a path into objects of the kind; None where nothing is known to be."""
    at: Any = kind
    path = ""
    for step, each in steps:
        if path == "metadata.":
            return None  # the server has more there than the model
        if isinstance(at, type) and issubclass(at, ApiModel):
            fields = {field.alias or name: field.annotation for name, field in at.model_fields.items()}
            if step not in fields:
                close = [
                    field.alias for name, field in at.model_fields.items() if name == step and field.alias
                ]
                close = close or difflib.get_close_matches(step, fields, n=1)
                hint = f"; did you mean {path}{close[0]}?" if close else ""
                return f"has no field {path}{step}{hint}"
            at = bare(fields[step])
        elif get_origin(at) is dict:
            at = bare(get_args(at)[1])
        elif at in {str, int, float, bool}:
            return f"has no field {path}{step}: {path[:-1]} is no object"
        else:
            return None
        path += step
        if (get_origin(at) is list) is not each and at is not Any:
            return f"has a list at {path}: write {path}[*]" if not each else f"has no list at {path}"
        at = bare(get_args(at)[0]) if each else at
        path += "[*]." if each else "."
    return None


def bare(annotation: Any) -> Any:
    """Return a type without what is beside it: None, and what `Annotated` adds."""
    arguments = [each for each in get_args(annotation) if each is not type(None)]
    if hasattr(annotation, "__metadata__") or (len(arguments) == 1 and get_origin(annotation) is not list):
        return bare(arguments[0])
    return annotation
