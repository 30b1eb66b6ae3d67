"""Parsing of HTTP request data and TLS certificates for an `ApiRequest`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

__all__ = ["add_header", "split_target", "subject_of"]

_MOST_PARAMETERS = 1000


def add_header(headers: dict[str, str], name: str, value: str) -> None:
    """Add a header; `name` is in lower case.

    Several of one name are joined by commas, as HTTP has it; those of impersonation, whose values may have
    commas of their own, by line breaks.
    """
    if name in headers:
        value = headers[name] + ("\n" if name.startswith("impersonate-") else ", ") + value
    headers[name] = value


def split_target(target: str) -> tuple[str, Mapping[str, list[str]]]:
    """Split a request target into its decoded path and its query, with each parameter's values in order."""
    path, _, text = target.partition("?")
    if not path.startswith("/"):
        # The target is a whole URL, as for a proxy.
        path = "/" + path.partition("://")[2].partition("/")[2]
    if "%" in path:
        path = unquote(path)
    if not text:
        return path, {}
    query: dict[str, list[str]] = {}
    for pair in text.split("&", _MOST_PARAMETERS)[:_MOST_PARAMETERS]:
        if "%" in pair or "+" in pair or ";" in pair:
            for name, value in parse_qsl(pair, keep_blank_values=True):
                query.setdefault(name, []).append(value)
        elif pair:
            name, _, value = pair.partition("=")
            query.setdefault(name, []).append(value)
    return path, query


def subject_of(transport: Any) -> dict[str, list[str]] | None:
    """Return the subject of the client's certificate, `{"CN": [...], "O": [...]}`, or None.

    `X509SHA256` in it is the fingerprint.
    """
    certificate = transport.get_extra_info("peercert") if transport is not None else None
    if not certificate:
        return None
    subject: dict[str, list[str]] = {"CN": [], "O": []}
    short = {"commonName": "CN", "organizationName": "O"}
    for names in certificate.get("subject", ()):
        for name, value in names:
            if name in short:
                subject[short[name]].append(value)
    connection = transport.get_extra_info("ssl_object")
    if connection is not None:
        subject["X509SHA256"] = [hashlib.sha256(connection.getpeercert(binary_form=True)).hexdigest()]
    return subject
