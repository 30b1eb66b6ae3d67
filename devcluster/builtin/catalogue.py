"""The kinds that come with the server, as its discovery names them."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from devcluster.builtin.admission_kinds import (
    AdmissionPolicyBindingStrategy,
    AdmissionPolicyStrategy,
    WebhooksStrategy,
)
from devcluster.builtin.base import BuiltinStrategy, Object, at, child, columns
from devcluster.builtin.cluster_kinds import (
    BindingStrategy,
    ConfigMapStrategy,
    NamespaceStrategy,
    NodeStrategy,
    RoleStrategy,
    SecretStrategy,
    ServiceAccountStrategy,
)
from devcluster.builtin.events import CoreEventStrategy, NewEventStrategy, convert_events
from devcluster.builtin.jobs import CronJobStrategy, JobStrategy
from devcluster.builtin.networking import (
    EndpointSliceStrategy,
    EndpointsStrategy,
    IngressClassStrategy,
    IngressStrategy,
    NetworkPolicyStrategy,
)
from devcluster.builtin.pods import PodStrategy
from devcluster.builtin.policies import (
    AutoscalerStrategy,
    DisruptionBudgetStrategy,
    LeaseStrategy,
    LimitRangeStrategy,
    OldAutoscalerStrategy,
    PriorityClassStrategy,
    QuotaStrategy,
    convert_autoscalers,
)
from devcluster.builtin.services import ServiceStrategy
from devcluster.builtin.volumes import ClaimStrategy, StorageClassStrategy, VolumeStrategy
from devcluster.builtin.workloads import (
    ControllerRevisionStrategy,
    DaemonSetStrategy,
    DeploymentStrategy,
    PodTemplateStrategy,
    ReplicaSetStrategy,
    ReplicationControllerStrategy,
    StatefulSetStrategy,
)
from devcluster.clock import Clock
from devcluster.kinds.resource import ALL_VERBS, Convert, Resource
from devcluster.types import schema_for

__all__ = ["resources"]

Cell = Callable[[Object], Any]
"""Returns the content of a column between the name and the age."""


@dataclasses.dataclass(frozen=True, slots=True)
class StoredKind:
    """A kind as discovery and tables show it."""

    group: str
    kind: str
    columns: str
    cells: tuple[Cell, ...] = ()
    short: str = ""
    categories: tuple[str, ...] = ()
    namespaced: bool = False
    subresources: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Defaults by path, where the object above is there; `*` stands for each item of a list."""
    nonzero: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Defaults of numbers that decoding has set to 0, by path."""
    has_generation: bool = False


class StoredKindStrategy(BuiltinStrategy):
    """The strategy of such a kind."""

    def __init__(self, clock: Clock, kind: StoredKind) -> None:
        super().__init__(clock)
        self.columns = columns(kind.columns)
        self.status_fields = ("status",) if "status" in kind.subresources else ()
        self.has_generation = kind.has_generation
        self.defaults, self.nonzero = kind.defaults, kind.nonzero
        self._kind = kind

    def default(self, obj: Object) -> None:
        if self.status_fields:
            child(obj, "status")
        super().default(obj)

    def cells(self, obj: Object) -> list[Any]:
        return [cell(obj) for cell in self._kind.cells]


def _at(path: str, absent: Any = "<none>") -> Cell:
    """Return a cell with the value at a path such as `spec.handler`."""

    def cell(obj: Object) -> Any:
        value = at(obj, path)
        return absent if value is None else value

    return cell


def _joined(path: str, absent: str = "<none>") -> Cell:
    return lambda obj: ",".join(_at(path, ())(obj)) or absent


def _token_audiences(obj: Object) -> str:
    return ",".join(each.get("audience", "") for each in _at("spec.tokenRequests", ())(obj)) or "<unset>"


def _parent(obj: Object) -> str:
    parent = _at("spec.parentRef", {})(obj)
    kind = ".".join(filter(None, (parent.get("resource"), parent.get("group"))))
    return "/".join(filter(None, (kind, parent.get("namespace"), parent.get("name")))) or "<none>"


def _service(obj: Object) -> str:
    service = _at("spec.service", {})(obj)
    return f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"


def _availability(obj: Object) -> str:
    conditions = _at("status.conditions", ())(obj)
    found = next((each for each in conditions if each.get("type") == "Available"), None)
    if found is None:
        return "Unknown"
    status = str(found.get("status", ""))
    return status if status == "True" else f"{status} ({found.get('reason', '')})"


def _state(obj: Object) -> str:
    """Return the state of a request for a certificate."""
    conditions = {each.get("type") for each in _at("status.conditions", ())(obj)}
    state = next((each for each in ("Denied", "Approved", "Failed") if each in conditions), "Pending")
    return f"{state},Issued" if _at("status.certificate", "")(obj) else state


_STORAGE = "storage.k8s.io"
_STATUS = ("status",)

STORED_KINDS = (
    StoredKind(
        "apiregistration.k8s.io",
        "APIService",
        "Name | Service | Available | Age",
        (_service, _availability),
        defaults={"spec.service.port": 443},
        categories=("api-extensions",),
        subresources=_STATUS,
    ),
    StoredKind(
        "certificates.k8s.io",
        "CertificateSigningRequest",
        "Name | Age | SignerName | Requestor | RequestedDuration | Condition",
        (
            _at("spec.signerName"),
            _at("spec.username", ""),
            _at("spec.expirationSeconds"),
            _state,
        ),
        short="csr",
        subresources=("approval", "status"),
        defaults={"spec.usages": ["digital signature", "key encipherment"]},
    ),
    StoredKind(
        "flowcontrol.apiserver.k8s.io",
        "FlowSchema",
        "Name | PriorityLevel | MatchingPrecedence | DistinguisherMethod | Age | MissingPL",
        (
            _at("spec.priorityLevelConfiguration.name"),
            lambda obj: str(_at("spec.matchingPrecedence")(obj)),
            _at("spec.distinguisherMethod.type"),
            lambda _: "?",
        ),
        subresources=_STATUS,
        nonzero={"spec.matchingPrecedence": 1000},
        has_generation=True,
    ),
    StoredKind(
        "flowcontrol.apiserver.k8s.io",
        "PriorityLevelConfiguration",
        "Name | Type | NominalConcurrencyShares | Queues | HandSize | QueueLengthLimit | Age",
        (
            _at("spec.type"),
            _at("spec.limited.nominalConcurrencyShares"),
            _at("spec.limited.limitResponse.queuing.queues"),
            _at("spec.limited.limitResponse.queuing.handSize"),
            _at("spec.limited.limitResponse.queuing.queueLengthLimit"),
        ),
        defaults={
            "spec.limited.nominalConcurrencyShares": 30,
            "spec.limited.lendablePercent": 0,
        },
        nonzero={
            "spec.limited.limitResponse.queuing.queues": 64,
            "spec.limited.limitResponse.queuing.handSize": 8,
            "spec.limited.limitResponse.queuing.queueLengthLimit": 50,
        },
        subresources=_STATUS,
        has_generation=True,
    ),
    StoredKind("networking.k8s.io", "IPAddress", "Name | ParentRef", (_parent,), short="ip"),
    StoredKind(
        "networking.k8s.io",
        "ServiceCIDR",
        "Name | CIDRs | Age",
        (_joined("spec.cidrs"),),
        subresources=_STATUS,
    ),
    StoredKind("node.k8s.io", "RuntimeClass", "Name | Handler | Age", (_at("handler"),)),
    StoredKind(
        _STORAGE,
        "CSIDriver",
        "Name | AttachRequired? | PodInfoOnMount? | StorageCapacity? | TokenRequests | RequiresRepublish?"
        " | Modes | Age",
        (
            _at("spec.attachRequired"),
            _at("spec.podInfoOnMount"),
            _at("spec.storageCapacity"),
            _token_audiences,
            _at("spec.requiresRepublish"),
            _joined("spec.volumeLifecycleModes"),
        ),
        defaults={
            "spec.attachRequired": True,
            "spec.podInfoOnMount": False,
            "spec.storageCapacity": False,
            "spec.fsGroupPolicy": "ReadWriteOnceWithFSType",
            "spec.volumeLifecycleModes": ["Persistent"],
            "spec.requiresRepublish": False,
            "spec.seLinuxMount": False,
        },
    ),
    StoredKind(
        _STORAGE,
        "CSINode",
        "Name | Drivers# | Age",
        (lambda obj: len(_at("spec.drivers", ())(obj)),),
        defaults={"spec.drivers.*.topologyKeys": None},
    ),
    StoredKind(_STORAGE, "CSIStorageCapacity", "Name | Created At@", namespaced=True),
    StoredKind(
        _STORAGE,
        "VolumeAttachment",
        "Name | Attacher | PV | Node | Attached? | Age",
        (
            _at("spec.attacher"),
            _at("spec.source.persistentVolumeName", ""),
            _at("spec.nodeName"),
            _at("status.attached"),
        ),
        defaults={"status.attached": False},
        subresources=_STATUS,
    ),
    StoredKind(
        _STORAGE, "VolumeAttributesClass", "Name | DriverName | Age", (_at("driverName"),), short="vac"
    ),
)


ALL = ("all",)
ENDPOINTS = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
EXTENSIONS = ("api-extensions",)
NO_COLLECTION = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")
REVIEW = ("create",)
RETURNS_DELETED = frozenset(
    {
        "Namespace",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Pod",
        "PodTemplate",
        "ResourceQuota",
        "Service",
        "ServiceAccount",
        "StorageClass",
    }
)
"""The kinds whose deletion is answered with the object."""
SCALED = ("scale", "status")
STATUS = ("status",)
POD = (
    "attach",
    "binding",
    "ephemeralcontainers",
    "eviction",
    "exec",
    "log",
    "portforward",
    "proxy",
    "resize",
    "status",
)


def resources(*, clock: Clock | None = None, rng: random.Random | None = None) -> list[Resource]:
    """Return all built-in resources for one cluster, each with its own strategy.

    `clock` is for the ages in tables, `rng` for addresses and ports; both are real ones by default.
    """
    clock = clock or Clock()
    return [
        *_core(clock, rng or random.Random()),
        *_events(clock),
        *_workloads(clock),
        *_policies(clock),
        *_reviews(clock),
        *_networking(clock),
        *_access(clock),
        *_admission(clock),
        _of("storage.k8s.io", "StorageClass", StorageClassStrategy(clock), short="sc", namespaced=False),
        *(_stored(clock, kind) for kind in STORED_KINDS),
    ]


def _core(clock: Clock, rng: random.Random) -> Iterator[Resource]:
    yield _of("", "Binding", BuiltinStrategy(clock), verbs=REVIEW)
    yield _of("", "ConfigMap", ConfigMapStrategy(clock), short="cm")
    yield _of("", "Endpoints", EndpointsStrategy(clock), short="ep", deprecation=ENDPOINTS)
    yield _of("", "LimitRange", LimitRangeStrategy(clock), short="limits")
    yield _of(
        "",
        "Namespace",
        NamespaceStrategy(clock),
        short="ns",
        namespaced=False,
        verbs=NO_COLLECTION,
        subresources=("finalize", "status"),
    )
    yield _of("", "Node", NodeStrategy(clock), short="no", namespaced=False, subresources=("proxy", "status"))
    yield _of("", "PersistentVolumeClaim", ClaimStrategy(clock), short="pvc", subresources=STATUS)
    yield _of(
        "", "PersistentVolume", VolumeStrategy(clock), short="pv", namespaced=False, subresources=STATUS
    )
    yield _of("", "Pod", PodStrategy(clock), short="po", categories=ALL, subresources=POD)
    yield _of("", "PodTemplate", PodTemplateStrategy(clock))
    controller = ReplicationControllerStrategy(clock)
    yield _of("", "ReplicationController", controller, short="rc", categories=ALL, subresources=SCALED)
    yield _of("", "ResourceQuota", QuotaStrategy(clock), short="quota", subresources=STATUS)
    yield _of("", "Secret", SecretStrategy(clock))
    yield _of("", "ServiceAccount", ServiceAccountStrategy(clock), short="sa", subresources=("token",))
    service = ServiceStrategy(clock, rng)
    yield _of("", "Service", service, short="svc", categories=ALL, subresources=("proxy", "status"))


def _events(clock: Clock) -> Iterator[Resource]:
    yield _of("", "Event", CoreEventStrategy(clock), short="ev", convert=convert_events)
    yield _of(
        "events.k8s.io",
        "Event",
        NewEventStrategy(clock),
        short="ev",
        store_as=("", "events"),
        convert=convert_events,
    )


def _workloads(clock: Clock) -> Iterator[Resource]:
    yield _of("apps", "ControllerRevision", ControllerRevisionStrategy(clock))
    yield _of("apps", "DaemonSet", DaemonSetStrategy(clock), short="ds", categories=ALL, subresources=STATUS)
    yield _of(
        "apps", "Deployment", DeploymentStrategy(clock), short="deploy", categories=ALL, subresources=SCALED
    )
    yield _of(
        "apps", "ReplicaSet", ReplicaSetStrategy(clock), short="rs", categories=ALL, subresources=SCALED
    )
    yield _of(
        "apps", "StatefulSet", StatefulSetStrategy(clock), short="sts", categories=ALL, subresources=SCALED
    )
    yield _of("batch", "CronJob", CronJobStrategy(clock), short="cj", categories=ALL, subresources=STATUS)
    yield _of("batch", "Job", JobStrategy(clock), categories=ALL, subresources=STATUS)


def _policies(clock: Clock) -> Iterator[Resource]:
    for version, autoscaler in (("v2", AutoscalerStrategy(clock)), ("v1", OldAutoscalerStrategy(clock))):
        yield _of(
            "autoscaling",
            "HorizontalPodAutoscaler",
            autoscaler,
            version=version,
            stored="v2",
            short="hpa",
            categories=ALL,
            subresources=STATUS,
            convert=convert_autoscalers,
        )
    yield _of(
        "policy", "PodDisruptionBudget", DisruptionBudgetStrategy(clock), short="pdb", subresources=STATUS
    )
    yield _of(
        "scheduling.k8s.io", "PriorityClass", PriorityClassStrategy(clock), short="pc", namespaced=False
    )
    yield _of("coordination.k8s.io", "Lease", LeaseStrategy(clock))


def _reviews(clock: Clock) -> Iterator[Resource]:
    for kind in ("SelfSubjectReview", "TokenReview"):
        yield _of("authentication.k8s.io", kind, BuiltinStrategy(clock), namespaced=False, verbs=REVIEW)
    yield _of("authorization.k8s.io", "LocalSubjectAccessReview", BuiltinStrategy(clock), verbs=REVIEW)
    for kind in ("SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview"):
        yield _of("authorization.k8s.io", kind, BuiltinStrategy(clock), namespaced=False, verbs=REVIEW)


def _networking(clock: Clock) -> Iterator[Resource]:
    yield _of("networking.k8s.io", "IngressClass", IngressClassStrategy(clock), namespaced=False)
    yield _of("networking.k8s.io", "Ingress", IngressStrategy(clock), short="ing", subresources=STATUS)
    yield _of("networking.k8s.io", "NetworkPolicy", NetworkPolicyStrategy(clock), short="netpol")
    yield _of("discovery.k8s.io", "EndpointSlice", EndpointSliceStrategy(clock))


def _access(clock: Clock) -> Iterator[Resource]:
    group = "rbac.authorization.k8s.io"
    yield _of(group, "ClusterRoleBinding", BindingStrategy(clock, namespaced=False), namespaced=False)
    yield _of(group, "ClusterRole", RoleStrategy(clock, namespaced=False), namespaced=False)
    yield _of(group, "RoleBinding", BindingStrategy(clock, namespaced=True))
    yield _of(group, "Role", RoleStrategy(clock, namespaced=True))


def _admission(clock: Clock) -> Iterator[Resource]:
    group = "admissionregistration.k8s.io"
    for kind, strategy, subresources in (
        ("MutatingWebhookConfiguration", WebhooksStrategy(clock, mutating=True), ()),
        ("MutatingAdmissionPolicy", AdmissionPolicyStrategy(clock, mutating=True), ()),
        ("MutatingAdmissionPolicyBinding", AdmissionPolicyBindingStrategy(clock, mutating=True), ()),
        ("ValidatingAdmissionPolicy", AdmissionPolicyStrategy(clock, mutating=False), STATUS),
        ("ValidatingAdmissionPolicyBinding", AdmissionPolicyBindingStrategy(clock, mutating=False), ()),
        ("ValidatingWebhookConfiguration", WebhooksStrategy(clock, mutating=False), ()),
    ):
        yield _of(group, kind, strategy, namespaced=False, categories=EXTENSIONS, subresources=subresources)


def _stored(clock: Clock, kind: StoredKind) -> Resource:
    return _of(
        kind.group,
        kind.kind,
        StoredKindStrategy(clock, kind),
        short=kind.short,
        categories=kind.categories,
        namespaced=kind.namespaced,
        subresources=kind.subresources,
    )


def _plural(kind: str) -> str:
    name = kind.lower()
    if name == "endpoints":
        return name
    if name.endswith("s"):
        return f"{name}es"
    return f"{name[:-1]}ies" if name.endswith(("cy", "ty")) else f"{name}s"


def _of(
    group: str,
    kind: str,
    strategy: BuiltinStrategy,
    *,
    version: str = "v1",
    stored: str = "",
    short: str = "",
    categories: tuple[str, ...] = (),
    namespaced: bool = True,
    verbs: tuple[str, ...] = ALL_VERBS,
    subresources: tuple[str, ...] = (),
    store_as: tuple[str, str] | None = None,
    convert: Convert | None = None,
    deprecation: str = "",
) -> Resource:
    strategy.returns_deleted = kind in RETURNS_DELETED
    return Resource(
        group=group,
        version=version,
        kind=kind,
        plural=_plural(kind),
        singular=kind.lower(),
        list_kind=f"{kind}List",
        short_names=(short,) if short else (),
        categories=categories,
        namespaced=namespaced,
        verbs=verbs,
        schema=schema_for(group, version, kind),
        strategy=strategy,
        columns=strategy.columns,
        subresources=subresources,
        storage_version=stored or version,
        store_as=store_as,
        convert=convert,
        deprecation=deprecation,
    )
