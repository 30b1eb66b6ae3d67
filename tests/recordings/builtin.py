"""Objects of built-in kinds: the stored object after a write, and its table row."""

from __future__ import annotations

import collections
import http
import json
import time
from typing import Any

from devcluster.builtin import resources
from devcluster.patch import merge_patch
from tests.conformance.mask import sort_causes
from tests.recordings import load_answers, load_cases
from tests.recordings.asking import MERGE, MOMENT, NAMESPACE, NOW, Server, fixed, shifted
from tests.recordings.change import change, changed

Json = dict[str, Any]

OBJECTS, ROWS = "builtin/objects", "builtin/rows"
RESOURCES = {each.name: each for each in reversed(resources())}  # the preferred version
REFUSAL = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
UID = "00000000-0000-4000-8000-000000000001"
IDENTITY = {"uid", "creationTimestamp", "managedFields", "resourceVersion"}
FEW = 2
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def object_cases() -> dict[str, Json]:
    """Return cases by name: each dry-runs a creation, or creates an object and dry-runs its `change`."""
    (cases,) = load_cases(OBJECTS)
    return {each["name"]: each for each in cases}


def row_cases() -> dict[str, Json]:
    """Return the cases, each with an `object` to create and an optional `status`."""
    (cases,) = load_cases(ROWS)
    count: collections.Counter[str] = collections.Counter()
    found = {}
    for each in cases:
        count[each["resource"]] += 1
        found[f"{each['resource']} {count[each['resource']]}"] = each
    return found


def objects() -> list[Json]:
    """Return the cases, each with the object `sent`, the `answer`, and for an update the `old` object."""
    found, answers = [], load_answers(OBJECTS)
    for name, case in object_cases().items():
        sent, answer = _typed(case["resource"], case["create"]), answers[name]
        whole: Json = {"name": name, "resource": case["resource"], "sent": sent}
        if "change" in case:
            whole["old"] = _with_identity(changed(sent, answer["old"]))
            sent = whole["sent"] = _with_change(whole["old"], case["change"])
        if "made" in answer:
            whole["answer"] = _with_identity(changed(sent, answer["made"]))
        elif "causes" in answer:
            whole["answer"] = {**REFUSAL, "details": {"causes": answer["causes"]}}
        else:
            whole["answer"] = changed(REFUSAL, answer["refused"])
        found.append(whole)
    return found


def record_objects(server: Server) -> Json:
    found: Json = {}
    for name, case in object_cases().items():
        sent = _typed(case["resource"], case["create"])
        base = server.collection(sent)
        dry = {"dryRun": "All"}
        if "change" not in case:
            answer = server.ask("POST", base, sent, query=dry)
            found[name] = _recorded(sent, fixed(answer.value, answer.at, asked=sent))
            continue
        one = f"{base}/{sent['metadata']['name']}"
        server.must("POST", base, sent)
        before = server.ask("GET", one)
        new = _with_change(before.value, case["change"])
        answer = server.ask("PUT", one, new, query=dry)
        pair = fixed({"old": before.value, "answer": answer.value}, answer.at, asked=case)
        old = _stripped(pair["old"])
        found[name] = {
            "old": change(sent, old),
            **_recorded(_with_change(_with_identity(old), case["change"]), pair["answer"]),
        }
        _delete(server, one)
    return found


def record_rows(server: Server) -> Json:
    found: Json = {}
    seen = set()
    for name, case in row_cases().items():
        row, columns = _row(server, name, case)
        found[name] = row if case["resource"] in seen else {"columns": columns, **row}
        seen.add(case["resource"])
    return found


def _row(server: Server, name: str, case: Json) -> tuple[Json, Json]:
    wanted = _shown_object(name, case)
    base = server.collection(wanted)
    one = f"{base}/{wanted['metadata']['name']}"
    while True:  # until all writes happen in one second, so that all objects have the same age
        delta = server.ask("GET", "/version").at - MOMENT
        made = server.must("POST", base, shifted(wanted, delta))
        if "status" in case:
            status = {"status": shifted(case["status"], delta)}
            server.must("PATCH", f"{one}/status", status, media=MERGE)
        if case.get("deleted"):
            server.must("DELETE", one)
        table = server.ask("GET", one, query={"includeObject": "Object"}, accept=TABLE)
        _delete(server, one)
        if table.at == MOMENT + delta and made["metadata"]["creationTimestamp"] == shifted(NOW, delta):
            break
        time.sleep(1 - time.time() % 1)
    columns = {
        each["name"]: [each["type"], each["format"], each["priority"]]
        for each in table.value["columnDefinitions"]
    }
    (row,) = fixed(shifted(table.value["rows"], -delta), MOMENT, asked=case)
    row["object"] = change(wanted, _stripped(row["object"]))
    return row, columns


def _shown_object(name: str, case: Json) -> Json:
    wanted = _typed(case["resource"], case["object"])
    wanted["metadata"] = {"name": name.replace(" ", "-").replace(".", "-"), **wanted.get("metadata", {})}
    return wanted


def _delete(server: Server, one: str) -> None:
    server.ask("PATCH", one, {"metadata": {"finalizers": None}}, media=MERGE)
    server.ask("DELETE", f"{one}?gracePeriodSeconds=0&propagationPolicy=Background")
    if "/api/v1/namespaces/" in one and one.count("/") == 4:
        server.must("PUT", f"{one}/finalize", {**server.must("GET", one), "spec": {}})
    assert server.ask("GET", one).status == http.HTTPStatus.NOT_FOUND, f"{one} still exists"


def _recorded(sent: Json, answer: Json) -> Json:
    if answer["kind"] == "Status":
        if len(answer.get("details", {}).get("causes", ())) <= FEW:
            return {"refused": change(REFUSAL, answer)}
        sort_causes(answer)  # the message repeats the causes
        return {"causes": answer["details"]["causes"]}
    return {"made": change(sent, _stripped(answer))}


def _stripped(obj: Json) -> Json:
    """Return the object without the metadata that `_with_identity` adds."""
    return {**obj, "metadata": {key: each for key, each in obj["metadata"].items() if key not in IDENTITY}}


def _with_identity(obj: Json) -> Json:
    return {**obj, "metadata": {**obj["metadata"], "uid": UID, "creationTimestamp": NOW}}


def _with_change(old: Json, patch: Json) -> Json:
    new: Json = merge_patch(old, patch)
    new["metadata"].pop("resourceVersion", None)
    return new


def _typed(name: str, obj: Json) -> Json:
    """Return the object with apiVersion and kind, and with the namespace instead of `@`."""
    resource = RESOURCES[name]
    obj = json.loads(json.dumps(obj).replace('"@"', f'"{NAMESPACE}"'))
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
