"""Validation of values against their schema."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from devcluster.errors import (
    FieldError,
    field_duplicate,
    field_invalid,
    field_required,
    field_too_long,
    field_too_many,
    field_type_invalid,
    field_unsupported,
)
from devcluster.quantity import show_float
from devcluster.schema.correlation import unchanged
from devcluster.schema.formats import checker_of, is_known_format
from devcluster.schema.node import Schema, parse
from devcluster.schema.patterns import compile_pattern
from devcluster.schema.problems import UNSET_FIELD, Check, Problem, Spine, path_of

_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_LARGEST_FLOAT32 = 3.4028235677973366e38
_WHOLE_LIMIT = 2**53 - 1


def is_whole(value: float) -> bool:
    """Return whether a JSON number that is written with a fraction or exponent is an integer."""
    return math.isfinite(value) and value == int(value) and abs(value) <= _WHOLE_LIMIT


def check_number(source: Any, types: tuple[str, ...], shape: str) -> Check | None:
    """Return the check of a node's numbers, or None if every number is valid."""
    low, high, factor = source.get("minimum"), source.get("maximum"), source.get("multipleOf")
    kind = types[0] if len(types) == 1 and types[0] in {"integer", "number"} else ""
    form = shape if kind else ""
    fits = _range_of(kind, form)
    if low is None and high is None and factor is None and fits is None:
        return None
    open_low, open_high = bool(source.get("exclusiveMinimum")), bool(source.get("exclusiveMaximum"))
    unfit = [] if fits is None else _unfit(source, fits, kind)

    def check(value: Any, spine: Spine, out: list[Problem]) -> None:
        if type(value) is not int and type(value) is not float:
            return
        if fits is not None and not fits(value):
            out.append(_out_of_range(spine, "Checked", kind, form))
        out.extend(_out_of_range(spine, each, kind, form) for each in unfit)
        whole = type(value) is int
        if factor is not None:
            by_whole = whole and "MultipleOf" not in unfit
            if by_whole and int(factor) <= 0:
                out.append(_factor(spine, int(factor)))
            elif not _is_multiple(value if by_whole else float(value), factor):
                out.append(_bound(spine, value, "should be a multiple of", factor, whole=by_whole))
        if high is not None:
            by_whole = whole and "Maximum boundary" not in unfit
            bound = _as_int64(high) if by_whole else high
            if value >= bound if open_high else value > bound:
                text = "should be less than" if open_high else "should be less than or equal to"
                out.append(_bound(spine, value, text, bound, whole=by_whole))
        if low is not None:
            by_whole = whole and "Minimum boundary" not in unfit
            bound = _as_int64(low) if by_whole else low
            if value <= bound if open_low else value < bound:
                text = "should be greater than" if open_low else "should be greater than or equal to"
                out.append(_bound(spine, value, text, bound, whole=by_whole))

    return check


def _unfit(source: Any, fits: Callable[[float], bool], kind: str) -> list[str]:
    """Return the limits that the node's number type cannot represent; any of them makes every value fail."""
    limits = (("MultipleOf", "multipleOf"), ("Maximum boundary", "maximum"), ("Minimum boundary", "minimum"))
    found = []
    for shown, name in limits:
        value = source.get(name)
        if value is None:
            continue
        # The server holds limits as floats, so the ends of int64 are out of range.
        value = float(value)
        if not fits(value) or (kind == "integer" and not -(2.0**63) < value < 2.0**63):
            found.append(shown)
    return found


def _as_int64(bound: float) -> float:
    """Return a bound for integers; a bound that is no int64 becomes the smallest int64, as in Go."""
    return bound if -(2.0**63) < float(bound) < 2.0**63 else -(2**63)


def _range_of(kind: str, form: str) -> Callable[[float], bool] | None:
    if kind == "integer":
        smallest, largest = _RANGES[form or "int64"]
        return lambda value: smallest <= value <= largest and value == int(value)
    if form == "float":
        return lambda value: abs(value) <= _LARGEST_FLOAT32
    return None


def _is_multiple(value: float, factor: float) -> bool:
    if type(value) is int:
        return value % int(factor) == 0
    return is_whole(1 / factor * value if factor < 1 else value / factor)


