"""Conversion reviews: the input of conversion functions, and the changes that they may make."""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest

from manager.telemetry.metrics import Metrics
from manager.util.nesting import MOST_LEVELS
from manager.webhook import JsonObject, Refused, spec_and_annotations
from manager.webhook.conversion import ConversionEndpoint
from manager.webhook.endpoint import BadReview, TooCostly, Unanswered
from manager.webhook.registration import Conversion
from tests.unit.conftest import LogLines
from tests.unit.webhook.reviews import NewThing, OldThing, Thing, conversion_review, response, thing

Act = Callable[[JsonObject], Any]
"""Function that changes an object, or a coroutine function."""


class Versions:
    """Three versions; each conversion function adds its name to the object."""

    def __init__(self) -> None:
        self.acts: Act | None = None
        self.metrics = Metrics()
        self.conversion = Conversion(Thing)
        for spoke in (OldThing, NewThing):
            version = spoke.gvk.version
            self.conversion.converters["to_hub", spoke] = partial(self._act, way=f"{version}>v1")
            self.conversion.converters["from_hub", spoke] = partial(self._act, way=f"v1>{version}")
        self.endpoint = ConversionEndpoint([self.conversion], panics=self.metrics.conversion_panics)

    async def convert(self, version: str, *objects: Any) -> list[Any]:
        said = response(await self.endpoint.answer(conversion_review(version, *objects)))
        assert said["result"] == {"status": "Success"}
        return list(said["convertedObjects"])

    async def fail(self, version: str, *objects: Any) -> str:
        said = response(await self.endpoint.answer(conversion_review(version, *objects)))
        assert said["result"]["status"] == "Failure"
        assert said["convertedObjects"] == []
        return str(said["result"]["message"])

    @property
    def panics(self) -> float:
        name = "controller_runtime_conversion_webhook_panics_total"
        return self.metrics.registry.get_sample_value(name) or 0

    async def _act(self, given: JsonObject, way: str) -> Any:
        given.setdefault("ways", []).append((given["apiVersion"].rpartition("/")[2], way))
        done = self.acts(given) if self.acts is not None else None
        return await done if inspect.isawaitable(done) else done


@pytest.fixture
def versions() -> Versions:
    return Versions()


@pytest.mark.parametrize(
    ("start", "end", "ways"),
    [
        ("v1alpha1", "v1", [["v1alpha1", "v1alpha1>v1"]]),
        ("v1", "v1alpha1", [["v1", "v1>v1alpha1"]]),
        ("v1alpha1", "v2", [["v1alpha1", "v1alpha1>v1"], ["v1", "v1>v2"]]),
        ("v2", "v1alpha1", [["v2", "v2>v1"], ["v1", "v1>v1alpha1"]]),
    ],
)
async def test_conversion_uses_the_direct_function_or_converts_through_the_hub_version(
    versions: Versions, start: str, end: str, ways: list[list[str]]
):
    unknown = {"deep": [None, 1.5, {"x": "ü"}]}
    [converted] = await versions.convert(end, thing(version=start, unknown=unknown))
    assert converted == {**thing(version=end, unknown=unknown), "ways": ways}


async def test_conversion_keeps_the_number_and_order_of_objects(versions: Versions):
    given = [thing(f"t{i}", version=("v1", "v1alpha1", "v2")[i % 3]) for i in range(50)]
    converted = await versions.convert("v2", *given)
    assert [each["metadata"]["name"] for each in converted] == [f"t{i}" for i in range(50)]
    assert converted[2] == given[2]
    assert await versions.convert("v2") == []
    assert await versions.convert("v3", thing(version="v3")) == [thing(version="v3")]


async def test_conversion_changes_only_labels_and_annotations_of_the_metadata(versions: Versions):
    def act(given: JsonObject) -> None:
        metadata = given["metadata"]
        metadata["labels"]["more"] = "yes"
        metadata.pop("annotations")
        metadata["name"] = "other"
        metadata["ownerReferences"][0]["uid"] = "other"
        metadata["finalizers"] = ["mine"]
        del metadata["uid"]
        given["kind"] = "Other"
        given["apiVersion"] = "other/v1"

    versions.acts = act
    given = thing(version="v1")
    given["metadata"] |= {
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "ownerReferences": [{"uid": "owner"}],
    }
    expected = copy.deepcopy(given["metadata"]) | {"labels": {"a": "b", "more": "yes"}}
    del expected["annotations"]
    [converted] = await versions.convert("v1alpha1", given)
    assert converted["metadata"] == expected
    assert (converted["kind"], converted["apiVersion"]) == ("Thing", "test.example.com/v1alpha1")


@pytest.mark.parametrize("metadata", [None, "text", []])
async def test_conversion_restores_metadata_that_a_function_has_removed(versions: Versions, metadata: Any):
    versions.acts = lambda given: given.update(metadata=metadata)
    without = {name: value for name, value in thing().items() if name != "metadata"}
    kept, none = await versions.convert("v2", thing(), without)
    assert (kept["metadata"], none["metadata"]) == (thing()["metadata"], {})


