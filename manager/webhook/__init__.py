"""Webhooks: the API server asks this process what it thinks of an object, or for its form in another version.

Methods of an operator answer, which are marked for what they are asked:

    class PetOperator(Operator[Pet]):
        @webhook.default
        async def tidy(self, pet: JsonObject, request: AdmissionRequest) -> None: ...

        @webhook.validate_create
        async def check(self, pet: Pet, request: AdmissionRequest) -> Iterable[str] | None: ...

        @webhook.to_hub(OldPet)
        async def from_v1alpha1(self, pet: JsonObject) -> None: ...

For the kinds of others an operator has an `Admission`, whose decorators its methods have then:

    class TeamOperator(Operator[Team]):
        pods = webhook.Admission(Pod, namespaces={"matchLabels": {"team": "blue"}})

        @pods.validate_create
        async def check_pod(self, pod: Pod, request: AdmissionRequest) -> Iterable[str] | None: ...

They are served wherever webhooks are, in every replica, also where the operator itself does not run, so that
its `setup` may not have been called. What this package exports is what such methods need; the rest is the
runtime's.
"""

from __future__ import annotations

from manager.webhook.methods import (
    default,
    from_hub,
    spec_and_annotations,
    to_hub,
    validate_create,
    validate_delete,
    validate_update,
)
from manager.webhook.refused import FieldError, Refused, forbidden, invalid, required
from manager.webhook.registration import Admission, AdmissionOptions, Conversion, RegistrationError
from manager.webhook.request import AdmissionRequest, JsonObject, UserInfo

__all__ = [
    "Admission",
    "AdmissionOptions",
    "AdmissionRequest",
    "Conversion",
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