def _bound(spine: Spine, value: float, text: str, bound: float, *, whole: bool) -> Problem:
    name = path_of(spine)
    shown = str(int(bound)) if whole else show_float(bound)
    return Problem(spine, name, lambda field: field_invalid(field, value, f"{name} in body {text} {shown}"))


def _factor(spine: Spine, factor: int) -> Problem:
    # Like the real server, this compares an integer with the integer part of the factor.
    name = path_of(spine)
    text = f"factor MultipleOf declared for {name} must be positive: {factor}"
    return Problem(spine, name, lambda field: field_invalid(field, factor, text))


def _out_of_range(spine: Spine, what: str, kind: str, form: str) -> Problem:
    with_format = f"with format {form}" if form else "(default format)"
    text = f"{what} value must be of type {kind} {with_format} in {path_of(spine)}"
    return Problem(spine, "", lambda _: field_invalid(UNSET_FIELD, "", text))


ListCheck = Callable[[Any, str, list[FieldError]], None]


def compile_uniqueness(schema: Schema) -> ListCheck | None:
    """Return a function that adds one error per duplicated item, or None if duplicates are allowed."""
    named = {name: inner for name, each in schema.properties.items() if (inner := compile_uniqueness(each))}
    values = compile_uniqueness(schema.additional) if schema.additional is not None else None
    items = compile_uniqueness(schema.items) if schema.items is not None else None
    own = schema.list_type if schema.list_type in {"set", "map"} else ""
    keys = schema.list_map_keys
    if not (named or values or items or own):
        return None

    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if type(value) is dict:
            for name, each in value.items():
                member = named.get(name)
                if member is not None:
                    member(each, f"{path}.{name}" if path else name, errors)
                elif values is not None and name not in schema.properties:
                    values(each, f"{path}[{name}]", errors)
        elif type(value) is list:
            if own == "set" and len(value) > 1:
                _find_repeated(value, value, path, errors)
            elif own == "map":
                _check_map(value, keys, path, errors)
            if items is not None:
                for index, each in enumerate(value):
                    items(each, f"{path}[{index}]", errors)

    return check


def _check_map(value: list[Any], keys: tuple[str, ...], path: str, errors: list[FieldError]) -> None:
    for index, each in enumerate(value):
        if each is not None and type(each) is not dict:
            text = "must be an object for an array of list-type map"
            errors.append(field_invalid(f"{path}[{index}]", each, text))
            return
    if len(value) > 1:
        named = [
            {key: each[key] for key in keys if key in each} if each is not None else {} for each in value
        ]
        _find_repeated(named, named, path, errors)


def _find_repeated(values: list[Any], shown: list[Any], path: str, errors: list[FieldError]) -> None:
    seen: dict[bytes, int] = {}
    for index, each in enumerate(values):
        text = orjson.dumps(each, option=orjson.OPT_SORT_KEYS)
        times = seen[text] = seen.get(text, 0) + 1
        if times == 2:  # noqa: PLR2004 -- the first repetition is reported, further ones are not
            errors.append(field_duplicate(f"{path}[{index}]", shown[index]))


def validate(obj: Any, schema: Schema, old: Any = None) -> list[FieldError]:
    """Return the errors in `obj`, except for errors in values that are unchanged since `old`."""
    return Validator(schema).validate(obj, old)


class Validator:
    """Validator of values against a compiled schema."""

    def __init__(self, schema: Schema, prefix: str = "") -> None:
        """Compile the schema; `prefix` is the path of the values in errors, such as `status`."""
        self._schema = schema
        self._prefix = prefix
        self._check = compile_check(schema)

    def validate(self, value: Any, old: Any = None) -> list[FieldError]:
        """Return the errors in `value`, except for errors in values that are unchanged since `old`."""
        problems: list[Problem] = []
        if self._check is not None:
            self._check(value, (), problems)
        if not problems:
            return []
        if old is not None:
            root_meta = not self._prefix
            problems = [
                each
                for each in problems
                if not unchanged(self._schema, value, old, each.spine, root_meta=root_meta)
            ]
        errors: dict[FieldError, None] = {}
        for each in problems:
            errors[each.make(self._field(each.name))] = None
        return list(errors)

    def _field(self, name: str) -> str:
        if name in {"", "."}:
            return self._prefix or UNSET_FIELD
        name = name.removeprefix(".")
        return f"{self._prefix}.{name}" if self._prefix else name


