"""Registrations for each kind: methods that validate, default or convert its objects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, get_args, overload

from manager.api import GroupVersionKind, Resource, Unstructured
from manager.webhook.request import AdmissionRequest, JsonObject, Operation

M = TypeVar("M", bound=Callable[..., Any])
R = TypeVar("R", bound=Resource)

S = TypeVar("S")
N = TypeVar("N", bound=Resource)
O = TypeVar("O", bound="Resource | None")  # noqa: E741 - the old object
W = TypeVar("W", bound="Iterable[str] | None")
# Type variables for an operator's methods: S is the operator, N the object, W the warnings.
Defaults = Callable[[S, JsonObject, AdmissionRequest], Coroutine[Any, Any, None]]
Judges = Callable[[S, N, AdmissionRequest], Coroutine[Any, Any, W]]
JudgesChange = Callable[[S, O, N, AdmissionRequest], Coroutine[Any, Any, W]]
JudgesBoth = Callable[[S, N | None, N, AdmissionRequest], Coroutine[Any, Any, W]]
Converts = Callable[[S, JsonObject], Coroutine[Any, Any, None]]


class RegistrationError(TypeError):
    """An operator's webhooks are invalid; the message is one line with the error."""


FailurePolicy = Literal["Fail", "Ignore"]
MatchPolicy = Literal["Equivalent", "Exact"]
ReinvocationPolicy = Literal["Never", "IfNeeded"]
SideEffects = Literal["None", "NoneOnDryRun"]
Role = Literal["default", "validate_create", "validate_update", "validate_delete", "validate_connect"]

_MAX_TIMEOUT = 30
"""Seconds; the API server takes no more."""

CONVERSION_PATH = "/convert"
"""The path for conversions of all kinds, as in controller-runtime."""

VALIDATES: dict[Operation, Role] = {
    "CREATE": "validate_create",
    "UPDATE": "validate_update",
    "DELETE": "validate_delete",
    "CONNECT": "validate_connect",
}
"""The role of the method that validates each operation."""

_SHOWN = {
    "attach": ("v1", "PodAttachOptions"),
    "binding": ("v1", "Binding"),
    "eviction": ("policy/v1", "Eviction"),
    "exec": ("v1", "PodExecOptions"),
    "portforward": ("v1", "PodPortForwardOptions"),
    "scale": ("autoscaling/v1", "Scale"),
    "token": ("authentication.k8s.io/v1", "TokenRequest"),
}
"""The kinds in reviews of these subresources; others, except `proxy`, have the object itself."""


Mark: TypeAlias = tuple[Any, Any]
"""The role of a method and its subject: an `Admission`, the other version, or None for the own kind."""

_MARKS = "__webhooks__"


NO_METHOD: Any = None
"""The argument of a decorator that an author writes with empty parentheses."""


def add_mark(function: M, role: str, about: object) -> M:
    """Record in a method that it has the decorator `role`; raise `RegistrationError` for a non-method."""
    if function is NO_METHOD:
        raise RegistrationError(f"the decorator {role} takes no parentheses: write {role}, not {role}()")
    noted = getattr(function, "__func__", function)
    if not callable(noted):
        raise RegistrationError(f"@webhook.{role} is for a method, not for a {type(function).__name__}")
    setattr(noted, _MARKS, (*marks(function), (role, about)))
    return function


def marks(function: object) -> tuple[Mark, ...]:
    """Return the webhook decorators of a method, even if the method is static or bound."""
    found: tuple[Mark, ...] = getattr(getattr(function, "__func__", function), _MARKS, ())
    return found


class Decorators:
    """Decorators of methods that answer admission reviews of the operator's own kind."""

    def _mark(self, role: Role, function: M) -> M:
        return add_mark(function, role, None)

    def default(self, function: Defaults[S] = NO_METHOD) -> Defaults[S]:
        """Decorate the method that sets defaults, on create and update.

        It changes the plain JSON object in place. The API server checks the schema afterwards.
        """
        return self._mark("default", function)

    @overload
    def validate_create(self, function: Judges[S, N, W]) -> Judges[S, N, W]: ...

    @overload
    def validate_create(self, function: JudgesBoth[S, N, W]) -> JudgesBoth[S, N, W]: ...

    def validate_create(self, function: Any = NO_METHOD) -> Any:
        """Decorate the method that validates a new object, after the schema.

        A method that is decorated with `validate_update`, too, gets the same arguments as for an update; the
        old object is None. It returns warnings for the user, or None, and raises `Refused`.
        """
        return self._mark("validate_create", function)

    def validate_update(self, function: JudgesChange[S, O, N, W] = NO_METHOD) -> JudgesChange[S, O, N, W]:
        """Decorate the method that validates an update; it gets the old and the new object.

        It returns warnings for the user, or None, and raises `Refused`. It should check only fields that have
        changed, because a deletion may first need an update that removes a finalizer.
        """
        return self._mark("validate_update", function)

    def validate_delete(self, function: Judges[S, N, W] = NO_METHOD) -> Judges[S, N, W]:
        """Decorate the method that validates a deletion; it gets the object.

        It returns warnings for the user, or None, and raises `Refused`.
        """
        return self._mark("validate_delete", function)


