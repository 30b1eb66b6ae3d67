"""Messages of refused requests, in the words of the API server."""

from __future__ import annotations

from typing import Any

import pytest

from manager.api import GroupVersionKind
from manager.webhook import FieldError, Refused, forbidden, invalid, required

PET = GroupVersionKind("petstore.example.com", "v1beta1", "Pet")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a", '"a"'),
        ('a "b"\n', '"a \\"b\\"\\n"'),
        (True, "true"),
        (None, "null"),
        (1.5, "1.5"),
        ({"b": [1]}, '{"b":[1]}'),
        ("\ud800", '"?"'),
        (1 << 70, str(1 << 70)),
    ],
)
def test_invalid_error_shows_the_value_as_json(value: object, shown: str):
    assert invalid("x", value, "why").body == f"Invalid value: {shown}: why"


def test_refused_status_lists_field_errors_as_causes():
    refused = Refused(invalid("spec.a", 1, "too small"), required("spec.b"))
    found = refused.status(PET, "x")
    causes = found["details"].pop("causes")
    assert found == {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": 'Pet.petstore.example.com "x" is invalid: '
        "[spec.a: Invalid value: 1: too small, spec.b: Required value]",
        "details": {"group": "petstore.example.com", "kind": "Pet", "name": "x"},
    }
    assert [(each["reason"], each["message"], each["field"]) for each in causes] == [
        ("FieldValueInvalid", "Invalid value: 1: too small", "spec.a"),
        ("FieldValueRequired", "Required value", "spec.b"),
    ]


def test_refused_status_names_the_kind_the_object_and_each_error_once():
    message = Refused(forbidden("spec.a", "no"), forbidden("spec.a", "no")).status(PET, "x")["message"]
    assert message == 'Pet.petstore.example.com "x" is invalid: spec.a: Forbidden: no'
    pod = GroupVersionKind("", "v1", "Pod")
    assert Refused(required("a")).status(pod, "")["message"] == 'Pod "" is invalid: a: Required value'
    assert str(required("a", "give one")) == "a: Required value: give one"


def test_status_of_a_refusal_has_the_reason_forbidden_when_the_error_is_a_string():
    assert Refused("not on a Sunday").status(PET, "x") == {
        "status": "Failure",
        "code": 403,
        "reason": "Forbidden",
        "message": "not on a Sunday",
    }


@pytest.mark.parametrize("errors", [("a", required("b")), ("a", "b"), (FieldError("a", "b", "c"), "text")])
def test_refused_raises_a_type_error_for_several_errors_with_a_string_among_them(errors: Any):
    with pytest.raises(TypeError):
        Refused(*errors)
