"""Conversion of a Greeting between its two versions."""

from __future__ import annotations

from manager import Operator, webhook
from manager.webhook import JsonObject
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting
from manager_tools.scaffold.project.apis.hello.v1beta1.greeting import Greeting as GreetingV1beta1

__all__ = ["GreetingOperator"]


class GreetingOperator(Operator[Greeting]):
    """Methods that convert a Greeting between its two versions."""

    versions = (GreetingV1beta1,)

    @webhook.to_hub(GreetingV1beta1)
    async def from_v1beta1(self, greeting: JsonObject) -> None:
        """Convert the fields that v1 names or computes in another way than v1beta1.

        Use `with webhook.spec_and_annotations(greeting) as (spec, annotations)` to change spec and
        annotations.
        """

    @webhook.from_hub(GreetingV1beta1)
    async def to_v1beta1(self, greeting: JsonObject) -> None:
        """Convert in the other direction; store values that v1beta1 cannot express in an annotation."""
