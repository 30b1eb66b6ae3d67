"""Conversion of Pets between v1alpha1 and v1beta1 in either direction."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    """Compare as JSON, which distinguishes 1 from 1.0 and from true."""
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
def test_birthday_converts_to_its_utc_day_and_keeps_the_original_text(text: str, day: str):
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


def test_owner_survives_v1alpha1_write_that_changes_everything_else():
    written = to_alpha(beta(owner=ANN))
    written["spec"] = {"name": "Tron", "type": "cat", "birthday": NOON}
    stored = to_beta(written)
    assert stored["spec"] == {"name": "Tron", "species": "cat", "birthday": "2021-04-01", "owner": ANN}
    assert stored["metadata"]["annotations"] == {FROM_V1ALPHA1: note(birthday=NOON)}
    assert to_alpha(stored) == written


def test_changed_birthday_is_not_overwritten_by_the_annotated_earlier_text():
    stored = to_beta(alpha(NOON))
    stored["spec"]["birthday"] = "2022-02-02"
    assert to_alpha(stored) == alpha("2022-02-02T00:00:00Z")
    stored["spec"]["birthday"] = "2021-04-01"
    assert to_alpha(stored) == alpha(NOON)


def test_new_birthday_text_replaces_the_annotated_text():
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
    # Where our own note has to take its place, it comes back with the way back.
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


# Below, everything at once: right, wrong, and what looks like ours.

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=5,
)
days = st.dates().map(lambda day: day.isoformat())
moments = st.one_of(
    days.map(lambda day: f"{day}T00:00:00Z"),
    st.from_regex(
        r"\A(000[0-9]|2021|9999)-(01|02|12)-(01|29|31)[tT](00|23):[0-5]0:(00|59|60)(.[0-9]{1,3})?"
        r"([zZ]|[+-](00|12|99):(00|30))\Z"
    ),
    st.datetimes(timezones=st.timezones()).map(lambda moment: moment.isoformat()),
)
birthdays = st.one_of(days, days, moments, moments, json_values)
owners = st.one_of(
    st.just(ANN),
    st.fixed_dictionaries({"name": st.text(min_size=1, max_size=5)}, optional={"email": st.text(max_size=9)}),
    st.fixed_dictionaries({"name": st.just("Ann"), "since": json_values}),
    json_values,
)
species = st.sampled_from(["dog", "cat", "bird", "reptile"]) | json_values
foreign = st.one_of(json_values, st.text(max_size=9), json_values.map(json.dumps))
others = st.dictionaries(
    st.sampled_from(["a", "kubectl.kubernetes.io/last-applied-configuration"]), st.text(max_size=3)
)


def pets(values: st.SearchStrategy[Any]) -> st.SearchStrategy[JsonObject]:
    """Pets whose annotations of our names have such values."""
    ours = st.dictionaries(st.sampled_from([FROM_V1ALPHA1, FROM_V1BETA1]), values)
    annotations = st.one_of(st.none(), st.builds(lambda one, two: {**one, **two}, others, ours))
    metadata = st.one_of(
        st.just({"name": "thor"}),
        st.fixed_dictionaries({"name": st.just("thor"), "annotations": annotations}),
    )
    specs = st.fixed_dictionaries({}, optional={"name": json_values, "more": json_values, **SPEC})
    return st.fixed_dictionaries(
        {"kind": st.just("Pet")},
        optional={
            "metadata": metadata | metadata | json_values,
            "spec": specs | specs | json_values,
            "status": json_values,
        },
    )


SPEC = {"type": species, "species": species, "birthday": birthdays, "owner": owners}
anything = st.one_of(
    foreign,
    birthdays.map(lambda birthday: json.dumps({"birthday": birthday})),
    owners.map(lambda owner: json.dumps({"owner": owner})),
    st.builds(lambda birthday, owner: json.dumps({"birthday": birthday, "owner": owner}), birthdays, owners),
    st.builds(
        lambda birthday, before: json.dumps({"birthday": birthday, "annotations": before}),
        moments,
        json_values,
    ),
)


@given(pets(anything))
def test_v1beta1_pet_with_any_annotations_survives_a_round_trip(written: JsonObject):
    stored = to_beta(written)
    assert same(to_beta(to_alpha(stored)), stored)


@given(pets(anything))
def test_v1alpha1_pet_with_any_annotations_survives_a_round_trip(written: JsonObject):
    shown = to_alpha(written)
    assert same(to_alpha(to_beta(shown)), shown)


@given(pets(anything), st.sampled_from([to_alpha, to_beta]))
def test_conversion_changes_only_the_spec_and_its_own_annotations(written: JsonObject, convert: Any):
    def rest(obj: JsonObject) -> JsonObject:
        kept = {**obj, "spec": None}
        metadata = obj.get("metadata")
        if isinstance(metadata, dict):
            annotations = metadata.get("annotations")
            named = annotations if isinstance(annotations, dict) else {}
            named = {key: value for key, value in named.items() if key not in {FROM_V1ALPHA1, FROM_V1BETA1}}
            kept["metadata"] = {**metadata, "annotations": named}
        return kept

    assert same(rest(convert(written)), rest({"spec": None, **written} if "spec" not in written else written))
