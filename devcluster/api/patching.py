"""Functions that turn the body of a PATCH request into a change of the object."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import orjson

from devcluster.api.bodies import check_kind, json_type, report, typed, untyped
from devcluster.api.conversion import with_versions
from devcluster.api.interfaces import Call
from devcluster.api.negotiation import split_media_type
from devcluster.api.options import WriteOptions
from devcluster.api.syntax import TOO_DEEP, describe, is_too_deep, parse_yaml, read_json, repeated_keys
from devcluster.api.writing import Change, field_write
from devcluster.clock import Clock
from devcluster.errors import (
    StatusError,
    bad_request,
    field_invalid,
    invalid,
    not_found,
    unsupported_media_type,
)
from devcluster.kinds.registry import Registry
from devcluster.kinds.resource import Resource
from devcluster.patch import Convert, apply, check_applied, json_patch, merge_patch, strategic_merge_patch
from devcluster.patch.go_format import format_v
from devcluster.patch.ownership import kind_text, object_text
from devcluster.types.codec import DecodeError
from devcluster.types.json_text import duplicate_fields

Object = dict[str, Any]

JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
_KINDS = (JSON, MERGE, STRATEGIC, APPLY)


def is_apply(call: Call) -> bool:
    """Return whether the body is an apply; raise StatusError, 415, for an unsupported type of patch."""
    media_type = split_media_type(call.request.headers.get("content-type", ""))
    custom = call.resource.custom
    taken = [kind for kind in _KINDS if not (custom and kind == STRATEGIC)]
    if media_type not in taken:
        error = unsupported_media_type("415: Unsupported Media Type")
        error.empty_details = True
        if custom:
            listed = ", ".join(taken)
            error = unsupported_media_type(
                f"the body of the request was in an unknown format - accepted media types include: {listed}"
            )
        raise error
    return media_type == APPLY


def change_of(call: Call, registry: Registry, options: WriteOptions, clock: Clock) -> Change:
    """Return the change that the patch in the body makes; raise StatusError, 400, for invalid patches."""
    media_type = split_media_type(call.request.headers["content-type"])
    if media_type == APPLY:
        return _applied(call, options, clock)
    return _patched(call, registry, options, media_type)


def _patched(call: Call, registry: Registry, options: WriteOptions, media_type: str) -> Change:
    body = call.request.body
    patch, repeated = _parse(body, media_type, options.field_validation)
    steps: dict[str, Callable[[Object], Any]] = {
        JSON: lambda live: json_patch(live, patch),
        MERGE: lambda live: merge_patch(live, patch),
        STRATEGIC: lambda live: strategic_merge_patch(live, patch, call.resource.schema),
    }
    step = steps[media_type]

    async def change(live: Object | None) -> Object:
        if live is None:
            raise not_found(call.resource.group, call.resource.plural, call.name)
        patched = step(live)
        return _decoded(
            call, registry, options, patched, repeated, patch if media_type == STRATEGIC else None
        )

    return change


def _parse(body: bytes, media_type: str, validation: str) -> tuple[Any, list[str]]:
    """Parse the patch; return it with the names of its duplicate fields."""
    prefix = "" if media_type == STRATEGIC else "error decoding patch: "
    try:
        patch, body = read_json(body)
    except orjson.JSONDecodeError:
        raise bad_request(prefix + describe(body)) from None
    if is_too_deep(patch, body):
        raise bad_request(prefix + TOO_DEEP)
    wanted = list if media_type == JSON else dict
    if not isinstance(patch, wanted):
        raise bad_request(prefix + _wrong_type(patch, media_type))
    if media_type == JSON:
        for operation in patch:
            if not isinstance(operation, dict):
                raise bad_request(prefix + _wrong_type(operation, media_type).replace("[]", ""))
    repeated: list[str] = []
    if validation != "Ignore":
        repeated = duplicate_fields(body, patch)
        if media_type == JSON:
            repeated = [f"json patch {each}" for each in repeated]
    return patch, repeated


def _wrong_type(value: Any, media_type: str) -> str:
    target = "[]handlers.jsonPatchOp" if media_type == JSON else "map[string]interface {}"
    return f"json: cannot unmarshal {json_type(value)} into Go value of type {target}"


def _shown(patched: Any, *, custom: bool) -> str:
    """Format a document for error messages; nested fields of built-in kinds have Go's order."""
    if custom:
        return orjson.dumps(patched, option=orjson.OPT_SORT_KEYS).decode()
    return orjson.dumps(dict(sorted(patched.items())) if isinstance(patched, dict) else patched).decode()


