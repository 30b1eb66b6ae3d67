"""Webhooks: the API server calls this process to default, validate or convert an object.

Decorated methods of an operator return the answers:

    class PetOperator(Operator[Pet]):
        @webhook.default
        async def tidy(self, pet: JsonObject, request: AdmissionRequest) -> None: ...

        @webhook.validate_create
        async def check(self, pet: Pet, request: AdmissionRequest) -> Iterable[str] | None: ...

        @webhook.to_hub(OldPet)
        async def from_v1alpha1(self, pet: JsonObject) -> None: ...

For a kind that is not its own, an operator has an `Admission`, and uses its decorators:

    class TeamOperator(Operator[Team]):
        pods = webhook.Admission(Pod, namespaces={"matchLabels": {"team": "blue"}})

        @pods.validate_create
        async def check_pod(self, pod: Pod, request: AdmissionRequest) -> Iterable[str] | None: ...

Every replica serves the webhooks, even if the operator does not run there, so its `setup` may not have been
called. This package exports everything for such methods; its modules are internal.
"""

from __future__ import annotations

from manager.webhook.denial import FieldError, Refused, forbidden, invalid, required
from manager.webhook.methods import (
    default,
    from_hub,
    spec_and_annotations,
    to_hub,
    validate_create,
    validate_delete,
    validate_update,
)
from manager.webhook.registration import Admission, AdmissionOptions, RegistrationError
from manager.webhook.request import AdmissionRequest, JsonObject, UserInfo

__all__ = [
    "Admission",
    "AdmissionOptions",
    "AdmissionRequest",
    "FieldError",
    "JsonObject",
    "Refused",
    "RegistrationError",
    "UserInfo",
    "default",
    "forbidden",
    "from_hub",
    "invalid",
    "required",
    "spec_and_annotations",
    "to_hub",
    "validate_create",
    "validate_delete",
    "validate_update",
]
