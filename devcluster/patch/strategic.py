"""Strategic merge patches: merge patches with directives, which can merge lists by key."""

from __future__ import annotations

import copy
from typing import Any, Final

from devcluster.errors import StatusError
from devcluster.patch import strategic_lists as lists
from devcluster.patch.go_format import format_v, type_name
from devcluster.patch.json_patch import not_applied, without_nulls
from devcluster.quantity import quoted
from devcluster.schema.node import Schema

Object = dict[str, Any]

DIRECTIVE: Final = "$patch"
RETAIN_KEYS: Final = "$retainKeys"
DELETE_FROM_LIST: Final = "$deleteFromPrimitiveList"
ELEMENT_ORDER: Final = "$setElementOrder"


def strategic_merge_patch(document: Object, patch: Object, schema: Schema) -> Object:
    """Return the patched document; the arguments stay unchanged.

    Args:
        document: an object of a built-in kind.
        patch: the patch from the client.
        schema: the kind's schema, which defines how its lists merge.

    Raises:
        StatusError: 400, 422 or 500, the real server's error for an invalid patch.
    """
    try:
        return _merge_maps(copy.deepcopy(document), copy.deepcopy(patch), schema)
    except lists.BadPatch as error:
        if error.code == 422:  # noqa: PLR2004 -- the real server does not reveal the error
            raise not_applied() from None
        raise StatusError(error.code, "BadRequest" if error.code == 400 else "", str(error)) from None  # noqa: PLR2004


def _merge_maps(original: Object, patch: Object, schema: Schema | None) -> Object:
    """Merge `patch` into `original` and return the result; both arguments may be changed."""
    if DIRECTIVE in patch:
        return _directed(patch)
    _retain_keys(original, patch)
    _merge_ordered_lists(original, patch, schema)
    for key, value in patch.items():
        deletes = key.startswith(DELETE_FROM_LIST)
        name = _named_by(key, DELETE_FROM_LIST, "primitive list") if deletes else key
        if value is None:
            original.pop(name, None)
            continue
        if name not in original or type_name(original[name]) != type_name(value):
            if not deletes:
                _take(original, name, without_nulls(value))
        elif isinstance(value, dict):
            field = _field(schema, name)
            if _strategy(field) == "replace":
                original[name] = value
            else:
                original[name] = _merge_maps(original[name], value, field)
        elif isinstance(value, list):
            field = _list_field(schema, name)
            original[name] = _merge_list(original[name], value, field, deletes=deletes)
        else:
            original[name] = value
    return original


def _directed(patch: Object) -> Object:
    directive = patch[DIRECTIVE]
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    if directive == "delete":
        return {}
    raise lists.BadPatch(f"unknown patch type: {format_v(directive)} in map: {format_v(patch)}")


def _retain_keys(original: Object, patch: Object) -> None:
    """Remove the fields of `original` that `$retainKeys` in the patch does not list."""
    if RETAIN_KEYS not in patch:
        return
    retained = patch.pop(RETAIN_KEYS)
    parallel = (DELETE_FROM_LIST, ELEMENT_ORDER)
    changed = [key for key, value in patch.items() if value is not None and not key.startswith(parallel)]
    if not isinstance(retained, list) or any(key not in retained for key in changed):
        raise lists.BadPatch("invalid patch format of retainKeys", 400)
    for key in [key for key in original if key not in retained]:
        del original[key]


def _merge_ordered_lists(original: Object, patch: Object, schema: Schema | None) -> None:
    """Merge the lists for which the patch has `$setElementOrder`, and remove them from the patch."""
    for key in [key for key in patch if key.startswith(ELEMENT_ORDER)]:
        order = patch.pop(key)
        lists.expect_list(order)
        name = _named_by(key, ELEMENT_ORDER, "setElementOrder list")
        there, wanted = original.get(name), patch.get(name)
        for value, found in ((there, name in original), (wanted, name in patch)):
            if found:
                lists.expect_list(value)
        field = _list_field(schema, name)
        lists.check_order(wanted or [], order, field.patch_merge_key)
        if name in original and name in patch:
            merged = _merge_list(there, wanted, field, deletes=False)
        elif name in original:
            merged = there
        elif name in patch:
            merged = _without_directives(wanted)
        else:
            continue
        original[name] = lists.in_order(merged, order, there or [], wanted or [], field.patch_merge_key)
        patch.pop(name, None)


def _merge_list(original: Any, patch: Any, field: Schema, *, deletes: bool) -> Any:
    if not deletes and _strategy(field) != "merge":
        return patch
    if not original and not patch:
        return original
    maps = lists.element_type(original, patch) == "map[string]interface {}"
    if not maps and deletes:
        dropped = set(patch)
        return [item for item in original if item not in dropped]
    key = field.patch_merge_key
    if not maps:
        merged = list(dict.fromkeys([*original, *patch]))
        return lists.ordered(merged, patch, patch, original, key)
    if not key:
        raise lists.BadPatch("cannot merge lists without merge key for struct")
    original, patch = lists.apply_item_directives(original, patch, key)
    merged = list(original)
    for item in patch:
        lists.expect_key(item, key)
        at = lists.position(merged, key, item[key])
        if at is None:
            merged.append(item)
        else:
            merged[at] = _merge_maps(merged[at], item, field.items)
    return lists.ordered(merged, patch, patch, original, key)


def _strategy(field: Schema) -> str:
    """Return a field's patch strategy (`merge` or `replace`), or "" if it has none."""
    return next((strategy for strategy in field.patch_strategies if strategy != "retainKeys"), "")


def _field(schema: Schema | None, name: str) -> Schema:
    if schema is None or not schema.properties:
        kind = "map" if schema is None or schema.type == "object" else "struct"
        raise lists.BadPatch(f"merging an object in json but data type is not struct, instead is: {kind}")
    field = schema.properties.get(name)
    if field is None:
        raise lists.BadPatch(
            f"unable to find api field in struct {schema.type_name} for the json field {quoted(name)}"
        )
    return field


def _list_field(schema: Schema | None, name: str) -> Schema:
    field = _field(schema, name)
    if field.type != "array":
        raise lists.BadPatch("expected slice or array type, but got: struct")
    return field


def _named_by(key: str, prefix: str, what: str) -> str:
    """Return the name of the list in a directive key such as `$setElementOrder/finalizers`."""
    head, slash, name = key.partition("/")
    if not slash or head != prefix:
        raise lists.BadPatch(f"invalid patch format of {what}", 400)
    return name


def _take(original: Object, name: str, value: Any) -> None:
    """Set a value from the patch in `original`; a value that contains a directive removes the field."""
    if isinstance(value, dict) and DIRECTIVE in value:
        original.pop(name, None)
    else:
        original[name] = _without_directives(value)


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {
            key: below for key, below in value.items() if not (isinstance(below, dict) and DIRECTIVE in below)
        }
        return {key: _without_directives(below) for key, below in kept.items()}
    if isinstance(value, list):
        return [
            _without_directives(item) for item in value if not (isinstance(item, dict) and DIRECTIVE in item)
        ]
    return value
