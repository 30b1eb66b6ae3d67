"""Greeting: from one version to the other."""

from __future__ import annotations

from manager import Operator, webhook
from manager.webhook import JsonObject
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting
from manager_tools.scaffold.project.apis.hello.v1beta1.greeting import Greeting as GreetingV1beta1

__all__ = ["GreetingOperator"]


class GreetingOperator(Operator[Greeting]):
    """Converts between both versions."""

    versions = (GreetingV1beta1,)

    @webhook.to_hub(GreetingV1beta1)
    async def from_v1beta1(self, greeting: JsonObject) -> None:
        """Rename and compute here what v1 has otherwise than v1beta1.

        `with webhook.spec_and_annotations(greeting) as (spec, annotations)` has both to be changed.
        """

    @webhook.from_hub(GreetingV1beta1)
    async def to_v1beta1(self, greeting: JsonObject) -> None:
        """Do the reverse; an annotation keeps for the way back what v1beta1 cannot hold."""