def _check_identity(call: Call, patched: Object) -> None:
    """Refuse a patch that changes the kind or version of a custom object."""
    resource = call.resource
    wrong = [
        field_invalid(field, patched[field], f"must be {right}")
        for field, right in (("apiVersion", resource.api_version), ("kind", resource.kind))
        if patched.get(field) != right and patched.get(field) is not None
    ]
    if wrong:
        raise invalid(resource.group, str(patched.get("kind", resource.kind)), call.name, wrong)


def _reason(error: StatusError, *, restored: bool) -> str:
    """Return the reason of a decoding error; with `restored`, Go's wording for strategic merge patches."""
    cause = error.__cause__
    text: str = getattr(cause, "restored", "") if restored else ""
    return text or error.message.partition(": ")[2]


def _decoded(
    call: Call, registry: Registry, options: WriteOptions, patched: Any, repeated: list[str], patch: Any
) -> Object:
    """Decode the patched document as an object; errors show `patch` or, if it is None, the document."""

    def refuse(why: str) -> StatusError:
        shown = _shown(patched, custom=call.resource.custom) if patch is None else format_v(patch)
        return invalid("", "", "", [field_invalid("patch", shown, why)])

    if not isinstance(patched, dict):
        raise refuse("json: cannot unmarshal into Go value")
    resource = call.resource
    if resource.custom:
        _check_identity(call, patched)
    elif patch is None:
        if wrong := untyped(dict(sorted(patched.items()))):
            raise refuse(wrong)
        try:
            check_kind(patched, resource, registry)
        except StatusError as error:
            raise refuse(_reason(error, restored=False)) from None
    try:
        obj, problems = typed(patched, resource)
    except StatusError as error:
        raise refuse(_reason(error, restored=patch is not None)) from None
    problems = [*repeated, *problems]
    if problems and options.field_validation == "Strict":
        raise refuse(f"strict decoding error: {', '.join(problems)}")
    report(call, options.field_validation, resource, problems)
    return obj


def _applied(call: Call, options: WriteOptions, clock: Clock) -> Change:
    resource = call.resource
    try:
        config = parse_yaml(call.request.body)
    except ValueError as error:
        raise bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from None
    if is_too_deep(config, call.request.body):
        raise bad_request(f"error decoding YAML: {TOO_DEEP}")
    if config is None:
        config = {}
    if not isinstance(config, dict):
        why = _wrong_type(config, APPLY)
        raise bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {why}")
    check_applied(config, resource.group, resource.version, resource.kind)
    _report_repeated(call, options.field_validation)

    async def change(live: Object | None) -> Object:
        def step(convert: Convert) -> Object:
            write = field_write(call, options, clock.timestamp(), convert)
            return apply(live, copy.deepcopy(config), write, force=bool(options.force))

        result = await with_versions(resource, step)
        try:
            obj, problems = typed(result, resource)
        except StatusError as error:
            if resource.custom or not isinstance(error.__cause__, DecodeError):
                raise
            raise _not_converted(config, resource, str(error.__cause__)) from None
        if not resource.custom:  # the real server silently drops unknown fields below free-form ones
            report(call, options.field_validation, resource, problems)
        return obj

    return change


def _not_converted(config: Object, resource: Resource, why: str) -> StatusError:
    """Build the 500 for an applied object with a value that the Go type of its field cannot decode."""
    named = object_text(config, resource.api_version)
    kind = kind_text(resource.api_version, resource.kind)
    why = f"unable to convert unstructured object to {kind}: error decoding from json: {why}"
    return StatusError(500, "", f"failed to convert new object ({named}) to proper version: {why}")


def _report_repeated(call: Call, validation: str) -> None:
    """Report repeated keys in an applied configuration as warnings or as an error."""
    repeated = [] if validation == "Ignore" else repeated_keys(call.request.body)
    if repeated and validation == "Strict":
        listed = "".join(f"\n  {each}" for each in repeated)
        raise bad_request(
            f"error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:{listed}"
        )
    for each in repeated:
        call.warn(each)
