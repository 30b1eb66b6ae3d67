"""Successive writes of one object: the stored object and its managedFields after each write."""

from __future__ import annotations

import copy
import datetime
import http
from typing import Any

from tests.recordings import files, load_cases
from tests.recordings.asking import MERGE, NAMESPACE, Server
from tests.recordings.change import change, changed

Json = dict[str, Any]

PARTS = files("writes")
MEDIA = {
    None: "application/json",
    "apply": "application/apply-patch+yaml",
    "json": "application/json-patch+json",
    "merge": MERGE,
    "strategic": "application/strategic-merge-patch+json",
}
BEGIN = datetime.datetime(2026, 1, 1, 1, tzinfo=datetime.UTC)
"""Recorded time of the first write; each further write is one second later."""
DROPPED = {"uid", "creationTimestamp", "resourceVersion", "generation", "managedFields"}


def thing_schema() -> Json:
    """Return the schema of Thing, a kind with one field of each type."""
    return load_cases("writes/thing")[0]["schema"]


def step_cases(part: str) -> dict[str, Json]:
    """Return cases by name: `before` changes the previous case's result, then `manager` sends `body`."""
    (cases,) = load_cases(part)
    return {each["name"]: {**cases.get("common", {}), **each} for each in cases["steps"]}


def record_steps(part: str, server: Server) -> Json:
    found: Json = {}
    if part == "writes/thing":
        _install_thing(server)
    left: Any = None
    for number, (name, case) in enumerate(step_cases(part).items()):
        before = _before(case, left)
        found[name], left = record_step(server, case, before, number)
    return found


def record_step(server: Server, case: Json, before: Any, number: int) -> tuple[Json, Any]:
    """Send one write; return the recorded answer and the object after the write."""
    obj = before or case["body"]
    path = server.collection({"kind": obj["kind"], "apiVersion": case.get("apiVersion", "v1")})
    one = f"{path}/{obj['metadata']['name']}"
    _bring_about(server, path, one, before)
    query = {"fieldManager": case["manager"], **({"force": "true"} if case.get("force") else {})}
    method = "PATCH" if "as" in case else "PUT" if before else "POST"
    target = path if method == "POST" else f"{one}/{case['subresource']}" if "subresource" in case else one
    answer = server.ask(method, target, case["body"], media=MEDIA[case.get("as")], query=query).value
    if answer["kind"] == "Status":
        return {"refused": _refusal(answer)}, before
    after = _recorded(answer, number)
    return _change(before, after), after


def _refusal(status: Json) -> Json:
    """Return the errors sorted, because the real server returns them in random order."""
    head, errors, lines = status["message"].partition("errors:\n")
    message = f"{head}{errors}" + "\n".join(sorted(lines.split("\n"))) if errors else head
    told = {key: status[key] for key in ("reason", "code") if status.get(key)}
    causes = sorted(status.get("details", {}).get("causes", ()), key=str)
    return {"message": message, **told, **({"details": {"causes": causes}} if causes else {})}


def _before(case: Json, left: Any) -> Any:
    if case.get("fresh"):
        return None
    before = _changed(left, case.get("before", {}))
    return {**before, "apiVersion": case.get("apiVersion", "v1")} if before else None


def _change(before: Any, after: Any) -> Json:
    """Return the changes of the object and of its managedFields; the order of managedFields matters."""
    (old, old_entries), (new, new_entries) = _apart(before), _apart(after)
    found = {"made": made} if (made := change(old, new)) else {}
    if old_entries != new_entries or repr(old_entries) != repr(new_entries):
        found["managedFields"] = change(old_entries, new_entries, ordered=True)
    return found


def _changed(before: Any, difference: Json) -> Any:
    obj, entries = _apart(before)
    obj = changed(obj, difference["made"]) if "made" in difference else obj
    if "managedFields" in difference:
        entries = changed(entries, difference["managedFields"])
    if obj is None or entries is None:
        return obj
    return {**obj, "metadata": {**obj["metadata"], "managedFields": entries}}


def _apart(obj: Any) -> tuple[Any, Any]:
    if obj is None:
        return None, None
    metadata = dict(obj["metadata"])
    entries = metadata.pop("managedFields", None)
    return {**obj, "metadata": metadata}, entries


def _recorded(answer: Json, number: int) -> Json:
    """Remove values that the server chooses; the time of write `number` is that many seconds after BEGIN."""
    obj = copy.deepcopy(answer)
    entries = obj["metadata"].get("managedFields")
    obj["metadata"] = {key: each for key, each in obj["metadata"].items() if key not in DROPPED}
    moment = (BEGIN + datetime.timedelta(seconds=number)).strftime("%Y-%m-%dT%H:%M:%SZ")
    for entry in entries or ():
        if "time" in entry and datetime.datetime.fromisoformat(entry["time"]) > BEGIN + datetime.timedelta(
            hours=1
        ):
            entry["time"] = moment
    return obj if entries is None else {**obj, "metadata": {**obj["metadata"], "managedFields": entries}}


def _bring_about(server: Server, path: str, one: str, wanted: Any) -> None:
    """Create or delete the object, so that its content, managedFields and times are as in `wanted`."""
    if wanted is None:
        server.ask("PATCH", one, {"metadata": {"finalizers": None}}, media=MERGE)
        server.ask("DELETE", one)
        return
    obj, entries = _apart(wanted)
    if server.ask("GET", one).status == http.HTTPStatus.NOT_FOUND:
        server.must("POST", path, obj)

    def put(where: str, **metadata: Any) -> None:
        version = server.must("GET", one)["metadata"]["resourceVersion"]
        server.must(
            "PUT", where, {**obj, "metadata": {**obj["metadata"], "resourceVersion": version, **metadata}}
        )

    put(one)
    if "status" in obj and server.ask("GET", f"{one}/status").status == http.HTTPStatus.OK:
        put(f"{one}/status")
    put(one, managedFields=[{}])  # the server would ignore entries that differ only in their times
    put(one, managedFields=entries or [{}])
    got, managers = _apart(_recorded(server.must("GET", one), 0))
    assert (got, managers) == (obj, entries), f"{one} cannot be created as {wanted}: {got}, {managers}"


def _install_thing(server: Server) -> None:
    versions: list[Json] = [
        {
            "name": name,
            "served": True,
            "storage": name == "v1",
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": thing_schema()},
        }
        for name in ("v1", "v2")
    ]
    group = "patchlab.example.com"
    names = {"plural": "things", "kind": "Thing"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": versions},
    }
    server.define(definition)
    for version in versions:
        path = f"/apis/{group}/{version['name']}"
        server.until(path, lambda found: found.status == http.HTTPStatus.OK)
        server.until(
            f"{path}/namespaces/{NAMESPACE}/things", lambda found: found.status == http.HTTPStatus.OK
        )
