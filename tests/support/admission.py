"""Arguments of webhook functions, for tests that call them."""

from __future__ import annotations

from typing import Any

from manager.api import GroupVersionKind, Resource
from manager.operator import AnyOperator
from manager.webhook import Admission, AdmissionRequest, JsonObject
from manager.webhook.methods import registrations
from manager.webhook.registration import Conversion
from manager.webhook.request import Operation
from manager_tools.testing import without_manager


def request(
    kind: type[Resource],
    operation: Operation = "CREATE",
    *,
    old: JsonObject | None = None,
    requested: GroupVersionKind | None = None,
) -> AdmissionRequest:
    """About an object of `kind`; `old` is the object as it is stored, `requested` what the user sent."""
    gvk = kind.gvk
    return AdmissionRequest(
        uid="0f5a", operation=operation, kind=gvk, resource="", old_object=old, requested_kind=requested
    )


def webhooks_of(*operators: AnyOperator) -> list[Admission[Any] | Conversion]:
    """Their webhooks, where none of them runs."""
    return [each for operator in operators for each in registrations(without_manager(operator))]
