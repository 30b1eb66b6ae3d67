"""Checks of the schemas in a CustomResourceDefinition."""

from __future__ import annotations

import copy
import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from devcluster.crd.resources import check_embedded
from devcluster.crd.structure_checks import check_structure
from devcluster.errors import FieldError, field_forbidden, field_invalid
from devcluster.kinds.field import Field
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
    """Encode a value as JSON; escape the characters that are special in HTML, as Go does."""
    text = orjson.dumps(value).decode()
    for each, escaped in _ESCAPES.items():
        text = text.replace(each, escaped)
    return text


def rule_object(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a validation rule with Go's field names, and zero values for missing fields."""
    return {
        "Rule": rule.get("rule") or "",
        "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "",
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "",
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }


def version_object(version: Mapping[str, Any]) -> dict[str, Any]:
    """Return a CRD version with Go's field names, and zero values for missing fields."""
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
    """Return the errors in the default values of the schema at `path`."""
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
    prune(value, schema, root=False)
    if value != schema.default:
        yield field_invalid(path, schema.default, "must not have unknown fields")
    wrong = [*Validator(schema, path).validate(schema.default), *check_embedded(schema.default, schema, path)]
    yield from wrong
    if wrong:
        return
    try:
        rules = compile_rules(schema, root=schema.embedded)
    except (CompileError, MessageError, WrongResult):
        return  # the rule's own check reports it
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
    """Return how many children `count` occurrences of a node can have at most; None means unlimited."""
    if source.get("type") == "array":
        most = source.get("maxItems")
    elif source.get("type") == "object" and source.get("additionalProperties") is not None:
        most = source.get("maxProperties")
    else:
        return count
    return None if count is None or most is None else min(count * max(most, 0), UNLIMITED)


def occurrences(count: int | None, min_size: int) -> int:
    """Return `count` or, if it is None, the number of values of `min_size` bytes that fit in a request."""
    return _REQUEST // (min_size + 1) if count is None else count


@dataclasses.dataclass(slots=True)
class Costs:
    """Estimated costs of the CEL rules in a schema, by field."""

    limit_each: bool = True
    """Whether to limit the cost of single rules; stored schemas are exempt."""
    total: int = 0
    by_field: list[tuple[str, int]] = dataclasses.field(default_factory=list)

    def rule(self, field: str, cost: int, count: int) -> Iterator[FieldError]:
        """Add the cost of a rule that runs `count` times; yield an error if it exceeds the limit per rule."""
        yield from self._add(field, "estimated rule cost", min(cost * count, UNLIMITED))

    def message(self, field: str, cost: int) -> Iterator[FieldError]:
        """Add the cost of a messageExpression; yield an error if it exceeds the limit per rule."""
        yield from self._add(field, "estimated messageExpression cost", cost)

    def _add(self, field: str, name: str, cost: int) -> Iterator[FieldError]:
        self.total = min(self.total + cost, UNLIMITED)
        self.by_field.append((field, cost))
        if self.limit_each and cost > RULE_LIMIT:
            yield field_forbidden(field, _exceeded(name, cost, RULE_LIMIT))

    def together(self, field: str) -> Iterator[FieldError]:
        """Yield errors for the costliest rules and for the total cost, if it exceeds the limit per schema."""
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
_AT_STATUS_ROOT = frozenset(
    """
    description type format title maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength
    pattern maxItems minItems uniqueItems multipleOf required items properties externalDocs example
    x-kubernetes-preserve-unknown-fields x-kubernetes-validations
    """.split()  # noqa: SIM905 -- a list would fill a page
)
_AT_STATUS_ROOT_SHOWN = (
    "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength "
    "Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example "
    "XPreserveUnknownFields XValidations]"
)


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    """Position of a node in a schema, with the facts that decide which fields are valid there."""

    no_defaults: str | None = None
    """The reason why defaults are forbidden; None if they are allowed."""
    inside_meta: bool = False
    uncorrelated: str = ""
    """The path of the outermost list around the node whose items cannot be correlated between two writes."""
    count: int | None = 1
    """The maximum number of the node's values in an object; None without a bound."""


def check_schema(source: Source, path: str, *, status: bool, stored: bool = False) -> list[FieldError]:
    """Return the errors in the schema at `path`.

    Args:
        source: The schema.
        path: The schema's path in the CustomResourceDefinition.
        status: Whether the version has a status subresource.
        stored: Whether this schema is already stored unchanged; then no limit per rule applies.
    """
    try:
        text = orjson.dumps(source)
    except TypeError:  # nested too deep
        return _errors(source, path, status=status, stored=stored)
    return list(_remembered(text, path, status=status, stored=stored))


def estimate_rules(source: Source) -> int:
    """Return the estimated maximum cost of all rules of a valid schema."""
    costs = Costs(limit_each=False)
    for _ in _rules(source, "", _Place(), costs, root=True):
        pass
    return costs.total


@functools.lru_cache(maxsize=64)
def _remembered(text: bytes, path: str, *, status: bool, stored: bool) -> list[FieldError]:
    """Return the errors of a schema; cached, because clusters and updates repeat the same schemas."""
    return _errors(orjson.loads(text), path, status=status, stored=stored)


def _errors(source: Source, path: str, *, status: bool, stored: bool) -> list[FieldError]:
    node = Field(source, path)
    if status:
        _check_status_root(node)
    if source.get("nullable"):
        node["nullable"].forbidden("nullable cannot be true at the root")
    structure = check_structure(source, path)
    node.errors += structure or check_defaults(source, path)
    _check_node(node, _Place(), root=True)
    if not node.errors:
        costs = Costs(limit_each=not stored)
        node.errors += _rules(source, path, _Place(), costs, root=True)
        node.errors += costs.together(path)
    return node.errors


def _check_status_root(node: Field) -> None:
    for name, value in node.value.items():
        if value in (None, False, "", [], {}):
            continue
        if name == "type" and value != "object":
            node["type"].invalid(
                'only "object" is allowed as the type at the root of the schema if the status subresource is '
                "enabled"
            )
            return
        if name not in _AT_STATUS_ROOT:
            text = (
                f"only {_AT_STATUS_ROOT_SHOWN} fields are allowed at the root of the schema if the status "
                "subresource is enabled"
            )
            shown = f"Invalid value: {show(dict(node.value))}: {text}"
            node.errors.append(FieldError("FieldValueInvalid", node.path, shown))
            return


def _check_node(node: Field, place: _Place, *, root: bool = False) -> None:
    source, additional, properties = node.value, node["additionalProperties"], node["properties"]
    _check_keywords(node, place)
    if additional.is_set and properties and additional.value is not True:
        additional.forbidden("additionalProperties and properties are mutual exclusive")
    if isinstance(additional.value, Mapping):
        below = place
        if place.inside_meta:
            why = "inside additionalProperties applying to object metadata"
            below = dataclasses.replace(place, no_defaults=why)
        _check_node(additional, below)
    embedded = bool(source.get("x-kubernetes-embedded-resource"))
    for name, each in (properties.value or {}).items():
        below = place
        if (root or embedded) and name in _META:
            reason = f"in top-level {name}" if root else place.no_defaults
            below = dataclasses.replace(place, inside_meta=True, no_defaults=reason)
        _check_node(properties.key(name, each), below)
    if isinstance(source.get("not"), Mapping):
        _check_node(node["not"], place)
    for junction in ("allOf", "oneOf", "anyOf"):
        for each in node[junction] if source.get(junction) else ():
            _check_node(each, place)
    if isinstance(source.get("items"), Mapping):
        _check_node(node["items"], place)
    _check_list_and_map(node)
    for rule in node["x-kubernetes-validations"] if source.get("x-kubernetes-validations") else ():
        _check_rule(rule, source)


def _check_keywords(node: Field, place: _Place) -> None:
    source, kind = node.value, node.value.get("type")
    if kind and kind not in _TYPES:
        node["type"].unsupported(_TYPES)
    if source.get("default") is not None and place.no_defaults is not None:
        node["default"].forbidden(f"must not be set {place.no_defaults}".rstrip())
    for name in _UNSUPPORTED:
        if source.get(name):
            node[name].forbidden(f"{name} is not supported")
    if kind == "null":
        node["type"].forbidden("type cannot be set to null, use nullable as an alternative")
    if isinstance(source.get("items"), list):
        node["items"].forbidden("items must be a schema object and not an array")
    if place.inside_meta and source.get("x-kubernetes-embedded-resource"):
        node["x-kubernetes-embedded-resource"].forbidden("must not be used inside of resource meta")
    if source.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        node["uniqueItems"].forbidden(text)
    if source.get("x-kubernetes-preserve-unknown-fields") is False:
        node["x-kubernetes-preserve-unknown-fields"].invalid("must be true or undefined")


def _check_list_and_map(node: Field) -> None:
    source = node.value
    map_type, list_type = source.get("x-kubernetes-map-type"), source.get("x-kubernetes-list-type")
    keys = source.get("x-kubernetes-list-map-keys")
    if map_type is not None:
        _check_type(node["type"], "object", "x-kubernetes-map-type")
        node["x-kubernetes-map-type"].any_of(("atomic", "granular"))
    items = node["items"] if isinstance(source.get("items"), Mapping) else None
    field = node["x-kubernetes-list-type"]
    if list_type is not None:
        _check_type(node["type"], "array", "x-kubernetes-list-type")
        if source.get("type") == "array" and list_type == "set" and items is not None:
            _check_set_items(items)
        field.any_of(("atomic", "set", "map"))
    if keys and list_type != "map":
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        field.required(text) if list_type is None else field.invalid(text)
    if list_type == "map":
        _check_map_list(node["x-kubernetes-list-map-keys"], items, node)
    if list_type in {"set", "map"} and items is not None:
        _check_never_null(items, list_type, keys or () if list_type == "map" else ())


def _check_type(kind: Field, wanted: str, why: str) -> None:
    text = f"must be {wanted} if {why} is specified"
    if not kind:
        kind.required(text)
    elif kind.value != wanted:
        kind.invalid(text)


def _check_set_items(items: Field) -> None:
    text = "must be atomic as item of a list with x-kubernetes-list-type=set"
    inner = items.get("x-kubernetes-list-type")
    if items.get("type") == "array" and inner not in {None, "atomic"}:
        items["x-kubernetes-list-type"].invalid(text)
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        items["x-kubernetes-map-type"].invalid(text, inner)


def _check_map_list(keys: Field, items: Field | None, node: Field) -> None:
    given = keys.value or []
    if not given:
        keys.required("must not be empty if x-kubernetes-list-type is map")
    if items is None:
        node["items"].required("must have a schema if x-kubernetes-list-type is map")
        return
    if items.get("type") != "object":
        items.at("type", "").invalid("must be object if parent array's x-kubernetes-list-type is map")
        return
    for index, key in enumerate(given):
        known = items["properties"].get(key)
        if known is None:
            keys.invalid("entries must all be names of item properties")
        elif known.get("type") in {"array", "object"}:
            text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            items["properties"].key(key, known)["type"].invalid(text, "object")
        if key in given[:index]:
            keys.invalid("must not contain duplicate entries")


def _check_never_null(items: Field, list_type: str, keys: Sequence[str]) -> None:
    if items["nullable"]:
        items["nullable"].forbidden(f"cannot be nullable when x-kubernetes-list-type is {list_type}")
    for key in keys:
        known = items["properties"].key(key, items["properties"].get(key))
        if not known.is_set:
            continue
        why = "this property is in x-kubernetes-list-map-keys, so it"
        if key not in (items.get("required") or ()) and not known["default"].is_set:
            known["default"].required(f"{why} must have a default or be a required property")
        if known["nullable"]:
            known["nullable"].forbidden(f"{why} cannot be nullable")


def _check_rule(rule: Field, source: Source) -> None:
    text, message = (rule.get("rule") or "").strip(), rule.at("message", "")
    expression, field = rule["messageExpression"], rule["fieldPath"]
    if not text:
        rule["rule"].required("rule is not specified")
    elif message and not message.value.strip():
        message.invalid("must be non-empty if specified")
    elif _has_breaks(message.value.strip()):
        message.invalid("must not contain line breaks")
    elif _has_breaks(text) and not message.value.strip():
        message.required("message must be specified if rule contains line breaks")
    if expression and not expression.value.strip():
        expression.required("messageExpression must be non-empty if specified")
    rule["reason"].any_of(_REASONS)
    if not field:
        return
    if not field.value.strip():
        field.invalid("must be non-empty if specified")
    if _has_breaks(field.value):
        field.invalid("must not contain line breaks")
    try:
        resolve_field_path(field.value, parse(source))
    except FieldPathError:
        field.invalid("must be a valid path")


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
