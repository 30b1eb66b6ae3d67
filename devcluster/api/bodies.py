"""Decoding of request bodies in JSON, YAML or protobuf."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import orjson

from devcluster.api.interfaces import Call
from devcluster.api.negotiation import split_media_type
from devcluster.api.syntax import TOO_DEEP, describe, is_too_deep, parse_yaml, read_json
from devcluster.crd.resources import coerce_embedded
from devcluster.errors import StatusError, bad_request, field_invalid, invalid, unsupported_media_type
from devcluster.kinds.registry import Registry
from devcluster.kinds.resource import Resource
from devcluster.schema.defaulting import prune
from devcluster.schema.node import Schema
from devcluster.types import duplicate_fields
from devcluster.types.codec import DecodeError
from devcluster.types.decode import convert, decode_strict
from devcluster.types.protobuf import decode_protobuf, excerpt

Object = dict[str, Any]

_PROTOBUF = "application/vnd.kubernetes.protobuf"
_FORMATS = ("application/json", "application/yaml", _PROTOBUF)
_NOTHING = Schema()
_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def decode_object(call: Call, registry: Registry, validation: str, *, kind: Resource | None = None) -> Object:
    """Decode the object in the body; `kind` is given if the subresource uses another kind than the resource.

    Depending on `validation`, findings of field validation become an error or warnings of the call.

    Raises:
        StatusError: 400 or 422 for an invalid object, or 415 for an unsupported media type.
    """
    resource = kind or call.resource
    body = call.request.body

    def refuse(why: str) -> StatusError:
        text = f"the object provided is unrecognized (must be of type {resource.kind}): {why}"
        return bad_request(f"{text} ({excerpt(body)})")

    document, raw = parse_document(call, resource, refuse)
    if is_too_deep(document, body):
        raise refuse(f"couldn't get version/kind; json parse error: {TOO_DEEP}")
    if document is None and not resource.custom:
        document = {}  # as Go's decoder reads null
    if not isinstance(document, dict):
        raise refuse(_not_an_object(document))
    if wrong := untyped(document):
        raise refuse(wrong)
    group_version, name = document.get("apiVersion") or "", document.get("kind") or ""
    if resource.custom and not name:
        shown = orjson.dumps(document).decode() if raw is None else raw.decode(errors="replace")
        raise refuse(f"Object 'Kind' is missing in '{shown.strip()}'")
    if resource.custom and name == resource.kind and group_version != resource.api_version:
        _report_other_version(call, validation, resource, document)
    check_kind(document, resource, registry)
    obj, problems = typed(document, resource, raw if validation != "Ignore" else None)
    report(call, validation, resource, problems)
    return obj


def names_kind(call: Call) -> bool:
    """Return whether the object in the body has a `kind` or an `apiVersion`."""
    document, _ = parse_document(call, call.resource, bad_request)
    return isinstance(document, dict) and bool(document.get("kind") or document.get("apiVersion"))


def _report_other_version(call: Call, validation: str, resource: Resource, document: Object) -> None:
    """Report the fields of a document that the schema of its own apiVersion does not have.

    The request's path may contain another apiVersion.
    """
    group_version = document.get("apiVersion") or ""
    group, _, version = group_version.rpartition("/")
    if group != resource.group:
        return
    unknown = prune(copy.deepcopy(document), resource.schemas.get(group_version, _NOTHING))
    other = dataclasses.replace(resource, version=version)
    report(call, validation, other, [f'unknown field "{path}"' for path in unknown])


def report(call: Call, validation: str, resource: Resource, problems: list[str]) -> None:
    """Report the findings of field validation as warnings or, if strict, as a StatusError (400)."""
    if not problems or validation == "Ignore":
        return
    if validation == "Strict":
        raise _cannot_be_handled(resource, f"strict decoding error: {', '.join(problems)}")
    for problem in problems:
        call.warn(problem)


def typed(document: Object, resource: Resource, raw: bytes | None = None) -> tuple[Object, list[str]]:
    """Decode `document` as an object of the kind; return it with the findings of field validation.

    `raw` is the document's JSON text, which is searched for duplicate fields; None skips this search.

    Raises:
        StatusError: 400, a value has the wrong type.
    """
    gvk = (resource.group, resource.version, resource.kind)
    if resource.custom:
        obj, problems = _custom(document, resource, raw)
    else:
        obj, problems = decode_strict(document, resource.schema, gvk, raw=raw)
    metadata = obj.pop("metadata", None)
    obj.pop("kind", None)
    obj.pop("apiVersion", None)
    # This order lets lists cut off the first two fields without decoding the object.
    head: Object = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata or {}}
    given = document.get("metadata")
    if isinstance(given, dict) and given.get("managedFields") == []:
        head["metadata"]["managedFields"] = []  # an empty list resets the field managers
    head.update(obj)
    return head, problems


def _custom(document: Object, resource: Resource, raw: bytes | None) -> tuple[Object, list[str]]:
    problems = duplicate_fields(raw, document) if raw is not None else []
    obj = dict(document)
    metadata = obj.pop("metadata", None)
    unknown = [f'unknown field "{path}"' for path in prune(obj, resource.schema)]
    try:
        unknown += [f'unknown field "{path}"' for path in coerce_embedded(obj, resource.schema)]
    except ValueError as error:
        raise _cannot_be_handled(resource, error) from None
    if metadata is not None:
        try:
            obj["metadata"], found = convert(metadata, _OBJECT_META)
        except DecodeError as error:
            raise _cannot_be_handled(resource, error) from None
        problems += [problem.replace('field "', 'field "metadata.', 1) for problem in found]
    return obj, problems + unknown


def _cannot_be_handled(resource: Resource, why: object) -> StatusError:
    kind = resource.kind
    return bad_request(f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {why}')


def parse_document(
    call: Call, resource: Resource | None, refuse: Callable[[str], StatusError]
) -> tuple[Any, bytes | None]:
    """Parse the body; return the document, and its text if the body was JSON.

    `resource` gives the kind for a protobuf body that does not name its kind. Custom kinds have no protobuf
    form.

    Raises:
        StatusError: 415 for an unsupported media type, else the error that `refuse` builds from the parser's
            message.
    """
    body = call.request.body
    header = call.request.headers.get("content-type", "")
    media_type = split_media_type(header) if header else _FORMATS[0]
    if media_type == _FORMATS[0]:
        try:
            return read_json(body)
        except orjson.JSONDecodeError:
            raise refuse(f"couldn't get version/kind; json parse error: {describe(body)}") from None
    if media_type == _FORMATS[1]:
        try:
            return parse_yaml(body), None
        except ValueError as error:
            raise refuse(str(error)) from None
    if media_type == _PROTOBUF and not (resource is not None and resource.custom):
        gvk = None if resource is None else (resource.group, resource.version, resource.kind)
        return decode_protobuf(body, gvk), None
    raise unsupported_media_type(
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(_FORMATS)
    )


def check_kind(document: Object, resource: Resource, registry: Registry) -> None:
    """Raise StatusError for another kind or version; only built-in kinds may leave out these fields."""
    api_version, kind = document.get("apiVersion") or "", document.get("kind") or ""
    if not resource.custom:
        api_version, kind = api_version or resource.api_version, kind or resource.kind
    if api_version == resource.api_version and kind == resource.kind:
        return
    group, _, version = api_version.rpartition("/")
    if resource.custom:
        if api_version != resource.api_version:
            raise _other_version(api_version, resource)
        metadata = document.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        name = name if isinstance(name, str) else ""
        raise invalid(resource.group, kind, name, [field_invalid("kind", kind, f"must be {resource.kind}")])
    known = registry.of_kind(group, version, kind)
    cannot = f'{kind} in version "{version}" cannot be handled as a {resource.kind}: '
    if known is None:
        raise bad_request(
            f'{cannot}no kind "{kind}" is registered for version "{api_version}" in scheme '
            '"pkg/runtime/scheme.go:111"'
        )
    if known.kind != resource.kind or group != resource.group:
        internal = resource.group.partition(".")[0] or "core"
        raise bad_request(
            f"{cannot}converting ({version}.{kind}) to ({internal}.{resource.kind}): unknown conversion"
        )
    raise _other_version(api_version, resource)


def _other_version(api_version: str, resource: Resource) -> StatusError:
    return bad_request(
        f"the API version in the data ({api_version}) does not match the expected API version "
        f"({resource.api_version})"
    )


def _not_an_object(document: Any) -> str:
    found = json_type(document)
    return (
        f"couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type "
        'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
        'Kind string "json:\\"kind,omitempty\\"" }'
    )


def untyped(document: Object) -> str:
    """Return an error message if the document's `kind` or `apiVersion` is not a string, else ""."""
    wrong = (name for name in document if name in {"apiVersion", "kind"})
    field = next((name for name in wrong if not isinstance(document[name], str | None)), None)
    if field is None:
        return ""
    return (
        "couldn't get version/kind; json parse error: json: cannot unmarshal "
        f"{json_type(document[field])} into Go struct field .{field} of type string"
    )


def json_type(value: Any) -> str:
    """Return the JSON type of a value, as Go's errors name it."""
    names = {str: "string", bool: "bool", list: "array", dict: "object", int: "number", float: "number"}
    return names.get(type(value), "null")
