"""The kinds that come with the server, as its discovery names them."""

from __future__ import annotations

import random
from collections.abc import Iterator

from devcluster.builtin.base import BuiltinStrategy, PlainStrategy, StoredStrategy
from devcluster.clock import Clock
from devcluster.kinds.resource import ALL_VERBS, Resource

__all__ = ["resources"]

NO_COLLECTION = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")
REVIEW = ("create",)

SCALED = ("scale", "status")
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
    """All of them, each with a strategy of its own, for one cluster.

    `clock` tells the ages in tables, `rng` draws addresses and ports; both are real ones by default.
    """
    clock = clock or Clock()
    rng = rng or random.Random()
    return [
        *_core(clock, rng),
        *_workloads(clock),
        *_reviews(clock),
        *_networking(clock),
        *_policies(clock),
        *_storage(clock),
    ]


def _core(clock: Clock, rng: random.Random) -> Iterator[Resource]:
    group = ("", "v1")
    yield _of(*group, "ConfigMap", StoredStrategy(clock), short="cm")
    yield _of(*group, "Endpoints", StoredStrategy(clock), plural="endpoints", short="ep")
    yield _of(*group, "Event", StoredStrategy(clock), short="ev")
    yield _of(*group, "LimitRange", PlainStrategy(clock), short="limits")
    yield _of(
        *group,
        "Namespace",
        BuiltinStrategy(clock),
        short="ns",
        namespaced=False,
        verbs=NO_COLLECTION,
        subresources=("finalize", "status"),
    )
    yield _of(
        *group, "Node", BuiltinStrategy(clock), short="no", namespaced=False, subresources=("proxy", "status")
    )
    yield _of(*group, "PersistentVolumeClaim", BuiltinStrategy(clock), short="pvc", subresources=("status",))
    yield _of(
        *group,
        "PersistentVolume",
        BuiltinStrategy(clock),
        short="pv",
        namespaced=False,
        subresources=("status",),
    )
    yield _of(*group, "Pod", BuiltinStrategy(clock), short="po", categories=("all",), subresources=POD)
    yield _of(*group, "PodTemplate", StoredStrategy(clock))
    yield _of(
        *group,
        "ReplicationController",
        BuiltinStrategy(clock),
        short="rc",
        categories=("all",),
        subresources=SCALED,
    )
    yield _of(*group, "ResourceQuota", BuiltinStrategy(clock), short="quota", subresources=("status",))
    yield _of(*group, "Secret", StoredStrategy(clock))
    yield _of(*group, "ServiceAccount", StoredStrategy(clock), short="sa", subresources=("token",))
    yield _of(
        *group,
        "Service",
        BuiltinStrategy(clock),
        short="svc",
        categories=("all",),
        subresources=("proxy", "status"),
    )
    group = ("events.k8s.io", "v1")
    yield _of(*group, "Event", StoredStrategy(clock), short="ev", store_as=("", "events"))


def _workloads(clock: Clock) -> Iterator[Resource]:
    group = ("apps", "v1")
    everything = ("all",)
    yield _of(*group, "ControllerRevision", StoredStrategy(clock))
    yield _of(
        *group,
        "DaemonSet",
        BuiltinStrategy(clock),
        short="ds",
        categories=everything,
        subresources=("status",),
    )
    yield _of(
        *group,
        "Deployment",
        BuiltinStrategy(clock),
        short="deploy",
        categories=everything,
        subresources=SCALED,
    )
    yield _of(
        *group, "ReplicaSet", BuiltinStrategy(clock), short="rs", categories=everything, subresources=SCALED
    )
    yield _of(
        *group, "StatefulSet", BuiltinStrategy(clock), short="sts", categories=everything, subresources=SCALED
    )
    group = ("batch", "v1")
    yield _of(
        *group, "CronJob", BuiltinStrategy(clock), short="cj", categories=everything, subresources=("status",)
    )
    yield _of(*group, "Job", BuiltinStrategy(clock), categories=everything, subresources=("status",))
    group = ("autoscaling", "v2")
    yield _of(
        *group,
        "HorizontalPodAutoscaler",
        BuiltinStrategy(clock),
        short="hpa",
        categories=everything,
        subresources=("status",),
    )
    group = ("policy", "v1")
    yield _of(*group, "PodDisruptionBudget", BuiltinStrategy(clock), short="pdb", subresources=("status",))
    group = ("scheduling.k8s.io", "v1")
    yield _of(
        *group, "PriorityClass", StoredStrategy(clock), plural="priorityclasses", short="pc", namespaced=False
    )
    group = ("coordination.k8s.io", "v1")
    yield _of(*group, "Lease", StoredStrategy(clock))


