"""Webhooks as methods of an operator: decorators, checks at class creation, and registrations."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from types import FunctionType, NoneType
from typing import Any

from manager.api import Resource
from manager.util.author_code import place_of
from manager.util.signature import classes_of, is_subclass, parameters_of, positional
from manager.webhook.registration import (
    NO_METHOD,
    Admission,
    AdmissionOptions,
    Conversion,
    Converts,
    Decorators,
    Mark,
    RegistrationError,
    S,
    Way,
    Webhooks,
    add_mark,
    marks,
)
from manager.webhook.request import AdmissionRequest, JsonObject

_JSON, _NEW, _OLD, _OLD_OR_NONE, _OPTIONS, _REQUEST = "object", "new", "old", "old?", "options", "request"

_CALLS: Mapping[str, tuple[str, ...]] = {
    "default": (_JSON, _REQUEST),
    "validate_create": (_NEW, _REQUEST),
    "validate_update": (_OLD, _NEW, _REQUEST),
    "validate_delete": (_OLD, _REQUEST),
    "validate_connect": (_OPTIONS, _REQUEST),
    "to_hub": (_JSON,),
    "from_hub": (_JSON,),
}
"""The parameters of each method after self."""

_WITH_UPDATE = (_OLD_OR_NONE, _NEW, _REQUEST)
"""Parameters for a new object, of a method that validates updates, too."""

_NAMES = {
    **{name: f"@webhook.{name}" for name in _CALLS if name.startswith(("default", "validate"))},
    **dict.fromkeys(("to_hub", "convert_to", "convert_to_hub"), "@webhook.to_hub(...)"),
    **dict.fromkeys(("from_hub", "convert_from", "convert_from_hub"), "@webhook.from_hub(...)"),
}
"""Names of methods in other frameworks, with the decorator that replaces each of them."""
_ALIKE = 0.8

_own = Decorators()
default, validate_create = _own.default, _own.validate_create
validate_update, validate_delete = _own.validate_update, _own.validate_delete


def to_hub(spoke: type[Resource] = NO_METHOD) -> Callable[[Converts[S]], Converts[S]]:
    """Decorate the method that converts an object from `spoke`'s version to the operator's.

    It changes the plain JSON object in place, possibly before the schema is checked. The runtime sets
    `apiVersion`, and restores all metadata except labels and annotations, because the API server would refuse
    such changes. One spoke is converted to another through the operator's version. Converting there and back
    must give the same object: store data that one version lacks in an annotation.
    """
    return _converts("to_hub", spoke)


def from_hub(spoke: type[Resource] = NO_METHOD) -> Callable[[Converts[S]], Converts[S]]:
    """Decorate the method that converts an object from the operator's version to `spoke`'s (see `to_hub`)."""
    return _converts("from_hub", spoke)


def _converts(way: Way, spoke: object) -> Callable[[Converts[S]], Converts[S]]:
    if not (isinstance(spoke, type) and issubclass(spoke, Resource)):
        raise RegistrationError(f"@webhook.{way} takes the other version, as in @webhook.{way}(OldPet)")
    return lambda method: add_mark(method, way, spoke)


@contextmanager
def spec_and_annotations(obj: JsonObject) -> Iterator[tuple[JsonObject, JsonObject]]:
    """Yield the spec and annotations for a conversion, and store changed annotations.

        with webhook.spec_and_annotations(greeting) as (spec, annotations):
            if "text" in spec:
                spec["words"] = spec.pop("text")

    The object may not have been validated by a schema: a missing or invalid part is yielded empty. Of such
    parts, only annotations are stored, if there is metadata. Annotations that become empty are removed.
    """
    spec, metadata = obj.get("spec"), obj.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, dict) else None
    before = found if isinstance(found, dict) else {}
    annotations = dict(before)
    yield (spec if isinstance(spec, dict) else {}), annotations
    if not isinstance(metadata, dict) or annotations == before:
        return
    if annotations:
        metadata["annotations"] = annotations
    else:
        del metadata["annotations"]


def webhooks_of(operators: Iterable[Any]) -> Webhooks:
    """Return all checked webhooks of operators, or of their classes. Raises `RegistrationError`."""
    return Webhooks(each for operator in operators for each in registrations(operator))


def has_webhooks(operator: Any) -> bool:
    """Return whether an operator, or an operator class, has a webhook."""
    cls = operator if isinstance(operator, type) else type(operator)
    return any(isinstance(each, Admission) or any(marks(each)) for each in _members(cls).values())


def registrations(operator: Any) -> Iterator[Admission[Any] | Conversion]:
    """Yield the registrations for an operator's decorated methods, from its class or an instance.

    A class suffices to read them; calls need an instance. `check_methods` has checked the methods.
    """
    cls = operator if isinstance(operator, type) else type(operator)
    options: AdmissionOptions = operator.admission
    given = {each.name: getattr(options, each.name) for each in fields(options)}
    own = Admission(operator.kind, finalizer=operator.finalizer, **given)
    conversion = Conversion(operator.kind)
    names = _members(cls)
    others = [each for each in (getattr(cls, name, None) for name in names) if isinstance(each, Admission)]
    # Copies, because each operator has its own methods.
    admissions = {None: own} | {each: replace(each) for each in others}
    for name in names:
        for role, about in marks(getattr(cls, name, None)):
            if role in {"to_hub", "from_hub"}:
                conversion.converters[role, about] = getattr(operator, name)
            else:
                admissions[about].functions[role] = getattr(operator, name)
    if own.functions:
        yield own
    yield from list(admissions.values())[1:]
    if conversion.spokes:
        yield conversion
    elif operator.versions:
        # The API server would drop every field that the other version does not have.
        raise RegistrationError(
            f"{cls.__name__} has versions, but no method that converts them: "
            "webhook.to_hub and webhook.from_hub, for each"
        )


def _members(cls: type) -> dict[str, Any]:
    return {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}


def check_methods(operator: type) -> None:
    """Raise `RegistrationError` for a webhook method that the runtime cannot or would never call."""
    taken: dict[Mark, str] = {}
    for name, member in _members(operator).items():
        if isinstance(member, FunctionType | staticmethod | classmethod):
            for problem in _problems(operator, name, taken):
                raise RegistrationError(f"{operator.__name__}.{name}: {problem}")


def _problems(operator: Any, name: str, taken: dict[Mark, str]) -> Iterator[str]:
    """Yield the errors of a webhook method; `taken` maps each decorator in use to its method's name."""
    function = getattr(operator, name)
    roles = marks(function)
    if not roles:
        yield from _problems_of_unmarked(operator, name, function)
        return
    for mark in roles:
        role, about = mark
        if mark in taken:
            yield f"{_decorator(mark)} is on {taken[mark]} already; there can be one"
        taken[mark] = name
        if role in {"to_hub", "from_hub"}:
            if about not in operator.versions:
                yield f"{about.gvk} is not among the `versions` of {operator.__name__}"
        elif about is not None and not any(each is about for each in _members(operator).values()):
            yield f"it is for {about}, which is no attribute of the class"
    if not inspect.iscoroutinefunction(function):
        yield "a webhook method has to be an `async def`, without yield"
    yield from _problems_of_calls(operator, name, roles)
    answer = inspect.unwrap(function).__annotations__.get("return", Any)
    returned = classes_of(answer, operator, function) or ()
    if roles[0][0].startswith("validate"):
        if any(each in {bool, int, float, dict, AdmissionRequest} for each in returned):
            yield "it returns warnings, as texts, or None; to refuse, it raises `Refused`"
    elif any(each is not NoneType for each in returned):
        yield "it changes its argument in place, and returns None"


