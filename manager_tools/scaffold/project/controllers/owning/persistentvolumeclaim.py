"""Greeting: keeps a PersistentVolumeClaim."""

from __future__ import annotations

from manager import Context, Operator
from manager.api import READY, ObjectMeta
from manager_kinds.core_v1 import PersistentVolumeClaim
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting

__all__ = ["GreetingOperator"]


class GreetingOperator(Operator[Greeting]):
    """Keeps a PersistentVolumeClaim for each Greeting."""

    owns = (PersistentVolumeClaim,)

    async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
        """Bring one Greeting up to date."""
        claim = await ctx.apply(self.claim(greeting))
        greeting.status.size = greeting.spec.size
        message = f"PersistentVolumeClaim {claim.metadata.name} is {claim.status.get('phase', 'Pending')}"
        ctx.condition(READY, True, "AsWanted", message, event="Normal")

    def claim(self, greeting: Greeting) -> PersistentVolumeClaim:
        """Return the desired PersistentVolumeClaim."""
        name = greeting.metadata.name
        return PersistentVolumeClaim(
            metadata=ObjectMeta(name=name, namespace=greeting.metadata.namespace),
            spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        )
