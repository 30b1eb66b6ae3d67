"""Catalogue of the built-in kinds, as the server's discovery lists them."""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable, Mapping
from typing import Any

from devcluster.builtin import (
    admission_kinds,
    cluster_kinds,
    events,
    jobs,
    networking,
    pods,
    policies,
    services,
    volumes,
    workloads,
)
from devcluster.builtin.base import BuiltinStrategy, Object, at, child, columns
from devcluster.clock import Clock
from devcluster.kinds.resource import ALL_VERBS, Resource
from devcluster.types import schema_for

Cell = Callable[[Object], Any]
"""Returns the content of a column other than Name and Age."""


@dataclasses.dataclass(frozen=True, slots=True)
class StoredKind:
    """Table columns and defaults of a kind that the server only stores, because no controller acts on it."""

    columns: str
    cells: tuple[Cell, ...] = ()
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Defaults by path, if the parent object exists; `*` stands for each item of a list."""
    nonzero: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Defaults for numbers that decoding has set to 0, by path."""
    has_generation: bool = False


class StoredKindStrategy(BuiltinStrategy):
    """Strategy (defaults, table columns) of a kind that the server only stores; no controller acts on it."""

    def __init__(self, clock: Clock, kind: StoredKind, *, has_status: bool) -> None:
        super().__init__(clock)
        self.columns = columns(kind.columns)
        self.status_fields = ("status",) if has_status else ()
        self.has_generation = kind.has_generation
        self.defaults, self.nonzero = kind.defaults, kind.nonzero
        self._kind = kind

    def default(self, obj: Object) -> None:
        if self.status_fields:
            child(obj, "status")
        super().default(obj)

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        return [cell(obj) for cell in self._kind.cells]


def _at(path: str, absent: Any = "<none>") -> Cell:
    """Return a function that reads a table cell at a path such as `spec.handler`; `absent` replaces None."""

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
    """Return the state of a CertificateSigningRequest for its table cell."""
    conditions = {each.get("type") for each in _at("status.conditions", ())(obj)}
    state = next((each for each in ("Denied", "Approved", "Failed") if each in conditions), "Pending")
    return f"{state},Issued" if _at("status.certificate", "")(obj) else state


