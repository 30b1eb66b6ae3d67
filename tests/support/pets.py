"""Pets in both API versions, and the records of the pet store."""

from __future__ import annotations

from typing import Any

import grpc

from petstore.pet import Pet as Record
from petstore.proto import petstore_pb2 as pb
from petstore.proto.petstore_pb2_grpc import PetStoreStub
from petstore.wire import read_pet
from tests.support.api_objects import condition, manifest, object_path
from tests.support.control_plane import ControlPlane

GROUP = "petstore.example.com"
API, OLD_API = f"{GROUP}/v1beta1", f"{GROUP}/v1alpha1"
BIRTHDAY = "2021-04-01"
BETA, ALPHA = f"pets.v1beta1.{GROUP}", f"pets.v1alpha1.{GROUP}"
"""kubectl's names of the resource in each version."""


def pet(
    object_name: str, name: str = "Thor", species: str = "dog", birthday: str = BIRTHDAY
) -> dict[str, Any]:
    return manifest(API, "Pet", object_name, name=name, species=species, birthday=birthday)


def beta(object_name: str, **fields: Any) -> dict[str, Any]:
    """Return a v1beta1 Pet; `fields` set its spec and may be invalid."""
    written = pet(object_name)
    written["spec"] |= fields
    return written


def alpha(
    object_name: str, name: Any = "Thor", species: Any = "dog", birthday: Any = "2021-04-01T00:00:00Z"
) -> dict[str, Any]:
    """Return a v1alpha1 Pet; the values may be invalid."""
    return manifest(OLD_API, "Pet", object_name, name=name, type=species, birthday=birthday)


def pet_path(namespace: str, name: str = "") -> str:
    return object_path(API, namespace, "pets", name)


def records(address: str) -> list[dict[str, str]]:
    """Return all records of the store at `address`; each has id, name, type, birthday and key."""
    with grpc.insecure_channel(address) as channel:
        answer = PetStoreStub(channel).SearchPets(pb.SearchPetsReq(), wait_for_ready=True, timeout=10)
        return [_shown(read_pet(message)) for message in answer]


def _shown(record: Record) -> dict[str, str]:
    return {
        "id": record.id,
        "name": record.name,
        "type": record.type.value,
        "birthday": record.birthday.isoformat(),
        "key": record.idempotency_key,
    }


def assert_in_step(plane: ControlPlane, namespace: str, address: str) -> None:
    """Assert that each Pet is ready and that the store has exactly one record for each Pet."""
    pets = plane.api.get(pet_path(namespace))["items"]
    for each in pets:
        ready = condition(each, "Ready")
        assert ready["status"] == "True", ready
        assert ready["observedGeneration"] == each["metadata"]["generation"]
    wanted = {
        (each["status"]["id"], each["spec"]["name"], each["spec"]["species"], each["spec"]["birthday"])
        for each in pets
    }
    there = [(each["id"], each["name"], each["type"], each["birthday"]) for each in records(address)]
    assert sorted(there) == sorted(wanted)
    assert len(wanted) == len(pets), "two Pets share a record"
