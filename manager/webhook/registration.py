"""What is registered for each kind: functions that judge objects, change them, or convert them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from manager.api import GroupVersionKind, Resource, Unstructured
from manager.webhook.request import JsonObject, Operation

M = TypeVar("M", bound=Callable[..., Any])
R = TypeVar("R", bound=Resource)


class RegistrationError(TypeError):
    """An operator's webhooks are not as they must be; one line that names the kind and what is wrong."""


def _check_function(function: Callable[..., Any], *, what: str, taken: bool) -> None:
    """Raise `RegistrationError` unless it is an `async def`, and the first for `what`."""
    name = getattr(function, "__name__", repr(function))
    if not inspect.iscoroutinefunction(function):
        raise RegistrationError(f"{name}, which is to {what}, has to be an `async def`")
    if taken:
        raise RegistrationError(f"{name} is the second function to {what}; there can be one")


FailurePolicy = Literal["Fail", "Ignore"]
MatchPolicy = Literal["Equivalent", "Exact"]
ReinvocationPolicy = Literal["Never", "IfNeeded"]
SideEffects = Literal["None", "NoneOnDryRun"]
Role = Literal["default", "validate_create", "validate_update", "validate_delete", "validate_connect"]

_MAX_TIMEOUT = 30
"""Seconds; the API server takes no more."""

VALIDATES: dict[Operation, Role] = {
    "CREATE": "validate_create",
    "UPDATE": "validate_update",
    "DELETE": "validate_delete",
    "CONNECT": "validate_connect",
}
"""Which function validates which operation."""

_WHAT: dict[Role, str] = {
    "default": "default %s",
    "validate_create": "validate the creation of %s",
    "validate_update": "validate the update of %s",
    "validate_delete": "validate the deletion of %s",
    "validate_connect": "validate connections of %s",
}

_MARKS = "__webhooks__"

_SHOWN = {
    "attach": ("v1", "PodAttachOptions"),
    "binding": ("v1", "Binding"),
    "eviction": ("policy/v1", "Eviction"),
    "exec": ("v1", "PodExecOptions"),
    "portforward": ("v1", "PodPortForwardOptions"),
    "scale": ("autoscaling/v1", "Scale"),
    "token": ("authentication.k8s.io/v1", "TokenRequest"),
}
"""What a review of these subresources shows; that of another one shows the object itself."""


def mark(function: M, *what: object) -> M:
    """Note on a method what it is asked for; one may have several marks."""
    setattr(function, _MARKS, (*marks(function), what))
    return function


def marks(function: object) -> tuple[tuple[Any, ...], ...]:
    """What is noted on it."""
    found: tuple[tuple[Any, ...], ...] = getattr(function, _MARKS, ())
    return found


@dataclass(frozen=True, eq=False, kw_only=True)
class AdmissionOptions:
    """How the API server asks, and about which objects: the fields of a webhook in its configuration."""

    failure_policy: FailurePolicy = "Fail"
    """What becomes of a request while no answer comes: `Fail` refuses it, so that no object gets past the
    rules, and none can be written either; `Ignore` lets it pass."""

    timeout_seconds: int = 10
    """How long the API server waits, 1 to 30. A function that takes longer is stopped shortly before, so
    that the user hears which one it was."""

    match_policy: MatchPolicy = "Equivalent"
    """`Equivalent` asks about every version of the kind; `Exact` only about that of the model."""

    reinvocation_policy: ReinvocationPolicy = "Never"
    """Whether defaults are asked for again (`IfNeeded`) when another webhook has changed the object since."""

    side_effects: SideEffects = "None"
    """`NoneOnDryRun` where a function does more than answer, unless the request is a dry run."""

    default_on: Collection[Operation] = ("CREATE", "UPDATE")
    """When defaults are asked for. Validation is asked for what has a function."""

    namespaces: Mapping[str, Any] = field(default_factory=dict)
    """The labels of namespaces whose objects count: `matchLabels` and `matchExpressions`, as in YAML."""

    objects: Mapping[str, Any] = field(default_factory=dict)
    """The labels of objects that count, or of what they were."""

    match_conditions: Mapping[str, str] = field(default_factory=dict)
    """CEL expressions by name, which must all be true: of `object`, `oldObject`, `request`, `authorizer`."""

    system_namespaces: bool = True
    """Whether objects in `kube-system` and in the manager's own namespace count."""

    def __post_init__(self) -> None:
        """Raise `RegistrationError` for what the API server would not take."""
        seconds = self.timeout_seconds
        if type(seconds) is not int or not 1 <= seconds <= _MAX_TIMEOUT:
            raise RegistrationError(
                f"{self}: timeout_seconds is {seconds!r}, and must be a whole number from 1 to {_MAX_TIMEOUT}"
            )
        for name in ("namespaces", "objects"):
            if unknown := sorted(set(getattr(self, name)) - {"matchLabels", "matchExpressions"}):
                raise RegistrationError(
                    f"{self}: {name} has {unknown[0]!r}, and takes matchLabels and matchExpressions"
                )

    def __str__(self) -> str:
        return type(self).__name__


