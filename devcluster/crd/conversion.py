"""Conversion between the versions of a custom kind by its webhook."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from devcluster.errors import StatusError
from devcluster.kinds.resource import Convert

__all__ = ["CallWebhook", "webhook_conversion"]

Object = dict[str, Any]
CallWebhook = Callable[[Object, Object, float], Awaitable[Object]]
"""Posts a review to a webhook: (client config, review, seconds) -> the answer."""

_TIMEOUT = 30.0
_GROUP = "apiextensions.k8s.io"
_REVIEW_VERSIONS = ("v1", "v1beta1")


def webhook_conversion(conversion: Mapping[str, Any], call: CallWebhook) -> Convert:
    """Return a function that converts objects as `conversion`, from a definition's spec, says.

    It raises StatusError, 500, when the webhook fails or returns an invalid response.
    """
    webhook = conversion["webhook"]
    config = dict(webhook.get("clientConfig") or {})
    reviews = webhook.get("conversionReviewVersions") or ()
    version = next((each for each in reviews if each in _REVIEW_VERSIONS), "v1")

    async def convert(objects: list[Object], wanted: str) -> list[Object]:
        due = [each for each in objects if each.get("apiVersion") != wanted]
        if not due:
            return objects
        api_version, kind = due[0].get("apiVersion", ""), due[0].get("kind", "")
        about = f"{api_version}, Kind={kind}"
        identity = str(uuid.uuid4())
        review = {
            "apiVersion": f"{_GROUP}/{version}",
            "kind": "ConversionReview",
            "request": {
                "uid": identity,
                "desiredAPIVersion": wanted,
                "objects": [_unversioned(each) for each in due],
            },
            "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
        }
        try:
            answer = await call(config, review, _TIMEOUT)
            converted = _read(answer, identity, f"{_GROUP}/{version}")
        except StatusError:
            raise
        except Exception as error:
            raise _failed(f"conversion webhook for {about} failed: {error}") from error
        if len(converted) != len(due):
            text = f"conversion webhook for {about} returned {len(converted)} objects, expected {len(due)}"
            raise _failed(text)
        checked = iter(
            [
                _check(
                    before,
                    after,
                    wanted,
                    f"conversion webhook for {about} returned invalid converted object at index {index}",
                )
                for index, (before, after) in enumerate(zip(due, converted, strict=True))
            ]
        )
        return [each if each.get("apiVersion") == wanted else next(checked) for each in objects]

    return convert


def _unversioned(obj: Object) -> Object:
    """Return an object without its resourceVersion."""
    metadata = {
        name: value for name, value in (obj.get("metadata") or {}).items() if name != "resourceVersion"
    }
    return {**obj, "metadata": metadata}


class _Refused(Exception):
    """The webhook's answer is no conversion."""


def _read(answer: Object, identity: str, api_version: str) -> list[Object]:
    given = f"{answer.get('apiVersion', '')}, Kind={answer.get('kind', '')}"
    if given != f"{api_version}, Kind=ConversionReview":
        raise _Refused(f"expected webhook response of {api_version}, Kind=ConversionReview, got {given}")
    response = answer.get("response")
    if not isinstance(response, dict):
        raise _Refused("no response provided")
    if api_version.endswith("/v1") and response.get("uid") != identity:
        raise _Refused(f'expected response.uid="{identity}", got "{response.get("uid") or ""}"')
    result = response.get("result") or {}
    if result.get("status") != "Success":
        raise _Refused(
            result.get("message")
            or f"response.result.status was '{result.get('status') or ''}', not 'Success'"
        )
    return list(response.get("convertedObjects") or ())


def _check(before: Object, after: Any, wanted: str, about: str) -> Object:
    if not isinstance(after, dict):
        raise _failed(f"{about}: invalid type")
    if after.get("apiVersion") != wanted:
        given = after.get("apiVersion") or ""
        raise _failed(f"{about}: invalid groupVersion (expected {wanted}, received {given})")
    if after.get("kind") != before.get("kind"):
        text = f"invalid kind (expected {before.get('kind')}, received {after.get('kind') or ''})"
        raise _failed(f"{about}: {text}")
    metadata, old = after.get("metadata"), before.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise _failed(
            f"{about.replace('converted object', 'metadata in object')}: missing metadata in converted object"
        )
    for key, shown in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        if (metadata.get(key) or "") != (old.get(key) or ""):
            text = f"must have the same {shown}: {old.get(key) or ''} != {metadata.get(key) or ''}"
            raise _failed(f"{about}: {text}")
    # A conversion may change only labels and annotations of the metadata.
    kept = {key: value for key, value in old.items() if key not in {"labels", "annotations"}}
    for key in ("labels", "annotations"):
        if metadata.get(key):
            kept[key] = metadata[key]
    return {**after, "metadata": kept}


def _failed(text: str) -> StatusError:
    return StatusError(500, "", text)
