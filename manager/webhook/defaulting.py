"""Coming to a verdict by letting the operator's function change the object."""

from __future__ import annotations

from typing import Any

import orjson

from manager.webhook.admission import Admission
from manager.webhook.bounds import own_turn
from manager.webhook.encoding import encoded
from manager.webhook.json_patch import json_patch
from manager.webhook.request import AdmissionRequest
from manager.webhook.review import AdmissionQuestion
from manager.webhook.unanswered import BadReview
from manager.webhook.verdict import Verdict

__all__ = ["Defaulting"]


class Defaulting:
    """Sets defaults: the verdict is the smallest patch from what came to what the function made of it."""

    def __init__(self, admission: Admission[Any]) -> None:
        self._default = admission.defaulter

    async def __call__(self, question: AdmissionQuestion, request: AdmissionRequest) -> Verdict:
        """The verdict. Raises what the function raises, and `BadReview` without an object."""
        if self._default is None or question.operation not in {"CREATE", "UPDATE"}:
            return Verdict()
        if request.object is None:
            raise BadReview(f"a review of {question.operation} has no object")
        size = len(memoryview(question.object))
        await own_turn(size)
        try:
            before = encoded(request.object)
        except RecursionError:
            raise BadReview("`$.request.object` is nested too deeply") from None
        await own_turn(size)
        await self._default(request.object, request)
        await own_turn(size)
        if encoded(request.object) == before:
            return Verdict()
        # Decoding is the cheapest way to a copy of what the function may have changed anywhere.
        await own_turn(size)
        original = orjson.loads(before)
        await own_turn(size)
        return Verdict(patch=json_patch(original, request.object))
