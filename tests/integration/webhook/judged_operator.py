"""A program with one operator, whose webhooks decide as each object's spec requests.

python -m tests.integration.webhook.judged_operator run ...
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable

from pydantic import Field

from manager import Operator, webhook
from manager.api import ApiModel, Resource, crd
from manager.cli import main
from manager.webhook import (
    AdmissionRequest,
    JsonObject,
    Refused,
    forbidden,
    invalid,
)

__all__ = ["Judged", "JudgedOperator"]


class JudgedSpec(ApiModel):
    """Decision that the object requests from its webhook."""

    ask: str = ""
    """"refuse", "warn", "fail" or "dawdle"; anything else is accepted."""
    notes: dict[str, str] = Field(default_factory=dict)


@crd(status=False)
class Judged(Resource, group="test.example.com", version="v1", plural="judgeds"):
    """An object whose spec determines the decision of its webhook."""

    spec: JudgedSpec = Field(default_factory=JudgedSpec)


class JudgedOperator(Operator[Judged]):
    """Operator whose webhooks decide as the object's spec requests; it reconciles nothing."""

    admission = webhook.AdmissionOptions(timeout_seconds=2)

    @webhook.default
    async def note(self, judged: JsonObject, request: AdmissionRequest) -> None:
        """Add an annotation whose name needs escapes in a JSON patch."""
        spec = judged.get("spec")
        if isinstance(spec, dict):
            notes = spec.setdefault("notes", {})
            if isinstance(notes, dict):
                notes["asked by/~"] = f"{request.user.name} to {request.operation}"

    @webhook.validate_create
    async def judge(self, judged: Judged, request: AdmissionRequest) -> Iterable[str] | None:
        """Decide as `spec.ask` requests."""
        match judged.spec.ask:
            case "refuse":
                raise Refused(invalid("spec.ask", judged.spec.ask, "must not be asked"))
            case "warn":
                return [f"careful with {judged.metadata.name}"]
            case "fail":
                raise LookupError(judged.spec.ask)
            case "dawdle":
                await asyncio.sleep(60)
        return None

    @webhook.validate_update
    async def judge_change(self, old: Judged, new: Judged, request: AdmissionRequest) -> Iterable[str] | None:
        """Refuse a change of `spec.ask`."""
        if old.spec.ask != new.spec.ask:
            raise Refused(forbidden("spec.ask", "may not change"))
        return None

    @webhook.validate_delete
    async def judge_end(self, judged: Judged, request: AdmissionRequest) -> Iterable[str] | None:
        return [f"{judged.metadata.name} is gone for good"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], [JudgedOperator], name="operator-manager", version="1"))
