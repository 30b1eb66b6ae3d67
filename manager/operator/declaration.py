"""The declarations in an operator's class: sources, timers, daemons, and the checks of their values."""

from __future__ import annotations

import difflib
import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, get_args, get_origin, overload

import orjson
from pydantic import AfterValidator, Field, InstanceOf, TypeAdapter, ValidationError

from manager.api import ApiModel, ObjectKey, Resource, is_crd
from manager.api.condition import CONDITION_REASON, CONDITION_TYPE
from manager.api.rights import RbacRule
from manager.cache import WHOLE, CacheEvent, IndexFunction, Informer, Meta, Record, Selection, steps_of
from manager.client.errors import nearest_name
from manager.controller import ControllerOptions, Predicate, any_of, created_or_deleted, label_changed
from manager.controller.source import compares_status
from manager.settings import Setting
from manager.telemetry.logs import shortened
from manager.util import clock
from manager.util.author_code import place_of
from manager.util.signature import classes_of, is_subclass, parameters_of, positional
from manager.webhook import AdmissionOptions
from manager_kinds.core_v1 import Pod
from manager_kinds.pod_health import PARTS_OF_HEALTH, PodHealth

_SHORTEST = 4
"""The shortest attribute name for which a similar name counts as a misspelling: `one` is not `on`."""
_ALIKE = 0.8

Enqueue: TypeAlias = Callable[[Meta, Informer], Iterable[ObjectKey]]
"""Maps the metadata of a changed object to the keys of the objects to reconcile.

The second argument is the cache of the operator's own kind. Use an index for look-ups, so that their cost
does not grow with the number of objects. The event loop calls the function for the old and for the new
object.
"""


@dataclass(frozen=True, kw_only=True)
class _Source:
    kind: type[Resource] = field(kw_only=False)

    metadata_only: bool = False
    """Fetch and cache only metadata, which costs far less; read it through `client.metadata`."""

    selection: Selection = WHOLE
    """The selected objects: `Selection.of(label_selector="app=web", field_selector="…", namespaces=[…])`.

    With `keeps=["status.phase"]`, the cache keeps only these fields of each object. Read them through
    `client.selecting` with the same arguments."""

    indexes: Mapping[str, IndexFunction] = field(default_factory=dict)
    """Index functions by name; `client.list(kind, index=(name, value))` finds objects by their results."""


@dataclass(frozen=True, kw_only=True)
class Owns(_Source):
    """A kind of children: a change of a child enqueues the object that is its controller.

    If another object uses a child's name, a change or deletion of that object also triggers a reconcile.

    The cache has only metadata of objects of this kind that are not children, so reads of these objects ask
    the API server. The cache has whole objects if `reads` or `watches` also declare the kind, or if `Owns`
    has selection or indexes.
    """

    on: Predicate | None = None
    """The predicate for the children's events; default all. A change of the controller always counts."""

    prune: bool = False
    """Whether a successful reconcile deletes the children of this kind that it has not applied."""


@dataclass(frozen=True, kw_only=True)
class Watch(_Source):
    """A kind of objects that are not children: a label or a function maps a changed one to our objects.

    Raises ValueError unless exactly one of `label` and `enqueue` is given.
    """

    label: str = ""
    """The label whose value is the name of the object to reconcile, in the same namespace."""

    enqueue: Enqueue | None = None
    on: Predicate | None = None
    """The predicate for events; by default all count."""

    def __post_init__(self) -> None:
        if bool(self.label) is (self.enqueue is not None):
            raise ValueError(f"Watch({self.kind.__name__}) needs either label or enqueue")

    def keys(self, meta: Meta, objects: Informer) -> Iterator[ObjectKey]:
        """Yield the keys of the objects to reconcile for an object with this metadata."""
        if self.enqueue is not None:
            yield from self.enqueue(meta, objects)
        elif name := meta.labels.get(self.label):
            yield ObjectKey(meta.namespace, name)


def pod_health_changed(event: CacheEvent) -> bool:
    """Return whether the pod was created or deleted, or its health has changed (see `PodHealth`)."""
    if event.old is None or event.new is None:
        return True
    return _reported(event.old) != _reported(event.new)


