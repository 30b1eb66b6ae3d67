"""What is registered for each kind: functions that judge objects, change them, or convert them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar

from manager.api import Resource
from manager.webhook.request import AdmissionRequest, JsonObject, Operation

__all__ = [
    "CONVERSION_PATH",
    "Admission",
    "AdmissionWebhook",
    "Conversion",
    "Convert",
    "FailurePolicy",
    "MatchPolicy",
    "RegistrationError",
    "ReinvocationPolicy",
    "Webhooks",
]


class RegistrationError(TypeError):
    """An operator's webhooks are not as they must be; one line that names the kind and what is wrong."""


def _check_function(function: Callable[..., Any], *, what: str, taken: bool) -> None:
    """Raise `RegistrationError` unless it is an `async def`, and the first for `what`."""
    name = getattr(function, "__name__", repr(function))
    if not inspect.iscoroutinefunction(function):
        raise RegistrationError(f"{name}, which is to {what}, has to be an `async def`")
    if taken:
        raise RegistrationError(f"{name} is the second function to {what}; there can be one")


R = TypeVar("R", bound=Resource)

FailurePolicy = Literal["Fail", "Ignore"]
MatchPolicy = Literal["Equivalent", "Exact"]
ReinvocationPolicy = Literal["Never", "IfNeeded"]

Default = Callable[[JsonObject, AdmissionRequest], Awaitable[None]]
ValidateOne = Callable[[R, AdmissionRequest], Awaitable[Iterable[str] | None]]
ValidateChange = Callable[[R, R, AdmissionRequest], Awaitable[Iterable[str] | None]]

_MAX_TIMEOUT = 30
"""Seconds; the API server takes no more."""


@dataclass(frozen=True, slots=True)
class AdmissionWebhook:
    """One webhook of a configuration, as the API server is told of it."""

    kind: type[Resource]
    mutating: bool
    """Whether it changes objects (a MutatingWebhookConfiguration), or only accepts and refuses them."""

    operations: tuple[Operation, ...]
    """Those that have a function."""

    failure_policy: FailurePolicy
    match_policy: MatchPolicy
    timeout_seconds: int
    reinvocation_policy: ReinvocationPolicy | None
    """For one that changes objects; else None."""

    @property
    def name(self) -> str:
        """`mpet-v1beta1.kb.io`, as kubebuilder names it."""
        gvk = self.kind.gvk
        return f"{'m' if self.mutating else 'v'}{gvk.kind.lower()}-{gvk.version}.kb.io"

    @property
    def path(self) -> str:
        """`/mutate-petstore-example-com-v1beta1-pet`, as controller-runtime serves it."""
        gvk = self.kind.gvk
        verb = "mutate" if self.mutating else "validate"
        return f"/{verb}-{gvk.group.replace('.', '-')}-{gvk.version}-{gvk.kind.lower()}"


