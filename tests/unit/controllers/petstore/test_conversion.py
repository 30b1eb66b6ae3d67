"""Conversion of Pets between v1alpha1 and v1beta1 in either direction."""

from __future__ import annotations

import copy
import itertools
import json
from typing import Any

import pytest

from controllers.petstore.conversion import (
    FROM_V1ALPHA1,
    FROM_V1BETA1,
    v1alpha1_to_v1beta1,
    v1beta1_to_v1alpha1,
)

JsonObject = dict[str, Any]
NOON = "2021-04-01T12:00:00Z"
ANN = {"name": "Ann", "email": "ann@example.com"}
STATUS = {"id": "7", "observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}]}


def to_beta(pet: JsonObject) -> JsonObject:
    changed = copy.deepcopy(pet)
    v1alpha1_to_v1beta1(changed)
    return changed


def to_alpha(pet: JsonObject) -> JsonObject:
    changed = copy.deepcopy(pet)
    v1beta1_to_v1alpha1(changed)
    return changed


def alpha(birthday: Any = "2021-04-01T00:00:00Z", annotations: Any = None, **spec: Any) -> JsonObject:
    return pet({"name": "Thor", "type": "dog", "birthday": birthday, **spec}, annotations)


def beta(birthday: Any = "2021-04-01", annotations: Any = None, **spec: Any) -> JsonObject:
    return pet({"name": "Thor", "species": "dog", "birthday": birthday, **spec}, annotations)


def pet(spec: JsonObject, annotations: Any) -> JsonObject:
    metadata = {"name": "thor", "labels": {"a": "b"}}
    if annotations is not None:
        metadata["annotations"] = annotations
    return {"kind": "Pet", "metadata": metadata, "spec": spec, "status": STATUS}


def note(**fields: Any) -> str:
    return json.dumps(fields, separators=(",", ":"))


def same(one: JsonObject, other: JsonObject) -> bool:
    """Return whether both objects are equal as JSON, where 1 differs from 1.0 and from true."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        (NOON, "2021-04-01"),
        ("2021-04-01t00:00:00z", "2021-04-01"),
        ("2021-03-31T23:30:00-01:00", "2021-04-01"),
        ("9999-12-31T23:59:59+00:01", "9999-12-31"),
    ],
)
def test_converted_birthday_is_the_utc_day_and_an_annotation_keeps_the_original_text(text: str, day: str):
    converted = to_beta(alpha(text))
    assert converted == beta(day, {FROM_V1ALPHA1: note(birthday=text)})
    assert to_alpha(converted) == alpha(text)


@pytest.mark.parametrize(
    "birthday", ["0000-12-31T12:00:00Z", "0001-01-01T00:00:00+00:01", "2021-02-30T00:00:00Z", "", 7, None, {}]
)
def test_conversion_leaves_a_malformed_birthday_unchanged(birthday: Any):
    assert to_beta(alpha(birthday)) == beta(birthday)
    assert to_alpha(beta(birthday)) == alpha(birthday)


def test_conversion_to_v1alpha1_keeps_the_owner_in_an_annotation():
    converted = to_alpha(beta(owner=ANN))
    assert converted == alpha(annotations={FROM_V1BETA1: note(owner=ANN)})
    assert to_beta(converted) == beta(owner=ANN)


def test_owner_survives_a_v1alpha1_write_that_changes_every_other_field():
    written = to_alpha(beta(owner=ANN))
    written["spec"] = {"name": "Tron", "type": "cat", "birthday": NOON}
    stored = to_beta(written)
    assert stored["spec"] == {"name": "Tron", "species": "cat", "birthday": "2021-04-01", "owner": ANN}
    assert stored["metadata"]["annotations"] == {FROM_V1ALPHA1: note(birthday=NOON)}
    assert to_alpha(stored) == written


def test_changed_birthday_is_not_overwritten_by_the_text_in_the_annotation():
    stored = to_beta(alpha(NOON))
    stored["spec"]["birthday"] = "2022-02-02"
    assert to_alpha(stored) == alpha("2022-02-02T00:00:00Z")
    stored["spec"]["birthday"] = "2021-04-01"
    assert to_alpha(stored) == alpha(NOON)


def test_conversion_updates_the_birthday_text_in_the_annotation_when_the_birthday_changes():
    stored = to_beta(alpha(NOON))
    shown = to_alpha(stored)
    shown["spec"]["birthday"] = "2022-02-02T10:00:00Z"
    # A client may read in one version and write the annotations in the other one.
    shown["metadata"]["annotations"] = stored["metadata"]["annotations"]
    assert to_beta(shown) == beta("2022-02-02", {FROM_V1ALPHA1: note(birthday="2022-02-02T10:00:00Z")})
    shown["spec"]["birthday"] = "2021-04-01T00:00:00Z"
    assert to_beta(shown) == beta()


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[]", "{", "[" * 100_000, 7, None, {}),
        '{"owner":7}',
        '{"owner":{"name":"\\u2003"}}',
        '{"owner":{"name":"A\\u0000nn"}}',
        '{"owner":{"name":"Ann","email":"nobody"}}',
        '{"owner":{"name":"Ann","email":null}}',
        '{"owner":{"name":"Ann","email":"Ann <ann@example.com>"}}',
        '{"owner":{"name":"\\ud800"}}',
        '{"birthday":7}',
        '{"birthday":"2021-04-01T12:00:00Z","mood":"good"}',
        '{"birthday":"2021-04-01T12:00:00Z","annotations":7}',
        '{"birthday":"2021-04-01T12:00:00Z","annotations":{"else":"where"}}',
    ],
)
@pytest.mark.parametrize("key", [FROM_V1ALPHA1, FROM_V1BETA1])
def test_conversion_ignores_an_annotation_that_it_did_not_write(key: str, text: Any):
    theirs = {key: text, "else": "where"}
    assert to_beta(alpha(annotations=theirs)) == beta(annotations=theirs)
    assert to_alpha(beta(annotations=theirs)) == alpha(annotations=theirs)
    # If our annotation replaces this one, the conversion back restores it.
    assert to_alpha(to_beta(alpha(NOON, theirs))) == alpha(NOON, theirs)
    assert to_beta(to_alpha(beta(annotations=theirs, owner=ANN))) == beta(annotations=theirs, owner=ANN)
    assert to_beta(alpha(NOON, theirs))["spec"]["birthday"] == "2021-04-01"


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"spec": None, "metadata": {}},
        {"spec": {"type": "dog"}, "metadata": 7},
        {"spec": {"type": "dog"}, "metadata": {"annotations": ["petstore.example.com/v1beta1"]}},
    ],
)
def test_conversion_leaves_malformed_objects_unchanged(broken: JsonObject):
    assert to_beta(broken) == to_alpha(broken) == broken


ABSENT: Any = object()
BIRTHDAYS = ["2021-04-01", "2021-04-01T00:00:00Z", NOON, 7]
OWNERS = [ABSENT, ANN, {"name": "Ann", "since": 1}]
KINDS = [{"type": "dog"}, {"species": "cat", "type": 7}]
NOTES = [
    *(
        ABSENT,
        "theirs",
        note(birthday=NOON),
        note(birthday="2021-04-01", owner=ANN),
        note(owner={"name": ""}),
    ),
    *(
        note(birthday=NOON, annotations=before)
        for before in (None, {}, {FROM_V1ALPHA1: "x"}, {FROM_V1BETA1: 7})
    ),
]
"""Values of our annotations, as a conversion writes them or another client changes them."""


def given(**fields: Any) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not ABSENT}


def rest(obj: JsonObject) -> JsonObject:
    """Return the Pet without its spec and without the annotations that a conversion writes."""
    annotations = obj["metadata"].get("annotations") or {}
    named = {key: value for key, value in annotations.items() if key not in {FROM_V1ALPHA1, FROM_V1BETA1}}
    return {**obj, "spec": None, "metadata": {**obj["metadata"], "annotations": named}}


@pytest.mark.parametrize(("there", "back"), [(to_beta, to_alpha), (to_alpha, to_beta)])
@pytest.mark.parametrize("others", [{}, {"else": "where"}])
def test_conversion_result_with_any_annotations_survives_conversion_back_and_forth(
    others: JsonObject, there: Any, back: Any
):
    notes = (
        given(**{FROM_V1ALPHA1: from_alpha, FROM_V1BETA1: from_beta})
        for from_alpha, from_beta in itertools.product(NOTES, NOTES)
    )
    annotations = [*({**others, **each} for each in notes), None, ABSENT]
    for birthday, owner, kind, noted in itertools.product(BIRTHDAYS, OWNERS, KINDS, annotations):
        written = pet(given(name="Thor", birthday=birthday, owner=owner, **kind), None)
        written["metadata"] |= given(annotations=noted)
        converted = there(written)
        assert same(there(back(converted)), converted), written
        assert same(rest(converted), rest(written)), written