@pytest.mark.parametrize("labels", ["text", {"a": 1}, {"a": None}, {1: "a"}])
async def test_conversion_fails_when_a_function_sets_labels_that_are_not_strings(
    versions: Versions, labels: Any, log_lines: LogLines
):
    versions.acts = lambda given: given["metadata"].update(labels=labels)
    assert "failed unexpectedly (TypeError)" in await versions.fail("v2", thing())
    assert "metadata.labels" in str(log_lines[0]["exc_info"])
    versions.acts = dict  # a function that returns an object
    assert "failed unexpectedly (TypeError)" in await versions.fail("v2", thing())


@pytest.mark.parametrize(
    ("field", "added", "told"),
    [
        ("annotations", {"note": "x" * 262_137}, "metadata.annotations have 262145 bytes"),
        ("annotations", {"no key!": ""}, "metadata.annotations: 'no key!' is no valid key"),
        ("annotations", {f"{'a' * 254}/x": ""}, "is no valid key"),
        ("labels", {"size": "ü"}, "metadata.labels[size]: 'ü' is no valid value"),
        ("labels", {"size": "x" * 64}, "is no valid value"),
        ("labels", {"Upper.case/size": ""}, "is no valid key"),
    ],
)
async def test_conversion_drops_invalid_metadata_on_reads_and_refuses_it_on_writes(
    versions: Versions, field: str, added: dict[str, str], told: str, log_lines: LogLines
):
    versions.acts = lambda given: given["metadata"].setdefault(field, {}).update(added)
    stored = thing("big")
    stored["metadata"] |= {"annotations": {"own": "x"}, "labels": {"own": "x"}}
    [shown, other] = await versions.convert("v2", stored, thing("other"))
    assert shown["metadata"] == stored["metadata"]
    assert other["metadata"]["name"] == "other"
    assert log_lines[0]["event"] == "some metadata were not converted"
    assert log_lines[0]["name"] == "big"
    stored["apiVersion"] = "test.example.com/v2"
    assert told in (message := await versions.fail("v1", stored))
    assert "Thing team/big cannot be converted" in message


async def test_conversion_accepts_labels_and_annotations_of_the_maximum_length(versions: Versions):
    longest = {
        "annotations": {"own": "x" * 10, "Note.Of/us": "ü" * 131_060 + "x"},
        "labels": {"a" * 63: "", "a.b/c": "A_1.z"},
    }
    versions.acts = lambda given: given["metadata"].update(longest)
    [shown] = await versions.convert("v2", thing())
    assert shown["metadata"] == {**thing()["metadata"], **longest}


async def test_conversion_failure_names_the_object_and_hides_an_unexpected_error(
    versions: Versions, log_lines: LogLines
):
    error: Exception = LookupError("what nobody may know")

    def act(given: JsonObject) -> None:
        if given["metadata"]["name"] == "b":
            raise error

    versions.acts = act
    message = await versions.fail("v2", thing("a"), thing("b"), thing("c"))
    assert message == (
        "Thing team/b cannot be converted from test.example.com/v1 to test.example.com/v2: "
        "the function failed unexpectedly (LookupError); see the manager's log"
    )
    [line] = log_lines
    assert (line["log_level"], line["exc_info"]) == ("error", error)
    assert (line["uid"], line["namespace"], line["name"]) == ("review-1", "team", "b")
    assert versions.panics == 1
    error = Refused("there is no such thing any more")  # type: ignore[assignment]
    assert (await versions.fail("v2", thing("b"))).endswith("/v2: there is no such thing any more")
    assert versions.panics == 1


async def test_conversion_fails_for_a_version_or_kind_without_a_function(versions: Versions):
    assert await versions.fail("v9", thing()) == (
        "Thing team/x cannot be converted from test.example.com/v1 to test.example.com/v9: "
        "there is no function for it"
    )
    assert "Other team/x cannot be converted" in await versions.fail("v2", thing(kind="Other"))


@pytest.mark.parametrize(
    "odd",
    [1, None, "text", [], {}, {"apiVersion": 1}, {**thing(), "metadata": "text"}, {**thing(), "kind": None}],
)
async def test_conversion_fails_when_a_review_item_is_not_a_kubernetes_object(versions: Versions, odd: Any):
    assert (await versions.fail("v2", thing(), odd)).startswith("one of the objects cannot be read: ")


