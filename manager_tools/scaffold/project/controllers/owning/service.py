"""Greeting: keeps a Service."""

from __future__ import annotations

from manager import Context, Operator
from manager.api import READY, ObjectMeta
from manager_kinds.core_v1 import Service
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting

__all__ = ["GreetingOperator"]


class GreetingOperator(Operator[Greeting]):
    """Keeps a Service for each Greeting."""

    owns = (Service,)

    async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
        """Bring one Greeting up to date."""
        service = await ctx.apply(self.service(greeting))
        greeting.status.size = greeting.spec.size
        message = f"Service {service.metadata.name} is there"
        ctx.condition(READY, True, "AsWanted", message, event="Normal")

    def service(self, greeting: Greeting) -> Service:
        """Return the desired Service."""
        name = greeting.metadata.name
        labels = {"app.kubernetes.io/name": "greeting", "app.kubernetes.io/instance": name}
        return Service(
            metadata=ObjectMeta(name=name, namespace=greeting.metadata.namespace),
            spec={"selector": labels, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
        )
