"""Writes with an odd value in a field: the server accepts them or answers with a Status."""

from __future__ import annotations

import copy
import json
import logging
import random
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from tests.recordings import builtin
from tests.unit.devcluster.api.conftest import APPLY, JSON, MERGE, Api

REMOVED = object()
ODD: list[Any] = [
    REMOVED, None, "", "é\x00\U0001f600", -1, 0, 2**63, 10**30, 1.5, True, [], {}, [None], [{}], {"a": None},
    [[1]], ["x"], {"": {"": {}}},
]  # fmt: skip
SAMPLE = 40
"""Maximum number of tested fields per object; all fields would take minutes."""
ACCEPTED = [each for each in builtin.objects() if each["answer"]["kind"] != "Status" and "old" not in each]
OBJECTS = {each["resource"]: each["sent"] for each in reversed(ACCEPTED)}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield (*path, key)
        yield from places(each, (*path, key))


def replaced(obj: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return a copy of the object with this value at the path; the value REMOVED deletes the field."""
    copied = copy.deepcopy(obj)
    at = copied
    for step in path[:-1]:
        at = at[step]
    if value is REMOVED:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return copied


def nested(path: tuple[Any, ...], value: Any) -> Any:
    for step in reversed(path):
        value = {step: value} if isinstance(step, str) else [value]
    return value


@pytest.mark.parametrize("name", OBJECTS)
async def test_api_write_with_an_odd_field_value_causes_no_internal_error(
    api: Api, name: str, caplog: pytest.LogCaptureFixture
):
    resource = next(each for each in api.server.registry.all() if each.name == name)
    where = f"/apis/{resource.group}/{resource.version}" if resource.group else "/api/v1"
    where += f"/namespaces/default/{resource.plural}" if resource.namespaced else f"/{resource.plural}"
    obj = {"apiVersion": resource.api_version, "kind": resource.kind, **copy.deepcopy(OBJECTS[name])}
    obj["metadata"]["name"] = "o"
    obj["metadata"].pop("namespace", None)
    await api.ask("POST", where, obj)
    live = orjson.loads((await api.ask("GET", f"{where}/o")).body)
    live = obj if live["kind"] == "Status" else live
    rng = random.Random(1)
    fields = list(places(live))
    for path in rng.sample(fields, min(SAMPLE, len(fields))):
        value = rng.choice(ODD)
        damaged = replaced(live, path, value)
        value = None if value is REMOVED else value
        patch = nested(path, value)
        pointer = "/" + "/".join(str(step).replace("~", "~0").replace("/", "~1") for step in path)
        bodies = [
            ("POST", where, damaged, JSON),
            ("PUT", f"{where}/o", damaged, JSON),
            ("PATCH", f"{where}/o", patch, MERGE),
            ("PATCH", f"{where}/o", patch, "application/strategic-merge-patch+json"),
            ("PATCH", f"{where}/o", damaged, APPLY),
            ("PATCH", f"{where}/o", [{"op": "replace", "path": pointer, "value": value}],
             "application/json-patch+json"),
        ]  # fmt: skip
        for part in ("status", "scale"):
            if part in resource.subresources:
                bodies += [
                    ("PUT", f"{where}/o/{part}", damaged, JSON),
                    ("PATCH", f"{where}/o/{part}", patch, MERGE),
                ]
        for method, target, body, media in bodies:
            query = "dryRun=All&fieldManager=x&force=true" if media == APPLY else "dryRun=All"
            text = json.dumps(body).encode()
            with caplog.at_level(logging.ERROR):
                answer = await api.ask(method, f"{target}?{query}", text, media=media)
            assert not caplog.records, (method, target, text)
            if answer.status >= 400:
                assert orjson.loads(answer.body)["kind"] == "Status"
