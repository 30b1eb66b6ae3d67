"""Memcached operator: a Deployment of memcached servers, and a status about its pods."""

from __future__ import annotations

from collections.abc import Iterable

from apis.cache.v1.memcached import Memcached
from manager import Context, Operator, Setting, WatchPods, webhook
from manager.api import ObjectMeta, recommended_labels
from manager.operator.proxy import PROXY_ENVIRONMENT
from manager.webhook import AdmissionRequest
from manager_kinds.apps_v1 import Deployment
from manager_kinds.core_v1 import ContainerDict, PodSpecDict, ProbeDict

CR_LABEL = "memcached_cr"
"""The label of a Memcached's pods; the value is the Memcached's name."""

MOST_NODES = 100
"""The maximum number of pods that a status names: every change of the status sends all names again."""

MANY = 1_000
"""The number of servers above which a webhook warns, without refusing."""


ANSWERS: ProbeDict = {"tcpSocket": {"port": "memcached"}, "timeoutSeconds": 3}
"""The common part of a server's probes: a TCP connection."""


class MemcachedOperator(Operator[Memcached]):
    """The operator that runs a Memcached's Deployment, and reports its pods in the status."""

    owns = (Deployment,)
    watches = (WatchPods(label=CR_LABEL),)
    skips_own_writes = True
    image = Setting(
        "memcached-image",
        default="memcached:1.6.39-alpine",
        placeholder="IMAGE",
        description="image of a Memcached whose spec names none",
    )
    proxy = PROXY_ENVIRONMENT
    # The webhooks only warn, so writes must succeed while no manager answers.
    admission = webhook.AdmissionOptions(failure_policy="Ignore", timeout_seconds=5)

    async def reconcile(self, memcached: Memcached, ctx: Context) -> None:
        """Reconcile one Memcached."""
        status, size, labels = memcached.status, memcached.spec.size, labels_of(memcached)
        status.selector = ",".join(f"{name}={value}" for name, value in labels.items())
        # While the Deployment is blocked, for example because its name is taken, the status counts no pods.
        status.nodes, status.node_count, status.replicas, status.ready_replicas = [], 0, 0, 0

        deployment = await ctx.apply(
            self.deployment(memcached), created=f"with {size} replicas", changed=scaled
        )

        pods = await ctx.pods(deployment)
        nodes = [pod.name for pod in pods if pod.is_active]
        status.nodes, status.node_count = nodes[:MOST_NODES], len(nodes)
        status.replicas = deployment.status.get("replicas", 0)
        status.ready_replicas = deployment.ready_replicas
        ctx.set_conditions(deployment.conditions_for(size, pods))

    def deployment(self, memcached: Memcached) -> Deployment:
        """Return the desired Deployment; it contains only the fields that this operator owns."""
        labels = labels_of(memcached)
        container: ContainerDict = {
            "name": "memcached",
            "image": memcached.spec.image or self.image,
            # The value is a separate argument: memcached would read "-m=64" as 0 and exit.
            "command": ["memcached", "-m", "64", "-o", "modern", "-v"],
            "ports": [{"name": "memcached", "containerPort": 11211, "protocol": "TCP"}],
            # 64 MB for items plus the program itself: memcached 1.6.18, full and with 1,000 clients, took 72
            # MiB.
            "resources": {"requests": {"cpu": "10m", "memory": "96Mi"}, "limits": {"memory": "128Mi"}},
            "readinessProbe": {**ANSWERS, "periodSeconds": 5},
            "livenessProbe": {**ANSWERS, "periodSeconds": 10},
            # The pod's status shows the last log lines of a crashed server, and the Memcached's the last one.
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "runAsNonRoot": True,
                "runAsUser": 11211,  # the image's memcache user; runAsNonRoot needs a number
            },
        }
        if self.proxy:
            container["env"] = self.proxy
        pod: PodSpecDict = {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
        }
        shown = {**labels, **recommended_labels(memcached, self.manager.program.name)}
        return Deployment(
            metadata=ObjectMeta(
                name=memcached.metadata.name, namespace=memcached.metadata.namespace, labels=shown
            ),
            spec={
                "replicas": memcached.spec.size,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": shown}, "spec": pod},
            },
        )

    @webhook.validate_create
    @webhook.validate_update
    async def warn_of_many(self, old: Memcached | None, new: Memcached, _: AdmissionRequest) -> Iterable[str]:
        """Warn about an unusually large size, which may be a typing error."""
        size = new.spec.size
        if size <= MANY or (old is not None and size <= old.spec.size):
            return ()
        many = f"spec.size: {size} is a lot of servers, each of them a pod"
        return (f"{many}; be sure that you want more than {MANY}",)


def labels_of(memcached: Memcached) -> dict[str, str]:
    """Return the labels that select the pods; they never change: a Deployment's selector is immutable."""
    return {"app": "memcached", CR_LABEL: memcached.metadata.name}


def scaled(before: Deployment, now: Deployment) -> tuple[str, str] | None:
    """Return the reason and message of the Event for a changed size; None if the size is the same."""
    old, new = before.spec.get("replicas"), now.spec["replicas"]
    if old == new:
        return None
    return "Scaled", f"Scaled Deployment {now.metadata.name} from {old} to {new} replicas"
