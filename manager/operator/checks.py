"""Checks of what an operator declares, when its class is made."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from manager.api import ObjectKey, Resource
from manager.api.condition import CONDITION_REASON, CONDITION_TYPE
from manager.api.rights import RbacRule
from manager.cache import Selection
from manager.controller import ControllerOptions
from manager.operator.context import Blocked, Context
from manager.operator.declaration import Owns, Reads, Watch
from manager.telemetry.logs import shortened
from manager.webhook import AdmissionOptions
from manager.webhook.methods import classes_of, is_subclass, parameters_of, positional

if TYPE_CHECKING:
    from manager.operator.operator import Operator

_LABEL = re.compile(r"[a-z0-9]([-.a-z0-9]{0,61}[a-z0-9])?")
_QUALIFIED = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?", re.ASCII)


def _is_kind(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Resource) and hasattr(value, "gvk")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_condition(value: object) -> bool:
    return isinstance(value, str) and re.search(CONDITION_TYPE, value) is not None


def _is_finalizer(value: object) -> bool:
    return isinstance(value, str) and _QUALIFIED.fullmatch(value) is not None


def _is_index(value: object) -> bool:
    return isinstance(value, Mapping) and all(_is_text(name) and callable(of) for name, of in value.items())


def _are_reasons(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(error, type) and issubclass(error, Exception) and _is_reason(reason)
        for error, reason in value.items()
    )


def _is_reason(value: object) -> bool:
    return isinstance(value, str) and re.search(CONDITION_REASON, value) is not None


_Check = Callable[[object], bool]

_ITEMS: Mapping[str, tuple[_Check, str]] = {
    "versions": (_is_kind, "kinds, as in `versions = (OldPet,)`"),
    "owns": (lambda each: _is_kind(each) or isinstance(each, Owns), "kinds, or `Owns(Kind, ...)`"),
    "watches": (
        lambda each: isinstance(each, Watch),
        "`Watch(Kind, label=...)` or `Watch(Kind, enqueue=...)`",
    ),
    "reads": (lambda each: _is_kind(each) or isinstance(each, Reads), "kinds, or `Reads(Kind, ...)`"),
    "rights": (
        lambda each: isinstance(each, RbacRule),
        "rules, as in `rbac(groups=..., resources=..., verbs=...)`",
    ),
    "conditions": (_is_condition, "types of conditions, in CamelCase"),
    "former_finalizers": (_is_finalizer, "names of finalizers, such as `example.com/hold`"),
    "former_managers": (_is_text, "names of field managers"),
}
"""What is a tuple, and of what."""

_VALUES: Mapping[str, tuple[_Check, str]] = {
    "name": (
        lambda value: isinstance(value, str) and _LABEL.fullmatch(value) is not None,
        'at most 63 lower-case letters, digits, "-" and ".", with a letter or digit at both ends',
    ),
    "on": (callable, "a predicate, such as `generation_changed`"),
    "selection": (lambda value: isinstance(value, Selection), '`Selection.of(label_selector="app=web")`'),
    "indexes": (_is_index, 'functions by name, as in `{"image": index_by("spec.image")}`'),
    "errors": (_are_reasons, 'reasons by type of exception, as in `{PaymentRefused: "PaymentRefused"}`'),
    "options": (lambda value: isinstance(value, ControllerOptions), "`ControllerOptions(...)`"),
    "admission": (lambda value: isinstance(value, AdmissionOptions), "`webhook.AdmissionOptions(...)`"),
    "outside": (
        lambda value: isinstance(value, str) and re.fullmatch(r"(\w+(\.\w+)*:\w+)?", value) is not None,
        "a name such as `module:Class`",
    ),
    "finalizer": (lambda value: value == "" or _is_finalizer(value), "a name such as `example.com/hold`"),
}

_OBJECT = "obj"
_HOOKS: Mapping[str, Mapping[str, type | None]] = {
    "setup": {},
    "reconcile": {_OBJECT: None, "ctx": Context},
    "reconcile_key": {"key": ObjectKey},
    "cleanup": {_OBJECT: None, "ctx": Context},
    "gone": {"key": ObjectKey},
    "handed_over": {"key": ObjectKey},
    "on_error": {_OBJECT: None, "error": Exception, "ctx": Context},
    "blocked": {"by": Blocked, "ctx": Context},
    "reconcile_failed": {"by": Blocked, "ctx": Context},
    "cleanup_blocked": {"by": Blocked, "ctx": Context},
}
"""With what the runtime calls each method after self; the object is of the operator's kind."""

