"""Greeting: keeps a Namespace."""

from __future__ import annotations

from manager import Context, Operator
from manager.api import READY, ObjectMeta
from manager_kinds.core_v1 import Namespace
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting

__all__ = ["GreetingOperator"]


class GreetingOperator(Operator[Greeting]):
    """Keeps a Namespace for each Greeting."""

    owns = (Namespace,)

    async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
        """Bring one Greeting up to date."""
        namespace = await ctx.apply(self.namespace(greeting))
        greeting.status.size = greeting.spec.size
        message = f"Namespace {namespace.metadata.name} is there"
        ctx.condition(READY, True, "AsWanted", message, event="Normal")

    def namespace(self, greeting: Greeting) -> Namespace:
        """Return the desired Namespace."""
        labels = {"app.kubernetes.io/name": "greeting"}
        return Namespace(metadata=ObjectMeta(name=greeting.metadata.name, labels=labels))
