"""Validation of CRDs, custom objects and CEL rules by a real server."""

from __future__ import annotations

import copy
import http
import itertools
import json
import re
import time
from typing import Any

from tests.recordings import load_answers, load_cases
from tests.recordings.asking import CRDS, MERGE, Answer, Server
from tests.recordings.change import change, changed

Json = dict[str, Any]

COSTS, DEFINITIONS, OBJECTS, RULES = "custom/costs", "custom/definitions", "custom/objects", "custom/rules"
TOGETHER = 8
"""Number of rules in one CRD that stay below the CRD's cost limit."""
ESTABLISHED = 30.0
DRY = {"dryRun": "All"}
FACTOR = re.compile(
    r"Forbidden: estimated (?:rule|messageExpression) cost exceeds budget by factor of (\S+|more than \S+) \("
)
EXACT, NEAR = 1.5, 1.3
"""The server prints factors below EXACT with six digits; NEAR is the factor to aim at."""
CHEAP = "cheap"


def definition_cases() -> dict[str, Json]:
    """Return complete CRDs by case name."""
    (cases,) = load_cases(DEFINITIONS)
    first = cases.pop("ok")
    found = {"ok": first}
    for name, case in cases.items():
        version = {"schema": {"openAPIV3Schema": case["schema"]}} if "schema" in case else None
        found[name] = changed(first, {"spec": {"versions": {"0": version}}} if version else case)
    return copy.deepcopy(found)


def schemas() -> dict[str, Json]:
    """Return the schemas of the object cases by schema name."""
    (cases,) = load_cases(OBJECTS)
    return {name: each["schema"] for name, each in cases.items()}


def object_cases() -> dict[str, Json]:
    """Return cases by name, with `schema`, `old` and `new` spec; `before` is the schema for the old spec."""
    (cases,) = load_cases(OBJECTS)
    return {
        f"{schema} {number}": {
            "name": "a",
            "old": None,
            "schema": schema,
            "before": each.get("before", schema),
            **case,
        }
        for schema, each in cases.items()
        for number, case in enumerate(each["objects"], 1)
    }


def rules() -> Json:
    """Return the rule cases: `properties` of an object, its value `self`, and rules."""
    return load_cases(RULES)[0]


def rule_cases() -> list[str]:
    """Return the rules, which are also the names of their cases."""
    return rules()["rules"].splitlines()


def record_definitions(server: Server) -> Json:
    return {
        name: _judged(server.ask("POST", CRDS, definition, query=DRY))
        for name, definition in definition_cases().items()
    }


def record_objects(server: Server) -> Json:
    found: Json = {}
    known = schemas()
    kind = _Kind(server, "objects")
    for name, case in object_cases().items():
        one, new = kind.path(case["name"]), {"metadata": {"name": case["name"]}, "spec": case["new"]}
        if case["old"] is None:
            kind.become(known[case["schema"]])
            answer = server.ask("POST", kind.path(), kind.typed(new), query=DRY)
        else:
            kind.become(known[case["before"]])
            server.must("POST", kind.path(), kind.typed({**new, "spec": case["old"]}))
            kind.become(known[case["schema"]])
            live = server.must("GET", one)
            answer = server.ask("PUT", one, {**live, "spec": case["new"]}, query=DRY)
            server.must("DELETE", one)
        found[name] = _judged(answer)
        if "kind" in answer.value and answer.value["kind"] != "Status":
            found[name] |= {"made": made} if (made := change(case["new"], answer.value["spec"])) else {}
    return found


def cost_cases() -> dict[str, tuple[Json, Json]]:
    """Return the schema and the rule of each case by name."""
    (cases,) = load_cases(COSTS)
    found = {}
    for name, case in cases.items():
        for rule in case.get("rules", "").splitlines():
            found[f"{name}: {rule}"] = case["schema"], {"rule": rule, **case.get("options", {})}
        for message in case.get("message", "").splitlines():
            found[f"{name}: {message}"] = case["schema"], {"rule": "true", "messageExpression": message}
    return found


def record_costs(server: Server) -> Json:
    before = load_answers(COSTS)
    return {name: _cost(server, *case, before.get(name, "")) for name, case in cost_cases().items()}


def _cost(server: Server, schema: Json, rule: Json, before: str) -> str:
    """Return `COUNT: FACTOR`: COUNT copies of the rule exceed the cost limit by FACTOR.

    For a messageExpression, return only FACTOR, or CHEAP if it does not exceed the limit. The server prints
    only small factors with six digits, so the count is chosen for a small factor. The count in the last
    answer `before` is used again if its factor is still small.
    """
    if "messageExpression" in rule:  # the number of copies does not change its cost
        return _exceeded(server, schema, rule, 1) or CHEAP
    count = int(before.partition(":")[0]) if ":" in before else 1
    said = _exceeded(server, schema, rule, count)
    if said and (count == 1 or _factor(said) < EXACT):
        return f"{count}: {said}"
    count = 1
    while not (said := _exceeded(server, schema, rule, count)):
        count *= 10
    if (factor := _factor(said)) > EXACT and count > 1:
        count = int(count / factor * NEAR)
        said = _exceeded(server, schema, rule, count)
    return f"{count}: {said}"


