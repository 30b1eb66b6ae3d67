"""Answering admission reviews: a question in, the answer out, both as the bytes of a review."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson
from prometheus_client import Counter
from pydantic import ValidationError

from manager.api import Resource
from manager.telemetry.logs import get_logger
from manager.util.loop import own_turn
from manager.util.rate_limit import Lines
from manager.webhook.endpoint import LINES, answered, encoded, time_limit
from manager.webhook.errors import BadReview, FunctionFailed, Unanswered
from manager.webhook.json_patch import json_patch
from manager.webhook.refused import Refused, field_errors
from manager.webhook.registration import VALIDATES, Admission
from manager.webhook.request import AdmissionRequest, JsonObject
from manager.webhook.review import AdmissionQuestion, read_admission


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Accepted, unless there is a status that says why not."""

    status: Mapping[str, Any] | None = None
    patch: Sequence[Mapping[str, Any]] = ()
    """JSON patch operations (RFC 6902) for the object."""

    warnings: Sequence[str] = ()
    """What the user is told besides."""


class _Defaulting:
    """Defaulting: the verdict is the smallest patch from the received object to the function's result."""

    def __init__(self, admission: Admission[Any]) -> None:
        self._default = admission.functions["default"]
        self._operations = admission.default_on

    async def __call__(self, question: AdmissionQuestion, request: AdmissionRequest) -> _Verdict:
        """Return the verdict. Raises what the function raises, and `BadReview` if the object is missing."""
        if question.operation not in self._operations:
            return _Verdict()
        if request.object is None:
            raise BadReview(f"a review of {question.operation} has no object")
        size = len(memoryview(question.object))
        await own_turn(size)
        before = encoded(request.object)
        await own_turn(size)
        await self._default(request.object, request)
        await own_turn(size)
        if encoded(request.object) == before:
            return _Verdict()
        # Decoding is the cheapest way to get a copy, as the function may have changed anything.
        await own_turn(size)
        original = orjson.loads(before)
        await own_turn(size)
        return _Verdict(patch=json_patch(original, request.object))


_CONTROLS = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0)], " ")


class _Validating:
    """Verdict of the operator's function for the operation; without a function, every request is accepted.

    An object can pass the schema and still not fit the model; a request that brings one is refused, naming
    the wrong fields. A stored object that does not fit can still be deleted, corrected, or changed elsewhere;
    the user is then warned that no function validated it.
    """

    def __init__(self, admission: Admission[Any]) -> None:
        self._functions = admission.functions
        self._models = admission.models

    async def __call__(self, question: AdmissionQuestion, request: AdmissionRequest) -> _Verdict:
        """Return the verdict. Raises what the function raises, and `BadReview` if the object is missing."""
        objects: list[Resource | None] = []
        function = self._functions.get(VALIDATES[question.operation])
        if function is None:
            return _Verdict()
        if question.operation in {"UPDATE", "DELETE"}:
            old = await self._decoded(question, question.old_object, request.old_object, "oldObject")
            if isinstance(old, ValidationError):
                return self._unchecked(question, old)
            objects.append(old)
        elif question.operation == "CREATE" and function == self._functions.get("validate_update"):
            objects.append(None)  # the function takes an old object, and a CONNECT has none
        if question.operation != "DELETE":
            new = await self._decoded(question, question.object, request.object, "object")
            if isinstance(new, ValidationError):
                raise Refused(*field_errors(new))
            objects.append(new)
        return _Verdict(warnings=_lines(await function(*objects, request)))

    async def _decoded(
        self, question: AdmissionQuestion, raw: msgspec.Raw, parsed: JsonObject | None, field: str
    ) -> Resource | ValidationError:
        if parsed is None:
            raise BadReview(f"`$.request.{field}` is missing")
        await own_turn(len(memoryview(raw)))
        try:
            return self._models[question.kind.gvk].decode(memoryview(raw), parsed=parsed)
        except ValidationError as error:
            return error

    def _unchecked(self, question: AdmissionQuestion, error: ValidationError) -> _Verdict:
        gvk, first = question.kind.gvk, field_errors(error)[0]
        return _Verdict(
            warnings=(f"not checked, as the stored object is no {gvk.kind} of {gvk.api_version}: {first}",)
        )


def _lines(warnings: Iterable[str] | None) -> list[str]:
    """Warnings as the API server takes them, for the header of an answer: each one line.

    One with a control character it would leave out, and say nothing.
    """
    if isinstance(warnings, str):
        warnings = [warnings]  # what was meant; its characters one by one were not
    return [" ".join(str(warning).translate(_CONTROLS).split()) for warning in warnings or ()]


