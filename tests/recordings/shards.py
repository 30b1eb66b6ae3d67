"""Lists of objects by the hash of their UIDs, from a server with the feature ShardedListAndWatch."""

from __future__ import annotations

import http
from collections.abc import Mapping
from typing import Any

from tests.recordings import load_answers, load_cases
from tests.recordings.asking import NAMESPACE, Server

Json = dict[str, Any]

SELECTORS = "shards/selectors"
FLAGS = ("--feature-gates=ShardedListAndWatch=true",)
OBJECTS = 200
"""Number of objects, so many that every shard has objects."""
JSON = "application/json"
UIDS = "uids"
"""Case with the UIDs in each shard, which differ in each server."""
SIZE = 1 << 60


def selector_cases() -> dict[str, Json]:
    """Return list requests by case name: `query`, `accept` and `resource` (default: ConfigMaps)."""
    cases: list[Json] = load_cases(SELECTORS)[0]["cases"]
    found = {each.get("name", each["query"]["shardSelector"]): each for each in cases}
    return {UIDS: {}, **found}


def definition() -> Json:
    """Return the CRD of the custom kind that some cases list."""
    return load_cases(SELECTORS)[0]["definition"]


def recorded_uids() -> list[tuple[str, int]]:
    """Return each recorded UID with the number of its shard, from 0 to 15."""
    return [(uid, int(digit, 16)) for digit, uids in load_answers(SELECTORS)[UIDS].items() for uid in uids]


def record_selectors(server: Server) -> Json:
    server.define(definition())
    names = definition()["spec"]["names"]
    paths = {resource: path_of(resource, NAMESPACE) for resource in ("configmaps", names["plural"])}
    server.until(paths[names["plural"]], lambda answer: answer.status == http.HTTPStatus.OK)
    for number in range(OBJECTS):
        for resource, path in paths.items():
            server.must("POST", path, new_object(resource, number))

    def listed(path: str, digit: int) -> list[str]:
        found = server.must("GET", path, query={"shardSelector": sixteenth(digit)})
        return [each["metadata"]["uid"] for each in found["items"]]

    parts = {f"{digit:x}": {path: listed(path, digit) for path in paths.values()} for digit in range(16)}
    digits = {uid: digit for digit, part in parts.items() for uids in part.values() for uid in uids}
    found: Json = {UIDS: {digit: part[paths["configmaps"]] for digit, part in parts.items()}}
    for name, case in selector_cases().items():
        if name != UIDS:
            path = paths[case.get("resource", "configmaps")]
            answer = server.ask("GET", path, query=case["query"], accept=case.get("accept", JSON))
            found[name] = shown(answer.value, answer.status, digits)
    return found


def path_of(resource: str, namespace: str) -> str:
    base = "/api/v1" if resource == "configmaps" else f"/apis/{definition()['spec']['group']}/v1"
    return f"{base}/namespaces/{namespace}/{resource}"


def new_object(resource: str, number: int) -> Json:
    kind = {} if resource == "configmaps" else {"apiVersion": "example.com/v1", "kind": "Part"}
    return {**kind, "metadata": {"name": f"object-{number:03}"}}


def sixteenth(number: int) -> str:
    """Return the shard selector of the shard with this number, from 0, of 16 equal shards."""
    return f"shardRange(object.metadata.uid, '0x{number * SIZE:016x}', '0x{(number + 1) * SIZE:016x}')"


def shown(value: Json, status: int, digits: Mapping[str, str]) -> Json:
    """Return an answer without its objects, but with the shards that contain the objects."""
    if value["kind"] == "Status":
        told = {name: value[name] for name in ("message", "reason", "details") if name in value}
        return {"status": status, **told}
    metadata = value["metadata"]
    objects = [each.get("object", each) for each in value.get("items", value.get("rows"))]
    found = sorted({digits[each["metadata"]["uid"]] for each in objects})
    answer = {"kind": value["kind"], "sixteenths": "".join(found)}
    answer |= {name: metadata[name] for name in ("remainingItemCount", "shardInfo") if name in metadata}
    return {**answer, "items": len(objects)} if metadata.get("continue") else answer
