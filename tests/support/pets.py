"""Pets as the integration tests make and look at them, and what the store has of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.support.api_objects import condition, object_path
from tests.support.petstore_process import petstore

if TYPE_CHECKING:
    from tests.support.control_plane import ControlPlane

API = "petstore.example.com/v1alpha1"
BIRTHDAY = "2021-04-01T00:00:00Z"


def pet(object_name: str, name: str = "Thor", kind: str = "dog", birthday: str = BIRTHDAY) -> dict[str, Any]:
    """A Pet, as a user would write it."""
    return {
        "apiVersion": API,
        "kind": "Pet",
        "metadata": {"name": object_name},
        "spec": {"name": name, "type": kind, "birthday": birthday},
    }


def pet_path(namespace: str, name: str = "") -> str:
    """The path of one Pet, or of all in the namespace."""
    return object_path(API, namespace, "pets", name)


def records(address: str) -> list[dict[str, str]]:
    """What the store at `address` has, as people see it: id, name, type, birthday."""
    found = petstore("search", f"--address={address}", "-o", "json")
    assert found.returncode == 0, found.stderr
    parsed = json.loads(found.stdout)
    return list(parsed)


def assert_in_step(plane: ControlPlane, namespace: str, address: str) -> None:
    """Each Pet is ready, and the store has just one record for each, with what the Pet says, and no other."""
    pets = plane.api.get(pet_path(namespace))["items"]
    for each in pets:
        ready = condition(each, "Ready")
        assert ready["status"] == "True", ready
        assert ready["observedGeneration"] == each["metadata"]["generation"]
    wanted = {
        (each["status"]["id"], each["spec"]["name"], each["spec"]["type"], each["spec"]["birthday"][:10])
        for each in pets
    }
    there = [(each["id"], each["name"], each["type"], each["birthday"]) for each in records(address)]
    assert sorted(there) == sorted(wanted)
    assert len(wanted) == len(pets), "two Pets share a record"
