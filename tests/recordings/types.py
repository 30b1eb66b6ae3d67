"""Request bodies: validation errors of JSON, and objects in protobuf."""

from __future__ import annotations

import base64
import collections
import http
import json
import re
from typing import Any

from tests.recordings import load_answers, load_cases
from tests.recordings.asking import MERGE, MOMENT, NAMESPACE, Server, fixed

Json = dict[str, Any]

BODIES, PROTOBUF = "types/bodies", "types/protobuf"
LONG_ENOUGH = 1000
"""Versions from this number on have four digits, like the constant that replaces them."""
VERSION = "1000"
RECENT = 60
"""Maximum age of a created object in seconds."""


def body_cases() -> dict[str, tuple[str, str]]:
    """Return request bodies, each with its field validation mode, by case name (kind and number)."""
    (cases,) = load_cases(BODIES)
    count: collections.Counter[str] = collections.Counter()
    found = {}
    for case in cases:
        mode, body = ("Warn", case["WARN"]) if isinstance(case, dict) else ("Strict", case)
        kind = json.loads(body)["kind"]
        count[kind] += 1
        found[f"{kind} {count[kind]}"] = body, mode
    return found


def served() -> dict[str, Json]:
    """Return the objects of the protobuf cases by case name."""
    return load_cases(PROTOBUF)[0]["objects"]


def protobuf() -> list[tuple[str, bytes, Json]]:
    """Return the name, the protobuf body and the decoded object of each case."""
    found = load_answers(PROTOBUF)
    return [(name, base64.b64decode(each["protobuf"]), each["object"]) for name, each in found.items()]


def record_bodies(server: Server) -> Json:
    found: Json = {}
    for name, (body, mode) in body_cases().items():
        query = {"dryRun": "All", "fieldValidation": mode}
        answer = server.ask("POST", server.collection(json.loads(body)), body, query=query)
        refused = answer.value["kind"] == "Status"
        found[name] = {"refused": answer.value["message"]} if refused else {"warned": answer.warnings}
    return found


def record_protobuf(server: Server) -> Json:
    return {name: _given(server, obj) for name, obj in served().items()}


def _given(server: Server, obj: Json) -> Json:
    """Return the server's object in both encodings, with constants for the values that vary."""
    base = server.collection(obj)
    one = f"{base}/{obj['metadata']['name']}"
    maps, any_map = f"/api/v1/namespaces/{NAMESPACE}/configmaps", {"metadata": {"generateName": "any-"}}
    while int(server.must("POST", maps, any_map)["metadata"]["resourceVersion"]) < LONG_ENOUGH:
        pass
    while True:  # until all writes happen in one second, because the server sorts entries by time
        server.must("POST", base, obj)
        if "status" in obj:
            server.must("PATCH", f"{one}/status", {"status": obj["status"]}, media=MERGE)
        elif obj["kind"] == "CustomResourceDefinition":
            server.until(one, lambda live: "InitialNamesAccepted" in str(live.value))
        if len({each["time"] for each in server.must("GET", one)["metadata"]["managedFields"]}) == 1:
            break
        server.must("DELETE", one)
        server.until(one, lambda live: live.status == http.HTTPStatus.NOT_FOUND)
    encoded, answer = (
        server.ask("GET", one, accept="application/vnd.kubernetes.protobuf").value,
        server.ask("GET", one),
    )
    shown = answer.value
    known = {shown["metadata"]["uid"], *re.findall(r"kube-api-access-\w{5}", json.dumps(shown))}
    pairs = {each.encode(): fixed(each, answer.at).encode() for each in known}
    version = shown["metadata"]["resourceVersion"]
    pairs[b"2\x04" + version.encode()] = b"2\x04" + VERSION.encode()
    pairs |= {b"\x08" + varint(answer.at - ago): b"\x08" + varint(MOMENT) for ago in range(RECENT)}
    for found, instead in pairs.items():
        encoded = encoded.replace(found, instead)
    shown["metadata"]["resourceVersion"] = VERSION
    return {"protobuf": base64.b64encode(encoded).decode(), "object": fixed(shown, answer.at)}


def varint(number: float) -> bytes:
    """Encode the integer part of a number, as in protobuf: seven bits in each byte, the lowest first."""
    rest, encoded = int(number), b""
    while rest > 0x7F:
        encoded += bytes([rest & 0x7F | 0x80])
        rest >>= 7
    return encoded + bytes([rest])
