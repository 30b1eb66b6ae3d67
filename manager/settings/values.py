"""The types of settings: each reads what a person wrote and says what is expected."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator

from manager.address import in_pod
from manager.duration import format_duration, parse_duration
from manager.http.address import BindAddress, parse_address

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

LogLevel = Literal["debug", "info", "warn", "error"]
LogFormat = Literal["auto", "json", "console"]
WebhookCertificates = Literal["auto", "files", "secret", "local"]

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_URL = re.compile(r"https://[^/?#@\s]+/?")
_MAX_NAME = 253
_MAX_PREFIX = 200
# Each is there from the start.
_MAX_WORKERS = 10_000


@dataclass(frozen=True, slots=True)
class Shown:
    """How `--help` shows a setting."""

    group: str
    """The heading it stands under."""

    metavar: str
    """What stands for its value."""

    @classmethod
    def of(cls, info: FieldInfo) -> Shown:
        """How the setting of this field is shown."""
        return next(item for item in info.metadata if isinstance(item, cls))


@dataclass(frozen=True, slots=True)
class OwnAddress:
    """The default of an address to listen on: only this machine reaches it, or in a pod everybody.

    A kubelet, an API server and Prometheus come to a pod from elsewhere.
    """

    port: int

    def __call__(self) -> BindAddress:
        """That of where this process runs."""
        return BindAddress("", self.port) if in_pod(os.environ) else self.outside

    @property
    def outside(self) -> BindAddress:
        """That outside of a cluster."""
        return BindAddress("127.0.0.1", self.port)


def _duration(value: Any) -> float:
    # A number without a unit, as a file may have, could be seconds or milliseconds: refused as in Go.
    return parse_duration(str(value))


def _address(value: Any) -> BindAddress | None:
    if value is None or isinstance(value, BindAddress):
        return value
    if value == 0 and not isinstance(value, bool):
        return None  # YAML reads an unquoted 0 as a number
    return parse_address(value if isinstance(value, str) else "")


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("some text is expected")
    return value


def _list(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise ValueError("names separated by commas are expected")
    items = (item.strip() for item in value)
    return tuple(dict.fromkeys(item for item in items if item))


def _namespace(value: Any) -> str:
    if not isinstance(value, str) or not _LABEL.fullmatch(value):
        raise ValueError(
            'a namespace is expected: at most 63 lower-case letters, digits and "-", '
            "with a letter or digit at both ends"
        )
    return value


def _namespaces(value: Any) -> tuple[str, ...]:
    found = tuple(_namespace(item) for item in _list(value))
    if value and not found:
        # None are all of them, which nobody means by "$A,$B".
        raise ValueError("a namespace is expected between commas")
    return found


def _object_name(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _MAX_NAME or not _SUBDOMAIN.fullmatch(value):
        raise ValueError('an object\'s name is expected: lower-case letters, digits, "-" and "."')
    return value


def _name_prefix(value: Any) -> str:
    # "x" stands for what the prefix is put before.
    if not isinstance(value, str) or len(value) > _MAX_PREFIX or not _SUBDOMAIN.fullmatch(f"{value}x"):
        raise ValueError(
            f"the begin of an object's name is expected, of at most {_MAX_PREFIX} characters: "
            'lower-case letters, digits, "-" and "."'
        )
    return value


def _base_url(value: Any) -> str:
    try:
        url = urlsplit(value if isinstance(value, str) else "")
        whole = url.scheme == "https" and url.hostname and url.port != 0
    except ValueError:  # a port or an address that is none
        whole = False
    if not whole or not _URL.fullmatch(value):
        raise ValueError('"https://HOST:PORT" is expected, without a path')
    return str(value).rstrip("/")


def _pair(item: str) -> tuple[str, str]:
    name, _, limit = item.partition("=")
    return name.strip(), limit.strip()


def _concurrency(value: Any) -> dict[str, int]:
    pairs = value if isinstance(value, Mapping) else dict(_pair(item) for item in _list(value))
    limits: dict[str, int] = {}
    for name, limit in pairs.items():
        if isinstance(limit, str) and limit.isascii() and limit.isdigit():
            limit = int(limit)  # noqa: PLW2901 - the same value, read
        if not isinstance(name, str) or not name or type(limit) is not int or limit < 1:
            raise ValueError('NAME=N is expected, N a whole number of at least 1, such as "memcached=4"')
        if limit > _MAX_WORKERS:
            raise ValueError(f"at most {_MAX_WORKERS} objects at once are expected")
        limits[name] = limit
    return limits


Duration = Annotated[float, BeforeValidator(_duration)]
"""Seconds, written as Go writes durations."""

Address = Annotated[BindAddress | None, BeforeValidator(_address)]
"""Where to listen; None for nowhere."""

Text = Annotated[str, BeforeValidator(_text)]
Namespace = Annotated[str, BeforeValidator(_namespace)]
ObjectName = Annotated[str, BeforeValidator(_object_name)]
NamePrefix = Annotated[str, BeforeValidator(_name_prefix)]
BaseUrl = Annotated[str, BeforeValidator(_base_url)]
Names = Annotated[tuple[str, ...], BeforeValidator(_list)]
Namespaces = Annotated[tuple[str, ...], BeforeValidator(_namespaces)]
Concurrency = Annotated[dict[str, int], BeforeValidator(_concurrency)]


def written_default(info: FieldInfo) -> str:
    """The default of a setting as it would be written, of `OwnAddress` that outside of a cluster."""
    if isinstance(info.default_factory, OwnAddress):
        return written(info.default_factory.outside)
    return written(info.get_default(call_default_factory=True, validated_data={}))


def written(value: object) -> str:
    """A setting's value as it would be written on the command line; "" for what is not set."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format_duration(value)
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, dict):
        return ",".join(f"{name}={limit}" for name, limit in value.items())
    return str(value)