class Admission(Generic[R]):
    """The admission functions of one kind, each registered by a decorator.

        admission = Admission(Pet)

        @admission.validate_create
        async def check(pet: Pet, request: AdmissionRequest) -> Iterable[str] | None:
            if born_tomorrow(pet):
                raise Refused(invalid("spec.birthday", pet.spec.birthday, "must not be in the future"))
            return None

    The API server asks before it stores anything, and waits for the answer. So a function is quick, needs
    no controller to run, and, because the request may still fail elsewhere or be a dry run, changes nothing
    but what it is given. It sees the object in the version of `kind`, whichever version the user sent. Only
    the object itself is asked about, not its status or scale.
    """

    def __init__(
        self,
        kind: type[R],
        *,
        failure_policy: FailurePolicy = "Fail",
        timeout_seconds: int = 10,
        match_policy: MatchPolicy = "Equivalent",
        reinvocation_policy: ReinvocationPolicy = "Never",
    ) -> None:
        """Args:
        kind: the model of the objects, in the version that the functions work on.
        failure_policy: what becomes of a request while no answer comes: `Fail` refuses it, so that no object
            gets past the rules, and none can be written either; `Ignore` lets it pass.
        timeout_seconds: how long the API server waits for the answer, 1 to 30. A function that takes longer
            is stopped shortly before, so that the user hears which one it was.
        match_policy: `Equivalent` asks about every version of the kind; `Exact` only about that of `kind`.
        reinvocation_policy: whether the defaults are asked for again (`IfNeeded`) when another webhook has
            changed the object after them.

        Raises `RegistrationError`.
        """
        if type(timeout_seconds) is not int or not 1 <= timeout_seconds <= _MAX_TIMEOUT:
            raise RegistrationError(
                f"Admission({kind.__name__}): timeout_seconds is {timeout_seconds!r}, "
                f"and must be a whole number from 1 to {_MAX_TIMEOUT}"
            )
        self.kind = kind
        self.failure_policy = failure_policy
        self.timeout_seconds = timeout_seconds
        self.match_policy = match_policy
        self.reinvocation_policy = reinvocation_policy
        self.defaulter: Default | None = None
        self.create_validator: ValidateOne[R] | None = None
        self.update_validator: ValidateChange[R] | None = None
        self.delete_validator: ValidateOne[R] | None = None

    def __repr__(self) -> str:
        return f"Admission({self.kind.gvk})"

    def default(self, function: Default) -> Default:
        """Decorate the function that sets defaults, for creations and updates.

        It gets the plain JSON object, which no schema has seen yet, and changes it in place. The API server
        gets the difference, and then checks the schema.
        """
        _check_function(function, what=f"default {self.kind.__name__}", taken=self.defaulter is not None)
        self.defaulter = function
        return function

    def validate_create(self, function: ValidateOne[R]) -> ValidateOne[R]:
        """Decorate the function that judges a new object, after the schema has.

        It returns warnings for the user, or None, and raises `Refused`.
        """
        taken = self.create_validator is not None
        _check_function(function, what=f"validate the creation of {self.kind.__name__}", taken=taken)
        self.create_validator = function
        return function

    def validate_update(self, function: ValidateChange[R]) -> ValidateChange[R]:
        """Decorate the function that judges a change, from the old object to the new one.

        It returns warnings for the user, or None, and raises `Refused`. An object that is being deleted comes
        this way too, when a finalizer is removed: refuse only what the change has brought.
        """
        taken = self.update_validator is not None
        _check_function(function, what=f"validate the update of {self.kind.__name__}", taken=taken)
        self.update_validator = function
        return function

    def validate_delete(self, function: ValidateOne[R]) -> ValidateOne[R]:
        """Decorate the function that judges a deletion; it gets the object as it is.

        It returns warnings for the user, or None, and raises `Refused`.
        """
        taken = self.delete_validator is not None
        _check_function(function, what=f"validate the deletion of {self.kind.__name__}", taken=taken)
        self.delete_validator = function
        return function

    @property
    def mutating(self) -> AdmissionWebhook | None:
        """The webhook that sets defaults; None without a function for it."""
        return None if self.defaulter is None else self._webhook("CREATE", "UPDATE", mutating=True)

    @property
    def validating(self) -> AdmissionWebhook | None:
        """The webhook that validates, for the operations that have a function; None without any."""
        functions: dict[Operation, object] = {
            "CREATE": self.create_validator,
            "UPDATE": self.update_validator,
            "DELETE": self.delete_validator,
        }
        operations = [operation for operation, function in functions.items() if function is not None]
        return self._webhook(*operations, mutating=False) if operations else None

    def _webhook(self, *operations: Operation, mutating: bool) -> AdmissionWebhook:
        return AdmissionWebhook(
            kind=self.kind,
            mutating=mutating,
            operations=operations,
            failure_policy=self.failure_policy,
            match_policy=self.match_policy,
            timeout_seconds=self.timeout_seconds,
            reinvocation_policy=self.reinvocation_policy if mutating else None,
        )


CONVERSION_PATH = "/convert"
"""Where all kinds are converted, as in controller-runtime."""

Convert = Callable[[JsonObject], Awaitable[None]]


