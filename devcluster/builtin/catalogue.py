"""The kinds that come with the server, as its discovery names them."""

from __future__ import annotations

import random
from collections.abc import Iterator

from devcluster.builtin.admission_kinds import (
    AdmissionPolicyBindingStrategy,
    AdmissionPolicyStrategy,
    WebhooksStrategy,
)
from devcluster.builtin.autoscaling_v1 import OldAutoscalerStrategy, convert_autoscalers
from devcluster.builtin.base import BuiltinStrategy
from devcluster.builtin.config import ConfigMapStrategy, SecretStrategy, ServiceAccountStrategy
from devcluster.builtin.daemon_sets import DaemonSetStrategy
from devcluster.builtin.deployments import DeploymentStrategy
from devcluster.builtin.endpoints import EndpointSliceStrategy, EndpointsStrategy
from devcluster.builtin.events import CoreEventStrategy, NewEventStrategy, convert_events
from devcluster.builtin.jobs import CronJobStrategy, JobStrategy
from devcluster.builtin.namespaces import NamespaceStrategy
from devcluster.builtin.networking import IngressClassStrategy, IngressStrategy, NetworkPolicyStrategy
from devcluster.builtin.nodes import NodeStrategy
from devcluster.builtin.pods import PodStrategy
from devcluster.builtin.policies import (
    AutoscalerStrategy,
    DisruptionBudgetStrategy,
    LeaseStrategy,
    LimitRangeStrategy,
    PriorityClassStrategy,
    QuotaStrategy,
)
from devcluster.builtin.rbac import BindingStrategy, RoleStrategy
from devcluster.builtin.replica_sets import ReplicaSetStrategy, ReplicationControllerStrategy
from devcluster.builtin.revisions import ControllerRevisionStrategy, PodTemplateStrategy
from devcluster.builtin.services import ServiceStrategy
from devcluster.builtin.stateful_sets import StatefulSetStrategy
from devcluster.builtin.stored_kinds import STORED_KINDS, StoredKind, StoredKindStrategy
from devcluster.builtin.volumes import ClaimStrategy, StorageClassStrategy, VolumeStrategy
from devcluster.clock import Clock
from devcluster.kinds.resource import ALL_VERBS, Convert, Resource
from devcluster.types import schema_for

__all__ = ["resources"]

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
