"""Greeting: keeps a Pod."""

from __future__ import annotations

from manager import Context, Operator
from manager.api import READY, ObjectMeta
from manager_kinds.core_v1 import ContainerDict, Pod
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting

__all__ = ["GreetingOperator"]


class GreetingOperator(Operator[Greeting]):
    """Keeps a Pod for each Greeting."""

    owns = (Pod,)

    async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
        """Bring one Greeting up to date."""
        pod = await ctx.apply(self.pod(greeting))
        conditions = pod.status.get("conditions", [])
        if any(each["type"] == "Ready" and each["status"] == "True" for each in conditions):
            greeting.status.size = greeting.spec.size
            ctx.condition(READY, True, "AsWanted", f"Pod {pod.metadata.name} is ready", event="Normal")
        else:
            ctx.condition(READY, False, "Starting", f"Pod {pod.metadata.name} is not ready")

    def pod(self, greeting: Greeting) -> Pod:
        """Return the desired Pod."""
        name = greeting.metadata.name
        container: ContainerDict = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
        return Pod(
            metadata=ObjectMeta(name=name, namespace=greeting.metadata.namespace),
            spec={"containers": [container]},
        )
