"""Coming to a verdict by asking the operator's functions, with the objects as models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from pydantic import ValidationError

from manager.api import Resource
from manager.webhook.admission import Admission
from manager.webhook.bounds import own_turn
from manager.webhook.json_object import JsonObject
from manager.webhook.refused import Refused
from manager.webhook.request import AdmissionRequest
from manager.webhook.review import AdmissionQuestion
from manager.webhook.unanswered import BadReview
from manager.webhook.undecodable import field_errors
from manager.webhook.verdict import Verdict

__all__ = ["Validating"]

_CONTROLS = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0)], " ")


class Validating:
    """Validates: the verdict is what the function for the operation says, and it accepts without one.

    An object that is not of the model's shape, though the schema let it pass, is refused with the fields that
    are wrong. But only what a request brings is refused: with such an object stored, it can still be deleted,
    and changed, to a sound one or in another place; the user is warned that nobody has checked.
    """

    def __init__(self, admission: Admission[Any]) -> None:
        self._admission = admission
        self._kind: type[Resource] = admission.kind

    async def __call__(self, question: AdmissionQuestion, request: AdmissionRequest) -> Verdict:
        """The verdict. Raises what the function raises, and `BadReview` without an object."""
        warnings: Iterable[str] | None = None
        if question.operation == "CREATE" and (create := self._admission.create_validator) is not None:
            new = await self._decoded(question.object, request.object, "object")
            if isinstance(new, ValidationError):
                raise Refused(*field_errors(new))
            warnings = await create(new, request)
        elif question.operation == "UPDATE" and (update := self._admission.update_validator) is not None:
            old = await self._decoded(question.old_object, request.old_object, "oldObject")
            new = await self._decoded(question.object, request.object, "object")
            if isinstance(old, ValidationError):
                return self._unchecked(old)
            if isinstance(new, ValidationError):
                raise Refused(*field_errors(new))
            warnings = await update(old, new, request)
        elif question.operation == "DELETE" and (delete := self._admission.delete_validator) is not None:
            old = await self._decoded(question.old_object, request.old_object, "oldObject")
            if isinstance(old, ValidationError):
                return self._unchecked(old)
            warnings = await delete(old, request)
        return Verdict(warnings=_lines(warnings))

    async def _decoded(
        self, raw: msgspec.Raw, parsed: JsonObject | None, field: str
    ) -> Resource | ValidationError:
        if parsed is None:
            raise BadReview(f"`$.request.{field}` is missing")
        await own_turn(len(memoryview(raw)))
        try:
            return self._kind.decode(memoryview(raw), parsed=parsed)
        except ValidationError as error:
            return error

    def _unchecked(self, error: ValidationError) -> Verdict:
        gvk, first = self._kind.gvk, field_errors(error)[0]
        return Verdict(
            warnings=(f"not checked, as the stored object is no {gvk.kind} of {gvk.api_version}: {first}",)
        )


def _lines(warnings: Iterable[str] | None) -> list[str]:
    """Warnings as the API server takes them, for the header of an answer: each one line.

    One with a control character it would leave out, and say nothing.
    """
    if isinstance(warnings, str):
        warnings = [warnings]  # what was meant; its characters one by one were not
    return [" ".join(str(warning).translate(_CONTROLS).split()) for warning in warnings or ()]
