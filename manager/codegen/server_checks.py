"""Checks of the API server, as the embedded control plane makes them.

Both are imported where they are needed: a manager that only runs makes no definition.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

from manager.codegen.model_schema import ModelError

# Python's and Rust's escapes of what Go writes in another way.
_ESCAPE = re.compile(r"\\(?:u\{([0-9A-Fa-f]+)\}|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_HINTS = {
    "invalid repeat count": "; a length is better limited by max_length",
    "invalid nested repetition operator": "; put the inner one into (?:...)",
}
_SCHEMA = re.compile(r"spec\.(?:validation|versions\[(\d+)\]\.schema)\.openAPIV3Schema")
_STEP = re.compile(
    r"\.properties\[(?P<property>.*?)\](?=\.|$)|\.(?P<items>items)|\.(?P<values>additionalProperties)"
)
_RULE = re.compile(r"\.x-kubernetes-validations\[(\d+)\]")
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
"""What parameter of `@crd()` makes a part of a definition."""


def go_pattern(pattern: str, field: str) -> str:
    """Return the pattern as the server's regular expressions write it.

    Raises ModelError for look-arounds, back-references, `{1,2000}` and other parts that they lack.
    """
    from devcluster.schema.patterns import compile_pattern  # noqa: PLC0415 - see above

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
    """Raise ModelError, which names the field, for a definition of `kind` that the server would refuse."""
    from devcluster.crd.definition import check_definition as server_check  # noqa: PLC0415 - see above

    for path, text in server_check(copy.deepcopy(dict(definition))):
        field, word = _field_of(path, kind, definition["spec"]["versions"])
        reason = " ".join(_SHOWN_RULE.sub("", text).split())
        raise ModelError(field, f"the API server refuses {word}: {reason}")


def _field_of(path: str, kind: str, versions: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Return the field of the model that the path of an error is about, and the word of its schema."""
    found = _SCHEMA.match(path)
    if found is None:
        # The server has one error for a part that all versions share.
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
        text = schema["x-kubernetes-validations"][int(rule[1])].get("rule")
        return field, f"its rule {text!r}"
    return field, f"its {rest.removeprefix('.')}" if rest else "it"
