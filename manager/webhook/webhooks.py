"""All webhooks of a process: what it serves, and what the API server has to be told of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from manager.webhook.admission import Admission, AdmissionWebhook
from manager.webhook.conversion import Conversion
from manager.webhook.registration import RegistrationError

__all__ = ["Webhooks"]


class Webhooks:
    """The registrations of all operators, checked: no two for one kind, and each complete."""

    def __init__(self, registrations: Iterable[Admission[Any] | Conversion]) -> None:
        """Raises `RegistrationError`, which names what does not fit."""
        admissions: dict[str, Admission[Any]] = {}
        conversions: dict[str, Conversion] = {}
        for each in registrations:
            if isinstance(each, Admission):
                if each.mutating is None and each.validating is None:
                    raise RegistrationError(f"{each} has no function")
                if admissions.setdefault(str(each.kind.gvk), each) is not each:
                    raise RegistrationError(f"{each} is there twice")
            elif isinstance(each, Conversion):
                each.check()
                if conversions.setdefault(f"{each.hub.plural}.{each.hub.gvk.group}", each) is not each:
                    raise RegistrationError(f"{each} is there twice")
            else:
                raise RegistrationError(f"{each!r} is registered, which is neither Admission nor Conversion")
        self.admissions = tuple(admissions.values())
        self.conversions = tuple(conversions.values())

    def __bool__(self) -> bool:
        return bool(self.admissions or self.conversions)

    @property
    def mutating(self) -> tuple[AdmissionWebhook, ...]:
        """Those of the MutatingWebhookConfiguration."""
        return tuple(webhook for each in self.admissions if (webhook := each.mutating) is not None)

    @property
    def validating(self) -> tuple[AdmissionWebhook, ...]:
        """Those of the ValidatingWebhookConfiguration."""
        return tuple(webhook for each in self.admissions if (webhook := each.validating) is not None)
