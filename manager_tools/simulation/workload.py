"""User actions in a cluster, generated from the kinds' own schemas."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta

from manager.util.program import Program

Object = dict[str, Any]

PROGRAM = Program("simulated", "0")
LEASE_NAMESPACE = "kube-system"

PLANTED = "planted"
"""What every password, token and other secret begins with, as far as a simulation makes it."""

NAMESPACES = ("default", "team")
NAMES = ("web", "db", "tron")
"""Few, so that names are taken, and given again."""

ACTS = {
    "create": 8,
    "change": 6,
    "delete": 3,
    "orphan": 1,
    "apply": 1.5,
    "spoil child": 2,
    "relabel child": 1,
    "apply child": 1,
    "delete child": 2,
    "evict pod": 1,
    "take name": 1.5,
    "free name": 1,
    "annotate": 1,
    "empty status": 1,
    "hold": 1,
    "let go": 0.7,
    "delete namespace": 0.3,
}
"""What people do, and how often."""

_WORDS = (
    *("", "a", "web", "db", "tron", "dog", "cat", "secret word", "ä b", "x" * 70),
    *("2021-04-01", "2020-02-29", "2021-04-01T00:00:00Z", "10Mi", "1Gi", "2Gi"),
    *("ann@example.com", "nginx:1.27"),
)
"""Texts that something in some schema may want; the API server says which."""

_FORMATS = {"date": r"\d{4}-\d\d-\d\d", "email": r".+@.+"}
_LARGEST = 3
_UNSET = 0.6
_BEYOND = 0.03
_EDGE = 0.1
_MOST = 100
"""Of which there may be so many, there is no point in having as many as the schema allows."""


Seconds = Annotated[float, Meta(ge=0, le=86_400)]
"""Of virtual time; a plan that somebody has written has no more than a day."""


@dataclass(frozen=True, slots=True)
class Step:
    """User action at a virtual time; `draw` seeds all its random choices."""

    at: Seconds
    act: Annotated[str, Meta(pattern=f"^({'|'.join(ACTS)})$")]
    kind: Annotated[int, Meta(ge=0)]
    """Of the operators' kinds, which."""
    draw: Annotated[int, Meta(ge=0)]

    def __str__(self) -> str:
        return f"{self.at:8.3f}  {self.act}"


def steps(rng: random.Random, kinds: int, *, seconds: float, count: int) -> list[Step]:
    """Generate `count` actions on that number of kinds, within `seconds`."""
    acts, weights = list(ACTS), list(ACTS.values())
    made = [
        Step(
            at=0.0 if number < kinds else rng.uniform(0.0, seconds),
            act="create" if number < kinds else rng.choices(acts, weights)[0],
            kind=number if number < kinds else rng.randrange(kinds),
            draw=rng.getrandbits(64),
        )
        for number in range(count)
    ]
    return sorted(made, key=lambda step: step.at)


def drawn(schema: Mapping[str, Any], rng: random.Random) -> Any:
    """Draw a value that the schema allows, or almost allows."""
    values: Sequence[Any] = schema.get("enum") or ()
    if rng.random() < _BEYOND:
        values = (None, "", -1, 2**31, [], {}, "x" * 300)
    elif rng.random() < _EDGE:
        values = edges(schema) or values
    if values:
        return rng.choice(values)
    match schema.get("type"):
        case "object":
            return _object(schema, rng)
        case "array":
            return [drawn(schema["items"], rng) for _ in range(rng.randrange(_LARGEST))]
        case "boolean":
            return rng.random() < 0.5  # noqa: PLR2004 - either
        case "integer" | "number":
            least = schema.get("minimum", 0)
            return rng.randint(int(least), int(min(least + _LARGEST, schema.get("maximum", 2**31 - 1))))
        case "string":
            return _text(schema, rng)
    return rng.choice(_WORDS)  # an int or a string


def edges(schema: Mapping[str, Any]) -> list[Any]:
    """Return the values at a schema's bounds, and those right beyond."""
    if values := schema.get("enum"):
        return [*values, f"not {values[0]}"]
    kind, found = schema.get("type"), list[Any]()
    if kind in {"integer", "number"}:
        if "minimum" in schema:
            found += [schema["minimum"], schema["minimum"] - 1]
        if "maximum" in schema:
            found += [each for each in (schema["maximum"],) if each <= _MOST] + [schema["maximum"] + 1]
    elif kind == "string" and "pattern" not in schema:
        if least := schema.get("minLength", 0):
            found += ["x" * least, "x" * (least - 1)]
        if "maxLength" in schema:
            found += ["x" * schema["maxLength"], "x" * (schema["maxLength"] + 1)]
    elif kind == "array" and schema.get("maxItems", _MOST) < _MOST:
        item = next(iter(edges(schema["items"])), "x")
        found += [[], [item] * (schema["maxItems"] + 1)]
    return found


def changed(spec: Object, schema: Mapping[str, Any], rng: random.Random) -> Object:
    """Draw a merge patch that changes or removes one field of the spec."""
    name = rng.choice(sorted(schema.get("properties") or {"": None}))
    if not name:
        return {}
    inner = schema["properties"][name]
    if name in spec and name not in schema.get("required", ()) and rng.random() > _UNSET:
        return {name: None}
    if inner.get("type") == "object" and "properties" in inner and isinstance(spec.get(name), dict):
        return {name: changed(spec[name], inner, rng)}
    return {name: _drawn_for(name, inner, rng)}


def _drawn_for(name: str, schema: Mapping[str, Any], rng: random.Random) -> Any:
    """Draw a value for a field of that name; a password contains a mark that can be searched for."""
    value, secret = drawn(schema, rng), name.endswith("password") or schema.get("format") == "password"
    if secret and value and isinstance(value, str) and value not in edges(schema):
        return (PLANTED + value)[: max(len(value), len(PLANTED))]
    return value


def _object(schema: Mapping[str, Any], rng: random.Random) -> Object:
    required = schema.get("required", ())
    made = {
        name: _drawn_for(name, inner, rng)
        for name, inner in sorted((schema.get("properties") or {}).items())
        if name in required or rng.random() > _UNSET
    }
    if not made and "additionalProperties" in schema:
        made = {rng.choice(NAMES): drawn(schema["additionalProperties"], rng)}
    return made


def _text(schema: Mapping[str, Any], rng: random.Random) -> str:
    fitting = _fitting(schema)
    return rng.choice(fitting or _WORDS)


def _fitting(schema: Mapping[str, Any]) -> Sequence[str]:
    least, most = schema.get("minLength", 0), schema.get("maxLength", 2**31)
    pattern = schema.get("pattern")
    words = [word for word in _WORDS if least <= len(word) <= most]
    if (form := schema.get("format")) in _FORMATS:
        words = [word for word in words if re.fullmatch(_FORMATS[form], word)]
    if pattern is None:
        return words
    try:
        return [word for word in words if re.search(pattern, word)]
    except re.error:
        return words
