from __future__ import annotations

import asyncio
import copy
import datetime
import itertools
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from apis.petstore.v1alpha1.pet import Pet as OldPet
from apis.petstore.v1beta1.pet import Pet, PetOwner
from controllers.petstore.conversion import FROM_V1BETA1
from controllers.petstore.pet import PetOperator
from manager.api import Resource
from manager.settings import SettingValues
from manager.webhook import Refused
from manager.webhook.methods import registrations
from manager_tools.testing import without_manager
from tests.support.admission import request

NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
PETS = without_manager(PetOperator)
DELETED = {"deletionTimestamp": "2026-02-28T00:00:00Z", "finalizers": ["pet.petstore.example.com/finalizer"]}
UPDATE = request(Pet, "UPDATE")


@pytest.fixture(autouse=True)
async def noon() -> None:
    """Set the clock to noon of the first of March 2026, in UTC."""
    turn_to(NOON)


def turn_to(moment: datetime.datetime) -> None:
    """Set the wall clock of the running event loop."""
    asyncio.get_running_loop().wall_clock = moment.timestamp  # type: ignore[attr-defined]


def written(
    name: Any = "Thor", species: Any = "dog", birthday: Any = "2021-04-01", **metadata: Any
) -> dict[str, Any]:
    """Return a Pet as JSON of the API server."""
    return {
        "apiVersion": Pet.gvk.api_version,
        "kind": "Pet",
        "metadata": {"name": "thor", "namespace": "default", **metadata},
        "spec": {"name": name, "species": species, "birthday": birthday},
    }


def pet(**fields: Any) -> Pet:
    return Pet.model_validate(written(**fields))


async def tidied(body: dict[str, Any], *, old: dict[str, Any] | None = None) -> Any:
    kind = request(Pet, "UPDATE" if old else "CREATE", old=old)
    await PETS.tidy(body, kind)
    return body["spec"]


def refusal_of(error: pytest.ExceptionInfo[Refused]) -> Any:
    return error.value.status(Pet.gvk, "thor")


async def test_pet_webhook_trims_whitespace_from_the_name_and_lowercases_the_species():
    # All characters that Python counts as whitespace.
    for character in filter(str.isspace, map(chr, range(sys.maxunicode + 1))):
        spec = await tidied(written(name=f"{character}Thor{character}", species="DoG"))
        assert spec == written()["spec"], hex(ord(character))


async def test_pet_webhook_keeps_a_stored_untrimmed_name_when_another_field_changes():
    old = written(name=" Thor ")
    assert (await tidied(written(name=" Thor ", birthday="2021-04-02"), old=old))["name"] == " Thor "
    assert (await tidied(written(name="  Thor "), old=old))["name"] == "Thor"


VALUES: list[Any] = [None, True, 7, 1.5, "", " Thor ", ["dog"], {"name": " Thor "}]
BODIES: list[dict[str, Any]] = [
    {},
    *({"metadata": value, "spec": value} for value in VALUES),
    *({"spec": {"name": name, "species": other, "birthday": other}} for name in VALUES for other in VALUES),
]


async def test_pet_defaulting_webhook_changes_only_name_and_species():
    for written, old in itertools.product(BODIES, [None, *BODIES]):
        body = copy.deepcopy(written)
        await PETS.tidy(body, request(Pet, "UPDATE" if old else "CREATE", old=old))
        spec, was = body.get("spec"), written.get("spec")
        if isinstance(spec, dict) and isinstance(was, dict):
            for key in ("name", "species"):
                if isinstance(was.get(key), str):
                    spec[key] = was[key]
        assert body == written


@pytest.mark.parametrize(
    ("birthday", "why"),
    [
        ("2026-03-02", "must not be in the future (it is 2026-03-01 in UTC)"),
        ("2999-01-01", "must not be in the future (it is 2026-03-01 in UTC)"),
        ("1899-12-31", "must not be before 1900-01-01"),
        ("0001-01-01", "must not be before 1900-01-01"),
    ],
)
async def test_pet_validator_error_for_birthday_out_of_range_names_field_and_reason(birthday: str, why: str):
    with pytest.raises(Refused) as error:
        await PETS.judge(None, pet(birthday=birthday), request(Pet))
    status = refusal_of(error)
    assert (status["code"], status["reason"]) == (422, "Invalid")
    said = f'Pet.petstore.example.com "thor" is invalid: spec.birthday: Invalid value: "{birthday}": {why}'
    assert status["message"] == said
    (cause,) = status["details"]["causes"]
    assert (cause["field"], cause["reason"]) == ("spec.birthday", "FieldValueInvalid")