def _factor(said: str) -> float:
    return float(said.removeprefix("more than ").removesuffix("x"))


def _exceeded(server: Server, schema: Json, rule: Json, count: int) -> str:
    """Return the factor by which `count` copies of a rule exceed the cost limit; "" if they do not."""
    values = {**schema, "x-kubernetes-validations": [rule]}
    # In a map, because only then may a rule use `oldSelf`.
    many = {"type": "object", "maxProperties": count, "additionalProperties": values}
    definition = _definition("costs", _with_properties({"spec": many}))
    causes = _judged(server.ask("POST", CRDS, definition, query=DRY)).get("causes", ())
    return next((found[1] for each in causes if (found := FACTOR.match(each["message"]))), "")


def record_rules(server: Server) -> Json:
    found: Json = {}
    case = rules()

    def schema(rule: str) -> Json:
        return {
            "type": "object",
            "properties": case["properties"],
            "x-kubernetes-validations": [{"rule": rule}],
        }

    for rule in rule_cases():
        definition = _definition("rules", _with_properties({"spec": schema(rule)}))
        causes = _judged(server.ask("POST", CRDS, definition, query=DRY)).get("causes", ())
        found[rule] = {"compile": _of_rule(causes[0]["message"], rule)} if causes else True
    kind = _Kind(server, "rules")
    sound = [rule for rule in rule_cases() if found[rule] is True]
    for number in range(0, len(sound), TOGETHER):
        together = {f"rule{index}": rule for index, rule in enumerate(sound[number : number + TOGETHER])}
        kind.become(_with_properties({name: schema(rule) for name, rule in together.items()}))
        obj = {"metadata": {"name": "a"}, **dict.fromkeys(together, case["self"])}
        for cause in _judged(server.ask("POST", kind.path(), kind.typed(obj), query=DRY)).get("causes", ()):
            rule = together[cause["field"]]
            told = _of_rule(cause["message"], rule)
            found[rule] = False if told == "failed rule:" else {"error": told}
    return found


class _Kind:
    """A custom kind on the server; `become` changes its schema."""

    def __init__(self, server: Server, plural: str) -> None:
        self._server = server
        self._plural = plural
        self._schema: Json | None = None
        self._count = itertools.count()

    def path(self, name: str = "") -> str:
        base = f"/apis/{self._plural}.example.com/v1/{self._plural}"
        return f"{base}/{name}" if name else base

    def typed(self, obj: Json) -> Json:
        return {"apiVersion": f"{self._plural}.example.com/v1", "kind": self._plural.title(), **obj}

    def become(self, schema: Json) -> None:
        """Set the schema, and wait until the server validates objects with it."""
        if schema == self._schema:
            return
        mark = f"mark{next(self._count)}"
        marked = {
            **schema,
            "properties": {**schema["properties"], mark: {"type": "string", "enum": ["only"]}},
        }
        definition = _definition(self._plural, marked)
        if self._schema is None:
            self._server.define(definition)
        else:
            patch = {"spec": {"versions": definition["spec"]["versions"]}}
            self._server.must("PATCH", f"{CRDS}/{definition['metadata']['name']}", patch, media=MERGE)
        self._schema = schema
        probe = self.typed({"metadata": {"name": "probe"}, mark: "another"})
        deadline = time.monotonic() + ESTABLISHED
        while not _names(self._server.ask("POST", self.path(), probe, query=DRY), mark):
            assert time.monotonic() < deadline, f"{self._plural} does not have its schema yet"
            time.sleep(0.02)


def _names(answer: Answer, field: str) -> bool:
    return answer.status == http.HTTPStatus.UNPROCESSABLE_ENTITY and field in json.dumps(answer.value)


def _definition(plural: str, schema: Json) -> Json:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{plural}.example.com"},
        "spec": {
            "group": f"{plural}.example.com",
            "scope": "Cluster",
            "names": {"plural": plural, "kind": plural.title()},
            "versions": [version],
        },
    }


def _with_properties(properties: Json) -> Json:
    return {"type": "object", "properties": properties}


def _judged(answer: Answer) -> Json:
    """Return the answer with sorted causes, because the real server returns them in random order."""
    found: Json = {"warnings": answer.warnings} if answer.warnings else {}
    if answer.value["kind"] == "Status":
        causes = answer.value["details"]["causes"]
        found["causes"] = sorted(causes, key=lambda cause: (cause["field"], cause["message"]))
    return found


def _of_rule(message: str, rule: str) -> str:
    """Return an error message without the rule that it quotes."""
    for start in ("compilation failed", "cel expression must"):
        if start in message:
            return message[message.index(start) :]
    return (
        message.removeprefix("Invalid value: ")
        .removeprefix('"object": ')
        .removesuffix(rule.strip())
        .removesuffix(" ")
    )
