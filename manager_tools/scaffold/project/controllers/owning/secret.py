"""Greeting: keeps a Secret."""

from __future__ import annotations

from base64 import b64encode

from manager import Context, Operator
from manager.api import READY, ObjectMeta
from manager_kinds.core_v1 import Secret
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting

__all__ = ["GreetingOperator"]


class GreetingOperator(Operator[Greeting]):
    """Keeps a Secret for each Greeting."""

    owns = (Secret,)

    async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
        """Bring one Greeting up to date."""
        secret = await ctx.apply(self.secret(greeting))
        greeting.status.size = greeting.spec.size
        message = f"Secret {secret.metadata.name} is there"
        ctx.condition(READY, True, "AsWanted", message, event="Normal")

    def secret(self, greeting: Greeting) -> Secret:
        """Return the desired Secret."""
        name = greeting.metadata.name
        size = b64encode(str(greeting.spec.size).encode()).decode()
        return Secret(
            metadata=ObjectMeta(name=name, namespace=greeting.metadata.namespace),
            data={"size": size},
        )
