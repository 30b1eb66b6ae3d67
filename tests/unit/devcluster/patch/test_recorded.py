"""Writes, and what a real server made of them, in order, one object after another."""

from __future__ import annotations

import copy
import functools
import json
from typing import Any

import pytest

from devcluster import patch
from devcluster.errors import StatusError
from devcluster.schema.node import Schema
from devcluster.schema.structural import parse
from devcluster.types import schema_for
from tests.recordings import writes

NO_TIME = "2099-01-01T00:00:00Z"


@functools.cache
def schema_of(api_version: str, kind: str) -> Schema:
    group, _, version = api_version.rpartition("/")
    if kind == "Thing":
        return parse(writes.thing_schema())
    return schema_for(group, version, kind)


def versions_of(kind: str) -> patch.Convert | None:
    """As the kinds here have it: Thing in two versions that differ in nothing."""
    if kind != "Thing":
        return None
    versions = [f"patchlab.example.com/{version}" for version in ("v1", "v2")]
    return patch.in_versions({version: schema_of(version, kind) for version in versions})


def steps() -> list[Any]:
    return [
        pytest.param(step, id=f"{part.rpartition('/')[2]}-{step['name']}")
        for part in writes.PARTS
        for step in writes.steps(part)
    ]


def time_of(step: dict[str, Any]) -> str:
    """When the recorded write happened, as far as it left a trace."""
    if "refusal" in step:
        return NO_TIME
    writers = {step["manager"], "before-first-apply", "ancient-changes"}
    entries = step["after"]["metadata"].get("managedFields", [])
    return (
        max((entry.get("time", "") for entry in entries if entry["manager"] in writers), default="")
        or NO_TIME
    )


def comparable(obj: Any) -> Any:
    """The object without what the rest of the server does to it: defaults, numbers, the status kept apart."""
    obj = copy.deepcopy(obj)
    for field in ("managedFields", "creationTimestamp", "generation", "resourceVersion", "uid"):
        obj["metadata"].pop(field, None)
    obj.pop("status", None)
    return without_nulls(obj)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(below) for name, below in value.items() if below is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def run(step: dict[str, Any]) -> tuple[Any, Any]:
    """The object, None where the request itself was it, and the managedFields."""
    body, before = step["body"], copy.deepcopy(step["before"])
    api_version = step.get("apiVersion", "v1")
    kind = (before or body)["kind"]
    schema = schema_of(api_version, kind)
    common = {
        "schema": schema,
        "manager": step["manager"],
        "api_version": api_version,
        "now": time_of(step),
        "subresource": step.get("subresource", ""),
        "reset": [tuple(path) if isinstance(path, list) else path for path in step.get("reset", ())],
        "convert": versions_of(kind),
    }
    how = step.get("as")
    if how == "apply":
        patch.check_applied(body, *api_version.rpartition("/")[::2], kind)
        applied = patch.apply(before, body, force=step.get("force", False), **common)
        return applied, applied["metadata"].get("managedFields")
    patched = None
    if how == "json":
        patched = patch.json_patch(before, body)
    elif how == "merge":
        patched = patch.merge_patch(before, body)
    elif how == "strategic":
        patched = patch.strategic_merge_patch(before, body, schema)
    if step["after"] is None:
        return patched, None
    new = copy.deepcopy(step["after"])  # with the defaults that come before
    new["metadata"].pop("managedFields", None)
    given = (patched or body)["metadata"].get("managedFields")
    if given is not None:
        new["metadata"]["managedFields"] = given
    patch.record_update(new, before, **common)
    return patched, new["metadata"].get("managedFields")


@pytest.mark.parametrize("step", steps())
def test_a_write_has_the_outcome_that_it_had_on_the_real_server(step: dict[str, Any]):
    if "refusal" in step:
        with pytest.raises(StatusError) as refused:
            run(step)
        status = refused.value.to_status()
        told = {key: status[key] for key in step["refusal"] if key in status}
        assert by_cause(told) == by_cause(step["refusal"])
        return

    obj, entries = run(step)

    assert entries == step["after"]["metadata"].get("managedFields")
    assert json.dumps(entries) == json.dumps(step["after"]["metadata"].get("managedFields"))  # order included
    if obj is not None and step["before"] is not None:
        assert comparable(obj) == comparable(step["after"])


def by_cause(status: dict[str, Any]) -> dict[str, Any]:
    """The refusal with its causes in a fixed order: the real server has none."""
    status = copy.deepcopy(status)
    if causes := status.get("details", {}).get("causes"):
        causes.sort(key=str)
    return status
