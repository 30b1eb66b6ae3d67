"""Greeting: keeps an Ingress."""

from __future__ import annotations

from manager import Context, Operator
from manager.api import READY, ObjectMeta
from manager_kinds.networking_v1 import Ingress
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting

__all__ = ["GreetingOperator"]


class GreetingOperator(Operator[Greeting]):
    """Keeps an Ingress for each Greeting."""

    owns = (Ingress,)

    async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
        """Bring one Greeting up to date."""
        ingress = await ctx.apply(self.ingress(greeting))
        greeting.status.size = greeting.spec.size
        message = f"Ingress {ingress.metadata.name} is there"
        ctx.condition(READY, True, "AsWanted", message, event="Normal")

    def ingress(self, greeting: Greeting) -> Ingress:
        """Return the desired Ingress."""
        name = greeting.metadata.name
        return Ingress(
            metadata=ObjectMeta(name=name, namespace=greeting.metadata.namespace),
            spec={"defaultBackend": {"service": {"name": name, "port": {"number": 80}}}},
        )
