"""Answering admission reviews: a question in, the answer out, both as the bytes of a review."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson

from manager.logs import get_logger
from manager.rate_limit import Lines
from manager.series import Counter
from manager.webhook.admission import Admission
from manager.webhook.defaulting import Defaulting
from manager.webhook.encoding import encoded
from manager.webhook.endpoint import LINES
from manager.webhook.refused import Refused
from manager.webhook.request import AdmissionRequest
from manager.webhook.review import AdmissionQuestion, read_admission
from manager.webhook.running import answered, time_limit
from manager.webhook.unanswered import BadReview, FunctionFailed, Unanswered
from manager.webhook.validating import Validating
from manager.webhook.verdict import Verdict

__all__ = ["AdmissionEndpoint"]

_log = get_logger("webhook")

_API_VERSION = "admission.k8s.io/v1"


class AdmissionEndpoint:
    """Answers the reviews that one webhook of a configuration asks for."""

    identified = True

    max_body = 7 * 1024 * 1024
    """Bytes of a review. The API server takes objects of 3 MB, and the review of a change has two of them,
    with the user and the options; controller-runtime draws the same line."""

    def __init__(
        self,
        admission: Admission[Any],
        path: str,
        judge: Callable[[AdmissionQuestion, AdmissionRequest], Awaitable[Verdict]],
        *,
        what: str,
        panics: Counter,
    ) -> None:
        """Args:
        admission: what is registered for the kind.
        path: where it is asked.
        judge: comes to the verdict, or raises what the operator's function raises.
        what: names that function in messages.
        panics: counts the times it fails unexpectedly.
        """
        self.path = path
        self._kind = admission.kind.gvk
        self._timeout = admission.timeout_seconds
        self._judge = judge
        self._what = what
        self._panics = panics
        self._lines = Lines(per_minute=LINES)

    @classmethod
    def all_of(cls, admission: Admission[Any], *, panics: Counter) -> tuple[AdmissionEndpoint, ...]:
        """Those that the kind has functions for."""
        endpoints = []
        kind = admission.kind.__name__
        if (mutating := admission.mutating) is not None:
            what = f"the function that sets defaults of {kind}"
            endpoints.append(cls(admission, mutating.path, Defaulting(admission), what=what, panics=panics))
        if (validating := admission.validating) is not None:
            what = f"the function that validates {kind}"
            endpoints.append(cls(admission, validating.path, Validating(admission), what=what, panics=panics))
        return tuple(endpoints)

    async def answer(self, body: bytes | bytearray, *, waits: float | None = None) -> bytes:
        """See `Endpoint`."""
        question = await read_admission(body)
        try:
            verdict, response = await self._verdict(question, time_limit(waits, self._timeout))
        except Refused as refused:
            status = refused.status(self._kind, question.object_name)
            self._tell(_log.info, "refused", question, reason=status["message"])
            response = _response(Verdict(status=status))
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
    ) -> tuple[Verdict, Mapping[str, Any]]:
        if (shown := question.kind.gvk) != self._kind:
            raise BadReview(f"{self.path} is for {self._kind}, and this is a review of {shown}")
        request = await question.request()
        return await answered(
            self._judged(question, request), what=self._what, uid=question.uid, seconds=seconds
        )

    async def _judged(
        self, question: AdmissionQuestion, request: AdmissionRequest
    ) -> tuple[Verdict, Mapping[str, Any]]:
        verdict = await self._judge(question, request)
        # Here, because a function may have made what is no JSON, and is then what has failed.
        return verdict, _response(verdict)

    def _tell(
        self, write: Callable[..., object], event: str, question: AdmissionQuestion, **fields: object
    ) -> None:
        self._lines.tell(write, event, **fields, **self._told(question))

    def _told(self, question: AdmissionQuestion) -> Mapping[str, Any]:
        """What a line of the log says of a review: never what is in the object."""
        return {
            "webhook": self.path,
            "uid": question.uid,
            "operation": question.operation,
            "kind": str(question.kind.gvk),
            "namespace": question.namespace or "",
            "name": question.object_name,
            "user": question.user_info.username,
            "dry_run": bool(question.dry_run),
        }


def _response(verdict: Verdict) -> Mapping[str, Any]:
    response: dict[str, Any] = {"allowed": verdict.status is None}
    if verdict.status is not None:
        response["status"] = verdict.status
    if verdict.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = b64encode(encoded(verdict.patch)).decode()
    if verdict.warnings:
        response["warnings"] = verdict.warnings
    return response
