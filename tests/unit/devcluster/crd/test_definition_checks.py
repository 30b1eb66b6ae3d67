from __future__ import annotations

from typing import Any

from devcluster.crd.definition_checks import check_spec

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
