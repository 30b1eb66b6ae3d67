"""A program with one operator, whose webhooks do what each object asks them to.

python -m tests.integration.webhook.judged_operator run ...
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import Field

from manager.api import ApiModel, Resource, crd
from manager.cli import Operator, main
from manager.tls import served
from manager.webhook import (
    Admission,
    AdmissionRequest,
    Conversion,
    JsonObject,
    Refused,
    forbidden,
    invalid,
)

if TYPE_CHECKING:
    from manager.controller import ControllerOptions
    from manager.manager import Manager

__all__ = ["WEBHOOKS", "Judged", "OldJudged"]


class JudgedSpec(ApiModel):
    """What is to become of the object."""

    ask: str = ""
    """"refuse", "forbid", "warn", "fail" or "dawdle"; anything else is accepted."""
    notes: dict[str, str] = Field(default_factory=dict)


@crd(status=False)
class Judged(Resource, group="test.example.com", version="v1", plural="judgeds"):
    """An object that is judged as it asks to be."""

    spec: JudgedSpec = Field(default_factory=JudgedSpec)


@crd(storage=False, status=False)
class OldJudged(Resource, group="test.example.com", version="v1alpha1", kind="Judged", plural="judgeds"):
    """The same, with another name for what it asks for."""

    class Spec(ApiModel):
        """What is to become of the object."""

        wish: str = ""
        notes: dict[str, str] = Field(default_factory=dict)

    spec: Spec = Field(default_factory=Spec)


admission = Admission(Judged, timeout_seconds=2)
conversion = Conversion(Judged)


@admission.default
async def note(judged: JsonObject, request: AdmissionRequest) -> None:
    """Leave a trace, with a name that has to be escaped in a patch."""
    spec = judged.get("spec")
    if isinstance(spec, dict):
        notes = spec.setdefault("notes", {})
        if isinstance(notes, dict):
            notes["asked by/~"] = f"{request.user.name} to {request.operation}"


@admission.validate_create
async def judge(judged: Judged, request: AdmissionRequest) -> Iterable[str] | None:
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


@admission.validate_update
async def judge_change(old: Judged, new: Judged, request: AdmissionRequest) -> Iterable[str] | None:
    """Refuse only what is new."""
    if old.spec.ask != new.spec.ask:
        raise Refused(forbidden("spec.ask", "may not change"))
    return None


@admission.validate_delete
async def judge_end(judged: Judged, request: AdmissionRequest) -> Iterable[str] | None:
    """Warn of the end."""
    return [f"{judged.metadata.name} is gone for good"]


@conversion.to_hub(OldJudged)
async def from_v1alpha1(judged: JsonObject) -> None:
    """`wish` is `ask`."""
    _rename(judged, "wish", "ask")


@conversion.from_hub(OldJudged)
async def to_v1alpha1(judged: JsonObject) -> None:
    """`ask` is `wish`."""
    _rename(judged, "ask", "wish")


def _rename(judged: JsonObject, old: str, new: str) -> None:
    spec: Any = judged.get("spec")
    if isinstance(spec, dict) and old in spec:
        spec[new] = spec.pop(old)


KINDS = (Judged, OldJudged)
RECONCILERS = ()
WEBHOOKS = (admission, conversion)


def setup(manager: Manager, options: ControllerOptions) -> None:
    """It has no controller."""


if __name__ == "__main__":
    served.RECHECK_INTERVAL = 0.5  # a test waits for it
    this = "tests.integration.webhook.judged_operator"
    sys.exit(
        main(sys.argv[1:], [Operator("judged", this, webhooks=this)], name="operator-manager", version="1")
    )
