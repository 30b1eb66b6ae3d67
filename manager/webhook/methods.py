"""Webhooks as methods of an operator: decorators, checks at class creation, and registrations."""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from types import FunctionType, NoneType, UnionType
from typing import Annotated, Any, NamedTuple, TypeAlias, Union, get_args, get_origin, overload

from manager.api import Resource
from manager.util.author_code import place_of
from manager.webhook.registration import (
    Admission,
    AdmissionOptions,
    Conversion,
    Converts,
    Defaults,
    Judges,
    JudgesBoth,
    JudgesChange,
    N,
    O,
    RegistrationError,
    S,
    W,
    Way,
    Webhooks,
    add_mark,
    marks,
)
from manager.webhook.request import AdmissionRequest, JsonObject

if sys.version_info >= (3, 14):
    from annotationlib import Format

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
"""Arguments of each call after self."""

_WITH_UPDATE = (_OLD_OR_NONE, _NEW, _REQUEST)
"""Arguments for a new object, of a method that validates updates too."""

_NAMES = {
    **{name: f"@webhook.{name}" for name in _CALLS if name.startswith(("default", "validate"))},
    **dict.fromkeys(("to_hub", "convert_to", "convert_to_hub"), "@webhook.to_hub(...)"),
    **dict.fromkeys(("from_hub", "convert_from", "convert_from_hub"), "@webhook.from_hub(...)"),
}
"""Names of methods in other frameworks, and the decorator that such a method needs here."""
_ALIKE = 0.8

_Mark: TypeAlias = tuple[str, Any]


def default(method: Defaults[S]) -> Defaults[S]:
    """Decorate the method that sets defaults (`Admission.default`)."""
    return add_mark(method, "default", None)


@overload
def validate_create(method: Judges[S, N, W]) -> Judges[S, N, W]: ...


@overload
def validate_create(method: JudgesBoth[S, N, W]) -> JudgesBoth[S, N, W]: ...


def validate_create(method: Any) -> Any:
    """Decorate the method that validates a new object (`Admission.validate_create`).

    One that has `validate_update` too gets the old object before the new one, and None for a new object's.
    """
    return add_mark(method, "validate_create", None)


def validate_update(method: JudgesChange[S, O, N, W]) -> JudgesChange[S, O, N, W]:
    """Decorate the method that validates an update (`Admission.validate_update`)."""
    return add_mark(method, "validate_update", None)


def validate_delete(method: Judges[S, N, W]) -> Judges[S, N, W]:
    """Decorate the method that validates a deletion (`Admission.validate_delete`)."""
    return add_mark(method, "validate_delete", None)


def to_hub(spoke: type[Resource]) -> Callable[[Converts[S]], Converts[S]]:
    """Decorate the method that converts an object from `spoke`'s version to the operator's.

    It changes the plain JSON object in place; no schema may have checked it. The runtime sets `apiVersion`,
    and restores all metadata but labels and annotations, because the API server would not accept such
    changes. One spoke is converted to another through the operator's version. Converting there and back must
    give the same object: an annotation keeps what one version cannot hold.
    """
    return _converts("to_hub", spoke)


def from_hub(spoke: type[Resource]) -> Callable[[Converts[S]], Converts[S]]:
    """Decorate the method that converts an object from the operator's version to `spoke`'s (see `to_hub`)."""
    return _converts("from_hub", spoke)


def _converts(way: Way, spoke: object) -> Callable[[Converts[S]], Converts[S]]:
    if not (isinstance(spoke, type) and issubclass(spoke, Resource)):
        raise RegistrationError(f"@webhook.{way} takes the other version, as in @webhook.{way}(OldPet)")
    return lambda method: add_mark(method, way, spoke)


