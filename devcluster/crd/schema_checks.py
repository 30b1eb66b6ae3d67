"""Checks of the schemas in a definition."""

from __future__ import annotations

import copy
import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from devcluster.crd.resources import check_embedded
from devcluster.crd.structure_checks import check_structure
from devcluster.errors import FieldError, field_forbidden, field_invalid, field_required, field_unsupported
from devcluster.schema.cel import CompileError, InstantiationError
from devcluster.schema.cel.cost import UNLIMITED
from devcluster.schema.declarations import declare
from devcluster.schema.defaulting import prune
from devcluster.schema.node import UNSET, Schema, parse
from devcluster.schema.problems import FieldPathError, resolve_field_path
from devcluster.schema.rules import MessageError, WrongResult, compile_rule, compile_rules
from devcluster.schema.validation import Validator

_ESCAPES = {"&": "\\u0026", "<": "\\u003c", ">": "\\u003e"}


def show(value: Any) -> str:
    """Encode JSON with the characters escaped that HTML treats specially."""
    text = orjson.dumps(value).decode()
    for each, escaped in _ESCAPES.items():
        text = text.replace(each, escaped)
    return text


def rule_object(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule with Go's internal names, and zero values for missing fields."""
    return {
        "Rule": rule.get("rule") or "",
        "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "",
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "",
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }


def version_object(version: Mapping[str, Any]) -> dict[str, Any]:
    """Return a version with Go's internal names, and zero values for missing fields."""
    return {
        "Name": version.get("name") or "",
        "Served": bool(version.get("served")),
        "Storage": bool(version.get("storage")),
        "Deprecated": bool(version.get("deprecated")),
        "DeprecationWarning": version.get("deprecationWarning"),
        "Schema": version.get("schema"),
        "Subresources": version.get("subresources"),
        "AdditionalPrinterColumns": version.get("additionalPrinterColumns"),
        "SelectableFields": version.get("selectableFields"),
    }


_META = frozenset({"metadata", "kind", "apiVersion"})


def check_defaults(source: Mapping[str, Any], path: str) -> list[FieldError]:
    """Return the errors in the defaults of the schema at `path`."""
    return list(_below(parse(source), path, root=True, inside_meta=False))


def _below(schema: Schema, path: str, *, root: bool, inside_meta: bool) -> Iterator[FieldError]:
    embedded = root or schema.embedded
    inside_meta = inside_meta and not schema.embedded
    if schema.default is not UNSET and not inside_meta:
        yield from _check(schema, f"{path}.default")
    # additionalProperties are not visited: their values are checked when they are used.
    if schema.items is not None:
        yield from _below(schema.items, f"{path}.items", root=False, inside_meta=inside_meta)
    for name, each in schema.properties.items():
        meta = inside_meta or (embedded and name in _META)
        yield from _below(each, f"{path}.properties[{name}]", root=False, inside_meta=meta)


def _check(schema: Schema, path: str) -> Iterator[FieldError]:
    value = copy.deepcopy(schema.default)
    if prune(value, schema, root=False):
        yield field_invalid(path, schema.default, "must not have unknown fields")
    wrong = [*Validator(schema, path).validate(schema.default), *check_embedded(schema.default, schema, path)]
    yield from wrong
    if wrong:
        return
    try:
        rules = compile_rules(schema, root=schema.embedded)
    except (CompileError, MessageError, WrongResult):
        return  # reported where the rule is
    if rules is not None:
        for each in rules.validate(schema.default).errors:
            field = path if each.field == "<nil>" else f"{path}.{each.field}"
            yield FieldError(each.reason, field, each.text)


RULE_LIMIT: Final = 10_000_000
CRD_LIMIT: Final = 100_000_000
_REQUEST: Final = 3 * 1024 * 1024
_MOST_NAMED = 4
_MUCH = 100.0
_LITTLE = 1.5
_ADVICE = (
    "try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and "
    "strings are declared"
)


def multiplied(source: Mapping[str, Any], count: int | None) -> int | None:
    """Return how often what is below a node may occur, given the count of the node; None without a bound."""
    if source.get("type") == "array":
        most = source.get("maxItems")
    elif source.get("type") == "object" and source.get("additionalProperties") is not None:
        most = source.get("maxProperties")
    else:
        return count
    return None if count is None or most is None else min(count * max(most, 0), UNLIMITED)


def occurrences(count: int | None, min_size: int) -> int:
    """Return how often a value may occur: without a bound, as often as it fits into a request."""
    return _REQUEST // (min_size + 1) if count is None else count


@dataclasses.dataclass(slots=True)
class Costs:
    """The costs of the rules of one schema, by field."""

    limit_each: bool = True
    """Whether the limit on a single rule applies; it does not for schemas that are stored already."""
    total: int = 0
    by_field: list[tuple[str, int]] = dataclasses.field(default_factory=list)

    def rule(self, field: str, cost: int, count: int) -> Iterator[FieldError]:
        """Add the cost of a rule that runs `count` times."""
        yield from self._add(field, "estimated rule cost", min(cost * count, UNLIMITED))

    def message(self, field: str, cost: int) -> Iterator[FieldError]:
        """Add the cost of a messageExpression."""
        yield from self._add(field, "estimated messageExpression cost", cost)

    def _add(self, field: str, name: str, cost: int) -> Iterator[FieldError]:
        self.total = min(self.total + cost, UNLIMITED)
        self.by_field.append((field, cost))
        if self.limit_each and cost > RULE_LIMIT:
            yield field_forbidden(field, _exceeded(name, cost, RULE_LIMIT))

    def together(self, field: str) -> Iterator[FieldError]:
        """Name the rules that cost most if all together cost too much."""
        if self.total <= CRD_LIMIT:
            return
        text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        large = [each for each in self.by_field if each[1] >= CRD_LIMIT // 100]
        for each, _ in sorted(large, key=lambda each: -each[1])[:_MOST_NAMED]:
            yield field_forbidden(each, text)
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        yield field_forbidden(field, _exceeded(name, self.total, CRD_LIMIT))


def _exceeded(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100" if factor > _MUCH else f"{factor:.6f}" if factor < _LITTLE else f"{factor:.1f}"
    return f"{name} exceeds budget by factor of {shown}x ({_ADVICE})"


Source = Mapping[str, Any]

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_AT_STATUS_ROOT = [
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
]
_AT_STATUS_ROOT_SHOWN = (
    "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength "
    "Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example "
    "XPreserveUnknownFields XValidations]"
)


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    """The position of a node in a schema, as far as it affects which fields are valid."""

    no_defaults: str | None = None
    """Why there may be no default; None when there may."""
    inside_meta: bool = False
    uncorrelated: str = ""
    """The first node above whose values cannot be told apart between two writes."""
    count: int | None = 1
    """The maximum number of the node's values in an object; None without a bound."""


def check_schema(source: Source, path: str, *, status: bool, stored: bool = False) -> list[FieldError]:
    """Return what is wrong with the schema at `path`.

    Args:
        source: The schema.
        path: Where it is in the definition.
        status: Whether the status is written apart.
        stored: Whether the definition had this very schema before. Then, no rule alone is too expensive.
    """
    try:
        text = orjson.dumps(source)
    except TypeError:  # nested too deep
        return _errors(source, path, status=status, stored=stored)
    return list(_remembered(text, path, status=status, stored=stored))


def estimate_rules(source: Source) -> int:
    """Return what all rules of a sound schema cost at most, together."""
    costs = Costs(limit_each=False)
    for _ in _rules(source, "", _Place(), costs, root=True):
        pass
    return costs.total


@functools.lru_cache(maxsize=64)
def _remembered(text: bytes, path: str, *, status: bool, stored: bool) -> list[FieldError]:
    """Return the errors of a schema; cached, since definitions recur with each cluster and each update."""
    return _errors(orjson.loads(text), path, status=status, stored=stored)


def _errors(source: Source, path: str, *, status: bool, stored: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    if status:
        errors.extend(_status_root(source, path))
    if source.get("nullable"):
        errors.append(field_forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    structure = check_structure(source, path)
    errors.extend(structure)
    if not structure:
        defaults = check_defaults(source, path)
        errors.extend(defaults)
    errors.extend(_node(source, path, _Place(), root=True))
    if not errors:
        costs = Costs(limit_each=not stored)
        errors.extend(_rules(source, path, _Place(), costs, root=True))
        errors.extend(costs.together(path))
    return errors


def _status_root(source: Source, path: str) -> Iterator[FieldError]:
    for name, value in source.items():
        if value in (None, False, "", [], {}):
            continue
        if name == "type":
            if value != "object":
                text = (
                    'only "object" is allowed as the type at the root of the schema if the status '
                    "subresource is enabled"
                )
                yield field_invalid(f"{path}.type", value, text)
                return
        elif name not in _AT_STATUS_ROOT:
            text = (
                f"only {_AT_STATUS_ROOT_SHOWN} fields are allowed at the root of the schema if the status "
                "subresource is enabled"
            )
            yield FieldError("FieldValueInvalid", path, f"Invalid value: {show(dict(source))}: {text}")
            return


def _node(source: Source, path: str, place: _Place, *, root: bool = False) -> Iterator[FieldError]:
    yield from _keywords(source, path, place)
    additional = source.get("additionalProperties")
    if additional is not None and source.get("properties") and additional is not True:
        text = "additionalProperties and properties are mutual exclusive"
        yield field_forbidden(f"{path}.additionalProperties", text)
    if isinstance(additional, Mapping):
        below = place
        if place.inside_meta:
            why = "inside additionalProperties applying to object metadata"
            below = dataclasses.replace(place, no_defaults=why)
        yield from _node(additional, f"{path}.additionalProperties", below)
    embedded = bool(source.get("x-kubernetes-embedded-resource"))
    for name, each in (source.get("properties") or {}).items():
        below = place
        if (root or embedded) and name in _META:
            reason = f"in top-level {name}" if root else place.no_defaults
            below = dataclasses.replace(place, inside_meta=True, no_defaults=reason)
        yield from _node(each, f"{path}.properties[{name}]", below)
    if isinstance(source.get("not"), Mapping):
        yield from _node(source["not"], f"{path}.not", place)
    for junction in ("allOf", "oneOf", "anyOf"):
        for index, each in enumerate(source.get(junction) or ()):
            yield from _node(each, f"{path}.{junction}[{index}]", place)
    if isinstance(source.get("items"), Mapping):
        yield from _node(source["items"], f"{path}.items", place)
    yield from _list_and_map(source, path)
    for index, rule in enumerate(source.get("x-kubernetes-validations") or ()):
        yield from _rule_texts(rule, f"{path}.x-kubernetes-validations[{index}]", source)


def _keywords(source: Source, path: str, place: _Place) -> Iterator[FieldError]:
    kind = source.get("type")
    if kind and kind not in _TYPES:
        yield field_unsupported(f"{path}.type", kind, _TYPES)
    if source.get("default") is not None and place.no_defaults is not None:
        yield field_forbidden(f"{path}.default", f"must not be set {place.no_defaults}".rstrip())
    for name in _UNSUPPORTED:
        if source.get(name):
            yield field_forbidden(f"{path}.{name}", f"{name} is not supported")
    if kind == "null":
        yield field_forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(source.get("items"), list):
        yield field_forbidden(f"{path}.items", "items must be a schema object and not an array")
    if place.inside_meta and source.get("x-kubernetes-embedded-resource"):
        text = "must not be used inside of resource meta"
        yield field_forbidden(f"{path}.x-kubernetes-embedded-resource", text)
    if source.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield field_forbidden(f"{path}.uniqueItems", text)
    if source.get("x-kubernetes-preserve-unknown-fields") is False:
        field = f"{path}.x-kubernetes-preserve-unknown-fields"
        yield field_invalid(field, False, "must be true or undefined")


def _list_and_map(source: Source, path: str) -> Iterator[FieldError]:
    kind = source.get("type") or ""
    map_type, list_type = source.get("x-kubernetes-map-type"), source.get("x-kubernetes-list-type")
    if map_type is not None:
        yield from _needs_type(path, kind, "object", "x-kubernetes-map-type")
        if map_type not in {"atomic", "granular"}:
            yield field_unsupported(f"{path}.x-kubernetes-map-type", map_type, ("atomic", "granular"))
    items = source.get("items") if isinstance(source.get("items"), Mapping) else None
    if list_type is not None:
        if kind != "array":
            yield from _needs_type(path, kind, "array", "x-kubernetes-list-type")
        elif list_type == "set" and items is not None:
            yield from _set_items(items, path)
        if list_type not in {"atomic", "set", "map"}:
            yield field_unsupported(f"{path}.x-kubernetes-list-type", list_type, ("atomic", "set", "map"))
    if source.get("x-kubernetes-list-map-keys") and list_type != "map":
        field, text = (
            f"{path}.x-kubernetes-list-type",
            "must be map if x-kubernetes-list-map-keys is non-empty",
        )
        yield field_required(field, text) if list_type is None else field_invalid(field, list_type, text)
    if list_type == "map":
        yield from _map_list(source, items, path)
    if list_type in {"set", "map"} and items is not None:
        yield from _never_null(source, items, list_type, path)


def _needs_type(path: str, kind: str, wanted: str, why: str) -> Iterator[FieldError]:
    text = f"must be {wanted} if {why} is specified"
    if not kind:
        yield field_required(f"{path}.type", text)
    elif kind != wanted:
        yield field_invalid(f"{path}.type", kind, text)


def _set_items(items: Source, path: str) -> Iterator[FieldError]:
    text = "must be atomic as item of a list with x-kubernetes-list-type=set"
    inner = items.get("x-kubernetes-list-type")
    if items.get("type") == "array" and inner not in {None, "atomic"}:
        yield field_invalid(f"{path}.items.x-kubernetes-list-type", inner, text)
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        yield field_invalid(f"{path}.items.x-kubernetes-map-type", inner, text)


def _map_list(source: Source, items: Source | None, path: str) -> Iterator[FieldError]:
    keys = list(source.get("x-kubernetes-list-map-keys") or ())
    field = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        yield field_required(field, "must not be empty if x-kubernetes-list-type is map")
    if items is None:
        yield field_required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
        return
    if items.get("type") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        yield field_invalid(f"{path}.items.type", items.get("type") or "", text)
        return
    for index, key in enumerate(keys):
        known = (items.get("properties") or {}).get(key)
        if known is None:
            yield field_invalid(field, keys, "entries must all be names of item properties")
        elif known.get("type") in {"array", "object"}:
            text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield field_invalid(f"{path}.items.properties[{key}].type", "object", text)
        if key in keys[:index]:
            yield field_invalid(field, keys, "must not contain duplicate entries")


def _never_null(source: Source, items: Source, list_type: str, path: str) -> Iterator[FieldError]:
    if items.get("nullable"):
        text = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        yield field_forbidden(f"{path}.items.nullable", text)
    if list_type != "map":
        return
    for key in source.get("x-kubernetes-list-map-keys") or ():
        known = (items.get("properties") or {}).get(key)
        if known is None:
            continue
        here = f"{path}.items.properties[{key}]"
        if key not in (items.get("required") or ()) and known.get("default") is None:
            text = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required "
                "property"
            )
            yield field_required(f"{here}.default", text)
        if known.get("nullable"):
            text = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            yield field_forbidden(f"{here}.nullable", text)


def _rule_texts(rule: Source, path: str, source: Source) -> Iterator[FieldError]:
    text, message = (rule.get("rule") or "").strip(), rule.get("message") or ""
    expression, field = rule.get("messageExpression") or "", rule.get("fieldPath") or ""
    if not text:
        yield field_required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield field_invalid(f"{path}.message", message, "must be non-empty if specified")
    elif _has_breaks(message.strip()):
        yield field_invalid(f"{path}.message", message, "must not contain line breaks")
    elif _has_breaks(text) and not message.strip():
        yield field_required(f"{path}.message", "message must be specified if rule contains line breaks")
    if expression and not expression.strip():
        yield field_required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    reason = rule.get("reason")
    if reason is not None and reason not in _REASONS:
        yield field_unsupported(f"{path}.reason", reason, _REASONS)
    if field and not field.strip():
        yield field_invalid(f"{path}.fieldPath", field, "must be non-empty if specified")
    if _has_breaks(field):
        yield field_invalid(f"{path}.fieldPath", field, "must not contain line breaks")
    if field:
        try:
            resolve_field_path(field, parse(source))
        except FieldPathError:
            yield field_invalid(f"{path}.fieldPath", field, "must be a valid path")


def _has_breaks(text: str) -> bool:
    return re.search(r"[\n\r]", text) is not None


def _rules(
    source: Source, path: str, place: _Place, costs: Costs, *, root: bool = False
) -> Iterator[FieldError]:
    yield from _rules_below(source, path, place, costs)
    rules = source.get("x-kubernetes-validations") or ()
    schema = parse(source) if rules else None
    embedded = bool(source.get("x-kubernetes-embedded-resource"))
    kind = declare(schema, root=root or embedded) if schema is not None else None
    for index, rule in enumerate(rules):
        here = f"{path}.x-kubernetes-validations[{index}]"
        if schema is None or kind is None:
            text = "failed to convert to declType for CEL validation rules"
            yield FieldError("InternalError", f"{path}.x-kubernetes-validations", f"Internal error: {text}")
            break
        try:
            compiled = compile_rule(rule, kind, schema, estimate=True)
        except MessageError as error:
            yield FieldError("FieldValueInvalid", f"{here}.messageExpression", _refused(rule, str(error)))
            continue
        except (CompileError, WrongResult) as error:
            yield FieldError("FieldValueInvalid", f"{here}.rule", _refused(rule, _wrong(error)))
            continue
        yield from costs.rule(f"{here}.rule", compiled.program.cost, occurrences(place.count, kind.min_size))
        if compiled.message_program is not None:
            yield from costs.message(f"{here}.messageExpression", compiled.message_program.cost)
        uses_old = compiled.transition
        if uses_old and place.uncorrelated:
            text = (
                "oldSelf cannot be used on the uncorrelatable portion of the schema within "
                f"{place.uncorrelated}"
            )
            yield field_invalid(f"{here}.rule", rule["rule"], text)
        elif not uses_old and rule.get("optionalOldSelf") is not None:
            text = "may not be set if oldSelf is not used in rule"
            yield field_invalid(f"{here}.optionalOldSelf", rule["optionalOldSelf"], text)


def _rules_below(source: Source, path: str, place: _Place, costs: Costs) -> Iterator[FieldError]:
    additional, items = source.get("additionalProperties"), source.get("items")
    place = dataclasses.replace(place, count=multiplied(source, place.count))
    if isinstance(additional, Mapping):
        yield from _rules(additional, f"{path}.additionalProperties", place, costs)
    for name, each in (source.get("properties") or {}).items():
        yield from _rules(each, f"{path}.properties[{name}]", place, costs)
    if isinstance(items, Mapping):
        if source.get("x-kubernetes-list-type") != "map" and not place.uncorrelated:
            place = dataclasses.replace(place, uncorrelated=path)
        yield from _rules(items, f"{path}.items", place, costs)


def _wrong(error: CompileError | WrongResult) -> str:
    if isinstance(error, WrongResult):
        return str(error)
    failed = "program instantiation" if isinstance(error, InstantiationError) else "compilation"
    return f"{failed} failed: {error}"


def _refused(rule: Source, text: str) -> str:
    return f"Invalid value: {show(rule_object(rule))}: {text}"
