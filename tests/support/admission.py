"""Arguments for direct calls of webhook functions."""

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
    """Return an admission request for `kind`.

    `old` is the stored object. `requested` is the kind that the user sent, if it is another API version.
    """
    gvk = kind.gvk
    return AdmissionRequest(
        uid="0f5a", operation=operation, kind=gvk, resource="", old_object=old, requested_kind=requested
    )


def webhooks_of(*operators: AnyOperator) -> list[Admission[Any] | Conversion]:
    """Return the webhooks that operators register, without running the operators."""
    return [each for operator in operators for each in registrations(without_manager(operator))]