class AdmissionWebhook(NamedTuple):
    """One webhook of a configuration, as the API server is told of it."""

    admission: Admission[Any]
    mutating: bool
    """Whether it changes objects (a MutatingWebhookConfiguration), or only accepts and refuses them."""

    operations: tuple[Operation, ...]

    @property
    def name(self) -> str:
        """`mpet-v1beta1.kb.io`, as kubebuilder names it."""
        prefix, version = "m" if self.mutating else "v", self.admission.kind.gvk.version
        return f"{prefix}{'-'.join(self.admission.called)}-{version}.kb.io"

    @property
    def path(self) -> str:
        """`/mutate-petstore-example-com-v1beta1-pet`, as controller-runtime serves it."""
        gvk = self.admission.kind.gvk
        verb = "mutate" if self.mutating else "validate"
        return f"/{verb}-{gvk.group.replace('.', '-')}-{gvk.version}-{'-'.join(self.admission.called)}"


@dataclass(frozen=True, eq=False, repr=False)
class Admission(AdmissionOptions, Generic[R]):
    """What an operator says about objects of another kind than its own, before the API server stores them.

        class TeamOperator(Operator[Team]):
            pods = webhook.Admission(Pod, objects={"matchLabels": {"team": "blue"}})

            @pods.validate_create
            async def check(self, pod: Pod, request: AdmissionRequest) -> Iterable[str] | None:
                if pod.spec.host_network:
                    raise Refused(forbidden("spec.hostNetwork", "is not for teams"))
                return None

    A webhook for what belongs to others can stop them: so it lets requests pass while nobody answers, and
    is not asked about `kube-system` and the manager's own namespace, unless it says otherwise.

    A function is quick, needs no controller to run, and, because the request may still fail elsewhere or be a
    dry run, changes nothing but what it is given. It sees objects in the version of their model, whichever
    version the user sent.
    """

    kind: type[R]
    _: KW_ONLY
    also: tuple[type[Resource], ...] = ()
    """Other kinds that the same functions are asked about; each is shown as its own model."""

    subresources: tuple[str, ...] = ("",)
    """What is asked about: "" is the object itself, others are such as `status`, `scale`, `exec`. Where one
    shows another kind than the object's (`Scale`, `PodExecOptions`), functions get that as `Unstructured`."""

    name: str = ""
    """Tells it from another one for the same."""

    failure_policy: FailurePolicy = "Ignore"
    system_namespaces: bool = False
    functions: dict[Role, Callable[..., Awaitable[Any]]] = field(default_factory=dict, init=False)

    def __str__(self) -> str:
        return f"Admission({self.kind.gvk})"

    __repr__ = __str__

    def default(self, function: M) -> M:
        """Decorate the function that sets defaults, for creations and updates.

        It gets the plain JSON object, which no schema has seen yet, and changes it in place. The API server
        gets the difference, and then checks the schema.
        """
        return self._decorated("default", function)

    def validate_create(self, function: M) -> M:
        """Decorate the function that judges a new object, after the schema has.

        It returns warnings for the user, or None, and raises `Refused`.
        """
        return self._decorated("validate_create", function)

    def validate_update(self, function: M) -> M:
        """Decorate the function that judges a change, from the old object to the new one.

        It returns warnings for the user, or None, and raises `Refused`. An object that is being deleted comes
        this way too, when a finalizer is removed: refuse only what the change has brought.
        """
        return self._decorated("validate_update", function)

    def validate_delete(self, function: M) -> M:
        """Decorate the function that judges a deletion; it gets the object as it is.

        It returns warnings for the user, or None, and raises `Refused`.
        """
        return self._decorated("validate_delete", function)

    def validate_connect(self, function: M) -> M:
        """Decorate the function that judges a connection, such as `pods/exec`; it gets the options of it.

        It returns warnings for the user, or None, and raises `Refused`.
        """
        return self._decorated("validate_connect", function)

    def register(self, role: Role, function: Callable[..., Any]) -> None:
        """Note the function, or method, for `role`. Raises `RegistrationError` if it does not fit."""
        _check_function(function, what=_WHAT[role] % self.kind.__name__, taken=role in self.functions)
        self.functions[role] = function

    def _decorated(self, role: Role, function: M) -> M:
        self.register(role, function)
        return mark(function, role, self)

    @property
    def called(self) -> tuple[str, ...]:
        """What it is called after its kind, in names and paths."""
        parts = (self.name,) if self.name else (each.replace("*", "all") for each in self.subresources)
        return (self.kind.gvk.kind.lower(), *filter(None, parts))

    @property
    def models(self) -> Mapping[GroupVersionKind, type[Resource]]:
        """What may be shown, and as what functions get it."""
        kinds: list[type[Resource]] = [self.kind, *self.also]
        shown = [_SHOWN[each] for each in self.subresources if each in _SHOWN]
        if "proxy" in self.subresources:
            shown += [("v1", f"{each.gvk.kind}ProxyOptions") for each in kinds]
        if "*" in self.subresources:
            shown += _SHOWN.values()
        return {each.gvk: each for each in (*kinds, *(Unstructured.of(*each) for each in shown))}

    @property
    def webhooks(self) -> Iterator[AdmissionWebhook]:
        """Those that it has functions for: the one that sets defaults, then the one that validates."""
        if "default" in self.functions:
            yield AdmissionWebhook(self, mutating=True, operations=tuple(self.default_on))
        asked = tuple(operation for operation, role in VALIDATES.items() if role in self.functions)
        if asked:
            yield AdmissionWebhook(self, mutating=False, operations=asked)


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
        self.converters_to_hub: dict[type[Resource], Convert] = {}
        self.converters_from_hub: dict[type[Resource], Convert] = {}

    def __repr__(self) -> str:
        return f"Conversion({self.hub.gvk})"

    def to_hub(self, spoke: type[Resource]) -> Callable[[Convert], Convert]:
        """Decorate the function that makes an object of the hub's version from one of `spoke`'s."""
        return self._registering(spoke, self.converters_to_hub, f"convert {spoke.gvk} to {self.hub.gvk}")

    def from_hub(self, spoke: type[Resource]) -> Callable[[Convert], Convert]:
        """Decorate the function that makes an object of `spoke`'s version from one of the hub's."""
        return self._registering(spoke, self.converters_from_hub, f"convert {self.hub.gvk} to {spoke.gvk}")

    @property
    def spokes(self) -> tuple[type[Resource], ...]:
        """The other versions."""
        return tuple(dict.fromkeys((*self.converters_to_hub, *self.converters_from_hub)))

    def check(self) -> None:
        """Raise `RegistrationError` unless every spoke can be converted both ways, and there is one."""
        if not self.spokes:
            raise RegistrationError(f"{self} has no other version to convert from or to")
        for spoke in self.spokes:
            for converters, way in (
                (self.converters_to_hub, "to_hub"),
                (self.converters_from_hub, "from_hub"),
            ):
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
                if not any(each.webhooks):
                    raise RegistrationError(f"{each} has no function")
                key = f"{each.kind.gvk} {each.called}"
                if admissions.setdefault(key, each) is not each:
                    raise RegistrationError(f"{each} is there twice: one of them needs a name of its own")
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
        return tuple(each for admission in self.admissions for each in admission.webhooks if each.mutating)

    @property
    def validating(self) -> tuple[AdmissionWebhook, ...]:
        """Those of the ValidatingWebhookConfiguration."""
        return tuple(
            each for admission in self.admissions for each in admission.webhooks if not each.mutating
        )
