"""Validation of a Greeting by a webhook."""

from __future__ import annotations

from collections.abc import Iterable

from manager import Operator, webhook
from manager.webhook import AdmissionRequest, Refused, invalid
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting

__all__ = ["GreetingOperator"]


class GreetingOperator(Operator[Greeting]):
    """Method that refuses an invalid Greeting."""

    @webhook.validate_create
    @webhook.validate_update
    async def check(self, old: Greeting | None, new: Greeting, _: AdmissionRequest) -> Iterable[str] | None:
        """Refuse a name that the schema allows, but that is invalid for a Service; return warnings.

        Check only what a request changes, so that an invalid stored object can still be corrected or deleted.
        """
        name = new.metadata.name
        if old is None and "." in name:
            raise Refused(invalid("metadata.name", name, "must not contain a dot"))
        return None