def _reported(record: Record) -> tuple[object, ...]:
    health = PodHealth.of(orjson.loads(record.raw), clock.now())
    # For a pod without a problem, the last reconcile has set the timer.
    over_at = None if health.problem is None else health.look_again_at
    return health.is_active, health.problem, health.is_stuck, over_at


_POD_CHANGED = any_of(created_or_deleted, label_changed, pod_health_changed)


@dataclass(frozen=True, kw_only=True)
class WatchPods(Watch):
    """The pods of our objects' Deployments, for `ctx.pods`.

    The cache has only a pod's metadata and health fields. The default `on` passes creations, deletions, and
    changes of labels or health. Without a label selector in `selection`, the label `label` selects the pods.
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
    """A kind that the cache has for reads only; its changes enqueue nothing."""


F = TypeVar("F", bound=Callable[..., Any])

_TIMER, _DAEMON = "__every__", "__daemon__"

Takes: TypeAlias = Mapping[str, type | None]
"""The parameter types of a method by name, without self; None stands for the operator's kind."""


@dataclass(frozen=True, slots=True)
class Timer:
    """A method that is called every `seconds`."""

    name: str
    seconds: float | Setting[float]
    jitter: float
    for_each: bool
    """Whether the method is called for each object; otherwise once for all objects."""


def every(seconds: float | Setting[float], *, jitter: float = 0.1) -> Callable[[F], F]:
    """Call a method of the operator every `seconds`, plus or minus the fraction `jitter`.

    A method `(self, obj, ctx)` is called just before the `reconcile` of each object that is not being
    deleted; its status changes are written with that reconcile. A method `(self)` is called once for all
    objects, in the leader, when the caches are in sync. `seconds` may be a Setting.

    An exception of a method for each object counts as an error of the reconcile, and is retried. After
    TerminalError, the next call waits for a change. An exception of a method for all objects is logged.
    """
    if not isinstance(seconds, Setting) and not (_is_number(seconds) and 0 < seconds < math.inf):
        raise ValueError(f"@every needs more than 0 seconds, as in @every(30), not {_shown(seconds)}")
    if not (_is_number(jitter) and 0 <= jitter <= 1):
        raise ValueError(f"@every needs a jitter from 0 to 1, not {_shown(jitter)}")

    return lambda method: _marked(method, _TIMER, (seconds, jitter))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _function_of(method: object) -> object:
    """Return the function of a static or class method; return other values unchanged."""
    return getattr(method, "__func__", method)


def _marked(method: F, mark: str, value: object) -> F:
    function = _function_of(method)
    if not inspect.isfunction(function) or hasattr(function, mark):
        why = "twice on one method" if hasattr(function, mark) else f"for a method, not for {_shown(method)}"
        raise TypeError(f"@{mark.strip('_')} is {why}")
    setattr(function, mark, value)
    return method


def timers_of(cls: Any, members: Mapping[str, Any], takes: Takes) -> Iterator[Timer]:
    """Yield the timers among an operator's members. Raises TypeError for an unsuitable method.

    `takes` lists the parameters of a method that is called for each object.
    """
    for name, member in members.items():
        if (marked := getattr(_function_of(member), _TIMER, None)) is None:
            continue
        for_each = positional(cls, name, len(takes)) is not None
        is_async = inspect.iscoroutinefunction(_function_of(member))
        if not is_async or not (for_each or positional(cls, name, 0) is not None):
            raise TypeError(
                f"{cls.__name__}.{name}: @every is for `async def {name}(self, obj, ctx)`, or for "
                f"`async def {name}(self)`, which is called once for all objects"
            )
        if for_each:
            check_call(cls, name, takes)
        yield Timer(name, marked[0], marked[1], for_each=for_each)


@dataclass(frozen=True, slots=True)
class Daemon:
    """A method that runs as a task for each object."""

    name: str
    restarts: bool
    """Whether a change of the spec restarts the daemon."""


