"""Decoding of built-in objects with the same result as in Go: typed, without unknown fields.

The server stores and returns objects that were read into a Go struct and written again. This drops unknown
fields, nulls, and empty fields with `omitempty`; it adds missing fields without `omitempty`. Times become
UTC, quantities canonical. A value of the wrong type fails with Go's message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from devcluster.errors import StatusError, bad_request
from devcluster.schema.node import Schema
from devcluster.types import json_text
from devcluster.types.codec import DecodeError, codec_of, json_type
from devcluster.types.table import go_name

_MOST_PROBLEMS = 100
"""The maximum number of findings; Go's decoder reports no more."""


def decode_strict(
    document: Any,
    schema: Schema,
    gvk: tuple[str, str, str],
    *,
    raw: bytes | str | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """Decode `document`; return the object, and the findings of field validation in document order.

    Findings are texts such as `unknown field "spec.foo"` and `duplicate field "spec.replicas"`. `raw` is the
    document's JSON text, which is searched for duplicate fields; omit it for `fieldValidation=Ignore`.

    Raises:
        StatusError: 400, a value has the wrong type; the `DecodeError` is its cause.
    """
    if raw is not None and (marked := json_text.with_repeated(raw, document)) is not None:
        document = marked
    try:
        return convert(document, schema.openapi_name)
    except DecodeError as error:
        raise cannot_be_handled(gvk, str(error)) from error


def convert(document: Any, openapi_name: str) -> tuple[dict[str, Any], list[str]]:
    """Decode as `decode_strict` does, but raise DecodeError, for callers with their own error text."""
    problems: list[list[str | int]] = []
    if not isinstance(document, dict):
        raise DecodeError(
            f"json: cannot unmarshal {json_type(document)} into Go value of type {go_name(openapi_name)}"
        )
    converted: dict[str, Any] = codec_of(openapi_name).convert(document, problems)
    return converted, list(dict.fromkeys(_line(problem) for problem in problems))[:_MOST_PROBLEMS]


def cannot_be_handled(gvk: tuple[str, str, str], why: str, *, expected: str = "") -> StatusError:
    """Build the error 400 for a body that cannot be read as kind `expected`, by default the kind in `gvk`."""
    _, version, kind = gvk
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {expected or kind}: {why}')


def _line(problem: Sequence[str | int]) -> str:
    """Format a finding; `problem` is its type, and then the path, which begins at the innermost field."""
    what, *path = problem
    shown = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in reversed(path))
    return f'{what} field "{shown.removeprefix(".")}"'
