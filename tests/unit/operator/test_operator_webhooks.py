"""`manager_tools.testing.operated` calls the webhooks of the operator under test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from pydantic import Field

from manager import webhook
from manager.api import ApiModel, ObjectMeta, Resource, crd
from manager.kube.errors import Forbidden, Invalid, ServerError
from manager.webhook import AdmissionRequest, JsonObject, Refused
from manager_tools.testing import operated
from tests.integration.webhook.judged_operator import Judged, JudgedOperator, JudgedSpec


@crd(storage=False, status=False)
class OldJudged(Resource, group="test.example.com", version="v1alpha1", kind="Judged", plural="judgeds"):
    """Old version of Judged, in which the field `ask` has a different name."""

    class Spec(ApiModel):
        wish: str = ""
        notes: dict[str, str] = Field(default_factory=dict)

    spec: Spec = Field(default_factory=Spec)


class Versioned(JudgedOperator):
    versions = (OldJudged,)

    @webhook.validate_create
    async def judge(self, judged: Judged, request: AdmissionRequest) -> Iterable[str] | None:
        if judged.spec.ask == "forbid":
            raise Refused("not here, not now")
        return await super().judge(judged, request)

    @webhook.to_hub(OldJudged)
    async def from_v1alpha1(self, judged: JsonObject) -> None:
        rename(judged["spec"], "wish", "ask")

    @webhook.from_hub(OldJudged)
    async def to_v1alpha1(self, judged: JsonObject) -> None:
        rename(judged["spec"], "ask", "wish")


def rename(spec: Any, old: str, new: str) -> None:
    if old in spec:
        spec[new] = spec.pop(old)


def judged(name: str, ask: str = "") -> Judged:
    return Judged(metadata=ObjectMeta(name=name), spec=JudgedSpec(ask=ask))


async def test_cluster_of_the_operated_helper_calls_defaulting_and_validating_webhooks():
    async with operated(Versioned) as world:
        stored = await world.create(judged("a"))
        assert stored.spec.notes == {"asked by/~": "kubernetes-admin to CREATE"}
        with pytest.raises(Invalid, match=r'"b" is invalid: spec\.ask: .* "refuse": must not be asked'):
            await world.create(judged("b", "refuse"))
        with pytest.raises(Forbidden, match="not here, not now"):
            await world.create(judged("b", "forbid"))
        with pytest.raises(Invalid, match=r"spec\.ask: Forbidden: may not change"):
            await world.update(stored, lambda it: setattr(it.spec, "ask", "else"))
        with pytest.raises(ServerError, match=r"failed calling webhook .* unexpectedly \(LookupError\)"):
            await world.create(judged("b", "fail"))


async def test_cluster_of_the_operated_helper_converts_objects_between_api_versions():
    async with operated(Versioned) as world:
        await world.create(judged("a", "much"))
        assert (await world.get(OldJudged, "a")).spec.wish == "much"
        old = OldJudged(metadata=ObjectMeta(name="b"), spec=OldJudged.Spec(wish="refuse"))
        with pytest.raises(Invalid, match=r"spec\.ask"):
            await world.create(old)
