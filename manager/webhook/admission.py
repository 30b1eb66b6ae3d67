"""Answering admission reviews: a question in, the answer out, both as the bytes of a review."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from manager.webhook.denial import Refused, field_errors
from manager.webhook.endpoint import (
    LINES,
    BadReview,
    FunctionFailed,
    Unanswered,
    answered,
    encoded,
    time_limit,
)
from manager.webhook.json_patch import json_patch
from manager.webhook.registration import VALIDATES, Admission, AdmissionWebhook
from manager.webhook.request import AdmissionRequest, JsonObject
from manager.webhook.review import AdmissionQuestion, read_admission

_API_VERSION = "admission.k8s.io/v1"

_CONTROLS = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0)], " ")

_log = get_logger("webhook")


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Acceptance, unless there is a status that says why not."""

    status: Mapping[str, Any] | None = None
    patch: Sequence[Mapping[str, Any]] = ()
    """JSON patch operations (RFC 6902) for the object."""

    warnings: Sequence[str] = ()

    def response(self) -> dict[str, Any]:
        response: dict[str, Any] = {"allowed": self.status is None}
        if self.status is not None:
            response["status"] = self.status
        if self.patch:
            response["patchType"] = "JSONPatch"
            response["patch"] = b64encode(encoded(self.patch)).decode()
        if self.warnings:
            response["warnings"] = self.warnings
        return response


class AdmissionEndpoint:
    """Endpoint for the reviews of one webhook of a configuration."""

    identified = True
    """Whether an API server can be told to show a certificate there."""

    max_body = 7 * 1024 * 1024
    """Bytes of a review. The API server takes objects of 3 MB, and the review of a change has two of them,
    with the user and the options; controller-runtime draws the same line."""

    def __init__(self, webhook: AdmissionWebhook, *, panics: Counter) -> None:
        """`panics` counts unexpected failures of the operator's function."""
        admission = webhook.admission
        self.path = webhook.path
        self._admission = admission
        self._models = admission.models
        self._judge = self._default if webhook.mutating else self._validate
        self._what = (
            f"the function that {'sets defaults of' if webhook.mutating else 'validates'} "
            f"{admission.kind.__name__}"
        )
        self._panics = panics
        self._lines = Lines(per_minute=LINES)

    @classmethod
    def all_of(cls, admission: Admission[Any], *, panics: Counter) -> tuple[AdmissionEndpoint, ...]:
        """Create an endpoint for each webhook of the kind that has a function."""
        return tuple(cls(webhook, panics=panics) for webhook in admission.webhooks)

    async def answer(self, body: bytes | bytearray, *, waits: float | None = None) -> bytes | bytearray:
        """Answer the review in `body`, whose sender gives up after `waits` seconds (None: unknown).

        Raises `Unanswered` if there is no verdict.
        """
        question = await read_admission(body)
        try:
            verdict, response = await self._verdict(
                question, time_limit(waits, self._admission.timeout_seconds)
            )
        except Refused as refused:
            status = refused.status(question.kind.gvk, question.object_name)
            self._log_line(_log.info, "refused", question, reason=status["message"])
            response = _Verdict(status=status).response()
        except BadReview:
            raise
        except Unanswered as error:
            if isinstance(error, FunctionFailed):
                self._panics.inc()
            self._log_line(_log.error, "not answered", question, error=str(error), exc_info=error.__cause__)
            raise
        else:
            counts = {"changes": len(verdict.patch), "warnings": len(verdict.warnings)}
            _log.debug("accepted", **counts, **self._fields(question))
        return orjson.dumps(
            {
                "apiVersion": _API_VERSION,
                "kind": "AdmissionReview",
                "response": {"uid": question.uid, **response},
            }
        )

    async def _verdict(self, question: AdmissionQuestion, seconds: float) -> tuple[_Verdict, dict[str, Any]]:
        if (shown := question.kind.gvk) not in self._models:
            ours = " and ".join(map(str, self._models))
            raise BadReview(f"{self.path} is for {ours}, and this is a review of {shown}")
        request = await question.request(self._admission.finalizer)

        async def judged() -> tuple[_Verdict, dict[str, Any]]:
            verdict = await self._judge(question, request)
            # Encoded here, because the function has failed if its result is no JSON.
            return verdict, verdict.response()

        return await answered(judged(), what=self._what, uid=question.uid, seconds=seconds)

    async def _default(self, question: AdmissionQuestion, request: AdmissionRequest) -> _Verdict:
        if question.operation not in self._admission.default_on:
            return _Verdict()
        if request.object is None:
            raise BadReview(f"a review of {question.operation} has no object")
        size = len(memoryview(question.object))
        await own_turn(size)
        before = encoded(request.object)
        await own_turn(size)
        await self._admission.functions["default"](request.object, request)
        await own_turn(size)
        if encoded(request.object) == before:
            return _Verdict()
        # Decoding is the cheapest way to get a copy, as the function may have changed anything.
        await own_turn(size)
        original = orjson.loads(before)
        await own_turn(size)
        return _Verdict(patch=json_patch(original, request.object))

    async def _validate(self, question: AdmissionQuestion, request: AdmissionRequest) -> _Verdict:
        """Return the verdict of the operation's function; without a function, accept every request.

        A request that brings an object which does not fit the model is refused. A stored one can still be
        deleted or corrected; the user is warned that no function validated it.
        """
        objects: list[Resource | None] = []
        functions = self._admission.functions
        function = functions.get(VALIDATES[question.operation])
        if function is None:
            return _Verdict()
        if question.operation in {"UPDATE", "DELETE"}:
            old = await self._decoded(question, question.old_object, request.old_object, "oldObject")
            if isinstance(old, ValidationError):
                gvk, first = question.kind.gvk, field_errors(old)[0]
                what = f"the stored object is no {gvk.kind} of {gvk.api_version}: {first}"
                return _Verdict(warnings=(f"not checked, as {what}",))
            objects.append(old)
        elif question.operation == "CREATE" and function == functions.get("validate_update"):
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

    def _log_line(
        self, write: Callable[..., object], event: str, question: AdmissionQuestion, **fields: object
    ) -> None:
        self._lines.log(write, event, **fields, **self._fields(question))

    def _fields(self, question: AdmissionQuestion) -> Mapping[str, Any]:
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


def _lines(warnings: Iterable[str] | None) -> list[str]:
    """Return warnings as the API server takes them for a header: each as one line.

    It would silently drop a warning with a control character.
    """
    if isinstance(warnings, str):
        warnings = [warnings]  # a single warning, not its characters one by one
    return [" ".join(str(warning).translate(_CONTROLS).split()) for warning in warnings or ()]
