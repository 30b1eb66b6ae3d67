"""Checks that the API server would make, with the code of the embedded control plane."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from devcluster.crd.definition import check_definition as server_check
from devcluster.crd.schema_checks import CRD_LIMIT, RULE_LIMIT, estimate_rules
from devcluster.schema.patterns import compile_pattern
from manager_tools.codegen.model_schema import ModelError

# Escapes of Python and Rust for which Go has another form.
_ESCAPE = re.compile(r"\\(?:u\{([0-9A-Fa-f]+)\}|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_HINTS = {
    "invalid repeat count": "; a length is better limited by max_length",
    "invalid nested repetition operator": "; put the inner one into (?:...)",
}
_SCHEMA = re.compile(r"spec\.(?:validation|versions\[(\d+)\]\.schema)\.openAPIV3Schema")
_STEP = re.compile(
    r"\.properties\[(?P<property>.*?)\](?=\.|$)|\.(?P<items>items)|\.(?P<values>additionalProperties)"
)
_RULE = re.compile(r"\.x-kubernetes-validations\[(\d+)\](\.messageExpression)?")
_BOUNDS = {"array": "maxItems", "object": "maxProperties", "string": "maxLength"}
_TOO_EXPENSIVE = re.compile(
    r"exceeds budget by factor of (?P<factor>.*?)x \(|(?P<together>cost total exceeding)"
)
_LITTLE = 10
"""A small bound, which is tried to find the fields where a bound helps."""
_SHOWN_RULE = re.compile(r'Invalid value: \{"Rule":.*?"OptionalOldSelf":(?:null|true|false)\}: ', re.DOTALL)
_OPTIONS = {
    "metadata.annotations": "annotations",
    "metadata.labels": "labels",
    "spec.names.categories": "categories",
    "spec.names.listKind": "list_kind",
    "spec.names.shortNames": "short_names",
    "spec.names.singular": "singular",
    "spec.additionalPrinterColumns": "columns",
    "spec.deprecationWarning": "deprecated",
    "spec.selectableFields": "selectable_fields",
    "spec.subresources.scale": "scale",
}
"""The parameter of `@crd()` that determines a part of the CustomResourceDefinition."""


def go_pattern(pattern: str, field: str) -> str:
    """Return the pattern in the syntax of the API server's regular expressions.

    Raises ModelError for look-arounds, back-references, `{1,2000}` and other unsupported parts.
    """
    if ambiguous := re.search(r"\{,\d+\}", pattern):
        raise ModelError(field, f"the server takes {ambiguous[0]!r} literally; write {{0,{ambiguous[0][2:]}")
    translated = _ESCAPE.sub(_escaped, pattern)
    try:
        compile_pattern(translated)
    except ValueError as error:
        _, what, where = str(error).split(": ", 2)
        said = f"the server's regular expressions have no {where.strip('`')!r}"
        raise ModelError(field, f"{said} ({what}){_HINTS.get(what, '')}") from None
    return translated


def _escaped(found: re.Match[str]) -> str:
    code = found[1] or found[2] or found[3]
    if code is not None:
        return f"\\x{{{code.lstrip('0') or '0'}}}"
    return r"\z" if found[4] == "Z" else found[0]


def check_definition(definition: Mapping[str, Any], kind: str) -> None:
    """Raise ModelError with the field's name if the API server would refuse the CRD of `kind`."""
    for place in _not_text(definition):
        names = [name for before, name in pairwise(place) if before == "properties"]
        raise ModelError(".".join((kind, *names)), f"its {place[-1]} has a lone surrogate, so it is no text")
    versions = definition["spec"]["versions"]
    expensive: tuple[str, re.Match[str]] | None = None
    for path, text in server_check(copy.deepcopy(dict(definition))):
        if found := _TOO_EXPENSIVE.search(text):
            expensive = expensive or (path, found)
            continue
        field, word = _field_of(path, kind, versions)
        reason = " ".join(_SHOWN_RULE.sub("", text).split())
        raise ModelError(field, f"the API server refuses {word}: {reason}")
    if expensive is not None:
        path, found = expensive
        field, word = _field_of(path, kind, versions)
        cost = "all rules together may cost more than the limit"
        if found["factor"]:
            cost = f"the estimated cost is {found['factor']} times the limit"
        advice = _cheaper(path, kind, versions, alone=bool(found["factor"]))
        raise ModelError(field, f"the API server refuses {word}: {cost}; {advice}")


