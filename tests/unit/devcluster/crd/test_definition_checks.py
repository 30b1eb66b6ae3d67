from __future__ import annotations

from typing import Any

import pytest

from devcluster.crd.approval import APPROVAL, approval_of
from devcluster.crd.definition_checks import check_spec
from devcluster.crd.schema_checks import check_defaults

EXPENSIVE = {"rule": "self.matches('^[a-z]+(-[a-z0-9]+)*(-[a-z0-9]+)*(-[a-z0-9]+)*(-[a-z0-9]+)*$')"}
"""A rule whose estimated cost is half of the limit."""
TOO_EXPENSIVE = {"rule": " && ".join([EXPENSIVE["rule"]] * 3)}


def definition(*rules: dict[str, Any], version: str = "v1") -> dict[str, Any]:
    fields = {
        f"field{number}": {"type": "string", "x-kubernetes-validations": [each]}
        for number, each in enumerate(rules)
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    names = {"kind": "Thing", "listKind": "ThingList", "plural": "things", "singular": "thing"}
    versions = [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]
    spec = {"group": "example.com", "names": names, "scope": "Cluster", "versions": versions}
    return {"metadata": {"name": "things.example.com"}, "spec": {**spec, "conversion": {"strategy": "None"}}}


def wrong(new: dict[str, Any], old: dict[str, Any] | None) -> list[str]:
    return [each.text for each in check_spec(new, old)]


def test_crd_is_refused_when_a_new_cel_rule_costs_too_much():
    for old in (None, definition(), definition(TOO_EXPENSIVE, version="v2")):
        (text,) = wrong(definition(TOO_EXPENSIVE), old)
        assert text.startswith("Forbidden: estimated rule cost exceeds budget by factor of ")


def test_crd_update_is_accepted_when_its_expensive_cel_rule_is_unchanged():
    assert not wrong(definition(TOO_EXPENSIVE), definition(TOO_EXPENSIVE))


def test_crd_is_refused_when_all_its_cel_rules_together_cost_too_much():
    many = definition(*[EXPENSIVE] * 25)
    for old in (None, many):
        *named, total = wrong(many, old)
        assert len(named) == 4
        assert "cost total for entire OpenAPIv3 schema exceeds budget by factor of " in total


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (
            {"apiVersion": 1, "kind": "X"},
            "p.properties[e].default.apiVersion: Invalid value: 1: must be a string",
        ),
        ({"apiVersion": "v1", "kind": 5}, "p.properties[e].default.kind: Invalid value: 5: must be a string"),
        (
            {"apiVersion": "v1", "kind": "X", "metadata": {"name": 5}},
            (
                'p.properties[e].default.metadata: Invalid value: {"name":5}: '
                "json: cannot unmarshal number into Go struct field ObjectMeta.name of type string"
            ),
        ),
    ],
)
def test_check_defaults_refuses_an_embedded_object_of_the_wrong_types(value: Any, error: str):
    embedded = {"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"e": {"type": "object", **embedded, "default": value}}}
    assert [str(each) for each in check_defaults(schema, "p")] == [error]


@pytest.mark.parametrize("name", ["kind", "apiVersion", "metadata", "other"])
def test_check_defaults_refuses_an_unknown_field(name: str):
    inner = {"type": "object", "properties": {"a": {"type": "string"}}, "default": {name: {}}}
    (error,) = check_defaults({"type": "object", "properties": {"s": inner}}, "p")
    assert error.text.endswith("must not have unknown fields")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://github.com/x", "ApprovedAnnotation"),
        ("https://a:99999", "ApprovedAnnotation"),
        ("https://[", "InvalidAnnotation"),
        ("https://a:b", "InvalidAnnotation"),
        ("https://x y", "InvalidAnnotation"),
        ("http://%zz", "InvalidAnnotation"),
        ("foo://", "InvalidAnnotation"),
    ],
)
def test_approval_of_accepts_only_valid_urls(url: str, reason: str):
    assert approval_of({"metadata": {"annotations": {APPROVAL: url}}})[0] == reason