@overload
def daemon(method: F, /) -> F: ...
@overload
def daemon(*, restarts: bool = True) -> Callable[[F], F]: ...
def daemon(method: F | None = None, /, *, restarts: bool = True) -> F | Callable[[F], F]:
    """Run the method `(self, obj)` of an operator as a task for each object that exists.

    The first reconcile of an object starts the task with a copy of the object. The task is cancelled when the
    object is being deleted (before `cleanup`), when another replica becomes its owner, and when the manager
    stops. A change of the spec cancels the task and starts it with the new object, unless `restarts` is
    False. Only such a restart starts a daemon again that has returned or raised TerminalError. After any
    other exception, the error is logged, and the daemon restarts after a delay of 1 s, which doubles each
    time up to a minute.

    The task runs concurrently with `reconcile` and must not write the object: it stores results in the
    operator, and calls `self.enqueue(obj.key)`.
    """
    if method is None:
        return lambda method: _marked(method, _DAEMON, restarts)
    return _marked(method, _DAEMON, restarts)


def daemons_of(cls: Any, members: Mapping[str, Any]) -> Iterator[Daemon]:
    """Yield the daemons among an operator's members. Raises TypeError for an unsuitable method."""
    for name, member in members.items():
        if (restarts := getattr(_function_of(member), _DAEMON, None)) is None:
            continue
        if not inspect.iscoroutinefunction(_function_of(member)) or positional(cls, name, 1) is None:
            raise TypeError(f"{cls.__name__}.{name}: @daemon is for `async def {name}(self, obj)`")
        check_call(cls, name, {"obj": None})
        yield Daemon(name, restarts)


def check_spelling(cls: type, base: type, hooks: Sequence[str]) -> None:
    """Raise TypeError for a member of `cls` whose name is probably a misspelling.

    Such a name resembles an attribute of `base` or one of `hooks`, and the member has a similar type.
    """
    attributes = {
        name: getattr(base, name)
        for each in base.__mro__
        for name in inspect.get_annotations(each)
        if hasattr(base, name) and len(name) >= _SHORTEST
    }
    for name, value in vars(cls).items():
        method = inspect.isfunction(value)
        if name.startswith(("_", *(f"{hook}_" for hook in hooks))) or hasattr(base, name):
            continue
        known = hooks if method else [each for each in attributes if _is_like(value, attributes[each])]
        swapped = [each for each in known if sorted(each) == sorted(name)]
        meant = swapped or difflib.get_close_matches(name.lower(), known, n=1, cutoff=_ALIKE)
        if meant and meant[0] not in vars(cls):
            what = "called" if method else "read"
            raise TypeError(f"{cls.__name__}.{name}: it is never {what}; did you mean {meant[0]}?")


def _is_like(value: object, default: object) -> bool:
    if isinstance(default, tuple | Mapping) and value in ((), [], {}):
        return True
    if isinstance(default, tuple):
        return isinstance(value, tuple | list | set | Owns | Watch | Reads) or (
            isinstance(value, type) and issubclass(value, Resource)
        )
    return isinstance(value, Mapping if isinstance(default, Mapping) else type(default))


def check_sources(operator: str, sources: Iterable[Owns | Watch | Reads]) -> None:
    """Raise TypeError for a source with an unsuitable index, predicate or function."""
    for source in sources:
        of = f"{type(source).__name__}({source.kind.__name__})"
        on = None if isinstance(source, Reads) else source.on
        if on is not None and not _takes(on, 1):
            raise TypeError(f"{operator}: on of {of} is called with (event), and is {_shown(on)}")
        if isinstance(source, Watch) and source.enqueue is not None and not _takes(source.enqueue, 2):
            raise TypeError(f"{operator}: enqueue of {of} is called with (meta, objects)")
        check_indexes(f"{operator}: {of}.indexes", source.kind, source.indexes)
        if on is not None and compares_status(on):
            kept = [re.match(r"status(\.|\[|$)", each) for each in source.selection.keeps]
            if source.metadata_only or (kept and not any(kept)):
                why = "with metadata_only," if source.metadata_only else "its selection keeps no status, so"
                raise TypeError(f"{operator}: {of}: {why} status_changed never lets an event pass")


