"""The options of a delete, which come in its body or among its parameters."""

from __future__ import annotations

import orjson

from devcluster.api.json_errors import describe
from devcluster.api.json_reading import read_json
from devcluster.api.negotiation import split_media_type
from devcluster.api.options import DeleteOptions
from devcluster.api.request_context import Call
from devcluster.api.yaml_text import parse_yaml
from devcluster.errors import StatusError, bad_request, unsupported_media_type
from devcluster.types.codec import DecodeError
from devcluster.types.decode import convert
from devcluster.types.protobuf import decode_protobuf

__all__ = ["decode_delete_options"]

_PROTOBUF = "application/vnd.kubernetes.protobuf"
_NAME = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_CANNOT = 'DeleteOptions in version "v1" cannot be handled as a DeleteOptions: '


def decode_delete_options(call: Call) -> DeleteOptions:
    """Read them.

    Raises:
        StatusError: they cannot be read, or make no sense.
    """
    body = call.request.body
    if not body:
        return DeleteOptions.of_query(call.request.query)
    document = _parse(call, body)
    if isinstance(document, dict) and (kind := document.get("kind", "DeleteOptions")) != "DeleteOptions":
        version = document.get("apiVersion", "meta.k8s.io/v1")
        raise bad_request(
            f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
        )
    try:
        options, _ = convert(document, _NAME)
    except DecodeError as error:
        raise bad_request(str(error)) from None
    return DeleteOptions.of(options)


def _parse(call: Call, body: bytes) -> object:
    header = call.request.headers.get("content-type", "")
    media_type = split_media_type(header) or "application/json"
    if media_type == "application/json":
        try:
            return read_json(body)[0]
        except orjson.JSONDecodeError:
            raise bad_request(f"couldn't get version/kind; json parse error: {describe(body)}") from None
    if media_type == "application/yaml":
        try:
            return parse_yaml(body)
        except ValueError as error:
            raise bad_request(str(error)) from None
    if media_type == _PROTOBUF:
        try:
            return decode_protobuf(body)
        except StatusError as error:
            raise bad_request(error.message.removeprefix(_CANNOT)) from None
    raise unsupported_media_type(
        "the body of the request was in an unknown format - accepted media types include: application/json, "
        "application/yaml, application/vnd.kubernetes.protobuf"
    )
