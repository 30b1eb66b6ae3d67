"""Objects of other versions, and those written by other rules than the present ones."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster.crd.resources import resources_of, webhook_conversion
from devcluster.errors import StatusError
from devcluster.schema.node import Schema, parse
from devcluster.schema.versions import CustomVersions

TEXT = {"type": "string"}


def schema(**fields: Any) -> Schema:
    return parse({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}})


def definition(generation: int) -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {}}}
    names = {"kind": "Thing", "plural": "things"}
    return {
        "metadata": {"name": "things.example.com", "generation": generation, "resourceVersion": "7"},
        "spec": {"group": "example.com", "names": names, "scope": "Cluster", "versions": [version]},
    }


def test_tidy_drops_unknown_fields_and_adds_new_defaults():
    versions = CustomVersions({"example.com/v1": schema(new={**TEXT, "default": "x"})}, stale_until=5)
    obj = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {}, "spec": {"old": 1}}

    versions.tidy(obj)

    assert obj["spec"] == {"new": "x"}
    assert (versions.is_stale(5), versions.is_stale(6)) == (True, False)


def test_versions_are_alike_when_they_take_the_same_objects():
    schemas = {"v1": schema(a=TEXT), "v2": schema(a=TEXT), "v3": schema(b=TEXT)}
    versions = CustomVersions(schemas, stale_until=0)
    assert versions.are_alike("v1", "v2")
    assert not versions.are_alike("v1", "v3")


@pytest.mark.parametrize(("generation", "stale"), [(1, False), (2, True)])
def test_custom_versions_are_stale_only_when_the_definition_has_changed(generation: int, stale: bool):
    (resource,) = resources_of(definition(generation))
    assert resource.custom_versions is not None
    assert resource.custom_versions.is_stale(7) is stale
    assert not resource.custom_versions.is_stale(8)


Object = dict[str, Any]
CONVERSION = {
    "strategy": "Webhook",
    "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://example.com/convert"}},
}


def thing(version: str, **metadata: Any) -> Object:
    return {
        "kind": "Thing",
        "apiVersion": f"example.com/{version}",
        "metadata": {"name": "a", "uid": "u", "labels": {"a": "b"}, **metadata},
    }


class Webhook:
    """Answers with `change` applied to what a good webhook would answer."""

    def __init__(self, change: Any = None) -> None:
        self.change = change
        self.asked: list[Object] = []

    async def __call__(self, config: Object, review: Object, timeout: float) -> Object:
        assert config == {"url": "https://example.com/convert"}
        assert timeout == 30
        self.asked.append(review)
        request = review["request"]
        objects = [{**each, "apiVersion": request["desiredAPIVersion"]} for each in request["objects"]]
        response = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects}
        answer = {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}
        if self.change is not None:
            self.change(answer)
        return answer


def answers(**fields: Any) -> Any:
    """Return a change to the fields of the response."""
    return lambda answer: answer["response"].update(fields)


async def test_webhook_conversion_sends_only_objects_of_other_versions():
    webhook = Webhook()
    convert = webhook_conversion(CONVERSION, webhook)
    assert await convert([thing("v1"), thing("v2")], "example.com/v2") == [thing("v2"), thing("v2")]
    ((review),) = webhook.asked
    assert review["request"]["objects"] == [thing("v1")]
    assert await convert([thing("v2")], "example.com/v2") == [thing("v2")]
    assert len(webhook.asked) == 1


async def test_webhook_conversion_can_change_only_labels_and_annotations_of_metadata():
    metadata = {"name": "a", "uid": "u", "labels": {"c": "d"}}
    change = answers(convertedObjects=[thing("v2") | {"metadata": {**metadata, "finalizers": ["x"]}}])
    (converted,) = await webhook_conversion(CONVERSION, Webhook(change))([thing("v1")], "example.com/v2")
    assert converted["metadata"] == metadata


def cut(_: Object) -> None:
    raise ConnectionError("connection refused")


FAILED = "conversion webhook for example.com/v1, Kind=Thing"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (cut, "failed: connection refused"),
        (lambda answer: answer.pop("response"), "failed: no response provided"),
        (
            lambda answer: answer.update(kind="X"),
            "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=",
        ),
        (answers(uid="x"), r'failed: expected response.uid="[-0-9a-f]+", got "x"'),
        (answers(result={"status": "Failed", "message": "no way"}), "failed: no way"),
        (answers(result={}), "failed: response.result.status was '', not 'Success'"),
        (answers(convertedObjects=[]), ".*returned 0 objects, expected 1"),
        (
            answers(convertedObjects=[thing("v3")]),
            r".*at index 0: invalid groupVersion \(expected example.com/v2, received example.com/v3\)",
        ),
        (answers(convertedObjects=[thing("v2", name="b")]), ".*at index 0: must have the same name: a != b"),
    ],
)
async def test_wrong_conversion_answer_gives_the_error_of_the_real_server(change: Any, message: str):
    with pytest.raises(StatusError, match=f"{FAILED} {message}") as refused:
        await webhook_conversion(CONVERSION, Webhook(change))([thing("v1")], "example.com/v2")
    assert refused.value.code == 500