def check_indexes(where: str, kind: type[Resource], indexes: Mapping[str, IndexFunction]) -> None:
    """Raise TypeError for an index function that is not callable or that reads an unknown field.

    Fields of a kind that others define are not checked: its model may lack some of them.
    """
    for name, function in indexes.items():
        if not _takes(function, 2):
            raise TypeError(f"{where}[{name!r}] is called with (record, meta)")
        if not is_crd(kind):
            continue
        said = check_path(kind, steps_of(function))
        if said is not None:
            raise TypeError(f"{where}[{name!r}]: {kind.__name__} {said}")


def check_path(kind: type[Resource], steps: Iterable[tuple[str, bool]]) -> str | None:
    """Return an error text for an invalid path into objects of the kind; None if no error is known."""
    at: Any = kind
    path = ""
    for step, each in steps:
        if path == "metadata.":
            return None  # the server's metadata has more fields than the model
        if isinstance(at, type) and issubclass(at, ApiModel):
            fields = {field.alias or name: field.annotation for name, field in at.model_fields.items()}
            if step not in fields:
                near = nearest_name(at, step)
                hint = "" if near is None else f"; did you mean {path}{near}?"
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
    """Return the type without `None`, and without the metadata of `Annotated`."""
    arguments = [each for each in get_args(annotation) if each is not type(None)]
    if hasattr(annotation, "__metadata__") or (len(arguments) == 1 and get_origin(annotation) is not list):
        return bare(arguments[0])
    return annotation


def _predicate(value: object) -> object:
    if not _takes(value, 1):
        raise ValueError
    return value


_Text = Annotated[str, Field(min_length=1)]
_Name = Annotated[str, Field(pattern="^[a-z0-9]([-.a-z0-9]{0,61}[a-z0-9])?$")]
_Finalizer = Annotated[
    str,
    Field(pattern="^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"),
]
_Type = Annotated[str, Field(pattern=CONDITION_TYPE)]
_Reason = Annotated[str, Field(pattern=CONDITION_REASON)]

_ATTRIBUTES: Sequence[tuple[str, Any, str]] = (
    ("name", _Name, 'at most 63 of "-", "." and lower-case letters and digits, no "-" or "." at an end'),
    ("versions", tuple[type[Resource], ...], "a tuple of kinds, as in `versions = (OldPet,)`"),
    ("on", Annotated[Any, AfterValidator(_predicate)], "a predicate, such as `generation_changed`"),
    ("owns", tuple[type[Resource] | InstanceOf[Owns], ...], "a tuple of kinds, or of `Owns(Kind, ...)`"),
    ("watches", tuple[InstanceOf[Watch], ...], "a tuple of `Watch(Kind, label=...)`, or with `enqueue=`"),
    ("reads", tuple[type[Resource] | InstanceOf[Reads], ...], "a tuple of kinds, or `Reads(Kind, ...)`"),
    ("selection", InstanceOf[Selection], '`Selection.of(label_selector="app=web")`'),
    ("indexes", Mapping[_Text, Callable[..., Any]], 'functions, as in `{"a": index_by("spec.a")}`'),
    ("conditions", tuple[_Type, ...], "a tuple of types of conditions, in CamelCase"),
    ("errors", Mapping[type[Exception], _Reason], 'reasons, as in `{PaymentRefused: "PaymentRefused"}`'),
    ("options", InstanceOf[ControllerOptions], "`ControllerOptions(...)`"),
    ("rights", tuple[InstanceOf[RbacRule], ...], "a tuple of rules, as in `rbac(groups=..., ...)`"),
    ("admission", InstanceOf[AdmissionOptions], "`webhook.AdmissionOptions(...)`"),
    ("finalizer", Literal[""] | _Finalizer, "a name such as `example.com/hold`"),
    ("former_finalizers", tuple[_Finalizer, ...], "a tuple of names such as `example.com/hold`"),
    ("former_managers", tuple[_Text, ...], "a tuple of names of field managers"),
)
"""Each attribute with its type, and the description of a valid value for errors."""

_ADAPTERS = {name: TypeAdapter[Any](takes) for name, takes, _ in _ATTRIBUTES}
_ASYNC = frozenset({"reconcile", "reconcile_key", "cleanup", "gone", "on_error"})


