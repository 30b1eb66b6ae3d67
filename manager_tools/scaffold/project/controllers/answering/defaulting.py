"""Defaulting of a Greeting."""

from __future__ import annotations

from manager import Operator, webhook
from manager.webhook import AdmissionRequest, JsonObject
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting

__all__ = ["GreetingOperator"]


class GreetingOperator(Operator[Greeting]):
    """Fills in what is missing."""

    @webhook.default
    async def fill_in(self, greeting: JsonObject, _: AdmissionRequest) -> None:
        """Fill in what the schema cannot, here a label. No schema has seen the object yet."""
        labels = greeting["metadata"].setdefault("labels", {})
        labels.setdefault("app.kubernetes.io/part-of", "hello")
