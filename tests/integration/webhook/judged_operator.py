"""A program with one operator, whose webhooks do what each object asks them to.

python -m tests.integration.webhook.judged_operator run ...
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from typing import Any

from pydantic import Field

from manager import Operator, webhook
from manager.api import ApiModel, Resource, crd
from manager.cli import main
from manager.tls import served
from manager.webhook import (
    AdmissionRequest,
    JsonObject,
    Refused,
    forbidden,
    invalid,
)

__all__ = ["Judged", "JudgedOperator", "OldJudged"]


class JudgedSpec(ApiModel):
    """Verdict that the object requests from its webhook."""

    ask: str = ""
    """"refuse", "forbid", "warn", "fail" or "dawdle"; anything else is accepted."""
    notes: dict[str, str] = Field(default_factory=dict)


@crd(status=False)
class Judged(Resource, group="test.example.com", version="v1", plural="judgeds"):
    """An object that is judged as it asks to be."""

    spec: JudgedSpec = Field(default_factory=JudgedSpec)


@crd(storage=False, status=False)
class OldJudged(Resource, group="test.example.com", version="v1alpha1", kind="Judged", plural="judgeds"):
    """Old version, with another name for the requested verdict."""

    class Spec(ApiModel):
        """Verdict that the object requests from its webhook."""

        wish: str = ""
        notes: dict[str, str] = Field(default_factory=dict)

    spec: Spec = Field(default_factory=Spec)


class JudgedOperator(Operator[Judged]):
    """Operator that judges each object as its spec requests, and reconciles nothing."""

    versions = (OldJudged,)
    admission = webhook.AdmissionOptions(timeout_seconds=2)

    @webhook.default
    async def note(self, judged: JsonObject, request: AdmissionRequest) -> None:
        """Leave a trace, with a name that has to be escaped in a patch."""
        spec = judged.get("spec")
        if isinstance(spec, dict):
            notes = spec.setdefault("notes", {})
            if isinstance(notes, dict):
                notes["asked by/~"] = f"{request.user.name} to {request.operation}"

    @webhook.validate_create
    async def judge(self, judged: Judged, request: AdmissionRequest) -> Iterable[str] | None:
        """Do as the object asks."""
        match judged.spec.ask:
            case "refuse":
                raise Refused(invalid("spec.ask", judged.spec.ask, "must not be asked"))
            case "forbid":
                raise Refused("not here, not now")
            case "warn":
                return [f"careful with {judged.metadata.name}"]
            case "fail":
                raise LookupError(judged.spec.ask)
            case "dawdle":
                await asyncio.sleep(60)
        return None

    @webhook.validate_update
    async def judge_change(self, old: Judged, new: Judged, request: AdmissionRequest) -> Iterable[str] | None:
        """Refuse only what is new."""
        if old.spec.ask != new.spec.ask:
            raise Refused(forbidden("spec.ask", "may not change"))
        return None

    @webhook.validate_delete
    async def judge_end(self, judged: Judged, request: AdmissionRequest) -> Iterable[str] | None:
        return [f"{judged.metadata.name} is gone for good"]

    @webhook.to_hub(OldJudged)
    async def from_v1alpha1(self, judged: JsonObject) -> None:
        """Rename `wish` to `ask`."""
        _rename(judged, "wish", "ask")

    @webhook.from_hub(OldJudged)
    async def to_v1alpha1(self, judged: JsonObject) -> None:
        """Rename `ask` to `wish`."""
        _rename(judged, "ask", "wish")


def _rename(judged: JsonObject, old: str, new: str) -> None:
    spec: Any = judged.get("spec")
    if isinstance(spec, dict) and old in spec:
        spec[new] = spec.pop(old)


if __name__ == "__main__":
    served.RECHECK_INTERVAL = 0.5  # a test waits for it
    sys.exit(main(sys.argv[1:], [JudgedOperator], name="operator-manager", version="1"))
