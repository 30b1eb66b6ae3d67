"""Greeting: what is refused when one is written."""

from __future__ import annotations

from collections.abc import Iterable

from manager import Operator, webhook
from manager.scaffold.project.apis.hello.v1.greeting import Greeting
from manager.webhook import AdmissionRequest, Refused, invalid

__all__ = ["GreetingOperator"]


class GreetingOperator(Operator[Greeting]):
    """Refuses what is wrong."""

    @webhook.validate_create
    async def check(self, greeting: Greeting, _: AdmissionRequest) -> Iterable[str] | None:
        """Refuse what the schema cannot, here a name that no Service may have; warnings are returned."""
        name = greeting.metadata.name
        if "." in name:
            raise Refused(invalid("metadata.name", name, "must not contain a dot"))
        return None

    @webhook.validate_update
    async def check_change(
        self,
        old: Greeting,
        new: Greeting,
        request: AdmissionRequest,
    ) -> Iterable[str] | None:
        """Judge what a change brings: an object that was wrong before has to be changed and to go, too."""
        return None if new.spec == old.spec else await self.check(new, request)