_log = get_logger("webhook")

_API_VERSION = "admission.k8s.io/v1"


class AdmissionEndpoint:
    """Endpoint for the reviews of one webhook of a configuration."""

    identified = True

    max_body = 7 * 1024 * 1024
    """Bytes of a review. The API server takes objects of 3 MB, and the review of a change has two of them,
    with the user and the options; controller-runtime draws the same line."""

    def __init__(
        self,
        admission: Admission[Any],
        path: str,
        judge: Callable[[AdmissionQuestion, AdmissionRequest], Awaitable[_Verdict]],
        *,
        what: str,
        panics: Counter,
    ) -> None:
        """Create the endpoint of one webhook.

        Args:
            admission: what is registered for the kind.
            path: where it is asked.
            judge: comes to the verdict, or raises what the operator's function raises.
            what: names that function in messages.
            panics: counts the times it fails unexpectedly.
        """
        self.path = path
        self._kinds = admission.models.keys()
        self._finalizer = admission.finalizer
        self._timeout = admission.timeout_seconds
        self._judge = judge
        self._what = what
        self._panics = panics
        self._lines = Lines(per_minute=LINES)

    @classmethod
    def all_of(cls, admission: Admission[Any], *, panics: Counter) -> tuple[AdmissionEndpoint, ...]:
        """Create an endpoint for each webhook of the kind that has a function."""
        endpoints = []
        kind = admission.kind.__name__
        for webhook in admission.webhooks:
            judge: Callable[[AdmissionQuestion, AdmissionRequest], Awaitable[_Verdict]]
            if webhook.mutating:
                what, judge = f"the function that sets defaults of {kind}", _Defaulting(admission)
            else:
                what, judge = f"the function that validates {kind}", _Validating(admission)
            endpoints.append(cls(admission, webhook.path, judge, what=what, panics=panics))
        return tuple(endpoints)

    async def answer(self, body: bytes | bytearray, *, waits: float | None = None) -> bytes:
        """See `Endpoint`."""
        question = await read_admission(body)
        try:
            verdict, response = await self._verdict(question, time_limit(waits, self._timeout))
        except Refused as refused:
            status = refused.status(question.kind.gvk, question.object_name)
            self._tell(_log.info, "refused", question, reason=status["message"])
            response = _response(_Verdict(status=status))
        except BadReview:
            raise
        except Unanswered as error:
            if isinstance(error, FunctionFailed):
                self._panics.inc()
            self._tell(_log.error, "not answered", question, error=str(error), exc_info=error.__cause__)
            raise
        else:
            _log.debug(
                "accepted",
                changes=len(verdict.patch),
                warnings=len(verdict.warnings),
                **self._told(question),
            )
        return orjson.dumps(
            {
                "apiVersion": _API_VERSION,
                "kind": "AdmissionReview",
                "response": {"uid": question.uid, **response},
            }
        )

    async def _verdict(
        self, question: AdmissionQuestion, seconds: float
    ) -> tuple[_Verdict, Mapping[str, Any]]:
        if (shown := question.kind.gvk) not in self._kinds:
            ours = " and ".join(map(str, self._kinds))
            raise BadReview(f"{self.path} is for {ours}, and this is a review of {shown}")
        request = await question.request(self._finalizer)
        return await answered(
            self._judged(question, request), what=self._what, uid=question.uid, seconds=seconds
        )

    async def _judged(
        self, question: AdmissionQuestion, request: AdmissionRequest
    ) -> tuple[_Verdict, Mapping[str, Any]]:
        verdict = await self._judge(question, request)
        # Here, because a function may have made what is no JSON, and is then what has failed.
        return verdict, _response(verdict)

    def _tell(
        self, write: Callable[..., object], event: str, question: AdmissionQuestion, **fields: object
    ) -> None:
        self._lines.log(write, event, **fields, **self._told(question))

    def _told(self, question: AdmissionQuestion) -> Mapping[str, Any]:
        """Return the log fields of a review; they never contain the object's content."""
        return {
            "webhook": self.path,
            "uid": question.uid,
            "operation": question.operation,
            "kind": str(question.kind.gvk),
            "namespace": question.namespace or "",
            "name": question.object_name,
            "user": question.user_name,
            "dry_run": bool(question.dry_run),
        }


def _response(verdict: _Verdict) -> Mapping[str, Any]:
    response: dict[str, Any] = {"allowed": verdict.status is None}
    if verdict.status is not None:
        response["status"] = verdict.status
    if verdict.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = b64encode(encoded(verdict.patch)).decode()
    if verdict.warnings:
        response["warnings"] = verdict.warnings
    return response
