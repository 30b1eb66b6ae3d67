"""Memcached: keeps a Deployment of memcached servers at the wanted size, and reports its pods."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from apis.cache.v1.memcached import Memcached
from controllers.adoption import NotWanted
from controllers.announcing import announce
from controllers.applying import apply_child
from controllers.cache.settings import MEMCACHED_IMAGE
from controllers.conditions import condition, is_news
from controllers.proxy import proxy_environment
from controllers.rollouts import failure_of, is_available, is_rolled_out
from controllers.settings import PROXY_CREDENTIALS
from controllers.taken_names import LEFT_OVER, NAME_TAKEN, is_left_over, left_over
from manager import clock
from manager.api import Condition, ObjectMeta, set_condition
from manager.api.apps_v1 import Deployment
from manager.api.core_v1 import Pod
from manager.cache import Meta
from manager.client import Applied, Client, OwnedByOther
from manager.controller import (
    ControllerBuilder,
    ControllerOptions,
    Request,
    Result,
    any_of,
    created_or_deleted,
    deleted,
    label_changed,
)
from manager.events import EventRecorder
from manager.manager import Manager
from manager.rbac import rbac

__all__ = ["KINDS", "RECONCILERS", "MemcachedReconciler", "setup"]

# The label that ties a pod to its Memcached; the pod watch is mapped by it.
CR_LABEL = "memcached_cr"


@rbac(groups="cache.example.com", resources="memcacheds", verbs="get;list;watch")
@rbac(groups="cache.example.com", resources="memcacheds/status", verbs="patch")
@rbac(groups="cache.example.com", resources="memcacheds/finalizers", verbs="update")
@rbac(groups="apps", resources="deployments", verbs="get;list;watch;create;patch")
# Nothing is ever deleted here; but its owner is given back to what has lost it.
@rbac(groups="apps", resources="deployments", verbs="delete", owner_references=True)
@rbac(groups="", resources="pods", verbs="list;watch")
@rbac(groups="", resources="events", verbs="create;patch")
class MemcachedReconciler:
    """Brings a Memcached's Deployment to the wanted state, and its status to what is seen."""

    def __init__(
        self, client: Client, events: EventRecorder, *, image: str, proxy: Sequence[Mapping[str, str]]
    ) -> None:
        self.client = client
        self.events = events
        self.image = image
        self.proxy = list(proxy)

    async def reconcile(self, request: Request) -> Result | None:
        """Bring one Memcached up to date."""
        memcached = await self.client.find(Memcached, request)
        if memcached is None or memcached.metadata.deletion_timestamp is not None:
            return None  # its Deployment is garbage-collected by owner reference
        try:
            applied = await apply_child(self.client, self.deployment(memcached), owner=memcached)
        except NotWanted:
            return None
        except OwnedByOther as error:
            if is_left_over(error.controller, memcached):
                await self.report_left_over(memcached, error)
            else:
                await self.report_taken(memcached, error)
            return None
        self.announce(memcached, applied)
        await self.report(memcached, applied.object)
        return None

    def deployment(self, memcached: Memcached) -> Deployment:
        """The wanted Deployment: only the fields that are ours."""
        labels = labels_of(memcached)
        container: dict[str, Any] = {
            "name": "memcached",
            "image": memcached.spec.image or self.image,
            "command": ["memcached", "-m=64", "-o", "modern", "-v"],
            "ports": [{"name": "memcached", "containerPort": 11211, "protocol": "TCP"}],
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "runAsNonRoot": True,
                "runAsUser": 11211,  # the image's memcache user: a name alone cannot be checked for non-root
            },
        }
        if self.proxy:
            container["env"] = self.proxy
        return Deployment(
            metadata=ObjectMeta(
                name=memcached.metadata.name, namespace=memcached.metadata.namespace, labels=labels
            ),
            spec={
                "replicas": memcached.spec.size,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "automountServiceAccountToken": False,
                        "enableServiceLinks": False,
                        "securityContext": {
                            "runAsNonRoot": True,
                            "seccompProfile": {"type": "RuntimeDefault"},
                        },
                        "containers": [container],
                    },
                },
            },
        )

    async def report(self, memcached: Memcached, deployment: Deployment) -> None:
        """Write what is seen of the pods and the Deployment to the status, if it differs."""
        pods = await self.client.metadata.list(
            Pod, namespace=memcached.metadata.namespace, labels=labels_of(memcached)
        )
        status = memcached.status
        status.nodes = sorted(pod.metadata.name for pod in pods if pod.metadata.deletion_timestamp is None)
        status.replicas = deployment.status.replicas
        status.ready_replicas = deployment.status.ready_replicas
        await self.write(memcached, observed_conditions(memcached, deployment))

    async def report_taken(self, memcached: Memcached, error: OwnedByOther) -> None:
        """Say that the Deployment's name belongs to somebody else."""
        message = f"{error}; it is left alone, and no memcached runs"
        if is_news(memcached.status.conditions, "Degraded", message):
            self.events.event(memcached, "Warning", NAME_TAKEN, message)
        await self.write_empty(
            memcached,
            [
                condition(memcached, "Available", "False", NAME_TAKEN, message),
                condition(memcached, "Progressing", "False", NAME_TAKEN, message),
                condition(memcached, "Degraded", "True", NAME_TAKEN, message),
            ],
        )

    async def report_left_over(self, memcached: Memcached, error: OwnedByOther) -> None:
        """Say that an earlier Memcached's Deployment is still there; when it has gone, an event tells."""
        message = left_over(f"{error.kind} {error.key.name}", memcached)
        await self.write_empty(
            memcached,
            [
                condition(memcached, "Available", "False", LEFT_OVER, message),
                condition(memcached, "Progressing", "True", LEFT_OVER, message),
                condition(memcached, "Degraded", "False", "AsExpected", ""),
            ],
        )

    async def write_empty(self, memcached: Memcached, conditions: Iterable[Condition]) -> None:
        """Write that nothing runs, and why."""
        status = memcached.status
        status.nodes, status.replicas, status.ready_replicas = [], 0, 0
        await self.write(memcached, conditions)

    async def write(self, memcached: Memcached, conditions: Iterable[Condition]) -> None:
        """Complete the status and send it, if it differs."""
        status = memcached.status
        now = clock.now()
        for each in conditions:
            set_condition(status.conditions, each, now=now)
        status.observed_generation = memcached.metadata.generation
        status.selector = ",".join(f"{name}={value}" for name, value in labels_of(memcached).items())
        await self.client.status.report(memcached)

    def announce(self, memcached: Memcached, applied: Applied[Deployment]) -> None:
        """Tell a person what was done, once."""
        name, size = applied.object.metadata.name, memcached.spec.size
        before = size if applied.previous is None else applied.previous.spec.get("replicas")
        scaled = ("Scaled", f"Scaled Deployment {name} from {before} to {size} replicas")
        announce(
            self.events,
            memcached,
            applied,
            observed_generation=memcached.status.observed_generation,
            created=f" with {size} replicas",
            changed=scaled if before != size else None,
        )