def _reviews(clock: Clock) -> Iterator[Resource]:
    group = ("authentication.k8s.io", "v1")
    for kind in ("SelfSubjectReview", "TokenReview"):
        yield _of(*group, kind, BuiltinStrategy(clock), namespaced=False, verbs=REVIEW)
    group = ("authorization.k8s.io", "v1")
    yield _of(*group, "LocalSubjectAccessReview", BuiltinStrategy(clock), verbs=REVIEW)
    for kind in ("SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview"):
        yield _of(*group, kind, BuiltinStrategy(clock), namespaced=False, verbs=REVIEW)


def _networking(clock: Clock) -> Iterator[Resource]:
    group = ("networking.k8s.io", "v1")
    yield _of(*group, "IngressClass", StoredStrategy(clock), plural="ingressclasses", namespaced=False)
    yield _of(
        *group, "Ingress", BuiltinStrategy(clock), plural="ingresses", short="ing", subresources=("status",)
    )
    yield _of(*group, "NetworkPolicy", StoredStrategy(clock), plural="networkpolicies", short="netpol")
    group = ("discovery.k8s.io", "v1")
    yield _of(*group, "EndpointSlice", StoredStrategy(clock))


def _policies(clock: Clock) -> Iterator[Resource]:
    group = ("rbac.authorization.k8s.io", "v1")
    yield _of(*group, "ClusterRoleBinding", StoredStrategy(clock), namespaced=False)
    yield _of(*group, "ClusterRole", PlainStrategy(clock), namespaced=False)
    yield _of(*group, "RoleBinding", StoredStrategy(clock))
    yield _of(*group, "Role", PlainStrategy(clock))
    group = ("admissionregistration.k8s.io", "v1")
    extensions = ("api-extensions",)
    yield _of(
        *group, "MutatingWebhookConfiguration", StoredStrategy(clock), namespaced=False, categories=extensions
    )
    yield _of(
        *group,
        "ValidatingAdmissionPolicy",
        BuiltinStrategy(clock),
        plural="validatingadmissionpolicies",
        namespaced=False,
        categories=extensions,
        subresources=("status",),
    )
    yield _of(
        *group,
        "ValidatingAdmissionPolicyBinding",
        StoredStrategy(clock),
        namespaced=False,
        categories=extensions,
    )
    yield _of(
        *group,
        "ValidatingWebhookConfiguration",
        StoredStrategy(clock),
        namespaced=False,
        categories=extensions,
    )


def _storage(clock: Clock) -> Iterator[Resource]:
    group = ("storage.k8s.io", "v1")
    yield _of(
        *group, "StorageClass", StoredStrategy(clock), plural="storageclasses", short="sc", namespaced=False
    )


def _of(
    group: str,
    version: str,
    kind: str,
    strategy: BuiltinStrategy,
    *,
    plural: str = "",
    short: str = "",
    categories: tuple[str, ...] = (),
    namespaced: bool = True,
    verbs: tuple[str, ...] = ALL_VERBS,
    subresources: tuple[str, ...] = (),
    store_as: tuple[str, str] | None = None,
) -> Resource:
    from devcluster.types import schema_for  # noqa: PLC0415 -- the tables are loaded when a cluster starts

    return Resource(
        group=group,
        version=version,
        kind=kind,
        plural=plural or f"{kind.lower()}s",
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
        storage_version=version,
        store_as=store_as,
    )
