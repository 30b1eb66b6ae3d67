"""Greeting: keeps a Deployment at the wanted size."""

from __future__ import annotations

from manager import Context, Operator
from manager.api import READY, ObjectMeta
from manager_kinds.apps_v1 import Deployment
from manager_kinds.core_v1 import ContainerDict
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting

__all__ = ["GreetingOperator"]


class GreetingOperator(Operator[Greeting]):
    """Keeps a Deployment for each Greeting."""

    owns = (Deployment,)

    async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
        """Bring one Greeting up to date."""
        size = greeting.spec.size
        deployment = await ctx.apply(self.deployment(greeting))
        ready = greeting.status.size = deployment.ready_replicas
        message = f"{ready} of {size} pods are ready"
        if deployment.is_rolled_out(size):
            ctx.condition(READY, True, "AsWanted", message, event="Normal")
        else:
            ctx.condition(READY, False, "RollingOut", message)

    def deployment(self, greeting: Greeting) -> Deployment:
        """Return the desired Deployment."""
        name = greeting.metadata.name
        labels = {"app.kubernetes.io/name": "greeting", "app.kubernetes.io/instance": name}
        container: ContainerDict = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
        return Deployment(
            metadata=ObjectMeta(name=name, namespace=greeting.metadata.namespace),
            spec={
                "replicas": greeting.spec.size,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        )
