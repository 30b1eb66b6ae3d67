"""Registration of webhooks by an operator, and errors of invalid ones."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from manager.api import Resource
from manager.webhook import Admission, AdmissionRequest, JsonObject, RegistrationError
from manager.webhook.registration import Conversion, Webhooks
from tests.unit.webhook.reviews import OldThing, Thing


class Lonely(Resource, version="v1", plural="lonelies"):
    pass


async def default(thing: JsonObject, request: AdmissionRequest) -> None: ...


async def judge(thing: Resource, request: AdmissionRequest) -> Iterable[str] | None: ...


async def judge_change(old: Thing, new: Thing, request: AdmissionRequest) -> Iterable[str] | None: ...


async def convert(thing: JsonObject) -> None: ...


def complete_conversion() -> Conversion:
    conversion = Conversion(Thing)
    conversion.converters["to_hub", OldThing] = convert
    conversion.converters["from_hub", OldThing] = convert
    return conversion


def test_webhook_has_the_name_and_path_that_kubebuilder_gives_it_and_its_operations():
    admission = Admission(Thing)
    admission.functions["default"] = default
    admission.functions["validate_delete"] = judge
    admission.functions["validate_update"] = judge_change
    mutating, validating = admission.webhooks
    assert (mutating.operations, validating.operations) == (("CREATE", "UPDATE"), ("UPDATE", "DELETE"))
    assert (mutating.name, mutating.path) == ("mthing-v1.kb.io", "/mutate-test-example-com-v1-thing")
    assert (validating.name, validating.path) == ("vthing-v1.kb.io", "/validate-test-example-com-v1-thing")
    assert (mutating.mutating, validating.mutating) == (True, False)


@pytest.mark.parametrize("seconds", [0, 31, -1, 1.5, True])
def test_admission_refuses_timeout_seconds_beyond_1_to_30(seconds: int):
    with pytest.raises(RegistrationError, match=r"Thing.*a whole number from 1 to 30"):
        Admission(Thing, timeout_seconds=seconds)


@pytest.mark.parametrize("other", [Thing, Lonely])
def test_webhooks_refuse_a_conversion_from_all_but_another_version_of_the_kind(other: type[Resource]):
    with pytest.raises(RegistrationError, match="is not another version of the same kind"):
        Webhooks([Conversion(Thing, {("to_hub", other): convert})])


def test_webhooks_refuse_a_conversion_in_one_direction_only():
    conversion = Conversion(Thing)
    conversion.converters["to_hub", OldThing] = convert
    with pytest.raises(RegistrationError, match=r"no from_hub function for Thing\.v1alpha1"):
        Webhooks([conversion])


def test_webhooks_refuse_a_registration_without_functions():
    assert list(Admission(Thing).webhooks) == []
    with pytest.raises(RegistrationError, match="has no function"):
        Webhooks([Admission(Thing)])


def test_webhooks_refuse_two_registrations_of_one_kind():
    first, second = Admission(Thing), Admission(Thing)
    first.functions["default"] = default
    second.functions["validate_create"] = judge
    with pytest.raises(RegistrationError, match="there twice"):
        Webhooks([first, second])
    with pytest.raises(RegistrationError, match="there twice"):
        Webhooks([complete_conversion(), complete_conversion()])


def test_webhooks_are_listed_by_sort():
    admission, other = Admission(Thing), Admission(Lonely)
    admission.functions["default"] = default
    admission.functions["validate_create"] = judge
    other.functions["validate_create"] = judge
    webhooks = Webhooks([admission, other, complete_conversion()])
    assert [webhook.name for webhook in webhooks.mutating] == ["mthing-v1.kb.io"]
    assert [webhook.name for webhook in webhooks.validating] == ["vthing-v1.kb.io", "vlonely-v1.kb.io"]
    assert [conversion.hub for conversion in webhooks.conversions] == [Thing]
    assert webhooks
    assert not Webhooks([])
