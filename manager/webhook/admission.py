"""Registering the functions that have a say in whether, and how, an object gets stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from manager.api import Resource
from manager.webhook.json_object import JsonObject
from manager.webhook.registration import RegistrationError, check_function
from manager.webhook.request import AdmissionRequest, Operation

__all__ = ["Admission", "AdmissionWebhook", "FailurePolicy", "MatchPolicy", "ReinvocationPolicy"]

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
        check_function(function, what=f"default {self.kind.__name__}", taken=self.defaulter is not None)
        self.defaulter = function
        return function

    def validate_create(self, function: ValidateOne[R]) -> ValidateOne[R]:
        """Decorate the function that judges a new object, after the schema has.

        It returns warnings for the user, or None, and raises `Refused`.
        """
        taken = self.create_validator is not None
        check_function(function, what=f"validate the creation of {self.kind.__name__}", taken=taken)
        self.create_validator = function
        return function

    def validate_update(self, function: ValidateChange[R]) -> ValidateChange[R]:
        """Decorate the function that judges a change, from the old object to the new one.

        It returns warnings for the user, or None, and raises `Refused`. An object that is being deleted comes
        this way too, when a finalizer is removed: refuse only what the change has brought.
        """
        taken = self.update_validator is not None
        check_function(function, what=f"validate the update of {self.kind.__name__}", taken=taken)
        self.update_validator = function
        return function

    def validate_delete(self, function: ValidateOne[R]) -> ValidateOne[R]:
        """Decorate the function that judges a deletion; it gets the object as it is.

        It returns warnings for the user, or None, and raises `Refused`.
        """
        taken = self.delete_validator is not None
        check_function(function, what=f"validate the deletion of {self.kind.__name__}", taken=taken)
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
