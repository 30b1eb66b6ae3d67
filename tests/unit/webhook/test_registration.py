"""Registration of webhooks by an operator, and errors of invalid registrations."""

from __future__ import annotations

from typing import Any

import pytest

from manager.api import Resource
from manager.webhook import Admission, JsonObject, RegistrationError
from manager.webhook.registration import Conversion, Role, Webhooks
from tests.unit.webhook.reviews import OldThing, Thing


class Lonely(Resource, version="v1", plural="lonelies"):
    pass


async def convert(thing: JsonObject) -> None: ...


def complete_conversion() -> Conversion:
    return Conversion(Thing, {("to_hub", OldThing): convert, ("from_hub", OldThing): convert})


@pytest.mark.parametrize("seconds", [0, 31, -1, 1.5, True])
def test_admission_refuses_timeout_seconds_outside_1_to_30(seconds: int):
    with pytest.raises(RegistrationError, match=r"Thing.*a whole number from 1 to 30"):
        Admission(Thing, timeout_seconds=seconds)


def registered(role: Role) -> Admission[Any]:
    admission = Admission(Thing)
    admission.functions[role] = convert
    return admission


@pytest.mark.parametrize(
    ("registrations", "why"),
    [
        ([Conversion(Thing, {("to_hub", Thing): convert})], "is not another version of the same kind"),
        ([Conversion(Thing, {("to_hub", Lonely): convert})], "is not another version of the same kind"),
        ([Conversion(Thing, {("to_hub", OldThing): convert})], r"no from_hub function for Thing\.v1alpha1"),
        ([Admission(Thing)], "has no function"),
        ([registered("default"), registered("validate_create")], "registered twice"),
        ([complete_conversion(), complete_conversion()], "registered twice"),
    ],
)
def test_webhooks_refuse_incomplete_and_duplicate_registrations(registrations: list[Any], why: str):
    with pytest.raises(RegistrationError, match=why):
        Webhooks(registrations)
