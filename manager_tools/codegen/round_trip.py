"""Differences between a CustomResourceDefinition and the one that its generated model would produce."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from types import ModuleType
from typing import Any

from manager.api import Resource, crd_options
from manager_tools.codegen.manifest import custom_resource_definitions
from manager_tools.codegen.structural import IGNORED, RANGES

Schema = Mapping[str, Any]

_PROSE = IGNORED | {"description", "example", "externalDocs"}
_OF_THE_SERVER = ("apiVersion", "kind", "metadata")
_numbers = count(1)
_STRICTER: dict[str, Callable[[Any, Any], Any]] = {
    "enum": lambda some, others: [each for each in some if each in others],
    **dict.fromkeys(("maxLength", "maxItems", "maxProperties", "maximum"), min),
    **dict.fromkeys(("minLength", "minItems", "minProperties", "minimum"), max),
}
"""For each schema keyword: how several values combine into the strictest one."""


def differences(source: str, model: str, schema: Schema, told: Sequence[str]) -> list[str]:
    """List the differences between `schema` and the schema of class `model` in `source`, as lines.

    Differences in `told` are already reported, and left out. Raises ModelError if the model has no valid
    CustomResourceDefinition.
    """
    [again] = custom_resource_definitions([_model_in(source, model)])
    [version] = again["spec"]["versions"]
    ours = version["schema"]["openAPIV3Schema"]
    return list(dict.fromkeys(_between(_less_metadata(schema), _less_metadata(ours), model, told)))


def together(node: Schema) -> Schema:
    """Merge an `allOf` that has only limits into the schema; the stricter of two limits applies."""
    parts = node.get("allOf") or ()
    if not parts or not all(isinstance(part, Mapping) and part.keys() <= _STRICTER.keys() for part in parts):
        return node
    merged = {word: value for word, value in node.items() if word != "allOf"}
    for word, value in ((word, value) for part in parts for word, value in part.items()):
        merged[word] = _STRICTER[word](merged[word], value) if word in merged else value
    return merged


def _model_in(source: str, model: str) -> type[Resource]:
    """Execute the source of a module that is not on disk, and return its class with the name `model`."""
    module = ModuleType(f"written_model_{next(_numbers)}")
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, "<model>", "exec"), vars(module))  # noqa: S102 - this program has written the source
    finally:
        del sys.modules[module.__name__]
    found: type[Resource] = vars(module)[model]
    # The definition has this version alone, so the version must be the storage version for the comparison.
    return replace(crd_options(found), storage=True)(found)


def _less_metadata(schema: Schema) -> Schema:
    properties = schema.get("properties") or {}
    return {
        **schema,
        "properties": {name: each for name, each in properties.items() if name not in _OF_THE_SERVER},
    }


def _between(theirs: Schema, ours: Schema, path: str, told: Sequence[str]) -> Iterator[str]:
    before, after = _plain(theirs), _plain(ours)
    for word in sorted(before.keys() | after.keys()):
        old, new = before.get(word), after.get(word)
        if old == new:
            continue
        if word == "properties":
            old, new = old or {}, new or {}
            for name in {**old, **new}:
                inside = f"{path}.{name}"
                if name in old and name in new:
                    yield from _between(old[name], new[name], inside, told)
                else:
                    yield f"{inside}: is {'lost' if name in old else 'added'}"
        elif isinstance(old, Mapping) and isinstance(new, Mapping) and word != "default":
            yield from _between(old, new, path + ("[]" if word == "items" else "{}"), told)
        elif not any(line.startswith(f"{path}: {word} ") for line in told):
            yield f"{path}: {word} {_change(old, new)}"


def _change(old: Any, new: Any) -> str:
    if new is None:
        return f"{old!r} is lost"
    return f"{new!r} is added" if old is None else f"{old!r} becomes {new!r}"


def _plain(schema: Schema) -> dict[str, Any]:
    words = {word: value for word, value in together(schema).items() if word not in _PROSE}
    if "default" in words:
        words["default"] = _filled(words["default"], schema)
    for word in ("required", "enum"):
        if isinstance(words.get(word), list):
            words[word] = sorted(words[word], key=repr)
    properties = words.get("properties") or {}
    # A field with a default is never absent.
    words["required"] = [
        name
        for name in words.get("required") or ()
        if (properties.get(name) or {}).get("default") is None and name not in _OF_THE_SERVER
    ]
    if words.get("x-kubernetes-int-or-string"):
        for word in ("anyOf", "allOf"):
            words.pop(word, None)
    if words.get("x-kubernetes-map-type") == "granular":
        del words["x-kubernetes-map-type"]
    lowest, highest = RANGES.get(words.get("format", ""), (None, None))
    for word, implied in (("minimum", lowest), ("maximum", highest)):
        if words.get(word) == implied and not words.get(f"exclusive{word.capitalize()}"):
            words.pop(word, None)
    return {word: value for word, value in words.items() if word == "default" or not _says_nothing(value)}


def _filled(value: Any, schema: Schema) -> Any:
    """Return a default with the defaults of its nested fields, as the API server would complete it."""
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        return [_filled(each, schema["items"]) for each in value]
    if not isinstance(value, Mapping):
        return value
    properties = schema.get("properties") or {}
    own = {name: each["default"] for name, each in properties.items() if each.get("default") is not None}
    return {name: _filled(each, properties.get(name) or {}) for name, each in {**own, **value}.items()}


def _says_nothing(value: Any) -> bool:
    return value is None or value is False or value in ("", [], {})
