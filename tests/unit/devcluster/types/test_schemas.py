from __future__ import annotations

import orjson
import pytest

from devcluster.types import duplicate_fields, name_of, schema_for, schema_of
from devcluster.types.table import entries


def test_schema_of_a_recursive_type_is_a_cycle():
    name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
    inner = schema_of(name).properties["not"]
    assert inner.properties["not"].properties["type"].type == "string"


def test_schema_of_raw_json_preserves_unknown_fields():
    data = schema_for("apps", "v1", "ControllerRevision").properties["data"]
    assert data.preserve_unknown


def test_unknown_kind_has_no_schema():
    assert name_of("apps", "v1", "Foo") is None
    with pytest.raises(KeyError):
        schema_for("apps", "v1", "Foo")


def test_schema_is_available_for_every_published_type():
    for name, entry in entries().items():
        if "schema" in entry:
            assert set(schema_of(name).properties) == set(entry["schema"].get("properties", {}))
            for child in schema_of(name).properties.values():
                assert child is not None


def test_duplicate_fields_names_each_field_once_in_order():
    text = '{"a":{"b":1,"b":2,"b":3},"c":[{"d":1},{"d":1,"d":2}],"a":{}}'
    assert duplicate_fields(text, orjson.loads(text)) == [
        'duplicate field "a.b"',
        'duplicate field "c[1].d"',
        'duplicate field "a"',
    ]
    assert duplicate_fields('{"a":{"b":1}}', {"a": {"b": 1}}) == []