def check_attributes(cls: Any) -> None:
    """Raise TypeError for an attribute with an unsuitable value."""
    for name, _, what in _ATTRIBUTES:
        value = inspect.getattr_static(cls, name)
        value = getattr(cls, name) if isinstance(value, staticmethod) else value
        try:
            _ADAPTERS[name].validate_python(value, strict=True)
        except ValidationError as error:
            wrong = error.errors()[0]
            found = f"{'has' if wrong['loc'] else 'is'} {_shown(wrong['input'])}"
            raise TypeError(f"{cls.__name__}.{name} takes {what}, and {found}") from None
    for name in ("versions", "owns", "watches", "reads"):
        for each in getattr(cls, name):
            check_kind(f"{cls.__name__}.{name}", each.kind if isinstance(each, _Source) else each)
    for version in cls.versions:
        ours, other = cls.kind.gvk, version.gvk
        if (ours.group, ours.kind) != (other.group, other.kind) or ours.version == other.version:
            raise TypeError(f"{cls.__name__}.versions has {other}, which is not another version of {ours}")


def check_kind(where: str, kind: object) -> None:
    """Raise TypeError unless `kind` is a class with a group, version and kind."""
    if not (isinstance(kind, type) and issubclass(kind, Resource) and hasattr(kind, "gvk")):
        raise TypeError(f"{where} has {_shown(kind)}, which is no kind: a class with a version and a plural")


def _takes(function: Any, count: int) -> bool:
    """Return whether the function accepts `count` positional arguments."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:  # a function in C has no signature
        return True
    return True


def check_hooks(cls: Any, base: type, hooks: Mapping[str, Takes]) -> None:
    """Raise TypeError for a hook that the runtime cannot call, or that another base class hides."""
    for name, takes in hooks.items():
        first, *others = (each for each in cls.__mro__ if name in vars(each))
        hidden = [each.__name__ for each in others if each not in base.__mro__]
        if first in base.__mro__ and hidden:
            raise TypeError(
                f"{cls.__name__}.{name} comes from {first.__name__} and hides the one of {hidden[0]}: "
                f"name {hidden[0]} first among the bases"
            )
        if inspect.iscoroutinefunction(getattr(cls, name)) is not (name in _ASYNC):
            has_to = "has to be" if name in _ASYNC else "is called without await, and cannot be"
            raise TypeError(f"{cls.__name__}.{name} {has_to} an `async def`")
        check_call(cls, name, takes)


def check_call(cls: Any, name: str, takes: Takes) -> None:
    """Raise TypeError if the method needs other arguments than those that the runtime passes."""
    call = ", ".join(("self", *takes))
    given = positional(cls, name, len(takes))
    if given is None:
        has = ", ".join(("self", *(each.name for each in parameters_of(cls, name))))
        raise TypeError(f"{cls.__name__}.{name} is called with ({call}), and takes ({has}){_at(cls, name)}")
    if name not in vars(cls):
        return  # a subclass may be for another kind
    for parameter, wanted in zip(given, takes.values(), strict=False):
        classes, gets = classes_of(parameter.annotation, cls, getattr(cls, name)), wanted or cls.kind
        if classes is not None and not any(is_subclass(gets, each) for each in classes):
            annotated = " | ".join(each.__name__ for each in classes)
            raise TypeError(
                f"{cls.__name__}.{name} is called with ({call}): its {parameter.name} is annotated as "
                f"{annotated}, and gets {'the' if wanted else 'a'} {gets.__name__}{_at(cls, name)}"
            )
    names = [each.name for each in given]
    if any(each != of and each in takes for each, of in zip(names, takes, strict=False)):
        has = ", ".join(("self", *names))
        raise TypeError(
            f"{cls.__name__}.{name} is called with ({call}) in this order, and takes ({has}){_at(cls, name)}"
        )


def _at(cls: type, name: str) -> str:
    place = place_of(getattr(cls, name))
    return place and f", at {place}"


def _shown(value: object) -> str:
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, str | int | float | bool | None):
        return shortened(repr(value), 80)
    return f"a {type(value).__name__}"  # the value itself may be secret
