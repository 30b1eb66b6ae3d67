"""Greeting: keeps a ConfigMap."""

from __future__ import annotations

from manager import Context, Operator
from manager.api import READY, ObjectMeta
from manager_kinds.core_v1 import ConfigMap
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting

__all__ = ["GreetingOperator"]


class GreetingOperator(Operator[Greeting]):
    """Keeps a ConfigMap for each Greeting."""

    owns = (ConfigMap,)

    async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
        """Bring one Greeting up to date."""
        config_map = await ctx.apply(self.config_map(greeting))
        greeting.status.size = greeting.spec.size
        message = f"ConfigMap {config_map.metadata.name} is there"
        ctx.condition(READY, True, "AsWanted", message, event="Normal")

    def config_map(self, greeting: Greeting) -> ConfigMap:
        """Return the desired ConfigMap."""
        name = greeting.metadata.name
        return ConfigMap(
            metadata=ObjectMeta(name=name, namespace=greeting.metadata.namespace),
            data={"size": str(greeting.spec.size)},
        )
