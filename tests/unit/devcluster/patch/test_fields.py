"""Operations on the field sets of managedFields."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster.patch.fields import (
    decode,
    difference,
    exclude,
    intersection,
    item_key,
    paths,
    union,
    value_key,
)

PARENT = {"f:a": {}}
CHILD = {"f:a": {"f:b": {}}}
BOTH = {"f:a": {".": {}, "f:b": {}}}


@pytest.mark.parametrize(
    ("operation", "one", "other", "expected"),
    [
        (union, PARENT, CHILD, BOTH),
        (union, CHILD, PARENT, BOTH),
        (union, BOTH, CHILD, BOTH),
        (
            union,
            {"f:a": {"f:b": {}}},
            {"f:a": {"f:c": {}}, "f:d": {}},
            {"f:a": {"f:b": {}, "f:c": {}}, "f:d": {}},
        ),
        (difference, BOTH, CHILD, PARENT),
        (difference, BOTH, PARENT, CHILD),
        (difference, BOTH, BOTH, {}),
        (difference, CHILD, PARENT, CHILD),
        (difference, PARENT, CHILD, PARENT),
        (difference, PARENT, BOTH, {}),
        (exclude, BOTH, PARENT, {}),
        (exclude, CHILD, PARENT, {}),
        (exclude, BOTH, CHILD, PARENT),
        (exclude, PARENT, CHILD, PARENT),
        (intersection, BOTH, PARENT, PARENT),
        (intersection, BOTH, CHILD, CHILD),
        (intersection, CHILD, PARENT, {}),
        (intersection, PARENT, BOTH, PARENT),
    ],
)
def test_field_set_distinguishes_a_field_from_its_parent(operation: Any, one: Any, other: Any, expected: Any):
    assert operation(one, other) == expected


def test_field_paths_have_the_notation_of_conflict_messages():
    fields = {
        "f:spec": {
            "f:ports": {
                'k:{"port":443,"protocol":"TCP"}': {"f:name": {}},
                'k:{"port":80,"protocol":"TCP"}': {},
            },
            "f:set": {'v:"x"': {}, "v:3": {}, "v:true": {}},
        }
    }
    assert list(paths(fields)) == [
        '.spec.ports[port=80,protocol="TCP"]',
        '.spec.ports[port=443,protocol="TCP"].name',
        ".spec.set[=3]",
        '.spec.set[="x"]',
        ".spec.set[=true]",
    ]


def test_item_key_and_value_key_return_the_same_json_as_go():
    assert item_key({"port": 80.0, "name": "<é>"}) == 'k:{"name":"\\u003cé\\u003e","port":80}'
    assert value_key("a&b") == 'v:"a\\u0026b"'


@pytest.mark.parametrize("raw", [[], {"f": {}}, {"fa": {}}, {"f:a": 1}, {"k:{": {}}])
def test_field_set_decode_refuses_malformed_data(raw: Any):
    with pytest.raises(ValueError, match=r".+"):
        decode(raw)
