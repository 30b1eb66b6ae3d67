"""Greeting: brings what is there to what is wanted."""

from __future__ import annotations

from manager import Context, Operator
from manager.api import READY
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting

__all__ = ["GreetingOperator"]


class GreetingOperator(Operator[Greeting]):
    """Brings what is there of each Greeting to what is wanted."""

    async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
        """Bring one Greeting up to date."""
        size = greeting.spec.size
        greeting.status.size = size
        ctx.condition(READY, True, "AsWanted", f"{size} of {size} are there", event="Normal")