def compile_check(schema: Schema) -> Check | None:
    """Return the check of a node and all nodes below it, or None if every value is valid."""
    source = schema.source
    types, shape = _types_of(schema), _format_of(schema)
    scalars = [each for each in (_strings(source, shape, types), check_number(source, types, shape)) if each]
    parts: list[Check] = [
        each
        for each in (_alternatives(source), *scalars, _slice(source, schema), _object(source, schema))
        if each
    ]
    enum = _enum(schema.enum) if schema.enum else None
    if not (types or shape or parts or enum):
        return None
    accepts = _acceptor(types, shape)
    nullable = schema.nullable
    named = ",".join(types)

    def check(value: Any, spine: Spine, out: list[Problem]) -> None:
        if value is None:
            if types and not nullable:
                out.append(_wrong_type(spine, named, "null"))
            if enum is not None:
                enum(value, spine, out)
            return
        if not accepts(value):
            out.append(_mistyped(value, spine, types, shape))
        for part in parts:
            part(value, spine, out)
        if enum is not None:
            enum(value, spine, out)

    if parts or enum or types not in {("string",), ("boolean",)} or shape:
        return check
    return _plain(str if types == ("string",) else bool, check)


def _plain(kind: type, check: Check) -> Check:
    # Most fields are plain strings and booleans.
    def quick(value: Any, spine: Spine, out: list[Problem]) -> None:
        if type(value) is not kind:
            check(value, spine, out)

    return quick


def _types_of(schema: Schema) -> tuple[str, ...]:
    return ("integer", "string") if schema.int_or_string else (schema.type,) if schema.type else ()


def _format_of(schema: Schema) -> str:
    kind = "" if schema.int_or_string else schema.type
    return schema.format if schema.format and is_known_format(schema.format, kind) else ""


_INT_LIMIT = 2**63
_KINDS = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


def _kind_of(value: Any) -> str:
    if type(value) is int and not -_INT_LIMIT <= value < _INT_LIMIT:
        return "number"
    return _KINDS[type(value)]


def _acceptor(types: tuple[str, ...], shape: str) -> Callable[[Any], bool]:
    numeric = "number" in types or "integer" in types

    def accepts(value: Any) -> bool:
        kind = _kind_of(value)
        if kind in types:
            return True
        if kind == "integer" and "number" in types:
            return True
        if kind == "number" and "integer" in types and is_whole(value):
            return True
        if shape and not numeric and kind in {"string", "array"}:
            return True  # the format decides
        return not types and not shape

    return accepts


def _mistyped(value: Any, spine: Spine, types: tuple[str, ...], shape: str) -> Problem:
    kind = _kind_of(value)
    if shape and kind not in {"string", "array"}:
        actual = {"integer": "int64", "number": "float64"}.get(kind, "")
        return _wrong_type(spine, shape, actual)
    return _wrong_type(spine, ",".join(types), kind)


def _wrong_type(spine: Spine, wanted: str, actual: str) -> Problem:
    name = path_of(spine)
    text = f"{name} in body must be of type {wanted}: {json.dumps(actual, ensure_ascii=False)}"
    return Problem(spine, name, lambda field: field_type_invalid(field, actual, text))


def _problem(spine: Spine, value: Any, text: str) -> Problem:
    name = path_of(spine)
    return Problem(spine, name, lambda field: field_invalid(field, value, f"{name} in body {text}"))


def _composite(spine: Spine, text: str) -> Problem:
    shown = f"{json.dumps(path_of(spine), ensure_ascii=False)} {text}"
    return Problem(spine, "", lambda _: field_invalid(UNSET_FIELD, "", shown))


def _enum(values: Sequence[Any]) -> Check:
    plain = frozenset(each for each in values if isinstance(each, str))
    shown = [each if isinstance(each, str) else json.dumps(each, separators=(",", ":")) for each in values]

    def check(value: Any, spine: Spine, out: list[Problem]) -> None:
        if type(value) is str:
            if value in plain:
                return
        elif value is not None and any(_is_member(value, each) for each in values):
            return
        out.append(Problem(spine, path_of(spine), lambda field: field_unsupported(field, value, shown)))

    return check


