"""Default values of a Greeting, set by a webhook."""

from __future__ import annotations

from manager import Operator, webhook
from manager.webhook import AdmissionRequest, JsonObject
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting

__all__ = ["GreetingOperator"]


class GreetingOperator(Operator[Greeting]):
    """Method that sets missing values of a Greeting."""

    @webhook.default
    async def fill_in(self, greeting: JsonObject, _: AdmissionRequest) -> None:
        """Set a default that the schema cannot express, here a label; the object is not validated yet."""
        labels = greeting["metadata"].setdefault("labels", {})
        labels.setdefault("app.kubernetes.io/part-of", "hello")
