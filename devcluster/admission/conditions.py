"""The match conditions of a webhook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from devcluster.errors import StatusError, forbidden
from devcluster.schema.cel import CelError, compile_expression
from devcluster.schema.cel.types import DYN

if TYPE_CHECKING:
    from devcluster.api.interfaces import AdmissionInfo
    from devcluster.schema.cel import Program

__all__ = ["Conditions"]

Object = dict[str, Any]


class Conditions:
    """CEL expressions that all must hold for the webhook to be called; compiled when first needed."""

    def __init__(self, conditions: Sequence[Object], *, ignores_failure: bool) -> None:
        self._conditions = conditions
        self._ignores_failure = ignores_failure
        self._programs: list[tuple[str, Program]] | None = None

    def __bool__(self) -> bool:
        return bool(self._conditions)

    def hold(self, request: Object, info: AdmissionInfo) -> bool:
        """Return whether all conditions are true for the `request` of a review.

        Raises:
            StatusError: a condition cannot be evaluated, none is false, and the webhook's failure policy
                is Fail.
        """
        errors = []
        values = {
            "object": request["object"],
            "oldObject": request["oldObject"],
            "request": {key: value for key, value in request.items() if key not in {"object", "oldObject"}},
        }
        for expression, program in self._compiled():
            try:
                result = program.run(values)
            except CelError as error:
                errors.append(f"expression '{expression}' resulted in error: {error}")
                continue
            if result is False:
                return False
        if not errors:
            return True
        if self._ignores_failure:
            return False
        raise self._failed(errors, info)

    def _compiled(self) -> list[tuple[str, Program]]:
        if self._programs is None:
            variables = dict.fromkeys(("object", "oldObject", "request"), DYN)
            self._programs = [
                (each["expression"], compile_expression(each["expression"], variables))
                for each in self._conditions
            ]
        return self._programs

    @staticmethod
    def _failed(errors: list[str], info: AdmissionInfo) -> StatusError:
        text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        return forbidden(info.resource.group, info.resource.plural, info.name, text)