def _problems_of_calls(operator: Any, name: str, roles: Sequence[Mark]) -> Iterator[str]:
    calls = {
        (role, about): _WITH_UPDATE
        if role == "validate_create" and ("validate_update", about) in roles
        else _CALLS[role]
        for role, about in roles
    }
    first, *more = calls.items()
    for mark, call in more:
        if [each is _JSON for each in call] != [each is _JSON for each in first[1]]:
            yield (
                f"{_decorator(first[0])} calls it with {_shown(first[1])}, and "
                f"{_decorator(mark)} with {_shown(call)}: write two methods"
            )
    together = " and ".join(map(_decorator, calls)) + (" call" if more else " calls")
    for (_, about), call in calls.items():
        admission = about if isinstance(about, Admission) else Admission(operator.kind)
        yield from (f"{together} it with {each}" for each in _misfits(operator, name, call, admission))


def _problems_of_unmarked(operator: type, name: str, function: Any) -> Iterator[str]:
    """Yield the errors of a method without a decorator, if its name suggests one."""
    for base in operator.__mro__[1:]:
        if replaced := marks(vars(base).get(name)):
            yield (
                f"it overrides a method, and needs the decorator {_decorator(replaced[0])} too; "
                f"without a webhook, write `{name} = None`"
            )
    if name.startswith("_") or name not in vars(operator):
        return
    meant = name if name in _NAMES else next(iter(difflib.get_close_matches(name, _NAMES, 1, _ALIKE)), None)
    annotations = (str(each.annotation) for each in parameters_of(operator, name))
    takes_request = any("AdmissionRequest" in each for each in annotations)
    if meant is not None and (inspect.iscoroutinefunction(function) or takes_request):
        yield f"it is never called; did you mean {_NAMES[meant]} above it?"


def _misfits(operator: type, name: str, call: Sequence[str], admission: Admission[Any]) -> Iterator[str]:
    """Yield an error text for each argument of a call that the method does not accept."""
    function = getattr(operator, name)
    given = positional(operator, name, len(call))
    if given is None:
        has = ", ".join(each.name for each in parameters_of(operator, name)) or "nothing"
        yield f"{_shown(call)} after self, and it takes {has}, at {place_of(function)}"
    for parameter, what in zip(given or (), call, strict=False):
        alternatives = classes_of(parameter.annotation, operator, function)
        if alternatives is None:
            continue
        names = " | ".join(each.__name__ for each in alternatives)
        if what is _OLD_OR_NONE and NoneType not in alternatives:
            right = f"{parameter.name}: {names} | None"
            yield f"None for {parameter.name} when the object is new: write `{right}`"
        gets: Sequence[type] = list(admission.models.values())
        described = f"a {gets[0].__name__}"
        if what is _JSON:
            gets, described = (dict,), "plain JSON (JsonObject)"
        elif what is _REQUEST:
            gets, described = (AdmissionRequest,), "the AdmissionRequest"
        if not any(is_subclass(each, of) for each in gets for of in alternatives):
            yield f"{described} for {parameter.name}, which is annotated as {names}"
    takes = [each.name for each in given or ()]
    gives = [each.rstrip("?") for each in call]
    if any(each != right and each in gives for each, right in zip(takes, gives, strict=False)):
        yield f"{_shown(call)} in this order, and it takes {', '.join(takes)}, at {place_of(function)}"


def _shown(call: Sequence[str]) -> str:
    return f"({', '.join(each.rstrip('?') for each in call)})"


def _decorator(mark: Mark) -> str:
    role, about = mark
    if about is None:
        return f"@webhook.{role}"
    return f"{role} of {about}" if isinstance(about, Admission) else f"@webhook.{role}({about.__name__})"
