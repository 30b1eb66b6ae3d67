"""Webhooks as methods of an operator: marks that say what the API server asks, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from manager.api import Resource
from manager.webhook.registration import (
    Admission,
    Conversion,
    FailurePolicy,
    MatchPolicy,
    RegistrationError,
    ReinvocationPolicy,
)

__all__ = [
    "AdmissionOptions",
    "default",
    "from_hub",
    "registrations",
    "to_hub",
    "validate_create",
    "validate_delete",
    "validate_update",
]

M = TypeVar("M", bound=Callable[..., Any])

_ATTRIBUTE = "__webhook__"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionOptions:
    """How the API server asks; each as `Admission` has it."""

    failure_policy: FailurePolicy = "Fail"
    timeout_seconds: int = 10
    match_policy: MatchPolicy = "Equivalent"
    reinvocation_policy: ReinvocationPolicy = "Never"


def default(method: M) -> M:
    """Mark the method that sets defaults (`Admission.default`)."""
    return _marked(method, "default")


def validate_create(method: M) -> M:
    """Mark the method that judges a new object (`Admission.validate_create`)."""
    return _marked(method, "validate_create")


def validate_update(method: M) -> M:
    """Mark the method that judges a change (`Admission.validate_update`)."""
    return _marked(method, "validate_update")


def validate_delete(method: M) -> M:
    """Mark the method that judges a deletion (`Admission.validate_delete`)."""
    return _marked(method, "validate_delete")


def to_hub(spoke: type[Resource]) -> Callable[[M], M]:
    """Mark the method that makes an object of the operator's version from one of `spoke`'s."""
    return lambda method: _marked(method, "to_hub", spoke)


def from_hub(spoke: type[Resource]) -> Callable[[M], M]:
    """Mark the method that makes an object of `spoke`'s version from one of the operator's."""
    return lambda method: _marked(method, "from_hub", spoke)


def registrations(operator: Any) -> Iterator[Admission[Any] | Conversion]:
    """What an operator's marked methods come to: of a class to be read, of an operator to be called.

    `kind` is what it is asked about, and the hub of conversions; `admission` are its `AdmissionOptions`.

    Raises `RegistrationError` for methods that do not fit.
    """
    admission = Admission(operator.kind, **asdict(operator.admission))
    conversion = Conversion(operator.kind)
    cls = operator if isinstance(operator, type) else type(operator)
    judged = converted = False
    for name in dict.fromkeys(name for base in reversed(cls.__mro__) for name in vars(base)):
        role, *spoke = getattr(getattr(cls, name, None), _ATTRIBUTE, ("",))
        if not role:
            continue  # a setting has no value where the operator does not run
        method = getattr(operator, name)
        if spoke:
            getattr(conversion, role)(*spoke)(method)
            converted = True
        else:
            getattr(admission, role)(method)
            judged = True
    if judged:
        yield admission
    if converted:
        yield conversion
    elif operator.versions:
        # The API server would drop every field that the other version does not have.
        raise RegistrationError(
            f"{cls.__name__} has versions, and no method that converts them: "
            "webhook.to_hub and webhook.from_hub, for each"
        )


def _marked(method: M, *mark: Any) -> M:
    setattr(method, _ATTRIBUTE, mark)
    return method
