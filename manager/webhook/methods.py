"""Webhooks as methods of an operator: decorators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any, overload

from manager.api import Resource
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
    mark,
    marks,
)
from manager.webhook.request import JsonObject


def default(method: Defaults[S]) -> Defaults[S]:
    """Decorate the method that sets defaults (`Admission.default`)."""
    return mark(method, "default", None)


@overload
def validate_create(method: Judges[S, N, W]) -> Judges[S, N, W]: ...


@overload
def validate_create(method: JudgesBoth[S, N, W]) -> JudgesBoth[S, N, W]: ...


def validate_create(method: Any) -> Any:
    """Decorate the method that validates a new object (`Admission.validate_create`).

    One that has `validate_update` too gets the old object before the new one, and None for a new object's.
    """
    return mark(method, "validate_create", None)


def validate_update(method: JudgesChange[S, O, N, W]) -> JudgesChange[S, O, N, W]:
    """Decorate the method that validates an update (`Admission.validate_update`)."""
    return mark(method, "validate_update", None)


def validate_delete(method: Judges[S, N, W]) -> Judges[S, N, W]:
    """Decorate the method that validates a deletion (`Admission.validate_delete`)."""
    return mark(method, "validate_delete", None)


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


def _is_kind(spoke: object) -> bool:
    return isinstance(spoke, type) and issubclass(spoke, Resource)


def _converts(way: Way, spoke: type[Resource]) -> Callable[[Converts[S]], Converts[S]]:
    if not _is_kind(spoke):
        raise RegistrationError(f"@webhook.{way} takes the other version, as in @webhook.{way}(OldPet)")
    return lambda method: mark(method, way, spoke)


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
    """All that operators answer, checked: of classes to be read, of operators to be called.

    Raises `RegistrationError` for methods that do not fit, or not together.
    """
    return Webhooks(each for operator in operators for each in registrations(operator))


def has_webhooks(operator: Any) -> bool:
    """Return whether an operator, or the class of one, answers anything at all."""
    cls = operator if isinstance(operator, type) else type(operator)
    members = (member for base in cls.__mro__ for member in vars(base).values())
    return any(isinstance(member, Admission) or any(marks(member)) for member in members)


def registrations(operator: Any) -> Iterator[Admission[Any] | Conversion]:
    """Yield the registrations that an operator's marked methods define, from its class or an instance.

    A class suffices to read the registrations; calling them needs an instance. `kind` is the admitted kind
    and the hub of conversions; `admission` are its `AdmissionOptions`. Other kinds follow, each an
    `Admission` in an attribute of the class.

    Raises `RegistrationError` for methods that do not fit.
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