@contextmanager
def spec_and_annotations(obj: JsonObject) -> Iterator[tuple[JsonObject, JsonObject]]:
    """Yield spec and annotations for a conversion to change, and put changed annotations back.

        with webhook.spec_and_annotations(greeting) as (spec, annotations):
            if "text" in spec:
                spec["words"] = spec.pop("text")

    The object may not have been validated by a schema: a missing or unreadable part is empty here, and stays
    as it is. Annotations that are empty at the end are removed from the object.
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
    """Return all webhooks of operators, or of their classes, checked. Raises `RegistrationError`."""
    return Webhooks(each for operator in operators for each in registrations(operator))


def has_webhooks(operator: Any) -> bool:
    """Return whether an operator, or the class of one, has a webhook."""
    cls = operator if isinstance(operator, type) else type(operator)
    members = (member for base in cls.__mro__ for member in vars(base).values())
    return any(isinstance(member, Admission) or any(marks(member)) for member in members)


def registrations(operator: Any) -> Iterator[Admission[Any] | Conversion]:
    """Yield the registrations that an operator's marked methods define, from its class or an instance.

    A class suffices to read them; calling them needs an instance. Raises `RegistrationError` for methods that
    do not fit.
    """
    cls = operator if isinstance(operator, type) else type(operator)
    options: AdmissionOptions = operator.admission
    given = {each.name: getattr(options, each.name) for each in fields(options)}
    own = Admission(operator.kind, finalizer=operator.finalizer, **given)
    conversion = Conversion(operator.kind)
    names = list(dict.fromkeys(name for base in reversed(cls.__mro__) for name in vars(base)))
    others = (each for each in (getattr(cls, name, None) for name in names) if isinstance(each, Admission))
    # With methods of the class, or of the operator, in place of the functions that were decorated.
    admissions = {None: own} | {each: replace(each) for each in others}
    for name in names:
        for role, about in marks(getattr(cls, name, None)):
            method = getattr(operator, name)
            if role in {"to_hub", "from_hub"}:
                conversion.register(role, about, method)
            elif about in admissions:
                admissions[about].register(role, method)
            else:
                raise RegistrationError(
                    f"{cls.__name__}.{name} is for {about}, which is no attribute of the class"
                )
    if own.functions:
        yield own
    yield from list(admissions.values())[1:]
    if conversion.spokes:
        yield conversion
    elif operator.versions:
        # The API server would drop every field that the other version does not have.
        raise RegistrationError(
            f"{cls.__name__} has versions, and no method that converts them: "
            "webhook.to_hub and webhook.from_hub, for each"
        )


class _Method(NamedTuple):
    operator: type
    name: str
    function: Any
    marks: tuple[_Mark, ...]

    def refused(self, why: str) -> RegistrationError:
        return RegistrationError(f"{self.operator.__name__}.{self.name}: {why}")


def check_methods(operator: type) -> None:
    """Raise `RegistrationError` for a webhook method that the runtime could not call, or would never call."""
    found: dict[_Mark, str] = {}
    others = [each for each in _members(operator).values() if isinstance(each, Admission)]
    for method in _methods(operator):
        if not method.marks:
            _check_unmarked(method)
            continue
        for mark in method.marks:
            if mark in found:
                raise method.refused(f"{_decorator(mark)} is on {found[mark]} already; there can be one")
            found[mark] = method.name
            _check_about(method, mark, others)
        _check_call(method)


def _members(operator: type) -> dict[str, Any]:
    return {name: value for base in reversed(operator.__mro__) for name, value in vars(base).items()}


def _methods(operator: type) -> Iterator[_Method]:
    for name, member in _members(operator).items():
        function = getattr(operator, name, None)
        if isinstance(member, FunctionType | staticmethod | classmethod):
            yield _Method(operator, name, function, marks(function))


def _check_unmarked(method: _Method) -> None:
    """Refuse a method without a decorator whose name says that the runtime should call it."""
    for base in method.operator.__mro__[1:]:
        replaced = marks(vars(base).get(method.name))
        if replaced:
            raise method.refused(
                f"it overrides a method, and needs the decorator {_decorator(replaced[0])} too; "
                f"without a webhook, write `{method.name} = None`"
            )
    name = method.name
    if name.startswith("_") or name not in vars(method.operator):
        return
    meant = name if name in _NAMES else next(iter(difflib.get_close_matches(name, _NAMES, 1, _ALIKE)), None)
    if meant is not None and (inspect.iscoroutinefunction(method.function) or _takes_request(method)):
        raise method.refused(f"it is never called; did you mean {_NAMES[meant]} above it?")


def _takes_request(method: _Method) -> bool:
    parameters = parameters_of(method.operator, method.name)
    return any("AdmissionRequest" in str(each.annotation) for each in parameters)


def _check_about(method: _Method, mark: _Mark, others: Sequence[Admission[Any]]) -> None:
    role, about = mark
    if role in {"to_hub", "from_hub"}:
        versions: tuple[type[Resource], ...] = method.operator.versions  # type: ignore[attr-defined]
        if about not in versions:
            raise method.refused(f"{about.gvk} is not among the `versions` of {method.operator.__name__}")
    elif about is not None and about not in others:
        raise method.refused(f"it is for {about}, which is no attribute of the class")


def _check_call(method: _Method) -> None:
    if not inspect.iscoroutinefunction(method.function):
        raise method.refused("a webhook method has to be an `async def`, without yield")
    calls = {mark: _call(mark, method.marks) for mark in method.marks}
    first, *more = calls.items()
    for mark, call in more:
        if [each is _JSON for each in call] != [each is _JSON for each in first[1]]:
            raise method.refused(
                f"{_decorator(first[0])} calls it with {_shown(first[1])}, and "
                f"{_decorator(mark)} with {_shown(call)}: write two methods"
            )
    together = " and ".join(map(_decorator, calls)) + (" call" if more else " calls")
    for (_, about), call in calls.items():
        _check_parameters(method, together, call, about)
    _check_answer(method, first[0][0])


def _call(mark: _Mark, together: Sequence[_Mark]) -> tuple[str, ...]:
    role, about = mark
    if role == "validate_create" and ("validate_update", about) in together:
        return _WITH_UPDATE
    return _CALLS[role]


def _check_parameters(method: _Method, together: str, call: Sequence[str], about: Any) -> None:
    given = positional(method.operator, method.name, len(call))
    if given is None:
        has = ", ".join(each.name for each in parameters_of(method.operator, method.name)) or "nothing"
        place = place_of(method.function)
        raise method.refused(f"{together} it with {_shown(call)} after self, and it takes {has}, at {place}")
    kind: type[Resource] = method.operator.kind  # type: ignore[attr-defined]
    for parameter, what in zip(given, call, strict=False):
        alternatives = classes_of(parameter.annotation, method.operator, method.function)
        if alternatives is None:
            continue
        if what is _OLD_OR_NONE and NoneType not in alternatives:
            raise method.refused(
                f"{together} it with None for {parameter.name} when the object is new: "
                f"write `{parameter.name}: {_names(alternatives)} | None`"
            )
        gets = _gets(what, about if isinstance(about, Admission) else Admission(kind))
        if not any(is_subclass(each, of) for each in gets for of in alternatives):
            raise method.refused(
                f"{together} it with {_described(what, gets[0])} for {parameter.name}, "
                f"which is annotated as {_names(alternatives)}"
            )


def _check_answer(method: _Method, role: str) -> None:
    answer = inspect.unwrap(method.function).__annotations__.get("return", Any)
    alternatives = classes_of(answer, method.operator, method.function) or ()
    if role.startswith("validate"):
        if any(each in {bool, int, float, dict, AdmissionRequest} for each in alternatives):
            raise method.refused("it returns warnings, as texts, or None; to refuse, it raises `Refused`")
    elif any(each is not NoneType for each in alternatives):
        raise method.refused("it changes its argument in place, and returns None")


def parameters_of(cls: type, name: str) -> list[inspect.Parameter]:
    """Return the parameters of a method after self."""
    parameters = list(_signature(getattr(cls, name)).parameters.values())
    raw = inspect.getattr_static(cls, name)
    if isinstance(raw, staticmethod | classmethod) or not parameters:
        return parameters
    return parameters if parameters[0].kind is inspect.Parameter.VAR_POSITIONAL else parameters[1:]


def positional(cls: type, name: str, count: int) -> list[inspect.Parameter] | None:
    """Return the parameters that a call with `count` arguments sets; None if there can be no such call."""
    takes = [each for each in parameters_of(cls, name) if each.kind is not each.VAR_KEYWORD]
    least = [each for each in takes if each.default is each.empty and each.kind is not each.VAR_POSITIONAL]
    given = [each for each in takes if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}]
    by_name = any(each.kind is each.KEYWORD_ONLY for each in least)
    endless = any(each.kind is each.VAR_POSITIONAL for each in takes)
    if by_name or len(least) > count or (len(given) < count and not endless):
        return None
    return given[:count]


def _signature(function: Any) -> inspect.Signature:
    if sys.version_info >= (3, 14):  # which looks for the names of annotations, if nothing else is said
        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def classes_of(annotation: Any, cls: type, function: Any) -> list[type] | None:
    """Return the classes that an annotation of a method of `cls` allows.

    Returns None if it may be anything, or if that cannot be known here.
    """
    if annotation is inspect.Parameter.empty:
        return None
    if isinstance(annotation, str):
        places = getattr(inspect.unwrap(function), "__globals__", {})
        try:
            annotation = eval(annotation, places, dict(vars(cls)))  # noqa: S307 - the author's own annotation
        except Exception:  # noqa: BLE001 - imported for type checkers alone, or local to a function
            return None
    return _alternatives(annotation)


def _alternatives(annotation: Any) -> list[type] | None:
    """Return the classes that an annotation allows; None if it may be anything."""
    if annotation is None:
        return [NoneType]
    origin = get_origin(annotation)
    if origin in {Union, UnionType}:
        parts = [_alternatives(each) for each in get_args(annotation)]
        return None if None in parts else [each for part in parts if part for each in part]
    if origin is Annotated:
        return _alternatives(get_args(annotation)[0])
    plain = origin or annotation
    return [plain] if isinstance(plain, type) and plain not in {object, Any} else None


def is_subclass(given: type, of: type) -> bool:
    """Return whether a class is, or may be, a subclass of another one."""
    try:
        return issubclass(given, of)
    except TypeError:  # a protocol with data
        return True


def _gets(what: str, admission: Admission[Any]) -> tuple[type, ...]:
    if what is _JSON:
        return (dict,)
    return (AdmissionRequest,) if what is _REQUEST else tuple(admission.models.values())


def _described(what: str, given: type) -> str:
    if what is _JSON:
        return "plain JSON (JsonObject)"
    return "the AdmissionRequest" if what is _REQUEST else f"a {given.__name__}"


def _names(alternatives: Sequence[type]) -> str:
    return " | ".join(each.__name__ for each in alternatives)


def _shown(call: Sequence[str]) -> str:
    return f"({', '.join(each.rstrip('?') for each in call)})"


def _decorator(mark: _Mark) -> str:
    role, about = mark
    if about is None:
        return f"@webhook.{role}"
    return f"{role} of {about}" if isinstance(about, Admission) else f"@webhook.{role}({about.__name__})"
