"""Requests and responses of admission webhooks, in the form of an AdmissionReview."""

from __future__ import annotations

import base64
import dataclasses
import re
from typing import Any

import orjson

from devcluster.admission.client import WebhookFailed
from devcluster.admission.configuration import Hook, Invocation
from devcluster.api.interfaces import AdmissionInfo
from devcluster.errors import StatusError
from devcluster.patch.ownership import kind_text
from devcluster.quantity import quoted
from devcluster.types.codec import DecodeError, json_type
from devcluster.types.decode import convert

Object = dict[str, Any]

_GROUP = "admission.k8s.io"
_FAILURE = 400
_STATUS = "io.k8s.apimachinery.pkg.apis.meta.v1.Status"


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """A webhook's decision."""

    allowed: bool
    patch: list[Object]
    warnings: list[str]
    status: Object


def make_review(uid: str, version: str, info: AdmissionInfo, invocation: Invocation[Any]) -> Object:
    """Build the AdmissionReview of a write, in the review API's `version`."""
    resource = info.resource
    asked_kind = _kind(info.kind)
    asked_resource = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    request: Object = {
        "uid": uid,
        "kind": _kind(invocation.kind),
        "resource": {
            "group": resource.group,
            "version": invocation.resource.version,
            "resource": resource.plural,
        },
        "requestKind": asked_kind,
        "requestResource": asked_resource,
    }
    if info.subresource:
        request["subResource"] = request["requestSubResource"] = info.subresource
    if info.name:
        request["name"] = info.name
    if info.namespace:
        request["namespace"] = info.namespace
    request["operation"] = info.operation
    request["userInfo"] = info.user.to_object()
    request["object"] = invocation.obj
    request["oldObject"] = invocation.old
    request["dryRun"] = info.dry_run
    request["options"] = info.options
    return {"kind": "AdmissionReview", "apiVersion": f"{_GROUP}/{version}", "request": request}


def read_answer(answer: Object, uid: str, version: str, *, mutating: bool) -> Verdict:
    """Parse a webhook's response; raise WebhookFailed if it is invalid."""
    response = answer.get("response")
    if not isinstance(response, dict):
        raise _invalid("webhook response was absent")
    patch, patch_type = response.get("patch"), response.get("patchType")
    if version == "v1":
        if response.get("uid", "") != uid:
            got = quoted(str(response.get("uid", "")))
            raise _invalid(f"expected response.uid={quoted(uid)}, got {got}")
        given = kind_text(answer.get("apiVersion", ""), answer.get("kind", ""))
        if given != f"{_GROUP}/v1, Kind=AdmissionReview":
            raise _invalid(f"expected webhook response of {_GROUP}/v1, Kind=AdmissionReview, got {given}")
        _check_patch(patch, patch_type, mutating=mutating)
    allowed = response.get("allowed") is True
    warnings = response.get("warnings") or []
    if not isinstance(warnings, list):
        problem = f"{json_type(warnings)} into Go struct field AdmissionResponse.warnings of type []string"
        raise WebhookFailed(f"failed to call webhook: json: cannot unmarshal {problem}")
    try:
        status, _ = convert(response.get("status") or {}, _STATUS)
    except DecodeError as error:
        raise WebhookFailed(f"failed to call webhook: {error}") from error
    return Verdict(
        allowed,
        _decoded_patch(patch) if mutating and patch and allowed else [],
        list(map(str, warnings)),
        status,
    )


def denial(hook: Hook, status: Object) -> StatusError:
    """Build the error for a write that a webhook denied."""
    by = f"admission webhook {quoted(hook.name)} denied the request"
    message, reason = status.get("message", ""), status.get("reason", "")
    message = f"{by}: {message or reason}" if message or reason else f"{by} without explanation"
    code = max(int(status.get("code") or 0), _FAILURE)
    return StatusError(code, reason, message, details=status.get("details"))


def _check_patch(patch: Any, patch_type: Any, *, mutating: bool) -> None:
    if not mutating:
        if patch:
            raise _invalid("validating webhook may not return response.patch")
        if patch_type is not None:
            raise _invalid("validating webhook may not return response.patchType")
    elif patch and patch_type is None:
        raise _invalid("webhook returned response.patch but not response.patchType")
    elif patch_type is not None and not patch:
        raise _invalid("webhook returned response.patchType but not response.patch")
    elif patch_type == "":
        raise _invalid('webhook returned invalid response.patchType of ""')
    elif patch_type not in {None, "JSONPatch"}:
        raise WebhookFailed(f"unsupported patch type {quoted(str(patch_type))}")


def _decoded_patch(patch: Any) -> list[Object]:
    try:
        decoded = base64.b64decode(patch, validate=True)
    except (ValueError, TypeError) as error:
        valid = re.compile("[A-Za-z0-9+/]*").match(str(patch))
        at = valid.end() if valid else 0
        raise WebhookFailed(f"failed to call webhook: illegal base64 data at input byte {at}") from error
    try:
        operations = orjson.loads(decoded)
    except orjson.JSONDecodeError as error:
        raise WebhookFailed(f"received undecodable patch in webhook response: {error}") from error
    if not isinstance(operations, list):
        raise _undecodable(operations, "Patch")
    for operation in operations:
        if not isinstance(operation, dict):
            raise _undecodable(operation, "Operation")
    return operations


def _undecodable(value: Any, kind: str) -> WebhookFailed:
    problem = f"json: cannot unmarshal {json_type(value)} into Go value of type jsonpatch.{kind}"
    return WebhookFailed(f"received undecodable patch in webhook response: {problem}")


def _kind(kind: tuple[str, str, str]) -> Object:
    return dict(zip(("group", "version", "kind"), kind, strict=True))


def _invalid(problem: str) -> WebhookFailed:
    return WebhookFailed(f"received invalid webhook response: {problem}")