def _is_member(value: Any, each: Any) -> bool:
    numbers = type(value) in {int, float} and type(each) in {int, float}
    return bool((type(value) is type(each) or numbers) and value == each)


def _strings(source: Any, shape: str, types: tuple[str, ...]) -> Check | None:
    longest, shortest, pattern = source.get("maxLength"), source.get("minLength"), source.get("pattern")
    formatted = checker_of(shape) if shape and not {"integer", "number"}.intersection(types) else None
    if longest is None and shortest is None and not pattern and formatted is None:
        return None
    match = compile_pattern(pattern).search if pattern else None

    def check(value: Any, spine: Spine, out: list[Problem]) -> None:
        if type(value) is not str:
            return
        if longest is not None and len(value) > longest:
            out.append(Problem(spine, path_of(spine), lambda field: field_too_long(field, longest)))
        elif shortest is not None and len(value) < shortest:
            out.append(_problem(spine, value, f"should be at least {shortest} chars long"))
        elif match is not None and not match(value):
            out.append(_problem(spine, value, f"should match '{pattern}'"))
        if formatted is not None and not formatted(value):
            name = path_of(spine)
            text = f"{name} in body must be of type {shape}: {json.dumps(value, ensure_ascii=False)}"
            out.append(Problem(spine, name, lambda field: field_type_invalid(field, value, text)))

    return check


def _slice(source: Any, schema: Schema) -> Check | None:
    items = compile_check(schema.items) if schema.items is not None else None
    fewest, most = source.get("minItems"), source.get("maxItems")
    unique = source.get("uniqueItems")
    if items is None and fewest is None and most is None and not unique:
        return None

    def check(value: Any, spine: Spine, out: list[Problem]) -> None:
        if type(value) is not list:
            return
        if items is not None:
            for index, each in enumerate(value):
                items(each, (*spine, index), out)
        size = len(value)
        if fewest is not None and size < fewest:
            out.append(_problem(spine, size, f"should have at least {fewest} items"))
        if most is not None and size > most:
            out.append(Problem(spine, path_of(spine), lambda field: field_too_many(field, size, most)))
        if unique and any(each in value[:index] for index, each in enumerate(value)):
            out.append(_problem(spine, "", "shouldn't contain duplicates"))

    return check


def _object(source: Any, schema: Schema) -> Check | None:
    named = {name: inner for name, each in schema.properties.items() if (inner := compile_check(each))}
    known = frozenset(schema.properties)
    closed = source.get("additionalProperties") is False
    values = compile_check(schema.additional) if schema.additional is not None else None
    required = schema.required
    count = _properties(source.get("minProperties"), source.get("maxProperties"))
    if not (named or values or required or closed or count):
        return None

    def check(value: Any, spine: Spine, out: list[Problem]) -> None:
        if type(value) is not dict:
            return
        for name, each in value.items():
            child = named.get(name)
            if child is not None:
                child(each, (*spine, name), out)
            elif name not in known:
                if closed:
                    text = f"{path_of(spine)}.{name} in body is a forbidden property"
                    out.append(Problem(spine, path_of(spine), _invalid(name, text)))
                elif values is not None:
                    values(each, (*spine, name), out)
        missing = [name for name in required if name not in value]
        out.extend(Problem(spine, f"{path_of(spine)}.{name}", field_required) for name in missing)
        if count is not None:
            count(value, spine, out)

    return check


def _properties(fewest: int | None, most: int | None) -> Check | None:
    if fewest is None and most is None:
        return None

    def check(value: Any, spine: Spine, out: list[Problem]) -> None:
        size = len(value)
        if fewest is not None and size < fewest:
            out.append(_problem(spine, size, f"should have at least {fewest} properties"))
        if most is not None and size > most:
            out.append(Problem(spine, path_of(spine), lambda field: field_too_many(field, size, most)))

    return check


def _invalid(value: Any, text: str) -> Callable[[str], FieldError]:
    return lambda field: field_invalid(field, value, text)