def labels_of(memcached: Memcached) -> dict[str, str]:
    return {"app": "memcached", CR_LABEL: memcached.metadata.name}


def observed_conditions(memcached: Memcached, deployment: Deployment) -> Iterator[Condition]:
    """The conditions that follow from the Deployment as the cluster reports it."""
    size, ready = memcached.spec.size, deployment.status.ready_replicas
    progress = f"{ready} of {size} replicas are ready"

    if is_available(deployment):
        yield condition(memcached, "Available", "True", "EnoughReady", progress)
    else:
        yield condition(memcached, "Available", "False", "NotEnoughReady", progress)

    if is_rolled_out(deployment, size):
        yield condition(memcached, "Progressing", "False", "RolledOut", progress)
    else:
        yield condition(memcached, "Progressing", "True", "RollingOut", progress)

    failure = failure_of(deployment)
    if failure is not None:
        yield condition(memcached, "Degraded", "True", failure.reason, failure.message)
    else:
        yield condition(memcached, "Degraded", "False", "AsExpected", "")


def of_label(pod: Meta) -> Iterator[Request]:
    """A pod's Memcached, by label."""
    name = pod.labels.get(CR_LABEL)
    if name:
        yield Request(pod.namespace, name)


def of_name(deployment: Meta) -> Iterator[Request]:
    """The Memcached whose name a Deployment had: it may be waiting for that name."""
    yield Request(deployment.namespace, deployment.name)


def setup(manager: Manager, options: ControllerOptions) -> None:
    """Wire the controller up."""
    client, image = manager.client.named("memcached"), manager.settings[MEMCACHED_IMAGE]
    proxy = proxy_environment(os.environ, credentials=manager.settings[PROXY_CREDENTIALS])
    (
        ControllerBuilder(manager, Memcached)
        .owns(Deployment)
        .watches(Deployment, map_to=of_name, predicates=[deleted])
        .watches(
            Pod, map_to=of_label, predicates=[any_of(created_or_deleted, label_changed)], metadata_only=True
        )
        .skips_own_writes()
        .options(options)
        .complete(MemcachedReconciler(client, manager.events, image=image, proxy=proxy))
    )


KINDS = (Memcached,)
RECONCILERS = (MemcachedReconciler,)
