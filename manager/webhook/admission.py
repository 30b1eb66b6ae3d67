"""Answers to admission reviews, in the form of bytes."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
import orjson
from prometheus_client import Counter
from pydantic import ValidationError

from manager.api import Resource
from manager.api.resource import fields, text
from manager.telemetry.logs import get_logger
from manager.util.loop import own_turn
from manager.webhook.denial import Refused, field_errors
from manager.webhook.endpoint import BadReview, Endpoint, encoded
from manager.webhook.registration import VALIDATES, AdmissionWebhook
from manager.webhook.request import AdmissionRequest, JsonObject
from manager.webhook.review import AdmissionQuestion, read_admission

_API_VERSION = "admission.k8s.io/v1"

_CONTROLS = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0)], " ")

Operation = dict[str, Any]
"""An operation of a JSON Patch (RFC 6902)."""

_MOST = 1000
"""The maximum number of operations inside an object; with more, the whole object is replaced."""

_Question = tuple[AdmissionQuestion, AdmissionRequest]

_log = get_logger("webhook")


class AdmissionEndpoint(Endpoint[_Question]):
    """The endpoint for the AdmissionReviews of one webhook in a configuration."""

    identified = True

    max_body = 7 * 1024 * 1024
    """Bytes of a review. The API server accepts objects of 3 MB, and the review of a change has two of them,
    with the user and the options; controller-runtime has the same limit."""

    def __init__(self, webhook: AdmissionWebhook, *, panics: Counter) -> None:
        """Create an endpoint; `panics` counts unexpected failures of the operator's function."""
        super().__init__(panics)
        self.path = webhook.path
        self._admission = webhook.admission
        self._models = webhook.admission.models
        self._mutating = webhook.mutating
        does = "sets defaults of" if webhook.mutating else "validates"
        self.work = f"the function that {does} {webhook.admission.kind.__name__}"
        self.timeout_seconds = webhook.admission.timeout_seconds

    async def _read(self, body: bytes | bytearray) -> _Question:
        question = await read_admission(body)
        if (shown := question.kind.gvk) not in self._models:
            ours = " and ".join(map(str, self._models))
            raise BadReview(f"{self.path} is for {ours}, and this is a review of {shown}")
        return question, await question.request(self._admission.finalizer)

    async def _answer(self, question: _Question) -> bytes:
        request = question[1]
        response: dict[str, Any] = {"uid": request.uid, "allowed": True}
        patch: Sequence[Operation] = ()
        warnings: Sequence[str] = ()
        try:
            if self._mutating:
                patch = await self._default(*question)
            else:
                warnings = await self._validate(*question)
        except Refused as refused:
            status = refused.status(request.kind, _name_of(request))
            response |= {"allowed": False, "status": status}
            self._log_line("refused a request", question, level="info", reason=status["message"])
        else:
            _log.debug(
                "allowed a request", changes=len(patch), warnings=len(warnings), **self._fields(question)
            )
        if patch:
            response |= {"patchType": "JSONPatch", "patch": b64encode(encoded(patch)).decode()}
        if warnings:
            response["warnings"] = warnings
        return orjson.dumps({"apiVersion": _API_VERSION, "kind": "AdmissionReview", "response": response})

    async def _default(self, question: AdmissionQuestion, request: AdmissionRequest) -> Sequence[Operation]:
        if request.operation not in self._admission.default_on:
            return ()
        if request.object is None:
            raise BadReview(f"a review of {request.operation} has no object")
        size = len(memoryview(question.object))
        await own_turn(size)
        before = encoded(request.object)
        await own_turn(size)
        await self._admission.functions["default"](request.object, request)
        await own_turn(size)
        if encoded(request.object) == before:
            return ()
        # Decoding is the cheapest way to get a copy: the function may have changed any part.
        await own_turn(size)
        original = orjson.loads(before)
        await own_turn(size)
        return json_patch(original, request.object)

    async def _validate(self, question: AdmissionQuestion, request: AdmissionRequest) -> Sequence[str]:
        """Return the warnings of the operation's function; without such a function, the request is allowed.

        A request is refused if its new object does not fit the model. If the stored object does not fit, it
        can still be deleted or corrected; a warning tells the user that no function validated it.
        """
        objects: list[Resource | None] = []
        functions = self._admission.functions
        function = functions.get(VALIDATES[request.operation])
        if function is None:
            return ()
        if request.operation in {"UPDATE", "DELETE"}:
            try:
                objects.append(
                    await self._model(request, question.old_object, request.old_object, "oldObject")
                )
            except ValidationError as error:
                what = f"{request.kind.kind} of {request.kind.api_version}: {field_errors(error)[0]}"
                return [f"not checked, as the stored object is no {what}"]
        elif request.operation == "CREATE" and function == functions.get("validate_update"):
            objects.append(None)  # the function for updates expects an old object first
        if request.operation != "DELETE":
            try:
                objects.append(await self._model(request, question.object, request.object, "object"))
            except ValidationError as error:
                raise Refused(*field_errors(error)) from None
        return _lines(await function(*objects, request))

    async def _model(
        self, request: AdmissionRequest, raw: msgspec.Raw, parsed: JsonObject | None, field: str
    ) -> Resource:
        if parsed is None:
            raise BadReview(f"`$.request.{field}` is missing")
        await own_turn(len(memoryview(raw)))
        return self._models[request.kind].decode(memoryview(raw), parsed=parsed)

    def _fields(self, question: _Question) -> Mapping[str, Any]:
        request = question[1]
        return {
            "webhook": self.path,
            "uid": request.uid,
            "operation": request.operation,
            "kind": str(request.kind),
            "namespace": request.namespace,
            "name": _name_of(request),
            "user": request.user.name,
            "dry_run": request.dry_run,
        }