_CHOICES: Mapping[str, tuple[str, ...]] = {
    "failure_policy": get_args(FailurePolicy),
    "match_policy": get_args(MatchPolicy),
    "reinvocation_policy": get_args(ReinvocationPolicy),
    "side_effects": get_args(SideEffects),
    "default_on": ("CREATE", "UPDATE"),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class AdmissionOptions:
    """The options that say when a webhook is called: fields of a webhook configuration."""

    failure_policy: FailurePolicy = "Fail"
    """The decision if the webhook does not answer: `Fail` refuses the request, so that no object evades the
    rules, but no object can be written; `Ignore` allows the request.
    """

    timeout_seconds: int = 10
    """Seconds that the API server waits, from 1 to 30. A slower function is stopped shortly before, so that
    the user gets an error that describes it.
    """

    match_policy: MatchPolicy = "Equivalent"
    """`Equivalent` includes all versions of the kind; `Exact` only the model's."""

    reinvocation_policy: ReinvocationPolicy = "Never"
    """`IfNeeded`: call the defaulting function again if another webhook has changed the object since."""

    side_effects: SideEffects = "None"
    """`NoneOnDryRun`: a function has side effects, but not in a dry run."""

    default_on: Collection[Operation] = ("CREATE", "UPDATE")
    """The operations with defaulting. Validation is for the operations that have a function."""

    namespaces: Mapping[str, Any] = field(default_factory=dict)
    """A label selector for namespaces: `matchLabels` and `matchExpressions`, as in YAML."""

    objects: Mapping[str, Any] = field(default_factory=dict)
    """A label selector for objects, before or after the change."""

    match_conditions: Mapping[str, str] = field(default_factory=dict)
    """CEL expressions by name, all of which must be true; they can use `object`, `oldObject`, `request` and
    `authorizer`.
    """

    system_namespaces: bool = True
    """Whether objects in `kube-system` and in the manager's own namespace (by its label) are included."""

    def __post_init__(self) -> None:
        seconds = self.timeout_seconds
        if type(seconds) is not int or not 1 <= seconds <= _MAX_TIMEOUT:
            raise RegistrationError(
                f"{self}: timeout_seconds is {seconds!r}, but must be a whole number from 1 to {_MAX_TIMEOUT}"
            )
        for name, values in _CHOICES.items():
            given = getattr(self, name)
            unknown = [each for each in (given if name == "default_on" else (given,)) if each not in values]
            if isinstance(given, str) is (name == "default_on") or unknown:
                known = " or ".join(map(repr, values))
                raise RegistrationError(f"{self}: {name} is {given!r}, and takes {known}")
        for name in ("namespaces", "objects"):
            if unknown := sorted(set(getattr(self, name)) - {"matchLabels", "matchExpressions"}):
                raise RegistrationError(
                    f"{self}: {name} has {unknown[0]!r}, and takes matchLabels and matchExpressions"
                )

    def __str__(self) -> str:
        return type(self).__name__


class AdmissionWebhook(NamedTuple):
    """A webhook in a webhook configuration."""

    admission: Admission[Any]
    mutating: bool
    """Whether it changes objects (a MutatingWebhookConfiguration), or only validates them."""

    operations: tuple[Operation, ...]

    @property
    def name(self) -> str:
        """Return the name in kubebuilder's form: `mpet-v1beta1.kb.io`."""
        prefix, version = "m" if self.mutating else "v", self.admission.kind.gvk.version
        return f"{prefix}{'-'.join(self.admission.called)}-{version}.kb.io"

    @property
    def path(self) -> str:
        """Return the path in controller-runtime's form: `/mutate-petstore-example-com-v1beta1-pet`."""
        gvk = self.admission.kind.gvk
        verb = "mutate" if self.mutating else "validate"
        return f"/{verb}-{gvk.group.replace('.', '-')}-{gvk.version}-{'-'.join(self.admission.called)}"


@dataclass(frozen=True, eq=False, repr=False)
class Admission(AdmissionOptions, Decorators, Generic[R]):
    """Webhooks of an operator for a kind that is not its own.

        class TeamOperator(Operator[Team]):
            pods = webhook.Admission(Pod, objects={"matchLabels": {"team": "blue"}})

            @pods.validate_create
            async def check(self, pod: Pod, request: AdmissionRequest) -> Iterable[str] | None:
                if pod.spec.host_network:
                    raise Refused(forbidden("spec.hostNetwork", "is not for teams"))
                return None

    A webhook for a kind that is not ours can block its objects. So by default, requests are allowed if it
    does not answer, and `kube-system` and the manager's own namespace are excluded.

    A function has to be quick, and must not need a running controller. It must change only its argument,
    because the request may still fail, or be a dry run. It gets objects in the version of their model,
    whatever version the user sent.
    """

    kind: type[R]
    _: KW_ONLY
    subresources: tuple[str, ...] = ("",)
    """The empty text is the object itself, others are `status`, `scale`, `exec` and so on. If a subresource
    has its own kind (`Scale`, `PodExecOptions`), functions get it as `Unstructured`.
    """

    name: str = ""
    """A name that distinguishes two webhooks for the same kind."""

    finalizer: str = ""
    """A finalizer that the operator will add: objects that leave no room for it are refused."""

    failure_policy: FailurePolicy = "Ignore"
    system_namespaces: bool = False
    functions: dict[Role, Callable[..., Awaitable[Any]]] = field(default_factory=dict, init=False)
    """The methods of an operator, by their roles."""

    def __str__(self) -> str:
        return f"Admission({self.kind.gvk})"

    __repr__ = __str__

    def _mark(self, role: Role, function: M) -> M:
        return add_mark(function, role, self)

    def validate_connect(self, function: Judges[S, N, W] = NO_METHOD) -> Judges[S, N, W]:
        """Decorate the method that validates a connection, such as `pods/exec`.

        The method gets the options of the connection. It returns warnings for the user, or None, and raises
        `Refused`.
        """
        return self._mark("validate_connect", function)

    @property
    def called(self) -> tuple[str, ...]:
        """Return the parts of the webhook's name and path: the kind, then `self.name` or the subresources."""
        parts = (self.name,) if self.name else (each.replace("*", "all") for each in self.subresources)
        return (self.kind.gvk.kind.lower(), *filter(None, parts))

    @property
    def models(self) -> Mapping[GroupVersionKind, type[Resource]]:
        """Return the models for the functions, by kind, for all kinds that a review may contain."""
        parts = {"proxy", *_SHOWN} if "*" in self.subresources else set(self.subresources)
        shown = [Unstructured.of(*kind) for name, kind in _SHOWN.items() if name in parts]
        if "proxy" in parts:
            shown.append(Unstructured.of("v1", f"{self.kind.gvk.kind}ProxyOptions"))
        return {self.kind.gvk: self.kind} | {each.gvk: each for each in shown}

    @property
    def webhooks(self) -> Iterator[AdmissionWebhook]:
        """Yield the webhooks that have functions: first the defaulting, then the validating one."""
        if "default" in self.functions:
            yield AdmissionWebhook(self, mutating=True, operations=tuple(self.default_on))
        asked = tuple(operation for operation, role in VALIDATES.items() if role in self.functions)
        if asked:
            yield AdmissionWebhook(self, mutating=False, operations=asked)


Convert = Callable[[JsonObject], Awaitable[None]]
Way = Literal["to_hub", "from_hub"]


@dataclass(eq=False, slots=True)
class Conversion:
    """The methods that convert an operator's kind: from each other version to the hub, and back."""

    hub: type[Resource]
    """The version into which, and from which, all others are converted."""

    converters: dict[tuple[Way, type[Resource]], Convert] = field(default_factory=dict)
    """The methods by direction and other version."""

    def __repr__(self) -> str:
        return f"Conversion({self.hub.gvk})"

    @property
    def spokes(self) -> tuple[type[Resource], ...]:
        """Return the versions other than the hub."""
        return tuple(dict.fromkeys(spoke for _, spoke in self.converters))

    def check(self) -> None:
        """Raise `RegistrationError` unless every spoke can be converted both ways."""
        hub = self.hub.gvk
        for spoke in self.spokes:
            other = spoke.gvk
            if (hub.group, hub.kind) != (other.group, other.kind) or hub.version == other.version:
                raise RegistrationError(f"{self}: {other} is not another version of the same kind")
            for way in get_args(Way):
                if (way, spoke) not in self.converters:
                    raise RegistrationError(f"{self} has no {way} function for {other}")


class Webhooks:
    """The checked registrations of all operators: no two with the same kind and name, each complete."""

    def __init__(self, registrations: Iterable[Admission[Any] | Conversion]) -> None:
        admissions: dict[str, Admission[Any]] = {}
        conversions: dict[str, Conversion] = {}
        for each in registrations:
            if isinstance(each, Admission):
                if not any(each.webhooks):
                    raise RegistrationError(f"{each} has no function")
                key = f"{each.kind.gvk} {each.called}"
                if admissions.setdefault(key, each) is not each:
                    raise RegistrationError(f"{each} is registered twice: give one of them a name")
            else:
                each.check()
                if conversions.setdefault(f"{each.hub.plural}.{each.hub.gvk.group}", each) is not each:
                    raise RegistrationError(f"{each} is registered twice")
        self.admissions = tuple(admissions.values())
        self.conversions = tuple(conversions.values())
        reviewed = [each for admission in self.admissions for each in admission.webhooks]
        self.mutating = [each for each in reviewed if each.mutating]
        """The webhooks of the MutatingWebhookConfiguration."""
        self.validating = [each for each in reviewed if not each.mutating]
        """The webhooks of the ValidatingWebhookConfiguration."""

    def __bool__(self) -> bool:
        return bool(self.admissions or self.conversions)
