from __future__ import annotations

from pydantic import Field

from manager import Operator
from manager.api import Resource, Status, crd
from manager_tools.codegen.model_schema import model_schema


class LampStatus(
    Status, about="the lamp", conditions={"Lit": "there is light", "Degraded": "its bulb is broken"}
):
    watts: int | None = None
    """What it takes."""


class LedStatus(LampStatus):
    pass


class Lamp(Resource, group="test.example.com", version="v1", plural="lamps"):
    status: LampStatus = Field(default_factory=LampStatus)


@crd()
class Plain(Resource, group="test.example.com", version="v1", plural="plains"):
    status: Status = Field(default_factory=Status)


@crd()
class Bare(Resource, group="test.example.com", version="v1", plural="bares"):
    pass


def test_status_schema_lists_own_fields_before_generation_and_conditions():
    assert [*model_schema(LampStatus)["properties"]] == ["watts", "observedGeneration", "conditions"]


def test_conditions_are_described_by_what_each_type_means():
    for status in (LampStatus, LedStatus):
        conditions = model_schema(status)["properties"]["conditions"]
        assert conditions["description"] == (
            "What is known about the lamp:\nLit: there is light;\nDegraded: its bulb is broken."
        )
        assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    about_any = model_schema(Status)["properties"]["conditions"]["description"]
    assert about_any == "What is known about the object."


def test_operator_takes_the_blocking_conditions_from_the_status_model():
    class Lamps(Operator[Lamp]):
        pass

    class OnlyLit(Operator[Lamp]):
        conditions = ("Lit",)

    class Foreign(Resource, group="test.example.com", version="v1", plural="foreigns"):
        status: Status = Field(default_factory=Status)

    class Foreigns(Operator[Foreign]):
        pass

    class Plains(Operator[Plain]):
        pass

    class Bares(Operator[Bare]):
        pass

    assert Lamps.conditions == ("Lit", "Degraded")
    assert OnlyLit.conditions == ("Lit",)
    assert Plains.conditions == Bares.conditions == ("Ready",)
    assert Foreigns.conditions == ()
