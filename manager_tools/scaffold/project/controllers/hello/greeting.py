"""Greeting operator: it makes the cluster match the spec of each Greeting."""

from __future__ import annotations

from manager import Context, Operator
from manager.api import READY
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting

__all__ = ["GreetingOperator"]


class GreetingOperator(Operator[Greeting]):
    """The operator that makes the cluster match the spec of each Greeting."""

    async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
        """Reconcile one Greeting."""
        size = greeting.spec.size
        greeting.status.size = size
        ctx.condition(READY, True, "AsWanted", f"{size} of {size} are there", event="Normal")