class Conversion:
    """The versions of one kind, and how to get from each to the hub and back.

        conversion = Conversion(Pet)                  # the hub, which is the storage version

        @conversion.to_hub(OldPet)
        async def from_v1alpha1(pet: JsonObject) -> None: ...

        @conversion.from_hub(OldPet)
        async def to_v1alpha1(pet: JsonObject) -> None: ...

    The functions get the plain JSON object, which no schema may have seen, and change it in place. The
    runtime sets `apiVersion`, and puts back whatever they do to metadata other than labels and annotations,
    which the API server would not accept. From one spoke to another the way is by the hub.

    Every object must survive the way there and back: what one version cannot hold rides in an annotation.
    """

    def __init__(self, hub: type[Resource]) -> None:
        """`hub` is the version that all others are converted to and from."""
        self.hub = hub
        self._spokes: dict[type[Resource], None] = {}
        self._to_hub: dict[type[Resource], Convert] = {}
        self._from_hub: dict[type[Resource], Convert] = {}

    def __repr__(self) -> str:
        return f"Conversion({self.hub.gvk})"

    def to_hub(self, spoke: type[Resource]) -> Callable[[Convert], Convert]:
        """Decorate the function that makes an object of the hub's version from one of `spoke`'s."""
        return self._registering(spoke, self._to_hub, f"convert {spoke.gvk} to {self.hub.gvk}")

    def from_hub(self, spoke: type[Resource]) -> Callable[[Convert], Convert]:
        """Decorate the function that makes an object of `spoke`'s version from one of the hub's."""
        return self._registering(spoke, self._from_hub, f"convert {self.hub.gvk} to {spoke.gvk}")

    @property
    def spokes(self) -> tuple[type[Resource], ...]:
        """The other versions, in the order in which they were registered."""
        return tuple(self._spokes)

    @property
    def path(self) -> str:
        """Where the API server asks for it."""
        return CONVERSION_PATH

    @property
    def converters_to_hub(self) -> Mapping[type[Resource], Convert]:
        """The functions by spoke."""
        return MappingProxyType(self._to_hub)

    @property
    def converters_from_hub(self) -> Mapping[type[Resource], Convert]:
        """The functions by spoke."""
        return MappingProxyType(self._from_hub)

    def check(self) -> None:
        """Raise `RegistrationError` unless every spoke can be converted both ways, and there is one."""
        if not self._spokes:
            raise RegistrationError(f"{self} has no other version to convert from or to")
        for spoke in self._spokes:
            for converters, way in ((self._to_hub, "to_hub"), (self._from_hub, "from_hub")):
                if spoke not in converters:
                    raise RegistrationError(f"{self} has no {way} function for {spoke.gvk}")

    def _registering(
        self, spoke: type[Resource], converters: dict[type[Resource], Convert], what: str
    ) -> Callable[[Convert], Convert]:
        hub, other = self.hub.gvk, spoke.gvk
        if (hub.group, hub.kind) != (other.group, other.kind) or hub.version == other.version:
            raise RegistrationError(f"{self}: {other} is not another version of the same kind")

        def register(function: Convert) -> Convert:
            _check_function(function, what=what, taken=spoke in converters)
            self._spokes[spoke] = None
            converters[spoke] = function
            return function

        return register


class Webhooks:
    """The registrations of all operators, checked: no two for one kind, and each complete."""

    def __init__(self, registrations: Iterable[Admission[Any] | Conversion]) -> None:
        """Raises `RegistrationError`, which names what does not fit."""
        admissions: dict[str, Admission[Any]] = {}
        conversions: dict[str, Conversion] = {}
        for each in registrations:
            if isinstance(each, Admission):
                if each.mutating is None and each.validating is None:
                    raise RegistrationError(f"{each} has no function")
                if admissions.setdefault(str(each.kind.gvk), each) is not each:
                    raise RegistrationError(f"{each} is there twice")
            elif isinstance(each, Conversion):
                each.check()
                if conversions.setdefault(f"{each.hub.plural}.{each.hub.gvk.group}", each) is not each:
                    raise RegistrationError(f"{each} is there twice")
            else:
                raise RegistrationError(f"{each!r} is registered, which is neither Admission nor Conversion")
        self.admissions = tuple(admissions.values())
        self.conversions = tuple(conversions.values())

    def __bool__(self) -> bool:
        return bool(self.admissions or self.conversions)

    @property
    def mutating(self) -> tuple[AdmissionWebhook, ...]:
        """Those of the MutatingWebhookConfiguration."""
        return tuple(webhook for each in self.admissions if (webhook := each.mutating) is not None)

    @property
    def validating(self) -> tuple[AdmissionWebhook, ...]:
        """Those of the ValidatingWebhookConfiguration."""
        return tuple(webhook for each in self.admissions if (webhook := each.validating) is not None)
