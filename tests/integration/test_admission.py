"""Webhook decisions of the operators, as kubectl users see them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import StartControlPlane
from tests.support.api_objects import new_namespace
from tests.support.control_plane import ControlPlane
from tests.support.envtest import BARE
from tests.support.pets import ALPHA, BETA, GROUP, alpha, beta
from tests.support.webhook_manager import Person, webhook_manager

pytestmark = pytest.mark.contract

DEPRECATED = f"{GROUP}/v1alpha1 Pet is deprecated"
NAMELESS = ({}, {"name": ""}, {"name": "A" * 254}, {"name": "\u2003"}, {"name": "A\0nn"})
UNREACHABLE = ("", "ann", "Ann <ann@example.com>", "a..n@example.com", f"{'a' * 250}@b.cd")


@pytest.fixture(scope="module")
def asked(
    module_control_plane: StartControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """Start an API server, and a manager that serves all webhooks but reconciles only MySrvs."""
    plane = module_control_plane(parts=BARE, crds=True)
    with webhook_manager(plane, tmp_path_factory.mktemp("manager"), "--controllers=mysrv"):
        yield plane


@pytest.fixture
def person(asked: ControlPlane) -> Person:
    """Return a user with a namespace."""
    return Person(asked, new_namespace(asked))


def test_webhook_normalises_pet_before_it_is_stored(person: Person):
    assert person.can("create", given=beta("thor", name="  Thor the Great\t", species="DOG")) == []
    assert person.reads(BETA, "thor")["spec"] == beta("thor", name="Thor the Great")["spec"]
    (warning,) = person.can("create", given=alpha("tron", name="\u3000Tron ", species="Cat"))
    assert warning.startswith(DEPRECATED)
    assert person.reads(ALPHA, "tron")["spec"] == alpha("tron", name="Tron", species="cat")["spec"]
    assert person.reads(BETA, "tron")["spec"] == beta("tron", name="Tron", species="cat")["spec"]


def test_pet_generation_stays_the_same_when_an_unnormalised_pet_is_applied_again(person: Person):
    for _ in range(2):
        person.can("apply", given=beta("thor", name=" Thor ", species="DOG"))
    assert person.reads(BETA, "thor")["metadata"]["generation"] == 1
    for _ in range(2):
        person.can("apply", "--server-side", given=beta("tron", name=" Tron ", species="CAT"))
    assert person.reads(BETA, "tron")["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("pet", "said"),
    [
        (beta("x", name=5), "spec.name: Invalid value"),
        (beta("x", name=""), "spec.name: Invalid value"),
        (beta("x", name=" \t"), "spec.name: Invalid value"),
        (beta("x", name=" \u2003"), "must not be blank"),
        (beta("x", name="\u00a0\x1c\x1f\x85"), "must not be blank"),
        (beta("x", name="Tho\0r"), "must not contain NUL"),
        (beta("x", name="T" * 254), "spec.name"),
        (beta("x", species=["dog"]), "spec.species: Invalid value"),
        (beta("x", species="Dragon"), 'spec.species: Unsupported value: "dragon"'),
        (beta("x", birthday="2021-02-30"), "spec.birthday"),
        ({**beta("x"), "spec": ["Thor"]}, "spec"),
        *(
            ({**beta("x"), "spec": {}}, f"spec.{field}: Required")
            for field in ("name", "species", "birthday")
        ),
        *((beta("x", owner=owner), "spec.owner: Invalid value") for owner in ("Ann", [], 7)),
        *((beta("x", owner=owner), "spec.owner.name:") for owner in NAMELESS),
        *((beta("x", owner={"name": "Ann", "email": email}), "spec.owner.email:") for email in UNREACHABLE),
        (alpha("x", name=5), "spec.name"),
        (alpha("x", species="Dragon"), 'spec.type: Unsupported value: "dragon"'),
        (alpha("x", birthday="soon"), "spec.birthday"),
        (alpha("x", birthday="2021-04-01"), "spec.birthday"),
        (alpha("x", birthday=f"2021-04-01T00:00:00.{'9' * 200}Z"), "spec.birthday"),
        (beta("x", birthday="2021-04-01T12:00:00Z"), "spec.birthday"),
    ],
    ids=lambda value: value["apiVersion"][-7:] if isinstance(value, dict) else value,
)
def test_pet_schema_refuses_an_invalid_value_and_names_the_field(
    person: Person, pet: dict[str, Any], said: str
):
    resource = ALPHA if pet["apiVersion"].endswith("v1alpha1") else BETA
    assert said in person.plane.api.refusal(person.path(resource), pet)