class _Alternative:
    """Alternative in `anyOf`, `oneOf`, `allOf` or `not`, as a compiled schema."""

    def __init__(self, schema: Schema) -> None:
        self.check = compile_check(schema) or _anything
        self._schema = schema

    @functools.cached_property
    def count(self) -> Callable[[Any], int]:
        """Return a function that counts the checks of the server that apply to a value.

        If several alternatives fail, the server reports the one with the highest count.
        """
        return _counter(self._schema)


def _nested(sources: Sequence[Any]) -> list[_Alternative]:
    return [_Alternative(parse(each)) for each in sources]


def _counter(schema: Schema) -> Callable[[Any], int]:
    types, shape = _types_of(schema), _format_of(schema)
    accepts = _acceptor(types, shape)
    is_formatted = bool(schema.format) and is_known_format(schema.format, "")
    named = {name: _counter(each) for name, each in schema.properties.items()}
    items = _counter(schema.items) if schema.items is not None else None
    others = _counter(schema.additional) if schema.additional is not None else None
    any_of, one_of, all_of = (
        [_counter(parse(each)) for each in schema.source.get(key) or ()]
        for key in ("anyOf", "oneOf", "allOf")
    )

    def count(value: Any) -> int:
        if value is None:
            return int(not types or schema.nullable)
        total = 1 + 2 + 1  # the whole schema; its allOf, anyOf, oneOf and not; its enum
        if types or schema.format:
            total += 1 + accepts(value)
        # Invalid alternatives count too: a check of their validity at each level would take exponential time.
        total += sum(max((each(value) for each in group), default=0) for group in (any_of, one_of))
        total += sum(each(value) for each in all_of)
        if type(value) is str:
            return total + 1 + is_formatted
        if type(value) in {int, float}:
            return total + 2
        if type(value) is list:
            return total + 2 + (sum(map(items, value)) if items is not None else 0)
        if type(value) is dict:
            found = ((named.get(name, others), each) for name, each in value.items())
            return total + 1 + sum(counter(each) for counter, each in found if counter is not None)
        return total

    return count


def _anything(value: Any, spine: Spine, out: list[Problem]) -> None:
    pass


def _alternatives(source: Any) -> Check | None:
    any_of, one_of = _nested(source.get("anyOf") or ()), _nested(source.get("oneOf") or ())
    all_of = _nested(source.get("allOf") or ())
    negated = _nested([source["not"]]) if source.get("not") is not None else []
    if not (any_of or one_of or all_of or negated):
        return None

    def check(value: Any, spine: Spine, out: list[Problem]) -> None:
        if any_of:
            failed = _failures(any_of, value, spine)
            if len(failed) == len(any_of):
                out.append(_composite(spine, "must validate at least one schema (anyOf)"))
                out.extend(_best(any_of, failed, value))
        if one_of:
            failed = _failures(one_of, value, spine)
            valid = len(one_of) - len(failed)
            if valid == 0:
                out.append(
                    _composite(spine, "must validate one and only one schema (oneOf). Found none valid")
                )
                out.extend(_best(one_of, failed, value))
            elif valid > 1:
                found = f"must validate one and only one schema (oneOf). Found {valid} valid alternatives"
                out.append(_composite(spine, found))
        if all_of:
            failed = _failures(all_of, value, spine)
            for each in failed:
                out.extend(each)
            if failed:
                none = ". None validated" if len(failed) == len(all_of) else ""
                out.append(_composite(spine, f"must validate all the schemas (allOf){none}"))
        if negated and not _failures(negated, value, spine):
            out.append(_composite(spine, "must not validate the schema (not)"))

    return check


def _best(alternatives: Sequence[_Alternative], failed: list[list[Problem]], value: Any) -> list[Problem]:
    """Return the problems of the alternative with the highest count; all alternatives have failed."""
    counts = [each.count(value) for each in alternatives]
    return failed[counts.index(max(counts))]


def _failures(alternatives: Sequence[_Alternative], value: Any, spine: Spine) -> list[list[Problem]]:
    failed = []
    for each in alternatives:
        problems: list[Problem] = []
        each.check(value, spine, problems)
        if problems:
            failed.append(problems)
    return failed
