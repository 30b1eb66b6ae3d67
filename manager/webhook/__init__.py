"""Webhooks: the API server asks this process what it thinks of an object, or for its form in another version.

An operator says in a light module of its own, beside its reconciler, which functions answer:

    admission = Admission(Pet)
    conversion = Conversion(Pet)
    WEBHOOKS = (admission, conversion)

What this package exports is what such a module needs. The rest is the runtime's.
"""

from __future__ import annotations

from manager.webhook.admission import Admission
from manager.webhook.conversion import Conversion
from manager.webhook.json_object import JsonObject
from manager.webhook.refused import FieldError, Refused, forbidden, invalid, required
from manager.webhook.registration import RegistrationError
from manager.webhook.request import AdmissionRequest, UserInfo

__all__ = [
    "Admission",
    "AdmissionRequest",
    "Conversion",
    "FieldError",
    "JsonObject",
    "Refused",
    "RegistrationError",
    "UserInfo",
    "forbidden",
    "invalid",
    "required",
]