STORED_KINDS = {
    "APIService": StoredKind(
        "Name | Service | Available | Age",
        (_service, _availability),
        defaults={"spec.service.port": 443},
    ),
    "CertificateSigningRequest": StoredKind(
        "Name | Age | SignerName | Requestor | RequestedDuration | Condition",
        (
            _at("spec.signerName"),
            _at("spec.username", ""),
            _at("spec.expirationSeconds"),
            _state,
        ),
        defaults={"spec.usages": ["digital signature", "key encipherment"]},
    ),
    "FlowSchema": StoredKind(
        "Name | PriorityLevel | MatchingPrecedence | DistinguisherMethod | Age | MissingPL",
        (
            _at("spec.priorityLevelConfiguration.name"),
            lambda obj: str(_at("spec.matchingPrecedence")(obj)),
            _at("spec.distinguisherMethod.type"),
            lambda _: "?",
        ),
        nonzero={"spec.matchingPrecedence": 1000},
        has_generation=True,
    ),
    "PriorityLevelConfiguration": StoredKind(
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
        has_generation=True,
    ),
    "IPAddress": StoredKind("Name | ParentRef", (_parent,)),
    "ServiceCIDR": StoredKind(
        "Name | CIDRs | Age",
        (_joined("spec.cidrs"),),
    ),
    "RuntimeClass": StoredKind("Name | Handler | Age", (_at("handler"),)),
    "CSIDriver": StoredKind(
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
    "CSINode": StoredKind(
        "Name | Drivers# | Age",
        (lambda obj: len(_at("spec.drivers", ())(obj)),),
        defaults={"spec.drivers.*.topologyKeys": None},
    ),
    "CSIStorageCapacity": StoredKind("Name | Created At@"),
    "VolumeAttachment": StoredKind(
        "Name | Attacher | PV | Node | Attached? | Age",
        (
            _at("spec.attacher"),
            _at("spec.source.persistentVolumeName", ""),
            _at("spec.nodeName"),
            _at("status.attached"),
        ),
        defaults={"status.attached": False},
    ),
    "VolumeAttributesClass": StoredKind(
        "Name | DriverName | Age",
        (_at("driverName"),),
    ),
}

NO_COLLECTION = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")
ENDPOINTS = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
POD = "attach,binding,ephemeralcontainers,eviction,exec,log,portforward,proxy,resize,status"
KINDS = f"""
    Binding                              -        namespaced  -               -                        review
    ConfigMap                            cm       namespaced  -               -                        -
    Endpoints                            ep       namespaced  -               -                        -
    Event                                ev       namespaced  -               -                        -
    LimitRange                           limits   namespaced  -               -                        -
    Namespace                            ns       cluster     -               finalize,status          object
    Node                                 no       cluster     -               proxy,status             -
    PersistentVolumeClaim                pvc      namespaced  -               status                   object
    PersistentVolume                     pv       cluster     -               status                   object
    Pod                                  po       namespaced  all             {POD}                    object
    PodTemplate                          -        namespaced  -               -                        object
    ReplicationController                rc       namespaced  all             scale,status             -
    ResourceQuota                        quota    namespaced  -               status                   object
    Secret                               -        namespaced  -               -                        -
    ServiceAccount                       sa       namespaced  -               token                    object
    Service                              svc      namespaced  all             proxy,status             object
  events.k8s.io
    Event                                ev       namespaced  -               -                        -
  apps
    ControllerRevision                   -        namespaced  -               -                        -
    DaemonSet                            ds       namespaced  all             status                   -
    Deployment                           deploy   namespaced  all             scale,status             -
    ReplicaSet                           rs       namespaced  all             scale,status             -
    StatefulSet                          sts      namespaced  all             scale,status             -
  batch
    CronJob                              cj       namespaced  all             status                   -
    Job                                  -        namespaced  all             status                   -
  autoscaling
    HorizontalPodAutoscaler              hpa      namespaced  all             status                   -
  policy
    PodDisruptionBudget                  pdb      namespaced  -               status                   -
  scheduling.k8s.io
    PriorityClass                        pc       cluster     -               -                        -
  coordination.k8s.io
    Lease                                -        namespaced  -               -                        -
  authentication.k8s.io
    SelfSubjectReview                    -        cluster     -               -                        review
    TokenReview                          -        cluster     -               -                        review
  authorization.k8s.io
    LocalSubjectAccessReview             -        namespaced  -               -                        review
    SelfSubjectAccessReview              -        cluster     -               -                        review
    SelfSubjectRulesReview               -        cluster     -               -                        review
    SubjectAccessReview                  -        cluster     -               -                        review
  networking.k8s.io
    IngressClass                         -        cluster     -               -                        -
    Ingress                              ing      namespaced  -               status                   -
    IPAddress                            ip       cluster     -               -                        -
    NetworkPolicy                        netpol   namespaced  -               -                        -
    ServiceCIDR                          -        cluster     -               status                   -
  discovery.k8s.io
    EndpointSlice                        -        namespaced  -               -                        -
  rbac.authorization.k8s.io
    ClusterRoleBinding                   -        cluster     -               -                        -
    ClusterRole                          -        cluster     -               -                        -
    RoleBinding                          -        namespaced  -               -                        -
    Role                                 -        namespaced  -               -                        -
  admissionregistration.k8s.io
    MutatingWebhookConfiguration         -        cluster     api-extensions  -                        -
    MutatingAdmissionPolicy              -        cluster     api-extensions  -                        -
    MutatingAdmissionPolicyBinding       -        cluster     api-extensions  -                        -
    ValidatingAdmissionPolicy            -        cluster     api-extensions  status                   -
    ValidatingAdmissionPolicyBinding     -        cluster     api-extensions  -                        -
    ValidatingWebhookConfiguration       -        cluster     api-extensions  -                        -
  apiregistration.k8s.io
    APIService                           -        cluster     api-extensions  status                   -
  certificates.k8s.io
    CertificateSigningRequest            csr      cluster     -               approval,status          -
  flowcontrol.apiserver.k8s.io
    FlowSchema                           -        cluster     -               status                   -
    PriorityLevelConfiguration           -        cluster     -               status                   -
  node.k8s.io
    RuntimeClass                         -        cluster     -               -                        -
  storage.k8s.io
    StorageClass                         sc       cluster     -               -                        object
    CSIDriver                            -        cluster     -               -                        -
    CSINode                              -        cluster     -               -                        -
    CSIStorageCapacity                   -        namespaced  -               -                        -
    VolumeAttachment                     -        cluster     -               status                   -
    VolumeAttributesClass                vac      cluster     -               -                        -
"""
"""The kinds by group: short name, scope, category, subresources, and the response to a deletion.

`review` marks kinds that can only be created.
"""
STRATEGIES: Mapping[str, Callable[[Clock], BuiltinStrategy]] = {
    "ClusterRole": functools.partial(cluster_kinds.RoleStrategy, namespaced=False),
    "ClusterRoleBinding": functools.partial(cluster_kinds.BindingStrategy, namespaced=False),
    "ConfigMap": cluster_kinds.ConfigMapStrategy,
    "ControllerRevision": workloads.ControllerRevisionStrategy,
    "CronJob": jobs.CronJobStrategy,
    "DaemonSet": workloads.DaemonSetStrategy,
    "Deployment": workloads.DeploymentStrategy,
    "EndpointSlice": networking.EndpointSliceStrategy,
    "Endpoints": networking.EndpointsStrategy,
    "Event": events.CoreEventStrategy,
    "HorizontalPodAutoscaler": policies.AutoscalerStrategy,
    "Ingress": networking.IngressStrategy,
    "IngressClass": networking.IngressClassStrategy,
    "Job": jobs.JobStrategy,
    "Lease": policies.LeaseStrategy,
    "LimitRange": policies.LimitRangeStrategy,
    "MutatingAdmissionPolicy": functools.partial(admission_kinds.AdmissionPolicyStrategy, mutating=True),
    "MutatingAdmissionPolicyBinding": functools.partial(
        admission_kinds.AdmissionPolicyBindingStrategy, mutating=True
    ),
    "MutatingWebhookConfiguration": functools.partial(admission_kinds.WebhooksStrategy, mutating=True),
    "Namespace": cluster_kinds.NamespaceStrategy,
    "NetworkPolicy": networking.NetworkPolicyStrategy,
    "Node": cluster_kinds.NodeStrategy,
    "PersistentVolume": volumes.VolumeStrategy,
    "PersistentVolumeClaim": volumes.ClaimStrategy,
    "Pod": pods.PodStrategy,
    "PodDisruptionBudget": policies.DisruptionBudgetStrategy,
    "PodTemplate": workloads.PodTemplateStrategy,
    "PriorityClass": policies.PriorityClassStrategy,
    "ReplicaSet": workloads.ReplicaSetStrategy,
    "ReplicationController": workloads.ReplicationControllerStrategy,
    "ResourceQuota": policies.QuotaStrategy,
    "Role": functools.partial(cluster_kinds.RoleStrategy, namespaced=True),
    "RoleBinding": functools.partial(cluster_kinds.BindingStrategy, namespaced=True),
    "Secret": cluster_kinds.SecretStrategy,
    "ServiceAccount": cluster_kinds.ServiceAccountStrategy,
    "StatefulSet": workloads.StatefulSetStrategy,
    "StorageClass": volumes.StorageClassStrategy,
    "ValidatingAdmissionPolicy": functools.partial(admission_kinds.AdmissionPolicyStrategy, mutating=False),
    "ValidatingAdmissionPolicyBinding": functools.partial(
        admission_kinds.AdmissionPolicyBindingStrategy, mutating=False
    ),
    "ValidatingWebhookConfiguration": functools.partial(admission_kinds.WebhooksStrategy, mutating=False),
}
"""The strategies of kinds, except for Services and for kinds that are only stored or reviewed."""


def resources(*, clock: Clock | None = None, rng: random.Random | None = None) -> list[Resource]:
    """Return all built-in resources for one cluster, each with its defaults, validation and table columns.

    `clock` (default: real time) is for ages in tables, `rng` (default: unseeded) for addresses and ports.
    """
    clock, rng, group = clock or Clock(), rng or random.Random(), ""
    made: list[Resource] = []
    for line in KINDS.strip("\n").splitlines():
        kind, *facts = line.split()
        if not facts:
            group = kind
            continue
        strategy = _strategy(group, kind, facts[3], clock, rng)
        strategy.returns_deleted = facts[4] == "object"
        made.append(_resource(group, kind, strategy, *facts))
    old = _resource(
        "autoscaling", "HorizontalPodAutoscaler", policies.OldAutoscalerStrategy(clock), *_AUTOSCALER
    )
    old.version, old.schema = "v1", schema_for("autoscaling", "v1", "HorizontalPodAutoscaler")
    return [*made, old]


_AUTOSCALER = ("hpa", "namespaced", "all", "status", "-")


def _strategy(group: str, kind: str, subresources: str, clock: Clock, rng: random.Random) -> BuiltinStrategy:
    if group == "events.k8s.io":
        return events.NewEventStrategy(clock)
    if kind == "Service":
        return services.ServiceStrategy(clock, rng)
    if kind in STORED_KINDS:
        return StoredKindStrategy(clock, STORED_KINDS[kind], has_status="status" in subresources)
    return STRATEGIES.get(kind, BuiltinStrategy)(clock)


def _resource(
    group: str,
    kind: str,
    strategy: BuiltinStrategy,
    short: str,
    scope: str,
    category: str,
    subresources: str,
    deletion: str,
) -> Resource:
    version = "v2" if group == "autoscaling" else "v1"
    verbs = ("create",) if deletion == "review" else NO_COLLECTION if kind == "Namespace" else ALL_VERBS
    return Resource(
        group=group,
        version=version,
        kind=kind,
        plural=_plural(kind),
        singular=kind.lower(),
        list_kind=f"{kind}List",
        short_names=_listed(short),
        categories=_listed(category),
        namespaced=scope == "namespaced",
        verbs=verbs,
        schema=schema_for(group, version, kind),
        strategy=strategy,
        columns=strategy.columns,
        subresources=_listed(subresources),
        storage_version=version,
        store_as=("", "events") if group == "events.k8s.io" else None,
        convert={"Event": events.convert_events, "HorizontalPodAutoscaler": policies.convert_autoscalers}.get(
            kind
        ),
        deprecation=ENDPOINTS if kind == "Endpoints" else "",
    )


def _listed(text: str) -> tuple[str, ...]:
    return () if text == "-" else tuple(text.split(","))


def _plural(kind: str) -> str:
    name = kind.lower()
    if name == "endpoints":
        return name
    if name.endswith("s"):
        return f"{name}es"
    return f"{name[:-1]}ies" if name.endswith(("cy", "ty")) else f"{name}s"
