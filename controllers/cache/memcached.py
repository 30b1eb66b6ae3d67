"""Memcached: keeps a Deployment of memcached servers at the wanted size, and reports its pods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from apis.cache.v1.memcached import Memcached
from manager import Context, Operator, Setting, WatchPods, webhook
from manager.api import ObjectMeta, recommended_labels
from manager.api.apps_v1 import Deployment
from manager.operator.proxy import PROXY_ENVIRONMENT
from manager.webhook import AdmissionRequest

CR_LABEL = "memcached_cr"
"""The label that ties a pod to its Memcached."""

MOST_NODES = 100
"""Pods that a status names: a list of thousands would be sent with each change of it."""

MANY = 1_000
"""More servers than this are worth a warning. They are started all the same."""


ANSWERS = {"tcpSocket": {"port": "memcached"}, "timeoutSeconds": 3}
"""A probe of a server."""


class MemcachedOperator(Operator[Memcached]):
    """Brings a Memcached's Deployment to the wanted state, and its status to what is seen."""

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
    # Its webhooks warn and refuse nothing: nobody has to wait for a manager that is down.
    admission = webhook.AdmissionOptions(failure_policy="Ignore", timeout_seconds=5)

    async def reconcile(self, memcached: Memcached, ctx: Context) -> None:
        """Bring one Memcached up to date."""
        status, size, labels = memcached.status, memcached.spec.size, labels_of(memcached)
        status.selector = ",".join(f"{name}={value}" for name, value in labels.items())
        # This is so for as long as there is no Deployment, since its name is taken.
        status.nodes, status.node_count, status.replicas, status.ready_replicas = [], 0, 0, 0

        deployment = await ctx.apply(
            self.deployment(memcached), created=f"with {size} replicas", changed=scaled
        )

        pods = await ctx.pods(deployment)
        nodes = [pod.name for pod in pods if pod.is_active]
        status.nodes, status.node_count = nodes[:MOST_NODES], len(nodes)
        status.replicas = deployment.status.replicas
        status.ready_replicas = deployment.status.ready_replicas
        ctx.set_conditions(deployment.conditions_for(size, pods))

    def deployment(self, memcached: Memcached) -> Deployment:
        """The wanted Deployment: only the fields that are ours."""
        labels = labels_of(memcached)
        container: dict[str, Any] = {
            "name": "memcached",
            "image": memcached.spec.image or self.image,
            # The value is an argument of its own: of "-m=64" memcached reads "=64" as 0, and exits.
            "command": ["memcached", "-m", "64", "-o", "modern", "-v"],
            "ports": [{"name": "memcached", "containerPort": 11211, "protocol": "TCP"}],
            # 64 MB for items, and the program's own: full and with 1,000 clients, 1.6.18 took 72 MiB in all.
            "resources": {"requests": {"cpu": "10m", "memory": "96Mi"}, "limits": {"memory": "128Mi"}},
            "readinessProbe": {**ANSWERS, "periodSeconds": 5},
            "livenessProbe": {**ANSWERS, "periodSeconds": 10},
            # The end of the log of a server that crashes is then in its pod's status, and in ours.
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "runAsNonRoot": True,
                "runAsUser": 11211,  # the image's memcache user: a name alone cannot be checked for non-root
            },
        }
        if self.proxy:
            container["env"] = self.proxy
        pod = {
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
        """Warn where there come to be more servers than most people want: easily a slip of the finger."""
        size = new.spec.size
        if size <= MANY or (old is not None and size <= old.spec.size):
            return ()
        many = f"spec.size: {size} is a lot of servers, each of them a pod"
        return (f"{many}; be sure that you want more than {MANY}",)


def labels_of(memcached: Memcached) -> dict[str, str]:
    """The labels that select its pods. They can never change: a Deployment's selector cannot."""
    return {"app": "memcached", CR_LABEL: memcached.metadata.name}


def scaled(before: Deployment, now: Deployment) -> tuple[str, str] | None:
    """What to say of a Deployment that has another size."""
    old, new = before.spec.get("replicas"), now.spec["replicas"]
    if old == new:
        return None
    return "Scaled", f"Scaled Deployment {now.metadata.name} from {old} to {new} replicas"