@pytest.mark.virtual_time
async def test_conversion_stops_before_the_timeout_of_the_api_server(versions: Versions):
    versions.acts = lambda given: asyncio.sleep(1)
    review = conversion_review("v2", *(thing(f"t{i}") for i in range(100)))
    with pytest.raises(Unanswered, match=r"^the conversion took longer than 29\.5 s"):
        await versions.endpoint.answer(review)
    assert asyncio.get_running_loop().time() == pytest.approx(29.5)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"{}", "missing required field"),
        (conversion_review("v2").replace(b"ConversionReview", b"AdmissionReview"), "AdmissionReview"),
        (conversion_review("v2").replace(b'"review-1"', b'""'), "uid` is empty"),
        (conversion_review("v2").replace(b"[]", b"{}"), "Expected `array`"),
    ],
)
async def test_conversion_refuses_an_invalid_review(versions: Versions, body: bytes, told: str):
    with pytest.raises(BadReview, match=told):
        await versions.endpoint.answer(body)


@pytest.mark.parametrize("levels", [MOST_LEVELS - 2, MOST_LEVELS - 1, 300, 985, 990, 1_000, 5_000, 50_000])
async def test_conversion_error_names_the_object_that_is_nested_beyond_the_limit(
    versions: Versions, levels: int
):
    deep = b"[" * levels + b"]" * levels
    review = conversion_review("v1alpha1", thing(), thing(spec={"a": "deep"})).replace(b'"deep"', deep)
    if levels == MOST_LEVELS - 2:
        assert b'"spec":{"a":' + deep + b"}" in await versions.endpoint.answer(review)
    else:
        with pytest.raises(BadReview, match=r"^`\$\.request\.objects\[1\]` is nested too deeply$"):
            await versions.endpoint.answer(review)


@pytest.mark.parametrize("name", ["managedFields", "finalizers"])
async def test_conversion_accepts_deep_nesting_only_in_managed_fields(versions: Versions, name: str):
    forged = thing()
    forged["metadata"] |= {"labels": {"metadata": "managedFields"}, name: "deep"}
    deep = b'[{"f:a":' * 2_000 + b"1" + b"}]" * 2_000
    review = conversion_review("v1alpha1", thing(), forged).replace(b'"deep"', deep)
    is_refused = name != "managedFields"
    with pytest.raises(BadReview, match="nested too deeply") if is_refused else nullcontext():
        answer = response(await versions.endpoint.answer(review))
        assert (answer["result"]["status"], len(answer["convertedObjects"])) == ("Success", 2)


async def test_conversion_accepts_a_huge_number_of_members_only_in_managed_fields(versions: Versions):
    booked = [{"manager": "x", "fieldsV1": {f"f:{number:05}": {} for number in range(100_000)}}]
    given = thing("many")
    given["metadata"] = {**given["metadata"], "managedFields": booked, "labels": {"a": "b"}}
    bare = {**given, "metadata": {"managedFields": booked}}
    shown = await versions.convert("v2", given, thing("other"), bare)
    assert [each["metadata"] for each in shown] == [
        each["metadata"] for each in (given, thing("other"), bare)
    ]
    for place in ("spec", "metadata"):
        costly = {**given, place: {**given[place], "more": booked}}
        with pytest.raises(TooCostly, match="more lists, objects and members"):
            await versions.convert("v2", costly)


async def test_conversion_raises_a_too_costly_error_when_its_response_is_too_long(versions: Versions):
    # Each number takes four bytes in the review and twenty in the response.
    numbers = b",".join([b"1e15"] * 50_000)
    given = thing(version="v1alpha1", numbers=["@"])
    review = conversion_review("v1", given, given).replace(b'"@"', numbers)
    assert len(review) < 1_000_000
    versions.endpoint.max_answer = 1_000_000
    with pytest.raises(TooCostly, match="converted, the objects have more than"):
        await versions.endpoint.answer(review)


@pytest.mark.parametrize(
    ("metadata", "after"),
    [
        ({"name": "a"}, {"name": "a", "annotations": {"new": "1"}}),
        ({"annotations": {"old": "1"}}, {"annotations": {"old": "1", "new": "1"}}),
        ({"annotations": None}, {"annotations": {"new": "1"}}),
        ({"annotations": ["a"]}, {"annotations": {"new": "1"}}),
        (None, None),
    ],
)
def test_spec_and_annotations_block_saves_changes_despite_malformed_metadata(metadata: Any, after: Any):
    obj = {"spec": {"a": 1}, "metadata": metadata}
    with spec_and_annotations(obj) as (spec, annotations):
        spec["b"] = 2
        annotations["new"] = "1"
    assert obj == {"spec": {"a": 1, "b": 2}, "metadata": after}


@pytest.mark.parametrize("annotations", [None, {}, {"kept": "1"}, "text"])
@pytest.mark.parametrize("spec", [{}, None, "text"])
def test_spec_and_annotations_block_leaves_an_unchanged_object_equal(spec: Any, annotations: Any):
    obj = {"spec": spec, "metadata": {"annotations": annotations}}
    with spec_and_annotations(obj) as (_, found):
        found["rides"] = "along"
        del found["rides"]
    assert obj == {"spec": spec, "metadata": {"annotations": annotations}}
    if annotations == {"kept": "1"}:
        with spec_and_annotations(obj) as (_, found):
            del found["kept"]
        assert obj == {"spec": spec, "metadata": {}}
