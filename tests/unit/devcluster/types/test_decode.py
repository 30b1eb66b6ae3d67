"""JSON bodies that no recording of a real server contains."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from devcluster.errors import StatusError
from devcluster.types import convert, decode_strict, duplicate_fields, name_of, schema_for

POD = "io.k8s.api.core.v1.Pod"
GVK = ("", "v1", "Pod")


def test_type_convert_is_idempotent_and_does_not_change_its_argument():
    container = {"name": "c", "resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}}, "ports": [{}]}
    document = {
        "metadata": {"creationTimestamp": None},
        "spec": {"containers": [{**container, "x": 1}]},
        "unknown": 1,
    }
    before = json.dumps(document)
    once, problems = convert(document, POD)
    assert problems == ['unknown field "spec.containers[0].x"', 'unknown field "unknown"']
    assert once["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "500m", "memory": "1Gi"}
    assert convert(once, POD) == (once, [])
    assert json.dumps(document) == before


def test_decode_strict_reports_duplicate_fields_only_when_the_raw_text_is_given():
    body = '{"spec":{"hostname":"a","hostname":"b"},"x":1}'
    pod, problems = decode_strict(json.loads(body), schema_for(*GVK), GVK, raw=body)
    assert pod["spec"]["hostname"] == "b"
    assert problems == ['duplicate field "spec.hostname"', 'unknown field "x"']
    _, problems = decode_strict(json.loads(body), schema_for(*GVK), GVK)
    assert problems == ['unknown field "x"']


def test_decode_strict_refuses_numbers_that_are_too_long_for_python():
    digits = "1" * 5000
    body = f'{{"spec":{{"priority":{digits}}}}}'
    with pytest.raises(StatusError, match="cannot unmarshal number"):
        decode_strict({"spec": {"priority": float("inf")}}, schema_for(*GVK), GVK, raw=body)
    with pytest.raises(StatusError):
        decode_strict({"spec": {"overhead": {"cpu": digits}}}, schema_for(*GVK), GVK)


@pytest.mark.parametrize("document", [[], "x", 1, None, True])
def test_decode_strict_refuses_documents_that_are_not_objects(document: Any):
    with pytest.raises(StatusError, match=r"Go value of type v1\.Pod"):
        decode_strict(document, schema_for(*GVK), GVK)


def test_duplicate_fields_returns_each_duplicate_field_once_and_in_order():
    text = '{"a":{"b":1,"b":2,"b":3},"c":[{"d":1},{"d":1,"d":2}],"a":{}}'
    assert duplicate_fields(text, orjson.loads(text)) == [
        'duplicate field "a.b"',
        'duplicate field "c[1].d"',
        'duplicate field "a"',
    ]
    assert duplicate_fields('{"a":{"b":1}}', {"a": {"b": 1}}) == []


def test_schema_for_an_unknown_kind_raises_key_error():
    assert name_of("apps", "v1", "Foo") is None
    with pytest.raises(KeyError):
        schema_for("apps", "v1", "Foo")


def test_decoded_float_of_more_than_64_bits_stays_a_float():
    schema = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
    found, _ = convert({"maximum": 1e20, "minimum": 1e6}, schema)
    assert orjson.loads(orjson.dumps(found)) == {"maximum": 1e20, "minimum": 1000000}
