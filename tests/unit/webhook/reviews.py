"""Reviews as the API server sends them, and functions that read the responses."""

from __future__ import annotations

import base64
from typing import Any, Literal

import orjson
from pydantic import Field

from manager.api import ApiModel, Resource
from manager.webhook import JsonObject


class ThingSpec(ApiModel):
    size: int = Field(default=0)
    parts: list[str] = Field(default_factory=list)


class Thing(Resource, group="test.example.com", version="v1", plural="things"):
    spec: ThingSpec


class OldThing(Resource, group="test.example.com", version="v1alpha1", kind="Thing", plural="things"):
    pass


class NewThing(Resource, group="test.example.com", version="v2", kind="Thing", plural="things"):
    pass


def thing(name: str = "x", *, version: str = "v1", **more: Any) -> JsonObject:
    return {
        "apiVersion": f"test.example.com/{version}",
        "kind": "Thing",
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}"},
        "spec": {"size": 1},
        **more,
    }


Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


def admission_review(operation: Operation, *, new: Any = None, old: Any = None, **request: Any) -> bytes:
    version = {"group": "test.example.com", "version": "v1"}
    return orjson.dumps(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "review-1",
                "kind": {**version, "kind": "Thing"},
                "resource": {**version, "resource": "things"},
                "requestKind": {**version, "kind": "Thing"},
                "requestResource": {**version, "resource": "things"},
                "name": "x",
                "namespace": "team",
                "operation": operation,
                "userInfo": {"username": "jane", "groups": ["people"], "extra": {"scopes": ["all"]}},
                "object": new,
                "oldObject": old,
                "dryRun": False,
                "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
                **request,
            },
        }
    )


def conversion_review(version: str, *objects: Any) -> bytes:
    return orjson.dumps(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "ConversionReview",
            "request": {
                "uid": "review-1",
                "desiredAPIVersion": f"test.example.com/{version}",
                "objects": list(objects),
            },
        }
    )


def response(answer: bytes) -> Any:
    """Return the `response` field of an AdmissionReview or ConversionReview."""
    review = orjson.loads(answer)
    assert review.keys() == {"apiVersion", "kind", "response"}
    assert review["response"]["uid"] == "review-1"
    return review["response"]


def patch_of(said: Any) -> Any:
    """Return the JSON patch operations in a mutating webhook's response."""
    assert said["patchType"] == "JSONPatch"
    return orjson.loads(base64.b64decode(said["patch"]))
