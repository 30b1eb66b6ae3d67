"""Responses of webhooks that no recording of a real server contains."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from devcluster.admission.client import WebhookFailed
from devcluster.admission.review import read_answer
from devcluster.admission.webhooks import decode_patched
from devcluster.crd.resources import resources_of
from devcluster.errors import StatusError


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"patch": "é", "patchType": "JSONPatch"}, "illegal base64 data at input byte 0"),
        (
            {"patch": base64.b64encode(b"[1]").decode(), "patchType": "JSONPatch"},
            "number into Go value of type",
        ),
        (
            {"patch": base64.b64encode(b"{}").decode(), "patchType": "JSONPatch"},
            "object into Go value of type",
        ),
        ({"warnings": 5}, "cannot unmarshal number"),
        ({"status": "no"}, "cannot unmarshal string into Go value of type v1.Status"),
        ({"status": {"code": "x"}}, "cannot unmarshal string into Go struct field Status.code of type int32"),
    ],
)
def test_read_answer_raises_webhook_failed_for_fields_of_the_wrong_type(fields: dict[str, Any], problem: str):
    response = {"uid": "u", "allowed": True, **fields}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    with pytest.raises(WebhookFailed, match=problem):
        read_answer(json.loads(json.dumps(review)), "u", "v1", mutating=True)


def test_decode_patched_drops_undecodable_metadata_of_a_custom_object():
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {}}}
    spec = {"group": "example.com", "names": {"kind": "Thing", "plural": "things"}, "scope": "Cluster"}
    (resource,) = resources_of({"metadata": {}, "spec": {**spec, "versions": [version]}})
    head = {"apiVersion": "example.com/v1", "kind": "Thing"}
    kept = {"name": "a", "finalizers": ["example.com/x"]}
    wrong = {"labels": 5, "annotations": {"a": 5}, "ownerReferences": [5], "uid": 7}
    assert decode_patched({**head, "metadata": {**kept, **wrong}}, resource) == {**head, "metadata": kept}
    with pytest.raises(StatusError, match="system metadata was not initialized"):
        decode_patched({**head, "metadata": 5}, resource)