async def test_pet_validator_compares_the_birthday_with_the_current_day_in_utc():
    new_year = datetime.datetime(2027, 1, 1, tzinfo=datetime.UTC)
    turn_to(new_year - datetime.timedelta(seconds=1))
    with pytest.raises(Refused):
        await PETS.judge(None, pet(birthday="2027-01-01"), request(Pet))
    turn_to(new_year)
    await PETS.judge(None, pet(birthday="2027-01-01"), request(Pet))


@pytest.mark.parametrize(
    "birthday", ["0000-01-01", "0000-01-01T00:00:00Z", f"9999-12-31T23:59:59.{'9' * 900}-01:00"]
)
async def test_pet_validator_refusal_shortens_the_value_of_an_invalid_birthday(birthday: str):
    with pytest.raises(Refused, match="must be a day of the calendar") as error:
        await PETS.judge(None, pet(birthday=birthday), request(Pet))
    assert birthday[:64] in str(error.value)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        *(
            ({"birthday": each}, {"birthday": each, "name": "Thorbert", "labels": {"good": "yes"}}, None)
            for each in ("2999-01-01", "1899-12-31", "0000-01-01T00:00:00Z")
        ),
        ({}, {"birthday": "2999-01-01"}, "in the future"),
        ({"birthday": "2999-01-01"}, {"birthday": "1800-01-01"}, "before 1900-01-01"),
        ({"birthday": "2999-01-01"}, {}, None),
        # A Pet that is being deleted is accepted, without a warning about its species.
        (
            {"birthday": "2999-01-01", **DELETED},
            {"birthday": "2998-01-01", "species": "cat", **DELETED, "finalizers": []},
            None,
        ),
    ],
)
async def test_pet_validator_checks_a_birthday_only_if_it_changed_and_the_pet_is_not_terminating(
    old: dict[str, Any], new: dict[str, Any], why: str | None
):
    if why is None:
        assert list(await PETS.judge(pet(**old), pet(**new), UPDATE)) == []
    else:
        with pytest.raises(Refused, match=why):
            await PETS.judge(pet(**old), pet(**new), UPDATE)


@pytest.mark.parametrize(("version", "field"), [(Pet, "species"), (OldPet, "type")])
async def test_pet_validator_warning_names_the_species_field_of_the_requested_version(
    version: type[Resource], field: str
):
    asked = request(Pet, "UPDATE", requested=version.gvk)
    (warning,) = await PETS.judge(pet(), pet(species="cat"), asked)
    assert warning.startswith(f"spec.{field}: changed from dog to cat; ")
    # The API server may cut several long warnings to 256 characters each.
    assert len(warning) < 256


def test_pet_operator_registers_its_webhooks_even_if_it_is_disabled_and_has_no_settings():
    manager: Any = SimpleNamespace(
        client=SimpleNamespace(named=lambda name, **_: None), settings=SettingValues()
    )
    assert len(list(registrations(PetOperator(manager)))) == 2


def annotated(size: int, **fields: Any) -> Pet:
    """Return a Pet with `spec.owner`, and with annotations of `size` bytes."""
    found = pet(annotations={"a": "x" * (size - 1)}, **fields)
    found.spec.owner = PetOwner(name="Ann")
    return found


async def test_pet_webhook_accepts_deeply_nested_managed_fields():
    nested: dict[str, Any] = {}
    for _ in range(900):
        nested = {"f:a": nested}
    taken = pet(managedFields=[{"manager": "m", "fieldsV1": nested}])
    await PETS.judge(None, taken, request(Pet))
    await PETS.judge(annotated(1), taken, UPDATE)


async def test_pet_validator_refuses_annotations_that_leave_no_room_for_the_conversion_annotation():
    await PETS.judge(None, annotated(255_000), request(Pet))
    with pytest.raises(Refused, match=r"metadata\.annotations: .* 256 KiB"):
        await PETS.judge(None, annotated(260_000), request(Pet))
    # The conversion annotation is JSON, in which a control character takes six bytes.
    taken = pet(annotations={FROM_V1BETA1: "\1" * 45_000})
    taken.spec.owner = PetOwner(name="Ann")
    with pytest.raises(Refused, match="annotations"):
        await PETS.judge(None, taken, request(Pet))


async def test_pet_validator_checks_the_annotation_size_only_if_the_spec_changed_or_the_annotations_grew():
    full = annotated(262_144)
    await PETS.judge(full, full, UPDATE)
    await PETS.judge(full, annotated(262_000), UPDATE)
    await PETS.judge(full, annotated(262_144, **DELETED), UPDATE)
    with pytest.raises(Refused, match="annotations"):
        await PETS.judge(annotated(255_000), full, UPDATE)
    # A v1alpha1 client omits the owner, because that version does not show it.
    with pytest.raises(Refused, match="annotations"):
        await PETS.judge(full, pet(annotations=full.metadata.annotations), UPDATE)