_ASYNC = frozenset({"reconcile", "reconcile_key", "cleanup", "gone", "on_error"})


def check_declarations(cls: type[Operator[Any]]) -> None:
    """Raise TypeError for an attribute or a method that the runtime could not use; the line names it."""
    for name, (is_right, of) in _ITEMS.items():
        items: Any = getattr(cls, name)
        if not isinstance(items, tuple):
            raise TypeError(
                f"{cls.__name__}.{name} has to be a tuple, as in `{name} = (..., ...)`: it takes {of}"
            )
        for each in items:
            if not is_right(each):
                raise TypeError(f"{cls.__name__}.{name} takes {of}, and has {_shown(each)}")
    for name, (is_right, what) in _VALUES.items():
        value = inspect.getattr_static(cls, name)
        value = getattr(cls, name) if isinstance(value, staticmethod) else value
        if not is_right(value):
            raise TypeError(f"{cls.__name__}.{name} takes {what}, and is {_shown(value)}")
    for source in (*cls.owns, *cls.watches):
        if isinstance(source, Owns | Watch):
            _check_source(cls.__name__, source)
    for version in cls.versions:
        ours, other = cls.kind.gvk, version.gvk
        if (ours.group, ours.kind) != (other.group, other.kind) or ours.version == other.version:
            raise TypeError(f"{cls.__name__}.versions has {other}, which is not another version of {ours}")
    for name, takes in _HOOKS.items():
        _check_hook(cls, name, takes)


def _check_source(operator: str, source: Owns | Watch) -> None:
    on: Any = source.on
    of = f"{type(source).__name__}({source.kind.__name__})"
    if on is not None and not callable(on):
        raise TypeError(f"{operator}: on of {of} takes a predicate, and is {_shown(on)}")
    if isinstance(source, Watch) and source.enqueue is not None and not _takes_two(source.enqueue):
        raise TypeError(f"{operator}: enqueue of {of} is called with (meta, objects)")


def _takes_two(function: Callable[..., object]) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # a function of C has no signature
        return True
    return True


def _check_hook(cls: type[Operator[Any]], name: str, takes: Mapping[str, type | None]) -> None:
    function = getattr(cls, name)
    if inspect.iscoroutinefunction(function) is not (name in _ASYNC):
        has_to = "has to be" if name in _ASYNC else "is called without await, and cannot be"
        raise TypeError(f"{cls.__name__}.{name} {has_to} an `async def`")
    call = ", ".join(("self", *takes))
    given = positional(cls, name, len(takes))
    if given is None:
        has = ", ".join(("self", *(each.name for each in parameters_of(cls, name))))
        raise TypeError(f"{cls.__name__}.{name} is called with ({call}), and takes ({has})")
    if name not in vars(cls):
        return  # a class below may be for another kind
    for parameter, (what, wanted) in zip(given, takes.items(), strict=False):
        classes = classes_of(parameter.annotation, cls, function)
        gets = wanted or cls.kind
        if classes is not None and not any(is_subclass(gets, each) for each in classes):
            annotated = " | ".join(each.__name__ for each in classes)
            raise TypeError(
                f"{cls.__name__}.{name} is called with ({call}): its {parameter.name} is annotated as "
                f"{annotated}, and gets {'a' if what is _OBJECT else 'the'} {gets.__name__}"
            )


def _shown(value: object) -> str:
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, str | int | float | bool | None):
        return shortened(repr(value), 80)
    return f"a {type(value).__name__}"  # which may hold a secret