def _name_of(request: AdmissionRequest) -> str:
    """Return the object's name, or its `generateName` while the server has not yet named it."""
    metadata = fields(request.object, "metadata")
    return request.name or text(metadata.get("name")) or text(metadata.get("generateName"))


def _lines(warnings: Iterable[str] | None) -> list[str]:
    """Return warnings in the form of the API server's header values: each as one line.

    The API server would silently drop a warning that contains a control character.
    """
    if isinstance(warnings, str):
        warnings = [warnings]  # a single warning, not its characters one by one
    return [" ".join(str(warning).translate(_CONTROLS).split()) for warning in warnings or ()]


def json_patch(before: dict[str, Any], after: dict[str, Any]) -> list[Operation]:
    """Return the operations that turn `before` into `after`; empty if both have the same encoding.

    A changed list is replaced as a whole; an object, too, if the patch is shorter then. No value is copied.
    The jsonpatch library takes ten times as long: most of a millisecond for one changed field, if the object
    has the managedFields of a few managers.
    """
    return list(_operations(before, after, ""))


def _operations(before: dict[str, Any], after: dict[str, Any], path: str) -> Iterator[Operation]:
    for name in before:
        if name not in after:
            yield {"op": "remove", "path": f"{path}/{_escaped(name)}"}
    for name, new in after.items():
        member = f"{path}/{_escaped(name)}"
        if name not in before:
            yield {"op": "add", "path": member, "value": new}
        elif not _same(old := before[name], new):
            whole: list[Operation] = [{"op": "replace", "path": member, "value": new}]
            if isinstance(old, dict) and isinstance(new, dict):
                inside = list(islice(_operations(old, new, member), _MOST + 1))
                if len(inside) <= _MOST and len(encoded(inside)) <= len(encoded(whole)):
                    whole = inside
            yield from whole


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are the same JSON, with the members of objects in the same order.

    Unlike in Python, 1, 1.0 and true are different.
    """
    return bool(one == other) and encoded(one) == encoded(other)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