def _cheaper(path: str, kind: str, versions: Sequence[Mapping[str, Any]], *, alone: bool) -> str:
    """Return advice which fields need a bound to keep the cost of a rule, or of all rules, within its limit.

    The function tries all possible bounds, keeps the one that saves most, and repeats.
    """
    found = _SCHEMA.match(path)
    assert found is not None
    schema = copy.deepcopy(versions[int(found[1] or 0)]["schema"]["openAPIV3Schema"])
    limit = CRD_LIMIT
    if alone and (rule := _RULE.search(path)) is not None:
        limit = RULE_LIMIT
        _keep_rule(schema, path[: rule.start()], int(rule[1]), found[0])
    bounds = list(_unbounded(schema, found[0]))
    # The nodes above the rule determine together how often it runs, so a single bound saves nothing.
    above = [each for each in bounds if path.startswith((f"{each.path}.items", f"{each.path}.additional"))]
    steps = (
        [above, *([each] for each in bounds if each not in above)] if above else [[each] for each in bounds]
    )
    chosen: list[_Bound] = []
    cost = estimate_rules(schema)
    while cost > limit:
        best: list[_Bound] = []
        for step in steps:
            for each in step:
                each.node[each.keyword] = _LITTLE
            if (less := estimate_rules(schema)) < cost:
                best, cost = step, less
            for each in step:
                del each.node[each.keyword]
        if not best:
            break
        steps.remove(best)
        chosen += best
        for each in best:
            each.node[each.keyword] = _LITTLE
    if not chosen:
        return "write a simpler rule"
    *others, last = [_field_of(each.path, kind, versions)[0] for each in chosen]
    fields = f"{', '.join(others)} and {last}" if others else last
    return f"give {fields} a max_length{'' if cost <= limit else ', and write a simpler rule'}"


class _Bound(NamedTuple):
    path: str
    node: Any
    keyword: str


def _keep_rule(node: Any, wanted: str, index: int, path: str) -> None:
    rules = node.pop("x-kubernetes-validations", None)
    if path == wanted:
        node["x-kubernetes-validations"] = [rules[index]]
    for below, each in _below(node, path):
        _keep_rule(each, wanted, index, below)


def _unbounded(node: Any, path: str) -> Iterator[_Bound]:
    keyword = _BOUNDS.get(node.get("type", "string"))
    if node.get("type") == "object" and "additionalProperties" not in node:
        keyword = None
    if keyword is not None and keyword not in node:
        yield _Bound(path, node, keyword)
    for below, each in _below(node, path):
        yield from _unbounded(each, below)


def _below(node: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, each in node.get("properties", {}).items():
        yield f"{path}.properties[{name}]", each
    for word in ("items", "additionalProperties"):
        if isinstance(node.get(word), dict):
            yield f"{path}.{word}", node[word]


def _not_text(value: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _not_text(each, (*place, name))
    elif isinstance(value, list):
        for each in value:
            yield from _not_text(each, place)
    elif isinstance(value, str) and any("\ud800" <= each <= "\udfff" for each in value):
        yield place


def _field_of(path: str, kind: str, versions: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    found = _SCHEMA.match(path)
    if found is None:
        # For a part that all versions share, the API server reports one error.
        plain = re.sub(r"\[\d+\]", "", path).replace("spec.versions.", "spec.")
        option = next((each for start, each in _OPTIONS.items() if plain.startswith(start)), None)
        return kind, f"{option} of @crd(), {path}" if option else path or "it"
    field, rest = kind, path[found.end() :]
    if found[1] is not None and len(versions) > 1:
        field += f" ({versions[int(found[1])]['name']})"
    schema: Any = versions[int(found[1] or 0)]["schema"]["openAPIV3Schema"]
    while step := _STEP.match(rest):
        name = step["property"]
        field += f".{name}" if name is not None else "[]" if step["items"] else "{}"
        schema = schema["properties"][name] if name is not None else schema[step["items"] or step["values"]]
        rest = rest[step.end() :]
    if (rule := _RULE.match(rest)) is not None:
        said = schema["x-kubernetes-validations"][int(rule[1])]
        if rule[2]:
            return field, f"its message_expression {said['messageExpression']!r}"
        return field, f"its rule {said.get('rule')!r}"
    return field, f"its {rest.removeprefix('.')}" if rest else "it"
